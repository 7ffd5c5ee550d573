//! Texts of tracers: their lines, within bounds, and which tracer wrote a text that another reader
//! was given. The file may come from any user.

use std::io::{BufRead, Read};

/// Why a text cannot be taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TraceTextError(String);

impl TraceTextError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Bytes of a line: strace with `-s` quotes much of a write, and a megabyte is more than any.
const LINE_MAX: u64 = 1 << 20;

/// Reads whole lines until the text ends, or stops being text: returns why if it was cut off.
///
/// A log that was torn by a crash may have gigabytes of zeros behind its last line, which are not
/// read.
pub(crate) fn each_line(
    mut text: impl BufRead,
    mut take: impl FnMut(&str),
) -> Result<Option<String>, TraceTextError> {
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        let read = text.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| TraceTextError::new(error.to_string()))? == 0 {
            return Ok(None);
        }
        number += 1;
        if number == 1
            && let Some((_, what)) = BINARY.iter().find(|(magic, _)| line.starts_with(magic))
        {
            return Err(TraceTextError::new(*what));
        }
        if line.contains(&0) {
            return Ok(Some(format!("line {number} contains NUL bytes, as after a crash")));
        }
        if !line.ends_with(b"\n") {
            let is_long = line.len() as u64 == LINE_MAX;
            let of_long = || format!("line {number} has more than {} KiB", LINE_MAX >> 10);
            let torn = "the trace ends in the middle of a line";
            return Ok(Some(if is_long { of_long() } else { torn.into() }));
        }
        take(&String::from_utf8_lossy(&line));
    }
}

/// The first bytes of files that only the tracer reads, or that have to be unpacked.
const BINARY: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "it is compressed with gzip: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd: decompress it first"),
    (b"\xfd7zXZ\0", "it is compressed with xz: decompress it first"),
    (b"PERFILE2", "it is a perf record file: use the output of perf script"),
    (b"\x17\x08\x44tracing", "it is a trace-cmd record file: use the output of trace-cmd report"),
    // BLK_IO_TRACE_MAGIC of a little-endian machine, and its version.
    (b"\x07taee", "it is a blktrace file: use the output of blkparse"),
];

/// Recognises by one of its lines a text without requests: its type, and what to do. `is_call` knows
/// lines of strace.
pub(crate) fn not_of_requests(line: &str, is_call: impl Fn(&str) -> bool) -> Option<&'static str> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let has = |word: &str| words.contains(&word);
    if has("LATms") && has("COMM") && !has("STARTs") && !has("ENDs") {
        return Some("it is the output of iosnoop without times: run iosnoop with -ts");
    }
    if has("TIME(ms)") && has("LAT(ms)") {
        return Some(
            "it is the output of bpftrace's biosnoop, which shows neither size nor position nor \
             direction of a request: bcc's biosnoop shows them",
        );
    }
    if has("r/s") && has("w/s") {
        return Some("it is the output of iostat, which has only sums of requests");
    }
    if is_call(line) {
        return Some("it has system calls, as strace shows them: read it with --strace");
    }
    if is_call_of_perf(line) {
        return Some("it has system calls, as perf trace shows them: run strace -f -ttt -T -y");
    }
    let is_exact = |word: &&str| word.rsplit_once('.').is_some_and(|(_, part)| part.len() == 9);
    let is_action = |word: &&str| matches!(*word, "Q" | "G" | "I" | "D" | "C");
    if words.iter().any(is_exact) && words.iter().any(is_action) {
        return Some(
            "it is the output of blkparse with a format (-f) without '%S + %n': run blkparse \
             without -f",
        );
    }
    // Tables of bio… and ext4slower, fileslower and their kin.
    let is_table = has("COMM") && (has("PID") || has("TID")) && !has("SECTOR");
    is_table.then_some("it is a table of another tracer: bcc's biosnoop shows each request")
}

/// `0.123 ( 0.010 ms): dd/123 write(fd: 1</d/x>, …`.
pub(crate) fn is_call_of_perf(line: &str) -> bool {
    line.contains(" ms): ") && line.contains("(fd: ")
}

/// Nanoseconds of `0.000012`.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    nanoseconds(whole.parse().ok()?, part)
}

/// Seconds and the digits behind their point, in nanoseconds.
pub(crate) fn nanoseconds(seconds: u64, part: &str) -> Option<u64> {
    let digits = part.len().min(9);
    let part: u64 = part.get(..digits)?.parse().ok()?;
    let nanos = part * 10_u64.pow(9 - u32::try_from(digits).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: impl BufRead) -> (Vec<String>, Result<Option<String>, TraceTextError>) {
        let mut seen = Vec::new();
        let end = each_line(text, |line| seen.push(line.trim_end().to_owned()));
        (seen, end)
    }

    #[test]
    fn zeros_behind_a_torn_line_are_not_read() {
        // More than any machine holds.
        let zeros = std::io::repeat(0).take(1 << 50);
        let (seen, end) = lines(std::io::BufReader::new("one\ntwo\nthr".as_bytes().chain(zeros)));
        assert_eq!(seen, ["one", "two"]);
        let why = "line 3 contains NUL bytes, as after a crash";
        assert_eq!(end.unwrap().as_deref(), Some(why));
    }

    #[test]
    fn a_line_has_a_bound() {
        let long = std::io::repeat(b'x').take(1 << 50);
        let (seen, end) = lines(std::io::BufReader::new("one\n".as_bytes().chain(long)));
        assert_eq!(seen, ["one"]);
        assert_eq!(end.unwrap().as_deref(), Some("line 2 has more than 1024 KiB"));
        // 1 MiB with its end: just within.
        let most = [vec![b'x'; (1 << 20) - 1], b"\nlast\n".to_vec()].concat();
        let (seen, end) = lines(most.as_slice());
        assert_eq!((seen.len(), end), (2, Ok(None)));
    }

    #[test]
    fn packed_and_binary_files_are_named() {
        for (head, words) in [
            (b"\x1f\x8b\x08".as_slice(), "compressed with gzip"),
            (b"\x28\xb5\x2f\xfd\x04", "compressed with zstd"),
            (b"\xfd7zXZ\0\0", "compressed with xz"),
            (b"PERFILE2h\0", "perf script"),
            (b"\x17\x08\x44tracing6", "trace-cmd report"),
            (b"\x07taee\0", "blkparse"),
        ] {
            let error = lines(head).1.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn digits_behind_the_point_are_a_part_of_a_second() {
        let nanos = [(5, "5"), (1, "000000001"), (1, "0000000019"), (0, "25")];
        let nanos = nanos.map(|(seconds, part)| nanoseconds(seconds, part).unwrap());
        assert_eq!(nanos, [5_500_000_000, 1_000_000_001, 1_000_000_001, 250_000_000]);
        assert_eq!(nanoseconds(18_446_744_073, "709551615"), Some(u64::MAX));
        for (seconds, part) in [(18_446_744_073, "709551616"), (u64::MAX, "0"), (0, ""), (0, "x")] {
            assert_eq!(nanoseconds(seconds, part), None, "{seconds}.{part}");
        }
        assert_eq!([seconds("12.5"), seconds("0.000012")], [Some(12_500_000_000), Some(12_000)]);
        assert_eq!([seconds("12"), seconds(".5"), seconds("x.5")], [None; 3]);
    }
}
