//! The names beside a served array: who may use its sockets, what stands where its log goes, and callers
//! that say nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Ended;
use crate::raid::{Array, can_serve};

fn detached(array: &Array) -> Ended {
    let open_to_all = ["sh", "-c", "umask 000; exec \"$@\"", "sh"];
    array.sandbox.durio("raid start --detach --socket s a b").within(open_to_all).run()
}

#[test]
fn sockets_and_log_are_the_owners_alone_under_any_umask() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    detached(&array).expect_exit(0);
    for name in ["s", "s.control", "s.log"] {
        let mode = fs::symlink_metadata(array.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
    array.raid("stop").expect_exit(0);
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_the_log_is_refused_and_nothing_is_served() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    symlink(array.path("elsewhere"), array.path("s.log")).unwrap();
    detached(&array).expect_exit(3).expect_no_stdout().expect_stderr("it is a symbolic link");
    assert!(!array.path("elsewhere").exists() && !array.path("s").exists());
    fs::remove_file(array.path("s.log")).unwrap();
    mkfifoat(CWD, array.path("s.log"), Mode::from_raw_mode(0o600)).unwrap();
    detached(&array).expect_exit(3).expect_no_stdout().expect_stderr("it is not a regular file");
    assert!(!array.path("s").exists());
}

#[test]
fn callers_that_are_silent_or_drip_hold_up_neither_status_nor_the_end() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let mut server = array.start("a b");
    let control = array.path("s.control");
    let _silent: Vec<_> = (0..20).map(|_| UnixStream::connect(&control).unwrap()).collect();
    let mut dripping = UnixStream::connect(&control).unwrap();
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
                // A caller that was sent away comes again.
                if dripping.write_all(b"x").is_err() {
                    let Ok(again) = UnixStream::connect(&control) else { return };
                    dripping = again;
                }
            }
        });
        let asked = Instant::now();
        array.raid("status").expect_exit(0);
        // Each of the 21 would be waited for 2 s and more, one after another.
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
        server.signal(Signal::TERM);
        let ended = server.wait_at_most(Duration::from_secs(30));
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    ended.expect_exit(0);
}

#[test]
fn status_without_a_socket_lists_what_is_served_and_a_server_that_hangs_does_not_hold_it_up() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&[]);
    let mut server = array.start("a b");
    let socket = fs::canonicalize(array.path("s")).unwrap();
    // Other tests serve arrays at the same time.
    let listed = || {
        let list = array.sandbox.durio("raid status --json").run().expect_exit(0).json();
        assert_eq!(list["schema"], "durio-raid-list-1");
        let arrays = list["arrays"].as_array().unwrap().clone();
        arrays.into_iter().find(|listed| listed["socket"] == socket.to_str().unwrap())
    };
    let running = listed().unwrap();
    assert_eq!(running["status"]["name"], "data", "{running}");
    assert_eq!(running["status"]["array"], array.status()["array"]);
    assert_eq!(running["problem"], Value::Null);
    let text = array.sandbox.durio("raid list").run().expect_exit(0).text();
    assert!(text.contains("served arrays") && text.contains("data"), "{text}");

    server.signal(Signal::STOP);
    let hanging = listed().unwrap();
    assert_eq!(hanging["status"], Value::Null, "{hanging}");
    assert!(hanging["problem"].as_str().is_some_and(|why| !why.is_empty()), "{hanging}");
    server.signal(Signal::CONT);
    Array::end(server, Signal::TERM).expect_exit(0);
    assert_eq!(listed(), None);
}
