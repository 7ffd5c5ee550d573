//! `durio fleet doctor`: what stands in the way of a campaign, on this machine and on the hosts.

use std::collections::BTreeMap;
use std::path::Path;

use durio_agree::message::{HostFacts, PlaceFacts};
use durio_base::{Bytes, Nanos, counted, visible};
use durio_block::{Clock as _, MonotonicClock};
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_record::fleet::ClockOffset;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::FleetExit;
use crate::campaign::{launch_settings, named_hosts};
use crate::campaign_bus::raise_file_limit;
use crate::host_disk::epoch;
use crate::launch::{HostTarget, LaunchVia};
use crate::options::{AnswerFormat, RehearsalOptions};
use crate::passes::RehearsedHost;
use crate::plan::{Refusals, refusal_json, rehearse};
use crate::programs::{in_path, nats_server, output_of};
use crate::regions::{launched_relays, session_count};
use crate::words::{answer, plan_text, word};

/// Version of the JSON document.
const DOCTOR_SCHEMA: &str = "durio-fleet-doctor-1";
/// Lines of hosts in the text; JSON has all.
const LINES_MAX: usize = 20;
/// Clocks that NTP keeps differ by less; records of hosts that differ by more cannot be matched with
/// other logs.
const WALL_CLOCK_MAX: Nanos = Nanos::from_secs(1);

/// One thing about this machine, and why it does not do.
struct LocalCheck {
    name: &'static str,
    result: Result<String, String>,
}

/// A host that can take part.
struct CheckedHost {
    name: String,
    facts: HostFacts,
    /// Between the times of day, and how far that is known.
    clock: Option<(ClockOffset, Nanos)>,
    warnings: Vec<String>,
}

struct FleetHealth {
    local: Vec<LocalCheck>,
    hosts: Vec<CheckedHost>,
    refusals: Refusals,
}

pub(crate) fn doctor(options: &RehearsalOptions) -> Result<FleetExit, CommandError> {
    let named = named_hosts(&options.hosts)?;
    let local = local_checks(options, named.len());
    let mut health = FleetHealth { local, hosts: Vec::new(), refusals: Refusals::new() };
    if health.local.iter().all(|check| check.result.is_ok()) {
        let launch = launch_settings(Path::new("doctor"), &options.hosts, &named)?;
        let spec = ("doctor".to_owned(), spec(&options.hosts.targets));
        let Some((hosts, refusals)) = rehearse(spec, &launch, options)? else {
            return Ok(FleetExit::Failed(CommandErrorKind::Interrupted));
        };
        let own = epoch();
        health.hosts = hosts.into_iter().map(|host| checked(host, own)).collect();
        health.refusals = refusals;
    }
    answer(&match options.format {
        AnswerFormat::Text => health.text(),
        AnswerFormat::Json => format!("{:#}\n", health.json()),
    })?;
    let is_fine = health.refusals.is_empty() && !health.hosts.is_empty();
    Ok(if is_fine { FleetExit::Fine } else { FleetExit::Negative })
}

fn local_checks(options: &RehearsalOptions, hosts: usize) -> Vec<LocalCheck> {
    let via = options.hosts.bus.via;
    let needed = launched_relays(&options.hosts.relays);
    let needed = needed.map(|relays| session_count(hosts, &relays));
    let files = needed.and_then(raise_file_limit).map(|()| {
        let limit = getrlimit(Resource::Nofile).maximum.map(|limit| limit.to_string());
        let limit = limit.unwrap_or_else(|| "no limit".to_owned());
        format!("{limit}, enough for {}", counted(hosts as u64, "host"))
    });
    let files = files.map_err(|error| error_chain(&error));
    let mut checks = vec![LocalCheck { name: "open files", result: files }];
    let starter = match via {
        LaunchVia::Ssh => Some("ssh"),
        LaunchVia::Slurm => Some("srun"),
        LaunchVia::Joined => None,
    };
    if let Some(name) = starter {
        let found = in_path(name, &[]).map(|path| path.display().to_string());
        let result = found.ok_or_else(|| "not in PATH".to_owned());
        checks.insert(0, LocalCheck { name, result });
    }
    // One that is there already is reached by the rehearsal.
    let is_private = via != LaunchVia::Joined
        && !options.hosts.bus.bus.as_deref().unwrap_or_default().contains("://");
    if is_private {
        let version = nats_server(false)
            .and_then(|program| output_of(&program, &["--version".as_ref()]))
            .map(|shown| shown.trim().to_owned());
        let result = version.map_err(|error| error_chain(&error));
        checks.push(LocalCheck { name: "nats-server", result });
    }
    checks
}

/// A campaign that would read a small new file of each target: what it needs is what permits are for.
fn spec(targets: &[HostTarget]) -> String {
    let mut text = "schema = 1\nname = \"doctor\"\nself_cost = false\n".to_owned();
    for HostTarget { name, .. } in targets {
        text.push_str(&format!("[[target]]\nname = {name:?}\nsize = \"4KiB\"\n"));
    }
    if targets.is_empty() {
        text.push_str("[[target]]\nname = \"null\"\npath = \"/dev/zero\"\n");
    }
    let names = targets.iter().map(|target| target.name.as_str());
    let names = names.chain(targets.is_empty().then_some("null"));
    for (number, name) in names.enumerate() {
        let step = format!("[[step]]\nname = \"read-{number}\"\ntarget = {name:?}\n");
        text.push_str(&step);
        text.push_str("duration = \"1s\"\n");
    }
    text
}

fn checked(host: RehearsedHost, own_epoch: u64) -> CheckedHost {
    let facts = host.plan.facts.map(|facts| *facts).unwrap_or_default();
    let clock = host.clock.map(|estimate| {
        let monotonic = estimate.at(Nanos::new(MonotonicClock.now().0));
        let epochs = i64::try_from(i128::from(facts.epoch_ns) - i128::from(own_epoch));
        let offset_ns = monotonic.offset_ns.saturating_add(epochs.unwrap_or(i64::MAX));
        (ClockOffset { offset_ns, ..monotonic }, estimate.round_trip)
    });
    let mut warnings = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    for (program, found) in [("durio", &facts.durio), ("durio-fleet", &facts.fleet)] {
        if found != version {
            warnings.push(format!("{program} {found}, here {version}"));
        }
    }
    let is_off = |&(clock, _): &(ClockOffset, Nanos)| {
        clock.offset_ns.unsigned_abs() > WALL_CLOCK_MAX.get().saturating_add(clock.bound_ns)
    };
    if clock.as_ref().is_some_and(is_off) {
        warnings.push(format!("its time of day is more than {WALL_CLOCK_MAX} off"));
    }
    CheckedHost { name: host.name, facts, clock, warnings }
}

impl CheckedHost {
    /// What hosts of one line have in common.
    fn likeness(&self) -> (std::cmp::Reverse<usize>, String) {
        let HostFacts { durio, open_files_max, has_host_file, places, .. } = &self.facts;
        let permits = match has_host_file {
            true => "permitted by /etc/durio/fleet.toml",
            false => "permitted by your login",
        };
        let files = open_files_max.map_or("no limit of".to_owned(), |limit| limit.to_string());
        let filesystems = places
            .iter()
            .map(|PlaceFacts { target, filesystem, .. }| format!("; {target} on {filesystem}"));
        let warnings: String =
            self.warnings.iter().map(|warning| format!("; WARNING {warning}")).collect();
        let text = format!("durio {durio}; {permits}; {files} open files");
        let text = text + &filesystems.collect::<String>() + &warnings;
        (std::cmp::Reverse(self.warnings.len()), text)
    }

    fn json(&self) -> Value {
        let facts = &self.facts;
        json!({
            "host": self.name,
            "durio": facts.durio,
            "durio_fleet": facts.fleet,
            "has_host_file": facts.has_host_file,
            "open_files_max": facts.open_files_max,
            "places": facts.places,
            "clock_offset_ns": self.clock.map(|(clock, _)| clock.offset_ns),
            "clock_bound_ns": self.clock.map(|(clock, _)| clock.bound_ns),
            "round_trip_ns": self.clock.map(|(_, round_trip)| round_trip.get()),
            "warnings": self.warnings,
        })
    }
}

/// `time of day within 2 ms ± 0.1 ms, round trip 0.2 ms; 12 GiB free`, the worst of these hosts.
fn extremes(hosts: &[&CheckedHost]) -> String {
    let clocks = || hosts.iter().filter_map(|host| host.clock);
    let offset = clocks().map(|(clock, _)| clock.offset_ns.unsigned_abs()).max();
    let bound = clocks().map(|(clock, _)| clock.bound_ns).max();
    let round_trip = clocks().map(|(_, round_trip)| round_trip).max();
    let mut text = match (offset, bound, round_trip) {
        (Some(offset), Some(bound), Some(round_trip)) => format!(
            "; time of day within {} ± {}, round trip {round_trip}",
            Nanos::new(offset),
            Nanos::new(bound)
        ),
        _ => String::new(),
    };
    let places = hosts.iter().flat_map(|host| &host.facts.places);
    if let Some(free) = places.map(|place| place.free_bytes).min() {
        text.push_str(&format!("; {} free", Bytes::new(free)));
    }
    text
}

impl FleetHealth {
    fn text(&self) -> String {
        let mut text = "This machine\n".to_owned();
        for LocalCheck { name, result } in &self.local {
            let (mark, shown) = match result {
                Ok(shown) => ("ok", shown),
                Err(reason) => ("FAILED", reason),
            };
            text.push_str(&visible(&format!("  {mark:6}  {name}: {shown}")));
            text.push('\n');
        }
        let refused: usize = self.refusals.values().map(Vec::len).sum();
        let all = self.hosts.len() + refused;
        if all == 0 {
            return text + "\nNo host was asked.\n";
        }
        let (able, all) = (self.hosts.len(), counted(all as u64, "host"));
        text.push_str(&format!(
            "\n{able} of {all} can take part; each line has its worst values\n"
        ));
        let refused = self.refusals.iter().map(|((state, reason), hosts)| {
            format!("  FAILED  {}: {}: {reason}", plan_text(None, hosts), word(*state))
        });
        let mut groups: BTreeMap<_, Vec<&CheckedHost>> = BTreeMap::new();
        for host in &self.hosts {
            groups.entry(host.likeness()).or_default().push(host);
        }
        let groups = groups.iter().map(|((warnings, likeness), hosts)| {
            let mark = if warnings.0 > 0 { "warn" } else { "ok" };
            let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
            let names = plan_text(None, &names);
            format!("  {mark:6}  {names}: {likeness}{}", extremes(hosts))
        });
        let lines: Vec<String> = refused.chain(groups).collect();
        for line in lines.iter().take(LINES_MAX) {
            text.push_str(&visible(line));
            text.push('\n');
        }
        if let Some(more @ 1..) = lines.len().checked_sub(LINES_MAX) {
            text.push_str(&format!(
                "  and {}; --format json has all\n",
                counted(more as u64, "line")
            ));
        }
        text
    }

    fn json(&self) -> Value {
        let local = |check: &LocalCheck| match &check.result {
            Ok(shown) => json!({ "name": check.name, "ok": true, "text": shown }),
            Err(reason) => json!({ "name": check.name, "ok": false, "text": reason }),
        };
        json!({
            "schema": DOCTOR_SCHEMA,
            "this_machine": self.local.iter().map(local).collect::<Vec<_>>(),
            "hosts": self.hosts.iter().map(CheckedHost::json).collect::<Vec<_>>(),
            "refused": self.refusals.iter().map(refusal_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use durio_record::fleet::HostState;

    use super::*;
    use crate::tests::plan_with;

    fn host(name: &str, durio: &str, (free, offset_ns): (u64, i64)) -> CheckedHost {
        let facts = HostFacts {
            durio: durio.to_owned(),
            open_files_max: Some(1024),
            places: vec![PlaceFacts {
                target: "data".to_owned(),
                filesystem: "ext4".to_owned(),
                free_bytes: free << 30,
            }],
            ..HostFacts::default()
        };
        let clock = ClockOffset { offset_ns, bound_ns: 100_000 };
        let warnings = if durio == "1.0.0" { Vec::new() } else { vec!["durio differs".to_owned()] };
        let clock = Some((clock, Nanos::from_millis(1)));
        CheckedHost { name: name.to_owned(), facts, clock, warnings }
    }

    #[test]
    fn hosts_with_the_same_answers_are_one_line_the_worst_first() {
        let refusals = [((HostState::Failed, "no route".to_owned()), vec!["db9".to_owned()])];
        let health = FleetHealth {
            local: vec![
                LocalCheck { name: "ssh", result: Ok("/usr/bin/ssh".to_owned()) },
                LocalCheck { name: "nats-server", result: Err("too old".to_owned()) },
            ],
            hosts: vec![
                host("db1", "1.0.0", (9, 2_000_000)),
                host("db2", "0.9.0", (7, 0)),
                host("db3", "1.0.0", (4, -5_000_000)),
            ],
            refusals: refusals.into(),
        };
        let text = health.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  ok      ssh: /usr/bin/ssh");
        assert_eq!(lines[2], "  FAILED  nats-server: too old");
        assert!(lines[4].starts_with("3 of 4 hosts can take part"), "{text}");
        assert_eq!(lines[5], "  FAILED  db9: failed: no route");
        assert!(lines[6].starts_with("  warn    db2: durio 0.9.0; permitted by your login"));
        let alike = "; 1024 open files; data on ext4; time of day within 5 ms ± 100 µs, round trip \
                     1 ms; 4 GiB free";
        assert!(lines[7].starts_with("  ok      db1, db3: durio 1.0.0;"), "{text}");
        assert!(lines[7].ends_with(alike), "{text}");
        assert_eq!(
            (lines.len(), health.json()["hosts"][2]["clock_offset_ns"].as_i64()),
            (8, Some(-5_000_000))
        );
    }

    #[test]
    fn a_thousand_hosts_that_all_differ_are_thirty_lines_at_most() {
        let hosts = (0..1_000).map(|number| host("db", &number.to_string(), (1, 0))).collect();
        let health = FleetHealth { local: Vec::new(), hosts, refusals: Refusals::new() };
        let text = health.text();
        assert!(text.lines().count() <= 30, "{text}");
        assert!(text.ends_with("  and 980 lines; --format json has all\n"), "{text}");
    }

    #[test]
    fn the_spec_names_every_target_once_and_none_is_needed() {
        let targets = ["data=/srv/x", "log=/srv/y"].map(|text| text.parse().unwrap());
        let text = spec(&targets);
        assert_eq!(text.matches("[[target]]").count(), 2);
        assert!(text.contains("name = \"read-1\"\ntarget = \"log\""), "{text}");
        assert!(spec(&[]).contains("path = \"/dev/zero\""));
    }

    #[test]
    fn a_host_whose_time_of_day_is_more_than_a_second_off_is_warned_of() {
        let plan = |epoch_ns| {
            let [durio, fleet] = [(); 2].map(|()| env!("CARGO_PKG_VERSION").to_owned());
            plan_with("", HostFacts { durio, fleet, epoch_ns, ..HostFacts::default() })
        };
        let now = Nanos::new(MonotonicClock.now().0);
        let clock = Some(durio_agree::clock::ClockEstimate::new(now, now, now, None));
        let checked = |epoch_ns| {
            let host = RehearsedHost { name: "db".to_owned(), plan: plan(epoch_ns), clock };
            checked(host, 3_600_000_000_000).warnings.len()
        };
        assert_eq!((checked(3_600_000_000_000), checked(3_600_900_000_000)), (0, 0));
        assert_eq!((checked(0), checked(3_601_500_000_000)), (1, 1));
    }

    #[test]
    fn another_version_and_a_clock_that_is_ahead_are_told_with_their_values() {
        let own = env!("CARGO_PKG_VERSION");
        let facts = HostFacts {
            durio: "0.0.1".to_owned(),
            fleet: own.to_owned(),
            epoch_ns: 3_602_000_000_000,
            ..HostFacts::default()
        };
        let plan = plan_with("", facts);
        let now = Nanos::new(MonotonicClock.now().0);
        let clock = Some(durio_agree::clock::ClockEstimate::new(now, now, now, None));
        let host = RehearsedHost { name: "db".to_owned(), plan, clock };
        let found = checked(host, 3_600_000_000_000);
        let warnings =
            [format!("durio 0.0.1, here {own}"), "its time of day is more than 1 s off".to_owned()];
        assert_eq!(found.warnings, warnings);
        assert_eq!(found.json()["clock_offset_ns"], 2_000_000_000);
        let text = "durio 0.0.1; permitted by your login; no limit of open files";
        let [version, clock] = warnings;
        let expected = format!("{text}; WARNING {version}; WARNING {clock}");
        assert_eq!(found.likeness(), (std::cmp::Reverse(2), expected));
    }
}
