//! The arguments of `durio config`.

use clap::Args;

use crate::exit_code::TABLE;

/// Show the defaults that your configuration file sets
///
/// The file is durio/config.toml in $XDG_CONFIG_HOME or ~/.config; DURIO_CONFIG names another one, and
/// empty stands for none. A table is a command, and a key is one of its long options:
///
///   [check]
///   size = "4GiB"
///   goal = ["commit p99 < 5ms"]
///
///   [stack.bench]
///   quiet = true
///
/// An option on the command line overrides the file. What permits a loss (--destroy, --force,
/// --force-signature, --create, --assume-clean,
/// --repair, --yes) is not taken from a file, and root takes none that
/// belongs to, or can be written by, somebody else. The record of a run has the combined command line.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ConfigCommand {}
