//! Ends at any moment: signals, stops, a closed terminal, then the next command.
//!
//! Ends every command that measures or builds at a seeded moment; reports its remains and changes
//! to the user's files. `races` has concurrent changes by other processes.
//!
//! An orderly end (INT, TERM, HUP, a closed terminal) leaves nothing at once; after SIGKILL the
//! next command removes the remains. `durio lab` is left out: a guest takes longer to boot than all
//! the moments here.
//! moments here.

use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Result;
use rustix::process::Signal;

use super::arena::{self, Arena, AttackCase, CAMPAIGN, stack_spec};
use super::launch::{EndedProcess, Launch, PseudoTerminal, Running};
use super::random::Random;
use super::rows::{AttackRow, fio, nothing, root};
use super::witness::{FolderTree, SystemState, entries, faults, faults_but};

/// The latest moment after the start, in milliseconds.
const LATEST_MS: usize = 1200;
/// How long an end in order may take.
const END_LIMIT: Duration = Duration::from_secs(30);
/// How long children and devices may take to disappear after the end.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// A command that is ended, and the one after it.
struct KilledCommand {
    name: &'static str,
    line: &'static str,
    next: &'static str,
}

const UNNAMED: KilledCommand = KilledCommand {
    name: "run-unnamed",
    line: "run --quiet --rw randwrite --duration 20s --size 4MiB --target data",
    next: "run --quiet --rw randwrite --duration 100ms --size 4MiB --target data",
};
const NAMED: KilledCommand = KilledCommand {
    name: "run-named",
    line: "run --quiet --rw randwrite --duration 20s --size 4MiB --target data/new --create",
    next: "run --quiet --rw randwrite --duration 100ms --size 4MiB --target data/new --create",
};
const CHECK: KilledCommand = KilledCommand {
    name: "check",
    line: "check --quiet --size 8MiB --duration 2s data",
    next: "check --quiet --size 8MiB --duration 100ms --workload lookup data",
};
const SWEEP: KilledCommand = KilledCommand {
    name: "sweep",
    line: "sweep --quiet --goal p99=9ms --rw randwrite --duration 1s --size 4MiB --target data/new --create",
    next: "run --quiet --rw randwrite --duration 100ms --size 4MiB --target data/new --create",
};
const DURABLE: KilledCommand = KilledCommand {
    name: "durable",
    line: "durable --quiet --quick --size 8MiB data",
    next: "durable --quiet --quick --size 8MiB --only file-modes data",
};
const CAMPAIGN_RUN: KilledCommand = KilledCommand {
    name: "campaign",
    line: "run small.toml --quiet --target data --scale-time 10",
    next: "run small.toml --quiet --target data --scale-time 1 --fresh",
};
const FIO: KilledCommand = KilledCommand {
    name: "fio",
    line: "run --quiet --engine fio:psync --rw randwrite --duration 20s --size 4MiB --target data/new --create",
    next: "run --quiet --rw randwrite --duration 100ms --size 4MiB --target data/new --create",
};
const TRACE: KilledCommand = KilledCommand {
    name: "trace",
    line: "run --quiet --trace-path --rw randwrite --duration 100ms --size 4MiB --target data",
    next: "run --quiet --rw randwrite --duration 100ms --size 4MiB --target data",
};
const STACK: KilledCommand = KilledCommand {
    name: "stack-bench",
    line: "stack bench --quiet stack.toml",
    next: "stack clean",
};

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, missing, attack| AttackRow { name, small: 2, full: 112, missing, attack };
    vec![
        row("kills:run-unnamed", nothing, |arena, case, random| end(arena, &UNNAMED, case, random)),
        row("kills:run-named", nothing, |arena, case, random| end(arena, &NAMED, case, random)),
        row("kills:check", nothing, |arena, case, random| end(arena, &CHECK, case, random)),
        row("kills:sweep", nothing, |arena, case, random| end(arena, &SWEEP, case, random)),
        row("kills:durable", nothing, |arena, case, random| end(arena, &DURABLE, case, random)),
        row("kills:campaign", nothing, |arena, case, random| {
            end(arena, &CAMPAIGN_RUN, case, random)
        }),
        row("kills:fio", fio, |arena, case, random| end(arena, &FIO, case, random)),
        row("kills:trace", no_tracing, |arena, case, random| end(arena, &TRACE, case, random)),
        row("kills:stack-bench", root, |arena, case, random| end(arena, &STACK, case, random)),
    ]
}

fn no_tracing(arena: &Arena) -> Option<String> {
    (!arena.has_tracing())
        .then(|| "needs root, namespaces of its own and the kernel's tracing".to_owned())
}

/// How a command is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Signal(Signal),
    /// Held for a moment, then ended by SIGINT.
    Stop,
    /// Stopped, then killed: the user lost patience with a hang.
    StopAndKill,
    /// The window is closed.
    Terminal,
    /// The window is closed, and the shell passes the signal on.
    TerminalAndShell,
}

/// SIGKILL as often as all others together, because only it needs the journals.
const MANNERS: [Manner; 12] = [
    Manner::Signal(Signal::KILL),
    Manner::Terminal,
    Manner::Signal(Signal::INT),
    Manner::Signal(Signal::KILL),
    Manner::TerminalAndShell,
    Manner::Signal(Signal::KILL),
    Manner::Signal(Signal::TERM),
    Manner::Signal(Signal::HUP),
    Manner::StopAndKill,
    Manner::Stop,
    Manner::Signal(Signal::KILL),
    Manner::TerminalAndShell,
];

fn end(
    arena: &Arena,
    command: &KilledCommand,
    number: usize,
    random: &mut Random,
) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let place = PlaceSnapshot::make(arena, &case)?;
    // Every manner comes, in each row starting from another one.
    let manner = MANNERS[(number + command.name.len()) % MANNERS.len()];
    let moment = Duration::from_millis(random.below(LATEST_MS) as u64);
    let hold = Duration::from_millis(random.below(300) as u64);
    let ended = stop(case.durio(command.line).default_signals(), manner, moment, hold)?;
    let mut wrong = judge(&ended, manner);
    if manner != Manner::Signal(Signal::KILL) && manner != Manner::StopAndKill {
        let left = place.settled_differences(arena);
        wrong.extend(left.iter().map(|path| format!("at once after {manner:?}: {path}")));
    }
    let next = case.durio(command.next).limit(END_LIMIT).run()?;
    wrong.extend(
        faults(&next).iter().map(|fault| format!("the next command after {manner:?}: {fault}")),
    );
    if next.code() != 0 {
        wrong.push(format!(
            "the next command after {manner:?} ends with {}: {}",
            next.code(),
            super::witness::shown(&next.stderr_text())
        ));
    }
    let left = place.settled_differences(arena).into_iter().chain(journals(&case));
    wrong.extend(left.map(|fault| format!("after the next command after {manner:?}: {fault}")));
    Ok(wrong)
}

fn judge(ended: &EndedProcess, manner: Manner) -> Vec<String> {
    let died = match manner {
        Manner::Signal(signal) => 128 + signal.as_raw(),
        Manner::Stop => 130,
        Manner::StopAndKill => 137,
        Manner::Terminal | Manner::TerminalAndShell => 129,
    };
    let wrong = faults_but(ended, &[died]);
    wrong.into_iter().map(|fault| format!("{manner:?}: {fault}")).collect()
}

fn stop(launch: Launch, manner: Manner, moment: Duration, hold: Duration) -> Result<EndedProcess> {
    let is_on_terminal = matches!(manner, Manner::Terminal | Manner::TerminalAndShell);
    if is_on_terminal {
        let (window, running) = PseudoTerminal::start(launch)?;
        thread::sleep(moment);
        // Closing this side hangs up the session's leader; a shell passes the signal on as well.
        drop(window);
        if manner == Manner::TerminalAndShell {
            running.signal(Signal::HUP);
        }
        return running.wait(END_LIMIT);
    }
    let running = launch.start()?;
    thread::sleep(moment);
    match manner {
        Manner::Signal(signal) => running.signal(signal),
        Manner::Stop => held(&running, hold, Signal::INT),
        _ => held(&running, hold, Signal::KILL),
    }
    running.wait(END_LIMIT)
}

fn held(running: &Running, hold: Duration, signal: Signal) {
    // A stopped process obeys only SIGKILL; any other signal waits until it is continued.
    running.signal(Signal::STOP);
    thread::sleep(hold);
    running.signal(signal);
    running.signal(Signal::CONT);
}

/// The user's files and the state of the system before a command.
pub(super) struct PlaceSnapshot {
    folders: Vec<(std::path::PathBuf, FolderTree)>,
    system: SystemState,
}

impl PlaceSnapshot {
    /// Puts a user's files into the case, and records them and all other state of the user.
    pub(super) fn make(arena: &Arena, case: &AttackCase) -> Result<Self> {
        arena::user_files(&case.path("data"))?;
        fs::write(case.path("small.toml"), CAMPAIGN)?;
        fs::write(case.path("stack.toml"), stack_spec(case, "300ms"))?;
        Self::of(arena, case)
    }

    /// Records the present state.
    pub(super) fn of(arena: &Arena, case: &AttackCase) -> Result<Self> {
        let mounted = arena.mounted()?.map(std::path::Path::to_owned);
        let folders = [case.path("data"), case.path("temporary")].into_iter().chain(mounted);
        let folders = folders.map(|folder| (folder.clone(), FolderTree::of(&folder))).collect();
        Ok(Self { folders, system: arena.system() })
    }

    /// The present differences.
    pub(super) fn differences(&self, arena: &Arena) -> Vec<String> {
        let of_folder = |(folder, before): &(std::path::PathBuf, FolderTree)| {
            before.differences(&FolderTree::of(folder))
        };
        let mut differences: Vec<_> = self.folders.iter().flat_map(of_folder).collect();
        differences.extend(self.system.differences(&arena.system()));
        differences
    }

    /// The differences that remain when everything had time to end by itself.
    pub(super) fn settled_differences(&self, arena: &Arena) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let differences = self.differences(arena);
            if differences.is_empty() || begin.elapsed() > SETTLE_LIMIT {
                return differences;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Journals, and pointers to journals, of changes that still have to be undone.
pub(super) fn journals(case: &AttackCase) -> Vec<String> {
    let folders = ["state/durio/leftovers", "state/durio/stacks"];
    let left = folders.iter().filter(|folder| !entries(&case.path(folder)).is_empty());
    left.map(|folder| format!("left: something in {folder}")).collect()
}
