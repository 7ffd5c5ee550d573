//! Advice, and the proof of a rule, as documents.
//!
//! An [`AdviceReport`] gets a section per state, the counts last; a [`RuleProof`] gets the switched
//! setting, the results and the restored settings.

use std::cmp::Reverse;

use durio_analyse::each_once;
use durio_judge::advise::{
    Advice, AdviceReport, AdviceSource, AdviceState, Conflict, EvidenceOutcome, RuleProof,
    SourceKind, Statement,
};
use durio_judge::summary::Summary;
use serde::Serialize;

use crate::Report;
use crate::document::{DetailLevel, Document, Section, Tone};
use crate::figures::grouped;

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
        let mut head = Section::default();
        report.notes.iter().for_each(|note| head.toned(Tone::Warning, "NOTE", note));
        document.push(head);
        let shown = |advice: &&Advice| *all || advice.state != AdviceState::NotApplicable;
        // A rule that was asked for is shown whole.
        let level = match report.advice.iter().filter(shown).count() {
            0 | 1 => DetailLevel::Summary,
            _ => DetailLevel::Detail,
        };
        if level == DetailLevel::Detail {
            document.push(in_short(report));
        }
        let states = [
            // Work to do comes first, and unknown states before good ones.
            (AdviceState::NotMet, "Not met"),
            (AdviceState::CannotTell, "Cannot tell"),
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
        document.push(summary(report));
        document
    }
}

impl Report for RuleProof {
    fn document(&self) -> Document {
        let title = format!("Proof of {} {} at {}", self.rule, self.name, self.target);
        let mut document = Document::new("", title);
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
        head.fact("runs", format!("{} of each, in turns A B B A", self.pairs));
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

/// The work to do, a line per rule; undecided rules by their reason.
fn in_short(report: &AdviceReport) -> Section {
    let mut section = Section::new("To do");
    let of = |state| report.advice.iter().filter(move |advice| advice.state == state);
    for it in of(AdviceState::NotMet) {
        let apply = &it.apply;
        let how = apply.command.as_ref().or(apply.setting.as_ref()).unwrap_or(&it.advice);
        let disagrees =
            it.evidence.iter().any(|evidence| evidence.outcome == EvidenceOutcome::Disagrees);
        let but = if disagrees { " (but what durio measured speaks against it)" } else { "" };
        let text = format!("{}: {how}{but}", it.title);
        section.toned(Tone::Strong, &format!("{} {}", it.rule, it.about), text);
    }
    let unknown = of(AdviceState::CannotTell);
    let mut unknown = grouped(unknown.map(|rule| (rule.reason.as_str(), rule.rule.as_str())));
    // Most of them want the same thing.
    unknown.sort_by_key(|(_, rules)| Reverse(rules.len()));
    let mut unknown = unknown.into_iter();
    if let Some((why, rules)) = unknown.next() {
        section.toned(Tone::Warning, "cannot tell", format!("{}: {why}", rules.join(", ")));
    }
    let rest: Vec<&str> = unknown.flat_map(|(_, rules)| rules).collect();
    if !rest.is_empty() {
        let text = format!("{}: --verbose says what each of them needs", rest.join(", "));
        section.toned(Tone::Warning, "", text);
    }
    let conflicts = report.conflicts.iter().map(|conflict| conflict.about.as_str());
    let conflicts = each_once(conflicts);
    if !conflicts.is_empty() {
        let text = format!("documents contradict each other about {}", conflicts.join(", "));
        section.toned(Tone::Warning, "conflicts", text);
    }
    section.note(
        "--verbose shows reasons, risks, sources and how to undo; for one rule, add --rule ID to this \
         command",
    );
    section
}

fn advice(it: &Advice) -> Section {
    let about = if it.about.is_empty() { String::new() } else { format!(" [{}]", it.about) };
    let mut group = Section::new(format!("{}  {}{about}: {}", it.rule, it.name, it.title));
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
    group.fact("advice", &advice.advice);
    let apply = &advice.apply;
    let lines = [
        ("now", &apply.command),
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

fn summary(report: &AdviceReport) -> Section {
    let mut section = Section::default();
    let counts = report.counts;
    let text = format!(
        "{} met, {} not met, {} cannot tell, {} not applicable (--all shows them)",
        counts.met, counts.not_met, counts.cannot_tell, counts.not_applicable
    );
    section.say(Tone::Strong, text);
    section
}

#[cfg(test)]
mod tests {
    use durio_judge::advise::{
        AdviceRequest, Conditions, DatabaseSetting, DatabaseSettings, Evidence, FactOrigin,
        PROOF_SCHEMA, RuleCounts, SwitchedSetting, advise,
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
            "1 not met",
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
        let mut report = report("P08", "on");
        report.counts = RuleCounts { met: 11, not_met: 22, cannot_tell: 33, not_applicable: 44 };
        let text = text(&report, false);
        let counts = "11 met, 22 not met, 33 cannot tell, 44 not applicable (--all shows them)";
        assert!(text.contains(counts), "{text}");
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
            "runs 3 of each, in turns A B B A",
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
        for line in ["now echo 1", "udev ATTR=2", "set it = 3", "undo echo 4"] {
            assert!(lines.contains(&line.split(' ').collect()), "{line}: {text}");
        }
    }
}
