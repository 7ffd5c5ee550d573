//! `durio prove plan`: shows what a proof would try.

use durio_bench::{BenchError, plan_power_proof};
use durio_spec::{plan_proof, proof_spec_json_schema, shipped_proof_specs};

use crate::args::ProvePlan;
use crate::exit_code::Exit;
use crate::output;

pub(super) fn plan(arguments: &ProvePlan) -> Result<Exit, BenchError> {
    let Some(spec) = &arguments.spec else {
        let text = if arguments.schema { proof_spec_json_schema() } else { listing()? };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    output::refuse_fio(arguments.output, "PROOF")?;
    // A proof draws its seed; a plan does not need one.
    let plan = plan_power_proof(spec, Some(0), None, &arguments.only, None)?;
    output::report(arguments.output, &plan).map(|()| Exit::Fine)
}

/// Names and summaries of the specs within the program.
fn listing() -> Result<String, BenchError> {
    let width = shipped_proof_specs().iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let mut text = String::from("Built-in proof specs; durio prove plan NAME shows one:\n\n");
    for shipped in shipped_proof_specs() {
        let plan = plan_proof(shipped.name, shipped.text, 0)?;
        text.push_str(&format!("  {:width$}  {}\n", shipped.name, plan.summary));
    }
    Ok(text)
}
