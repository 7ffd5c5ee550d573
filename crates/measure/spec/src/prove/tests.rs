//! Proof specs to plans, and errors with their places.

use super::*;
use crate::table::tests::check_reference;
use crate::{shipped_proof_spec, shipped_proof_specs};
use durio_base::RaidLevel;

const HEAD: &str = "schema = 1\nname = \"x\"\n";

fn plan(rest: &str) -> Result<ProofPlan, String> {
    let error = |error: SpecError| format!("{error}; {}", error.hints.join("; "));
    plan_proof("x.toml", &format!("{HEAD}{rest}"), 7).map_err(error)
}

#[test]
fn the_reference_and_the_schema_are_what_the_code_says() {
    let (schema, words) = (proof_spec_json_schema(), proof_spec_reference());
    check_reference("proof-spec", &schema, &words, &sections());
}

#[test]
fn the_example_of_the_book_is_a_plan() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/proof-spec.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```toml\n").unwrap();
    let plan = plan_proof("book", rest.split_once("```").unwrap().0, 7).unwrap();
    assert_eq!(plan.series.len(), 2 * (4 + 1));
    let holds = plan.series.iter().filter(|series| series.expected == Some(ExpectedVerdict::Holds));
    let names: Vec<&str> = holds.map(|series| series.name.as_str()).collect();
    assert!(names.contains(&"flush-ignored/rwf_dsync/8"), "FUA is kept: {names:?}");
    assert!(!names.iter().any(|name| name.ends_with("flush-ignored/fdatasync/1")), "{names:?}");
}

#[test]
fn every_built_in_proof_is_a_plan_with_a_summary_and_series_of_different_names() {
    for shipped in shipped_proof_specs() {
        let plan = plan_proof(shipped.name, shipped.text, 7).unwrap();
        assert_eq!((plan.name.as_str(), plan.summary.is_empty()), (shipped.name, false));
        let mut names: Vec<&str> = plan.series.iter().map(|series| series.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), plan.series.len());
        for name in ["", "specs/", "specs/proofs/", "proofs/"] {
            assert!(shipped_proof_spec(&format!("{name}{}", shipped.name)).is_some());
        }
    }
}

#[test]
fn a_series_of_a_folder_that_nothing_tells_how_to_write_is_impossible() {
    let mut plan = plan("[[disk]]\nprofile = \"drops\"\n[[arm]]\npath = \"fsync\"\n").unwrap();
    assert!(impossible_series(&plan).is_none());
    plan.series[0].arm = None;
    assert!(impossible_series(&plan).is_some());
}

#[test]
fn a_liar_that_is_seldom_found_gets_more_cuts() {
    let arm = "[[arm]]\npath = \"fdatasync\"\n";
    let of = |profile: &str| {
        plan(&format!("cuts = 5\n[[disk]]\nprofile = \"{profile}\"\n{arm}")).unwrap()
    };
    assert_eq!(of("write-back").series[0].cuts, 5);
    let reorders = &of("reorders").series[0];
    assert!(reorders.cuts > 5, "{reorders:?}");
    assert!(
        matches!(reorders.expected, Some(ExpectedVerdict::Breaks { within, .. }) if within == reorders.cuts)
    );
}

#[test]
fn a_series_of_states_has_so_many_and_loses_where_a_cut_would() {
    let guest = "[[guest]]\nprofile = \"write-back\"\nfront_end = \"nvme\"\nstates = 40\n";
    let arm = "[[arm]]\npath = [\"fdatasync\", \"o_dsync\"]\n";
    let plan = plan(&format!("{guest}{arm}")).unwrap();
    let [honest, early] = &plan.series[..] else { panic!("{plan:?}") };
    assert!(honest.target.is_enumerated() && honest.name.ends_with("/fdatasync/1/states"));
    assert_eq!((honest.cuts, honest.expected), (40, Some(ExpectedVerdict::Holds)));
    let lost = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 40 };
    assert_eq!((early.cuts, early.expected), (40, Some(lost)));
}

#[test]
fn how_a_file_is_written_stands_in_the_name_of_a_series_and_takes_a_filesystem() {
    let guest = "[[guest]]\nprofile = \"write-back\"\nlayers = \"ext4\"\n";
    let arm = "[[arm]]\npath = \"fsync\"\nwrites = [\"overwrite\", \"append\", \"replace\"]\n";
    let mut plan = plan(&format!("{guest}{arm}")).unwrap();
    let names: Vec<&str> = plan.series.iter().map(|series| series.name.as_str()).collect();
    let of = |writes: &str| format!("write-back/virtio-blk/ext4/{writes}fsync/1");
    assert_eq!(names, [of(""), of("append/"), of("replace/")]);
    assert!(impossible_series(&plan).is_none());
    let before = serde_json::to_value(plan.series[0].arm).unwrap();
    assert!(before.get("writes").is_none(), "as a folder of before has it: {before}");
    let ProofTarget::Guest(guest) = &mut plan.series[2].target else { panic!() };
    guest.layers = GuestLayers::md(RaidLevel::Raid1);
    assert!(impossible_series(&plan).is_some());
}

#[test]
fn any_array_with_any_filesystem_is_put_on_the_disks_of_a_guest() {
    let guest = |layers: &str, profile: &str| {
        format!("[[guest]]\nprofile = \"{profile}\"\nlayers = {layers}\n")
    };
    let arm = "[[arm]]\npath = \"fdatasync\"\n";
    let layers = "[\"md-raid1-ext4\", \"durio-raid6\", \"md-raid10-xfs\"]";
    let of = |profile| plan(&format!("{}{arm}", guest(layers, profile))).unwrap().series;
    let honest = of("write-back");
    let names: Vec<&str> = honest.iter().map(|series| series.name.as_str()).collect();
    let name = |layers: &str| format!("write-back/virtio-blk/{layers}/fdatasync/1");
    assert_eq!(names, [name("md-raid1-ext4"), name("durio-raid6"), name("md-raid10-xfs")]);
    for (series, mib) in honest.iter().zip([32, 16, 320]) {
        let ProofTarget::Guest(guest) = &series.target else { panic!() };
        assert_eq!(guest.size, Bytes::from_mib(mib), "{}", series.name);
        assert_eq!(series.expected, Some(ExpectedVerdict::Holds), "{}", series.name);
    }
    let lied = of("flush-ignored");
    assert!(lied.iter().all(|series| series.expected.is_none()), "not compared with real cuts");
    let unknown = plan(&format!("{}{arm}", guest("\"md-raid7\"", "write-back"))).unwrap_err();
    let unknown = unknown.to_string();
    assert!(unknown.contains("unknown layers 'md-raid7': expected raw, a filesystem"), "{unknown}");
}

#[test]
fn a_target_without_a_command_that_cuts_is_cut_by_hand() {
    let cut = |rest: &str| {
        let text = format!("[[target]]\nname = \"t\"\n{rest}[[arm]]\npath = \"fsync\"\n");
        match plan(&text).unwrap().series.remove(0).target {
            ProofTarget::Agent(agent) => agent.cut,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((cut(""), cut("cut = \"by hand\"\n")), (vec![], vec![]));
    assert_eq!(cut("cut = [\"outlet\", \"off\"]\n"), ["outlet", "off"]);
}

#[test]
fn a_fault_is_told_with_its_line_and_column() {
    let disk = "[[disk]]\nprofile = \"write-back\"\n";
    let arm = "[[arm]]\npath = \"fdatasync\"\n";
    for (rest, expected) in [
        (format!("{disk}size = \"5000B\"\n{arm}"), "x.toml:5:8: a disk has 256 KiB to 4 GiB"),
        (format!("{disk}size = \"50%\"\n{arm}"), "x.toml:5:8: a disk has 256 KiB to 4 GiB"),
        (format!("{disk}{arm}depth = 0\n"), "x.toml:7:9: 'depth' takes 1 to 64"),
        (format!("{disk}{arm}depth = [1, 65]\n"), "'depth' takes 1 to 64"),
        (format!("{disk}{arm}write_size = \"6KiB\"\n"), "x.toml:7:14: a write has 4 KiB"),
        (
            format!("{disk}{arm}write_size = \"1MiB\"\n"),
            "disk too small: it needs room for 8 writes",
        ),
        (
            format!("[[guest]]\nprofile = \"drops\"\nsize = \"8MiB\"\n{arm}"),
            "x.toml:5:8: a guest's disk must be 16 MiB to 4 GiB",
        ),
        (
            format!("[[guest]]\nprofile = \"drops\"\nengine = \"sync\"\n{arm}depth = 2\n"),
            "x.toml:5:10: 'engine' must be sync, uring or aio; sync keeps only one write in flight",
        ),
        (
            format!("[[guest]]\nprofile = \"drops\"\n{arm}writes = \"append\"\n"),
            "x.toml:7:10: drops/virtio-blk/raw/append/fdatasync/1: only a file in a guest's",
        ),
        (format!("{disk}{arm}writes = \"replace\"\n"), "only a file in a guest's filesystem"),
        (
            format!("{disk}{arm}depth = 2\nwrites = [\"append\", \"rename\"]\n"),
            "x.toml:8:10: 'rename' takes one write of 4 KiB at a time",
        ),
        (format!("cuts = 0\n{disk}{arm}"), "x.toml:3:8: 'cuts' takes 1 to 1000000"),
        (format!("{disk}{arm}dept = 1\n"), "did you mean 'depth'"),
        (
            format!("{disk}[[arm]]\npath = \"fsink\"\n"),
            "x.toml:6:8: path: 'fsink' is not one of fsync",
        ),
        (format!("[[disk]]\nprofile = \"flush-ignore\"\n{arm}"), "mean 'flush-ignored'"),
        (
            format!("[[guest]]\nprofile = \"drops\"\nstates = 5\n{arm}"),
            "x.toml:5:10: 'states' takes an honest disk",
        ),
        (
            format!("[[guest]]\nprofile = \"write-back\"\nstates = 0\n{arm}"),
            "x.toml:5:10: 'states' takes 1 to 1000000",
        ),
        (
            format!("[[target]]\nname = \"t\"\nstart = [\"ssh\"]\n{arm}"),
            "x.toml:5:9: start: leave it out; the agent of a target",
        ),
        (format!("[[target]]\nname = \"t\"\ncut = \"\"\n{arm}"), "begins with a program"),
        (disk.to_owned(), "'[[arm]]' is missing"),
        (arm.to_owned(), "'[[disk]], [[array]], [[target]] or [[guest]]' is missing"),
        (
            format!("[[array]]\nprofile = \"drops\"\nsize = \"256KiB\"\n{arm}"),
            "x.toml:5:8: a member has 512 KiB to 4 GiB",
        ),
        (
            format!("[[array]]\nprofile = \"drops\"\nlevel = \"raid10\"\nmembers = 3\n{arm}"),
            "x.toml:6:11: raid1 has 2 to 4 members, raid5 has 3 to 16, raid6 has 4 to 16, raid10 an even",
        ),
        (
            format!("[[array]]\nprofile = \"drops\"\nliar = [0, 2]\n{arm}"),
            "x.toml:5:8: 'liar' is 0 to 1, one of the members",
        ),
        (
            format!("[[array]]\nprofile = \"drops\"\n{arm}writes = \"append\"\n"),
            "raid1/drops/append/fdatasync/1: only a file in a guest's filesystem",
        ),
        (
            format!(
                "[[array]]\nprofile = \"drops\"\nsize = \"512KiB\"\n{arm}write_size = \"64KiB\"\n"
            ),
            "disk too small: it needs room for 8 writes",
        ),
        (format!("{disk}size = \"1MiB\n"), "x.toml:5:"),
    ] {
        let error = plan(&rest).unwrap_err();
        assert!(error.contains(expected), "{rest}\n{error}");
    }
}
