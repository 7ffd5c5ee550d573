//! Builds a declared stack, holds it until its standard input ends, and tears it down: the process
//! that tests kill.
//!
//! In: a file with a stack in JSON. Out: one line for each command and layer. Not here: workloads.
//!
//! ```text
//! build_stack plan FILES STACK.json
//! build_stack build JOURNALS FILES STACK.json [--force] [--destroy DEVICE]...
//! build_stack clean JOURNALS
//! ```

use std::error::Error;
use std::io::{Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use durio_layers::DeclaredStack;
use durio_layers::{BuildOptions, BuildPlace, BuildProgress, Builder};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["plan", files, stack] => plan(Path::new(files), Path::new(stack)),
        ["build", journals, files, stack, options @ ..] => {
            build(Path::new(journals), Path::new(files), Path::new(stack), options)
        }
        ["clean", journals] => clean(Path::new(journals)),
        _ => Err("say plan, build or clean, as the source says".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn plan(files: &Path, stack: &Path) -> Result<(), Box<dyn Error>> {
    let place = BuildPlace::with_id("0000000", files);
    for command in durio_layers::commands(&read(stack)?, &place)? {
        say(&command.action.to_string());
        if let Some(undo) = command.undo {
            say(&format!("    undone by: {undo}"));
        }
    }
    Ok(())
}

fn build(
    journals: &Path,
    files: &Path,
    stack: &Path,
    options: &[&str],
) -> Result<(), Box<dyn Error>> {
    let stack = read(stack)?;
    let mut place = BuildPlace::new(files);
    place.force = options.contains(&"--force");
    let named = options.windows(2).filter(|pair| pair.first() == Some(&"--destroy"));
    place.destroy = named.filter_map(|pair| pair.get(1)).map(Into::into).collect();
    let told = |progress: BuildProgress<'_>| match progress {
        BuildProgress::Command(text) => say(&format!("  {text}")),
        BuildProgress::Syncing { done, all, .. } => say(&format!("  in sync: {done} of {all}")),
        BuildProgress::Undo(text) => say(&format!("  undo: {text}")),
        BuildProgress::LeftAlone { undo, why } => say(&format!("  left alone: {undo}: {why}")),
    };
    let options = BuildOptions { stop: &|| false, progress: &told };
    let mut builder = Builder::new(&stack, &place, journals, options)?;
    while let Some(layer) = builder.build_next()? {
        let devices: Vec<String> = layer.devices.iter().map(|d| d.display().to_string()).collect();
        let mount = layer.mount.map(|mount| format!(" mount {}", mount.display()));
        let (index, devices) = (layer.index, devices.join(" "));
        say(&format!("layer {index}: {devices}{}", mount.unwrap_or_default()));
    }
    say("built");
    stdin().read_to_end(&mut Vec::new())?;
    builder.tear_down()?;
    say("torn down");
    Ok(())
}

fn clean(journals: &Path) -> Result<(), Box<dyn Error>> {
    for outcome in durio_layers::clean(journals) {
        say(&format!("{} {}: {:?}", outcome.id, outcome.stack, outcome.state));
    }
    Ok(())
}

fn read(path: &Path) -> Result<DeclaredStack, Box<dyn Error>> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// Whoever listens may have gone; the stack must come down all the same.
fn say(text: &str) {
    drop(writeln!(stdout(), "{text}"));
}
