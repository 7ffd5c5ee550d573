//! What stands in the page, without a browser.

use durio_report::Format;

use crate::cells::plain;
use crate::{sample, written};

/// The most that can be sent around without a thought.
const BYTES_MAX: usize = 1 << 20;

/// Every value of an attribute of this name.
fn attributes<'text>(html: &'text str, name: &str) -> Vec<&'text str> {
    let begin = format!(" {name}=\"");
    html.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn signals_are_cards_with_their_evidence() {
    let html = written(Format::Html, &sample::complete());
    for part in [
        "<article class=\"card verdict bad\" id=\"cache-view-overridden\">",
        "unsafe-config</p>\n<h3>cache-view-overridden</h3>",
        "device&#39;s own = write back [/sys/class/block/vdb/cache_type]",
        "<span class=\"term\">do</span> echo ",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn a_preview_of_the_page_has_its_title_and_the_answer() {
    let findings = sample::two_locations();
    let html = written(Format::Html, &findings);
    let (head, _) = html.split_once("<style>").unwrap();
    let sentence = durio_judge::summary::of_run(&findings).sentence;
    let metas = head.lines().filter(|line| line.starts_with("<meta property")).map(plain);
    let metas: Vec<String> = metas.collect();
    let expected = [
        "<meta property=\"og:type\" content=\"website\">".to_owned(),
        "<meta property=\"og:title\" content=\"durio 0.1.0: /srv/db, /dev/vdb\">".to_owned(),
        format!("<meta property=\"og:description\" content=\"{sentence}\">"),
    ];
    assert_eq!(metas, expected);
    let description = format!("<meta name=\"description\" content=\"{sentence}\">");
    assert!(plain(head).contains(&description), "{head}");
    // A picture would have an address, which a page in a file has not.
    assert!(!head.contains("og:image"), "{head}");
}

#[test]
fn the_sections_are_in_order() {
    let html = written(Format::Html, &sample::two_locations());
    let order = [
        "<p class=\"brand\">durio 0.1.0: /srv/db, /dev/vdb</p>",
        "<p class=\"lead\">",
        "<h1><span class=\"verdict-word bad\"><span class=\"icon\" aria-hidden=\"true\">✗</span>Bad\
         <span class=\"quiet\">:</span></span> a power cut can lose acknowledged",
        "<p class=\"big\">7.12 k</p><p>durable commits per second (",
        "<p class=\"big\">236 µs</p><p>p99 commit latency</p>",
        "<figcaption>Durable commit by percentile at A and B</figcaption>",
        "rate over time",
        "<h2>Verdicts</h2>",
        "<h2>Side by side",
        "Latency over percentiles",
        "Rate and latency over time",
        "<h2>Write against sync</h2>",
        "<h2>Can its flush be trusted?</h2>",
        "<h2>Warnings</h2>",
        "<h2>Measured on</h2>",
        "<h2>How it was measured</h2>",
        "The exact plan",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|heading| html.find(heading).unwrap_or_else(|| panic!("{heading}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(html.contains("durio report /home/anna/.local/share/durio/runs/"));
}

#[test]
fn the_page_has_itself_as_markdown_and_no_path_of_this_machine_in_its_next_commands() {
    for findings in [sample::complete(), sample::hostile()] {
        let html = written(Format::Html, &findings);
        let (_, rest) = html.split_once("id=\"markdown\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        let copied: String = serde_json::from_str(json).unwrap();
        let shown =
            crate::written_with(Format::Markdown, &findings, &durio_report::Options::default());
        assert_eq!(copied, shown);
        assert!(!copied.contains("## Next") && !copied.contains("report: /"), "{copied}");
        assert!(
            html.contains("<button type=\"button\" id=\"copy\" hidden>Copy as Markdown</button>")
        );
        let (_, rest) = html.split_once("<h2>Next</h2>").unwrap();
        let (next, _) = rest.split_once("</section>").unwrap();
        assert!(next.contains("durio report RUN --verbose"), "{next}");
        assert!(!next.contains("/srv") && !next.contains("/home"), "{next}");
    }
}

#[test]
fn a_page_has_one_first_heading_and_a_name_for_each_picture_and_button() {
    for findings in [sample::complete(), sample::empty(), sample::two_locations()] {
        let html = written(Format::Html, &findings);
        assert_eq!(html.matches("<h1").count(), 1);
        assert!(html.contains("<html lang=\"en\">") && html.contains("<main>"));
        let pictures = html.matches("<svg ").count();
        assert_eq!(html.matches("<svg aria-label=\"").count(), pictures);
        assert!(!html.contains("aria-label=\"\"") && !html.contains("<th>"));
        assert!(attributes(&html, "onclick").is_empty());
    }
}

#[test]
fn the_policy_forbids_every_request() {
    let html = written(Format::Html, &sample::complete());
    assert!(html.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "));
}

#[test]
fn nothing_in_the_page_would_be_fetched() {
    for findings in [sample::complete(), sample::two_locations(), sample::hostile()] {
        let html = written(Format::Html, &findings);
        assert!(attributes(&html, "src").is_empty());
        assert!(!html.contains("url(") && !html.contains("@import"));
        assert!(!html.contains("<img") && !html.contains("<iframe"));
        // The icon lies in the page.
        assert_eq!(html.matches("<link").count(), 1);
        let links = html.matches("<a href=\"https://etcd.io/").count()
            + html.matches("<a href=\"#").count()
            + html.matches("<link rel=\"icon\" href=\"data:image/svg+xml,").count();
        assert_eq!(attributes(&html, "href").len(), links);
    }
}

#[test]
fn hostile_names_are_text() {
    let html = written(Format::Html, &sample::hostile());
    assert!(!html.contains("<script>alert") && !html.contains("javascript:"));
    assert!(!html.contains("<img") && html.contains("&#60;script&#62;alert(1)"));
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(html.matches("</script").count(), 3);
}

#[test]
fn a_word_stands_with_every_colour_of_a_verdict() {
    let html = written(Format::Html, &sample::complete());
    for word in [
        "words good\" data-label=\"verdict\"><span class=\"word\">fit",
        "bad\" data-label=\"verdict\"><span class=\"word\">unfit",
        "cannot tell",
    ] {
        assert!(html.contains(word), "{word}");
    }
    assert!(html.contains("postgresql, mysql, mongodb"));
}

#[test]
fn stalls_are_told_in_words_and_marked_in_the_chart() {
    let html = written(Format::Html, &sample::complete());
    assert!(html.contains("Of 60 intervals, 1 had no completion and 2 ran at less than half"));
    // Two stalls of five workloads, in both halves of the chart.
    let (_, body) = html.split_once("</style>").unwrap();
    assert_eq!(body.matches("fill=\"#D92D20\"").count(), 2 * 5 * 2);
    assert_eq!(body.matches("fill=\"#98A2B3\"").count(), 5 * 2);
}

#[test]
fn an_interval_that_is_cut_short_is_no_stall() {
    let bands = |cut_short: bool| {
        let mut findings = sample::complete();
        for interval in findings.workloads.iter_mut().flat_map(|workload| &mut workload.intervals) {
            interval.cut_short = cut_short && interval.rate <= 0.0;
        }
        let html = written(Format::Html, &findings);
        html.split_once("</style>").unwrap().1.matches("fill=\"#D92D20\"").count()
    };
    assert_eq!((bands(false), bands(true)), (2 * 5 * 2, 5 * 2));
}

#[test]
fn a_partial_run_has_its_banners_and_no_chart_without_points() {
    let html = written(Format::Html, &sample::partial());
    assert!(html.contains(
        "<strong>PARTIAL</strong> the record is incomplete: the run was killed, or is still running"
    ));
    assert!(html.contains("<strong>PROVISIONAL</strong> measured for 1 s"));
    assert!(html.contains("fewer than 100 commits") && html.contains("too few samples"));
    assert!(html.contains("id=\"chart-2\"") && !html.contains("id=\"chart-3\""));
}

#[test]
fn a_run_without_figures_is_still_a_page() {
    let html = written(Format::Html, &sample::empty());
    assert!(html.contains("nothing measured") && html.contains("<strong>ERROR</strong> fdatasync"));
}

#[test]
fn ten_workloads_of_three_thousand_intervals_fit_into_a_mebibyte() {
    let html = written(Format::Html, &sample::large());
    assert!(html.len() < BYTES_MAX, "{} bytes", html.len());
}

#[test]
fn the_values_for_the_script_are_json() {
    for findings in [sample::complete(), sample::hostile()] {
        let html = written(Format::Html, &findings);
        let (_, rest) = html.split_once("id=\"values\">").unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        let values: serde_json::Value = serde_json::from_str(json).unwrap();
        // Of each workload two, and the one of the answer.
        assert_eq!(values.as_object().unwrap().len(), 2 * findings.workloads.len() + 1);
    }
}

#[test]
fn a_scripted_target_has_no_location_and_says_so() {
    let mut findings = sample::complete();
    findings.workloads.iter_mut().for_each(|workload| workload.location.clear());
    assert!(written(Format::Html, &findings).contains("durio 0.1.0: no location</p>"));
    assert!(written(Format::Text, &findings).contains("\ndurio 0.1.0: no location\n"));
}

#[test]
fn every_fact_of_a_disk_is_in_the_page() {
    let html = written(Format::Html, &sample::complete());
    assert!(html.contains("wbt_lat_usec 75000"));
}
