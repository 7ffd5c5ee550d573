//! The built-in specs, from specs/ of this crate, where `cargo package` finds them.

/// A spec within the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShippedSpec {
    /// Its name, as `durio plan NAME` takes it.
    pub name: &'static str,
    /// The whole text of the file.
    pub text: &'static str,
}

// Within the program: a single binary is copied to a server, and has them there.
macro_rules! shipped {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(ShippedSpec {
            name: $name,
            text: include_str!(concat!("../", $folder, $name, ".toml")),
        }),*]
    };
}

const CAMPAIGNS: &[ShippedSpec] = shipped![
    "specs/":
    "check",
    "db-ladder",
    "db-ladder-as-published",
    "drive-ladder",
    "drive-ladder-as-published",
    "sequential-ladder",
    "sequential-ladder-as-published",
    "depth-ladder",
    "depth-ladder-as-published",
    "four-tests",
    "four-tests-as-published",
    "read-ahead",
    "read-ahead-as-published",
    "prefetch-depth",
    "write-back-cliff",
    "write-back-cliff-as-published",
    "layer-cost",
    "layer-cost-as-published",
    "raid-pages",
    "raid-pages-as-published",
    "cockroach-mix",
    "latency-map",
    "steady-writes",
    "io-properties",
    "snia-iops",
    "snia-throughput",
    "snia-latency",
    "snia-write-saturation",
    "snia-idle-recovery",
];

const STACKS: &[ShippedSpec] = shipped![
    "specs/stacks/":
    "raid-10-flagship",
    "raid-engines",
    "ram-layers",
    "raid-modes",
    "raid-levels",
    "bitmap-cost",
    "journal-modes",
    "dsync-overwrite",
    "loop-layers",
    "lab-suite",
    "timed-devices",
];

const PROOFS: &[ShippedSpec] = shipped!["specs/proofs/": "prove-smoke", "prove-array", "prove-vm", "prove-files", "prove-matrix"];

/// All proof specs, in the order in which they are listed.
pub fn shipped_proof_specs() -> &'static [ShippedSpec] {
    PROOFS
}

/// The proof spec of this name, with or without `specs/proofs/` or `specs/` and `.toml`.
pub fn shipped_proof_spec(name: &str) -> Option<ShippedSpec> {
    let name = name.strip_prefix("specs/").unwrap_or(name);
    find(PROOFS, name.strip_prefix("proofs/").unwrap_or(name))
}

/// All campaigns, in the order in which they are listed.
pub fn shipped_specs() -> &'static [ShippedSpec] {
    CAMPAIGNS
}

/// The campaign of this name, with or without `specs/` and `.toml`.
pub fn shipped_spec(name: &str) -> Option<ShippedSpec> {
    find(CAMPAIGNS, name.strip_prefix("specs/").unwrap_or(name))
}

/// All stack specs, in the order in which they are listed.
pub fn shipped_stack_specs() -> &'static [ShippedSpec] {
    STACKS
}

/// The stack spec of this name, with or without `specs/stacks/` and `.toml`.
pub fn shipped_stack_spec(name: &str) -> Option<ShippedSpec> {
    find(STACKS, name.strip_prefix("specs/stacks/").unwrap_or(name))
}

fn find(specs: &[ShippedSpec], name: &str) -> Option<ShippedSpec> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
    specs.iter().find(|spec| spec.name == name).copied()
}
