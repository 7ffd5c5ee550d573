//! What the options of a new campaign make of its policy and of its targets.

use clap::Parser as _;
use durio_command::error_chain;

use super::*;
use crate::options::{CoordinatorCommand, ProgramArguments};

fn policy_of(words: &str, hosts: usize) -> Result<CampaignPolicy, String> {
    let words = ["durio-fleet", "run", "spec"].into_iter().chain(words.split_whitespace());
    match ProgramArguments::try_parse_from(words).unwrap().command {
        CoordinatorCommand::Run(arguments) => {
            policy(&arguments.options, hosts).map_err(|error| error_chain(&error))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn shared_storage_has_a_barrier_at_each_step_unless_another_is_named() {
    for (words, barrier, shared) in [
        ("", Barrier::Start, false),
        ("--shared", Barrier::Step, true),
        ("--shared --barrier section", Barrier::Section, true),
        ("--barrier step", Barrier::Step, false),
    ] {
        let policy = policy_of(words, 3).unwrap();
        assert_eq!((policy.barrier, policy.shared), (barrier, shared), "{words}");
    }
    let policy = policy_of("--repeat 4 --lost stop --min-hosts 67%", 3).unwrap();
    assert_eq!((policy.repeats, policy.lost, policy.hosts_min), (4, LostPolicy::Stop, 3));
}

#[test]
fn all_hosts_may_have_to_remain_and_a_host_is_lost_after_three_reports_at_the_earliest() {
    assert_eq!(policy_of("--min-hosts 3", 3).unwrap().hosts_min, 3);
    let sentence = "--min-hosts 4 is more than the 3 hosts of the list";
    assert_eq!(policy_of("--min-hosts 4", 3), Err(sentence.to_owned()));
    assert!(policy_of("--lost-after 1500ms", 3).is_ok());
    let sentence = "--lost-after must be at least 1.5s, in which a host reports three times";
    assert_eq!(policy_of("--lost-after 1499ms", 3), Err(sentence.to_owned()));
}

#[test]
fn one_folder_holds_all_files_of_check_and_several_stay_as_they_are_named() {
    let parsed = |texts: &[&str]| -> Vec<HostTarget> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let files = ["data=/srv", "log=/srv", "segment=/srv"];
    for file in files {
        assert_eq!(check_targets(parsed(&[file])), parsed(&files), "{file}");
    }
    for texts in [&["other=/srv"][..], &["data=/a", "log=/b"][..], &[]] {
        let named = parsed(texts);
        assert_eq!(check_targets(named.clone()), named, "{texts:?}");
    }
}
