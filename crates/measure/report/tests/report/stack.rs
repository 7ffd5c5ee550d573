//! Benches of stacks in every format: what a reader finds in them.

use durio_analyse::WarningFinding;
use durio_analyse::attribution::{
    CostChange, LabComparison, LayerRow, PointFacts, StackFindings, Timing, compare_labs,
};
use durio_report::{Format, Options, write};

use crate::sample::HOSTILE;
use crate::stack_sample::Runs;

fn written(format: Format, findings: &StackFindings, width: usize) -> String {
    let mut out = Vec::new();
    let options = Options { width, colour: false, verbose: true };
    write(format, findings, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn bench() -> StackFindings {
    Runs::new().findings(None)
}

fn counted() -> StackFindings {
    Runs::new().findings(Some(Timing::Counted))
}

/// `DURIO_TEST_REWRITE=1` writes the file.
#[test]
fn the_terminal_shows_a_bench_as_it_always_did() {
    let text = written(Format::Text, &counted(), 100);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/stack_golden.txt");
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert!(text == golden, "the terminal shows:\n{text}");
}

#[test]
fn the_fastest_stack_of_the_first_workload_is_the_answer_or_the_one_of_the_least_counted_cost() {
    let mut findings = bench();
    for point in &mut findings.points {
        point.failure = None;
    }
    let text = written(Format::Text, &findings, 1000);
    let first = text.lines().next().unwrap();
    let workload = &findings.workloads[0];
    let is_top = |at: usize| findings.points.iter().all(|point| point.below != Some(at));
    let tops = workload.rows.iter().filter(|row| is_top(row.point));
    let rates = tops.filter_map(|row| {
        let rate = row.figures.as_ref()?.rate_per_second;
        Some((rate, findings.points[row.point].stack.as_str()))
    });
    let (_, fastest) = rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert!(first.starts_with(&format!("{fastest} is the fastest of ")), "{first}");
    assert!(first.contains(&format!(" stacks on RAM disks in {}: ", workload.label)), "{first}");
    let failed = written(Format::Text, &bench(), 1000);
    assert!(failed.starts_with("Unknown: 1 layer failed ("), "{failed}");
    let mut counted = counted();
    for point in &mut counted.points {
        point.failure = None;
    }
    let text = written(Format::Text, &counted, 1000);
    let sentence = "degraded has the least software cost of 2 stacks on RAM disks in commit: 176 µs \
                    per operation, against 421 µs of mirror, the highest; devices that durio made \
                    (memory of a virtual machine) are not your storage.\n";
    assert!(text.starts_with(sentence), "{text}");
}

#[test]
fn a_screen_has_the_fastest_stacks_first_where_their_devices_are_and_each_failure_once() {
    let screen = |findings: &StackFindings| {
        let mut out = Vec::new();
        write(Format::Text, findings, &Options::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = screen(&bench());
    assert!(text.lines().count() <= 30, "{text}");
    let (_, table) = text.split_once("\nStacks\n").unwrap();
    let row = |stack: &str| {
        let line = table.lines().position(|line| line.trim_start().starts_with(stack));
        line.unwrap_or_else(|| panic!("no {stack}: {text}"))
    };
    assert!(row("degraded ") < row("mirror ") && row("mirror ") < row("broken "), "{text}");
    assert!(joined(&text).contains("commit per s × raw p99"), "{text}");
    assert!(text.contains("0.33 ×"), "{text}");
    let place = "devices: RAM disks of 256 MiB; durio check DIR measures your storage";
    assert!(joined(&text).contains(place), "{text}");
    let made = "devices that durio made (memory) are not your storage.";
    assert!(joined(&text).contains(made), "{text}");
    assert!(!text.contains("Above 1 ×"), "{text}");
    // Once in the sentence, once at its layer.
    assert_eq!(text.matches("the smallest filesystem is 300 MiB").count(), 2, "{text}");
    let mut faster = bench();
    for figures in faster.workloads[0].rows.iter_mut().filter_map(|row| row.figures.as_mut()) {
        figures.share_of_raw = Some(4.17);
    }
    let text = screen(&faster);
    assert!(text.contains("4.17 ×") && joined(&text).contains("Above 1 ×, several devices"));
    let mut many = bench();
    let (point, rows) = (many.points[0].clone(), many.workloads[0].rows[0].clone());
    for number in 0..20 {
        many.workloads[0].rows.push(LayerRow { point: many.points.len(), ..rows.clone() });
        many.points.push(PointFacts { stack: format!("more {number}"), ..point.clone() });
    }
    let text = screen(&many);
    assert_eq!(text.matches("\n  more ").count(), 10, "{text}");
    assert!(joined(&text).contains("--verbose: 13 further stacks, every layer"), "{text}");
    assert!(text.lines().count() <= 30, "{text}");
}

#[test]
fn a_provisional_screen_and_one_with_warnings_have_two_stacks_fewer_each() {
    let mut findings = bench();
    let (point, rows) = (findings.points[0].clone(), findings.workloads[0].rows[0].clone());
    for number in 0..20 {
        findings.workloads[0].rows.push(LayerRow { point: findings.points.len(), ..rows.clone() });
        findings.points.push(PointFacts { stack: format!("more {number}"), ..point.clone() });
    }
    let stacks = |findings: &StackFindings| {
        let mut out = Vec::new();
        write(Format::Text, findings, &Options::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() <= 28, "a command says two lines below it: {text}");
        let is_provisional = text.contains("PROVISIONAL  steps of 1 s are short\n");
        (text.matches("\n  more ").count(), is_provisional)
    };
    assert_eq!(stacks(&findings), (10, false));
    findings.provisional = Some("steps of 1 s are short".to_owned());
    assert_eq!(stacks(&findings), (8, true));
    let drift = findings.warnings[0].clone();
    findings.warnings = vec![drift.clone(), drift.clone()];
    assert_eq!(stacks(&findings), (8, true));
    findings.warnings = vec![drift.clone(), drift.clone(), drift.clone()];
    assert_eq!(stacks(&findings), (6, true));
    let other = WarningFinding { code: "zram-baseline".into(), ..drift.clone() };
    findings.warnings = vec![drift, other];
    assert_eq!(stacks(&findings), (6, true));
    findings.provisional = None;
    assert_eq!(stacks(&findings), (8, false));
}

#[test]
fn alike_warnings_are_told_once_with_two_examples() {
    let mut findings = bench();
    let drift =
        findings.warnings.iter().find(|warning| warning.code == "raw-drift").unwrap().clone();
    findings.warnings.retain(|warning| warning.code != "raw-drift");
    let of = |number: u32| WarningFinding { seen: format!("seen {number}"), ..drift.clone() };
    findings.warnings.extend((1..=4).map(of));
    let mut out = Vec::new();
    write(Format::Text, &findings, &Options { colour: false, ..Options::default() }, &mut out)
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("WARNING  seen 2\n") && !text.contains("seen 3"), "{text}");
    // Below their label, wherever what follows is hidden.
    let below = format!(
        "WARNING  seen 2\n         2 more of this kind; --verbose lists them\n         → {}",
        drift.advice.split(' ').next().unwrap()
    );
    assert!(text.contains(&below), "{text}");
    assert_eq!(text.matches(&drift.advice).count(), 1, "{text}");
}

#[test]
fn every_line_fits_the_terminal() {
    for width in [100, 120] {
        let text = written(Format::Text, &bench(), width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn counted_figures_have_their_label_wherever_they_stand() {
    let (label, findings) = ("software cost per I/O without contention", counted());
    for format in [Format::Text, Format::Json, Format::Html] {
        let text = written(format, &findings, 400);
        assert!(text.contains(label), "{format}");
        assert!(!written(format, &bench(), 400).contains(label), "{format}");
    }
    let text = written(Format::Text, &findings, 400);
    let published = text.lines().find(|line| line.contains("Beside what was published")).unwrap();
    assert!(published.contains(label), "{published}");
    assert!(written(Format::Csv, &findings, 100).lines().nth(1).unwrap().contains(",counted,"));
}

#[test]
fn what_failed_says_why_in_every_format() {
    for format in [Format::Text, Format::Json, Format::Html, Format::Csv] {
        let text = written(format, &bench(), 200);
        assert!(text.contains("the smallest filesystem is 300 MiB"), "{format}");
    }
}

#[test]
fn the_page_has_tables_and_charts_and_runs_nothing() {
    let html = written(Format::Html, &bench(), 100);
    assert_eq!(html.matches("<svg").count(), 3);
    assert_eq!(html.matches("<table class=\"figures\"").count(), 5);
    assert!(html.matches("<script>").count() == 1 && html.contains("default-src 'none'"));
    for part in ["CPU/op", "entry to first queue", "order of layers differs", "same order"] {
        assert_eq!(html.contains(part), part != "order of layers differs", "{part}");
    }
    assert!(html.contains("raw rates are off the median"));
}

/// The first workload of the bench with 16, 1 and 4 jobs, as fast as there are jobs, and with one job
/// after another one: that is no ladder.
fn laddered(axis: &str) -> StackFindings {
    let mut findings = bench();
    let one = findings.workloads.remove(0);
    let levels = [("w", "16"), ("w", "1"), ("w", "4"), ("alone", "1")];
    let workloads = levels.map(|(workload, level)| {
        let mut it = one.clone();
        it.key.workload = workload.to_owned();
        (it.key.section, it.key.levels) = (None, vec![format!("{axis} {level}")]);
        it.label = format!("{workload}, {axis} {level}");
        for figures in it.rows.iter_mut().filter_map(|row| row.figures.as_mut()) {
            figures.rate_per_second = 1000.0 * level.parse::<f64>().unwrap();
        }
        it
    });
    findings.workloads = workloads.into();
    findings
}

#[test]
fn a_ladder_is_shown_as_one_before_its_levels() {
    let text = written(Format::Text, &laddered("jobs"), 120);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("w: rate by jobs") < at("\nw, jobs 16"));
    assert!(!text.contains("alone: rate by"), "{text}");
    let table = text.lines().skip_while(|line| !line.contains("per s, jobs"));
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = table.take(5).map(cells).collect();
    assert_eq!(lines[0], ["per", "s,", "jobs", "1", "4", "16"]);
    assert!(lines[2].ends_with(&["1", "k", "4", "k", "16", "k"].map(str::to_owned)), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with(&["of".to_owned(), "raw".to_owned()])));
    let html = written(Format::Html, &laddered("jobs"), 100);
    assert!(html.contains("w: rate by jobs, per second"));
}

#[test]
fn what_columns_and_models_are_is_said_once() {
    let text = written(Format::Text, &laddered("jobs"), 120);
    for part in ["time/op: 1 ÷ rate", "survives: failures", "How to read the tables", "  model "] {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(part)).collect();
        let different: std::collections::BTreeSet<_> = lines.iter().collect();
        assert!(!lines.is_empty() && lines.len() == different.len(), "{part}: {lines:?}");
    }
    let html = written(Format::Html, &laddered("jobs"), 100);
    // A page has itself as Markdown at its end.
    let html = html.split("id=\"markdown\"").next().unwrap();
    assert_eq!(html.matches("time/op: 1 ÷ rate").count(), 1);
}

#[test]
fn the_document_is_one_and_reads_back() {
    let findings = bench();
    let text = written(Format::Json, &findings, 100);
    assert!(text.contains("\"durio-stack-findings-1\""));
    assert_eq!(serde_json::from_str::<StackFindings>(&text).unwrap(), findings);
}

#[test]
fn csv_has_a_line_per_point_of_equal_length() {
    let text = written(Format::Csv, &bench(), 100);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|title| title == name).unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 7);
    let share: f64 = records[2][at("share_of_raw")].parse().unwrap();
    assert!((share - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(&records[2][at("time_entry_ns")], "210000");
    assert_eq!(&records[2][at("device_writes_per_write")], "");
    assert_eq!(&records[4][at("raid_share_of_healthy")], "1.28");
    assert!(records[6][at("rate_per_second")].is_empty());
}

#[test]
fn fios_format_has_no_place_for_a_bench() {
    let written = write(Format::FioJson, &bench(), &Options::default(), &mut Vec::new());
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

/// Every name is hostile, and every figure odd.
fn hostile(mut findings: StackFindings) -> StackFindings {
    findings.name = HOSTILE.into();
    findings.kernels = vec![HOSTILE.into()];
    for point in &mut findings.points {
        (point.stack, point.layer, point.name) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
        point.failure = Some(HOSTILE.into());
    }
    for workload in &mut findings.workloads {
        workload.key.workload = HOSTILE.into();
        workload.label = HOSTILE.into();
        workload.published.iter_mut().for_each(|order| order.sentence = HOSTILE.into());
        for fall in &mut workload.waterfalls {
            fall.steps.iter_mut().for_each(|step| step.layer = HOSTILE.into());
        }
    }
    findings
}

#[test]
fn hostile_names_stay_text() {
    for findings in [hostile(bench()), hostile(laddered(HOSTILE))] {
        let html = written(Format::Html, &findings, 100);
        assert!(
            html.matches("<script>").count() == 1
                && !html.contains("<img")
                && !html.contains('\x1b')
        );
        assert!(!written(Format::Text, &findings, 100).contains('\x1b'));
    }
}

#[test]
fn odd_figures_stop_no_format() {
    for odd in [0.0, f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let mut findings = bench();
        findings.workloads.extend(laddered("jobs").workloads);
        for row in findings.workloads.iter_mut().flat_map(|workload| &mut workload.rows) {
            let Some(figures) = &mut row.figures else { continue };
            (figures.rate_per_second, figures.share_of_raw) = (odd, Some(odd));
            (figures.time_per_operation_ns, figures.cpu_ns_per_operation) = (odd, Some(odd));
        }
        for step in
            findings.workloads[0].waterfalls.iter_mut().flat_map(|waterfall| &mut waterfall.steps)
        {
            (step.total_ns, step.added_ns) = (odd, odd);
        }
        for format in [Format::Text, Format::Html, Format::Csv] {
            assert!(!written(format, &findings, 100).is_empty(), "{format} with {odd}");
        }
    }
}

#[test]
fn the_bench_shows_itself_and_asks_for_nothing() {
    for findings in [bench(), hostile(bench())] {
        let html = written(Format::Html, &findings, 100);
        let test = "the_bench_shows_itself_and_asks_for_nothing";
        let Some(visit) = crate::browser::visit(test, &html) else { return };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
}

/// A kernel's benches: the mirror so many times as fast, each repeat this far from the first.
fn repeats(kernel: &str, faster: f64, spreads: &[f64]) -> Vec<StackFindings> {
    let repeat = |spread: &f64| {
        let mut findings = counted();
        findings.kernels = vec![kernel.into()];
        for row in &mut findings.workloads[0].rows {
            let Some(figures) = &mut row.figures else { continue };
            figures.time_per_operation_ns *= 1.0 + spread;
            if row.point == 1 {
                figures.time_per_operation_ns /= faster;
                figures.context_switches_per_operation = Some(3.0 * faster);
            }
        }
        findings
    };
    spreads.iter().map(repeat).collect()
}

fn changes(spreads: &[f64]) -> LabComparison {
    let old = repeats("6.1", 1.0, spreads);
    compare_labs(&old, &repeats("6.12.95", 1.5, spreads)).unwrap()
}

const THREE: [f64; 3] = [0.0, 0.002, -0.003];

fn compared(format: Format, comparison: &LabComparison) -> String {
    let mut out = Vec::new();
    write(format, comparison, &Options { verbose: true, ..Options::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn two_kernels_are_compared_layer_by_layer() {
    let text = compared(Format::Text, &changes(&THREE));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let joined = joined(&text);
    for part in
        ["kernel 6.12.95, 3 repeats", "COUNTED", "0.667", "cheaper", "no different", "0.5, 0.5 %"]
    {
        assert!(joined.contains(part), "{part} in {text}");
    }
    assert!(!joined.contains("cannot tell"), "{text}");
    let written = serde_json::from_str::<LabComparison>(&compared(Format::Json, &changes(&THREE)));
    assert_eq!(written.unwrap(), changes(&THREE));
    let mut none = Vec::new();
    let fio = write(Format::FioJson, &changes(&THREE), &Options::default(), &mut none);
    assert_eq!(fio.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn single_runs_on_two_kernels_are_shown_without_a_verdict() {
    let once = changes(&[0.0]);
    for format in [Format::Text, Format::Html] {
        let text = joined(&compared(format, &once));
        assert!(text.contains("one run per side; use --repeat N to find out"), "{text}");
        assert!(text.contains("0.667") && text.contains("unknown"), "{text}");
        assert!(!text.contains(">cheaper<") && !text.contains("cheaper md"), "{text}");
    }
    let csv = compared(Format::Csv, &once);
    assert_eq!(csv.matches(",undecided,").count(), 6, "{csv}");
}

#[test]
fn repeats_that_are_far_apart_keep_the_table_narrow() {
    let text = compared(Format::Text, &changes(&[0.0, 5000.0]));
    assert!(text.contains("999") && !text.contains("500000"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn csv_of_two_kernels_has_both_sides_of_every_figure() {
    let text = compared(Format::Csv, &changes(&THREE));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    for name in header.iter().filter(|title| title.ends_with("_a")) {
        let other = name.replace("_a", "_b");
        assert!(header.iter().any(|title| title == other), "{name} without {other}");
    }
    let at = |name: &str| header.iter().position(|title| title == name).unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 6);
    assert_eq!(&records[1][at("context_switches_per_operation_a")], "3");
    assert_eq!(&records[1][at("context_switches_per_operation_b")], "4.5");
    assert_eq!(&records[1][at("change")], "cheaper");
    assert_eq!(&records[1][at("repeats_b")], "3");
    assert!(records[1][at("label")].contains("without contention"));
}

#[test]
fn csv_of_two_kernels_has_each_side_and_each_bound_in_its_own_column() {
    let mut comparison = changes(&THREE);
    let layer = &mut comparison.workloads[0].layers[1];
    layer.time_per_operation_ns = [2048.0, 1024.0];
    layer.time_per_operation_ns_of_repeats = [vec![2048.0; 3], vec![1024.0; 5]];
    (layer.ratio, layer.ratio_interval) = (0.5, Some([0.375, 0.625]));
    layer.scatter = Some([0.125, 0.25]);
    (layer.added_ns, layer.added_ratio) = (Some([512.0, 640.0]), Some(1.25));
    (layer.cpu_ns_per_operation, layer.cpu_ratio) = (Some([768.0, 576.0]), Some(0.75));
    layer.context_switches_per_operation = Some([1.5, 4.5]);
    let text = compared(Format::Csv, &comparison);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let record = reader.records().nth(1).unwrap().unwrap();
    for (column, figure) in [
        ("repeats_a", "3"),
        ("repeats_b", "5"),
        ("time_per_operation_ns_a", "2048"),
        ("time_per_operation_ns_b", "1024"),
        ("scatter_a", "0.125"),
        ("scatter_b", "0.25"),
        ("ratio", "0.5"),
        ("ratio_low", "0.375"),
        ("ratio_high", "0.625"),
        ("added_ns_a", "512"),
        ("added_ns_b", "640"),
        ("added_ratio", "1.25"),
        ("cpu_ns_per_operation_a", "768"),
        ("cpu_ns_per_operation_b", "576"),
        ("cpu_ratio", "0.75"),
        ("context_switches_per_operation_a", "1.5"),
        ("context_switches_per_operation_b", "4.5"),
    ] {
        let at = header.iter().position(|title| title == column).unwrap();
        assert_eq!(&record[at], figure, "{column}");
    }
}

#[test]
fn undecided_layers_are_told_reason_by_reason_and_without_their_names_if_all_are() {
    let told = |undecided: &[(usize, Option<&str>)]| {
        let mut comparison = changes(&THREE);
        let layers = &mut comparison.workloads[0].layers;
        assert_eq!(layers.len(), 6);
        for (at, layer) in layers.iter_mut().enumerate() {
            (layer.change, layer.reason) = (CostChange::Cheaper, None);
            layer.name = format!("layer {at}");
        }
        for at in [4, 5] {
            (layers[at].name, layers[at].stack) = ("twin".into(), format!("stack {at}"));
        }
        for (at, reason) in undecided {
            layers[*at].change = CostChange::Undecided;
            layers[*at].reason = reason.map(str::to_owned);
        }
        joined(&compared(Format::Text, &comparison))
    };
    let text = told(&[(0, Some("few")), (2, None), (3, Some("few")), (4, Some("few")), (5, None)]);
    for part in [
        "undecided of layer 0, layer 3, twin [stack 4]: few",
        "undecided of layer 2, twin [stack 5]: the noise is not known",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("cannot decide what"), "{text}");
    let text = told(&[0_usize, 1, 2, 3, 4, 5].map(|at| (at, Some("few"))));
    assert!(text.contains("cheaper or dearer: few"), "{text}");
    let told_none = told(&[]);
    for text in [text, told_none] {
        assert!(!text.contains("undecided of"), "{text}");
    }
}

#[test]
fn the_page_of_two_kernels_shows_itself_and_asks_for_nothing() {
    let mut odd = compare_labs(&[hostile(bench())], &[hostile(bench())]).unwrap();
    odd.only_one_side = vec![HOSTILE.into()];
    for comparison in [changes(&THREE), changes(&[0.0]), odd] {
        let html = compared(Format::Html, &comparison);
        assert_eq!(html.matches("<svg").count(), 1);
        assert!(
            html.matches("<script>").count() == 1
                && !html.contains("<img")
                && !html.contains('\x1b')
        );
        let test = "the_page_of_two_kernels_shows_itself_and_asks_for_nothing";
        let Some(visit) = crate::browser::visit(test, &html) else { return };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
    let html = compared(Format::Html, &changes(&THREE));
    let caption = html.split("<figcaption>").nth(1).unwrap();
    assert!(caption.contains("software cost per I/O without contention"), "{caption}");
}

/// The columns of a page's tables after the first of each.
fn columns(html: &str) -> Vec<String> {
    let heads = html.split("<thead>").skip(1).map(|table| table.split("</thead>").next().unwrap());
    let titles = heads.flat_map(|head| head.split("<th scope=\"col\">").skip(2));
    titles.map(|title| title.split("</th>").next().unwrap().to_owned()).collect()
}

#[test]
fn every_column_of_every_table_is_explained_at_the_end() {
    let (bench, compared) =
        (written(Format::Html, &bench(), 100), compared(Format::Html, &changes(&THREE)));
    for html in [bench, compared] {
        let columns = columns(&html);
        assert!(columns.len() >= 12, "{columns:?}");
        for title in columns {
            let notes = html.split("<p class=\"lead\">").skip(1);
            let notes: String = notes.map(|note| note.split("</p>").next().unwrap()).collect();
            let title = title.split_once(" per s").map_or(&*title, |_| "per s");
            let sentences = [format!("{title}:"), format!("{title},"), format!(", {title}")];
            let of_side = title.rsplit_once(' ').is_some_and(|(words, side)| {
                ["A", "B"].contains(&side) && notes.contains(words.trim_end_matches(" B ÷"))
            });
            let is_explained = sentences.iter().any(|sentence| notes.contains(sentence));
            let is_word = title == "B is" && notes.contains("cheaper, dearer:");
            assert!(is_explained || of_side || is_word, "{title} in {notes}");
        }
    }
}

#[test]
fn the_terminal_says_below_its_tables_what_the_page_says() {
    for (html, text) in [
        (written(Format::Html, &bench(), 100), written(Format::Text, &bench(), 100)),
        (compared(Format::Html, &changes(&THREE)), compared(Format::Text, &changes(&THREE))),
    ] {
        let text = joined(&text);
        for title in columns(&html) {
            let of_page = title.starts_with("CPU ") || title.starts_with("switches ");
            assert!(of_page || text.contains(&title), "{title} in {text}");
        }
        let notes = html.split("<p class=\"lead\">").skip(1);
        let notes = notes.map(|note| joined(note.split("</p>").next().unwrap()));
        for note in notes.filter(|note| !note.contains('<') && !note.starts_with("CPU, switches:"))
        {
            let note = note.replace("&#39;", "'").replace("&#x27;", "'");
            assert!(text.contains(&note), "{note}\nin {text}");
        }
    }
}
