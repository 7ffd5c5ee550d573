//! What a terminal shows.

use durio_analyse::{Findings, Verdict, VerdictWord};
use durio_record::OperationName;
use durio_report::{Format, Options};

use crate::{sample, written, written_with};

/// With all details.
fn at_width(findings: &Findings, width: usize) -> String {
    written_with(Format::Text, findings, &Options { width, verbose: true, ..Options::default() })
}

fn whole(findings: &Findings) -> String {
    at_width(findings, 100)
}

/// What is shown without being asked for.
fn page(findings: &Findings) -> String {
    written_with(Format::Text, findings, &Options::default())
}

fn place_of(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("no '{part}' in:\n{text}"))
}

#[test]
fn a_check_fits_a_screen_and_its_answer_comes_first() {
    for findings in [sample::complete(), sample::two_locations(), sample::partial()] {
        let text = page(&findings);
        assert!(text.lines().count() <= 30, "{}:\n{text}", text.lines().count());
    }
    let text = page(&sample::complete());
    let sentence = "Bad: a power cut can lose acknowledged commits (cache-view-overridden, disk vdb); \
                    7.12 k durable\ncommits/s with one writer, p99 236 µs.\ndurio 0.";
    assert!(text.starts_with(sentence), "{text}");
    let order = [
        "durio 0.",
        "/srv/db",
        "filesystem ext4 at /srv on software RAID md0",
        "rate over time",
        "flush        UNSAFE-CONFIG cache-view-overridden (disk vdb)\n",
        "caveats (2)  virtual-disk-rotational, stalls\n",
        "Verdicts",
        "  unfit        oracle (mean of commit < 100 µs, measured 140 µs)\n",
        "  fit          etcd 36.9 ×\n",
        "Next",
        "durio durable /srv/db",
    ];
    let places: Vec<_> = order.iter().map(|part| place_of(&text, part)).collect();
    assert!(places.is_sorted(), "{places:?}\n{text}");
    assert!(text.trim_end().ends_with("/report.html"));
}

#[test]
fn details_follow_the_page_when_they_are_asked_for() {
    let text = whole(&sample::complete());
    let order = [
        "COMPLETE",
        "Verdicts",
        "Can its flush be trusted?",
        "Warnings",
        "Measured on",
        "How it was measured",
        "Environment and plan",
        "Next",
    ];
    let places: Vec<_> = order.iter().map(|part| place_of(&text, part)).collect();
    assert!(places.is_sorted(), "{places:?}\n{text}");
    assert!(
        order
            .iter()
            .filter(|heading| !["Verdicts", "Next"].contains(heading))
            .all(|heading| !page(&sample::complete()).contains(heading))
    );
}

#[test]
fn the_layers_of_each_of_several_places_are_said_below_the_title_with_the_place() {
    let of_array = "filesystem ext4 at /srv on software RAID md0 on disk vdb (overlayblk), disk vdc (overlayblk)";
    let machine = "virtual machine (kvm), 2 CPUs, 8 GiB memory, Linux 6.18.1-amd64";
    let when = "2026-11-21 10:09:00 UTC · run 2026-11-21T100900-000Z-check-4711";
    let text = at_width(&sample::two_locations(), 1000);
    let (first, second) = (format!("A /srv/db: {of_array}"), "B /dev/vdb: disk vdb (overlayblk)");
    let expected = format!("\n{first}\n{second}\n{machine}\n{when}\n");
    assert!(text.contains(&expected), "{expected}:\n{text}");
    // The only place is in the title.
    let text = at_width(&sample::complete(), 1000);
    let expected = format!("\n{of_array}\n{machine}\n{when}\n");
    assert!(text.contains(&expected), "{expected}:\n{text}");
}

#[test]
fn what_lies_in_memory_is_called_so_and_not_durable() {
    let mut findings = sample::complete();
    findings.stack[0].root.below.clear();
    findings.stack[0].root.kind = durio_observe::LayerKind::Memory;
    let text = page(&findings);
    let sentence =
        "Unknown: /srv/db is in memory and does not survive a power cut; 7.12 k commits/s with one";
    assert!(text.starts_with(sentence), "{text}");
    assert!(!text.contains("durable commit"), "{text}");
    assert!(whole(&findings).contains("7.12 k commits per second"));
    assert!(whole(&findings).contains("MEMORY-BACKED"));
}

#[test]
fn commits_stand_above_their_write_and_their_sync() {
    let text = whole(&sample::complete());
    let table: Vec<_> = text.lines().filter(|line| line.contains(" k ")).collect();
    let row = |label: &str| {
        table.iter().position(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}"))
    };
    assert!(row("commit ") < row("  write "));
    assert!(table[row("commit ")].contains(" 55.6 MiB/s "));
    assert!(row("  write ") < row("  sync (fdatasync) "));
}

#[test]
fn lines_keep_to_the_width() {
    for width in [80, 100, 120] {
        for findings in [sample::complete(), sample::partial(), sample::two_locations()] {
            let text = at_width(&findings, width);
            let long = text.lines().filter(|line| line.chars().count() > width);
            let long: Vec<_> = long
                .filter(|line| !line.starts_with("  durio ") && !line.contains("/home/anna"))
                .collect();
            assert!(long.is_empty(), "{width}: {long:#?}");
        }
    }
}

#[test]
fn a_name_longer_than_half_a_line_stands_above_its_words() {
    let lines = |length: usize| {
        let mut findings = sample::complete();
        findings.workloads[0].name = "n".repeat(length);
        let text = whole(&findings);
        let (_, section) = text.split_once("\nHow it was measured\n").unwrap();
        let mut lines = section.lines().skip_while(|line| !line.starts_with("  nnn"));
        [lines.next(), lines.next()].map(|line| line.unwrap().to_owned())
    };
    let [name, words] = lines(50);
    assert!(name.starts_with(&format!("  {}  sync engine", "n".repeat(50))), "{name}");
    assert!(words.starts_with(&" ".repeat(54)), "{words}");
    let [name, words] = lines(51);
    assert_eq!(name, format!("  {}", "n".repeat(51)));
    assert!(words.contains("sync engine, 1 job × depth 1, batch 1, "), "{words}");
}

#[test]
fn every_workload_has_a_row_with_its_rate_over_time_in_eighty_columns() {
    let options = Options { width: 80, ..Options::default() };
    let text = written_with(Format::Text, &sample::complete(), &options);
    let header = text.lines().find(|line| line.starts_with("workload  ")).unwrap();
    let words: Vec<_> = header.split_whitespace().collect();
    assert_eq!(words[..3], ["workload", "per", "second"], "{header}");
    assert_eq!(words[words.len() - 4..].join(" "), "p99.9 rate over time");
    let row = text.lines().find(|line| line.starts_with("commit ")).unwrap();
    assert!(row.contains("7.12 k") && row.contains('█'), "{row}");
}

#[test]
fn an_absent_percentile_is_a_dash_with_a_footnote() {
    let note = "too few samples for this percentile";
    assert!(whole(&sample::partial()).contains(note));
    assert!(!whole(&sample::complete()).contains(note));
}

#[test]
fn a_partial_run_says_so_and_its_provisional_reason_is_given_once() {
    let text = written(Format::Text, &sample::partial());
    assert!(text.contains(
        "PARTIAL      the record is incomplete: the run was killed, or is still running"
    ));
    assert_eq!(text.matches("PROVISIONAL").count(), 1);
    assert!(text.contains("unknown p99 commit latency: fewer than 100 commits"));
    assert!(text.contains("ended before their limit: commit"));
}

#[test]
fn a_failed_run_without_figures_gives_its_error() {
    let text = written(Format::Text, &sample::empty());
    assert!(text.contains("No durable workload was measured."));
    assert!(text.contains("FAILED       an error ended the run"));
    assert!(text.contains("ERROR        fdatasync of the log: input/output error (5)"));
}

#[test]
fn several_locations_are_shown_side_by_side() {
    let text = whole(&sample::two_locations());
    let header = text.lines().find(|line| line.starts_with("workload  ")).unwrap();
    assert!(header.contains("A /s") && header.contains("B /s"), "{header}");
    let etcd = text.lines().find(|line| line.starts_with("  etcd ")).unwrap();
    assert_eq!(etcd.matches("fit 271 µs (36.9 ×)").count(), 2, "{etcd}");
}

#[test]
fn two_places_have_their_ratio_and_the_command_that_gives_it_an_interval() {
    let mut findings = sample::two_locations();
    let commit = |findings: &mut Findings, place: &str, rate: f64| {
        let mut all = findings.workloads.iter_mut();
        let workload = all.find(|it| it.name == "commit" && it.location == place).unwrap();
        let mut operations = workload.operations.iter_mut();
        operations.find(|it| it.operation == OperationName::Commit).unwrap().rate = rate;
    };
    commit(&mut findings, "/srv/db", 399.0);
    commit(&mut findings, "/dev/vdb", 11_900.0);
    findings.run.command =
        ["durio", "check", "--quick", "/srv/db", "/dev/vdb"].map(str::to_owned).to_vec();
    let said = "B is 30 × A: 11.9 k against 399 commits/s (commit); one run of each does not show \
                how much runs vary";
    let text = at_width(&findings, 200);
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(in_one_line.matches(said).count(), 1, "{text}");
    let command =
        "durio compare /srv/db /dev/vdb --pairs 5 -- --quick  # alternating, with an interval";
    assert!(text.lines().any(|line| line == command), "{text}");
    assert!(!text.contains("NOTE"), "an array of two disks is not one of them: {text}");
    // Another path on the same array.
    findings.stack[1] = findings.stack[0].clone();
    findings.stack[1].target = "/dev/vdb".into();
    let text = at_width(&findings, 200);
    assert!(text.contains("NOTE  same disk: A and B are two paths on vdb, vdc"), "{text}");
    assert!(!at_width(&sample::complete(), 200).contains("alternating, with an interval"));
}

#[test]
fn two_places_have_limits_in_a_line_each_and_one_line_for_what_is_the_same() {
    let mut findings = sample::two_locations();
    findings.stack[1] = findings.stack[0].clone();
    findings.stack[1].target = "/dev/vdb".into();
    let text = page(&findings);
    let layers = "\nA /srv/db, B /dev/vdb: filesystem ext4 at /srv on software RAID md0";
    assert!(text.contains(layers), "{text}");
    assert!(text.lines().count() <= 30 && !text.contains("Verdicts"), "{text}");
    let missed = "1 met; missed: oracle (mean of commit < 100 µs, measured 140 µs)";
    assert!(text.contains(&format!("\nlimits A, B  {missed}\n")), "{text}");
    let mut verdicts = findings.verdicts.iter_mut();
    let is_it = |it: &&mut Verdict| it.database == "oracle" && it.location == "/dev/vdb";
    verdicts.find(is_it).unwrap().verdict = VerdictWord::Fit;
    let text = page(&findings);
    let lines = format!("\nlimits A     {missed}\nlimits B     all 2 met\n");
    assert!(text.contains(&lines), "{text}");
}

#[test]
fn verdicts_are_a_table_with_limit_and_headroom_and_sources_are_details() {
    let row = |text: &str, database: &str| {
        let row = text.lines().find(|line| line.starts_with(&format!("  {database} ")))?;
        Some(row.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let text = whole(&sample::complete());
    let is = |database, shown: &str| assert_eq!(row(&text, database).unwrap(), shown);
    is("etcd", "etcd fit p99 of sync < 10 ms commit 271 µs 36.9 ×");
    is("oracle", "oracle unfit mean of commit < 100 µs commit 140 µs 0.71 ×");
    assert!(text.contains("no limit is published for 3 databases"));
    // A screen has a line for each verdict, and names undecided limits with their reason.
    let screen = page(&sample::complete());
    assert_eq!(row(&screen, "etcd"), None);
    assert!(
        screen.contains("cannot tell  no workload of this run writes 60 KiB (sqlserver)"),
        "{screen}"
    );
    let shown = row(&text, "sqlserver").unwrap();
    assert!(shown.starts_with("sqlserver cannot tell p99 of commit < 5 ms"), "{shown}");
    assert!(
        text.contains("p99 of fdatasync below 10 ms; source: etcd project, Hardware"),
        "{text}"
    );
    assert!(text.contains("no limit is published for  postgresql, mysql, mongodb"), "{text}");
}

#[test]
fn the_layers_are_a_tree_with_their_facts() {
    let text = at_width(&sample::complete(), 200);
    assert!(
        text.contains("  directory /srv/db\n  └─ filesystem ext4 at /srv · 196 GiB, "),
        "{text}"
    );
    assert!(text.contains("     └─ software RAID md0 · RAID1 · 200 GiB"), "{text}");
    assert!(text.contains("disk vdb · overlayblk · 200 GiB · write-back cache, no FUA"), "{text}");
    assert!(text.contains("queue: scheduler mq-deadline"), "{text}");
}

#[test]
fn what_the_machine_does_not_show_is_told() {
    let text = whole(&sample::complete());
    assert!(text.contains("  governor       none shown\n"));
    assert!(text.contains("  cgroup limits  memory 4 GiB\n"));
}

#[test]
fn the_accounts_name_engine_fallbacks_own_cost_and_the_check() {
    let text = at_width(&sample::complete(), 200);
    assert!(text.contains("sync engine, 1 job × depth 1, batch 1, direct, tsc clock, no fallback"));
    assert!(
        text.contains("fell back: no registered buffers: 8 MiB of lockable memory are too few")
    );
    assert!(text.contains("durio's cost  uring engine at depth 4: 338 ns CPU time per I/O"));
    assert!(text.contains("Little's law  largest deviation at mixed: 31.52 by latency × rate"));
}

/// The section as a whole, so that a change of its form is seen.
const SIGNALS: &str = "Can its flush be trusted?
  Observations, most severe first. They are evidence, not proof; only a power cut is.
  UNSAFE-CONFIG  cache-view-overridden (disk vdb): somebody told the kernel that the cache is not
                 volatile
                 read: kernel's view = write through [/sys/class/block/vdb/queue/write_cache];
                 device's own = write back [/sys/class/block/vdb/cache_type]
                 do: echo 'write back' into queue/write_cache of the device
  FACT           flush-sent (disk vdc): the kernel sends a flush for each sync
                 read: kernel's view = write back [/sys/class/block/vdb/queue/write_cache]

Warnings
";

#[test]
fn signals_are_told_with_their_word_their_evidence_and_what_to_do() {
    let text = whole(&sample::complete());
    assert!(text.contains(SIGNALS), "{text}");
    let mut without = sample::complete();
    without.signals.clear();
    assert!(!whole(&without).contains("Can its flush be trusted?"));
}

#[test]
fn warnings_are_seen_why_and_do() {
    let text = whole(&sample::complete());
    assert!(text.contains("  WARNING  stalls (commit, mixed)\n           seen: 1 interval"));
    assert!(text.contains("\n           why: a database waits"));
    assert!(text.contains("\n           do: look at the time series"));
}

#[test]
fn caveats_that_a_line_has_no_room_for_are_counted() {
    let mut findings = sample::complete();
    let one = findings.warnings[1].clone();
    let codes =
        ["outside-device", "too-short", "system-cpu", "unwatched", "noisy", "tail", "steal"];
    findings.warnings = codes
        .map(|code| durio_analyse::WarningFinding { code: code.to_owned(), ..one.clone() })
        .into();
    let line = "caveats (7)  outside-device, too-short, system-cpu, unwatched, noisy, tail and 1 more \
                (--verbose)\n";
    assert!(page(&findings).contains(line), "{}", page(&findings));
    findings.warnings.clear();
    assert!(page(&findings).contains("caveats  none\n"), "{}", page(&findings));
}

#[test]
fn colours_come_only_when_asked_for_and_change_no_word() {
    let plain = whole(&sample::complete());
    assert!(!plain.contains('\x1b'));
    let options = Options { width: 100, colour: true, verbose: true };
    let coloured = written_with(Format::Text, &sample::complete(), &options);
    assert!(coloured.contains("\x1b[1;32m"));
    assert_eq!(without_colours(&coloured), plain);
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').unwrap().1);
    }
    let lines: Vec<_> = plain.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

#[test]
fn hostile_names_cannot_speak_to_the_terminal() {
    let text = written(Format::Text, &sample::hostile());
    assert!(!text.contains('\x1b'));
    assert!(text.contains("\\u{1b}[2J"));
}

/// The commands of durio that are offered below a report.
fn offered(findings: &Findings) -> Vec<String> {
    let text = written_with(
        Format::Text,
        findings,
        &Options { width: 300, verbose: true, ..Options::default() },
    );
    let (_, next) = text.rsplit_once("Next\n").unwrap();
    let commands = next.lines().filter_map(|line| line.trim_start().strip_prefix("durio "));
    commands.map(|line| line.split("  #").next().unwrap().trim_end().to_owned()).collect()
}

#[test]
fn the_next_commands_are_those_that_go_with_the_run_and_its_place() {
    use durio_plan::Purpose;
    let of = |purpose: Purpose, in_memory: bool, provisional: bool| {
        let mut findings = sample::complete();
        findings.plan.purpose = purpose;
        findings.provisional = provisional.then(|| "measured for 1 s per workload".to_owned());
        if in_memory {
            let filesystem = &mut findings.stack[0].root.below[0];
            filesystem.below.clear();
            filesystem.kind = durio_observe::LayerKind::Memory;
        }
        offered(&findings)
    };
    let (durable, thorough) = ("durable /srv/db", "check --thorough /srv/db");
    let (advise, report) = ("advise /srv/db --run check-4711", "report check-4711 --verbose");
    let other = "check DIR";
    // A screen has the first step and the report; the others stand before them.
    assert_eq!(of(Purpose::Check, false, false), [advise, durable, report]);
    assert_eq!(of(Purpose::Check, false, true), [durable, advise, thorough, report]);
    assert_eq!(of(Purpose::Run, false, true), [advise, durable, report]);
    assert_eq!(of(Purpose::Durable, false, true), [advise, report]);
    // Nothing that is measured in memory is of use there.
    for purpose in [Purpose::Check, Purpose::Run, Purpose::Durable] {
        for provisional in [false, true] {
            assert_eq!(of(purpose, true, provisional), [other, report], "{purpose:?}");
        }
    }
    // A device has no directory to check.
    let mut device = sample::two_locations();
    device.stack.remove(0);
    assert_eq!(offered(&device), [report]);
}

#[test]
fn caveats_are_counted_and_named_while_a_line_has_room() {
    let caveats = |count: usize| {
        let mut findings = sample::complete();
        let one = findings.warnings.remove(0);
        let warning = |number: usize| {
            let code = format!("caveat-{number:03}");
            durio_analyse::WarningFinding { code, ..one.clone() }
        };
        findings.warnings = (0..count).map(warning).collect();
        let text =
            written_with(Format::Text, &findings, &Options { width: 300, ..Options::default() });
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("caveats"));
        line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(caveats(0), "none");
    assert_eq!(caveats(1), "(1) caveat-000");
    // Ten characters each, and two between: five have 58, six 70 of the 61 that there is room for.
    let five = "caveat-000, caveat-001, caveat-002, caveat-003, caveat-004";
    assert_eq!(caveats(5), format!("(5) {five}"));
    assert_eq!(caveats(6), format!("(6) {five} and 1 more (--verbose)"));
    assert_eq!(caveats(12), format!("(12) {five} and 7 more (--verbose)"));
}
