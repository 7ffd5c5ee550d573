//! The page in a browser: nothing refused, nothing asked for.
//!
//! Without a browser these tests are skipped, and say so: `DURIO_TEST_MISSING` names what the
//! machine lacks, `DURIO_TEST_SKIPS` a file for one line per skipped test.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use durio_report::Format;
use serde_json::Value;
use tempfile::TempDir;

use crate::campaign::CAMPAIGN;
use crate::{sample, written};

const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];

const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=2000",
    "--window-size=1200,3000",
];

/// An address of this machine that nobody listens at (the discard port).
const NOBODY: &str = "http://127.0.0.1:9/planted.png";

/// What a browser made of a page.
pub(crate) struct Visit {
    /// Lines that the page, or the browser about the page, wrote to the console.
    pub(crate) console: Vec<String>,
    /// Addresses that were asked for over a network.
    pub(crate) requests: Vec<String>,
    /// Bytes of the screenshot.
    pub(crate) screenshot: u64,
}

#[test]
fn the_page_shows_itself_and_asks_for_nothing() {
    for findings in [sample::complete(), sample::hostile(), CAMPAIGN.clone()] {
        let html = written(Format::Html, &findings);
        let Some(visit) = visit("the_page_shows_itself_and_asks_for_nothing", &html) else {
            return;
        };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
}

#[test]
fn a_planted_image_is_refused_and_seen() {
    let html = written(Format::Html, &sample::complete());
    let planted = html.replace("<main>", &format!("<main><img src=\"{NOBODY}\">"));
    assert_ne!(html, planted);
    let Some(visit) = visit("a_planted_image_is_refused_and_seen", &planted) else { return };
    assert!(visit.console.iter().any(|line| line.contains("Content Security Policy")));
    assert_eq!(visit.requests, [""; 0]);
}

#[test]
fn without_the_policy_the_request_is_seen() {
    let html = written(Format::Html, &sample::complete());
    let planted = html
        .replace("<main>", &format!("<main><img src=\"{NOBODY}\">"))
        .replace("Content-Security-Policy", "no-policy");
    let Some(visit) = visit("without_the_policy_the_request_is_seen", &planted) else { return };
    assert!(visit.requests.iter().any(|url| url == NOBODY), "{:?}", visit.requests);
}

#[test]
fn an_unknown_script_is_refused_and_seen() {
    let html = written(Format::Html, &sample::complete());
    let planted = html.replace("</body>", "<script>document.title = \"planted\"</script></body>");
    let Some(visit) = visit("an_unknown_script_is_refused_and_seen", &planted) else { return };
    assert!(visit.console.iter().any(|line| line.contains("Content Security Policy")));
}

#[test]
fn the_pointer_finds_exact_values() {
    const MOVE: &str = "<script>for (const plot of document.querySelectorAll('[id] .plot')) {
        const box = plot.getBoundingClientRect();
        const at = {clientX: box.left + box.width / 2, clientY: box.top + 9, bubbles: true};
        plot.dispatchEvent(new PointerEvent('pointermove', at));
        console.log('tip ' + plot.querySelector('.tip').textContent);
    }</script></body>";
    let html = written(Format::Html, &sample::complete());
    let moved = html.replace("</body>", MOVE).replace("Content-Security-Policy", "no-policy");
    let Some(visit) = visit("the_pointer_finds_exact_values", &moved) else { return };
    let tips: Vec<_> = visit.console.iter().filter(|line| line.contains("tip ")).collect();
    assert_eq!(tips.len(), 11, "{:?}", visit.console);
    assert!(tips[0].contains("durable commit ") && tips[0].contains(" µs"), "{}", tips[0]);
    assert!(tips[2].contains("at 2.65 s") && tips[2].contains("rate 6.49 k/s"), "{}", tips[2]);
}

/// What a script logs that is run in the page.
fn logged(test: &str, script: &str) -> Option<Vec<String>> {
    let html = written(Format::Html, &sample::complete());
    let script = format!("<script>{script}</script></body>");
    let planted = html.replace("</body>", &script).replace("Content-Security-Policy", "no-policy");
    Some(visit(test, &planted)?.console)
}

#[test]
fn tables_sort_links_unfold_and_keys_move_along_a_chart() {
    const SCRIPT: &str = "
        const table = document.querySelector('table.figures');
        const first = () => table.tBodies[0].rows[0].cells[0].textContent;
        const button = table.tHead.querySelectorAll('button')[1];
        button.click(); const least = first();
        button.click(); const most = first();
        console.log('sorted ' + (least !== most) + ' ' + table.querySelectorAll('[aria-sort=descending]').length);
        const link = [...document.querySelectorAll('nav a')].at(-2);
        const folded = document.querySelector(link.hash + ' details');
        folded.open = false;
        addEventListener('hashchange', () => console.log('unfolded ' + folded.open));
        link.click();
        const plot = document.querySelector('.plot');
        const press = key => {
            plot.dispatchEvent(new KeyboardEvent('keydown', {key}));
            return plot.querySelector('.tip').textContent;
        };
        const before = press('Home');
        console.log('moved ' + (before !== '' && before !== press('End')));";
    let test = "tables_sort_links_unfold_and_keys_move_along_a_chart";
    let Some(console) = logged(test, SCRIPT) else { return };
    for expected in ["sorted true 1", "unfolded true", "moved true"] {
        assert!(console.iter().any(|line| line.contains(expected)), "{expected}: {console:?}");
    }
}

/// Opens the page; none if there is no browser, which is then reported under the test's name.
pub(crate) fn visit(test: &str, html: &str) -> Option<Visit> {
    let folder = tempfile::tempdir().unwrap();
    let said =
        opened(test, html, &folder, &[("log-net-log", "net.json"), ("screenshot", "page.png")])?;
    let picture = fs::metadata(folder.path().join("page.png"));
    Some(Visit {
        console: said.lines().filter(|line| line.contains(":CONSOLE:")).map(Into::into).collect(),
        requests: requests(&folder.path().join("net.json")),
        screenshot: picture.map_or(0, |bytes| bytes.len()),
    })
}

/// The number of pages on paper; none if there is no browser.
pub(crate) fn printed_pages(test: &str, html: &str) -> Option<usize> {
    let folder = tempfile::tempdir().unwrap();
    opened(test, html, &folder, &[("print-to-pdf", "page.pdf")])?;
    let pdf = fs::read(folder.path().join("page.pdf")).unwrap();
    // The root of the tree of pages has the highest count (ISO 32000-1, 7.7.3.2).
    let pdf = String::from_utf8_lossy(&pdf);
    let counts = pdf.split("/Count ").skip(1);
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    Some(counts.filter_map(number).max().unwrap())
}

/// What the browser writes to stderr about the page; each option takes the name of a file in the folder.
fn opened(test: &str, html: &str, folder: &TempDir, options: &[(&str, &str)]) -> Option<String> {
    fs::write(folder.path().join("report.html"), html).unwrap();
    let Some(output) = open(folder, options) else {
        skipped(test, "no chromium-headless-shell here");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

fn open(folder: &TempDir, options: &[(&str, &str)]) -> Option<Output> {
    let missing = std::env::var("DURIO_TEST_MISSING").unwrap_or_default();
    let missing: Vec<_> = missing.split(',').collect();
    let at = |name: &str| folder.path().join(name).display().to_string();
    // A machine that is said to lack one of them is to be tested as one without a browser.
    let is_missing = BROWSERS.iter().any(|browser| missing.contains(browser));
    BROWSERS.into_iter().filter(|_| !is_missing).find_map(|browser| {
        let mut command = Command::new(browser);
        command.args(FLAGS).arg(format!("--user-data-dir={}", at("profile")));
        command.args(options.iter().map(|(option, name)| format!("--{option}={}", at(name))));
        command.arg(format!("file://{}", at("report.html"))).output().ok()
    })
}

/// The addresses in the browser's log of its network that are not on this disk.
fn requests(log: &Path) -> Vec<String> {
    let log: Value = serde_json::from_slice(&fs::read(log).unwrap()).unwrap();
    let urls = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|request| request["params"]["url"].as_str().map(ToOwned::to_owned));
    let mut urls: Vec<_> = urls
        .filter(|url| {
            ["http:", "https:", "ws:", "wss:"].iter().any(|scheme| url.starts_with(scheme))
        })
        .collect();
    urls.dedup();
    urls
}

fn skipped(test: &str, reason: &str) {
    // Not by eprintln, which libtest swallows in a test that passes.
    let line = format!("SKIPPED browser::{test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "browser::{test}: {reason}").unwrap();
    }
}
