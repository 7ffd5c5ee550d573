//! A clean run as rules see it, to be spoiled by each test.

#[path = "../../durio-analyse/src/tests/sample.rs"]
mod clean;

use durio_analyse::campaign::CampaignFindings;
use durio_analyse::{OperationFindings, RateVariation, SelfCost, WarningFinding, WorkloadFindings};
use durio_observe::BlockFacts;
use durio_plan::Plan;
use durio_record::{Environment, OperationName, ProcessGap};

use crate::Basis;
use crate::warning::Rule;

/// Everything that a [`Basis`] refers to.
pub(crate) struct Sample {
    pub(crate) plan: Plan,
    pub(crate) environment: Environment,
    pub(crate) workloads: Vec<WorkloadFindings>,
    pub(crate) self_cost: Vec<SelfCost>,
    pub(crate) provisional: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) process_gaps: Vec<ProcessGap>,
    pub(crate) campaign: Option<CampaignFindings>,
}

pub(crate) fn sample() -> Sample {
    let clean::Sample { plan, environment, workloads } = clean::sample();
    Sample {
        plan,
        environment,
        workloads,
        self_cost: Vec::new(),
        provisional: None,
        notes: Vec::new(),
        process_gaps: Vec::new(),
        campaign: None,
    }
}

impl Sample {
    pub(crate) fn basis(&self) -> Basis<'_> {
        Basis {
            plan: &self.plan,
            environment: &self.environment,
            workloads: &self.workloads,
            self_cost: &self.self_cost,
            provisional: self.provisional.as_deref(),
            notes: &self.notes,
            process_gaps: &self.process_gaps,
            probed: &[],
            campaign: self.campaign.as_ref(),
        }
    }

    pub(crate) fn evenness(&mut self) -> &mut RateVariation {
        self.workloads[0].rate_variation.as_mut().unwrap()
    }

    pub(crate) fn headline(&mut self) -> &mut OperationFindings {
        &mut self.workloads[0].operations[0]
    }

    pub(crate) fn operation(&mut self, name: OperationName) -> &mut OperationFindings {
        let operations = &mut self.workloads[0].operations;
        operations.iter_mut().find(|operation| operation.operation == name).unwrap()
    }

    pub(crate) fn block(&mut self) -> &mut BlockFacts {
        self.environment.stacks[0].root.block.as_mut().unwrap()
    }
}

pub(crate) fn check_warns(rule: Rule, code: &str, spoil: impl FnOnce(&mut Sample)) {
    let warnings = apply(rule, spoil);
    assert!(warnings.iter().any(|warning| warning.code == code), "{warnings:?}");
}

pub(crate) fn check_quiet(rule: Rule, spoil: impl FnOnce(&mut Sample)) {
    assert_eq!(apply(rule, spoil), []);
}

fn apply(rule: Rule, spoil: impl FnOnce(&mut Sample)) -> Vec<WarningFinding> {
    let mut sample = sample();
    spoil(&mut sample);
    rule(&sample.basis())
}
