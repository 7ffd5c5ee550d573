//! `durio fio`: where accesses go, as strace sees it, by the same rules as those of fio on the same job.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::requirements::has;
use crate::sandbox::Sandbox;

#[derive(Debug, Clone, PartialEq)]
struct Access {
    is_write: bool,
    file: String,
    offset: u64,
}

/// The accesses of `length` bytes of each thread that has any, in its order.
type Threads = Vec<Vec<Access>>;

/// What fio, and what durio, does with a job on `data/file` of 16 MiB; none without the programs.
fn traced(job: &str, length: u64) -> Option<[Threads; 2]> {
    if !has(&["fio", "strace"]) {
        return None;
    }
    let mut sandbox = Sandbox::new();
    fs::write(sandbox.data().join("file"), vec![1; 16 << 20]).unwrap();
    fs::write(sandbox.root().join("job.fio"), job).unwrap();
    let durio = env!("CARGO_BIN_EXE_durio");
    let by_durio: &[&str] = &[durio, "fio", "--quiet", "--out", "runs", "--destroy", "data/file"];
    let by_both = [("fio", &["fio"][..]), ("durio", by_durio)].map(|(name, program)| {
        let folder = sandbox.root().join(format!("trace-{name}"));
        fs::create_dir(&folder).unwrap();
        let mut strace = Command::new("strace");
        // A file for each thread: none is interrupted by another.
        strace.args(["-ff", "-y", "-s", "0", "-e", "trace=pread64,pwrite64", "-o"]);
        let strace = strace.arg(folder.join("t")).args(program).arg("job.fio");
        let output = strace.current_dir(sandbox.root()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let thread = |path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines().filter_map(|line| access(line, length)).collect::<Vec<_>>()
        };
        files.iter().map(thread).filter(|accesses| !accesses.is_empty()).collect()
    });
    sandbox.accept_changes();
    Some(by_both)
}

/// `pwrite64(3</x/data/file>, ""..., 4096, 8192) = 4096`, if it is of `length` bytes.
fn access(line: &str, length: u64) -> Option<Access> {
    let (call, rest) = line.split_once("64(")?;
    let (_, rest) = rest.split_once('<')?;
    let (file, rest) = rest.split_once(">, ")?;
    let (arguments, _) = rest.rsplit_once(')')?;
    let mut arguments = arguments.rsplit(", ");
    let offset = arguments.next()?.parse().ok()?;
    let found: u64 = arguments.next()?.parse().ok()?;
    let is_write = call == "pwrite";
    (length == found && file.contains("/data")).then(|| Access {
        is_write,
        file: file.to_owned(),
        offset,
    })
}

/// The blocks of the writes, or of the reads, from `begin` on.
fn blocks(thread: &[Access], is_write: bool, (begin, length): (u64, u64)) -> Vec<u64> {
    let kept = thread.iter().filter(|access| access.is_write == is_write);
    kept.map(|access| (access.offset - begin) / length).collect()
}

const NAMES: [&str; 2] = ["fio", "durio"];
const K: u64 = 1024;

#[test]
fn writes_in_sequence_beside_random_reads_are_one_after_the_other() {
    let job = "[global]\nfilename=data/file\nrw=randrw\npercentage_random=100,0\nbs=32k\ndirect=1\n\
               [a]\noffset=1m\nsize=4m\n[b]\noffset=6m\nsize=8m\nrwmixread=30\n";
    for (name, mut threads) in NAMES.into_iter().zip(traced(job, 32 * K).into_iter().flatten()) {
        threads.sort_by_key(Vec::len);
        assert_eq!(threads.iter().map(Vec::len).collect::<Vec<_>>(), [128, 256], "{name}");
        for (thread, begin, all) in [(&threads[0], 1, 128), (&threads[1], 6, 256)] {
            let place = (begin << 20, 32 * K);
            let writes = blocks(thread, true, place);
            assert_eq!(writes, (0..writes.len() as u64).collect::<Vec<_>>(), "{name}");
            let reads = blocks(thread, false, place);
            let distinct: BTreeSet<u64> = reads.iter().copied().collect();
            assert_eq!((distinct.len(), reads.len() + writes.len()), (reads.len(), all), "{name}");
            assert!(reads.iter().all(|&block| block < all as u64), "{name}: {reads:?}");
            assert!(reads.len() > 30 && reads.windows(2).any(|pair| pair[1] < pair[0]), "{name}");
        }
    }
}

#[test]
fn a_full_map_of_blocks_starts_both_places_over() {
    let job = "[a]\nfilename=data/file\nrw=randrw\npercentage_random=100,0\nbs=16k\ndirect=1\n\
               offset=3m\nsize=256k\ntime_based\nruntime=1\n";
    for (name, threads) in NAMES.into_iter().zip(traced(job, 16 * K).into_iter().flatten()) {
        let (mut next, mut touched, mut passes) = (0, BTreeSet::new(), 0);
        for access in threads.concat() {
            let block = (access.offset - (3 << 20)) / (16 * K);
            if access.is_write {
                assert_eq!(block, next, "{name}, pass {passes} after {touched:?}");
                next = (next + 1) % 16;
                continue;
            }
            if touched.len() == 16 {
                (touched, next, passes) = (BTreeSet::new(), 0, passes + 1);
            }
            assert!(touched.insert(block), "{name}: {block} twice, {touched:?}");
        }
        assert!(passes > 2, "{name}: {passes}");
    }
}

#[test]
fn a_sequential_mix_has_a_place_for_reads_and_one_for_writes() {
    let job = "[a]\nfilename=data/file\nreadwrite=rw\nbs=8k\ndirect=1\noffset=1m\nsize=4m\n";
    for (name, threads) in NAMES.into_iter().zip(traced(job, 8 * K).into_iter().flatten()) {
        let all = threads.concat();
        assert_eq!(all.len(), 512, "{name}");
        for is_write in [false, true] {
            let found = blocks(&all, is_write, (1 << 20, 8 * K));
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "{name}");
            assert!(found.len() > 180, "{name}: {}", found.len());
        }
    }
}

#[test]
fn zones_are_hot_without_norandommap() {
    let head = "[hot]\nfilename=data/file\nrw=randread\nbs=4k\nsize=8m\nio_size=16m\ndirect=1\n";
    for (distribution, bounds, shares) in [
        ("zoned:50/5:30/15:20/80", [0, 102, 409, 2048], [0.5, 0.3, 0.2]),
        ("zoned_abs:60/1m:30/2m:10/5m", [0, 256, 768, 2048], [0.6, 0.3, 0.1]),
    ] {
        let job = format!("{head}random_distribution={distribution}\n");
        for (name, threads) in NAMES.into_iter().zip(traced(&job, 4 * K).into_iter().flatten()) {
            let found = blocks(&threads.concat(), false, (0, 4 * K));
            assert!(found.len() >= 4096, "{name}: {}", found.len());
            for (zone, expected) in bounds.windows(2).zip(shares) {
                let within =
                    found.iter().filter(|block| (zone[0]..zone[1]).contains(*block)).count();
                let share = within as f64 / found.len() as f64;
                // Five standard deviations of 4096 draws are 0.04.
                assert!(
                    (share - expected).abs() < 0.04,
                    "{name}, {zone:?} of {distribution}: {share}"
                );
            }
        }
    }
}

#[test]
fn jobs_have_the_names_that_fio_gives_them() {
    if !has(&["fio"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let long = "n".repeat(185);
    let job = format!(
        "[global]\nname=suite\nfilename=data/user.db\nrw=read\nsize=64k\nbs=4k\n[first]\n\
         [second]\nname=own\n[{long}]\n"
    );
    fs::write(sandbox.root().join("job.fio"), job).unwrap();
    let names = |program: &str, words: &[&str]| -> Vec<String> {
        let mut command = Command::new(program);
        command.args(words).args(["--output-format=json", "job.fio"]);
        let output = command.current_dir(sandbox.root()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let document: serde_json::Value =
            serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let jobs = document["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["jobname"].as_str().unwrap().to_owned()).collect()
    };
    let by_fio = names("fio", &[]);
    let by_durio = names(env!("CARGO_BIN_EXE_durio"), &["fio"]);
    sandbox.accept_changes();
    assert_eq!(by_fio, ["first", "own", &long[..127]]);
    assert_eq!(by_durio, by_fio);
}
