//! The control socket that stands beside the socket of an export.
//!
//! In: an order as a line of JSON. Out: one answer as a line of JSON; the order is carried out when it
//! comes. Not here: which orders there are.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Socket;

/// Longer than any order: those that name paths have at most one, of 4096 bytes, each spelt out.
const ORDER_MAX: u64 = 32 << 10;
/// How long whoever orders may take for a line.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why an order did not arrive.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} '{}'", path.display())]
pub struct ControlError {
    /// What.
    pub doing: &'static str,
    /// The path of the control socket.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The control socket that belongs to an export's.
#[must_use]
pub fn control_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".control");
    path.into()
}

/// Sends an order to whoever serves there, and waits no longer than this for the answer.
///
/// # Errors
/// If nobody is there, or does not answer.
pub fn send_order<O: Serialize, A: DeserializeOwned>(
    control: &Path,
    order: &O,
    patience: Duration,
) -> Result<A, ControlError> {
    let fail = |doing| move |source| ControlError { doing, path: control.into(), source };
    let mut stream = UnixStream::connect(control).map_err(fail("connect to"))?;
    stream.set_read_timeout(Some(patience)).map_err(fail("connect to"))?;
    let mut line = serde_json::to_vec(order).map_err(|it| fail("write to")(it.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(fail("write to"))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(fail("read from"))?;
    serde_json::from_str(&answer).map_err(|it| fail("understand the answer of")(it.into()))
}

/// Reads the order of whoever has connected.
///
/// # Errors
/// If it does not come in time, or is none.
pub fn read_order<O: for<'a> Deserialize<'a>>(stream: &Socket) -> io::Result<O> {
    stream.set_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(ORDER_MAX)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers it. Whoever asked may be gone.
pub fn send_answer<A: Serialize>(mut stream: &Socket, answer: &A) {
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let _ = stream.write_all(&line);
    }
}
