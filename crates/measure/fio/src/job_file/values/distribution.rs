//! Which offsets, and which files: `random_distribution=zipf:1.2`, `file_service_type=random:8`.

use super::lists::lists_by_direction;
use super::{KbBase, choice, decimal, size};
use crate::job_file::{FileService, FileServiceOrder, OffsetDistribution, PerDirection, ZoneShare};

pub(in crate::job_file) const DISTRIBUTIONS: &[&str] =
    &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence"];
pub(in crate::job_file) const FILE_ORDERS: &[&str] =
    &["random", "zipf", "pareto", "normal", "gauss", "roundrobin", "sequential"];

// fio's exponent without a given one (`FIO_DEF_ZIPF`).
const ZIPF_THETA: f64 = 1.1;
// fio's share without a given one (`FIO_DEF_PARETO`).
const PARETO_SHARE: f64 = 0.2;
// The most zones of a direction (`ZONESPLIT_MAX`).
const ZONES_MAX: usize = 256;

pub(in crate::job_file) fn distribution(
    text: &str,
    base: KbBase,
) -> Result<OffsetDistribution, String> {
    let (word, rest) = choice(text, DISTRIBUTIONS)?;
    match (word, rest) {
        ("random", None) => Ok(OffsetDistribution::Uniform),
        ("random", Some(rest)) => Err(format!("random takes no {rest:?}")),
        ("zipf", rest) => zipf(rest),
        ("pareto", rest) => pareto(rest),
        ("normal", rest) => normal(rest),
        ("zoned", rest) => zones(rest, base, false).map(OffsetDistribution::Zoned),
        ("zoned_abs", rest) => zones(rest, base, true).map(OffsetDistribution::ZonedBytes),
        _ => Err("durio does not support a listed sequence of offsets".to_owned()),
    }
}

fn zipf(rest: Option<&str>) -> Result<OffsetDistribution, String> {
    let (theta, center) = parameters(rest, ZIPF_THETA)?;
    // fio rejects 1 as well: its formula divides by 1 - theta.
    if theta == 1.0 || theta <= 0.0 {
        return Err(format!("zipf:{theta}: theta must be above 0 and not 1"));
    }
    Ok(OffsetDistribution::Zipf { theta, center })
}

fn pareto(rest: Option<&str>) -> Result<OffsetDistribution, String> {
    let (share, center) = parameters(rest, PARETO_SHARE)?;
    if share <= 0.0 || share >= 1.0 {
        return Err(format!("pareto:{share}: expected a value between 0 and 1"));
    }
    Ok(OffsetDistribution::Pareto { share, center })
}

fn normal(rest: Option<&str>) -> Result<OffsetDistribution, String> {
    let (deviation_percent, center) = parameters(rest, 0.0)?;
    if !(0.0..100.0).contains(&deviation_percent) {
        return Err(format!("normal:{deviation_percent}: expected 0 to below 100 percent"));
    }
    Ok(OffsetDistribution::Normal { deviation_percent, center })
}

/// A value and the place of the hottest offset, as a share of the region.
fn parameters(rest: Option<&str>, default: f64) -> Result<(f64, Option<f64>), String> {
    let Some(rest) = rest else { return Ok((default, None)) };
    let (value, center) = match rest.split_once(':') {
        Some((value, center)) => (value, Some(decimal(center)?)),
        None => (rest, None),
    };
    if center.is_some_and(|center| !(0.0..=1.0).contains(&center)) {
        return Err(format!("{rest:?}: the center is 0 to 1"));
    }
    Ok((decimal(value)?, center))
}

fn zones(
    rest: Option<&str>,
    base: KbBase,
    in_bytes: bool,
) -> Result<PerDirection<Vec<ZoneShare>>, String> {
    let rest = rest.ok_or("zoned needs its zones: zoned:50/5:30/15:20/80")?;
    lists_by_direction(rest, |part| zone_list(part, base, in_bytes))
}

fn zone_list(text: &str, base: KbBase, in_bytes: bool) -> Result<Vec<ZoneShare>, String> {
    let zones =
        text.split(':').map(|zone_text| zone(zone_text, base)).collect::<Result<Vec<_>, _>>()?;
    if zones.len() > ZONES_MAX {
        return Err(format!("more than {ZONES_MAX} zones"));
    }
    let accesses: u64 = zones.iter().map(|zone| u64::from(zone.0)).sum();
    if accesses != 100 {
        return Err(format!("{text:?}: the accesses add up to {accesses} percent, not 100"));
    }
    let missing = zones.iter().filter(|zone| zone.1.is_none()).count();
    let even = if in_bytes { None } else { even_share(&zones, missing) };
    if !in_bytes && even.is_none() {
        return Err(format!("{text:?}: the sizes exceed 100 percent"));
    }
    let filled = zones.iter().map(|&(access_percent, size)| {
        size.or(even).map(|size| ZoneShare { access_percent, size })
    });
    let filled = filled.collect::<Option<Vec<_>>>();
    filled.ok_or_else(|| format!("{text:?}: each zone needs its size in bytes"))
}

/// What each zone without a size gets, in percent; `None` if the given sizes exceed 100 percent.
fn even_share(zones: &[(u8, Option<u64>)], missing: usize) -> Option<u64> {
    let given = zones.iter().filter_map(|zone| zone.1).try_fold(0_u64, u64::checked_add)?;
    let rest = 100_u64.checked_sub(given)?;
    Some(rest.checked_div(u64::try_from(missing).ok()?).unwrap_or(0))
}

/// Percent of accesses, and the size if there is one; fio takes a size of 0 for none.
fn zone(text: &str, base: KbBase) -> Result<(u8, Option<u64>), String> {
    let parts = text.split_once('/').and_then(|(access, bytes)| {
        let access = access.parse::<u8>().ok().filter(|percent| *percent <= 100)?;
        let bytes = bytes.strip_suffix('%').unwrap_or(bytes);
        let size = if bytes.is_empty() { Some(0) } else { size(bytes, base).ok() }?;
        Some((access, Some(size).filter(|size| *size > 0)))
    });
    parts.ok_or_else(|| format!("{text:?} is not a zone; write accesses/size, as in 50/5"))
}

pub(in crate::job_file) fn file_service(text: &str) -> Result<FileService, String> {
    let (word, rest) = choice(text, FILE_ORDERS)?;
    let order = match word {
        "random" => FileServiceOrder::Random,
        "roundrobin" => FileServiceOrder::RoundRobin,
        "sequential" => FileServiceOrder::Sequential,
        "zipf" => return skewed(zipf(rest)?),
        "pareto" => return skewed(pareto(rest)?),
        _ => return skewed(normal(rest)?),
    };
    let accesses = rest.map_or(Ok(1), |rest| rest.parse::<u32>().map_err(|_| rest));
    let accesses = accesses.ok().filter(|accesses| *accesses > 0);
    let accesses =
        accesses.ok_or_else(|| format!("{text:?}: the number of accesses must be 1 or more"))?;
    Ok(FileService { order, accesses })
}

fn skewed(distribution: OffsetDistribution) -> Result<FileService, String> {
    Ok(FileService { order: FileServiceOrder::Skewed(distribution), accesses: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_fio_s_defaults_and_bounds() {
        let read = |text: &str| distribution(text, 1024);
        assert_eq!(read("random"), Ok(OffsetDistribution::Uniform));
        assert_eq!(read("zipf"), Ok(OffsetDistribution::Zipf { theta: 1.1, center: None }));
        let centered = OffsetDistribution::Zipf { theta: 0.9, center: Some(0.25) };
        assert_eq!(read("zipf:0.9:0.25"), Ok(centered));
        assert_eq!(read("pareto"), Ok(OffsetDistribution::Pareto { share: 0.2, center: None }));
        let normal = OffsetDistribution::Normal { deviation_percent: 30.0, center: None };
        assert_eq!(read("normal:30"), Ok(normal));
        for text in [
            "zipf:1",
            "zipf:1.0",
            "zipf:x",
            "zipf:inf",
            "pareto:1",
            "pareto:0",
            "normal:100",
            "zipf:1.2:2",
            "random:1",
            "zoned",
            "zoned:50/50",
            "zoned:100/101",
            "zoned:a/b",
            "zoned_abs:100/",
            "sequence:1,2",
            "uniform",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zones_are_shares_of_accesses_and_of_space() {
        let Ok(OffsetDistribution::Zoned(zones)) = distribution("zoned:60/10:40/90,100/50", 1024)
        else {
            panic!("not zoned");
        };
        let zone = |access_percent, size| ZoneShare { access_percent, size };
        assert_eq!(zones.read, [zone(60, 10), zone(40, 90)]);
        assert_eq!(zones.write, [zone(100, 50)]);
        assert_eq!(zones.trim, zones.write);
        let Ok(OffsetDistribution::Zoned(zones)) = distribution("zoned:50/5:30/:20/", 1024) else {
            panic!("not zoned");
        };
        assert_eq!(zones.read, [zone(50, 5), zone(30, 47), zone(20, 47)]);
        let Ok(OffsetDistribution::ZonedBytes(zones)) = distribution("zoned_abs:95/1g:5/9g", 1024)
        else {
            panic!("not zoned");
        };
        assert_eq!(zones.read, [zone(95, 1 << 30), zone(5, 9 << 30)]);
    }

    #[test]
    fn a_direction_has_256_zones_at_most() {
        let of =
            |count: usize| distribution(&format!("zoned:100/{}", ":0/".repeat(count - 1)), 1024);
        let Ok(OffsetDistribution::Zoned(zones)) = of(256) else { panic!("{:?}", of(256)) };
        assert_eq!(zones.read.len(), 256);
        assert_eq!(of(257).unwrap_err(), "more than 256 zones");
    }

    #[test]
    fn files_are_served_in_order_or_skewed() {
        let random = FileService { order: FileServiceOrder::Random, accesses: 8 };
        assert_eq!(file_service("random:8"), Ok(random));
        assert!(matches!(file_service("zipf:1.2").unwrap().order, FileServiceOrder::Skewed(_)));
        for text in ["roundrobin:0", "sequential:x", "other"] {
            assert!(file_service(text).is_err(), "{text}");
        }
    }
}
