//! A document as one page for a browser, which needs nothing but itself.
//!
//! In: a document. Out: one HTML file with style, charts, values and script inside; complete without
//! the script, and forbidden by its own policy to ask anybody for anything. All text in it goes through
//! [`Escaped`]. Not here: what is said, and the drawing of a chart.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;

use super::svg;
use crate::Options;
use crate::document::chart::{Chart, Colour};
use crate::document::{Block, Body, Card, Cell, Document, Fact, Level, Node, Section, Table, Tone};
use crate::visible::{is_hidden, visible_lines};

const STYLE: &str = include_str!("../../templates/report.css");

const SCRIPT: &str = include_str!("../../templates/report.js");

/// Names the one script by its hash, so that no other can run, whatever a path is called.
// After a change of the script the browser refuses it, and the test of the page shows the browser's
// message, which has the new hash.
const SCRIPT_POLICY: &str = " script-src 'sha256-DSh5d/TnPtWAwLiyv8To840Y3LdPFhvgeCIFK8dHiVY=';";

/// Text as HTML, and as the value of an attribute.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            // All five are ASCII: the byte is the number of the character.
            write!(f, "{plain}&#{};", special.as_bytes()[0])?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let values = values(document);
    let values = match values.is_empty() {
        true => None,
        false => Some(script_safe(&serde_json::to_string(&values)?)),
    };
    let mut html = String::new();
    page(document, values.as_deref(), &mut html).map_err(io::Error::other)?;
    // Last, so that no text can be forgotten: what the browser would not show is spelt out.
    out.write_all(visible_lines(&html).as_bytes())
}

/// `values` are for the script; none where there is nothing to ask for.
fn page(document: &Document, values: Option<&str>, out: &mut String) -> fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    // A page without values has no script, and its policy then permits none.
    let policy = values.map_or("", |_| SCRIPT_POLICY);
    let (kind, title) = (Escaped(&document.kind), Escaped(&document.title));
    // The policy permits nothing to be loaded, and links tell no address: a report is sent around,
    // and names in it are of other hands. Styles stand in the page, which is one file.
    write!(
        out,
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';{policy} img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="generator" content="durio {version}">
<title>{kind}: {title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<p class="brand">{kind}</p>
<h1>{title}</h1>
</header>"#
    )?;
    for section in &document.sections {
        out.push_str("\n<section class=\"section\">");
        if !section.heading.is_empty() {
            write!(out, "\n<h2>{}</h2>", Escaped(&section.heading))?;
        }
        blocks(&section.blocks, out)?;
        out.push_str("\n</section>");
    }
    write!(
        out,
        "\n<footer>Made by durio {version}. This page is complete in itself and asks nobody for \
         anything.</footer>\n</main>"
    )?;
    // The values are data and no script: the policy needs no hash of them.
    if let Some(values) = values {
        write!(
            out,
            "\n<script type=\"application/json\" id=\"values\">{values}</script>\n\
             <script>{SCRIPT}</script>"
        )?;
    }
    out.push_str("\n</body>\n</html>");
    Ok(())
}

fn blocks(blocks: &[Block], out: &mut String) -> fmt::Result {
    for Block { level, body } in blocks {
        match body {
            Body::Text(tone, text) => {
                let banner = if is_banner(*tone) { "banner " } else { "" };
                let class = attribute(&format!("{banner}{}", class(*tone)));
                write!(out, "\n<p{class}>{}</p>", Escaped(text))?;
            }
            Body::Facts(facts) if *level == Level::Headline => headline(facts, out)?,
            Body::Facts(facts) => {
                out.push_str("\n<table class=\"named\">");
                for fact in facts {
                    let (class, label) = (attribute(class(fact.tone)), Escaped(&fact.label));
                    write!(out, "\n<tr{class}><th scope=\"row\">{label}</th><td>")?;
                    value(fact, out)?;
                    out.push_str("</td></tr>");
                }
                out.push_str("\n</table>");
            }
            Body::Table(it) => table(it, out)?,
            Body::Charts(charts) => {
                out.push_str("\n<div class=\"pictures\">");
                charts.iter().try_for_each(|it| figure(it, out))?;
                out.push_str("\n</div>");
            }
            Body::Cards(cards) => {
                out.push_str("\n<div class=\"cards\">");
                cards.iter().try_for_each(|it| card(it, out))?;
                out.push_str("\n</div>");
            }
            Body::Tree(nodes) => nodes.iter().try_for_each(|it| node(it, out))?,
            Body::Verbatim(text) => write!(out, "\n<pre>{}</pre>", Escaped(text))?,
            Body::Group(group) => {
                let heading = Escaped(&group.heading);
                let (begin, end) = match group.level {
                    // Folded: it is for whoever doubts a figure.
                    Level::Detail => {
                        let summary = format!("<summary>{heading}</summary>");
                        (format!("<details class=\"account\">{summary}"), "</details>")
                    }
                    _ => (
                        format!("<article class=\"workload\">\n<h3>{heading}</h3>"),
                        "\n</article>",
                    ),
                };
                write!(out, "\n{begin}")?;
                self::blocks(&group.blocks, out)?;
                out.push_str(end);
            }
        }
    }
    Ok(())
}

fn headline(facts: &[Fact], out: &mut String) -> fmt::Result {
    out.push_str("\n<div class=\"hero\">");
    for Fact { label, tone, value, .. } in facts {
        let (label, value) = (Escaped(label), Escaped(value));
        match tone {
            Tone::Plain => write!(
                out,
                "\n<div class=\"figure\"><p class=\"big\">{value}</p><p>{label}</p></div>"
            ),
            tone => {
                let class = class(*tone);
                write!(out, "\n<p class=\"banner {class}\"><strong>{label}</strong> {value}</p>")
            }
        }?;
    }
    out.push_str("\n</div>");
    Ok(())
}

/// The value of a fact, as a link if it has the address of a source.
fn value(fact: &Fact, out: &mut String) -> fmt::Result {
    let value = Escaped(&fact.value);
    // A profile may be of other hands, and `javascript:` is an address too.
    let is_web = |link: &&str| link.starts_with("https://") || link.starts_with("http://");
    match fact.link.as_deref().filter(is_web).map(Escaped) {
        // The page that is opened learns nothing of this one.
        Some(link) => write!(out, "<a href=\"{link}\" rel=\"noopener noreferrer\">{value}</a>"),
        None => write!(out, "{value}"),
    }
}

fn table(table: &Table, out: &mut String) -> fmt::Result {
    // A wide table scrolls within itself; otherwise the whole page would.
    out.push_str("\n<div class=\"scroll\"><table class=\"figures\">\n<thead><tr>");
    for column in &table.columns {
        write!(out, "<th scope=\"col\">{}</th>", Escaped(&column.title))?;
    }
    out.push_str("</tr></thead>\n<tbody>");
    for row in &table.rows {
        write!(out, "\n<tr{}>", attribute(if row.is_part { "part" } else { "" }))?;
        for (at, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
            let (shown, title) = (cell.shown(), Escaped(&column.title));
            let shown = Escaped(&shown);
            match cell {
                // Screen readers say it before each cell of its row.
                _ if at == 0 => write!(out, "<th scope=\"row\">{shown}</th>"),
                Cell::Word(tone, _) => {
                    let class = class(*tone);
                    write!(out, "<td class=\"{class}\"><span class=\"word\">{shown}</span></td>")
                }
                // A narrow screen shows each row as a list, with the titles of the columns.
                _ => write!(out, "<td data-label=\"{title}\">{shown}</td>"),
            }?;
        }
        out.push_str("</tr>");
    }
    out.push_str("\n</tbody></table></div>");
    Ok(())
}

fn figure(chart: &Chart, out: &mut String) -> fmt::Result {
    let id = chart.id.as_deref().map(|id| format!(" id=\"{}\"", Escaped(id))).unwrap_or_default();
    let title = Escaped(&chart.title);
    write!(out, "\n<figure{id}>\n<figcaption>{title}</figcaption>\n<p class=\"legend\">")?;
    for (name, colour) in chart.legend() {
        write!(out, "<span class=\"key {}\">{}</span>", key(colour), Escaped(name))?;
    }
    write!(out, "</p>\n<div class=\"plot\">{}</div>\n</figure>", svg::draw(chart))
}

fn card(card: &Card, out: &mut String) -> fmt::Result {
    write!(
        out,
        "\n<article class=\"card verdict {}\">\n<p class=\"word\"><span class=\"icon\" \
         aria-hidden=\"true\">{}</span>{}</p>\n<h3>{}</h3>",
        class(card.tone),
        icon(card.tone),
        Escaped(&card.word),
        Escaped(&card.title)
    )?;
    for (class, text) in [(" class=\"place\"", &card.about), ("", &card.text)] {
        if !text.is_empty() {
            write!(out, "\n<p{class}>{}</p>", Escaped(text))?;
        }
    }
    for fact in &card.facts {
        write!(out, "\n<p><span class=\"term\">{}</span> ", Escaped(&fact.label))?;
        value(fact, out)?;
        out.push_str("</p>");
    }
    out.push_str("\n</article>");
    Ok(())
}

fn node(node: &Node, out: &mut String) -> fmt::Result {
    let list = |facts: &[(&str, String)]| {
        let item = |(name, value): &(&str, String)| {
            format!("<li><span>{}</span> {}</li>", Escaped(name), Escaped(value))
        };
        format!("<ul class=\"facts\">{}</ul>", facts.iter().map(item).collect::<String>())
    };
    write!(out, "\n<div class=\"layer\">\n<p><strong>{}</strong></p>", Escaped(&node.name))?;
    if !node.further.is_empty() {
        write!(out, "\n{}", list(&node.further))?;
    }
    if !node.other.is_empty() {
        write!(out, "\n<details><summary>more</summary>{}</details>", list(&node.other))?;
    }
    if !node.below.is_empty() {
        out.push_str("\n<div class=\"below\">");
        node.below.iter().try_for_each(|it| self::node(it, out))?;
        out.push_str("</div>");
    }
    out.push_str("\n</div>");
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

// A sign, for nobody has to tell colours apart.
const fn icon(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "✓",
        Tone::Bad => "✗",
        Tone::Warning => "!",
        Tone::Plain | Tone::Note | Tone::Strong => "·",
    }
}

const fn key(colour: Colour) -> &'static str {
    match colour {
        Colour::First => "first",
        Colour::Second => "second",
        Colour::Third => "third",
        Colour::Fourth => "fourth",
        Colour::Alarm => "alarm",
        Colour::Ink => "ink",
        Colour::Shade => "shade",
    }
}

/// Values by the chart's name in the page.
fn values(document: &Document) -> BTreeMap<&str, svg::Values<'_>> {
    // In order, so that one run always gives the same page.
    let mut values = BTreeMap::new();
    document.sections.iter().for_each(|section| values_of(section, &mut values));
    values
}

fn values_of<'a>(section: &'a Section, values: &mut BTreeMap<&'a str, svg::Values<'a>>) {
    for block in &section.blocks {
        match &block.body {
            Body::Charts(charts) => values
                .extend(charts.iter().filter_map(|it| Some((it.id.as_deref()?, svg::values(it)?)))),
            Body::Group(group) => values_of(group, values),
            _ => {}
        }
    }
}

// JSON that cannot end the element that it stands in, nor begin another, nor hide a character: what is
// spelt out in the page would be no JSON.
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
