//! Judges findings: warnings, signals about flushes and verdicts (here), the answer in a sentence
//! ([`summary`]), the differences between runs ([`compare`]), advice on settings ([`advise`]),
//! errors in published results ([`audit`]), and typical storage to compare with ([`typical`]).
//!
//! The results come from durio-analyse and are shown by durio-report.
//!
//! A rule is a function of the [`RuleInput`], of a claim or of a layer, with the smallest findings that
//! trigger it as its test, a line in one of the lists (`RULES` in `warning.rs` and `audit/rules.rs`,
//! those of `signals.rs`), and its words in `data/rules` (`rule_text.rs`). Rules of advice are data.
//! Verdicts compare results with the documented thresholds that are saved in the plan (`verdict.rs`).
//! [`explanations`] are those of all rules.

pub mod advise;
pub mod audit;
pub mod compare;
mod rule_text;
mod signals;
pub mod summary;
pub mod typical;
mod verdict;
mod warning;

#[cfg(test)]
mod tests;

pub use rule_text::explained;
pub use signals::standing_signals;

use advise::AdviceError;
use durio_analyse::campaign::CampaignFindings;
use durio_analyse::{Analysis, Explanation, Findings, SelfCost, WorkloadFindings};
use durio_observe::Stack;
use durio_plan::Plan;
use durio_record::{Environment, ProcessGap, SyncCallsProbed};

/// The findings of an analysis, judged by every rule.
pub fn judge(Analysis { findings, evidence }: Analysis) -> Findings {
    let environment = Environment { host: findings.host.clone(), stacks: findings.stack.clone() };
    let input = RuleInput {
        plan: &findings.plan,
        environment: &environment,
        workloads: &findings.workloads,
        self_cost: &findings.self_cost,
        provisional: findings.provisional.as_deref(),
        notes: &evidence.notes,
        process_gaps: &evidence.process_gaps,
        probed: &evidence.probed,
        campaign: findings.campaign.as_ref(),
    };
    let verdicts = verdict::verdicts(&input);
    let placements = typical::placements(&input);
    let warnings = warning::warnings(&input);
    let signals = signals::signals(&input);
    Findings { verdicts, placements, warnings, signals, ..findings }
}

/// What reports say, whatever it is applied to: words of verdicts, those of first lines first,
/// warnings, signals, rules of the audit, causes of slow commits, rules of advice.
///
/// # Errors
/// If the rules of advice cannot be read: a test would have said so.
pub fn explanations() -> Result<Vec<Explanation>, AdviceError> {
    let mut all = summary::explanations();
    all.extend(rule_text::word_explanations());
    all.extend(warning::explanations());
    all.extend(signals::explanations());
    all.extend(audit::explanations());
    all.extend(summary::cause_explanations());
    all.extend(advise::rules()?.iter().map(advise::Rule::explanation));
    Ok(all)
}

/// What rules look at.
pub(crate) struct RuleInput<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) environment: &'a Environment,
    pub(crate) workloads: &'a [WorkloadFindings],
    pub(crate) self_cost: &'a [SelfCost],
    pub(crate) provisional: Option<&'a str>,
    /// What the runner noted.
    pub(crate) notes: &'a [String],
    /// When durio itself did not run.
    pub(crate) process_gaps: &'a [ProcessGap],
    /// What the same sync calls did through the C library and without it.
    pub(crate) probed: &'a [SyncCallsProbed],
    /// What the steps show together.
    pub(crate) campaign: Option<&'a CampaignFindings>,
}

impl RuleInput<'_> {
    /// The layers under a location of the plan.
    pub(crate) fn stack_at(&self, location: &str) -> Option<&Stack> {
        let locations = self.plan.locations();
        let index = locations.iter().position(|path| path.to_string() == location)?;
        self.environment.stacks.get(index)
    }

    /// True if any measured step makes writes durable.
    pub(crate) fn writes_durably(&self) -> bool {
        self.plan.measured_steps().any(|step| step.loads().any(|load| load.workload.is_durable()))
    }
}
