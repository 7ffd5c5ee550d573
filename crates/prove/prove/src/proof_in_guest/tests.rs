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

/// A witness that goes away after so many acknowledgements.
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
        let mut port = GuestPort::new(Leaving { heard: Vec::new(), left: acknowledgements });
        let mut storage = storage(&order, &self.path).unwrap();
        assert!(fits(&order, &storage));
        let done = carry_out(&order, &mut storage, &mut port);
        assert!(matches!(done, Ok(()) | Err(AgentError::Witness(_))), "{done:?}");
        let mut heard = io::Cursor::new(port.into_inner().heard);
        std::iter::from_fn(|| (!heard.fill_buf().unwrap().is_empty()).then(|| receive(&mut heard)))
            .collect::<Result<_, _>>()
            .unwrap()
    }

    /// Writes until so many were acknowledged, and gives the cells of those, the last one first.
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
                cells.extend(part.into_iter().map(ObservedCell::from));
            }
        }
        let begin = self.history.cells().start;
        let again =
            |cell| Ok::<_, io::Error>(cells[usize::try_from(cell - begin).unwrap()].clone());
        classify(&mut self.history.clone(), [&cells, &cells], again).unwrap().findings
    }

    /// What stands instead of an acknowledged write, which is the only one that is lost.
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
        life.findings().len() > 1 && fits(&life.order, &storage(&life.order, &life.path).unwrap())
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
