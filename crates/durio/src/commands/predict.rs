//! `durio predict`: predicts a database's commits on this storage.

use std::ffi::OsStr;

use durio_bench::{BenchError, BenchErrorKind, LocatedPlaces};
use durio_spec::{PredictRequest, plan_predict};

use super::{check, profile};
use crate::args::Predict;
use crate::exit_code::Exit;
use crate::measure::{begin, execute, locate};

pub(super) fn predict(arguments: &Predict) -> Result<Exit, BenchError> {
    let options = &arguments.common;
    let profile = profile::read(OsStr::new(&arguments.database), &arguments.settings)?;
    let directory = [arguments.directory.clone()];
    let LocatedPlaces { places, held } = locate(&directory, options)?;
    let missing = || BenchError::new(BenchErrorKind::Fault, "a path was located nowhere");
    let execution = begin("predict", options)?;
    let plan = plan_predict(&PredictRequest {
        profile,
        log: places.into_iter().next().ok_or_else(missing)?,
        clients: arguments.clients.clone(),
        settings: arguments.settings.clone(),
        goals: arguments.goals.clone(),
        duration: arguments.duration,
        seed: execution.seed,
        clock: options.clock,
        file_name: execution.file_name(),
    })?;
    let (exit, findings) = execute(&execution, &plan, held, options)?;
    Ok(if exit == Exit::Fine { check::verdict(&findings, &[]) } else { exit })
}
