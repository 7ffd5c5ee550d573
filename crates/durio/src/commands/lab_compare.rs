//! `durio lab compare`: the same stacks on two kernels, in turns.
//!
//! In: a spec and two kernels, or the folder of such a comparison. Out: a folder with a bench of
//! each turn, and how the cost of each layer changed, on stdout. Not here: how a guest benches, and
//! how the benches are judged.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use durio_analyse::attribution::{LabComparison, StackFindings, compare_labs};
use durio_block::rename_new;
use durio_record::bench::BenchFolder;
use durio_record::lab_compare::{
    LAB_COMPARE_FOLDER_SCHEMA, LabCompareBench, LabCompareFolder, LabCompareManifest,
    LabCompareSide,
};
use durio_record::{FolderName, Outcome, file_names};
use durio_report::{Format, Options};
use durio_run::StopFlag;
use durio_units::Nanos;

use super::stack::GuestBench;
use crate::args::LabCompare;
use crate::execute::{absolute, command_line};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::stack_findings::stack_findings;
use crate::state_folder::runs_folder;
use crate::stop_signals::stop_on_signals;

pub(crate) fn compare(arguments: &LabCompare) -> Result<Exit, Failure> {
    let [before, after] = arguments.kernels.as_slice() else {
        let text = format!("{} kernels are given, and two are compared", arguments.kernels.len());
        return Err(Failure::new(Exit::WrongUse, text)
            .hint("write --kernel twice; durio lab kernels lists those that can be booted"));
    };
    let kernels = [before.as_path(), after.as_path()];
    let started = SystemTime::now();
    let name = FolderName::new("lab-compare", started, std::process::id());
    let path = runs_folder(arguments.out.as_deref())?.join(name.as_str());
    let turns = Turns { arguments, kernels, folder: &path };
    // What the last turn would be refused for is refused before the first.
    LabCompareSide::BOTH.into_iter().try_for_each(|side| turns.bench(side).check())?;
    let stop = stop_on_signals()?;
    let manifest = manifest(&turns, name.as_str(), started);
    let mut folder = LabCompareFolder::create(&path, manifest)?;
    let exit = turns.run(&mut folder, &stop);
    if exit.is_err() && folder.manifest.benches.is_empty() {
        folder.discard();
        return exit;
    }
    output::remark(&format!("durio: folder of the comparison: {}", path.display()));
    match exit? {
        Exit::Interrupted => {
            output::remark("durio: interrupted; durio report FOLDER shows what is there");
            Ok(Exit::Interrupted)
        }
        exit => {
            let shown = conclude(&folder, arguments.format)?;
            Ok(if exit == Exit::Fine { shown } else { exit })
        }
    }
}

fn manifest(turns: &Turns<'_>, name: &str, started: SystemTime) -> LabCompareManifest {
    LabCompareManifest {
        schema: LAB_COMPARE_FOLDER_SCHEMA,
        comparison: name.to_owned(),
        durio_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: FolderName::rfc3339(started),
        command: command_line(),
        kernels: turns.kernels.map(|kernel| kernel.display().to_string()),
        repeats: turns.arguments.repeat,
        seed: turns.arguments.seed,
        outcome: None,
        benches: Vec::new(),
    }
}

/// The benches of a comparison, A and B in turns, so that what drifts meets both.
struct Turns<'a> {
    arguments: &'a LabCompare,
    kernels: [&'a Path; 2],
    folder: &'a Path,
}

impl Turns<'_> {
    fn bench(&self, side: LabCompareSide) -> GuestBench<'_> {
        let [before, after] = self.kernels;
        GuestBench {
            spec: &self.arguments.spec,
            choosing: &self.arguments.choosing,
            guest: &self.arguments.guest,
            kernel: Some(if side == LabCompareSide::A { before } else { after }),
            modules: None,
            seed: Some(self.arguments.seed),
            quiet: self.arguments.quiet,
            runs: self.folder,
        }
    }

    /// Runs all turns and says in the manifest how they ended.
    fn run(&self, folder: &mut LabCompareFolder, stop: &StopFlag) -> Result<Exit, Failure> {
        let exit = self.all(folder, stop);
        folder.manifest.outcome = Some(match exit {
            Ok(Exit::Fine) => Outcome::Complete,
            Ok(Exit::Interrupted) => Outcome::Interrupted,
            _ => Outcome::Failed,
        });
        folder.save()?;
        exit
    }

    fn all(&self, folder: &mut LabCompareFolder, stop: &StopFlag) -> Result<Exit, Failure> {
        let repeats = self.arguments.repeat;
        let turns = (1..=repeats).flat_map(|repeat| LabCompareSide::BOTH.map(|it| (repeat, it)));
        let begin = Instant::now();
        let mut worst = Exit::Fine;
        for (done, (repeat, side)) in (0_u32..).zip(turns) {
            self.announce(repeat, side, remaining(begin.elapsed(), done, 2 * repeats));
            let exit = self.turn(folder, repeat, side, stop)?;
            if exit == Exit::Interrupted {
                return Ok(exit);
            }
            worst = if worst == Exit::Fine { exit } else { worst };
        }
        Ok(worst)
    }

    fn announce(&self, repeat: u32, side: LabCompareSide, remaining: Option<Duration>) {
        if self.arguments.quiet {
            return;
        }
        let left = remaining.map_or_else(String::new, |time| {
            format!("; about {} more", Nanos::from_secs(time.as_secs()))
        });
        let (letter, repeats) = (side.letter(), self.arguments.repeat);
        output::remark(&format!("durio: repeat {repeat} of {repeats}, kernel {letter}{left}"));
    }

    fn turn(
        &self,
        folder: &mut LabCompareFolder,
        repeat: u32,
        side: LabCompareSide,
        stop: &StopFlag,
    ) -> Result<Exit, Failure> {
        let (bench, exit) = self.bench(side).run(stop)?;
        let name = side.folder(repeat);
        let to = self.folder.join(&name);
        rename_new(&bench, &to).map_err(|error| cannot("move a bench to", &to, error))?;
        folder.manifest.benches.push(LabCompareBench { side, repeat, folder: name });
        folder.save()?;
        Ok(exit)
    }
}

/// What the turns that are left will take, to whole seconds, if those to come take as long as those
/// before; nothing before the first.
fn remaining(elapsed: Duration, done: u32, all: u32) -> Option<Duration> {
    let each = elapsed.checked_div(done)?;
    Some(Duration::from_secs((each * all.saturating_sub(done)).as_secs()))
}

fn cannot(doing: &str, path: &Path, error: std::io::Error) -> Failure {
    let context = format!("cannot {doing} '{}'", path.display());
    Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context(context),
        hints: Vec::new(),
    }
}

/// Shows what was found, and keeps the same beside the manifest.
fn conclude(folder: &LabCompareFolder, format: Format) -> Result<Exit, Failure> {
    let (comparison, exit) = comparison(folder)?;
    for (name, format) in [(file_names::FINDINGS, Format::Json), (file_names::REPORT, Format::Html)]
    {
        let bytes = output::rendered_lab_comparison(format, &comparison, Options::default())?;
        folder.save_file(name, &bytes)?;
    }
    output::lab_comparison(format, &comparison)?;
    Ok(exit)
}

/// A comparison again, from its folder alone, as far as it came.
pub(super) fn show(folder: &LabCompareFolder, format: Format) -> Result<Exit, Failure> {
    if format == Format::FioJson {
        return Err(Failure::new(Exit::WrongUse, "fio JSON is not supported for comparisons")
            .hint("report one of its runs instead: durio report FOLDER/a1/RUN --format fio-json"));
    }
    let (comparison, exit) = comparison(folder)?;
    output::lab_comparison(format, &comparison)?;
    Ok(exit)
}

fn comparison(folder: &LabCompareFolder) -> Result<(LabComparison, Exit), Failure> {
    let mut exit = Exit::Fine;
    let mut side = |side: LabCompareSide| -> Result<Vec<StackFindings>, Failure> {
        let mut all = Vec::new();
        for path in folder.benches(side) {
            let (findings, of_record) = stack_findings(&BenchFolder::open(&absolute(&path))?)?;
            exit = if exit == Exit::Fine { of_record } else { exit };
            all.push(findings);
        }
        Ok(all)
    };
    let (before, after) = (side(LabCompareSide::A)?, side(LabCompareSide::B)?);
    let comparison = compare_labs(&before, &after).map_err(|error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context("the two cannot be compared"),
        hints: Vec::new(),
    })?;
    Ok((comparison, exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_from_what_was_done() {
        let seconds = Duration::from_secs;
        assert_eq!(remaining(seconds(0), 0, 6), None);
        assert_eq!(remaining(seconds(50), 1, 6), Some(seconds(250)));
        assert_eq!(remaining(seconds(300), 5, 6), Some(seconds(60)));
    }
}
