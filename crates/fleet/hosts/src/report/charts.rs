//! Pictures of many hosts: a map, all hosts by figure, and the rate of all together.

use durio_analyse::each_once;
use durio_base::counted;
use durio_report::document::chart::{
    AxisScale, AxisUnit, Chart, ChartSeries, Colour, GridCell, HostGrid, Style, kept,
};
use durio_report::document::{DetailLevel, Section};
use durio_report::figures::precise;

use super::tables::{host_title, host_value};
use super::{FleetView, cut, pooled_label, word};
use crate::{
    FigureKey, HostFindings, HostOutcome, HostShare, HostVerdict, PooledFindings, RateMark,
    RateMarkKind,
};

/// Pictures of figures: more make a page of a thousand hosts larger than a message may be.
const STRIPS_MAX: usize = 8;
/// Points of a line; more cannot be distinguished.
const POINTS_MAX: usize = 600;
/// Characters of a host's name on an axis.
const NAME_MAX: usize = 20;
/// Rows of the map; readers know no order of more prefixes.
const MAP_ROWS_MAX: usize = 40;
/// A host that is worse by this has the darkest shade.
const DARKEST_EXCESS: f64 = 0.5;

/// The map, and all hosts in each of the figures that matter.
pub(super) fn sections(view: &FleetView<'_>) -> Vec<Section> {
    let mut map = on_pages("Map of hosts");
    map.charts([self::map(view)]);
    let mut strips = on_pages("All hosts, figure by figure");
    strips.charts(strip_keys(view).into_iter().map(|key| strip(view, key)));
    vec![map, strips]
}

/// A terminal has no room for pictures.
fn on_pages(heading: &str) -> Section {
    Section { level: DetailLevel::Page, ..Section::new(heading) }
}

/// The figures in which a host is worse, then the others; the poster has the headline.
fn strip_keys<'f>(view: &FleetView<'f>) -> Vec<&'f FigureKey> {
    let headline = view.headline().map(|figure| &figure.key);
    let evidence = view.findings.hosts.iter().flat_map(|host| &host.evidence);
    let of_group = view.findings.groups.first().map(|group| &group.figures);
    let figures = of_group.into_iter().flatten().map(|figure| &figure.key);
    let keys = evidence.map(|evidence| &evidence.key).chain(figures);
    let mut keys = each_once(keys.filter(|key| headline != Some(*key)));
    keys.truncate(STRIPS_MAX);
    keys
}

/// The hosts of each group together, in the order of their names.
fn in_order<'f>(view: &FleetView<'f>) -> Vec<&'f HostFindings> {
    let mut hosts: Vec<&HostFindings> = view.findings.hosts.iter().collect();
    hosts.sort_by_cached_key(|host| (host.group.unwrap_or(usize::MAX), natural(&host.name)));
    hosts
}

/// The parts of a name, numbers by their value: `db9` comes before `db10`.
fn natural(name: &str) -> Vec<(Option<u64>, String)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let number = if is_digit { part.parse().ok() } else { None };
        parts.push((number, part.to_owned()));
        rest = after;
    }
    parts
}

/// A point for each host, with the median of its group as a line.
pub(super) fn strip(view: &FleetView<'_>, key: &FigureKey) -> Chart {
    let measured =
        in_order(view).into_iter().filter_map(|host| Some((host, host_value(host, key)?)));
    let measured: Vec<(&HostFindings, f64)> = measured.collect();
    let place = |at: usize| precise(at as u64);
    let points = |verdict: Option<HostVerdict>| -> Vec<(f64, f64)> {
        let those = measured
            .iter()
            .enumerate()
            .filter(|(_, (host, _))| verdict.is_none_or(|verdict| host.verdict == verdict));
        those.map(|(at, (_, value))| (place(at), *value)).collect()
    };
    let mut series = Vec::new();
    for (group, found) in view.findings.groups.iter().enumerate() {
        let Some(figure) = found.figures.iter().find(|figure| figure.key == *key) else { continue };
        let is_member = |(host, _): &(&HostFindings, f64)| host.group == Some(group);
        let first = measured.iter().position(is_member);
        let last = measured.iter().rposition(is_member);
        if let (Some(first), Some(last)) = (first, last) {
            let name = if series.is_empty() { "median of the group" } else { "" };
            let line = [(place(first) - 0.4, figure.median), (place(last) + 0.4, figure.median)];
            series.push(ChartSeries::new(name, Colour::Ink, Style::Line, line));
        }
    }
    series.push(ChartSeries::new("host", Colour::First, Style::Dots, points(None)));
    for (verdict, colour) in
        [(HostVerdict::Suspect, Colour::Second), (HostVerdict::Slow, Colour::Alarm)]
    {
        let marked = points(Some(verdict));
        if !marked.is_empty() {
            series.push(ChartSeries::new(word(&verdict), colour, Style::Rings, marked));
        }
    }
    let names = measured.iter().map(|(host, _)| cut(&host.name, NAME_MAX)).collect();
    let unit = if key.statistic.is_higher_better() { AxisUnit::Rate } else { AxisUnit::Latency };
    let title = format!("{} of each host", view.figure(key));
    Chart::plot(title, AxisScale::Steps(names), unit.linear(), series).across("host")
}

/// A cell for each host, by group or by the beginning of its name.
fn map(view: &FleetView<'_>) -> Chart {
    let hosts = in_order(view);
    let has_groups = view.findings.groups.len() > 1;
    let mut letters: Vec<(String, Colour)> = Vec::new();
    let mut rows: Vec<(String, Vec<GridCell>)> = Vec::new();
    for (label, hosts) in map_rows(&hosts, has_groups) {
        let mut cells = Vec::new();
        for host in hosts {
            let (name, colour) = letter(host);
            let known = letters.iter().position(|(known, _)| known == name);
            let letter = known.unwrap_or_else(|| {
                letters.push((name.to_owned(), colour));
                letters.len() - 1
            });
            let shade = (host.shrunk_factor - 1.0) / DARKEST_EXCESS;
            cells.push(GridCell { letter, shade, title: host_title(view, host) });
        }
        rows.push((label, cells));
    }
    Chart::grid("Every host; darker is worse than hosts like it", HostGrid { letters, rows })
}

/// Hosts by the label of their row, in order.
fn map_rows<'f>(
    hosts: &[&'f HostFindings],
    has_groups: bool,
) -> Vec<(String, Vec<&'f HostFindings>)> {
    let label = |host: &HostFindings| match (has_groups, host.group) {
        (true, Some(group)) => format!("group {}", group + 1),
        (true, None) => "no group".to_owned(),
        (false, _) => prefix(&host.name).to_owned(),
    };
    let mut rows: Vec<(String, Vec<&HostFindings>)> = Vec::new();
    for &host in hosts {
        let label = label(host);
        match rows.iter_mut().find(|(known, _)| *known == label) {
            Some((_, row)) => row.push(host),
            None => rows.push((label, vec![host])),
        }
        if rows.len() > MAP_ROWS_MAX {
            return vec![("hosts".to_owned(), hosts.to_vec())];
        }
    }
    rows
}

/// The name up to its last number: `rack1-db` of `rack1-db17.example.com`.
fn prefix(name: &str) -> &str {
    let end = name.rfind(|c: char| c.is_ascii_digit()).map_or(name.len(), |at| at + 1);
    name[..end].trim_end_matches(|c: char| c.is_ascii_digit())
}

/// A letter with its meaning, and its colour.
const fn letter(host: &HostFindings) -> (&'static str, Colour) {
    match (host.verdict, host.outcome) {
        (HostVerdict::Slow, _) => ("S slow", Colour::Alarm),
        (HostVerdict::Suspect, _) => ("? suspect", Colour::Second),
        (HostVerdict::Unsteady, _) => ("~ unsteady", Colour::Fourth),
        (HostVerdict::Cleared, _) => ("c cleared", Colour::Third),
        (HostVerdict::Alike, HostOutcome::Measured) => ("· alike", Colour::First),
        (HostVerdict::NotJudged, HostOutcome::Measured) => ("n not judged", Colour::Shade),
        (_, HostOutcome::Partial) => ("P partial", Colour::Shade),
        (_, HostOutcome::Failed) => ("F failed", Colour::Shade),
        (_, HostOutcome::Lost) => ("L lost", Colour::Shade),
        (_, HostOutcome::Refused) => ("R refused", Colour::Shade),
        (_, HostOutcome::Missing) => ("M missing", Colour::Shade),
    }
}

/// The rate of all hosts over time; of shared storage also the latencies of each host, with that of
/// all.
pub(super) fn pooled(pooled: &PooledFindings) -> Vec<Chart> {
    let label = pooled_label(pooled);
    let rates = &pooled.rate_over_time;
    let drawn = kept(rates.len(), POINTS_MAX, &[&|at: usize| rates.get(at).copied()]);
    let points = drawn.into_iter().filter_map(|at| Some((precise(at as u64), *rates.get(at)?)));
    let line = ChartSeries::new("all hosts", Colour::First, Style::Line, points);
    let (x, y) = (AxisUnit::Seconds.linear(), AxisUnit::Rate.linear());
    let series = std::iter::once(line).chain(marks(pooled)).collect();
    let over_time = Chart::plot(format!("{label}: rate of all hosts together"), x, y, series);
    let by_host = pooled.shared.is_some().then(|| latencies(pooled, &label));
    [over_time].into_iter().chain(by_host).collect()
}

/// Upright lines at starts, losses and stops.
fn marks(pooled: &PooledFindings) -> Vec<ChartSeries> {
    let mut series = Vec::new();
    for (kind, colour) in [
        (RateMarkKind::Start, Colour::Third),
        (RateMarkKind::Lost, Colour::Alarm),
        (RateMarkKind::Stop, Colour::Ink),
    ] {
        let marks: Vec<&RateMark> = pooled.marks.iter().filter(|mark| mark.kind == kind).collect();
        let Some(first) = marks.first() else { continue };
        let name = match (kind, &first.host) {
            (RateMarkKind::Start, _) => "start".to_owned(),
            (RateMarkKind::Stop, _) => "stop".to_owned(),
            (RateMarkKind::Lost, Some(host)) if marks.len() == 1 => {
                format!("{} lost", cut(host, NAME_MAX))
            }
            (RateMarkKind::Lost, _) => format!("{} lost", counted(marks.len() as u64, "host")),
        };
        let points = marks.iter().map(|mark| (mark.at_seconds, 0.0));
        series.push(ChartSeries::new(name, colour, Style::Upright, points));
    }
    series
}

fn latencies(pooled: &PooledFindings, label: &str) -> Chart {
    let of_hosts = |nanos: fn(&HostShare) -> Option<u64>| {
        let shares = pooled.shares.iter().enumerate();
        shares.filter_map(move |(at, share)| Some((precise(at as u64), precise(nanos(share)?))))
    };
    let [p50, p99] = [of_hosts(|share| share.p50_ns), of_hosts(|share| share.p99_ns)];
    let mut series = vec![
        ChartSeries::new("p50 of a host", Colour::Third, Style::Dots, p50),
        ChartSeries::new("p99 of a host", Colour::Second, Style::Dots, p99),
    ];
    let all = pooled.latency.as_ref().and_then(|latency| latency.p99_ns);
    series.extend(all.map(|nanos| {
        ChartSeries::new("p99 of all", Colour::Ink, Style::Across, [(0.0, precise(nanos))])
    }));
    let names = pooled.shares.iter().map(|share| cut(&share.host, NAME_MAX)).collect();
    let title = format!("{label}: latency of each host, the largest share first");
    let y = AxisUnit::Latency.linear();
    Chart::plot(title, AxisScale::Steps(names), y, series).across("host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers_and_rows_have_what_precedes_the_last() {
        let mut names = ["db10", "db9", "db-2x1", "db", "a+5", "10", "9", ""];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["", "a+5", "db", "db9", "db10", "db-2x1", "9", "10"]);
        let prefixes = ["rack1-db17.example.com", "db", "17", "é9"].map(prefix);
        assert_eq!(prefixes, ["rack1-db", "db", "", "é"]);
    }
}
