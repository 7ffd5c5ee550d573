//! The arguments of `durio watch`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use durio_base::Nanos;

use crate::exit_code::TABLE;
use crate::values;

/// Probe durable writes at an interval, for monitoring
///
/// A probe creates an unnamed file of 128 KiB, makes 200 durable commits of 8 KiB in it (O_DIRECT,
/// fdatasync each) at a fixed rate of 100 per second, and ends after two seconds. It writes 1.7 MiB,
/// less than 1 MiB in any second, and takes about 50 ms of one CPU. Existing files are not touched.
///
/// Each probe is a run of its own, kept apart from other runs in the state folder:
///
///   durio runs --probes                             # the probes, with their figures
///   durio history /data --metric commit.p99 --probes
///   durio report 2026-11-23T15:40                   # everything about one of them
///
/// With --listen, /metrics serves the figures to Prometheus and / shows the history. Anyone who can
/// reach the address can read them. A failed probe is counted and reported on stderr, and the next one
/// runs at its usual time; only a failure of the first ends the command. SIGTERM and Ctrl-C end it with
/// exit code 0.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct WatchArguments {
    /// Directories on the storage to watch
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directories: Vec<PathBuf>,

    /// Time from the start of one probe to the start of the next, at least 10s
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::period)]
    pub(crate) every: Nanos,

    /// Serve /metrics and a page at this address, such as 127.0.0.1:9119
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = values::listen_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Number of probes to keep per directory; older ones are removed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,

    /// Do not print a line per probe on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
