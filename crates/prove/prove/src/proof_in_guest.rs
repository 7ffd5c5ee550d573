//! The part of a proof that runs in a guest of the lab: makes layers on the guest's disks, writes,
//! reads. It follows an order of the host and reports to its witness. The commands for the layers
//! are in `guest_layers.rs`, the host's side in `guest_trials.rs`.
//!
//! The command can destroy what its order names, so it does nothing unless the machine is a guest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::agent::{AgentStorage, TargetOpening, prepared_size};
use crate::error::ProveError;
use crate::guest_agent::{GuestOrder, GuestPort, GuestTask, carry_out, order_of_host};
use crate::layout::{CELL, Layout};
use crate::reading::read_cell;
use crate::wire::AgentSays;
use durio_command::{CommandError, error_chain};
use durio_plan::proof::{Arm, FileWrites};

use crate::guest_layers::{GuestStack, not_attached};
use crate::proof_target::{FolderWrites, ProofStorage};

/// How often the mailbox is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Follows an order of the host that this guest belongs to.
///
/// # Errors
/// If this machine is not a guest of the lab. The host hears of all other failures too.
pub fn prove_in_guest(order: &str) -> Result<(), CommandError> {
    let otherwise = "a proof runs only in a lab guest; durio prove run boots it";
    let order: GuestOrder = order_of_host(order, otherwise)?;
    let mut port = GuestPort::open()?;
    let (message, done) = match follow(&order, &mut port) {
        Ok(message) => (message, Ok(())),
        Err(error) => (Some(AgentSays::Failed { reason: error_chain(&error) }), Err(error)),
    };
    message.map_or(Ok(()), |message| port.say(&message))?;
    done
}

/// Carries out an order, and returns the last message to the host: it decides about a target that is
/// missing or smaller after a cut.
fn follow(
    order: &GuestOrder,
    port: &mut GuestPort<File>,
) -> Result<Option<AgentSays>, CommandError> {
    let stack = GuestStack { layers: order.layers, disks: &order.disks };
    let path = match order.task {
        GuestTask::ReadStates => return read_states(order, &stack, port).map(|()| None),
        GuestTask::Prepare => make(order, &stack)?,
        GuestTask::Load { .. } => {
            let path = stack.attach()?;
            if order.arm.writes == FileWrites::Append {
                empty_log(order, &path)?;
            }
            path
        }
        GuestTask::Read => match stack.attach() {
            Ok(path) => path,
            Err(error) => return Ok(Some(not_attached(&error))),
        },
    };
    let mut storage = storage(order, &path)?;
    if order.task == GuestTask::Read && !fits(order, &storage) {
        return Ok(Some(smaller()));
    }
    carry_out(order, &mut storage, port)?;
    drop(storage);
    if order.task != GuestTask::Prepare {
        return Ok(None);
    }
    stack.detach()?;
    Ok(Some(AgentSays::Prepared))
}

fn smaller() -> AgentSays {
    AgentSays::Gone { reason: "the target is smaller".to_owned() }
}

/// One crash state after the other. The host ends the guest after the last.
fn read_states(
    order: &GuestOrder,
    stack: &GuestStack<'_>,
    port: &mut GuestPort<File>,
) -> Result<(), CommandError> {
    let missing = || CommandError::cannot_measure("the order names no mailbox");
    let mailbox = order.mailbox.as_deref().ok_or_else(missing)?;
    let mut mailbox = storage(order, mailbox)?;
    for number in 1.. {
        while state_number(&mut mailbox)? < number {
            thread::sleep(LOOK);
        }
        // Cached data of the last state must not be taken for this one.
        let caches = Path::new("/proc/sys/vm/drop_caches");
        fs::write(caches, "3").map_err(|error| CommandError::io("write to", caches, error))?;
        match stack.attach() {
            Err(error) => port.say(&not_attached(&error))?,
            Ok(path) => {
                read_state(order, &path, port)?;
                stack.detach()?;
            }
        }
        port.say(&AgentSays::Released)?;
    }
    Ok(())
}

/// The number of the state that is on the disk: the first 8 bytes of the mailbox, little-endian.
fn state_number(mailbox: &mut ProofStorage) -> Result<u64, ProveError> {
    mailbox.open(TargetOpening::READING, |engine| {
        if !read_cell(engine, 0)? {
            return Err(ProveError::failed("the mailbox cannot be read"));
        }
        let (numbers, _) = engine.slot_mut(0).as_chunks::<8>();
        Ok(u64::from_le_bytes(numbers[0]))
    })
}

/// A missing or shorter file is gone, like a filesystem that cannot be mounted.
fn read_state(
    order: &GuestOrder,
    path: &Path,
    port: &mut GuestPort<File>,
) -> Result<(), ProveError> {
    match storage(order, path) {
        Ok(mut storage) if fits(order, &storage) => carry_out(order, &mut storage, port),
        Ok(_) => port.say(&smaller()),
        Err(error) => port.say(&AgentSays::Gone { reason: error_chain(&error) }),
    }
}

fn storage(order: &GuestOrder, path: &Path) -> Result<ProofStorage, CommandError> {
    let Arm { path: durable, writes, .. } = order.arm;
    // The host's mailbox is a device also where cells are files.
    if writes.makes_files() && order.mailbox.as_deref() != Some(path) {
        let controls = Layout::new(order.cells).control;
        let syncs_folder = writes == FileWrites::Replace;
        let writes = match order.task {
            GuestTask::Load { .. } => {
                FolderWrites::Replace { path: durable, syncs_folder, controls }
            }
            _ => FolderWrites::Make,
        };
        let size = order.cells.saturating_mul(CELL as u64);
        return Ok(ProofStorage::of_folder(path.to_owned(), size, writes));
    }
    let name = path.to_string_lossy();
    ProofStorage::find(&name, &[path.to_owned()], true, Some(order.engine))
}

/// Makes the layers on empty disks, and returns the path to write to.
fn make(order: &GuestOrder, stack: &GuestStack<'_>) -> Result<PathBuf, CommandError> {
    let path = stack.make()?;
    if !order.layers.is_device() {
        make_target(order, &path)?;
    }
    Ok(path)
}

/// A file, or a folder for files.
fn make_target(order: &GuestOrder, path: &Path) -> Result<(), CommandError> {
    if order.arm.writes.makes_files() {
        return fs::create_dir(path)
            .map_err(|error| CommandError::io("make the folder", path, error));
    }
    // Blocks that were never written would be journalled with the first write of each.
    let write = || -> std::io::Result<()> {
        let bytes = prepared(order);
        let mut file = File::options().write(true).create_new(true).open(path)?;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), bytes), &mut file)?;
        file.sync_all()
    };
    write().map_err(|error| CommandError::io("fill", path, error))
}

/// A life begins with an empty log, so that it grows until the cut.
fn empty_log(order: &GuestOrder, path: &Path) -> Result<(), CommandError> {
    let empty = || -> std::io::Result<()> {
        let file = File::options().write(true).open(path)?;
        file.set_len(prepared(order))?;
        file.sync_all()
    };
    empty().map_err(|error| CommandError::io("cut off the log of", path, error))
}

/// Whether all is there that was before the first write.
fn fits(order: &GuestOrder, storage: &ProofStorage) -> bool {
    storage.size() >= prepared(order)
}

fn prepared(order: &GuestOrder) -> u64 {
    prepared_size(order.cells, order.arm.writes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! What a cut may take of files that grow or are replaced, done to them by hand.

    use std::io::{self, BufRead, Write};

    use crate::classify::classify;
    use crate::history::History;
    use crate::ledger::LedgerEntry;
    use crate::reading::ObservedCell;
    use crate::stamp::StampOwner;
    use crate::wire::receive;
    use durio_base::Nanos;
    use durio_plan::EngineKind;
    use durio_plan::proof::{DurablePath, GuestLayers, LossClass};
    use durio_record::proof::{Finding, InPlace};
    use tempfile::TempDir;

    use super::*;

    const CELLS: u64 = 64;

    /// A witness that leaves after this number of acknowledgements.
    struct Leaving {
        heard: Vec<u8>,
        left: usize,
    }

    impl Write for Leaving {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.left -= usize::from(line.starts_with(b"{\"say\":\"acknowledged\""));
            self.heard.extend(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A target of a guest that is none: files of this machine.
    struct Life {
        _folder: TempDir,
        path: PathBuf,
        order: GuestOrder,
        history: History,
        next_seq: u64,
    }

    impl Life {
        /// Files that are stamped.
        fn new(writes: FileWrites) -> Self {
            // Where the program lies is a disk's filesystem; /tmp may be none.
            let program = std::env::current_exe().unwrap();
            let folder = TempDir::new_in(program.parent().unwrap()).unwrap();
            let path = folder.path().join("proof");
            let order = GuestOrder {
                task: GuestTask::Prepare,
                owner: StampOwner { run: [7; 16], target: 1 },
                cells: CELLS,
                arm: Arm { writes, ..Arm::new(DurablePath::Fdatasync, 1) },
                engine: EngineKind::Sync,
                layers: GuestLayers::EXT4,
                disks: Vec::new(),
                mailbox: None,
            };
            make_target(&order, &path).unwrap();
            let history = History::new(Layout::new(CELLS).stamped(), Nanos::ZERO);
            let life = Self { _folder: folder, path, order, history, next_seq: 1 };
            life.carry_out(GuestTask::Prepare, usize::MAX);
            life
        }

        fn carry_out(&self, task: GuestTask, acknowledgements: usize) -> Vec<AgentSays> {
            let order = GuestOrder { task, ..self.order.clone() };
            let mut port = GuestPort(Leaving { heard: Vec::new(), left: acknowledgements });
            let mut storage = storage(&order, &self.path).unwrap();
            assert!(fits(&order, &storage));
            let done = carry_out(&order, &mut storage, &mut port);
            assert!(matches!(done, Ok(()) | Err(ProveError::Gone { .. })), "{done:?}");
            let mut heard = io::Cursor::new(port.0.heard);
            std::iter::from_fn(|| {
                (!heard.fill_buf().unwrap().is_empty()).then(|| receive(&mut heard))
            })
            .collect::<Result<_, _>>()
            .unwrap()
        }

        /// Writes until this number was acknowledged; returns the cells, the last one first.
        fn load(&mut self, acknowledgements: usize) -> Vec<u64> {
            let task = GuestTask::Load { first_seq: self.next_seq, seed: 7 };
            let mut cells = Vec::new();
            for said in self.carry_out(task, acknowledgements) {
                match said {
                    AgentSays::Intend { writes } => {
                        self.next_seq = writes.last().unwrap().seq + 1;
                        writes.iter().for_each(|&intent| self.take(LedgerEntry::Intended(intent)));
                    }
                    AgentSays::Acknowledged { seq } => {
                        self.take(LedgerEntry::Acknowledged { seq, at: Nanos::new(seq) });
                        cells.insert(0, self.history.intent(seq).unwrap().sector / 8);
                    }
                    AgentSays::ControlDone { seq } => self.take(LedgerEntry::ControlDone { seq }),
                    other => panic!("{other:?}"),
                }
            }
            self.take(LedgerEntry::Cut { at: Nanos::new(self.next_seq) });
            cells
        }

        fn take(&mut self, entry: LedgerEntry) {
            self.history.take(entry).unwrap();
        }

        fn findings(&self) -> Vec<Finding> {
            let mut cells: Vec<ObservedCell> = Vec::new();
            for said in self.carry_out(GuestTask::ReadStates, usize::MAX) {
                if let AgentSays::Observed { cells: part, .. } = said {
                    cells.extend(part);
                }
            }
            let begin = self.history.cells().start;
            let again =
                |cell| Ok::<_, io::Error>(cells[usize::try_from(cell - begin).unwrap()].clone());
            classify(&mut self.history.clone(), [&cells, &cells], again).unwrap().findings
        }

        /// Replaces an acknowledged write, the only one that is lost.
        #[track_caller]
        fn lost(&self) -> InPlace {
            let [only] = &self.findings()[..] else { panic!("{:?}", self.findings()) };
            assert_eq!(only.class, LossClass::Lost, "{only:?}");
            only.found.clone()
        }
    }

    #[test]
    fn an_appended_write_whose_size_did_not_last_is_lost() {
        let log = Layout::new(CELLS).journal;
        let mut life = Life::new(FileWrites::Append);
        let length = || fs::metadata(&life.path).unwrap().len() / CELL as u64;
        assert_eq!(length(), log.start, "the log is not there yet");
        let cells = life.load(20);
        let last = *cells.iter().find(|cell| log.contains(cell)).unwrap();
        assert!(life.findings().is_empty(), "{:?}", life.findings());
        let cut_to = |cell: u64| {
            let file = File::options().write(true).open(&life.path).unwrap();
            file.set_len(cell * CELL as u64).unwrap();
        };
        // Nobody was promised what may stand behind it.
        cut_to(last + 1);
        assert!(life.findings().is_empty(), "{:?}", life.findings());
        cut_to(last);
        assert_eq!(life.lost(), InPlace::Older { seq: 0 });
        // The size lasted, and the data did not.
        cut_to(last + 1);
        assert_eq!(life.lost(), InPlace::Older { seq: 0 });
        empty_log(&life.order, &life.path).unwrap();
        assert!(
            life.findings().len() > 1
                && fits(&life.order, &storage(&life.order, &life.path).unwrap())
        );
        cut_to(log.start - 1);
        assert!(!fits(&life.order, &storage(&life.order, &life.path).unwrap()), "a canary is gone");
    }

    #[test]
    fn a_file_that_was_not_replaced_or_is_gone_is_a_lost_write() {
        for writes in [FileWrites::Replace, FileWrites::Rename] {
            for path in DurablePath::ALL {
                let mut life = Life::new(writes);
                life.order.arm.path = path;
                let stamped = life.path.with_file_name("stamped");
                copy_folder(&life.path, &stamped);
                let last = life.load(5)[0];
                assert!(life.findings().is_empty(), "{:?}", life.findings());
                let name = format!("cell-{last}");
                fs::copy(stamped.join(&name), life.path.join(&name)).unwrap();
                assert_eq!(life.lost(), InPlace::Older { seq: 0 });
                File::create(life.path.join(&name)).unwrap();
                assert_eq!(life.lost(), InPlace::Nothing);
                fs::remove_file(life.path.join(&name)).unwrap();
                assert_eq!(life.lost(), InPlace::Nothing);
            }
        }
    }

    fn copy_folder(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for file in fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}
