//! The generated pages of the reference.
//!
//! Turns the built durio's output (help texts, and as JSON its explanations and profiles) into
//! pages in Markdown.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A page of the book.
#[derive(Debug)]
pub(super) struct BookPage {
    /// In the checkout.
    pub(super) path: String,
    pub(super) text: String,
}

/// A term printed in reports, and its place in the book.
#[derive(Debug)]
pub(super) struct ExplainedTerm {
    /// In docs/, without its ending.
    pub(super) page: &'static str,
    /// The anchor there.
    pub(super) anchor: String,
}

/// Each kind of explanation has a separate page.
struct ExplanationPage {
    name: &'static str,
    page: &'static str,
    title: &'static str,
    intro: &'static str,
}

const KINDS: [ExplanationPage; 6] = [
    ExplanationPage {
        name: "word",
        page: "reference/verdicts",
        title: "Verdicts and other words",
        intro: "What the words of reports, comparisons, audits and advice mean. The limits behind \
                `fit` and `unfit` are in [Databases and their limits](databases.md).",
    },
    ExplanationPage {
        name: "warning",
        page: "reference/warnings",
        title: "Warnings",
        intro: "What durio says against its own figures. A report lists the ids under `caveats`; \
                with `--verbose` it says of each what was seen, why it matters and what to do. Most \
                severe first.",
    },
    ExplanationPage {
        name: "signal",
        page: "reference/signals",
        title: "Signals about flushes",
        intro: "What can be said about a storage's flush without cutting its power. Each signal has \
                one of four words: [`unsafe-config`](verdicts.md#unsafe-config), \
                [`suspect`](verdicts.md#suspect), [`declared`](verdicts.md#declared), \
                [`fact`](verdicts.md#fact). None of them acquits: that a flush is done, only a power \
                cut can show.",
    },
    ExplanationPage {
        name: "audit-rule",
        page: "reference/audit-rules",
        title: "Audit rules",
        intro: "What `durio audit` holds against published figures, fio's results and durio's own \
                runs. Every figure was rounded before it was printed, so a rule treats it as an \
                interval and speaks only if all of the interval is on one side.",
    },
    ExplanationPage {
        name: "cause",
        page: "reference/causes",
        title: "Causes of slow commits",
        intro: "What `durio why` names as the cause of a slow commit, and what to do about it. How a \
                cause is found is in [How durio explains slow commits](../method/why.md), where to \
                begin in [Why are my commits slow?](../how-to/slow-commits.md).",
    },
    ExplanationPage {
        name: "advice-rule",
        page: "reference/advice-rules",
        title: "Advice rules",
        intro: "What `durio advise` holds against the settings of a machine. `${…}` stands for what \
                it reads there. durio never advises a setting that lowers durability. Rules that a \
                measurement can settle are proved by `durio advise --prove ID`.",
    },
];

const GENERATED: &str = "<!-- Written by `cargo xtask book` from what durio prints. -->\n\n";

/// All generated pages, and everything that they explain.
pub(super) fn pages(program: &Path) -> Result<(Vec<BookPage>, Vec<ExplainedTerm>)> {
    let durio = DurioProgram(program);
    let (mut pages, explained) = explanations(&durio)?;
    pages.push(commands(&durio)?);
    pages.push(exit_codes(&durio)?);
    pages.push(databases(&durio)?);
    pages.push(built_in(&durio)?);
    Ok((pages, explained))
}

/// The program to run.
struct DurioProgram<'a>(&'a Path);

impl DurioProgram<'_> {
    fn text(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.0);
        // The width in a pipe, whatever the terminal.
        command.args(words).env("COLUMNS", "100").env("NO_COLOR", "1");
        let output = command.output().with_context(|| format!("{command:?} does not start"))?;
        ensure!(output.status.success(), "{command:?} failed");
        String::from_utf8(output.stdout).with_context(|| format!("{command:?} prints no text"))
    }

    fn json(&self, words: &[&str]) -> Result<Value> {
        let text = self.text(&[words, &["--format", "json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("durio {words:?} prints no JSON"))
    }
}

fn page(name: &str, title: &str, body: &str) -> BookPage {
    let text = format!("# {title}\n\n{GENERATED}{}\n", body.trim_end());
    BookPage { path: format!("{}/{name}.md", super::SOURCES), text }
}

/// A text of a document; empty if absent.
fn at<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn each<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Escapes characters that have a meaning in Markdown.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for sign in text.chars() {
        if matches!(sign, '*' | '_' | '<' | '>' | '[' | ']' | '|' | '`' | '\\' | '#' | '~') {
            shown.push('\\');
        }
        shown.push(sign);
    }
    shown
}

/// Programs with which texts begin.
const PROGRAMS: [&str; 8] = ["bcache", "durio", "echo", "ext4", "f2fs", "lvs", "mdadm", "zfs"];

/// As a sentence: texts of tables begin in lower case and end without a full stop.
fn sentence(text: &str) -> String {
    let mut signs = text.chars();
    let Some(first) = signs.next() else { return String::new() };
    let end = if text.ends_with(['.', '?', ':']) { "" } else { "." };
    // The name of a setting, device or program keeps its case.
    let word = text.split([' ', ',']).next().unwrap_or_default();
    let is_name = PROGRAMS.contains(&word)
        || word.contains(['_', '/', '='])
        || word.chars().skip(1).any(char::is_uppercase);
    let first = if is_name { first.to_string() } else { first.to_uppercase().to_string() };
    plain(&format!("{first}{}{end}", signs.as_str()))
}

fn explanations(durio: &DurioProgram<'_>) -> Result<(Vec<BookPage>, Vec<ExplainedTerm>)> {
    let all = durio.json(&["explain"])?;
    let (mut pages, mut explained) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let mut body = format!("{}\n\n`durio explain ID` says the same offline.\n", kind.intro);
        for it in each(&all, "explanations").filter(|term| at(term, "kind") == kind.name) {
            let id = at(it, "id");
            explained.push(ExplainedTerm { page: kind.page, anchor: super::anchor(id) });
            body.push_str(&explanation(id, it));
        }
        pages.push(page(kind.page, kind.title, &body));
    }
    let known = each(&all, "explanations").count();
    ensure!(known == explained.len(), "durio explains a kind of thing that has no page");
    Ok((pages, explained))
}

fn explanation(id: &str, it: &Value) -> String {
    let mut text = format!("\n## {id}\n\n");
    for (label, key) in [("", "what"), ("Why it matters", "why"), ("What to do", "advice")] {
        match (label, at(it, key)) {
            (_, "") => {}
            ("", words) => text.push_str(&format!("{}\n\n", sentence(words))),
            (label, words) => text.push_str(&format!("**{label}:** {}\n\n", sentence(words))),
        }
    }
    for fact in each(it, "facts") {
        let (label, words, url) = (at(fact, "label"), at(fact, "text"), at(fact, "url"));
        let shown = match label {
            "command" | "undo" | "udev rule" | "setting" | "name" => format!("`{words}`"),
            "given as" => linked_words(words),
            _ if url.is_empty() => plain(words),
            _ => format!("[{}]({url})", plain(words)),
        };
        text.push_str(&format!("- {label}: {shown}\n"));
    }
    format!("{}\n", text.trim_end())
}

/// Words of a report, each with its explanation.
fn linked_words(words: &str) -> String {
    let linked = |word: &str| format!("[{word}](verdicts.md#{word})");
    words.split(", ").map(linked).collect::<Vec<_>>().join(" or ")
}

/// The end of the help text and the start of the table of exit codes.
const EXIT_CODES: &str = "Exit codes:\n";

fn without_exit_codes(help: &str) -> &str {
    help.split_once(EXIT_CODES).map_or(help, |(text, _)| text).trim_end()
}

/// The names of the commands that a help text lists; in that of durio they are in groups.
fn commands_of(help: &str) -> Vec<String> {
    let list = ["\nCommands:\n", "\nMeasure:\n"].iter().find_map(|title| help.split_once(title));
    let Some((_, list)) = list else { return Vec::new() };
    let lines = list.lines().take_while(|line| !["Arguments:", "Options:"].contains(line));
    // The continuation of a description is indented further.
    let named = lines
        .filter_map(|line| line.strip_prefix("  ").filter(|command| !command.starts_with(' ')));
    let names = named.filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn commands(durio: &DurioProgram<'_>) -> Result<BookPage> {
    let mut body = String::from(
        "The help texts of the program, as `durio help COMMAND` prints them. The exit codes are the \
         same for all commands: [Exit codes](exit-codes.md).\n",
    );
    let mut waiting = vec![Vec::new()];
    while let Some(name) = waiting.pop() {
        let words: Vec<&str> = name.iter().map(String::as_str).collect();
        let help = durio.text(&[&words[..], &["--help"]].concat())?;
        let title = [&["durio"], &words[..]].concat().join(" ");
        // clap puts spaces into empty lines. Help texts contain no fences.
        let lines: Vec<&str> = without_exit_codes(&help).lines().map(str::trim_end).collect();
        let text = lines.join("\n");
        write!(body, "\n## {title}\n\n```text\n{text}\n```\n")?;
        let below = commands_of(&help).into_iter().rev();
        waiting.extend(below.map(|sub| [name.clone(), vec![sub]].concat()));
    }
    Ok(page("reference/commands", "Commands", &body))
}

fn exit_codes(durio: &DurioProgram<'_>) -> Result<BookPage> {
    let help = durio.text(&["--help"])?;
    let (_, codes) = help.split_once(EXIT_CODES).context("the help has no exit codes")?;
    let mut body = String::from("| code | meaning |\n|---|---|\n");
    for line in codes.lines().filter(|line| !line.trim().is_empty()) {
        let (code, meaning) = line.trim().split_once(' ').context("a code without a meaning")?;
        writeln!(body, "| {code} | {} |", plain(meaning.trim()))?;
    }
    body.push_str(
        "\nA script can rely on 1: it is given only for a verdict that was asked for \
         (`--database`, `--goal`, `--fail-over`, a figure that cannot be right in an audit). That \
         something could not be measured or decided is 3, never 0.\n",
    );
    Ok(page("reference/exit-codes", "Exit codes", &body))
}

fn databases(durio: &DurioProgram<'_>) -> Result<BookPage> {
    let mut limits =
        String::from("| database | limit | held against | who says so |\n|---|---|---|---|\n");
    let (mut without, mut profiles) = (Vec::new(), String::new());
    for listed in each(&durio.json(&["profile", "list"])?, "profiles") {
        let name = at(listed, "name");
        let profile = durio.json(&["profile", "show", name])?;
        for limit in each(&profile, "thresholds") {
            limits.push_str(&limit_row(name, limit, &profile));
        }
        if each(&profile, "thresholds").next().is_none() {
            without.push(name.to_owned());
        }
        profiles.push_str(&profile_section(name, &profile));
    }
    let without = without.join(", ");
    let body = format!(
        "`durio check` holds its figures against these limits, and `durio run profile:NAME` those \
         of the database's own load. `durio profile show NAME` has every field with its source.\n\n\
         ## Limits\n\n{limits}\n\
         The name in the first column is what `--database` takes. Limits marked *practice* or \
         *operator* are rules of thumb, not vendor limits. No limit is published for {without}: durio \
         shows what they wait for without a grade; `--goal` sets your own.\n\n## Profiles\n{profiles}"
    );
    Ok(page("reference/databases", "Databases and their limits", &body))
}

/// A source of a profile by its key.
fn source<'a>(profile: &'a Value, key: &str) -> Option<&'a Value> {
    each(profile, "sources").find(|source| at(source, "name") == key)
}

fn cited(source: &Value) -> String {
    let (by, document) = (at(source, "publisher"), at(source, "document"));
    let name = if by.is_empty() { document.to_owned() } else { format!("{by}, {document}") };
    let shown = match at(source, "url") {
        "" => plain(&name),
        url => format!("[{}]({url})", plain(&name)),
    };
    match at(source, "kind") {
        "vendor-doc" => shown,
        kind => format!("{shown} (*{kind}*)"),
    }
}

fn limit_row(name: &str, limit: &Value, profile: &Value) -> String {
    let asked = limit["asked_as"].as_str().unwrap_or(name);
    let held = match (at(limit, "check"), at(limit, "of")) {
        ("", of) => format!("`{of}` of `profile:{name}`"),
        (check, "") => format!("`{check}`"),
        (check, of) => format!("`{check}`; `{of}` of `profile:{name}`"),
    };
    let by = source(profile, at(limit, "from")).map(cited).unwrap_or_default();
    let note =
        [at(limit, "note"), at(limit, "check_note")].into_iter().find(|note| !note.is_empty());
    let note = note.map(|note| format!("; {}", plain(note))).unwrap_or_default();
    format!("| {asked} | {} | {held} | {by}{note} |\n", plain(at(limit, "criterion")))
}

fn profile_section(name: &str, profile: &Value) -> String {
    let mut text =
        format!("\n### {name}\n\n{}: {}.\n\n", at(profile, "title"), plain(at(profile, "summary")));
    let log = profile["log"]["summary"].as_str().map(|summary| ("log", summary));
    let streams =
        each(profile, "streams").map(|stream| (at(stream, "name"), at(stream, "summary")));
    for (stream, summary) in log.into_iter().chain(streams) {
        text.push_str(&format!("- {stream}: {}\n", plain(summary)));
    }
    let sources: Vec<String> = each(profile, "sources")
        .filter(|source| at(source, "kind") != "durio-guess")
        .map(cited)
        .collect();
    text.push_str(&format!("- sources: {}\n", sources.join("; ")));
    text
}

fn built_in(durio: &DurioProgram<'_>) -> Result<BookPage> {
    let mut body = String::new();
    let lists = [
        (
            "Campaigns",
            &["plan"][..],
            "`durio plan NAME --target DIR` shows every step, `durio run NAME --target DIR` measures \
             it. The format is [described here](../formats/spec.md).",
        ),
        (
            "Stacks",
            &["stack", "plan"][..],
            "`durio stack plan NAME` shows every command with its undo, `durio stack bench NAME` \
             builds and measures, with `--lab` in a virtual machine. The format is [described \
             here](../formats/stack-spec.md).",
        ),
        (
            "Proofs",
            &["prove", "plan"][..],
            "`durio prove plan NAME` shows each series and what is expected of it, `durio prove run \
             NAME` tries them. The format is [described here](../formats/proof-spec.md).",
        ),
    ];
    for (title, words, intro) in lists {
        write!(body, "## {title}\n\n{intro}\n\n| name | what it measures |\n|---|---|\n")?;
        for line in durio.text(words)?.lines() {
            let Some((name, text)) = line.strip_prefix("  ").and_then(|row| row.split_once("  "))
            else {
                continue;
            };
            writeln!(body, "| `{name}` | {} |", plain(text.trim()))?;
        }
        body.push('\n');
    }
    body.push_str("## Profiles\n\n| name | database | what it does |\n|---|---|---|\n");
    for it in each(&durio.json(&["profile", "list"])?, "profiles") {
        let (name, title, summary) = (at(it, "name"), at(it, "title"), at(it, "summary"));
        writeln!(body, "| [`{name}`](databases.md#{name}) | {title} | {} |", plain(summary))?;
    }
    Ok(page("reference/built-in", "Built-in specs and profiles", &body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_markdown_are_escaped() {
        assert_eq!(plain("a*b_c <d> [e] f|g"), "a\\*b\\_c \\<d\\> \\[e\\] f\\|g");
    }

    #[test]
    fn sentences_begin_large_unless_with_a_name() {
        assert_eq!(sentence("a short run"), "A short run.");
        assert_eq!(sentence("p99.99 is long?"), "P99.99 is long?");
        assert_eq!(sentence("nr_requests is 2"), "nr\\_requests is 2.");
        assert_eq!(sentence("mSATA"), "mSATA.");
        assert_eq!(sentence("durio shows it"), "durio shows it.");
    }

    #[test]
    fn commands_are_those_that_the_help_lists() {
        let help = "About.\n\nCommands:\n  check   Check\n  fio     Run\n            more of it\n  help  \
                    Print\n\nOptions:\n  -h\n";
        assert_eq!(commands_of(help), ["check", "fio"]);
        let groups = "About.\n\nMeasure:\n  check   Check\n\nKeep:\n  runs  List\n  help  Show\n\n\
                      Options:\n  -h\n";
        assert_eq!(commands_of(groups), ["check", "runs"]);
        assert_eq!(commands_of("About.\n\nOptions:\n"), [""; 0]);
    }

    #[test]
    fn an_explanation_has_its_id_as_heading() {
        let it = serde_json::json!({
            "what": "a", "why": "", "advice": "do b",
            "facts": [{"label": "source", "text": "c", "url": "https://d"}],
        });
        let text = explanation("too-short", &it);
        assert_eq!(
            text,
            "\n## too-short\n\nA.\n\n**What to do:** Do b.\n\n- source: [c](https://d)\n"
        );
    }
}
