//! Rules against facts.
//!
//! In: [`AdviceRequest`]. Out: [`AdviceReport`]. Not here: reading the system, output.

use durio_observe::{Readings, Stack};

use super::catalogue::Catalogue;
use super::condition::Seen;
use super::conflict::conflicts;
use super::document::{ADVICE_SCHEMA, Advice, AdviceReport, Apply, Counts, MissingFact, ReadFact};
use super::error::AdviceError;
use super::facts::Facts;
use super::from_run;
use super::from_system::{Known, SystemFacts};
use super::rule::{AdviceRole, AdviceState, Rule, rule_named, rules};
use super::settings::DatabaseSettings;
use super::templates::filled;
use durio_analyse::Findings;
use durio_workload::nearest_word;

/// Where a fact is searched for first.
#[derive(Debug, Clone, Copy)]
pub struct System<'a> {
    /// The layers under the target.
    pub stack: &'a Stack,
    /// The settings as they stand.
    pub readings: &'a Readings,
}

/// What is to be judged.
#[derive(Debug)]
pub struct AdviceRequest<'a> {
    /// The path that the user named.
    pub target: String,
    /// Machine and storage.
    pub system: System<'a>,
    /// Only rules for this use, and those for any.
    pub role: Option<AdviceRole>,
    /// Rules for this database too.
    pub database: Option<String>,
    /// Its settings.
    pub settings: DatabaseSettings,
    /// What was measured here.
    pub run: Option<&'a Findings>,
    /// Only this rule.
    pub rule: Option<String>,
}

/// Judges every rule.
///
/// # Errors
/// If a rule, a database or a setting is asked for that does not exist, or a setting's value is of
/// another kind.
pub fn advise(request: &AdviceRequest<'_>) -> Result<AdviceReport, AdviceError> {
    let catalogue = Catalogue::shipped()?;
    check_database(catalogue, request)?;
    let only = request.rule.as_deref().map(rule_named).transpose()?;
    let System { stack, readings } = request.system;
    let system = SystemFacts::new(catalogue, stack, readings);
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
    let Some(name) = &request.database else { return Ok(()) };
    if catalogue.settings_of(name).is_some() {
        return Ok(());
    }
    let nearest = nearest_word(name, catalogue.databases()).map(str::to_owned);
    Err(AdviceError::UnknownDatabase { name: name.clone(), nearest })
}

/// A run of other storage proves nothing here.
fn notes(request: &AdviceRequest<'_>) -> Vec<String> {
    let Some(findings) = request.run else { return Vec::new() };
    let here = durio_observe::leaf_devices(request.system.stack);
    let there = findings.stack.iter().flat_map(durio_observe::leaf_devices);
    let there: Vec<String> = there.collect();
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

fn counts(advice: &[Advice]) -> Counts {
    let mut counts = Counts::default();
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
    seen: Seen,
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
        let is_for_database = rule.databases.is_empty()
            || database.is_some_and(|name| rule.databases.iter().any(|known| known == name));
        let subjects = self.system.subjects(rule.subject, database);
        if !is_for_database || subjects.is_empty() {
            let reason = match is_for_database {
                true => format!("there is no {} here", rule.subject.name()),
                false => format!("it is about {}", rule.databases.join(", ")),
            };
            return vec![self.not_applicable(rule, reason)];
        }
        subjects.into_iter().map(|known| self.subject(rule, known)).collect()
    }

    fn subject(&self, rule: &Rule, known: Known) -> Advice {
        let Known { about, mut facts } = known;
        facts.extend(self.further);
        let judgement = self.judged(rule, &facts);
        self.advice(rule, about, &facts, judgement)
    }

    fn not_applicable(&self, rule: &Rule, reason: String) -> Advice {
        let judgement =
            Judgement { state: AdviceState::NotApplicable, reason, seen: Seen::default() };
        self.advice(rule, String::new(), self.system.base(), judgement)
    }

    fn judged(&self, rule: &Rule, facts: &Facts) -> Judgement {
        let mut seen = Seen::default();
        if let Some(applies) = &rule.applies {
            match applies.holds(facts, &mut seen) {
                Some(true) => {}
                Some(false) => {
                    let reason = format!("it is about something else: {}", told(&seen, facts));
                    return Judgement { state: AdviceState::NotApplicable, reason, seen };
                }
                None => return self.cannot_tell(seen, facts),
            }
        }
        // What was measured is told also where it only made the rule apply.
        seen.used.retain(|name| name.starts_with("run."));
        let mut deciding = Seen { used: seen.used, missing: Vec::new() };
        match rule.met.holds(facts, &mut deciding) {
            None => self.cannot_tell(deciding, facts),
            Some(holds) => {
                let state = if holds { AdviceState::Met } else { AdviceState::NotMet };
                Judgement { state, reason: told(&deciding, facts), seen: deciding }
            }
        }
    }

    fn cannot_tell(&self, seen: Seen, facts: &Facts) -> Judgement {
        let mut reasons: Vec<String> = Vec::new();
        for name in &seen.missing {
            let reason = match facts.get(name) {
                Some(fact) => match &fact.value {
                    Err(why) => format!("{name}: {why} ({})", fact.place),
                    Ok(_) => continue,
                },
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
            missing: judgement.seen.missing.iter().map(|it| self.missing(it, facts)).collect(),
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
        let why = facts.get(name).and_then(|fact| {
            let reason = fact.value.as_ref().err()?;
            Some(format!("{reason} ({})", fact.place))
        });
        MissingFact { fact: name.to_owned(), why, obtain: self.catalogue.obtain(name) }
    }
}

fn read(name: &str, facts: &Facts) -> Option<ReadFact> {
    let fact = facts.get(name)?;
    let value = fact.value.as_ref().ok()?.to_string();
    Some(ReadFact { fact: name.to_owned(), value, place: fact.place.clone() })
}

/// The values that decided, each with its place.
fn told(seen: &Seen, facts: &Facts) -> String {
    let tell = |name: &String| {
        let ReadFact { fact, value, place } = read(name, facts)?;
        let short = fact.split_once('.').map_or(fact.as_str(), |(_, short)| short);
        Some(format!("{short} is {value} ({place})"))
    };
    seen.used.iter().filter_map(tell).collect::<Vec<_>>().join(", ")
}
