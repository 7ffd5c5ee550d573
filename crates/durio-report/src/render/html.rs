//! A document as one page for a browser, which needs nothing but itself.
//!
//! In: a document. Out: one HTML file with style, charts, values and script inside; complete without
//! the script, and forbidden by its own policy to ask anybody for anything. Not here: what is said,
//! and the drawing of a chart.

use std::collections::BTreeMap;
use std::io;

use askama::Template;

use super::svg;
use crate::Options;
use crate::document::chart::{Chart, Colour};
use crate::document::{Block, Body, Cell, Document, Fact, Level, Node, Section, Tone};
use crate::visible::{is_hidden, visible_lines};

const STYLE: &str = include_str!("../../templates/report.css");

/// The policy in the template names this script by its hash, so that no other can run, whatever a
/// path is called. After a change the browser refuses the script, the test of the page fails and
/// shows the browser's message, which has the new hash.
const SCRIPT: &str = include_str!("../../templates/report.js");

/// What the template is filled with; all text in it is escaped there.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    document: &'a Document,
    version: &'static str,
    style: &'static str,
    script: &'static str,
    /// For the script; none where there is nothing to ask for.
    values: Option<String>,
}

/// The blocks of a section.
#[derive(Template)]
#[template(path = "blocks.html")]
struct Blocks<'a> {
    blocks: &'a [Block],
}

/// A layer, and those below it inside.
#[derive(Template)]
#[template(path = "node.html")]
struct Boxes<'a> {
    nodes: &'a [Node],
}

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let values = values(document);
    let page = Page {
        document,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        script: SCRIPT,
        values: match values.is_empty() {
            true => None,
            false => Some(script_safe(&serde_json::to_string(&values)?)),
        },
    };
    // Rendered first, so that what the writer says is not wrapped in an error of the template's.
    let html = page.render().map_err(io::Error::other)?;
    out.write_all(visible_lines(&html).as_bytes())
}

impl<'a> Page<'a> {
    fn inside(&self, section: &'a Section) -> Blocks<'a> {
        Blocks { blocks: &section.blocks }
    }
}

impl<'a> Blocks<'a> {
    fn inside(&self, group: &'a Section) -> Self {
        Self { blocks: &group.blocks }
    }

    fn boxes(&self, nodes: &'a [Node]) -> Boxes<'a> {
        Boxes { nodes }
    }
}

impl<'a> Boxes<'a> {
    fn inside(&self, node: &'a Node) -> Self {
        Self { nodes: &node.below }
    }
}

/// The style sheet's class of a tone.
fn class(tone: &Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Note => "lead",
        Tone::Strong => "strong",
        Tone::Good => "good",
        Tone::Warning => "warning",
        Tone::Bad => "bad",
    }
}

/// A sign, for nobody has to tell colours apart.
fn icon(tone: &Tone) -> &'static str {
    match tone {
        Tone::Good => "✓",
        Tone::Bad => "✗",
        Tone::Warning => "!",
        Tone::Plain | Tone::Note | Tone::Strong => "·",
    }
}

fn key(colour: &Colour) -> &'static str {
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

fn drawn(chart: &Chart) -> String {
    svg::draw(chart)
}

/// The address of a source; none that is not one for a browser.
fn link(fact: &Fact) -> Option<&str> {
    let link = fact.link.as_deref()?;
    (link.starts_with("https://") || link.starts_with("http://")).then_some(link)
}

/// Values by the chart's name in the page.
fn values(document: &Document) -> BTreeMap<&str, svg::Values<'_>> {
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

/// JSON that cannot end the element that it stands in, nor begin another, nor hide a character: what is
/// spelt out in the page would be no JSON.
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
