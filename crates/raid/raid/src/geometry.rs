//! Maps a byte of the array to its members.
//!
//! Takes level, members and chunk; returns places. `layout.rs` has a member's metadata.
//!
//! Members of one *set* hold the same data. Level 0 has sets of one member, level 1 one set of all,
//! level 10 sets of two neighbours (near layout). Chunks go round over the sets:
//!
//! ```text
//!  chunk of the array   0   1   2   3        level 10, 4 members
//!  set                  0   1   0   1        set 0: members 0 and 1
//!  offset on member     0   0   1   1        set 1: members 2 and 3
//! ```
//!
//! Levels 5 and 6 have one set of all. A row of chunks, one of each member, is a *stripe*: one of its chunks is
//! the parity of the others, of level 6 two are, and they rotate (md's left-symmetric layout):
//!
//! ```text
//!  member     0  1  2  3        level 5, 4 members
//!  stripe 0   0  1  2  P
//!  stripe 1   4  5  P  3
//!  stripe 2   8  P  6  7
//! ```

use durio_base::RaidLevel;

/// Most members of an array, spares apart.
pub const MEMBERS_MAX: u8 = RaidLevel::Raid0.members().1;
/// The unit of places and lengths of metadata on members, in bytes.
pub const BLOCK: u64 = 4096;
/// Bytes of the unit of requests.
pub const SECTOR: u64 = 512;

const CHUNK_MIN: u32 = 4 << 10;
const CHUNK_MAX: u32 = 1 << 20;

/// The parameters of an array, fixed at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// How data is spread.
    pub level: RaidLevel,
    /// Members, without spares and replacements.
    pub members: u8,
    /// Bytes of a chunk, a power of two. Requests are carried out in pieces within one chunk.
    pub chunk: u32,
    /// Bytes of one member that are marked as dirty together, a power of two, at least a chunk.
    pub region: u64,
    /// Bytes of data on each member, a multiple of `chunk`.
    pub member_bytes: u64,
}

/// Why an array cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Members do not fit the level.
    #[error(
        "level 0 takes 2 to 32 members, level 1 takes 2 to 4, level 5 takes 3 to 16, level 6 takes 4 to 16, level 10 \
         an even number from 4 to 32"
    )]
    Members,
    /// An invalid chunk size.
    #[error("a chunk is a power of two from 4 KiB to 1 MiB")]
    Chunk,
    /// An invalid region size.
    #[error("a region is a power of two and at least a chunk")]
    Region,
    /// No room for a chunk, or more than the format allows.
    #[error("the members are too small for one chunk each, or too large")]
    Size,
    /// Too few members, or too many spares.
    #[error("the number of devices does not fit the members and at most 8 spares")]
    Devices,
    /// A member or spare has no room.
    #[error("device {0} is too small for the data of a member")]
    TooSmall(usize),
    /// Two have one name.
    #[error("two members have the same id")]
    Doubled,
    /// A name that does not fit.
    #[error("the name of an array has 1 to 32 bytes")]
    Name,
}

/// The place of a byte: the same on each member of the set, except for stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BytePlace {
    pub set: u8,
    /// Bytes from the start of the member's data.
    pub offset: u64,
    /// Which of the data chunks of its stripe; 0 without parity.
    pub column: u8,
}

/// The members of a stripe, by their part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    members: u8,
    parities: u8,
    /// The member with the first.
    pub p: u8,
}

impl Stripe {
    /// The member with a parity: P, then Q.
    #[must_use]
    pub fn parity(&self, number: u8) -> u8 {
        (self.p + number) % self.members
    }

    /// The member with a data chunk.
    #[must_use]
    pub fn member(&self, column: u8) -> u8 {
        (self.p + self.parities + column) % self.members
    }

    /// Chunks of data in the stripe, without parities.
    #[must_use]
    pub fn columns(&self) -> u8 {
        self.members - self.parities
    }
}

impl Geometry {
    /// Checks the constraints that no other code checks.
    pub fn check(&self) -> Result<(), CreateError> {
        let chunk = u64::from(self.chunk);
        if !self.level.takes(self.members.into()) {
            Err(CreateError::Members)
        } else if !self.chunk.is_power_of_two() || !(CHUNK_MIN..=CHUNK_MAX).contains(&self.chunk) {
            Err(CreateError::Chunk)
        } else if !self.region.is_power_of_two() || self.region < chunk {
            Err(CreateError::Region)
        } else if self.member_bytes == 0
            || !self.member_bytes.is_multiple_of(chunk)
            || self.member_bytes >= 1 << 56
            || self.member_bytes.div_ceil(self.region) >= 1 << 24
        {
            // More regions per member than this would not fit the tags of operations.
            Err(CreateError::Size)
        } else {
            Ok(())
        }
    }

    /// Members of a set, which hold the same, or stripes.
    #[must_use]
    pub fn set_members(&self) -> u8 {
        match self.level {
            RaidLevel::Raid0 => 1,
            RaidLevel::Raid1 | RaidLevel::Raid5 | RaidLevel::Raid6 => self.members,
            RaidLevel::Raid10 => 2,
        }
    }

    /// Data chunks in a row of chunks of a set: more than one in a stripe. The data is lost with fewer members of the
    /// set than that.
    #[must_use]
    pub fn columns(&self) -> u8 {
        match self.level.parities() {
            0 => 1,
            parities => self.members - parities,
        }
    }

    /// The stripe at this byte of the members.
    #[must_use]
    pub fn stripe(&self, offset: u64) -> Stripe {
        let (members, parities) = (self.members, self.level.parities());
        let row = offset >> self.chunk_shift();
        Stripe { members, parities, p: members - 1 - (row % u64::from(members)) as u8 }
    }

    /// Sets of members that hold the same data, or the chunks of the same stripes.
    #[must_use]
    pub fn sets(&self) -> u8 {
        self.members / self.set_members()
    }

    /// The set of an entry of a table of members; `None` for a spare.
    pub(crate) fn set_of(&self, at: usize, replaces: Option<u8>) -> Option<u8> {
        let role = if at < usize::from(self.members) { Some(at as u8) } else { replaces };
        role.map(|role| role / self.set_members())
    }

    /// Bytes of the array.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.member_bytes * self.chunks_in_row()
    }

    /// Regions of a set.
    #[must_use]
    pub fn regions(&self) -> u32 {
        // `check` has bounded it.
        u32::try_from(self.member_bytes.div_ceil(self.region)).unwrap_or(u32::MAX)
    }

    /// Data chunks in a row of chunks of all members.
    pub(crate) fn chunks_in_row(&self) -> u64 {
        u64::from(self.sets()) * u64::from(self.columns())
    }

    /// The place of a byte of the array.
    #[must_use]
    pub fn locate(&self, offset: u64) -> BytePlace {
        let (chunk, within) = (offset >> self.chunk_shift(), offset & u64::from(self.chunk - 1));
        let row = chunk / self.chunks_in_row();
        let number = (chunk % self.chunks_in_row()) as u8;
        let (set, column) = if self.level.parities() == 0 { (number, 0) } else { (0, number) };
        BytePlace { set, offset: (row << self.chunk_shift()) | within, column }
    }

    /// The byte of the array at a place.
    #[must_use]
    pub fn locate_back(&self, place: BytePlace) -> u64 {
        let row = place.offset >> self.chunk_shift();
        let within = place.offset & u64::from(self.chunk - 1);
        // One of the two is 0.
        let chunk = row * self.chunks_in_row() + u64::from(place.set + place.column);
        (chunk << self.chunk_shift()) | within
    }

    pub(crate) fn chunk_shift(&self) -> u32 {
        self.chunk.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn geometry(level: RaidLevel, members: u8) -> Geometry {
        Geometry { level, members, chunk: 16384, region: 65536, member_bytes: 1 << 20 }
    }

    #[test]
    fn chunks_go_round_over_the_sets() {
        let geometry = geometry(RaidLevel::Raid10, 4);
        let place = |chunk: u64| geometry.locate(chunk * 16384 + 5);
        assert_eq!(place(0), BytePlace { set: 0, offset: 5, column: 0 });
        assert_eq!(place(1), BytePlace { set: 1, offset: 5, column: 0 });
        assert_eq!(place(2), BytePlace { set: 0, offset: 16389, column: 0 });
        assert_eq!(geometry.size(), 2 << 20);
    }

    #[test]
    fn what_no_array_can_be_is_refused() {
        for (level, members) in [
            (RaidLevel::Raid0, 1),
            (RaidLevel::Raid1, 5),
            (RaidLevel::Raid10, 2),
            (RaidLevel::Raid10, 5),
            (RaidLevel::Raid5, 2),
            (RaidLevel::Raid6, 3),
            (RaidLevel::Raid6, 17),
        ] {
            assert_eq!(geometry(level, members).check(), Err(CreateError::Members));
        }
        let good = geometry(RaidLevel::Raid1, 2);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Geometry { chunk: 2048, ..good }.check(), Err(CreateError::Chunk));
        assert_eq!(Geometry { chunk: 12288, ..good }.check(), Err(CreateError::Chunk));
        assert_eq!(Geometry { region: 8192, ..good }.check(), Err(CreateError::Region));
        assert_eq!(Geometry { member_bytes: 100, ..good }.check(), Err(CreateError::Size));
    }

    #[test]
    fn chunks_and_parities_of_stripes_rotate() {
        let geometry = geometry(RaidLevel::Raid5, 4);
        let rows: Vec<Vec<u8>> = (0..4)
            .map(|row| {
                let stripe = geometry.stripe(row * 16384);
                (0..3).map(|column| stripe.member(column)).chain([stripe.parity(0)]).collect()
            })
            .collect();
        assert_eq!(rows, [[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]]);
        assert_eq!(geometry.size(), 3 << 20);
        assert_eq!(geometry.locate(4 * 16384), BytePlace { set: 0, offset: 16384, column: 1 });
        let double = Geometry { level: RaidLevel::Raid6, ..geometry }.stripe(0);
        assert_eq!((double.parity(0), double.parity(1), double.member(0)), (3, 0, 1));
    }

    proptest! {
        #[test]
        fn every_byte_has_one_place(offset in 0_u64..16 << 20, members in 1_u8..=16) {
            for geometry in [
                geometry(RaidLevel::Raid0, members * 2),
                geometry(RaidLevel::Raid1, members % 3 + 2),
                geometry(RaidLevel::Raid10, members * 2 + 2),
                geometry(RaidLevel::Raid5, members % 14 + 3),
                geometry(RaidLevel::Raid6, members % 13 + 4),
            ] {
                let place = geometry.locate(offset);
                prop_assert!(place.set < geometry.sets());
                prop_assert_eq!(geometry.locate_back(place), offset);
            }
        }
    }

    #[test]
    fn each_bound_of_a_geometry_is_kept_on_both_sides() {
        let good = geometry(RaidLevel::Raid1, 2);
        let of = |chunk: u32, region: u64, member_bytes: u64| {
            Geometry { chunk, region, member_bytes, ..good }.check()
        };
        let mib = 1 << 20;
        assert_eq!([of(4096, 4096, mib), of(1 << 20, 1 << 20, mib)], [Ok(()); 2]);
        assert_eq!(of(2048, 4096, mib), Err(CreateError::Chunk));
        assert_eq!(of(1 << 21, 1 << 21, 1 << 21), Err(CreateError::Chunk));
        assert_eq!(of(16384, 16384, mib), Ok(()));
        assert_eq!(of(16384, 8192, mib), Err(CreateError::Region));
        assert_eq!(of(16384, 49152, mib), Err(CreateError::Region));
        assert_eq!(of(16384, 16384, 16384), Ok(()));
        assert_eq!(of(16384, 16384, 16384 + 512), Err(CreateError::Size));
        assert_eq!(of(16384, 16384, 0), Err(CreateError::Size));
        // So many regions, of which the last may be smaller.
        assert_eq!(of(16384, 16384, 274_877_890_560), Ok(()));
        assert_eq!(of(16384, 16384, 274_877_906_944), Err(CreateError::Size));
        assert_eq!(of(16384, 32768, 549_755_781_120), Ok(()));
        assert_eq!(of(16384, 32768, 549_755_797_504), Err(CreateError::Size));
        assert_eq!(of(16384, 1 << 40, (1 << 56) - 16384), Ok(()));
        assert_eq!(of(16384, 1 << 40, 1 << 56), Err(CreateError::Size));
    }
}
