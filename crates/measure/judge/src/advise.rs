//! Advice: rules about kernel, devices, filesystems and databases, as data, applied to facts.
//!
//! Facts are settings in effect, a database's settings and the findings of a run, all read by the
//! caller; the rules are in `rules/`. [`AdviceReport`] is plain data: each rule is met, not met,
//! undecided or not applicable, with the values read, what to do and the expected gain,
//! commands and lines that do it (`apply.rs`), and the sources. Nothing is applied or printed here.
//!
//! A rule is data: conditions in a small language over named facts (`condition.rs`), whose kinds
//! are in `rules/facts.toml`. Documents that contradict each other are shown as a conflict, never
//! resolved silently. Each rule has the project's measurements of its claim, or the reason why
//! there are none (`evidence.rs`). No advice ever lowers durability; a test scans for it.

/// Enums of words: a case, its documentation, and the word that users read. Saved documents have
/// the case's name.
macro_rules! word_enum {
    (
        $(#[$about:meta])* $name:ident, $how:ident:
        $($(#[$doc:meta])* $case:ident $word:literal,)*
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        $(#[$about])*
        pub enum $name {
            $($(#[$doc])* $case,)*
        }

        impl $name {
            /// As users read it.
            pub const fn $how(self) -> &'static str {
                match self {
                    $(Self::$case => $word,)*
                }
            }
        }
    };
}

mod apply;
mod condition;
mod document;
mod evidence;
mod facts;
mod from_run;
mod from_system;
mod rule;
mod settings;

use durio_analyse::Findings;
use durio_observe::{Stack, TuningReadings, leaf_devices};

use apply::SettingPlace;
use condition::SeenFacts;
use facts::{Catalogue, FactValue, Facts, KnownFact, filled, named_in};
use from_system::{SubjectFacts, SystemFacts};
use rule::GainFact;

pub use apply::{Apply, ConfigFile, ConfigLine};
pub use document::{
    ADVICE_SCHEMA, Advice, AdviceReport, Conflict, Gain, GainBasis, MissingFact, PROOF_SCHEMA,
    ReadFact, RuleCounts, RuleProof, Statement, SwitchedSetting,
};
pub use evidence::{Conditions, Evidence, EvidenceOutcome, MeasuredGain};
pub use facts::AdviceError;
pub use rule::{
    AdviceRole, AdviceSource, AdviceState, ProofMethod, ProveLoad, Risk, Rule, SourceKind, Subject,
    Switch, rule_named, rules,
};
pub use settings::{DatabaseSetting, DatabaseSettings, IncludedFiles};

/// Where a fact is searched for first.
#[derive(Debug, Clone, Copy)]
pub struct FactOrigin<'a> {
    /// The layers under the target.
    pub stack: &'a Stack,
    /// The settings as they stand.
    pub readings: &'a TuningReadings,
}

/// The target, the sources of its facts, and the rules to apply.
#[derive(Debug)]
pub struct AdviceRequest<'a> {
    /// The path that the user named.
    pub target: String,
    /// The machine, and the layers under the target.
    pub system: FactOrigin<'a>,
    /// Only rules for this use, and those for any.
    pub role: Option<AdviceRole>,
    /// Rules for this database too.
    pub database: Option<String>,
    pub settings: DatabaseSettings,
    /// The findings of a run on this target.
    pub run: Option<&'a Findings>,
    /// Only this rule, by identifier or name.
    pub rule: Option<String>,
}

/// Judges every rule.
///
/// # Errors
/// If a requested rule, database or setting does not exist, or a setting's value has another kind.
pub fn advise(request: &AdviceRequest<'_>) -> Result<AdviceReport, AdviceError> {
    let catalogue = Catalogue::shipped()?;
    check_database(catalogue, request)?;
    let only = request.rule.as_deref().map(rule_named).transpose()?;
    let FactOrigin { stack, readings } = request.system;
    let system = SystemFacts::new(catalogue, stack, readings);
    // A run's facts and settings hold for every subject, the system's for one each.
    let mut further = request.settings.facts(catalogue, request.database.as_deref())?;
    if let Some(findings) = request.run {
        further.extend(&from_run::facts(findings));
        from_run::gain_over(&mut further);
    }
    let all = rules()?;
    let judge = Judge { catalogue, request, system: &system, further: &further };
    let asked = all.iter().filter(|rule| only.is_none_or(|only| only.id == rule.id));
    let asked = asked.filter(|rule| request.role.is_none_or(|role| rule.has_role(role)));
    let advice: Vec<Advice> = asked.flat_map(|rule| judge.rule(rule)).collect();
    Ok(AdviceReport {
        schema: ADVICE_SCHEMA.to_owned(),
        target: request.target.clone(),
        database: request.database.clone(),
        role: request.role,
        run: request.run.map(|findings| findings.run_folder.clone()),
        counts: counts(&advice),
        conflicts: conflicts(&advice, all),
        files: apply::files(advice.iter().flat_map(|advice| &advice.lines)),
        origins: Vec::new(),
        notes: notes(request),
        advice,
    })
}

/// The settings of a database that rules read, by its own names for them.
///
/// # Errors
/// If the rules cannot be read.
pub fn settings_read(database: &str) -> Result<Vec<&'static str>, AdviceError> {
    let catalogue = Catalogue::shipped()?;
    let group = catalogue.settings_of(database).unwrap_or_default();
    let names = catalogue.names().filter_map(|name| name.split_once('.'));
    Ok(names.filter(|(of, _)| *of == group).map(|(_, name)| name).collect())
}

fn check_database(catalogue: &Catalogue, request: &AdviceRequest<'_>) -> Result<(), AdviceError> {
    match &request.database {
        Some(name) if catalogue.settings_of(name).is_none() => {
            Err(AdviceError::unknown("unknown database", name, catalogue.databases()))
        }
        _ => Ok(()),
    }
}

fn notes(request: &AdviceRequest<'_>) -> Vec<String> {
    let Some(findings) = request.run else { return Vec::new() };
    // A run of other storage proves nothing here.
    let here = leaf_devices(request.system.stack);
    let there: Vec<String> = findings.stack.iter().flat_map(leaf_devices).collect();
    if there.iter().any(|device| here.contains(device)) {
        return Vec::new();
    }
    let text = format!(
        "the run measured other devices ({}) than the target is on ({}); its results may not hold here",
        there.join(", "),
        here.join(", ")
    );
    vec![text]
}

fn counts(advice: &[Advice]) -> RuleCounts {
    let mut counts = RuleCounts::default();
    for one in advice {
        *match one.state {
            AdviceState::Met => &mut counts.met,
            AdviceState::NotMet => &mut counts.not_met,
            AdviceState::CannotTell => &mut counts.cannot_tell,
            AdviceState::NotApplicable => &mut counts.not_applicable,
        } += 1;
    }
    counts
}

/// How a rule stands for one subject.
struct Judgement {
    state: AdviceState,
    reason: String,
    seen: SeenFacts,
    /// True unless it is open whether the rule applies.
    is_settled: bool,
}

impl Judgement {
    /// True if only the present values of a database's settings are unknown, which the rule sets
    /// whatever they are.
    fn is_unset(&self, rule: &Rule) -> bool {
        let is_own = |name: &String| {
            let mut changes = rule.set.iter();
            changes.any(|change| change.place == SettingPlace::Database && change.fact == *name)
        };
        let missing = &self.seen.missing;
        let is_open = self.state == AdviceState::CannotTell && self.is_settled;
        is_open && !missing.is_empty() && missing.iter().all(is_own)
    }
}

struct Judge<'a> {
    catalogue: &'a Catalogue,
    request: &'a AdviceRequest<'a>,
    system: &'a SystemFacts,
    further: &'a Facts,
}

impl Judge<'_> {
    /// One piece of advice for each subject that the rule is about.
    fn rule(&self, rule: &Rule) -> Vec<Advice> {
        let database = self.request.database.as_deref();
        // A rule for some databases is silent until one of them is requested.
        let is_for_database = rule.databases.is_empty()
            || database.is_some_and(|name| rule.databases.iter().any(|known| known == name));
        let subjects = self.system.subjects(rule.subject, database);
        let author = database.filter(|_| rule.is_design);
        if !is_for_database || subjects.is_empty() || author.is_some() {
            let reason = match is_for_database {
                true if author.is_some() => "only a database's developers can apply it".to_owned(),
                true => format!("there is no {} here", rule.subject.name()),
                false if database.is_none() => {
                    format!("it needs --database {}", rule.databases.join(" or "))
                }
                false => format!("it is about {}", rule.databases.join(", ")),
            };
            let (state, seen) = (AdviceState::NotApplicable, SeenFacts::default());
            let judgement = Judgement { state, reason, seen, is_settled: true };
            return vec![self.advice(rule, String::new(), self.system.base(), judgement)];
        }
        let one = |SubjectFacts { about, mut facts, .. }: SubjectFacts| {
            facts.extend(self.further);
            let judgement = self.judge(rule, &facts);
            self.advice(rule, about, &facts, judgement)
        };
        subjects.into_iter().map(one).collect()
    }

    fn judge(&self, rule: &Rule, facts: &Facts) -> Judgement {
        let mut seen = SeenFacts::default();
        if let Some(applies) = &rule.applies {
            match applies.holds(facts, &mut seen) {
                Some(true) => {}
                Some(false) => {
                    let reason = format!("it does not apply: {}", deciding_facts(&seen, facts));
                    let state = AdviceState::NotApplicable;
                    return Judgement { state, reason, seen, is_settled: true };
                }
                None => return self.cannot_tell(seen, facts, false),
            }
        }
        // Measured values are shown even where they only made the rule apply.
        seen.used.retain(|name| name.starts_with("run."));
        seen.missing.clear();
        let state = match rule.met.holds(facts, &mut seen) {
            None => return self.cannot_tell(seen, facts, true),
            Some(true) => AdviceState::Met,
            Some(false) => AdviceState::NotMet,
        };
        Judgement { state, reason: deciding_facts(&seen, facts), seen, is_settled: true }
    }

    fn cannot_tell(&self, seen: SeenFacts, facts: &Facts, is_settled: bool) -> Judgement {
        let mut reasons: Vec<String> = Vec::new();
        for name in &seen.missing {
            let reason = match why_unreadable(name, facts) {
                Some(why) => format!("{name}: {why}"),
                None => self.catalogue.obtain(name),
            };
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let (state, reason) = (AdviceState::CannotTell, reasons.join("; "));
        Judgement { state, reason, seen, is_settled }
    }

    fn advice(&self, rule: &Rule, about: String, facts: &Facts, judgement: Judgement) -> Advice {
        let fill = |text: &Option<String>| text.as_deref().map(|text| filled(text, facts));
        let gain = expected_gain(rule, facts);
        let is_wanted = judgement.state == AdviceState::NotMet || judgement.is_unset(rule);
        let lines = match is_wanted && gain.basis != GainBasis::Refuted {
            true => lines(rule, &about, facts),
            false => Vec::new(),
        };
        Advice {
            rule: rule.id.clone(),
            name: rule.name.clone(),
            title: rule.title.clone(),
            now: now(rule, &judgement.seen, facts),
            new: new_value(rule, facts, self.catalogue),
            gain,
            lines,
            layer: rule.layer.clone(),
            subject: rule.subject,
            about,
            roles: rule.roles.clone(),
            databases: rule.databases.clone(),
            state: judgement.state,
            reason: judgement.reason,
            read: judgement.seen.used.iter().filter_map(|name| read(name, facts)).collect(),
            missing: judgement.seen.missing.iter().map(|name| self.missing(name, facts)).collect(),
            advice: filled(&rule.advice, facts),
            apply: Apply {
                command: fill(&rule.command),
                udev: fill(&rule.udev),
                setting: fill(&rule.setting),
                undo: fill(&rule.undo),
            },
            risk: rule.risk,
            evidence: rule.evidence.clone(),
            provable: rule.prove.is_some(),
            sources: rule.sources.clone(),
        }
    }

    fn missing(&self, name: &str, facts: &Facts) -> MissingFact {
        let (why, obtain) = (why_unreadable(name, facts), self.catalogue.obtain(name));
        MissingFact { fact: name.to_owned(), why, obtain }
    }
}

/// The present value: in the rule's words, of the settings that it changes, or of what decided.
fn now(rule: &Rule, seen: &SeenFacts, facts: &Facts) -> Option<String> {
    if let Some(text) = &rule.now {
        return is_known(text, facts).then(|| filled(text, facts));
    }
    let decided = seen.used.iter().map(String::as_str).filter(|name| !name.starts_with("run."));
    let names: Vec<&str> = match rule.set.is_empty() {
        true => decided.collect(),
        false => rule.set.iter().map(|change| change.fact.as_str()).collect(),
    };
    let known = names.into_iter().filter_map(|name| Some((name, shown(facts.get(name)?)?)));
    match known.collect::<Vec<_>>().as_slice() {
        [] => None,
        [(_, value)] => Some(value.clone()),
        several => {
            let each = several.iter().map(|(name, value)| format!("{} {value}", short(name)));
            Some(each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value with its unit; flags and zero, which need none, as their place writes them.
fn shown(fact: &KnownFact) -> Option<String> {
    let value = fact.value.as_ref().ok()?;
    let is_plain = matches!(value, FactValue::Flag(_)) || value.magnitude() == Some(0.0);
    Some(if is_plain { fact.text.clone() } else { value.to_string() })
}

/// The value of a rule's only setting; one that was measured has its unit.
fn new_value(rule: &Rule, facts: &Facts, catalogue: &Catalogue) -> Option<String> {
    let [change] = rule.set.as_slice() else { return None };
    if !is_known(&change.to, facts) {
        return None;
    }
    let text = filled(&change.to, facts);
    let kind = catalogue.kind(&change.fact).filter(|_| text != change.to);
    let value = kind.and_then(|kind| kind.read(&text).ok());
    Some(value.map_or(text, |value| value.to_string()))
}

fn lines(rule: &Rule, about: &str, facts: &Facts) -> Vec<ConfigLine> {
    let all = rule.set.iter().filter_map(|change| change.config_line(&rule.group, about));
    let known = all.filter(|config| is_known(&config.line, facts));
    known.map(|config| ConfigLine { line: filled(&config.line, facts), ..config }).collect()
}

/// True if every fact that a text names is known.
fn is_known(text: &str, facts: &Facts) -> bool {
    named_in(text).all(|name| facts.value(name).is_some())
}

/// The name of a fact within its group.
fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, short)| short)
}

/// Why the text that was read is not a value of the fact's kind, and where it was read.
fn why_unreadable(name: &str, facts: &Facts) -> Option<String> {
    let fact = facts.get(name)?;
    Some(format!("{} ({})", fact.value.as_ref().err()?, fact.place))
}

fn read(name: &str, facts: &Facts) -> Option<ReadFact> {
    let fact = facts.get(name)?;
    let value = fact.value.as_ref().ok()?.to_string();
    Some(ReadFact { fact: name.to_owned(), value, place: fact.place.clone() })
}

/// The values that decided, each with its place.
fn deciding_facts(seen: &SeenFacts, facts: &Facts) -> String {
    let tell = |name: &String| {
        let ReadFact { fact, value, place } = read(name, facts)?;
        Some(format!("{} is {value} ({place})", short(&fact)))
    };
    seen.used.iter().filter_map(tell).collect::<Vec<_>>().join(", ")
}

/// Every pair of rules that contradict each other, once, where one of them is shown and not met; and
/// every document that contradicts such a rule.
fn conflicts(shown: &[Advice], rules: &[Rule]) -> Vec<Conflict> {
    let mut conflicts: Vec<Conflict> = Vec::new();
    let by_id = |id: &str| rules.iter().find(|rule| rule.id == id);
    for advice in shown.iter().filter(|advice| advice.state == AdviceState::NotMet) {
        let Some(rule) = by_id(&advice.rule) else { continue };
        let others = rule.conflicts.iter().filter_map(|id| by_id(id));
        let documents = rule.contradicting.iter().map(|(says, source)| Statement {
            rule: None,
            for_whom: String::new(),
            says: says.clone(),
            sources: vec![source.clone()],
        });
        for other in others.map(statement).chain(documents) {
            let about = about(advice);
            let conflict = Conflict { about, statements: vec![statement(rule), other] };
            if !conflicts.iter().any(|known| is_same(known, &conflict)) {
                conflicts.push(conflict);
            }
        }
    }
    conflicts
}

fn about(advice: &Advice) -> String {
    let facts: Vec<&str> = advice.read.iter().map(|read| read.fact.as_str()).collect();
    format!("{} of {}", facts.join(", "), advice.about)
}

fn is_same(one: &Conflict, other: &Conflict) -> bool {
    let same = |a: &Statement, b: &Statement| a.rule == b.rule && a.says == b.says;
    let (a, b) = (&one.statements, &other.statements);
    // The other rule of the pair finds the same conflict, with its sides the other way round.
    let straight = a.iter().zip(b).all(|(a, b)| same(a, b));
    let crossed = a.iter().zip(b.iter().rev()).all(|(a, b)| same(a, b));
    straight && one.about == other.about || crossed
}

/// A rule's statement, and its audience.
fn statement(rule: &Rule) -> Statement {
    let roles: Vec<&str> = rule.roles.iter().map(|role| role.name()).collect();
    let mut for_whom = format!("role {}", roles.join(", "));
    if !rule.databases.is_empty() {
        for_whom = format!("{for_whom}; {}", rule.databases.join(", "));
    }
    Statement {
        rule: Some(rule.id.clone()),
        for_whom,
        says: rule.title.clone(),
        sources: rule.sources.clone(),
    }
}

/// The expected gain: durability, else a run's measurement, else durio's A/B test, else the source.
fn expected_gain(rule: &Rule, facts: &Facts) -> Gain {
    if rule.guards_data {
        let says = "protects acknowledged writes".to_owned();
        return Gain { basis: GainBasis::Durability, ratio: None, says };
    }
    let here = rule.gain.as_ref().and_then(|gain| measured(gain, facts));
    here.or_else(|| tested(&rule.evidence)).unwrap_or_else(|| Gain {
        basis: GainBasis::Source,
        ratio: None,
        says: format!("gain not measured ({})", cited(&rule.sources)),
    })
}

fn measured(gain: &GainFact, facts: &Facts) -> Option<Gain> {
    let ratio = facts.number(&gain.fact)?;
    let place = &facts.get(&gain.fact)?.place;
    let run = place.rsplit('/').next().unwrap_or(place);
    // Commands take a run's name without its time too, and a screen has few columns.
    let run = run.split_once("Z-").map_or(run, |(_, end)| end);
    let says = format!("{} times the {} (measured by {run})", times(ratio), gain.over);
    Some(Gain { basis: GainBasis::Run, ratio: Some(ratio), says })
}

/// The result of durio's own tests; `None` if there is none.
fn tested(evidence: &[Evidence]) -> Option<Gain> {
    let of = |outcome: EvidenceOutcome| evidence.iter().find(move |one| one.outcome == outcome);
    let agrees = of(EvidenceOutcome::Agrees);
    let against = of(EvidenceOutcome::Disagrees)
        // Where it made no difference in one place and some in another, it is worth a try.
        .or_else(|| of(EvidenceOutcome::NoDifference).filter(|_| agrees.is_none()));
    if let Some(against) = against {
        let says = against.says.clone();
        return Some(Gain { basis: GainBasis::Refuted, ratio: None, says });
    }
    agrees?;
    let (ratio, says) = match evidence.iter().find_map(|one| one.gain.as_ref()) {
        Some(gain) => {
            let says = format!("{} times the {} (durio's A/B test)", times(gain.ratio), gain.over);
            (Some(gain.ratio), says)
        }
        None => (None, "confirmed by durio's A/B test".to_owned()),
    };
    Some(Gain { basis: GainBasis::AbTest, ratio, says })
}

/// Who wrote the first source: a document's name begins with it.
fn cited(sources: &[AdviceSource]) -> &str {
    let read = sources.iter().find(|source| source.kind != SourceKind::GeneralKnowledge);
    let author = read.and_then(|source| source.document.split([',', ':']).next());
    author.unwrap_or("general knowledge")
}

fn times(ratio: f64) -> String {
    let step = if ratio >= 10.0 { 1.0 } else { 100.0 };
    ((ratio * step).round() / step).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &str, facts: &[(&str, f64)]) -> Gain {
        let mut known = Facts::default();
        for (name, value) in facts {
            let run = "/state/runs/2026-11-30T003045-847Z-check-4711";
            known.put(*name, FactValue::Number(*value), run);
        }
        expected_gain(rule_named(id).unwrap(), &known)
    }

    #[test]
    fn a_run_counts_before_durios_own_tests_and_those_before_a_source() {
        let run = of("W05", &[("run.append_over_recycled", 2.456)]);
        assert_eq!((run.basis, run.ratio), (GainBasis::Run, Some(2.456)));
        let says = "2.46 times the commits of a log that grows (measured by check-4711)";
        assert_eq!(run.says, says);
        let test = of("W05", &[("run.batch_gain", 9.0)]);
        assert_eq!((test.basis, test.ratio), (GainBasis::AbTest, Some(1.79)));
        assert_eq!(test.says, "1.79 times the commits of a log that grows (durio's A/B test)");
        let many = of("W09", &[("run.batch_gain", 54.4)]);
        assert!(many.says.starts_with("54 times the commits with a sync each"), "{}", many.says);
        let cited = of("C12", &[]);
        assert_eq!((cited.basis, cited.ratio), (GainBasis::Source, None));
        assert_eq!(cited.says, "gain not measured (MongoDB)");
        assert_eq!(of("B12", &[]).says, "gain not measured (general knowledge)");
    }

    #[test]
    fn what_durios_own_tests_refuted_is_marked_unless_a_run_here_measured_it_or_data_is_at_stake() {
        // One disagrees, one found no difference, one agrees in part and disagrees in part.
        for id in ["B03", "B09", "A03"] {
            assert_eq!(of(id, &[]).basis, GainBasis::Refuted, "{id}");
        }
        // It made a difference through the page cache, and none direct.
        assert_eq!(of("B18", &[]).basis, GainBasis::AbTest);
        assert_eq!(of("P01", &[]).basis, GainBasis::Refuted);
        assert_eq!(of("P01", &[("run.commit_delay_gain", 1.9)]).basis, GainBasis::Run);
        for id in ["F03", "P08", "W02"] {
            assert_eq!(of(id, &[]).basis, GainBasis::Durability, "{id}");
        }
    }
}
