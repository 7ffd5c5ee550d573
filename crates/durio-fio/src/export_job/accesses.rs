//! Which accesses, and what is written: the inverse of `import/accesses.rs` and `import/writes.rs`.
//!
//! In: a [`Workload`]. Out: options of fio. Not here: places, limits, syncs.

use durio_workload::{BlockShare, Contents, Coverage, Pattern, PerMille, Renewal, Skew, Workload};

use super::{FioOption, option, refuse, whole_percent};
use crate::FioError;

/// The options of the pattern. The fields that are named and not used are others' part.
pub(super) fn options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
    let Workload {
        name: _,
        summary: _,
        pattern,
        read_share,
        block_size,
        block_mix,
        write_block_mix,
        skew,
        coverage,
        run_length,
        own_cursors,
        jumps,
        hole,
        align,
        contents: _,
        renewal: _,
        duplicates: _,
        // Each job's region is in its place.
        region: _,
        within: _,
        jobs: _,
        depth: _,
        sync: _,
        cache: _,
        at_end: _,
        drops_cache_each_pass: _,
        syncs_at_end: _,
        group_commit,
    } = workload;
    if group_commit.is_some() {
        return refuse("committers that share a log's syncs");
    }
    let mut options = Vec::new();
    let is_mixed = workload.reads() && workload.writes();
    let number = match pattern {
        Pattern::Sequential if is_mixed && !own_cursors => {
            return refuse("sequential reads and writes at one place; fio has a place for each");
        }
        Pattern::Sequential => hole.get(),
        Pattern::Random => u64::from(*run_length),
    };
    let word = match (pattern, workload.reads(), workload.writes()) {
        (Pattern::Sequential, true, true) => "rw",
        (Pattern::Sequential, true, false) => "read",
        (Pattern::Sequential, false, _) => "write",
        (Pattern::Random, true, true) => "randrw",
        (Pattern::Random, true, false) => "randread",
        (Pattern::Random, false, _) => "randwrite",
    };
    let neutral = u64::from(*pattern == Pattern::Random);
    options.push(option(
        "rw",
        match number == neutral {
            true => word.to_owned(),
            false => format!("{word}:{number}"),
        },
    ));
    if is_mixed {
        options.push(option("rwmixread", whole_percent(read_share.0, "a share of reads")?));
    }
    options.extend(sizes(block_size.get(), block_mix, write_block_mix)?);
    if *pattern == Pattern::Random {
        let align = if align.get() > 0 { align.get() } else { smallest(workload) };
        options.push(option("blockalign", align));
        options.extend(order(skew, *coverage, *run_length)?);
        if let Some(jumps) = jumps {
            let reads = whole_percent(jumps.reads.0, "a share of jumps")?;
            let writes = whole_percent(jumps.writes.0, "a share of jumps")?;
            options.push(option("percentage_random", format!("{reads},{writes}")));
        }
    }
    Ok(options)
}

fn smallest(workload: &Workload) -> u64 {
    workload.block_sizes().first().map_or(workload.block_size.get(), |size| size.get())
}

fn sizes(
    single: u64,
    mix: &[BlockShare],
    write_mix: &[BlockShare],
) -> Result<Vec<FioOption>, FioError> {
    if mix.is_empty() && write_mix.is_empty() {
        return Ok(vec![option("bs", single)]);
    }
    let reads = if mix.is_empty() { format!("{single}/100") } else { split(mix)? };
    let value = match write_mix {
        [] => reads,
        writes => format!("{reads},{}", split(writes)?),
    };
    Ok(vec![option("bssplit", value)])
}

fn split(mix: &[BlockShare]) -> Result<String, FioError> {
    let part = |share: &BlockShare| {
        let percent = whole_percent(share.weight.0, "a share of a block size")?;
        Ok(format!("{}/{percent}", share.size.get()))
    };
    let parts: Vec<String> = mix.iter().map(part).collect::<Result<_, FioError>>()?;
    Ok(parts.join(":"))
}

fn order(skew: &Skew, coverage: Coverage, run_length: u32) -> Result<Vec<FioOption>, FioError> {
    let is_each_once = coverage == Coverage::EachOnce;
    if is_each_once && run_length > 1 {
        return refuse("runs of blocks that each come once: fio's map cuts them short");
    }
    if is_each_once && matches!(skew, Skew::Zipf { .. } | Skew::Pareto { .. }) {
        return refuse("zipf or pareto over blocks that each come once: fio has no map then");
    }
    let mut options = if is_each_once { Vec::new() } else { vec![option("norandommap", 1)] };
    let thousandths = |number: u32| f64::from(number) / 1000.0;
    let distribution = match skew {
        Skew::Uniform => return Ok(options),
        Skew::Zipf { theta_per_mille: 1000 } => {
            return refuse("zipf with theta 1; take 0.999 or 1.001");
        }
        Skew::Zipf { theta_per_mille } => format!("zipf:{}", thousandths(*theta_per_mille)),
        Skew::Pareto { h_per_mille } => format!("pareto:{}", thousandths((*h_per_mille).into())),
        Skew::Normal { .. } => {
            return refuse("a normal distribution: fio's is another, which is also scattered");
        }
        Skew::Zones { zones } => {
            let zone = |zone: &durio_workload::Zone| {
                let accesses = whole_percent(zone.accesses.0, "a zone's share of accesses")?;
                let size = whole_percent(zone.size.0, "a zone's share of the region")?;
                Ok(format!("{accesses}/{size}"))
            };
            let zones = zones.iter().map(zone).collect::<Result<Vec<_>, FioError>>()?;
            format!("zoned:{}", zones.join(":"))
        }
    };
    options.push(option("random_distribution", distribution));
    Ok(options)
}

pub(super) fn data_options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
    let Workload { contents, renewal, duplicates, .. } = workload;
    let mut options = match contents {
        Contents::Incompressible => Vec::new(),
        Contents::Compressible { zeros: PerMille::ALL } => {
            return Ok(vec![option("zero_buffers", 1)]);
        }
        Contents::Compressible { zeros } => {
            if *renewal != Renewal::EachWrite {
                return refuse("compressible buffers that are reused");
            }
            vec![
                option("buffer_compress_percentage", whole_percent(zeros.0, "a share of zeros")?),
                option("buffer_compress_chunk", 4096),
            ]
        }
        Contents::Pattern { bytes } => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok(vec![option("buffer_pattern", format!("0x{digits}"))]);
        }
    };
    options.push(option("scramble_buffers", u8::from(*renewal == Renewal::Scrambled)));
    if *renewal == Renewal::EachWrite {
        options.push(option("refill_buffers", 1));
    }
    if *duplicates > PerMille::NONE {
        let percent = whole_percent(duplicates.0, "a share of duplicates")?;
        options.push(option("dedupe_percentage", percent));
    }
    Ok(options)
}
