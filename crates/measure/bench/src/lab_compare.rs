//! The same stacks on two kernels, in turns. A spec and two kernels, or the folder of such a
//! comparison, give a folder with a bench of each turn, and how the cost of each layer changed.

use std::path::Path;
use std::time::{Duration, Instant};

use durio_analyse::attribution::{LabComparison, StackFindings, compare_labs};
use durio_base::Nanos;
use durio_block::rename_new;
use durio_command::{CommandError, Ending, StopFlag, command_line};
use durio_layers::DeclaredStack;
use durio_record::Outcome;
use durio_record::bench::{
    BenchFolder, LAB_COMPARE_FOLDER_SCHEMA, LabCompareBench, LabCompareFolder, LabCompareManifest,
    LabCompareSide,
};

use crate::execute::{Execution, RunOptions, absolute, save_findings};
use crate::guest::GuestBench;
use crate::observer::Observer;
use crate::read_back::{ReadBack, read_bench};

/// Which stacks on which kernels.
#[derive(Debug, Clone, Copy)]
pub struct LabComparing<'a> {
    /// The bench of a turn; its kernel and its folder are those of the turn.
    pub bench: GuestBench<'a>,
    /// The older one first.
    pub kernels: [&'a Path; 2],
    /// Benches of each kernel.
    pub repeats: u32,
    /// The seed of all random choices, the same for all benches.
    pub seed: u64,
    /// Where the folder is made; the state folder without it.
    pub out: Option<&'a Path>,
}

/// A comparison that can start.
#[derive(Debug)]
pub struct LabInterleaving<'a> {
    request: LabComparing<'a>,
    execution: Execution,
}

/// A comparison that is over.
#[derive(Debug)]
pub struct LabCompareOutcome {
    pub folder: LabCompareFolder,
    /// How its turns ended.
    pub ending: Ending,
}

impl<'a> LabInterleaving<'a> {
    /// Refuses before the first turn anything that would fail in the last one.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn prepare(request: LabComparing<'a>) -> Result<Self, CommandError> {
        // One seed for all: what differs between the benches is the kernel.
        let options =
            RunOptions { out: request.out, seed: Some(request.seed), ..RunOptions::default() };
        let execution = Execution::begin("lab-compare", &options)?;
        let it = Self { request, execution };
        LabCompareSide::BOTH.into_iter().try_for_each(|side| it.bench(side).check())?;
        Ok(it)
    }

    /// Runs all turns, A and B after each other, so that what drifts meets both.
    ///
    /// # Errors
    /// If a turn leaves nothing behind; without any turn the folder is removed too.
    pub fn run(
        &self,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<LabCompareOutcome, CommandError> {
        let mut folder = LabCompareFolder::create(self.execution.folder(), self.manifest())?;
        let ending = match self.all(&mut folder, stop, observer) {
            Err(error) if folder.manifest.benches.is_empty() => {
                folder.discard();
                return Err(error);
            }
            ending => ending,
        };
        folder.manifest.outcome = Some(match ending {
            Ok(Ending::Complete) => Outcome::Complete,
            Ok(Ending::Interrupted) => Outcome::Interrupted,
            _ => Outcome::Failed,
        });
        let saved = folder.update(&folder.manifest);
        let path = self.execution.folder().display();
        observer.remark(&format!("durio: folder of the comparison: {path}"));
        saved?;
        Ok(LabCompareOutcome { ending: ending?, folder })
    }

    fn bench(&self, side: LabCompareSide) -> GuestBench<'_> {
        let [before, after] = self.request.kernels;
        let kernel = Some(if side == LabCompareSide::A { before } else { after });
        GuestBench { kernel, runs: self.execution.folder(), ..self.request.bench }
    }

    fn manifest(&self) -> LabCompareManifest {
        let (comparison, started) = self.execution.identity();
        LabCompareManifest {
            schema: LAB_COMPARE_FOLDER_SCHEMA,
            comparison,
            durio_version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            command: command_line(),
            kernels: self.request.kernels.map(|kernel| kernel.display().to_string()),
            repeats: self.request.repeats,
            seed: self.request.seed,
            outcome: None,
            benches: Vec::new(),
        }
    }

    fn all(
        &self,
        folder: &mut LabCompareFolder,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<Ending, CommandError> {
        let repeats = self.request.repeats;
        let begin = Instant::now();
        turns(repeats, |done, (repeat, side)| {
            let left = remaining(begin.elapsed(), done, 2 * repeats);
            observer.progress(&self.announcement(repeat, side, left));
            self.turn(folder, (repeat, side), stop, observer)
        })
    }

    fn announcement(
        &self,
        repeat: u32,
        side: LabCompareSide,
        remaining: Option<Duration>,
    ) -> String {
        let left = remaining.map_or_else(String::new, |time| {
            format!("; about {} more", Nanos::from_secs(time.as_secs()))
        });
        let (letter, repeats) = (side.letter(), self.request.repeats);
        format!("durio: repeat {repeat} of {repeats}, kernel {letter}{left}")
    }

    fn turn(
        &self,
        folder: &mut LabCompareFolder,
        (repeat, side): (u32, LabCompareSide),
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<Ending, CommandError> {
        let (bench, ending) = self.bench(side).run(stop, observer)?;
        let name = side.folder(repeat);
        let to = self.execution.folder().join(&name);
        rename_new(&bench, &to).map_err(|error| CommandError::io("move a bench to", &to, error))?;
        folder.manifest.benches.push(LabCompareBench { side, repeat, folder: name });
        // After each turn, so that the finished part of a killed comparison can be shown.
        folder.update(&folder.manifest)?;
        Ok(ending)
    }
}

/// Does `run` for each turn, with how many were done before it, until one is interrupted; how the first
/// ended that did not end well.
fn turns(
    repeats: u32,
    mut run: impl FnMut(u32, (u32, LabCompareSide)) -> Result<Ending, CommandError>,
) -> Result<Ending, CommandError> {
    let turns = (1..=repeats).flat_map(|repeat| LabCompareSide::BOTH.map(|side| (repeat, side)));
    let mut ending = Ending::Complete;
    for (done, turn) in (0_u32..).zip(turns) {
        let of_turn = run(done, turn)?;
        // Any other bad end is that turn's: the repeats that are left are worth having.
        if of_turn == Ending::Interrupted {
            return Ok(of_turn);
        }
        ending = ending.or_else(of_turn);
    }
    Ok(ending)
}

/// The time for the remaining turns, in whole seconds, if they take as long as those before; `None`
/// before the first.
fn remaining(elapsed: Duration, done: u32, all: u32) -> Option<Duration> {
    let each = elapsed.checked_div(done)?;
    Some(Duration::from_secs((each * all.saturating_sub(done)).as_secs()))
}

/// Saves the comparison next to the manifest.
///
/// # Errors
/// If the folder cannot be written.
pub fn save_lab_comparison(
    folder: &LabCompareFolder,
    comparison: &LabComparison,
) -> Result<(), CommandError> {
    save_findings(comparison, |name, bytes| folder.save(name, bytes))
}

/// The findings of a comparison, from the finished part of its folder.
///
/// # Errors
/// If there is nothing to compare.
pub fn read_lab_comparison(
    folder: &LabCompareFolder,
    observer: &dyn Observer,
) -> Result<ReadBack<LabComparison>, CommandError> {
    let mut is_damaged = false;
    let mut side = |side: LabCompareSide| -> Result<Vec<StackFindings>, CommandError> {
        let mut all = Vec::new();
        for path in folder.benches(side) {
            let read =
                read_bench(&BenchFolder::<DeclaredStack>::open(&absolute(&path))?, observer)?;
            is_damaged |= read.is_damaged;
            all.push(read.findings);
        }
        Ok(all)
    };
    let (before, after) = (side(LabCompareSide::A)?, side(LabCompareSide::B)?);
    let findings = compare_labs(&before, &after)
        .map_err(|error| CommandError::cannot(error).context("the two cannot be compared"))?;
    Ok(ReadBack { findings, is_damaged })
}

#[cfg(test)]
mod tests {
    use durio_command::CommandErrorKind;

    use super::*;

    #[test]
    fn a_turn_that_fails_is_not_forgotten_and_those_after_it_are_taken() {
        use LabCompareSide::{A, B};
        let all = [(0, (1, A)), (1, (1, B)), (2, (2, A)), (3, (2, B)), (4, (3, A)), (5, (3, B))];
        let of = |endings: [Ending; 6]| {
            let mut taken = Vec::new();
            let ending = turns(3, |done, turn| {
                taken.push((done, turn));
                Ok(endings[done as usize])
            });
            (ending.unwrap(), taken)
        };
        let (well, stopped) = (Ending::Complete, Ending::Interrupted);
        let [bad, worse] =
            [CommandErrorKind::CannotMeasure, CommandErrorKind::Fault].map(Ending::Failed);
        assert_eq!(of([well; 6]), (well, all.to_vec()));
        for (endings, ending) in [
            ([bad, well, well, well, well, well], bad),
            ([well, well, well, worse, bad, well], worse),
            ([well, well, well, well, well, bad], bad),
        ] {
            assert_eq!(of(endings), (ending, all.to_vec()));
        }
        let broken_off = of([well, bad, well, stopped, well, well]);
        assert_eq!(broken_off, (stopped, all[..4].to_vec()));
        let mut taken = 0;
        let left_nothing = turns(3, |_, _| {
            taken += 1;
            Err(CommandError::cannot_measure("planted"))
        });
        assert_eq!((left_nothing.unwrap_err().to_string().as_str(), taken), ("planted", 1));
    }

    #[test]
    fn what_is_left_is_told_from_what_was_done() {
        let seconds = Duration::from_secs;
        assert_eq!(remaining(seconds(0), 0, 6), None);
        assert_eq!(remaining(seconds(50), 1, 6), Some(seconds(250)));
        assert_eq!(remaining(seconds(300), 5, 6), Some(seconds(60)));
    }
}
