//! Large results: about 100 MiB in an optimised build, 4 MiB in a debug build.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use durio_fio::json::{FioFile, read, write};

const REAL: &str = include_str!("../fixtures/fio-3.33.json");
/// Several times what it takes on a busy machine; time that grew with the square would be hours.
const SOON: Duration = Duration::from_secs(30);
const BYTES: usize = if cfg!(debug_assertions) { 4 << 20 } else { 100 << 20 };

fn read_soon(text: &str) -> FioFile {
    let begin = Instant::now();
    let file = read(text.as_bytes()).unwrap();
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    file
}

#[test]
fn many_documents_are_read_soon() {
    let copies = BYTES / REAL.len();
    let file = read_soon(&REAL.repeat(copies));
    assert_eq!(file.documents, u64::try_from(copies).unwrap());
    let lines = u64::try_from(REAL.lines().count() * (copies - 1)).unwrap();
    assert_eq!(file.output.jobs[0].line, read_soon(REAL).output.jobs[0].line + lines);
}

#[test]
fn one_document_of_many_jobs_is_read_soon() {
    let mut output = read_soon(REAL).output;
    let pairs = std::iter::repeat_n(output.jobs, BYTES / REAL.len());
    output.jobs = pairs.flatten().collect();
    let found = read_soon(&write(&output)).output;
    assert_eq!(found.jobs.len(), output.jobs.len());
    assert!(found.jobs.iter().zip(&output.jobs).all(|(one, other)| one.read == other.read));
}

#[test]
fn text_full_of_brackets_is_refused_soon() {
    for piece in
        ["{\"a\":", "{\"a\":[", "{\"", "[{", "{\"a\":1,", "{\"jobs\":[{\"jobname\":\"a\"},"]
    {
        let mut text = String::new();
        while text.len() < BYTES / 16 {
            write!(text, "{piece}").unwrap();
        }
        let begin = Instant::now();
        assert!(read(text.as_bytes()).is_err(), "{piece}");
        assert!(begin.elapsed() < SOON, "{piece}: {:?}", begin.elapsed());
    }
}
