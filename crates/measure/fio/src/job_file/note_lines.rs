//! Notes on a job file, each difference from fio once, however many jobs have it.

use super::{Remark, SourcePosition};

/// Places that a line names before it only counts the others.
const PLACES_MAX: usize = 4;

/// One line that names the ignored options, then a line per difference with its places.
pub fn note_lines<'n>(notes: impl IntoIterator<Item = &'n Remark>) -> Vec<String> {
    let mut ignored: Vec<&str> = Vec::new();
    let mut differences: Vec<Vec<&Remark>> = Vec::new();
    for note in notes {
        let is_same = |group: &&mut Vec<&Remark>| {
            group.iter().any(|other| (&other.option, &other.what) == (&note.option, &note.what))
        };
        if note.is_ignored {
            if !ignored.contains(&note.option.as_str()) {
                ignored.push(&note.option);
            }
        } else if let Some(group) = differences.iter_mut().find(is_same) {
            group.push(note);
        } else {
            differences.push(vec![note]);
        }
    }
    ignored_line(&ignored).into_iter().chain(differences.iter().map(|group| line(group))).collect()
}

fn ignored_line(options: &[&str]) -> Option<String> {
    let names = options.join(", ");
    match options.len() {
        0 => None,
        1 => Some(format!("note: 1 option has no effect here: {names}")),
        count => Some(format!("note: {count} options have no effect here: {names}")),
    }
}

fn line(group: &[&Remark]) -> String {
    let [first, others @ ..] = group else { return String::new() };
    let is_of_all = others.iter().all(|other| other.value == first.value);
    let value = first.value.as_ref().filter(|_| is_of_all);
    let value = value.map_or_else(String::new, |value| format!("={value}"));
    format!("note: {}: {}{value}: {}", places(first, others), first.option, first.what)
}

/// `a.fio:3, 7, b.fio:2`: a line of the file before needs no name.
fn places(first: &Remark, others: &[&Remark]) -> String {
    let mut text = first.at.to_string();
    let mut last = &first.at;
    let mut places = 1;
    for Remark { at, .. } in others {
        if at == last {
            continue;
        }
        places += 1;
        if places <= PLACES_MAX {
            let place = match (last, at) {
                (
                    SourcePosition::Line { file: before, .. },
                    SourcePosition::Line { file, line },
                ) if before == file => line.to_string(),
                _ => at.to_string(),
            };
            text = format!("{text}, {place}");
        }
        last = at;
    }
    match places.checked_sub(PLACES_MAX) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, line: u32) -> SourcePosition {
        SourcePosition::Line { file: file.into(), line }
    }

    fn difference(at: &SourcePosition, value: &str) -> Remark {
        Remark { value: Some(value.to_owned()), ..Remark::new(at, "fsync", "it differs") }
    }

    fn ignored(option: &str, line: u32) -> Remark {
        Remark { is_ignored: true, ..Remark::new(&at("j.fio", line), option, "a reason") }
    }

    #[test]
    fn ignored_options_are_one_line_that_names_each_once() {
        let notes = [ignored("randseed", 2), ignored("stats", 3), ignored("randseed", 9)];
        let both = "note: 2 options have no effect here: randseed, stats";
        assert_eq!(note_lines(&notes), [both]);
        let one = "note: 1 option has no effect here: randseed";
        assert_eq!(note_lines(&notes[..1]), [one]);
        assert!(note_lines(&[]).is_empty());
    }

    #[test]
    fn a_difference_of_several_jobs_is_one_line_with_their_places() {
        let notes = [
            difference(&at("a.fio", 3), "8"),
            ignored("stats", 4),
            Remark::new(&at("a.fio", 5), "rw", "it differs"),
            difference(&at("a.fio", 7), "8"),
            difference(&at("b.fio", 2), "8"),
        ];
        let expected = [
            "note: 1 option has no effect here: stats",
            "note: a.fio:3, 7, b.fio:2: fsync=8: it differs",
            "note: a.fio:5: rw: it differs",
        ];
        assert_eq!(note_lines(&notes), expected);
    }

    #[test]
    fn values_that_differ_are_left_out_and_places_after_the_fourth_are_counted() {
        let notes = |count: u32| -> Vec<Remark> {
            (1..=count).map(|line| difference(&at("j.fio", line), &line.to_string())).collect()
        };
        let four = "note: j.fio:1, 2, 3, 4: fsync: it differs";
        assert_eq!(note_lines(&notes(4)), [four]);
        let more = "note: j.fio:1, 2, 3, 4 and 2 more: fsync: it differs";
        assert_eq!(note_lines(&notes(6)), [more]);
        assert_eq!(note_lines(&notes(1)), ["note: j.fio:1: fsync=1: it differs"]);
    }
}
