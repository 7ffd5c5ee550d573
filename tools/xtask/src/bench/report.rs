//! `bench report`: the time to show a campaign's record again, and to compare it.
//!
//! Takes the record of one step on the null engine's virtual clock, multiplied. Prints CPU time and
//! peak memory of `durio report` and `durio compare` against their goals; elapsed time says little
//! on a shared machine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::{self, BenchGoal};
use super::machine;
use super::session::{self, BenchSession, Interrupt, Priority};

/// The largest planned campaign.
const STEPS: u32 = 500;
/// Fifty intervals of commits, writes and syncs.
const ONE_STEP: &str = "--engine null --rw write --sync fdatasync --duration 50s --interval 1s";

const SECONDS_MAX: f64 = 2.0;
const MEBIBYTES_MAX: f64 = 300.0;

/// The cost of one command.
struct CommandUsage {
    label: &'static str,
    seconds: f64,
    mebibytes: f64,
}

pub(super) fn run(interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let session = BenchSession::begin(interrupt)?;
    machine::print("A record of 500 steps, shown again and compared", &session);
    let records = [1, 2].map(|seed| record(&session, seed));
    let [first, second] = records;
    let (first, second) = (first?, second?);
    let commands = [
        ("report, text", vec!["report".into(), first.clone().into()]),
        ("report, json", words("report", &[&first], "json")),
        ("report, html", words("report", &[&first], "html")),
        ("report, fio-json", words("report", &[&first], "fio-json")),
        ("compare, text", words("compare", &[&first, &second], "text")),
    ];
    let taken = commands.into_iter().map(|(label, words)| timed(&session, label, words));
    let taken = taken.collect::<Result<Vec<_>>>()?;
    println!("\n{STEPS} steps of 50 intervals\n");
    figures::print_table(
        &["command", "CPU time, s", "peak memory, MiB"],
        taken.iter().map(|usage| {
            [
                usage.label.to_owned(),
                format!("{:.2}", usage.seconds),
                format!("{:.0}", usage.mebibytes),
            ]
        }),
    );
    let goals: Vec<_> = taken.iter().flat_map(goals_of).collect();
    figures::print_goals(&goals);
    Ok(goals)
}

fn goals_of(taken: &CommandUsage) -> [BenchGoal; 2] {
    let CommandUsage { label, seconds, mebibytes } = taken;
    [
        BenchGoal::at_most(format!("{label}: CPU time"), *seconds, SECONDS_MAX, 2, " s"),
        BenchGoal::at_most(format!("{label}: peak memory"), *mebibytes, MEBIBYTES_MAX, 0, " MiB"),
    ]
}

fn words(command: &str, folders: &[&PathBuf], format: &str) -> Vec<OsString> {
    let mut words = vec![command.into(), "--format".into(), format.into()];
    words.extend(folders.iter().map(|folder| folder.as_os_str().to_owned()));
    words
}

/// User and system time and peak memory, reported by GNU time.
fn timed(
    session: &BenchSession,
    label: &'static str,
    words: Vec<OsString>,
) -> Result<CommandUsage> {
    let mut all: Vec<OsString> = ["time", "-f", "%U %S %M"].map(OsString::from).into();
    all.push(session.program().into());
    all.extend(words);
    let printed = session.run(&all, Priority::Plain)?;
    // GNU time writes when durio has ended: its line is the last.
    let line = printed.stderr.lines().last().context("time printed nothing; is it GNU time?")?;
    let figures: Vec<f64> = line.split(' ').filter_map(|figure| figure.parse().ok()).collect();
    let [user, system, kibibytes] = figures[..] else {
        anyhow::bail!("'{line}' is not what GNU time prints");
    };
    Ok(CommandUsage { label, seconds: user + system, mebibytes: kibibytes / 1024.0 })
}

/// The record of a campaign: that of one step, repeated under other numbers.
fn record(session: &BenchSession, seed: u32) -> Result<PathBuf> {
    let out = session::subfolder(session.scratch(), &format!("one-{seed}"))?;
    // A hundred different latencies, others for each seed.
    let latencies: Vec<_> =
        (0..100).map(|step| format!("{}us", 80 + step * step * (6 + seed) / 97)).collect();
    let options = format!("{ONE_STEP} --seed {seed} --null-latency {}", latencies.join(","));
    let head = ["run", "--quiet", "--no-self-cost", "--out"].map(OsString::from);
    let mut all = vec![session.program().into()];
    all.extend(head);
    all.push(out.clone().into());
    all.extend(options.split(' ').map(OsString::from));
    session.run(&all, Priority::Plain)?;
    let one = fs::read_dir(&out)?.next().context("the run has no folder")??.path();
    let many = session::subfolder(session.scratch(), &format!("many-{seed}"))?;
    multiply(&one, &many)?;
    Ok(many)
}

fn multiply(one: &Path, many: &Path) -> Result<()> {
    let mut plan: Value = serde_json::from_slice(&fs::read(one.join("plan.json"))?)?;
    let steps = plan["steps"].as_array_mut().context("a plan without steps")?;
    ensure!(steps.len() == 1, "{} steps instead of one", steps.len());
    let step = steps.remove(0);
    for index in 0..STEPS {
        let mut again = step.clone();
        again["index"] = index.into();
        again["workload"]["name"] = format!("step {index}").into();
        steps.push(again);
    }
    fs::write(many.join("plan.json"), serde_json::to_vec(&plan)?)?;
    for name in ["environment.json", "run.json"] {
        fs::copy(one.join(name), many.join(name))?;
    }
    let text = fs::read_to_string(one.join("events.jsonl"))?;
    fs::write(many.join("events.jsonl"), repeated(&text, "\"step\":0,"))?;
    let text = fs::read_to_string(one.join("histograms.hlog"))?;
    fs::write(many.join("histograms.hlog"), repeated(&text, "Tag=step0."))?;
    Ok(())
}

/// The lines with `mark` for each step, in the place of the first of them.
fn repeated(text: &str, mark: &str) -> String {
    let is_of_step = |line: &&str| line.contains(mark);
    let block: String = text.lines().filter(is_of_step).fold(String::new(), |mut sum, line| {
        let _ = writeln!(sum, "{line}");
        sum
    });
    let before = text.lines().take_while(|line| !is_of_step(line));
    let after = text.lines().skip_while(|line| !is_of_step(line)).filter(|line| !is_of_step(line));
    let mut all = before.fold(String::new(), |sum, line| sum + line + "\n");
    for step in 0..STEPS {
        let numbered = block.replace("\"step\":0,", &format!("\"step\":{step},"));
        all.push_str(&numbered.replace("step0.", &format!("step{step}.")));
    }
    after.fold(all, |sum, line| sum + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_repeated_under_other_numbers_between_what_is_of_the_run() {
        let text = "begin\n{\"step\":0,\"tag\":\"step0.a\"}\n{\"step\":0,}\nend\n";
        let all = repeated(text, "\"step\":0,");
        let lines: Vec<_> = all.lines().collect();
        assert_eq!(lines.len(), 2 + 2 * STEPS as usize);
        assert_eq!((lines[0], lines[lines.len() - 1]), ("begin", "end"));
        assert_eq!(lines[3], "{\"step\":1,\"tag\":\"step1.a\"}");
    }
}
