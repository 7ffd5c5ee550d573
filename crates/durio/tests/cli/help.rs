//! The manual: help texts, completions, man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::durio::Durio;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

/// The snapshots are `outputs/help.trycmd`.
#[test]
fn the_help_of_every_command_is_kept_as_a_snapshot() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs/help.trycmd");
    let kept = fs::read_to_string(kept).unwrap();
    let mut commands = vec![String::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let line = format!("{command} --help");
        assert!(kept.contains(&format!("$ durio {}\n", line.trim())), "{line}");
        let help = Durio::new().words(&line).run().expect_exit(0).expect_no_stderr().text();
        commands.extend(subcommands(&help).map(|name| format!("{command} {name}")));
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

/// Those that the help lists; in that of durio they are in groups.
fn subcommands(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().skip_while(|line| !["Commands:", "Measure:"].contains(line));
    let entries = lines.take_while(|line| !["Arguments:", "Options:"].contains(line));
    // Continuation lines are indented by more.
    let is_entry = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = entries.filter(is_entry).map(str::trim_start);
    names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help")
}

#[test]
fn the_help_lists_commands_by_their_purpose() {
    let long = Durio::new().words("--help").run().expect_exit(0).text();
    let short = Durio::new().words("-h").run().expect_exit(0).text();
    let by_word = Durio::new().words("help").run().expect_exit(0).text();
    assert_eq!(long, by_word);
    for help in [long, short] {
        let titles = ["\nMeasure:\n", "\nJudge:\n", "\nProve:\n", "\nBuild:\n", "\nKeep:\n"];
        let begins = titles.map(|title| help.find(title));
        assert!(begins.iter().all(Option::is_some) && begins.is_sorted(), "{begins:?} in {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
    // Without a command it is shown as well, as an answer to wrong use.
    Durio::new().run().expect_exit(2).expect_stderr("Measure:");
    let version = Durio::new().words("version").run().expect_exit(0).text();
    assert_eq!(version, Durio::new().words("--version").run().expect_exit(0).text());
}

#[test]
fn help_names_every_exit_code() {
    let ended = Durio::new().words("check --help").run().expect_exit(0);
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "130 "] {
        assert!(ended.text().contains(&format!("\n  {code}")), "{code}: {}", ended.text());
    }
}

#[test]
fn help_has_no_colour_bytes_where_stdout_is_no_terminal() {
    let ended = Durio::new().words("run --help").run().expect_exit(0);
    assert!(!ended.stdout.contains(&0x1b));
}

#[test]
fn completions_name_the_commands_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = Durio::new().words("completions").word(shell).run();
        let ended = ended.expect_exit(0).expect_no_stderr().expect_stdout("check");
        ended.expect_stdout("destroy").expect_stdout("postgresql").expect_stdout("commit-group-8");
    }
    Durio::new().words("completions teleprinter").run().expect_exit(2).expect_stderr("teleprinter");
}

#[test]
fn man_pages_are_written_into_an_existing_directory_only() {
    let sandbox = Sandbox::new();
    let pages = sandbox.root().join("man");
    sandbox.durio("man man").run().expect_exit(3).expect_stderr("man");
    assert!(!pages.exists());
    fs::create_dir(&pages).unwrap();
    sandbox.durio("man man").run().expect_exit(0).expect_no_stdout();
    let names: Vec<_> =
        entries(&pages).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    for page in [
        "durio.1",
        "durio-check.1",
        "durio-durable.1",
        "durio-run.1",
        "durio-plan.1",
        "durio-report.1",
        "durio-compare.1",
    ] {
        assert!(names.iter().any(|name| name == page), "{page} in {names:?}");
    }
    let page = fs::read_to_string(pages.join("durio-check.1")).unwrap();
    assert!(page.starts_with(".") && page.contains("commit\\-etcd"), "{page}");
    assert!(page.contains("\n.SH SYNOPSIS\ndurio check [OPTIONS] [PATH]..."), "{page}");
    let sections = ["EXAMPLES", "FILES", "\"EXIT STATUS\"", "\"SEE ALSO\""];
    let begins = sections.map(|name| page.find(&format!("\n.SH {name}\n")));
    assert!(begins.iter().all(Option::is_some) && begins.is_sorted(), "{begins:?} in {page}");
    for other in entries(&pages) {
        let page = fs::read_to_string(&other).unwrap();
        for name in ["EXAMPLES", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
            assert!(page.contains(&format!("\n.SH {name}\n")), "{name} in {other:?}");
        }
    }
}

#[test]
fn man_shows_every_page_without_a_warning() {
    if !has(&["man"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let pages = sandbox.root().join("man");
    fs::create_dir(&pages).unwrap();
    sandbox.durio("man man").run().expect_exit(0);
    for page in entries(&pages) {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&page).env("MANWIDTH", "80");
        let shown = man.env("LC_ALL", "C.UTF-8").output().unwrap();
        let warnings = String::from_utf8_lossy(&shown.stderr);
        assert!(shown.status.success() && warnings.is_empty(), "{page:?}: {warnings}");
        assert!(String::from_utf8_lossy(&shown.stdout).contains("SEE ALSO"), "{page:?}");
    }
}
