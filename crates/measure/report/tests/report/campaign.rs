//! What a reader finds of a campaign.

use std::sync::LazyLock;

use durio_analyse::Findings;
use durio_report::{Format, Options};

use crate::{campaign_sample, written, written_with};

/// Run once: the null engine is quick, but not free.
pub(crate) static CAMPAIGN: LazyLock<Findings> = LazyLock::new(campaign_sample::campaign);

fn text() -> String {
    let options = Options { width: 160, verbose: true, ..Options::default() };
    written_with(Format::Text, &CAMPAIGN, &options)
}

#[test]
fn a_campaign_has_a_row_for_each_section_on_one_screen() {
    let text = written_with(Format::Text, &CAMPAIGN, &Options::default());
    assert!(text.lines().count() <= 50, "{text}");
    let row = text.lines().find(|line| line.starts_with("  depths ")).unwrap();
    assert!(row.contains("382 k") && row.contains("depth 256"), "{row}");
    assert!(text.contains("  search  p99 of the response at most 2 ms: met at"), "{text}");
}

/// The lines from a heading to the next one.
pub(crate) fn section<'text>(text: &'text str, heading: &str) -> &'text str {
    let begin = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading}\n{text}"));
    let rest = &text[begin + 1..];
    let ends = rest.match_indices("\n\n").find(|(at, _)| !rest[at + 2..].starts_with(' '));
    &rest[..ends.map_or(rest.len(), |(at, _)| at)]
}

#[test]
fn a_ladder_has_a_line_per_level_with_its_phase_and_what_limited_it() {
    let text = text();
    let depths = section(&text, "depths");
    let line = |label: &str| {
        let line = depths.lines().find(|line| line.contains(label)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(line("randread, depth 16 ").ends_with("linear depth offered"), "{depths}");
    assert!(line("randread, depth 256 ").ends_with("saturated device"), "{depths}");
    assert!(depths.contains("linear to depth 16, saturated from 64"), "{depths}");
    assert!(depths.contains("parallel units inside the storage: 29.8"), "{depths}");
    assert!(depths.contains("best    depth 64: 370 k/s at a mean of 173 µs"), "{depths}");
    let depths = depths.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(depths.contains("the device is busy 97 %"), "{depths}");
}

#[test]
fn what_is_odd_in_a_ladder_is_noted_with_it() {
    let mut odd = CAMPAIGN.clone();
    let sections = &mut odd.campaign.as_mut().unwrap().sections;
    let depths = sections.iter_mut().find(|section| section.name == "depths").unwrap();
    let ladder = depths.curves[1].ladder.as_mut().unwrap();
    ladder.notes = ["level 8: a shortfall", "level 32: impossible"].map(str::to_owned).to_vec();
    let options = Options { width: 160, verbose: true, ..Options::default() };
    let text = written_with(Format::Text, &odd, &options);
    let depths = section(&text, "depths");
    for note in ["level 8: a shortfall", "level 32: impossible"] {
        assert_eq!(depths.matches(note).count(), 1, "{depths}");
    }
}

#[test]
fn rates_that_were_not_reached_are_marked_and_give_no_knee() {
    let text = text();
    let rates = section(&text, "rates");
    assert!(rates.contains("64 k not"), "{rates}");
    assert!(rates.contains("from rate 64 k/s on the offered rate was not reached"), "{rates}");
    assert!(!rates.contains("  knee ") && !rates.contains("  best "), "{rates}");
    assert!(rates.contains("resp. p99"), "{rates}");
}

#[test]
fn the_lowest_of_several_rates_that_were_not_reached_is_named_in_the_text_and_in_json() {
    let mut maker = campaign_sample::Maker::new();
    campaign_sample::rates(&mut maker, &[4e3, 16e3, 64e3, 96e3, 128e3]);
    let findings = maker.findings();
    let options = Options { width: 160, verbose: true, ..Options::default() };
    let text = written_with(Format::Text, &findings, &options);
    let rates = section(&text, "rates");
    let words = rates.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence =
        "from rate 64 k/s on the offered rate was not reached: those points are left out";
    assert!(words.contains(sentence), "{rates}");
    assert_eq!(words.matches("on the offered rate was not reached").count(), 1, "{rates}");
    let json: serde_json::Value = serde_json::from_str(&written(Format::Json, &findings)).unwrap();
    let found = &json["campaign"]["sections"][0];
    let is_reached = |row: usize| found["rows"][row]["open_loop"]["keeps_up"].as_bool();
    assert_eq!([0, 1, 2, 3, 4].map(is_reached), [true, true, false, false, false].map(Some));
    let level = &found["curves"][0]["not_reached_from"];
    assert_eq!(level["value"].as_f64(), Some(64e3), "per second");
    assert_eq!(level["label"], "64 k/s");
    let html = written(Format::Html, &findings);
    assert!(html.contains("offered rate not reached (cross)"));
    assert!(!html.contains("best point (ring)"));
}

#[test]
fn every_kind_of_section_says_what_it_is_for() {
    let text = text();
    assert!(section(&text, "steady").contains("steady with round 9; rounds 5 to 9"), "{text}");
    assert!(section(&text, "steady").contains("means of the rounds 5 to 9"));
    assert!(section(&text, "map").contains("IOPS and p99 by jobs (across) and block size (down)"));
    assert!(section(&text, "beside").contains("beside: checkpoint"));
    assert!(section(&text, "beside").contains("medians of 3 repetitions"));
    assert!(section(&text, "long").contains("from 6 s on the rate is 400 /s in the median, 1 k/s"));
    assert!(section(&text, "search").contains("p99 of the response at most 2 ms: met at"));
    let declared = section(&text, "Declared: md");
    assert!(declared.contains("any 1 failed of 4, up to 2"), "{declared}");
    assert!(declared.contains("6 device writes: replicas 3 × RAID10 2"), "{declared}");
    assert!(declared.contains("50 k/s specified: -61."), "{declared}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_step_has_a_block_of_its_own() {
    for width in [80, 100, 160] {
        let text =
            written_with(Format::Text, &CAMPAIGN, &Options { width, colour: false, verbose: true });
        // Commands are not broken, so that they can be copied.
        let mut lines = text.lines().filter(|line| !line.starts_with("  durio "));
        let wide = lines.find(|line| line.chars().count() > width);
        assert_eq!(wide, None, "{width}");
        assert!(!text.contains("engine, 1 job × depth"), "{text}");
    }
}

#[test]
fn warnings_of_many_steps_are_one_warning() {
    let text = text();
    assert_eq!(text.matches("WARNING  left-state (long)").count(), 1);
    assert!(text.matches("WARNING  note").count() <= 1, "{text}");
    assert!(text.contains("offered-rate (randread)"));
    // A search has to go beyond the limit.
    assert!(!text.contains("round 4: 15"), "{text}");
}

#[test]
fn the_page_has_a_picture_for_each_question_and_a_word_beside_each_colour() {
    let html = written(Format::Html, &CAMPAIGN);
    let titles = [
        "randread: latency against IOPS",
        "randwrite: rate and latency by depth",
        "randread: IOPS and p99 by jobs (across) and block size (down)",
        "randwrite round by round",
        "p99 of the response at the rates tried",
        "randwrite over time",
    ];
    for title in titles {
        assert!(html.contains(&format!("<figcaption>{title}")), "{title}");
    }
    for word in ["best point (ring)", "offered rate not reached (cross)", "missed (cross)"] {
        assert!(html.contains(word), "{word}");
    }
    assert!(!html.contains("<h2>Figures</h2>") && !html.contains("No durable workload"));
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
}

#[test]
fn csv_says_where_each_line_is_in_the_campaign() {
    let text = written(Format::Csv, &CAMPAIGN);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let lines: Vec<std::collections::HashMap<String, String>> =
        reader.deserialize().map(Result::unwrap).collect();
    let of =
        |section: &str| lines.iter().filter(|line| line["section"] == section).collect::<Vec<_>>();
    assert_eq!(of("depths").len(), 18);
    assert_eq!(of("depths")[3]["levels"], "depth=8");
    assert_eq!(of("map")[5]["levels"], "jobs=4;block_size=16384");
    let beside: Vec<_> =
        of("beside").iter().map(|line| (&*line["repeat"], &*line["stream"])).collect();
    assert_eq!(beside, [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")]);
    let rounds: Vec<_> =
        of("search").iter().map(|line| line["round"].parse::<usize>().unwrap()).collect();
    assert_eq!(rounds, (0..rounds.len()).collect::<Vec<_>>());
    assert!(of("search").iter().all(|line| !line["offered_per_s"].is_empty()));
}

#[test]
fn the_document_reads_back_as_the_same_findings() {
    let read: Findings = serde_json::from_str(&written(Format::Json, &CAMPAIGN)).unwrap();
    assert!(read == *CAMPAIGN);
}

#[test]
fn a_campaign_that_was_stopped_at_once_is_still_written() {
    let mut findings = CAMPAIGN.clone();
    findings.workloads.clear();
    let campaign = findings.campaign.as_mut().unwrap();
    for section in &mut campaign.sections {
        section.rows.clear();
    }
    assert!(written(Format::Text, &findings).contains("nothing was measured"));
    for format in Format::ALL {
        assert!(!written(format, &findings).is_empty(), "{format}");
    }
}

#[test]
fn odd_figures_of_a_campaign_stop_no_format() {
    for odd in [0.0, f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let mut findings = CAMPAIGN.clone();
        let sections = &mut findings.campaign.as_mut().unwrap().sections;
        for row in sections.iter_mut().flat_map(|section| &mut section.rows) {
            (row.rate, row.iops, row.bandwidth) = (odd, odd, odd);
            for latency in row.service.iter_mut().chain(&mut row.response) {
                (latency.mean_ns, latency.p99_ns) = (odd, Some(u64::MAX));
            }
        }
        for found in sections.iter_mut().filter_map(|section| section.convergence.as_mut()) {
            found.series.fill(odd);
        }
        for format in [Format::Text, Format::Html, Format::Csv] {
            assert!(!written(format, &findings).is_empty(), "{format} with {odd}");
        }
    }
}
