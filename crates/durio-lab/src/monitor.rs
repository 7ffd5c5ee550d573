//! What QEMU says of its guest's processors while it runs (QMP, docs/interop/qmp-spec.txt of QEMU).
//!
//! In: a socket to QEMU's monitor. Out: why the guest stands still, as soon as it does. Not here: the
//! guest's own output, ending QEMU.
//!
//! A guest whose processor cannot go on (KVM that fails to emulate an instruction) is neither dead nor
//! silent by its own doing: QEMU stops it and waits for somebody who debugs it.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

/// Until capabilities are agreed upon, QEMU sends no events.
const AGREE: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n";
const ASK: &[u8] = b"{\"execute\":\"query-status\"}\n";
/// The state of a guest that is about to end (qapi/run-state.json).
const ENDING: &str = "shutdown";

/// Waits until QEMU says that the guest stands still, and returns QEMU's word for it
/// (`internal-error`, `paused`, `io-error`, …); none when QEMU is gone.
pub(crate) fn wait_for_stop(monitor: UnixStream) -> Option<String> {
    let writer = monitor.try_clone().ok()?;
    let mut lines = BufReader::new(monitor).lines();
    begin(&mut lines, &writer).ok()?;
    // Whatever cannot be read is an end too: QEMU's exit tells the rest.
    lines.map_while(Result::ok).find_map(|line| standing_still(&line, &writer))
}

/// Passes over the greeting, and asks for the state: the guest may have stopped before.
fn begin(
    lines: &mut impl Iterator<Item = io::Result<String>>,
    mut to: &UnixStream,
) -> io::Result<()> {
    let _greeting = lines.next().transpose()?;
    to.write_all(AGREE)?;
    to.write_all(ASK)
}

/// The state, if this line is an answer that the guest does not run. An event that it stopped does not
/// say why, so the state is asked for.
fn standing_still(line: &str, mut to: &UnixStream) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("event").and_then(Value::as_str) == Some("STOP") {
        to.write_all(ASK).ok()?;
    }
    let state = message.get("return")?;
    let is_running = state.get("running")?.as_bool()?;
    let word = state.get("status")?.as_str()?;
    (!is_running && word != ENDING).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A QEMU that says this, and what it was asked.
    fn against(said: &'static str) -> (Option<String>, Vec<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let waiting = thread::spawn(move || wait_for_stop(ours));
        (&theirs).write_all(said.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let asked = BufReader::new(theirs).lines().map_while(Result::ok).collect();
        (waiting.join().unwrap(), asked)
    }

    const GREETING: &str = "{\"QMP\": {\"version\": {}}}\n{\"return\": {}}\n";

    #[test]
    fn a_stop_is_looked_into_and_its_reason_returned() {
        let said = concat!(
            "{\"QMP\": {}}\n{\"return\": {}}\n",
            "{\"return\": {\"status\": \"running\", \"running\": true}}\n",
            "{\"event\": \"STOP\", \"timestamp\": {}}\n",
            "{\"return\": {\"status\": \"internal-error\", \"running\": false}}\n",
        );
        let (reason, asked) = against(said);
        assert_eq!(reason.as_deref(), Some("internal-error"));
        assert_eq!(asked.iter().filter(|line| line.contains("query-status")).count(), 2);
    }

    #[test]
    fn the_end_of_qemu_and_a_guest_that_ends_are_no_stop() {
        assert_eq!(against(GREETING).0, None);
        assert_eq!(against("").0, None);
        assert_eq!(against("{}\nno json\n{\"return\": 3}\n").0, None);
        assert_eq!(
            against("{}\n{\"return\": {\"status\": \"shutdown\", \"running\": false}}\n").0,
            None
        );
    }
}
