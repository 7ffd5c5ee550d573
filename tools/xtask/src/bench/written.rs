//! `--write`: puts a bench's output in its place in docs/benchmarks.md.
//!
//! Runs this process again without `--write`, passes its output on and, if it succeeds, writes it
//! between the two marks of that bench. Text outside the marks names no number that a command
//! prints.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cargo;

const DOCUMENT: &str = "docs/benchmarks.md";
const OPTION: &str = "--write";
const END: &str = "<!-- end -->";

/// Runs the bench of this process's arguments, and writes its output to the document.
pub(super) fn run_bench() -> Result<ExitCode> {
    let words: Vec<_> = env::args().collect();
    run(&bench_name(&words)?)
}

/// Runs this process's arguments, and writes the output behind the mark of this command.
pub(crate) fn run(command: &str) -> Result<ExitCode> {
    let words: Vec<_> = env::args().skip(1).filter(|it| it != OPTION).collect();
    let path = cargo::workspace_root().join(DOCUMENT);
    let document = || fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"));
    // A bench takes minutes: report a missing mark before it.
    let mark = format!("<!-- cargo xtask {command} -->");
    replaced(&document()?, &mark, "")?;
    let program = env::current_exe().context("this program has no path")?;
    let mut child = Command::new(program)
        .args(&words)
        .stdout(Stdio::piped())
        .spawn()
        .context("the bench cannot be started")?;
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        writeln!(io::stdout(), "{line}")?;
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let status = child.wait().context("the bench cannot be waited for")?;
    ensure!(status.success(), "the bench failed; {DOCUMENT} is as it was");
    // It may have been edited in the meantime.
    fs::write(&path, replaced(&document()?, &mark, &text)?)
        .with_context(|| format!("cannot write {DOCUMENT}"))?;
    eprintln!("written to {DOCUMENT}");
    Ok(ExitCode::SUCCESS)
}

/// The command of a bench, without its options.
fn bench_name(words: &[String]) -> Result<String> {
    let name = words.iter().skip_while(|it| *it != "bench").skip(1).find(|it| !it.starts_with('-'));
    Ok(format!("bench {}", name.context("no bench is named")?))
}

/// The document with another text behind the mark.
pub(crate) fn replaced(document: &str, mark: &str, text: &str) -> Result<String> {
    let (before, rest) = document
        .split_once(mark)
        .with_context(|| format!("there is no line '{mark}' where its figures go"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no '{END}' after '{mark}'"))?;
    Ok(format!("{before}{mark}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let document = "a\n<!-- cargo xtask bench x -->\nold\n<!-- end -->\nb\n<!-- end -->\n";
        let words = ["bench", "--check", "x", "--pairs", "7"].map(str::to_owned);
        let name = bench_name(&words).unwrap();
        assert_eq!(name, "bench x");
        let mark = format!("<!-- cargo xtask {name} -->");
        let now = replaced(document, &mark, "new\n").unwrap();
        let expected = "a\n<!-- cargo xtask bench x -->\n\nnew\n\n<!-- end -->\nb\n<!-- end -->\n";
        assert_eq!(now, expected);
        assert_eq!(replaced(&now, &mark, "new\n").unwrap(), expected);
        assert!(replaced(document, "<!-- cargo xtask bench y -->", "new").is_err());
    }
}
