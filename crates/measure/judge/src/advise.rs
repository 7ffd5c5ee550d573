//! Advice: rules about kernel, devices, filesystems and databases, as data, applied to facts.
//!
//! Facts are settings in effect, a database's settings and the findings of a run, all read by the
//! caller; the rules are in `rules/`. [`AdviceReport`] is plain data: each rule is met, not met,
//! cannot tell or not applicable, with the values read, what to do, how to undo it, and the sources.
//! Nothing is applied or printed here.
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

use condition::SeenFacts;
use facts::{Catalogue, Facts, filled};
use from_system::{SubjectFacts, SystemFacts};

pub use document::{
    ADVICE_SCHEMA, Advice, AdviceReport, Apply, Conflict, MissingFact, PROOF_SCHEMA, ReadFact,
    RuleCounts, RuleProof, Statement, SwitchedSetting,
};
pub use evidence::{Conditions, Evidence, EvidenceOutcome};
pub use facts::AdviceError;
pub use rule::{
    AdviceRole, AdviceSource, AdviceState, ProofMethod, ProveLoad, Risk, Rule, SourceKind, Subject,
    Switch, rule_named, rules,
};
pub use settings::{DatabaseSetting, DatabaseSettings};

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
        notes: notes(request),
        advice,
    })
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
        "the run was of other devices ({}) than the target is on ({}): its figures may be of other storage",
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
        if !is_for_database || subjects.is_empty() {
            let reason = match is_for_database {
                true => format!("there is no {} here", rule.subject.name()),
                false => format!("it is about {}", rule.databases.join(", ")),
            };
            let (state, seen) = (AdviceState::NotApplicable, SeenFacts::default());
            let judgement = Judgement { state, reason, seen };
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
                    let reason =
                        format!("it is about something else: {}", deciding_facts(&seen, facts));
                    return Judgement { state: AdviceState::NotApplicable, reason, seen };
                }
                None => return self.cannot_tell(seen, facts),
            }
        }
        // Measured values are shown even where they only made the rule apply.
        seen.used.retain(|name| name.starts_with("run."));
        seen.missing.clear();
        let state = match rule.met.holds(facts, &mut seen) {
            None => return self.cannot_tell(seen, facts),
            Some(true) => AdviceState::Met,
            Some(false) => AdviceState::NotMet,
        };
        Judgement { state, reason: deciding_facts(&seen, facts), seen }
    }

    fn cannot_tell(&self, seen: SeenFacts, facts: &Facts) -> Judgement {
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
        Judgement { state: AdviceState::CannotTell, reason: reasons.join("; "), seen }
    }

    fn advice(&self, rule: &Rule, about: String, facts: &Facts, judgement: Judgement) -> Advice {
        let fill = |text: &Option<String>| text.as_deref().map(|text| filled(text, facts));
        Advice {
            rule: rule.id.clone(),
            name: rule.name.clone(),
            title: rule.title.clone(),
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
        let short = fact.split_once('.').map_or(fact.as_str(), |(_, short)| short);
        Some(format!("{short} is {value} ({place})"))
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
