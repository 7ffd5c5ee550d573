//! What the tests of rules share: a clean run, to be spoiled by each test, and layers, each the
//! smallest that a rule takes for what it is.

#[path = "../../analyse/src/tests/sample.rs"]
mod clean;

use durio_analyse::campaign::CampaignFindings;
use durio_analyse::{
    OperationFindings, RateVariation, SelfCost, Signal, SignalWord, WorkloadFindings,
};
use durio_observe::{
    BlockFacts, Fact, FilesystemFacts, Host, Layer, LayerKind, ProcessFacts, Stack, WriteCache,
};
use durio_plan::Plan;
use durio_record::{Environment, OperationName, ProcessGap};

use crate::RuleInput;
use crate::warning::warnings;

/// Everything that a [`RuleInput`] refers to.
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
    pub(crate) fn input(&self) -> RuleInput<'_> {
        RuleInput {
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

pub(crate) fn check_warns(code: &str, spoil: impl FnOnce(&mut Sample)) {
    assert!(seen(code, spoil).is_some(), "no warning {code}");
}

pub(crate) fn check_quiet(code: &str, spoil: impl FnOnce(&mut Sample)) {
    assert_eq!(seen(code, spoil), None, "{code}");
}

/// What the rule of this code sees in a spoiled run.
pub(crate) fn seen(code: &str, spoil: impl FnOnce(&mut Sample)) -> Option<String> {
    let mut sample = sample();
    spoil(&mut sample);
    warnings(&sample.input())
        .into_iter()
        .find(|warning| warning.code == code)
        .map(|warning| warning.seen)
}

pub(crate) fn layer(kind: LayerKind, name: &str) -> Layer {
    testkit::runs::layer(kind, name, Vec::new())
}

/// An NVMe disk with a volatile cache and FUA.
pub(crate) fn disk(name: &str) -> Layer {
    let block = BlockFacts {
        write_cache: Some(WriteCache::WriteBack),
        fua: Some(true),
        rotational: Some(false),
        virtual_device: Some(false),
        ..BlockFacts::default()
    };
    let facts = vec![fact("bus", "nvme")];
    Layer { block: Some(block), facts, ..layer(LayerKind::Disk, name) }
}

/// A made device on top of others.
pub(crate) fn over(kind: LayerKind, name: &str, below: Vec<Layer>) -> Layer {
    let write_cache = Some(WriteCache::WriteBack);
    let block = BlockFacts { write_cache, virtual_device: Some(true), ..BlockFacts::default() };
    Layer { block: Some(block), below, ..layer(kind, name) }
}

/// A filesystem mounted at `/srv` with these options.
pub(crate) fn filesystem(fs_type: &str, kind: LayerKind, options: &[&str]) -> Layer {
    let facts = FilesystemFacts {
        fs_type: fs_type.to_owned(),
        mount_point: "/srv".to_owned(),
        source: "/dev/nvme0n1".to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..FilesystemFacts::default()
    };
    Layer { filesystem: Some(facts), ..layer(kind, "/srv") }
}

pub(crate) fn fact(name: &str, value: &str) -> Fact {
    Fact { name: name.to_owned(), value: value.to_owned() }
}

pub(crate) fn with_facts(mut layer: Layer, facts: &[(&str, &str)]) -> Layer {
    layer.facts.extend(facts.iter().map(|(name, value)| fact(name, value)));
    layer
}

pub(crate) fn stack_of(root: Layer) -> Stack {
    Stack { target: "/srv".to_owned(), root }
}

pub(crate) fn host_with(process: ProcessFacts) -> Host {
    Host { process: Some(process), ..Host::default() }
}

/// Asserts the id and the word of a signal, and that it has evidence and never acquits.
#[track_caller]
pub(crate) fn assert_signal(found: Option<Signal>, id: &str, word: SignalWord) -> Signal {
    let found = found.unwrap_or_else(|| panic!("no signal {id}"));
    assert_eq!((found.id.as_str(), found.word), (id, word), "{found:?}");
    assert!(!found.read.is_empty() && !found.implies.is_empty(), "{found:?}");
    assert!(found.read.iter().all(|reading| !reading.place.is_empty()), "{found:?}");
    let words = format!("{} {}", found.implies, found.advice);
    let acquits = words.split(|c: char| !c.is_alphabetic()).any(|word| word == "safe");
    assert!(!acquits, "{words}");
    found
}
