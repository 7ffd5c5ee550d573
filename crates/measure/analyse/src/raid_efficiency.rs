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
    /// Striped, nothing twice.
    Raid0,
    /// Every member holds everything.
    Raid1 {
        /// Copies of each block: the number of members.
        copies: u32,
    },
    /// Striped over mirrors.
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
            format!("{copies} copies are no mirror")
        }
        _ if members < fewest => format!("it needs at least {fewest} members, not {members}"),
        _ if members > MEMBERS_MAX => format!("{members} members are more than {MEMBERS_MAX}"),
        MemberLayout::Raid1 { copies } if members != copies => {
            format!("a mirror of {copies} copies has {copies} members, not {members}")
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
        MemberLayout::Raid4 { .. } => "; the one parity member takes part in each of them",
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
    /// Array ÷ raw.
    pub share_of_raw: f64,
    /// Raw × theoretical share, device writes only counted.
    pub expected_rate_per_second: f64,
    /// Measured ÷ that.
    pub efficiency: f64,
    /// Raw × theoretical share, device reads counted like writes.
    pub expected_rate_per_second_reads_counted: f64,
    /// Measured ÷ that.
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
    DeclinedAnalysis::unless_positive("measured and specified figure", [measured, specified])?;
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
mod tests;
