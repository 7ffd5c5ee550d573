//! Rule: a crate uses lower rows only, and of the products in `crates/` only its own product and
//! the core.
//!
//! Dependencies of tests alone may come from anywhere.

use super::tree::CrateManifest;
use super::{Problem, line_where};

/// The rows of crates; see the architecture document.
const ROWS: [(u8, &[&str]); 10] = [
    (1, &["durio-base"]),
    (2, &["durio-workload", "durio-block"]),
    (3, &["durio-plan", "durio-observe", "durio-simdisk", "durio-nbd"]),
    (4, &["durio-layers", "durio-command"]),
    (5, &["durio-spec", "durio-record", "durio-fio", "durio-raid", "durio-manual"]),
    (6, &["durio-run", "durio-analyse", "durio-capture", "durio-agree"]),
    (7, &["durio-judge"]),
    (8, &["durio-report", "durio-lab", "durio-serve"]),
    (9, &["durio-bench", "durio-prove", "durio-raid-commands", "durio-hosts"]),
    (10, &["durio", "durio-fleet"]),
];

/// The product that every other may use.
const CORE: &str = "core";

/// Permitted uses of another product: the crate, its dependency, and the reason.
const ACROSS: [(&str, &str, &str); 6] = [
    ("durio-hosts", "durio-analyse", "hosts are compared by the findings of their runs"),
    ("durio-hosts", "durio-report", "reports of hosts are documents as all reports"),
    ("durio-spec", "durio-simdisk", "a proof names disks that lie"),
    ("durio-prove", "durio-raid", "power cuts of arrays run the engine itself"),
    ("durio-raid", "durio-simdisk", "the simulator's members are simulated disks"),
    (
        "durio-prove",
        "durio-layers",
        "filesystems and arrays on a guest's disks are built as stacks",
    ),
];

/// Crates by which a program speaks over a network, and the only one that may: durio itself and what
/// it is made of stay small and without an asynchronous runtime.
const NETWORK: [&str; 2] = ["tokio", "async-nats"];
const NETWORK_USER: &str = "durio-fleet";

/// What no product depends on is outside the rows.
const OUTSIDE: [&str; 2] = ["xtask", "testkit"];

/// Checks every crate of the workspace.
pub(super) fn check(manifests: &[CrateManifest]) -> Vec<Problem> {
    let inside =
        || manifests.iter().filter(|manifest| !OUTSIDE.contains(&manifest.crate_name.as_str()));
    let mut problems: Vec<Problem> = inside().flat_map(check_crate).collect();
    problems.extend(inside().flat_map(|manifest| check_products(manifest, manifests)));
    problems.extend(inside().flat_map(check_network));
    problems
}

fn check_network(manifest: &CrateManifest) -> Vec<Problem> {
    let name = manifest.crate_name.as_str();
    let used = manifest.dependencies.iter().map(String::as_str);
    let used = used.filter(|used| name != NETWORK_USER && NETWORK.contains(used));
    used.map(|used| {
        let line = line_where(&manifest.text, |line| super::reasons::key_of(line) == used);
        let what = format!("{name} uses {used}; only {NETWORK_USER} may");
        Problem::new(&manifest.path, line, what)
    })
    .collect()
}

/// The folder of a product's crates: `core` of `crates/core/base/Cargo.toml`. The command line is
/// in none.
fn product(manifest: &CrateManifest) -> Option<&str> {
    let (product, inside) = manifest.path.strip_prefix("crates/")?.split_once('/')?;
    inside.contains('/').then_some(product)
}

fn check_products(manifest: &CrateManifest, all: &[CrateManifest]) -> Vec<Problem> {
    let name = manifest.crate_name.as_str();
    let Some(own) = product(manifest) else { return Vec::new() };
    let other_product = |dependency: &str| {
        let used = all.iter().find(|candidate| candidate.crate_name == dependency)?;
        product(used).filter(|&other| other != own && other != CORE)
    };
    let permitted =
        |dependency: &str| ACROSS.iter().any(|&(user, used, _)| (user, used) == (name, dependency));
    let mut problems = Vec::new();
    for dependency in &manifest.dependencies {
        if let Some(other) = other_product(dependency).filter(|_| !permitted(dependency)) {
            let line =
                line_where(&manifest.text, |line| super::reasons::key_of(line) == dependency);
            let what = format!("{name} ({own}) uses {dependency} ({other}); use the core only");
            problems.push(Problem::new(&manifest.path, line, what));
        }
    }
    for (_, used, _) in ACROSS.iter().filter(|(user, _, _)| *user == name) {
        let is_needed = manifest.dependencies.iter().any(|dependency| dependency == used);
        if !is_needed || other_product(used).is_none() {
            let what = format!("{name} no longer crosses to {used}: take it off the list");
            problems.push(Problem::new(&manifest.path, 1, what));
        }
    }
    problems
}

fn check_crate(manifest: &CrateManifest) -> Vec<Problem> {
    let name = &manifest.crate_name;
    let Some(row) = row_of(name) else {
        let line = line_where(&manifest.text, |line| line.starts_with("name"));
        let what = format!("{name} stands in no row; give it one in tools/xtask/src/tidy/rows.rs");
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
        let lines =
            dependencies.iter().map(|dependency| format!("{dependency}.workspace = true\n"));
        let manifest = CrateManifest {
            crate_name: crate_name.to_owned(),
            path: "Cargo.toml".to_owned(),
            text: format!("[package]\nname = \"x\"\n[dependencies]\n{}", lines.collect::<String>()),
            dependencies: dependencies.iter().map(|&dependency| dependency.to_owned()).collect(),
        };
        check(&[manifest]).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn lower_rows_and_other_people_s_crates_may_be_used() {
        assert!(found("durio-run", &["durio-base", "durio-record", "serde"]).is_empty());
        assert!(found("durio", &["durio-report"]).is_empty());
    }

    #[test]
    fn only_the_program_for_many_hosts_speaks_over_a_network() {
        assert!(found("durio-fleet", &["tokio", "async-nats"]).is_empty());
        let expected = |line, name| {
            format!("Cargo.toml:{line}: durio-hosts uses {name}; only durio-fleet may")
        };
        let found = found("durio-hosts", &["serde", "tokio", "async-nats"]);
        assert!(found.contains(&expected(5, "tokio")), "{found:?}");
        assert!(found.contains(&expected(6, "async-nats")), "{found:?}");
    }

    #[test]
    fn a_higher_row_is_caught_with_its_line() {
        let found = found("durio-plan", &["durio-base", "durio-run"]);
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
        assert!(found("testkit", &["durio"]).is_empty());
    }

    fn manifest(name: &str, folder: &str, dependencies: &[&str]) -> CrateManifest {
        CrateManifest {
            crate_name: name.to_owned(),
            path: format!("crates/{folder}/Cargo.toml"),
            text: dependencies.iter().map(|name| format!("{name}.workspace = true\n")).collect(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn crossings(user: &CrateManifest, others: &[CrateManifest]) -> Vec<String> {
        check_products(user, others).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn a_product_uses_itself_the_core_and_what_is_named() {
        let others = [
            manifest("durio-base", "core/base", &[]),
            manifest("durio-analyse", "measure/analyse", &[]),
            manifest("durio-simdisk", "prove/simdisk", &[]),
            manifest("durio-lab", "prove/lab", &[]),
        ];
        let spec = |dependencies: &[&str]| {
            let spec = manifest("durio-spec", "measure/spec", dependencies);
            crossings(&spec, &others)
        };
        assert!(spec(&["durio-base", "durio-analyse", "durio-simdisk", "serde"]).is_empty());
        assert_eq!(
            spec(&["durio-simdisk", "durio-lab"]),
            ["crates/measure/spec/Cargo.toml:2: durio-spec (measure) uses durio-lab (prove); use \
              the core only"]
        );
        assert_eq!(
            spec(&["durio-base"]),
            ["crates/measure/spec/Cargo.toml:1: durio-spec no longer crosses to durio-simdisk: \
              take it off the list"]
        );
        let core = manifest("durio-observe", "core/observe", &["durio-analyse"]);
        assert_eq!(crossings(&core, &others).len(), 1);
    }

    #[test]
    fn the_command_line_may_use_every_product() {
        let durio = manifest("durio", "durio", &["durio-lab"]);
        assert!(crossings(&durio, &[manifest("durio-lab", "prove/lab", &[])]).is_empty());
    }
}
