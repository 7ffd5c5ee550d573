//! Values that occur in several objects of fio's output.
//!
//! In: a cursor before the value. Out: lists of options, of shares, of counts; `null` and missing
//! keys leave what was there. Not here: the objects themselves.

use super::cursor::{Cursor, Read};
use super::output::Options;
use super::shares::Shares;

/// Options as `{name: value}`, or, as some versions wrap them, in a list.
pub(super) fn options(cursor: &mut Cursor<'_>) -> Read<Options> {
    let mut options = Options::new();
    if cursor.is_array() {
        cursor.array(|cursor| add_options(cursor, &mut options))?;
    } else {
        add_options(cursor, &mut options)?;
    }
    Ok(options)
}

fn add_options(cursor: &mut Cursor<'_>, options: &mut Options) -> Read<()> {
    cursor.object(|cursor, name| {
        options.push((name.to_owned(), cursor.string()?));
        Ok(())
    })
}

/// Percentages by label, as in `iodepth_level`.
pub(super) fn shares(cursor: &mut Cursor<'_>) -> Read<Shares> {
    let mut shares = Shares::new();
    cursor.object(|cursor, label| {
        shares.push((label.to_owned(), cursor.f64()?));
        Ok(())
    })?;
    Ok(shares)
}

/// A list of counts.
pub(super) fn counts(cursor: &mut Cursor<'_>) -> Read<Vec<u64>> {
    let mut counts = Vec::new();
    cursor.array(|cursor| {
        counts.push(cursor.u64()?);
        Ok(())
    })?;
    Ok(counts)
}

/// A list of objects.
pub(super) fn list<T>(
    cursor: &mut Cursor<'_>,
    mut read: impl FnMut(&mut Cursor<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    let mut list = Vec::new();
    cursor.array(|cursor| {
        list.push(read(cursor)?);
        Ok(())
    })?;
    Ok(list)
}
