//! Which jobs wait for which: `stonewall`, `wait_for`.
//!
//! In: a section's settings, the jobs before it. Out: whether it begins a group of jobs that run at
//! the same time, or why groups one after another cannot say when it begins.

use super::super::ResolvedJob;

/// What is known of the group of the job before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Order {
    /// It waits for one job by its name, and a job that waits for none would not wait for it.
    is_partial: bool,
}

impl Order {
    /// Whether a job waits for all groups so far; `awaited` is the name in `wait_for`. A refusal is a
    /// sentence about that.
    pub(super) fn waits(
        &mut self,
        is_walled: bool,
        awaited: Option<&str>,
        jobs: &[ResolvedJob],
    ) -> (bool, Option<String>) {
        let begins = match (is_walled, awaited) {
            (true, _) => Ok(true),
            (false, Some(name)) => waits_for(name, jobs),
            (false, None) if self.is_partial => {
                Err("fio would run this job, which waits for none, beside those before")
            }
            (false, None) => Ok(false),
        };
        if begins == Ok(true) {
            self.is_partial = !is_walled;
        }
        match begins {
            Ok(begins) => (begins, None),
            Err(reason) => (false, Some(format!("{reason}; durio has stonewall for order"))),
        }
    }
}

/// Whether a job that waits for those called `name` begins a group, or joins the last one.
fn waits_for(name: &str, jobs: &[ResolvedJob]) -> Result<bool, &'static str> {
    let group_of = |job: &ResolvedJob| job.group;
    let last = jobs.last().map(group_of).ok_or("no job before has that name")?;
    let awaited = jobs.iter().rfind(|job| job.name == name);
    let awaited = awaited.map(group_of).ok_or("no job before has that name")?;
    let is_alone = jobs.iter().all(|job| (job.name == name) == (job.group == awaited));
    match last - awaited {
        _ if !is_alone => Err("others run at the same time as the job that is waited for"),
        0 => Ok(true),
        1 => Ok(false),
        _ => Err("others begin before this job and after the one that it waits for"),
    }
}
