//! Guests with disks, a witness and a power switch, booted where a kernel and QEMU are there.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test ends at the first surprise and says what it skips"
)]

mod nbd_server;

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use durio_block::testkit::note_skip;
use durio_lab::{
    Boot, Cutter, GuestFrontEnd, LabDisk, LabExit, LabOutcome, LabRequest, LabTiming,
    PreparedGuest, Qemu, Streams, kernels,
};
use nbd_server::Server;

const DISK_BYTES: usize = 8 << 20;
/// On a quiet machine it takes a tenth of a second; two guests and compilers may run beside it.
const CUT_WITHIN: Duration = Duration::from_secs(10);

/// The example, which cargo builds with all tests of the package.
fn first_process() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join("first_process");
    assert!(program.is_file(), "cargo build -p durio-lab --examples makes {}", program.display());
    program
}

fn disk(server: &Server, front_end: GuestFrontEnd, write_cache: bool, serial: &str) -> LabDisk {
    let (socket, export) = (server.socket(), String::new());
    LabDisk { socket, export, front_end, write_cache, serial: serial.to_owned() }
}

/// A guest with drivers for every front end, made ready once for all tests; none, and said so, where
/// none can be booted.
fn prepared() -> Option<&'static PreparedGuest> {
    static GUEST: OnceLock<Result<PreparedGuest, &str>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| {
        Qemu::find().map_err(|_| "qemu-system-x86_64 is not installed")?;
        let kernel = kernels::usable().into_iter().next().ok_or("no kernel for the lab")?;
        // Never booted with these disks: they say which drivers are needed.
        let disks = GuestFrontEnd::ALL.map(|front_end| LabDisk {
            socket: "/nonexistent".into(),
            export: String::new(),
            front_end,
            write_cache: true,
            serial: front_end.word().to_owned(),
        });
        let request = LabRequest {
            timing: LabTiming::Wall,
            disks: disks.into(),
            has_witness: true,
            ..LabRequest::new(kernel, first_process(), vec!["true".into()])
        };
        Ok(PreparedGuest::new(request).unwrap())
    });
    guest.as_ref().map_err(|reason| note_skip("guests", reason)).ok()
}

/// The same guest with this script and these disks.
fn guest_for(guest: &PreparedGuest, script: &str, disks: Vec<LabDisk>) -> PreparedGuest {
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    guest.with_request(LabRequest { command, disks, ..guest.request().clone() }).unwrap()
}

/// What one boot gave.
#[derive(Debug)]
struct Booted {
    outcome: LabOutcome,
    stdout: String,
}

fn boot(guest: &PreparedGuest, cutter: Option<&Cutter>, witness: Option<io::PipeWriter>) -> Booted {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let streams = Streams { stdout: &mut stdout, stderr: &mut stderr };
    let boot = Boot { streams, stop: &|| false, cutter, witness: witness.map(Into::into) };
    let outcome = guest.boot(boot).unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    eprintln!("{:?} after {:?}: {stderr}", outcome.exit, outcome.first_command_after);
    Booted { outcome, stdout: String::from_utf8(stdout).unwrap() }
}

#[test]
fn each_front_end_is_a_disk_that_is_found_by_its_serial_and_read_and_written() {
    let Some(guest) = prepared() else { return };
    let servers = [0; 6].map(|_| Server::start(DISK_BYTES));
    let cases = GuestFrontEnd::ALL
        .into_iter()
        .flat_map(|front_end| [(front_end, true), (front_end, false)]);
    let serial = |front_end: GuestFrontEnd, cache| format!("{}-{cache}", front_end.word());
    let disks = servers.iter().zip(cases.clone());
    let disks =
        disks.map(|(server, (front, cache))| disk(server, front, cache, &serial(front, cache)));
    // What is read back comes from the device: the file is opened without the page cache.
    let script = "set -e; cd /dev/disk/by-id; for disk in *; do \
        printf '%-4096s' \"written to $disk\" > /tmp/block; \
        dd if=/tmp/block of=$disk bs=4096 seek=5 oflag=direct conv=fsync,notrunc 2>/dev/null; \
        name=$(basename $(readlink -f $disk)); \
        dd if=$disk bs=4096 skip=5 count=1 iflag=direct 2>/dev/null | cmp - /tmp/block; \
        echo $disk $name $(cat /sys/block/$name/queue/write_cache); done";
    let booted = boot(&guest_for(guest, script, disks.collect()), None, None);
    assert_eq!(booted.outcome.exit, LabExit::Code(0));
    for (server, (front_end, cache)) in servers.iter().zip(cases) {
        let (state, serial) = (server.state(), serial(front_end, cache));
        let block = &state.bytes[5 * 4096..6 * 4096];
        assert!(block.starts_with(format!("written to {serial} ").as_bytes()), "{serial}");
        assert_eq!(state.writes, 1, "{serial}");
        // Without a write cache QEMU asks for every write to be durable by itself.
        assert_eq!(state.fuas, usize::from(!cache), "{serial}");
        assert!(!cache || state.flushes > 0, "{serial}");
        assert!(booted.stdout.contains(&format!("{serial} ")), "{}", booted.stdout);
    }
    for name in ["virtio-blk-true vd", "nvme-true nvme", "scsi-true sd"] {
        assert!(booted.stdout.contains(name), "{}", booted.stdout);
    }
    for front_end in GuestFrontEnd::ALL {
        let line = booted.stdout.lines().find(|line| line.starts_with(&serial(front_end, true)));
        assert!(line.unwrap().ends_with("write back"), "{}", booted.stdout);
    }
}

#[test]
fn a_cut_ends_the_guest_at_once_and_the_same_guest_boots_again() {
    let Some(guest) = prepared() else { return };
    let server = Server::start(DISK_BYTES);
    let disks = vec![disk(&server, GuestFrontEnd::VirtioBlk, true, "cut")];
    // Each number is on the disk before the witness hears of it.
    let script = "i=0; while :; do i=$((i+1)); printf '%-512s' $i > /tmp/block; \
        dd if=/tmp/block of=/dev/disk/by-id/cut oflag=direct conv=notrunc 2>/dev/null; \
        echo $i > $DURIO_LAB_WITNESS; done";
    let writing = guest_for(guest, script, disks.clone());
    let (reader, writer) = io::pipe().unwrap();
    let cutter = Cutter::new();
    let (heard, cut_at, booted) = thread::scope(|scope| {
        let booting = scope.spawn(|| boot(&writing, Some(&cutter), Some(writer)));
        let mut witness = BufReader::new(reader).lines().map_while(Result::ok);
        let mut heard: Vec<String> = witness.by_ref().take(20).collect();
        let cut_at = Instant::now();
        assert!(cutter.cut(), "heard {heard:?}");
        // What was on its way, to the end of the pipe, which QEMU and the boot have let go.
        heard.extend(witness);
        (heard, cut_at, booting.join().unwrap())
    });
    assert_eq!(booted.outcome.exit, LabExit::Cut);
    assert!(cut_at.elapsed() < CUT_WITHIN, "{:?}", cut_at.elapsed());
    let last: u64 = heard.last().unwrap().parse().unwrap();
    let expected: Vec<_> = (1..=last).map(|number| number.to_string()).collect();
    assert_eq!(heard, expected, "the witness heard all in order");
    let reading = guest_for(guest, "head -c 512 /dev/disk/by-id/cut", disks);
    let again = boot(&reading, None, None);
    assert_eq!(again.outcome.exit, LabExit::Code(0));
    let kept: u64 = again.stdout.trim().parse().unwrap();
    assert!((last..=last + 1).contains(&kept), "kept {kept}, heard {last}");
}

#[test]
fn two_guests_run_at_once_each_with_its_disk() {
    let Some(guest) = prepared() else { return };
    let servers = [0; 2].map(|_| Server::start(DISK_BYTES));
    thread::scope(|scope| {
        let boots = servers.iter().zip([GuestFrontEnd::Nvme, GuestFrontEnd::Scsi]).map(
            |(server, front)| {
                let script =
                    format!("printf %-512s {} | dd of=/dev/disk/by-id/x conv=fsync", front.word());
                let guest = guest_for(guest, &script, vec![disk(server, front, true, "x")]);
                scope.spawn(move || boot(&guest, None, None))
            },
        );
        for (booting, word) in boots.collect::<Vec<_>>().into_iter().zip(["nvme", "scsi"]) {
            assert_eq!(booting.join().unwrap().outcome.exit, LabExit::Code(0), "{word}");
        }
    });
    assert!(servers[0].state().bytes.starts_with(b"nvme "));
    assert!(servers[1].state().bytes.starts_with(b"scsi "));
}

#[test]
fn a_disk_whose_server_is_gone_gives_errors() {
    let Some(guest) = prepared() else { return };
    let servers = [0; 3].map(|_| Server::start(DISK_BYTES));
    let disks = servers.iter().zip(GuestFrontEnd::ALL);
    let disks = disks.map(|(server, front)| disk(server, front, true, front.word())).collect();
    // A pipe has no other direction: the guest tries until the disks are gone.
    let script = "cd /dev/disk/by-id; echo up > $DURIO_LAB_WITNESS; for disk in *; do \
        while dd if=$disk of=/dev/null bs=4096 count=1 iflag=direct 2>/dev/null; do :; done; \
        echo $disk gives errors; done";
    let guest = guest_for(guest, script, disks);
    let (mut reader, writer) = io::pipe().unwrap();
    let booted = thread::scope(|scope| {
        let booting = scope.spawn(|| boot(&guest, None, Some(writer)));
        reader.read_exact(&mut [0; 3]).unwrap();
        servers.iter().for_each(Server::vanish);
        booting.join().unwrap()
    });
    assert_eq!(booted.outcome.exit, LabExit::Code(0));
    assert_eq!(booted.stdout.lines().count(), 3, "{}", booted.stdout);
}

#[test]
fn a_server_that_is_not_there_is_named_at_once() {
    let Some(guest) = prepared() else { return };
    let booted = boot(guest, None, None);
    let LabExit::GuestFailed(reason) = booted.outcome.exit else { panic!("{booted:?}") };
    assert!(reason.contains("/nonexistent"), "{reason}");
}

#[test]
fn a_cut_before_the_start_or_after_the_end_is_told_by_its_answer() {
    let Some(guest) = prepared() else { return };
    let guest = guest_for(guest, "true", Vec::new());
    let cutter = Cutter::new();
    assert!(cutter.cut());
    assert_eq!(boot(&guest, Some(&cutter), None).outcome.exit, LabExit::Cut);
    let cutter = Cutter::new();
    assert_eq!(boot(&guest, Some(&cutter), None).outcome.exit, LabExit::Code(0));
    assert!(!cutter.cut());
}

#[test]
fn files_that_were_made_for_one_request_do_not_serve_one_that_needs_others() {
    let Some(guest) = prepared() else { return };
    let request = LabRequest { tools: vec!["ls".to_owned()], ..guest.request().clone() };
    let error = guest.with_request(request).unwrap_err();
    let text = "a prepared guest lacks the files for another request";
    assert_eq!(error.to_string(), text);
}
