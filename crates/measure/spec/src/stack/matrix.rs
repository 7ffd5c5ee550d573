//! `[matrix]`: axes, and the stacks that a table with `{AXIS}` in it stands for.
//!
//! Makes one table per combination of the named axes, in the order of the axes, the last one
//! fastest.

use std::borrow::Cow;
use std::collections::BTreeSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::SpecError;
use crate::campaign::axes::combinations;
use crate::table::SpecText;

/// Values of one axis.
const VALUES_MAX: usize = 1000;
/// Stacks of a spec.
// At a minute each, a working day.
pub(crate) const STACKS_MAX: usize = 500;

#[derive(Debug)]
pub(crate) struct MatrixAxis<'a> {
    pub(crate) name: String,
    /// Byte in the text.
    pub(crate) at: usize,
    values: Vec<(DeValue<'a>, String)>,
}

/// A table for one combination of values.
#[derive(Debug)]
pub(crate) struct ExpandedTable<'a> {
    pub(crate) table: DeTable<'a>,
    /// Values of axes that the name does not say, as text.
    pub(crate) suffix: Vec<String>,
}

/// The axes of `[matrix]`, in the order of the file.
pub(crate) fn axes<'a>(
    source: SpecText<'_>,
    matrix: &Spanned<DeValue<'a>>,
) -> Result<Vec<MatrixAxis<'a>>, SpecError> {
    let DeValue::Table(table) = matrix.get_ref() else {
        return Err(source
            .error(matrix.span().start, "'matrix' is a table of axes")
            .hint("write [matrix] and below it chunk = [\"4KiB\", \"64KiB\"]"));
    };
    let mut entries: Vec<_> = table.iter().collect();
    // TOML sorts a table by its keys; the first axis of the file is the outermost loop.
    entries.sort_by_key(|(name, _)| name.span().start);
    entries.into_iter().map(|(name, values)| axis(source, name, values)).collect()
}

fn axis<'a>(
    source: SpecText<'_>,
    name: &Spanned<Cow<'_, str>>,
    values: &Spanned<DeValue<'a>>,
) -> Result<MatrixAxis<'a>, SpecError> {
    let at = name.span().start;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.get_ref().is_empty() || !name.get_ref().chars().all(fits) {
        let text = format!("'{}' is not a name of an axis", name.get_ref().escape_debug());
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
            return fail("a value of an axis must be a text, a whole number or a flag".to_owned());
        };
        if read.iter().any(|(_, known)| *known == shown) {
            return fail(format!("'{shown}' is twice in axis '{}'", name.get_ref()));
        }
        read.push((value.get_ref().clone(), shown));
    }
    Ok(MatrixAxis { name: name.get_ref().to_string(), at, values: read })
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
    source: SpecText<'_>,
    table: &DeTable<'a>,
    axes: &[MatrixAxis<'a>],
    used: &mut BTreeSet<usize>,
) -> Result<Vec<ExpandedTable<'a>>, SpecError> {
    let filling = |chosen| AxisFilling { source, axes, chosen, met: BTreeSet::new() };
    // Filled in once on trial: which axes it names decides how many stacks it is.
    let mut first = filling(vec![0; axes.len()]);
    first.table(table)?;
    let mut in_name = filling(vec![0; axes.len()]);
    if let Some(DeValue::String(name)) = table.get("name").map(Spanned::get_ref) {
        in_name.text(name, 0)?;
    }
    used.extend(&first.met);
    let varies = |axis: &usize| first.met.contains(axis);
    let length = |axis: usize| if varies(&axis) { axes[axis].values.len() } else { 1 };
    let lengths: Vec<usize> = (0..axes.len()).map(length).collect();
    // Counted before any is made: nine axes of a thousand values would fill the memory.
    let count = lengths.iter().copied().fold(1_usize, usize::saturating_mul);
    if count > STACKS_MAX {
        let at = table.keys().map(|key| key.span().start).min().unwrap_or(0);
        let text = format!("the axes multiply to {count} stacks, more than {STACKS_MAX}");
        return Err(source.error(at, text).hint("vary fewer things together, or split the spec"));
    }
    let one = |chosen: Vec<usize>| {
        let unnamed = (0..axes.len()).filter(|axis| varies(axis) && !in_name.met.contains(axis));
        let suffix = unnamed.map(|axis| axes[axis].values[chosen[axis]].1.clone()).collect();
        Ok(ExpandedTable { table: filling(chosen).table(table)?, suffix })
    };
    combinations(lengths).map(one).collect()
}

/// Puts values where `{AXIS}` stands.
struct AxisFilling<'x, 'a> {
    source: SpecText<'x>,
    axes: &'x [MatrixAxis<'a>],
    /// Per axis the index of its value.
    chosen: Vec<usize>,
    /// The axes that were named.
    met: BTreeSet<usize>,
}

impl<'x, 'a> AxisFilling<'x, 'a> {
    fn table(&mut self, table: &DeTable<'a>) -> Result<DeTable<'a>, SpecError> {
        let entry = |(key, value): (&Spanned<Cow<'a, str>>, &Spanned<DeValue<'a>>)| {
            let name = Cow::Owned(self.text(key.get_ref(), key.span().start)?);
            Ok((Spanned::new(key.span(), name), self.value(value)?))
        };
        table.iter().map(entry).collect()
    }

    fn value(&mut self, value: &Spanned<DeValue<'a>>) -> Result<Spanned<DeValue<'a>>, SpecError> {
        let at = value.span().start;
        let filled = match value.get_ref() {
            DeValue::String(text) => match whole(text) {
                // With the type that the value has.
                Some(name) => self.axis(name, at)?.0.clone(),
                None => DeValue::String(Cow::Owned(self.text(text, at)?)),
            },
            DeValue::Array(list) => {
                let list: Result<_, _> = list.iter().map(|item| self.value(item)).collect();
                DeValue::Array(list?)
            }
            DeValue::Table(table) => DeValue::Table(self.table(table)?),
            other => other.clone(),
        };
        Ok(Spanned::new(value.span(), filled))
    }

    fn text(&mut self, text: &str, at: usize) -> Result<String, SpecError> {
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(self.source.error(at, "'{' has no matching '}'"));
            };
            filled.push_str(before);
            filled.push_str(&self.axis(name, at)?.1);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn axis(&mut self, name: &str, at: usize) -> Result<&'x (DeValue<'a>, String), SpecError> {
        let Some(index) = self.axes.iter().position(|axis| axis.name == name) else {
            let what = format!("unknown axis '{}'", name.escape_debug());
            let known: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).collect();
            return Err(match known.is_empty() {
                true => self.source.error(at, what).hint("name it with its values below [matrix]"),
                false => self.source.unknown(name, at, what, &known, "the axes of [matrix] are"),
            });
        };
        self.met.insert(index);
        Ok(&self.axes[index].values[self.chosen[index]])
    }
}

/// The name of an axis, where the text is nothing else.
fn whole(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    (!name.contains(['{', '}'])).then_some(name)
}
