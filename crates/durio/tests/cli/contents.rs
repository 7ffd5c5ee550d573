//! What is written, as gzip, lz4 and zstd judge it, and as a count of distinct blocks does.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::requirements::has;
use crate::sandbox::Sandbox;

/// Bytes of the file that is written once, in order.
const SIZE: usize = 4 << 20;

/// The block of storages that compress or deduplicate.
const BLOCK: usize = 4096;

const COMPRESSORS: [&[&str]; 3] = [&["gzip", "-6"], &["lz4", "-c"], &["zstd", "-3", "-c"]];

const PROGRAMS: [&str; 3] = ["gzip", "lz4", "zstd"];

/// What `data` has after compression, in percent of what it had.
fn compressed_percent(command: &[&str], data: &[u8]) -> f64 {
    let mut program = Command::new(command[0]);
    program.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(data).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{command:?}");
    100.0 * output.stdout.len() as f64 / data.len() as f64
}

/// A file of zeros to write over, and what it holds after `line` has done so.
fn written_by(sandbox: &Sandbox, line: &str) -> Vec<u8> {
    let file = sandbox.data().join("written");
    fs::write(&file, vec![0; SIZE]).unwrap();
    let line = format!("{line} --quiet --destroy data/written");
    sandbox.durio(&line).run().expect_exit(0);
    let data = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    data
}

/// What a spec's step writes with `keys`.
fn written_with(sandbox: &Sandbox, block_size: usize, keys: &str) -> Vec<u8> {
    let spec = format!(
        "schema = 1\nname = \"once\"\nself_cost = false\n[[target]]\nname = \"data\"\n[[step]]\n\
         name = \"write\"\nreads = \"0%\"\nblock_size = \"{block_size}B\"\nloops = 1\n{keys}\n"
    );
    fs::write(sandbox.root().join("once.toml"), spec).unwrap();
    written_by(sandbox, "run once.toml --target data/written --create")
}

/// Asserts that every compressor gives `percent` within 3 points: of the whole, and of single
/// blocks in the mean.
fn expect_compressed(what: &str, data: &[u8], block_size: usize, percent: f64) {
    for command in COMPRESSORS {
        let whole = compressed_percent(command, data);
        assert!((whole - percent).abs() <= 3.0, "{what}: {command:?} gives {whole:.2} %");
        let blocks: Vec<_> = data.chunks(block_size).step_by(SIZE / block_size / 8).collect();
        let sum: f64 = blocks.iter().map(|block| compressed_percent(command, block)).sum();
        let each = sum / blocks.len() as f64;
        assert!((each - percent).abs() <= 3.0, "{what}: {command:?} gives {each:.2} % per block");
    }
}

fn distinct_percent(data: &[u8]) -> f64 {
    let blocks: HashSet<&[u8]> = data.chunks(BLOCK).collect();
    100.0 * blocks.len() as f64 / (data.len() / BLOCK) as f64
}

#[test]
fn by_default_every_block_is_unique_and_nothing_compresses() {
    if !has(&PROGRAMS) {
        return;
    }
    let sandbox = Sandbox::new();
    for (bs, engine) in [("4k", "sync"), ("64k", "sync"), ("4k", "uring --depth 16 --batch 8")] {
        let ops = SIZE / if bs == "4k" { 4 << 10 } else { 64 << 10 };
        let line = format!(
            "run --rw write --bs {bs} --ops {ops} --engine {engine} --no-self-cost --target \
             data/written"
        );
        let data = written_by(&sandbox, &line);
        let what = format!("{bs} {engine}");
        assert_eq!(distinct_percent(&data), 100.0, "{what}");
        expect_compressed(&what, &data, BLOCK, 100.0);
        // Whatever is found across 128 MiB would be found here.
        let far = compressed_percent(&["zstd", "-19", "--long=27", "-c"], &data);
        assert!(far > 99.9, "{what}: {far:.2} %");
    }
}

#[test]
fn requested_shares_hold_by_every_compressor_at_both_sizes() {
    if !has(&PROGRAMS) {
        return;
    }
    let sandbox = Sandbox::new();
    for block_size in [4096, 65_536] {
        for percent in [20, 50, 75] {
            let keys = format!("compressible = \"{percent}%\"");
            let data = written_with(&sandbox, block_size, &keys);
            let what = format!("{percent} % of {block_size}");
            expect_compressed(&what, &data, block_size, f64::from(100 - percent));
            assert_eq!(distinct_percent(&data), 100.0, "{what}");
        }
    }
}

#[test]
fn duplicates_are_the_share_that_was_asked_for() {
    let sandbox = Sandbox::new();
    for block_size in [4096, 65_536] {
        for percent in [20, 50] {
            let keys = format!("duplicates = \"{percent}%\"\ncompressible = \"40%\"");
            let data = written_with(&sandbox, block_size, &keys);
            let distinct = distinct_percent(&data);
            let wanted = f64::from(100 - percent);
            assert!((distinct - wanted).abs() <= 3.0, "{distinct} % of {block_size} differ");
        }
    }
}

#[test]
fn what_was_written_is_said_before_and_after() {
    let sandbox = Sandbox::new();
    let spec = "schema = 1\nname = \"once\"\nself_cost = false\n[[target]]\nname = \"data\"\nsize = \
                \"4MiB\"\n[[step]]\nname = \"write\"\nreads = \"0%\"\noperations = 50\n\
                compressible = \"50%\"\nduplicates = \"20%\"\n";
    fs::write(sandbox.root().join("spec.toml"), spec).unwrap();
    let words = "compressible to 50 %, 20 % of blocks repeat";
    let plan = sandbox.durio("plan spec.toml --target data").run().expect_exit(0);
    assert!(plan.text().contains(&format!("data: {words}")), "{}", plan.text());
    let report =
        sandbox.durio("run spec.toml --quiet --target data --verbose").run().expect_exit(0);
    assert!(report.text().contains(words), "{}", report.text());
    let line = "run --quiet --rw write --ops 20 --size 4MiB --target data --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let data = &document["workloads"][0]["data"]["contents"];
    assert_eq!(data, "incompressible, every block unique");
}

/// The file that fio 3.33 writes, and the one that durio writes from the same job.
fn by_both(sandbox: &Sandbox, options: &str, bs: &str) -> [Vec<u8>; 2] {
    let job = format!(
        "[job]\nfilename=data/written\nrw=write\nbs={bs}\nsize={SIZE}\nioengine=psync\n{options}\n"
    );
    fs::write(sandbox.root().join("job.fio"), job).unwrap();
    let file = sandbox.data().join("written");
    fs::write(&file, vec![0; SIZE]).unwrap();
    let mut fio = Command::new("fio");
    let fio = fio.args(["--output=/dev/null", "job.fio"]).current_dir(sandbox.root());
    assert!(fio.status().unwrap().success(), "{options}");
    let by_fio = fs::read(&file).unwrap();
    [by_fio, written_by(sandbox, "fio job.fio")]
}

#[test]
fn options_of_fio_write_what_fio_writes_as_far_as_storage_can_tell() {
    if !has(&["fio", "gzip", "lz4", "zstd"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for options in [
        "",
        "scramble_buffers=0",
        "refill_buffers",
        "zero_buffers",
        "buffer_pattern=0xdeadbeef",
        "buffer_pattern=\"durio\"",
        "buffer_compress_percentage=50",
        "dedupe_percentage=20",
        "dedupe_percentage=20\nbuffer_compress_percentage=50\nbuffer_compress_chunk=4k",
    ] {
        for bs in ["4k", "64k"] {
            // fio draws for each write: 64 of them would scatter by 15 points.
            if options.contains("dedupe") && bs == "64k" {
                continue;
            }
            let [by_fio, by_durio] = by_both(&sandbox, options, bs);
            for command in COMPRESSORS {
                // fio repeats the write before, durio one of the last 64: what lies between is
                // beyond the windows of gzip and lz4.
                if options.contains("dedupe") {
                    continue;
                }
                let percents = [&by_fio, &by_durio].map(|data| compressed_percent(command, data));
                let apart = (percents[0] - percents[1]).abs();
                assert!(apart <= 3.0, "{options} {bs} {command:?}: fio and durio {percents:.2?} %");
            }
            let distinct = [&by_fio, &by_durio].map(|data| distinct_percent(data));
            // Of 1024 draws four standard deviations are 5 points.
            let most = if options.contains("dedupe") { 5.0 } else { 3.0 };
            let apart = (distinct[0] - distinct[1]).abs();
            assert!(apart <= most, "{options} {bs}: {distinct:.2?} % differ");
        }
    }
}

#[test]
fn sequential_jobs_have_a_share_each_and_sharing_is_told() {
    let sandbox = Sandbox::new();
    let line =
        "run --rw write --bs 4k --jobs 4 --ops 1024 --no-self-cost --target data/written --create";
    let data = written_by(&sandbox, line);
    assert!(data.chunks(BLOCK).all(|block| block.iter().any(|byte| *byte != 0)), "all is written");
    let data = written_by(&sandbox, &format!("{line} --shared"));
    let zeros = data.chunks(BLOCK).filter(|block| block.iter().all(|byte| *byte == 0)).count();
    assert_eq!(zeros, 768, "four jobs overwrote the same quarter");
    let shared = "run --quiet --rw read --jobs 4 --ops 100 --size 4MiB --target data --format json";
    let codes = |line: &str| {
        let document = sandbox.durio(line).run().expect_exit(0).json();
        document["warnings"].to_string().contains("shared-blocks")
    };
    assert!(!codes(shared));
    assert!(codes(&format!("{shared} --shared")));
}

#[test]
fn a_plan_says_where_sequential_jobs_share_their_blocks() {
    let sandbox = Sandbox::new();
    let spec = |region: &str| {
        format!(
            "schema = 1\nname = \"s\"\n[[target]]\nname = \"data\"\nsize = \"4MiB\"\n[[step]]\nname \
             = \"scan\"\njobs = 2\nduration = \"1s\"\n{region}\n"
        )
    };
    for (region, is_told) in [("", false), ("region = \"shared\"", true)] {
        fs::write(sandbox.root().join("s.toml"), spec(region)).unwrap();
        let plan = sandbox.durio("plan s.toml --target data").run().expect_exit(0);
        assert_eq!(plan.text().contains("access the same blocks"), is_told, "{}", plan.text());
    }
    let job = "[a]\nfilename=data/user.db\nrw=read\nsize=1m\nnumjobs=3\n";
    fs::write(sandbox.root().join("job.fio"), job).unwrap();
    let document = sandbox.durio("fio --quiet --format json job.fio").run().expect_exit(0).json();
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("3 jobs access the same blocks"), "{warnings}");
}
