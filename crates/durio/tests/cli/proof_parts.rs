//! The parts of a proof as processes of their own: a simulated disk over NBD, a witness, a writer, a
//! verifier, the cutter a command. The way of real hardware without the hardware.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::Running;
use crate::sandbox::Sandbox;

const SOON: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(120);

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(SOON);
    }
}

/// A disk of this profile, at the socket `disk` of the sandbox.
pub(crate) fn served(sandbox: &Sandbox, profile: &str) -> Running {
    let line = format!("simdisk serve --profile {profile} --size 1MiB --seed 1 --socket disk");
    let running = sandbox.durio(&line).start();
    wait_until("the disk is served", || sandbox.root().join("disk.control").exists());
    running
}

fn uri(sandbox: &Sandbox) -> String {
    format!("nbd+unix:///?socket={}", sandbox.root().join("disk").display())
}

pub(crate) fn lines(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// A witness, and the address at which it waits.
fn witness(sandbox: &Sandbox, options: &str) -> (Running, String) {
    let line = format!("prove witness --ledger ledger --token secret --silence 1s {options}");
    let witness = sandbox.durio(&line).start();
    wait_until("the witness waits", || witness.stderr().contains("waits at"));
    let stderr = witness.stderr();
    let (_, rest) = stderr.split_once("waits at ").unwrap();
    let address = rest.lines().next().unwrap().to_owned();
    (witness, address)
}

pub(crate) fn writer(sandbox: &Sandbox, address: &str, options: &str) -> Running {
    let line = format!("prove write --witness {address} --token secret {options}");
    sandbox.durio(&line).word(uri(sandbox)).start()
}

pub(crate) fn permitted(sandbox: &Sandbox) -> String {
    format!("--destroy {}", uri(sandbox))
}

/// Loads the disk until the ledger is some hundred lines long, and cuts its power.
fn load_and_cut(sandbox: &Sandbox, options: &str) {
    let (witness, address) = witness(sandbox, options);
    let _writer = writer(sandbox, &address, &permitted(sandbox));
    wait_until("the writer writes", || lines(&sandbox.root().join("ledger")) > 600);
    sandbox.durio("simdisk cut --socket disk").run().expect_exit(0);
    witness.wait().expect_exit(0).expect_stdout("prove verify TARGET --ledger ledger");
    sandbox.durio("simdisk restore --socket disk").run().expect_exit(0);
}

#[test]
fn a_disk_that_ignores_flushes_is_told_with_what_is_gone() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "flush-ignored");
    load_and_cut(&sandbox, "--depth 4");
    let verify = || sandbox.durio("prove verify --ledger ledger").word(uri(&sandbox));
    let text = verify().run().expect_exit(1).text();
    assert!(text.contains("PROVED") && text.contains("before the cut"), "{text}");
    let document = verify().words("--format json").run().expect_exit(1).json();
    let series = &document["series"][0];
    assert_eq!(series["verdict"]["verdict"], "breaks", "{series}");
    assert!(series["loss"]["cells"].as_u64().unwrap() > 0, "{series}");
}

#[test]
fn an_honest_disk_has_lost_nothing_that_was_acknowledged() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    load_and_cut(&sandbox, "--path rwf_dsync --depth 4");
    let ended = sandbox.durio("prove verify --ledger ledger").word(uri(&sandbox)).run();
    // One cut may have left the controls: then it has shown nothing.
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    assert!(!ended.text().contains("PROVED"));
}

#[test]
fn what_a_killed_witness_had_heard_is_enough_to_verify() {
    let sandbox = Sandbox::new();
    let mut disk = served(&sandbox, "flush-ignored");
    let (mut witness, address) = witness(&sandbox, "");
    let writer = writer(&sandbox, &address, &permitted(&sandbox));
    wait_until("the writer writes", || lines(&sandbox.root().join("ledger")) > 600);
    witness.signal(Signal::KILL);
    // Without its witness it writes no more, and says so.
    writer.wait().expect_exit(3).expect_stderr("the witness is gone");
    sandbox.durio("simdisk cut --socket disk").run().expect_exit(0);
    sandbox.durio("simdisk restore --socket disk").run().expect_exit(0);
    let verify = || sandbox.durio("prove verify --ledger ledger").word(uri(&sandbox)).run();
    verify().expect_exit(1).expect_stdout("PROVED");
    // Damage in the middle is no ledger; a torn end is that of a killed witness.
    let path = sandbox.root().join("ledger");
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 7]).unwrap();
    verify().expect_exit(1);
    let mut damaged = text;
    damaged[700] ^= 0x5f;
    damaged.drain(900..950);
    fs::write(&path, damaged).unwrap();
    verify().expect_exit(3).expect_stderr("of the ledger is damaged");
    disk.signal(Signal::INT);
    disk.wait().expect_exit(0);
    assert!(!sandbox.root().join("disk").exists() && !sandbox.root().join("disk.control").exists());
}

#[test]
fn nobody_writes_without_permission_or_token_and_nothing_is_overwritten() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    let (_witness, address) = witness(&sandbox, "");
    writer(&sandbox, &address, "--destroy /dev/null").wait().expect_exit(2);
    let wrong = format!("prove write --witness {address} --token guessed");
    let ended = sandbox.durio(&wrong).words(&permitted(&sandbox)).word(uri(&sandbox)).run();
    ended.expect_exit(3).expect_stderr("the token is wrong");
    let ended = writer(&sandbox, &address, "").wait();
    ended.expect_exit(3).expect_stderr("--destroy");
    let again = format!("prove witness --ledger ledger --token x --listen {address}");
    sandbox.durio(&again).run().expect_exit(3).expect_stderr("ledger");
    let file = "prove verify data/user.db --ledger data/notes.txt";
    sandbox.durio(file).run().expect_exit(3).expect_stderr("not a ledger");
    let user = format!("prove write data/user.db --witness {address} --token secret");
    sandbox.durio(&user).run().expect_exit(3);
    assert!(sandbox.differences().is_empty());
}

/// A line of an agent that this test is.
fn say(mut agent: &TcpStream, line: &str) {
    agent.write_all(line.as_bytes()).unwrap();
    agent.write_all(b"\n").unwrap();
}

#[test]
fn a_witness_that_waited_long_waits_for_the_first_write_of_a_slow_disk() {
    let sandbox = Sandbox::new();
    let (witness, address) = witness(&sandbox, "");
    // Longer than --silence.
    sleep(Duration::from_millis(1500));
    let agent = TcpStream::connect(&address).unwrap();
    say(&agent, r#"{"say":"hello","protocol":2,"token":"secret"}"#);
    say(&agent, r#"{"say":"has","size":1048576,"label":null}"#);
    let mut lines = BufReader::new(&agent).lines().map(|line| line.unwrap());
    assert!(lines.next().unwrap().contains(r#""say":"prepare""#));
    say(&agent, r#"{"say":"prepared"}"#);
    assert!(lines.next().unwrap().contains(r#""say":"load""#));
    // A disk drive takes so long, several looks of the witness.
    sleep(Duration::from_millis(300));
    say(&agent, r#"{"say":"intend","writes":[{"seq":1,"sector":512,"sectors":8}]}"#);
    assert!(lines.next().unwrap().contains(r#""say":"intended""#));
    say(&agent, r#"{"say":"acknowledged","seq":1}"#);
    // Then it is silent, and still connected.
    let ended = witness.wait().expect_exit(0);
    ended.expect_stdout("1 writes were acknowledged");
}

#[test]
fn who_does_not_know_the_token_keeps_neither_agents_nor_signals_from_a_witness() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    let (mut waiting, address) = witness(&sandbox, "");
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    say(&silent[0], r#"{"say":"hello","protocol":2,"token":"guessed"}"#);
    waiting.signal(Signal::INT);
    waiting.wait().expect_exit(130).expect_stderr("interrupted");
    fs::remove_file(sandbox.root().join("ledger")).unwrap();
    let (mut witness, address) = witness(&sandbox, "");
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let _writer = writer(&sandbox, &address, &permitted(&sandbox));
    wait_until("the writer writes", || lines(&sandbox.root().join("ledger")) > 10);
    witness.signal(Signal::TERM);
    witness.wait().expect_exit(130);
    drop(silent);
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_and_stands_in_no_list_of_processes() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    fs::write(sandbox.root().join("token"), "from a file\nand more\n").unwrap();
    let line = "prove witness --ledger ledger --silence 1s --token-file token";
    let mut witness = sandbox.durio(line).start();
    wait_until("the witness waits", || witness.stderr().contains("waits at"));
    let stderr = witness.stderr();
    assert!(!stderr.contains("from a file") && !stderr.contains("not loopback"), "{stderr}");
    let address = stderr.split_once("waits at ").unwrap().1.lines().next().unwrap().to_owned();
    let write = |options: &str| {
        let line = format!("prove write --witness {address} {options}");
        sandbox.durio(&line).words(&permitted(&sandbox)).word(uri(&sandbox))
    };
    write("").run().expect_exit(2).expect_stderr("DURIO_TOKEN");
    write("").env("DURIO_TOKEN", "guessed").run().expect_exit(3).expect_stderr("token is wrong");
    write("--token a --token-file token").run().expect_exit(2).expect_stderr("--token-file");
    for (token, word) in [("", "has 0 bytes"), (&"x".repeat(1025), "has 1025 bytes")] {
        fs::write(sandbox.root().join("bad"), token).unwrap();
        write("--token-file bad").run().expect_exit(2).expect_stderr(word);
    }
    write("--token-file missing").run().expect_exit(3).expect_stderr("'missing'");
    let _writer = write("").env("DURIO_TOKEN", "from a file").start();
    wait_until("the writer writes", || lines(&sandbox.root().join("ledger")) > 10);
    witness.signal(Signal::INT);
    witness.wait().expect_exit(130);
    let mut open = sandbox.durio("prove witness --ledger open --listen 0.0.0.0:0").start();
    wait_until("it says who can come", || {
        open.stderr()
            .contains("every machine that reaches it and knows the token can act as the writer")
    });
    open.signal(Signal::TERM);
    open.wait().expect_exit(130);
}

/// A spec whose agent, cutter and switch are commands.
fn spec(sandbox: &Sandbox, cuts: u32) {
    let durio = env!("CARGO_BIN_EXE_durio");
    let (disk, uri) = (sandbox.root().join("disk"), uri(sandbox));
    let socket = disk.display();
    let text = format!(
        "schema = 1\nname = \"four\"\ncuts = {cuts}\n[[target]]\nname = \"disk\"\n\
         start = [\"{durio}\", \"prove\", \"write\", \"{uri}\", \"--destroy\", \"{uri}\", \
         \"--witness\", \"{{witness}}\"]\n\
         cut = [\"{durio}\", \"simdisk\", \"cut\", \"--socket\", \"{socket}\"]\n\
         restore = [\"{durio}\", \"simdisk\", \"restore\", \"--socket\", \"{socket}\"]\n\
         off = \"10ms\"\nload = \"100ms\"\n[[arm]]\npath = \"rwf_dsync\"\ndepth = 4\n"
    );
    fs::write(sandbox.root().join("spec.toml"), text).unwrap();
}

#[test]
fn a_campaign_of_four_processes_finds_a_liar_and_bounds_an_honest_disk() {
    for (profile, exit, words) in [("fua-ignored", 1, "PROVED"), ("write-back", 0, "No loss")] {
        let sandbox = Sandbox::new();
        let _disk = served(&sandbox, profile);
        spec(&sandbox, 3);
        let ended = sandbox.durio("prove run spec.toml --seed 5").run();
        ended.expect_exit(exit).expect_stdout(words);
        let run = sandbox.the_run();
        assert!(run.join("cuts.jsonl").exists());
        // What was acknowledged while the power went was not acknowledged after the cut.
        let ledger = fs::read_to_string(run.join("ledger-0.jsonl")).unwrap();
        let times = ledger.lines().skip(1).filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            Some((line["at"].as_u64()?, line["entry"].as_str()?.to_owned()))
        });
        let times: Vec<_> = times.collect();
        let back = times.windows(2).find(|pair| pair[0].0 > pair[1].0);
        assert_eq!(back, None);
        let of = |entry: &str| times.iter().filter(|(_, it)| it == entry).count();
        assert!(of("cut") >= 1 && of("acknowledged") > of("cut"), "{}", times.len());
    }
}

#[test]
fn a_killed_campaign_goes_on_where_it_was() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    spec(&sandbox, 4);
    let mut campaign = sandbox.durio("prove run spec.toml --seed 5").start();
    wait_until("two cuts are recorded", || {
        sandbox.runs().first().is_some_and(|run| lines(&run.join("cuts.jsonl")) >= 2)
    });
    campaign.signal(Signal::KILL);
    campaign.wait();
    let run = sandbox.the_run();
    let before = fs::read_to_string(run.join("cuts.jsonl")).unwrap();
    let ended = sandbox.durio("prove run --resume").word(&run).run();
    ended.expect_exit(0).expect_stdout("No loss");
    let after = fs::read_to_string(run.join("cuts.jsonl")).unwrap();
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert_eq!(sandbox.the_run(), run);
}

#[test]
fn a_cutter_that_fails_and_an_agent_that_cannot_are_told() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    spec(&sandbox, 3);
    let path = sandbox.root().join("spec.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"cut\", \"--socket\"", "\"cut\", \"--sockets\"")).unwrap();
    let ended = sandbox.durio("prove run spec.toml").run();
    ended.expect_exit(3).expect_stderr("cannot cut the power");
    fs::write(&path, text.replace("\"write\", \"nbd", "\"write\", \"nbt")).unwrap();
    let ended = sandbox.durio("prove run spec.toml").run();
    ended.expect_exit(3).expect_stderr("ended before it reached the witness");
}
