//! Carries out measurements: execute, record, resume, compare, stack by stack. The input is the
//! user's request as values, the output folders and findings. Arguments, the terminal and exit codes
//! are durio's; the meaning of a spec is durio-spec's; which places are permitted durio-command's.
//!
//! | module | what it joins |
//! |---|---|
//! | `campaign` | a spec and paths → its text, a plan, an interrupted campaign with that plan |
//! | `execute` | a plan → a run folder and its findings |
//! | `gate` | a socket to another process → when the steps of a run start |
//! | `bench` | stacks that are built, measured layer by layer, and taken down |
//! | `guest`, `lab_compare` | benches in guests, on one kernel or two in turns |
//! | `calibrate` | a command that loads a database, a model of it → how long the model's times are here |
//! | `interleave`, `ab_test` | runs in turns, with a setting switched between them |
//! | `read_back` | folders → findings, comparisons |
//! | `replay` | a trace → how its replay went |
//! | `own_commits` | events of the kernel while durio measures → why its commits are slow |
//! | `proof_folder` | a spec of power cuts → the plan and the folder of a proof (durio-prove cuts) |
//! | `runs` | the state folder → a list of runs; a word → the run that it means |
//! | `doctor` | a directory and this machine → what they let durio do |
//! | `state_folder`, `setting_guard` | what dead runs left behind |
//!
//! # How a bench runs
//!
//! A stack spec (`measure/spec/src/stack/`) is a campaign without a target, and stacks to run it on.
//! `bench/schedule.rs` says what follows what: a layer is built (durio-layers), the campaign is
//! planned on the devices or the mount point that are there now (`bench/point.rs`) and carried out
//! like any run, in a run folder inside the bench folder; the manifest is replaced after each of
//! these; then the next layer, or everything is taken down. What goes wrong with one stack is
//! recorded, and the next one follows. The schedule sees what builds and what measures through two
//! seams, so that tests plant failures in both.
//!
//! The results of a bench are made from its runs alone: each is analysed as any other, once, while
//! it runs or when its folder is read; `measure/analyse/src/attribution/from_bench.rs` turns the
//! manifest and these findings into points, and `attribution` compares the points;
//! `measure/report/src/stack/` writes the report, the levels of a ladder side by side first
//! (`pictures.rs`). So `durio report` shows a bench again on another machine, also one that was made
//! in a guest (`--lab`: the same command in the lab, its folder brought out) and `durio lab
//! compare` needs nothing but some of them: its folder (docs/formats/lab-compare-folder.md) has one
//! for each turn, and `attribution/verdict.rs` judges their repeats.
//!
//! Repeats are compared with repeats by one rule (`core/base/src/stats/repeats.rs`: Welch's
//! interval of the means of their logarithms; docs/design/0005): `compare` applies it to results of
//! runs, `attribution/verdict.rs` to costs on two kernels.

mod ab_test;
mod bench;
mod calibrate;
mod campaign;
mod doctor;
mod execute;
mod gate;
mod guest;
mod interleave;
mod lab_compare;
mod observer;
mod own_commits;
mod proof_folder;
mod read_back;
mod replay;
mod runs;
mod setting_guard;
mod state_folder;

pub use ab_test::{AbTestOutcome, AbTestRequest, prove};
pub use bench::{
    Bench, BenchOutcome, BenchRequest, Planning, PointEstimate, StackChoice, chosen_stacks,
    estimates, listing, read_stack_spec,
};
pub use calibrate::{CalibrationRequest, busy_processors, calibrate};
pub use campaign::{
    CampaignScale, InterruptedCampaign, SpecRequest, interrupted, name_if_no_file, plan_of_spec,
    read_text,
};
pub use doctor::diagnose;
pub use execute::{Execution, RunOptions, RunOutcome, memory_remark};
pub use guest::{
    GuestBench, GuestSettings, bench_of_guest, emulation_remark, guest_failed, left_out_remark,
    time_limit,
};
pub use interleave::{InterleavedRuns, TurnCommand, interleave};
pub use lab_compare::{
    LabCompareOutcome, LabComparing, LabInterleaving, read_lab_comparison, save_lab_comparison,
};
pub use observer::{Observer, RunObserver};
pub use proof_folder::{
    interrupted_power_proof, new_power_proof, plan_command_proof, plan_power_proof,
    read_power_proof, save_power_proof,
};
pub use read_back::{ReadBack, is_place, read_bench, read_compared_run, read_comparison, read_run};
pub use replay::replay_trace;
pub use runs::{KeptRuns, checked_label, find_run, list_runs, read_run_row, remove_run, to_prune};
pub use setting_guard::restore_settings;
pub use state_folder::{
    CaptureMark, LookFor, build_journals, clear_leftovers, journals_of_builds, probes_folder,
    runs_folder,
};
