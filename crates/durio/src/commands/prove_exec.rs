//! `durio prove exec`: power cuts under a user's command.

use std::path::{Path, PathBuf};

use durio_bench::{BenchError, BenchErrorKind, RunOptions, new_power_proof, plan_command_proof};
use durio_lab::LabRoot;
use durio_plan::proof::{CommandGuest, CommandTarget, GuestLayers};
use durio_prove::{name_kernels, prove_power};

use super::{lab, prove, simdisk};
use crate::args::ProveExec;
use crate::exit_code::Exit;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn exec(arguments: &ProveExec) -> Result<Exit, BenchError> {
    prove::refuse_fio(arguments.output)?;
    let mut plan = plan_command_proof(target(arguments)?, arguments.cuts, arguments.seed)?;
    let options = RunOptions { out: arguments.out.as_deref(), ..RunOptions::default() };
    let stop = stop_on_signals()?;
    name_kernels(&mut plan)?;
    let folder = new_power_proof(plan, &options)?;
    prove::conclude(arguments.output, prove_power(folder, &stop, &Terminal::new(false))?)
}

fn target(arguments: &ProveExec) -> Result<CommandTarget, BenchError> {
    let ProveExec { check, setup, load, size, front_end, write_cache, .. } = arguments;
    let files = arguments.files.iter().map(|given| {
        let file = lab::file(given)
            .map_err(|error| BenchError::of(BenchErrorKind::CannotMeasure, error))?;
        Ok([written(&file.source.canonicalize().unwrap_or(file.source))?, written(&file.guest)?])
    });
    let guest = CommandGuest {
        kernel: arguments.kernel.clone(),
        shares_root: arguments.root == LabRoot::Shared,
        tools: arguments.tools.clone(),
        files: files.collect::<Result<_, BenchError>>()?,
        memory: arguments.memory,
        limit: arguments.time_limit,
    };
    let directory = here(Path::new("."))?;
    let mut command = arguments.command.clone();
    if let Some(program) = command.first_mut().filter(|it| it.contains('/')) {
        // A hermetic guest runs it in another folder.
        *program = written(&here(Path::new(program.as_str()))?)?;
    }
    Ok(CommandTarget {
        command,
        setup: setup.clone(),
        check: check.clone(),
        directory: written(&directory)?,
        load: *load,
        profile: simdisk::known(&arguments.disk)?.name.to_owned(),
        size: *size,
        front_end: *front_end,
        write_cache: *write_cache,
        layers: GuestLayers::EXT4,
        guest,
    })
}

fn here(path: &Path) -> Result<PathBuf, BenchError> {
    std::path::absolute(path).map_err(|error| BenchError::io("find", path, error))
}

/// The record is JSON.
fn written(path: &Path) -> Result<String, BenchError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| BenchError::wrong_use(format!("the path '{}' is not UTF-8", path.display())))
}
