//! `durio lab`: commands in a throw-away virtual machine, and the same stacks on two kernels, in turns.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use durio_base::{Bytes, Nanos};
use durio_bench::{
    GuestBench, GuestSettings, LabComparing, LabInterleaving, emulation_remark, guest_failed,
    left_out_remark, read_lab_comparison, save_lab_comparison, time_limit,
};
use durio_command::{CommandError, CommandErrorKind};
use durio_lab::kernels::{self, DriverState, kernel_named};
use durio_lab::{
    Accelerator, Kernel, LabExit, LabFile, LabOutcome, LabRequest, LabRoot, LabTiming, Streams,
    cannot_read, guest_main,
};
use durio_record::bench::LabCompareFolder;

use crate::exit_code::Exit;
use crate::options::{Choosing, OutputArguments};
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Exit codes of `lab run`, which are also those of whatever it runs.
const TABLE: &str = "\
Exit codes:
  the command's own; 128 + N if signal N ended it, 127 if there is no such command,
  126 if it cannot be run
  2    usage error
  3    --accelerator kvm, and KVM does not work here
  124  the time limit was reached
  125  durio or the guest failed: the reason is on stderr
  130  interrupted: Ctrl-C reaches the command, which has a minute to end, and its
       output is copied out; a second Ctrl-C ends everything at once";

/// Run commands in a throw-away virtual machine, with another kernel or as root
///
/// For features that this machine's kernel lacks or that need root: md, LVM, dm, Btrfs, RAM disks.
/// Needs QEMU (Debian: qemu-system-x86) and a kernel with its modules, but no privileges.
#[derive(Debug, Args)]
pub(crate) struct LabArguments {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Run(Box<LabRun>),
    Kernels(LabKernels),
    Compare(Box<LabCompare>),
}

/// Compare what each layer of a stack spec costs on two kernels
///
/// Benches the spec in guests with the two kernels, interleaved (A B A B A B), and shows how the
/// cost per I/O of each layer changed. With counted timing (the default) that is the software cost,
/// and it repeats on any machine within about 1 % (Btrfs: 10 %).
///
/// A layer is reported as cheaper or dearer if the 95 % interval of B ÷ A (Welch's, of the
/// logarithms of the repeats) excludes 1, the repeats of the two kernels do not overlap, and the
/// change is at least 1 %. By chance, at most about one layer in twenty is reported as changed. With
/// --repeat 1 the results are shown without a verdict.
///
///   durio lab compare --kernel 6.1.0-56-amd64 --kernel 6.12.95+deb12-amd64 bitmap-cost
///   durio lab compare --kernel A --kernel B --scale-time 0.1 --repeat 5 --format html my.toml >a.html
///
/// The result is a folder with a bench folder for each turn;
/// `durio report` accepts either.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = crate::exit_code::TABLE)]
pub(crate) struct LabCompare {
    /// A TOML file, or the name of a built-in stack spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    /// A kernel image, or a release as durio lab kernels lists it; give two, the older one first
    #[arg(long = "kernel", value_name = "KERNEL", required = true, help_heading = "Guest")]
    pub(crate) kernels: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) guest: InGuest,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    /// Create the folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Do not show progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Benches per kernel, 1 to 100
    ///
    /// Each bench boots a separate guest, so N repeats take 2 N times as long as one bench with
    /// --lab; --scale-time shortens them. The scatter of the repeats shows which changes are more
    /// than chance.
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Method",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,

    /// Seed of all random choices, the same for both kernels and every repeat
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Method")]
    pub(crate) seed: u64,
}

// The properties of a guest that runs benches; no doc comment, which would be taken for a
// command's.
#[derive(Debug, Args)]
pub(crate) struct InGuest {
    /// What the guest's clock counts: instructions, or the host's time (wall) [default: counted]
    #[arg(long, value_name = "TIMING", help_heading = "Guest", value_parser = timing())]
    timing: Option<LabTiming>,

    /// Virtual CPUs, 1 to 64; counted timing has 1 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Guest",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LabRequest::CPUS_MAX)))]
    cpus: Option<u32>,

    /// Memory of the guest, including its devices [default: those of the largest stack plus 1536
    /// MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Guest")]
    memory: Option<Bytes>,

    /// Time limit for the guest, in this machine's time [default: 2h]
    #[arg(long, value_name = "TIME", help_heading = "Guest")]
    time_limit: Option<Nanos>,
}

impl InGuest {
    /// The same as a value.
    pub(crate) fn settings(&self) -> GuestSettings {
        const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
        GuestSettings {
            timing: self.timing.unwrap_or(LabTiming::Counted),
            cpus: self.cpus.unwrap_or(1),
            memory: self.memory,
            limit: self.time_limit.map_or(LIMIT, |limit| Duration::from_nanos(limit.get())),
        }
    }

    /// True if anything was asked of a guest.
    pub(crate) fn is_given(&self) -> bool {
        let Self { timing, cpus, memory, time_limit } = self;
        timing.is_some() || cpus.is_some() || memory.is_some() || time_limit.is_some()
    }
}

/// Boot a guest, run one command in it as root, and exit with its exit code
///
/// The command's stdout and stderr are passed through; what it writes to the folder $DURIO_LAB_OUT
/// is copied to --out. The guest has no network and cannot change this machine.
///
///   durio lab run -- sh -c 'modprobe raid1; cat /proc/mdstat'
///   durio lab run --timing wall --cpus 2 -- nproc
///   durio lab run --root shared --out results -- sh -c 'fio job.fio > $DURIO_LAB_OUT/fio.txt'
///
/// With counted timing (the default) the guest's clock counts instructions, so results repeat on
/// any machine and under any load. They are software costs per I/O without contention, not speeds,
/// and are marked as such. With wall timing the clock is the host's. KVM is used if a trial guest
/// shows within 2 s that it works; otherwise the guest is emulated, and stderr and the record say
/// why.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct LabRun {
    /// Kernel to boot: an image, or a release as durio lab kernels lists it [default: the newest]
    #[arg(long, value_name = "KERNEL", help_heading = "Guest")]
    pub(crate) kernel: Option<PathBuf>,

    /// Modules of the kernel: the folder lib/modules/RELEASE [default: those next to the kernel]
    #[arg(long, value_name = "DIR", requires = "kernel", help_heading = "Guest")]
    pub(crate) modules: Option<PathBuf>,

    /// What the guest's clock counts: instructions, or the host's time (wall)
    #[arg(long, value_name = "TIMING", default_value_t = LabTiming::Counted, help_heading = "Guest",
          value_parser = timing())]
    pub(crate) timing: LabTiming,

    /// How instructions are executed: by KVM (kvm), emulated (tcg), or by KVM if it works (auto)
    ///
    /// With kvm, durio exits with 3 and the reason if KVM does not work here. KVM needs wall timing:
    /// a guest with counted timing is always emulated.
    #[arg(long, value_name = "ACCELERATOR", default_value_t = Accelerator::Auto,
          help_heading = "Guest",
          value_parser = values::one_of(&Accelerator::ALL, Accelerator::word))]
    pub(crate) accelerator: Accelerator,

    /// Virtual CPUs, 1 to 64; counted timing has 1
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Guest",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LabRequest::CPUS_MAX)))]
    pub(crate) cpus: u32,

    /// Memory of the guest, including its files
    #[arg(long, value_name = "SIZE", default_value_t = LabRequest::MEMORY_DEFAULT, help_heading = "Guest")]
    pub(crate) memory: Bytes,

    /// Time limit for the guest, in this machine's time
    #[arg(long, value_name = "TIME", default_value = "30m", help_heading = "Guest")]
    pub(crate) time_limit: Nanos,

    /// Root filesystem of the guest: its own (hermetic), or this machine's, read-only (shared)
    /// [default: hermetic with counted timing, else shared]
    ///
    /// A hermetic guest has durio, a shell, the usual programs and the installed tools for
    /// filesystems and arrays. With a shared root it has everything that is installed here; what it
    /// writes stays in its memory, and /tmp, /run, /mnt and /var/tmp are empty.
    #[arg(long, value_name = "ROOT", help_heading = "Guest",
          value_parser = values::one_of(&LabRoot::ALL, LabRoot::word))]
    pub(crate) root: Option<LabRoot>,

    /// Add a program and its libraries to a hermetic guest (can be repeated)
    #[arg(long = "tool", value_name = "PROGRAM", help_heading = "Contents")]
    pub(crate) tools: Vec<String>,

    /// Require this kernel module (can be repeated)
    #[arg(long = "module", value_name = "NAME", help_heading = "Contents")]
    pub(crate) needed_modules: Vec<String>,

    /// Copy this file or folder into the guest, to the same path or to GUEST_PATH (can be repeated)
    #[arg(long = "file", value_name = "PATH[:GUEST_PATH]", help_heading = "Contents")]
    pub(crate) files: Vec<OsString>,

    /// Copy the contents of $DURIO_LAB_OUT to this folder, which must be empty or new
    #[arg(long, value_name = "DIR", help_heading = "Contents")]
    pub(crate) out: Option<PathBuf>,

    /// Print the kernel and QEMU used, the boot time, and the kernel's messages to stderr
    #[arg(long, short, help_heading = "Contents")]
    pub(crate) verbose: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<OsString>,
}

/// List the bootable kernels and their storage drivers
///
/// Kernels are found in /boot/vmlinuz-* with /lib/modules, and as trees in ~/.cache/durio/kernels
/// ($XDG_CACHE_HOME/durio/kernels) and in the colon-separated folders of DURIO_KERNELS. A tree has
/// boot/vmlinuz-* or vmlinuz, and lib/modules/RELEASE or modules, like an unpacked package. Since
/// Linux 6.19 Debian has image and modules in two packages, linux-binary and linux-modules; unpack
/// both into one folder. In a checkout of durio, cargo xtask lab kernel does this.
///
///   apt-get download linux-image-6.1.0-56-amd64
///   dpkg-deb -x linux-image-6.1.0-56-amd64_*.deb ~/.cache/durio/kernels/6.1.0-56-amd64
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabKernels {}

impl LabRun {
    // The chosen root, or the one that suits the timing: a shared root lets a counted clock jump
    // ahead while the guest waits for the host.
    pub(crate) fn root(&self) -> LabRoot {
        match (self.root, self.timing) {
            (Some(root), _) => root,
            (None, LabTiming::Counted) => LabRoot::Hermetic,
            (None, LabTiming::Wall) => LabRoot::Shared,
        }
    }
}

fn timing() -> impl TypedValueParser<Value = LabTiming> {
    values::one_of(&LabTiming::ALL, LabTiming::word)
}

pub(crate) fn lab(arguments: &LabArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        LabCommand::Run(arguments) => run(arguments),
        LabCommand::Kernels(_) => list(),
        LabCommand::Compare(arguments) => compare(arguments),
    }
}

/// The hidden command by which a guest's kernel starts durio.
pub(crate) fn init() -> Result<Exit, CommandError> {
    guest_main()
        .map(|()| Exit::Fine)
        .map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))
}

fn run(arguments: &LabRun) -> Result<Exit, CommandError> {
    let request = request(arguments)?;
    let stop = stop_on_signals()?;
    let mut stdout = output::StandardStream(io::stdout());
    let mut stderr = output::StandardStream(io::stderr());
    let mut streams = Streams { stdout: &mut stdout, stderr: &mut stderr };
    let outcome = durio_lab::run(&request, &mut streams, &|| stop.is_set())?;
    emulation_remark(&outcome).iter().for_each(|line| output::remark(line));
    if arguments.verbose {
        describe(&request, &outcome);
    }
    left_out_remark(&outcome).iter().for_each(|line| output::remark(line));
    conclude(&request, &outcome)
}

fn conclude(request: &LabRequest, outcome: &LabOutcome) -> Result<Exit, CommandError> {
    match &outcome.exit {
        // Any code: `lab run` takes the command's place.
        LabExit::Code(code) => Ok(Exit::Command(*code)),
        LabExit::Stopped | LabExit::Cut => Ok(Exit::INTERRUPTED),
        LabExit::TimeLimit => Err(time_limit(request)),
        LabExit::GuestFailed(reason) => {
            Err(guest_failed(reason).hint("--verbose shows the kernel's messages"))
        }
    }
}

/// The request of these arguments.
fn request(arguments: &LabRun) -> Result<LabRequest, CommandError> {
    if arguments.timing == LabTiming::Counted && arguments.accelerator == Accelerator::Kvm {
        let text = "KVM counts no instructions";
        return Err(CommandError::wrong_use(text).hint("--accelerator kvm needs --timing wall"));
    }
    let kernel = kernel_named(arguments.kernel.as_deref(), arguments.modules.as_deref())?;
    let program = std::env::current_exe().map_err(|error| {
        CommandError::of(CommandErrorKind::LabFailed, error)
            .context("cannot find durio's own program")
    })?;
    let files = arguments.files.iter().map(|given| file(given)).collect::<Result<_, _>>()?;
    Ok(LabRequest {
        timing: arguments.timing,
        accelerator: arguments.accelerator,
        cpus: arguments.cpus,
        memory: arguments.memory,
        limit: Duration::from_nanos(arguments.time_limit.get()),
        root: arguments.root(),
        tools: arguments.tools.clone(),
        modules: arguments.needed_modules.clone(),
        files,
        out: arguments.out.clone(),
        ..LabRequest::new(kernel, program, arguments.command.clone())
    })
}

/// `PATH` or `PATH:GUEST_PATH`.
pub(super) fn file(given: &OsStr) -> Result<LabFile, CommandError> {
    let bytes = given.as_bytes();
    let (source, guest) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (bytes.get(..at), bytes.get(at + 1..)),
        None => (Some(bytes), None),
    };
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let source = path(source.unwrap_or_default());
    let unreadable = |error| cannot_read(&source, error);
    // Before a guest is booted for nothing.
    std::fs::metadata(&source).map_err(unreadable)?;
    let guest = match guest {
        Some(guest) => path(guest),
        // At the same path in the guest, where another folder is the current one.
        None => std::path::absolute(&source).map_err(unreadable)?,
    };
    Ok(LabFile { source, guest })
}

fn describe(request: &LabRequest, outcome: &LabOutcome) {
    let facts = &outcome.facts;
    for line in outcome.console.lines() {
        output::remark(&format!("kernel: {line}"));
    }
    output::remark(&format!(
        "durio: kernel {}, QEMU {}, {}, processor {}, {} root, {}",
        request.kernel.release,
        facts.qemu_version,
        facts.accelerator,
        facts.cpu_model,
        facts.root,
        facts.timing.meaning()
    ));
    let boot = outcome.first_command_after.map_or("never".to_owned(), |time| format!("{time:.1?}"));
    let kernel = match outcome.was_unpacked {
        true => "kernel unpacked, files created",
        false => "the kernel unpacks itself, files created",
    };
    output::remark(&format!(
        "durio: {kernel} in {:.1?}, command started after {boot}",
        outcome.preparation
    ));
}

/// Prints the kernels as a table.
fn list() -> Result<Exit, CommandError> {
    let found = kernels::usable();
    if found.is_empty() {
        let mut error = kernels::none_found();
        // No guest was started; 125 is for a failure of one.
        error.kind = CommandErrorKind::CannotMeasure;
        return Err(error);
    }
    let mut text = String::new();
    for kernel in &found {
        text.push_str(&entry(kernel)?);
    }
    output::answer_text(&text).map(|()| Exit::Fine)
}

fn entry(kernel: &Kernel) -> Result<String, CommandError> {
    let drivers = kernel.drivers()?;
    let of = |state: DriverState| {
        let names = drivers.iter().filter(|(_, driver)| *driver == state).map(|(name, _)| *name);
        let names: Vec<_> = names.collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    };
    let Kernel { release, image, modules } = kernel;
    let line = |name: &str, value: String| format!("  {name:9} {value}\n");
    Ok(format!("{release}\n")
        + &line("image", shown(image))
        + &line("modules", shown(modules))
        + &line("built in", of(DriverState::BuiltIn))
        + &line("as module", of(DriverState::Module))
        + &line("absent", of(DriverState::Absent)))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn compare(arguments: &LabCompare) -> Result<Exit, CommandError> {
    output::refuse_fio(arguments.output, "FOLDER/a1/RUN")?;
    let [before, after] = arguments.kernels.as_slice() else {
        let text = format!("{} kernels given, expected two", arguments.kernels.len());
        return Err(CommandError::wrong_use(text)
            .hint("give --kernel twice; durio lab kernels lists the kernels that can be booted"));
    };
    let choice = arguments.choosing.choice();
    let bench = GuestBench {
        spec: &arguments.spec,
        choice: &choice,
        guest: arguments.guest.settings(),
        // Kernel, modules and folder are those of each turn.
        kernel: None,
        modules: None,
        // One seed for both kernels: they get the same operations.
        seed: Some(arguments.seed),
        label: None,
        quiet: arguments.quiet,
        runs: Path::new(""),
    };
    let turns = LabInterleaving::prepare(LabComparing {
        bench,
        kernels: [before, after],
        repeats: arguments.repeat,
        seed: arguments.seed,
        out: arguments.out.as_deref(),
    })?;
    let compared = turns.run(&stop_on_signals()?, &Terminal::new(arguments.quiet))?;
    match Exit::from(compared.ending) {
        Exit::INTERRUPTED => {
            output::remark("durio: interrupted; durio report FOLDER shows the results so far");
            Ok(Exit::INTERRUPTED)
        }
        exit => {
            let read = read_lab_comparison(&compared.folder, &Terminal::new(true))?;
            // Before it is shown: a failing stdout must not cost hours of work.
            save_lab_comparison(&compared.folder, &read.findings)?;
            output::report(arguments.output, &read.findings)?;
            Ok(if exit == Exit::Fine { Exit::of_read(read.is_damaged) } else { exit })
        }
    }
}

/// Shows a comparison again, from its folder alone, as far as it got.
pub(super) fn show_comparison(
    folder: &LabCompareFolder,
    wished: OutputArguments,
) -> Result<Exit, CommandError> {
    output::refuse_fio(wished, "FOLDER/a1/RUN")?;
    let read = read_lab_comparison(folder, &Terminal::new(true))?;
    output::report(wished, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}

#[cfg(test)]
mod tests {
    use durio_lab::SkippedEntries;
    use durio_observe::LabFacts;

    use super::*;

    fn ended(exit: LabExit) -> Result<Exit, CommandErrorKind> {
        let kernel = Kernel { release: "6".into(), image: "/k".into(), modules: "/m".into() };
        let request = LabRequest::new(kernel, "/durio".into(), vec!["true".into()]);
        let facts = LabFacts {
            timing: LabTiming::Counted,
            accelerator: "tcg".to_owned(),
            without_kvm: None,
            qemu_version: String::new(),
            cpu_model: String::new(),
            icount_shift: None,
            root: String::new(),
        };
        let outcome = LabOutcome {
            exit,
            facts,
            first_command_after: None,
            was_unpacked: true,
            preparation: Duration::ZERO,
            console: String::new(),
            skipped: SkippedEntries::default(),
        };
        conclude(&request, &outcome).map_err(|error| error.kind)
    }

    #[test]
    fn a_guest_ends_as_its_command_did_or_says_why_not() {
        for code in [0, 3, 130, 255] {
            assert_eq!(ended(LabExit::Code(code)), Ok(Exit::Command(code)));
        }
        assert_eq!(ended(LabExit::Stopped), Ok(Exit::INTERRUPTED));
        assert_eq!(ended(LabExit::Cut), Ok(Exit::INTERRUPTED));
        assert_eq!(ended(LabExit::TimeLimit), Err(CommandErrorKind::TimeLimit));
        let failed = LabExit::GuestFailed("it died".to_owned());
        assert_eq!(ended(failed), Err(CommandErrorKind::LabFailed));
    }
}
