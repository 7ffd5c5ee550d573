//! A bench folder as text: which runs there are, what became of each layer, how to report them.

use std::fmt::Write;
use std::path::Path;

use durio_layers::DeclaredStack;
use durio_record::Outcome;
use durio_record::bench::{BenchLayer, BenchManifest, BenchStack, LayerState, TearDown};
use durio_report::visible;

/// What became of each stack and layer, as text; with `whole` also of those that went well.
pub fn listing(manifest: &BenchManifest<DeclaredStack>, folder: &Path, whole: bool) -> String {
    let mut text = String::new();
    line(&mut text, &format!("BENCH {}: {}", manifest.name, state(manifest.outcome)));
    if whole && !manifest.summary.is_empty() {
        line(&mut text, &manifest.summary);
    }
    let labels = manifest.stacks.iter().flat_map(|stack| &stack.layers);
    // Names are the user's: control characters are spelt out, and take more room.
    let width = labels.map(|layer| visible(&layer.label).chars().count()).max().unwrap_or(0);
    // That all went well takes no list.
    let is_told = |stack: &&BenchStack<DeclaredStack>| {
        whole || manifest.outcome != Some(Outcome::Complete) || !remarks(stack).is_empty()
    };
    for stack in manifest.stacks.iter().filter(is_told) {
        text.push('\n');
        line(&mut text, &stack.declared.name);
        for layer in &stack.layers {
            let run = layer.run.as_deref().unwrap_or("-");
            let padding = " ".repeat(width.saturating_sub(visible(&layer.label).chars().count()));
            let words = words(layer);
            line(&mut text, &format!("  {}{padding}  {words:<9}  {run}", layer.label));
        }
        for remark in remarks(stack) {
            line(&mut text, &format!("  ! {remark}"));
        }
    }
    let first = manifest
        .stacks
        .iter()
        .flat_map(|stack| &stack.layers)
        .find_map(|layer| layer.run.as_deref());
    if let Some(run) = first {
        text.push('\n');
        line(&mut text, &format!("each run: durio report {}", folder.join(run).display()));
    }
    line(&mut text, &format!("bench folder: {}", folder.display()));
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", visible(line.trim_end()));
}

const fn state(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Complete) => "complete",
        Some(Outcome::Interrupted) => "INTERRUPTED",
        Some(Outcome::Failed) => "something failed",
        None => "PARTIAL: it runs, or was killed",
    }
}

const fn words(layer: &BenchLayer) -> &'static str {
    match layer.state {
        LayerState::Waiting => "-",
        LayerState::Built => "built",
        LayerState::Measured => "measured",
        LayerState::Partial => "PARTIAL",
        LayerState::Failed => "FAILED",
        LayerState::Unknown => "unknown",
    }
}

fn remarks(stack: &BenchStack<DeclaredStack>) -> Vec<String> {
    let left = match &stack.tear_down {
        Some(TearDown::Failed { reason }) => {
            Some(format!("not taken down: {reason}; durio stack clean tries again"))
        }
        _ => None,
    };
    stack.failure.iter().cloned().chain(left).collect()
}
