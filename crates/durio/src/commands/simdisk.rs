//! `durio simdisk`: disks that keep their word, or break it.

use std::fmt::Write;

use durio_bench::BenchError;
use durio_simdisk::ZOO;

use crate::args::{Simdisk, SimdiskCommand};
use crate::exit_code::Exit;
use crate::output;

pub(super) fn simdisk(arguments: &Simdisk) -> Result<Exit, BenchError> {
    match &arguments.command {
        SimdiskCommand::List => list(),
    }
}

fn list() -> Result<Exit, BenchError> {
    let width = ZOO.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for named in ZOO {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}  {}", named.name, named.about);
    }
    output::answer_text(&text)?;
    Ok(Exit::Fine)
}
