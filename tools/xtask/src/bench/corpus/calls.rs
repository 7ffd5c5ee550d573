//! A traced program's calls on the files of its folder, as strace saw them.
//!
//! Reads the files of `strace -ff -ttt -y`; returns the jobs' calls per file. The first process
//! lays out files, and is left out.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// The calls that are traced.
pub(super) const TRACED: &str = "trace=openat,open,read,write,pread64,pwrite64,readv,writev,preadv,\
                                 pwritev,preadv2,pwritev2,lseek,io_submit,fsync,fdatasync,mmap,\
                                 msync";

/// The calls on one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileActivity {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) bytes: u64,
    pub(super) syncs: u64,
    /// Some accesses are those of mapped memory, which strace does not see.
    pub(super) mapped: bool,
    /// First byte, and the end.
    pub(super) range: Option<(u64, u64)>,
    /// O_DIRECT, O_SYNC, O_DSYNC of the files read and written.
    pub(super) flags: BTreeSet<String>,
}

impl FileActivity {
    /// Makes files of one job match in two sorted lists, whichever of their accesses were drawn to
    /// read; but not if one program syncs more often than the other.
    pub(super) fn by_what_is_not_drawn(&self, other: &Self) -> Ordering {
        let key = |done: &Self| (done.reads + done.writes, done.bytes, done.syncs);
        key(self).cmp(&key(other)).then_with(|| self.cmp(other))
    }

    fn access(&mut self, writes: bool, offset: u64, length: u64) {
        *(if writes { &mut self.writes } else { &mut self.reads }) += 1;
        self.bytes += length;
        let (first, end) = self.range.unwrap_or((offset, offset + length));
        self.range = Some((first.min(offset), end.max(offset + length)));
    }
}

/// The sum over all jobs of a program, from its JSON; fio prints lines of text before it.
pub(super) fn sum(output: &[u8]) -> Result<FileActivity> {
    let begin = output.iter().position(|&byte| byte == b'{').context("no JSON")?;
    let document =
        serde_json::Deserializer::from_slice(&output[begin..]).into_iter::<Value>().next();
    let document = document.context("no JSON")??;
    let jobs = document["jobs"].as_array().context("no jobs in the JSON")?;
    let sum = |direction: &str, field: &str| {
        jobs.iter().filter_map(|job| job[direction][field].as_u64()).sum::<u64>()
    };
    let bytes = sum("read", "io_bytes") + sum("write", "io_bytes");
    let (reads, writes) = (sum("read", "total_ios"), sum("write", "total_ios"));
    Ok(FileActivity { reads, writes, bytes, ..FileActivity::default() })
}

#[derive(Default)]
struct TracedFiles {
    /// By path.
    done: BTreeMap<String, FileActivity>,
    /// Flags of the last open by process, descriptor and path; process 0 is any.
    opened: BTreeMap<(u64, String), String>,
    position: BTreeMap<(u64, String), u64>,
    /// Where files are mapped, by process: begin, end, path; the last one counts.
    mapped: Vec<(u64, u64, u64, String)>,
}

/// Reads the trace files `prefix.PID`; the lowest PID is the process that was started.
pub(super) fn read(prefix: &Path, folder: &Path) -> Result<Vec<FileActivity>> {
    let parent = prefix.parent().context("a trace in no folder")?;
    let name = prefix.file_name().context("a trace without a name")?.to_string_lossy();
    let mut lines: Vec<(f64, u64, String)> = Vec::new();
    for file in fs::read_dir(parent)?.flatten() {
        let file_name = file.file_name().to_string_lossy().into_owned();
        let Some(pid) = file_name.strip_prefix(&*name).and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let pid: u64 = pid.parse()?;
        let text = String::from_utf8_lossy(&fs::read(file.path())?).into_owned();
        lines.extend(text.lines().filter_map(|line| {
            let (time, call) = line.split_once(' ')?;
            Some((time.parse().ok()?, pid, call.trim_start().to_owned()))
        }));
    }
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let main = lines.first().map_or(0, |line| line.1);
    let mut trace = TracedFiles::default();
    let folder = folder.display().to_string();
    for (_, pid, call) in &lines {
        trace.take(call, *pid, *pid == main, &folder);
    }
    let mut all: Vec<FileActivity> = trace.done.into_values().collect();
    all.sort();
    Ok(all)
}

impl TracedFiles {
    fn take(&mut self, call: &str, pid: u64, is_main: bool, folder: &str) -> Option<()> {
        let (name, rest) = call.split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        if name.starts_with("open") {
            let (number, path) = descriptor(result)?;
            let flags = flags_of(arguments);
            self.position.insert((pid, number.clone()), 0);
            self.opened.insert((pid, format!("{number} {path}")), flags.clone());
            // A thread may use a file that another has opened.
            self.opened.insert((0, format!("{number} {path}")), flags);
            return None;
        }
        if is_main {
            return None;
        }
        match name {
            "io_submit" => return self.submitted(arguments, pid, folder),
            "mmap" => return self.mapped(arguments, result, pid, folder),
            "msync" => return self.synced(arguments, pid),
            _ => {}
        }
        let (number, path) = descriptor(arguments)?;
        if !is_inside(&path, folder) {
            return None;
        }
        let at = (pid, number.clone());
        let result: u64 = result.split_whitespace().next()?.parse().ok()?;
        match name {
            "lseek" => {
                self.position.insert(at, result);
            }
            "fsync" | "fdatasync" => self.done.entry(path).or_default().syncs += 1,
            _ => {
                let writes = name.contains("write");
                let offset = match name.starts_with('p') {
                    true => offset_of(name, arguments)?,
                    false => self.position.get(&at).copied().unwrap_or(0),
                };
                self.position.insert(at, offset + result);
                let flags = self.flags(pid, &number, &path);
                let done = self.done.entry(path).or_default();
                done.access(writes, offset, result);
                done.flags.insert(flags);
            }
        }
        Some(())
    }

    fn flags(&self, pid: u64, number: &str, path: &str) -> String {
        let of = |process| self.opened.get(&(process, format!("{number} {path}"))).cloned();
        of(pid).or_else(|| of(0)).unwrap_or_default()
    }

    fn mapped(&mut self, arguments: &str, result: &str, pid: u64, folder: &str) -> Option<()> {
        let (number, path) = descriptor(arguments.rsplit(", ").nth(1)?)?;
        let shared = arguments.split(", ").nth(3)?.contains("MAP_SHARED");
        if !is_inside(&path, folder) || !shared {
            return None;
        }
        let (begin, length) =
            (address(result)?, arguments.split(", ").nth(1)?.parse::<u64>().ok()?);
        let flags = self.flags(pid, &number, &path);
        let done = self.done.entry(path.clone()).or_default();
        done.mapped = true;
        done.flags.insert(flags);
        self.mapped.push((pid, begin, begin + length, path));
        Some(())
    }

    fn synced(&mut self, arguments: &str, pid: u64) -> Option<()> {
        let begin = address(arguments)?;
        let is_it = |process: &&(u64, u64, u64, String)| {
            process.0 == pid && (process.1..process.2).contains(&begin)
        };
        let path = self.mapped.iter().rev().find(is_it)?.3.clone();
        self.done.entry(path).or_default().syncs += 1;
        Some(())
    }

    fn submitted(&mut self, arguments: &str, pid: u64, folder: &str) -> Option<()> {
        for block in arguments.split("{aio_").skip(1) {
            let field = |name: &str| {
                let (_, after) = block.split_once(&format!("aio_{name}="))?;
                Some(after.split([',', '}']).next()?.to_owned())
            };
            let (number, path) = descriptor(&field("fildes")?)?;
            if !is_inside(&path, folder) {
                continue;
            }
            let opcode = field("lio_opcode")?;
            let flags = self.flags(pid, &number, &path);
            let done = self.done.entry(path).or_default();
            if opcode.contains("SYNC") {
                done.syncs += 1;
                continue;
            }
            done.flags.insert(flags);
            let number = |name| field(name)?.parse::<u64>().ok();
            done.access(opcode.contains("WRITE"), number("offset")?, number("nbytes")?);
        }
        Some(())
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start().split([',', ' ']).next()?.strip_prefix("0x")?, 16).ok()
}

fn is_inside(path: &str, folder: &str) -> bool {
    path.starts_with(folder)
}

/// A descriptor and its path: `5</path>`.
fn descriptor(text: &str) -> Option<(String, String)> {
    let (number, rest) = text.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    number.parse::<u64>().ok()?;
    Some((number.to_owned(), path.to_owned()))
}

fn offset_of(name: &str, arguments: &str) -> Option<u64> {
    let arguments = arguments.trim_end_matches(')');
    let skipped = usize::from(name.ends_with('2'));
    arguments.rsplit(", ").nth(skipped)?.parse().ok()
}

fn flags_of(arguments: &str) -> String {
    let flags = ["O_DIRECT", "O_DSYNC", "O_SYNC"];
    let words: Vec<&str> = arguments.split(['|', ',', ' ', ')']).collect();
    let found: Vec<&str> = flags.into_iter().filter(|flag| words.contains(flag)).collect();
    found.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_jobs_are_counted_and_those_of_the_first_process_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("trace");
        let main = "1.0 openat(AT_FDCWD, \"f\", O_RDWR|O_DIRECT) = 5</d/f>\n\
                    2.0 write(5</d/f>, \"\"..., 4096) = 4096\n";
        let job = "3.0 pwrite64(5</d/f>, \"\"..., 4096, 8192) = 4096\n\
                   4.0 io_submit(0x1, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, \
                   aio_fildes=5</d/f>, aio_buf=0x1, aio_nbytes=512, aio_offset=0}]) = 1\n\
                   5.0 fsync(5</d/f>) = 0\n6.0 fsync(6</e>) = 0\n";
        fs::write(folder.path().join("trace.10"), main).unwrap();
        fs::write(folder.path().join("trace.11"), job).unwrap();
        let done = read(&prefix, Path::new("/d")).unwrap();
        let flags = BTreeSet::from(["O_DIRECT".to_owned()]);
        let range = Some((0, 12_288));
        let expected = FileActivity {
            reads: 1,
            writes: 1,
            bytes: 4608,
            syncs: 1,
            range,
            flags,
            mapped: false,
        };
        assert_eq!(done, [expected]);
    }

    #[test]
    fn an_msync_is_of_the_file_that_its_process_mapped_there_last() {
        let folder = tempfile::tempdir().unwrap();
        let main = "1.0 openat(AT_FDCWD, \"f\", O_RDWR|O_DIRECT) = 5</d/f>\n";
        let map = |time, file, begin| {
            format!("{time} mmap(NULL, 8192, PROT_READ, MAP_SHARED, 5</d/{file}>, 0) = {begin}\n")
        };
        let one = [
            map("2.0", "f", "0x7000"),
            "2.1 msync(0x8000, 4096, MS_SYNC) = 0\n".to_owned(),
            map("2.2", "g", "0x7000"),
            "2.3 msync(0x7000, 8192, MS_SYNC) = 0\n2.4 msync(0x9000, 8192, MS_SYNC) = 0\n"
                .to_owned(),
        ];
        let other = map("3.0", "f", "0x7000") + "3.1 msync(0x7000, 8192, MS_SYNC) = 0\n";
        for (pid, text) in [(10, main), (11, &one.concat()), (12, &other)] {
            fs::write(folder.path().join(format!("trace.{pid}")), text).unwrap();
        }
        let done = read(&folder.path().join("trace"), Path::new("/d")).unwrap();
        let of = |syncs, flags: &str| FileActivity {
            syncs,
            mapped: true,
            flags: BTreeSet::from([flags.to_owned()]),
            ..FileActivity::default()
        };
        assert_eq!(done, [of(1, ""), of(2, "O_DIRECT")]);
    }

    #[test]
    fn files_are_paired_by_their_amounts_and_not_by_the_draws_of_a_mix() {
        let done = |reads, writes, syncs| FileActivity {
            reads,
            writes,
            bytes: (reads + writes) * 4096,
            syncs,
            ..FileActivity::default()
        };
        let mut all = [done(3, 0, 1), done(2, 2, 0), done(3, 0, 0), done(0, 3, 1), done(2, 1, 1)];
        all.sort_by(FileActivity::by_what_is_not_drawn);
        let expected = [done(3, 0, 0), done(0, 3, 1), done(2, 1, 1), done(3, 0, 1), done(2, 2, 0)];
        assert_eq!(all, expected);
    }
}
