//! Rules that hold for every process of durio, whatever the input.
//!
//! Judges how a process ended; the same fault always gives the same words: no times, no process
//! numbers. The witness checks files and devices.

use super::launch::EndedProcess;

/// More than this is a fault, whatever good input needs.
const MEMORY_MAX_BYTES: u64 = 256 << 20;

/// The exit codes documented in `durio help`, except 4, "a fault in durio".
const CODES: [i32; 5] = [0, 1, 2, 3, 130];

/// The faults of a process that ended undisturbed.
pub(super) fn faults(ended: &EndedProcess) -> Vec<String> {
    faults_but(ended, &[])
}

/// The same, with further permitted exit codes.
pub(super) fn faults_but(ended: &EndedProcess, also: &[i32]) -> Vec<String> {
    let code = ended.code();
    let is_known = CODES.contains(&code) || also.contains(&code);
    let is_heavy = ended.peak > MEMORY_MAX_BYTES;
    let faults = [
        (is_heavy, format!("takes more than {} MiB", MEMORY_MAX_BYTES >> 20)),
        (ended.is_late, "hangs".to_owned()),
        (!is_known && !ended.is_ended_by_us, format!("exit code {code}{}", last_line(ended))),
    ];
    let faults = faults.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what);
    faults.chain(panic(ended)).chain(escapes(ended)).collect()
}

fn panic(ended: &EndedProcess) -> Option<String> {
    let text = ended.stderr_text();
    let line = text.lines().find(|line| line.contains("panicked at"))?;
    Some(format!("panics: {}", shown(line)))
}

fn last_line(ended: &EndedProcess) -> String {
    let text = ended.stderr_text();
    text.lines().last().map_or_else(String::new, |line| format!(": {}", shown(line)))
}

/// Control characters that a terminal would obey.
pub(super) fn escapes(ended: &EndedProcess) -> Option<String> {
    let streams = [("stdout", &ended.stdout), ("stderr", &ended.stderr)];
    let found = streams.iter().find_map(|(name, bytes)| Some((name, escape_in(bytes)?)))?;
    Some(format!("control character {:?} on {}", found.1, found.0))
}

/// The first character that a terminal obeys: controls except line feed and tab, and in text for
/// people also those that change the direction of text. JSON and HTML keep the latter: a path is in
/// them as it is.
fn escape_in(bytes: &[u8]) -> Option<char> {
    let text = String::from_utf8_lossy(bytes);
    let is_document = text.trim_start().starts_with(['{', '[', '<']);
    text.chars().find(|&c| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (turns && !is_document) || (c.is_control() && c != '\n' && c != '\t')
    })
}

/// A line without anything that a terminal obeys, shortened.
pub(super) fn shown(line: &str) -> String {
    let clean = line.escape_debug().to_string();
    clean.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn ended(code: i32, stderr: &[u8]) -> EndedProcess {
        EndedProcess {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: stderr.to_vec(),
            peak: 0,
            is_late: false,
            is_ended_by_us: false,
        }
    }

    #[test]
    fn a_refusal_is_right() {
        assert_eq!(faults(&ended(2, b"durio: no such file\n\thint\n")), [""; 0]);
    }

    #[test]
    fn a_panic_an_unknown_code_an_escape_and_a_turn_are_faults() {
        let panicked = faults(&ended(101, b"thread 'main' panicked at src/x.rs:1:\nboom\n"));
        assert_eq!(panicked.len(), 2, "{panicked:?}");
        assert_eq!(faults(&ended(4, b"")), ["exit code 4"]);
        assert_eq!(faults(&ended(2, b"'\x1b[2J'")), ["control character '\\u{1b}' on stderr"]);
        assert_eq!(faults(&ended(2, "\u{202e}".as_bytes())).len(), 1);
        assert_eq!(faults(&ended(2, "\u{9b}".as_bytes())).len(), 1);
        let document = EndedProcess { stdout: "{\"\u{202e}\"}".into(), ..ended(0, b"") };
        assert_eq!(faults(&document), [""; 0]);
    }

    #[test]
    fn memory_and_a_hang_are_faults() {
        let heavy = EndedProcess { peak: 1 << 30, is_ended_by_us: true, ..ended(137, b"") };
        assert_eq!(faults(&heavy), ["takes more than 256 MiB"]);
        assert_eq!(
            faults(&EndedProcess { is_late: true, is_ended_by_us: true, ..ended(9, b"") }),
            ["hangs"]
        );
    }
}
