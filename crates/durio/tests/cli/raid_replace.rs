//! Members that work and are replaced, those that are missing, and spares that are added, over files; and
//! devices with sectors of several sizes.

use std::fs::{self, File};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::loops::LoopDevice;
use crate::raid::{Array, MIB, can_serve, standing};
use crate::requirements::has;

/// Which role is replaced, and by whom; none any more when that one has no device.
fn replacement(status: &Value) -> Option<(u64, String)> {
    let mut devices = status["devices"].as_array().unwrap().iter();
    let it = devices.find(|it| it["replaces"].is_u64())?;
    Some((it["replaces"].as_u64().unwrap(), it["path"].as_str()?.to_owned()))
}

#[test]
fn a_member_that_works_is_replaced_under_load_and_both_have_all_until_then() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c", "d", "small"]);
    for name in ["a", "b", "c", "d"] {
        File::options().write(true).open(array.path(name)).unwrap().set_len(64 * MIB).unwrap();
    }
    array.create("data --level 1 --assume-clean --chunk 4KiB", &["a", "b"]).expect_exit(0);
    let running = array.start("a b");
    array.must(&["write -P 1 0 2M", "write -P 2 3M 2M"]);
    // What does not become a member keeps what is on it.
    fs::write(array.path("small"), vec![7; 100_000]).unwrap();
    array.raid("replace a small --destroy small").expect_exit(3).expect_stderr("too small");
    assert!(fs::read(array.path("small")).unwrap() == vec![7; 100_000]);
    array.raid("replace a c").expect_exit(3).expect_stderr("not a member of a durio RAID");
    array.raid("replace a c --destroy d").expect_exit(2).expect_stderr("does not match");
    array.raid("replace a b --destroy b").expect_exit(3).expect_stderr("the array uses it");
    array
        .raid("replace c d --destroy d")
        .expect_exit(3)
        .expect_stderr("not a device of this array");

    let uri = format!("nbd+unix:///?socket={}", array.path("s").display());
    let endless: Vec<String> =
        (0..4000).map(|at| format!("write -P 77 {}k 4k", 2048 + at % 256 * 4)).collect();
    let mut writer = Command::new("qemu-io");
    writer.args(["-f", "raw"]).args(endless.iter().flat_map(|it| ["-c", it.as_str()])).arg(uri);
    let quiet = std::process::Stdio::null;
    let mut writer = writer.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    array.raid("replace a c --destroy c").expect_exit(0).expect_no_stdout();
    let status = array.status();
    let (role, path) = replacement(&status).expect("it takes a second at least");
    assert!(role == 0 && path.ends_with("/c"), "{status}");
    assert_eq!(
        (status["state"].as_str(), standing(&status, "/a").as_str()),
        (Some("running"), "in_sync")
    );
    array.raid("status").expect_exit(0).expect_stdout("rebuilding, replaces 0");
    array.raid("replace b d --destroy d").expect_exit(3).expect_stderr("is being replaced");
    array.raid("remove c").expect_exit(3).expect_stderr("durio raid fail marks it as failed first");
    let status = array.wait_for(|it| standing(it, "/a") == "given_up");
    assert_eq!(
        (status["state"].as_str(), standing(&status, "/c").as_str()),
        (Some("running"), "in_sync")
    );
    assert_eq!(status["devices"][0]["role"], 0);
    array.raid("remove a").expect_exit(0);
    writer.kill().unwrap();
    writer.wait().unwrap();
    array.must(&["read -P 1 0 2M", "read -P 2 3M 2M"]);
    array.raid("scrub").expect_exit(0);
    let status = array.wait_for(|it| it["scrub"]["is_running"] == false);
    assert_eq!(
        (&status["scrub"]["mismatches"], &status["scrub"]["skipped_bytes"]),
        (&0.into(), &0.into())
    );
    assert!(array.data("b") == array.data("c"));
    Array::end(running, Signal::INT).expect_exit(0);
    // The old one is no member, and two are: neither starts without the other.
    array.refused("a b").expect_stderr("only 1 of 2 members in sync are present");
    let running = array.start("b c");
    array.must(&["read -P 1 0 2M", "read -P 2 3M 2M"]);
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn a_replacement_that_fails_or_is_killed_with_its_server_leaves_the_old_member() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        File::options().write(true).open(array.path(name)).unwrap().set_len(64 * MIB).unwrap();
    }
    array.create("data --level 1 --assume-clean --chunk 4KiB", &["a", "b"]).expect_exit(0);
    let running = array.start("a b");
    array.must(&["write -P 1 0 2M"]);
    array.raid("replace a c --destroy c").expect_exit(0);
    assert!(replacement(&array.status()).is_some());
    Array::end(running, Signal::KILL);
    // It goes on.
    let running = array.start("a b c");
    let status = array.status();
    assert!(replacement(&status).is_some_and(|it| it.0 == 0), "{status}");
    assert_eq!(standing(&status, "/a"), "in_sync");
    array.raid("fail c").expect_exit(0);
    let is_without = |status: &Value| replacement(status).is_none() && status["state"] == "running";
    let status = array.wait_for(is_without);
    assert_eq!(standing(&status, "/c"), "given_up");
    array.must(&["write -P 2 1M 64k", "read -P 1 0 1M"]);
    // And if the old one fails, it is rebuilt in its role.
    array.raid("replace a c --destroy c").expect_exit(0);
    array.raid("fail a").expect_exit(0);
    assert_eq!(array.status()["state"], "degraded");
    array.must(&["write -P 3 4M 64k"]);
    array.wait_for(|it| it["state"] == "running" && standing(it, "/c") == "in_sync");
    assert!(array.data("b") == array.data("c"));
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn the_only_copy_of_level_0_is_moved_to_another_device() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c", "d"]);
    array.create("data --level 0", &["a", "b"]).expect_exit(0);
    let running = array.start("a b");
    array.must(&["write -P 1 0 8M"]);
    fs::write(array.path("d"), vec![7; 8 << 20]).unwrap();
    array.raid("add --destroy d d").expect_exit(3).expect_stderr("level 0");
    assert!(fs::read(array.path("d")).unwrap() == vec![7; 8 << 20]);
    array.raid("replace b c --destroy c").expect_exit(0);
    array.must(&["write -P 2 4M 2M"]);
    array.wait_for(|it| standing(it, "/b") == "given_up");
    array.raid("remove b").expect_exit(0);
    array.must(&["read -P 1 0 4M", "read -P 2 4M 2M", "read -P 1 6M 2M"]);
    Array::end(running, Signal::INT).expect_exit(0);
    let running = array.start("c a");
    array.must(&["read -P 1 0 4M", "read -P 2 4M 2M", "read -P 1 6M 2M"]);
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn a_device_that_is_added_to_a_whole_array_becomes_a_spare_and_takes_a_place() {
    if !can_serve() {
        return;
    }
    let array = Array::mirror(&["c"]);
    let running = array.start("a b");
    array.must(&["write -P 1 0 1M"]);
    array.raid("add c").expect_exit(3).expect_stderr("no member is missing");
    assert_eq!(standing(&array.status(), "/c"), "");
    array.raid("add --destroy c c").expect_exit(0);
    assert_eq!(standing(&array.status(), "/c"), "spare");
    array.raid("add --destroy c c").expect_exit(3).expect_stderr("the array uses it");
    Array::end(running, Signal::INT).expect_exit(0);
    let running = array.start("a b c");
    assert_eq!(standing(&array.status(), "/c"), "spare");
    array.raid("fail a").expect_exit(0);
    let status = array.wait_for(|it| it["state"] == "running");
    assert_eq!(standing(&status, "/c"), "in_sync");
    array.must(&["read -P 1 0 1M"]);
    assert!(array.data("b") == array.data("c"));
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn of_two_that_are_missing_each_comes_back_to_its_own_place_and_a_new_one_takes_the_first() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c", "d", "new", "other", "twin"]);
    array.create("data --level 10 --assume-clean", &["a", "b", "c", "d"]).expect_exit(0);
    array.create("else --level 1", &["other", "twin"]).expect_exit(0);
    let running = array.start("a b c d");
    array.must(&["write -P 1 0 4M"]);
    array.raid("fail b").expect_exit(0);
    // Members of the other set do not stand in for it.
    array.raid("fail a").expect_exit(3).expect_stderr("the only copy of its data");
    array.raid("fail d").expect_exit(0);
    array.must(&["write -P 2 1M 1M"]);
    array.raid("add other").expect_exit(3).expect_stderr("a member of another array");
    assert_eq!(standing(&array.status(), "/other"), "");
    // The second of them first.
    array.raid("add d").expect_exit(0);
    let status = array.wait_for(|it| standing(it, "/d") == "in_sync");
    let in_role = |status: &Value, role: usize, name: &str| {
        status["devices"][role]["path"].as_str().is_some_and(|path| path.ends_with(name))
    };
    assert!(in_role(&status, 3, "/d") && status["state"] == "degraded", "{status}");
    array.raid("fail d").expect_exit(0);
    array.must(&["write -P 3 2M 1M"]);
    array.raid("add --destroy new new").expect_exit(0);
    let status = array.wait_for(|it| standing(it, "/new") == "in_sync");
    assert!(in_role(&status, 1, "/new") && status["state"] == "degraded", "{status}");
    array.raid("add d").expect_exit(0);
    let status = array.wait_for(|it| it["state"] == "running");
    assert!(in_role(&status, 3, "/d"), "{status}");
    array.must(&["read -P 1 0 1M", "read -P 2 1M 1M", "read -P 3 2M 1M", "read -P 1 3M 1M"]);
    assert!(array.data("a") == array.data("new") && array.data("c") == array.data("d"));
    Array::end(running, Signal::INT).expect_exit(0);
}

#[test]
fn devices_with_sectors_of_512_and_of_4096_bytes_both_take_all_writes_of_users() {
    if !can_serve() || !has(&["root", "losetup"]) {
        return;
    }
    let array = Array::of_files(&["a", "b"]);
    let small = LoopDevice::with_sectors_of(512, &array.path("a"));
    let large = LoopDevice::with_sectors_of(4096, &array.path("b"));
    let paths = [small.display(), large.display()];
    let [small, large] = paths.each_ref().map(String::as_str);
    array.create("data --level 1 --assume-clean", &[small, large]).expect_exit(0);
    for (order, value) in [([small, large], 1), ([large, small], 2)] {
        let running = array.start(&order.join(" "));
        array.must(&[
            &format!("write -P {value} 1M 1M"),
            &format!("write -P 9 {}k 512", value * 100),
            &format!("read -P 9 {}k 512", value * 100),
            &format!("read -P {value} 1M 1M"),
        ]);
        let status = array.status();
        assert_eq!(status["state"], "running", "{status}");
        Array::end(running, Signal::INT).expect_exit(0);
        assert!(array.data("a") == array.data("b"));
    }
}
