//! `random_distribution` as a skew.
//!
//! In: the distribution, for the directions that occur. Out: a [`Skew`], or a refusal. Not here:
//! whether blocks may come twice.

use durio_workload::{PerMille, Skew, Zone};

use super::said::Said;
use crate::job_file::{Direction, Distribution, Given, PerDirection, ZoneShare};

/// The skew of a distribution; uniform where it is refused.
pub(super) fn skew(given: &Given<Distribution>, direction: Direction, said: &mut Said) -> Skew {
    match convert(&given.value, direction) {
        Ok(skew) => skew,
        Err(reason) => {
            said.refuse(given, &reason);
            Skew::Uniform
        }
    }
}

fn convert(distribution: &Distribution, direction: Direction) -> Result<Skew, String> {
    match distribution {
        Distribution::Uniform => Ok(Skew::Uniform),
        Distribution::Zipf { center: Some(_), .. }
        | Distribution::Pareto { center: Some(_), .. } => {
            Err("durio scatters the hot blocks and knows no center; leave it out".to_owned())
        }
        Distribution::Zipf { theta, center: None } => {
            let theta_per_mille = thousandths(*theta, 10_000)
                .ok_or("durio knows zipf from 0.001 to 10 in steps of 0.001")?;
            Ok(Skew::Zipf { theta_per_mille })
        }
        Distribution::Pareto { share, center: None } => {
            let h = thousandths(*share, 999).and_then(|h| u16::try_from(h).ok());
            let h_per_mille =
                h.ok_or("durio knows pareto from 0.001 to 0.999 in steps of 0.001")?;
            Ok(Skew::Pareto { h_per_mille })
        }
        Distribution::Normal { .. } => {
            Err("fio's normal distribution is another: a mean of twelve draws, moved by half the \
             deviation at most, and scattered over the region; use zipf, pareto or zoned"
                .to_owned())
        }
        Distribution::Zoned(zones) => zoned(zones, direction),
        Distribution::ZonedBytes(_) => {
            Err("durio's zones are shares of the region; write them in percent (zoned)".to_owned())
        }
    }
}

/// A number in whole thousandths from 1 to `max`.
fn thousandths(number: f64, max: u32) -> Option<u32> {
    let scaled = number * 1000.0;
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    let is_within = scaled.round() >= 1.0 && scaled.round() <= f64::from(max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to `max`")]
    (is_whole && is_within).then(|| scaled.round() as u32)
}

fn zoned(zones: &PerDirection<Vec<ZoneShare>>, direction: Direction) -> Result<Skew, String> {
    let zones = match direction {
        Direction::Mixed if zones.read != zones.write => {
            return Err("durio's reads and writes have the same zones".to_owned());
        }
        Direction::Write => &zones.write,
        Direction::Read | Direction::Mixed => &zones.read,
    };
    let mut built = Vec::with_capacity(zones.len() + 1);
    let mut size_so_far = 0_u16;
    for zone in zones {
        let size = u16::try_from(zone.size).ok().filter(|percent| *percent <= 100);
        let size = PerMille(size.ok_or("a zone of more than 100 percent")? * 10);
        size_so_far = size_so_far.saturating_add(size.0);
        built.push(Zone { accesses: PerMille(u16::from(zone.access_percent) * 10), size });
    }
    let rest = 1000_u16.checked_sub(size_so_far).ok_or("zones of more than 100 percent")?;
    if rest > 0 {
        // fio never goes there.
        built.push(Zone { accesses: PerMille::NONE, size: PerMille(rest) });
    }
    Ok(Skew::Zones { zones: built })
}
