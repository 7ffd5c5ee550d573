//! What is written.
//!
//! In: [`DataOptions`]. Out: [`Contents`]. Not here: the contents of files that are laid out.

use durio_workload::{Contents, PerMille};

use super::said::Said;
use crate::job_file::{DataOptions, Place};

/// durio spreads zeros over units of this size.
const UNIT: u64 = 4096;

/// Reads the contents; a job that only reads has none.
pub(super) fn contents(
    options: &DataOptions,
    writes: bool,
    at: &Place,
    said: &mut Said,
) -> Contents {
    let DataOptions { compressible_percent, compress_chunk_bytes, refill, zeros, scramble } =
        options;
    if !writes {
        return Contents::Incompressible;
    }
    let are_zeros = zeros.as_ref().is_some_and(|given| given.value);
    let is_scrambled = scramble.as_ref().is_none_or(|given| given.value);
    let is_refilled = refill.as_ref().is_some_and(|given| given.value);
    if !are_zeros && (is_scrambled || is_refilled) {
        let named = refill.as_ref().filter(|given| given.value).or(scramble.as_ref());
        let option = if is_refilled { "refill_buffers" } else { "scramble_buffers" };
        let what = "fio changes what it writes from write to write; durio writes its random \
                    buffers as they are: a storage that removes duplicates would show it";
        said.note_at(named.map_or(at, |given| &given.at), option, what);
    }
    let percent = compressible_percent.as_ref().filter(|given| given.value > 0);
    if let (Some(given), None) =
        (percent, compress_chunk_bytes.as_ref().filter(|it| it.value == UNIT))
    {
        let what = format!("durio keeps the share of zeros in each {UNIT} bytes");
        said.note("buffer_compress_percentage", given, &what);
    }
    match percent {
        _ if are_zeros => Contents::Compressible { zeros: PerMille::ALL },
        Some(given) => {
            Contents::Compressible { zeros: PerMille(u16::from(given.value.min(100)) * 10) }
        }
        None => Contents::Incompressible,
    }
}
