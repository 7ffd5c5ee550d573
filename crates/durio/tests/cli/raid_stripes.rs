//! Arrays with parity over files: served over NBD, killed, without members, rebuilt; and what they do not do.
//!
//! qemu-io writes and reads; at level 5 the members are added up by their documented places. In `lab_raid.rs` md judges.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::raid::{Array, can_serve, standing};

const MEMBERS: [&str; 4] = ["a", "b", "c", "d"];

/// The parity of all members, of every byte of data.
fn sum_of(array: &Array, members: &[&str]) -> Vec<u8> {
    let line = format!("raid examine --json {}", members[0]);
    let examined = array.sandbox.durio(&line).run().expect_exit(0).json();
    let number = |name: &str| {
        let of_member = &examined["devices"][0]["member"];
        let value = of_member[name].as_u64().or_else(|| of_member["shape"][name].as_u64());
        value.unwrap_or_else(|| panic!("no {name}: {examined}"))
    };
    let (at, length) = (number("data_at_bytes"), number("member_bytes"));
    let mut sum = vec![0; usize::try_from(length).unwrap()];
    for member in members {
        let mut bytes = vec![0; sum.len()];
        File::open(array.path(member)).unwrap().read_exact_at(&mut bytes, at).unwrap();
        sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

fn scrub_finds_nothing(array: &Array) {
    array.raid("scrub").expect_exit(0);
    let status = array.wait_for(|it| it["scrub"]["is_running"] == false);
    assert_eq!(
        (&status["scrub"]["mismatches"], &status["scrub"]["skipped_bytes"]),
        (&0.into(), &0.into()),
        "{status}"
    );
    array.raid("status").expect_exit(0).expect_stdout("all parities were right");
}

#[test]
fn levels_5_and_6_give_back_everything_without_as_many_members_as_they_have_parities() {
    if !can_serve() {
        return;
    }
    for (level, lost) in [("5", &["b"][..]), ("6", &["a", "c"])] {
        let array = Array::of_files(&MEMBERS);
        for (name, byte) in [("a", 0x11), ("b", 0x22), ("d", 0x44)] {
            let length = fs::metadata(array.path(name)).unwrap().len();
            fs::write(array.path(name), vec![byte; usize::try_from(length).unwrap()]).unwrap();
        }
        array.create(&format!("data --level {level}"), &MEMBERS).expect_exit(0);
        let running = array.start("d c b a");
        // Beside the first start's making of parities.
        array.must(&["write -P 7 1M 5M", "write -P 9 4608 512", "read -P 7 1M 5M"]);
        array.wait_for(|it| it["regions_to_resync"] == 0);
        scrub_finds_nothing(&array);
        Array::end(running, Signal::TERM).expect_exit(0);
        if level == "5" {
            assert!(sum_of(&array, &MEMBERS).iter().all(|&byte| byte == 0));
        }

        let others: Vec<&str> = MEMBERS.into_iter().filter(|it| !lost.contains(it)).collect();
        let options = if level == "6" { "--force " } else { "" };
        let running = array.start(&format!("{options}{}", others.join(" ")));
        assert_eq!(array.status()["state"], "degraded");
        array.must(&["read -P 7 1M 5M", "read -P 9 4608 512", "write -P 5 3M 100k"]);
        array.must(&["write -z 2M 64k", "read -P 5 3M 100k", "read -P 0 2M 64k"]);
        array.raid("fail d").expect_exit(3).expect_stderr("no parity is left to replace it");
        for name in lost {
            array.raid(&format!("add {name}")).expect_exit(0);
        }
        array.wait_for(|it| it["state"] == "running");
        array.must(&["read -P 7 1M 1M", "read -P 5 3M 100k", "read -P 0 2M 64k"]);
        scrub_finds_nothing(&array);
        Array::end(running, Signal::INT).expect_exit(0);
        if level == "5" {
            assert!(sum_of(&array, &MEMBERS).iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn a_server_killed_while_it_writes_stripes_loses_nothing_though_a_member_is_away_then() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&MEMBERS);
    array.create("data --level 5 --assume-clean", &MEMBERS).expect_exit(0);
    for (round, away) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let running = array.start(&MEMBERS.join(" "));
        array.wait_for(|it| it["state"] == "running");
        // Neighbours in the same stripes: what is lost with a member is not what was on its way.
        array.must(&[&format!("write -P {} 0 2M", round + 1)]);
        let uri = format!("nbd+unix:///?socket={}", array.path("s").display());
        let endless: Vec<String> =
            (0..4000).map(|at| format!("write -P 77 {}k 4k", 16 + at % 40 * 48)).collect();
        let mut writer = Command::new("qemu-io");
        writer.args(["-f", "raw"]).args(endless.iter().flat_map(|it| ["-c", it.as_str()]));
        let writer = writer.arg(uri).stdout(Stdio::null()).stderr(Stdio::null());
        let mut writer = writer.spawn().unwrap();
        let written = array.status()["devices"][0]["writes"].as_u64().unwrap();
        array.wait_for(|it| it["devices"][0]["writes"].as_u64().unwrap() > written + 100);
        Array::end(running, Signal::KILL);
        writer.kill().unwrap();
        writer.wait().unwrap();

        let others: Vec<&str> = MEMBERS.into_iter().filter(|it| *it != away).collect();
        let running = array.start(&others.join(" "));
        for at in 0..40 {
            let (first, third) = (at * 48, at * 48 + 32);
            let value = round + 1;
            array.must(&[
                &format!("read -P {value} {first}k 16k"),
                &format!("read -P {value} {third}k 16k"),
                &format!("read -P {value} {}k 12k", first + 20),
            ]);
        }
        array.raid(&format!("add {away}")).expect_exit(0);
        array.wait_for(|it| it["state"] == "running");
        scrub_finds_nothing(&array);
        Array::end(running, Signal::INT).expect_exit(0);
    }
}

#[test]
fn what_an_array_with_parity_does_not_do_it_says_and_it_goes_on() {
    if !can_serve() {
        return;
    }
    let array = Array::of_files(&["a", "b", "c", "spare"]);
    array.create("data --level 5 --assume-clean", &["a", "b", "c"]).expect_exit(0);
    if super::raid::processors() > 1 {
        let line = "raid start --queues 2 --socket other a b c";
        let refused = array.sandbox.durio(line).run().expect_exit(2);
        refused.expect_no_stdout().expect_stderr("levels 5 and 6 are served by one queue");
    }
    array.refused("a").expect_stderr("1 members in sync are present, but 2 are needed");
    let running = array.start("a b c");
    let replaced = array.raid("replace --destroy spare a spare").expect_exit(3);
    replaced.expect_stderr("levels 5 and 6 cannot replace a working member");
    array.raid("add --destroy spare spare").expect_exit(0);
    array.must(&["write -P 3 0 1M"]);
    array.raid("fail b").expect_exit(0);
    // The spare takes its place by itself.
    let status = array.wait_for(|it| it["state"] == "running");
    assert_eq!(standing(&status, "spare"), "in_sync", "{status}");
    array.must(&["read -P 3 0 1M"]);
    Array::end(running, Signal::INT).expect_exit(0);
}
