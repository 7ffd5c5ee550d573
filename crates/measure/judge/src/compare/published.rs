//! Published results that durio ships as data, as tables of rate by load.
//!
//! The data is data/published-results.csv. Only the shapes of a run's rates are compared with it,
//! never absolute rates.

use durio_record::OperationName;
use durio_workload::{Pattern, Workload};
use serde::{Deserialize, Serialize};

use super::shape::{RatePoint, ShapeComparison, TOLERANCE, shape};
use durio_analyse::Findings;

const DATA: &str = include_str!("../../data/published-results.csv");

/// One row as published. Fields that the publication leaves out are empty.
#[derive(Debug, Deserialize)]
struct PublishedLine {
    source: String,
    stack: String,
    workload: String,
    block_size: String,
    jobs: String,
    iodepth: String,
    durable: String,
    read_iops: Option<f64>,
    write_iops: Option<f64>,
}

/// Rates of one kind of operation by load, all else equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedTable {
    /// The authors, and the year.
    pub source: String,
    /// The storage, in the publication's words.
    pub stack: String,
    /// The workload, in the publication's words.
    pub workload: String,
    /// Bytes per operation, in the publication's words.
    pub block_size: String,
    /// How I/O was submitted and made durable, in its words.
    pub method: String,
    /// Read or write.
    pub operation: OperationName,
    /// The rates; at least two levels.
    pub points: Vec<RatePoint>,
}

impl PublishedTable {
    /// All words that it can be found by.
    fn words(&self) -> String {
        format!("{} {} {} {}", self.source, self.stack, self.workload, self.block_size)
    }

    /// True if the workload has the pattern and the mix of this table.
    fn is_like(&self, workload: &Workload) -> bool {
        let words = self.workload.as_str();
        let kind = match words.split_whitespace().next() {
            Some("randread") => (Pattern::Random, 1000),
            Some("randwrite") => (Pattern::Random, 0),
            // A mix without its share of reads could be any: it is like no workload.
            Some("randrw") => match share(words) {
                Some(reads) => (Pattern::Random, reads),
                None => return false,
            },
            Some("seq") if words.contains("write") => (Pattern::Sequential, 0),
            Some("seq") if words.contains("read") => (Pattern::Sequential, 1000),
            _ => return false,
        };
        kind == (workload.pattern, workload.read_share.0)
    }
}

/// The share of reads of "randrw read70" or "randrw write30", in thousandths.
fn share(words: &str) -> Option<u16> {
    let percent = |text: &str| text.parse::<u16>().ok().filter(|it| *it <= 100);
    words.split_whitespace().find_map(|word| match word.strip_prefix("read") {
        Some(reads) => Some(percent(reads)? * 10),
        None => Some(1000 - percent(word.strip_prefix("write")?)? * 10),
    })
}

/// Every published table with two levels of load or more.
///
/// # Errors
/// If the data that this program was built with cannot be read: a test would have said so.
pub fn tables() -> Result<Vec<PublishedTable>, csv::Error> {
    let mut tables: Vec<PublishedTable> = Vec::new();
    for row in csv::Reader::from_reader(DATA.as_bytes()).deserialize() {
        let row: PublishedLine = row?;
        // Where a publication gives no jobs or depth, its rate has no place on the axis of load.
        let Some(level) = level(&row) else { continue };
        let rates = [(OperationName::Read, row.read_iops), (OperationName::Write, row.write_iops)];
        for (operation, rate) in rates {
            let Some(rate) = rate else { continue };
            let table = table(&row, operation, RatePoint { level, rate });
            let key = |it: &PublishedTable| (it.words(), it.method.clone(), it.operation);
            match tables.iter_mut().find(|it| key(it) == key(&table)) {
                Some(known) => known.points.extend(table.points),
                None => tables.push(table),
            }
        }
    }
    // A single level has no shape.
    tables.retain(|it| it.points.iter().any(|point| point.level != it.points[0].level));
    Ok(tables)
}

fn level(row: &PublishedLine) -> Option<u32> {
    row.jobs.parse::<u32>().ok()?.checked_mul(row.iodepth.parse().ok()?)
}

fn table(row: &PublishedLine, operation: OperationName, point: RatePoint) -> PublishedTable {
    PublishedTable {
        source: row.source.clone(),
        stack: row.stack.clone(),
        workload: row.workload.clone(),
        block_size: row.block_size.clone(),
        method: row.durable.clone(),
        operation,
        points: vec![point],
    }
}

/// The tables that have every word of `name`, in any case.
#[must_use]
pub fn named(tables: &[PublishedTable], name: &str) -> Vec<PublishedTable> {
    let wanted: Vec<String> = name.split_whitespace().map(str::to_lowercase).collect();
    let is_it = |table: &&PublishedTable| {
        let words = table.words().to_lowercase();
        wanted.iter().all(|word| words.contains(word))
    };
    tables.iter().filter(is_it).cloned().collect()
}

/// A run's ladder against a published one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgainstPublished {
    /// Where the ladder was measured.
    pub location: String,
    /// Bytes per operation.
    pub block_size_bytes: u64,
    pub table: PublishedTable,
    /// Level by level.
    pub shape: ShapeComparison,
}

/// Every ladder of the run (the same operation at a location, by load) against every table of the
/// same pattern and mix. Steps that did not run to their limit are left out.
#[must_use]
pub fn against(findings: &Findings, tables: &[PublishedTable]) -> Vec<AgainstPublished> {
    let mut found = Vec::new();
    for table in tables {
        for (location, block_size_bytes, points) in ladders(findings, table) {
            let shape = shape(&points, &table.points, TOLERANCE);
            let table = table.clone();
            found.push(AgainstPublished { location, block_size_bytes, table, shape });
        }
    }
    found
}

type PublishedLadder = (String, u64, Vec<RatePoint>);

fn ladders(findings: &Findings, table: &PublishedTable) -> Vec<PublishedLadder> {
    let mut ladders: Vec<PublishedLadder> = Vec::new();
    let steps = findings.workloads.iter().filter(|it| it.complete && table.is_like(&it.definition));
    for step in steps {
        let Some(operation) = step.operation(table.operation) else { continue };
        let level = step.effective.jobs.saturating_mul(step.effective.depth);
        let point = RatePoint { level, rate: operation.rate };
        let bytes = step.definition.block_size.get();
        let is_it = |it: &&mut PublishedLadder| it.0 == step.location && it.1 == bytes;
        match ladders.iter_mut().find(is_it) {
            Some(ladder) => ladder.2.push(point),
            None => ladders.push((step.location.clone(), bytes, vec![point])),
        }
    }
    ladders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_gives_the_published_ladder() {
        let tables = tables().unwrap();
        let found = named(&tables, "xinnor xiRAID RAID10 randread 4k");
        let of = |level| found[0].points.iter().find(|it| it.level == level).map(|it| it.rate);
        assert_eq!((of(1), of(16), of(192)), (Some(14_000.0), Some(216_000.0), Some(2_355_000.0)));
        assert!(tables.iter().all(|it| it.points.len() > 1 && it.points[0].rate > 0.0));
        assert!(named(&tables, "no such publication").is_empty());
    }

    #[test]
    fn mixes_are_read_from_either_side() {
        assert_eq!(share("randrw read70"), Some(700));
        assert_eq!(share("randrw write70"), Some(300));
        assert_eq!(share("randrw"), None);
        assert_eq!(share("randrw read999"), None);
    }

    #[test]
    fn a_table_is_like_workloads_of_its_pattern_and_its_share_of_reads() {
        use durio_workload::PerMille;
        let like = |words: &str, pattern, reads| {
            let table = PublishedTable {
                source: String::new(),
                stack: String::new(),
                workload: words.to_owned(),
                block_size: String::new(),
                method: String::new(),
                operation: OperationName::Read,
                points: Vec::new(),
            };
            let read_share = PerMille(reads);
            table.is_like(&Workload { pattern, read_share, ..Workload::default() })
        };
        use Pattern::{Random, Sequential};
        for (words, pattern, reads) in [
            ("randread", Random, 1000),
            ("randwrite", Random, 0),
            ("randrw read70", Random, 700),
            ("randrw write70", Random, 300),
            ("seq read", Sequential, 1000),
            ("seq write 16G total", Sequential, 0),
        ] {
            let other = if pattern == Random { Sequential } else { Random };
            let found = (like(words, pattern, reads), like(words, other, reads));
            assert_eq!(found, (true, false), "{words}");
            assert!(!like(words, pattern, if reads == 500 { 499 } else { 500 }), "{words}");
        }
        for words in ["", "randrw", "seq", "scan", "randrw read101"] {
            let any = [0, 500, 1000]
                .map(|reads| like(words, Random, reads) || like(words, Sequential, reads));
            assert_eq!(any, [false; 3], "{words}");
        }
        let shares =
            ["randrw read0", "randrw read100", "randrw read101", "randrw write100"].map(share);
        assert_eq!(shares, [Some(0), Some(1000), None, Some(0)]);
    }

    #[test]
    fn a_load_is_jobs_times_depth_and_one_level_has_no_shape() {
        let row = |jobs: &str, iodepth: &str| PublishedLine {
            source: "s".into(),
            stack: "t".into(),
            workload: "randread".into(),
            block_size: "4k".into(),
            jobs: jobs.into(),
            iodepth: iodepth.into(),
            durable: "no".into(),
            read_iops: Some(5.0),
            write_iops: None,
        };
        assert_eq!(level(&row("4", "8")), Some(32));
        assert_eq!(
            [level(&row("", "8")), level(&row("4", "")), level(&row("65536", "65536"))],
            [None; 3]
        );
        let point = RatePoint { level: 32, rate: 5.0 };
        let made = table(&row("4", "8"), OperationName::Read, point);
        assert_eq!((made.words(), made.method.as_str()), ("s t randread 4k".to_owned(), "no"));
        let all = tables().unwrap();
        let has_shape = |it: &PublishedTable| {
            let levels: std::collections::BTreeSet<_> =
                it.points.iter().map(|it| it.level).collect();
            levels.len() > 1
        };
        assert!(all.iter().all(has_shape));
        assert_eq!(all.len(), 13);
        assert_eq!(named(&all, "").len(), all.len());
    }
}
