//! Values of each type and their errors; and that docs/formats agrees with the code.

use durio_base::{Bytes, Nanos};
use durio_plan::{Goal, Placement};
use durio_workload::{PerMille, Skew, SyncMethod};

use super::value::{Amount, KeyedValue, SpecTime, Time};
use super::{Field, ReferenceKey, SpecText, TableItem, Texts};
use crate::SpecError;
use crate::campaign::value::{Mix, Regions};

/// What `value` is as a `T`.
pub(crate) fn read<T: KeyedValue>(value: &str) -> Result<T, String> {
    read_by(value, T::read)
}

/// The same for a field.
pub(crate) fn read_field<T: Field>(value: &str) -> Result<T, String> {
    read_by(value, T::read)
}

fn read_by<T>(
    value: &str,
    read: impl Fn(TableItem<'_>) -> Result<T, SpecError>,
) -> Result<T, String> {
    let text = format!("key = {value}");
    let source = SpecText { name: "x", text: &text };
    let table = source.parse("a spec").map_err(|error| error.to_string())?;
    let value = table.get("key").unwrap();
    read(TableItem { source, key: "key", value }).map_err(|error| error.to_string())
}

fn text<T: KeyedValue>(text: &str) -> Result<T, String> {
    read(&format!("\"{text}\""))
}

#[test]
fn shares_and_amounts_are_exact() {
    assert_eq!(text("70%"), Ok(PerMille(700)));
    assert_eq!(text("99.5%"), Ok(PerMille(995)));
    for wrong in ["70", "101%", "-1%", "99.55%", "%", "x%", "1e2%"] {
        assert!(text::<PerMille>(wrong).is_err(), "{wrong}");
    }
    assert_eq!(text("200%"), Ok(Amount::Share(2000)));
    let whole = Bytes::new(u64::MAX);
    assert_eq!(Amount::Share(500).of(whole).get(), u64::MAX / 2);
    assert_eq!(Amount::Share(9_999_999).of(whole).get(), u64::MAX);
}

#[test]
fn sizes_and_times_need_their_unit() {
    assert_eq!(text("4KiB"), Ok(Bytes::from_kib(4)));
    assert_eq!(text("4kB"), Ok(Bytes::new(4000)));
    assert_eq!(text("4KB"), Ok(Bytes::from_kib(4)));
    assert_eq!(text("1.5s"), Ok::<Time, _>(SpecTime(Nanos::from_millis(1500))));
    assert!(text::<Bytes>("4096").unwrap_err().contains("unit"));
    assert!(text::<Time>("60 parsecs").is_err());
    assert!(read::<Bytes>("4096").unwrap_err().contains("4KiB"));
    assert!(read::<Time>("60").unwrap_err().contains("60s"));
}

#[test]
fn what_is_no_value_of_the_type_is_refused_with_its_place() {
    let number = "99999999999999999999999999999999999999999";
    assert!(read::<u32>(number).unwrap_err().contains("x:1:7: key: a number that is too large"));
    assert!(read::<u32>("-1").unwrap_err().contains("-1 is not between 0 and"));
    assert!(read::<f64>("nan").unwrap_err().contains("expected a number of 0 or more"));
    assert!(read::<bool>("\"true\"").unwrap_err().contains("expected true or false"));
    assert!(read::<String>("2000-01-01").unwrap_err().contains("a date"));
    assert!(read::<Texts>("[\"a\", 1]").unwrap_err().contains("x:1:13: key: expected a text"));
}

#[test]
fn skews_regions_placements_and_goals_are_read() {
    assert_eq!(text("zipf:0.99"), Ok(Skew::Zipf { theta_per_mille: 990 }));
    assert_eq!(text("pareto:0.2"), Ok(Skew::Pareto { h_per_mille: 200 }));
    assert_eq!(text("normal:12.5%"), Ok(Skew::Normal { deviation_per_mille: 125 }));
    let Ok(Skew::Zones { zones }) = text("zones:70%/20%,30%/80%") else { panic!("zones") };
    let zones: Vec<_> = zones.iter().map(|zone| (zone.accesses.0, zone.size.0)).collect();
    assert_eq!(zones, [(700, 200), (300, 800)], "accesses before sizes");
    assert_eq!(text("offset:12%"), Ok(Regions::OffsetEach(Amount::Share(120))));
    assert_eq!(text("offset:3GiB"), Ok(Regions::OffsetEach(Amount::Bytes(Bytes::from_gib(3)))));
    for (word, region) in [
        ("shared", Regions::Shared),
        ("share-each", Regions::ShareEach),
        ("offset:spread", Regions::Spread),
    ] {
        assert_eq!(text(word), Ok(region), "{word}");
    }
    assert_eq!(text("cpus:0-1,8"), Ok(Placement::Cpus(vec![0, 1, 8])));
    assert_eq!(text("cpus:8191"), Ok(Placement::Cpus(vec![8191])));
    for (words, placement) in [
        ("device-node", Placement::DeviceNode),
        ("anywhere", Placement::Anywhere),
        ("node:3", Placement::Node(3)),
    ] {
        assert_eq!(text(words), Ok(placement), "{words}");
    }
    let goal = Goal { percentile: 99.9, latency: Nanos::from_millis(10) };
    assert_eq!(text("p99.9 <= 10ms"), Ok(goal));
    for wrong in ["zipf", "zones:80%"] {
        assert!(text::<Skew>(wrong).is_err(), "{wrong}");
    }
    assert!(text::<Regions>("offset:").is_err());
    for wrong in ["cpus:3-1", "cpus:0-4294967295", "cpus:8192", "node:", "nodes:1"] {
        assert!(text::<Placement>(wrong).is_err(), "{wrong}");
    }
    let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(1) };
    for words in ["p99 < 1ms", "p99<=1ms", "p99=1ms"] {
        assert_eq!(text(words), Ok(goal), "{words}");
    }
    for wrong in ["p100 <= 1ms", "p0 < 1ms", "p99 > 1ms", "p99 < 1"] {
        assert!(text::<Goal>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_mix_is_refused_at_the_size_that_is_wrong() {
    assert!(read::<Mix>("3").unwrap_err().contains("expected a table"));
    assert!(read::<Mix>("{ \"4KiB\" = 1001 }").unwrap_err().contains("x:1:18: key: expected"));
}

#[test]
fn words_that_are_nearly_right_are_suggested() {
    let error = text::<SyncMethod>("odsync").unwrap_err();
    assert!(error.contains("did you mean 'o_dsync'?"), "{error}");
}

/// Compares the schema and the reference in docs/formats with what the code says, and that every key
/// is explained; `DURIO_TEST_REWRITE=1` writes them.
pub(crate) fn check_reference<H>(
    file: &str,
    schema: &str,
    reference: &str,
    sections: &[(H, Vec<ReferenceKey>)],
) {
    let compare = |file: &str, expected: &dyn Fn(&str) -> String| {
        let path = format!("{}/../../../docs/formats/{file}", env!("CARGO_MANIFEST_DIR"));
        let now = std::fs::read_to_string(&path).unwrap_or_default();
        if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
            std::fs::write(&path, expected(&now)).unwrap();
        } else {
            let is_same = now == expected(&now);
            assert!(is_same, "{path} is behind the code; DURIO_TEST_REWRITE=1 writes it");
        }
    };
    compare(&format!("{file}.schema.json"), &|_| schema.to_owned());
    compare(&format!("{file}.md"), &|now| {
        let (before, _) = now.split_once("\n## Every key\n").unwrap();
        format!("{before}\n## Every key\n{reference}")
    });
    for key in sections.iter().flat_map(|(_, keys)| keys) {
        assert!(key.help.ends_with('.') && key.help.len() > 10, "{}", key.name);
    }
}
