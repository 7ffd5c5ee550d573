//! Results as a section of docs/method/databases.md.
//!
//! Formats the results of one database, one for each number of clients, as Markdown. The text
//! around it, written by hand, draws the conclusions for the profile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{CellAlignment, Table, presets};

use super::figures::LogFigures;

/// Rarer syncs of other files, per commit, belong to the background.
const NOTABLE: f64 = 0.02;

/// How many sizes to name; those below one in a hundred are left out.
const FREQUENT: usize = 3;

const HEADER: [&str; 11] = [
    "clients",
    "commits",
    "commits/s",
    "commits per sync",
    "writes per commit",
    "bytes of a write",
    "bytes between syncs",
    "new bytes per commit",
    "tail rewritten",
    "threads that sync",
    "syncs side by side",
];

/// The section: facts, then a row for each load.
pub(super) fn section(
    version: &str,
    transaction: &str,
    machine: &str,
    all: &[LogFigures],
) -> String {
    let mut text = format!("- {version}; {machine}\n- a transaction: {transaction}\n");
    for (name, value) in facts(all) {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(HEADER);
    table.add_rows(all.iter().map(row));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{text}\n{table}\n")
}

fn facts(all: &[LogFigures]) -> Vec<(&'static str, String)> {
    let files = all.iter().flat_map(|load| &load.files);
    let flags: BTreeSet<String> = files.clone().flat_map(|(_, flags)| flags).cloned().collect();
    let names: BTreeSet<String> = files.map(|(path, _)| path.clone()).collect();
    let calls: BTreeSet<String> = all.iter().flat_map(|load| load.syncs.keys()).cloned().collect();
    let alignment = all.iter().map(|load| load.alignment).min().unwrap_or(1);
    let mut facts = vec![
        ("log", listed(&names)),
        ("opened", listed(&flags)),
        ("synced by", listed(&calls)),
        ("offsets and sizes are multiples of", format!("{alignment} B")),
        ("file", file(all)),
        ("most frequent writes", frequent(all, |load| &load.sizes)),
        ("most frequent between two syncs", frequent(all, |load| &load.batches)),
    ];
    let others = others(all);
    if !others.is_empty() {
        facts.push(("other syncs per commit", others));
    }
    facts
}

fn listed(all: &BTreeSet<String>) -> String {
    all.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
}

/// How the file is there when it is written.
fn file(all: &[LogFigures]) -> String {
    let sum = |of: fn(&LogFigures) -> u64| all.iter().map(of).sum::<u64>();
    let made: usize = all.iter().map(|load| load.made).sum();
    let (commits, new) = (sum(|load| load.commits), sum(|load| load.new_bytes));
    let share = ratio(sum(|load| load.growth), new);
    let mut text = match () {
        () if ratio(made, commits) > 0.5 => "made anew for each commit".to_owned(),
        () if share > 0.8 => "grows by what is written".to_owned(),
        () if share < 0.1 => "written in place, its size stays".to_owned(),
        () => format!("grows by {:.0} % of what is written, the rest in place", 100.0 * share),
    };
    let modes: BTreeSet<String> = all.iter().flat_map(|load| load.allocated.clone()).collect();
    if !modes.is_empty() {
        text.push_str(&format!("; allocated ahead by fallocate({})", listed(&modes)));
    }
    text
}

/// The most frequent sizes of all loads.
fn frequent(all: &[LogFigures], sizes: fn(&LogFigures) -> &Vec<u64>) -> String {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    all.iter().flat_map(sizes).for_each(|size| *counts.entry(*size).or_default() += 1);
    let sum = counts.values().sum::<usize>();
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(size, count)| (Reverse(*count), *size));
    let shown = counts.iter().take(FREQUENT).filter(|(_, count)| 100 * count >= sum);
    shown
        .map(|(size, count)| format!("{size} B {}", percent(*count, sum)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn others(all: &[LogFigures]) -> String {
    let commits: u64 = all.iter().map(|load| load.commits).sum();
    let names: BTreeSet<&String> = all.iter().flat_map(|load| load.others.keys()).collect();
    let count = |name: &String| all.iter().filter_map(|load| load.others.get(name)).sum::<usize>();
    let each = |name: &&String| {
        let per_commit = ratio(count(name), commits);
        (per_commit >= NOTABLE).then(|| format!("{name} {per_commit:.2}"))
    };
    names.iter().filter_map(each).collect::<Vec<_>>().join(", ")
}

fn row(it: &LogFigures) -> [String; 11] {
    let syncs = it.sync_count();
    let busiest = it.syncers.values().max().copied().unwrap_or_default();
    let threads = match it.syncers.len() {
        1 => "1".to_owned(),
        many => format!("{many}, the busiest {}", percent(busiest, syncs)),
    };
    [
        it.clients.to_string(),
        it.commits.to_string(),
        format!("{:.0}", ratio(it.commits, 1_u64) / it.seconds),
        format!("{:.2}", ratio(it.commits, syncs)),
        format!("{:.2}", ratio(it.sizes.len(), it.commits)),
        spread(&it.sizes),
        spread(&it.batches),
        format!("{:.0}", ratio(it.new_bytes, it.commits)),
        percent(it.rewrites, it.sizes.len()),
        threads,
        percent(it.overlapping, syncs),
    ]
}

/// `192 (192 to 400)`: the median, and the range if there is one.
fn spread(sorted: &[u64]) -> String {
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
        return "-".to_owned();
    };
    let median = sorted[sorted.len() / 2];
    if least == most { median.to_string() } else { format!("{median} ({least} to {most})") }
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.0} %", 100.0 * ratio(part, whole))
}

/// Counts of one trace, far below 2^53.
fn ratio(part: impl TryInto<u64>, whole: impl TryInto<u64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of one trace")]
    let number = |count: u64| count as f64;
    number(part.try_into().unwrap_or(0)) / number(whole.try_into().unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> LogFigures {
        LogFigures {
            clients: 8,
            commits: 16,
            seconds: 2.0,
            files: [("pg_wal/#".to_owned(), ["O_RDWR".to_owned()].into())].into(),
            sizes: vec![8192, 8192, 8192, 16384],
            alignment: 8192,
            new_bytes: 8192,
            rewrites: 3,
            syncs: [("fdatasync".to_owned(), 4)].into(),
            batches: vec![8192, 8192, 8192, 16384],
            syncers: [(1, 3), (2, 1)].into(),
            others: [("fsync of #".to_owned(), 8), ("fsync of rare".to_owned(), 0)].into(),
            ..LogFigures::default()
        }
    }

    #[test]
    fn a_row_says_how_many_commits_share_a_sync_and_who_syncs() {
        let text = section("X 1", "a put", "ext4", &[figures()]);
        let row = text.lines().last().unwrap();
        let cells: Vec<_> = row.split('|').map(str::trim).filter(|it| !it.is_empty()).collect();
        assert_eq!(
            cells,
            [
                "8",
                "16",
                "8",
                "4.00",
                "0.25",
                "8192 (8192 to 16384)",
                "8192 (8192 to 16384)",
                "512",
                "75 %",
                "2, the busiest 75 %",
                "0 %"
            ]
        );
        assert!(
            text.contains("- log: `pg_wal/#`\n- opened: `O_RDWR`\n- synced by: `fdatasync`\n"),
            "{text}"
        );
        assert!(text.contains("- file: written in place, its size stays\n"), "{text}");
        assert!(text.contains("- most frequent writes: 8192 B 75 %, 16384 B 25 %\n"), "{text}");
        assert!(text.contains("- other syncs per commit: fsync of # 0.50\n"), "{text}");
    }

    #[test]
    fn a_log_that_grows_and_one_that_is_made_anew_are_told_apart() {
        let grows = LogFigures { growth: 8192, ..figures() };
        assert_eq!(file(&[grows]), "grows by what is written");
        let half = LogFigures { growth: 4096, ..figures() };
        assert!(file(&[half]).starts_with("grows by 50 %"));
        let anew = LogFigures { made: 16, ..figures() };
        assert_eq!(file(&[anew]), "made anew for each commit");
    }
}
