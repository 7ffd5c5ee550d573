//! Sections that become steps and loads.

use durio_base::{Bytes, Nanos};
use durio_plan::Limit;

use super::{imported, plan, step};

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
    assert_eq!(load.placement, durio_plan::Placement::Cpus(vec![0, 2, 1, 3]));
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
fn copies_whose_regions_overlap_are_loads_of_their_own() {
    let text = "[a]\nfilename=/dev/a\nrw=randread\nnumjobs=3\nsize=32m\noffset_increment=16m";
    let step = step(text);
    let begins: Vec<_> =
        step.loads().map(|load| load.workload.within.unwrap().offset.get() >> 20).collect();
    assert_eq!(begins, [0, 16, 32]);
    assert!(step.loads().all(|load| load.workload.jobs == 1));
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
