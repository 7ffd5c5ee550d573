//! A served array over files: what was written is there, on every copy, and members come and go.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use durio_base::RaidLevel;
use durio_block::{MemberAction, MemberOperation};
use durio_nbd::{Command, Connection, Refusal, Request, Storage};

use super::array::TICK;
use super::*;
use crate::{
    AssembleOptions, Geometry, Id, Member, MemberOp, MemberOpKind, MemberState, Newcomer, assemble,
    create, layout,
};

pub(super) const CHUNK: u32 = 16 << 10;
pub(super) const GEOMETRY: Geometry = Geometry {
    level: RaidLevel::Raid1,
    members: 2,
    chunk: CHUNK,
    region: 1 << 20,
    member_bytes: 4 << 20,
};

/// Files in a folder that are members of a new array.
pub(super) struct Members {
    folder: tempfile::TempDir,
    geometry: Geometry,
    pub(super) data_at: u64,
}

impl Members {
    pub(super) fn new() -> Self {
        Self::with(GEOMETRY)
    }

    pub(super) fn with(geometry: Geometry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data_at = layout::data_at(&geometry, layout::DATA_ALIGNMENT);
        let device_bytes = layout::device_bytes(&geometry, data_at);
        let numbers = 1..=geometry.members;
        let members: Vec<_> =
            numbers.map(|number| Member { id: Id([number; 16]), device_bytes }).collect();
        let blocks =
            create(Id([9; 16]), "test", geometry, layout::DATA_ALIGNMENT, &members).unwrap();
        let members = Self { folder, geometry, data_at };
        for (device, blocks) in (0..).zip(&blocks) {
            let file = File::create_new(members.path(device)).unwrap();
            file.set_len(device_bytes).unwrap();
            write_metadata(&file, blocks).unwrap();
        }
        members
    }

    pub(super) fn path(&self, device: u8) -> std::path::PathBuf {
        self.folder.path().join(device.to_string())
    }

    pub(super) fn open(&self, device: u8) -> File {
        File::options().read(true).write(true).open(self.path(device)).unwrap()
    }

    pub(super) fn find(&self, device: u8) -> crate::FoundDevice {
        let bytes = self.open(device).metadata().unwrap().len();
        find_member(&self.open(device), device, bytes).unwrap().unwrap()
    }

    /// Serves it; none where the kernel has no io_uring.
    pub(super) fn serve(&self, devices: &[u8]) -> Option<ArrayServer> {
        // Connections go to both in turn.
        self.serve_by(2, devices)
    }

    pub(super) fn serve_by(&self, threads: u8, devices: &[u8]) -> Option<ArrayServer> {
        let plan = self.plan(devices);
        let files: Vec<_> = devices.iter().map(|&device| self.member(device)).collect();
        Self::start(plan, Config::default(), &files, threads)
    }

    pub(super) fn plan(&self, devices: &[u8]) -> StartPlan {
        let found: Vec<_> = devices.iter().map(|&device| self.find(device)).collect();
        let options = AssembleOptions { force: true, ..AssembleOptions::default() };
        assemble(&found, options).unwrap()
    }

    fn start(
        plan: StartPlan,
        config: Config,
        files: &[MemberFile],
        threads: u8,
    ) -> Option<ArrayServer> {
        match ArrayServer::start(plan, config, 512, files, threads) {
            Ok(server) => Some(server),
            Err(ServerError::Block(error)) => {
                durio_block::testkit::note_skip("raid server", &error);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn member(&self, device: u8) -> MemberFile {
        MemberFile { device, file: self.open(device).into(), claim: None }
    }

    /// The data of a member, read by its path alone.
    fn data(&self, device: u8) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.member_bytes as usize];
        self.open(device).read_exact_at(&mut bytes, self.data_at).unwrap();
        bytes
    }
}

pub(super) fn carry_out(
    connection: &mut dyn Connection,
    command: Command<'_>,
) -> Result<(), Refusal> {
    let mut batch = [Request { command, outcome: Err(Refusal::Io) }];
    connection.carry_out(&mut batch);
    batch[0].outcome
}

pub(super) fn write(
    connection: &mut dyn Connection,
    offset: u64,
    data: &[u8],
) -> Result<(), Refusal> {
    carry_out(connection, Command::Write { offset, data, fua: false })
}

pub(super) fn read(connection: &mut dyn Connection, offset: u64, length: usize) -> Vec<u8> {
    let mut into = vec![0xee; length];
    carry_out(connection, Command::Read { offset, into: &mut into }).unwrap();
    into
}

/// Bytes that differ from place to place.
pub(super) fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at + seed) * 31 % 251) as u8).collect()
}

pub(super) fn wait_until(
    handle: &ArrayHandle,
    is_it: impl Fn(&ServerStatus) -> bool,
) -> ServerStatus {
    loop {
        let status = handle.status().unwrap();
        assert_eq!(status.engine.stopped, None);
        if is_it(&status) {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

pub(super) fn state(status: &ServerStatus, role: usize) -> MemberState {
    status.engine.roles[role].state
}

#[test]
fn what_was_written_is_on_every_copy_and_is_read_again() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    // Over the borders of many chunks, and a part of a block.
    let data = pattern(300_000 / 512 * 512, 3);
    write(connection.as_mut(), 512, &data).unwrap();
    assert_eq!(read(connection.as_mut(), 512, data.len()), data);
    carry_out(connection.as_mut(), Command::Flush).unwrap();
    let zeroes = Command::WriteZeroes { offset: 4096, length: 40_960, fua: true, no_hole: true };
    carry_out(connection.as_mut(), zeroes).unwrap();
    let mut expected = data.clone();
    expected[4096 - 512..][..40_960].fill(0);
    for device in [0, 1] {
        let held = members.data(device);
        assert!(held[512..][..data.len()] == expected, "member {device}");
        assert!(held[..512].iter().chain(&held[512 + data.len()..]).all(|&byte| byte == 0));
    }
    drop(connection);
    server.stop().unwrap();
    // Nothing is left to resync.
    let server = members.serve(&[0, 1]).unwrap();
    let status = wait_until(&server.handle(), |status| status.engine.is_running);
    assert_eq!((status.engine.regions_unsynced, status.engine.regions_dirty), (0, 0));
    assert_eq!(read(server.handle().connect().as_mut(), 512, data.len()), expected);
    server.stop().unwrap();
}

#[test]
fn many_connections_write_at_once_by_any_number_of_threads_and_the_copies_are_equal() {
    for threads in [1, 2, 5] {
        let members = Members::new();
        let Some(server) = members.serve_by(threads, &[0, 1]) else { return };
        std::thread::scope(|scope| {
            for writer in 0..4_usize {
                let handle = server.handle();
                scope.spawn(move || {
                    let mut connection = handle.connect();
                    for round in 0..50_usize {
                        // Two of them on the same blocks.
                        let offset = ((writer / 2 * 50 + round) % 60 * 8192) as u64;
                        let data = pattern(8192, writer * 1000 + round);
                        write(connection.as_mut(), offset, &data).unwrap();
                    }
                });
            }
        });
        assert!(members.data(0) == members.data(1));
        server.stop().unwrap();
    }
}

/// Each waits for the other's, and for nobody's clock.
#[test]
fn a_write_that_waited_for_one_of_another_thread_goes_on_at_once() {
    const ROUNDS: u32 = 200;
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let begin = std::time::Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..2_u8 {
            let handle = server.handle();
            scope.spawn(move || {
                let mut connection = handle.connect();
                let data = [writer; 4096];
                for _ in 0..ROUNDS {
                    let mut batch = [(); 4].map(|()| Request {
                        command: Command::Write { offset: 0, data: &data, fua: false },
                        outcome: Err(Refusal::Io),
                    });
                    connection.carry_out(&mut batch);
                    assert!(batch.iter().all(|request| request.outcome == Ok(())));
                }
            });
        }
    });
    assert!(begin.elapsed() < ROUNDS * TICK / 2, "{:?}", begin.elapsed());
    let data = members.data(0);
    assert!(data == members.data(1) && data[..4096].iter().all(|byte| *byte == data[0]));
    server.stop().unwrap();
}

#[test]
fn a_thread_that_ends_by_a_fault_ends_the_others_and_everybody_is_told() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connections = [handle.connect(), handle.connect()];
    connections.iter_mut().for_each(|connection| write(connection.as_mut(), 0, &[1; 512]).unwrap());
    let told = handle.order(1, |_, _| panic!("a fault, on purpose"));
    assert!(matches!(told, Err(ServerError::Ended)));
    while !server.threads.iter().all(thread::JoinHandle::is_finished) {
        thread::yield_now();
    }
    for connection in &mut connections {
        assert_eq!(write(connection.as_mut(), 0, &[2; 512]), Err(Refusal::Shutdown));
    }
    assert!(matches!(handle.status(), Err(ServerError::Ended)));
    let stop = std::panic::AssertUnwindSafe(|| server.stop());
    assert!(std::panic::catch_unwind(stop).is_err());
}

#[test]
fn a_member_that_failed_comes_back_by_the_map_under_writes() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    let mut of_another_thread = handle.connect();
    write(connection.as_mut(), 0, &pattern(65536, 1)).unwrap();
    handle.fail(1).unwrap();
    write(connection.as_mut(), 2 << 20, &pattern(65536, 2)).unwrap();
    let status = wait_until(&handle, |status| status.engine.is_settled);
    assert_eq!(state(&status, 1), MemberState::Faulty);
    assert!(!status.devices[1].is_used && status.devices[1].is_open);
    wait_until(&handle, |status| status.devices[1].in_flight == 0);
    let found = members.find(1);
    let (id, device_bytes) = (found.superblock.member, found.superblock.device_bytes);
    let newcomer = Newcomer { device: 1, device_bytes, id, found: Some(found) };
    handle.add(JoinAs::Member(1), newcomer).unwrap();
    for round in 0..50 {
        write(connection.as_mut(), (round * 65536) as u64, &pattern(65536, round)).unwrap();
        write(of_another_thread.as_mut(), (round * 32768) as u64, &pattern(512, 9)).unwrap();
    }
    wait_until(&handle, |status| {
        state(status, 1) == MemberState::InSync && status.engine.roles[1].is_read
    });
    assert!(members.data(0) == members.data(1));
    server.stop().unwrap();
}

#[test]
fn a_new_device_takes_the_place_of_one_that_is_gone() {
    let members = Members::new();
    let Some(server) = members.serve(&[0]) else { return };
    let handle = server.handle();
    let data = pattern(100 * 1024, 5);
    write(handle.connect().as_mut(), 0, &data).unwrap();
    let file = File::create_new(members.path(5)).unwrap();
    let device_bytes = members.open(0).metadata().unwrap().len() + 12345;
    file.set_len(device_bytes).unwrap();
    file.write_all_at(&[0xff; 1 << 20], 0).unwrap();
    make_blank(&file, device_bytes, &GEOMETRY).unwrap();
    handle.open(&members.member(5)).unwrap();
    let newcomer = Newcomer { device: 5, device_bytes, id: Id([5; 16]), found: None };
    handle.add(JoinAs::Member(1), newcomer.clone()).unwrap();
    assert!(matches!(handle.add(JoinAs::Member(1), newcomer), Err(ServerError::Used)));
    wait_until(&handle, |status| status.engine.roles[1].is_read);
    assert!(matches!(handle.forget(5), Err(ServerError::Used)));
    assert!(members.data(5)[..data.len()] == data);
    server.stop().unwrap();
    assert_eq!(members.find(5).superblock.member, Id([5; 16]));
}

/// A device that is smaller than it was answers with less than it was asked for.
#[test]
fn a_member_that_has_shrunk_fails_and_nobody_sees_it() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    let data = pattern(65536, 1);
    write(connection.as_mut(), 0, &data).unwrap();
    members.open(1).set_len(4096).unwrap();
    for _ in 0..4 {
        assert!(read(connection.as_mut(), 0, data.len()) == data);
    }
    let status =
        wait_until(&handle, |status| status.devices[1].errors > 0 && status.engine.is_settled);
    assert!(status.engine.roles[0].is_read);
    server.stop().unwrap();
}

/// A pipe that nobody reads takes some writes, and then none.
#[test]
fn a_member_that_hangs_is_given_up_and_what_it_owes_holds_nobody_up() {
    let members = Members::new();
    let pipe = members.path(9);
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let hanging = File::options().read(true).write(true).open(&pipe).unwrap();
    let found = [members.find(0), members.find(1)];
    let plan = assemble(&found, AssembleOptions::default()).unwrap();
    let config = Config { timeout: durio_base::Nanos::from_secs(1), ..Config::default() };
    let files =
        vec![members.member(0), MemberFile { device: 1, file: hanging.into(), claim: None }];
    let Some(server) = Members::start(plan, config, &files, 2) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    // What fits into a pipe whole or not at all (pipe(7)), and more of it than a pipe holds.
    let data = pattern(100 * 4096, 1);
    let writes = (0..).zip(data.chunks(4096)).map(|(at, data)| Request {
        command: Command::Write { offset: at * 4096, data, fua: false },
        outcome: Err(Refusal::Io),
    });
    let mut batch: Vec<_> = writes.collect();
    connection.carry_out(&mut batch);
    assert!(batch.iter().all(|request| request.outcome == Ok(())));
    let status =
        wait_until(&handle, |status| status.engine.is_settled && !status.devices[1].is_used);
    assert_eq!(state(&status, 1), MemberState::Faulty);
    let pipe = status.devices[1];
    assert!(pipe.in_flight > 0 && pipe.writes > 0 && pipe.errors == 0, "{pipe:?}");
    assert!(read(connection.as_mut(), 0, data.len()) == data);
    let found = Some(members.find(1));
    let newcomer = Newcomer { device: 1, device_bytes: 8 << 20, id: Id([2; 16]), found };
    assert!(matches!(handle.add(JoinAs::Member(1), newcomer), Err(ServerError::Draining)));
    assert!(matches!(handle.forget(1), Err(ServerError::Draining)));
    drop(connection);
    // It does not wait for what never comes.
    server.stop().unwrap();
    assert!(members.data(0)[..data.len()] == data);
}

#[test]
fn the_last_copy_that_fails_stops_the_array_and_everybody_is_told() {
    let members = Members::new();
    let Some(server) = members.serve(&[0]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    write(connection.as_mut(), 0, &[1; 512]).unwrap();
    handle.fail(0).unwrap();
    assert!(handle.status().unwrap().engine.stopped.is_some());
    assert_eq!(write(connection.as_mut(), 0, &[2; 512]), Err(Refusal::Io));
    drop(connection);
    server.stop().unwrap();
    assert_eq!(write(handle.connect().as_mut(), 0, &[2; 512]), Err(Refusal::Shutdown));
    assert!(matches!(handle.status(), Err(ServerError::Ended)));
}

#[test]
fn regions_that_are_marked_are_counted_on_each_member_of_their_set_alone() {
    let member_bytes = 64 << 20;
    let level = RaidLevel::Raid10;
    let members = Members::with(Geometry { level, members: 4, member_bytes, ..GEOMETRY });
    let marked = || [0, 1, 2, 3].map(|device| marked_regions(&members.find(device)));
    assert_eq!(marked(), [0; 4]);
    let Some(server) = members.serve(&[0, 1, 2, 3]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    // Chunks go over the sets in turn: three regions of the second, one of the first.
    let chunk = u64::from(CHUNK);
    for place in [chunk, 4 << 20, (4 << 20) + chunk, (40 << 20) + chunk] {
        write(connection.as_mut(), place, &pattern(512, 1)).unwrap();
    }
    assert_eq!(marked(), [1, 1, 3, 3]);
    drop(connection);
    server.stop().unwrap();
    assert_eq!(marked(), [0; 4]);
}

#[test]
fn metadata_that_cannot_be_made_durable_is_an_error() {
    // It takes every write and no sync.
    let null = File::options().write(true).open("/dev/null").unwrap();
    let blocks = vec![(0, vec![0; crate::BLOCK as usize])];
    assert!(null.write_all_at(&blocks[0].1, 0).is_ok());
    assert!(write_metadata(&null, &blocks).is_err());
    assert!(make_blank(&null, 8 << 20, &GEOMETRY).is_err());
}

#[test]
fn a_file_that_is_no_member_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let find = |name: &str, bytes: &[u8]| {
        let path: &Path = &folder.path().join(name);
        std::fs::write(path, bytes).unwrap();
        find_member(&File::open(path).unwrap(), 0, bytes.len() as u64).unwrap().unwrap_err()
    };
    assert_eq!(find("small", &[1; 100]), crate::SuperblockError::Missing);
    assert_eq!(find("random", &pattern(1 << 20, 7)), crate::SuperblockError::Missing);
}

/// The kernel shows the size of a ring's queue; all rings of these tests are of servers.
#[test]
fn a_thread_of_a_server_hands_over_256_operations_in_one_call() {
    let members = Members::new();
    let Some(array) = members.serve(&[0, 1]) else { return };
    let mut rings = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let is_ring = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]");
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let Some(text) = std::fs::read_to_string(info).ok().filter(|_| is_ring) else { continue };
        let mask = text.lines().find_map(|line| line.strip_prefix("SqMask:"));
        // Kernels before 5.10 do not show it.
        if let Some(mask) = mask {
            assert_eq!(mask.trim(), "0xff");
        }
        rings += 1;
    }
    assert!(rings > 0);
    drop(array);
}

/// A place beyond the end of any file: the kernel refuses operations there.
const NOWHERE: u64 = 1 << 63;

type FailureRule = Box<dyn Fn(&MemberOp) -> bool + Send>;

/// Sits between the threads of a server and their rings: shows the operations that they hand to the
/// kernel, and makes some of them fail.
#[derive(Default)]
pub(super) struct RingProbe {
    seen: Mutex<Vec<(MemberOp, MemberAction)>>,
    fails: Mutex<Option<FailureRule>>,
}

impl RingProbe {
    /// Makes these operations fail from now on, and no others.
    pub(super) fn fail(&self, rule: impl Fn(&MemberOp) -> bool + Send + 'static) {
        *self.fails.lock().unwrap() = Some(Box::new(rule));
    }

    /// The operations handed over since the last call.
    pub(super) fn take(&self) -> Vec<(MemberOp, MemberAction)> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Records the engine's operation and the kernel's.
    pub(super) fn see(&self, op: &MemberOp, operation: MemberOperation) -> MemberOperation {
        self.seen.lock().unwrap().push((*op, operation.action));
        // A write of the log is longer than the engine's operation.
        let header = if op.kind == MemberOpKind::Log { crate::BLOCK as u32 } else { 0 };
        assert_eq!((operation.member, operation.offset), (op.device.into(), op.offset));
        assert_eq!(operation.length, op.length + header);
        match &*self.fails.lock().unwrap() {
            Some(fails) if fails(op) => MemberOperation { offset: NOWHERE, ..operation },
            _ => operation,
        }
    }
}
