//! A database's writes and syncs, operation by operation: `durio capture --trace` keeps them, and
//! `durio replay` does them again.
//!
//! The form is gzipped lines of JSON (docs/formats/other-documents.md).

use std::io::{self, BufRead, BufReader, Read, Write};

use durio_observe::{CallRole, CapturedFile, TRACED_CALLS, TracedCall};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of the file.
pub const OPERATION_TRACE_SCHEMA: &str = "durio-trace-1";

/// A write or a sync that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedOperation {
    /// When it started, nanoseconds; in a trace since the start of the first operation.
    pub begin: u64,
    /// How long it took, nanoseconds; at least 1.
    pub nanos: u64,
    /// The thread that called.
    pub task: u32,
    /// Its place among the files.
    pub file: usize,
    pub call: &'static TracedCall,
    /// Where it wrote, if that is known.
    pub offset: Option<u64>,
    /// Bytes that were written; 0 of syncs.
    pub bytes: u64,
    /// The write is durable by its own flags.
    pub durable: bool,
}

impl TracedOperation {
    pub const fn end(&self) -> u64 {
        self.begin.saturating_add(self.nanos)
    }
}

/// A replayed operation; times are nanoseconds since the replay's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayedOperation {
    /// Its place among the operations of the trace.
    pub operation: usize,
    /// When it should begin.
    pub due: u64,
    /// When all operations that it had to wait for were done.
    pub ready: u64,
    /// When it began, in nanoseconds since the first operation.
    pub begin: u64,
    pub end: u64,
}

/// Files and the operations on them.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationTrace {
    /// The document of the capture that it was made in (`durio capture --json`).
    pub capture: Value,
    /// Files, each once for every way that it was opened in.
    pub files: Vec<CapturedFile>,
    /// In the order of their starts.
    pub operations: Vec<TracedOperation>,
}

#[derive(Serialize, Deserialize)]
struct TraceHead<T> {
    schema: String,
    operations: usize,
    files: T,
    capture: Value,
}

/// Operations that a trace has at most: with what a replay keeps of them, three gigabytes.
pub const OPERATIONS_MAX: usize = 20_000_000;

/// An operation as its line has it.
type OperationLine<'a> = (u64, u64, u32, usize, &'a str, Option<u64>, u64, bool);

/// The longest head: it has every file and the whole document of the capture, about 1 KB for a file. As a JSON value
/// it takes up to 16 times as much memory.
const HEAD_LENGTH_MAX: u64 = 32 << 20;

/// The longest line of an operation: seven numbers and the name of a call.
const LINE_LENGTH_MAX: u64 = 4096;

/// No write is larger (write(2): 2,147,479,552 bytes).
const BYTES_MAX: u64 = 0x7fff_f000;

impl OperationTrace {
    /// A trace of operations in any order, at times of any begin.
    pub fn new(
        capture: Value,
        files: Vec<CapturedFile>,
        mut operations: Vec<TracedOperation>,
    ) -> Self {
        operations.sort_by_key(|operation| operation.begin);
        let begin = operations.first().map_or(0, |operation| operation.begin);
        operations.iter_mut().for_each(|operation| operation.begin -= begin);
        Self { capture, files, operations }
    }

    /// Writes it.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = GzEncoder::new(out, Compression::fast());
        let Self { capture, files, operations } = self;
        let head = TraceHead {
            schema: OPERATION_TRACE_SCHEMA.to_owned(),
            operations: operations.len(),
            files,
            capture: capture.clone(),
        };
        let head = serde_json::to_vec(&head)?;
        if head.len() as u64 >= HEAD_LENGTH_MAX {
            let text =
                format!("a trace has room for {} MiB of files, not more", HEAD_LENGTH_MAX >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        out.write_all(&head)?;
        for operation in operations {
            let TracedOperation { begin, nanos, task, file, call, offset, bytes, durable } =
                *operation;
            let line: OperationLine<'_> =
                (begin, nanos, task, file, call.name, offset, bytes, durable);
            out.write_all(b"\n")?;
            serde_json::to_writer(&mut out, &line)?;
        }
        out.write_all(b"\n")?;
        out.finish()?.flush()
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// If it cannot be read, or with `InvalidData` if it is not a trace, or not a whole one.
    pub fn read(input: impl Read) -> io::Result<Self> {
        let mut input = BufReader::new(GzDecoder::new(input));
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>, max: u64| {
            line.clear();
            (&mut input).take(max).read_until(b'\n', line)
        };
        next(&mut line, HEAD_LENGTH_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                invalid("it is not a trace of durio capture --trace")
            }
            _ => error,
        })?;
        let head: TraceHead<Vec<CapturedFile>> = serde_json::from_slice(&line)
            .map_err(|_| invalid("it is not a trace of durio capture --trace"))?;
        if head.schema != OPERATION_TRACE_SCHEMA {
            let text = format!("its format is {}, not {OPERATION_TRACE_SCHEMA}", head.schema);
            return Err(invalid(text));
        }
        let all = head.operations;
        if !(1..=OPERATIONS_MAX).contains(&all) {
            return Err(invalid(format!("it has {all} operations, not 1 to {OPERATIONS_MAX}")));
        }
        let mut operations = Vec::new();
        while operations.len() < all {
            if next(&mut line, LINE_LENGTH_MAX).map_err(damaged)? == 0 {
                let text =
                    format!("it is truncated: it has {} of {all} operations", operations.len());
                return Err(invalid(text));
            }
            let operation = operation(&line, head.files.len()).map_err(|why| {
                invalid(format!("its line {} is not an operation: {why}", operations.len() + 2))
            })?;
            operations.push(operation);
        }
        // Behind the last line is the sum over all of them.
        if next(&mut line, LINE_LENGTH_MAX).map_err(damaged)? > 0 {
            return Err(invalid(format!("it has more than the expected {all} operations")));
        }
        Ok(Self::new(head.capture, head.files, operations))
    }
}

/// The error of a packed file that is cut off, or in which bytes have changed.
fn damaged(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => invalid("it is truncated"),
        io::ErrorKind::InvalidInput => invalid("it is damaged"),
        _ => error,
    }
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

fn operation(line: &[u8], files: usize) -> Result<TracedOperation, String> {
    let (begin, nanos, task, file, name, offset, bytes, durable): OperationLine<'_> =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let call = TRACED_CALLS
        .iter()
        .find(|call| call.name == name && matches!(call.role, CallRole::Write | CallRole::Sync))
        .ok_or_else(|| format!("'{name}' neither writes nor syncs"))?;
    if file >= files {
        return Err(format!("it refers to file {file} of {files}"));
    }
    if (call.role == CallRole::Sync && (bytes > 0 || offset.is_some()))
        || (call.role == CallRole::Write && bytes == 0)
    {
        return Err(format!("'{name}' of {bytes} bytes"));
    }
    let end = offset.unwrap_or(0).checked_add(bytes);
    if bytes > BYTES_MAX || end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err("the offset is too large for a file".to_owned());
    }
    let nanos = nanos.max(1);
    if begin.checked_add(nanos).is_none() {
        return Err("the time is too large".to_owned());
    }
    Ok(TracedOperation { begin, nanos, task, file, call, offset, bytes, durable })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(operations: Vec<TracedOperation>) -> OperationTrace {
        let file = |path: &str, flags, size| CapturedFile { path: path.to_owned(), flags, size };
        // O_APPEND and O_DSYNC; O_SYNC, which has the bit of O_DSYNC too.
        let files =
            vec![file("/d/log \u{e4}", 0o12_000, Some(1 << 24)), file("/d/#", 0o4_010_000, None)];
        OperationTrace::new(serde_json::json!({ "schema": "x" }), files, operations)
    }

    fn packed(trace: &OperationTrace) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        bytes
    }

    fn some_operation() -> impl Strategy<Value = TracedOperation> {
        let numbers = (0..1_u64 << 60, 1..1_u64 << 40, any::<u32>(), 0..2_usize);
        let places =
            (proptest::option::of(0..1_u64 << 60), 1..BYTES_MAX, any::<bool>(), 0..8_usize);
        (numbers, places).prop_map(
            |((begin, nanos, task, file), (offset, bytes, durable, call))| {
                // Calls that write and sync.
                let call = &TRACED_CALLS[call];
                let operation =
                    TracedOperation { begin, nanos, task, file, call, offset, bytes, durable };
                match call.role {
                    CallRole::Write => operation,
                    _ => TracedOperation { offset: None, bytes: 0, ..operation },
                }
            },
        )
    }

    /// Lines of a trace as they are before they are packed; a line may be as long as it wants in a kilobyte of gzip.
    fn packed_lines(head: &[u8], line: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        for part in [head, b"\n", line, b"\n"] {
            out.write_all(part).unwrap();
        }
        out.finish().unwrap()
    }

    #[test]
    fn a_line_that_is_longer_than_any_is_not_read() {
        let head = br#"{"schema":"durio-trace-1","operations":1,"files":[{"path":"/w","flags":[],"size_bytes":null}],"capture":{}}"#;
        let line = br#"[0,1,1,0,"write",null,512,false]"#;
        let read =
            |head: &[u8], line: &[u8]| OperationTrace::read(packed_lines(head, line).as_slice());
        assert_eq!(read(head, line).unwrap().operations.len(), 1);
        let long = [&vec![b' '; 4096], line.as_slice()].concat();
        assert!(
            read(head, &long)
                .unwrap_err()
                .to_string()
                .starts_with("its line 2 is not an operation")
        );
        // A document of 48 MiB.
        let many = format!("[{}0]", "0,".repeat(24 << 20));
        let head = String::from_utf8_lossy(head).replace("{}", &many);
        let error = read(head.as_bytes(), line).unwrap_err().to_string();
        assert_eq!(error, "it is not a trace of durio capture --trace");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was(operations in prop::collection::vec(some_operation(), 1..50)) {
            let trace = trace(operations);
            prop_assert_eq!(OperationTrace::read(packed(&trace).as_slice()).unwrap(), trace);
        }

        #[test]
        fn a_trace_that_is_cut_off_or_damaged_is_told_and_never_half_taken(
            operations in prop::collection::vec(some_operation(), 1..50),
            place in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            let trace = trace(operations);
            let mut bytes = packed(&trace);
            let error = OperationTrace::read(&bytes[..place.index(bytes.len())]).unwrap_err();
            prop_assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            // The first ten bytes say when it was packed, and by which machine.
            let place = 10 + place.index(bytes.len() - 10);
            bytes[place] ^= 1 << bit;
            match OperationTrace::read(bytes.as_slice()) {
                // A few bits fill a byte up.
                Ok(read) => prop_assert!(read == trace, "other operations were taken"),
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::InvalidData),
            }
        }
    }

    #[test]
    fn what_no_operation_can_be_is_refused_with_its_line() {
        let head = r#"{"schema":"durio-trace-1","operations":1,"files":[{"path":"a","flags":[],"size_bytes":null}],"capture":null}"#;
        let read = |text: String| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            OperationTrace::read(packed.finish().unwrap().as_slice())
        };
        assert!(read(format!("{head}\n[5,1,7,0,\"write\",0,8,false]\n")).is_ok());
        for (line, words) in [
            (
                r#"[0,1,7,1,"write",0,8,false]"#,
                "line 2 is not an operation: it refers to file 1 of 1",
            ),
            (r#"[0,1,7,0,"lseek",0,8,false]"#, "'lseek' neither writes nor syncs"),
            (
                r#"[0,1,7,0,"write",9223372036854775807,8,false]"#,
                "the offset is too large for a file",
            ),
            (r#"[0,1,7,0,"write",0,4294967296,false]"#, "the offset is too large for a file"),
            (r#"[0,1,7,0,"write",0,0,false]"#, "'write' of 0 bytes"),
            (r#"[0,1,7,0,"fsync",0,5,false]"#, "'fsync' of 5 bytes"),
            (r#"[18446744073709551615,1,7,0,"write",0,8,false]"#, "the time is too large"),
            (r#"[0,1,7,0,"write",-1,8,false]"#, "line 2 is not an operation: invalid"),
            ("", "it is truncated: it has 0 of 1 operations"),
        ] {
            let error = read(format!("{head}\n{line}")).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
        let line = r#"[0,1,7,0,"write",0,8,false]"#;
        let error = read(format!("{head}\n{line}\n{line}\n")).unwrap_err().to_string();
        assert!(error.contains("more than the expected 1 operations"), "{error}");
        let none = head.replace(r#""operations":1"#, r#""operations":0"#);
        assert!(read(none).unwrap_err().to_string().contains("it has 0 operations"));
        for (text, words) in [
            (String::new(), "not a trace of"),
            ("{}".to_owned(), "not a trace of"),
            (head.replace("trace-1", "trace-9"), "its format is durio-trace-9"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        for bytes in [b"".as_slice(), b"text", b"\x1f\x8b"] {
            let error = OperationTrace::read(bytes).unwrap_err();
            assert!(error.to_string().contains("not a trace of"), "{error}");
        }
    }

    #[test]
    fn each_bound_of_an_operation_is_kept_on_both_sides() {
        let read = |line: &str| operation(line.as_bytes(), 3).map_err(|why| why.len());
        let fits = |line: &str| read(line).is_ok();
        assert!(fits(r#"[0,1,7,2,"write",0,8,false]"#) && !fits(r#"[0,1,7,3,"write",0,8,false]"#));
        assert!(fits(r#"[0,1,7,0,"write",0,2147479552,false]"#));
        assert!(!fits(r#"[0,1,7,0,"write",0,2147479553,false]"#));
        assert!(fits(r#"[0,1,7,0,"write",9223372036854775799,8,false]"#));
        assert!(!fits(r#"[0,1,7,0,"write",9223372036854775800,8,false]"#));
        assert!(fits(r#"[0,1,7,0,"write",null,1,false]"#));
        assert!(fits(r#"[18446744073709551614,1,7,0,"write",0,8,false]"#));
        assert!(fits(r#"[0,1,7,0,"fsync",null,0,false]"#));
        assert!(
            !fits(r#"[0,1,7,0,"fsync",0,0,false]"#) && !fits(r#"[0,1,7,0,"fsync",null,1,false]"#)
        );
        // What took no time took a nanosecond.
        let instant = read(r#"[5,0,7,0,"write",0,8,true]"#).unwrap();
        assert_eq!((instant.begin, instant.nanos, instant.end()), (5, 1, 6));
        assert_eq!((instant.task, instant.file, instant.durable), (7, 0, true));
        let lasting = TracedOperation { begin: u64::MAX - 1, nanos: 9, ..instant };
        assert_eq!(lasting.end(), u64::MAX);
        assert_eq!(
            (OPERATIONS_MAX, HEAD_LENGTH_MAX, BYTES_MAX),
            (20_000_000, 33_554_432, 2_147_479_552)
        );
    }

    #[test]
    fn operations_stand_in_order_from_the_first_ones_begin() {
        let operation = |begin: u64, task: u32| TracedOperation {
            begin,
            nanos: 3,
            task,
            file: 0,
            call: &TRACED_CALLS[0],
            offset: None,
            bytes: 0,
            durable: false,
        };
        let trace = trace(vec![operation(70, 1), operation(50, 2), operation(90, 3)]);
        let found: Vec<_> =
            trace.operations.iter().map(|operation| (operation.begin, operation.task)).collect();
        assert_eq!(found, [(0, 2), (20, 1), (40, 3)]);
        let many = r#"{"schema":"durio-trace-1","operations":20000001,"files":[],"capture":null}"#;
        let error =
            OperationTrace::read(packed_lines(many.as_bytes(), b"").as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "it has 20000001 operations, not 1 to 20000000");
    }

    #[test]
    fn what_the_system_says_is_not_called_damage() {
        use io::ErrorKind as Kind;
        let told = |kind: Kind| (damaged(kind.into()).kind(), damaged(kind.into()).to_string());
        assert_eq!(told(Kind::UnexpectedEof), (Kind::InvalidData, "it is truncated".to_owned()));
        assert_eq!(told(Kind::InvalidInput), (Kind::InvalidData, "it is damaged".to_owned()));
        assert_eq!(told(Kind::StorageFull).0, Kind::StorageFull);
    }

    #[test]
    fn operations_of_any_order_and_begin_are_in_the_order_of_their_starts_from_zero() {
        let call = TRACED_CALLS.iter().find(|call| call.name == "write").unwrap();
        let operation = |begin, task| TracedOperation {
            begin,
            nanos: 40,
            task,
            file: 0,
            call,
            offset: Some(0),
            bytes: 512,
            durable: false,
        };
        let trace = trace(vec![operation(500, 1), operation(200, 2), operation(900, 3)]);
        let times: Vec<_> =
            trace.operations.iter().map(|done| (done.task, done.begin, done.end())).collect();
        assert_eq!(times, [(2, 0, 40), (1, 300, 340), (3, 700, 740)]);
    }

    #[test]
    fn the_longest_write_and_the_last_byte_of_a_file_are_taken_and_no_more() {
        let head = br#"{"schema":"durio-trace-1","operations":1,"files":[{"path":"/w","flags":[],"size_bytes":null}],"capture":{}}"#;
        let of = |offset: u64, bytes: u64| {
            let line = format!("[5,0,7,0,\"write\",{offset},{bytes},false]");
            let read = OperationTrace::read(packed_lines(head, line.as_bytes()).as_slice());
            read.ok().map(|trace| (trace.operations[0].bytes, trace.operations[0].nanos))
        };
        assert_eq!(of(0, 2_147_479_552), Some((2_147_479_552, 1)));
        assert_eq!(of(0, 2_147_479_553), None);
        assert_eq!(of(9_223_372_036_854_775_799, 8), Some((8, 1)));
        assert_eq!(of(9_223_372_036_854_775_800, 8), None);
    }
}
