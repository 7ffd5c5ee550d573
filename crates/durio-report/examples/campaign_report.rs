//! How long a report over a campaign takes: 500 steps of 300 intervals each, analysed and written
//! in every format; times go to standard error. Run it with `--release`, under `/usr/bin/time -v`
//! for the memory.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use durio_analyse::Analyser;
use durio_observe::Host;
use durio_plan::{
    Campaign, ClockChoice, EngineKind, Level, Limit, Load, NullScript, PLAN_SCHEMA, Plan, Purpose,
    Role, Section, SectionKind, Step, Target, TargetKind,
};
use durio_record::{Environment, Event, Journal, Manifest};
use durio_report::{Format, Options, write};
use durio_run::{Context, EventSink, StopFlag, run};
use durio_units::{Bytes, Nanos};
use durio_workload::{Pattern, Workload};

const SECTIONS: u32 = 50;
const LEVELS: u32 = 10;

#[derive(Default)]
struct Events(Vec<Event>);

impl EventSink for Events {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.push(event);
        Ok(())
    }
}

fn step(index: u32) -> Step {
    let (section, at) = (index / LEVELS, index % LEVELS);
    let depth = 1 << at;
    let workload = Workload {
        name: format!("randread-{section}"),
        pattern: Pattern::Random,
        depth,
        ..Workload::default()
    };
    let load = Load {
        script: Some(NullScript { latencies: script(), fails_at: None }),
        ..Load::new(0, workload, EngineKind::Null)
    };
    let limit = Limit::Duration(Nanos::from_secs(300));
    let level = Level { axis: "depth".into(), value: depth.into(), label: depth.to_string() };
    let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
    Step { index, section: Some(section), levels: vec![level], ..step }
}

/// Latencies over three decades.
fn script() -> Vec<Nanos> {
    (0..997_u64).map(|at| Nanos::from_micros(500 + (at * at * 7919) % 20_000)).collect()
}

fn plan(steps: u32) -> Plan {
    let section = |at: u32| Section {
        name: format!("depths {at}"),
        summary: "a ladder".into(),
        kind: SectionKind::Ladder { axis: "depth".into() },
        first_step: at * LEVELS,
        steps: LEVELS,
        rounds: None,
        baseline: None,
    };
    let campaign = Campaign {
        name: "large".into(),
        time_scale_per_mille: 1000,
        sections: (0..steps / LEVELS).map(section).collect(),
        ..Campaign::default()
    };
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Campaign,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: vec![Target {
            name: "scripted".into(),
            location: None,
            kind: TargetKind::Scripted,
            size: Bytes::from_gib(1),
            destroy: false,
        }],
        steps: (0..steps).map(step).collect(),
        campaign: Some(campaign),
        thresholds: Vec::new(),
    }
}

/// The events of one ladder, which stand for those of all.
fn events() -> Result<Vec<Event>, Box<dyn Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    let mut journal = Journal::begin(folder.path(), None)?;
    let context = Context::new(&mut journal, StopFlag::default());
    let mut sink = Events::default();
    run(&plan(LEVELS), context, &mut sink)?;
    Ok(sink.0)
}

/// The event as one of the same level in another section.
fn moved(event: &Event, section: u32) -> Event {
    let mut event = event.clone();
    let by = section * LEVELS;
    match &mut event {
        Event::StepStarted(it) => it.step += by,
        Event::Interval(it) => it.step += by,
        Event::JobEnded(it) => it.step += by,
        Event::StepEnded(it) => it.step += by,
        _ => {}
    }
    event
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let events = events()?;
    let manifest = Manifest {
        schema: 1,
        run: "large".into(),
        durio_version: "0".into(),
        started: String::new(),
        command: Vec::new(),
    };
    let environment = Environment { host: Host::default(), stacks: Vec::new() };
    let mut said = std::io::stderr();
    let begin = Instant::now();
    let mut analyser = Analyser::new(manifest, plan(SECTIONS * LEVELS), environment);
    for section in 0..SECTIONS {
        events.iter().for_each(|event| analyser.observe(&moved(event, section)));
    }
    writeln!(said, "observed in {:.2} s", begin.elapsed().as_secs_f64())?;
    let begin = Instant::now();
    let findings = durio_signals::judged(analyser.finish(String::new()));
    writeln!(said, "analysed in {:.2} s", begin.elapsed().as_secs_f64())?;
    for format in Format::ALL {
        let begin = Instant::now();
        let mut out = Vec::new();
        write(format, &findings, &Options::default(), &mut out)?;
        let seconds = begin.elapsed().as_secs_f64();
        writeln!(said, "{format}: {} bytes in {seconds:.2} s", out.len())?;
    }
    Ok(())
}
