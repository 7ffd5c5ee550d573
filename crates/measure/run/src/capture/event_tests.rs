//! What becomes of raw events, with files of this process.

use std::io::pipe;
use std::os::fd::AsRawFd;

use durio_observe::{DeviceRequest, TRACED_CALLS, TracedCall};

use super::*;

fn call(name: &str) -> &'static TracedCall {
    TRACED_CALLS.iter().find(|known| known.name == name).unwrap()
}

fn entered(name: &str, fd: i32) -> CaptureEventKind {
    CaptureEventKind::Entered { call: call(name), fd, offset: Some(9), durable: true }
}

/// The events that follow from a raw one of this process.
fn told(watched: &mut WatchedFiles<'_>, kind: CaptureEventKind) -> Vec<CaptureEvent> {
    let number = |number| CapturedDevice { name: String::new(), number, has_requests: true };
    let devices = [(8, 0), (8, 16)].map(number);
    let mut events = Vec::new();
    let event = RawEvent { at: 5, task: std::process::id(), kind };
    take(watched, &devices, event, &mut |event| events.push(event));
    events
}

/// The kinds of these events, with the number of the file where they have one.
fn kinds(events: &[CaptureEvent]) -> Vec<(&'static str, Option<usize>)> {
    let of = |event: &CaptureEvent| match event {
        CaptureEvent::File(_) => ("file", None),
        CaptureEvent::Opened { file, .. } => ("opened", Some(*file)),
        CaptureEvent::Entered { file, .. } => ("entered", *file),
        CaptureEvent::Left { .. } => ("left", None),
        CaptureEvent::Issued { device, .. } => ("issued", Some(*device)),
        CaptureEvent::Ring { opcode } => ("ring", Some((*opcode).into())),
    };
    events.iter().map(of).collect()
}

#[test]
fn a_call_is_told_with_its_file_which_is_looked_up_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
    let (log, data) = (open("log"), open("data"));
    let (log, data) = (log.as_raw_fd(), data.as_raw_fd());
    let mut watched = WatchedFiles::new(Path::new("/"), None);
    let of =
        |watched: &mut WatchedFiles<'_>, name: &str, fd| kinds(&told(watched, entered(name, fd)));
    let first = told(&mut watched, entered("pwrite64", log));
    assert_eq!(kinds(&first), [("file", None), ("opened", Some(0)), ("entered", Some(0))]);
    let CaptureEvent::Entered { at, task, call, holder, offset, durable, .. } = first[2] else {
        panic!("{first:?}")
    };
    let own = std::process::id();
    assert_eq!((at, task, call.name, holder), (5, own, "pwrite64", (own, log)));
    assert_eq!((offset, durable), (Some(9), true));
    let second = of(&mut watched, "fsync", data);
    assert_eq!(second, [("file", None), ("opened", Some(1)), ("entered", Some(1))]);
    assert_eq!(of(&mut watched, "lseek", log), [("entered", Some(0))]);
    assert!(of(&mut watched, "openat", log).is_empty());
    assert!(of(&mut watched, "close", log).is_empty());
    assert_eq!(of(&mut watched, "write", log), [("opened", Some(0)), ("entered", Some(0))]);
    assert_eq!(of(&mut watched, "write", data), [("entered", Some(1))], "it was not closed");
    assert_eq!(watched.sizes(), [Some(0), Some(0)]);
}

#[test]
fn what_is_no_file_is_left_out_and_what_is_gone_has_no_name() {
    let (reader, _writer) = pipe().unwrap();
    let mut watched = WatchedFiles::new(Path::new("/"), None);
    assert!(told(&mut watched, entered("write", reader.as_raw_fd())).is_empty());
    // No process has as many open.
    let gone = told(&mut watched, entered("write", i32::MAX));
    assert_eq!(kinds(&gone), [("entered", None)]);
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().canonicalize().unwrap();
    let elsewhere = tempfile::tempfile().unwrap();
    let inside = fs::File::create(below.join("log")).unwrap();
    let mut watched = WatchedFiles::new(Path::new("/"), Some(below.as_path()));
    assert!(told(&mut watched, entered("write", i32::MAX)).is_empty());
    assert!(told(&mut watched, entered("write", elsewhere.as_raw_fd())).is_empty());
    assert_eq!(told(&mut watched, entered("write", inside.as_raw_fd())).len(), 3);
}

#[test]
fn the_end_of_a_call_is_told_and_an_open_gives_a_descriptor() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let fd = file.as_file().as_raw_fd();
    let mut watched = WatchedFiles::new(Path::new("/"), None);
    let left = |name, result| CaptureEventKind::Left { call: call(name), result };
    let opened = told(&mut watched, left("openat", fd.into()));
    let [CaptureEvent::File(_), CaptureEvent::Opened { holder, file: 0, position }] = opened[..]
    else {
        panic!("{opened:?}")
    };
    assert_eq!((holder, position), ((std::process::id(), fd), Some(0)));
    assert!(told(&mut watched, left("openat", -2)).is_empty());
    assert!(told(&mut watched, left("close", 0)).is_empty());
    for result in [512, -28] {
        let ended = told(&mut watched, left("write", result));
        let [CaptureEvent::Left { at: 5, call, result: told, .. }] = ended[..] else {
            panic!("{ended:?}")
        };
        assert_eq!((call.name, told), ("write", result));
    }
}

#[test]
fn requests_have_the_place_of_their_device_and_those_of_others_are_left_out() {
    let mut watched = WatchedFiles::new(Path::new("/"), None);
    let mut issued = |device| {
        let request = DeviceRequest::Flush;
        kinds(&told(&mut watched, CaptureEventKind::Issued { device, request }))
    };
    assert_eq!(issued((8, 0)), [("issued", Some(0))]);
    assert_eq!(issued((8, 16)), [("issued", Some(1))]);
    assert!(issued((9, 0)).is_empty() && issued((8, 1)).is_empty());
    let ring = told(&mut watched, CaptureEventKind::Ring { opcode: 23 });
    assert_eq!(kinds(&ring), [("ring", Some(23))]);
}

#[test]
fn a_file_is_another_one_with_another_flag_that_decides_on_durability() {
    let mut watched = WatchedFiles::new(Path::new("/"), None);
    let mut files = 0;
    let mut number = |path: &str, flags: OFlags| {
        let mut emit = |_: CaptureEvent| files += 1;
        watched.number(Path::new(path), flags.bits(), None, &mut emit)
    };
    let found = [
        number("/a", OFlags::RDWR),
        number("/a", OFlags::WRONLY),
        number("/a", OFlags::WRONLY | OFlags::NONBLOCK),
        number("/b", OFlags::RDWR),
        number("/a", OFlags::RDWR | OFlags::APPEND),
        number("/a", OFlags::RDWR | OFlags::DIRECT),
        number("/a", OFlags::RDWR | OFlags::SYNC),
        number("/b", OFlags::WRONLY),
    ];
    assert_eq!(found, [0, 0, 0, 1, 2, 3, 4, 1]);
    assert_eq!(files, 5);
}
