//! What is written.
//!
//! In: [`DataOptions`]. Out: contents, how they change from write to write, and how many repeat, as
//! fio means it. Not here: the contents of files that are laid out.

use durio_workload::{Contents, PerMille, Renewal, Workload};

use super::said::Said;
use crate::job_file::{DataOptions, Given};

/// durio spreads zeros over units of this size.
const UNIT: u64 = 4096;

/// Sets what `workload` writes; one that only reads writes nothing.
pub(super) fn set_data(options: &DataOptions, workload: &mut Workload, said: &mut Said) {
    let DataOptions {
        compressible_percent,
        compress_chunk_bytes,
        refill,
        zeros,
        scramble,
        duplicate_percent,
        pattern,
    } = options;
    if !workload.writes() {
        return;
    }
    let is_on = |given: &Option<Given<bool>>| given.as_ref().map(|given| given.value);
    let percent = compressible_percent.as_ref().filter(|given| given.value > 0);
    let duplicates = duplicate_percent.as_ref().filter(|given| given.value > 0);
    if let (Some(given), Some(_)) = (percent, pattern) {
        let reason = "durio's compressible blocks end in zeros, not in a buffer_pattern";
        return said.refuse(given, reason);
    }
    if let Some(given) = percent
        && compress_chunk_bytes.as_ref().is_none_or(|it| it.value != UNIT)
    {
        let what = format!("durio keeps the share of zeros in each {UNIT} bytes");
        said.note(given, &what);
    }
    workload.contents = match (pattern, percent) {
        (Some(pattern), _) => Contents::Pattern { bytes: pattern.value.clone() },
        _ if is_on(zeros) == Some(true) => Contents::Compressible { zeros: PerMille::ALL },
        (_, Some(given)) => Contents::Compressible { zeros: per_mille(given) },
        (_, None) => Contents::Incompressible,
    };
    // A pattern and zeros are never changed; a share of zeros or of duplicates implies
    // refill_buffers (fio's HOWTO, buffer_compress_percentage and dedupe_percentage).
    workload.renewal = match is_on(refill) {
        _ if !workload.contents.is_random() => Renewal::Never,
        _ if percent.is_some() || duplicates.is_some() => Renewal::EachWrite,
        Some(true) => Renewal::EachWrite,
        _ if is_on(scramble) == Some(false) => Renewal::Never,
        _ => Renewal::Scrambled,
    };
    if let (Some(given), true) = (duplicates, workload.has_new_blocks()) {
        workload.duplicates = per_mille(given);
    }
}

fn per_mille(percent: &Given<u8>) -> PerMille {
    PerMille(u16::from(percent.value.min(100)) * 10)
}
