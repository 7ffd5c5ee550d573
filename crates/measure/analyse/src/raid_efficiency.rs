//! Compares a RAID array with its model: what its drives could deliver. A layout with its members,
//! and rates, give the model as numbers and as a sentence, and shares of it. The model is of single
//! small random operations, each within one chunk; full-stripe and sequential writes are left out,
//! as they need no reading and one parity per stripe.

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;

/// How parity is brought up to date by a small write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParityWrite {
    /// Old data and old parity are read, new data and parity written.
    ReadModifyWrite,
    /// The stripe's other data is read, and the parity recomputed.
    ReconstructWrite,
}

/// How data lies on the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "level")]
pub enum MemberLayout {
    /// Blocks striped over all members, none twice.
    Raid0,
    /// Every member holds everything.
    Raid1 {
        /// Copies of each block: the number of members.
        copies: u32,
    },
    /// Blocks striped over mirrors of some members each.
    Raid10 {
        /// Copies of each block.
        copies: u32,
    },
    /// One parity per stripe, always on the same member: each write waits for that one.
    Raid4 {
        /// How a small write brings it up to date.
        parity_write: ParityWrite,
    },
    /// One parity per stripe, on each member in turn.
    Raid5 {
        /// How a small write brings it up to date.
        parity_write: ParityWrite,
    },
    /// Two parities per stripe.
    Raid6 {
        /// How a small write brings them up to date.
        parity_write: ParityWrite,
    },
}

/// A layout over a number of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayLayout {
    /// How data lies on them.
    pub layout: MemberLayout,
    /// How many there are.
    pub members: u32,
}

/// Most members that a layout is taken to have.
const MEMBERS_MAX: u32 = 100_000;

/// Facts that follow from the layout alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaidModel {
    pub array: ArrayLayout,
    /// Device reads per small random host write.
    pub reads_per_write: f64,
    /// Device writes per small random host write.
    pub writes_per_write: f64,
    /// Share of the members' raw rate that host writes can have if only device writes cost.
    pub write_share_writes_counted: f64,
    /// The same if a device read costs as much as a write.
    pub write_share_reads_counted: f64,
    /// Failed members that it survives whichever they are.
    pub failures_survived_min: u32,
    /// Failed members that it survives if they are the right ones.
    pub failures_survived_max: u32,
    /// Share of the members' capacity that can be used.
    pub usable_capacity_share: f64,
    /// All of it in a sentence, to be printed with a result.
    pub sentence: String,
}

/// The model of an array; declined if members are too few or do not divide into copies.
pub(crate) fn model(array: ArrayLayout) -> Result<RaidModel, DeclinedAnalysis> {
    check(array)?;
    let members = f64::from(array.members);
    let (reads, writes) = operations_per_write(array);
    let (least, most) = failures_survived(array);
    let model = RaidModel {
        array,
        reads_per_write: reads,
        writes_per_write: writes,
        write_share_writes_counted: share_of_members(array, 0.0, BusyOperations::Writes),
        write_share_reads_counted: share_of_members(array, 0.0, BusyOperations::ReadsToo),
        failures_survived_min: least,
        failures_survived_max: most,
        usable_capacity_share: match array.layout {
            MemberLayout::Raid0 => 1.0,
            MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies } => {
                1.0 / f64::from(copies)
            }
            MemberLayout::Raid4 { .. } | MemberLayout::Raid5 { .. } => (members - 1.0) / members,
            MemberLayout::Raid6 { .. } => (members - 2.0) / members,
        },
        sentence: String::new(),
    };
    Ok(RaidModel { sentence: sentence(&model), ..model })
}

fn check(array: ArrayLayout) -> Result<(), DeclinedAnalysis> {
    let members = array.members;
    let fewest = match array.layout {
        MemberLayout::Raid0 => 1,
        MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies } => copies.max(2),
        // md takes two, which is a mirror in another form; reads and writes of the model are those
        // of three or more.
        MemberLayout::Raid4 { .. } | MemberLayout::Raid5 { .. } => 3,
        MemberLayout::Raid6 { .. } => 4,
    };
    let why = match array.layout {
        MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies } if copies < 2 => {
            format!("a mirror needs at least 2 copies, not {copies}")
        }
        _ if members < fewest => format!("it needs at least {fewest} members, not {members}"),
        _ if members > MEMBERS_MAX => format!("{members} members are more than {MEMBERS_MAX}"),
        MemberLayout::Raid1 { copies } if members != copies => {
            format!("a mirror of {copies} copies needs {copies} members, not {members}")
        }
        // md lays copies out over any number of members, but how many failures that survives
        // depends on which.
        MemberLayout::Raid10 { copies } if !members.is_multiple_of(copies) => {
            format!("{members} members do not divide into mirrors of {copies}")
        }
        _ => return Ok(()),
    };
    Err(DeclinedAnalysis::NoSuchLayout { why })
}

/// Device reads and writes of a small host write.
fn operations_per_write(array: ArrayLayout) -> (f64, f64) {
    // Modifying reads the data to be replaced, the block and its parities; reconstructing reads the
    // stripe's other data, all members but that block and the parities.
    let with_parities = |parities: f64, parity_write| match parity_write {
        ParityWrite::ReadModifyWrite => (1.0 + parities, 1.0 + parities),
        ParityWrite::ReconstructWrite => {
            (f64::from(array.members) - 1.0 - parities, 1.0 + parities)
        }
    };
    match array.layout {
        MemberLayout::Raid0 => (0.0, 1.0),
        MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies } => {
            (0.0, f64::from(copies))
        }
        MemberLayout::Raid4 { parity_write } | MemberLayout::Raid5 { parity_write } => {
            with_parities(1.0, parity_write)
        }
        MemberLayout::Raid6 { parity_write } => with_parities(2.0, parity_write),
    }
}

/// Which device operations take a device's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BusyOperations {
    Writes,
    ReadsToo,
}

/// Host operations as a share of the members' raw rate, where `read` of them (0 to 1) are reads.
// A host read is one device read, and the busiest member sets the pace. All are equally busy, but
// of level 4, whose parity member takes part in every write and in no read.
fn share_of_members(array: ArrayLayout, read: f64, counted: BusyOperations) -> f64 {
    let (reads, writes) = operations_per_write(array);
    let per_write = writes + if counted == BusyOperations::ReadsToo { reads } else { 0.0 };
    let write = 1.0 - read;
    let MemberLayout::Raid4 { parity_write } = array.layout else {
        // Parity and copies rotate over the members, so all do as much.
        return 1.0 / (read + write * per_write);
    };
    // Old parity is read to be modified, and not where it is recomputed.
    let modified =
        parity_write == ParityWrite::ReadModifyWrite && counted == BusyOperations::ReadsToo;
    let on_parity = write * if modified { 2.0 } else { 1.0 };
    let members = f64::from(array.members);
    // The parity member serves no reads: the other members share the rest.
    let on_each_other = (read + write * per_write - on_parity) / (members - 1.0);
    1.0 / (members * on_parity.max(on_each_other))
}

fn failures_survived(array: ArrayLayout) -> (u32, u32) {
    match array.layout {
        MemberLayout::Raid0 => (0, 0),
        MemberLayout::Raid1 { copies } => (copies - 1, copies - 1),
        // At best each mirror keeps one of its copies, at worst all failures hit the same mirror.
        MemberLayout::Raid10 { copies } => (copies - 1, array.members / copies * (copies - 1)),
        MemberLayout::Raid4 { .. } | MemberLayout::Raid5 { .. } => (1, 1),
        MemberLayout::Raid6 { .. } => (2, 2),
    }
}

fn sentence(model: &RaidModel) -> String {
    let (reads, writes) = (model.reads_per_write, model.writes_per_write);
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    let shares = if reads > 0.0 {
        format!(
            "{} if only device writes cost, {} if reads cost as much",
            share(model.write_share_writes_counted),
            share(model.write_share_reads_counted)
        )
    } else {
        share(model.write_share_writes_counted)
    };
    let limit = match model.array.layout {
        MemberLayout::Raid4 { .. } => "; each of them involves the one parity member",
        _ => "",
    };
    format!(
        "a small random write is {writes} device writes and {reads} device reads; of the {} drives' \
         raw rate (same drives, same workload, same jobs per drive) host writes can have {shares}{limit}",
        model.array.members
    )
}

/// Rates to be compared with the model: all of the same workload and block size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArrayRates {
    /// Host operations per second of the array.
    pub array_rate_per_second: f64,
    /// Operations per second of all its members together, each with its jobs per drive.
    pub raw_rate_per_second: f64,
    /// Share of the host operations that are reads, 0 to 1.
    pub read_share: f64,
}

/// An array's rate against its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaidEfficiency {
    /// The model, shown with the results.
    pub model: RaidModel,
    /// Rate of the array ÷ raw rate.
    pub share_of_raw: f64,
    /// Raw × theoretical share, device writes only counted.
    pub expected_rate_per_second: f64,
    /// Measured ÷ expected rate.
    pub efficiency: f64,
    /// Raw × theoretical share, device reads counted like writes.
    pub expected_rate_per_second_reads_counted: f64,
    /// Measured ÷ expected rate.
    pub efficiency_reads_counted: f64,
}

/// Compares a measured rate with the model; in a mix, a host read is one device read. Declined if
/// the layout cannot exist or a value is invalid.
pub(crate) fn efficiency(
    array: ArrayLayout,
    measured: ArrayRates,
) -> Result<RaidEfficiency, DeclinedAnalysis> {
    let model = model(array)?;
    let rates = [measured.array_rate_per_second, measured.raw_rate_per_second];
    DeclinedAnalysis::unless_positive("rate", rates)?;
    if !(0.0..=1.0).contains(&measured.read_share) {
        return Err(DeclinedAnalysis::NotAFigure {
            what: "share of reads".to_owned(),
            position: 1,
        });
    }
    let read = measured.read_share;
    let expected = |counted| measured.raw_rate_per_second * share_of_members(array, read, counted);
    let (writes_only, reads_counted) =
        (expected(BusyOperations::Writes), expected(BusyOperations::ReadsToo));
    Ok(RaidEfficiency {
        share_of_raw: measured.array_rate_per_second / measured.raw_rate_per_second,
        expected_rate_per_second: writes_only,
        efficiency: measured.array_rate_per_second / writes_only,
        expected_rate_per_second_reads_counted: reads_counted,
        efficiency_reads_counted: measured.array_rate_per_second / reads_counted,
        model,
    })
}

/// Operations per second per unit of money; declined unless both are above zero.
pub(crate) fn rate_per_price(rate_per_second: f64, price: f64) -> Result<f64, DeclinedAnalysis> {
    DeclinedAnalysis::unless_positive("rate and price", [rate_per_second, price])?;
    Ok(rate_per_second / price)
}

/// Measured ÷ specified − 1; declined unless both are above zero.
pub(crate) fn specification_delta(measured: f64, specified: f64) -> Result<f64, DeclinedAnalysis> {
    DeclinedAnalysis::unless_positive("measured and specified rate", [measured, specified])?;
    Ok(measured / specified - 1.0)
}

/// A layer that writes more than it is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteFactor {
    /// Its name: replicas, RAID, filesystem, log.
    pub layer: String,
    /// Writes below it per write above it.
    pub writes_per_write: f64,
}

/// Device writes per write of the application: the product of the layers' factors.
/// Declined unless each factor is above zero and their product can be represented.
pub(crate) fn device_writes_per_write(factors: &[WriteFactor]) -> Result<f64, DeclinedAnalysis> {
    let each = factors.iter().map(|factor| factor.writes_per_write);
    DeclinedAnalysis::unless_positive("factor", each.clone())?;
    let product = each.product();
    DeclinedAnalysis::unless_positive("product of factors", [product])?;
    Ok(product)
}

#[cfg(test)]
mod tests {
    use super::ParityWrite::{ReadModifyWrite, ReconstructWrite};
    use super::*;
    use proptest::prelude::*;

    fn of(layout: MemberLayout, members: u32) -> RaidModel {
        model(ArrayLayout { layout, members }).unwrap()
    }

    const EIGHT: ArrayLayout =
        ArrayLayout { layout: MemberLayout::Raid10 { copies: 2 }, members: 8 };

    fn written(array: f64, raw: f64) -> ArrayRates {
        ArrayRates { array_rate_per_second: array, raw_rate_per_second: raw, read_share: 0.0 }
    }

    #[test]
    fn device_operations_per_small_write_are_the_known_ones() {
        let parity_5 = |parity_write| MemberLayout::Raid5 { parity_write };
        let parity_6 = |parity_write| MemberLayout::Raid6 { parity_write };
        for (layout, members, reads, writes) in [
            (MemberLayout::Raid0, 4, 0.0, 1.0),
            (MemberLayout::Raid1 { copies: 2 }, 2, 0.0, 2.0),
            (MemberLayout::Raid1 { copies: 3 }, 3, 0.0, 3.0),
            (MemberLayout::Raid10 { copies: 2 }, 8, 0.0, 2.0),
            (parity_5(ReadModifyWrite), 8, 2.0, 2.0),
            (parity_5(ReconstructWrite), 3, 1.0, 2.0),
            (MemberLayout::Raid4 { parity_write: ReadModifyWrite }, 8, 2.0, 2.0),
            (MemberLayout::Raid4 { parity_write: ReconstructWrite }, 3, 1.0, 2.0),
            (parity_6(ReadModifyWrite), 8, 3.0, 3.0),
            (parity_6(ReconstructWrite), 4, 1.0, 3.0),
        ] {
            let found = of(layout, members);
            assert_eq!(
                (found.reads_per_write, found.writes_per_write),
                (reads, writes),
                "{layout:?}"
            );
        }
    }

    #[test]
    fn a_published_raid10_writes_at_92_to_97_per_cent_of_half_of_raw() {
        // Xinnor and Reperio, 2025: 8 raw drives write 3.0 million per second (12 jobs per drive); the
        // array from its best point, 32 jobs, on. The publication says 93 % of half, which is the
        // plateau's lower end.
        let shares: Vec<f64> = [1.376e6, 1.41e6, 1.45e6, 1.398e6, 1.405e6, 1.436e6]
            .map(|rate| efficiency(EIGHT, written(rate, 3e6)).unwrap().efficiency)
            .to_vec();
        let near = |found: f64, published: f64| (found - published).abs() < 0.001;
        assert!(near(shares[0], 0.917) && near(shares[2], 0.967) && near(shares[3], 0.932));
        let plateau = &shares[1..];
        assert!(plateau.iter().all(|share| (0.93..=0.97).contains(share)), "{plateau:?}");
        let found = efficiency(EIGHT, written(1.376e6, 3e6)).unwrap();
        assert_eq!(found.expected_rate_per_second, 1.5e6);
        assert_eq!(found.efficiency, found.efficiency_reads_counted);
    }

    #[test]
    fn md_reaches_a_fifth_of_what_raid10_could() {
        let found = efficiency(EIGHT, written(285e3, 3e6)).unwrap();
        assert!((found.efficiency - 0.19).abs() < 0.001, "{}", found.efficiency);
    }

    #[test]
    fn a_third_for_raid6_counts_writes_alone_and_a_sixth_counts_what_is_really_done() {
        // The same publication names 3 writes and 3 reads, and then 33 %: that is without the reads.
        let found = of(MemberLayout::Raid6 { parity_write: ReadModifyWrite }, 8);
        assert!((found.write_share_writes_counted - 0.333).abs() < 0.001);
        assert!((found.write_share_reads_counted - 0.167).abs() < 0.001);
        let sentence = found.sentence;
        assert!(sentence.contains("3 device writes and 3 device reads"), "{sentence}");
        assert!(
            sentence.contains("33.3 % if only device writes cost, 16.7 % if reads"),
            "{sentence}"
        );
    }

    #[test]
    fn the_parity_member_limits_level_4_and_gives_no_reads() {
        let layout = MemberLayout::Raid4 { parity_write: ReadModifyWrite };
        let found = of(layout, 5);
        // One drive of five: each write is one write there, and two accesses if the read counts.
        assert!((found.write_share_writes_counted - 0.2).abs() < 1e-12);
        assert!((found.write_share_reads_counted - 0.1).abs() < 1e-12);
        assert!(found.sentence.contains("the one parity member"), "{}", found.sentence);
        let expected = |read_share| {
            let measured = ArrayRates { read_share, ..written(1000.0, 5000.0) };
            let found = efficiency(ArrayLayout { layout, members: 5 }, measured).unwrap();
            (found.expected_rate_per_second, found.expected_rate_per_second_reads_counted)
        };
        assert_eq!(expected(1.0), (4000.0, 4000.0), "four members have data");
        assert_eq!(expected(0.0), (1000.0, 500.0));
        // With few writes the members with data limit: (0.9 + 0.1 × 2) ÷ 4 accesses on each.
        let (writes, reads_too) = expected(0.9);
        assert!((writes - 4000.0).abs() < 1e-9 && (reads_too - 4000.0 / 1.1).abs() < 1e-9);
        let reconstructed = of(MemberLayout::Raid4 { parity_write: ReconstructWrite }, 3);
        assert!((reconstructed.write_share_reads_counted - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn md_raid5_on_memory_is_far_from_any_theory() {
        // "Random Write Performance Test Across Filesystems and RAID Configurations", 2025: three
        // memory devices, of which one alone writes 3 461 thousand per second.
        let layout = MemberLayout::Raid5 { parity_write: ReconstructWrite };
        let measured = written(66_100.0, 3.0 * 3_461_000.0);
        let found = efficiency(ArrayLayout { layout, members: 3 }, measured).unwrap();
        assert!((found.efficiency_reads_counted - 0.0191).abs() < 0.0001);
        assert!((found.efficiency - 0.0127).abs() < 0.0001);
    }

    #[test]
    fn reads_of_a_mix_cost_one_operation_each() {
        // 70 % reads on RAID10: 0.7 + 0.3 × 2 = 1.3 device operations per host operation.
        let mix = ArrayRates { read_share: 0.7, ..written(1e6, 2.6e6) };
        let found = efficiency(EIGHT, mix).unwrap();
        assert!((found.expected_rate_per_second - 2e6).abs() < 1.0);
        assert!((found.efficiency - 0.5).abs() < 1e-9);
    }

    #[test]
    fn an_array_has_a_hundred_thousand_members_at_most() {
        let is_one = |members| model(ArrayLayout { layout: MemberLayout::Raid0, members }).is_ok();
        assert_eq!([is_one(100_000), is_one(100_001)], [true, false]);
    }

    #[test]
    fn half_of_a_raid10_may_fail_if_no_mirror_loses_both() {
        let found = model(EIGHT).unwrap();
        assert_eq!((found.failures_survived_min, found.failures_survived_max), (1, 4));
        assert_eq!(found.usable_capacity_share, 0.5);
        let triple = of(MemberLayout::Raid10 { copies: 3 }, 9);
        assert_eq!((triple.failures_survived_min, triple.failures_survived_max), (2, 6));
        let parity = of(MemberLayout::Raid6 { parity_write: ReadModifyWrite }, 8);
        assert_eq!((parity.failures_survived_min, parity.usable_capacity_share), (2, 0.75));
        assert_eq!(of(MemberLayout::Raid0, 8).failures_survived_max, 0);
    }

    #[test]
    fn layouts_that_cannot_exist_are_declined_with_the_reason() {
        for (layout, members, why) in [
            (MemberLayout::Raid0, 0, "at least 1"),
            (MemberLayout::Raid1 { copies: 1 }, 1, "at least 2 copies, not 1"),
            (MemberLayout::Raid1 { copies: 2 }, 3, "needs 2 members, not 3"),
            (MemberLayout::Raid10 { copies: 2 }, 7, "do not divide"),
            (MemberLayout::Raid10 { copies: 0 }, 8, "at least 2 copies, not 0"),
            (MemberLayout::Raid5 { parity_write: ReadModifyWrite }, 2, "at least 3"),
            (MemberLayout::Raid6 { parity_write: ReconstructWrite }, 3, "at least 4"),
            (MemberLayout::Raid0, u32::MAX, "more than"),
        ] {
            let declined = model(ArrayLayout { layout, members }).unwrap_err().to_string();
            assert!(declined.contains(why), "{declined}");
        }
        assert!(efficiency(EIGHT, written(f64::NAN, 1.0)).is_err());
        let more = ArrayRates { read_share: 1.5, ..written(1.0, 1.0) };
        assert!(efficiency(EIGHT, more).is_err());
    }

    #[test]
    fn replicas_of_a_mirror_with_a_journal_multiply() {
        // A database with 3 replicas on a storage that keeps 3 itself, on RAID10, logged before it is
        // written.
        let factor =
            |layer: &str, writes_per_write| WriteFactor { layer: layer.into(), writes_per_write };
        let doubled = [
            factor("database replicas", 3.0),
            factor("storage replicas", 3.0),
            factor("RAID10", 2.0),
            factor("log and data", 2.0),
        ];
        assert_eq!(device_writes_per_write(&doubled), Ok(36.0));
        assert_eq!(device_writes_per_write(&[]), Ok(1.0));
        assert!(device_writes_per_write(&[factor("nothing", 0.0)]).is_err());
    }

    #[test]
    fn price_and_specification_are_put_in_proportion() {
        assert_eq!(rate_per_price(1.4e6, 7_000.0), Ok(200.0));
        assert!(rate_per_price(1.4e6, 0.0).is_err());
        let delta = specification_delta(900e3, 1e6).unwrap();
        assert!((delta + 0.1).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn no_array_makes_it_panic_and_shares_are_shares(
            kind in 0..6_u8, copies in any::<u32>(), members in any::<u32>(), small in any::<bool>(),
            array in any::<f64>(), raw in any::<f64>(), read_share in any::<f64>(),
        ) {
            let (copies, members) = if small { (copies % 5, members % 20) } else { (copies, members) };
            let parity_write = if copies % 2 == 0 { ReadModifyWrite } else { ReconstructWrite };
            let layout = match kind {
                0 => MemberLayout::Raid0,
                1 => MemberLayout::Raid1 { copies },
                2 => MemberLayout::Raid10 { copies },
                3 => MemberLayout::Raid5 { parity_write },
                4 => MemberLayout::Raid4 { parity_write },
                _ => MemberLayout::Raid6 { parity_write },
            };
            let array_of = ArrayLayout { layout, members };
            if let Ok(found) = model(array_of) {
                prop_assert!(found.write_share_reads_counted <= found.write_share_writes_counted);
                prop_assert!(found.failures_survived_min <= found.failures_survived_max);
                prop_assert!(found.failures_survived_max < members);
                prop_assert!(found.usable_capacity_share > 0.0 && found.usable_capacity_share <= 1.0);
            }
            let measured =
                ArrayRates { array_rate_per_second: array, raw_rate_per_second: raw, read_share };
            let _ = efficiency(array_of, measured);
        }
    }
}
