//! Orders to a served array, and its answers, over the control socket (durio-nbd).
//!
//! A device that was given up stays claimed, so that no other process takes it, until it is
//! removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use durio_command::{CommandError, Permission, error_chain};
use durio_nbd::{ArrivedOrder, Socket, control_of, send_answer, send_order};
use durio_observe::{
    ArrayList, ArrayState, ArrayStatus, ListedArray, MemberStanding, MemberStatus, RunningProgram,
    running_programs,
};
use durio_raid::layout;
use durio_raid::server::{
    ArrayHandle, DEVICES_MAX, DeviceCounters, ServerError, ServerStatus, make_blank,
};
use durio_raid::{
    Geometry, JoinAs, MemberState, MemberTable, Newcomer, OrderError, RoleStatus, Status,
};
use serde::{Deserialize, Serialize};

use super::devices::{ServerDevice, claim_devices};
use super::front::ArrayFront;
use super::{random_id, shape_of, standing_of};

/// How long an order waits for what passes: superblocks on their way, operations on a device that was
/// just given up.
const PASSING: Duration = Duration::from_secs(5);
/// How long an answer may take; an end waits for requests, and these for members.
const PATIENCE: Duration = Duration::from_secs(600);
/// The same for a list, which one server that hangs must not hold up.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// An array that is served, for orders.
#[derive(Debug)]
pub(super) struct ServedArray {
    pub(super) handle: ArrayHandle,
    /// As it was when it started.
    pub(super) table: MemberTable,
    pub(super) devices: Vec<ServerDevice>,
    pub(super) alignment: u32,
    pub(super) front: ArrayFront,
}

/// An order to a served array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum ArrayOrder {
    /// Tell how it stands.
    Status,
    /// Give a member up.
    Fail {
        path: PathBuf,
    },
    /// Take a device in the place of one that is missing, or as a spare.
    Add {
        path: PathBuf,
        /// Whether the device's contents may be lost.
        #[serde(flatten)]
        consent: EraseConsent,
    },
    /// Take a device in the place of a member that works until then.
    Replace {
        old: PathBuf,
        new: PathBuf,
        #[serde(flatten)]
        consent: EraseConsent,
    },
    /// Let go of a device that is not used.
    Remove {
        path: PathBuf,
    },
    /// Compare all copies, or parities with their data.
    Scrub {
        /// And make them equal.
        repair: bool,
    },
    Stop,
}

/// Whether a device's contents may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraseConsent {
    /// It may: the device becomes a new member, whatever it was.
    pub destroy: bool,
    /// Also where something is recognised.
    pub force_signature: bool,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum ArrayAnswer {
    /// It was carried out; this is the array now, or was when it ended.
    Done {
        status: Box<ArrayStatus>,
    },
    Refused {
        reason: String,
        hints: Vec<String>,
    },
}

/// The client that asked for the end; it is answered at the end.
#[derive(Debug, Default)]
pub(super) struct EndOrder(pub(super) Option<(Socket, ArrayAnswer)>);

impl EndOrder {
    pub(super) fn answer(&self) {
        if let Some((stream, answer)) = &self.0 {
            send_answer(stream, answer);
        }
    }
}

/// Sends an order to an array that is served at this socket.
pub fn order_array(socket: &Path, order: &ArrayOrder) -> Result<ArrayStatus, CommandError> {
    order_within(socket, order, PATIENCE)
}

/// The arrays that are served now by this user's programs; for root, by all.
pub fn list_arrays() -> ArrayList {
    let user = rustix::process::geteuid();
    let programs = running_programs(&["durio"]).into_iter();
    let own = programs.filter(|program| user.is_root() || program.user == user.as_raw());
    let sockets: BTreeSet<PathBuf> = own.filter_map(|program| socket_of_server(&program)).collect();
    let arrays = sockets.into_iter().map(|socket| {
        let (status, problem) = match order_within(&socket, &ArrayOrder::Status, LIST_PATIENCE) {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(error_chain(&error))),
        };
        ListedArray { socket: socket.display().to_string(), status, problem }
    });
    ArrayList::new(arrays.collect())
}

/// The socket that `durio raid start` serves, if this program is one.
fn socket_of_server(program: &RunningProgram) -> Option<PathBuf> {
    let words = program.arguments.get(1..)?;
    if !words.windows(2).any(|pair| *pair == ["raid", "start"]) {
        return None;
    }
    let option = words.iter().position(|word| word == "--socket");
    let apart = option.and_then(|at| words.get(at + 1)).map(String::as_str);
    let socket = apart.or_else(|| words.iter().find_map(|word| word.strip_prefix("--socket=")))?;
    let path = program.directory.clone().unwrap_or_default().join(socket);
    path.is_absolute().then_some(path)
}

fn order_within(
    socket: &Path,
    order: &ArrayOrder,
    patience: Duration,
) -> Result<ArrayStatus, CommandError> {
    let answer = send_order(&control_of(socket), order, patience).map_err(|error| {
        CommandError::cannot(error)
            .hint("is an array served there? durio raid start --socket PATH DEV... serves one")
    })?;
    match answer {
        ArrayAnswer::Done { status } => Ok(*status),
        ArrayAnswer::Refused { reason, hints } => {
            let error = CommandError::cannot_measure(reason);
            Err(hints.into_iter().fold(error, CommandError::hint))
        }
    }
}

/// Carries out a caller's order.
pub(super) fn obey(
    (stream, order): ArrivedOrder<ArrayOrder>,
    served: &mut ServedArray,
    ending: &mut EndOrder,
) {
    let order = match order {
        Ok(order) => order,
        Err(error) => {
            let reason = format!("no order: {error}");
            return send_answer(&stream, &ArrayAnswer::Refused { reason, hints: Vec::new() });
        }
    };
    let done = match &order {
        ArrayOrder::Status => Ok(()),
        ArrayOrder::Stop => served.front.refuse_in_use(),
        ArrayOrder::Fail { path } => fail(served, path),
        ArrayOrder::Add { path, consent } => add(served, path, *consent),
        ArrayOrder::Replace { old, new, consent } => replace(served, old, new, *consent),
        ArrayOrder::Remove { path } => remove(served, path),
        ArrayOrder::Scrub { repair } => served.handle.scrub(*repair).map_err(CommandError::cannot),
    };
    let answer = match done.and_then(|()| served.handle.status().map_err(CommandError::cannot)) {
        Ok(status) => ArrayAnswer::Done { status: Box::new(status_of(served, &status)) },
        Err(error) => ArrayAnswer::Refused { reason: error_chain(&error), hints: error.hints },
    };
    match (&order, &answer) {
        (ArrayOrder::Stop, ArrayAnswer::Done { .. }) => ending.0 = Some((stream, answer)),
        _ => send_answer(&stream, &answer),
    }
}

fn device_at<'a>(served: &'a ServedArray, path: &Path) -> Result<&'a ServerDevice, CommandError> {
    let device = served.devices.iter().find(|device| device.is_at(path));
    device.ok_or_else(|| {
        let text = format!("'{}' is not a device of this array", path.display());
        CommandError::cannot_measure(text).hint("durio raid status shows them")
    })
}

fn fail(served: &ServedArray, path: &Path) -> Result<(), CommandError> {
    let number = device_at(served, path)?.number;
    let status = served.handle.status().map_err(CommandError::cannot)?;
    let copies = served.table.geometry.set_members();
    let set_of = |(at, role): (usize, &RoleStatus)| {
        role_of(served, at).or(role.replaces).map(|role| role / copies)
    };
    let roles = || status.engine.roles.iter().enumerate();
    if let Some(role) = roles().find(|(_, role)| role.device == Some(number) && role.is_read) {
        let set = set_of(role);
        let needed = usize::from(served.table.geometry.columns());
        let others = roles().filter(|(_, role)| role.device != Some(number) && role.is_read);
        if others.filter(|role| set_of(*role) == set).count() < needed {
            let why = match needed {
                1 => "has the only copy of its data",
                _ => "is needed: no parity is left to replace it",
            };
            let text = format!("'{}' {why}", path.display());
            return Err(CommandError::cannot_measure(text)
                .hint("replace it with another device, and wait until that is in sync"));
        }
    }
    served.handle.fail(number).map_err(CommandError::cannot)
}

/// The role of an entry in the table; `None` for a spare or a replacement.
fn role_of(served: &ServedArray, at: usize) -> Option<u8> {
    u8::try_from(at).ok().filter(|role| *role < served.table.geometry.members)
}

fn remove(served: &mut ServedArray, path: &Path) -> Result<(), CommandError> {
    let number = device_at(served, path)?.number;
    let status = served.handle.status().map_err(CommandError::cannot)?;
    let roles = status.engine.roles;
    let at = roles.iter().position(|role| role.device == Some(number));
    if at.is_some_and(|place| role_of(served, place).is_some() || roles[place].replaces.is_some()) {
        let text = format!("'{}' is a working member", path.display());
        return Err(
            CommandError::cannot_measure(text).hint("durio raid fail marks it as failed first")
        );
    }
    if at.is_some() {
        // A spare.
        served.handle.fail(number).map_err(CommandError::cannot)?;
    }
    when_passed(|| served.handle.forget(number)).map_err(CommandError::cannot)?;
    served.devices.retain(|device| device.number != number);
    Ok(())
}

/// Retries an order that is refused only for the moment.
fn when_passed(mut attempt: impl FnMut() -> Result<(), ServerError>) -> Result<(), ServerError> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(ServerError::Draining | ServerError::Order(OrderError::NotRunning))
                if begin.elapsed() < PASSING =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            ended => return ended,
        }
    }
}

fn add(served: &mut ServedArray, path: &Path, consent: EraseConsent) -> Result<(), CommandError> {
    let status = served.handle.status().map_err(CommandError::cannot)?;
    let is_free = |(at, role): &(usize, &RoleStatus)| {
        role.state == MemberState::Faulty && role.device.is_none() && role_of(served, *at).is_some()
    };
    let free = status.engine.roles.iter().enumerate().filter(is_free);
    let mut wishes: Vec<JoinAs> =
        free.filter_map(|(at, _)| role_of(served, at)).map(JoinAs::Member).collect();
    if wishes.is_empty() {
        if !consent.destroy {
            return Err(CommandError::cannot_measure("no member is missing")
                .hint("with --destroy the device becomes a spare, and its contents are lost"));
        }
        wishes.push(JoinAs::Spare);
    }
    take(served, path, consent, &wishes)
}

fn replace(
    served: &mut ServedArray,
    old: &Path,
    new: &Path,
    consent: EraseConsent,
) -> Result<(), CommandError> {
    let number = device_at(served, old)?.number;
    let status = served.handle.status().map_err(CommandError::cannot)?;
    let at = status.engine.roles.iter().position(|role| role.device == Some(number));
    let role = at.and_then(|at| role_of(served, at)).ok_or_else(|| {
        let text = format!("'{}' is not a working member", old.display());
        CommandError::cannot_measure(text).hint("durio raid add replaces a missing member")
    })?;
    take(served, new, consent, &[JoinAs::Replacement(role)])
}

/// Has a device join as the first of these that it can.
fn take(
    served: &mut ServedArray,
    path: &Path,
    consent: EraseConsent,
    wishes: &[JoinAs],
) -> Result<(), CommandError> {
    let known = served.devices.iter().position(|device| device.is_at(path));
    let at = match known {
        Some(at) => at,
        None => {
            let named = [path.to_owned()];
            let permission = match consent {
                EraseConsent { destroy: true, force_signature } => {
                    Permission::Named { destroy: &named, force_signature }
                }
                EraseConsent { destroy: false, .. } => Permission::Members,
            };
            open_device(served, &named, permission)?
        }
    };
    if known.is_some() && consent.destroy {
        let table = &served.table;
        served.devices[at].lengthen(layout::device_bytes(&table.geometry, table.data_at))?;
    }
    let joined = join(served, &served.devices[at], consent.destroy, wishes);
    if joined.is_err() && known.is_none() {
        let device = served.devices.swap_remove(at);
        // It was not used.
        let _ = served.handle.forget(device.number);
    }
    joined
}

/// Claims it and gives it to the server; its place among the devices.
fn open_device(
    served: &mut ServedArray,
    path: &[PathBuf],
    permission: Permission<'_>,
) -> Result<usize, CommandError> {
    let is_free = |number: &u8| !served.devices.iter().any(|device| device.number == *number);
    let number = (0..DEVICES_MAX).find(is_free).ok_or_else(|| {
        CommandError::cannot_measure("the array has its maximum number of devices")
            .hint("durio raid remove releases failed devices")
    })?;
    let is_new = !matches!(permission, Permission::Members);
    let mut claimed = claim_devices(path, permission, number).map_err(|error| match is_new {
        true => error,
        false => error.hint("add --destroy if its contents may be lost"),
    })?;
    let Some(device) = claimed.pop() else { return Err(CommandError::wrong_use("no device")) };
    let (asked, given) = (device.alignment()?, served.alignment);
    if asked > given {
        let path = device.path.display();
        let text = format!("'{path}' needs blocks of {asked} bytes, but users may write {given}");
        return Err(CommandError::cannot_measure(text).hint("use a device with smaller blocks"));
    }
    served.handle.open(&device.member_file()?).map_err(CommandError::cannot)?;
    served.devices.push(device);
    Ok(served.devices.len() - 1)
}

fn join(
    served: &ServedArray,
    device: &ServerDevice,
    destroy: bool,
    wishes: &[JoinAs],
) -> Result<(), CommandError> {
    let (number, bytes) = (device.number, device.bytes()?);
    // Nothing may be on its way to it when it is looked at.
    let is_idle = || served.handle.status()?.devices[usize::from(number)].refuse_busy();
    when_passed(is_idle).map_err(CommandError::cannot)?;
    let (id, found) = match destroy {
        true => (random_id()?, None),
        false => {
            let found = device.find()?.map_err(|error| {
                let text = format!("'{}' {error}", device.path.display());
                CommandError::cannot_measure(text).hint("add --destroy if its contents may be lost")
            })?;
            (found.superblock.member, Some(found))
        }
    };
    let newcomer = Newcomer { device: number, device_bytes: bytes, id, found };
    let refused = |error| {
        CommandError::cannot(error).context(format!("'{}' is not added", device.path.display()))
    };
    let mut refusal = ServerError::Order(OrderError::Doubled);
    for &what in wishes {
        match when_passed(|| served.handle.refuse_newcomer(what, newcomer.clone())) {
            Ok(()) => {
                if destroy {
                    let blank = make_blank(device.file(), bytes, &served.table.geometry);
                    blank.map_err(|error| CommandError::io("erase", &device.path, error))?;
                }
                let added = when_passed(|| served.handle.add(what, newcomer.clone()));
                return added.map_err(refused);
            }
            Err(error) => refusal = error,
        }
        // A member that was away has one role, and is doubled in all others.
        if !matches!(refusal, ServerError::Order(OrderError::Doubled)) {
            break;
        }
    }
    Err(refused(refusal))
}

fn status_of(served: &ServedArray, status: &ServerStatus) -> ArrayStatus {
    let engine = &status.engine;
    let members = usize::from(served.table.geometry.members);
    let roles = engine.roles.iter().enumerate().map(|(at, role)| {
        shown_device(served, status, role.device, Some((role_of(served, at), role)))
    });
    let is_given_up =
        |device: &&ServerDevice| !engine.roles.iter().any(|of| of.device == Some(device.number));
    let given_up = served.devices.iter().filter(is_given_up);
    let given_up = given_up.map(|device| shown_device(served, status, Some(device.number), None));
    // A replacement has everything a moment before it has the role.
    let stands_in =
        |role| engine.roles.iter().any(|member| member.is_read && member.replaces == Some(role));
    let has_all =
        (0..).zip(&engine.roles[..members]).map(|(at, role)| role.is_read || stands_in(at));
    let has_all: Vec<bool> = has_all.collect();
    let geometry = &served.table.geometry;
    ArrayStatus {
        schema: ArrayStatus::schema(),
        shape: shape_of(&served.table),
        served_at: served.front.name(),
        state: state_of(engine, &has_all),
        stopped_because: engine.stopped.map(|reason| reason.to_string()),
        epoch: engine.epoch,
        is_settled: engine.is_settled,
        may_fail: may_fail(geometry, &has_all, engine.regions_unsynced),
        regions: u32::from(geometry.sets()) * geometry.regions(),
        regions_dirty: engine.regions_dirty,
        regions_to_resync: engine.regions_unsynced,
        requests: status.requests,
        scrub: engine.scrub.clone(),
        devices: roles.chain(given_up).collect(),
    }
}

/// `has_all` says of each member whether it has every acknowledged write.
fn state_of(engine: &Status, has_all: &[bool]) -> ArrayState {
    match (engine.stopped, engine.is_running) {
        (Some(_), _) => ArrayState::Stopped,
        (None, false) => ArrayState::Starting,
        (None, true) if has_all.contains(&false) => ArrayState::Degraded,
        (None, true) if engine.regions_unsynced > 0 => ArrayState::Resyncing,
        (None, true) => ArrayState::Running,
    }
}

/// Members that may fail, whichever they are, while those that have all data can still give it. A parity
/// that is not right yet gives nothing.
fn may_fail(geometry: &Geometry, has_all: &[bool], regions_unsynced: u32) -> u8 {
    if geometry.level.parities() > 0 && regions_unsynced > 0 {
        return 0;
    }
    let sets = has_all.chunks(geometry.set_members().into());
    let spare = sets.map(|set| {
        let whole = set.iter().filter(|has_all| **has_all).count();
        let spare = whole.saturating_sub(geometry.columns().into());
        u8::try_from(spare).unwrap_or(u8::MAX)
    });
    spare.min().unwrap_or(0)
}

/// The status of a device, with its role and entry in the table, if it has one.
fn shown_device(
    served: &ServedArray,
    status: &ServerStatus,
    number: Option<u8>,
    entry: Option<(Option<u8>, &RoleStatus)>,
) -> MemberStatus {
    let device = number.and_then(|number| served.devices.iter().find(|of| of.number == number));
    let counters = number.and_then(|number| status.devices.get(usize::from(number)).copied());
    let path = device.map(|device| device.path.display().to_string());
    member_status(path, counters.unwrap_or_default(), entry)
}

fn member_status(
    path: Option<String>,
    counters: DeviceCounters,
    entry: Option<(Option<u8>, &RoleStatus)>,
) -> MemberStatus {
    let (role, entry) = entry.map_or((None, None), |(role, entry)| (role, Some(entry)));
    let rebuilding = entry.filter(|entry| entry.state == MemberState::Rebuilding);
    MemberStatus {
        role,
        replaces: entry.and_then(|entry| entry.replaces),
        state: entry.map_or(MemberStanding::GivenUp, |entry| standing_of(entry.state)),
        path,
        rebuilt_bytes: rebuilding.map(|entry| entry.rebuilt),
        by_map: entry.is_some_and(|entry| entry.by_map),
        in_flight: counters.in_flight,
        reads: counters.reads,
        writes: counters.writes,
        errors: counters.errors,
    }
}

#[cfg(test)]
mod tests;
