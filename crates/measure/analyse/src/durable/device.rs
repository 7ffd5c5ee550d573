//! What reached the devices for each write, request by request, where it was traced.
//!
//! Traced commits give [`CommandsFindings`]. The kernel's counters
//! ([`DeviceWork`](crate::measurement::DeviceWork)) include other processes' I/O, and count a write
//! that bypasses the cache (FUA) as a write, not as a flush; only a trace shows the single commands.

use durio_base::Bytes;
use durio_plan::{Experiment, FileLayout};
use durio_record::{CommitsTraced, SyncCallsProbed, TracedRequest};
use durio_workload::{CacheMode, SyncMethod};
use serde::{Deserialize, Serialize};

use super::arm::{ExperimentInput, is_of, layout_of};

/// What one method's commits sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandsFindings {
    pub method: SyncMethod,
    /// Through or past the page cache.
    pub cache: CacheMode,
    /// The layout of the file; `None` for existing files and devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<FileLayout>,
    /// Bytes of a commit.
    #[serde(rename = "block_size_bytes")]
    pub block_size: Bytes,
    /// The sequences, the most frequent first, in short: `W 4 KiB, FF`.
    pub short: Vec<String>,
    /// Whether every commit sent a flush or FUA write; `None` if nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaches_media: Option<bool>,
    pub traced: CommitsTraced,
}

/// Which requests the block layer's letters stand for (blk_fill_rwbs in the kernel's blktrace.c): a
/// first F before another letter is a flush before it, the operation's letter follows, a later F is
/// FUA.
pub fn request_words(request: &TracedRequest) -> String {
    let flags = request.flags.as_str();
    if is_flush(request) {
        return "flush".to_owned();
    }
    let (before, rest) = match flags.strip_prefix('F') {
        Some(rest) => ("flush, then ", rest),
        None => ("", flags),
    };
    let operation = match rest.chars().next() {
        Some('R') => "read",
        Some('D') => "discard",
        Some('W') => "write",
        _ => "request",
    };
    let letters = rest.get(1..).unwrap_or_default();
    let metadata = if letters.contains('M') { "metadata " } else { "" };
    let fua = if letters.contains('F') { " past the cache (FUA)" } else { "" };
    format!("{before}{metadata}{operation} of {}{fua}", request.bytes)
}

/// A flush alone: no bytes move.
fn is_flush(request: &TracedRequest) -> bool {
    request.bytes == Bytes::ZERO && request.flags.starts_with('F')
}

/// As research on commits writes it: the letters, and the bytes where there are any.
fn short(requests: &[TracedRequest]) -> String {
    let several = requests
        .iter()
        .any(|request| Some(&request.device) != requests.first().map(|request| &request.device));
    let one = |request: &TracedRequest| {
        let device = if several { format!("{} ", request.device) } else { String::new() };
        match request.bytes {
            Bytes::ZERO => format!("{device}{}", request.flags),
            bytes => format!("{device}{} {bytes}", request.flags),
        }
    };
    match requests {
        [] => "nothing".to_owned(),
        some => some.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// The F that is the operation or that follows it.
fn is_durable(request: &TracedRequest) -> bool {
    let after = request.flags.strip_prefix('F').unwrap_or(&request.flags);
    is_flush(request) || after.get(1..).is_some_and(|letters| letters.contains('F'))
}

pub(super) fn commands(
    measured: &ExperimentInput<'_>,
    traced: &[CommitsTraced],
) -> Vec<CommandsFindings> {
    let of = |traced: &CommitsTraced| {
        let step = measured.plan.steps.get(traced.step as usize)?;
        let (load, workload) = (&step.load, &step.load.workload);
        let sequences = &traced.sequences;
        let reaches = || sequences.iter().all(|sequence| sequence.requests.iter().any(is_durable));
        Some(CommandsFindings {
            method: workload.sync.method,
            cache: workload.cache,
            layout: layout_of(measured.plan, load),
            block_size: workload.block_size,
            // Other processes' requests fall into the same windows; the most frequent sequence is
            // that of the commits (docs/design/0008).
            short: sequences.iter().map(|sequence| short(&sequence.requests)).collect(),
            // Every sequence and not the first alone: one commit without a flush is one that a
            // power cut loses.
            reaches_media: (!sequences.is_empty()).then(reaches),
            traced: traced.clone(),
        })
    };
    traced.iter().filter_map(of).collect()
}

/// The probes of steps that are there for it.
pub(super) fn probes(
    measured: &ExperimentInput<'_>,
    probed: &[SyncCallsProbed],
) -> Vec<SyncCallsProbed> {
    let is_one = |probed: &&SyncCallsProbed| {
        let step = measured.plan.steps.get(probed.step as usize);
        step.is_some_and(|step| {
            is_of(measured.plan, step, Experiment::SyncCalls) || step.section.is_none()
        })
    };
    probed.iter().filter(is_one).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_base::Nanos;

    fn request(flags: &str, kib: u64) -> TracedRequest {
        let (device, flags) = ("vda".to_owned(), flags.to_owned());
        let (bytes, issued) = (Bytes::from_kib(kib), Nanos::from_micros(5));
        TracedRequest { device, flags, bytes, issued, service: None }
    }

    #[test]
    fn letters_become_words() {
        let words: Vec<String> = [
            request("FF", 0),
            request("WS", 4),
            request("WFS", 4),
            request("FWFSM", 4),
            request("WM", 16),
        ]
        .iter()
        .map(request_words)
        .collect();
        assert_eq!(words[0], "flush");
        assert_eq!(words[1], "write of 4 KiB");
        assert_eq!(words[2], "write of 4 KiB past the cache (FUA)");
        assert_eq!(words[3], "flush, then metadata write of 4 KiB past the cache (FUA)");
        assert_eq!(words[4], "metadata write of 16 KiB");
    }

    #[test]
    fn a_sequence_is_its_letters_and_bytes() {
        assert_eq!(short(&[request("W", 4), request("FF", 0)]), "W 4 KiB, FF");
        assert_eq!(short(&[]), "nothing");
    }

    #[test]
    fn a_plain_write_does_not_reach_the_medium() {
        let durable = ["FF", "WFS", "FWFSM"].map(|flags| is_durable(&request(flags, 0)));
        assert_eq!(durable, [true; 3]);
        assert!(!is_durable(&request("WS", 4)) && !is_durable(&request("FWS", 4)));
    }

    #[test]
    fn a_sequence_over_several_devices_names_each() {
        let on = |device: &str, flags, kib| TracedRequest {
            device: device.to_owned(),
            ..request(flags, kib)
        };
        let mirrored = [on("sda", "WFS", 4), on("sdb", "WFS", 8), on("sda", "FF", 0)];
        assert_eq!(short(&mirrored), "sda WFS 4 KiB, sdb WFS 8 KiB, sda FF");
        assert_eq!(short(&mirrored[1..2]), "WFS 8 KiB");
    }

    #[test]
    fn other_operations_have_their_words_too() {
        let words = [request("RM", 8), request("DS", 64), request("X", 4), request("FWS", 4)];
        let words = words.each_ref().map(request_words);
        let expected = [
            "metadata read of 8 KiB",
            "discard of 64 KiB",
            "request of 4 KiB",
            "flush, then write of 4 KiB",
        ];
        assert_eq!(words, expected);
    }
}
