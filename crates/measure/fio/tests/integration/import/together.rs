//! Sections that become steps and loads.

use durio_base::{Bytes, Nanos};
use durio_plan::{Limit, Load, Placement};

use super::{imported, plan, step};

/// Two drives in one row; the lines are those of the second.
fn drives(of_second: &str) -> Vec<Load> {
    let text = format!(
        "[global]\nrw=randrw\ngroup_reporting\ntime_based\nruntime=4\nsize=64m\n\
         [a]\nfilename=/dev/a\n[b]\nfilename=/dev/b\n{of_second}"
    );
    step(&text).loads().cloned().collect()
}

#[test]
fn drives_whose_sections_differ_in_anything_else_are_loads_of_their_own() {
    assert_eq!(drives("").len(), 1);
    for line in [
        "bs=8k",
        "rwmixread=70",
        "rw=randwrite",
        "norandommap",
        "direct=1",
        "sync=dsync",
        "ioengine=libaio",
        "ioengine=libaio\niodepth=4",
        "thinktime=25",
        "rate_iops=40,10",
        "fadvise_hint=0",
        "runtime=5",
        "size=32m",
        "offset=1m",
        "numjobs=2",
        "new_group",
        "group_reporting=0",
        "cpus_allowed=3",
        "scramble_buffers=0",
    ] {
        let loads = drives(line);
        let targets: Vec<usize> = loads.iter().map(|load| load.target).collect();
        assert!(loads.len() > 1 && targets[..2] == [0, 1], "{line}: {targets:?}");
    }
}

#[test]
fn drives_with_a_section_each_in_one_row_are_one_load_over_all_of_them() {
    let text = "[global]\nrw=randread\nnumjobs=2\ngroup_reporting\n\
                cpus_allowed_policy=split\n[n0]\nfilename=/dev/n0\ncpus_allowed=0-1\n[n1]\nfilename=/dev/n1\ncpus_allowed=2-3";
    let imported = plan(text);
    let step = &imported.plan.steps[0];
    assert!(step.beside.is_empty());
    let load = &step.load;
    assert_eq!((load.target, &load.more_targets[..], load.workload.jobs), (0, &[1][..], 4));
    assert_eq!(load.workload.name, "n0..n1");
    // Job k is copy k / 2 of section k mod 2; fio gives copy c of all the c-th CPU of its list.
    assert_eq!(load.placement, Placement::Cpus(vec![0, 2, 1, 3]));
    assert_eq!(step.limit, Limit::Volume(Bytes::from_gib(4)));
    assert!(imported.notes.iter().any(|note| note.what.contains("n0, n1")), "{:?}", imported.notes);
}

#[test]
fn jobs_of_a_group_run_together_each_with_its_own_limit() {
    let text = "[global]\nfilename=/dev/a\ndirect=1\nruntime=5\ntime_based\n\
                [reader]\nrw=randread\n[writer]\nrw=write\nruntime=3\n[last]\nstonewall\nrw=read";
    let steps = plan(text).plan.steps;
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].beside.len(), steps[1].beside.len()), (1, 0));
    assert_eq!(steps[0].limit, Limit::Duration(Nanos::from_secs(5)));
    let own = steps[0].beside[0].own_limit;
    assert_eq!(own, Some(Limit::Duration(Nanos::from_secs(3))));
    assert_eq!((steps[0].index, steps[1].index), (0, 1));
}

#[test]
fn what_the_jobs_of_a_group_have_in_common_is_refused_where_it_first_differs() {
    for (option, usual, other) in [
        ("ramp_time", "ramp_time=1", "ramp_time=2"),
        ("startdelay", "startdelay=3", "startdelay=2"),
        ("invalidate", "invalidate=0", "invalidate=1"),
    ] {
        let of = |third: &str| {
            imported(&format!(
                "[global]\nfilename=/dev/a\ntime_based\nruntime=4\n[a]\n{usual}\n[b]\n{usual}\n\
                 [c]\n{third}\n[d]\nstonewall\n{other}"
            ))
        };
        assert!(of(usual).is_ok(), "{option}: the last job has a group of its own");
        let refusals = of(other).unwrap_err();
        let told: Vec<_> = refusals
            .iter()
            .map(|refusal| (refusal.option.as_str(), refusal.at.to_string()))
            .collect();
        assert_eq!(told, [(option, "j.fio:9".to_owned())]);
    }
    // What goes past the page cache has no say in it.
    let text = "[global]\nfilename=/dev/a\ninvalidate=0\n[a]\n[b]\ndirect=1\ninvalidate=1\n[c]";
    assert!(!step(text).drop_cache);
}

#[test]
fn copies_whose_regions_overlap_are_loads_of_their_own() {
    let text = "[a]\nfilename=/dev/a\nrw=randread\nnumjobs=3\nsize=32m\noffset_increment=16m";
    let step = step(text);
    let begins: Vec<_> =
        step.loads().map(|load| load.workload.within.unwrap().offset.get() >> 20).collect();
    assert_eq!(begins, [0, 16, 32]);
    assert!(step.loads().all(|load| load.workload.jobs == 1));
}

#[test]
fn copies_that_are_loads_of_their_own_have_each_its_cpu_or_all_the_same_node() {
    let placements = |lines: &str| -> Vec<Placement> {
        let text = format!(
            "[before]\nfilename=/dev/b\n[a]\nstonewall\nfilename=/dev/a\nrw=randread\nsize=32m\n\
             numjobs=3\n{lines}"
        );
        let steps = plan(&text).plan.steps;
        steps[1].loads().map(|load| load.placement.clone()).collect()
    };
    let each = |cpus: [u32; 3]| cpus.map(|cpu| Placement::Cpus(vec![cpu]));
    // The job before them is counted too, as fio does.
    let split = "cpus_allowed=1,3,5\ncpus_allowed_policy=split";
    let overlapping = "group_reporting\noffset_increment=16m";
    assert_eq!(placements(split), each([3, 5, 1]));
    assert_eq!(placements(&format!("{overlapping}\n{split}")), each([3, 5, 1]));
    assert_eq!(placements("cpus_allowed=4"), each([4, 4, 4]));
    let node = format!("{overlapping}\nnuma_cpu_nodes=1");
    assert_eq!(placements(&node), vec![Placement::Node(1); 3]);
    assert_eq!(placements(overlapping), vec![Placement::Anywhere; 3]);
}

#[test]
fn the_first_that_is_done_ends_the_others_where_exitall_says_so() {
    let text = "[global]\nfilename=/dev/a\n[a]\nrw=randread\n[b]\nrw=read\nexitall";
    assert!(step(text).first_job_ends_all);
    let later = "[global]\nfilename=/dev/a\nexit_what=all\nexitall\n[a]\n[b]\nstonewall";
    let refusals = imported(later).unwrap_err();
    assert!(refusals.iter().any(|refusal| refusal.option == "exitall"), "{refusals:?}");
}

#[test]
fn a_reader_after_a_writer_reads_the_file_of_the_first() {
    let text = "[global]\nfilename=new\nsize=8m\n[w]\nrw=write\n[r]\nstonewall\nrw=read";
    let plan = plan(text).plan;
    assert_eq!((plan.targets.len(), plan.steps[1].load.target), (1, 0));
}

#[test]
fn what_exitall_ends_is_a_reporting_group_unless_it_is_told_otherwise() {
    let of = |more: &str| {
        let text = format!("[global]\nfilename=/dev/a\nexitall\n[a]\nrw=randread\n[b]\n{more}");
        imported(&text).map(|imported| imported.plan.steps[0].first_job_ends_all)
    };
    assert!(of("").unwrap());
    for (more, is_taken) in [
        ("new_group", false),
        ("new_group\nexit_what=group", false),
        ("exit_what=stonewall", false),
        ("stonewall", true),
    ] {
        let outcome = of(more);
        assert_eq!(outcome.is_ok(), is_taken, "{more}: {outcome:?}");
        if let Err(refusals) = outcome {
            assert_eq!((refusals.len(), refusals[0].option.as_str()), (1, "exitall"), "{more}");
        }
    }
    let of_scope = |scope: &str, more: &str| {
        let text = format!(
            "[global]\nfilename=/dev/a\nexitall\nexit_what={scope}\n[a]\nrw=randread\n[b]\n{more}"
        );
        imported(&text).is_ok()
    };
    assert!(of_scope("stonewall", "new_group") && !of_scope("group", "new_group"));
    assert!(of_scope("all", "new_group") && !of_scope("all", "stonewall"));
}

#[test]
fn a_later_group_waits_for_the_longest_job_of_the_one_before() {
    for times in [(5, 9), (9, 5)] {
        let text = format!(
            "[global]\nfilename=/dev/a\ntime_based\nramp_time=2\n[a]\nruntime={}\n[b]\nruntime={}\n\
             [c]\nstonewall\nstartdelay=13\nruntime=1",
            times.0, times.1
        );
        let steps = plan(&text).plan.steps;
        let pauses: Vec<_> = steps.iter().map(|step| step.pause_before).collect();
        assert_eq!(pauses, [0, 2].map(Nanos::from_secs), "{times:?}");
    }
}
