//! A case in words: the switches of `cargo xtask sim raid` that replay it.
//!
//! Converts a scenario, a cut and its omissions to text and back.

use std::fmt;
use std::str::FromStr;

use super::drives::lies;
use super::{Focus, Liars, Reduction, Scenario};
use crate::Fault;

/// A cut of a scenario, and what to leave out before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutCase {
    pub scenario: Scenario,
    /// The number of the cut.
    pub cut: u64,
    pub reduction: Reduction,
}

const FOCUSES: [(Focus, &str); 4] = [
    (Focus::Any, "any"),
    (Focus::Four, "four"),
    (Focus::Starts, "starts"),
    (Focus::Stripes, "stripes"),
];

impl fmt::Display for CutCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { seed, fault, focus, liars } = self.scenario;
        write!(f, "--seed {seed}")?;
        if focus != Focus::Any {
            let name = FOCUSES.iter().find(|named| named.0 == focus).map_or("any", |named| named.1);
            write!(f, " --focus {name}")?;
        }
        match liars {
            Liars::Some => {}
            Liars::None => f.write_str(" --lie none")?,
            Liars::Every => f.write_str(" --lie every")?,
            Liars::Only(name) => write!(f, " --lie {name}")?,
            Liars::Believed(name) => write!(f, " --lie {name} --believed")?,
        }
        if let Some(fault) = fault {
            write!(f, " --fault {}", fault.word().replace(' ', "-"))?;
        }
        write!(f, " --cut {} --trace", self.cut)?;
        match self.reduction == Reduction::default() {
            true => Ok(()),
            false => write!(f, " --shrunk {}", self.reduction),
        }
    }
}

impl FromStr for CutCase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut case =
            Self { scenario: Scenario::default(), cut: 0, reduction: Reduction::default() };
        let mut words = text.split_whitespace();
        while let Some(switch) = words.next() {
            let scenario = &mut case.scenario;
            match (switch, scenario.liars) {
                ("--trace", _) => continue,
                ("--believed", Liars::Only(name)) => {
                    scenario.liars = Liars::Believed(name);
                    continue;
                }
                _ => {}
            }
            let value = words.next().ok_or_else(|| format!("{switch} has no value"))?;
            let number =
                || value.parse::<u64>().map_err(|error| format!("{switch} {value}: {error}"));
            match switch {
                "--seed" => scenario.seed = number()?,
                "--cut" => case.cut = number()?,
                "--focus" => {
                    let named = FOCUSES.iter().find(|named| named.1 == value);
                    scenario.focus = named.ok_or_else(|| format!("no focus: {value}"))?.0;
                }
                "--lie" => scenario.liars = parse_liars(value)?,
                "--fault" => scenario.fault = Some(parse_fault(value)?),
                "--shrunk" => case.reduction = value.parse()?,
                _ => return Err(format!("no switch: {switch}")),
            }
        }
        Ok(case)
    }
}

/// `some`, `none`, `every`, or the name of a lie that every campaign has.
///
/// # Errors
/// The expected values.
pub fn parse_liars(text: &str) -> Result<Liars, String> {
    let named = || lies().find(|lie| lie.name == text).map(|lie| Liars::Only(lie.name));
    let names = || lies().map(|lie| lie.name).collect::<Vec<_>>().join(", ");
    match text {
        "some" => Ok(Liars::Some),
        "none" => Ok(Liars::None),
        "every" => Ok(Liars::Every),
        _ => named().ok_or_else(|| format!("expected some, none, every, or one of {}", names())),
    }
}

/// The name of a fault, with dashes.
///
/// # Errors
/// The expected values.
pub fn parse_fault(text: &str) -> Result<Fault, String> {
    let dashed = |fault: Fault| fault.word().replace(' ', "-");
    let named = Fault::ALL.into_iter().find(|fault| dashed(*fault) == text);
    named.ok_or_else(|| format!("expected one of {}", Fault::ALL.map(dashed).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_what_it_writes() {
        for text in [
            "--seed 7 --cut 9 --trace",
            "--seed 1 --focus starts --lie none --fault no-such --cut 3 --trace",
            "--seed 1 --lie bit-rot --believed --fault FUA-left-out --cut 3 --trace --shrunk 2x4,3:0",
        ] {
            let text = text.replace("no-such", "mark-not-awaited");
            assert_eq!(text.parse::<CutCase>().unwrap().to_string(), text);
        }
        for wrong in ["--seed", "--lie big", "--fault none", "--believed", "--cut a", "--such 1"] {
            assert!(wrong.parse::<CutCase>().is_err(), "{wrong}");
        }
    }
}
