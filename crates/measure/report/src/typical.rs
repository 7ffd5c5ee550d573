//! Typical storage as a document, and the place of a run's commits in it.
//!
//! All classes have a line each; those that were asked for have every published latency with its
//! source.

use durio_analyse::{BandPosition, MetLimit, PlacedClass, Placement};
use durio_judge::typical::{LatencyBand, TypicalClass, TypicalLimit, TypicalPoint, TypicalStorage};
use serde::Serialize;

use crate::Report;
use crate::document::{
    Cell, Column, DetailLevel, Document, LabelledFact, Section, Table, Tone, record, shown, words,
};
use crate::figures::{latency, location_name, precise, rate, rate_bare};

/// Name and version of the document.
const TYPICAL_SCHEMA: &str = "durio-typical-1";

const NO_SOURCE: &str = "no source was found";

/// Classes of storage, as `durio typical` shows them.
#[derive(Debug, Serialize)]
pub struct ShownTypical<'a> {
    schema: &'static str,
    /// When the sources were read.
    read_on: &'a str,
    classes: Vec<&'a TypicalClass>,
    limits: &'a [TypicalLimit],
    /// Each by itself, with its sources; else a line each.
    #[serde(skip)]
    whole: bool,
}

impl<'a> ShownTypical<'a> {
    /// All classes, each in a line.
    pub fn listed(storage: &'a TypicalStorage) -> Self {
        Self {
            schema: TYPICAL_SCHEMA,
            read_on: &storage.read_on,
            classes: storage.classes.iter().collect(),
            limits: &storage.limits,
            whole: false,
        }
    }

    /// Each of these with its sources.
    pub fn whole(storage: &'a TypicalStorage, classes: Vec<&'a TypicalClass>) -> Self {
        Self { classes, whole: true, ..Self::listed(storage) }
    }
}

impl Report for ShownTypical<'_> {
    fn document(&self) -> Document {
        let mut document = match self.whole {
            true => Document::new("", ""),
            false => {
                let title = "Typical storage; see the sources of a class with durio typical CLASS";
                Document::new("", title)
            }
        };
        match self.whole {
            true => self.classes.iter().for_each(|class| document.push(whole(class))),
            false => {
                document.push(listed(self));
                document.push(limits(self.limits));
            }
        }
        document.records = Table::records(COLUMNS, self.classes.iter().copied());
        document
    }
}

const COLUMNS: &[Column<TypicalClass>] = &[
    words(shown("class", |it| Cell::text(it.name.as_str()))),
    record("class", |it| Cell::text(it.id.as_str())),
    shown("durable write", |it| words_of(it.durable_write.map(latencies))),
    record("durable_write_min_ns", |it| least(it.durable_write)),
    record("durable_write_max_ns", |it| most(it.durable_write)),
    shown("writes/s", |it| words_of(it.durable_write.map(rates))),
    shown("random read", |it| words_of(it.random_read.map(latencies))),
    record("random_read_min_ns", |it| least(it.random_read)),
    record("random_read_max_ns", |it| most(it.random_read)),
];

fn words_of(text: Option<String>) -> Cell {
    text.map_or(Cell::Absent(NO_SOURCE), Cell::Text)
}

fn least(band: Option<LatencyBand>) -> Cell {
    Cell::of(band, |band| Cell::nanos(band.latency_ns_min))
}

fn most(band: Option<LatencyBand>) -> Cell {
    Cell::of(band, |band| Cell::nanos(band.latency_ns_max))
}

fn listed(it: &ShownTypical<'_>) -> Section {
    let mut section = Section::default();
    section.table(Table::shown(COLUMNS, it.classes.iter().copied()));
    section.note(format!("- : {NO_SOURCE}"));
    section.note(format!(
        "Each is the range of published means, medians and specifications of single devices, read on \
         {}. One operation is in flight: a write of 2 to 16 KiB that is durable when it returns \
         (writes/s: 1 divided by its latency), a read of 4 to 16 KiB. Reads of durio check are 32 in \
         flight, and take longer.",
        it.read_on
    ));
    section
}

fn limits(limits: &[TypicalLimit]) -> Section {
    let mut section = Section::new("Rates that a provider documents for any size of volume");
    for limit in limits {
        section.fact(&format!("{} IOPS", limit.iops), limit.of.as_str());
        limit.then.iter().for_each(|then| section.fact("", then.as_str()));
    }
    section
}

fn whole(it: &TypicalClass) -> Section {
    let mut section = Section::new(format!("{}: {}", it.id, it.name));
    for (label, band) in [("durable write", it.durable_write), ("random read", it.random_read)] {
        let text = band.map_or_else(
            || NO_SOURCE.to_owned(),
            |band| format!("{}; {} per second, one by one", latencies(band), rates(band)),
        );
        section.fact(label, text);
    }
    if !it.note.is_empty() {
        section.fact("note", it.note.as_str());
    }
    it.points.iter().for_each(|it| point(it, &mut section));
    section
}

fn point(it: &TypicalPoint, section: &mut Section) {
    let of = |what: &str, nanos: Option<u64>| nanos.map(|it| format!("{what} {}", latency(it)));
    let parts = [of("write", it.durable_write_ns), of("read", it.random_read_ns)];
    let label = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    section.fact(&label, format!("{}: {}", it.device, it.figure));
    let source = &it.source;
    let parts = [&source.publisher, &source.document, &source.date, &source.url];
    let parts: Vec<&str> = parts.into_iter().map(String::as_str).collect();
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let link = Some(source.url.clone()).filter(|url| !url.is_empty());
    let shown = LabelledFact { link, ..LabelledFact::new(Tone::Plain, "", text) };
    section.fact_at(DetailLevel::Summary, shown);
}

/// Where commits are among those of typical storage, in a line or two for each location; those of
/// the headline's location come first to the reader.
pub(crate) fn places(placements: &[Placement], headline: &str, section: &mut Section) {
    for it in placements {
        let level = match it.location == headline {
            true => DetailLevel::Summary,
            false => DetailLevel::Detail,
        };
        let place = match placements.len() {
            1 => String::new(),
            _ => format!("{}: ", location_name(&it.location)),
        };
        section.toned_at(level, Tone::Plain, "typical", format!("{place}{}", placed(it)));
        if let Some(limit) = &it.limit {
            section.toned_at(level, Tone::Plain, "", standing(limit));
        }
    }
}

/// The compared classes with the run among them, the fastest first.
pub(crate) fn scale(placements: &[Placement]) -> Section {
    let mut section = Section::detail("Commits among typical ones");
    for it in placements {
        let own = format!("p50 at {}", location_name(&it.location));
        let own = vec![
            Cell::Word(Tone::Strong, own),
            Cell::nanos(it.commit_latency_ns_p50),
            Cell::Rate(it.commits_per_second),
        ];
        let class = |class: &PlacedClass| {
            let band = band_of(class);
            let cells = [class.name.clone(), latencies(band), rates(band)].map(Cell::Text);
            (class.latency_ns_min, cells.into())
        };
        let mut rows: Vec<(u64, Vec<Cell>)> = it.among.iter().map(class).collect();
        rows.push((it.commit_latency_ns_p50, own));
        rows.sort_by_key(|(nanos, _)| *nanos);
        let table = Table::new(["class", "durable write", "writes/s"]);
        section.table(table.with(rows.into_iter().map(|(_, cells)| cells)));
    }
    section
}

const fn band_of(it: &PlacedClass) -> LatencyBand {
    let PlacedClass { latency_ns_min, latency_ns_max, .. } = it;
    LatencyBand { latency_ns_min: *latency_ns_min, latency_ns_max: *latency_ns_max }
}

/// The latencies of a class, as a legend has them.
pub(crate) fn band_words(it: &PlacedClass) -> String {
    latencies(band_of(it))
}

fn placed(it: &Placement) -> String {
    let band = band_of(&it.nearest);
    let class = format!("{} ({})", it.nearest.name, latencies(band));
    let among = match it.position {
        BandPosition::Within => {
            let also = it.also.iter().map(|name| format!(" or {name}")).collect::<String>();
            format!("as {class}{also}")
        }
        BandPosition::Faster => format!("faster than the nearest class, {class}"),
        BandPosition::Slower => format!("slower than the nearest class, {class}"),
    };
    let device = it
        .recognised
        .as_ref()
        .map_or_else(String::new, |disk| format!("; the device's model says {disk}"));
    let (p50, rate) = (latency(it.commit_latency_ns_p50), rate(it.commits_per_second));
    format!("p50 {p50}, {rate}: {among}{device}")
}

fn standing(it: &MetLimit) -> String {
    let then = it.then.as_ref().map_or_else(String::new, |then| format!("; {then}"));
    format!(
        "{} stands at {}: {} IOPS are {}. If the volume is one of these, a higher rate must be \
         bought, not tuned{then}",
        it.workload,
        rate(it.iops),
        it.limit_iops,
        it.of
    )
}

/// `1.33 to 2.8 ms`, `355 µs to 2.26 ms`, `10 ms`.
fn latencies(band: LatencyBand) -> String {
    range(&latency(band.latency_ns_min), &latency(band.latency_ns_max))
}

/// Operations per second, one after the other.
fn rates(band: LatencyBand) -> String {
    let per_second = |nanos: u64| rate_bare(1e9 / precise(nanos.max(1)));
    range(&per_second(band.latency_ns_max), &per_second(band.latency_ns_min))
}

/// From one to the other, with the unit that both have once.
pub(crate) fn range(low: &str, high: &str) -> String {
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    match (low == high, low.split_once(' ')) {
        (true, _) => low.to_owned(),
        (false, Some((number, own))) if unit(high).as_deref() == Some(own) => {
            format!("{number} to {high}")
        }
        (false, _) => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use durio_analyse::ThresholdSource;
    use durio_judge::typical::typical;

    use super::*;
    use crate::document::{Row, SectionBody};
    use crate::{Format, Options, write};

    fn written(format: Format, shown: &ShownTypical<'_>, width: usize) -> String {
        let mut bytes = Vec::new();
        let options = Options { width, ..Options::default() };
        write(format, shown, &options, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn all_classes_are_a_line_each_and_those_without_a_source_have_no_number() {
        let storage = typical().unwrap();
        let text = written(Format::Text, &ShownTypical::listed(storage), 100);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let cells = line[name.len()..].split("  ").map(str::trim);
            cells.filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("Amazon EBS gp3"), ["1.33 to 2.8 ms", "357 to 750", "-"]);
        assert_eq!(row("SATA SSD "), ["355 µs to 2.26 ms", "442 to 2.82 k", "-"]);
        assert_eq!(row("hard disk, 7,200 rpm"), ["10 ms", "100", "12.4 to 16.2 ms"]);
        assert_eq!(row("Azure local NVMe"), ["-", "-", "-"]);
        assert!(text.contains("3000 IOPS") && text.contains("no source was found"), "{text}");
        assert!(text.lines().count() <= 34, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn one_class_has_its_points_with_sources_and_dates() {
        let storage = typical().unwrap();
        let gp3 = storage.classes.iter().find(|class| class.id == "ebs-gp3").unwrap();
        let text = written(Format::Text, &ShownTypical::whole(storage, vec![gp3]), 100);
        for words in ["ebs-gp3: Amazon EBS gp3", "write 2.8 ms", "p50, fdatasync", "2026-06-25"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("https://github.com/hungchai/"), "{text}");
        assert!(!text.contains("SATA"), "{text}");
    }

    #[test]
    fn programs_get_nanoseconds() {
        let storage = typical().unwrap();
        let shown = ShownTypical::listed(storage);
        let csv = written(Format::Csv, &shown, 100);
        assert!(csv.contains("ebs-gp3,1333000,2800000,,"), "{csv}");
        let json: serde_json::Value =
            serde_json::from_str(&written(Format::Json, &shown, 100)).unwrap();
        assert_eq!(json["schema"], TYPICAL_SCHEMA);
        assert_eq!(json["classes"].as_array().unwrap().len(), storage.classes.len());
        assert_eq!(json["classes"][0]["durable_write"]["latency_ns_min"], 10_000_000);
    }

    fn placement(position: BandPosition, also: &[&str]) -> Placement {
        Placement {
            location: "/data".to_owned(),
            workload: "commit".to_owned(),
            commit_latency_ns_p50: 1_300_000,
            commits_per_second: 750.4,
            recognised: None,
            nearest: PlacedClass {
                id: "sata-ssd".to_owned(),
                name: "SATA SSD".to_owned(),
                latency_ns_min: 355_000,
                latency_ns_max: 2_260_000,
            },
            position,
            also: also.iter().map(|name| (*name).to_owned()).collect(),
            among: [("a", 50_000, 90_000), ("b", 900_000, 2_000_000), ("c", 9_000_000, 9_000_000)]
                .map(|(name, latency_ns_min, latency_ns_max)| PlacedClass {
                    id: name.to_owned(),
                    name: name.to_owned(),
                    latency_ns_min,
                    latency_ns_max,
                })
                .into(),
            limit: None,
        }
    }

    #[test]
    fn a_placement_names_the_class_its_band_and_what_was_measured() {
        let within = placed(&placement(BandPosition::Within, &["consumer NVMe SSD"]));
        assert_eq!(
            within,
            "p50 1.3 ms, 750 /s: as SATA SSD (355 µs to 2.26 ms) or consumer NVMe SSD"
        );
        let slower = placed(&placement(BandPosition::Slower, &[]));
        assert!(slower.contains("750 /s: slower than the nearest class, SATA SSD"), "{slower}");
        let faster = placed(&placement(BandPosition::Faster, &[]));
        assert!(faster.contains("750 /s: faster than the nearest class, SATA SSD"), "{faster}");
        let recognised = Some("Amazon EBS".to_owned());
        let cloud = placed(&Placement { recognised, ..placement(BandPosition::Within, &[]) });
        assert!(cloud.ends_with("; the device's model says Amazon EBS"), "{cloud}");
    }

    #[test]
    fn on_the_scale_the_run_stands_among_the_classes_in_the_order_of_latency() {
        let section = scale(&[placement(BandPosition::Within, &[])]);
        assert_eq!(section.level, DetailLevel::Detail);
        let SectionBody::Table(table) = &section.blocks[0].body else { panic!("{section:?}") };
        let shown = |row: &Row| row.cells.iter().map(Cell::shown).collect::<Vec<_>>().join(" | ");
        let rows: Vec<String> = table.rows.iter().map(shown).collect();
        let expected = [
            "a | 50 to 90 µs | 11.1 to 20 k",
            "b | 900 µs to 2 ms | 500 to 1.11 k",
            "p50 at /data | 1.3 ms | 750",
            "c | 9 ms | 111",
        ];
        assert_eq!(rows, expected);
        assert!(scale(&[]).blocks.is_empty());
    }

    #[test]
    fn of_several_locations_the_headline_s_is_in_the_summary_and_all_are_named() {
        let other =
            Placement { location: "/log".to_owned(), ..placement(BandPosition::Slower, &[]) };
        let both = [other, placement(BandPosition::Within, &[])];
        let mut section = Section::default();
        places(&both, "/data", &mut section);
        let shown = |level| -> Vec<String> {
            let facts = section.up_to(level).flat_map(|block| match &block.body {
                SectionBody::Facts(facts) => facts.as_slice(),
                _ => &[],
            });
            facts.map(|fact| fact.value.clone()).collect()
        };
        let summary = shown(DetailLevel::Summary);
        assert!(summary.len() == 1 && summary[0].starts_with("/data: p50 1.3 ms"), "{summary:?}");
        let all = shown(DetailLevel::Detail);
        assert!(all.len() == 2 && all[0].starts_with("/log: p50 1.3 ms"), "{all:?}");
    }

    #[test]
    fn a_rate_at_a_limit_says_that_more_is_bought() {
        let source = ThresholdSource {
            publisher: "AWS".to_owned(),
            document: "EBS".to_owned(),
            url: String::new(),
            kind: None,
        };
        let limit = MetLimit {
            workload: "lookup".to_owned(),
            iops: 2990.0,
            limit_iops: 3000,
            of: "included with every gp3 volume".to_owned(),
            then: Some("a gp2 volume bursts".to_owned()),
            source,
        };
        assert_eq!(
            standing(&limit),
            "lookup stands at 2.99 k/s: 3000 IOPS are included with every gp3 volume. If the volume is \
             one of these, a higher rate must be bought, not tuned; a gp2 volume bursts"
        );
    }

    #[test]
    fn a_unit_that_both_ends_have_is_said_once() {
        assert_eq!(range("1.33 ms", "2.8 ms"), "1.33 to 2.8 ms");
        assert_eq!(range("355 µs", "2.26 ms"), "355 µs to 2.26 ms");
        assert_eq!(range("7.3 k", "50 k"), "7.3 to 50 k");
        assert_eq!(range("442", "2.82 k"), "442 to 2.82 k");
        assert_eq!(range("357", "750"), "357 to 750");
        assert_eq!(range("10 ms", "10 ms"), "10 ms");
    }
}
