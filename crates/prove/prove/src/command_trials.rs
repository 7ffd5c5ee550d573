//! Power cuts, one after another, under a user's command: its files lie on a simulated disk in a
//! guest of the lab, and the check reports after each cut. The guest's side is
//! `guest_agent.rs`, QEMU durio-lab's.
//!
//! ```text
//!  boot: filesystem, setup ──► the disk, kept
//!                                │ a copy for each life
//!                                ▼
//!                      boot: command ──► cut: disk, then QEMU ──► restore ──► boot: check
//! ```
//!
//! The witness is the command's stdout: a line that this process has when the power goes is an
//! acknowledgement. Later lines do not count, though they were printed before QEMU's end.

mod printed;

use std::io::BufReader;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use durio_base::Nanos;
use durio_command::{CommandError, own_program};
use durio_lab::kernels::kernel_named;
use durio_lab::{
    Cutter, LabDisk, LabExit, LabFile, LabOutcome, LabRequest, LabRoot, LabTiming, PreparedGuest,
    find_program,
};
use durio_plan::proof::CommandTarget;
use durio_record::proof::{ACKNOWLEDGED_MIN, CheckFindings, Controls, CutEvidence, CutFindings};
use durio_simdisk::{Disk, DiskRequest, NamedProfile, Profile, SharedDisk};
use durio_workload::job_seed;

use crate::background::BackgroundServer;
use crate::guest_agent::{ACKNOWLEDGED, CommandOrder, CommandTask};
use crate::guest_trials::{self, GuestStreams, boot_guest, profile_named, said_failed, undecided};
use crate::serving::Advertisement;
use crate::wire::{AgentSays, receive};
use printed::{CommandLines, StdoutLines, Tail, lock, text};

/// How often is looked whether it is time to cut.
const LOOK: Duration = Duration::from_millis(5);
/// How much longer a command may run that acknowledges too little; then it is cut all the same, and the cut
/// does not count.
const BUSY_WITHIN: Duration = Duration::from_secs(60);

/// Trials of one command.
#[derive(Debug)]
pub(crate) struct CommandTrials {
    target: CommandTarget,
    guest: PreparedGuest,
    profile: &'static NamedProfile,
    seed: u64,
    /// Cuts so far, those of an interrupted proof among them.
    cuts: u64,
    /// The disk after the setup.
    begin: Option<Disk>,
}

/// One boot of a guest that is over.
struct GuestBoot {
    outcome: LabOutcome,
    /// Why the filesystem is missing, if it is.
    obstacle: Option<AgentSays>,
}

impl GuestBoot {
    /// The error for a program in the guest that failed, with its last output.
    fn failed(&self, what: &str, said: &str) -> CommandError {
        if let Some(AgentSays::Failed { reason }) = &self.obstacle {
            return said_failed(reason);
        }
        let how = match &self.outcome.exit {
            LabExit::Code(code @ 129..) => format!("was ended by signal {}", code - 128),
            LabExit::Code(code) => format!("ended with exit code {code}"),
            LabExit::TimeLimit => "did not end within a boot's time limit".to_owned(),
            LabExit::GuestFailed(reason) => format!("ended with its guest: {reason}"),
            LabExit::Stopped | LabExit::Cut => "was cut".to_owned(),
        };
        let error = CommandError::cannot_measure(format!("{what} {how}"));
        match said {
            "" => error,
            said => error.hint(format!("it said: {said}")),
        }
    }
}

impl CommandTrials {
    pub(crate) fn new(target: &CommandTarget, seed: u64, cuts: u32) -> Result<Self, CommandError> {
        let profile = profile_named(&target.profile)?;
        let guest = PreparedGuest::new(request(target)?).map_err(undecided)?;
        Ok(Self { target: target.clone(), guest, profile, seed, cuts: cuts.into(), begin: None })
    }

    /// One life of the disk.
    pub(crate) fn cut(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<(CutEvidence, CutFindings), CommandError> {
        let begin = match self.begin.take() {
            Some(disk) => disk,
            None => self.set_up(stop)?,
        };
        let shared = SharedDisk::new(begin.after_cuts(self.cuts));
        self.begin = Some(begin);
        self.cuts += 1;
        let server = self.serve(&shared)?;
        let printed = Mutex::default();
        self.load(&shared, &server, &printed, stop)?;
        let printed = printed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let controls = controls(&shared.lock());
        let is_back = shared.lock().restore().is_ok();
        let (exit_code, said) = match is_back {
            true => self.check(&server, &printed, stop)?,
            false => (None, "the disk no longer answers".to_owned()),
        };
        let evidence = CutEvidence {
            simulated: true,
            acknowledged_after: printed.late,
            ..CutEvidence::default()
        };
        let check = CheckFindings {
            exit_code,
            said,
            last_acknowledged: printed.last_acknowledged(),
            on_the_way: printed.on_the_way,
        };
        let findings = CutFindings {
            acknowledged: printed.acknowledged,
            acknowledged_late: printed.acknowledged_late(),
            controls,
            check: Some(check),
            ..CutFindings::default()
        };
        Ok((evidence, findings))
    }

    /// The disk with its filesystem and whatever the setup put there, all of it durable; from now on it lies.
    fn set_up(&self, stop: &dyn Fn() -> bool) -> Result<Disk, CommandError> {
        let lying = self.profile.profile(self.target.size.get());
        let honest = Profile { lies: Vec::new(), ..lying.clone() };
        let shared = SharedDisk::new(Disk::new(honest, self.seed));
        let server = self.serve(&shared)?;
        let words = self.target.setup.as_deref().map_or_else(Vec::new, by_shell);
        let said: Mutex<Vec<u8>> = Mutex::default();
        let request = self.request(CommandTask::Setup, words, &server)?;
        let booted = self.boot(request, [&mut Tail(&said), &mut Tail(&said)], stop, |_| ())?;
        match booted.outcome.exit {
            LabExit::Code(0) => {}
            _ => return Err(booted.failed("the setup", &text(&said))),
        }
        drop(server);
        let mut disk = shared.lock().clone();
        disk.carry_out(0, Nanos::ZERO, DiskRequest::Flush, &mut [])
            .map_err(CommandError::cannot)?;
        lying.lies.iter().for_each(|&lie| disk.add_lie(lie));
        Ok(disk)
    }

    fn serve(&self, shared: &SharedDisk) -> Result<BackgroundServer, CommandError> {
        // As the disk declares itself, also while it does not lie yet.
        let advertised = Advertisement::of(&self.profile.profile(self.target.size.get()));
        BackgroundServer::start(shared, advertised)
    }

    /// Runs the command, and takes the power away.
    fn load(
        &self,
        shared: &SharedDisk,
        server: &BackgroundServer,
        printed: &Mutex<CommandLines>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), CommandError> {
        let request = self.request(CommandTask::Load, self.target.command.clone(), server)?;
        // Up to as long again, so that the cut comes at any phase of whatever the command does.
        let load = self.target.load.get();
        let more = job_seed(self.seed, self.cuts, 1) % load.saturating_add(1);
        let span = Duration::from_nanos(load.saturating_add(more));
        let said = Mutex::default();
        let booted =
            self.boot(request, [&mut StdoutLines(printed), &mut Tail(&said)], stop, |cutter| {
                // Held until the power is gone, so that output from between counts as later.
                let mut printed = lock(printed);
                if printed.is_too_much() {
                    cutter.cut();
                }
                let Some(elapsed) = printed.running_for() else { return };
                let is_busy = printed.acknowledged >= ACKNOWLEDGED_MIN;
                if elapsed >= span && (is_busy || elapsed >= span + BUSY_WITHIN) {
                    printed.ends_here();
                    shared.lock().cut();
                    cutter.cut();
                }
            })?;
        if lock(printed).is_too_much() {
            let text = "the command printed more than 16 MiB before its power was cut";
            return Err(CommandError::cannot_measure(text).hint("print one short line per commit"));
        }
        match booted.outcome.exit {
            LabExit::Cut => Ok(()),
            _ => Err(booted
                .failed("the command", &text(&said))
                .hint("it must run and acknowledge until its power is cut")),
        }
    }

    /// Runs the check; returns its exit code and its output.
    fn check(
        &self,
        server: &BackgroundServer,
        printed: &CommandLines,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Option<u8>, String), CommandError> {
        let request = self.request(CommandTask::Check, by_shell(&self.target.check), server)?;
        let texts = vec![(ACKNOWLEDGED.into(), printed.lines().to_vec())];
        let said = Mutex::default();
        let request = LabRequest { texts, ..request };
        let booted = self.boot(request, [&mut Tail(&said), &mut Tail(&said)], stop, |_| ())?;
        let said = text(&said);
        if let Some(AgentSays::Gone { reason }) = booted.obstacle {
            return Ok((None, reason));
        }
        match booted.outcome.exit {
            LabExit::Code(code @ (0 | 1)) => Ok((Some(code), said)),
            _ => Err(booted
                .failed("the check", &said)
                .hint("exit code 0 means that all data is there, 1 that some is missing; any other code is inconclusive")),
        }
    }

    fn request(
        &self,
        task: CommandTask,
        words: Vec<String>,
        server: &BackgroundServer,
    ) -> Result<LabRequest, CommandError> {
        let disk = lab_disk(&self.target, server.socket());
        let order = CommandOrder {
            task,
            layers: self.target.layers,
            disk: disk.path_in_guest(),
            directory: (&self.target.directory).into(),
        };
        let order = serde_json::to_string(&order).map_err(CommandError::cannot)?;
        let own = ["durio", "prove", "command-in-guest", &order, "--"].map(str::to_owned);
        let command = own.into_iter().chain(words).map(Into::into).collect();
        Ok(LabRequest { command, disks: vec![disk], ..self.guest.request().clone() })
    }

    /// Boots the guest, and asks `watch` all the time until it has ended.
    fn boot(
        &self,
        request: LabRequest,
        streams: GuestStreams<'_>,
        stop: &dyn Fn() -> bool,
        mut watch: impl FnMut(&Cutter),
    ) -> Result<GuestBoot, CommandError> {
        let cutter = Cutter::new();
        let booted = (&self.guest, request, &cutter);
        let (obstacle, outcome) = boot_guest(booted, streams, stop, |witness, is_over| {
            while !is_over() {
                if stop() {
                    cutter.cut();
                }
                watch(&cutter);
                thread::sleep(LOOK);
            }
            // Nothing is said of a filesystem that is there.
            receive(&mut BufReader::new(witness)).ok()
        })?;
        Ok(GuestBoot { outcome, obstacle })
    }
}

fn request(target: &CommandTarget) -> Result<LabRequest, CommandError> {
    let program = own_program()?;
    let guest = &target.guest;
    let kernel = kernel_named(guest.kernel.as_ref().map(Path::new), None).map_err(undecided)?;
    let mut tools = vec!["mkfs.ext4".to_owned()];
    tools.extend(guest.tools.iter().cloned());
    // As `lab run` does with its command; one that is not installed may be among the files.
    let command =
        target.command.first().filter(|program| find_program(Path::new(program)).is_some());
    tools.extend(command.filter(|_| !guest.shares_root).cloned());
    let files = guest
        .files
        .iter()
        .map(|[source, guest]| LabFile { source: source.into(), guest: guest.into() });
    Ok(LabRequest {
        timing: LabTiming::Wall,
        memory: guest.memory,
        limit: Duration::from_nanos(guest.limit.get()),
        root: if guest.shares_root { LabRoot::Shared } else { LabRoot::Hermetic },
        tools,
        modules: vec!["ext4".to_owned()],
        files: files.collect(),
        // Never booted with it: it says which driver is needed.
        disks: vec![lab_disk(target, Path::new("/nonexistent"))],
        has_witness: true,
        ..LabRequest::new(kernel, program, vec!["durio".into()])
    })
}

fn lab_disk(target: &CommandTarget, socket: &Path) -> LabDisk {
    LabDisk {
        serial: "durio-exec".to_owned(),
        ..guest_trials::lab_disk(socket, target.front_end, target.write_cache)
    }
}

fn by_shell(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).to_vec()
}

/// Pages that waited in the disk's cache, were never promised to be durable, and were lost in the
/// cut: an honest disk may lose them.
fn controls(disk: &Disk) -> Controls {
    let waiting = disk.truth().last_cut().map_or(&[][..], |cut| cut.waiting.as_slice());
    let unsynced = waiting.iter().filter(|write| write.ended && !write.promised);
    let lost = unsynced.clone().filter(|write| write.survived != write.written).count();
    Controls { written: unsynced.count() as u64, lost: lost as u64 }
}

#[cfg(test)]
mod tests {
    use durio_simdisk::{Lie, Survivors};

    use super::*;

    #[test]
    fn controls_are_pages_whose_writes_had_ended_and_that_nobody_was_promised() {
        for (survivors, lost) in [(Survivors::None, 3), (Survivors::All, 0)] {
            for lies in [Vec::new(), vec![Lie::FlushIgnored]] {
                let profile = Profile { survivors, lies, ..Profile::honest(1 << 20) };
                let mut disk = Disk::new(profile, 1);
                assert_eq!(controls(&disk), Controls::default(), "it was not cut");
                let data = [1; 4096];
                let write =
                    |page: u64, fua| DiskRequest::Write { sector: page * 8, data: &data, fua };
                let promised = [write(0, false), DiskRequest::Flush, write(1, true)];
                let others = [2, 3, 4].map(|page| write(page, false));
                for request in promised.into_iter().chain(others) {
                    disk.carry_out(0, Nanos::ZERO, request, &mut []).unwrap();
                }
                // On its way.
                disk.begin(0, Nanos::ZERO, write(9, false)).unwrap();
                disk.cut();
                assert_eq!(controls(&disk), Controls { written: 3, lost }, "{survivors:?}");
            }
        }
    }
}
