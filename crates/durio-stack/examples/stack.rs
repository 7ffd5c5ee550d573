//! Prints what this crate sees of the paths given, and of the machine.

use std::io::{self, Write};
use std::path::Path;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for path in std::env::args_os().skip(1) {
        let path = Path::new(&path);
        match durio_stack::read_stack(path) {
            Ok(stack) => writeln!(out, "{stack:#?}\n{:?}", durio_stack::leaf_devices(&stack))?,
            Err(error) => writeln!(out, "{error}: {:?}", error.source)?,
        }
        writeln!(out, "{:#?}", durio_stack::device_use(path))?;
    }
    writeln!(out, "{:#?}", durio_stack::read_host())?;
    writeln!(out, "{:#?}", durio_stack::read_cpu_counters())
}
