//! How old the last word of a host is, as those who watch a campaign see it.

use super::*;
use crate::region::{HostWord, RegionReport};

#[test]
fn the_silence_of_a_host_counts_from_its_last_word_and_that_of_an_unheard_one_is_not_known() {
    let mut bench = Bench::new(config(&["a", "b"], |_| ()));
    bench.hears_answers = false;
    assert_eq!(bench.machine.silence("a"), None);
    bench.report("a", |_| ());
    assert_eq!(bench.machine.silence("a"), Some(Nanos::ZERO));
    bench.pass(400, &["a"]);
    assert_eq!(bench.machine.silence("a"), Some(Nanos::from_millis(400)));
    assert_eq!((bench.machine.silence("b"), bench.machine.silence("stranger")), (None, None));
}

#[test]
fn a_relay_speaks_for_its_own_hosts_before_its_clock_is_known() {
    let mut config = config(&["a", "b"], |_| ());
    config.relays = vec![("r1".to_owned(), vec!["a".to_owned()])];
    let mut bench = Bench::new(config);
    let word: HostWord = (0, 0, 0, (1, 1));
    let words = ["a", "b"].map(|host| (host.to_owned(), word)).into();
    let report = Box::new(RegionReport { at_ns: 5, boot_id: "boot".to_owned(), words });
    bench.say("r1", Body::Region { report, statuses: Vec::new() });
    assert_eq!(bench.machine.silence("a"), Some(Nanos::ZERO));
    assert_eq!(bench.machine.silence("b"), None, "another relay's, or none");
    assert_eq!((bench.machine.relay("a"), bench.machine.relay("b")), (Some("r1"), None));
}
