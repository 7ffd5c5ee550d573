//! The manual: help texts as one snapshot, completions, man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::durio::Durio;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

/// Compared with `help.txt`; `DURIO_TEST_REWRITE=1` writes that anew.
#[test]
fn help_texts_are_as_reviewed() {
    let mut all = String::new();
    let lines = [
        "check",
        "durable",
        "run",
        "sweep",
        "plan",
        "report",
        "explain",
        "audit",
        "compare",
        "fio",
        "stack",
        "stack show",
        "stack plan",
        "stack bench",
        "stack clean",
        "lab",
        "lab run",
        "lab kernels",
        "lab compare",
        "prove",
        "prove run",
        "prove plan",
        "prove witness",
        "prove write",
        "prove verify",
        "prove exec",
        "prove states",
        "simdisk",
        "simdisk list",
        "simdisk serve",
        "simdisk cut",
        "simdisk restore",
        "simdisk stats",
        "simdisk fault",
        "simdisk fork",
        "simdisk mark",
        "raid",
        "raid create",
        "raid examine",
        "raid start",
        "raid status",
        "raid fail",
        "raid add",
        "raid replace",
        "raid remove",
        "raid stop",
    ]
    .map(|it| format!("{it} --help"));
    for line in ["--help", "-V"].into_iter().chain(lines.iter().map(String::as_str)) {
        let ended = Durio::new().words(line).run().expect_exit(0).expect_no_stderr();
        all.push_str(&format!("$ durio {line}\n{}\n", ended.text()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help.txt");
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        fs::write(&path, &all).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap();
    let first = all.lines().zip(reviewed.lines()).find(|(now, reviewed)| now != reviewed);
    assert!(all == reviewed, "now and as reviewed: {first:?}; DURIO_TEST_REWRITE=1 accepts it");
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
