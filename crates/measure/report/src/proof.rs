//! The results of power cuts, as a document.
//!
//! Shows [`ProofFindings`]: the answer in a sentence, a table of all series, and for each loss the
//! write, when it was acknowledged and the data found in its place, with pictures; then the tested
//! systems. Also a [`ProofPlan`] before it runs.

mod loss;

use durio_analyse::each_once;
use durio_judge::summary::{Summary, of_proof};
use durio_observe::DriveCounters;
use durio_plan::EngineKind;
use durio_plan::proof::{
    CommandTarget, ExpectedVerdict, GuestTarget, ProofPlan, ProofSeries, ProofTarget, SimulatedVia,
};
use durio_record::Outcome;
use durio_record::proof::{
    CONFIDENCE, CheckedCut, Inventory, LossFindings, ProofFindings, ProofVerdict, SeriesFindings,
};

use crate::Report;
use crate::document::{
    Cell, Column, DetailLevel, Document, Section, SectionBody, Table, Tone, both, detail, record,
    shown, words,
};
use crate::figures::{counted, grouped, percent, share};
use crate::run::host_short;
use crate::stack_tree::tree;

/// Rows of a summary. With more series, those as expected are counted, and the rest is a detail.
const ROWS_MAX: usize = 12;
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
            self.series.iter().filter(|series| series.loss.is_some()).collect();
        let is_alone = self.series.len() == 1;
        // The first ones, but surprises before all else.
        let mut pictured = broken.clone();
        pictured.sort_by_key(|series| !is_surprise(series));
        pictured.truncate(PICTURED_MAX);
        // A screen has room for one; expected losses are shown on request.
        let first = broken.iter().position(|series| is_surprise(series) || is_alone);
        for (at, series) in broken.iter().enumerate() {
            let is_shown = first == Some(at);
            let level = if is_shown { DetailLevel::Summary } else { DetailLevel::Detail };
            let has_pictures = pictured.iter().any(|shown| std::ptr::eq(*shown, *series));
            document.push(loss::section(series, level, has_pictures));
        }
        for series in self.series.iter().filter(|series| !series.checks.is_empty()) {
            document.push(checks(series));
        }
        document.push(inventory(self));
        document.push(method(self));
        document.records = Table::records(COLUMNS, &self.series);
        document
    }

    fn summary(&self) -> Option<Summary> {
        Some(of_proof(self))
    }

    fn has_field_summary(&self) -> bool {
        true
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
            let own =
                self.series.iter().filter(|series| series.target.is_enumerated() == is_enumerated);
            own.map(|series| u64::from(series.cuts)).sum()
        };
        let cuts = counted(sum(false), "power cut");
        let states = match sum(true) {
            0 => String::new(),
            states => format!(" and {}", counted(states, "crash state")),
        };
        section.note(format!("{} series, {cuts}{states} if nothing is lost.", self.series.len()));
        const COLUMNS: &[Column<ProofSeries>] = &[
            shown("series", |series| Cell::text(series.name.as_str())),
            shown("cuts", |series| Cell::Count(series.cuts.into())),
            words(shown("expected", |series| {
                Cell::of(expected_words(series.expected), Cell::Text)
            })),
        ];
        section.table(Table::shown(COLUMNS, &self.series));
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
        section.say_at(DetailLevel::Headline, tone, text);
    }
    match findings.outcome {
        Some(Outcome::Complete) => {}
        Some(Outcome::Interrupted) => {
            section.warn("Interrupted. Resume with: durio prove run --resume RUN");
        }
        _ => section.warn("Incomplete. Resume with: durio prove run --resume RUN"),
    }
    if findings.not_begun > 0 {
        let total = findings.series.len() as u64 + findings.not_begun;
        section.warn(format!("{} of {total} series not started.", findings.not_begun));
    }
    tables(findings, &mut section);
    section
}

/// True for a series that did not come out as expected, or for which nothing was expected.
fn is_surprise(series: &SeriesFindings) -> bool {
    series.as_expected != Some(true)
}

/// What the summary's sentence does not say: on what a verdict rests.
fn headlines(findings: &ProofFindings) -> Vec<(Tone, String)> {
    if let [series] = findings.series.as_slice() {
        return vec![sentence(series)];
    }
    let total = findings.series.len() as u64;
    let unexpected: Vec<&SeriesFindings> = findings.unexpected().collect();
    let is_open =
        |series: &&SeriesFindings| series.series.expected.is_some() && series.as_expected.is_none();
    let open = findings.series.iter().filter(is_open).count() as u64;
    match unexpected.as_slice() {
        [] if total == open => Vec::new(),
        [] if open > 0 => {
            let text = format!("{} of {total} series came out as expected so far.", total - open);
            vec![(Tone::Note, text)]
        }
        few => few.iter().take(3).map(|series| sentence(series)).collect(),
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
    let liar = guest.liar.map_or_else(String::new, |liar| format!("@{liar}"));
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
    Cell::Word(tone, verdict_word(series).to_owned())
}

fn verdict_word(series: &SeriesFindings) -> &'static str {
    match series.verdict {
        ProofVerdict::Breaks { class } => class.word(),
        ProofVerdict::NoLoss => "no loss",
        ProofVerdict::Inconclusive => "inconclusive",
    }
}

fn expected_words(expected: Option<ExpectedVerdict>) -> Option<String> {
    Some(match expected? {
        ExpectedVerdict::Holds => "no loss".to_owned(),
        ExpectedVerdict::Breaks { class, within } => format!("{} within {within}", class.word()),
        ExpectedVerdict::Loses { within } => format!("a loss within {within}"),
        ExpectedVerdict::MayLose => "a loss or none".to_owned(),
    })
}

/// Whether the verdict is the expected one, so that no reader takes an expected loss for a fault.
fn as_expected_cell(series: &SeriesFindings) -> Cell {
    let expected = expected_words(series.series.expected);
    Cell::of(expected, |expected| match series.as_expected {
        Some(true) => Cell::Word(Tone::Good, "yes".to_owned()),
        Some(false) => Cell::Word(Tone::Bad, format!("NO ({expected})")),
        None => Cell::Text(format!("open ({expected})")),
    })
}

const COLUMNS: &[Column<SeriesFindings>] = &[
    record("series", |series| Cell::text(&series.series.name)),
    shown("target", |series| Cell::text(target_word(&series.series.target))),
    words(both("path", "path", |series| {
        Cell::of(series.series.arm, |arm| Cell::text(arm.words()))
    })),
    both("depth", "depth", |series| {
        Cell::of(series.series.arm, |arm| Cell::Count(arm.depth.into()))
    }),
    words(both("verdict", "result", verdict_cell)),
    words(shown("as expected", as_expected_cell)),
    record("as_expected", |series| {
        Cell::of(series.as_expected, |answer| Cell::text(answer.to_string()))
    }),
    both("cuts", "cuts", |series| Cell::Count(series.cuts_done)),
    record("effective", |series| Cell::Count(series.effective)),
    record("losing", |series| Cell::Count(series.losing)),
    shown("loss rate", |series| match (series.verdict, series.interval) {
        (ProofVerdict::NoLoss, Some([_, upper])) => Cell::Text(format!("< {}", share(upper))),
        _ => Cell::Absent(""),
    }),
    record("upper_bound", |series| Cell::of(series.interval, |[_, upper]| Cell::Share(upper))),
    record("acknowledged", |series| Cell::Count(series.acknowledged)),
    both("at_risk", "at risk", |series| Cell::Count(series.at_risk)),
    detail(words(shown("controls lost", |series| {
        Cell::text(format!("{} of {}", series.controls.lost, series.controls.written))
    }))),
    record("controls_written", |series| Cell::Count(series.controls.written)),
    record("controls_lost", |series| Cell::Count(series.controls.lost)),
];

/// Said under a table of series.
const LEGEND: &str = "loss rate: the share of such cuts that may still lose data (95 % confidence). \
     at risk: acknowledged writes that a lying disk could still have lost.";

/// The series with the same expected result.
struct ResultCount {
    name: String,
    series: u64,
    cuts: u64,
    at_risk: u64,
}

/// All series where they are few; else the number of series for each expected result, and the series
/// that differ.
fn tables(findings: &ProofFindings, section: &mut Section) {
    let is_short = findings.series.len() <= ROWS_MAX;
    if !is_short {
        section.table(Table::with_columns(
            as_expected(findings),
            [
                ("as expected", |count: &ResultCount| Cell::text(&count.name)),
                ("series", |count| Cell::Count(count.series)),
                ("cuts", |count| Cell::Count(count.cuts)),
                ("at risk", |count| Cell::Count(count.at_risk)),
            ],
        ));
    }
    let mut table = Table::shown(COLUMNS, &findings.series);
    let mut left = ROWS_MAX;
    for (row, series) in table.rows.iter_mut().zip(&findings.series) {
        let is_shown = (is_short || is_surprise(series)) && left > 0;
        match is_shown {
            true => left -= 1,
            false => row.level = DetailLevel::Detail,
        }
    }
    let surprises = findings.series.iter().filter(|series| is_surprise(series)).count();
    let level = if left < ROWS_MAX { DetailLevel::Summary } else { DetailLevel::Detail };
    if !table.rows.is_empty() {
        section.push(level, SectionBody::Table(table));
        section.say_at(level, Tone::Note, LEGEND);
    }
    if let Some(more) = surprises.checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        section.note(format!("{more} more not as expected; --verbose lists all series"));
    }
}

fn as_expected(findings: &ProofFindings) -> Vec<ResultCount> {
    let expected = findings.series.iter().filter(|series| !is_surprise(series));
    let name = |series: &SeriesFindings| {
        let word = verdict_word(series);
        match series.series.expected {
            Some(ExpectedVerdict::MayLose) => format!("{word} (either is expected)"),
            _ => word.to_owned(),
        }
    };
    let counts = grouped(expected.map(|series| (name(series), series))).into_iter();
    counts
        .map(|(name, all)| ResultCount {
            name,
            series: all.len() as u64,
            cuts: all.iter().map(|series| series.cuts_done).sum(),
            at_risk: all.iter().map(|series| series.at_risk).fold(0, u64::saturating_add),
        })
        .collect()
}

/// Each cut under a user's command.
fn checks(series: &SeriesFindings) -> Section {
    let mut section = Section::detail(format!("Cuts: {}", series.series.name));
    const COLUMNS: &[Column<CheckedCut>] = &[
        shown("cut", |cut| Cell::Count(cut.cut.into())),
        shown("acknowledged", |cut| Cell::Count(cut.acknowledged)),
        shown("came after", |cut| Cell::Count(cut.check.on_the_way)),
        shown("check", |cut| {
            cut.check.exit_code.map_or(Cell::text("not mounted"), |code| Cell::Count(code.into()))
        }),
        words(shown("said", |cut| Cell::text(loss::in_a_line(&cut.check.said)))),
    ];
    section.table(Table::shown(COLUMNS, &series.checks));
    section.note(
        "The simulated disk's own switch shows that the power was gone. Lines that came after it do not \
         count.",
    );
    section
}

fn method(findings: &ProofFindings) -> Section {
    let mut section = Section::detail("How to read it");
    section.fact("seed", findings.seed.to_string());
    section.fact("started", format!("{} (durio {})", findings.started, findings.durio_version));
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
    if findings.series.iter().any(|series| series.series.target.is_enumerated()) {
        section.fact(
            "states",
            "one life is recorded, and states in which a cut may have left the disk are read; they \
             are not cuts, and give no bound",
        );
    }
    section.fact("not covered", NOT_COVERED);
    section
}

fn inventory(findings: &ProofFindings) -> Section {
    let mut section = Section::detail("Under test");
    let mut told: Vec<&Inventory> = Vec::new();
    for series in &findings.series {
        // The same machine on another path is the same.
        if let Some(inventory) =
            series.inventory.as_deref().filter(|inventory| !told.contains(inventory))
        {
            told.push(inventory);
            machine(series, inventory, &mut section);
        }
    }
    let guests: Vec<&GuestTarget> = findings.series.iter().filter_map(guest).collect();
    section.table(guest_table(&guests));
    section
}

fn machine(series: &SeriesFindings, inventory: &Inventory, section: &mut Section) {
    let Inventory { host, stack, qemu, power } = inventory;
    let target = match &series.series.target {
        ProofTarget::Agent(agent) => agent.name.clone(),
        _ => "guests run on".to_owned(),
    };
    let name = host.hostname.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    section.fact(&target, format!("{name}{}", host_short(host)));
    section.facts(host.os.iter().map(|system| ("system", system.clone())));
    section.facts(qemu.iter().map(|version| ("QEMU", version.clone())));
    if matches!(series.series.target, ProofTarget::Agent(_)) {
        section.facts(power.drives.iter().map(|drive| (drive.drive.as_str(), counters(drive))));
        section.fact("power", power_words(series));
    }
    if let Some(stack) = stack {
        section.push(
            DetailLevel::Summary,
            SectionBody::Tree(vec![tree(&stack.root, DetailLevel::Summary)]),
        );
    }
}

/// What a drive has counted before the first cut.
fn counters(drive: &DriveCounters) -> String {
    match (drive.unsafe_shutdowns, &drive.missing) {
        (Some(count), _) => {
            let on =
                drive.power_cycles.map(|count| format!(" in {}", counted(count, "power cycle")));
            format!("{}{}", counted(count, "unexpected power-off"), on.unwrap_or_default())
        }
        (None, Some(why)) => format!("no counter of power losses: {why}"),
        (None, None) => "no counter of power losses".to_owned(),
    }
}

/// What showed that the power was gone.
fn power_words(series: &SeriesFindings) -> String {
    let of = |count: u64| format!("{count} of {}", counted(series.cuts_done, "cut"));
    format!(
        "the drive's counter of power losses rose in {}, the machine booted again in {}, a control was \
         lost in {}",
        of(series.cuts_with_counter),
        of(series.cuts_with_reboot),
        of(series.cuts_with_lost_control)
    )
}

fn guest(series: &SeriesFindings) -> Option<&GuestTarget> {
    match &series.series.target {
        ProofTarget::Guest(guest) => Some(guest),
        _ => None,
    }
}

fn guest_table(guests: &[&GuestTarget]) -> Table {
    const COLUMNS: &[Column<GuestTarget>] = &[
        words(shown("profile", |guest| Cell::text(guest.profile.as_str()))),
        words(shown("device", |guest| Cell::text(guest.front_end.word()))),
        words(shown("write cache", |guest| {
            Cell::text(if guest.write_cache { "on" } else { "off" })
        })),
        words(shown("layers", |guest| Cell::text(guest.layers.to_string()))),
        words(shown("engine", |guest| Cell::text(guest.engine.to_string()))),
        words(shown("size", |guest| Cell::Bytes(guest.size.get()))),
        words(shown("kernel", |guest| Cell::of(guest.kernel.as_ref(), Cell::text))),
    ];
    Table::shown(COLUMNS, each_once(guests.iter().copied()))
}
