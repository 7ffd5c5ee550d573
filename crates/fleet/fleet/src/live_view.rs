//! A fleet while it measures, as lines for a terminal, a page for a browser and text for Prometheus.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durio_agree::live::{LiveDocument, LiveHost, LiveTotal, StandingFigures};
use durio_base::{Bytes, EscapedText, Nanos, Rate, counted, percent, visible};
use durio_block::{open_input, read_bounded};
use durio_command::CommandError;
use durio_command::http::{self, HttpPage};
use durio_record::fleet::HostState;

use crate::words::{remark, word};

/// The newest figures of a running campaign, in its folder.
pub(crate) const LIVE_FILE: &str = "live.json";

/// Hosts in a list of a line.
const LISTED: usize = 5;
/// Kinds of operations that have a line.
const TOTALS: usize = 2;
/// Seconds after which a browser asks again.
const REFRESH: u32 = 2;
/// 10,000 hosts have a tenth of it.
const DOCUMENT_MAX: Bytes = Bytes::from_mib(64);
/// Seconds after which figures that are made every second are old.
const OLD_S: u64 = 5;

/// The newest document, which the page shows.
pub(crate) type SharedDocument = Arc<Mutex<LiveDocument>>;

/// A panic elsewhere leaves a whole document.
pub(crate) fn lock(shown: &SharedDocument) -> MutexGuard<'_, LiveDocument> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the page and the metrics until the process ends.
///
/// # Errors
/// If the address cannot be had.
pub(crate) fn serve(address: SocketAddr, shown: SharedDocument) -> Result<(), CommandError> {
    let page = move |path: &str| answer(&lock(&shown), path);
    let address = http::serve(address, remark, page).map_err(|error| {
        CommandError::cannot_measure(format!("cannot listen at {address}: {error}"))
            .hint("give --listen another port; port 0 takes one that is free")
    })?;
    remark(&format!("durio: the campaign is at http://{address}/, metrics at /metrics"));
    if let Some(warning) = http::reach_warning(address, "can see the campaign") {
        remark(&warning);
    }
    Ok(())
}

fn answer(document: &LiveDocument, path: &str) -> Option<HttpPage> {
    let (kind, body, refresh) = match path {
        "/" => ("text/html; charset=utf-8", page(document), Some(REFRESH)),
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (kind, metrics(document), None)
        }
        _ => return None,
    };
    Some(HttpPage { kind, body: body.into_bytes(), refresh })
}

/// The newest figures in the folder of a running campaign; empty before there are some.
pub(crate) fn newest(folder: &Path) -> String {
    let newest = || -> io::Result<(LiveDocument, u64)> {
        let file = open_input(&folder.join(LIVE_FILE))?;
        let age = file.metadata()?.modified()?.elapsed().unwrap_or_default().as_secs();
        Ok((serde_json::from_slice(&read_bounded(file, DOCUMENT_MAX)?)?, age))
    };
    let Ok((document, age)) = newest() else { return String::new() };
    let mut text = String::new();
    for line in lines(&document, 78) {
        let _ = writeln!(text, "  {}", visible(&line));
    }
    if age > OLD_S {
        let _ = writeln!(text, "  these figures are {age} s old: the coordinator stands still");
    }
    text
}

/// `12 s: 3 hosts: 2 running, 1 lost`, and lines of figures, slow hosts and silent ones.
pub(crate) fn lines(document: &LiveDocument, width: usize) -> Vec<String> {
    let mut counts: BTreeMap<HostState, u64> = BTreeMap::new();
    document.hosts.iter().for_each(|host| *counts.entry(host.state).or_default() += 1);
    let counts: Vec<String> =
        counts.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
    let hosts = counted(document.hosts.len() as u64, "host");
    let mut lines =
        vec![format!("{} s: {hosts}: {}", seconds(document.elapsed), counts.join(", "))];
    lines.extend(document.operations.iter().take(TOTALS).map(|total| {
        let LiveTotal { operation, hosts: reporting, .. } = total;
        format!("{}: {}, of {reporting} of {hosts}", operation.name(), figures(total))
    }));
    let slowest = document.slowest.iter();
    let slowest = slowest.map(|slow| format!("{} {}", slow.host, percent(slow.of_median)));
    lines.extend(listed("slowest, of the median: ", &slowest.collect::<Vec<_>>(), width));
    let mut silent: Vec<(&str, Nanos)> =
        document.hosts.iter().filter_map(|host| Some((host.host.as_str(), host.silent?))).collect();
    silent.sort_by_key(|&(_, age)| Reverse(age));
    let silent = silent.iter().map(|(host, age)| format!("{host} ({} s)", seconds(*age)));
    lines.extend(listed("silent: ", &silent.collect::<Vec<_>>(), width));
    lines
}

fn seconds(time: Nanos) -> u64 {
    time.get() / Nanos::from_secs(1).get()
}

/// `1.2 M/s, 4.66 GiB/s, p99 210 µs`
fn figures(total: &LiveTotal) -> String {
    let mut text = Rate::new(total.operations_per_second).to_string();
    if total.bytes_per_second > 0.0 {
        let _ = write!(text, ", {}", bandwidth(total.bytes_per_second));
    }
    if let Some(p99) = total.p99_ns {
        let _ = write!(text, ", p99 {}", Nanos::new(p99));
    }
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "three digits are printed, and rates are not negative"
)]
fn bandwidth(bytes_per_second: f64) -> String {
    format!("{}/s", Bytes::new(bytes_per_second as u64))
}

/// As many entries as a line holds, five at most, and how many more there are.
fn listed(head: &str, entries: &[String], width: usize) -> Option<String> {
    let mut text = format!("{head}{}", entries.first()?);
    for (at, entry) in entries.iter().enumerate().skip(1) {
        let more = format!(" and {} more", entries.len() - at);
        let length = [text.as_str(), ", ", entry, &more].map(|part| part.chars().count());
        if at == LISTED || length.iter().sum::<usize>() > width {
            text.push_str(&more);
            break;
        }
        let _ = write!(text, ", {entry}");
    }
    Some(text)
}

/// Silent hosts first, the longest silence before others; then hosts that are out, then the slowest.
fn worst_first(document: &LiveDocument) -> Vec<&LiveHost> {
    let share = |host: &LiveHost| host.figures.as_ref().and_then(|figures| figures.of_median);
    let rank = |host: &LiveHost| match host.state {
        _ if host.silent.is_some() => 0,
        HostState::Lost | HostState::Refused | HostState::Failed | HostState::Stopped => 1,
        _ if share(host).is_some() => 2,
        _ => 3,
    };
    let mut hosts: Vec<&LiveHost> = document.hosts.iter().collect();
    hosts.sort_by(|a, b| {
        let silence = (rank(a), Reverse(a.silent)).cmp(&(rank(b), Reverse(b.silent)));
        silence.then(share(a).unwrap_or(0.0).total_cmp(&share(b).unwrap_or(0.0)))
    });
    hosts
}

/// Without a script, and without anything from elsewhere; light or dark as the system is.
const STYLE: &str = "\
:root{color-scheme:light dark;font:15px/1.4 system-ui,sans-serif}\
body{margin:0 auto;max-width:60rem;padding:.75rem}\
h1{font-size:1.2rem;margin:0 0 .5rem;overflow-wrap:anywhere}p{margin:.2rem 0}\
table{border-collapse:collapse;margin-top:.75rem;width:100%}\
th,td{border-bottom:1px solid color-mix(in srgb,CanvasText 20%,Canvas);padding:.25rem .4rem;\
text-align:right}\
th:first-child,td:first-child{overflow-wrap:anywhere;text-align:left}\
th:nth-child(2),td:nth-child(2){text-align:left}\
tr.bad td{font-weight:600}\
svg{height:1rem;vertical-align:middle;width:4rem}\
polyline{fill:none;stroke:CanvasText;vector-effect:non-scaling-stroke}\
@media(max-width:480px){:root{font-size:13px}.wide{display:none}svg{width:2.5rem}}";

fn page(document: &LiveDocument) -> String {
    let name = escaped(&document.name);
    let (reporting, hosts) = (document.hosts_reporting, document.hosts.len());
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{name}: {reporting} of {hosts} hosts</title><style>{STYLE}</style></head><body>\
         <h1>{name}</h1>"
    );
    for line in lines(document, usize::MAX) {
        let _ = write!(text, "<p>{}</p>", escaped(&line));
    }
    text.push_str(
        "<table><thead><tr><th>host</th><th>state</th><th>rate</th><th>of median</th>\
         <th class=\"wide\">bandwidth</th><th>p99</th><th>recent</th></tr></thead><tbody>",
    );
    worst_first(document).into_iter().for_each(|host| push_row(&mut text, host));
    text.push_str("</tbody></table></body></html>\n");
    text
}

fn push_row(text: &mut String, host: &LiveHost) {
    let LiveHost { host: name, state, silent, figures, recent } = host;
    let mut standing = word(*state).to_owned();
    if let Some(age) = silent {
        let _ = write!(standing, ", silent for {} s", seconds(*age));
    }
    let is_bad = silent.is_some() || matches!(state, HostState::Failed | HostState::Refused);
    let class = if is_bad { " class=\"bad\"" } else { "" };
    let cell = |shown: &dyn Fn(&StandingFigures) -> Option<String>| {
        figures.as_ref().and_then(shown).unwrap_or_default()
    };
    let _ = write!(
        text,
        "<tr{class}><td>{}</td><td>{standing}</td><td>{}</td><td>{}</td>\
         <td class=\"wide\">{}</td><td>{}</td><td>{}</td></tr>",
        escaped(name),
        cell(&|host| Some(Rate::new(host.operations_per_second).to_string())),
        cell(&|host| host.of_median.map(percent)),
        cell(&|host| Some(bandwidth(host.bytes_per_second))),
        cell(&|host| host.p99_ns.map(|p99| Nanos::new(p99).to_string())),
        sparkline(recent),
    );
}

/// A line of the rates of the last minute, from zero to the highest.
#[expect(clippy::cast_precision_loss, reason = "sixty points")]
fn sparkline(recent: &[f64]) -> String {
    let highest = recent.iter().copied().fold(0.0, f64::max);
    if recent.len() < 2 || highest <= 0.0 {
        return String::new();
    }
    let mut points = String::new();
    for (at, rate) in recent.iter().enumerate() {
        let x = at as f64 * 60.0 / (recent.len() - 1) as f64;
        let _ = write!(points, "{x:.1},{:.1} ", 15.0 - 14.0 * rate / highest);
    }
    let points = points.trim_end();
    format!(
        "<svg viewBox=\"0 0 60 16\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"rate of the last {} reports\"><polyline points=\"{points}\"/></svg>",
        recent.len()
    )
}

/// Without what hides or steers, for it quotes hosts.
fn escaped(text: &str) -> String {
    EscapedText(&visible(text)).to_string()
}

/// Text in OpenMetrics 1.0.
fn metrics(document: &LiveDocument) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, samples: Vec<(String, f64)>| {
        let _ = write!(text, "# TYPE {name} gauge\n# HELP {name} {help}\n");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let of_operations = |value: &dyn Fn(&LiveTotal) -> Option<f64>| {
        let samples = document
            .operations
            .iter()
            .filter_map(|total| Some((label("operation", total.operation.name()), value(total)?)));
        samples.collect::<Vec<_>>()
    };
    let of_hosts = |value: &dyn Fn(&LiveHost) -> Option<f64>| {
        let hosts = document.hosts.iter();
        let samples = hosts.filter_map(|host| Some((label("host", &host.host), value(host)?)));
        samples.collect::<Vec<_>>()
    };
    let unlabelled = |count: usize| vec![(String::new(), count as f64)];
    family("durio_fleet_hosts", "Hosts asked.", unlabelled(document.hosts.len()));
    let reporting = unlabelled(document.hosts_reporting);
    family("durio_fleet_reporting_hosts", "Hosts with current figures.", reporting);
    let rates = of_operations(&|total| Some(total.operations_per_second));
    family("durio_fleet_operations_per_second", "Operations of all hosts.", rates);
    let bytes = of_operations(&|total| Some(total.bytes_per_second));
    family("durio_fleet_bytes_per_second", "Bytes moved by all hosts.", bytes);
    let p99 = of_operations(&|total| total.p99_ns.map(|p99| Nanos::new(p99).as_secs_f64()));
    let help = "99th percentile of the latencies of all hosts together.";
    family("durio_fleet_latency_p99_seconds", help, p99);
    let rates = of_hosts(&|host| Some(host.figures.as_ref()?.operations_per_second));
    family("durio_fleet_host_operations_per_second", "Operations of a host.", rates);
    let silent = of_hosts(&|host| host.silent.map(Nanos::as_secs_f64));
    family("durio_fleet_host_silent_seconds", "Time since a silent host's last word.", silent);
    text.push_str("# EOF\n");
    text
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use durio_agree::live::SlowHost;
    use durio_record::{OperationName, Phase};

    use super::*;

    fn host(name: &str, state: HostState, silent: Option<u64>, of_median: Option<f64>) -> LiveHost {
        let figures = of_median.map(|of_median| StandingFigures {
            step: 1,
            round: 0,
            phase: Phase::Measure,
            operations_per_second: 1_000.0 * of_median,
            bytes_per_second: 4_096_000.0 * of_median,
            p99_ns: Some(210_000),
            of_median: Some(of_median),
        });
        let (host, silent) = (name.to_owned(), silent.map(Nanos::from_secs));
        LiveHost { host, state, silent, figures, recent: vec![1.0, 2.0, 0.0] }
    }

    fn fleet(hosts: Vec<LiveHost>) -> LiveDocument {
        let name = "check".to_owned();
        LiveDocument { name, elapsed: Nanos::from_millis(12_900), hosts, ..LiveDocument::default() }
    }

    fn three() -> LiveDocument {
        fleet(vec![
            host("db1", HostState::Running, None, Some(1.0)),
            host("db2", HostState::Running, Some(4), None),
            host("db3", HostState::Lost, Some(11), None),
        ])
    }

    #[test]
    fn hosts_are_counted_by_state_and_the_silent_ones_named_longest_first() {
        let text = lines(&three(), usize::MAX).join("; ");
        assert_eq!(text, "12 s: 3 hosts: 2 running, 1 lost; silent: db3 (11 s), db2 (4 s)");
        let one = fleet(vec![host("a", HostState::Asked, None, None)]);
        assert_eq!(lines(&one, 80), ["12 s: 1 host: 1 asked"]);
        let many = ["a", "b", "c", "d", "e", "f"];
        let many = many.map(|name| host(name, HostState::Running, Some(1), None));
        let text = lines(&fleet(many.into()), usize::MAX).join("; ");
        assert!(text.ends_with("e (1 s) and 1 more"), "{text}");
    }

    #[test]
    fn figures_of_300_hosts_fit_into_80_columns() {
        let name = |at: usize| format!("db{at:03}.storage.example");
        let hosts =
            (0..300).map(|at| host(&name(at), HostState::Running, (at > 297).then_some(2), None));
        let mut document = fleet(hosts.collect());
        document.hosts_reporting = 298;
        document.operations = vec![LiveTotal {
            operation: OperationName::Read,
            hosts: 298,
            operations_per_second: 1_204_312.0,
            bytes_per_second: 4_932_861_952.0,
            p99_ns: Some(210_000),
        }];
        document.slowest = (0..5).map(|at| SlowHost { host: name(at), of_median: 0.61 }).collect();
        let lines = lines(&document, 80);
        assert_eq!(
            lines,
            [
                "12 s: 300 hosts: 300 running",
                "read: 1.2 M/s, 4.59 GiB/s, p99 210 µs, of 298 of 300 hosts",
                "slowest, of the median: db000.storage.example 61 % and 4 more",
                "silent: db298.storage.example (2 s), db299.storage.example (2 s)",
            ]
        );
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }

    #[test]
    fn a_page_lists_silent_hosts_then_lost_ones_then_the_slowest() {
        let document = fleet(vec![
            host("fast", HostState::Running, None, Some(1.5)),
            host("waiting", HostState::Asked, None, None),
            host("slow", HostState::Running, None, Some(0.4)),
            host("failed", HostState::Failed, None, None),
            host("quiet", HostState::Running, Some(2), Some(1.0)),
            host("lost", HostState::Lost, Some(20), None),
        ]);
        let order: Vec<&str> =
            worst_first(&document).iter().map(|host| host.host.as_str()).collect();
        assert_eq!(order, ["lost", "quiet", "failed", "slow", "fast", "waiting"]);
        let text = page(&document);
        let row = "<td>slow</td><td>running</td><td>400 /s</td><td>40 %</td>\
                   <td class=\"wide\">1.56 MiB/s</td><td>210 µs</td><td><svg ";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("<td>lost, silent for 20 s</td>"), "{text}");
        assert!(text.contains("points=\"0.0,8.0 30.0,1.0 60.0,15.0\""), "{text}");
    }

    #[test]
    fn nothing_of_a_page_comes_from_elsewhere_and_names_cannot_end_their_cell() {
        let mut document = fleet(vec![host("<b>&\"'\n", HostState::Running, None, None)]);
        document.name = "</title><script>".to_owned();
        let text = page(&document);
        assert!(text.contains("<td>&#60;b&#62;&#38;&#34;&#39;\\n</td>"), "{text}");
        assert!(text.contains("<h1>&#60;/title&#62;&#60;script&#62;</h1>"), "{text}");
        for foreign in ["<script", "http:", "https:", "//", "url(", "@import"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn metrics_are_families_that_end_and_labels_are_escaped() {
        let mut document = three();
        document.hosts[1].host = "a\"b\\c\nd".to_owned();
        let text = metrics(&document);
        assert!(text.contains("\ndurio_fleet_hosts 3\n"), "{text}");
        let silent = "\ndurio_fleet_host_silent_seconds{host=\"a\\\"b\\\\c\\nd\"} 4\n";
        assert!(text.contains(silent), "{text}");
        assert!(text.contains("\ndurio_fleet_host_operations_per_second{host=\"db1\"} 1000\n"));
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        assert_eq!(text.matches("# TYPE ").count(), 7);
    }

    #[test]
    fn the_newest_figures_are_read_from_a_folder_and_nothing_from_one_without() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()), "");
        let file = folder.path().join(LIVE_FILE);
        std::fs::write(&file, "{").unwrap();
        assert_eq!(newest(folder.path()), "");
        std::fs::write(&file, serde_json::to_vec(&three()).unwrap()).unwrap();
        let expected = "  12 s: 3 hosts: 2 running, 1 lost\n  silent: db3 (11 s), db2 (4 s)\n";
        assert_eq!(newest(folder.path()), expected);
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        std::fs::File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
        let text = newest(folder.path());
        assert!(text.ends_with("s old: the coordinator stands still\n"), "{text}");
    }

    #[test]
    fn other_paths_have_no_page() {
        let document = three();
        for path in ["/favicon", "/../etc/passwd", ""] {
            assert!(answer(&document, path).is_none(), "{path}");
        }
        assert_eq!(answer(&document, "/").and_then(|page| page.refresh), Some(2));
    }

    #[test]
    fn two_kinds_of_operations_have_a_line_and_a_list_ends_where_its_line_does() {
        let mut document = three();
        let names = [OperationName::Sync, OperationName::Read, OperationName::Write];
        document.operations = names
            .map(|operation| LiveTotal {
                operation,
                hosts: 2,
                operations_per_second: 30.0,
                bytes_per_second: 0.0,
                p99_ns: None,
            })
            .into();
        let text = lines(&document, 80);
        assert_eq!(text[1..3], ["sync: 30 /s, of 2 of 3 hosts", "read: 30 /s, of 2 of 3 hosts"]);
        assert_eq!((text.len(), text[3].as_str()), (4, "silent: db3 (11 s), db2 (4 s)"));

        let list = |width| listed("s: ", &["aa", "bb", "cc"].map(str::to_owned), width);
        for (width, expected) in [
            (24, "s: aa, bb, cc"),
            (23, "s: aa, bb and 1 more"),
            (20, "s: aa, bb and 1 more"),
            (19, "s: aa and 2 more"),
            (0, "s: aa and 2 more"),
        ] {
            assert_eq!(list(width).as_deref(), Some(expected), "{width}");
        }
        assert_eq!(listed("s: ", &[], 80), None);
    }

    #[test]
    fn metrics_are_in_seconds_bytes_and_operations_per_second() {
        let mut document = fleet(vec![
            host("db1", HostState::Running, None, Some(0.5)),
            host("db2", HostState::Lost, Some(11), None),
        ]);
        document.hosts_reporting = 1;
        document.operations = vec![LiveTotal {
            operation: OperationName::Read,
            hosts: 1,
            operations_per_second: 500.0,
            bytes_per_second: 2_048_000.0,
            p99_ns: Some(250_000_000),
        }];
        let samples: Vec<String> = metrics(&document)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.strip_prefix("durio_fleet_").unwrap_or(line).to_owned())
            .collect();
        let expected = [
            "hosts 2",
            "reporting_hosts 1",
            "operations_per_second{operation=\"read\"} 500",
            "bytes_per_second{operation=\"read\"} 2048000",
            "latency_p99_seconds{operation=\"read\"} 0.25",
            "host_operations_per_second{host=\"db1\"} 500",
            "host_silent_seconds{host=\"db2\"} 11",
        ];
        assert_eq!(samples, expected);
        let kind = answer(&document, "/metrics").map(|page| (page.kind, page.refresh));
        let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(kind, Some((expected, None)));
    }

    #[test]
    fn hosts_that_are_silent_refused_or_have_failed_stand_out_on_a_page() {
        let mut document = fleet(vec![
            host("f", HostState::Failed, None, None),
            host("r", HostState::Refused, None, None),
            host("s", HostState::Stopped, None, None),
            host("q", HostState::Running, Some(2), None),
            host("l", HostState::Lost, None, None),
        ]);
        document.hosts_reporting = 4;
        let text = page(&document);
        for (name, is_bad) in [("f", true), ("r", true), ("s", false), ("q", true), ("l", false)] {
            let row = format!("<tr class=\"bad\"><td>{name}</td>");
            assert_eq!(text.contains(&row), is_bad, "{name}");
        }
        assert!(text.contains("<title>check: 4 of 5 hosts</title>"), "{text}");
        assert_eq!((sparkline(&[5.0]), sparkline(&[0.0, 0.0])), (String::new(), String::new()));
    }

    #[test]
    fn figures_are_called_old_after_5_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LIVE_FILE);
        std::fs::write(&path, serde_json::to_vec(&three()).unwrap()).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        for (age, is_old) in [(3, false), (8, true)] {
            let made = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            file.set_modified(made).unwrap();
            assert_eq!(newest(folder.path()).contains("s old"), is_old, "{age} s");
        }
    }
}
