//! Places and folders by short names: a page is sent around, and need not show where a machine keeps
//! its folders. Records and JSON keep the paths.

use std::collections::{BTreeMap, BTreeSet};

use durio_judge::compare::{Comparison, Difference, Pair};

/// The comparison with names in place of absolute paths.
pub(super) fn with_names(comparison: &Comparison) -> Comparison {
    let mut named = comparison.clone();
    let sources = names(&named.sides.iter().map(|side| side.source.clone()).collect());
    for side in &mut named.sides {
        rename(&mut side.source, &sources);
    }
    let locations = locations(&named.pairs);
    for pair in &mut named.pairs {
        pair.steps.iter_mut().flat_map(|step| &mut step.locations).for_each(|location| {
            rename(location, &locations);
        });
        for difference in pair.environment.iter_mut().filter(|difference| is_location(difference)) {
            for side in [&mut difference.baseline, &mut difference.other] {
                let places = side.split(", ").map(|place| name_of(place, &locations));
                *side = places.collect::<Vec<_>>().join(", ");
            }
        }
        let titles = pair.only_baseline.iter_mut().chain(&mut pair.only_other);
        titles.for_each(|title| rename_in(title, &locations));
    }
    if let Some(gate) = &mut named.gate {
        let lines = [&mut gate.regressions, &mut gate.undecided, &mut gate.excluded];
        lines.into_iter().flatten().for_each(|line| rename_in(line, &locations));
    }
    named
}

/// The fact of the machines that has the targets.
fn is_location(difference: &Difference) -> bool {
    difference.what == "location"
}

/// Every location in the pairs, with its name.
fn locations(pairs: &[Pair]) -> BTreeMap<String, String> {
    let steps = pairs.iter().flat_map(|pair| &pair.steps).flat_map(|step| step.locations.clone());
    let facts = pairs.iter().flat_map(|pair| &pair.environment).filter(|fact| is_location(fact));
    let facts = facts.flat_map(|fact| fact.baseline.split(", ").chain(fact.other.split(", ")));
    names(&steps.chain(facts.map(str::to_owned)).collect())
}

/// Each path with as many of its last parts as distinguish it from all others.
fn names(paths: &BTreeSet<String>) -> BTreeMap<String, String> {
    let deepest = paths.iter().map(|path| path.split('/').count()).max().unwrap_or(0);
    let named = |parts: usize| -> BTreeMap<String, String> {
        paths.iter().map(|path| (path.clone(), last_parts(path, parts))).collect()
    };
    let are_distinct = |names: &BTreeMap<String, String>| {
        names.values().collect::<BTreeSet<_>>().len() == names.len()
    };
    let all = || paths.iter().map(|path| (path.clone(), path.clone())).collect();
    (1..deepest).map(named).find(are_distinct).unwrap_or_else(all)
}

/// The end of an absolute path, or of each of several between commas. A relative path stays: it shows
/// nothing of the machine.
fn last_parts(paths: &str, parts: usize) -> String {
    let end = |path: &str| match path.trim_end_matches('/').strip_prefix('/') {
        Some(inner) => {
            let all: Vec<&str> = inner.split('/').collect();
            all[all.len().saturating_sub(parts)..].join("/")
        }
        None => path.to_owned(),
    };
    paths.split(',').map(end).collect::<Vec<_>>().join(",")
}

fn name_of(path: &str, names: &BTreeMap<String, String>) -> String {
    names.get(path).cloned().unwrap_or_else(|| path.to_owned())
}

fn rename(path: &mut String, names: &BTreeMap<String, String>) {
    *path = name_of(path, names);
}

/// Renames the places in the title of a step, or in a sentence about it.
fn rename_in(text: &mut String, names: &BTreeMap<String, String>) {
    // From the last on: of two paths that begin alike the longer one is first.
    for (path, name) in names.iter().rev().filter(|(path, name)| path != name) {
        for before in ["at", "against"] {
            *text = text.replace(&format!(" {before} {path}"), &format!(" {before} {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(paths: &[&str]) -> Vec<String> {
        names(&paths.iter().map(|path| (*path).to_owned()).collect()).into_values().collect()
    }

    #[test]
    fn a_name_has_as_many_parts_of_its_path_as_distinguish_it() {
        assert_eq!(named(&["/home/ann/runs/before", "/home/ann/runs/after"]), ["after", "before"]);
        assert_eq!(named(&["/mnt/fast/data", "/srv/slow/data"]), ["fast/data", "slow/data"]);
        assert_eq!(named(&["/dev/sdb", "/srv/db/"]), ["sdb", "db"]);
        assert_eq!(named(&["/r/a1,/r/a2", "/r/b1,last"]), ["a1,a2", "b1,last"]);
        // A relative path is as it was given, also if an absolute one ends like it.
        assert_eq!(named(&["../data", "last"]), ["../data", "last"]);
        assert_eq!(named(&["/srv/a", "a"]), ["srv/a", "a"]);
        assert_eq!(named(&["/a", "a"]), ["/a", "a"]);
        assert_eq!(named(&["/", "/srv"]), ["/", "srv"]);
        assert_eq!(named(&[""]), [""]);
    }

    #[test]
    fn places_in_sentences_are_renamed_and_nothing_else() {
        let names = names(&["/srv/a", "/srv/ab"].map(str::to_owned).into());
        let renamed = |text: &str| {
            let mut text = text.to_owned();
            rename_in(&mut text, &names);
            text
        };
        assert_eq!(renamed("commit at /srv/ab against /srv/a: p99"), "commit at ab against a: p99");
        assert_eq!(renamed("scan at /srv/c: /srv/a"), "scan at /srv/c: /srv/a");
    }
}
