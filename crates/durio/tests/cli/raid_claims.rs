//! Members whose devices are not what their superblocks say: truncated, grown, overwritten in part,
//! restored in part, with sizes and epochs that no array has.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Running;
use crate::raid::{Array, MEMBER, MIB, can_serve, crc32c, standing};

const HALF: u64 = MEMBER / 2;

/// An array of as many files, with a pattern on all of it, ended in order.
fn written(level: &str, members: &[&str]) -> Array {
    let array = Array::of_files(members);
    array.create(&format!("data --level {level} --assume-clean"), members).expect_exit(0);
    serve(&array, members, &["write -P 7 0 6M"]);
    array
}

/// Serves it once.
fn serve(array: &Array, members: &[&str], orders: &[&str]) {
    let running = array.start(&members.join(" "));
    array.must(orders);
    array.raid("stop").expect_exit(0);
    running.wait().expect_exit(0);
}

fn open(array: &Array, name: &str) -> File {
    File::options().read(true).write(true).open(array.path(name)).unwrap()
}

fn examined(array: &Array, members: &[&str]) -> Value {
    let line = format!("raid examine --json {}", members.join(" "));
    array.sandbox.durio(&line).run().expect_exit(0).json()
}

/// Starts without the member that is damaged, which is named and stays as it is; then it is rebuilt.
#[track_caller]
fn runs_without(array: &Array, members: &[&str], damaged: &str, words: &str) -> Running {
    let role = members.iter().position(|it| *it == damaged).unwrap();
    let before = fs::read(array.path(damaged)).unwrap();
    let examined = examined(array, members);
    assert_eq!(examined["does_not_start"], Value::Null);
    assert!(examined["devices"][role]["problem"].as_str().unwrap().contains(words), "{examined}");
    assert_eq!(examined["devices"][role]["member"]["state"], "given_up");
    assert_eq!(examined["devices"][(role + 1) % 2]["problem"], Value::Null);
    let running = array.start(&members.join(" "));
    let said = running.stderr();
    assert!(said.contains(&format!("/{damaged}' {words}")), "{said}");
    let status = array.status();
    assert_eq!(
        (&status["state"], standing(&status, damaged)),
        (&"degraded".into(), "given_up".into())
    );
    assert_eq!(status["devices"][role]["state"], "faulty", "{status}");
    array.must(&["read -P 7 0 6M", "write -P 8 5M 1M", "read -P 7 0 5M", "read -P 8 5M 1M"]);
    array.raid(&format!("add {damaged}")).expect_exit(3).expect_stderr(words);
    assert!(fs::read(array.path(damaged)).unwrap() == before, "'{damaged}' was written to");
    array.raid(&format!("add --destroy {damaged} {damaged}")).expect_exit(0);
    let status = array.wait_for(|it| it["state"] == "running");
    assert_eq!(standing(&status, damaged), "in_sync");
    running
}

/// Every other member can fail now: what is read is of the member that was rebuilt.
fn is_rebuilt(array: &Array, members: &[&str], others: &[&str], mut running: Running) {
    for other in others {
        array.raid(&format!("fail {other}")).expect_exit(0);
    }
    array.must(&["read -P 7 0 5M", "read -P 8 5M 1M"]);
    running.signal(Signal::INT);
    running.wait().expect_exit(0);
    assert_eq!(examined(array, members)["devices"][0]["problem"], Value::Null);
}

#[test]
fn a_truncated_member_is_not_trusted_at_any_level_and_is_rebuilt() {
    if !can_serve() {
        return;
    }
    let words = "has 4 MiB, its superblock says 8 MiB: it was truncated";
    let all = ["a", "b", "c", "d"];
    for (level, count, damaged, others) in [
        ("1", 2, "b", &["a"][..]),
        ("1", 2, "a", &["b"]),
        ("10", 4, "c", &["d", "a"]),
        ("5", 3, "a", &["c"]),
        ("6", 4, "b", &["a", "d"]),
    ] {
        let members = &all[..count];
        let array = written(level, members);
        open(&array, damaged).set_len(HALF).unwrap();
        let running = runs_without(&array, members, damaged, words);
        let shape = &array.status();
        let [data_at, data] =
            ["data_at_bytes", "member_bytes"].map(|it| shape[it].as_u64().unwrap());
        let length = fs::metadata(array.path(damaged)).unwrap().len();
        assert_eq!(length, data_at + data + 8192, "level {level}");
        is_rebuilt(&array, members, others, running);
    }
}

#[test]
fn what_has_no_other_copy_does_not_start_from_a_truncated_member() {
    if !can_serve() {
        return;
    }
    let members = ["a", "b", "c"];
    let array = written("0", &members);
    open(&array, "c").set_len(5 * MIB).unwrap();
    let before = members.map(|it| fs::read(array.path(it)).unwrap());
    let words = "c' has 5 MiB, its superblock says 8 MiB: it was truncated";
    array.refused("a b c").expect_stderr(words).expect_stderr("set 2 has no member in sync");
    array.refused("--force a b c").expect_stderr(words);
    let both = Array::mirror(&[]);
    open(&both, "a").set_len(HALF).unwrap();
    open(&both, "b").set_len(12_288).unwrap();
    let refused = both.refused("a b").expect_stderr("b' has 12 KiB, its superblock says 8 MiB");
    refused.expect_stderr("a' has 4 MiB, its superblock says 8 MiB");
    assert!(before == members.map(|it| fs::read(array.path(it)).unwrap()));
}

#[test]
fn a_member_that_was_truncated_and_made_longer_again_is_not_trusted() {
    if !can_serve() {
        return;
    }
    let array = written("1", &["a", "b"]);
    open(&array, "a").set_len(HALF).unwrap();
    open(&array, "a").set_len(MEMBER).unwrap();
    let words = "has superblocks at its start and end that do not match";
    let running = runs_without(&array, &["a", "b"], "a", words);
    is_rebuilt(&array, &["a", "b"], &["b"], running);
}

#[test]
fn an_image_of_a_member_from_while_the_array_ran_is_rebuilt_and_not_read() {
    if !can_serve() {
        return;
    }
    let all = ["a", "b", "c", "d"];
    for (level, count, restored, others) in
        [("1", 2, "a", &["b"][..]), ("1", 2, "b", &["a"]), ("6", 4, "c", &["a", "d"])]
    {
        let members = &all[..count];
        let array = written(level, members);
        let running = array.start(&members.join(" "));
        array.must(&["write -P 9 0 3M"]);
        let image = fs::read(array.path(restored)).unwrap();
        array.must(&["write -P 5 0 3M"]);
        array.raid("stop").expect_exit(0);
        running.wait().expect_exit(0);
        fs::write(array.path(restored), image).unwrap();
        let mut running = starts_older(&array, members, restored, "missed 1 epoch", "all of it is");
        array.must(&["read -P 5 0 3M", "read -P 7 3M 3M"]);
        array.wait_for(|it| it["state"] == "running");
        for other in others {
            array.raid(&format!("fail {other}")).expect_exit(0);
        }
        array.must(&["read -P 5 0 3M", "read -P 7 3M 3M"]);
        running.signal(Signal::INT);
        running.wait().expect_exit(0);
    }
}

/// Starts; the examination before and the start say of this one member alone that it is older.
#[track_caller]
fn starts_older(array: &Array, members: &[&str], older: &str, missed: &str, what: &str) -> Running {
    let examined = examined(array, members);
    for (device, member) in examined["devices"].as_array().unwrap().iter().zip(members) {
        let said = device["older"].as_str().unwrap_or_default();
        let is_it = said.contains(missed) && said.ends_with(&format!("{what} resynced"));
        assert!(if *member == older { is_it } else { said.is_empty() }, "{examined}");
    }
    let line = format!("raid examine --format csv {}", members.join(" "));
    let table = String::from_utf8(array.sandbox.durio(&line).run().stdout).unwrap();
    let mut rows = table.lines();
    assert_eq!(rows.next(), Some("path,problem,older,array,epoch"));
    for (row, member) in rows.zip(members) {
        // Its reason is one cell, which is empty for the others.
        assert_eq!(row.contains(missed), *member == older, "{table}");
        assert_eq!(row.contains(",,,"), *member != older, "{table}");
    }
    let running = array.start(&members.join(" "));
    let said = running.stderr();
    let role = members.iter().position(|it| *it == older).unwrap();
    assert!(said.contains(&format!("{older}': member {role} {missed} (it has ")), "{said}");
    assert!(said.contains(&format!("{what} resynced")), "{said}");
    assert_eq!(said.matches("missed").count(), 1, "{said}");
    running
}

#[test]
fn an_image_from_before_a_failure_is_rebuilt_whole_and_the_member_itself_by_the_map() {
    if !can_serve() {
        return;
    }
    for (level, count, failed, others) in [("1", 2, "b", &["a"][..]), ("6", 4, "d", &["a", "b"])] {
        for is_image in [false, true] {
            let members = &["a", "b", "c", "d"][..count];
            let array = written(level, members);
            let image = fs::read(array.path(failed)).unwrap();
            let running = array.start(&members.join(" "));
            array.must(&["write -P 9 0 3M"]);
            array.raid(&format!("fail {failed}")).expect_exit(0);
            array.must(&["write -P 5 3M 1M"]);
            array.raid("stop").expect_exit(0);
            running.wait().expect_exit(0);
            let mut running = match is_image {
                true => {
                    fs::write(array.path(failed), image).unwrap();
                    starts_older(&array, members, failed, "missed 3 epochs", "all of it is")
                }
                false => {
                    let what = "the regions that the map names are";
                    starts_older(&array, members, failed, "missed 2 epochs", what)
                }
            };
            array.wait_for(|it| it["state"] == "running");
            for other in others {
                array.raid(&format!("fail {other}")).expect_exit(0);
            }
            array.must(&["read -P 9 0 3M", "read -P 5 3M 1M", "read -P 7 4M 2M"]);
            running.signal(Signal::INT);
            running.wait().expect_exit(0);
        }
    }
}

#[test]
fn a_member_that_grew_is_what_it_was() {
    if !can_serve() {
        return;
    }
    let array = written("1", &["a", "b"]);
    open(&array, "b").set_len(MEMBER + 3 * MIB).unwrap();
    assert_eq!(examined(&array, &["a", "b"])["devices"][1]["problem"], Value::Null);
    for _ in 0..2 {
        serve(&array, &["a", "b"], &["read -P 7 0 6M", "write -P 7 1M 1M"]);
        assert_eq!(examined(&array, &["a", "b"])["devices"][1]["member"]["state"], "in_sync");
    }
    assert!(array.data("a") == array.data("b"));
    let mut behind = vec![1; usize::try_from(3 * MIB).unwrap()];
    open(&array, "b").read_exact_at(&mut behind, MEMBER).unwrap();
    assert!(behind.iter().all(|&byte| byte == 0));
}

#[test]
fn an_older_image_copied_back_in_part_is_not_trusted_and_a_whole_one_is_rebuilt() {
    if !can_serve() {
        return;
    }
    let half = usize::try_from(HALF).unwrap();
    for part in [0..half, half..2 * half] {
        let array = Array::mirror(&[]);
        serve(&array, &["a", "b"], &["write -P 1 0 6M"]);
        let image = fs::read(array.path("b")).unwrap();
        serve(&array, &["a", "b"], &["write -P 7 0 6M"]);
        // All of it is of an earlier epoch.
        fs::write(array.path("b"), &image).unwrap();
        let running = array.start("a b");
        array.must(&["read -P 7 0 6M"]);
        array.wait_for(|it| standing(it, "b") == "in_sync");
        array.must(&["read -P 7 0 6M"]);
        Array::end(running, Signal::INT).expect_exit(0);
        assert!(array.data("a") == array.data("b"));
        open(&array, "b").write_all_at(&image[part.clone()], part.start as u64).unwrap();
        let words = "has superblocks at its start and end that do not match";
        let running = runs_without(&array, &["a", "b"], "b", words);
        is_rebuilt(&array, &["a", "b"], &["a"], running);
    }
}

#[test]
fn a_part_of_another_member_is_no_member_twice() {
    if !can_serve() {
        return;
    }
    let array = written("1", &["a", "b"]);
    // The larger part, and both superblocks at the start.
    let of_a = fs::read(array.path("a")).unwrap();
    let part = usize::try_from(7 * MIB).unwrap();
    open(&array, "b").write_all_at(&of_a[..part], 0).unwrap();
    let refused = array.refused("a b").expect_stderr("only 1 of 2 members in sync are present");
    refused.expect_stderr("/b' has superblocks at its start and end that do not match");
    let running = array.start("--force a b");
    array.must(&["read -P 7 0 6M"]);
    Array::end(running, Signal::INT).expect_exit(0);
}

/// Writes a number into the superblocks of a member, with their checksums.
fn forge(array: &Array, name: &str, at: usize, value: u64) {
    let file = open(array, name);
    for place in [0, 4096, MEMBER - 8192, MEMBER - 4096] {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, place).unwrap();
        block[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let checksum = crc32c(&block[..4092]).to_le_bytes();
        block[4092..].copy_from_slice(&checksum);
        file.write_all_at(&block, place).unwrap();
    }
}

#[test]
fn sizes_and_epochs_that_no_member_has_are_not_believed() {
    if !can_serve() {
        return;
    }
    let members = ["a", "b", "c"];
    for (at, value, words) in [
        (96, 1 << 40, "has 8 MiB, its superblock says 1 TiB: it was truncated"),
        (48, u64::MAX, "has a superblock that contradicts itself: an impossible epoch"),
        (56, u64::MAX, "has a superblock that contradicts itself: an impossible epoch"),
    ] {
        let array = written("5", &members);
        forge(&array, "c", at, value);
        let before = fs::read(array.path("c")).unwrap();
        let running = array.start("a b c");
        let said = running.stderr();
        assert!(said.contains(&format!("/c' {words}")), "{said}");
        assert_eq!(array.status()["state"], "degraded");
        array.must(&["read -P 7 0 6M", "write -P 8 0 1M", "read -P 8 0 1M"]);
        assert!(fs::read(array.path("c")).unwrap() == before);
        Array::end(running, Signal::INT).expect_exit(0);
        // Nothing has gone round to zero.
        assert_eq!(examined(&array, &["a", "b"])["does_not_start"], Value::Null);
        array.refused("b c").expect_stderr(words);
    }
}

#[test]
fn members_of_several_sizes_have_superblocks_at_their_own_ends_and_keep_their_sizes() {
    let names = ["a", "b", "c"];
    let array = Array::of_files(&names);
    let sizes = [MEMBER + 40_960, MEMBER, MEMBER + 602_112];
    for (name, size) in names.into_iter().zip(sizes) {
        open(&array, name).set_len(size).unwrap();
    }
    array.create("data --level 1 --assume-clean", &names).expect_exit(0);
    let now = names.map(|name| fs::metadata(array.path(name)).unwrap().len());
    assert_eq!(now, sizes);
    let found = examined(&array, &names);
    assert_eq!(found["does_not_start"], Value::Null);
    for (role, name) in names.into_iter().enumerate() {
        assert_eq!(found["devices"][role]["problem"], Value::Null, "{found}");
        // The superblocks at the start.
        open(&array, name).write_all_at(&[0; 8192], 0).unwrap();
    }
    let found = examined(&array, &names);
    for role in 0..names.len() {
        assert_eq!(found["devices"][role]["member"]["role"], role, "{found}");
    }
}
