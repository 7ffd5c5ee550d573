//! The plan of a proof by power cuts and its folder: of a spec, of one command, or of a proof that
//! was interrupted. durio-prove cuts the power.

use std::path::Path;

use durio_command::{CommandError, command_line, random_seed, random_token};
use durio_plan::proof::{CommandTarget, PROOF_PLAN_SCHEMA, ProofPlan, ProofSeries, ProofTarget};
use durio_record::proof::{
    PROOF_FOLDER_SCHEMA, ProofFindings, ProofFolder, ProofManifest, analyse_proof,
};
use durio_spec::{impossible_series, plan_proof, shipped_proof_spec, shipped_proof_specs};

use crate::campaign::{name_if_no_file, read_spec};
use crate::execute::{Execution, RunOptions, save_findings};

/// The plan of a proof spec: of a file, or of the built-in one of this name. `only` leaves the series
/// whose name contains one of these texts.
///
/// # Errors
/// If it cannot be read, has a fault, or nothing is left of it.
pub fn plan_power_proof(
    path: &Path,
    seed: Option<u64>,
    cuts: Option<u32>,
    only: &[String],
    token: Option<&str>,
) -> Result<ProofPlan, CommandError> {
    let built_in = name_if_no_file(path).and_then(shipped_proof_spec);
    let (name, text) = match built_in {
        Some(spec) => (spec.name.into(), spec.text.into()),
        None => read_spec(path, "proof spec", shipped_proof_specs())?,
    };
    let mut plan = plan_proof(&name, &text, seed.unwrap_or_else(random_seed))?;
    if let Some(cuts) = cuts {
        plan.series.iter_mut().for_each(|series| series.cuts = cuts);
    }
    if !only.is_empty() {
        plan.series.retain(|series| only.iter().any(|text| series.name.contains(text.as_str())));
    }
    for series in &mut plan.series {
        if let ProofTarget::Agent(target) = &mut series.target
            && target.token.is_empty()
        {
            target.token = token.map_or_else(random_token, str::to_owned);
        }
    }
    if plan.series.is_empty() {
        return Err(CommandError::wrong_use("no series has one of these texts in its name")
            .hint("--only expects a part of a name, such as flush-ignored/fdatasync"));
    }
    Ok(plan)
}

/// The plan of a proof of one command, with `cuts` power cuts.
///
/// # Errors
/// If no disk has this profile or size.
pub fn plan_command_proof(
    target: CommandTarget,
    cuts: u32,
    seed: Option<u64>,
) -> Result<ProofPlan, CommandError> {
    let program = target.command.first().map(Path::new).and_then(Path::file_name);
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    let series = ProofSeries {
        name: format!("{}/{program}", target.profile),
        target: ProofTarget::Command(target),
        arm: None,
        cuts,
        expected: None,
    };
    let plan = ProofPlan {
        schema: PROOF_PLAN_SCHEMA,
        name: program,
        summary: String::new(),
        seed: seed.unwrap_or_else(random_seed),
        series: vec![series],
    };
    match impossible_series(&plan) {
        None => Ok(plan),
        // The command line has checked all else.
        Some(_) => {
            let text = "a guest's disk must be 16 MiB to 4 GiB and a multiple of 4 KiB";
            Err(CommandError::wrong_use(text).hint("--size sets another one"))
        }
    }
}

/// The folder of a new proof.
///
/// # Errors
/// If it cannot be made or written.
pub fn new_power_proof(
    plan: ProofPlan,
    options: &RunOptions<'_>,
) -> Result<ProofFolder, CommandError> {
    let execution = Execution::begin("prove", options)?;
    let (proof, started) = execution.identity();
    let manifest = ProofManifest {
        schema: PROOF_FOLDER_SCHEMA,
        proof,
        durio_version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        command: command_line(),
        plan,
        outcome: None,
    };
    Ok(ProofFolder::create(execution.folder(), manifest)?)
}

/// The folder of an interrupted proof, which can be continued; a complete one is only shown.
///
/// # Errors
/// If it cannot be read, or its plan is not one that a spec can ask for.
pub fn interrupted_power_proof(path: &Path) -> Result<ProofFolder, CommandError> {
    let folder = ProofFolder::open(path)?;
    if let Some(series) = impossible_series(&folder.manifest.plan) {
        let text = format!("'{}': series '{}' cannot be tried", path.display(), series.name);
        return Err(CommandError::cannot_measure(text)
            .hint("its proof.json was written by another version of durio, or was modified"));
    }
    Ok(folder)
}

/// Saves the findings of a proof next to its record.
///
/// # Errors
/// If they cannot be written.
pub fn save_power_proof(
    folder: &ProofFolder,
    findings: &ProofFindings,
) -> Result<(), CommandError> {
    save_findings(findings, |name, bytes| folder.save(name, bytes))
}

/// The findings of a proof, from its folder.
///
/// # Errors
/// If it cannot be read.
pub fn read_power_proof(path: &Path) -> Result<ProofFindings, CommandError> {
    let folder = ProofFolder::open(path)?;
    Ok(analyse_proof(&folder.manifest, &folder.cuts()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_agents_token_is_that_of_its_spec_else_the_one_that_was_told_else_a_random_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spec.toml");
        let text = "schema = 1\nname = \"hand\"\ncuts = 1\n\
             [[target]]\nname = \"own\"\nlisten = \"127.0.0.1:9\"\ntoken = \"of the spec\"\n\
             [[target]]\nname = \"other\"\nlisten = \"127.0.0.1:8\"\n\
             [[arm]]\npath = \"rwf_dsync\"\ndepth = 4\n";
        fs::write(&path, text).unwrap();
        let tokens = |told| {
            let plan = plan_power_proof(&path, Some(5), None, &[], told).unwrap();
            let series = plan.series.into_iter().map(|series| match series.target {
                ProofTarget::Agent(target) => target.token,
                other => panic!("{other:?}"),
            });
            <[String; 2]>::try_from(series.collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(tokens(Some("told")), ["of the spec", "told"]);
        let ([own, random], [_, again]) = (tokens(None), tokens(None));
        assert_eq!(own, "of the spec");
        // Nobody guesses 128 bits.
        let is_random =
            |token: &str| token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_random(&random) && is_random(&again) && random != again, "{random} {again}");
    }
}
