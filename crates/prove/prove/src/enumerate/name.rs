//! Names of crash states, by which they can be recreated from the same log.
//!
//! Converts between a state and text such as `120:all-7`.

use std::fmt;
use std::str::FromStr;

use super::Subset;

/// A crash state of one recording: `120:none` is the durable image after 120 events, `120:3+9` the
/// same with the unflushed writes 3 and 9 (from 0), `120:all-7` with all but number 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateName {
    /// Events before the cut.
    pub events: usize,
    /// Which unflushed writes survived.
    pub subset: Subset,
}

/// Text that does not name a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no crash state; they are called EVENTS:none, EVENTS:all, EVENTS:3, EVENTS:3+9 or EVENTS:all-7"
)]
pub struct StateNameError;

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.events)?;
        match self.subset {
            Subset::None => f.write_str("none"),
            Subset::One(place) => write!(f, "{place}"),
            Subset::Two(first, second) => write!(f, "{first}+{second}"),
            Subset::AllBut(place) => write!(f, "all-{place}"),
            Subset::All => f.write_str("all"),
        }
    }
}

impl FromStr for StateName {
    type Err = StateNameError;

    fn from_str(text: &str) -> Result<Self, StateNameError> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| StateNameError);
        let (events, subset) = text.split_once(':').ok_or(StateNameError)?;
        let subset = match (subset, subset.strip_prefix("all-"), subset.split_once('+')) {
            ("none", ..) => Subset::None,
            ("all", ..) => Subset::All,
            (_, Some(place), _) => Subset::AllBut(number(place)?),
            (_, _, Some((first, second))) => Subset::Two(number(first)?, number(second)?),
            (place, ..) => Subset::One(number(place)?),
        };
        Ok(Self { events: number(events)?, subset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for text in ["0:none", "12:all", "12:3", "12:3+9", "12:all-7"] {
            assert_eq!(text.parse::<StateName>().unwrap().to_string(), text);
        }
        for text in ["", "12", "12:", "x:all", "12:all-", "12:3+", "12:-1", "12:1,2"] {
            assert_eq!(text.parse::<StateName>(), Err(StateNameError), "{text}");
        }
    }
}
