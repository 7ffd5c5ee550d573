//! Serves an array until a user ends it. What orders do is in `orders`.
//!
//! Sockets are bound before a member is written to, so a name that is taken changes nothing.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use durio_base::Nanos;
use durio_block::lock_memory;
use durio_command::{CommandError, Permission, error_chain};
use durio_nbd::{ControlServer, control_of};
use durio_raid::server::{ArrayHandle, ArrayServer};
use durio_raid::{
    AssembleError, AssembleOptions, Config, FoundDevice, Geometry, StartPlan, SuperblockError,
    assemble,
};

use super::devices::{ServerDevice, assemble_words, claim_devices};
use super::front::{ArrayFront, DEPTH, FrontChoice};
use super::orders::{EndOrder, ServedArray, obey};

/// How often the request to end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Memory for the chunks of stripes that requests work on; at least `STRIPES_MIN` stripes are
/// taken, more than one request for zeroes has.
const STRIPE_MEMORY: u64 = 256 << 20;
const STRIPES_MIN: u16 = 64;

// Which array is served, and how; no doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub struct ServeArray {
    /// Its devices, in any order, spares too
    #[arg(value_name = "DEV", required = true)]
    pub devices: Vec<PathBuf>,

    /// How it is served
    #[arg(long, value_name = "FRONT", value_enum, default_value_t = FrontChoice::Nbd)]
    pub front: FrontChoice,

    /// With --front nbd: also make a block device of it, with the kernel's NBD client
    ///
    /// For kernels without ublk: needs the kernel module nbd (Linux 5.14) and costs 1.4 to 2.3 times as much. If
    /// its server is killed, users of the device get errors or wait; the next start removes it.
    #[arg(long)]
    pub attach: bool,

    /// Queues of the block device, each served by a thread on the processors that write there
    ///
    /// For machines whose writers saturate one thread; at most one per CPU. With --front nbd,
    /// number of threads, to which connections are assigned in turn; --attach has one connection,
    /// and so at most one thread.
    /// A block device whose server was killed keeps its queues.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub queues: u8,

    /// The socket of NBD, and the beginning of the name of the control socket
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,

    /// A member that takes longer than this for an operation has failed
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub timeout: Nanos,
}

/// Serves the array until `stop` or an order ends it. `ready` gets its name when users can connect,
/// `remark` gets remarks for the user. With `force` it starts without a majority of its members, too.
///
/// # Errors
/// If it does not start; if it has stopped by itself.
pub fn serve_array(
    request: &ServeArray,
    force: bool,
    ready: impl FnOnce(&str),
    remark: &dyn Fn(&str),
    stop: &dyn Fn() -> bool,
) -> Result<(), CommandError> {
    refuse_front(request)?;
    let socket = std::path::absolute(&request.socket)
        .map_err(|error| CommandError::io("find", &request.socket, error))?;
    let devices = claim_devices(&request.devices, Permission::Members, 0)?;
    let front = ArrayFront::prepare(request.front, request.attach, &socket)?;
    let mut control = ControlServer::bind(control_of(&socket)).map_err(CommandError::cannot)?;
    let (array, mut served) = start(request, force, devices, front, remark)?;
    if let Err(error) = lock_memory() {
        remark(&format!("{}; it may have to wait for storage", error_chain(&error)));
    }
    let mut ending = EndOrder::default();
    let opened = wait_until_it_runs(&served.handle, stop).and_then(|()| {
        if stop() {
            return Ok(());
        }
        served.front.open(&served.handle, &served.table, served.alignment)?;
        ready(&served.front.name());
        obey_until_the_end(&mut control, &array, &mut served, &mut ending, remark, stop);
        Ok(())
    });
    let closed = served.front.close();
    let stopped = match array.has_ended() {
        true => Ok(()),
        false => opened.and_then(|()| refuse_stopped(&served.handle)),
    };
    let ended = array.stop().map_err(CommandError::cannot);
    let removed = served.front.remove();
    ending.answer();
    stopped.and(ended).and(closed).and(removed)
}

/// A block device twice, or more queues than the kernel makes or than there is work for.
fn refuse_front(request: &ServeArray) -> Result<(), CommandError> {
    if request.attach && request.front == FrontChoice::Ublk {
        let text = "--attach is for --front nbd: ublk makes a block device anyway";
        return Err(CommandError::wrong_use(text));
    }
    if request.queues > 1 && request.attach {
        let text =
            "the kernel's NBD client has one connection here, so several queues have no effect";
        return Err(CommandError::wrong_use(text).hint("--front ublk has one queue per thread"));
    }
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if usize::from(request.queues) > processors {
        let text = format!("{} queues are more than the processors here", request.queues);
        return Err(CommandError::wrong_use(text).hint(format!("--queues {processors} at most")));
    }
    Ok(())
}

/// Serves until no client can come, or until an end is requested and nothing prevents it.
fn obey_until_the_end(
    control: &mut ControlServer,
    array: &ArrayServer,
    served: &mut ServedArray,
    ending: &mut EndOrder,
    remark: &dyn Fn(&str),
    stop: &dyn Fn() -> bool,
) {
    let mut is_told = false;
    while !array.has_ended() && !served.front.has_ended() && ending.0.is_none() {
        if let Some(arrived) = control.next(LOOK) {
            obey(arrived, served, ending);
        }
        if stop() {
            match served.front.refuse_in_use() {
                Ok(()) => return,
                Err(error) if !is_told => {
                    remark(&format!("{error}; the array stops when it is no longer in use"));
                    is_told = true;
                }
                Err(_) => {}
            }
        }
    }
}

fn start(
    request: &ServeArray,
    force: bool,
    devices: Vec<ServerDevice>,
    mut front: ArrayFront,
    remark: &dyn Fn(&str),
) -> Result<(ArrayServer, ServedArray), CommandError> {
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for device in &devices {
        let what = match found_on(device)? {
            Ok(member) => {
                let what = member.damage.map(|damage| damage.to_string());
                found.push(member);
                what
            }
            Err(error) => Some(error.to_string()),
        };
        let words = what.map(|what| format!("'{}' {what}", device.path.display()));
        damaged.extend(words.map(|words| (device.number, words)));
    }
    let newest = found.iter().max_by_key(|member| {
        let table = &member.superblock.table;
        (table.epoch, table.revision)
    });
    let Some(table) = newest.map(|member| member.superblock.table.clone()) else {
        return Err(match damaged.is_empty() {
            true => CommandError::wrong_use("name the devices of the array"),
            false => refused(&AssembleError::Nothing, request, &damaged),
        });
    };
    let options = AssembleOptions { force, rejoin: true, ..AssembleOptions::default() };
    let plan = assemble(&found, options).map_err(|error| refused(&error, request, &damaged))?;
    let older =
        plan.behind(&found).map(|behind| format!("{}: {behind}", named(request, behind.device)));
    let remarks = damaged.iter().map(|damage| damage_words(damage, &plan)).chain(older);
    let remarks: Vec<String> = remarks.collect();
    let alignments = devices.iter().map(ServerDevice::alignment).collect::<Result<Vec<_>, _>>()?;
    let alignment = common_alignment(alignments);
    let files = devices.iter().map(ServerDevice::member_file).collect::<Result<Vec<_>, _>>()?;
    let threads = front.threads(request.queues, table.array)?;
    if threads > 1 && table.geometry.level.parities() > 0 {
        return Err(CommandError::wrong_use("levels 5 and 6 are served by one queue")
            .hint("leave --queues out"));
    }
    if threads != request.queues {
        remark(&format!(
            "the block device keeps its {threads} queues, on which its users wait; --queues {} \
             takes effect after durio raid stop",
            request.queues
        ));
    }
    let requests_max = requests_max(threads, &table.geometry);
    let config = Config { timeout: request.timeout, requests_max, ..Config::default() };
    let array = ArrayServer::start(plan, config, alignment, &files, threads)
        .map_err(CommandError::cannot)?;
    remarks.iter().for_each(|line| remark(line));
    let handle = array.handle();
    Ok((array, ServedArray { handle, table, devices, alignment, front }))
}

/// What users must keep to, so that each device takes it: each alignment is a power of two.
fn common_alignment(alignments: Vec<u32>) -> u32 {
    alignments.into_iter().max().unwrap_or(512)
}

/// As many requests as can come, and no more than there is memory for.
fn requests_max(threads: u8, geometry: &Geometry) -> u16 {
    let can_come = Config::default().requests_max.max(DEPTH * u16::from(threads));
    can_come.min(stripes_max(geometry))
}

/// Requests for which there is memory: with parity, each has a chunk of every member.
fn stripes_max(geometry: &Geometry) -> u16 {
    if geometry.level.parities() == 0 {
        return u16::MAX;
    }
    let each = u64::from(geometry.chunk) * u64::from(geometry.members);
    u16::try_from(STRIPE_MEMORY / each).unwrap_or(u16::MAX).max(STRIPES_MIN)
}

/// The inner error means that the device was a member once.
fn found_on(device: &ServerDevice) -> Result<Result<FoundDevice, SuperblockError>, CommandError> {
    let shown = device.path.display();
    let failure = |error| CommandError::cannot_measure(format!("'{shown}' {error}"));
    match device.find()? {
        Err(error @ SuperblockError::Newer(_)) => Err(failure(error)),
        Err(error @ SuperblockError::Missing) => {
            Err(failure(error).hint("leave it out, and add it as a new device once the array runs"))
        }
        found => Ok(found),
    }
}

/// Why it does not start, and which devices are not trusted.
fn refused(error: &AssembleError, request: &ServeArray, damaged: &[(u8, String)]) -> CommandError {
    let damaged = damaged.iter().map(|(_, words)| format!("; {words}"));
    let words =
        assemble_words(error, |device| named(request, device)) + &damaged.collect::<String>();
    CommandError::cannot_measure(format!("cannot start: {words}"))
        .hint("durio raid examine DEV... shows what each of them knows")
}

fn named(request: &ServeArray, device: u8) -> String {
    let path = request.devices.get(usize::from(device));
    path.map_or_else(String::new, |path| format!("'{}'", path.display()))
}

fn damage_words((device, words): &(u8, String), plan: &StartPlan) -> String {
    match plan.has(*device) {
        true => format!("{words}; used anyway because of --force"),
        false => format!(
            "{words}; the array runs without it and writes nothing to it: durio raid add --destroy \
             rebuilds it"
        ),
    }
}

/// Until its first superblocks are stored.
fn wait_until_it_runs(handle: &ArrayHandle, stop: &dyn Fn() -> bool) -> Result<(), CommandError> {
    loop {
        let status = handle.status().map_err(CommandError::cannot)?;
        if status.engine.is_running || stop() {
            return Ok(());
        }
        refuse_stopped(handle)?;
        thread::sleep(Duration::from_millis(2));
    }
}

fn refuse_stopped(handle: &ArrayHandle) -> Result<(), CommandError> {
    let status = handle.status().map_err(CommandError::cannot)?;
    match status.engine.stopped {
        None => Ok(()),
        Some(reason) => {
            let text = format!("the array stopped: {reason}");
            Err(CommandError::cannot_measure(text)
                .hint("bring its members back, and start it again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use durio_base::RaidLevel;

    use super::*;

    #[test]
    fn users_keep_to_the_largest_block_that_any_device_takes() {
        let of = |alignments: &[u32]| common_alignment(alignments.to_vec());
        assert_eq!([of(&[512, 512]), of(&[512, 4096]), of(&[4096, 512])], [512, 4096, 4096]);
        assert_eq!([of(&[512, 4096, 512]), of(&[512, 1024, 2048, 512])], [4096, 2048]);
    }

    #[test]
    fn there_are_128_requests_for_each_queue_and_256_at_least_if_there_is_memory() {
        let of = |level, threads| {
            let (members, chunk) = (4, 256 << 10);
            let (region, member_bytes) = (1 << 20, 1 << 30);
            requests_max(threads, &Geometry { level, members, chunk, region, member_bytes })
        };
        assert_eq!(
            [1, 2, 3, 64].map(|threads| of(RaidLevel::Raid10, threads)),
            [256, 256, 384, 8192]
        );
        // 1 MiB each.
        assert_eq!([1, 3, 64].map(|threads| of(RaidLevel::Raid5, threads)), [256, 256, 256]);
    }

    #[test]
    fn stripes_in_progress_take_256_mib_and_there_are_64_at_least() {
        let of = |level, members, chunk| {
            let (region, member_bytes) = (1 << 20, 1 << 30);
            stripes_max(&Geometry { level, members, chunk, region, member_bytes })
        };
        assert_eq!(of(RaidLevel::Raid10, 4, 1 << 20), 65_535);
        assert_eq!(of(RaidLevel::Raid5, 4, 16 << 10), 4096);
        assert_eq!(of(RaidLevel::Raid5, 3, 16 << 10), 5461);
        assert_eq!(of(RaidLevel::Raid6, 16, 256 << 10), 64);
        assert_eq!(of(RaidLevel::Raid6, 16, 1 << 20), 64);
        assert_eq!(of(RaidLevel::Raid5, 3, 4 << 10), 21_845);
    }
}
