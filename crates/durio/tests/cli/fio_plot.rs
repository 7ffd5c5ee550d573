//! bench-fio and fio-plot, as they are, with durio in fio's place: the pictures are drawn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::requirements::{has, search_path, skip};
use crate::sandbox::Sandbox;

const LIBRARY: &str = "fio-plot==1.1.21";

/// The folder with both programs, made once per build folder; the reason, if it cannot be had.
fn programs() -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fio-plot-venv");
    let programs = home.join("bin");
    if !programs.join("bench-fio").exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
        let pip = ["-m", "pip", "install", "--quiet", "--retries", "1", LIBRARY];
        run(Command::new(programs.join("python")).args(pip))?;
    }
    Ok(programs)
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{errors}{}", String::from_utf8_lossy(&output.stdout))),
    }
}

/// A script named fio that is durio.
fn stand_in(sandbox: &Sandbox) -> PathBuf {
    let script = format!("#!/bin/sh\nexec {} fio \"$@\"\n", env!("CARGO_BIN_EXE_durio"));
    sandbox.program("fio", &script)
}

/// Width and height of a PNG.
fn size(picture: &Path) -> (u32, u32) {
    let bytes = fs::read(picture).unwrap();
    assert_eq!(&bytes[1..4], b"PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
#[ignore = "slow"]
fn bench_fio_runs_and_fio_plot_draws_every_kind_of_picture() {
    if !has(&["python3", "python3-venv"]) {
        return;
    }
    let programs = match programs() {
        Ok(programs) => programs,
        Err(reason) => return skip(&format!("no {LIBRARY}: {reason}")),
    };
    let sandbox = Sandbox::new();
    let path = format!("{}:{}", stand_in(&sandbox).display(), search_path());
    let command = |name: &str, line: &str| {
        let mut command = Command::new(programs.join(name));
        command.args(line.split_whitespace()).current_dir(sandbox.root());
        command.env("PATH", &path).env("XDG_STATE_HOME", sandbox.state());
        command.env("HOME", sandbox.root().join("home"));
        command
    };
    let bench = "-d data --type directory -o out -m randread randrw --iodepth 1 4 --numjobs 1 2 \
                 --size 4M --runtime 2 --time-based -b 4k --rwmixread 75 --destructive --quiet";
    run(&mut command("bench-fio", bench)).unwrap();
    let (reads, mixed) = ("-i out/data/4k", "-i out/data/randrw75/4k");
    for (name, line) in [
        ("latency.png", format!("{reads} -l -d 1 4 -n 1 -r randread")),
        ("jobs.png", format!("{reads} -N -d 1 -n 1 2 -r randread")),
        ("bars.png", format!("{reads} -L -t iops -d 1 4 -n 1 2 -r randread")),
        ("histogram.png", format!("{reads} -H -d 4 -n 1 -r randread")),
        ("series.png", format!("{reads} -g -t iops lat bw -d 4 -n 2 -r randread")),
        ("mixed.png", format!("{mixed} -g -t iops lat -d 4 -n 2 -r randrw")),
        ("compare.png", format!("{reads} out/data/4k -C -d 4 -n 1 -r randread")),
    ] {
        let picture = sandbox.root().join(name);
        run(&mut command("fio-plot", &format!("{line} -T {name} -o {name}"))).unwrap();
        let (width, height) = size(&picture);
        assert!(width >= 1000 && height >= 600, "{name}: {width} × {height}");
    }
}
