//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use durio_base::Nanos;
use durio_record::fleet::{Barrier, LostPolicy};

use crate::campaign_bus::{BusArguments, PermissionsArguments};
use crate::joined::JoinArguments;
use crate::launch::HostTarget;
use crate::standing_bus::{InviteArguments, ServeArguments};

/// The exit codes, for `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  0    success
  1    a goal was missed, or hosts are missing
  2    usage error
  3    cannot be measured here; the reason is on stderr
  4    internal error
  130  interrupted; the runs of a campaign's hosts were collected";

/// Measure many hosts as one: starts durio on each by ssh, and coordinates them over NATS
///
/// durio fleet starts this program. The hosts need durio and durio-fleet, or --push; this machine
/// needs ssh and nats-server, which listens on loopback and which the hosts reach through ssh unless
/// --bus says otherwise.
#[derive(Debug, Parser)]
#[command(name = "durio-fleet", version, verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProgramArguments {
    #[command(subcommand)]
    pub(crate) command: CoordinatorCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CoordinatorCommand {
    Doctor(DoctorArguments),
    Plan(FleetPlanArguments),
    Run(Box<RunArguments>),
    Check(Box<FleetCheckArguments>),
    Confirm(ConfirmArguments),
    /// Show the hosts of a campaign, running or ended
    Status {
        /// Folder of the campaign
        folder: PathBuf,
    },
    /// Stop a running campaign: hosts end their runs, which are collected
    Stop {
        /// Folder of the campaign
        folder: PathBuf,
    },
    /// Continue a campaign whose coordinator ended before it
    Resume(AgainArguments),
    /// Fetch the runs of hosts that were lost, and are back
    Collect(AgainArguments),
    Permissions(PermissionsArguments),
    Serve(ServeArguments),
    Invite(InviteArguments),
    Join(JoinArguments),
    /// Serve a campaign on this host; join starts this
    #[command(name = crate::carrier::AGENT_COMMAND, hide = true)]
    Agent,
    /// Serve the hosts of a region; run starts this on a machine near them
    #[command(name = crate::session::RELAY_COMMAND, hide = true)]
    Relay,
    /// Write the man pages of the commands of durio fleet into a directory, for packages
    #[command(hide = true)]
    Man {
        /// Directory for the pages; it must exist
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print a completion script of durio-fleet for a shell
    #[command(hide = true)]
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Become the private server of a campaign; run starts this
    #[command(name = crate::bus::SERVER_COMMAND, hide = true)]
    BusServer {
        program: PathBuf,
        folder: PathBuf,
    },
}

/// Run a spec on every host at the same time, collect the runs and report
///
/// Every host plans the spec with its own durio first, and nothing is written before all plans are
/// known. The measured steps start at one time. Each host's run folder is collected into the
/// campaign's folder, and durio fleet report reads that.
///
///   durio fleet run db-ladder --hosts db[01-40] --target data=/srv/data
///   durio fleet run my-spec.toml --hosts hosts.txt --target data=/srv/data --push -o campaign
///
/// A host that falls silent is lost: the others go on unless --lost stop. Its run ends by itself, and
/// is collected if the host comes back before the end, or later by durio fleet collect.
///
/// More than 1,000 hosts are served by relays, each a machine near some of them:
///
///   durio fleet run db-ladder --relay gw1=rack1.txt --relay gw2=rack2.txt --target data=/srv/data
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RunArguments {
    /// Campaign to run: a TOML file, or the name of a built-in spec (durio plan lists them)
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    #[command(flatten)]
    pub(crate) options: CampaignOptions,
}

/// Check the storage of every host at the same time: durio fleet run check
///
/// The eight workloads of durio check, in files of the same size on every host: 1.2 GiB, and one
/// minute. The targets data, log and segment are files in one folder unless each has its --target; a
/// host with /etc/durio/fleet.toml needs a permit for each of them.
///
///   durio fleet check --hosts db[01-40] --target data=/srv/data
///   durio fleet check --hosts hosts.txt --target data=/srv/data --goal 'commit p99 < 5ms'
///
/// With --goal the exit code is 1 if a host misses the goal in its worst run, and the hosts are named;
/// 3 if a host could not be compared.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct FleetCheckArguments {
    #[command(flatten)]
    pub(crate) options: CampaignOptions,
}

/// Show every write on every host, grouped by equal plans, and run nothing
///
/// Each host plans the spec with its own durio and compares the plan with what it permits, as for
/// durio fleet run. Hosts with the same plan are one group; hosts that refuse or cannot be reached are
/// listed with the reason. Nothing is measured, and nothing is kept on the hosts.
///
///   durio fleet plan db-ladder --hosts db[01-40] --target data=/srv/data
///   durio fleet plan my-spec.toml --hosts hosts.txt --target data=/srv/data --format json
///
/// The exit code is 1 if a host has no plan.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct FleetPlanArguments {
    /// Campaign to plan: a TOML file, or the name of a built-in spec (durio plan lists them)
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    #[command(flatten)]
    pub(crate) rehearsal: RehearsalOptions,
}

/// Check whether each host can take part in a campaign, and this machine can lead it
///
/// This machine: ssh, nats-server, and the limit of open files. Each host: whether it can be reached,
/// its versions of durio, whether it is another machine than the others, its permits for each --target
/// (a file of 4 KiB is planned and never made), the filesystem there and its free space, the limit of
/// open files, and the difference of its clock.
///
///   durio fleet doctor --hosts db[001-250] --target data=/srv/data
///
/// Hosts with the same answers are one line, the worst first. The exit code is 1 if a host cannot take
/// part.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) rehearsal: RehearsalOptions,
}

// What hosts are asked, without running anything.
#[derive(Debug, Args)]
pub(crate) struct RehearsalOptions {
    #[command(flatten)]
    pub(crate) hosts: HostOptions,

    /// Format of the answer on stdout
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    pub(crate) format: AnswerFormat,

    /// File with the seed of the key that signs orders, which the hosts' /etc/durio/fleet.toml names
    /// [default: a new key, for hosts without that file]
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    pub(crate) key: Option<PathBuf>,

    /// Do not show progress on stderr
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    Text,
    Json,
}

// Which hosts, how they are reached, and where their targets are. Not a doc comment: clap would take
// it for the help of the command.
#[derive(Debug, Args)]
pub(crate) struct HostOptions {
    /// Hosts: a list such as db[001-250],root@log1:2222, a file with one per line, or an inventory of
    /// Ansible [default: $DURIO_HOSTS]
    #[arg(long, value_name = "HOSTS", help_heading = "Hosts")]
    pub(crate) hosts: Option<OsString>,

    /// Group of the inventory
    #[arg(long, value_name = "GROUP", help_heading = "Hosts")]
    pub(crate) group: Option<String>,

    /// Serve these hosts by a relay: a machine near them that reaches them by ssh, for campaigns of
    /// more than 1,000 hosts (can be repeated)
    ///
    /// LIST is as for --hosts, and its hosts are asked in addition to those of --hosts, if any. HOST is
    /// reached by ssh as hosts are, needs durio-fleet (--push copies it) and nats-server, and measures
    /// nothing. Its user logs in on the hosts of LIST, by the ssh configuration of HOST; their bus is
    /// on HOST. A relay serves 2,000 hosts at most. While it is silent, its hosts go on by their
    /// timetable.
    #[arg(long = "relay", value_name = "HOST=LIST", help_heading = "Hosts")]
    pub(crate) relays: Vec<String>,

    /// Configuration file of ssh, instead of the user's
    #[arg(long, value_name = "FILE", help_heading = "Hosts")]
    pub(crate) ssh_config: Option<PathBuf>,

    /// ssh sessions that are started at a time; a bastion may refuse more
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Hosts",
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) fanout: u16,

    #[command(flatten)]
    pub(crate) bus: BusArguments,

    /// Copy durio and durio-fleet of this machine to a temporary folder of each host, which is removed
    /// at the end
    #[arg(long, help_heading = "Hosts")]
    pub(crate) push: bool,

    /// Where a target of the spec is on every host; only new files of durio are made there
    #[arg(long = "target", value_name = "NAME=PATH", help_heading = "What")]
    pub(crate) targets: Vec<HostTarget>,
}

// What a new campaign may have, whatever its spec.
#[derive(Debug, Args)]
pub(crate) struct CampaignOptions {
    #[command(flatten)]
    pub(crate) hosts: HostOptions,

    /// Exit with 1 if a host misses this goal, such as 'commit p99 < 5ms' (can be repeated)
    ///
    /// As for durio fleet report: WORKLOAD MEASURE < TIME for a latency (p50, p99 or p99.9), or
    /// WORKLOAD rate > N. The worst run of each host counts.
    #[arg(long = "goal", value_name = "GOAL", help_heading = "What")]
    pub(crate) goals: Vec<String>,

    /// Make this many runs on each host, one after the other; three show smaller differences
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) repeat: u32,

    /// Steps that start at one time [default: start; step with --shared]
    #[arg(long, value_enum, help_heading = "What")]
    pub(crate) barrier: Option<BarrierOption>,

    /// The targets of all hosts are one storage: its load ends when the coordinator is silent for 30 s
    #[arg(long, help_heading = "What")]
    pub(crate) shared: bool,

    /// What the others do when a host is lost or its run hangs
    #[arg(long, value_enum, default_value = "go-on", help_heading = "Policy")]
    pub(crate) lost: LostOption,

    /// Stop if fewer hosts remain: a number, or a share such as 95%
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Policy")]
    pub(crate) min_hosts: HostsMin,

    /// Silence after which a host is lost; hosts report twice a second
    #[arg(long, value_name = "TIME", default_value = "1.5s", help_heading = "Policy")]
    pub(crate) lost_after: Nanos,

    /// How long to wait for lost hosts when all others have ended
    #[arg(long, value_name = "TIME", default_value = "60s", help_heading = "Policy")]
    pub(crate) lost_wait: Nanos,

    /// Name of the campaign and of its runs
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(crate) name: Option<String>,

    /// Folder to make for the campaign [default: one with the time in its name, here]
    #[arg(short = 'o', long = "output", value_name = "FOLDER", help_heading = "Output")]
    pub(crate) folder: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

/// Run the suspects of a campaign again, with other hosts for comparison, and name or clear them
///
/// Of thousands of results the worst are picked, and their luck does not last: only runs that were
/// made for the purpose can tell a slow host from an unlucky one. Each suspect and as many other hosts
/// of its kind make five further runs, at the same time.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ConfirmArguments {
    /// Folder of the campaign
    pub(crate) folder: PathBuf,

    /// Runs of each host; fewer than 5 decide nothing
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(5..=100))]
    pub(crate) repeat: u32,

    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AgainArguments {
    /// Folder of the campaign
    pub(crate) folder: PathBuf,

    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// File with the seed of the key that signs orders, which the hosts' /etc/durio/fleet.toml names
    /// [default: a new key, for hosts without that file]
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    pub(crate) key: Option<PathBuf>,

    /// Do not ask for confirmation
    #[arg(long, help_heading = "Policy")]
    pub(crate) yes: bool,

    /// Do not show progress on stderr
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Serve a page that follows the campaign at this address, such as 127.0.0.1:9119, and its figures
    /// for Prometheus at /metrics; everyone who can reach the address can see them
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = durio_command::http::listen_address,
          help_heading = "Output")]
    pub(crate) listen: Option<SocketAddr>,

    /// Write the newest figures of all hosts to stdout once a second, a document in a line, and the
    /// report at the end in the same format
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) live: Option<LiveFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveFormat {
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BarrierOption {
    /// The first one; each host continues by itself
    Start,
    /// The first one of each section
    Section,
    /// All
    Step,
}

impl From<BarrierOption> for Barrier {
    fn from(option: BarrierOption) -> Self {
        match option {
            BarrierOption::Start => Self::Start,
            BarrierOption::Section => Self::Section,
            BarrierOption::Step => Self::Step,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LostOption {
    GoOn,
    Stop,
}

impl From<LostOption> for LostPolicy {
    fn from(option: LostOption) -> Self {
        match option {
            LostOption::GoOn => Self::GoOn,
            LostOption::Stop => Self::Stop,
        }
    }
}

/// The hosts that must remain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostsMin {
    Hosts(u32),
    Percent(u32),
}

impl HostsMin {
    /// Of this many, rounded up.
    pub(crate) fn of(self, hosts: u32) -> u32 {
        match self {
            Self::Hosts(count) => count,
            Self::Percent(share) => {
                let product = u64::from(hosts) * u64::from(share);
                u32::try_from(product.div_ceil(100)).unwrap_or(u32::MAX)
            }
        }
    }
}

impl std::str::FromStr for HostsMin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected =
            || "expected a number of hosts from 1, or a share from 1% to 100%".to_owned();
        let (digits, is_share) = match text.strip_suffix('%') {
            Some(digits) => (digits, true),
            None => (text, false),
        };
        let number: u32 = digits.parse().map_err(|_| expected())?;
        match (number, is_share) {
            (1..=100, true) => Ok(Self::Percent(number)),
            (1.., false) => Ok(Self::Hosts(number)),
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_hosts_is_rounded_up() {
        let min = |text: &str| text.parse::<HostsMin>();
        assert_eq!(min("95%").unwrap().of(20), 19);
        assert_eq!(min("95%").unwrap().of(21), 20);
        assert_eq!(min("100%").unwrap().of(3), 3);
        assert_eq!(min("7").unwrap().of(3), 7);
        for text in ["0", "0%", "101%", "-1", "x", "", "1.5%"] {
            min(text).unwrap_err();
        }
    }

    fn run(words: &str) -> Result<CampaignOptions, clap::Error> {
        let words = ["durio-fleet", "run", "spec"].into_iter().chain(words.split_whitespace());
        match ProgramArguments::try_parse_from(words)?.command {
            CoordinatorCommand::Run(arguments) => Ok(arguments.options),
            other => panic!("{other:?}"),
        }
    }

    fn confirm(words: &str) -> Result<u32, clap::Error> {
        let words = ["durio-fleet", "confirm", "x"].into_iter().chain(words.split_whitespace());
        match ProgramArguments::try_parse_from(words)?.command {
            CoordinatorCommand::Confirm(arguments) => Ok(arguments.repeat),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_have_their_usual_values_and_numbers_their_limits() {
        let usual = run("").unwrap();
        assert_eq!((usual.repeat, usual.hosts.fanout, usual.shared), (1, 32, false));
        let waits = (usual.lost_after, usual.lost_wait);
        assert_eq!(waits, (Nanos::from_millis(1_500), Nanos::from_secs(60)));
        assert_eq!((usual.min_hosts, usual.lost), (HostsMin::Hosts(1), LostOption::GoOn));
        for (words, is_accepted) in [
            ("--repeat 0", false),
            ("--repeat 1000", true),
            ("--repeat 1001", false),
            ("--fanout 0", false),
            ("--fanout 1000", true),
            ("--fanout 1001", false),
        ] {
            assert_eq!(run(words).is_ok(), is_accepted, "{words}");
        }
        assert_eq!((confirm("").unwrap(), confirm("--repeat 100").unwrap()), (5, 100));
        assert!(confirm("--repeat 4").is_err() && confirm("--repeat 101").is_err());
        let barrier = |word: &str| {
            let options = run(&format!("--barrier {word}")).unwrap();
            options.barrier.map(Barrier::from)
        };
        let barriers = ["start", "section", "step"].map(barrier);
        assert_eq!(barriers, [Barrier::Start, Barrier::Section, Barrier::Step].map(Some));
        let stop = run("--lost stop").unwrap().lost;
        let policies = [stop, usual.lost].map(LostPolicy::from);
        assert_eq!(policies, [LostPolicy::Stop, LostPolicy::GoOn]);
    }

    #[test]
    fn each_exit_code_is_that_of_the_help() {
        use durio_command::CommandErrorKind;

        use crate::FleetExit;
        let rows = [
            (FleetExit::Fine, 0),
            (FleetExit::Negative, 1),
            (FleetExit::Failed(CommandErrorKind::WrongUse), 2),
            (FleetExit::Failed(CommandErrorKind::CannotMeasure), 3),
            (FleetExit::Failed(CommandErrorKind::Fault), 4),
            (FleetExit::Failed(CommandErrorKind::Interrupted), 130),
        ];
        for (exit, code) in rows {
            assert_eq!(exit.number(), code, "{exit:?}");
            assert!(TABLE.contains(&format!("\n  {code:<3}  ")), "{code}");
        }
        assert_eq!(FleetExit::Report(7).number(), 7);
    }
}
