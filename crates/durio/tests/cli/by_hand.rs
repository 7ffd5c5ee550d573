//! A proof whose power is cut by hand: what is to be done is said, and that it was done is noticed.

use std::fs;
use std::net::TcpListener;

use rustix::process::Signal;

use crate::durio::Running;
use crate::proof_parts::{lines, permitted, served, wait_until, writer};
use crate::sandbox::Sandbox;

/// A spec of a target that nobody but the test cuts, and the address at which its agent is waited for.
fn spec(sandbox: &Sandbox, rest: &str) -> String {
    // Taken for a moment, so that both sides know it.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    let text = format!(
        "schema = 1\nname = \"hand\"\ncuts = 1\n[[target]]\nname = \"disk\"\nlisten = \"{address}\"\n\
         token = \"secret\"\noff = \"10ms\"\nload = \"100ms\"\n{rest}\n[[arm]]\npath = \"rwf_dsync\"\n\
         depth = 4\n"
    );
    fs::write(sandbox.root().join("spec.toml"), text).unwrap();
    address
}

/// An agent that is started again as long as its campaign has not said this.
fn agent_until(sandbox: &Sandbox, address: &str, campaign: &Running, said: &str) -> Running {
    let start = || writer(sandbox, address, &permitted(sandbox));
    let mut agent = start();
    wait_until(said, || {
        if !agent.is_alive() && !campaign.stderr().contains(said) {
            agent = start();
        }
        campaign.stderr().contains(said)
    });
    agent
}

#[test]
fn who_cuts_by_hand_is_told_when_and_a_liar_is_found() {
    for (profile, exit, words) in [("fua-ignored", 1, "PROVED"), ("write-back", 0, "No loss")] {
        let sandbox = Sandbox::new();
        let _disk = served(&sandbox, profile);
        let address = spec(&sandbox, "cut = \"by hand\"");
        let mut campaign = sandbox.durio("prove run spec.toml --seed 5").start();
        let _agent = agent_until(&sandbox, &address, &campaign, "cut the power of 'disk' now");
        sandbox.durio("simdisk cut --socket disk").run().expect_exit(0);
        wait_until("it is noticed", || campaign.stderr().contains("switch 'disk' on"));
        assert!(campaign.stderr().contains("leave it off for 10 ms"), "{}", campaign.stderr());
        sandbox.durio("simdisk restore --socket disk").run().expect_exit(0);
        let mut agent = writer(&sandbox, &address, &permitted(&sandbox));
        wait_until("the agent was done", || !agent.is_alive() || !campaign.is_alive());
        campaign.wait().expect_exit(exit).expect_stdout(words);
    }
}

#[test]
fn silence_alone_is_no_cut() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    let address = spec(&sandbox, "");
    let mut campaign = sandbox.durio("prove run spec.toml --seed 5").start();
    let mut agent = agent_until(&sandbox, &address, &campaign, "cut the power of 'disk' now");
    agent.signal(Signal::STOP);
    wait_until("it is taken for a cut", || campaign.stderr().contains("switch 'disk' on"));
    agent.signal(Signal::CONT);
    let _next = writer(&sandbox, &address, &permitted(&sandbox));
    let cuts = || lines(&sandbox.the_run().join("cuts.jsonl"));
    wait_until("the cut is recorded", || !sandbox.runs().is_empty() && cuts() == 1);
    let text = fs::read_to_string(sandbox.the_run().join("cuts.jsonl")).unwrap();
    let cut: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(cut["evidence"]["acknowledged_after"].as_u64().unwrap() > 0, "{}", cut["evidence"]);
    assert!(cut["inventory"]["host"]["kernel"].is_string(), "{}", cut["inventory"]);
    campaign.signal(Signal::INT);
    campaign.wait().expect_exit(130);
}

#[test]
fn nobody_who_cuts_is_waited_for_in_vain() {
    let sandbox = Sandbox::new();
    let _disk = served(&sandbox, "write-back");
    let address = spec(&sandbox, "patience = \"10s\"");
    let campaign = sandbox.durio("prove run spec.toml --seed 5").start();
    let _agent = agent_until(&sandbox, &address, &campaign, "cut the power of 'disk' now");
    campaign.wait().expect_exit(3).expect_stderr("the power of 'disk' was not cut within 10 s");
}
