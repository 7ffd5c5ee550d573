//! What a job does to its files, by strace: of fio and of durio alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// What is compared of two traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Kind, file, offset and length of each access, in order.
    Accesses,
    /// The same in any order.
    AccessSet,
    /// Accesses in each call of `io_submit`.
    Submissions,
    /// The names of the calls that move data.
    Calls,
    /// What is said of order and reuse by `fadvise64`.
    Advice,
    /// After which of the accesses to its file each call drops cached pages.
    Drops,
    /// `O_DIRECT`, `O_SYNC` and `O_DSYNC` of the files.
    OpenFlags,
    /// How many fsync; durio's own before the job are fdatasync.
    Syncs,
    /// How files are mapped, and the calls on their mappings, with lengths.
    Mappings,
    /// Whether space is allocated.
    Allocations,
    /// What is in the file afterwards.
    Contents,
    /// The files that are left.
    Left,
}

use Fact::{
    AccessSet, Accesses, Advice, Allocations, Calls, Contents, Drops, Left, Mappings, OpenFlags,
    Submissions, Syncs,
};

/// A trace of one run, by one program.
pub(crate) struct Traced {
    /// Lines of all threads in the order of their times.
    lines: Vec<String>,
    contents: Vec<Vec<u8>>,
    left: BTreeSet<String>,
    pub(crate) stdout: Vec<u8>,
}

const TRACED: &str = "trace=open,openat,pread64,pwrite64,preadv,pwritev,preadv2,pwritev2,fsync,fdatasync,\
                      fadvise64,fallocate,io_submit,mmap,madvise,msync";

/// A job file with a job of these lines.
pub(crate) fn job(sandbox: &Sandbox, lines: &str) -> PathBuf {
    let file = sandbox.root().join("job.fio");
    fs::write(&file, format!("[a]\n{lines}\n")).unwrap();
    file
}

/// A sandbox with two files of 64 blocks of 4 KiB.
pub(crate) fn with_files() -> Sandbox {
    let mut sandbox = Sandbox::new();
    for (name, first) in [("f", 1_u32), ("g", 77)] {
        let block = |number: u32| (first + number).wrapping_mul(2_654_435_761).to_le_bytes();
        let bytes: Vec<u8> = (0..64).flat_map(|number| block(number).repeat(1024)).collect();
        fs::write(sandbox.data().join(name), bytes).unwrap();
    }
    sandbox.accept_changes();
    sandbox
}

impl Traced {
    pub(crate) fn run(program: &[&str], lines: &str) -> Self {
        let mut sandbox = with_files();
        let file = job(&sandbox, lines);
        let traces = sandbox.root().join("traces");
        fs::create_dir(&traces).unwrap();
        // A file for each thread: lines of several are not mixed within.
        let mut strace = Command::new("strace");
        strace.args(["-ff", "-ttt", "-v", "-y", "-s", "64", "-o"]).arg(traces.join("of"));
        strace.args(["-e", TRACED]).args(program).arg(&file).current_dir(sandbox.root());
        let output = strace.output().unwrap();
        assert!(output.status.success(), "{lines}: {output:?}");
        let mut timed: Vec<(f64, String)> = Vec::new();
        for entry in fs::read_dir(&traces).unwrap() {
            for line in fs::read_to_string(entry.unwrap().path()).unwrap().lines() {
                let Some((time, call)) = line.split_once(' ') else { continue };
                timed.push((time.parse().unwrap_or(0.0), call.to_owned()));
            }
        }
        timed.sort_by(|one, other| one.0.total_cmp(&other.0));
        let data = sandbox.data();
        let contents = ["f", "g"].map(|name| fs::read(data.join(name)).unwrap());
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let left = fs::read_dir(&data).unwrap().map(|entry| name(entry.unwrap())).collect();
        sandbox.accept_changes();
        // Of the file, and not of what lies elsewhere.
        let folder = format!("<{}/", data.display());
        let lines = timed.into_iter().map(|(_, call)| call);
        let mut mapped = Vec::new();
        let is_of_it = |call: &String| {
            let is_named = call.contains(&folder);
            match mapping(call) {
                Some(range) if is_named => mapped.push(range),
                Some(range) => return mapped.iter().any(|it| it.contains(&range.start)),
                None => {}
            }
            is_named
        };
        let lines = lines.filter(is_of_it).collect();
        Self { lines, contents: contents.into(), left, stdout: output.stdout }
    }

    fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().filter_map(|line| line.split_once('('))
    }

    /// Kind, file, offset and length of each.
    fn accesses(&self) -> Vec<(char, usize, u64, u64)> {
        let mut files: Vec<&str> = vec!["f", "g"];
        let mut found = Vec::new();
        for (name, rest) in self.calls() {
            let entries: Vec<&str> = match name {
                "io_submit" => rest.split("aio_lio_opcode=").skip(1).collect(),
                "pread64" | "pwrite64" | "preadv" | "pwritev" | "preadv2" | "pwritev2" => {
                    vec![rest]
                }
                _ => continue,
            };
            for entry in entries {
                let Some((_, path)) = entry.split_once('<') else { continue };
                let path = path.split('>').next().unwrap();
                let file = path.rsplit('/').next().unwrap();
                let number = files.iter().position(|known| *known == file).unwrap_or_else(|| {
                    files.push(file);
                    files.len() - 1
                });
                let is_write = match name {
                    "io_submit" => entry.starts_with("IOCB_CMD_PWRITE"),
                    name => name.starts_with("pw"),
                };
                let (length, offset) = extent(name, entry);
                found.push((if is_write { 'w' } else { 'r' }, number, offset, length));
            }
        }
        found
    }

    pub(crate) fn fact(&self, fact: Fact) -> Value {
        match fact {
            // What is laid out before is written; jobs that read are told by their reads.
            Accesses => json!(self.of_the_job()),
            AccessSet => {
                let of_job = self.of_the_job().into_iter();
                let mut all: Vec<_> =
                    of_job.map(|(kind, _, offset, size)| (kind, offset, size)).collect();
                all.sort_unstable();
                json!(all)
            }
            Submissions => {
                let submitted = self.calls().filter(|(name, _)| *name == "io_submit");
                json!(
                    submitted
                        .map(|(_, rest)| rest.matches("aio_lio_opcode").count())
                        .collect::<Vec<_>>()
                )
            }
            Calls => {
                let moves = |name: &str| name.starts_with('p') || name == "io_submit";
                json!(
                    self.calls().map(|it| it.0).filter(|name| moves(name)).collect::<BTreeSet<_>>()
                )
            }
            Advice => {
                json!(self.advice().filter(|it| !it.contains("DONTNEED")).collect::<BTreeSet<_>>())
            }
            Drops => json!(self.drops()),
            OpenFlags => {
                // The last one is the job's.
                let last = self.calls().filter(|(name, _)| name.starts_with("open")).last();
                let flags = last.map_or("", |(_, rest)| rest).split([',', '|', ')', ' ']);
                let wanted = ["O_DIRECT", "O_SYNC", "O_DSYNC"];
                json!(flags.filter(|flag| wanted.contains(flag)).collect::<BTreeSet<_>>())
            }
            Syncs => json!(self.calls().filter(|(name, _)| *name == "fsync").count()),
            Mappings => {
                let of_memory = |name: &str| ["mmap", "madvise", "msync"].contains(&name);
                let calls = self.calls().filter(|(name, _)| of_memory(name));
                let calls = calls.filter(|(_, rest)| !rest.contains("MAP_PRIVATE"));
                let shown = calls.map(|(name, rest)| {
                    let rest = rest.split(')').next().unwrap();
                    let words: Vec<_> = rest
                        .split(", ")
                        .skip(1)
                        .filter(|it| !it.contains("PROT_"))
                        .take(2)
                        .collect();
                    format!("{name} {}", words.join(" "))
                });
                json!(shown.collect::<Vec<_>>())
            }
            Allocations => json!(self.calls().any(|(name, _)| name == "fallocate")),
            Contents => json!(self.contents),
            Left => json!(self.left),
        }
    }

    fn of_the_job(&self) -> Vec<(char, usize, u64, u64)> {
        // durio looks at the begin of what it is to overwrite, in larger pieces.
        let mut all = self.accesses();
        all.retain(|it| it.3 <= 128 << 10);
        let reads = all.iter().any(|it| it.0 == 'r');
        all.into_iter().filter(|it| !reads || it.0 == 'r').collect()
    }

    /// By file, how many of its reads came before each drop of its cached pages; those before a job
    /// are one.
    fn drops(&self) -> BTreeMap<&str, BTreeSet<usize>> {
        let mut reads: BTreeMap<&str, usize> = BTreeMap::new();
        let mut drops: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (name, rest) in self.calls() {
            let Some((_, path)) = rest.split_once('<') else { continue };
            let file = path.split('>').next().unwrap().rsplit('/').next().unwrap();
            let count = reads.entry(file).or_default();
            match name {
                "pread64" | "preadv" | "preadv2" => *count += 1,
                "fadvise64" if rest.contains("POSIX_FADV_DONTNEED") => {
                    drops.entry(file).or_default().insert(*count);
                }
                _ => {}
            }
        }
        drops
    }

    fn advice(&self) -> impl Iterator<Item = &str> {
        let advice = self.calls().filter(|(name, _)| *name == "fadvise64");
        advice.filter_map(|(_, rest)| rest.split("POSIX_FADV_").nth(1)?.split(')').next())
    }
}

/// The addresses that a call of mapped memory is about.
fn mapping(call: &str) -> Option<std::ops::Range<u64>> {
    let (name, rest) = call.split_once('(')?;
    let begin = match name {
        "mmap" => rest.rsplit_once(" = ")?.1,
        "madvise" | "msync" => rest.split(", ").next()?,
        _ => return None,
    };
    let begin = u64::from_str_radix(begin.trim().strip_prefix("0x")?, 16).ok()?;
    let length: u64 = rest.split(", ").nth(1)?.parse().ok()?;
    Some(begin..begin + length)
}

/// Length and offset, from the arguments of a call.
fn extent(name: &str, arguments: &str) -> (u64, u64) {
    let number = |text: &str| {
        let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse().unwrap_or_else(|_| panic!("{name}({arguments}"))
    };
    let after = |key: &str| arguments.split(key).nth(1).map(number);
    if name == "io_submit" {
        return (after("aio_nbytes=").unwrap(), after("aio_offset=").unwrap());
    }
    let (inside, _) = arguments.rsplit_once(") = ").unwrap_or((arguments, ""));
    let mut last = inside.rsplit(", ");
    let flags = if name.ends_with('2') { last.next() } else { None };
    let _ = flags;
    let offset = number(last.next().unwrap());
    if name.contains('v') {
        return (after("iov_len=").unwrap(), offset);
    }
    (number(last.next().unwrap()), offset)
}
