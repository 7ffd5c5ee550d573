//! What is written, as options of fio.
//!
//! In: a [`Workload`] that writes. Out: how fio fills its buffers, and when again.

use durio_workload::{Contents, PerMille, Renewal, Workload};

use super::{FioOption, option, refuse, whole_percent};
use crate::FioError;

pub(super) fn options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
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
