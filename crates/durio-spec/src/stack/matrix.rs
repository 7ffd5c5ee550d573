//! `[matrix]`: axes, and the stacks that a table with `{AXIS}` in it stands for.
//!
//! In: TOML with places. Out: one table per combination of the axes that it names, in the order of
//! the axes, the last one fastest. Not here: what the keys of a stack mean.

use std::borrow::Cow;
use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::SpecError;
use crate::campaign::text::{Source, nearest};

/// Values of one axis.
const VALUES_MAX: usize = 1000;
/// Stacks of a spec: at a minute each, a working day.
pub(crate) const STACKS_MAX: usize = 500;

/// An axis.
#[derive(Debug)]
pub(crate) struct Axis<'a> {
    pub(crate) name: String,
    /// Byte in the text.
    pub(crate) at: usize,
    values: Vec<(DeValue<'a>, String)>,
}

/// A table for one combination of values.
#[derive(Debug)]
pub(crate) struct Expanded<'a> {
    pub(crate) table: DeTable<'a>,
    /// Values of axes that the name does not say, as text.
    pub(crate) suffix: Vec<String>,
}

/// Reads `[matrix]`.
pub(crate) fn axes<'a>(
    source: Source<'_>,
    matrix: &Spanned<DeValue<'a>>,
) -> Result<Vec<Axis<'a>>, SpecError> {
    let DeValue::Table(table) = matrix.get_ref() else {
        return Err(source
            .error(matrix.span().start, "'matrix' is a table of axes")
            .hint("write [matrix] and below it chunk = [\"4KiB\", \"64KiB\"]"));
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries.into_iter().map(|(name, values)| axis(source, name, values)).collect()
}

fn axis<'a>(
    source: Source<'_>,
    name: &Spanned<Cow<'_, str>>,
    values: &Spanned<DeValue<'a>>,
) -> Result<Axis<'a>, SpecError> {
    let at = name.span().start;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.get_ref().is_empty() || !name.get_ref().chars().all(fits) {
        let text = format!("'{}' is no name of an axis", name.get_ref().escape_debug());
        return Err(source.error(at, text).hint("use letters, digits, '-' and '_'"));
    }
    let list = match values.get_ref() {
        DeValue::Array(list) if (1..=VALUES_MAX).contains(&list.len()) => list,
        _ => {
            let text =
                format!("axis '{}' needs a list of 1 to {VALUES_MAX} values", name.get_ref());
            return Err(source
                .error(values.span().start, text)
                .hint("such as [\"4KiB\", \"64KiB\"]"));
        }
    };
    let mut read: Vec<(DeValue<'a>, String)> = Vec::new();
    for value in list.iter() {
        let fail = |text: String| Err(source.error(value.span().start, text));
        let Some(shown) = shown(value.get_ref()) else {
            return fail("a value of an axis is a text, a whole number or a flag".to_owned());
        };
        if read.iter().any(|(_, known)| *known == shown) {
            return fail(format!("'{shown}' is twice in axis '{}'", name.get_ref()));
        }
        read.push((value.get_ref().clone(), shown));
    }
    Ok(Axis { name: name.get_ref().to_string(), at, values: read })
}

fn shown(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// One table per combination of the axes that `table` names; the axes by their indices are added to
/// `used`.
pub(crate) fn expanded<'a>(
    source: Source<'_>,
    table: &DeTable<'a>,
    axes: &[Axis<'a>],
    used: &mut BTreeSet<usize>,
) -> Result<Vec<Expanded<'a>>, SpecError> {
    let mut all = BTreeSet::new();
    table_names(source, table, axes, &mut all)?;
    let mut in_name = BTreeSet::new();
    if let Some((_, name)) = table.iter().find(|(key, _)| key.get_ref() == "name") {
        value_names(source, name, axes, &mut in_name)?;
    }
    used.extend(&all);
    let varied: Vec<usize> = all.into_iter().collect();
    let count = varied.iter().filter_map(|&axis| axes.get(axis)).map(|axis| axis.values.len());
    let count = count.fold(1_usize, usize::saturating_mul);
    if count > STACKS_MAX {
        let at = table.iter().map(|(key, _)| key.span().start).min().unwrap_or(0);
        let text = format!("the axes multiply to {count} stacks, more than {STACKS_MAX}");
        return Err(source.error(at, text).hint("vary fewer things together, or split the spec"));
    }
    let of = |number: usize| {
        let chosen = chosen(axes, &varied, number);
        let suffix = chosen.iter().filter(|(axis, _)| !in_name.contains(axis));
        let suffix = suffix.map(|&(axis, value)| axes[axis].values[value].1.clone()).collect();
        Expanded { table: table_with(table, axes, &chosen), suffix }
    };
    Ok((0..count).map(of).collect())
}

/// Per varied axis the index of its value in combination `number`.
fn chosen(axes: &[Axis<'_>], varied: &[usize], number: usize) -> Vec<(usize, usize)> {
    let mut rest = number;
    let mut chosen: Vec<(usize, usize)> = varied
        .iter()
        .rev()
        .map(|&axis| {
            let length = axes[axis].values.len();
            let index = rest % length;
            rest /= length;
            (axis, index)
        })
        .collect();
    chosen.reverse();
    chosen
}

/// A piece of a text: as it is, or the name of an axis.
enum Piece<'t> {
    Text(&'t str),
    Axis(&'t str),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| "'{' has no '}' that belongs to it".to_owned())?;
        pieces.extend([Piece::Text(before), Piece::Axis(name)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn text_names(
    source: Source<'_>,
    (text, at): (&str, usize),
    axes: &[Axis<'_>],
    found: &mut BTreeSet<usize>,
) -> Result<(), SpecError> {
    for piece in pieces(text).map_err(|reason| source.error(at, reason))? {
        let Piece::Axis(name) = piece else { continue };
        match axes.iter().position(|axis| axis.name == name) {
            Some(index) => found.insert(index),
            None => return Err(no_axis(source, at, name, axes)),
        };
    }
    Ok(())
}

fn no_axis(source: Source<'_>, at: usize, name: &str, axes: &[Axis<'_>]) -> SpecError {
    let error = source.error(at, format!("there is no axis '{}'", name.escape_debug()));
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(meant) => error.hint(format!("did you mean '{meant}'?")),
        None if names.is_empty() => error.hint("name it with its values below [matrix]"),
        None => error.hint(format!("the axes of [matrix] are {}", names.join(", "))),
    }
}

fn table_names(
    source: Source<'_>,
    table: &DeTable<'_>,
    axes: &[Axis<'_>],
    found: &mut BTreeSet<usize>,
) -> Result<(), SpecError> {
    table.iter().try_for_each(|(key, value)| {
        text_names(source, (key.get_ref(), key.span().start), axes, found)?;
        value_names(source, value, axes, found)
    })
}

fn value_names(
    source: Source<'_>,
    value: &Spanned<DeValue<'_>>,
    axes: &[Axis<'_>],
    found: &mut BTreeSet<usize>,
) -> Result<(), SpecError> {
    match value.get_ref() {
        DeValue::String(text) => text_names(source, (text, value.span().start), axes, found),
        DeValue::Array(list) => {
            list.iter().try_for_each(|item| value_names(source, item, axes, found))
        }
        DeValue::Table(table) => table_names(source, table, axes, found),
        _ => Ok(()),
    }
}

fn table_with<'a>(
    table: &DeTable<'a>,
    axes: &[Axis<'a>],
    chosen: &[(usize, usize)],
) -> DeTable<'a> {
    let entry = |(key, value): (&Spanned<Cow<'a, str>>, &Spanned<DeValue<'a>>)| {
        let name = Cow::Owned(text_with(key.get_ref(), axes, chosen));
        (Spanned::new(key.span(), name), value_with(value, axes, chosen))
    };
    table.iter().map(entry).collect()
}

fn value_with<'a>(
    value: &Spanned<DeValue<'a>>,
    axes: &[Axis<'a>],
    chosen: &[(usize, usize)],
) -> Spanned<DeValue<'a>> {
    let with = match value.get_ref() {
        DeValue::String(text) => match whole(text, axes, chosen) {
            Some(value) => value.clone(),
            None => DeValue::String(Cow::Owned(text_with(text, axes, chosen))),
        },
        DeValue::Array(list) => {
            let mut with = DeArray::new();
            for item in list.iter() {
                with.push(value_with(item, axes, chosen));
            }
            DeValue::Array(with)
        }
        DeValue::Table(table) => DeValue::Table(table_with(table, axes, chosen)),
        other => other.clone(),
    };
    Spanned::new(value.span(), with)
}

/// The value of an axis, with its own type, where the text is nothing but its name.
fn whole<'x, 'a>(
    text: &str,
    axes: &'x [Axis<'a>],
    chosen: &[(usize, usize)],
) -> Option<&'x DeValue<'a>> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    let &(axis, value) = chosen.iter().find(|&&(axis, _)| axes[axis].name == name)?;
    axes[axis].values.get(value).map(|(value, _)| value)
}

fn text_with(text: &str, axes: &[Axis<'_>], chosen: &[(usize, usize)]) -> String {
    let of = |piece: Piece<'_>| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Axis(name) => chosen
            .iter()
            .find(|&&(axis, _)| axes[axis].name == name)
            .map_or_else(String::new, |&(axis, value)| axes[axis].values[value].1.clone()),
    };
    pieces(text).unwrap_or_default().into_iter().map(of).collect()
}
