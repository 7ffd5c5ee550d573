//! Advice, and the proof of a rule, as documents.
//!
//! The screen has what to do in the order of the expected gain, lines to paste, what gained nothing
//! in durio's own tests, and undecided rules; `--verbose` adds a section per state, with reasons. A
//! [`RuleProof`] gets the switched setting, the results and the restored settings.

mod gains;

use std::collections::BTreeMap;

use durio_analyse::each_once;
use durio_base::counted;
use durio_judge::advise::{
    Advice, AdviceReport, AdviceSource, AdviceState, ConfigFile, Conflict, EvidenceOutcome,
    RuleProof, SourceKind, Statement,
};
use durio_judge::summary::Summary;
use serde::Serialize;

use crate::Report;
use crate::document::{DetailLevel, Document, Section, SectionBody, Tone};

/// Changes that a screen shows.
const TO_DO_MAX: usize = 3;

/// Lines to paste that a screen shows, each file's name among them.
const LINES_MAX: usize = 7;

/// Advice, of which JSON has everything.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ShownAdvice<'a> {
    pub report: &'a AdviceReport,
    /// Whether readers also see advice that does not apply.
    #[serde(skip)]
    pub all: bool,
}

impl Report for ShownAdvice<'_> {
    fn document(&self) -> Document {
        let Self { report, all } = self;
        let mut document = Document::new("", title(report));
        document.poster = Some(gains::gains(report));
        let mut head = Section::default();
        report.origins.iter().for_each(|origin| head.fact("from", origin));
        report.notes.iter().for_each(|note| head.toned(Tone::Warning, "note", note));
        document.push(head);
        let shown = |advice: &&Advice| *all || advice.state != AdviceState::NotApplicable;
        // A rule that was asked for is shown whole.
        let level = match report.advice.iter().filter(shown).count() {
            0 | 1 => DetailLevel::Summary,
            _ => DetailLevel::Detail,
        };
        if level == DetailLevel::Detail {
            document.push(to_do(report));
            document.push(refuted(report));
        }
        document.push(files(&report.files));
        if level == DetailLevel::Detail {
            document.push(other_rules(report));
        }
        let states = [
            // Work to do comes first, and unknown states before good ones.
            (AdviceState::NotMet, "Not met"),
            (AdviceState::CannotTell, "Undecided"),
            (AdviceState::Met, "Met"),
            (AdviceState::NotApplicable, "Not applicable"),
        ];
        for (state, heading) in states {
            if state == AdviceState::NotApplicable && !all {
                continue;
            }
            let mut section = Section { level, ..Section::new(heading) };
            let its = report.advice.iter().filter(|advice| advice.state == state);
            its.for_each(|rule| section.group(advice(rule)));
            document.push(section);
        }
        let heading = "Conflicts: documents that contradict each other; durio does not choose";
        let mut conflicts = Section { level, ..Section::new(heading) };
        report.conflicts.iter().for_each(|dispute| conflicts.group(conflict(dispute)));
        document.push(conflicts);
        document
    }

    fn summary(&self) -> Option<Summary> {
        Some(self.report.summary())
    }
}

impl Report for RuleProof {
    fn document(&self) -> Document {
        let title = format!("Proof of {} {} at {}", self.rule, self.name, self.target);
        let mut document = Document::new("", title);
        document.poster = crate::compare::poster(&self.comparison);
        let mut head = Section::default();
        head.fact("rule", &self.title);
        let switched = &self.switched;
        head.fact(
            "switched",
            match &switched.file {
                Some(file) => format!("{} ({file})", switched.what),
                None => format!("{}, durio's own", switched.what),
            },
        );
        head.toned(Tone::Strong, "before", format!("A = {}", switched.before));
        head.toned(Tone::Strong, "after", format!("B = {}", switched.after));
        head.fact("runs", format!("{} of each, alternating A B B A", self.pairs));
        document.push(head);
        crate::compare::figures(&self.comparison)
            .into_iter()
            .for_each(|section| document.push(section));
        let mut end = Section::default();
        match &switched.restored {
            Some(value) if *value == switched.before => {
                end.toned(Tone::Good, "restored", format!("{value}, read back"));
            }
            Some(value) => end.toned(Tone::Bad, "restored", format!("NOT RESTORED: it is {value}")),
            None => end.fact("restored", "nothing was changed"),
        }
        document.push(end);
        document
    }

    fn summary(&self) -> Option<Summary> {
        self.comparison.summary()
    }
}

fn title(report: &AdviceReport) -> String {
    let mut title = format!("Advice for {}", report.target);
    if let Some(database) = &report.database {
        title = format!("{title}, {database}");
    }
    if let Some(role) = report.role {
        title = format!("{title}, role {}", role.name());
    }
    title
}

/// A line per change, the most important first.
fn to_do(report: &AdviceReport) -> Section {
    let mut section = Section::new("To do, largest expected gain first");
    let all = report.to_do();
    for (at, advice) in all.iter().enumerate() {
        let level = if at < TO_DO_MAX { DetailLevel::Summary } else { DetailLevel::Detail };
        let how = match &advice.apply.command {
            Some(command) if advice.lines.is_empty() => format!(" Run: {command}"),
            _ => String::new(),
        };
        let text = format!("{}: {}.{how}", advice.instruction(), advice.gain.says);
        section.toned_at(level, Tone::Strong, &label(advice), text);
    }
    if all.len() > TO_DO_MAX {
        let rest: Vec<&str> = all[TO_DO_MAX..].iter().map(|advice| advice.rule.as_str()).collect();
        section.note(format!("{} more (--verbose): {}", rest.len(), rest.join(", ")));
    }
    section
}

fn label(advice: &Advice) -> String {
    format!("{} {}", advice.rule, advice.about)
}

/// What durio's own tests speak against: never among what there is to do.
fn refuted(report: &AdviceReport) -> Section {
    let mut section = Section::detail("Tested, no benefit");
    for advice in report.refuted() {
        let text = format!("{}: {}", advice.instruction(), advice.gain.says);
        section.fact(&label(advice), text);
    }
    section
}

/// The lines that keep the changes, by file.
fn files(all: &[ConfigFile]) -> Section {
    let mut section = Section::new("Suggested lines (--write DIR creates these files)");
    let mut room = LINES_MAX;
    let mut hidden = 0;
    for file in all {
        let lines = file.lines.len() + 1;
        // Whole files: half of one would be pasted as if it were all.
        let level = match lines <= room {
            true => DetailLevel::Summary,
            false => DetailLevel::Detail,
        };
        match level {
            DetailLevel::Summary => room -= lines,
            _ => hidden += 1,
        }
        let text = format!("{} {}\n{}", file.comment, file.name, file.lines.join("\n"));
        section.push(level, SectionBody::Verbatim(text));
        let install = format!("{}: {}", file.name, file.install);
        section.say_at(DetailLevel::Detail, Tone::Note, install);
    }
    if hidden > 0 {
        section.note(format!("{}: --verbose", counted(hidden, "more file")));
    }
    section
}

/// Rules that durio's own tests refuted, undecided rules with their reasons, and contradictions
/// between documents.
fn other_rules(report: &AdviceReport) -> Section {
    let mut section = Section::default();
    let refuted = report.refuted();
    let refuted = each_once(refuted.iter().map(|advice| advice.rule.as_str()));
    if !refuted.is_empty() {
        let text = format!("{} (durio's own A/B tests; --verbose)", refuted.join(", "));
        section.fact("no benefit", text);
    }
    let unknown = report.advice.iter().filter(|advice| advice.state == AdviceState::CannotTell);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for advice in unknown {
        *reasons.entry(lacks(advice, report)).or_default() += 1;
    }
    let count: u64 = reasons.values().sum();
    if count > 0 {
        let reasons: Vec<String> =
            reasons.iter().map(|(lack, rules)| format!("{rules} {lack}")).collect();
        let text = format!("{}: {}", counted(count, "rule"), reasons.join(", "));
        section.toned(Tone::Warning, "undecided", text);
    }
    let conflicts = report.conflicts.iter().map(|conflict| conflict.about.as_str());
    let conflicts = each_once(conflicts);
    if !conflicts.is_empty() {
        let text = format!("documents contradict each other about {}", conflicts.join(", "));
        section.toned_at(DetailLevel::Detail, Tone::Warning, "conflicts", text);
    }
    let counts = report.counts;
    let text = format!(
        "{} met, {} not met, {} undecided, {} not applicable; --verbose has reasons and undo",
        counts.met, counts.not_met, counts.cannot_tell, counts.not_applicable
    );
    section.note(text);
    section
}

/// What an undecided rule lacks first, after the number of such rules.
fn lacks(advice: &Advice, report: &AdviceReport) -> String {
    let groups: Vec<&str> = advice
        .missing
        .iter()
        .map(|missing| missing.fact.split('.').next().unwrap_or_default())
        .collect();
    if groups.contains(&"run") {
        return match report.run.is_some() {
            true => "missing a measurement in the run".to_owned(),
            false => format!("missing a measurement (durio durable {})", report.target),
        };
    }
    let is_of_machine = |group: &&str| ["device", "md", "fs", "host", "zfs"].contains(group);
    match (&report.database, groups.iter().all(is_of_machine)) {
        (Some(database), false) => {
            format!("missing {database} settings (--config FILE)")
        }
        _ if groups.contains(&"zfs") => {
            "missing ZFS properties (--setting zfs.NAME=VALUE)".to_owned()
        }
        _ => "missing a value that this kernel does not expose".to_owned(),
    }
}

fn advice(it: &Advice) -> Section {
    let about = if it.about.is_empty() { String::new() } else { format!(" [{}]", it.about) };
    let what = it.instruction();
    let mut group = Section::new(format!("{}  {}{about}: {what}", it.rule, it.name));
    let tone = match it.state {
        AdviceState::Met => Tone::Good,
        AdviceState::NotMet => Tone::Bad,
        AdviceState::CannotTell => Tone::Warning,
        AdviceState::NotApplicable => Tone::Note,
    };
    group.toned(tone, it.state.words(), &it.reason);
    if it.state == AdviceState::NotMet {
        what_to_do(it, &mut group);
    }
    group
}

fn what_to_do(advice: &Advice, group: &mut Section) {
    group.fact("why", &advice.advice);
    group.fact("gain", &advice.gain.says);
    let apply = &advice.apply;
    let lines = [
        ("command", &apply.command),
        ("udev", &apply.udev),
        ("set", &apply.setting),
        ("undo", &apply.undo),
    ];
    group.facts(lines.into_iter().filter_map(|(label, text)| Some((label, text.clone()?))));
    let prove = match advice.provable {
        true => format!("; durio advise --prove {} measures it", advice.rule),
        false => String::new(),
    };
    group.fact("risk", format!("{}{prove}", advice.risk.name()));
    for source in &advice.sources {
        group.toned(Tone::Note, "source", source_line(source));
    }
    // The project's own measurements, next to the sources.
    for evidence in &advice.evidence {
        let (label, tone) = match evidence.outcome {
            EvidenceOutcome::Disagrees => ("but", Tone::Warning),
            EvidenceOutcome::NoDifference | EvidenceOutcome::Agrees => ("proof", Tone::Plain),
            EvidenceOutcome::NotMeasurable => ("proof", Tone::Note),
        };
        group.toned(tone, label, evidence.line());
    }
}

fn source_line(source: &AdviceSource) -> String {
    let mut line = format!("{}: {}", source.kind.name(), source.document);
    if !source.url.is_empty() {
        line = format!("{line}, {}", source.url);
    }
    // General knowledge has no document that could be looked up again.
    if !source.looked_up && source.kind != SourceKind::GeneralKnowledge {
        line = format!("{line} (not looked up again)");
    }
    line
}

fn conflict(it: &Conflict) -> Section {
    let mut group = Section::new(&it.about);
    for Statement { rule, for_whom, says, sources } in &it.statements {
        let rule = rule.as_deref().map(|rule| format!("{rule} ")).unwrap_or_default();
        let whom = if for_whom.is_empty() { String::new() } else { format!(" ({for_whom})") };
        let by: Vec<String> = sources.iter().map(source_line).collect();
        group.fact("says", format!("{rule}\"{says}\"{whom} — {}", by.join("; ")));
    }
    group
}

#[cfg(test)]
mod tests {
    use durio_judge::advise::{
        AdviceRequest, Conditions, DatabaseSetting, DatabaseSettings, Evidence, FactOrigin, Gain,
        GainBasis, MissingFact, PROOF_SCHEMA, RuleCounts, SwitchedSetting, advise,
    };
    use durio_judge::compare::{CompareSettings, compare};
    use durio_observe::{TuningReadings, read_stack};

    use super::*;
    use crate::{Format, Options, write};

    fn report(rule: &str, value: &str) -> AdviceReport {
        let stack = read_stack(std::path::Path::new("/proc")).unwrap();
        let given = vec![DatabaseSetting {
            name: "fsync".into(),
            value: value.into(),
            place: "--setting".into(),
        }];
        advise(&AdviceRequest {
            target: "/srv/\u{1b}[31mdb".into(),
            system: FactOrigin { stack: &stack, readings: &TuningReadings::default() },
            role: None,
            database: Some("postgresql".into()),
            settings: DatabaseSettings { given, from_file: Vec::new() },
            run: None,
            rule: Some(rule.into()),
        })
        .unwrap()
    }

    fn text(report: &AdviceReport, all: bool) -> String {
        let mut bytes = Vec::new();
        let shown = ShownAdvice { report, all };
        write(Format::Text, &shown, &Options::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_not_met_comes_with_reason_setting_risk_and_source() {
        let text = text(&report("P08", "off"), false);
        for part in [
            "Not met",
            "P08",
            "fsync is off (--setting)",
            "fsync = on",
            "safe",
            "source",
            "Bad: acknowledged writes can be lost until you set fsync to on (now off).",
            "ALTER SYSTEM SET fsync = 'on';",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn what_was_measured_stands_beside_the_sources_and_what_speaks_against_them_is_said() {
        let mut report = report("P08", "off");
        let unmeasured = text(&report, false);
        assert!(unmeasured.contains("not checked: needs a power cut"), "{unmeasured}");
        let conditions = Conditions {
            command: "durio advise --prove X1".into(),
            date: "2026-11-21".into(),
            kernel: "6.18".into(),
            storage: "virtio".into(),
            cores: 2,
            load: "idle".into(),
            doubt: None,
        };
        let evidence = |outcome, says: &str| Evidence {
            outcome,
            says: says.into(),
            measured: Some(conditions.clone()),
            gain: None,
        };
        report.advice[0].evidence = vec![
            evidence(EvidenceOutcome::Disagrees, "p99 +42 %"),
            evidence(EvidenceOutcome::Agrees, "rate +31 %"),
        ];
        let text = text(&report, false);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let source = lines.iter().position(|line| line.starts_with("source")).unwrap();
        let but = lines.iter().position(|line| line.starts_with("but")).unwrap();
        assert!(source < but && lines[but].contains("checked, disagrees: p99 +42 %"), "{text}");
        assert!(text.contains("checked, agrees: rate +31 %"), "{text}");
    }

    #[test]
    fn a_source_that_was_not_found_again_says_so() {
        let mut source = AdviceSource {
            kind: SourceKind::VendorDoc,
            document: "Manual".into(),
            url: "https://example.org/".into(),
            looked_up: false,
            looked_up_date: "2026-11-21".into(),
            read: "not found".into(),
        };
        assert!(source_line(&source).ends_with("(not looked up again)"));
        source.looked_up = true;
        assert!(source_line(&source).ends_with("https://example.org/"));
    }

    #[test]
    fn what_is_met_is_short() {
        let text = text(&report("P08", "on"), false);
        assert!(text.contains("Met") && !text.contains("fsync = on"), "{text}");
    }

    #[test]
    fn what_is_not_applicable_is_shown_only_when_asked_for() {
        let report = report("B01", "on");
        assert!(!text(&report, false).contains("scheduler-nvme"));
        assert!(text(&report, true).contains("scheduler-nvme"));
    }

    #[test]
    fn the_document_can_be_read_back() {
        let report = report("P09", "on");
        let mut bytes = Vec::new();
        let shown = ShownAdvice { report: &report, all: false };
        write(Format::Json, &shown, &Options::default(), &mut bytes).unwrap();
        assert_eq!(serde_json::from_slice::<AdviceReport>(&bytes).unwrap(), report);
    }

    #[test]
    fn the_counts_stand_before_their_own_words() {
        let mut report = report("P08", "off");
        report.advice.push(Advice { rule: "P09".into(), ..report.advice[0].clone() });
        report.counts = RuleCounts { met: 11, not_met: 22, cannot_tell: 33, not_applicable: 44 };
        let text = text(&report, false);
        let counts = "11 met, 22 not met, 33 undecided, 44 not applicable;";
        assert!(text.contains(counts), "{text}");
    }

    /// Advice of one rule, under several names.
    fn several(rules: &[&str], change: impl Fn(usize, &mut Advice)) -> AdviceReport {
        let mut report = report("P08", "off");
        let one = report.advice[0].clone();
        let changed = rules.iter().enumerate().map(|(at, rule)| {
            let mut advice = Advice { rule: (*rule).to_owned(), ..one.clone() };
            change(at, &mut advice);
            advice
        });
        report.advice = changed.collect();
        report
    }

    #[test]
    fn the_largest_gain_comes_first_after_what_protects_data() {
        let gains = [
            (GainBasis::Source, None),
            (GainBasis::AbTest, Some(1.5)),
            (GainBasis::Durability, None),
            (GainBasis::Run, Some(2.5)),
            (GainBasis::Refuted, None),
        ];
        let report = several(&["S1", "T1", "D1", "R1", "N1"], |at, advice| {
            let (basis, ratio) = gains[at];
            advice.gain = Gain { basis, ratio, says: format!("gain {at}") };
        });
        let order: Vec<&str> = report.to_do().iter().map(|advice| advice.rule.as_str()).collect();
        assert_eq!(order, ["D1", "R1", "T1", "S1"]);
        let text = text(&report, false);
        let (to_do, tested) = text.split_once("no benefit  ").unwrap();
        assert!(!to_do.contains("N1 "), "{text}");
        assert!(tested.starts_with("N1 (durio's own A/B tests; --verbose)\n"), "{text}");
    }

    #[test]
    fn a_screen_shows_three_changes_and_names_the_rest() {
        let rules = ["X1", "X2", "X3", "X4", "X5"];
        for (count, more) in [(3, None), (4, Some("1 more (--verbose): X4")), (5, Some("X4, X5"))] {
            let text = text(&several(&rules[..count], |_, _| {}), false);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("X3 postgresql Set fsync"), "{text}");
            assert!(!words.contains("X4 postgresql Set"), "{text}");
            assert_eq!(more.is_some(), words.contains("more (--verbose)"), "{text}");
            assert!(more.is_none_or(|more| words.contains(more)), "{text}");
        }
    }

    #[test]
    fn undecided_rules_are_one_line_with_what_they_lack() {
        let facts = ["run.flush_8k", "postgresql.fsync", "device.fua", "run.batch_gain"];
        let mut report = several(&["A1", "A2", "A3", "A4"], |at, advice| {
            advice.state = AdviceState::CannotTell;
            let (why, obtain) = (None, String::new());
            advice.missing = vec![MissingFact { fact: facts[at].to_owned(), why, obtain }];
        });
        report.target = "/srv/db".to_owned();
        let text = text(&report, false);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = "undecided 4 rules: 2 missing a measurement (durio durable /srv/db), 1 missing a \
                    value that this kernel does not expose, 1 missing postgresql";
        assert!(words.contains(line), "{text}");
    }

    fn proof(file: Option<&str>, restored: Option<&str>) -> String {
        let proof = RuleProof {
            schema: PROOF_SCHEMA.to_owned(),
            rule: "B05".to_owned(),
            name: "nr-requests".to_owned(),
            title: "a long queue".to_owned(),
            target: "/srv".to_owned(),
            switched: SwitchedSetting {
                what: "nr_requests of sda".to_owned(),
                file: file.map(str::to_owned),
                before: "64".to_owned(),
                after: "4096".to_owned(),
                restored: restored.map(str::to_owned),
            },
            pairs: 3,
            comparison: compare(&[], &CompareSettings::default()),
        };
        let mut bytes = Vec::new();
        write(Format::Text, &proof, &Options::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_proof_says_what_was_switched_from_what_to_what_and_whether_it_came_back() {
        let whole = proof(Some("/sys/block/sda/queue/nr_requests"), Some("64"));
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Proof of B05 nr-requests at /srv",
            "rule a long queue",
            "switched nr_requests of sda (/sys/block/sda/queue/nr_requests)",
            "before A = 64",
            "after B = 4096",
            "runs 3 of each, alternating A B B A",
            "restored 64, read back",
        ] {
            assert!(words(&whole).contains(part), "{part}: {whole}");
        }
        let lost = words(&proof(Some("/sys/x"), Some("4096")));
        assert!(lost.contains("restored NOT RESTORED: it is 4096"), "{lost}");
        let own = words(&proof(None, None));
        assert!(own.contains("switched nr_requests of sda, durio's own"), "{own}");
        assert!(own.contains("restored nothing was changed"), "{own}");
    }

    #[test]
    fn what_is_to_be_done_is_told_with_the_command_for_now_and_how_to_undo_it() {
        let mut report = report("P08", "off");
        report.advice[0].apply = durio_judge::advise::Apply {
            command: Some("echo 1".to_owned()),
            udev: Some("ATTR=2".to_owned()),
            setting: Some("it = 3".to_owned()),
            undo: Some("echo 4".to_owned()),
        };
        let text = text(&report, false);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in ["command echo 1", "udev ATTR=2", "set it = 3", "undo echo 4"] {
            assert!(lines.contains(&line.split(' ').collect()), "{line}: {text}");
        }
    }
}
