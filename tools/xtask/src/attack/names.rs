//! Hostile names and labels, through every command that shows them, in every format.
//!
//! Puts a name into a path or a label of a spec, a table or a record; reports output that a
//! terminal, a browser, a spreadsheet or a program would obey. `inputs` finds other faults of such
//! inputs.
//!
//! Every name begins and ends with a mark, so that its traces are found in any output.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::arena::{self, Arena, AttackCase, FolderFiles};
use super::launch::Launch;
use super::random::Random;
use super::rows::{AttackRow, fio, nothing};
use super::witness::{FolderTree, faults};

const LIMIT: Duration = Duration::from_secs(30);
const FORMATS: [&str; 5] = ["text", "json", "html", "csv", "fio-json"];
/// The start and end of every name.
const MARK: &str = "zq7";

const HOSTILE: [&str; 34] = [
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil\u{1b}\\link",
    // CSI as one character, which terminals obey like ESC [ (ECMA-48).
    "\u{9b}31m",
    "\r\nfit",
    "\nfit",
    "\u{8}\u{8}\u{8}",
    // Shown from right to left it ends in `exe.png`.
    "\u{202e}gnp.exe",
    "\u{2066}x\u{2069}",
    "\u{200f}",
    "\u{feff}",
    "\t",
    "'",
    "\"",
    "`id`",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg/onload=alert(1)>",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "&lt;b&gt;&#60;",
    "]]>",
    "{{7*7}}",
    // Spreadsheets take a cell that begins with =, +, - or @ for a formula.
    "=cmd|'/c calc'!A0",
    "+1+1",
    "@SUM(A1)",
    "-1+1",
    ";",
    "#",
    "%s%n%1$n",
    "$(touch evil)",
    "|",
    ",\",\n\"",
    "-rf",
    " ",
];

/// A hostile name; `is_path` leaves out names that no path can have.
fn name(random: &mut Random, is_path: bool) -> Vec<u8> {
    let hostile = random.pick(&HOSTILE);
    let mut name = match random.below(8) {
        // At the very start, where formulas and options are.
        0 | 1 => format!("{hostile}{MARK}"),
        // At the very end, where blanks are cut.
        2 => format!("{MARK}{hostile}"),
        3 => format!("{MARK}{}{hostile}", "x".repeat(random.below(200))),
        4 => format!("{MARK}{hostile}{}{MARK}", random.pick(&HOSTILE)),
        _ => format!("{MARK}{hostile}{MARK}"),
    }
    .into_bytes();
    if is_path {
        if random.once_in(8) {
            // Invalid UTF-8: Linux refuses only the slash and the zero byte in a name.
            name.extend([0xff, 0xc3, 0x28]);
        }
        name.retain(|byte| *byte != b'/');
        // NAME_MAX, in bytes.
        name.truncate(255);
    }
    name
}

pub(super) fn rows() -> Vec<AttackRow> {
    let row =
        |name, small, attack| AttackRow { name, small, full: small * 12, missing: nothing, attack };
    vec![
        row("names:record", 20, record),
        row("names:target", 20, target),
        AttackRow { missing: fio, ..row("names:fio-target", 10, fio_target) },
        row("names:spec", 14, spec),
        row("names:stack-spec", 8, stack_spec),
        row("names:claims", 12, claims),
        row("names:words", 14, words),
    ]
}

/// Runs a command and checks its output in its format.
fn judge(launch: Launch, format: &str) -> Result<Vec<String>> {
    let ended = launch.limit(LIMIT).run()?;
    let mut wrong = faults(&ended);
    wrong.extend(output_faults(&ended.stdout_text(), format));
    Ok(wrong)
}

/// Labels and paths in a record: the names in it are replaced.
fn record(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let mut files = random.pick(&arena.corpus()?.runs);
    let hostile = name(random, false);
    let hostile = String::from_utf8_lossy(&hostile);
    for (path, bytes) in &mut files {
        if path.extension().is_some_and(|ending| ending == "json") {
            label(bytes, &hostile, random);
        }
    }
    show(&case, &files, random)
}

fn show(case: &AttackCase, files: &FolderFiles, random: &mut Random) -> Result<Vec<String>> {
    arena::write(files, &case.path("run"))?;
    let format = random.pick(&FORMATS);
    judge(case.durio(&format!("report run --format {format}")), format)
}

/// Replaces some of the texts that are names.
fn label(bytes: &mut Vec<u8>, hostile: &str, random: &mut Random) {
    const NAMES: [&str; 12] = [
        "name", "path", "label", "summary", "source", "message", "model", "kernel", "purpose",
        "title", "text", "value",
    ];
    let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut open = vec![&mut document];
    while let Some(node) = open.pop() {
        match node {
            Value::Object(fields) => {
                for (key, field) in fields.iter_mut() {
                    if NAMES.contains(&key.as_str()) && field.is_string() && random.once_in(2) {
                        *field = hostile.into();
                    }
                    open.push(field);
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    *bytes = serde_json::to_vec(&document).unwrap_or_default();
}

/// Names of targets.
fn target(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    arena::user_files(&case.path("data"))?;
    let before = FolderTree::of(&case.path("data"));
    let hostile = OsString::from_vec(name(random, true));
    let format = random.pick(&FORMATS);
    let line = "run --quiet --rw randwrite --size 1MiB --ops 30 --no-self-cost --format";
    let path = case.path("data").join(hostile);
    let launch = case.durio(line).word(format).word("--target").word(path);
    let mut wrong = judge(launch, format)?;
    wrong.extend(before.differences(&FolderTree::of(&case.path("data"))));
    Ok(wrong)
}

/// The same with fio, which parses names by different rules; neighbours have the name that fio
/// would make of it.
fn fio_target(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    const TAILS: [&str; 10] = ["#1", ";1", " ", "\t", ":1", " #", "\\", "%s", "$jobnum", "\"x"];
    let case = arena.case()?;
    arena::user_files(&case.path("data"))?;
    let before = FolderTree::of(&case.path("data"));
    let tail = TAILS[number % TAILS.len()];
    let rw = random.pick(&["randread", "randwrite"]);
    let path = case.path("data").join(format!("keep{tail}"));
    let line = format!("run --quiet --rw {rw} --engine fio:psync --size 1MiB --ops 30 --target");
    let mut wrong = judge(case.durio(&line).word(path), "text")?;
    wrong.extend(before.differences(&FolderTree::of(&case.path("data"))));
    Ok(wrong)
}

/// The name as a text of TOML.
fn quoted(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        _ if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        _ => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Names and words of a campaign, measured and shown.
fn spec(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let hostile = quoted(&name(random, false));
    let key =
        ["summary = \"a campaign for attacks\"", "name = \"small\"", "name = \"read\""][number % 3];
    let with = format!("{} = {hostile}", key.split(' ').next().unwrap_or_default());
    fs::write(case.path("x.toml"), arena::CAMPAIGN.replacen(key, &with, 1))?;
    let format = random.pick(&FORMATS);
    let planned = judge(case.durio("plan x.toml --target data"), "text")?;
    let line = format!("run x.toml --quiet --target data --scale-time 0.1 --format {format}");
    Ok([planned, judge(case.durio(&line), format)?].concat())
}

fn stack_spec(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let hostile = quoted(&name(random, false));
    let key = ["name = \"small\"", "name = \"first\"", "name = \"write\"", "ext4 = {}"][number % 4];
    let with = match key {
        "ext4 = {}" => format!("ext4 = {{ mkfs = [{hostile}] }}"),
        _ => format!("name = {hostile}"),
    };
    fs::write(case.path("x.toml"), arena::stack_spec(&case, "100ms").replacen(key, &with, 1))?;
    let format = random.pick(&["text", "json"]);
    judge(case.durio(&format!("stack plan x.toml --format {format}")), format)
}

/// Labels of published numbers.
fn claims(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let hostile = name(random, false);
    let hostile = String::from_utf8_lossy(&hostile);
    let corpus = arena.corpus()?;
    let (file, text) = if number.is_multiple_of(2) {
        let cell = format!("\"{}\"", hostile.replace('"', "\"\""));
        let text = String::from_utf8_lossy(&corpus.tables[0]).replacen("lookup", &cell, 1);
        let random_header = random.once_in(3).then(|| text.replacen("p50", &cell, 1));
        ("x.csv", random_header.unwrap_or(text).into_bytes())
    } else {
        let mut text = random.pick(&corpus.fio_json);
        label_jobs(&mut text, &hostile);
        ("x.json", text)
    };
    fs::write(case.path(file), text)?;
    let format = random.pick(&["text", "json"]);
    judge(case.durio(&format!("audit {file} --format {format}")), format)
}

fn label_jobs(bytes: &mut Vec<u8>, hostile: &str) {
    let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else { return };
    for job in document["jobs"].as_array_mut().into_iter().flatten() {
        job["jobname"] = hostile.into();
        job["job options"]["name"] = hostile.into();
    }
    document["fio version"] = hostile.into();
    *bytes = serde_json::to_vec(&document).unwrap_or_default();
}

/// The name as a word of the command line: refused, and shown in the refusal.
fn words(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    const LINES: [&str; 14] = [
        "report",
        "plan",
        "audit",
        "profile show",
        "stack plan",
        "stack show",
        "advise --rule",
        "advise --database",
        "run --engine",
        "run --destroy",
        "compare",
        "lab run --kernel",
        "run --format",
        "fio --plan --name",
    ];
    let case = arena.case()?;
    let hostile = name(random, true);
    let launch = case.durio(LINES[number % LINES.len()]).word(OsStr::from_bytes(&hostile));
    let ended = launch.limit(LIMIT).run()?;
    // `durio lab` has a separate exit code for its failures.
    Ok(super::witness::faults_but(&ended, &[125]))
}

/// The faults of an output in this format.
fn output_faults(text: &str, format: &str) -> Vec<String> {
    match format {
        "html" => html(text),
        "csv" => csv(text),
        "json" | "fio-json" => json(text),
        _ => table(text),
    }
}

/// Elements on which durio's pages have no more than these attributes: an attribute that begins
/// with `on` is a script.
fn html(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lower = text.to_lowercase();
    for script in lower.split("<script").skip(1) {
        let script = script.split("</script").next().unwrap_or_default();
        match script.split_once('>') {
            // A block of data may contain names, but nothing that ends the block early or that
            // changes how the browser reads it (`<!--`), and it must be whole.
            Some((attributes, data)) if attributes.contains("type=\"application/json\"") => {
                let is_data = !data.contains('<') && serde_json::from_str::<Value>(data).is_ok();
                wrong.extend((!is_data).then(|| "a block of data that a name can end".to_owned()));
            }
            // The page's scripts do not contain the marks.
            _ if script.contains(MARK) => wrong.push("a name within a script".to_owned()),
            _ => {}
        }
    }
    for tag in tags(&lower) {
        let mut attributes = outside_of_quotes(tag);
        attributes.retain(|c| c != '\n');
        let begins_with_on =
            attributes.split_whitespace().skip(1).any(|word| word.starts_with("on"));
        if begins_with_on
            || ["<img", "<iframe", "<object", "<embed"].iter().any(|start| tag.starts_with(start))
        {
            wrong.push(format!("active HTML: {}", super::witness::shown(tag)));
        }
        let is_marked = tag.contains(&format!("javascript:alert(1){MARK}"));
        if is_marked && tag.contains("href") {
            wrong.push("a link to a script".to_owned());
        }
    }
    wrong
}

/// `<name …>`, each from its bracket to the one that ends it.
fn tags(text: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    for (at, _) in text.match_indices('<') {
        let rest = &text[at..];
        if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            let mut quote = None;
            let end = rest.find(|c| {
                match (quote, c) {
                    (None, '"' | '\'') => quote = Some(c),
                    (Some(it), _) if it == c => quote = None,
                    _ => {}
                }
                quote.is_none() && c == '>'
            });
            tags.push(&rest[..end.unwrap_or(rest.len())]);
        }
    }
    tags
}

fn outside_of_quotes(tag: &str) -> String {
    let mut quote = None;
    let outside = tag.chars().filter(|&c| match quote {
        None if c == '"' || c == '\'' => {
            quote = Some(c);
            false
        }
        None => true,
        Some(it) => {
            if it == c {
                quote = None;
            }
            false
        }
    });
    outside.collect()
}

/// Every row of a table has as many cells as its header, and no cell with a name is a formula.
fn csv(text: &str) -> Vec<String> {
    let rows = cells(text);
    let mut wrong = Vec::new();
    let mut width = None;
    for row in &rows {
        if row.len() == 1 && row[0].is_empty() {
            width = None;
        } else if *width.get_or_insert(row.len()) != row.len() {
            wrong.push(format!(
                "a row of {} cells below a header of {}",
                row.len(),
                width.unwrap_or(0)
            ));
            break;
        }
    }
    let is_formula =
        |cell: &&String| cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.contains(MARK);
    let formula = rows.iter().flatten().find(is_formula);
    wrong.extend(formula.map(|cell| format!("a formula: {}", super::witness::shown(cell))));
    wrong
}

/// The rows of a table by RFC 4180.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = letters.next() {
        match c {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(c),
        }
    }
    rows
}

fn json(text: &str) -> Vec<String> {
    let is_broken = !text.is_empty() && serde_json::from_str::<serde_json::Value>(text).is_err();
    if is_broken { vec!["no JSON".to_owned()] } else { Vec::new() }
}

/// No line of a table was started by a name: text after a line feed in a name is never at the start
/// of a line.
fn table(text: &str) -> Vec<String> {
    let is_torn = text.lines().any(|line| line.starts_with(&format!("fit{MARK}")));
    if is_torn { vec!["a name tears a line".to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_would_run_is_found_and_what_it_shows_is_not() {
        assert_eq!(html("<p title=\"on x=1\">zq7&lt;img src=x onerror=alert(1)&gt;</p>"), [""; 0]);
        assert_eq!(html("<p>zq7<img src=x onerror=alert(1)></p>").len(), 1);
        assert_eq!(html("<p title='zq7' onmouseover='alert(1)'>x</p>").len(), 1);
        assert_eq!(html("<script>let name = 'zq7';</script>").len(), 1);
        assert_eq!(html("<a href=\"javascript:alert(1)zq7\">x</a>").len(), 1);
        let block =
            |data: &str| html(&format!("<script type=\"application/json\">{data}</script>"));
        assert_eq!(block("{\"name\": \"zq7\\u003c/script>\"}"), [""; 0]);
        assert_eq!(block("{\"name\": \"zq7</script>\"}").len(), 1);
        assert_eq!(block("{\"name\": \"zq7<!--\"}").len(), 1);
    }

    #[test]
    fn a_torn_row_and_a_formula_are_found() {
        assert_eq!(csv("a,b\n1,\"x\ny,z\"\n"), [""; 0]);
        assert_eq!(csv("a,b\n1,2,3\n").len(), 1);
        assert_eq!(csv("a,b\n-1,=1+1zq7\n").len(), 1);
    }

    #[test]
    fn a_torn_line_and_a_torn_document_are_found() {
        assert_eq!(table("x zq7\\nfitzq7\n"), [""; 0]);
        assert_eq!(table("x zq7\nfitzq7\n").len(), 1);
        assert_eq!((json("{\"a\": 1}").len(), json("{\"a\": \"").len(), json("").len()), (0, 1, 0));
    }
}
