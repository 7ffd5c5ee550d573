//! The first screen of a page: the curve of the commit among typical storage.

use durio_analyse::{BandPosition, Findings, PlacedClass, Placement};
use durio_record::OperationName;
use durio_report::Format;

use crate::cells::chart_texts;
use crate::{sample, written};

const TITLE: &str = "Durable commit by percentile, compared with typical storage";

fn class(name: &str, latency_ns_min: u64, latency_ns_max: u64) -> PlacedClass {
    PlacedClass { id: name.to_lowercase(), name: name.to_owned(), latency_ns_min, latency_ns_max }
}

/// A check whose commits of 130 µs in the median are among five classes.
pub(crate) fn placed() -> Findings {
    let nearest = class("PLP", 20_000, 137_000);
    let among = vec![
        nearest.clone(),
        class("SATA PLP", 39_000, 59_000),
        class("SATA", 355_000, 2_260_000),
        class("NVMe", 999_000, 6_944_000),
        class("Disk", 10_000_000, 10_000_000),
    ];
    let mut findings = sample::complete();
    let headline = findings.headline.as_ref().unwrap();
    findings.placements = vec![Placement {
        location: headline.location.clone(),
        workload: headline.workload.clone(),
        commit_latency_ns_p50: 130_000,
        commits_per_second: headline.durable_commits_per_second,
        recognised: None,
        nearest,
        position: BandPosition::Within,
        also: Vec::new(),
        among,
        limit: None,
    }];
    findings
}

/// The page above its first section.
fn first_screen(findings: &Findings) -> String {
    let html = written(Format::Html, findings);
    html.split_once("<section").unwrap().0.to_owned()
}

#[test]
fn the_curve_is_drawn_over_the_bands_of_the_four_nearest_classes() {
    let first = first_screen(&placed());
    assert!(first.contains(&format!("<figcaption>{TITLE}</figcaption>")), "{first}");
    let names: Vec<&str> = first
        .split("<span class=\"key ")
        .skip(1)
        .map(|key| key.split_once("\">").unwrap().1.split("</span>").next().unwrap())
        .collect();
    let expected = [
        "durable commit",
        "PLP (20 to 137 µs)",
        "SATA PLP (39 to 59 µs)",
        "SATA (355 µs to 2.26 ms)",
        "NVMe (999 µs to 6.94 ms)",
    ];
    assert_eq!(names, expected);
    let bands = first.matches(" opacity=\"0.25\"").count();
    assert_eq!(bands, 4, "{first}");
}

#[test]
fn the_percentiles_that_databases_are_judged_by_are_named_on_the_curve() {
    let findings = placed();
    let html = written(Format::Html, &findings);
    let texts: Vec<String> = chart_texts(&html, TITLE).into_iter().map(|text| text.2).collect();
    let p99 = texts.iter().find(|text| text.starts_with("p99 ")).unwrap();
    assert_eq!(p99, "p99 236 µs");
    assert!(texts.iter().any(|text| text.starts_with("p50 ")), "{texts:?}");
    // Axes: title, and percentiles as marks.
    assert!(html.contains(">latency (log scale)</text>") && html.contains(">percentile</text>"));
    assert!(texts.contains(&"90 %".to_owned()), "{texts:?}");
}

#[test]
fn commits_at_two_places_are_two_curves_in_one_chart_that_differ_without_their_colours() {
    let keys = |first: &str| -> Vec<String> {
        let keys = first.split("<span class=\"key ").skip(1);
        keys.map(|key| key.split("</span>").next().unwrap().to_owned()).collect()
    };
    let findings = sample::two_locations();
    let first = first_screen(&findings);
    let title = "Durable commit by percentile at A and B";
    assert!(first.contains(&format!("<figcaption>{title}</figcaption>")), "{first}");
    let expected = [
        "first\">durable commit at A".to_owned(),
        "second dashes\">durable commit at B".to_owned(),
    ];
    assert_eq!(keys(&first), expected);
    let line = |colour: &str| {
        let tag =
            first.split(&format!("<polyline fill=\"none\" stroke=\"{colour}\"")).nth(1).unwrap();
        tag.split('>').next().unwrap().contains("stroke-dasharray=\"16 10\"")
    };
    assert_eq!([line("#2563EB"), line("#C26A0A")], [false, true]);
    let texts = chart_texts(&first, title).into_iter().map(|text| text.2);
    let p99: Vec<String> = texts.filter(|text| text.contains("p99 ")).collect();
    assert!(p99.iter().any(|text| text.starts_with("A p99 ")), "{p99:?}");

    // The bands of the first place leave the second line its colour.
    let placements = placed().placements;
    let first = first_screen(&Findings { placements, ..findings.clone() });
    let expected = [
        "first\">durable commit at A",
        "second dashes\">durable commit at B",
        "third\">PLP (20 to 137 µs)",
        "fourth\">SATA PLP (39 to 59 µs)",
        "shade\">SATA (355 µs to 2.26 ms)",
    ];
    assert_eq!(keys(&first), expected);

    // A place without commits has no curve, and no line is broken then.
    let mut findings = findings;
    findings.workloads.retain(|workload| {
        workload.location == "/srv/db"
            || workload.operations.iter().all(|it| it.operation != OperationName::Commit)
    });
    let first = first_screen(&findings);
    assert_eq!(keys(&first), ["first\">durable commit at A"]);
    assert!(!first.contains("stroke-dasharray="), "{first}");
}

#[test]
fn the_badge_and_the_results_come_once_and_above_every_doubt() {
    let first = first_screen(&placed());
    let order = ["class=\"brand\"", "class=\"verdict-word bad\"", "class=\"big\"", "<figure"];
    let places: Vec<usize> = order.iter().map(|part| first.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(!first.contains("class=\"banner"), "{first}");
    let html = written(Format::Html, &placed());
    assert_eq!(html.matches("class=\"big\"").count(), 2);
    // Without commits there is no curve, and the page begins with its sections.
    assert!(!first_screen(&sample::empty()).contains("<figure"));
}
