//! Slow commits with their causes: each figure in its row, below its title, with its unit, in every
//! format; and their timelines on the page.

use durio_analyse::Findings;
use durio_analyse::why::{
    CauseFindings, ExplainedCall, Lane, Other, Piece, PieceKind, WHY_SCHEMA, WhyFindings, causes,
};
use durio_observe::SlowWatchFacts;
use durio_report::{Format, Options, write};

use crate::browser::visit;
use crate::cells::{assert_csv, assert_facts, assert_table, bars, in_full, plain};
use crate::sample;

const MS: u64 = 1_000_000;

const COST: &str = "write calls 9.6 k/s, without recording 10 k/s: 4.0 % less (over 3 %, if the load was the same); 1.2 % of a CPU";

fn other(thread: u32, name: &str, bytes: u64) -> Other {
    Other { thread, name: name.to_owned(), ns: 7 * MS, bytes }
}

fn piece(kind: PieceKind, [begin, end]: [u64; 2], thread: u32, name: &str) -> Piece {
    Piece {
        begin_ns: begin,
        end_ns: end,
        lane: Lane { thread, name: name.to_owned() },
        kind,
        detail: String::new(),
        cause: "journal-commit",
        device: None,
        others: Vec::new(),
    }
}

/// A call of `ms` milliseconds that waited for the journal, whose thread waited for the device.
fn call(ms: u64) -> ExplainedCall {
    let end = ms * MS;
    ExplainedCall {
        at_seconds: 12.3,
        process: 812,
        thread: 813,
        name: "postgres".to_owned(),
        call: "fdatasync".to_owned(),
        path: Some("/data/pg_wal/000000010000000000000001".to_owned()),
        latency_ns: end,
        pieces: vec![
            Piece {
                cause: "processor-taken",
                others: vec![other(99, "gcc", 0)],
                ..piece(PieceKind::Runnable, [0, 2 * MS], 813, "postgres")
            },
            piece(PieceKind::Journal, [2 * MS, 5 * MS], 77, "jbd2/vda1-8"),
            Piece {
                detail: "write of 8 KiB at vda".to_owned(),
                device: Some("vda".to_owned()),
                others: vec![other(815, "rsync", 31 << 20), other(99, "gcc", 0)],
                ..piece(PieceKind::Device, [5 * MS, end], 77, "jbd2/vda1-8")
            },
        ],
        cause: "journal-commit",
        cause_share: 0.75,
        second_cause: None,
        sentence: format!("waited {ms} ms for the journal commit"),
        doubts: Vec::new(),
        unexplained_share: 0.0,
    }
}

fn cause(id: &'static str, title: &'static str, calls: usize, lost_ms: u64) -> CauseFindings {
    CauseFindings {
        cause: id,
        title,
        calls,
        lost_ns: lost_ms * MS,
        p50_ns: 48 * MS,
        sentence: format!("waited for {title}"),
        who: Vec::new(),
        advice: "Give the log a volume that nothing else writes to.",
        source: "kernel.org, ext4 (https://www.kernel.org/doc/ext4.html)",
    }
}

fn watch() -> SlowWatchFacts {
    SlowWatchFacts {
        target: "unit postgresql@15-main".to_owned(),
        processes: 12,
        seconds: 60.0,
        calls: 12_345,
        p50_ns: 300_000,
        p99_ns: 4 * MS,
        max_ns: 210 * MS,
        limit_ns: 20 * MS,
        slow: 43,
        passed_over: 2,
        lost_events: 7,
        blind: vec!["no event of the scheduler".to_owned(), "no event of md".to_owned()],
        rate_recorded: Some(9600.0),
        rate_unrecorded: Some(10_000.0),
        cpu_seconds: 0.72,
        ..SlowWatchFacts::default()
    }
}

/// Five causes, six calls, one of which is doubtful.
pub(crate) fn many() -> WhyFindings {
    let mut journal = cause("journal-commit", "the journal's commit", 37, 1500);
    journal.who = vec![other(815, "rsync", 31 << 20), other(99, "gcc", 0), other(5, "third", 1)];
    let mut doubtful = call(90);
    doubtful.doubts = vec!["events were lost".to_owned(), "less than half".to_owned()];
    (doubtful.second_cause, doubtful.unexplained_share) = (Some("processor-taken"), 0.125);
    doubtful.path = None;
    let mut calls = vec![call(210), doubtful];
    calls.extend([80, 70, 60, 50].map(call));
    WhyFindings {
        schema: WHY_SCHEMA,
        watch: watch(),
        causes: vec![
            journal,
            cause("processor-taken", "the processor taken", 3, 300),
            cause("device-alone", "the device alone", 1, 150),
            cause("stopped", "a signal", 0, 30),
            cause("steal", "the hypervisor", 0, 20),
        ],
        calls,
    }
}

fn nothing() -> WhyFindings {
    let watch = SlowWatchFacts { slow: 0, passed_over: 0, max_ns: 9 * MS, ..watch() };
    WhyFindings { schema: WHY_SCHEMA, watch, causes: Vec::new(), calls: Vec::new() }
}

fn one() -> WhyFindings {
    let causes = vec![cause("journal-commit", "the journal's commit", 1, 210)];
    let watch = SlowWatchFacts { slow: 1, ..watch() };
    WhyFindings { schema: WHY_SCHEMA, watch, causes, calls: vec![call(210)] }
}

fn text(findings: &WhyFindings) -> String {
    let mut out = Vec::new();
    write(Format::Text, findings, &Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_cause_has_its_calls_its_time_its_share_and_who_was_in_the_way() {
    let titles = ["cause", "meaning", "calls", "time lost", "share", "p50", "who"];
    let who = "rsync (815) 31 MiB, gcc (99)";
    let (title, taken) = ("the journal's commit", "the processor taken");
    let journal = ["journal-commit", title, "37", "1.5 s", "75.0 %", "48 ms", who];
    let taken = ["processor-taken", taken, "3", "300 ms", "15.0 %", "48 ms", ""];
    let device = ["device-alone", "the device alone", "1", "150 ms", "7.50 %", "48 ms", ""];
    // Never a main cause: there is no call to take a median of.
    let stopped = ["stopped", "a signal", "0", "30 ms", "1.50 %", "", ""];
    let steal = ["steal", "the hypervisor", "0", "20 ms", "1.00 %", "", ""];
    assert_table(&many(), &[titles, journal, taken, device, stopped, steal]);
    let page = in_full(Format::Html, &many());
    let lost = bars(&page, "Time lost, by cause");
    assert_eq!(lost[..4], ["the journal's commit", "1.5 s", "the processor taken", "300 ms"]);
}

#[test]
fn a_call_has_its_time_file_latency_cause_and_doubt() {
    let titles = [
        "at",
        "call",
        "file",
        "thread",
        "latency",
        "cause",
        "share",
        "second cause",
        "unexplained",
        "doubt",
    ];
    let row = |latency: &'static str| {
        let (file, cause) = ("…al/000000010000000000000001", "journal-commit");
        ["12.3 s", "fdatasync", file, "postgres (813)", latency, cause, "75.0 %", "", "0.00 %", ""]
    };
    let mut doubtful = row("90 ms");
    (doubtful[2], doubtful[7]) = ("", "processor-taken");
    (doubtful[8], doubtful[9]) = ("12.5 %", "doubtful");
    let rows = ["80 ms", "70 ms", "60 ms", "50 ms"].map(row);
    let [third, fourth, fifth, sixth] = rows;
    assert_table(&many(), &[titles, row("210 ms"), doubtful, third, fourth, fifth, sixth]);
    let full = in_full(Format::Text, &many());
    assert!(full.contains("events were lost") && full.contains("less than half"), "{full}");
}

#[test]
fn a_timeline_has_a_row_for_each_piece_with_its_thread_and_who_was_in_the_way() {
    let titles = ["begin", "for", "thread", "state", "detail", "cause", "who"];
    let (jbd2, journal) = ("jbd2/vda1-8 (77)", "journal-commit");
    let runnable =
        ["0 ns", "2 ms", "postgres (813)", "runnable", "", "processor-taken", "gcc (99)"];
    let committed = ["2 ms", "3 ms", jbd2, "journal", "", journal, ""];
    let others = "rsync (815) 31 MiB, gcc (99)";
    let device = ["5 ms", "205 ms", jbd2, "device", "write of 8 KiB at vda", journal, others];
    assert_table(&one(), &[titles, runnable, committed, device]);
}

#[test]
fn the_screen_says_what_was_watched_what_to_do_what_it_cost_and_what_is_not_seen() {
    let advice = "Give the log a volume that nothing else writes to.";
    let [first, third] = ["journal-commit", "device-alone"].map(|id| format!("{id}: {advice}"));
    assert_facts(
        &many(),
        &[
            ("calls", "12345, p50 300 µs, p99 4 ms, max 210 ms; 43 took 20 ms or more"),
            ("what to do", &*first),
            ("device-alone", &*third),
            ("durio's cost", COST),
            ("not explained", "2 slow calls, since too many came at once"),
            ("lost", "7 events; calls at that time are doubtful"),
            ("cannot be told", "no event of the scheduler (and 1 more)"),
        ],
    );
    let page = in_full(Format::Html, &many());
    assert!(page.contains("<a href=\"https://www.kernel.org/doc/ext4.html\""), "{page}");
    let mut cheap = many();
    cheap.watch.rate_recorded = Some(9710.0);
    let less = "write calls 9.71 k/s, without recording 10 k/s: 2.9 % less; 1.2 % of a CPU";
    assert_facts(&cheap, &[("durio's cost", less)]);
    cheap.watch.rate_recorded = Some(10_100.0);
    let none = "write calls 10.1 k/s, without recording 10 k/s: no slowdown seen; 1.2 % of a CPU";
    assert_facts(&cheap, &[("durio's cost", none)]);
    (cheap.watch.rate_unrecorded, cheap.watch.interrupted) = (None, true);
    assert_facts(
        &cheap,
        &[
            ("durio's cost", "1.2 % of a CPU"),
            ("ended early", "interrupted; results cover the time until then"),
        ],
    );
}

#[test]
fn a_screen_has_30_lines_with_many_causes_and_long_advice() {
    let mut findings = many();
    for cause in &mut findings.causes {
        cause.advice = "Move the files of the other program to another filesystem, limit its writes by \
                        io.max of its control group, or let it write in smaller pieces with a sync after \
                        each of them.";
        cause.sentence =
            "waited for the journal's commit of 31 MiB, written back for rsync (815)".into();
    }
    let text = text(&findings);
    assert!(text.lines().count() <= 30, "{}:\n{text}", text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let first =
        "Caution: 37 of 41 slow commits (p50 48 ms): waited for the journal's commit of 31 MiB,";
    assert!(text.starts_with(first), "{text}");
    for hidden in ["steal", "70 ms", "timelines", "no event of md", "processor-taken: Move"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(text.contains("  journal-commit: Move the files"), "{text}");
    let title = "durio why: unit postgresql@15-main, 60.0 s, processes: 12";
    assert!(text.lines().any(|line| line == title), "{text}");
}

#[test]
fn without_slow_calls_there_is_a_sentence_and_the_cost_and_no_empty_table() {
    let text = text(&nothing());
    let first =
        "Good: nothing slower than 20 ms among 12345 commits in 1 min (p50 300 µs, max 9 ms).";
    assert_eq!(text.lines().next(), Some(first));
    for heading in ["\ncauses", "slowest calls", "what to do", "timelines", "─"] {
        assert!(!text.contains(heading), "{heading}: {text}");
    }
    assert_csv(&nothing(), &[["row", "slow_commit_ns"]]);
    let page = in_full(Format::Html, &nothing());
    assert!(!page.contains("<figure") && page.contains("; 1.2 % of a CPU"), "{page}");
}

#[test]
fn records_have_a_row_for_each_call_and_each_piece_with_nanoseconds() {
    let titles = [
        "row",
        "number",
        "thread",
        "thread_name",
        "kind",
        "cause",
        "device",
        "slow_commit_ns",
        "piece_begin_ns",
        "piece_ns",
        "who",
    ];
    let (jbd2, journal) = ("jbd2/vda1-8", "journal-commit");
    let (postgres, taken) = ("postgres", "processor-taken");
    let rsync = "rsync (815) 31 MiB, gcc (99)";
    assert_csv(
        &one(),
        &[
            titles,
            ["call", "1", "813", postgres, "", journal, "", "210000000", "", "", ""],
            ["piece", "1", "813", postgres, "runnable", taken, "", "", "0", "2000000", "gcc (99)"],
            ["piece", "1", "77", jbd2, "journal", journal, "", "", "2000000", "3000000", ""],
            ["piece", "1", "77", jbd2, "device", journal, "vda", "", "5000000", "205000000", rsync],
        ],
    );
    let metrics = in_full(Format::OpenMetrics, &one());
    let line = |name: &str| {
        let mut lines = metrics.lines();
        lines.find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    let slow = line("durio_slow_commit_seconds{");
    assert!(slow.contains("cause=\"journal-commit\"") && slow.ends_with("} 0.21"), "{slow}");
    assert!(line("durio_piece_seconds{").ends_with("} 0.002"), "{metrics}");
    assert!(metrics.contains("durio_verdict_info{verdict=\"caution\"} 1"), "{metrics}");
}

#[test]
fn the_json_document_is_the_findings_with_the_answer_at_their_head() {
    let findings = many();
    let mut json: serde_json::Value =
        serde_json::from_str(&in_full(Format::Json, &findings)).unwrap();
    let summary = json.as_object_mut().unwrap().remove("summary").unwrap();
    assert_eq!(summary["verdict"], "caution");
    assert_eq!(json, serde_json::to_value(&findings).unwrap());
    assert_eq!(json["schema"], "durio-why-1");
}

/// The lanes of the page's first timeline: names, and the titles of pieces.
fn lanes(page: &str) -> (Vec<String>, Vec<String>) {
    let (_, figure) = page.split_once("<figcaption>Timeline of call 1</figcaption>").unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    let each = |begin: &str, end: &str| -> Vec<String> {
        let parts = figure.split(begin).skip(1).filter_map(|part| part.split(end).next());
        parts.map(plain).collect()
    };
    (each("<p>", "</p>"), each("<title>", "</title>"))
}

#[test]
fn a_page_has_a_lane_for_each_thread_and_the_words_of_each_piece() {
    let page = in_full(Format::Html, &one());
    let (names, titles) = lanes(&page);
    assert_eq!(names, ["postgres (813)", "jbd2/vda1-8 (77)"]);
    let device =
        "5 ms to 210 ms (205 ms) device: write of 8 KiB at vda; rsync (815) 31 MiB, gcc (99)";
    let expected =
        ["0 ns to 2 ms (2 ms) runnable; gcc (99)", "2 ms to 5 ms (3 ms) journal", device];
    assert_eq!(titles, expected);
    for kind in ["third thin\">runnable", "second\">journal", "first\">device"] {
        assert!(page.contains(&format!("<span class=\"key {kind}</span>")), "{kind}");
    }
}

#[test]
fn twenty_calls_are_drawn_and_all_have_their_rows() {
    let mut findings = one();
    findings.calls = (0..23).map(|number| call(300 - number)).collect();
    let page = in_full(Format::Html, &findings);
    assert_eq!(page.matches("<figcaption>Timeline of call ").count(), 20);
    assert_eq!(page.matches("data-label=\"state\"").count(), 23 * 3);
}

#[test]
fn a_run_that_recorded_slow_commits_has_their_causes_calls_cost_and_timelines() {
    let mut recorded = one();
    recorded.causes[0].who.clone_from(&many().causes[0].who);
    let run = Findings { why: Some(Box::new(recorded)), ..sample::complete() };
    // With all that follows in the section.
    let text = in_full(Format::Text, &run);
    let causes = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let who = "rsync (815) 31 MiB, gcc (99)";
    let journal = format!("journal-commit the journal's commit 1 210 ms 100 % 48 ms {who}");
    assert!(causes.contains(&journal), "{text}");
    let titles = ["begin", "for", "thread", "state", "detail", "cause", "who"];
    let runnable =
        ["0 ns", "2 ms", "postgres (813)", "runnable", "", "processor-taken", "gcc (99)"];
    let committed = ["2 ms", "3 ms", "jbd2/vda1-8 (77)", "journal", "", "journal-commit", ""];
    let write = "write of 8 KiB at vda";
    let device = ["5 ms", "205 ms", "jbd2/vda1-8 (77)", "device", write, "journal-commit", who];
    assert_table(&run, &[titles, runnable, committed, device]);
    let page = in_full(Format::Html, &run);
    assert!(page.contains("<h2>Slow commits</h2>") && page.contains("Timeline of call 1"));
    let calls = "12345, p50 300 µs, p99 4 ms, max 210 ms; 1 took 20 ms or more";
    assert_facts(&run, &[("calls", calls), ("durio's cost", COST)]);
    let said = "rates and latencies include what recording cost, which was not measured";
    let sentence = "1 of 1 slow commit (p50 48 ms): waited for the journal's commit";
    for format in [Format::Text, Format::Html, Format::Markdown] {
        let recorded = in_full(format, &run);
        assert!(recorded.contains(said) && plain(&recorded).contains(sentence), "{recorded}");
        assert!(!in_full(format, &sample::complete()).contains(said), "{format}");
    }
}

#[test]
fn the_json_document_reads_back_with_the_causes_texts_of_today() {
    let text = in_full(Format::Json, &many());
    let read: WhyFindings = serde_json::from_str(&text).unwrap();
    assert_eq!((&read.watch, &read.calls), (&many().watch, &many().calls));
    let of_rules = causes().iter().find(|cause| cause.id == "processor-taken").unwrap();
    let taken = &read.causes[1];
    assert_eq!(taken.title, of_rules.title);
    assert_eq!((taken.advice, taken.source), (&*of_rules.advice, &*of_rules.source));
    assert_eq!((taken.calls, taken.lost_ns, taken.p50_ns), (3, 300 * MS, 48 * MS));
    assert_eq!(read.causes[0].who, many().causes[0].who);
    for (known, other, said) in [
        ("durio-why-1", "durio-why-2", "its form is durio-why-2; use a newer durio"),
        ("\"processor-taken\"", "\"gremlins\"", "unknown cause 'gremlins'"),
    ] {
        let refused = serde_json::from_str::<WhyFindings>(&text.replace(known, other)).unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
    // In the document of a run too.
    let run = Findings { why: Some(Box::new(read)), ..sample::complete() };
    let again: Findings = serde_json::from_str(&in_full(Format::Json, &run)).unwrap();
    assert!(again == run);
}

/// Names that a file or a thread may have, with what would steer a terminal, a page or a spreadsheet.
fn hostile() -> WhyFindings {
    let odd = "\u{1b}[31m</title><script>alert(1)</script>|`\n=1+1\u{202e}";
    let mut findings = many();
    findings.watch.target = odd.to_owned();
    findings.causes[0].sentence = odd.to_owned();
    findings.causes[0].who[0].name = odd.to_owned();
    for call in &mut findings.calls {
        (call.name, call.sentence) = (odd.to_owned(), odd.to_owned());
        (call.path, call.doubts) = (Some(odd.to_owned()), vec![odd.to_owned()]);
        for piece in &mut call.pieces {
            (piece.detail, piece.lane.name) = (odd.to_owned(), odd.to_owned());
        }
    }
    findings
}

#[test]
fn odd_names_steer_no_format() {
    for format in [Format::Text, Format::Markdown, Format::Html, Format::Csv, Format::OpenMetrics] {
        let text = in_full(format, &hostile());
        let is_odd = |c: char| c == '\u{1b}' || c == '\u{202e}';
        assert!(!text.contains(is_odd), "{format}: {text:?}");
    }
    let page = in_full(Format::Html, &hostile());
    let benign = in_full(Format::Html, &many());
    for tag in ["<script", "<title"] {
        assert_eq!(page.matches(tag).count(), benign.matches(tag).count(), "{tag}");
    }
}

#[test]
fn the_page_shows_its_timelines_zooms_and_asks_for_nothing() {
    const SCRIPT: &str = "<script>
        const lanes = document.querySelector('.lanes');
        const width = () => Math.round(lanes.scrollWidth / lanes.clientWidth);
        const [first, second] = lanes.parentElement.querySelectorAll('.zoom');
        const widths = [width()];
        first.open = true; widths.push(width());
        second.open = true; widths.push(width());
        const page = document.documentElement;
        console.log('zoom ' + widths + ' ' + (page.scrollWidth > page.clientWidth));
    </script></body>";
    let test = "the_page_shows_its_timelines_zooms_and_asks_for_nothing";
    for (findings, picture) in [(many(), 10_000), (hostile(), 10_000), (nothing(), 0)] {
        let page = in_full(Format::Html, &findings);
        let Some(visit) = visit(test, &page) else { return };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > picture, "{} bytes of screenshot", visit.screenshot);
    }
    let page = in_full(Format::Html, &many());
    let planted = page.replace("</body>", SCRIPT).replace("Content-Security-Policy", "no-policy");
    let Some(visit) = visit(test, &planted) else { return };
    assert!(
        visit.console.iter().any(|line| line.contains("zoom 1,4,16 false")),
        "{:?}",
        visit.console
    );
}
