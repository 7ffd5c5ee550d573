//! The level of a RAID array, with its word, its number, and the members that it needs and can lose.

use serde::{Deserialize, Serialize};

crate::worded! {
    /// How an array spreads data over its members. The saved form is its word; [`as_number`] saves its number.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RaidLevel {
        /// Chunks in turn over the members, one copy.
        Raid0 = "raid0",
        /// All members hold the same.
        Raid1 = "raid1",
        /// Stripes with a parity.
        Raid5 = "raid5",
        /// Stripes with two parities.
        Raid6 = "raid6",
        /// Chunks in turn over sets of copies, of durio's own arrays over pairs of neighbours.
        Raid10 = "raid10",
    }
}

impl RaidLevel {
    /// [`Self::ALL`] for a message.
    pub const NUMBERS: [u32; 5] = [0, 1, 5, 6, 10];

    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
        }
    }

    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }

    /// Parities of a stripe.
    #[must_use]
    pub const fn parities(self) -> u8 {
        match self {
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }

    /// The fewest and the most members of an array of durio.
    #[must_use]
    pub const fn members(self) -> (u8, u8) {
        match self {
            Self::Raid0 => (2, 32),
            Self::Raid1 => (2, 4),
            Self::Raid5 => (3, 16),
            Self::Raid6 => (4, 16),
            Self::Raid10 => (4, 32),
        }
    }

    /// Whether an array of durio may have this many members.
    #[must_use]
    pub fn takes(self, members: u32) -> bool {
        let (fewest, most) = self.members();
        (fewest.into()..=most.into()).contains(&members)
            && (self != Self::Raid10 || members.is_multiple_of(2))
    }

    /// Members of an array of durio whose size is the array's.
    #[must_use]
    pub fn data_members(self, members: u32) -> u32 {
        match self {
            Self::Raid1 => 1,
            Self::Raid10 => members / 2,
            _ => members.saturating_sub(self.parities().into()),
        }
    }
}

/// The saved form where a level is a number: `#[serde(with = "durio_base::raid_level::as_number")]`.
pub mod as_number {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    use super::RaidLevel;

    #[expect(clippy::missing_errors_doc, reason = "as serde calls it")]
    pub fn serialize<S: Serializer>(level: &RaidLevel, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(level.number())
    }

    #[expect(clippy::missing_errors_doc, reason = "as serde calls it")]
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RaidLevel, D::Error> {
        let number = u8::deserialize(from)?;
        RaidLevel::of_number(number).ok_or_else(|| {
            Error::invalid_value(Unexpected::Unsigned(number.into()), &"0, 1, 5, 6 or 10")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_found_by_its_number_and_others_are_none() {
        let numbers: Vec<u8> =
            (0..=u8::MAX).filter(|&number| RaidLevel::of_number(number).is_some()).collect();
        assert_eq!(numbers, [0, 1, 5, 6, 10]);
        for level in RaidLevel::ALL {
            assert_eq!(level.word(), format!("raid{}", level.number()));
            assert_eq!(RaidLevel::of_word(level.word()), Some(level));
        }
    }

    #[test]
    fn the_members_that_a_level_takes_hold_as_much_as_those_with_data() {
        for (level, taken, data) in [
            (RaidLevel::Raid0, 2..=32, 32),
            (RaidLevel::Raid1, 2..=4, 1),
            (RaidLevel::Raid5, 3..=16, 15),
            (RaidLevel::Raid6, 4..=16, 14),
            (RaidLevel::Raid10, 4..=32, 16),
        ] {
            let is_pairs = level == RaidLevel::Raid10;
            for members in 0..40 {
                let fits = taken.contains(&members) && (!is_pairs || members % 2 == 0);
                assert_eq!(level.takes(members), fits, "{level} of {members}");
            }
            assert_eq!(level.data_members(*taken.end()), data, "{level}");
        }
    }
}
