//! Prints what this crate sees of the paths given, and of the machine.

use std::io::{self, Write};
use std::path::Path;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for path in std::env::args_os().skip(1) {
        let path = Path::new(&path);
        match durio_observe::read_stack(path) {
            Ok(stack) => writeln!(out, "{stack:#?}\n{:?}", durio_observe::leaf_devices(&stack))?,
            Err(error) => writeln!(out, "{error}: {:?}", error.source)?,
        }
        writeln!(out, "{:#?}", durio_observe::device_use(path))?;
    }
    writeln!(out, "{:#?}", durio_observe::read_host())?;
    writeln!(out, "{:#?}", durio_observe::read_cpu_counters())
}
