//! The rows of the table: every kind of attack, and how many cases of it are tried.
//!
//! Each kind of attack lists its rows; `session` has all of them.

use anyhow::Result;
use clap::ValueEnum;

use super::arena::{Arena, sh};
use super::random::Random;

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
