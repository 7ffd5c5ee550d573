//! The power switch of a guest.
//!
//! Kills QEMU when the caller asks, and reports whether a guest was killed. The disks' part of a
//! power cut belongs to their servers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// Cuts the power of one guest, from any thread.
///
/// QEMU is killed with all its threads at once: the guest executes no further instruction, and
/// nothing in its memory gets out. This alone does not make a power cut: the servers of its disks
/// hold what the guest has written, and must drop what a cut would take.
#[derive(Debug, Clone, Default)]
pub struct Cutter(Arc<Mutex<CutterState>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CutterState {
    /// The guest has not started.
    #[default]
    Waiting,
    /// This process group is the guest's and was not waited for yet, so its number cannot be
    /// reused.
    Running(Pid),
    Cut,
    /// The guest ended otherwise.
    Over,
}

impl Cutter {
    /// A switch that waits for its guest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts the power now. True if this ends the guest, whose outcome is then
    /// [`crate::LabExit::Cut`]; false if it has ended before. A guest that is not started yet will
    /// not start.
    pub fn cut(&self) -> bool {
        let mut state = self.state();
        if let CutterState::Running(group) = *state {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if *state != CutterState::Over {
            *state = CutterState::Cut;
        }
        *state == CutterState::Cut
    }

    /// Whether it was cut.
    pub(crate) fn has_cut(&self) -> bool {
        *self.state() == CutterState::Cut
    }

    /// Names the group to kill from now on; false if the power is off already.
    pub(crate) fn starts(&self, group: Pid) -> bool {
        let mut state = self.state();
        if *state != CutterState::Cut {
            *state = CutterState::Running(group);
        }
        *state != CutterState::Cut
    }

    /// Must be called before the group's end is waited for, which frees its number.
    pub(crate) fn ends(&self) {
        let mut state = self.state();
        if *state != CutterState::Cut {
            *state = CutterState::Over;
        }
    }

    fn state(&self) -> MutexGuard<'_, CutterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use durio_block::ProcessGroup;

    use super::*;

    fn sleeping() -> (ProcessGroup, Pid) {
        let group = ProcessGroup::start(Command::new("sleep").arg("600")).unwrap();
        let pid = Pid::from_child(&group.leader);
        (group, pid)
    }

    #[test]
    fn a_cut_kills_what_runs() {
        let (mut group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.starts(pid));
        assert!(cutter.clone().cut());
        assert_eq!(group.leader.wait().unwrap().signal(), Some(9));
        cutter.ends();
        assert!(cutter.has_cut());
    }

    #[test]
    fn a_cut_that_comes_too_late_kills_nobody_and_says_so() {
        let (group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.starts(pid));
        cutter.ends();
        assert!(!cutter.cut() && !cutter.has_cut());
        assert!(!group.has_ended().unwrap(), "its number may be another's by now");
    }

    #[test]
    fn a_cut_that_comes_too_early_keeps_the_guest_from_starting() {
        let (_group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.cut());
        assert!(!cutter.starts(pid));
    }
}
