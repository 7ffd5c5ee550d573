//! Command lines with a built-in spec in help and documents can be planned as they stand.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::sandbox::Sandbox;

/// The words of `command` wherever the reference and the documents have it, without comments.
fn shown(command: &str) -> BTreeSet<Vec<String>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let files = ["reference/commands.md", "how-to/raid-and-filesystem.md", "how-to/campaigns.md"]
        .into_iter()
        .chain([
            "how-to/measuring-a-device.md",
            "explanation/steady-state.md",
            "tutorial/goals.md",
        ]);
    let text: String = files.map(|file| fs::read_to_string(docs.join(file)).unwrap()).collect();
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("$ "));
    lines
        .filter_map(|line| line.strip_prefix(command)?.strip_prefix(' '))
        .map(|line| line.split(" #").next().unwrap_or(line))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect()
}

/// The spec and the options of `words` that decide what is done, if the spec is a built-in one.
fn planned(words: &[String]) -> Option<Vec<String>> {
    let spec = words.first().filter(|word| !word.starts_with('-') && !word.contains(".toml"))?;
    let mut kept = vec![spec.clone()];
    for pair in words.windows(2) {
        if ["--only", "--scale-time", "--scale-size"].contains(&pair[0].as_str()) {
            kept.extend_from_slice(pair);
        }
    }
    Some(kept)
}

/// Plans each, with `options` added; the specs.
fn plan_all(shown_as: &str, plan: &str, options: &[&str]) -> BTreeSet<String> {
    let sandbox = Sandbox::new();
    let lines: BTreeSet<_> = shown(shown_as).iter().filter_map(|it| planned(it)).collect();
    for line in &lines {
        let words = line.iter().map(String::as_str).chain(options.iter().copied());
        let command = words.fold(sandbox.durio(plan), |command, word| command.word(word));
        command.run().expect_exit(0).expect_no_stderr();
    }
    lines.into_iter().map(|line| line[0].clone()).collect()
}

#[test]
fn stacks_proofs_and_campaigns_that_help_and_documents_show_can_be_planned() {
    let stacks = plan_all("durio stack bench", "stack plan", &[]);
    assert!(stacks.contains("loop-layers") && stacks.len() >= 4, "{stacks:?}");
    let proofs = plan_all("durio prove run", "prove plan", &[]);
    assert!(proofs.contains("prove-smoke"), "{proofs:?}");
    let campaigns = plan_all("durio run", "plan", &["--target", "data"]);
    assert!(campaigns.contains("db-ladder") && campaigns.len() >= 4, "{campaigns:?}");
}
