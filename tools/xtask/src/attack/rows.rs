//! The rows of the table: every kind of attack, and how many cases of it are tried.
//!
//! Selects rows by their names or their groups' names.

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::archives;
use super::arena::{Arena, sh};
use super::devices;
use super::inputs;
use super::kills;
use super::names;
use super::network;
use super::races;
use super::random::Random;
use super::sockets;

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttackScale {
    /// A minute on a quiet machine
    Small,
    /// 100,000 inputs, 1,000 kills, 1,000 races, 1,000 names, 1,000 archives: some hours
    Full,
}

/// Carries out a case and returns its faults.
pub(super) type Attack = fn(&Arena, usize, &mut Random) -> Result<Vec<String>>;

/// A kind of attack.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttackRow {
    /// `group:kind`.
    pub(super) name: &'static str,
    pub(super) small: usize,
    pub(super) full: usize,
    /// Why it cannot be run here; `None` if it can.
    pub(super) missing: fn(&Arena) -> Option<String>,
    pub(super) attack: Attack,
}

impl AttackRow {
    pub(super) fn count(&self, scale: AttackScale) -> usize {
        match scale {
            AttackScale::Small => self.small,
            AttackScale::Full => self.full,
        }
    }
}

/// For rows that run anywhere.
pub(super) fn nothing(_: &Arena) -> Option<String> {
    None
}

/// For rows that need root.
pub(super) fn root(arena: &Arena) -> Option<String> {
    (!arena.is_root()).then(|| "needs root and namespaces of its own".to_owned())
}

/// For rows that need fio.
pub(super) fn fio(_: &Arena) -> Option<String> {
    sh("command -v fio").is_err().then(|| "needs fio".to_owned())
}

fn all() -> Vec<AttackRow> {
    [
        inputs::rows(),
        kills::rows(),
        races::rows(),
        devices::rows(),
        names::rows(),
        archives::rows(),
        sockets::rows(),
        network::rows(),
    ]
    .concat()
}

/// The rows with these names or in these groups; all if no name is given.
pub(super) fn chosen(names: &[String]) -> Result<Vec<AttackRow>> {
    let rows = all();
    let is_it =
        |row: &AttackRow, name: &str| row.name == name || row.name.split(':').next() == Some(name);
    for name in names {
        let known: Vec<_> = rows.iter().map(|row| row.name).collect();
        ensure!(rows.iter().any(|row| is_it(row, name)), "no '{name}' among {}", known.join(", "));
    }
    let is_chosen = |row: &AttackRow| names.is_empty() || names.iter().any(|name| is_it(row, name));
    Ok(rows.into_iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_chosen_by_its_name_or_its_group_and_every_name_is_one() {
        let rows = all();
        assert_eq!(chosen(&[]).unwrap().len(), rows.len());
        for row in &rows {
            assert_eq!(chosen(&[row.name.to_owned()]).unwrap().len(), 1, "{}", row.name);
        }
        assert!(chosen(&["inputs".to_owned()]).unwrap().len() > 5);
        assert!(chosen(&["nothing".to_owned()]).is_err());
    }
}
