//! The results of power cuts, as a document.
//!
//! Shows [`ProofFindings`]: the answer in a sentence, a table of all series, and for each loss the
//! write, when it was acknowledged and the data found in its place, with pictures; then the tested
//! systems. Also a [`ProofPlan`] before it runs.

mod inventory;
mod pictures;

use durio_analyse::proof::{
    CONFIDENCE, CheckedCut, LossFindings, ProofFindings, ProofVerdict, SeriesFindings,
};
use durio_base::counted;
use durio_plan::EngineKind;
use durio_plan::proof::{
    CommandTarget, ExpectedVerdict, GuestTarget, ProofPlan, ProofSeries, ProofTarget, SimulatedVia,
};
use durio_record::Outcome;
use durio_record::proof::{CheckFindings, Finding, InPlace};

use crate::Report;
use crate::document::{
    Card, Cell, Column, DetailLevel, Document, LabelledFact, Section, SectionBody, Table, Tone,
    detail, words,
};
use crate::figures::{latency, percent};

/// Rows of a summary; more are a detail, but for those that are not as expected. Each built-in proof fits.
const ROWS_MAX: usize = 120;
/// Losses that a terminal lists.
const LOSSES_SHOWN: usize = 5;
/// Series with pictures: each takes some 20 to 60 KiB of a page, which must stay below 1 MiB.
const PICTURED_MAX: usize = 8;

/// What no number of cuts covers.
const NOT_COVERED: &str = "other devices and firmware of the same kind, another way of losing power, \
    another temperature, wear or fill level, and what a device does after a long idle time";

impl Report for ProofFindings {
    fn document(&self) -> Document {
        let mut document = Document::new("durio prove", self.name.as_str());
        document.push(summary(self));
        let broken: Vec<&SeriesFindings> =
            self.series.iter().filter(|it| it.loss.is_some()).collect();
        let is_alone = self.series.len() == 1;
        // The first ones, but surprises before all else.
        let surprises = |it: &SeriesFindings| it.as_expected != Some(true);
        let mut pictured = broken.clone();
        pictured.sort_by_key(|it| !surprises(it));
        pictured.truncate(PICTURED_MAX);
        for series in &broken {
            // Expected losses are shown on request.
            let is_told = surprises(series) || is_alone;
            let level = if is_told { DetailLevel::Summary } else { DetailLevel::Detail };
            let has_pictures = pictured.iter().any(|it| std::ptr::eq(*it, *series));
            document.push(loss_section(series, level, has_pictures));
        }
        for series in self.series.iter().filter(|it| !it.checks.is_empty()) {
            document.push(checks(series));
        }
        document.push(inventory::section(self));
        document.push(method(self));
        document.records = Table::records(&COLUMNS, &self.series);
        document
    }
}

impl Report for ProofPlan {
    fn document(&self) -> Document {
        let mut document = Document::new("", format!("Plan of {}", self.name));
        let mut section = Section::default();
        if !self.summary.is_empty() {
            section.note(self.summary.as_str());
        }
        let sum = |is_enumerated| -> u64 {
            let own = self.series.iter().filter(|it| it.target.is_enumerated() == is_enumerated);
            own.map(|it| u64::from(it.cuts)).sum()
        };
        let cuts = counted(sum(false), "power cut");
        let states = match sum(true) {
            0 => String::new(),
            states => format!(" and {}", counted(states, "crash state")),
        };
        section.note(format!("{} series, {cuts}{states} if nothing is lost.", self.series.len()));
        const COLUMNS: [Column<ProofSeries>; 3] = [
            Column::shown("series", |series| Cell::text(series.name.as_str())),
            Column::shown("cuts", |series| Cell::Count(series.cuts.into())),
            words(Column::shown("expected", |series| expected_word(series.expected))),
        ];
        section.table(Table::shown(&COLUMNS, &self.series));
        document.push(section);
        document
    }
}

fn summary(findings: &ProofFindings) -> Section {
    let mut section = Section::default();
    if !findings.summary.is_empty() {
        section.note(findings.summary.as_str());
    }
    for (tone, text) in headlines(findings) {
        section.push(DetailLevel::Headline, SectionBody::Text(tone, text));
    }
    match findings.outcome {
        Some(Outcome::Complete) => {}
        Some(Outcome::Interrupted) => {
            section.say(Tone::Warning, "Interrupted: durio prove run --resume goes on with it.");
        }
        _ => section.say(
            Tone::Warning,
            "It did not come to its end: durio prove run --resume goes on with it.",
        ),
    }
    if findings.not_begun > 0 {
        let total = findings.series.len() as u64 + findings.not_begun;
        section.say(Tone::Warning, format!("{} of {total} series not begun.", findings.not_begun));
    }
    section.table(table(findings));
    section
}

fn headlines(findings: &ProofFindings) -> Vec<(Tone, String)> {
    if let [series] = findings.series.as_slice() {
        return vec![sentence(series)];
    }
    let total = findings.series.len() as u64;
    let unexpected: Vec<&SeriesFindings> = findings.unexpected().collect();
    let is_open = |it: &&SeriesFindings| it.series.expected.is_some() && it.as_expected.is_none();
    let open = findings.series.iter().filter(is_open).count() as u64;
    match unexpected.as_slice() {
        [] if total == open => Vec::new(),
        [] if open > 0 => {
            let text = format!("{} of {total} series came out as expected so far.", total - open);
            vec![(Tone::Note, text)]
        }
        [] => vec![(Tone::Good, format!("All {total} series came out as expected."))],
        few => {
            let count = format!("{} of {total} series did not come out as expected.", few.len());
            let told = few.iter().take(3).map(|it| sentence(it));
            std::iter::once((Tone::Bad, count)).chain(told).collect()
        }
    }
}

/// The verdict with all that it rests on.
fn sentence(series: &SeriesFindings) -> (Tone, String) {
    let what = describe(series);
    let cuts = counted(series.effective, "effective power cut");
    match (series.verdict, &series.loss) {
        (ProofVerdict::Breaks { class }, Some(LossFindings { check: Some(_), cut, .. })) => {
            (Tone::Bad, format!("PROVED: {what} {} (found at cut {cut}).", class.meaning()))
        }
        (ProofVerdict::Breaks { class }, Some(loss)) => {
            let cells = counted(loss.cells, "cell");
            let found = if loss.state.is_some() { "in crash state" } else { "found at cut" };
            let text = format!(
                "PROVED: {what} {} ({cells} of 4 KiB, {found} {}).",
                class.meaning(),
                loss.cut
            );
            (Tone::Bad, text)
        }
        (ProofVerdict::NoLoss, _) if series.series.target.is_enumerated() => {
            let states = counted(series.effective, "crash state");
            let text =
                format!("No loss: {states} of {what} checked, none lost an acknowledged write.");
            (Tone::Good, text)
        }
        (ProofVerdict::NoLoss, _) => {
            let bound = percent(series.interval.map_or(1.0, |[_, upper]| upper));
            let (risk, confidence) = (series.at_risk, percent(CONFIDENCE));
            // What a check lets pass is its own matter: it may permit that some are lost.
            let is_checked = matches!(series.series.target, ProofTarget::Command(_));
            let text = match is_checked {
                true => format!(
                    "No loss: {what} passed its check after {cuts}, before which it had acknowledged \
                     {risk} lines; with {confidence} confidence fewer than {bound} of such cuts fail it."
                ),
                false => format!(
                    "No loss: in {cuts} of {what}, 0 of {risk} acknowledged writes at \
                     risk were lost; with {confidence} confidence fewer than {bound} of such cuts \
                     lose one."
                ),
            };
            (Tone::Good, text)
        }
        _ => {
            let why: Vec<_> = series.ineffective.iter().map(|(why, _)| why.reason()).collect();
            (Tone::Warning, format!("Inconclusive: {what}: {}.", why.join("; ")))
        }
    }
}

fn describe(series: &SeriesFindings) -> String {
    let target = match &series.series.target {
        ProofTarget::Agent(agent) => format!("'{}'", agent.name),
        ProofTarget::Simulated { profile, .. } => format!("the simulated disk '{profile}'"),
        ProofTarget::Array(array) => format!("the simulated array '{}'", array.words()),
        ProofTarget::Guest(guest) => format!("'{}' in a guest", guest_word(guest)),
        ProofTarget::Command(command) => format!("'{}'", command_word(command)),
    };
    match series.series.arm {
        Some(arm) => format!("{target} by {} at depth {}", arm.words(), arm.depth),
        None => target,
    }
}

/// The command, and the layers under its files. The program's folder, and the rest of a long line,
/// are among the details.
fn command_word(target: &CommandTarget) -> String {
    const CHARACTERS_MAX: usize = 40;
    let line = target.command.join(" ");
    let (program, arguments) = line.split_once(' ').unwrap_or((&line, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let line = format!("{program} {arguments}");
    let mut shown: String = line.trim_end().chars().take(CHARACTERS_MAX).collect();
    if line.trim_end() != shown {
        shown.push('…');
    }
    let cache = if target.write_cache { "" } else { " (no cache)" };
    let (device, layers) = (target.front_end.word(), target.layers);
    format!("{} / {device}{cache} / {layers} / {shown}", target.profile)
}

/// The profile and the layers over it, from below.
fn guest_word(guest: &GuestTarget) -> String {
    let cache = if guest.write_cache { "" } else { " (no cache)" };
    let over = format!("{}{cache} / {}", guest.front_end.word(), guest.layers);
    let states = if guest.enumerated { " (states)" } else { "" };
    let liar = guest.liar.map_or_else(String::new, |it| format!("@{it}"));
    let profile = format!("{}{liar}", guest.profile);
    match guest.engine {
        EngineKind::Uring => format!("{profile} / {over}{states}"),
        engine => format!("{profile} / {over} / {engine}{states}"),
    }
}

fn target_word(target: &ProofTarget) -> String {
    match target {
        ProofTarget::Agent(agent) => agent.name.clone(),
        ProofTarget::Array(array) => array.words(),
        ProofTarget::Guest(guest) => guest_word(guest),
        ProofTarget::Command(command) => command_word(command),
        ProofTarget::Simulated { profile, via: SimulatedVia::Process, .. } => profile.clone(),
        ProofTarget::Simulated { profile, via, .. } => format!("{profile} ({})", via.word()),
    }
}

fn verdict_cell(series: &SeriesFindings) -> Cell {
    let tone = match (series.as_expected, series.verdict) {
        (Some(true), _) | (None, ProofVerdict::NoLoss) => Tone::Good,
        (_, ProofVerdict::Inconclusive) => Tone::Warning,
        _ => Tone::Bad,
    };
    let word = match series.verdict {
        ProofVerdict::Breaks { class } => class.word(),
        ProofVerdict::NoLoss => "no loss",
        ProofVerdict::Inconclusive => "inconclusive",
    };
    Cell::Word(tone, word.to_owned())
}

fn expected_word(expected: Option<ExpectedVerdict>) -> Cell {
    match expected {
        None => Cell::Empty,
        Some(ExpectedVerdict::Holds) => Cell::text("no loss"),
        Some(ExpectedVerdict::Breaks { class, within }) => {
            Cell::text(format!("{} within {within}", class.word()))
        }
        Some(ExpectedVerdict::Loses { within }) => Cell::text(format!("a loss within {within}")),
        Some(ExpectedVerdict::MayLose) => Cell::text("a loss or none"),
    }
}

const COLUMNS: [Column<SeriesFindings>; 17] = [
    Column::record("series", |series| Cell::text(&series.series.name)),
    Column::shown("target", |series| Cell::text(target_word(&series.series.target))),
    words(Column::new("path", "path", |series| {
        Cell::of(series.series.arm, |arm| Cell::text(arm.words()))
    })),
    Column::new("depth", "depth", |series| {
        Cell::of(series.series.arm, |arm| Cell::Count(arm.depth.into()))
    }),
    words(Column::new("verdict", "verdict", verdict_cell)),
    words(Column::shown("expected", |series| expected_word(series.series.expected))),
    Column::record("as_expected", |series| {
        Cell::of(series.as_expected, |answer| Cell::text(answer.to_string()))
    }),
    Column::new("cuts", "cuts", |series| Cell::Count(series.cuts_done)),
    Column::record("effective", |series| Cell::Count(series.effective)),
    Column::record("losing", |series| Cell::Count(series.losing)),
    Column::shown("below", |series| match (series.verdict, series.interval) {
        (ProofVerdict::NoLoss, Some([_, upper])) => Cell::Share(upper),
        _ => Cell::Absent(""),
    }),
    Column::record("upper_bound", |series| {
        Cell::of(series.interval, |[_, upper]| Cell::Share(upper))
    }),
    Column::record("acknowledged", |series| Cell::Count(series.acknowledged)),
    Column::new("at_risk", "at risk", |series| Cell::Count(series.at_risk)),
    detail(words(Column::shown("controls lost", |series| {
        Cell::text(format!("{} of {}", series.controls.lost, series.controls.written))
    }))),
    Column::record("controls_written", |series| Cell::Count(series.controls.written)),
    Column::record("controls_lost", |series| Cell::Count(series.controls.lost)),
];

fn table(findings: &ProofFindings) -> Table {
    let mut table = Table::shown(&COLUMNS, &findings.series);
    if findings.series.len() > ROWS_MAX {
        for (row, series) in table.rows.iter_mut().zip(&findings.series) {
            if series.as_expected == Some(true) {
                row.level = DetailLevel::Detail;
            }
        }
    }
    table
}

fn loss_section(series: &SeriesFindings, level: DetailLevel, has_pictures: bool) -> Section {
    let mut section = Section { level, ..Section::new(format!("Lost: {}", series.series.name)) };
    let Some(loss) = &series.loss else { return section };
    section.facts(loss_facts(series, loss));
    section.push(level, SectionBody::Cards(loss.check.iter().map(check_card).collect()));
    match &loss.picture {
        Some(picture) if has_pictures => section.charts(pictures::charts(picture)),
        Some(_) => section.note("Its pictures are left out, for there are many: durio report --format json has their figures."),
        None => {}
    }
    let cards = |findings: &[Finding]| SectionBody::Cards(findings.iter().map(card).collect());
    let shown = loss.listed.len().min(LOSSES_SHOWN);
    section.push(level, cards(&loss.listed[..shown]));
    if loss.listed.len() > shown {
        section.push(DetailLevel::Detail, cards(&loss.listed[shown..]));
    }
    let told = loss.listed.len() as u64;
    if loss.cells > told {
        section.note(format!("{} more cells are not as they must be.", loss.cells - told));
    }
    section
}

fn loss_facts(series: &SeriesFindings, loss: &LossFindings) -> Vec<(&'static str, String)> {
    let classes: Vec<_> = loss.classes.iter().map(|it| it.word()).collect();
    let what = if loss.state.is_some() { "state" } else { "cut" };
    let mut facts = vec![(what, format!("{} of {}", loss.cut, series.cuts_done))];
    if loss.check.is_none() {
        let cells = counted(loss.cells, "cell");
        facts.push(("found", format!("{} ({cells} of 4 KiB)", classes.join(", "))));
        let kept = counted(loss.kept, "cell");
        facts.push(("still there", format!("{kept} with an acknowledged write of this life")));
    }
    if let Some(state) = &loss.state {
        facts.push(("is", state.clone()));
    }
    if let (Some(oldest), Some(shape)) = (loss.oldest_ns, loss.shape) {
        facts.push(("missing", format!("acknowledged up to {} before the cut", latency(oldest))));
        facts.push(("order", shape.meaning().to_owned()));
    }
    if let Some([low, high]) = series.interval {
        let interval = format!("{} to {} of cuts", percent(low), percent(high));
        facts.push((
            "how often",
            format!("{interval} (95 % interval, {} effective)", series.effective),
        ));
    }
    facts
}

/// Each cut under a user's command.
fn checks(series: &SeriesFindings) -> Section {
    let mut section = Section::detail(format!("Cuts: {}", series.series.name));
    const COLUMNS: [Column<CheckedCut>; 5] = [
        Column::shown("cut", |cut| Cell::Count(cut.cut.into())),
        Column::shown("acknowledged", |cut| Cell::Count(cut.acknowledged)),
        Column::shown("came after", |cut| Cell::Count(cut.check.on_the_way)),
        Column::shown("check", |cut| {
            cut.check.exit_code.map_or(Cell::text("not mounted"), |it| Cell::Count(it.into()))
        }),
        words(Column::shown("said", |cut| Cell::text(in_a_line(&cut.check.said)))),
    ];
    section.table(Table::shown(&COLUMNS, &series.checks));
    section.note(
        "The simulated disk's own switch shows that the power was gone. Lines that came after it do not \
         count.",
    );
    section
}

fn in_a_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// What the check of a user's command has to say.
fn check_card(check: &CheckFindings) -> Card {
    let title = match check.exit_code {
        Some(code) => format!("exit code {code}"),
        None => "the filesystem cannot be mounted".to_owned(),
    };
    let fact = |label: &str, text: &str| LabelledFact::new(Tone::Plain, label, in_a_line(text));
    Card {
        tone: Tone::Bad,
        word: "CHECK".to_owned(),
        title,
        about: String::new(),
        text: String::new(),
        facts: vec![fact("said", &check.said), fact("acknowledged last", &check.last_acknowledged)],
    }
}

fn card(finding: &Finding) -> Card {
    let age = match finding.acknowledged_before_ns {
        Some(age) => format!("acknowledged {} before the cut", latency(age)),
        None => "certain since an earlier cut".to_owned(),
    };
    let fact = |label: &str, value: String| LabelledFact::new(Tone::Plain, label, value);
    Card {
        tone: Tone::Bad,
        word: finding.class.word().to_uppercase(),
        title: format!("byte {}", finding.sector.saturating_mul(512)),
        about: counted(u64::from(finding.sectors), "sector"),
        text: String::new(),
        facts: vec![
            fact("must be", format!("write {}, {age}", finding.seq)),
            fact("is", in_place(&finding.found)),
        ],
    }
}

fn in_place(found: &InPlace) -> String {
    match found {
        InPlace::Older { seq: 0 } => "what was there before the first write".to_owned(),
        InPlace::Older { seq } => format!("write {seq}"),
        InPlace::OfElsewhere { home, seq } => {
            format!("write {seq}, which belongs to byte {}", home.saturating_mul(512))
        }
        InPlace::Foreign => "data of another campaign or target".to_owned(),
        InPlace::Zeros => "zeros".to_owned(),
        InPlace::Ones => "ones in every bit".to_owned(),
        InPlace::FlippedBits { bits } => {
            format!("the write with {} turned", counted((*bits).into(), "bit"))
        }
        InPlace::Garbage => "data that nobody wrote".to_owned(),
        InPlace::Unreadable => "an error".to_owned(),
        InPlace::Changing { seqs } => {
            let seqs: Vec<_> = seqs.iter().map(u64::to_string).collect();
            format!("now one, now another: writes {}", seqs.join(", "))
        }
        InPlace::Nothing => "nothing: no target of this size, or no such file".to_owned(),
    }
}

fn method(findings: &ProofFindings) -> Section {
    let mut section = Section::detail("How to read it");
    section.fact("seed", findings.seed.to_string());
    section.fact("begun", format!("{} (durio {})", findings.started, findings.durio_version));
    section
        .fact("below", "the share of such cuts that lose data is below this, with 95 % confidence");
    section.fact(
        "at risk",
        "acknowledged writes of the last 100 ms before effective cuts; of a simulated disk, those since \
         its power-on",
    );
    section.fact(
        "controls",
        "writes without a sync: a cut that takes none of them may have been none",
    );
    for series in &findings.series {
        if let ProofTarget::Command(target) = &series.series.target {
            section.fact("setup", target.setup.as_deref().unwrap_or("nothing"));
            section.fact("command", target.command.join(" "));
            section.fact("check", target.check.as_str());
        }
    }
    if findings.series.iter().any(|it| it.series.target.is_enumerated()) {
        section.fact(
            "states",
            "one life is recorded, and states in which a cut may have left the disk are read; they are \
             no cuts, and bound no share",
        );
    }
    section.fact("not covered", NOT_COVERED);
    section
}
