//! Published results that durio ships as data (data/published-results.csv), as tables of rate by
//! load, and the shapes of two such tables: how a rate grows with the load, whatever the storage's
//! speed.
//!
//! A [`ShapeComparison`] compares ratios within each table, measured and published; absolute rates of
//! another machine's publication cannot be compared.

use durio_analyse::Findings;
use durio_record::OperationName;
use durio_workload::{Pattern, Workload};
use serde::{Deserialize, Serialize};

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
    /// The operations that the rates count.
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
    let percent = |text: &str| text.parse::<u16>().ok().filter(|percent| *percent <= 100);
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
            let key =
                |table: &PublishedTable| (table.words(), table.method.clone(), table.operation);
            match tables.iter_mut().find(|known| key(known) == key(&table)) {
                Some(known) => known.points.extend(table.points),
                None => tables.push(table),
            }
        }
    }
    // A single level has no shape.
    tables.retain(|table| table.points.iter().any(|point| point.level != table.points[0].level));
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
    pub block_size_bytes: u64,
    pub table: PublishedTable,
    pub shape: ShapeComparison,
}

/// Every ladder of the run (the same operation at a location, by load) against every table of the
/// same pattern and mix. Steps that did not run to their limit are left out.
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
    let steps = findings
        .workloads
        .iter()
        .filter(|workload| workload.complete && table.is_like(&workload.definition));
    for step in steps {
        let Some(operation) = step.operation(table.operation) else { continue };
        let level = step.effective.jobs.saturating_mul(step.effective.depth);
        let point = RatePoint { level, rate: operation.rate };
        let bytes = step.definition.block_size.get();
        let is_it = |ladder: &&mut PublishedLadder| ladder.0 == step.location && ladder.1 == bytes;
        match ladders.iter_mut().find(is_it) {
            Some(ladder) => ladder.2.push(point),
            None => ladders.push((step.location.clone(), bytes, vec![point])),
        }
    }
    ladders
}

/// A rate at a level of load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Operations in flight in total: jobs × depth.
    pub level: u32,
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
}

/// How a level compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeWord {
    /// The level that both are divided by.
    Reference,
    /// The same ratio, within the tolerance.
    Alike,
    /// A higher ratio than the published one.
    ScalesBetter,
    /// A lower ratio than the published one.
    ScalesWorse,
    /// No rate is published for it.
    OnlyMeasured,
    /// It was not measured.
    OnlyPublished,
}

impl ShapeWord {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Alike => "alike",
            Self::ScalesBetter => "scales better",
            Self::ScalesWorse => "scales worse",
            Self::OnlyMeasured => "not published",
            Self::OnlyPublished => "not measured",
        }
    }
}

/// One level of both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShapeLevel {
    /// Operations in flight in total.
    pub level: u32,
    /// Measured rate / that at the reference level.
    pub measured_ratio: Option<f64>,
    /// The same of the published rates.
    pub published_ratio: Option<f64>,
    /// measured / published ratio − 1.
    pub deviation: Option<f64>,
    pub word: ShapeWord,
}

/// Both tables, level by level, in rising order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShapeComparison {
    /// The lowest level that both have; `None` if they share no level, and then there are no
    /// ratios.
    pub reference_level: Option<u32>,
    pub levels: Vec<ShapeLevel>,
}

impl ShapeComparison {
    /// True if both tables share at least one level other than the reference.
    pub fn is_any_compared(&self) -> bool {
        self.levels
            .iter()
            .any(|level| level.deviation.is_some() && level.word != ShapeWord::Reference)
    }
}

/// Ratios that deviate by less are alike: publications round to two or three digits.
pub const TOLERANCE: f64 = 0.10;

/// Sets the shapes of two tables against each other. Rates that are not positive are passed over;
/// of several rates at one level the first counts.
pub fn shape(measured: &[RatePoint], published: &[RatePoint], tolerance: f64) -> ShapeComparison {
    let all = measured.iter().chain(published).filter(|point| point.rate > 0.0);
    let mut levels: Vec<u32> = all.map(|point| point.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let rate = |points: &[RatePoint], level| {
        points.iter().find(|point| point.level == level && point.rate > 0.0).map(|point| point.rate)
    };
    let of = |level| (rate(measured, level), rate(published, level));
    // The lowest: with the least load a rate is little more than one over the latency, so that
    // ratios to it show how the storage scales.
    let reference = levels.iter().copied().find(|&level| matches!(of(level), (Some(_), Some(_))));
    let base = reference.map(of);
    let ratio = |rate: Option<f64>, base: Option<f64>| Some(rate? / base?);
    let one = |&level: &u32| {
        let (own, theirs) = of(level);
        let measured_ratio = ratio(own, base.and_then(|rates| rates.0));
        let published_ratio = ratio(theirs, base.and_then(|rates| rates.1));
        let deviation = ratio(measured_ratio, published_ratio).map(|ratio| ratio - 1.0);
        let word = match (own.is_some(), theirs.is_some(), deviation) {
            _ if Some(level) == reference => ShapeWord::Reference,
            (true, true, Some(deviation)) if deviation > tolerance => ShapeWord::ScalesBetter,
            (true, true, Some(deviation)) if deviation < -tolerance => ShapeWord::ScalesWorse,
            (true, true, _) => ShapeWord::Alike,
            (true, false, _) => ShapeWord::OnlyMeasured,
            (false, ..) => ShapeWord::OnlyPublished,
        };
        ShapeLevel { level, measured_ratio, published_ratio, deviation, word }
    };
    ShapeComparison { reference_level: reference, levels: levels.iter().map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_gives_the_published_ladder() {
        let tables = tables().unwrap();
        let found = named(&tables, "xinnor xiRAID RAID10 randread 4k");
        let of = |level| {
            found[0].points.iter().find(|point| point.level == level).map(|point| point.rate)
        };
        assert_eq!((of(1), of(16), of(192)), (Some(14_000.0), Some(216_000.0), Some(2_355_000.0)));
        assert!(tables.iter().all(|table| table.points.len() > 1 && table.points[0].rate > 0.0));
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
        let has_shape = |table: &PublishedTable| {
            let levels: std::collections::BTreeSet<_> =
                table.points.iter().map(|point| point.level).collect();
            levels.len() > 1
        };
        assert!(all.iter().all(has_shape));
        assert_eq!(all.len(), 13);
        assert_eq!(named(&all, "").len(), all.len());
    }

    fn points(table: &[(u32, f64)]) -> Vec<RatePoint> {
        table.iter().map(|&(level, rate)| RatePoint { level, rate }).collect()
    }

    #[test]
    fn a_slower_storage_of_the_same_shape_is_alike() {
        let published = points(&[(1, 14_000.0), (4, 56_800.0), (16, 216_000.0)]);
        let own: Vec<_> =
            published.iter().map(|point| RatePoint { rate: point.rate / 7.0, ..*point }).collect();
        let found = shape(&own, &published, TOLERANCE);
        let words: Vec<_> = found.levels.iter().map(|level| level.word).collect();
        assert_eq!(words, [ShapeWord::Reference, ShapeWord::Alike, ShapeWord::Alike]);
        assert!((found.levels[1].published_ratio.unwrap() - 56.8 / 14.0).abs() < 1e-9);
        assert!(found.is_any_compared());
    }

    #[test]
    fn a_knee_is_seen_where_it_is() {
        let published = points(&[(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)]);
        let own = points(&[(2, 200.0), (4, 300.0), (8, 900.0), (16, 900.0)]);
        let found = shape(&own, &published, TOLERANCE);
        assert_eq!(found.reference_level, Some(2));
        let words: Vec<_> = found.levels.iter().map(|level| (level.level, level.word)).collect();
        use ShapeWord::*;
        let expected = [
            (1, OnlyPublished),
            (2, Reference),
            (4, ScalesWorse),
            (8, ScalesBetter),
            (16, OnlyMeasured),
        ];
        assert_eq!(words, expected);
        assert!((found.levels[2].deviation.unwrap() + 0.25).abs() < 1e-9);
    }

    #[test]
    fn nothing_in_common_gives_no_ratio() {
        for (own, theirs) in [(vec![], vec![]), (points(&[(1, 5.0)]), points(&[(2, 5.0)]))] {
            let found = shape(&own, &theirs, TOLERANCE);
            assert_eq!(found.reference_level, None);
            assert!(!found.is_any_compared());
        }
        let found = shape(&points(&[(1, 0.0)]), &points(&[(1, f64::NAN)]), TOLERANCE);
        assert!(found.levels.is_empty());
    }

    #[test]
    fn a_ratio_is_alike_up_to_the_tolerance_on_both_sides() {
        let word = |rate: f64| {
            let published = points(&[(1, 10.0), (2, 20.0)]);
            shape(&points(&[(1, 10.0), (2, rate)]), &published, 0.25).levels[1].word
        };
        assert_eq!((word(25.0), word(15.0)), (ShapeWord::Alike, ShapeWord::Alike));
        assert_eq!((word(25.1), word(14.9)), (ShapeWord::ScalesBetter, ShapeWord::ScalesWorse));
        assert!((TOLERANCE - 0.10).abs() < 1e-12);
        use ShapeWord::{Alike, OnlyMeasured, OnlyPublished, Reference, ScalesBetter, ScalesWorse};
        let words = [Reference, Alike, ScalesBetter, ScalesWorse, OnlyMeasured, OnlyPublished];
        let said = words.map(ShapeWord::words);
        let expected = [
            "reference",
            "alike",
            "scales better",
            "scales worse",
            "not published",
            "not measured",
        ];
        assert_eq!(said, expected);
        // A rate of zero is none.
        let found = shape(&points(&[(1, 10.0), (2, 0.0)]), &points(&[(1, 5.0), (2, 9.0)]), 0.25);
        assert_eq!((found.levels[1].word, found.levels[1].measured_ratio), (OnlyPublished, None));
        // The reference alone compares nothing.
        let one = points(&[(1, 10.0)]);
        assert!(!shape(&one, &one, 0.25).is_any_compared());
    }
}
