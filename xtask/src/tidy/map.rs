//! `cargo xtask tidy --map`: the house as it stands.
//!
//! In: manifests and sources. Out: the crates by row, the highest first, each with its sentence, its
//! lines and the crates that it uses directly. Not here: what may use what (`rows`).

use std::fmt::Write as _;

use super::rows::row_of;
use super::tree::{Manifest, Source};

/// Draws the crates that stand in a row.
pub(super) fn draw(manifests: &[Manifest], sources: &[Source]) -> String {
    let mut rooms: Vec<_> =
        manifests.iter().filter_map(|it| Some((row_of(&it.crate_name)?, it))).collect();
    rooms.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.crate_name.cmp(&b.1.crate_name)));
    let (mut text, mut sum) = (String::new(), [0, 0]);
    for (row, manifest) in rooms {
        let folder = manifest.path.trim_end_matches("/Cargo.toml");
        let own = sources.iter().filter(|source| source.is_in(folder));
        let [lines, tests] = own.map(lines_of).fold([0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
        sum = [sum[0] + lines, sum[1] + tests];
        let name = &manifest.crate_name;
        let about = description(&manifest.text);
        let _ = writeln!(text, "{row}  {name:<15} {lines:>6} {tests:>6}  {about}");
        let uses: Vec<_> = manifest.dependencies.iter().filter_map(|it| room(it)).collect();
        if !uses.is_empty() {
            let _ = writeln!(text, "{:>33} uses {}", "", uses.join(", "));
        }
    }
    let _ = writeln!(text, "   {:<15} {:>6} {:>6}", "all", sum[0], sum[1]);
    format!("row crate            lines  tests\n{text}")
}

/// The name of a crate of ours, without what all have in common.
fn room(name: &str) -> Option<&str> {
    row_of(name).map(|_| name.trim_start_matches("durio-"))
}

fn description(manifest: &str) -> &str {
    let line = manifest.lines().find_map(|line| line.strip_prefix("description = "));
    line.unwrap_or_default().trim_matches('"')
}

/// Lines that are not blank: of the product, and of its tests.
fn lines_of(source: &Source) -> [usize; 2] {
    let count = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
    let (product, tests) = match source.text.split_once("#[cfg(test)]\nmod tests {") {
        _ if is_test_file(&source.path) => ("", source.text.as_str()),
        Some(parts) => parts,
        None => (source.text.as_str(), ""),
    };
    [count(product), count(tests)]
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_apart_wherever_they_stand() {
        let inside = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let count = |path, text| lines_of(&Source::new(path, text));
        assert_eq!(count("crates/durio-run/src/job.rs", inside), [1, 2]);
        assert_eq!(count("crates/durio-run/src/job/tests.rs", "fn a() {}\n"), [0, 1]);
        assert_eq!(count("crates/durio-run/tests/cli/x.rs", "fn a() {}\n"), [0, 1]);
    }

    #[test]
    fn a_crate_is_drawn_with_its_row_its_sentence_and_what_it_uses() {
        let manifest = Manifest {
            crate_name: "durio-plan".to_owned(),
            path: "crates/durio-plan/Cargo.toml".to_owned(),
            text: "description = \"the plan as data\"\n".to_owned(),
            dependencies: vec!["durio-units".to_owned(), "serde".to_owned()],
        };
        let map = draw(&[manifest], &[Source::new("crates/durio-plan/src/lib.rs", "//! x\n")]);
        assert!(map.contains("3  durio-plan           1      0  the plan as data\n"), "{map}");
        assert!(map.contains(" uses units\n"), "{map}");
    }
}
