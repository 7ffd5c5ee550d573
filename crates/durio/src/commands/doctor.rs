//! `durio doctor`: checks what durio can do on this machine.

use durio_bench::{BenchError, diagnose};

use crate::args::Doctor;
use crate::exit_code::Exit;
use crate::measure::clear_up;
use crate::output;

pub(super) fn doctor(arguments: &Doctor) -> Result<Exit, BenchError> {
    let directory = &arguments.directory;
    if directory.exists() && !directory.is_dir() {
        let text = format!("'{}' is no directory", directory.display());
        return Err(BenchError::wrong_use(text)
            .hint("durio doctor takes the directory in which durio check is to make its files"));
    }
    clear_up();
    let diagnosis = diagnose(directory);
    output::report(arguments.output, &diagnosis)?;
    let obstacles: Vec<_> = diagnosis.obstacles().map(|row| row.found.as_str()).collect();
    if obstacles.is_empty() {
        return Ok(Exit::Fine);
    }
    let text = format!("durio check cannot run here: {}", obstacles.join("; "));
    let error = BenchError::cannot_measure(text);
    Err(diagnosis.obstacles().fold(error, |error, row| error.hint(row.remedy.as_str())))
}
