//! Guests of the lab for tests that need one: a sandbox that sees this machine's kernels, and the rows
//! of a bench.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::durio::Durio;
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

/// A sandbox in which `durio lab` finds a kernel; none, and said so, where none can be booted.
pub(crate) fn bootable(programs: &[&str]) -> Option<Sandbox> {
    if !has(&["qemu-system-x86_64", "modprobe"]) || !has(programs) {
        return None;
    }
    let sandbox = Sandbox::new();
    if with_kernels(&sandbox, "lab kernels").run().code() != 0 {
        skip("no kernel with its modules is there; cargo xtask lab kernel fetches one");
        return None;
    }
    Some(sandbox)
}

/// durio without symbols and debug information: each guest unpacks its copy of the program into memory,
/// and they are two thirds of a debug build.
fn stripped() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let (built, folder) = (env!("CARGO_BIN_EXE_durio"), env!("CARGO_TARGET_TMPDIR"));
        // Moved when it is whole: another process of these tests may make one too.
        let scratch = tempfile::tempdir_in(folder).unwrap();
        let made = scratch.path().join("durio");
        let status = Command::new("strip").arg("-o").arg(&made).arg(built).status();
        if !status.is_ok_and(|status| status.success()) {
            return PathBuf::from(built);
        }
        let program = Path::new(folder).join("durio-stripped");
        fs::rename(made, &program).unwrap();
        program
    })
}

/// A command of durio that looks for kernels where the user's are. An emulated guest computes all the
/// time and is waited for: measurements of other tests come first.
pub(crate) fn with_kernels(sandbox: &Sandbox, line: &str) -> Durio {
    let of_ours = |name: &str| std::env::var_os(name).unwrap_or_default();
    let line = sandbox.durio(line).program(stripped()).within(["nice", "-n", "5"]);
    let line = line.env("DURIO_KERNELS", of_ours("DURIO_KERNELS"));
    line.env("HOME", of_ours("HOME")).env("XDG_CACHE_HOME", of_ours("XDG_CACHE_HOME"))
}

pub(crate) use benches::{benched, p50, row};

/// Slow, all of them.
mod benches {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    /// What a bench in a guest found, always with the same seed.
    pub(crate) fn benched(sandbox: &Sandbox, options: &str, patience: Duration) -> Value {
        let line = format!("stack bench --lab --quiet --seed 7 --format json --out out {options}");
        with_kernels(sandbox, &line).start().wait_at_most(patience).expect_exit(0).json()
    }

    /// The row of a workload (`write`; `ladder, depth 16`) on a layer of a stack, counted from the bottom.
    #[track_caller]
    pub(crate) fn row<'a>(
        bench: &'a Value,
        workload: &str,
        stack: &str,
        layer: usize,
    ) -> &'a Value {
        let points = bench["points"].as_array().unwrap();
        let mut of_stack = points.iter().enumerate().filter(|(_, point)| point["stack"] == stack);
        let (at, _) = of_stack.nth(layer).unwrap_or_else(|| panic!("no layer {layer} in {stack}"));
        let is_it = |it: &&Value| {
            let level = it["key"]["levels"][0].as_str();
            let name = it["key"]["workload"].as_str().unwrap();
            workload == level.map_or(name.to_owned(), |level| format!("{name}, {level}"))
        };
        let workloads = bench["workloads"].as_array().unwrap();
        let rows = workloads.iter().find(is_it).unwrap_or_else(|| panic!("no {workload}: {bench}"));
        &rows["rows"][at]
    }

    /// Median service time of a row, in nanoseconds.
    #[track_caller]
    pub(crate) fn p50(bench: &Value, workload: &str, stack: &str, layer: usize) -> f64 {
        let row = row(bench, workload, stack, layer);
        row["figures"]["service"]["p50_ns"].as_f64().unwrap_or_else(|| panic!("no figures: {row}"))
    }
}
