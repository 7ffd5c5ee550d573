//! `cargo xtask pictures`: README's pictures and sample lines from real runs, and the chart of
//! docs/results.md.
//!
//! Takes durio and a directory to measure. Writes docs/check.svg and docs/prove.svg (terminal output),
//! docs/report.png (the page, where Chromium is installed), the samples in README.md, and
//! docs/results.svg (see `chart`).

mod chart;

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::cargo;

/// What is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct PicturesArguments {
    /// The durio to run [default: the release build, which is made first]
    #[arg(long, value_name = "PATH")]
    durio: Option<PathBuf>,
    /// Measure below this directory [default: cargo's target folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make only these [default: all]
    #[arg(value_name = "PART")]
    parts: Vec<PictureKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PictureKind {
    /// The chart of docs/results.md, from the table in docs/benchmarks.md; measures nothing
    Chart,
    /// A check in a terminal and its page
    Check,
    /// The sample lines in README
    Samples,
    /// A lying disk under SQLite, in a terminal; needs a kernel of the lab
    Prove,
}

/// A command whose output becomes a picture, cut after so many lines.
struct TerminalPicture {
    file: &'static str,
    command: &'static str,
    lines: usize,
}

/// Runs in the measured directory.
const CHECK: TerminalPicture =
    TerminalPicture { file: "docs/check.svg", command: "durio check .", lines: 30 };

/// Runs in the checkout, which has the script.
const PROVE: TerminalPicture = TerminalPicture {
    file: "docs/prove.svg",
    command: "durio prove exec --disk flush-ignored --setup 'contrib/prove/sqlite.sh setup' \\\n    \
              --check 'contrib/prove/sqlite.sh check' -- contrib/prove/sqlite.sh load",
    lines: 30,
};

const PAGE: &str = "docs/report.png";
const README: &str = "README.md";

/// A comment before the fenced block that the first lines of a command's output fill.
const SAMPLE: &str = "<!-- sample: ";
/// Most answers are a sentence of two or three lines.
const SAMPLE_LINES: usize = 4;

const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// Makes the pictures; a sample whose command fails keeps its lines.
pub(crate) fn run(arguments: &PicturesArguments) -> Result<ExitCode> {
    let root = cargo::workspace_root();
    let is_wanted =
        |part: PictureKind| arguments.parts.is_empty() || arguments.parts.contains(&part);
    if is_wanted(PictureKind::Chart) {
        chart::write(&root)?;
        if arguments.parts == [PictureKind::Chart] {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let stage = Stage::new(arguments)?;
    if is_wanted(PictureKind::Check) {
        stage.draw(&CHECK, stage.measured.path(), &root)?;
        stage.photograph_page(&root.join(PAGE))?;
    }
    if is_wanted(PictureKind::Samples) {
        let readme = root.join(README);
        let document =
            fs::read_to_string(&readme).with_context(|| format!("cannot read {README}"))?;
        fs::write(&readme, refreshed(&document, |command| stage.sample(command))?)
            .with_context(|| format!("cannot write {README}"))?;
    }
    // Last: it needs a kernel of the lab, which the others do not.
    if is_wanted(PictureKind::Prove) {
        stage.draw(&PROVE, &root, &root)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the commands run: their state with a link to durio for the search path, and the directory
/// that they measure.
struct Stage {
    folder: TempDir,
    measured: TempDir,
}

impl Stage {
    fn new(arguments: &PicturesArguments) -> Result<Self> {
        let program = match &arguments.durio {
            Some(path) => path.clone(),
            None => release_build()?,
        };
        let program =
            program.canonicalize().with_context(|| format!("no durio at {}", program.display()))?;
        let folder = tempfile::tempdir()?;
        symlink(program, folder.path().join("durio"))?;
        let place = match &arguments.dir {
            Some(dir) => dir.clone(),
            None => cargo::metadata()?.target_directory.into_std_path_buf(),
        };
        // Not the system's temporary folder, which may lie in memory.
        let measured = tempfile::tempdir_in(&place)
            .with_context(|| format!("no folder can be made in {}", place.display()))?;
        Ok(Self { folder, measured })
    }

    /// Stdout of a command of the shell; durio's verdicts end with 0 or 1.
    fn output(&self, command: &str, folder: &Path, colour: &str) -> Result<String> {
        println!("$ {command}");
        let mut search = OsString::from(self.folder.path());
        search.push(":");
        search.push(env::var_os("PATH").unwrap_or_default());
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder)
            .env("PATH", search)
            .env("TERM", "xterm-256color")
            .env("XDG_STATE_HOME", self.state())
            // A configuration file may add options.
            .env("XDG_CONFIG_HOME", self.folder.path().join("config"))
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .env(colour, "1")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run in {}", folder.display()))?;
        ensure!(matches!(output.status.code(), Some(0 | 1)), "{command}: {}", output.status);
        let text = String::from_utf8(output.stdout)
            .with_context(|| format!("{command}: output is not text"))?;
        // The default place, as users see it.
        Ok(text.replace(&self.state().display().to_string(), "~/.local/state"))
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn draw(&self, picture: &TerminalPicture, folder: &Path, root: &Path) -> Result<()> {
        let output = self.output(picture.command, folder, "CLICOLOR_FORCE")?;
        fs::write(root.join(picture.file), terminal(picture.command, &output, picture.lines))
            .with_context(|| format!("cannot write {}", picture.file))
    }

    /// The first screen of the latest run's page.
    fn photograph_page(&self, picture: &Path) -> Result<()> {
        let is_installed = |browser: &&str| {
            let version = Command::new(*browser).arg("--version").output();
            version.is_ok_and(|output| output.status.success())
        };
        let Some(browser) = BROWSERS.into_iter().find(is_installed) else {
            eprintln!("{PAGE} is unchanged: no chromium-headless-shell is installed");
            return Ok(());
        };
        self.output("durio report last --output page.html", self.folder.path(), "NO_COLOR")?;
        let status = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--virtual-time-budget=2000", "--window-size=1280,900"])
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{}", self.folder.path().join("page.html").display()))
            .stderr(Stdio::null())
            .status()
            .with_context(|| format!("cannot run {browser}"))?;
        ensure!(status.success(), "{browser}: {status}");
        Ok(())
    }

    fn sample(&self, command: &str) -> Option<String> {
        let output = self.output(command, self.measured.path(), "NO_COLOR");
        output
            .map(|output| first_sentence(&output))
            .inspect_err(|error| eprintln!("a sample is unchanged: {error:#}"))
            .ok()
    }
}

fn release_build() -> Result<PathBuf> {
    let built = cargo::command(&["build", "--release", "-p", "durio"]).status();
    ensure!(built.context("cannot run cargo")?.success(), "durio cannot be built");
    Ok(cargo::metadata()?.target_directory.into_std_path_buf().join("release/durio"))
}

/// A terminal with a command and its output, as SVG.
fn terminal(command: &str, output: &str, lines: usize) -> String {
    anstyle_svg::Term::new().render_svg(&format!("$ {command}\n{}", cut(output, lines)))
}

/// At most this number of lines; the last is "…" where some were cut.
fn cut(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    if all.len() <= lines {
        return all.join("\n");
    }
    let kept: Vec<&str> = all.into_iter().take(lines.saturating_sub(1)).chain(["…"]).collect();
    kept.join("\n")
}

fn first_sentence(output: &str) -> String {
    let end = output.lines().take(SAMPLE_LINES).position(|line| line.ends_with('.'));
    let lines: Vec<&str> = output.lines().take(end.map_or(0, |at| at + 1)).collect();
    if lines.is_empty() { cut(output, SAMPLE_LINES) } else { lines.join("\n") }
}

/// The document with the output of each sample's command in its fence; without an output a sample
/// stays.
fn refreshed(document: &str, output: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut parts = document.split(SAMPLE);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (command, rest) = part.split_once(" -->\n").context("a sample has no end")?;
        let fence = rest.strip_prefix("```text\n").and_then(|rest| rest.split_once("```\n"));
        let (old, after) =
            fence.with_context(|| format!("no fence behind the sample '{command}'"))?;
        let lines = match output(command) {
            Some(new) => format!("$ {command}\n{new}\n"),
            None => old.to_owned(),
        };
        text.push_str(&format!("{SAMPLE}{command} -->\n```text\n{lines}```\n{after}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLOURED: &str = "\u{1b}[1m\u{1b}[33mCaution:\u{1b}[0m 5 commits\nrow <a>\nrow b\n";

    const DRAWN: &str = r#"<svg width="740px" height="74px" xmlns="http://www.w3.org/2000/svg">
  <style>
    .fg { fill: #AAAAAA }
    .bg { fill: #000000 }
    .fg-yellow { fill: #AA5500 }
    .container {
      padding: 0 10px;
      line-height: 18px;
    }
    .bold { font-weight: bold; }
    tspan {
      font: 14px SFMono-Regular, Consolas, Liberation Mono, Menlo, monospace;
      white-space: pre;
      line-height: 18px;
    }
  </style>

  <rect width="100%" height="100%" y="0" rx="4.5" class="bg" />

  <text xml:space="preserve" class="container fg">
    <tspan x="10px" y="28px"><tspan>$ durio check .</tspan>
</tspan>
    <tspan x="10px" y="46px"><tspan class="fg-yellow bold">Caution:</tspan><tspan> 5 commits</tspan>
</tspan>
    <tspan x="10px" y="64px"><tspan>…</tspan>
</tspan>
  </text>

</svg>
"#;

    #[test]
    fn a_terminal_keeps_colours_and_ends_with_an_ellipsis_where_lines_were_cut() {
        assert_eq!(terminal("durio check .", COLOURED, 2), DRAWN);
        let whole = terminal("durio check .", COLOURED, 3);
        assert!(whole.contains("<tspan>row &lt;a&gt;</tspan>") && !whole.contains('…'), "{whole}");
    }

    #[test]
    fn a_sample_is_the_first_sentence_or_four_lines() {
        assert_eq!(first_sentence("Good: a,\nb (1.5 ms).\nnext.\n"), "Good: a,\nb (1.5 ms).");
        assert_eq!(first_sentence("a\nb\nc\nd\n"), "a\nb\nc\nd");
        assert_eq!(first_sentence("a\nb\nc\nd\ne.\n"), "a\nb\nc\n…");
    }

    #[test]
    fn only_fences_behind_samples_with_an_output_change() {
        let document = "a\n<!-- sample: durio x -->\n```text\n$ durio x\nold\n```\nb\n\
                        <!-- sample: durio y -->\n```text\n$ durio y\nkept\n```\n\n```text\nc\n```\n";
        let output = |command: &str| (command == "durio x").then(|| "new 1\nnew 2".to_owned());
        let expected = document.replace("old\n", "new 1\nnew 2\n");
        assert_eq!(refreshed(document, output).unwrap(), expected);
        let error = refreshed("<!-- sample: durio z -->\nno fence\n", output).unwrap_err();
        assert_eq!(error.to_string(), "no fence behind the sample 'durio z'");
    }
}
