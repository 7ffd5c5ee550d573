//! Series on durio's arrays of simulated disks, and their expected results.
//!
//! Makes series from a table `[[array]]` and an arm.
//!
//! The engine writes to its members with FUA alone, whatever the arm's path, so a lie about flushes
//! has no effect there. The effect of one lying member of a set on the array:
//!
//! | after the cut | the region is marked | it is not: no write reached it for a while |
//! |---|---|---|
//! | the first copy lies | what it lost is copied over the good copy: lost | reads go to either copy: lost, or unstable |
//! | a later copy lies | repaired from the first copy: hidden | reads go to either copy: unstable |
//!
//! At levels 5 and 6 data is read from its member, so a lost chunk of data shows at once, and a
//! lost parity when a member is away. A copy that lost its superblocks too shows that it is behind,
//! and is rebuilt from the others: that hides every cache that loses all its contents, and a disk
//! that is gone. Other results depend on what the cut leaves, so a loss of any class is expected.

use durio_base::{Bytes, RaidLevel};
use durio_plan::proof::{Arm, ArrayTarget, ExpectedVerdict, LossClass, ProofSeries, ProofTarget};
use durio_simdisk::{Lie, NamedProfile, named};

use super::{
    ArrayTable, CELL, ProvedLevel, SIZE_DEFAULT, SIZE_MAX, class_of, levels, profiles, series_of,
    written,
};
use crate::SpecError;
use crate::table::value::Amount;
use crate::table::{OptionalValue, SpecText};

const SIZE_MIN: Bytes = Bytes::from_kib(512);
/// More than superblocks, map and the rest of a chunk take of a small member.
const METADATA: Bytes = Bytes::from_kib(64);
/// 99 campaigns of 100 find one lying member within this multiple of the cuts that find the disk
/// alone, and within at least this number (measured with 200 of each, of both levels and each
/// role).
const WITHIN_TIMES: u32 = 6;
const WITHIN_MIN: u32 = 15;

/// Every combination of a table's values.
pub(super) fn series(
    source: SpecText<'_>,
    table: &ArrayTable,
    arm: Arm,
    cuts: u32,
) -> Result<Vec<ProofSeries>, SpecError> {
    let size = size(source, &table.size)?;
    let mut all = Vec::new();
    for named in profiles(source, &table.profile)? {
        for ProvedLevel(level) in levels(&table.level, ProvedLevel(RaidLevel::Raid1)) {
            let members = table.members.get().unwrap_or(level.members().0.into());
            if !level.takes(members) {
                let message = "raid1 has 2 to 4 members, raid5 has 3 to 16, raid6 has 4 to 16, raid10 an even number from \
                               4 to 32";
                return Err(source.error(table.members.at, message));
            }
            let liars: Vec<Option<u32>> = match table.liar.values() {
                [] => vec![None],
                liars => liars.iter().copied().map(Some).collect(),
            };
            for liar in liars {
                if liar.is_some_and(|liar| liar >= members) {
                    let message = format!("'liar' is 0 to {}, one of the members", members - 1);
                    return Err(source.error(table.liar.at, message));
                }
                let profile = named.name.to_owned();
                all.push(one(
                    named,
                    ArrayTarget { level, members, profile, liar, size },
                    arm,
                    cuts,
                ));
            }
        }
    }
    Ok(all)
}

fn one(named: &NamedProfile, target: ArrayTarget, arm: Arm, cuts: u32) -> ProofSeries {
    let members = match target.members {
        few if few == u32::from(target.level.members().0) => String::new(),
        more => format!("/{more}"),
    };
    let words = target.words();
    let name = format!("{words}{members}/{}/{}{}", arm.words(), arm.depth, written(arm));
    let expected = expected(named, &target);
    series_of(name, ProofTarget::Array(target), arm, cuts, expected)
}

/// Bytes of the array, at least.
pub(super) fn data(target: &ArrayTarget) -> Bytes {
    let of_member = target.size.get().saturating_sub(METADATA.get());
    let of_member = match target.level {
        RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => of_member,
        // The log of a small member has a slot for each fourth chunk, and a block more for each.
        RaidLevel::Raid5 | RaidLevel::Raid6 => of_member / 16 * 11,
    };
    Bytes::new(of_member * u64::from(target.level.data_members(target.members)))
}

/// Whether a series of a folder could have been asked for.
pub(super) fn is_possible(target: &ArrayTarget) -> bool {
    let is_member = target.liar.is_none_or(|liar| liar < target.members);
    let has_disks = named(&target.profile).is_some() && is_size(target.size);
    let is_level = ArrayTarget::LEVELS.contains(&target.level);
    has_disks && is_member && is_level && target.level.takes(target.members)
}

fn is_size(size: Bytes) -> bool {
    size.get().is_multiple_of(CELL) && (SIZE_MIN..=SIZE_MAX).contains(&size)
}

fn size(source: SpecText<'_>, given: &OptionalValue<Amount>) -> Result<Bytes, SpecError> {
    match given.get() {
        None => Ok(SIZE_DEFAULT),
        Some(Amount::Bytes(size)) if is_size(size) => Ok(size),
        Some(_) => {
            Err(source.error(given.at, "a member has 512 KiB to 4 GiB, a multiple of 4 KiB"))
        }
    }
}

fn expected(named: &NamedProfile, target: &ArrayTarget) -> Option<ExpectedVerdict> {
    let Some(lie) = named.lie.filter(|_| named.on_fua) else { return Some(ExpectedVerdict::Holds) };
    let is_alone = target.liar.is_some();
    match lie {
        // The other copy has all of it, and the array knows which.
        Lie::Dies(_) | Lie::Shrinks(_) | Lie::CapacitorDies(_) if is_alone => {
            Some(ExpectedVerdict::Holds)
        }
        Lie::Dies(_) | Lie::Shrinks(_) => {
            Some(ExpectedVerdict::Breaks { class: LossClass::Gone, within: named.cuts })
        }
        Lie::CapacitorDies(_) => {
            let class = class_of(lie.shows_as());
            Some(ExpectedVerdict::Breaks { class, within: named.cuts })
        }
        // A read error is answered from the other copy; where copies differ, the result is chance.
        Lie::LatentErrors(_) => None,
        // A member that loses writes often loses superblocks at one end: the array then leaves the
        // member out, and nothing is lost. Which comes first is chance.
        Lie::FuaIgnored | Lie::ClaimsWriteThrough | Lie::IgnoredAtDepth(_) if is_alone => {
            Some(ExpectedVerdict::MayLose)
        }
        // The lagging leg is part of a mirror within a mirror: which leg is read is unknown.
        Lie::MirrorLags(_) => None,
        _ => Some(ExpectedVerdict::Loses { within: (named.cuts * WITHIN_TIMES).max(WITHIN_MIN) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(profile: &str, liar: Option<u32>) -> Option<ExpectedVerdict> {
        let (level, members, size) = (RaidLevel::Raid1, 2, SIZE_DEFAULT);
        let target = ArrayTarget { level, members, profile: profile.to_owned(), liar, size };
        assert!(is_possible(&target));
        expected(named(profile).unwrap(), &target)
    }

    #[test]
    fn a_lie_about_fua_is_seen_through_the_array_and_one_about_flushes_is_none() {
        for liar in [None, Some(0), Some(1)] {
            assert_eq!(of("write-back", liar), Some(ExpectedVerdict::Holds));
            assert_eq!(of("flush-ignored", liar), Some(ExpectedVerdict::Holds));
        }
        assert!(matches!(of("fua-ignored", None), Some(ExpectedVerdict::Loses { .. })));
        assert!(matches!(of("bit-rot", Some(0)), Some(ExpectedVerdict::Loses { .. })));
    }

    #[test]
    fn a_member_that_loses_writes_may_give_itself_away_by_its_superblocks() {
        for profile in ["fua-ignored", "claims-write-through", "ignored-at-depth"] {
            let expected = [of(profile, Some(0)), of(profile, Some(1))];
            assert_eq!(expected, [Some(ExpectedVerdict::MayLose); 2], "{profile}");
        }
    }

    #[test]
    fn what_one_copy_has_hides_a_disk_that_is_gone() {
        assert_eq!(of("dies", Some(0)), Some(ExpectedVerdict::Holds));
        let gone = ExpectedVerdict::Breaks { class: LossClass::Gone, within: 3 };
        assert_eq!(of("dies", None), Some(gone));
    }
}
