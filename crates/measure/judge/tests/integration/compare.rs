//! Comparisons of real events of the null engine: which steps belong together, and what stands.

use durio_base::Nanos;
use durio_judge::compare::published::ShapeWord;
use durio_judge::compare::published::{against, named, tables};
use durio_judge::compare::{
    CompareSettings, ComparedRun, Comparison, FigureName, Gate, Method, RunReader, Side, SideWord,
    StepComparison, compare, compare_named,
};
use durio_observe::Host;
use durio_plan::{
    Campaign, Limit, Plan, PlanSection, Role, Rounds, SectionKind, Step, Tracking, Until,
};
use durio_record::{Environment, Event, Manifest, Outcome, StoppedBy};
use durio_workload::{CacheMode, Pattern, PerMille, Workload, self_cost_workload};

fn workload(depth: u32) -> Workload {
    let mut workload = self_cost_workload(depth);
    (workload.pattern, workload.read_share) = (Pattern::Random, PerMille::ALL);
    workload
}

/// A step of 1.2 s at this depth, with this latency in microseconds.
fn step(depth: u32, micros: u64, repeat: u32) -> Step {
    let latencies = [9, 10, 11].map(|tenths| Nanos::new(micros * 100 * tenths)).to_vec();
    let load = crate::null_run::scripted(workload(depth), latencies);
    let limit = Limit::Duration(Nanos::from_millis(1200));
    Step { repeat, ..Step::new(Role::Measure, load, limit, Nanos::from_millis(100)) }
}

fn plan(steps: Vec<Step>) -> Plan {
    let number = |(index, step)| Step { index: u32::try_from(index).unwrap(), ..step };
    crate::null_run::plan(steps.into_iter().enumerate().map(number).collect())
}

fn read(name: &str, kernel: &str, plan: &Plan, spoil: impl Fn(&mut Event)) -> ComparedRun {
    let host = Host { kernel: kernel.into(), ..Host::default() };
    let environment = Environment { host, stacks: Vec::new() };
    let mut reader = RunReader::new(crate::null_run::manifest(name), plan.clone(), environment);
    for mut event in crate::null_run::events(plan) {
        spoil(&mut event);
        reader.observe(&event);
    }
    reader.finish(name.into())
}

fn side(name: &str, steps: Vec<Step>) -> Side {
    let run = read(name, "6.1", &plan(steps), |_| {});
    Side { source: name.into(), runs: vec![run] }
}

fn compared(a: Side, b: Side) -> Comparison {
    compare(&[a, b], &CompareSettings::default())
}

fn word(step: &StepComparison, name: FigureName) -> SideWord {
    step.figure(name).unwrap().word
}

#[test]
fn the_rungs_of_a_ladder_find_their_likes() {
    let a = side("a", vec![step(1, 100, 0), step(4, 100, 0), step(16, 100, 0)]);
    let b = side("b", vec![step(16, 120, 0), step(1, 100, 0), step(4, 80, 0)]);
    let found = compared(a, b);
    let steps = &found.pairs[0].steps;
    assert!(steps.iter().all(|step| !step.different_workload && step.differences.is_empty()));
    let words: Vec<_> = steps.iter().map(|step| word(step, FigureName::Rate)).collect();
    // One run on a side: nothing shows how far the next would lie.
    assert_eq!(words, [SideWord::NoInterval; 3]);
    assert!((steps[2].figure(FigureName::P50).unwrap().effect.unwrap() - 0.2).abs() < 0.002);
}

#[test]
fn one_rung_that_is_left_over_on_each_side_is_compared_and_several_are_not_guessed_at() {
    let a = side("a", vec![step(1, 100, 0), step(4, 100, 0)]);
    let b = side("b", vec![step(1, 100, 0), step(8, 100, 0)]);
    let found = compared(a, b);
    let different = &found.pairs[0].steps[1];
    assert!(different.different_workload);
    let named = different.differences.iter().find(|difference| difference.what == "depth").unwrap();
    assert_eq!((named.baseline.as_str(), named.other.as_str()), ("4", "8"));
    let a = side("a", vec![step(1, 100, 0), step(2, 100, 0)]);
    let b = side("b", vec![step(4, 100, 0), step(8, 100, 0)]);
    let pair = &compared(a, b).pairs[0];
    assert_eq!((pair.steps.len(), pair.only_baseline.len(), pair.only_other.len()), (0, 2, 2));
    assert!(!pair.is_any_compared());
}

#[test]
fn a_summary_makes_no_other_workload() {
    let of = |summary: &str| {
        let mut step = step(4, 100, 0);
        step.load.workload.summary = summary.into();
        vec![step]
    };
    let found = compared(side("a", of("one")), side("b", of("other")));
    let step = &found.pairs[0].steps[0];
    assert!(!step.different_workload && step.differences.is_empty(), "{:?}", step.differences);
}

#[test]
fn repeats_of_a_step_within_one_run_are_repeats() {
    let repeats =
        |micros: u64| (0..5).map(|number| step(2, micros + u64::from(number), number)).collect();
    let found = compared(side("a", repeats(100)), side("b", repeats(110)));
    let step = &found.pairs[0].steps[0];
    assert_eq!((found.pairs[0].steps.len(), step.repeats), (1, [5, 5]));
    let rate = step.figure(FigureName::Rate).unwrap();
    assert_eq!((rate.method, rate.word), (Some(Method::Repeats), SideWord::Slower));
    // CPU time has no intervals, but with repeats it can be told.
    assert!(step.figure(FigureName::CpuPerOperation).unwrap().interval.is_some());
}

#[test]
fn repeats_that_scatter_are_undecided_however_even_each_is() {
    let runs =
        |micros: [u64; 3]| (0..3).zip(micros).map(|(number, at)| step(1, at, number)).collect();
    let found = compared(side("a", runs([100, 101, 120])), side("b", runs([115, 116, 130])));
    let rate = found.pairs[0].steps[0].figure(FigureName::Rate).unwrap().clone();
    assert!(rate.effect.unwrap() < -0.05, "{rate:?}");
    assert_eq!((rate.word, rate.method), (SideWord::Undecided, Some(Method::Repeats)));
    let reason = rate.reason.unwrap();
    assert!(reason.starts_with("the repeats scatter by 9.1 %, a change of 32.0 %"), "{reason}");
}

/// Sides of repeats with these latencies in microseconds, gated at 5 %.
fn gated(a: &[u64], b: &[u64]) -> Gate {
    let runs =
        |micros: &[u64]| (0..).zip(micros).map(|(number, &at)| step(1, at, number)).collect();
    let settings = CompareSettings { fail_over: Some(0.05), ..CompareSettings::default() };
    compare(&[side("a", runs(a)), side("b", runs(b))], &settings).gate.unwrap()
}

#[test]
fn the_gate_tells_a_regression_from_none_and_both_from_undecided() {
    let lengths = |gate: &Gate| [gate.regressions.len(), gate.undecided.len(), gate.excluded.len()];
    let gate = gated(&[100, 101, 102], &[120, 121, 122]);
    assert_eq!(lengths(&gate), [2, 0, 0], "{gate:?}");
    let gate = gated(&[1000, 1001, 1002], &[1001, 1002, 1003]);
    assert_eq!((lengths(&gate), gate.repeats_needed), ([0, 0, 2], None), "{gate:?}");
    assert!(gate.excluded[0].contains("rate worse by 0.3 % at most"), "{gate:?}");
    let gate = gated(&[100, 110, 120], &[105, 115, 125]);
    assert_eq!(lengths(&gate), [0, 2, 0], "{gate:?}");
    assert!(gate.undecided[0].contains("the repeats scatter by 9."), "{gate:?}");
    assert!(gate.repeats_needed.is_some_and(|repeats| (40..80).contains(&repeats)), "{gate:?}");
    let gate = gated(&[100], &[150]);
    assert_eq!((lengths(&gate), gate.repeats_needed), ([0, 2, 0], Some(5)), "{gate:?}");
    assert!(gate.undecided[0].contains("one run per side"), "{gate:?}");
}

#[test]
fn a_drift_of_one_repeat_is_scatter_and_that_of_most_is_the_steps() {
    let with_drifts_of = |repeats: u32, drifting: u32| {
        let plan = plan((0..repeats).map(|number| step(1, 100, number)).collect());
        let spoil = move |event: &mut Event| {
            let Event::Interval(interval) = event else { return };
            for record in interval.operations.iter_mut().filter(|_| interval.step < drifting) {
                let exact = &mut record.service.exact;
                exact.count = exact.count * (1000 + 30 * interval.index) / 1000;
            }
        };
        let b = Side { source: "b".into(), runs: vec![read("b", "6.1", &plan, spoil)] };
        let a = Side { source: "a".into(), runs: vec![read("a", "6.1", &plan, |_| {})] };
        compared(a, b).pairs.remove(0).steps.remove(0)
    };
    let with_drifts = |drifting| with_drifts_of(3, drifting);
    let one = with_drifts(1);
    assert!(one.cautions.is_empty() && !one.figures.is_empty(), "{one:?}");
    let most = with_drifts(2);
    assert_eq!((most.not_comparable.len(), most.cautions.len()), (0, 2), "{most:?}");
    assert!(most.figure(FigureName::Rate).unwrap().effect.is_some(), "{most:?}");
    let words = "B, run 1 (b) did not reach a steady state: its rate rose by";
    assert!(most.cautions[0].starts_with(words), "{most:?}");
    assert!(with_drifts_of(2, 1).cautions.is_empty(), "half are not most");
    let words = "B did not reach a steady state";
    assert!(with_drifts_of(1, 1).cautions[0].starts_with(words));
}

#[test]
fn twice_the_rate_with_three_noisy_repeats_is_decided_with_its_ratio() {
    let runs =
        |micros: [u64; 3]| (0..3).zip(micros).map(|(number, at)| step(1, at, number)).collect();
    // Repeats of each side differ by up to a third.
    let found = compared(side("a", runs([200, 230, 260])), side("b", runs([100, 115, 130])));
    let [answer] = found.answer.pairs.as_slice() else { panic!("{found:?}") };
    assert!((answer.ratio - 2.0).abs() < 0.02, "{answer:?}");
    let [low, high] = answer.interval.unwrap();
    assert!(low > 1.3 && high < 3.0 && answer.word == SideWord::Faster, "{answer:?}");
    assert!(found.sentence().starts_with("B is 2.0 × A (1."), "{}", found.sentence());
    assert_eq!(found.answer.runs_needed, None);
}

#[test]
fn the_margin_of_five_percent_divides_what_differs_from_what_does_not() {
    let repeats =
        |micros: u64| (0..5).map(|number| step(1, micros + u64::from(number), number)).collect();
    let found = |micros| compared(side("a", repeats(1000)), side("b", repeats(micros)));
    assert_eq!(found(1040).answer.pairs[0].word, SideWord::NoDifference);
    assert_eq!(found(1070).answer.pairs[0].word, SideWord::Slower);
    let said = found(1040).sentence();
    assert!(said.starts_with("B equals A within 5 %: 0.96 × (0.9"), "{said}");
}

#[test]
fn single_runs_that_their_user_named_are_called_by_their_names() {
    let labelled = |name: &str| {
        let plan = plan(vec![step(1, 100, 0)]);
        let environment = Environment { host: Host::default(), stacks: Vec::new() };
        let manifest = Manifest { label: Some(name.to_owned()), ..crate::null_run::manifest(name) };
        let mut reader = RunReader::new(manifest, plan.clone(), environment);
        crate::null_run::events(&plan).iter().for_each(|event| reader.observe(event));
        Side { source: name.into(), runs: vec![reader.finish(name.into())] }
    };
    let labels = |sides: &[Side], names: &[&str]| -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = compare_named(sides, &names, &CompareSettings::default());
        let pair = [found.pairs[0].baseline.clone(), found.pairs[0].other.clone()];
        assert_eq!(found.sides.iter().map(|side| &side.label).collect::<Vec<_>>(), pair.each_ref());
        assert!(found.sentence().contains(&format!("{} is ", pair[1])), "{found:?}");
        pair.to_vec()
    };
    let plain = || side("other", vec![step(1, 100, 0)]);
    assert_eq!(labels(&[labelled("gp3"), labelled("io2")], &[]), ["gp3", "io2"]);
    // One of two without a name, or one name twice: letters.
    assert_eq!(labels(&[labelled("gp3"), plain()], &[]), ["A", "B"]);
    assert_eq!(labels(&[labelled("gp3"), labelled("gp3")], &[]), ["A", "B"]);
    assert_eq!(labels(&[plain(), plain()], &["old", "new"]), ["old", "new"]);
}

#[test]
fn another_kernel_is_stated() {
    let plan = plan(vec![step(1, 100, 0)]);
    let of = |name: &str, kernel: &str| {
        let runs = vec![read(name, kernel, &plan, |_| {})];
        Side { source: name.into(), runs }
    };
    let found = compared(of("a", "6.1"), of("b", "6.12"));
    let stated: Vec<_> =
        found.pairs[0].environment.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(stated, ["kernel"]);
}

#[test]
fn kernels_of_all_runs_of_a_side_are_stated() {
    let plan = plan(vec![step(1, 100, 0)]);
    let of = |name: &str, kernels: [&str; 3]| {
        let runs = kernels.map(|kernel| read(name, kernel, &plan, |_| {})).into();
        Side { source: name.into(), runs }
    };
    let found = compared(of("a", ["6.1", "6.1", "6.1"]), of("b", ["6.1", "6.12", "6.2"]));
    let stated = found.pairs[0].environment.iter();
    let stated: Vec<_> = stated
        .map(|difference| [&difference.what, &difference.baseline, &difference.other])
        .collect();
    assert_eq!(stated, [["kernel", "6.1", "6.1 or 6.12 or 6.2"]]);
}

#[test]
fn a_cache_mode_that_fell_back_is_not_comparable() {
    let plan = plan(vec![step(1, 100, 0)]);
    let fallen = |event: &mut Event| {
        if let Event::StepStarted(started) = event {
            started.stream.cache = match started.stream.cache {
                CacheMode::Direct => CacheMode::Buffered,
                CacheMode::Buffered => CacheMode::Direct,
            };
            started.stream.fallbacks = vec!["the filesystem knows no O_DIRECT".into()];
        }
    };
    let b = || Side { source: "b".into(), runs: vec![read("b", "6.1", &plan, fallen)] };
    let a = || side("a", vec![step(1, 100, 0)]);
    let settings = CompareSettings { fail_over: Some(0.05), ..CompareSettings::default() };
    let found = compare(&[a(), b()], &settings);
    let refused = &found.pairs[0].steps[0];
    assert!(refused.not_comparable[0].contains("knows no O_DIRECT"), "{refused:?}");
    assert!(refused.figures.is_empty() && !found.pairs[0].is_any_compared());
    let gate = found.gate.unwrap();
    assert!(gate.regressions.is_empty() && gate.undecided.len() == 1, "{gate:?}");
    assert_eq!(gate.repeats_needed, None, "no repeat makes it comparable");
    let forced = compare(&[a(), b()], &CompareSettings { forced: true, ..settings });
    assert_eq!(forced.pairs[0].steps[0].cautions.len(), 1);
    assert!(forced.pairs[0].is_any_compared());
}

#[test]
fn sides_without_a_run_have_nothing_in_common() {
    let empty = || Side { source: "empty".into(), runs: Vec::new() };
    let found = compare(&[side("a", vec![step(1, 100, 0)]), empty()], &CompareSettings::default());
    assert_eq!(found.pairs[0].only_baseline.len(), 1);
    assert!(!found.pairs[0].is_any_compared());
    assert!(compare(&[], &CompareSettings::default()).pairs.is_empty());
}

#[test]
fn a_ladder_is_held_against_the_published_one_of_its_kind() {
    let ladder = [1, 4, 16, 96].map(|depth| step(depth, 100, 0)).to_vec();
    let run = read("ladder", "6.1", &plan(ladder), |_| {});
    let of_words = |words: &str| against(run.findings(), &named(&tables().unwrap(), words));
    assert!(of_words("xinnor xiRAID RAID10 randwrite 4k").is_empty(), "these are reads");
    let found = of_words("xinnor xiRAID RAID10 randread 4k").remove(0);
    let of = |level| found.shape.levels.iter().find(|point| point.level == level).unwrap();
    assert_eq!(found.shape.reference_level, Some(1));
    assert!((of(16).measured_ratio.unwrap() - 16.0).abs() < 0.05);
    assert!((of(16).published_ratio.unwrap() - 216.0 / 14.0).abs() < 1e-9);
    assert_eq!((of(16).word, of(32).word), (ShapeWord::Alike, ShapeWord::OnlyPublished));
}

#[test]
fn sides_and_pairs_are_labelled_and_what_is_no_evidence_is_said() {
    let of = |name: &str| side(name, vec![step(1, 100, 0)]);
    let found = compare(&[of("one"), of("two"), of("one")], &CompareSettings::default());
    let sides: Vec<_> =
        found.sides.iter().map(|side| (side.label.as_str(), side.source.as_str())).collect();
    assert_eq!(sides, [("A", "one"), ("B", "two"), ("C", "one")]);
    let pairs: Vec<_> =
        found.pairs.iter().map(|pair| (pair.baseline.as_str(), pair.other.as_str())).collect();
    assert_eq!(pairs, [("A", "B"), ("A", "C")]);
    assert_eq!(found.pairs[0].remarks, [""; 0]);
    let name = &found.sides[0].runs[0].run;
    let twice = format!("run {name} is on both sides, A and C: it is no evidence");
    assert_eq!(found.pairs[1].remarks, [twice]);
    assert_eq!((found.resamples, found.gate), (1000, None));
    // Draws of one run on two sides differ by their seed, and the effect of it with itself is none.
    let rate = found.pairs[1].steps[0].figure(FigureName::Rate).unwrap();
    assert_eq!(rate.effect, Some(0.0));
}

#[test]
fn each_figure_of_a_step_is_that_of_its_name() {
    let found = compared(side("a", vec![step(4, 100, 0)]), side("b", vec![step(4, 200, 0)]));
    let step = &found.pairs[0].steps[0];
    let figure =
        |name| step.figure(name).map(|figure| (figure.baseline.unwrap(), figure.other.unwrap()));
    let near = |found: (f64, f64), expected: (f64, f64)| {
        let ratios = (found.0 / expected.0, found.1 / expected.1);
        (ratios.0 - 1.0).abs() < 0.02 && (ratios.1 - 1.0).abs() < 0.02
    };
    // Four in flight of 90, 100 and 110 µs, and of twice as long.
    let rate = figure(FigureName::Rate).unwrap();
    assert!(near(rate, (40_000.0, 20_000.0)), "{rate:?}");
    let bandwidth = figure(FigureName::Bandwidth).unwrap();
    assert!(near(bandwidth, (40_000.0 * 4096.0, 20_000.0 * 4096.0)), "{bandwidth:?}");
    for (name, nanos) in [
        (FigureName::Mean, 100e3),
        (FigureName::P50, 100e3),
        (FigureName::P99, 110e3),
        (FigureName::P99_9, 110e3),
    ] {
        let found = figure(name).unwrap();
        assert!(near(found, (nanos, 2.0 * nanos)), "{name:?} {found:?}");
    }
    assert_eq!(figure(FigureName::SyncMean), None);
    assert!(figure(FigureName::CpuPerOperation).is_some());
    assert_eq!((step.name.as_str(), step.repeats), ("self", [1, 1]));
    assert!(step.curves.iter().all(|curve| curve.len() == 1 && !curve[0].is_empty()));
}

#[test]
fn steps_that_measure_different_operations_are_not_compared_even_if_forced() {
    let writes = |settings: &CompareSettings| {
        let mut step = step(1, 100, 0);
        step.load.workload.read_share = PerMille::NONE;
        compare(&[side("a", vec![self::step(1, 100, 0)]), side("b", vec![step])], settings)
    };
    for forced in [false, true] {
        let found = writes(&CompareSettings { forced, ..CompareSettings::default() });
        let step = &found.pairs[0].steps[0];
        assert_eq!(step.not_comparable, ["A measures reads, B writes"]);
        assert!(step.figures.is_empty() && step.cautions.is_empty());
    }
}

#[test]
fn a_step_without_its_like_is_named_with_what_it_does() {
    let named = |name: &str| {
        let mut step = step(2, 100, 0);
        (step.load.workload.name, step.load.workload.summary) =
            (name.into(), "what it does".into());
        vec![step]
    };
    let found = compared(side("a", named("x")), side("b", named("y")));
    let pair = &found.pairs[0];
    assert_eq!(
        (&pair.only_baseline[0], &pair.only_other[0]),
        (&"x (what it does)".into(), &"y (what it does)".into())
    );
}

#[test]
fn a_side_that_was_cut_short_is_not_compared_and_is_called_by_its_own_letter() {
    let plan = plan(vec![step(1, 100, 0)]);
    let cut = |event: &mut Event| {
        if let Event::StepEnded(ended) = event {
            ended.outcome = Outcome::Interrupted;
        }
    };
    let of = |name: &str, spoil: &dyn Fn(&mut Event)| Side {
        source: name.into(),
        runs: vec![read(name, "6.1", &plan, spoil)],
    };
    let whole = |_: &mut Event| {};
    let said = |a: Side, b: Side| compared(a, b).pairs.remove(0).steps.remove(0).not_comparable;
    let second = said(of("a", &whole), of("b", &cut));
    assert_eq!(second, ["B ended before its limit"]);
    assert_eq!(said(of("a", &cut), of("b", &whole)), ["A ended before its limit"]);
    let both = said(of("a", &cut), of("b", &cut));
    assert_eq!(both, ["A ended before its limit", "B ended before its limit"]);
}

#[test]
fn errors_of_each_run_are_remarked_with_their_side_and_run() {
    let plan = plan(vec![step(1, 100, 0)]);
    let failing = |name: &str, message: &'static str| {
        let fail = move |event: &mut Event| {
            if matches!(event, Event::RunEnded(_)) {
                let message = message.to_owned();
                *event = Event::Error(StoppedBy { step: None, message, errno: None, offset: None });
            }
        };
        read(name, "6.1", &plan, fail)
    };
    let sound = |name: &str| read(name, "6.1", &plan, |_| {});
    let a = Side { source: "a".into(), runs: vec![sound("a1"), failing("a2", "the disk is gone")] };
    let b = Side { source: "b".into(), runs: vec![failing("b1", "no room"), sound("b2")] };
    let remarks = compared(a, b).pairs.remove(0).remarks;
    assert_eq!(remarks, ["A, run a2: the disk is gone", "B, run b1: no room"]);
}

#[test]
fn a_side_that_alone_recorded_its_slow_commits_is_named() {
    let plan = plan(vec![step(1, 100, 0)]);
    let why = |recorded: bool| {
        let document = r#"{"schema":"durio-why-1","watch":{"target":"durio itself","processes":1,
            "seconds":1.5,"calls":9,"p50_ns":7,"p99_ns":8,"max_ns":9,"limit_ns":9,"slow":0,
            "passed_over":0,"lost_events":0,"cpu_seconds":0.5,"interrupted":false},
            "causes":[],"calls":[]}"#;
        recorded.then(|| serde_json::from_str(document).unwrap())
    };
    let one = |name: &str, recorded: bool| read(name, "6.1", &plan, |_| {}).with_why(why(recorded));
    let side = |name: &str, runs: [bool; 2]| {
        let runs = [("1", runs[0]), ("2", runs[1])];
        let runs = runs.map(|(number, recorded)| one(&format!("{name}{number}"), recorded));
        Side { source: name.into(), runs: runs.into() }
    };
    for (a, b, said, fact) in [
        ([false, false], [false, false], None, false),
        ([true, false], [false, false], Some("A"), true),
        ([false, false], [true, true], Some("B"), true),
        ([true, true], [true, true], None, false),
    ] {
        let pair = compared(side("a", a), side("b", b)).pairs.remove(0);
        let said = said.map(|label| {
            format!("only {label} recorded slow commits (--why), which cost some of its rate")
        });
        assert_eq!(pair.remarks, Vec::from_iter(said), "{a:?} {b:?}");
        let differs = pair.environment.iter().any(|it| it.what == "slow commits recorded (--why)");
        assert_eq!(differs, fact, "{a:?} {b:?}");
    }
}

/// A side whose steps were measured round after round until `window` rounds were steady, each step in
/// so many rounds as `rounds` says.
fn in_rounds(name: &str, window: u32, rounds: [u32; 2]) -> Side {
    let mut plan = plan(vec![step(1, 100, 0), step(4, 100, 0)]);
    let events = crate::null_run::events(&plan);
    let until = Until::SteadyState {
        tracked: 0,
        tracking: Tracking::Iops,
        window,
        excursion_per_mille: 200,
        slope_per_mille: 100,
    };
    let section = PlanSection {
        name: "steady".into(),
        summary: String::new(),
        kind: SectionKind::Single,
        first_step: 0,
        steps: 2,
        rounds: Some(Rounds { max: 25, until }),
        baseline: None,
    };
    plan.campaign = Some(Campaign { sections: vec![section], ..Campaign::default() });
    plan.steps.iter_mut().for_each(|step| step.section = Some(0));
    let environment = Environment { host: Host::default(), stacks: Vec::new() };
    let mut reader = RunReader::new(crate::null_run::manifest(name), plan, environment);
    for round in 0..rounds[0].max(rounds[1]) {
        for event in &events {
            let mut event = event.clone();
            let (step, place) = match &mut event {
                Event::StepStarted(it) => (it.step, &mut it.round),
                Event::Interval(it) => (it.step, &mut it.round),
                Event::JobEnded(it) => (it.step, &mut it.round),
                Event::StepEnded(it) => (it.step, &mut it.round),
                _ => continue,
            };
            *place = round;
            if round < rounds[step as usize] {
                reader.observe(&event);
            }
        }
    }
    Side { source: name.into(), runs: vec![reader.finish(name.into())] }
}

#[test]
fn the_rounds_of_the_steady_window_count_and_those_before_it_do_not() {
    let repeats = |a: Side, b: Side| {
        let found = compared(a, b);
        found.pairs[0].steps.iter().map(|step| step.repeats).collect::<Vec<_>>()
    };
    let of = |window, rounds| in_rounds("a", window, [rounds; 2]);
    assert_eq!(repeats(of(3, 7), of(3, 4)), [[3, 3]; 2]);
    assert_eq!(repeats(of(2, 6), of(4, 9)), [[2, 4]; 2], "each by its own plan");
    assert_eq!(repeats(of(5, 5), of(5, 2)), [[5, 2]; 2], "fewer than a window are all that are");
    assert_eq!(repeats(of(1, 8), of(1, 1)), [[1, 1]; 2]);
    // A run that ends within a round: its last rounds are those of each step.
    let cut = in_rounds("b", 3, [7, 6]);
    assert_eq!(repeats(of(3, 7), cut), [[3, 3]; 2]);
}
