//! Rule: a crate uses lower rows only.
//!
//! In: manifests. Out: problems. Not here: what tests use, which may come from any row.

use super::tree::Manifest;
use super::{Problem, line_where};

/// The rows of the house; see the architecture document.
const ROWS: [(u8, &[&str]); 11] = [
    (1, &["durio-units"]),
    (2, &["durio-stats", "durio-workload", "durio-block"]),
    (3, &["durio-plan", "durio-observe", "durio-simdisk", "durio-nbd"]),
    (4, &["durio-layers"]),
    (5, &["durio-spec", "durio-record", "durio-fio", "durio-raid"]),
    (6, &["durio-run", "durio-analyse", "durio-capture"]),
    (7, &["durio-audit", "durio-compare", "durio-signals"]),
    (8, &["durio-advise"]),
    (9, &["durio-report", "durio-prove", "durio-lab", "durio-serve", "durio-fleet"]),
    (10, &["durio-bench"]),
    (11, &["durio"]),
];

/// The developer's tool stands outside the house.
const OUTSIDE: &str = "xtask";

/// Checks every crate of the workspace.
pub(super) fn check(manifests: &[Manifest]) -> Vec<Problem> {
    let inside = manifests.iter().filter(|manifest| manifest.crate_name != OUTSIDE);
    inside.flat_map(check_crate).collect()
}

fn check_crate(manifest: &Manifest) -> Vec<Problem> {
    let name = &manifest.crate_name;
    let Some(row) = row_of(name) else {
        let line = line_where(&manifest.text, |line| line.starts_with("name"));
        let what = format!("{name} stands in no row; give it one in xtask/src/tidy/rows.rs");
        return vec![Problem::new(&manifest.path, line, what)];
    };
    let ours = manifest.dependencies.iter().filter(|dependency| is_ours(dependency));
    ours.filter_map(|dependency| {
        let line = line_where(&manifest.text, |line| super::reasons::key_of(line) == dependency);
        let what = complaint(name, row, dependency)?;
        Some(Problem::new(&manifest.path, line, what))
    })
    .collect()
}

fn complaint(name: &str, row: u8, dependency: &str) -> Option<String> {
    match row_of(dependency) {
        Some(lower) if lower < row => None,
        Some(other) => Some(format!(
            "{name} (row {row}) uses {dependency} (row {other}); use lower rows only: \
             move what is needed down"
        )),
        None => Some(format!("{name} uses {dependency}, which stands in no row; give it one")),
    }
}

fn is_ours(dependency: &str) -> bool {
    dependency == "durio" || dependency.starts_with("durio-")
}

pub(super) fn row_of(name: &str) -> Option<u8> {
    ROWS.iter().find(|(_, names)| names.contains(&name)).map(|&(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(crate_name: &str, dependencies: &[&str]) -> Vec<String> {
        let lines = dependencies.iter().map(|it| format!("{it}.workspace = true\n"));
        let manifest = Manifest {
            crate_name: crate_name.to_owned(),
            path: "Cargo.toml".to_owned(),
            text: format!("[package]\nname = \"x\"\n[dependencies]\n{}", lines.collect::<String>()),
            dependencies: dependencies.iter().map(|&it| it.to_owned()).collect(),
        };
        check(&[manifest]).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn lower_rows_and_other_people_s_crates_may_be_used() {
        assert!(found("durio-run", &["durio-units", "durio-record", "serde"]).is_empty());
        assert!(found("durio", &["durio-report"]).is_empty());
    }

    #[test]
    fn a_higher_row_is_caught_with_its_line() {
        let found = found("durio-plan", &["durio-units", "durio-run"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("Cargo.toml:5: durio-plan (row 3) uses durio-run (row 6)"));
    }

    #[test]
    fn the_same_row_is_caught() {
        assert_eq!(found("durio-analyse", &["durio-run"]).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_caught_as_user_and_as_used() {
        assert!(found("durio-misc", &[])[0].starts_with("Cargo.toml:2: durio-misc stands in no"));
        assert!(found("durio-run", &["durio-misc"])[0].contains("which stands in no row"));
    }

    #[test]
    fn the_developer_s_tool_may_use_anything() {
        assert!(found("xtask", &["durio"]).is_empty());
    }
}
