//! A document as one self-contained page for a browser.
//!
//! One HTML file with style, charts, values and script inside; complete without the script, and its
//! own policy forbids all requests. All text in it goes through [`EscapedText`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::io;

use durio_base::{EscapedText, is_hidden, visible_lines};

use super::svg::{self, ChartSpan};
use super::{markdown, verdict_tone};
use crate::Options;
use crate::document::chart::{Chart, Drawing};
use crate::document::{
    Block, Card, Cell, DetailLevel, Document, LabelledFact, LayerNode, Section, SectionBody, Table,
    Tone,
};

/// The page's icon, within the page: a browser would ask a server for it.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect \
    width='16' height='16' rx='3' fill='%232563eb'/%3E%3Cpath d='M3 4h4M3 8h7M3 12h10' stroke='%23fff' \
    stroke-width='2'/%3E%3C/svg%3E";

const STYLE: &str = include_str!("../../templates/report.css");

const SCRIPT: &str = include_str!("../../templates/report.js");

/// Names the one script by its hash, so that no other can run, whatever a path is called.
// After a change of the script the browser refuses it, and the test of the page shows the browser's
// message, which has the new hash.
const SCRIPT_POLICY: &str = " script-src 'sha256-NpphfCX9Bk1hjNwKUDvyutMtjRVfurJZj+Rfa6ma4sw=';";

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let mut page = HtmlPage::default();
    write_page(document, &mut page).map_err(io::Error::other)?;
    // Last, so that no text can be forgotten: characters that the browser would not show are spelt
    // out.
    out.write_all(visible_lines(&page.text).as_bytes())
}

/// A page that grows.
#[derive(Default)]
struct HtmlPage<'a> {
    text: String,
    /// By the name of the chart in the page; in order, so that one run always gives the same page.
    values: BTreeMap<String, Vec<svg::PanelValues<'a>>>,
    /// Anchors that are taken.
    anchors: BTreeSet<String>,
    /// Whether the results of the answer stand above all sections.
    has_poster: bool,
}

impl fmt::Write for HtmlPage<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

impl HtmlPage<'_> {
    /// A name for a heading, which no other has.
    fn anchor(&mut self, heading: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let words: String = heading.chars().map(plain).collect();
        let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        let numbered = |at: usize| if at == 1 { words.clone() } else { format!("{words}-{at}") };
        let free =
            (1..).map(numbered).find(|name| !name.is_empty() && self.anchors.insert(name.clone()));
        free.unwrap_or_default()
    }
}

fn write_page<'a>(document: &'a Document, out: &mut HtmlPage<'a>) -> fmt::Result {
    write_head(document, out)?;
    write_body(document, out)?;
    let version = env!("CARGO_PKG_VERSION");
    write!(
        out,
        "\n</main>\n<footer>Made by durio {version}. Self-contained page; makes no network \
         requests.</footer>"
    )?;
    // The values are data and no script: the policy needs no hash of them.
    if !out.values.is_empty() {
        let values = serde_json::to_string(&out.values).map_err(|_| fmt::Error)?;
        let values = script_safe(&values);
        write!(out, "\n<script type=\"application/json\" id=\"values\">{values}</script>")?;
    }
    let copied = markdown_of(document)?;
    write!(out, "\n<script type=\"application/json\" id=\"markdown\">{copied}</script>")?;
    write!(out, "\n<script>{SCRIPT}</script>\n</body>\n</html>")
}

/// The head of the page, to the start of its contents.
fn write_head(document: &Document, out: &mut HtmlPage<'_>) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    let heading = document.heading();
    // For a search, and the preview of a link. A picture would need an address.
    let description = document.summary.as_ref().map_or_else(String::new, |summary| {
        let text = EscapedText(&summary.sentence);
        format!(
            "\n<meta property=\"og:description\" content=\"{text}\">\n<meta name=\"description\" \
             content=\"{text}\">"
        )
    });
    // A list has no heading.
    let heading = EscapedText(if heading.is_empty() { "durio" } else { &heading });
    // The policy permits no loading, and links reveal no address: a report is sent around, and
    // names in it come from outside. Styles stand in the page, which is one file.
    write!(
        out,
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';{SCRIPT_POLICY} img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="durio {version}">
<meta property="og:type" content="website">
<meta property="og:title" content="{heading}">{description}
<link rel="icon" href="{ICON}">
<title>{heading}</title>
<style>{STYLE}</style>
</head>
<body>
<main>"#
    )
}

/// The first screen, and the sections below it.
fn write_body<'a>(document: &'a Document, out: &mut HtmlPage<'a>) -> fmt::Result {
    let poster = document.poster.as_ref().filter(|chart| chart.is_drawable());
    out.has_poster = poster.is_some();
    let mut sections: Vec<&Section> =
        document.sections.iter().filter(|section| !section.is_local).collect();
    // The tested storage belongs to the answer.
    let is_note = |block: &Block| matches!(block.body, SectionBody::Text(Tone::Note, _));
    let is_subject = |section: &&Section| {
        out.has_poster && section.heading.is_empty() && section.blocks.iter().all(is_note)
    };
    let subject = sections.first().copied().filter(is_subject);
    if subject.is_some() {
        sections.remove(0);
    }
    out.write_str("\n<header>")?;
    headings(document, subject, out)?;
    out.write_str("\n</header>")?;
    if let Some(chart) = poster {
        self::poster(chart, document, out)?;
    }
    let anchors: Vec<String> =
        sections.iter().map(|section| out.anchor(&format!("s {}", section.heading))).collect();
    let headed = || sections.iter().zip(&anchors).filter(|(it, _)| !it.heading.is_empty());
    if headed().nth(1).is_some() {
        out.write_str("\n<nav aria-label=\"Contents\">")?;
        for (section, anchor) in headed() {
            write!(out, "<a href=\"#{anchor}\">{}</a>", EscapedText(&section.heading))?;
        }
        out.write_str("</nav>")?;
    }
    sections.iter().zip(&anchors).try_for_each(|(part, anchor)| section(part, anchor, out))
}

/// What a terminal shows of the document, as Markdown in a string of JSON, to be copied.
fn markdown_of(document: &Document) -> Result<String, fmt::Error> {
    let mut bytes = Vec::new();
    markdown::render(document, &Options::default(), &mut bytes).map_err(|_| fmt::Error)?;
    let text = String::from_utf8_lossy(&bytes);
    serde_json::to_string(&text).map(|json| script_safe(&json)).map_err(|_| fmt::Error)
}

/// The answer with the title and the tested storage above, or the title with its kind above.
fn headings<'a>(
    document: &'a Document,
    subject: Option<&'a Section>,
    out: &mut HtmlPage<'a>,
) -> fmt::Result {
    out.write_str("\n<button type=\"button\" id=\"copy\" hidden>Copy as Markdown</button>")?;
    let Some(summary) = &document.summary else {
        if !document.kind.is_empty() {
            write!(out, "\n<p class=\"brand\">{}</p>", EscapedText(&document.kind))?;
        }
        return match document.title.as_str() {
            // A list has no title; readers that jump from heading to heading need a first one.
            "" => out.write_str("\n<h1 class=\"quiet\">durio</h1>"),
            title => write!(out, "\n<h1>{}</h1>", EscapedText(title)),
        };
    };
    write!(out, "\n<p class=\"brand\">{}</p>", EscapedText(&document.heading()))?;
    if let Some(subject) = subject {
        blocks(subject, out)?;
    }
    let (word, rest) = summary.parts();
    out.write_str("\n<h1>")?;
    if word.is_empty() {
        return write!(out, "{}</h1>", EscapedText(rest));
    }
    let tone = verdict_tone(summary.verdict);
    // Read aloud the colon ends the word; seen, the badge does.
    let colon = if rest.starts_with(':') { "<span class=\"quiet\">:</span>" } else { "" };
    let rest = EscapedText(rest.trim_start_matches(':'));
    write!(
        out,
        "<span class=\"verdict-word {}\"><span class=\"icon\" aria-hidden=\"true\">{}</span>{word}{colon}\
         </span>{rest}</h1>",
        class(tone),
        icon(tone)
    )
}

/// The first screen: the results of the answer, and their picture.
fn poster<'a>(chart: &'a Chart, document: &'a Document, out: &mut HtmlPage<'a>) -> fmt::Result {
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let facts = blocks.filter_map(|block| match &block.body {
        SectionBody::Facts(facts) if block.level == DetailLevel::Headline => Some(facts),
        _ => None,
    });
    let facts: Vec<&LabelledFact> =
        facts.flatten().filter(|fact| fact.tone == Tone::Plain).collect();
    out.write_str("\n<div class=\"poster\">")?;
    results(&facts, out)?;
    figure(chart, ChartSpan::Full, out)?;
    out.write_str("\n</div>")
}

/// Results in large letters; nothing without any.
fn results(facts: &[&LabelledFact], out: &mut HtmlPage<'_>) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    out.write_str("\n<div class=\"hero\">")?;
    for LabelledFact { label, value, .. } in facts {
        let (label, value) = (EscapedText(label), EscapedText(value));
        write!(out, "\n<div class=\"figure\"><p class=\"big\">{value}</p><p>{label}</p></div>")?;
    }
    out.write_str("\n</div>")
}

fn section<'a>(section: &'a Section, anchor: &str, out: &mut HtmlPage<'a>) -> fmt::Result {
    let heading = EscapedText(&section.heading);
    if section.heading.is_empty() {
        out.write_str("\n<section class=\"section\">")?;
        section.blocks.iter().try_for_each(|part| block(part, out))?;
    } else {
        // The answer is open; sections behind it open where there is room, if they have pictures.
        let has_charts = |block: &Block| match &block.body {
            SectionBody::Group(group) => {
                group.blocks.iter().any(|block| matches!(block.body, SectionBody::Charts(_)))
            }
            body => matches!(body, SectionBody::Charts(_)),
        };
        let open =
            match (section.level <= DetailLevel::Summary, section.blocks.iter().any(has_charts)) {
                (true, _) => " open",
                (false, true) => " data-wide",
                (false, false) => "",
            };
        write!(
            out,
            "\n<section class=\"section\" id=\"{anchor}\"><details{open}>\n\
             <summary><h2>{heading}</h2></summary>"
        )?;
        blocks(section, out)?;
        out.write_str("\n</details>")?;
    }
    out.write_str("\n</section>")
}

/// In an open section, details are folded.
fn blocks<'a>(section: &'a Section, out: &mut HtmlPage<'a>) -> fmt::Result {
    let is_folded = |block: &Block| {
        let is_group = matches!(block.body, SectionBody::Group(_) | SectionBody::Charts(_));
        // Blocks for a page alone are there to be seen.
        section.level <= DetailLevel::Summary && block.level == DetailLevel::Detail && !is_group
    };
    for run in section.blocks.chunk_by(|a, b| is_folded(a) == is_folded(b)) {
        let is_folded = run.first().is_some_and(is_folded);
        if is_folded {
            out.write_str("\n<details class=\"more\"><summary>details</summary>")?;
        }
        run.iter().try_for_each(|part| block(part, out))?;
        if is_folded {
            out.write_str("\n</details>")?;
        }
    }
    Ok(())
}

fn block<'a>(block: &'a Block, out: &mut HtmlPage<'a>) -> fmt::Result {
    match &block.body {
        SectionBody::Text(tone, text) => {
            let banner = if is_banner(*tone) { "banner " } else { "" };
            let class = attribute(&format!("{banner}{}", class(*tone)));
            write!(out, "\n<p{class}>{}</p>", EscapedText(text))
        }
        SectionBody::Facts(facts) if block.level == DetailLevel::Headline => headline(facts, out),
        SectionBody::Facts(facts) => {
            out.write_str("\n<table class=\"named\">")?;
            for fact in facts {
                let (class, label) = (attribute(class(fact.tone)), EscapedText(&fact.label));
                match fact.label.is_empty() {
                    true => write!(out, "\n<tr{class}><td></td><td>"),
                    false => write!(out, "\n<tr{class}><th scope=\"row\">{label}</th><td>"),
                }?;
                value(fact, out)?;
                out.write_str("</td></tr>")?;
            }
            out.write_str("\n</table>")
        }
        SectionBody::Table(it) => table(it, out),
        SectionBody::Charts(charts) => {
            // One picture has the whole width.
            let (span, class) = match charts.len() {
                1 => (ChartSpan::Full, "pictures single"),
                _ => (ChartSpan::Half, "pictures"),
            };
            write!(out, "\n<div class=\"{class}\">")?;
            charts.iter().try_for_each(|chart| figure(chart, span, out))?;
            out.write_str("\n</div>")
        }
        SectionBody::Cards(cards) => {
            out.write_str("\n<div class=\"cards\">")?;
            cards.iter().try_for_each(|judgement| card(judgement, out))?;
            out.write_str("\n</div>")
        }
        SectionBody::Tree(nodes) => nodes.iter().try_for_each(|layer| node(layer, out)),
        SectionBody::Verbatim(text) => {
            write!(out, "\n<pre tabindex=\"0\">{}</pre>", EscapedText(text))
        }
        SectionBody::Group(group) => {
            let heading = EscapedText(&group.heading);
            // Folded: for a reader who doubts a number, or has room.
            let begin = match group.level {
                DetailLevel::Detail | DetailLevel::Page => {
                    format!("<details class=\"account\"><summary>{heading}</summary>")
                }
                _ => format!(
                    "<details class=\"workload\" data-wide><summary><h3>{heading}</h3></summary>"
                ),
            };
            write!(out, "\n{begin}")?;
            group.blocks.iter().try_for_each(|block| self::block(block, out))?;
            out.write_str("\n</details>")
        }
    }
}

/// The results of the answer, unless the poster has them, and what speaks against them.
fn headline(facts: &[LabelledFact], out: &mut HtmlPage<'_>) -> fmt::Result {
    let (figures, doubts): (Vec<&LabelledFact>, Vec<&LabelledFact>) =
        facts.iter().partition(|fact| fact.tone == Tone::Plain);
    if !out.has_poster {
        results(&figures, out)?;
    }
    for LabelledFact { label, tone, value, .. } in doubts {
        let (class, label, value) = (class(*tone), EscapedText(label), EscapedText(value));
        write!(out, "\n<p class=\"banner {class}\"><strong>{label}</strong> {value}</p>")?;
    }
    Ok(())
}

/// The value of a fact, as a link if it has the address of a source.
fn value(fact: &LabelledFact, out: &mut HtmlPage<'_>) -> fmt::Result {
    let value = EscapedText(&fact.value);
    // A profile may be of other hands, and `javascript:` is an address too.
    let is_web = |link: &&str| link.starts_with("https://") || link.starts_with("http://");
    match fact.link.as_deref().filter(is_web).map(EscapedText) {
        // The page that is opened learns nothing of this one.
        Some(link) => write!(out, "<a href=\"{link}\" rel=\"noopener noreferrer\">{value}</a>"),
        None => write!(out, "{value}"),
    }
}

fn table(table: &Table, out: &mut HtmlPage<'_>) -> fmt::Result {
    // A wide table scrolls within itself; otherwise the whole page would.
    out.write_str("\n<div class=\"scroll\" tabindex=\"0\"><table class=\"figures\">\n<thead><tr>")?;
    let shown = table.columns_up_to(DetailLevel::Page);
    for at in &shown {
        let column = &table.columns[*at];
        let class = attribute(if column.is_words { "words" } else { "" });
        let cell = if column.title.is_empty() { "td" } else { "th scope=\"col\"" };
        write!(out, "<{cell}{class}>{}</{}>", EscapedText(&column.title), &cell[..2])?;
    }
    out.write_str("</tr></thead>\n<tbody>")?;
    for row in &table.rows {
        write!(out, "\n<tr{}>", attribute(if row.is_part { "part" } else { "" }))?;
        for at in &shown {
            let (cell, column) = (row.cells.get(*at).unwrap_or(&Cell::Empty), &table.columns[*at]);
            let (shown, title) = (cell.shown(), EscapedText(&column.title));
            let shown = EscapedText(&shown);
            // Screen readers say it before each cell of its row.
            if *at == 0 && cell.shown().is_empty() {
                out.write_str("<td></td>")?;
                continue;
            }
            if *at == 0 {
                write!(out, "<th scope=\"row\">{shown}</th>")?;
                continue;
            }
            // A narrow screen shows each row as a list with the titles of the columns, and at first
            // without details and absent values.
            let is_absent = matches!(cell, Cell::Empty | Cell::Absent(_));
            let classes = [
                (if column.is_words { "words" } else { "" }),
                (if is_absent || column.level > DetailLevel::Summary { "fine" } else { "" }),
                (if let Cell::Word(tone, _) = cell { class(*tone) } else { "" }),
            ];
            let classes: Vec<&str> =
                classes.into_iter().filter(|class| !class.is_empty()).collect();
            let class = attribute(&classes.join(" "));
            let plain =
                cell.number().map(|number| format!(" data-v=\"{number}\"")).unwrap_or_default();
            match cell {
                Cell::Word(..) => write!(
                    out,
                    "<td{class} data-label=\"{title}\"><span class=\"word\">{shown}</span></td>"
                ),
                _ => write!(out, "<td{class} data-label=\"{title}\"{plain}>{shown}</td>"),
            }?;
        }
        out.write_str("</tr>")?;
    }
    out.write_str("\n</tbody></table></div>")?;
    Ok(())
}

fn figure<'a>(chart: &'a Chart, span: ChartSpan, out: &mut HtmlPage<'a>) -> fmt::Result {
    let title = EscapedText(&chart.title);
    let id = match svg::values(chart, span) {
        Some(values) => {
            let name = format!("chart-{}", out.values.len() + 1);
            let id = format!(" id=\"{name}\"");
            out.values.insert(name, values);
            id
        }
        None => String::new(),
    };
    write!(out, "\n<figure{id}>\n<figcaption>{title}</figcaption>\n<p class=\"legend\">")?;
    for (name, colour) in chart.legend() {
        let dashes = if chart.is_dashed(name) { " dashes" } else { "" };
        let thin = if chart.is_thin(name) { " thin" } else { "" };
        let key = svg::key(colour);
        write!(out, "<span class=\"key {key}{dashes}{thin}\">{}</span>", EscapedText(name))?;
    }
    if let Drawing::Lanes(_) = &chart.drawing {
        return lanes(&svg::draw(chart, span), &title, out);
    }
    // The picture's words for a screen reader; the values are in the tables.
    let svg = svg::draw(chart, span).replacen("<svg", &format!("<svg aria-label=\"{title}\""), 1);
    write!(out, "</p>\n<div class=\"plot\">{svg}</div>\n</figure>")
}

/// Lanes as wide as the page, or wider within the figure: folded elements zoom without a script.
fn lanes(drawn: &str, title: &EscapedText<'_>, out: &mut HtmlPage<'_>) -> fmt::Result {
    write!(
        out,
        "</p>\n<details class=\"zoom\"><summary>zoom ×4</summary><details class=\"zoom\"><summary>×16\
         </summary></details></details>\n<div class=\"lanes\" tabindex=\"0\" role=\"group\" \
         aria-label=\"{title}: arrow keys scroll\"><div>{drawn}</div></div>\n</figure>"
    )
}

fn card(card: &Card, out: &mut HtmlPage<'_>) -> fmt::Result {
    let anchor = out.anchor(&card.title);
    write!(
        out,
        "\n<article class=\"card verdict {}\" id=\"{anchor}\">\n<p class=\"word\"><span class=\"icon\" \
         aria-hidden=\"true\">{}</span>{}</p>\n<h3>{}</h3>",
        class(card.tone),
        icon(card.tone),
        EscapedText(&card.word),
        EscapedText(&card.title)
    )?;
    for (class, text) in [(" class=\"place\"", &card.about), ("", &card.text)] {
        if !text.is_empty() {
            write!(out, "\n<p{class}>{}</p>", EscapedText(text))?;
        }
    }
    for fact in &card.facts {
        write!(out, "\n<p><span class=\"term\">{}</span> ", EscapedText(&fact.label))?;
        value(fact, out)?;
        out.write_str("</p>")?;
    }
    out.write_str("\n</article>")?;
    Ok(())
}

fn node(node: &LayerNode, out: &mut HtmlPage<'_>) -> fmt::Result {
    let list = |facts: &[(&str, String)]| {
        let item = |(name, value): &(&str, String)| {
            format!("<li><span>{}</span> {}</li>", EscapedText(name), EscapedText(value))
        };
        format!("<ul class=\"facts\">{}</ul>", facts.iter().map(item).collect::<String>())
    };
    write!(out, "\n<div class=\"layer\">\n<p><strong>{}</strong></p>", EscapedText(&node.name))?;
    if !node.further.is_empty() {
        write!(out, "\n{}", list(&node.further))?;
    }
    if !node.other.is_empty() {
        write!(out, "\n<details><summary>more</summary>{}</details>", list(&node.other))?;
    }
    if !node.below.is_empty() {
        out.write_str("\n<div class=\"below\">")?;
        node.below.iter().try_for_each(|layer| self::node(layer, out))?;
        out.write_str("</div>")?;
    }
    out.write_str("\n</div>")?;
    Ok(())
}

/// The attribute of these classes; nothing without one.
fn attribute(classes: &str) -> String {
    if classes.is_empty() { String::new() } else { format!(" class=\"{classes}\"") }
}

const fn is_banner(tone: Tone) -> bool {
    matches!(tone, Tone::Good | Tone::Warning | Tone::Bad)
}

const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Note => "lead",
        Tone::Strong => "strong",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

// A sign, so that readers need not distinguish colours.
const fn icon(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "✓",
        Tone::Bad => "✗",
        Tone::Warning => "!",
        Tone::Plain | Tone::Note | Tone::Strong => "·",
    }
}

// JSON that cannot end its element, nor begin another, nor hide a character. It uses JSON's
// escapes: the page's would make it invalid.
fn script_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '<' | '>' | '&') || is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}
