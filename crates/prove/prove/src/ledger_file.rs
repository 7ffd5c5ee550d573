//! The ledger on disk: lines of JSON that are only ever appended.
//!
//! Appends entries and reads them back, also from the file of a killed witness: an incomplete last
//! line is ignored. docs/formats/ledger.md describes the format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};

use durio_base::Nanos;
use durio_observe::PowerState;
use durio_plan::proof::{Arm, FileWrites};
use serde::{Deserialize, Serialize};

use crate::error::{HistoryError, LedgerError};
use crate::history::{History, Seq};
use crate::layout::{CELLS_MIN, Layout, SECTORS};
use crate::ledger::{Intent, LedgerEntry};
use crate::stamp::StampOwner;

/// The version of the file.
pub(crate) const LEDGER_SCHEMA: u32 = 1;
/// The longest line: announcements have at most some hundred writes.
const LINE_MAX: u64 = 1 << 20;
/// Cells of a target of 4 TiB; a ledger that asks for more is damaged.
const CELLS_MAX: u64 = 1 << 30;

/// The first line of a ledger: what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerHead {
    pub(crate) ledger: u32,
    /// The owner of the stamps.
    pub(crate) owner: StampOwner,
    /// Cells of the target.
    pub(crate) cells: u64,
    /// How it is written to.
    pub(crate) arm: Arm,
    /// The machine's power counters before the first write.
    #[serde(default, skip_serializing_if = "PowerState::is_empty")]
    pub(crate) power: PowerState,
}

impl LedgerHead {
    /// A ledger of a target about which nothing else is known.
    pub(crate) fn new(owner: StampOwner, cells: u64, arm: Arm) -> Self {
        Self { ledger: LEDGER_SCHEMA, owner, cells, arm, power: PowerState::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub(crate) enum LedgerLine {
    /// The stamps are there.
    Prepared {
        /// When, on the witness's clock.
        at: Nanos,
    },
    /// Writes that will be done.
    Intended { writes: Vec<Intent> },
    /// A write is durable.
    Acknowledged {
        seq: Seq,
        /// When the witness heard of it.
        at: Nanos,
    },
    /// A control's write has returned.
    ControlDone { seq: Seq },
    /// The power was cut.
    Cut { at: Nanos },
    /// The contents of a cell found after the cut.
    Settled {
        cell: u64,
        /// The write in each of its sectors.
        holds: [Seq; SECTORS],
    },
    /// All cells were verified: the next life starts, and the log is empty if writes append.
    Verified,
}

/// A ledger's contents, to its last whole line.
#[derive(Debug, Clone)]
pub struct LedgerState {
    pub(crate) head: LedgerHead,
    /// The possible contents of the target; `None` until the stamps are there.
    pub(crate) history: Option<History>,
    /// The number of the next write.
    pub(crate) next_seq: Seq,
    /// The time of the last event, on the witness's clock.
    pub(crate) last_at: Nanos,
    /// True if something was written since the last verification.
    pub(crate) has_load: bool,
    /// Bytes of its whole lines.
    whole: u64,
}

/// Reads a ledger to its last whole line.
///
/// # Errors
/// If the file is not a ledger, or a line contradicts those before it.
pub fn read_ledger(from: impl io::Read) -> Result<LedgerState, LedgerError> {
    let mut lines =
        LedgerLines { reader: BufReader::new(from), number: 0, whole: 0, bytes: Vec::new() };
    let head: LedgerHead = match lines.next_line()? {
        Some(bytes) => serde_json::from_slice(bytes)
            .map_err(|error| LedgerError::Unknown(format!("its first line: {error}")))?,
        None => return Err(LedgerError::Unknown("it is empty".to_owned())),
    };
    if head.ledger > LEDGER_SCHEMA {
        let text = format!("its version is {}, and {LEDGER_SCHEMA} is known", head.ledger);
        return Err(LedgerError::Unknown(text));
    }
    if !(CELLS_MIN..=CELLS_MAX).contains(&head.cells) {
        return Err(LedgerError::Unknown(format!("a target of {} cells", head.cells)));
    }
    let mut read = LedgerState { whole: lines.whole, ..LedgerState::new(head) };
    while let Some(bytes) = lines.next_line()? {
        let line = serde_json::from_slice(bytes);
        let number = lines.number;
        let damaged = |source| LedgerError::Damaged { line: number, source };
        read.take(line.map_err(|error| damaged(Box::new(error)))?)
            .map_err(|error| damaged(Box::new(error)))?;
        read.whole = lines.whole;
    }
    Ok(read)
}

impl LedgerState {
    fn new(head: LedgerHead) -> Self {
        let (history, last_at) = (None, Nanos::ZERO);
        Self { head, history, next_seq: 1, last_at, has_load: false, whole: 0 }
    }

    fn take(&mut self, line: LedgerLine) -> Result<(), HistoryError> {
        if let LedgerLine::Prepared { at } = line {
            self.history = Some(History::new(Layout::new(self.head.cells).stamped(), at));
            self.last_at = at;
            return Ok(());
        }
        let history = self.history.as_mut().ok_or(HistoryError::Unprepared)?;
        match line {
            LedgerLine::Prepared { .. } => {}
            LedgerLine::Intended { writes } => {
                self.has_load = true;
                for intent in writes {
                    self.next_seq = self.next_seq.max(intent.seq.saturating_add(1));
                    history.take(LedgerEntry::Intended(intent))?;
                }
            }
            LedgerLine::Acknowledged { seq, at } => {
                self.last_at = at;
                history.take(LedgerEntry::Acknowledged { seq, at })?;
            }
            LedgerLine::ControlDone { seq } => history.take(LedgerEntry::ControlDone { seq })?,
            LedgerLine::Cut { at } => {
                self.last_at = at;
                history.take(LedgerEntry::Cut { at })?;
            }
            LedgerLine::Settled { cell, holds } => {
                if !history.cells().contains(&cell) {
                    return Err(HistoryError::Outside(cell));
                }
                history.settle(cell, holds);
            }
            LedgerLine::Verified => {
                self.has_load = false;
                history.begin_life();
                if self.head.arm.writes == FileWrites::Append {
                    history.empty(Layout::new(self.head.cells).journal, self.last_at);
                }
            }
        }
        Ok(())
    }
}

struct LedgerLines<R> {
    reader: R,
    number: u64,
    whole: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> LedgerLines<R> {
    /// `None` at the end, and if the last line is incomplete.
    fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.bytes.clear();
        io::Read::take(&mut self.reader, LINE_MAX).read_until(b'\n', &mut self.bytes)?;
        if self.bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        self.number += 1;
        self.whole += self.bytes.len() as u64;
        Ok(Some(&self.bytes))
    }
}

/// An open ledger: its file and its contents.
#[derive(Debug)]
pub(crate) struct LedgerBook {
    file: File,
    pub(crate) state: LedgerState,
}

impl LedgerBook {
    /// Starts a ledger in an empty file.
    pub(crate) fn begin(mut file: File, head: LedgerHead) -> Result<Self, LedgerError> {
        append(&mut file, &head)?;
        file.sync_data()?;
        Ok(Self { file, state: LedgerState::new(head) })
    }

    /// Continues the ledger in a file. Anything after its last whole line is unreadable, and is cut
    /// off.
    pub(crate) fn resume(mut file: File) -> Result<Self, LedgerError> {
        let state = read_ledger(&file)?;
        file.set_len(state.whole)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, state })
    }

    /// Appends a line, and applies it. The line survives the death of the process, but not of the
    /// machine.
    pub(crate) fn record(&mut self, line: LedgerLine) -> Result<(), LedgerError> {
        append(&mut self.file, &line)?;
        Ok(self.state.take(line)?)
    }

    /// Makes all lines durable.
    pub(crate) fn sync(&mut self) -> Result<(), LedgerError> {
        Ok(self.file.sync_data()?)
    }
}

fn append(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use durio_plan::proof::DurablePath;
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::Intent;

    fn head() -> LedgerHead {
        let owner = StampOwner { run: [7; 16], target: 1 };
        let arm = Arm::new(DurablePath::Fdatasync, 1);
        LedgerHead::new(owner, 64, arm)
    }

    fn intent(seq: u64) -> Intent {
        Intent { seq, sector: 8 * (1 + seq % 60), sectors: 8, is_control: seq.is_multiple_of(2) }
    }

    fn lines() -> Vec<LedgerLine> {
        let at = |nanos| Nanos::new(nanos);
        let writes = |seqs: std::ops::RangeInclusive<u64>| LedgerLine::Intended {
            writes: seqs.map(intent).collect(),
        };
        vec![
            LedgerLine::Prepared { at: at(5) },
            writes(1..=4),
            LedgerLine::Acknowledged { seq: 1, at: at(10) },
            LedgerLine::ControlDone { seq: 2 },
            LedgerLine::Acknowledged { seq: 3, at: at(20) },
            LedgerLine::Cut { at: at(30) },
            LedgerLine::Settled { cell: 5, holds: [4; SECTORS] },
            LedgerLine::Verified,
            writes(5..=6),
            LedgerLine::Acknowledged { seq: 5, at: at(40) },
        ]
    }

    fn text(lines: &[LedgerLine]) -> Vec<u8> {
        let line = |value: String| format!("{value}\n").into_bytes();
        let first = line(serde_json::to_string(&head()).unwrap());
        let rest = lines.iter().map(|entry| line(serde_json::to_string(entry).unwrap()));
        std::iter::once(first).chain(rest).flatten().collect()
    }

    #[test]
    fn a_ledger_is_read_as_it_was_kept() {
        let file = tempfile::tempfile().unwrap();
        let mut book = LedgerBook::begin(file.try_clone().unwrap(), head()).unwrap();
        lines().into_iter().for_each(|line| book.record(line).unwrap());
        let mut file = file;
        file.seek(SeekFrom::Start(0)).unwrap();
        let read = read_ledger(&file).unwrap();
        assert_eq!((read.next_seq, read.last_at, read.has_load), (7, Nanos::new(40), true));
        let history = read.history.unwrap();
        assert_eq!(history.cell(5).floor, [4; SECTORS]);
        assert_eq!(history.acknowledged().len(), 1, "of the life that was not verified");
        file.seek(SeekFrom::Start(0)).unwrap();
        assert_eq!(LedgerBook::resume(file).unwrap().state.next_seq, 7);
    }

    #[test]
    fn the_next_life_begins_with_an_empty_log_where_writes_append() {
        let log = Layout::new(64).journal;
        let settled = LedgerLine::Settled { cell: log.start, holds: [4; SECTORS] };
        let floors = [FileWrites::Overwrite, FileWrites::Append].map(|writes| {
            let head = LedgerHead { arm: Arm { writes, ..head().arm }, ..head() };
            let mut state = LedgerState::new(head);
            lines().into_iter().take(7).for_each(|line| state.take(line).unwrap());
            state.take(settled.clone()).unwrap();
            state.take(LedgerLine::Verified).unwrap();
            let history = state.history.unwrap();
            [log.start, 5].map(|cell| history.cell(cell).floor[0])
        });
        assert_eq!(floors, [[4, 4], [0, 4]]);
    }

    #[test]
    fn what_is_told_twice_or_late_changes_nothing() {
        let mut twice = lines();
        twice.insert(5, twice[2].clone());
        twice.insert(6, twice[4].clone());
        let history =
            |lines: &[LedgerLine]| read_ledger(&text(lines)[..]).unwrap().history.unwrap();
        let (once, twice) = (history(&lines()), history(&twice));
        for cell in once.cells() {
            assert_eq!(once.cell(cell), twice.cell(cell));
        }
    }

    #[test]
    fn a_ledger_that_contradicts_itself_is_refused_with_its_line() {
        let refused = |lines: &[LedgerLine]| read_ledger(&text(lines)[..]).unwrap_err().to_string();
        let unannounced = [lines()[0].clone(), lines()[2].clone()];
        assert_eq!(refused(&unannounced), "line 3 of the ledger is damaged");
        assert_eq!(refused(&lines()[1..]), "line 2 of the ledger is damaged");
        let far = LedgerLine::Settled { cell: 1 << 40, holds: [0; SECTORS] };
        assert_eq!(refused(&[lines()[0].clone(), far]), "line 3 of the ledger is damaged");
        for (from, to) in
            [("\"cells\":64", "\"cells\":18446744073709551615"), ("\"ledger\":1", "\"ledger\":2")]
        {
            let text = String::from_utf8(text(&[])).unwrap().replace(from, to);
            assert!(matches!(read_ledger(text.as_bytes()), Err(LedgerError::Unknown(_))));
        }
    }

    fn read_with(change: impl Fn(&mut LedgerHead)) -> Result<LedgerState, LedgerError> {
        let mut head = head();
        change(&mut head);
        let line = serde_json::to_string(&head).unwrap() + "\n";
        read_ledger(line.as_bytes())
    }

    #[test]
    fn a_head_has_its_bounds_on_both_sides() {
        let is_read = |cells| read_with(|head| head.cells = cells).is_ok();
        let bounds = [63, 64, 1_073_741_824, 1_073_741_825];
        assert_eq!(bounds.map(is_read), [false, true, true, false]);
        let versions = [0, 1, 2].map(|version| read_with(|head| head.ledger = version).is_ok());
        assert_eq!(versions, [true, true, false]);
        let error = read_with(|head| head.ledger = 2).unwrap_err().to_string();
        assert!(error.ends_with("its version is 2, and 1 is known"), "{error}");
        let error = read_with(|head| head.cells = 63).unwrap_err().to_string();
        assert!(error.ends_with("a target of 63 cells"), "{error}");
        let empty = read_ledger(&b""[..]).unwrap_err().to_string();
        assert!(empty.ends_with("it is empty"), "{empty}");
        assert_eq!((LINE_MAX, LEDGER_SCHEMA), (1_048_576, 1));
    }

    #[test]
    fn each_line_changes_what_the_ledger_says_and_nothing_else() {
        let mut state = LedgerState::new(head());
        let mut told = Vec::new();
        for line in lines() {
            state.take(line).unwrap();
            told.push((state.next_seq, state.last_at.get(), state.has_load));
        }
        let expected = [
            (1, 5, false),
            (5, 5, true),
            (5, 10, true),
            (5, 10, true),
            (5, 20, true),
            (5, 30, true),
            (5, 30, true),
            (5, 30, false),
            (7, 30, true),
            (7, 40, true),
        ];
        assert_eq!(told, expected);
        let history = state.history.unwrap();
        assert_eq!((history.cut_at(), history.cell(6).floor), (None, [5; SECTORS]));
    }

    #[test]
    fn a_cell_is_settled_within_the_stamped_ones_alone() {
        let settled = |cell| {
            let mut state = LedgerState::new(head());
            state.take(LedgerLine::Prepared { at: Nanos::new(5) }).unwrap();
            state.take(LedgerLine::Settled { cell, holds: [9; SECTORS] })
        };
        let stamped = Layout::new(64).stamped();
        assert_eq!([settled(stamped.start), settled(stamped.end - 1)], [Ok(()), Ok(())]);
        for cell in [stamped.start - 1, stamped.end] {
            assert_eq!(settled(cell), Err(HistoryError::Outside(cell)));
        }
        let early = LedgerState::new(head()).take(LedgerLine::Verified);
        assert_eq!(early, Err(HistoryError::Unprepared));
    }

    #[test]
    fn a_ledger_goes_on_behind_its_last_whole_line() {
        let mut file = tempfile::tempfile().unwrap();
        let whole = text(&lines()[..6]);
        file.write_all(&whole).unwrap();
        file.write_all(b"{\"entry\":\"torn").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut book = LedgerBook::resume(file.try_clone().unwrap()).unwrap();
        assert_eq!(book.state.whole, whole.len() as u64);
        assert_eq!(file.metadata().unwrap().len(), whole.len() as u64);
        lines().into_iter().skip(6).for_each(|line| book.record(line).unwrap());
        // What contradicts it is an error.
        let late = LedgerLine::Acknowledged { seq: 99, at: Nanos::new(50) };
        assert!(matches!(book.record(late), Err(LedgerError::Contradiction(_))));
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        assert!(bytes.starts_with(&text(&lines())), "as if it had not been interrupted");
    }

    #[test]
    fn where_nothing_can_be_made_to_last_that_is_an_error() {
        // A pipe takes lines, and no sync.
        let (_reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut book =
            LedgerBook { file: file.try_clone().unwrap(), state: LedgerState::new(head()) };
        book.record(LedgerLine::Prepared { at: Nanos::new(5) }).unwrap();
        assert!(matches!(book.sync(), Err(LedgerError::Io(_))));
        assert!(matches!(LedgerBook::begin(file, head()), Err(LedgerError::Io(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_damaged_ledger_is_read_to_some_line_or_refused(at in 0_usize..2000, bytes: [u8; 3], length in 0_usize..3) {
            let mut damaged = text(&lines());
            let at = at.min(damaged.len() - 3);
            damaged[at..at + length].copy_from_slice(&bytes[..length]);
            let _ = read_ledger(&damaged[..]);
        }

        #[test]
        fn a_torn_ledger_is_one_that_is_shorter(cut in 0_usize..2000) {
            let whole = text(&lines());
            let cut = cut.min(whole.len());
            let first = whole.iter().position(|&byte| byte == b'\n').unwrap();
            prop_assert_eq!(read_ledger(&whole[..cut]).is_ok(), cut > first);
        }
    }
}
