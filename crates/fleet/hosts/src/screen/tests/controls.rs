//! Hosts whose fresh runs are compared with those of suspects.

use super::*;
use crate::findings::FleetDoubt;

#[test]
fn a_host_that_is_measured_and_fell_silent_later_is_not_asked_for_fresh_runs() {
    let mut found = judged(fleet(20, |at| if [4, 11].contains(&at) { 1.5 } else { 1.0 }));
    let names = choose_for_confirmation(&found, 7);
    assert_eq!(names.len(), 4);
    let hosts = names[2..].to_vec();
    let sentence = String::new();
    found.doubts.push(FleetDoubt { kind: FleetDoubtKind::Lost, hosts, sentence });
    let others = choose_for_confirmation(&found, 7);
    assert_eq!((others.len(), &others[..2]), (4, &names[..2]));
    assert!(names[2..].iter().all(|name| !others.contains(name)), "{others:?}");
}
