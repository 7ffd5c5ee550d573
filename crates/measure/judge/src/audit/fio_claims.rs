//! Claims from a result of fio: a [`Claim`] for each entry of `jobs`, with fio's results and the
//! meaning of its options.
//!
//! Older fio leaves out options that were given bare (`--direct`, `--group_reporting`), so a
//! missing one says nothing. An entry of a group of several sections has the name of the first and
//! the options of the last; where the names differ, its jobs and settings are unknown.

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use durio_fio::json::{DirectionFigures, FioJob, FioOutput, LatencyBlock, OptionPairs};

use super::{Claim, ClaimPlace, Durability, Figure, Operations, describe};

/// The claims of a result, in its order.
pub fn fio_claims(output: &FioOutput) -> Vec<Claim> {
    let claims = (1_usize..).zip(&output.jobs);
    claims.map(|(number, job)| claim(output, job, number)).collect()
}

/// Looks options up: first the job's, then those of all jobs.
struct OptionLookup<'o> {
    job: &'o FioJob,
    global: &'o OptionPairs,
}

impl OptionLookup<'_> {
    fn text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.job.option(name, self.global))
    }

    fn number(&self, names: &[&str]) -> Option<u32> {
        self.text(names)?.trim().parse().ok()
    }

    fn has(&self, names: &[&str]) -> bool {
        self.text(names).is_some()
    }

    /// A single size in units whose meaning no option changes; fio's `k` is 1024.
    fn size(&self, names: &[&str]) -> Option<Bytes> {
        let text = self.text(names)?.trim().to_ascii_lowercase();
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let scale = match text.strip_prefix(digits)? {
            "" | "b" => 0,
            "k" | "kb" => 10,
            "m" | "mb" => 20,
            "g" | "gb" => 30,
            "t" | "tb" => 40,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << scale).map(Bytes::new)
    }
}

fn claim(output: &FioOutput, job: &FioJob, number: usize) -> Claim {
    let given = OptionLookup { job, global: &output.global_options };
    let [read, write] = [&job.read, &job.write].map(|figures| figures.clone().unwrap_or_default());
    let mut claim = Claim {
        line: Some(match job.line {
            0 if job.jobname.is_empty() => ClaimPlace::Name(format!("entry {number}")),
            0 => ClaimPlace::Name(job.jobname.clone()),
            line => ClaimPlace::Number(line),
        }),
        source: output.version.clone(),
        workload: job.jobname.clone(),
        // Jobs of one section that are not reported together have all settings in common.
        note: format!("entry {number}"),
        read: operations(&read),
        write: operations(&write),
        bandwidth: bandwidth([&read, &write]),
        runtime: Some(read.runtime.max(write.runtime))
            .filter(|&runtime| runtime > 0)
            .map(Nanos::from_millis),
        total: Some(Bytes::new(read.io_bytes.saturating_add(write.io_bytes))),
        system_cpu_share: Some(job.sys_cpu / 100.0).filter(|share| share.is_finite()),
        ..Claim::default()
    };
    claim.sync = syncs(job, &write);
    let own_name = given.text(&["name"]);
    let knows_options = job.options.is_some() || !output.global_options.is_empty();
    if knows_options && own_name.is_none_or(|own| is_name(own, &job.jobname)) {
        settings(&mut claim, output, &given);
    } else {
        claim.note.push_str(": not all settings of its jobs are given");
    }
    // A job's work is in its options; its name may say anything.
    let name = std::mem::take(&mut claim.workload);
    describe(&mut claim);
    claim.workload = name;
    claim
}

/// Bytes of a name that fio keeps in `jobname` (FIO_JOBNAME_SIZE, with the zero at its end); the options have all.
const NAME_MAX: usize = 127;

fn is_name(own: &str, jobname: &str) -> bool {
    // A letter that was cut in two is replaced when it is read.
    let kept = jobname.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let is_cut = own.len() > NAME_MAX && NAME_MAX - kept.len().min(NAME_MAX) < 4;
    own == jobname || (is_cut && own.starts_with(kept))
}

fn settings(claim: &mut Claim, output: &FioOutput, given: &OptionLookup<'_>) {
    let pattern = given.text(&["rw", "readwrite"]).unwrap_or("read").to_owned();
    claim.random = Some(pattern.starts_with("rand"));
    claim.read_share = read_share(&pattern, given);
    claim.engine = Some(given.text(&["ioengine"]).unwrap_or("psync").to_owned());
    claim.buffered = buffered(given);
    claim.depth = given.number(&["iodepth"]).or_else(|| (!given.has(&["iodepth"])).then_some(1));
    claim.jobs = jobs(output, given);
    claim.block_size = block_size(given);
    claim.size = given.size(&["size", "filesize"]);
    claim.target = given.text(&["filename"]).map(str::to_owned);
    claim.stack = claim.target.clone().unwrap_or_default();
    claim.paced = is_paced(given);
    claim.open_ends = u8::from(given.has(&["ramp_time"]));
    durability(claim, given);
    if claim.workload.is_empty() {
        claim.workload = pattern;
    }
}

/// As many entries of one name and group as the option says are not reported together.
fn jobs(output: &FioOutput, given: &OptionLookup<'_>) -> Option<u32> {
    let asked = match given.text(&["numjobs"]) {
        Some(_) => given.number(&["numjobs"])?,
        None => 1,
    };
    let same =
        |entry: &&FioJob| entry.jobname == given.job.jobname && entry.groupid == given.job.groupid;
    if output.jobs.iter().filter(same).count() > 1 { Some(1) } else { Some(asked.max(1)) }
}

fn read_share(pattern: &str, given: &OptionLookup<'_>) -> Option<f64> {
    let kind = pattern.split(':').next().unwrap_or_default().trim_start_matches("rand");
    match kind {
        "read" => Some(1.0),
        "write" => Some(0.0),
        "rw" | "readwrite" => {
            let reads = given.number(&["rwmixread"]).map(f64::from);
            let writes = given.number(&["rwmixwrite"]).map(|percent| 100.0 - f64::from(percent));
            Some(reads.or(writes).unwrap_or(50.0) / 100.0)
        }
        _ => None,
    }
}

fn buffered(given: &OptionLookup<'_>) -> Option<bool> {
    let flag = |name: &str| match given.text(&[name])? {
        "0" | "false" => Some(false),
        _ => Some(true),
    };
    flag("direct").map(|direct| !direct).or_else(|| flag("buffered"))
}

/// The one size of all operations; 4 KiB if nothing is said.
fn block_size(given: &OptionLookup<'_>) -> Option<Bytes> {
    let mixed = ["bsrange", "blocksize_range", "bssplit", "bs_unaligned", "bs_is_seq_rand"];
    let names = ["bs", "blocksize"];
    match given.has(&names) {
        _ if given.has(&mixed) => None,
        true => given.size(&names),
        false => Some(Bytes::from_kib(4)),
    }
}

/// Options that keep a job from running as fast as it can.
fn is_paced(given: &OptionLookup<'_>) -> bool {
    let names = ["rate", "rate_iops", "rate_min", "rate_iops_min", "thinktime", "latency_target"];
    given.has(&names) || given.has(&["thinkcycles", "flow", "zonemode"])
}

fn durability(claim: &mut Claim, given: &OptionLookup<'_>) {
    let calls = ["fdatasync", "fsync"].map(|name| (name, given.number(&[name]).unwrap_or(0)));
    if let Some(&(name, every)) = calls.iter().find(|(_, every)| *every > 0) {
        claim.durability = Durability::SyncCall;
        claim.writes_per_sync = Some(every);
        claim.durable = format!("{name} every {every} writes");
        return;
    }
    match given.text(&["sync"]) {
        None | Some("0" | "none") => {
            claim.durability = Durability::Denied;
            claim.durable = "no sync asked for".to_owned();
        }
        Some(how) => {
            claim.durability = Durability::InTheWrite;
            claim.durable = if how == "dsync" { "O_DSYNC" } else { "O_SYNC" }.to_owned();
        }
    }
}

fn operations(direction: &DirectionFigures) -> Operations {
    if direction.total_ios == 0 {
        return Operations::default();
    }
    let rate = Some(rate(direction.total_ios, direction.runtime));
    let blocks = [&direction.lat_ns, &direction.clat_ns];
    let Some(latency) = blocks.into_iter().find(|block| block.samples() > 0) else {
        return Operations { rate, ..Operations::default() };
    };
    // Some fio give percentiles of the completion alone, the longest part of the latency.
    let percentiles =
        [latency, &direction.clat_ns].into_iter().find(|block| !block.percentiles.is_empty());
    let sampled = direction.bw_samples >= SAMPLES_MIN;
    let kib = |value: f64| Figure::exact(value * 1024.0);
    Operations {
        rate,
        count: Some(direction.total_ios),
        submit_ns_mean: (direction.slat_ns.samples() > 0).then(|| mean(&direction.slat_ns)),
        bandwidth_min: sampled.then(|| kib(float(direction.bw_min))),
        bandwidth_mean: sampled.then(|| kib(direction.bw_mean)),
        ..of_latency(latency, percentiles)
    }
}

// Samples of bandwidth from which the slowest says something: fio takes one each 500 ms.
const SAMPLES_MIN: u64 = 8;

fn of_latency(latency: &LatencyBlock, percentiles: Option<&LatencyBlock>) -> Operations {
    let percentiles = percentiles.into_iter().flat_map(|block| &block.percentiles);
    Operations {
        latency_ns_mean: Some(mean(latency)),
        latency_ns_min: Some(Figure::of(latency.min)),
        latency_ns_max: Some(Figure::of(latency.max)),
        percentiles_ns: percentiles.map(|&(percent, nanos)| (percent, Figure::of(nanos))).collect(),
        ..Operations::default()
    }
}

fn mean(latency: &LatencyBlock) -> Figure {
    Figure::exact(if latency.mean.is_finite() { latency.mean.max(0.0) } else { 0.0 })
}

fn syncs(job: &FioJob, write: &DirectionFigures) -> Operations {
    let Some(sync) = &job.sync else { return Operations::default() };
    // The section's count is 0 for fdatasync up to fio 3.42; that of the latencies is right.
    let count = sync.lat_ns.samples();
    if count == 0 {
        return Operations { count: Some(sync.total_ios), ..Operations::default() };
    }
    Operations {
        rate: Some(rate(count, write.runtime)),
        count: Some(count),
        ..of_latency(&sync.lat_ns, Some(&sync.lat_ns))
    }
}

fn rate(count: u64, runtime_ms: u64) -> Figure {
    // The time is in whole milliseconds: within one of them, whichever way fio rounded.
    let per = |ms: f64| float(count) * 1e3 / ms;
    let ms = float(runtime_ms.max(1));
    Figure { value: per(ms), low: per(ms + 1.0), high: per((ms - 1.0).max(0.5)) }
}

fn bandwidth(directions: [&DirectionFigures; 2]) -> Option<Figure> {
    let moved = directions.into_iter().filter(|direction| direction.total_ios > 0);
    let bytes = moved.fold(0_u64, |sum, direction| sum.saturating_add(direction.bw_bytes));
    (bytes > 0).then(|| Figure::of(bytes))
}

#[cfg(test)]
mod tests;
