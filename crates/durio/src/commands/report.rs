//! `durio report`: every view again, from the run folder alone.

use durio_analyse::Analyser;
use durio_record::RunFolder;

use crate::args::Report;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn report(arguments: &Report) -> Result<Exit, Failure> {
    let folder = RunFolder::open(&arguments.run)?;
    let mut analyser =
        Analyser::new(folder.manifest.clone(), folder.plan.clone(), folder.environment.clone());
    if arguments.format.shows_histograms() {
        analyser.keep_histograms();
    }
    let mut exit = Exit::Fine;
    for event in folder.events()? {
        match event {
            Ok(timed) => analyser.observe(&timed.event),
            // What can be read is shown; the rest is missing, and the reader is told.
            Err(error) => {
                let failure = Failure::from(error);
                let damage = format!("the record is damaged: {:#}", failure.error);
                output::remark(&format!("durio: {damage}; the report ends there"));
                analyser.damaged(damage);
                exit = Exit::CannotMeasure;
                break;
            }
        }
    }
    let path = std::path::absolute(&arguments.run).unwrap_or_else(|_| arguments.run.clone());
    let findings = analyser.finish(path.display().to_string());
    output::findings(arguments.format, &findings)?;
    Ok(exit)
}
