//! Stack specs: their values, errors with their places, and the built-in ones.

use durio_base::{Bytes, Nanos};
use durio_layers::check_declared;
use durio_layers::{
    DeclaredKind, DeclaredLayer, DeclaredStack, DmTarget, Ext4, Loop, MdBitmap, Ram,
};
use durio_plan::{ClockChoice, Limit, Location, LocationFacts, RawPath, Role};
use proptest::prelude::*;

use super::*;
use crate::{CampaignRequest, plan_campaign, shipped_stack_spec, shipped_stack_specs};

const STEP: &str = "\n[[step]]\nname = \"write\"\nreads = \"0%\"\n";

fn parse(text: &str) -> Result<StackBench, SpecError> {
    StackBench::parse("x.toml", text)
}

/// A spec with these lines between its head and its step.
fn with(lines: &str) -> Result<StackBench, SpecError> {
    parse(&format!("schema = 1\nname = \"x\"\n{lines}\n{STEP}"))
}

fn names(bench: &StackBench) -> Vec<&str> {
    bench.stacks.iter().map(|stack| stack.name.as_str()).collect()
}

fn locations(bench: &StackBench, stack: &DeclaredStack, layer: usize, scale: u32) -> Vec<Location> {
    let existing = |_: &str| Some(Bytes::from_gib(1));
    let sizes = stack.device_sizes(existing).swap_remove(layer);
    let is_filesystem = stack.layers[layer].kind.is_filesystem();
    let of = |(index, size): (usize, Bytes)| {
        let facts = match is_filesystem {
            true => LocationFacts::Directory { free: size, filesystem: 1 },
            false => LocationFacts::Device { size: bench.region_of(size, scale) },
        };
        Location { path: RawPath::from(format!("/dev/x{index}").as_str()), facts, destroy: true }
    };
    let wanted = if bench.several_devices == SeveralDevices::One { 1 } else { sizes.len() };
    sizes.into_iter().enumerate().take(wanted).map(of).collect()
}

fn plan(bench: &StackBench, stack: &DeclaredStack, layer: usize, scale: u32) -> durio_plan::Plan {
    let made = plan_campaign(&CampaignRequest {
        spec: bench.campaign(stack.layers[layer].kind.is_filesystem()).clone(),
        places: vec![locations(bench, stack, layer, scale)],
        time_scale_per_mille: 1000,
        size_scale_per_mille: scale,
        steps_confirmed: 0,
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-x".to_owned(),
    });
    let made = made.unwrap_or_else(|error| panic!("{} {layer}: {error}", stack.name));
    assert!(made.obstacles.is_empty(), "{} {layer}: {:?}", stack.name, made.obstacles);
    made.plan
}

#[test]
fn a_stack_is_expanded_over_the_axes_that_it_names_and_no_others() {
    let bench = with(
        r#"
        [matrix]
        level = [0, 1]
        chunk = ["4KiB", "64KiB"]
        mount = ["data=ordered", "data=journal"]
        [[stack]]
        name = "one"
        layers = [{ ram = { size = "64MiB" } }, { ext4 = { mount = ["noatime", "{mount}"] } }]
        [[stack]]
        name = "md{level}"
        layers = [{ ram = { count = 4, size = "64MiB" } }, { md = { level = "{level}" } }]
        [[stack]]
        name = "two"
        layers = [{ ram = { count = 2, size = "64MiB" } }, { md = { level = 0, chunk = "{chunk}" } }]
        "#,
    );
    let bench = bench.unwrap();
    let expected = ["one-data-ordered", "one-data-journal", "md0", "md1", "two-4KiB", "two-64KiB"];
    assert_eq!(names(&bench), expected);
    let DeclaredKind::Ext4(Ext4 { options: made }) = &bench.stacks[1].layers[1].kind else {
        panic!()
    };
    assert_eq!(made.mount, ["noatime", "data=journal"]);
    let DeclaredKind::Md(md) = &bench.stacks[5].layers[1].kind else { panic!() };
    assert_eq!((md.level, md.chunk), (0, Some(Bytes::from_kib(64))));
    assert_eq!(md.bitmap, MdBitmap::None);
}

#[test]
fn an_array_of_durios_own_has_a_chunk_and_a_front_unless_it_says_others() {
    let bench = with(
        r#"[[stack]]
        name = "a"
        layers = [
            { ram = { count = 4, size = "64MiB" } },
            { raid = { level = 1, chunk = "64KiB", front = "ublk", groups = 2, measured = false } },
            { raid = { level = 0 } },
        ]"#,
    )
    .unwrap();
    let labels: Vec<String> = bench.stacks[0].layers.iter().map(|layer| layer.label()).collect();
    assert_eq!(labels[1], "2 × durio RAID1 chunk 64 KiB ublk");
    assert_eq!(labels[2], "durio RAID0 chunk 16 KiB ublk");
}

#[test]
fn targets_of_the_device_mapper_have_their_times_and_flakey_fails_as_long_as_it_is_down() {
    let bench = with(
        r#"[[stack]]
        name = "a"
        layers = [
            { ram = { size = "64MiB" } },
            { dm = { target = "delay", delay = "15ms" } },
            { dm = { target = "flakey", down = "4s", up = "70s" } },
        ]"#,
    )
    .unwrap();
    let dm = |layer: usize| match &bench.stacks[0].layers[layer].kind {
        DeclaredKind::Dm(dm) => dm.target,
        other => panic!("{other:?}"),
    };
    assert_eq!(dm(1), DmTarget::Delay { delay: Nanos::from_millis(15) });
    assert_eq!(dm(2), DmTarget::Flakey { up_seconds: 70, down_seconds: 4 });
    let labels: Vec<String> = bench.stacks[0].layers.iter().map(|layer| layer.label()).collect();
    assert_eq!(labels[1..], ["dm delay 15 ms", "dm flakey 70 s up 4 s down"]);
}

#[test]
fn a_degraded_row_is_a_stack_of_its_own_with_a_member_less() {
    let bench = with(
        r#"[[stack]]
        name = "m"
        layers = [{ ram = { count = 2, size = "64MiB" } }, { md = { level = 1, degraded = true } }]"#,
    )
    .unwrap();
    assert_eq!(names(&bench), ["m", "m-degraded"]);
    let removed = |index: usize| match &bench.stacks[index].layers[1].kind {
        DeclaredKind::Md(md) => md.removed,
        _ => 99,
    };
    assert_eq!((removed(0), removed(1)), (0, 1));
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_to_do() {
    let ram = "{ ram = { size = \"64MiB\" } }";
    let two = "{ ram = { count = 2, size = \"64MiB\" } }";
    let stack = |layers: &str| format!("[[stack]]\nname = \"s\"\nlayers = [{layers}]");
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "no stack"),
        ("stack = 3".to_owned(), "x.toml:3:9: 'stack' is a list of tables"),
        ("[stack]\nname = \"s\"".to_owned(), "'stack' is a list of tables"),
        ("stack = [1]".to_owned(), "x.toml:3:10: expected a table of 'stack'"),
        ("[[stack]]\nname = \"s\"".to_owned(), "x.toml:3:1: stack 's' has no layers"),
        (stack(""), "has no layers"),
        (format!("[[stack]]\nlayers = [{ram}]"), "'name' of the stack is missing"),
        (stack("{}"), "a layer has one word, not 0"),
        (stack("{ ram = { size = \"1GiB\" }, xfs = {} }"), "a layer has one word, not 2"),
        (stack("{ ram = {} }"), "'size' of the layer is missing"),
        (stack("{ ram = { size = 64 } }"), "64 needs a unit"),
        (stack("{ ram = { size = \"64\" } }"), "unit"),
        (stack("{ ramm = { size = \"1GiB\" } }"), "x.toml:5:13: unknown key 'ramm'"),
        (stack("{ device = {} }"), "'path' of the layer is missing"),
        (stack(&format!("{two}, {{ md = {{}} }}")), "'level' of the layer is missing"),
        (stack(&format!("{two}, {{ md = {{ level = 7 }} }}")), "7 is not a known level"),
        (stack(&format!("{two}, {{ md = {{ level = 1, bitmap = \"inner\" }} }}")), "bitmap:"),
        (stack(&format!("{two}, {{ md = {{ level = 1, bitmap = \"external:\" }} }}")), "bitmap"),
        (stack(&format!("{two}, {{ md = {{ level = 0, degraded = true }} }}")), "survives no"),
        (stack(&format!("{two}, {{ raid = {{}} }}")), "'level' of the layer is missing"),
        (
            stack(&format!("{two}, {{ raid = {{ level = 4 }} }}")),
            "4 is not a known level: 0, 1, 5, 6 or 10",
        ),
        (stack(&format!("{two}, {{ raid = {{ level = 1, front = \"iscsi\" }} }}")), "x.toml:5:"),
        (stack(&format!("{two}, {{ raid = {{ level = 10 }} }}")), "an even number of devices"),
        (
            stack(&format!("{two}, {{ raid = {{ level = 1, chunk = \"12KiB\" }} }}")),
            "the chunk, 12 KiB, is not a power of two",
        ),
        (stack(&format!("{ram}, {{ dm = {{}} }}")), "'target' of the layer is missing"),
        (stack(&format!("{ram}, {{ dm = {{ target = \"delay\" }} }}")), "'delay' of the layer"),
        (
            stack(&format!("{ram}, {{ dm = {{ target = \"delay\", delay = \"10us\" }} }}")),
            "not a whole number of 1 ms",
        ),
        (
            stack(&format!("{ram}, {{ dm = {{ target = \"linear\", delay = \"1ms\" }} }}")),
            "'delay' is for the target delay",
        ),
        (
            stack(&format!("{ram}, {{ dm = {{ target = \"crypt\", down = \"1s\" }} }}")),
            "'down' is for the target flakey, not for crypt",
        ),
        (
            stack(&format!("{ram}, {{ dm = {{ target = \"flakey\", up = \"9s\" }} }}")),
            "'down' of the layer is missing",
        ),
        (
            stack(&format!(
                "{ram}, {{ dm = {{ target = \"flakey\", up = \"1500ms\", down = \"2s\" }} }}"
            )),
            "up 1.5 s is not a whole number of 1 s",
        ),
        (stack(&format!("{ram}, {{ ext4 = {{ mount = [] }} }}")), "'mount' needs 1 to"),
        (stack(&format!("{ram}, {{ ext4 = 3 }}")), "x.toml:5:"),
        (
            stack(&format!("{ram}, {{ ext4 = {{ mkfs = [\"-b\", \"4k\", \"/dev/sda\"] }} }}")),
            "x.toml:5:72: mkfs: mkfs.ext4 is not given '/dev/sda': a spec's words cannot name a file or a device",
        ),
        (
            stack(&format!("{ram}, {{ xfs = {{ mount = \"noatime,logdev=LABEL=x\" }} }}")),
            "mount: mount is not given 'logdev=LABEL=x'",
        ),
        (
            stack(&format!("{ram}, {{ zfs = {{ properties = \"mountpoint=/etc\" }} }}")),
            "properties: the ZFS filesystem is not given 'mountpoint=/etc'",
        ),
        (stack("{ ram = { size = \"{big}\" } }"), "unknown axis 'big'"),
        (stack("{ ram = { size = \"{big\" } }"), "has no matching '}'"),
        (format!("[matrix]\na = []\n{}", stack(ram)), "x.toml:4:5: axis 'a' needs a list"),
        (format!("[matrix]\na = \"x\"\n{}", stack(ram)), "axis 'a' needs a list"),
        (format!("[matrix]\na = [1.5]\n{}", stack(ram)), "a value of an axis must be"),
        (format!("[matrix]\na = [[1]]\n{}", stack(ram)), "a value of an axis must be"),
        (format!("[matrix]\na = [1, 1]\n{}", stack(ram)), "'1' is twice in axis 'a'"),
        (format!("[matrix]\n\"a b\" = [1]\n{}", stack(ram)), "not a name of an axis"),
        (format!("[matrix]\na = [1]\n{}", stack(ram)), "x.toml:4:1: no stack uses the axis 'a'"),
        (format!("matrix = 1\n{}", stack(ram)), "'matrix' is a table of axes"),
        (format!("{}\n{}", stack(ram), stack(ram)), "x.toml:6:1: two stacks are named 's'"),
        (
            format!(
                "[matrix]\na = [\"x.y\", \"x y\"]\n{}",
                stack("{ loop = { size = \"64MiB\", directory = \"/{a}\" } }")
            ),
            "two stacks are named 's-x-y'",
        ),
        (stack("{ ram = { size = \"64MiB\", measured = false } }"), "no layer of stack 's'"),
        (format!("{}\n[target]\nsise = \"1GiB\"", stack(ram)), "did you mean 'size'?"),
        (format!("{}\n[target]\nraw = \"some\"", stack(ram)), "'some' is not one of one, all"),
        (format!("{}\n[[target]]\nname = \"x\"", stack(ram)), "target"),
        (format!("matrixx = 3\n{}", stack(ram)), "did you mean 'matrix'?"),
        (format!("{}\n[[published]]", stack(ram)), "'stack' of the published results is missing"),
        (
            format!("{}\n[[published]]\nstack = \"t\"\nworkload = \"write\"", stack(ram)),
            "unknown stack 't'",
        ),
        (
            format!("{}\n[[published]]\nstack = \"s\"\nworkload = \"wride\"", stack(ram)),
            "did you mean 'write'?",
        ),
        (
            format!("{}\n[[published]]\nstack = \"s\"\nworkload = \"write\"", stack(ram)),
            "'share_of_raw' of the published results is missing",
        ),
        (
            format!(
                "{}\n[[published]]\nstack = \"s\"\nworkload = \"write\"\nlayer = \"md\"\nshare_of_raw = 1",
                stack(ram)
            ),
            "unknown layer 'md'",
        ),
    ];
    for (lines, expected) in cases {
        let error = with(&lines).expect_err(&lines);
        let said = format!("{error} {}", error.hints.join(" "));
        assert!(said.starts_with("x.toml:"), "{lines}\n{said}");
        assert!(said.contains(expected), "{lines}\n{said}\nwithout: {expected}");
    }
}

#[test]
fn a_head_or_a_step_that_is_missing_is_an_error() {
    let stack = "[[stack]]\nname = \"s\"\nlayers = [{ ram = { size = \"64MiB\" } }]\n";
    for (text, expected) in [
        (format!("name = \"x\"\n{stack}{STEP}"), "'schema' is missing"),
        (
            format!("schema = 2\nname = \"x\"\n{stack}{STEP}"),
            "unknown schema 2; this durio reads 1",
        ),
        (format!("schema = 1\n{stack}{STEP}"), "'name' is missing"),
        (format!("schema = 1\nname = \"x\"\n{stack}"), "no step to measure"),
        (format!("schema = 1\nname = \"x\"\n{stack}{STEP}\ntarget = \"y\""), "unknown target 'y'"),
        ("\u{0}".to_owned(), "x.toml:1:"),
        ("[".repeat(5000), "x.toml:1:"),
        ("a = ".to_owned() + &"[".repeat(5000), "x.toml:1:"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn axes_that_multiply_to_too_many_stacks_are_refused_before_they_are_made() {
    let values: Vec<String> = (0..1000).map(|value| format!("\"{value}\"")).collect();
    let axes: String = (0..9).map(|axis| format!("a{axis} = [{}]\n", values.join(", "))).collect();
    let all = "{a0}{a1}{a2}{a3}{a4}{a5}{a6}{a7}{a8}";
    let lines = format!(
        "[matrix]\n{axes}[[stack]]\nname = \"s\"\nlayers = [{{ loop = {{ size = \"64MiB\", directory = \"/{all}\" }} }}]"
    );
    let error = with(&lines).unwrap_err();
    assert!(error.to_string().contains("the axes multiply to"), "{error}");
    let few = "[matrix]\na = [VALUES]\n[[stack]]\nname = \"s\"\nlayers = [{ loop = { size = \"64MiB\", directory = \"/{a}\" } }]\n[[stack]]\nname = \"t\"\nlayers = [{ loop = { size = \"64MiB\", directory = \"/{a}\" } }]";
    let error = with(&few.replace("VALUES", &values[..300].join(", "))).unwrap_err();
    assert!(error.to_string().contains("more than 500 stacks"), "{error}");
}

proptest! {
    #[test]
    fn a_matrix_gives_each_combination_once(sizes in prop::collection::vec(1_usize..5, 1..4)) {
        let axis = |(index, size): (usize, &usize)| {
            let values: Vec<String> = (0..*size).map(|value| format!("\"v{value}\"")).collect();
            format!("a{index} = [{}]\n", values.join(", "))
        };
        let axes: String = sizes.iter().enumerate().map(axis).collect();
        let all: String = (0..sizes.len()).map(|index| format!("/{{a{index}}}")).collect();
        let bench = with(&format!(
            "[matrix]\n{axes}[[stack]]\nname = \"s\"\nlayers = [{{ loop = {{ size = \"64MiB\", directory = \"{all}\" }} }}]"
        )).unwrap();
        prop_assert_eq!(bench.stacks.len(), sizes.iter().product::<usize>());
        let mut seen: Vec<_> = bench.stacks.iter().map(|stack| {
            let DeclaredKind::Loop(Loop { directory, .. }) = &stack.layers[0].kind else { panic!() };
            // The name says the same as the values that were put in.
            assert_eq!(format!("s{}", directory.as_ref().unwrap().replace('/', "-")), stack.name);
            directory.clone()
        }).collect();
        // The last axis is the fastest.
        prop_assert!(seen.is_sorted());
        seen.dedup();
        prop_assert_eq!(seen.len(), bench.stacks.len());
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = parse(&text);
        let _ = with(&format!("[matrix]\na = [\"{}\"]\n[[stack]]\nname = \"{{a}}\"", text.escape_default()));
        let _ = with(&format!("[[stack]]\nname = \"s\"\nlayers = [{{ ram = {{ size = \"{}\" }} }}]", text.escape_default()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_shipped_spec_that_was_damaged_is_read_or_refused(at in 0_usize..4000, with in ".{0,3}") {
        for shipped in shipped_stack_specs() {
            let mut text = shipped.text.to_owned();
            let at = (at..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            let end = (at + 2..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(at);
            text.replace_range(at..end, &with);
            let _ = parse(&text);
        }
    }
}

#[test]
fn regions_are_at_most_the_device() {
    let bench = |target: &str| {
        with(&format!("[target]\n{target}\n[[stack]]\nname = \"s\"\nlayers = [{{ ram = {{ size = \"64MiB\" }} }}]")).unwrap()
    };
    let device = Bytes::from_mib(100);
    assert_eq!(bench("").region_of(device, 1000), device);
    assert_eq!(bench("size = \"30MiB\"").region_of(device, 1000), Bytes::from_mib(30));
    assert_eq!(bench("size = \"30MiB\"").region_of(device, 100), Bytes::from_mib(3));
    assert_eq!(bench("size = \"1GiB\"").region_of(device, 1000), device);
    assert_eq!(bench("size = \"50%\"").region_of(device, 1000), device);
    assert_eq!(bench("region = \"33.3%\"").region_of(device, 100), Bytes::from_mib(33));
    assert_eq!(bench("region = \"500%\"").region_of(device, 100), device);
    let both = bench("size = \"30MiB\"\nregion = \"100%\"");
    assert_eq!(both.region_of(Bytes::new(12_345), 1000), Bytes::new(12_345));
}

#[test]
fn a_share_of_the_free_space_is_the_size_of_a_file() {
    let bench = with("[target]\nsize = \"50%\"\nfiles = \"per-job\"\n[[stack]]\nname = \"s\"\nlayers = [{ ram = { size = \"400MiB\" } }, { xfs = {} }]").unwrap();
    let file = plan(&bench, &bench.stacks[0], 1, 1000);
    assert_eq!(file.targets[1].size, Bytes::from_mib(180));
    // A device has no files: there is nothing that could be one per job.
    let device = plan(&bench, &bench.stacks[0], 0, 1000);
    assert_eq!(device.targets[1].size, Bytes::from_mib(400));
}

#[test]
fn sizes_through_layers_are_those_that_their_models_say() {
    let bench = with(
        r#"[[stack]]
        name = "n"
        layers = [
            { ram = { count = 4, size = "64MiB" } },
            { md = { level = 1, groups = 2, measured = false } },
            { md = { level = 0 } },
            { ext4 = {} },
        ]
        [[stack]]
        name = "p"
        layers = [{ ram = { count = 3, size = "64MiB" } }, { md = { level = 5 } }]"#,
    )
    .unwrap();
    let mib = |stack: usize| -> Vec<Vec<u64>> {
        let sizes = bench.stacks[stack].device_sizes(|_| None);
        sizes.iter().map(|all| all.iter().map(|size| size.get() >> 20).collect()).collect()
    };
    assert_eq!(mib(0), [vec![64; 4], vec![64; 2], vec![128], vec![115]]);
    assert_eq!(mib(1), [vec![64; 3], vec![128]]);
}

#[test]
fn labels_say_what_matters_of_a_layer() {
    let bench = StackBench::parse("modes", shipped_stack_spec("raid-modes").unwrap().text).unwrap();
    let labels = |name: &str| -> Vec<String> {
        let stack = bench.stacks.iter().find(|stack| stack.name == name).unwrap();
        stack.layers.iter().map(DeclaredLayer::label).collect()
    };
    let n2 =
        ["4 × null 1 GiB completion 4 ms depth 2", "md RAID10 n2 chunk 16 KiB bitmap none", "xfs"];
    assert_eq!(labels("raid10-n2-16KiB"), n2);
    let degraded =
        ["2 × null 1 GiB completion 4 ms depth 2", "md RAID1 bitmap none degraded by 1", "xfs"];
    assert_eq!(labels("raid1-degraded"), degraded);
    assert_eq!(labels("raid1-over-raid0-4KiB")[1], "2 × md RAID0 chunk 4 KiB");
}

#[test]
fn every_shipped_spec_is_read_can_be_built_and_gives_a_plan_on_each_point() {
    assert!(shipped_stack_spec("specs/stacks/lab-suite.toml").is_some());
    for shipped in shipped_stack_specs() {
        let bench = StackBench::parse(shipped.name, shipped.text).unwrap();
        assert_eq!(bench.name, shipped.name);
        for stack in &bench.stacks {
            check_declared(stack).unwrap_or_else(|error| panic!("{}: {error}", shipped.name));
            for (layer, declared) in stack.layers.iter().enumerate() {
                if declared.measured {
                    let plan = plan(&bench, stack, layer, 1000);
                    assert!(plan.measured_steps().count() > 0, "{}", stack.name);
                }
            }
        }
        assert_eq!(bench.scaled(1000).unwrap(), bench.stacks);
    }
}

#[test]
fn every_stack_spec_in_the_repository_is_within_the_program() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/stacks");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        path.file_stem().unwrap().to_str().unwrap().to_owned()
    });
    let mut there: Vec<String> = names.collect();
    there.sort();
    let mut known: Vec<&str> = shipped_stack_specs().iter().map(|shipped| shipped.name).collect();
    known.sort_unstable();
    assert_eq!(there, known);
}

#[test]
fn shipped_specs_have_the_stacks_that_the_studies_had() {
    let count = |name: &str| {
        let shipped = shipped_stack_spec(name).unwrap();
        StackBench::parse(shipped.name, shipped.text).unwrap().stacks.len()
    };
    let counts = ["raid-10-flagship", "ram-layers", "bitmap-cost", "journal-modes"].map(count);
    assert_eq!(counts, [3, 8, 4, 4]);
    // single, mirror and degraded mirror, and six modes with four chunks each.
    assert_eq!(count("raid-modes"), 3 + 6 * 4);
    assert_eq!((count("dsync-overwrite"), count("loop-layers"), count("lab-suite")), (4, 6, 9));
    assert_eq!((count("timed-devices"), count("raid-engines")), (4, 8));
    assert_eq!(count("raid-levels"), 7);
}

#[test]
fn a_scale_that_is_too_small_names_the_smallest_that_fits() {
    let bench = StackBench::parse("modes", shipped_stack_spec("raid-modes").unwrap().text).unwrap();
    // XFS needs 300 MiB of a device of 1 GiB.
    for (scale, fits) in [(100, false), (290, false), (300, true), (1000, true)] {
        match bench.scaled(scale) {
            Ok(_) => assert!(fits, "{scale}"),
            Err(error) => {
                assert!(!fits, "{scale}: {error}");
                assert_eq!(error.hints, ["the smallest --scale-size that fits is 0.3"]);
            }
        }
    }
}

#[test]
fn fewer_jobs_than_devices_use_the_first_devices() {
    let bench = with(
        r#"[target]
        raw = "all"
        [[stack]]
        name = "s"
        layers = [{ ram = { count = 3, size = "64MiB" } }]
        [[step]]
        name = "ladder"
        jobs = [1, 2, 6]
        [[step]]
        name = "each"
        jobs = 2
        jobs_are = "per-target""#,
    )
    .unwrap();
    let plan = plan(&bench, &bench.stacks[0], 0, 1000);
    let steps = plan.measured_steps().map(|step| {
        (
            step.load.workload.name.as_str(),
            step.load.workload.jobs,
            step.load.more_targets.len() + 1,
        )
    });
    let steps: Vec<_> = steps.collect();
    assert_eq!(steps[..3], [("ladder", 1, 1), ("ladder", 2, 2), ("ladder", 6, 3)]);
    assert_eq!(steps[3..], [("each", 6, 3), ("write", 1, 1)]);
}

#[test]
fn the_lab_suite_takes_a_second_per_workload() {
    let bench = StackBench::parse("s", shipped_stack_spec("lab-suite").unwrap().text).unwrap();
    let plan = plan(&bench, &bench.stacks[0], 0, 1000);
    let second = Limit::Duration(Nanos::from_secs(1));
    let of_role = |role| plan.steps.iter().filter(move |step| step.role == role);
    assert!(of_role(Role::Measure).all(|step| step.limit == second));
    let counts = [Role::Measure, Role::TracePath].map(|role| of_role(role).count());
    assert_eq!((counts, plan.steps.len()), ([2, 2], 4), "no self cost, no more");
}

#[test]
fn published_shares_belong_to_points_that_are_there() {
    let bench = StackBench::parse("s", shipped_stack_spec("ram-layers").unwrap().text).unwrap();
    let md = bench.published.iter().find(|share| share.share_of_raw == 0.0191).unwrap();
    assert_eq!((md.stack.as_str(), md.layer, md.workload.as_str()), ("ext4-on-raid5", 1, "write"));
    assert_eq!(bench.published.len(), 9);
    let text = shipped_stack_spec("raid-modes").unwrap().text;
    let modes = StackBench::parse("s", text).unwrap();
    assert_eq!(modes.published.len(), 5 * 4);
    let text = shipped_stack_spec("raid-10-flagship").unwrap().text;
    let flagship = StackBench::parse("s", text).unwrap();
    let points = flagship.published.iter().map(|share| (share.workload.as_str(), share.jobs));
    assert_eq!(points.collect::<Vec<_>>(), [("write, no sync", Some(96)), ("read", Some(192))]);
    let fails = |from: &str, to: &str, expected: &str| {
        let error = StackBench::parse("s", &text.replace(from, to)).unwrap_err();
        assert!(format!("{error} {:?}", error.hints).contains(expected), "{error}");
    };
    let (first, named) = ("\"write, no sync\"", "name one: write, no sync; write, o_dsync");
    fails(first, "\"write\"", named);
    fails(first, "\"write, o_sync\"", "did you mean 'write, o_dsync'?");
    fails("jobs = 96\n", "jobs = 95\n", "its jobs are 192, 160, 128, 96");
    let ladder = "reads\"\njobs = [192, 160, 128, 96, 64, 32, 16, 4, 1]";
    fails(ladder, "reads\"\njobs = 192", "jobs are not an axis of it");
    let points = ladder.replace("jobs = [192,", "points = [{ jobs = 192, depth = 1 }]\n# [");
    StackBench::parse("s", &text.replace(ladder, &points)).unwrap();
    let n2 = modes.published.iter().find(|share| share.stack == "raid10-n2-64KiB").unwrap();
    assert_eq!((n2.layer, n2.jobs, n2.rate), (2, Some(1), Some(11612.89)));
}

#[test]
fn scaling_shrinks_what_durio_makes() {
    let bench = StackBench::parse("s", shipped_stack_spec("ram-layers").unwrap().text).unwrap();
    let small = bench.scaled(250).unwrap();
    let DeclaredKind::Ram(Ram { made }) = &small[0].layers[0].kind else { panic!() };
    assert_eq!((made.count, made.size), (1, Bytes::from_mib(512)));
    plan(&bench, &small[1], 1, 250);
}
