//! Comparisons in every format: what a reader finds in them.

use durio_analyse::CurvePoint;
use durio_analyse::RunState;
use durio_judge::advise::{PROOF_SCHEMA, RuleProof, SwitchedSetting};
use durio_judge::compare::published::AgainstPublished;
use durio_judge::compare::published::{RatePoint, TOLERANCE, shape};
use durio_judge::compare::{
    COMPARE_SCHEMA, CompareAnswer, CompareSettings, Comparison, Difference, FigureComparison,
    FigureName, Gate, Method, Pair, PairAnswer, RunFacts, SideFacts, SideWord, StepComparison,
    published,
};
use durio_record::OperationName;
use durio_report::{Format, Options, ShownShapes, write};

use crate::cells::{bar_widths, bars, grids, in_full};
use crate::sample::HOSTILE;

fn written(format: Format, comparison: &Comparison) -> String {
    let mut out = Vec::new();
    write(format, comparison, &Options { verbose: true, ..Options::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn side(label: &str, source: &str) -> SideFacts {
    let run = RunFacts {
        run: format!("run-{label}"),
        run_folder: source.into(),
        started: "2026-11-21T10:09:00Z".into(),
        state: RunState::Complete,
    };
    SideFacts { label: label.into(), source: source.into(), runs: vec![run] }
}

const SENTENCE: &str = "B is 0.91 × A (0.89 to 0.93), -9.0 %: 6.48 k against 7.12 k commits/s";
const COMMAND: &str = "durio compare --interleave a.toml b.toml --pairs 12 --fail-over 5% -- \
                       --target /a/path/that/is/not/broken";

fn answer() -> CompareAnswer {
    let pair = PairAnswer {
        baseline: "A".into(),
        other: "B".into(),
        unit: "commits/s".into(),
        rates: [7_120.0, 6_480.0],
        ratio: 0.91,
        interval: Some([0.89, 0.93]),
        word: SideWord::Slower,
        reason: None,
    };
    CompareAnswer { pairs: vec![pair], runs_needed: Some(12), command: Some(COMMAND.into()) }
}

const REASON: &str = "the repeats scatter by 4.2 %, a change of 9.3 % could be seen";

pub(crate) fn figure(figure: FigureName, values: [f64; 2], word: SideWord) -> FigureComparison {
    let effect = values[1] / values[0] - 1.0;
    FigureComparison {
        figure,
        baseline: Some(values[0]),
        other: Some(values[1]),
        effect: Some(effect),
        interval: Some([effect - 0.021, effect + 0.021]),
        p_worse: Some(0.01),
        worse_at_most: Some(0.11),
        method: Some(Method::Blocks),
        repeats_scatter: Some(0.042),
        visible: Some(0.093),
        word,
        reason: (word == SideWord::Undecided).then(|| REASON.into()),
    }
}

fn curve(factor: u64) -> Vec<CurvePoint> {
    let point = |step: u32| CurvePoint {
        quantile: 1.0 - 10_f64.powf(-f64::from(step) / 16.0),
        latency_ns: factor * (100_000 + u64::from(step * step) * 900),
    };
    (0..60).map(point).collect()
}

pub(crate) fn step(name: &str) -> StepComparison {
    StepComparison {
        name: name.into(),
        locations: ["/srv/db".into(), "/srv/db".into()],
        target: "log".into(),
        repeats: [1, 1],
        different_workload: true,
        differences: vec![Difference {
            what: "depth".into(),
            baseline: "1".into(),
            other: "4".into(),
        }],
        not_comparable: Vec::new(),
        cautions: Vec::new(),
        headline: OperationName::Commit,
        figures: vec![
            figure(FigureName::Rate, [7_120.0, 6_480.0], SideWord::Slower),
            figure(FigureName::P50, [140_000.0, 120_000.0], SideWord::Faster),
            figure(FigureName::P99, [412_000.0, 415_000.0], SideWord::Undecided),
        ],
        curves: [vec![curve(1)], vec![curve(2), curve(3)]],
        rates: Default::default(),
    }
}

pub(crate) fn comparison(steps: Vec<StepComparison>) -> Comparison {
    let pair = Pair {
        baseline: "A".into(),
        other: "B".into(),
        remarks: vec!["run x is on both sides".into()],
        environment: vec![Difference {
            what: "kernel".into(),
            baseline: "6.1.0".into(),
            other: "6.12.3".into(),
        }],
        steps,
        only_baseline: vec!["scan at /srv/db".into()],
        only_other: Vec::new(),
    };
    Comparison {
        schema: COMPARE_SCHEMA.into(),
        settings: CompareSettings { fail_over: Some(0.05), ..CompareSettings::default() },
        resamples: 1000,
        sides: vec![side("A", "before"), side("B", "after")],
        answer: answer(),
        pairs: vec![pair],
        gate: Some(Gate {
            regressions: vec!["B against A: commit: rate worse by 9.0 %".into()],
            undecided: vec!["scan is missing in B".into()],
            excluded: vec!["B against A: scan: p99 worse by 2.0 % at most".into()],
            repeats_needed: Some(12),
        }),
    }
}

#[test]
fn the_terminal_says_what_differs_and_by_how_much() {
    let text = written(Format::Text, &comparison(vec![step("commit")]));
    for part in [
        "kernel 6.1.0 → 6.12.3",
        "DIFFERENT WORKLOADS: depth 1 → 4",
        "1 slower, 1 undecided",
        "commit p99: undecided: the repeats scatter by 4.2 %, a change of 9.3 % could be seen",
        "-9.0 %",
        "-11.1 % to -6.9 %",
        "only A",
        "WORSE",
        "undecided scan is missing in B",
        "ok B against A: scan: p99 worse by 2.0 % at most",
        "About 12 runs of each side would decide.",
        "seed 1",
        "5 or more per side",
        "The margin is 5.0 % (--threshold)",
    ] {
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(part), "{part} in {text}");
    }
    assert!(text.starts_with(&format!("{SENTENCE}. Regression of more than 5 %")), "{text}");
    // A command that is broken over lines cannot be copied.
    let others = || text.lines().filter(|line| !line.contains("durio compare"));
    assert!(others().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.lines().any(|line| line.trim() == COMMAND), "{text}");
}

#[test]
fn every_effect_stands_beside_its_word_under_the_labels_of_the_sides() {
    let mut step = step("commit");
    step.figures = vec![
        figure(FigureName::Rate, [399.0, 11_900.0], SideWord::NoInterval),
        figure(FigureName::P99, [2_000_000.0, 3_000.0], SideWord::Undecided),
    ];
    step.figures[0].reason = Some("one run per side does not show how much runs vary".into());
    let mut close = self::step("scan");
    close.figures = vec![
        figure(FigureName::Rate, [1000.0, 1010.0], SideWord::NoDifference),
        figure(FigureName::P99, [100_000.0, 199_000.0], SideWord::Slower),
    ];
    let mut comparison = comparison(vec![step, close]);
    (comparison.pairs[0].baseline, comparison.pairs[0].other) = ("gp3".into(), "io2".into());
    for format in [Format::Text, Format::Html, Format::Markdown] {
        let tables = grids(format, &in_full(format, &comparison));
        let short = &tables[0];
        let titles = ["step", "gp3 rate", "io2 rate", "io2 against gp3", "gp3 p99", "io2 p99"];
        assert_eq!(short.titles[..6], titles, "{format}");
        let [rate, p99] = [3, 6].map(|at| [&*short.rows[0][at], &*short.rows[1][at]]);
        // The step with a difference comes first.
        assert_eq!(rate, ["+1.0 % no difference", "29.8 ×"], "{format}");
        assert_eq!(p99, ["+99.0 % slower", "÷ 667 undecided"], "{format}");
        // A single run's blocks are no interval.
        let all = &tables[1];
        assert_eq!(all.titles[1..3], ["gp3", "io2"], "{format}");
        let interval = all.titles.iter().position(|title| title == "95 % interval").unwrap();
        assert_eq!(all.rows[0][interval], "", "{format}");
        assert!(all.rows[1][interval].contains(" to "), "{format}");
    }
}

#[test]
fn each_result_of_a_gate_is_a_test_case() {
    let mut comparison = comparison(vec![step("commit")]);
    let text = written(Format::JUnit, &comparison);
    for line in [
        "<testcase classname=\"durio compare\" name=\"B against A: commit: rate worse by 9.0 %\"><failure \
         message=\"B against A: commit: rate worse by 9.0 %\"/></testcase>",
        "<testcase classname=\"durio compare\" name=\"scan is missing in B\"><skipped message=\"scan is \
         missing in B\"/></testcase>",
        "<testcase classname=\"durio compare\" name=\"B against A: scan: p99 worse by 2.0 % at most\"/>",
    ] {
        assert_eq!(text.lines().filter(|shown| *shown == line).count(), 1, "{line}: {text}");
    }
    comparison.gate = None;
    let text = written(Format::JUnit, &comparison);
    assert!(text.contains(" tests=\"0\" ") && !text.contains("<testcase"), "{text}");
}

#[test]
fn the_lines_of_a_gate_that_do_not_fit_are_counted() {
    let mut comparison = comparison(vec![step("commit")]);
    let lines = (0..14).map(|number| format!("B against A: step-{number}: rate: too noisy"));
    comparison.gate.as_mut().unwrap().undecided = lines.collect();
    let mut page = Vec::new();
    write(Format::Text, &comparison, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("step-2:") && !page.contains("step-3:"), "{page}");
    assert!(page.contains("14 in all; --verbose lists every one"), "{page}");
    assert!(written(Format::Text, &comparison).contains("step-13:"));
}

#[test]
fn facts_of_the_machines_that_do_not_fit_are_counted() {
    let mut comparison = comparison(vec![step("commit")]);
    let fact = |number: usize| Difference {
        what: format!("fact-{number}"),
        baseline: "1".into(),
        other: "2".into(),
    };
    comparison.pairs[0].environment = (0..21).map(fact).collect();
    let mut page = Vec::new();
    write(Format::Text, &comparison, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("differs  fact-2 1 → 2\n") && !page.contains("fact-3"), "{page}");
    assert!(page.contains("differs  21 facts in all; --verbose lists every one"), "{page}");
    assert!(page.lines().count() <= 30, "{}: {page}", page.lines().count());
    assert!(written(Format::Text, &comparison).contains("fact-20 1 → 2"));
}

#[test]
fn a_reason_is_said_once() {
    let comparison = comparison(vec![step("commit"), step("scan")]);
    let mut page = Vec::new();
    let plain = Comparison { gate: None, ..comparison.clone() };
    write(Format::Text, &plain, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("the repeats scatter").count(), 1, "{page}");
    assert!(page.contains("undecided: the repeats scatter by 4.2 %"), "{page}");
    // With a gate its lines have the reasons.
    let mut page = Vec::new();
    write(Format::Text, &comparison, &Options::default(), &mut page).unwrap();
    assert!(!String::from_utf8(page).unwrap().contains("the repeats scatter"));
}

#[test]
fn what_is_not_comparable_says_why_in_every_format() {
    let mut step = step("commit");
    step.figures.clear();
    step.not_comparable = vec!["B ended before its limit".into()];
    let comparison = comparison(vec![step]);
    for format in [Format::Text, Format::Json, Format::Html, Format::Markdown, Format::Csv] {
        assert!(written(format, &comparison).contains("B ended before its limit"), "{format}");
    }
    // A table of names alone has no column for figures that no step has.
    for format in [Format::Text, Format::Html, Format::Markdown] {
        let tables = grids(format, &written(format, &comparison));
        let titles: Vec<_> = tables.iter().map(|table| &table.titles[..]).collect();
        assert_eq!(titles, [["step"]], "{format}");
    }
}

#[test]
fn many_steps_are_one_table_in_the_terminal() {
    // These two differ, and come first.
    let differing = [30, 499];
    let steps = (0..500).map(|number| {
        let mut step = step(&format!("step-{number}"));
        if !differing.contains(&number) {
            step.figures.iter_mut().for_each(|figure| figure.word = SideWord::NoDifference);
        }
        step
    });
    let comparison = comparison(steps.collect());
    let mut page = Vec::new();
    write(Format::Text, &comparison, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("step-0 ") && !page.contains("p50"), "{page}");
    assert!(page.lines().count() <= 30, "{page}");
    assert!(page.contains("all 500 steps and results with their intervals: "), "{page}");
    let first = page.lines().filter_map(|line| line.split_whitespace().next());
    let shown: Vec<&str> = first.filter(|word| word.starts_with("step-")).collect();
    let expected = differing.into_iter().chain(0..4).map(|number| format!("step-{number}"));
    assert_eq!(shown, expected.collect::<Vec<_>>(), "6 steps: {page}");
    let html = written(Format::Html, &comparison);
    // And the ratios of the first three.
    assert_eq!(html.matches("<svg").count(), 61);
    assert!(html.contains("drawn for 60 steps") && html.len() < 3 << 20, "{}", html.len());
}

#[test]
fn a_page_begins_with_the_ratio_of_each_result_and_its_interval() {
    let mut slow = step("commit");
    slow.figures[2].interval = None;
    let page = written(Format::Html, &comparison(vec![slow]));
    let title = "B as a multiple of A: longer is better for rates, shorter for latencies";
    // 6480 / 7120 with 0.021 on either side, and 415 / 412 without an interval.
    let expected = ["commit, rate", "1", "0.91 (0.89 to 0.93)", "commit, commit p99", "1", "1.01"];
    assert_eq!(bars(&page, title), expected);
    let (first, _) = page.split_once("<section").unwrap();
    assert!(first.contains(title), "{first}");
    // A point where there is an interval: 6480 / 7120 of 630 pixels for the baseline.
    assert_eq!(first.matches("<circle class=\"dot ink\" cx=\"573.4\"").count(), 1, "{first}");
    assert_eq!(first.matches("<circle").count(), 1, "{first}");
}

#[test]
fn a_page_and_its_copy_have_names_in_place_of_this_machine_s_paths() {
    let mut comparison = comparison(vec![step("commit")]);
    let pair = &mut comparison.pairs[0];
    for (at, side) in ["fast", "slow"].into_iter().enumerate() {
        comparison.sides[at].source = format!("/home/ann/runs/{side}");
        pair.steps[0].locations[at] = format!("/mnt/{side}");
    }
    pair.environment[0] = Difference {
        what: "location".into(),
        baseline: "/mnt/fast".into(),
        other: "/mnt/slow".into(),
    };
    pair.only_baseline = vec!["scan at /mnt/fast".into()];
    let gate = comparison.gate.as_mut().unwrap();
    gate.regressions[0] = "commit at /mnt/fast against /mnt/slow: rate".into();
    let measure = "durio compare /mnt/fast /mnt/slow --pairs 12";
    comparison.answer.command = Some(measure.into());
    for format in [Format::Html, Format::Markdown] {
        let page = written(format, &comparison);
        for path in ["/home", "/mnt", measure] {
            assert!(!page.contains(path), "{path}: {page}");
        }
        let names = ["fast: 1 run", "fast → slow", "commit at fast against slow", "scan at fast"];
        for name in names {
            assert!(page.contains(name), "{name}: {page}");
        }
        assert!(page.contains("About 12 runs of each side would decide."), "{page}");
    }
    // The terminal is on the machine that has the paths, and programs open them.
    assert!(written(Format::Text, &comparison).contains(measure));
    assert!(written(Format::Json, &comparison).contains("/home/ann/runs/slow"));
    assert!(written(Format::Csv, &comparison).contains("/mnt/slow"));
}

#[test]
fn rates_of_one_workload_are_laid_over_each_other_and_of_different_ones_not() {
    let title = "<figcaption>commit rate over time, a line per repeat";
    let mut same = step("commit");
    same.different_workload = false;
    let line =
        |rate: f64| -> Vec<(f64, f64)> { (0..200).map(|at| (f64::from(at) + 0.5, rate)).collect() };
    same.rates = [vec![line(100.0)], vec![line(250.0), line(260.0)]];
    let page = written(Format::Html, &comparison(vec![same.clone()]));
    assert!(page.contains(title), "{page}");
    let legend = "<span class=\"key first\">A</span><span class=\"key second dashes\">B</span>";
    assert_eq!(page.matches(legend).count(), 2, "latencies and rates");
    same.different_workload = true;
    assert!(!written(Format::Html, &comparison(vec![same])).contains(title));
}

#[test]
fn an_interval_is_drawn_up_to_twice_the_longer_bar_and_cut_beyond() {
    let drawn = |effect: f64, interval: Option<[f64; 2]>| {
        let mut step = step("commit");
        let rate = figure(FigureName::Rate, [100.0, 100.0 * (1.0 + effect)], SideWord::Faster);
        step.figures = vec![FigureComparison { interval, ..rate }];
        let page = written(Format::Html, &comparison(vec![step]));
        let title = "B as a multiple of A: longer is better for rates, shorter for latencies";
        (bar_widths(&page, title), bars(&page, title).pop().unwrap())
    };
    // The baseline, the bar up to the interval, and the interval; the longest ends at 630.
    let (whole, text) = drawn(0.5, Some([0.2, 1.5]));
    assert_eq!(whole, [[0.0, 252.0], [0.0, 302.4], [302.4, 327.6]]);
    assert_eq!(text, "1.5 (1.2 to 2.5)");
    // Up to 3, which is twice 1.5: the other bars become no shorter.
    let at_the_bound = [[0.0, 210.0], [0.0, 252.0], [252.0, 378.0]];
    assert_eq!(drawn(0.5, Some([0.2, 2.0])).0, at_the_bound);
    let (cut, text) = drawn(0.5, Some([0.2, 8.0]));
    assert_eq!((cut.as_slice(), text.as_str()), (&at_the_bound[..], "1.5 (1.2 to 9)"));
    // The baseline is the longer bar: up to 2.
    let at_the_bound = [[0.0, 315.0], [0.0, 126.0], [126.0, 504.0]];
    assert_eq!(drawn(-0.5, Some([-0.6, 1.0])).0, at_the_bound);
    assert_eq!(drawn(-0.5, Some([-0.6, 30.0])).0, at_the_bound);
    assert_eq!(drawn(-0.5, Some([-0.6, 0.2])).0, [[0.0, 525.0], [0.0, 210.0], [210.0, 420.0]]);
    assert_eq!(drawn(0.5, None).0, [[0.0, 420.0], [0.0, 630.0]]);
    // The blocks of a single run are not an interval.
    let mut single = step("commit");
    single.figures = vec![figure(FigureName::Rate, [100.0, 150.0], SideWord::NoInterval)];
    let page = written(Format::Html, &comparison(vec![single]));
    let title = "B as a multiple of A: longer is better for rates, shorter for latencies";
    assert_eq!(bars(&page, title), ["commit, rate", "1", "1.5"]);
}

#[test]
fn the_page_of_a_rules_proof_begins_with_the_same_ratios() {
    let proof = RuleProof {
        schema: PROOF_SCHEMA.to_owned(),
        rule: "B05".to_owned(),
        name: "nr-requests".to_owned(),
        title: "a long queue".to_owned(),
        target: "/srv".to_owned(),
        switched: SwitchedSetting {
            what: "nr_requests of sda".to_owned(),
            file: None,
            before: "64".to_owned(),
            after: "4096".to_owned(),
            restored: None,
        },
        pairs: 3,
        comparison: comparison(vec![step("commit")]),
    };
    let mut out = Vec::new();
    write(Format::Html, &proof, &Options::default(), &mut out).unwrap();
    let page = String::from_utf8(out).unwrap();
    let (first, _) = page.split_once("<section").unwrap();
    assert!(first.contains("<div class=\"poster\">"), "{first}");
    let title = "B as a multiple of A: longer is better for rates, shorter for latencies";
    let expected = ["commit, rate", "1", "0.91 (0.89 to 0.93)"];
    assert_eq!(bars(&page, title)[..3], expected);
}

#[test]
fn many_steps_of_one_side_alone_are_a_number_and_a_list_for_who_asks() {
    let mut comparison = comparison(vec![step("commit")]);
    comparison.pairs[0].only_baseline = (0..70).map(|number| format!("methods-{number}")).collect();
    let mut page = Vec::new();
    write(Format::Text, &comparison, &Options::default(), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("70 steps; --verbose lists them"), "{page}");
    assert!(!page.contains("methods-") && page.lines().count() <= 50, "{page}");
    assert!(written(Format::Text, &comparison).contains("methods-69"));
}

#[test]
fn the_document_is_one_and_reads_back() {
    let comparison = comparison(vec![step("commit")]);
    let text = written(Format::Json, &comparison);
    assert!(text.contains("\"durio-compare-1\""));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let said = json["summary"]["sentence"].as_str().unwrap();
    assert!(said.starts_with(SENTENCE), "{said}");
    assert_eq!(json["summary"]["verdict"], "bad");
    assert_eq!(json["summary"]["headline"][2]["value"], 0.91);
    assert_eq!(json["summary"]["reasons"][0], "run x is on both sides");
    assert_eq!(json["answer"]["runs_needed"], 12);
    let mut back: Comparison = serde_json::from_str(&text).unwrap();
    // Curves are in the findings of each run.
    back.pairs[0].steps[0].curves = comparison.pairs[0].steps[0].curves.clone();
    assert_eq!(back, comparison);
}

#[test]
fn csv_has_a_line_per_figure_of_equal_length() {
    let text = written(Format::Csv, &comparison(vec![step("a,b\"c")]));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 3);
    assert_eq!((&records[0][2], &records[0][10], &records[0][21]), ("a,b\"c", "rate", "slower"));
}

#[test]
fn the_page_draws_both_sides_and_runs_nothing() {
    let html = written(Format::Html, &comparison(vec![step("commit")]));
    let lines = |colour: &str| {
        html.matches(&format!("<polyline fill=\"none\" stroke=\"{colour}\"")).count()
    };
    assert_eq!((lines("#2563EB"), lines("#C26A0A")), (1, 2));
    // The second side is broken on the chart and in its legend.
    assert_eq!(html.matches(" stroke-dasharray=").count(), 2);
    let legend = "<span class=\"key first\">A</span><span class=\"key second dashes\">B</span>";
    assert_eq!(html.matches(legend).count(), 1);
    assert!(html.matches("<script>").count() == 1 && html.contains("default-src 'none'"));
}

#[test]
fn hostile_names_stay_text() {
    let mut comparison = comparison(vec![step(HOSTILE)]);
    comparison.sides[0].source = HOSTILE.into();
    comparison.pairs[0].remarks.push(HOSTILE.into());
    comparison.pairs[0].environment[0].other = HOSTILE.into();
    comparison.pairs[0].steps[0].locations = [HOSTILE.into(), "x".into()];
    comparison.pairs[0].steps[0].cautions.push(HOSTILE.into());
    let html = written(Format::Html, &comparison);
    assert!(
        html.matches("<script>").count() == 1 && !html.contains("<img") && !html.contains('\x1b')
    );
    assert!(!written(Format::Text, &comparison).contains('\x1b'));
}

#[test]
fn the_comparison_shows_itself_and_asks_for_nothing() {
    for name in ["commit", HOSTILE] {
        let html = written(Format::Html, &comparison(vec![step(name)]));
        let test = "the_comparison_shows_itself_and_asks_for_nothing";
        let Some(visit) = crate::browser::visit(test, &html) else { return };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
}

#[test]
fn shapes_are_ratios_in_every_format_but_fios() {
    let table = published::tables().unwrap().remove(0);
    let half: Vec<_> =
        table.points.iter().map(|point| RatePoint { rate: point.rate / 2.0, ..*point }).collect();
    let shape = shape(&half, &table.points, TOLERANCE);
    let location = "/srv/db".to_owned();
    let against = [AgainstPublished { location, block_size_bytes: 4096, table, shape }];
    let to = |format| {
        let mut out = Vec::new();
        write(format, &ShownShapes::new(&against), &Options::default(), &mut out).map(|()| out)
    };
    for format in [Format::Text, Format::Json, Format::Html, Format::Markdown, Format::Csv] {
        let text = String::from_utf8(to(format).unwrap()).unwrap();
        assert!(text.contains("alike") && text.contains("reference"), "{text}");
    }
    assert_eq!(to(Format::FioJson).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn shapes_begin_with_the_growth_to_the_highest_common_level() {
    let points = |rates: &[(u32, f64)]| -> Vec<RatePoint> {
        rates.iter().map(|(level, rate)| RatePoint { level: *level, rate: *rate }).collect()
    };
    let against = |stack: &str, rates: &[(u32, f64)]| {
        let mut table = published::tables().unwrap().remove(0);
        (table.stack, table.points) = (stack.to_owned(), points(rates));
        let measured = points(&[(1, 10.0), (4, 20.0), (16, 30.0)]);
        let shape = shape(&measured, &table.points, TOLERANCE);
        AgainstPublished { location: String::new(), block_size_bytes: 4096, table, shape }
    };
    let mut all = vec![
        against("md", &[(1, 100.0), (4, 250.0), (8, 900.0)]),
        against("zfs", &[(1, 100.0), (4, 150.0)]),
    ];
    let first_line = |against: &[AgainstPublished]| {
        let (shown, mut out) = (ShownShapes::new(against), Vec::new());
        let options = Options { width: 200, ..Options::default() };
        write(Format::Text, &shown, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().next().unwrap().to_owned()
    };
    let said = "From 1 to 4 operations in flight the rate grows by a factor of 2; published: 2.5 (md) \
                and 1.5 (zfs)";
    assert_eq!(first_line(&all), said);
    // Of another level, and one more than the sentence names.
    all.push(against("xfs", &[(1, 100.0), (16, 300.0)]));
    all.push(against("lvm", &[(1, 100.0), (4, 200.0)]));
    assert_eq!(first_line(&all), format!("{said}; 2 more tables below"));
}
