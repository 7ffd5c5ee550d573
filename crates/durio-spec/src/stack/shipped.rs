//! The built-in stack specs, from specs/stacks/ of its repository.

use crate::ShippedSpec;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(ShippedSpec {
            name: $name,
            text: include_str!(concat!("../../../../specs/stacks/", $name, ".toml")),
        }),*]
    };
}

const SHIPPED: &[ShippedSpec] = shipped![
    "raid-10-flagship",
    "ram-layers",
    "raid-modes",
    "bitmap-cost",
    "journal-modes",
    "dsync-overwrite",
    "loop-layers",
    "lab-suite",
    "timed-devices",
];

/// All of them, in the order in which they are listed.
#[must_use]
pub fn shipped_stack_specs() -> &'static [ShippedSpec] {
    SHIPPED
}

/// The one of this name, with or without `specs/stacks/` and `.toml`.
#[must_use]
pub fn shipped_stack_spec(name: &str) -> Option<ShippedSpec> {
    let name = name.strip_prefix("specs/stacks/").unwrap_or(name);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    SHIPPED.iter().find(|spec| spec.name == name).copied()
}
