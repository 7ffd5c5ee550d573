//! What is done with plans: carried out, recorded, resumed, set side by side, stack by stack.
//!
//! In: what a user wishes, as values. Out: folders and findings. Not here: arguments, the terminal and
//! exit codes (durio), and what a spec means (durio-spec).
//!
//! | module | what it joins |
//! |---|---|
//! | `locate` | paths → what is there, held, and what may be written to |
//! | `campaign` | a spec and paths → a plan |
//! | `execute`, `resume` | a plan → a run folder and its findings |
//! | `bench` | stacks that are built, measured layer by layer, and taken down |
//! | `guest`, `lab_compare` | benches in guests, on one kernel or two in turns |
//! | `interleave`, `proof` | runs in turns, with a setting switched between them |
//! | `read_back`, `compare` | folders → findings, comparisons |
//! | `leftovers`, `setting_guard` | what dead runs left behind |

mod bench;
mod campaign;
mod compare;
mod environment;
mod error;
mod execute;
mod guest;
mod interleave;
mod lab_compare;
mod leftovers;
mod locate;
mod observer;
mod proof;
mod read_back;
mod resume;
mod setting_guard;
mod state_folder;
mod text_file;

pub use bench::{
    Bench, BenchRequest, Benched, Estimate, Planning, StackChoice, bench_of_guest, chosen_stacks,
    estimates, listing, read_stack_spec,
};
pub use campaign::{CampaignWish, Scale, plan_of_spec};
pub use compare::{read_compared_run, read_comparison};
pub use error::{BenchError, BenchErrorKind, Ending, with_causes};
pub use execute::{Executed, Execution, RunOptions, memory_remark};
pub use guest::{
    GuestBench, GuestSettings, emulation_remark, guest_failed, kernel_named, left_out_remark,
    time_limit,
};
pub use interleave::{Interleaved, interleave};
pub use lab_compare::{
    LabCompared, LabComparing, LabInterleaving, read_lab_comparison, save_lab_comparison,
};
pub use leftovers::clear_leftovers;
pub use locate::{Located, Permission, locate};
pub use observer::{Observer, RunObserver};
pub use proof::{ProofRequest, Proved, prove};
pub use read_back::{ReadBack, read_bench, read_run};
pub use resume::{Interrupted, interrupted};
pub use setting_guard::restore_settings;
pub use state_folder::{build_journals, runs_folder};
pub use text_file::{name_if_no_file, read_text};
