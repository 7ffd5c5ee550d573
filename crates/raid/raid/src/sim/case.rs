//! A case in words: the switches of `cargo xtask sim raid` that replay it, and the omissions of a
//! shrunk one.
//!
//! `shrink.rs` finds what can be left out without losing a violation. Each life and each step draws its
//! decisions separately, so an omission does not change later decisions, only the state that they
//! meet.

use std::fmt;
use std::str::FromStr;

use durio_base::RaidLevel;

use super::drives::lies;
use super::{Focus, Liars, Scenario};
use crate::Fault;
use crate::geometry::{BLOCK, Geometry};

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

/// Kinds of events that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimEventKind {
    Lies,
    /// Drives in addition to the members.
    Spares,
    /// Halves that run without each other.
    Splits,
    /// Drives that are not there at a start.
    Absences,
    /// Drives that fail, go away or stall.
    Failures,
    /// Operations that end in an error.
    Errors,
    Joins,
    /// Scrubs, and differences that are planted for them.
    Scrubs,
    /// Lives that end when nothing is left to do.
    Settling,
    /// Requests to make zero.
    Zeros,
    Reads,
    /// Several requests at once.
    Depth,
    /// Drives that were truncated, grown or copied back.
    Damages,
}

impl SimEventKind {
    pub(super) const ALL: [(Self, &'static str); 13] = [
        (Self::Lies, "lies"),
        (Self::Spares, "spares"),
        (Self::Splits, "splits"),
        (Self::Absences, "absences"),
        (Self::Failures, "failures"),
        (Self::Errors, "errors"),
        (Self::Joins, "joins"),
        (Self::Scrubs, "scrubs"),
        (Self::Settling, "settling"),
        (Self::Zeros, "zeros"),
        (Self::Reads, "reads"),
        (Self::Depth, "depth"),
        (Self::Damages, "damages"),
    ];
}

/// Steps of a life that take place, from one to before another.
pub(super) type StepRanges = Vec<std::ops::Range<u32>>;

/// The parts of a campaign to run, as a comma-separated text: `no-scrubs` leaves out a kind of
/// events, `2x4` is an array of two members with four blocks each, `12` keeps all of life 12,
/// `12:0-3+7` five steps of it. If lives are named, the others are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reduction {
    without: u16,
    array: Option<(u8, u8)>,
    lives: Option<Vec<(u64, Option<StepRanges>)>>,
}

impl Reduction {
    pub(super) fn has(&self, kind: SimEventKind) -> bool {
        self.without & (1 << kind as u8) == 0
    }

    pub(super) fn leaving_out(&self, kind: SimEventKind) -> Self {
        Self { without: self.without | 1 << kind as u8, ..self.clone() }
    }

    pub(super) fn of_array(&self, members: u8, blocks: u8) -> Self {
        Self { array: Some((members, blocks)), ..self.clone() }
    }

    pub(super) fn of_lives(&self, lives: Vec<(u64, Option<StepRanges>)>) -> Self {
        Self { lives: Some(lives), ..self.clone() }
    }

    pub(super) fn lives(&self) -> Option<&[(u64, Option<StepRanges>)]> {
        self.lives.as_deref()
    }

    /// A smaller array, if there is one.
    pub(super) fn geometry(&self, drawn: Geometry) -> Geometry {
        let Some((members, blocks)) = self.array else { return drawn };
        let (level, members) = match drawn.level {
            RaidLevel::Raid5 => (RaidLevel::Raid5, members.max(3)),
            RaidLevel::Raid6 => (RaidLevel::Raid6, members.max(4)),
            _ if members < 4 => (RaidLevel::Raid1, members),
            _ => (RaidLevel::Raid10, members),
        };
        let chunk = BLOCK as u32;
        let member_bytes = u64::from(blocks) * BLOCK;
        Geometry { level, members, chunk, region: BLOCK, member_bytes }
    }

    pub(super) fn has_life(&self, life: u64) -> bool {
        self.lives.as_ref().is_none_or(|all| all.iter().any(|(kept, _)| *kept == life))
    }

    pub(super) fn has_step(&self, life: u64, step: u32) -> bool {
        let steps = self.lives.iter().flatten().find(|(kept, _)| *kept == life);
        let steps = steps.and_then(|(_, steps)| steps.as_ref());
        steps.is_none_or(|all| all.iter().any(|range| range.contains(&step)))
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = SimEventKind::ALL.iter().filter(|(kind, _)| !self.has(*kind));
        let mut parts: Vec<String> = without.map(|(_, name)| format!("no-{name}")).collect();
        parts.extend(self.array.map(|(members, blocks)| format!("{members}x{blocks}")));
        for (life, steps) in self.lives.iter().flatten() {
            let range = |steps: &std::ops::Range<u32>| match steps.len() {
                1 => steps.start.to_string(),
                _ => format!("{}-{}", steps.start, steps.end.saturating_sub(1)),
            };
            let ranges = |all: &StepRanges| all.iter().map(range).collect::<Vec<_>>().join("+");
            let steps = steps.as_ref().map(|all| format!(":{}", ranges(all)));
            parts.push(format!("{life}{}", steps.unwrap_or_default()));
        }
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut reduction = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let wrong = || format!("expected no-KIND, MEMBERSxBLOCKS, LIFE or LIFE:STEPS: {part}");
            if let Some(name) = part.strip_prefix("no-") {
                let kind =
                    SimEventKind::ALL.iter().find(|(_, word)| *word == name).ok_or_else(wrong)?;
                reduction = reduction.leaving_out(kind.0);
            } else if let Some((members, blocks)) = part.split_once('x') {
                let number =
                    |digits: &str| digits.parse().ok().filter(|number| (2..=16).contains(number));
                let array = number(members).zip(number(blocks)).ok_or_else(wrong)?;
                reduction = reduction.of_array(array.0, array.1);
            } else {
                let (life, steps) =
                    part.split_once(':').map_or((part, None), |(a, b)| (a, Some(b)));
                let life = life.parse().map_err(|_| wrong())?;
                let steps = steps.map(parse_steps).transpose().map_err(|()| wrong())?;
                reduction.lives.get_or_insert_default().push((life, steps));
            }
        }
        Ok(reduction)
    }
}

fn parse_steps(text: &str) -> Result<StepRanges, ()> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) =
            (first.parse().map_err(|_| ())?, last.parse().map_err(|_| ())?);
        Ok(first..last.checked_add(1).ok_or(())?)
    };
    text.split('+').filter(|part| !part.is_empty()).map(range).collect()
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

    #[test]
    fn a_reduction_reads_what_it_writes() {
        for text in ["", "no-scrubs,no-reads,2x4", "4x16,3,12:0-3+7,13:"] {
            let read: Reduction = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
        }
        let read: Reduction = "3,12:0-3+7".parse().unwrap();
        assert!(read.has_step(3, 99) && read.has_step(12, 7) && !read.has_step(12, 4));
        assert!(read.has_life(12) && !read.has_life(4));
        for wrong in ["no-such", "1x4", "2x", "a", "3:b", "3:1-"] {
            assert!(wrong.parse::<Reduction>().is_err(), "{wrong}");
        }
    }
}
