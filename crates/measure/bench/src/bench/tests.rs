//! A bench on a machine that is made up: failures planted at each layer and in each measurement.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use durio_analyse::{Analyser, Findings};
use durio_base::{Bytes, Nanos};
use durio_command::CommandError;
use durio_layers::{
    BuildError, BuiltLayer, DeclaredKind, DeclaredLayer, DeclaredStack, Device, Dm, DmTarget,
    NewDevices, Ram, Xfs,
};
use durio_observe::Host;
use durio_plan::{ClockChoice, PLAN_SCHEMA, Plan, Purpose, SeveralDevices};
use durio_record::bench::{BenchFolder, BenchManifest, BenchStack, LayerState, TearDown};
use durio_record::{Environment, Manifest, Outcome};
use durio_spec::StackBench;

use super::schedule::{BenchPoint, BenchSchedule, StackHandle};
use super::{
    Planning, StackChoice, chosen_stacks, estimates, listing, refuse_missing_destroy,
    refuse_unknown_destroy,
};
use crate::campaign::CampaignScale;
use crate::observer::ToldLines;
use crate::read_back::bench_findings;

/// What goes wrong, and what was done.
#[derive(Default)]
struct Scripted {
    /// Stack and layer that cannot be built; layer 99 is the beginning of the stack.
    fails_to_build: Option<(usize, usize)>,
    /// What stays of a stack that cannot be built.
    leaves: &'static [&'static str],
    /// The stack that cannot be taken down.
    fails_to_go: Option<usize>,
    begun: Cell<usize>,
    log: Rc<RefCell<Vec<String>>>,
}

struct Fake {
    log: Rc<RefCell<Vec<String>>>,
    name: String,
    layers: usize,
    next: usize,
    fails_at: Option<usize>,
    leaves: &'static [&'static str],
    fails_to_go: bool,
    is_there: bool,
}

/// The error where these could not be undone.
fn leaving(first: BuildError, left: &[&str]) -> BuildError {
    if left.is_empty() {
        return first;
    }
    let left = left.iter().map(|&it| it.to_owned()).collect();
    BuildError::AndNotTornDown { first: Box::new(first), left }
}

impl Scripted {
    fn begin(&self, stack: &DeclaredStack) -> Result<Box<dyn StackHandle>, BuildError> {
        let index = self.begun.get();
        self.begun.set(index + 1);
        let fails_at =
            self.fails_to_build.filter(|(stack, _)| *stack == index).map(|place| place.1);
        if fails_at == Some(99) {
            return Err(leaving(BuildError::Failed("planted".to_owned()), self.leaves));
        }
        Ok(Box::new(Fake {
            log: Rc::clone(&self.log),
            name: stack.name.clone(),
            layers: stack.layers.len(),
            next: 0,
            fails_at,
            leaves: self.leaves,
            fails_to_go: self.fails_to_go == Some(index),
            is_there: true,
        }))
    }
}

impl StackHandle for Fake {
    fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError> {
        if self.next == self.layers {
            return Ok(None);
        }
        if self.fails_at == Some(self.next) {
            self.log.borrow_mut().push(format!("{} undone", self.name));
            self.is_there = false;
            return Err(leaving(BuildError::Failed("planted".to_owned()), self.leaves));
        }
        let index = self.next;
        self.next += 1;
        self.log.borrow_mut().push(format!("{} built {index}", self.name));
        Ok(Some(BuiltLayer {
            index,
            devices: vec![PathBuf::from("/dev/fake")],
            mount: None,
            commands: vec![format!("make {index}")],
            taken: Nanos::from_millis(3),
        }))
    }

    fn tear_down(mut self: Box<Self>) -> Result<(), BuildError> {
        self.is_there = false;
        self.log.borrow_mut().push(format!("{} down", self.name));
        match self.fails_to_go {
            true => Err(BuildError::NotTornDown(vec!["busy".to_owned()])),
            false => Ok(()),
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if self.is_there {
            self.log.borrow_mut().push(format!("{} dropped", self.name));
        }
    }
}

fn layer(kind: DeclaredKind, measured: bool) -> DeclaredLayer {
    DeclaredLayer { kind, groups: 1, measured }
}

fn stack(name: &str) -> BenchStack<DeclaredStack> {
    let ram = DeclaredKind::Ram(Ram { made: NewDevices { count: 1, size: Bytes::from_mib(64) } });
    let xfs = DeclaredKind::Xfs(Xfs::default());
    let linear = DeclaredKind::Dm(Dm { target: DmTarget::Linear });
    let layers = vec![layer(ram, true), layer(linear, false), layer(xfs, true)];
    let words = ["ram", "dm", "xfs"].map(|word| (word.to_owned(), word.to_owned()));
    BenchStack::waiting(DeclaredStack { name: name.to_owned(), layers }, words.to_vec())
}

fn manifest() -> BenchManifest<DeclaredStack> {
    BenchManifest {
        schema: 1,
        bench: "b".to_owned(),
        durio_version: "0".to_owned(),
        started: "now".to_owned(),
        command: Vec::new(),
        label: None,
        name: "n".to_owned(),
        summary: String::new(),
        spec: String::new(),
        seed: 1,
        time_scale_per_mille: 1000,
        size_scale_per_mille: 1000,
        several_devices: SeveralDevices::One,
        published: Vec::new(),
        outcome: None,
        stacks: vec![stack("a"), stack("b")],
    }
}

/// How a bench ended, and what was done.
struct Ended {
    manifest: BenchManifest<DeclaredStack>,
    log: Vec<String>,
    /// The stacks and layers that were about to be built.
    building: Vec<(usize, usize)>,
    saved: Vec<BenchManifest<DeclaredStack>>,
}

fn run(
    machine: &Scripted,
    measure: &mut dyn FnMut(&BenchPoint<'_>) -> Result<Outcome, CommandError>,
) -> Ended {
    let stop = Cell::new(false);
    let (saved, building) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let schedule = BenchSchedule {
        manifest: manifest(),
        begin: &|stack| machine.begin(stack),
        stop: &|| stop.get(),
        save: &|manifest| {
            saved.borrow_mut().push(manifest.clone());
            Ok(())
        },
        building: &|stack, layer| building.borrow_mut().push((stack, layer)),
    };
    let manifest = schedule
        .run(&mut |point| {
            let outcome = measure(point);
            stop.set(matches!(outcome, Ok(Outcome::Interrupted)));
            machine.log.borrow_mut().push(format!("measured {}", point.run));
            outcome
        })
        .unwrap();
    let (saved, building) = (saved.into_inner(), building.into_inner());
    Ended { manifest, log: machine.log.borrow().clone(), building, saved }
}

fn states(manifest: &BenchManifest<DeclaredStack>) -> Vec<Vec<LayerState>> {
    let of =
        |stack: &BenchStack<DeclaredStack>| stack.layers.iter().map(|layer| layer.state).collect();
    manifest.stacks.iter().map(of).collect()
}

use LayerState::{Built, Failed, Measured as Done, Partial, Waiting};

#[test]
fn every_layer_is_built_measured_and_taken_down_before_the_next_stack() {
    let ended = run(&Scripted::default(), &mut |_| Ok(Outcome::Complete));
    let one = |stack: &str, first: usize| {
        vec![
            format!("{stack} built 0"),
            format!("measured {first:02}-{stack}-ram"),
            format!("{stack} built 1"),
            format!("{stack} built 2"),
            format!("measured {:02}-{stack}-xfs", first + 1),
            format!("{stack} down"),
        ]
    };
    assert_eq!(ended.log, [one("a", 1), one("b", 3)].concat());
    // From the first layer to the last, and none above it.
    assert_eq!(ended.building, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert_eq!(states(&ended.manifest), [[Done, Built, Done], [Done, Built, Done]]);
    assert_eq!(ended.manifest.outcome, Some(Outcome::Complete));
    let layer = &ended.manifest.stacks[1].layers[2];
    assert_eq!(layer.run.as_deref(), Some("04-b-xfs"));
    assert_eq!(
        (layer.commands.as_slice(), layer.build),
        (&["make 2".to_owned()][..], Some(Nanos::from_millis(3)))
    );
    assert_eq!(ended.saved.last(), Some(&ended.manifest));
}

#[test]
fn the_first_permission_to_overwrite_that_names_no_device_of_a_stack_is_told() {
    let paths = ["/nowhere/sdb", "/nowhere/sdc"].map(str::to_owned).to_vec();
    let device = layer(DeclaredKind::Device(Device { paths }), true);
    let stacks =
        [stack("a").declared, DeclaredStack { name: "b".to_owned(), layers: vec![device] }];
    let refused = |named: &[&str]| {
        let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
        refuse_unknown_destroy(&stacks, &named).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&["/nowhere/sdc", "/nowhere/sdb"]), None);
    assert_eq!(
        refused(&["/nowhere/sdc", "/nowhere/x", "/nowhere/sdb", "/nowhere/y"]).as_deref(),
        Some("--destroy '/nowhere/x' names no device of the spec's stacks")
    );
}

#[test]
fn the_first_device_of_the_user_s_that_may_not_be_overwritten_is_told() {
    let devices = |paths: &[&str]| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        layer(DeclaredKind::Device(Device { paths }), true)
    };
    let [a, b] = [&["/nowhere/sda"][..], &["/nowhere/sdb", "/nowhere/sdc"]].map(devices);
    let stacks = [("a", a), ("b", b)]
        .map(|(name, layer)| DeclaredStack { name: name.to_owned(), layers: vec![layer] });
    let refused = |named: &[&str]| {
        let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
        refuse_missing_destroy(&stacks, &named).err().map(|error| error.to_string())
    };
    assert_eq!(refused(&["/nowhere/sdc", "/nowhere/sda", "/nowhere/sdb"]), None);
    for (named, lost) in [
        (&["/nowhere/sda"][..], "/nowhere/sdb"),
        (&["/nowhere/sdb", "/nowhere/sda"], "/nowhere/sdc"),
        (&["/nowhere/sdb", "/nowhere/sdc"], "/nowhere/sda"),
    ] {
        let expected = format!("whatever is on '{lost}' would be lost");
        assert_eq!(refused(named), Some(expected));
    }
}

/// Two stacks, the first of three layers of which the second is not measured.
fn bench(raw: &str) -> StackBench {
    let text = format!(
        "schema = 1\nname = \"x\"\n[target]\nraw = \"{raw}\"\n\
         [[stack]]\nname = \"s\"\nlayers = [{{ ram = {{ count = 3, size = \"64MiB\" }} }}, \
         {{ md = {{ level = 0, measured = false }} }}, {{ ext4 = {{}} }}]\n\
         [[stack]]\nname = \"t\"\nlayers = [{{ ram = {{ size = \"32MiB\" }} }}]\n\
         [[step]]\nname = \"w\"\njobs = 3\nduration = \"20s\"\n"
    );
    StackBench::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn choice(only: &[&str], size_per_mille: u32) -> StackChoice {
    let only = only.iter().map(|name| (*name).to_owned()).collect();
    let scale = CampaignScale { time_per_mille: 500, size_per_mille, steps_confirmed: 0 };
    StackChoice { only, scale, quick: false }
}

#[test]
fn the_stacks_that_are_asked_for_are_scaled_and_in_the_order_of_the_spec() {
    let bench = bench("one");
    let chosen = |only: &[&str], scale| {
        let stacks = chosen_stacks(&bench, &choice(only, scale));
        let of = |stack: &DeclaredStack| {
            (stack.name.clone(), stack.layers[0].kind.made().unwrap().size.get() >> 20)
        };
        stacks.map(|stacks| stacks.iter().map(of).collect::<Vec<_>>())
    };
    let of = |name: &str, mib: u64| (name.to_owned(), mib);
    assert_eq!(chosen(&[], 1000).unwrap(), [of("s", 64), of("t", 32)]);
    assert_eq!(chosen(&["t", "s"], 500).unwrap(), [of("s", 32), of("t", 16)]);
    assert_eq!(chosen(&["t"], 250).unwrap(), [of("t", 8)]);
    let error = chosen(&["t", "u"], 1000).unwrap_err().to_string();
    assert!(error.contains("the spec has no stack 'u'"), "{error}");
}

#[test]
fn a_quick_bench_has_steps_of_1_s_and_devices_of_320_mib_if_every_stack_can_have_them() {
    let scaled = |quick: bool, duration: &str, stacks: &[String]| {
        let stack = |(number, layers): (usize, &String)| {
            format!("[[stack]]\nname = \"s{number}\"\nlayers = [{layers}]\n")
        };
        let stacks: String = stacks.iter().enumerate().map(stack).collect();
        let step = format!("[[step]]\nname = \"w\"\nduration = \"{duration}\"\n");
        let text = format!("schema = 1\nname = \"x\"\n{stacks}{step}");
        let bench = StackBench::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let asked = StackChoice { quick, ..choice(&[], 777) };
        let scale = asked.scaled_for(&bench).unwrap().scale;
        (scale.time_per_mille, scale.size_per_mille)
    };
    let ram = |size: &str| format!("{{ ram = {{ size = \"{size}\" }} }}");
    let one = |duration: &str, size: &str| scaled(true, duration, &[ram(size)]);
    assert_eq!(one("10s", "512MiB"), (100, 625));
    assert_eq!([one("2s", "320MiB"), one("1s", "321MiB")], [(500, 1000), (1000, 997)]);
    assert_eq!([one("900ms", "64MiB"), one("1h", "64GiB")], [(1000, 1000), (1, 5)]);
    // The smallest device decides, and a chunk of 512 MiB has no place on 320 MiB.
    assert_eq!(scaled(true, "30s", &[ram("2GiB"), ram("512MiB")]), (34, 625));
    assert_eq!(scaled(true, "30s", &[ram("2GiB"), ram("64MiB")]), (34, 1000));
    let chunk = |chunk: &str| {
        let devices = "{ ram = { count = 2, size = \"1GiB\" } }";
        format!("{devices}, {{ md = {{ level = 0, chunk = \"{chunk}\" }} }}")
    };
    assert_eq!(scaled(true, "10s", &[chunk("256MiB")]), (100, 313));
    assert_eq!(scaled(true, "10s", &[chunk("512MiB")]), (100, 1000));
    assert_eq!(scaled(false, "10s", &[ram("512MiB")]), (500, 777));
}

#[test]
fn measured_layers_alone_are_estimated_on_their_own_devices() {
    let points = |raw: &str| {
        let (bench, choice) = (bench(raw), choice(&[], 1000));
        let stacks = chosen_stacks(&bench, &choice).unwrap();
        let clock = ClockChoice::Monotonic;
        let planning = Planning { bench: &bench, choice: &choice, seed: 11, clock };
        let all = estimates(&planning, &stacks).unwrap();
        let of = |point: &super::PointEstimate| {
            assert_eq!((point.plan.seed, point.plan.clock), (11, ClockChoice::Monotonic));
            assert_eq!(point.time(), Nanos::from_secs(10), "half as long");
            // The first target of every plan is the null device.
            let sizes = point.plan.targets.iter().skip(1).map(|target| target.size.get() >> 20);
            (point.stack, point.layer, sizes.collect::<Vec<_>>())
        };
        all.iter().map(of).collect::<Vec<_>>()
    };
    // A file has a tenth of nine tenths of 192 MiB.
    let (file, other) = ((0, 2, vec![17]), (1, 0, vec![32]));
    assert_eq!(points("all"), [(0, 0, vec![64; 3]), file.clone(), other.clone()]);
    assert_eq!(points("one"), [(0, 0, vec![64]), file, other]);
}

#[test]
fn whoever_finds_a_killed_bench_knows_which_run_was_under_way() {
    let ended = run(&Scripted::default(), &mut |_| Ok(Outcome::Complete));
    let under_way =
        |manifest: &&BenchManifest<DeclaredStack>| manifest.stacks[0].layers[0].state == Partial;
    let during = ended.saved.iter().find(under_way).unwrap();
    assert_eq!(during.stacks[0].layers[0].run.as_deref(), Some("01-a-ram"));
    assert_eq!(during.outcome, None);
    assert_eq!(during.stacks[0].tear_down, None);
    assert!(listing(during, "/x".as_ref(), true).contains("PARTIAL: still running, or killed"));
}

#[test]
fn a_layer_that_cannot_be_built_ends_its_stack_and_no_other() {
    for layer in [99, 0, 1, 2] {
        let machine = Scripted { fails_to_build: Some((0, layer)), ..Scripted::default() };
        let ended = run(&machine, &mut |_| Ok(Outcome::Complete));
        let first = &ended.manifest.stacks[0];
        let at = if layer == 99 { 0 } else { layer };
        assert!(first.failure.as_deref().unwrap().contains("planted"), "{layer}");
        assert!(first.failure.as_deref().unwrap().starts_with(&format!("layer {}", at + 1)));
        assert_eq!(first.layers[at].state, Failed);
        assert!(first.layers[at + 1..].iter().all(|layer| layer.state == Waiting));
        assert_eq!(first.tear_down, Some(TearDown::Done));
        assert_eq!(states(&ended.manifest)[1], [Done, Built, Done]);
        assert_eq!(ended.manifest.outcome, Some(Outcome::Failed));
        assert!(!ended.log.iter().any(|line| line.ends_with("dropped")), "{:?}", ended.log);
        let text = listing(&ended.manifest, "/x".as_ref(), true);
        assert!(text.contains("FAILED") && text.contains("planted"), "{text}");
    }
}

#[test]
fn what_stays_of_a_stack_that_cannot_be_built_is_told_and_how_to_try_again() {
    for layer in [99, 0, 2] {
        let leaves = &["umount: busy", "md7 is in use"];
        let fails_to_build = Some((0, layer));
        let machine = Scripted { fails_to_build, leaves, ..Scripted::default() };
        let ended = run(&machine, &mut |_| Ok(Outcome::Complete));
        let [first, second] = ended.manifest.stacks.as_slice() else { panic!() };
        let reason = "umount: busy; md7 is in use".to_owned();
        assert_eq!(first.tear_down, Some(TearDown::Failed { reason }), "{layer}");
        assert!(first.failure.as_deref().unwrap().contains("planted"), "{layer}");
        assert_eq!(second.tear_down, Some(TearDown::Done), "{layer}");
        assert_eq!(ended.manifest.outcome, Some(Outcome::Failed));
        let text = listing(&ended.manifest, "/x".as_ref(), true);
        let told = "not taken down: umount: busy; md7 is in use; durio stack clean tries again";
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn a_run_that_fails_takes_its_stack_down_and_the_bench_goes_on() {
    let ended = run(&Scripted::default(), &mut |point| match point.run.as_str() {
        "01-a-ram" => Ok(Outcome::Failed),
        "02-b-ram" => Err(CommandError::cannot_measure("planted")),
        other => panic!("{other}"),
    });
    assert_eq!(states(&ended.manifest), [[Partial, Waiting, Waiting], [Failed, Waiting, Waiting]]);
    let downs: Vec<_> = ended.log.iter().filter(|line| line.ends_with("down")).collect();
    assert_eq!(downs, ["a down", "b down"]);
    assert!(ended.manifest.stacks[1].failure.as_deref().unwrap().contains("planted"));
}

#[test]
fn an_interrupt_takes_down_what_is_there_and_begins_nothing_more() {
    let ended = run(&Scripted::default(), &mut |point| match point.run.as_str() {
        "02-a-xfs" => Ok(Outcome::Interrupted),
        _ => Ok(Outcome::Complete),
    });
    assert_eq!(ended.log.last().map(String::as_str), Some("a down"));
    assert_eq!(states(&ended.manifest), [[Done, Built, Partial], [Waiting; 3]]);
    assert_eq!(ended.manifest.outcome, Some(Outcome::Interrupted));
    assert_eq!(ended.manifest.stacks[1].tear_down, None);
}

#[test]
fn what_cannot_be_taken_down_is_told_and_how_to_try_again() {
    let machine = Scripted { fails_to_go: Some(0), ..Scripted::default() };
    let ended = run(&machine, &mut |_| Ok(Outcome::Complete));
    let Some(TearDown::Failed { reason }) = &ended.manifest.stacks[0].tear_down else { panic!() };
    assert!(reason.contains("busy"));
    assert_eq!(ended.manifest.outcome, Some(Outcome::Failed));
    assert!(listing(&ended.manifest, "/x".as_ref(), true).contains("durio stack clean"));
}

#[test]
fn a_manifest_that_cannot_be_saved_ends_the_bench_with_everything_taken_down() {
    for fails_at in 0..6 {
        let machine = Scripted::default();
        let count = Cell::new(0);
        let schedule = BenchSchedule {
            manifest: manifest(),
            begin: &|stack| machine.begin(stack),
            stop: &|| false,
            save: &|_| {
                count.set(count.get() + 1);
                match count.get() > fails_at {
                    true => Err(CommandError::cannot_measure("disk full")),
                    false => Ok(()),
                }
            },
            building: &|_, _| (),
        };
        assert!(schedule.run(&mut |_| Ok(Outcome::Complete)).is_err());
        let last = machine.log.borrow().last().cloned().unwrap();
        assert!(last == "a dropped" || last == "a down", "{fails_at}: {last}");
    }
}

fn findings_of_nothing() -> Findings {
    let manifest = Manifest {
        label: None,
        schema: 1,
        run: String::new(),
        durio_version: "0".to_owned(),
        started: String::new(),
        command: Vec::new(),
    };
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Campaign,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: Vec::new(),
        steps: Vec::new(),
        campaign: None,
        thresholds: Vec::new(),
    };
    let environment = Environment { host: Host::default(), stacks: Vec::new() };
    Analyser::new(manifest, plan, environment).finish(String::new()).findings
}

#[test]
fn a_run_that_was_analysed_while_it_ran_is_not_read_again() {
    let ended = run(&Scripted::default(), &mut |_| Ok(Outcome::Complete));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b");
    let folder = BenchFolder::<DeclaredStack>::create(&path, ended.manifest.clone()).unwrap();
    let folder = BenchFolder::<DeclaredStack>::open(folder.path()).unwrap();
    let complaints = |known: &[&str]| {
        let known = known.iter().map(|run| ((*run).to_owned(), findings_of_nothing()));
        let told = ToldLines::default();
        let _ = bench_findings(&folder, known.collect(), &told);
        told.0.into_inner().len()
    };
    assert_eq!(complaints(&[]), 4, "none of the folders is there");
    assert_eq!(complaints(&["01-a-ram", "04-b-xfs"]), 2);
    assert_eq!(complaints(&["01-a-ram", "02-a-xfs", "03-b-ram", "04-b-xfs"]), 0);
}
