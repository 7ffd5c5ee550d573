//! Real events for tests: plans for the null engine, and what it makes of them. Also of the tests of
//! durio-judge.

use std::error::Error;

use durio_base::{Bytes, Nanos};
use durio_plan::{
    ClockChoice, EngineKind, Load, NullScript, PLAN_SCHEMA, Plan, Purpose, Step, Target, TargetKind,
};
use durio_record::{Event, Journal, Manifest};
use durio_run::{EventSink, RunContext, StopFlag, run};
use durio_workload::Workload;

#[derive(Default)]
struct Events(Vec<Event>);

impl EventSink for Events {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push(event);
        Ok(())
    }
}

/// A load whose operations take these times, one after the other.
pub(crate) fn scripted(workload: Workload, latencies: Vec<Nanos>) -> Load {
    let script = Some(NullScript { latencies, fails_at: None });
    Load { script, ..Load::new(0, workload, EngineKind::Null) }
}

/// A plan of these steps on a target that does not exist.
pub(crate) fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: vec![Target {
            name: "scripted".into(),
            location: None,
            kind: TargetKind::Scripted,
            size: Bytes::from_gib(1),
            destroy: false,
        }],
        steps,
        campaign: None,
        thresholds: Vec::new(),
    }
}

/// Runs the plan.
pub(crate) fn events(plan: &Plan) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = RunContext::new(&mut journal, StopFlag::default());
    let mut sink = Events::default();
    run(plan, context, &mut sink).unwrap();
    sink.0
}

pub(crate) fn manifest(run: &str) -> Manifest {
    Manifest {
        label: None,
        schema: 1,
        run: run.into(),
        durio_version: "0".into(),
        started: String::new(),
        command: Vec::new(),
    }
}
