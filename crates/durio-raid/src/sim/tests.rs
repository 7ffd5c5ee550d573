use super::*;

#[test]
fn no_promise_is_broken_in_twenty_thousand_cuts() {
    let scenario = Scenario { seed: 1, ..Scenario::default() };
    let (tally, violation) = simulate(scenario, 20_000);
    if let Some(violation) = &violation {
        let (trace, _) = replay(scenario, violation.cut);
        println!("{}", trace.join("\n"));
    }
    println!("{tally:?}");
    assert_eq!(violation, None);
    assert_eq!(tally.cuts, 20_000);
}
