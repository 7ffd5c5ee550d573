//! A bench folder as findings: what each layer costs.

use std::path::Path;

use durio_analyse::Findings;
use durio_analyse::attribution::{StackFindings, Timing, attribution, bench_of};
use durio_observe::LabTiming;
use durio_record::bench::BenchFolder;

use crate::commands::analysed;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

/// The findings of a bench folder, as far as its runs can be read.
pub(crate) fn stack_findings(folder: &BenchFolder) -> Result<(StackFindings, Exit), Failure> {
    let mut exit = Exit::Fine;
    let mut findings: Vec<Vec<Option<Findings>>> = Vec::new();
    for stack in &folder.manifest.stacks {
        let mut of_stack = Vec::new();
        for layer in &stack.layers {
            let path = layer.run.as_deref().and_then(|run| folder.run(run));
            of_stack.push(path.and_then(|path| run_findings(&path, &mut exit)));
        }
        findings.push(of_stack);
    }
    let timing = findings.iter().flatten().flatten().find_map(timing_of);
    let bench = bench_of(&folder.manifest, &findings, timing);
    let declined = |error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context("nothing was measured"),
        hints: Vec::new(),
    };
    attribution(&bench).map(|found| (found, exit)).map_err(declined)
}

/// A run that cannot be read is a row without figures; the rest is shown.
fn run_findings(path: &Path, exit: &mut Exit) -> Option<Findings> {
    match analysed(path, false) {
        Ok((findings, of_run)) => {
            if of_run != Exit::Fine {
                *exit = of_run;
            }
            Some(findings)
        }
        Err(failure) => {
            output::remark(&format!("durio: {}: {:#}", path.display(), failure.error));
            *exit = Exit::CannotMeasure;
            None
        }
    }
}

fn timing_of(findings: &Findings) -> Option<Timing> {
    findings.host.lab.as_ref().map(|lab| match lab.timing {
        LabTiming::Counted => Timing::Counted,
        LabTiming::Wall => Timing::Wall,
    })
}
