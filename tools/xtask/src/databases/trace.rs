//! Parses the output of `strace -f -ttt -T -y`: opened files, writes and syncs, each with its
//! thread and its time.
//!
//! Returns events in the order in which they began. `figures` decides which file is a log.
//!
//! A line that is not strace's is an error, because a skipped line would falsify a result.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

/// What the calls are, for `strace -e`.
// Without sync_file_range: it starts writing and makes nothing durable.
pub(super) const CALLS: &str =
    "trace=openat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,fallocate";

/// A call that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallEvent {
    pub(super) thread: u32,
    /// Its start, in microseconds since 1970.
    pub(super) begin: u64,
    /// Until it returned, microseconds.
    pub(super) duration: u64,
    pub(super) path: String,
    pub(super) call: Call,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// With these flags, as strace writes them.
    Open(String),
    /// The length, and the offset if the call names one.
    Write { bytes: u64, offset: Option<u64> },
    /// By this call.
    Sync(String),
    /// By this mode, as strace writes it.
    Allocate(String),
}

/// Reads a trace. Leaves out calls that failed, or whose return is missing.
///
/// # Errors
/// If a line is not strace's, with its number.
pub(super) fn parse(text: &str) -> Result<Vec<CallEvent>> {
    let mut begun: HashMap<u32, (u64, String)> = HashMap::new();
    let mut events = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let event = one(line, &mut begun);
        events.extend(event.with_context(|| format!("line {} of the trace: {line}", at + 1))?);
    }
    events.sort_by_key(|event| event.begin);
    Ok(events)
}

fn one(line: &str, begun: &mut HashMap<u32, (u64, String)>) -> Result<Option<CallEvent>> {
    // Threads are in a column: several blanks may follow a short number.
    let (thread, rest) = line.split_once(' ').context("no thread")?;
    let (time, rest) = rest.trim_start().split_once(' ').context("no time")?;
    let (thread, time) = (thread.parse().context("no thread")?, micros(time)?);
    if rest.starts_with("+++ ") || rest.starts_with("--- ") {
        return Ok(None);
    }
    if let Some(head) = rest.strip_suffix(" <unfinished ...>") {
        begun.insert(thread, (time, head.to_owned()));
        return Ok(None);
    }
    let Some(tail) = rest.strip_prefix("<... ") else { return call(thread, time, rest) };
    let (_, tail) = tail.split_once(" resumed>").context("no name of what is resumed")?;
    let (time, head) = begun.remove(&thread).context("it resumes what never began")?;
    call(thread, time, &format!("{head}{tail}"))
}

/// `name(arguments) = result <seconds>`
fn call(thread: u32, begin: u64, text: &str) -> Result<Option<CallEvent>> {
    let (name, rest) = text.split_once('(').context("no call")?;
    let (arguments, end) = rest.rsplit_once(" = ").context("no result")?;
    let arguments = arguments.trim_end().strip_suffix(')').context("no end of the arguments")?;
    if end.starts_with('?') || end.starts_with('-') {
        return Ok(None);
    }
    let (result, duration) = end.rsplit_once(" <").context("no duration")?;
    let duration = micros(duration.strip_suffix('>').context("no duration")?)?;
    let last = || arguments.rsplit(", ").next().unwrap_or_default();
    let number =
        |text: &str| text.parse::<u64>().with_context(|| format!("'{text}' is not a number"));
    let call = match name {
        "openat" => {
            let flags = arguments.split(", ").find(|flag| flag.starts_with("O_"));
            Call::Open(flags.context("no flags")?.to_owned())
        }
        "write" | "writev" => Call::Write { bytes: number(result)?, offset: None },
        "pwrite64" | "pwritev" => {
            Call::Write { bytes: number(result)?, offset: Some(number(last())?) }
        }
        "pwritev2" => {
            let offset = arguments.rsplit(", ").nth(1).context("no offset")?;
            Call::Write { bytes: number(result)?, offset: Some(number(offset)?) }
        }
        "fsync" | "fdatasync" => Call::Sync(name.to_owned()),
        "fallocate" => {
            let mode = arguments.split(", ").nth(1).context("no mode")?;
            Call::Allocate(mode.to_owned())
        }
        _ => bail!("nobody asked for {name}"),
    };
    // For an open call the path is in the result, for others in the first argument.
    let place = if name == "openat" { result } else { arguments };
    let Some(path) = place.split_once('<').and_then(|(_, rest)| rest.split_once('>')) else {
        return Ok(None);
    };
    let path = path.0.strip_suffix(" (deleted)").unwrap_or(path.0).to_owned();
    Ok(Some(CallEvent { thread, begin, duration, path, call }))
}

/// Parses `12.345678` as 12345678.
fn micros(text: &str) -> Result<u64> {
    let (seconds, part) = text.split_once('.').context("a time without a point")?;
    ensure!(part.len() == 6, "'{text}' is not a time in microseconds");
    Ok(seconds.parse::<u64>()? * 1_000_000 + part.parse::<u64>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of etcd 3.4.23, PostgreSQL 15.18, MariaDB 10.11 and SQLite 3.40, with shorter paths.
    const EXCERPT: &str = "\
24919 1795595420.713750 write(11</d/member/wal/0-0.wal>, \"\"..., 192 <unfinished ...>
24920 1795595420.713760 fdatasync(9</d/member/snap/db> <unfinished ...>
24919 1795595420.713800 <... write resumed>) = 192 <0.000049>
24919 1795595420.713902 fdatasync(11</d/member/wal/0-0.wal>) = 0 <0.000144>
24920 1795595420.714200 <... fdatasync resumed>) = 0 <0.000440>
21951 1795595421.198999 pwrite64(11</d/pg_wal/000000010000000000000001>, \"\"..., 8192, 7168000) = 8192 <0.000009>
25162 1795595428.390120 openat(AT_FDCWD</d>, \"./ib_logfile0\", O_RDWR|O_DIRECT|O_CLOEXEC) = 12</d/ib_logfile0> <0.000009>
25162 1795595428.390200 openat(AT_FDCWD</d>, \"none\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000009>
25085  1795595424.540465 writev(4</d/t.sqlite-journal (deleted)>, [{iov_base=\"\"..., iov_len=4}, {iov_base=\"\"..., iov_len=8}], 2) = 12 <0.000010>
25085 1795595424.541000 fallocate(7</d/000004.log>, FALLOC_FL_KEEP_SIZE, 0, 4194304) = 0 <0.000028>
25085 1795595424.541488 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---
25085 1795595424.541490 fdatasync(7</d/000004.log> <unfinished ...>
25085 1795595424.541500 +++ exited with 0 +++
";

    #[test]
    fn calls_have_their_file_their_bytes_and_when_they_began() {
        let events = parse(EXCERPT).unwrap();
        assert_eq!(events.len(), 7);
        let first = CallEvent {
            thread: 24919,
            begin: 1_795_595_420_713_750,
            duration: 49,
            path: "/d/member/wal/0-0.wal".to_owned(),
            call: Call::Write { bytes: 192, offset: None },
        };
        assert_eq!(events[0], first);
        // It returned after the log's sync and began before it.
        assert_eq!(events[1].path, "/d/member/snap/db");
        assert_eq!((events[1].duration, &events[2].call), (440, &Call::Sync("fdatasync".into())));
        assert_eq!(events[3].call, Call::Write { bytes: 8192, offset: Some(7_168_000) });
        assert_eq!(events[4].path, "/d/t.sqlite-journal");
        assert_eq!(events[5].call, Call::Allocate("FALLOC_FL_KEEP_SIZE".into()));
        assert_eq!(events[6].call, Call::Open("O_RDWR|O_DIRECT|O_CLOEXEC".into()));
        assert_eq!(events[6].path, "/d/ib_logfile0");
    }

    #[test]
    fn the_mark_of_a_removed_file_is_taken_off_once() {
        let removed =
            "9 1795595424.541490 fdatasync(7</d/log (deleted) (deleted)>) = 0 <0.000028>\n";
        assert_eq!(parse(removed).unwrap()[0].path, "/d/log (deleted)");
    }

    #[test]
    fn a_line_that_is_none_of_straces_is_an_error_with_its_number() {
        for (from, to, says) in [
            (") = 0 <0.000144>", ")", "line 4 of the trace"),
            ("8192, 7168000)", "8192, here)", "line 6 of the trace"),
            ("1795595421.198999", "1795595421", "line 6 of the trace"),
            ("pwrite64(", "mmap(", "line 6 of the trace"),
            ("24919 1795595420.713750", "24918 1795595420.713750", "line 3 of the trace"),
        ] {
            assert!(EXCERPT.contains(from), "{from}");
            let error = parse(&EXCERPT.replacen(from, to, 1)).expect_err(to);
            assert!(format!("{error:#}").starts_with(says), "{to}: {error:#}");
        }
    }
}
