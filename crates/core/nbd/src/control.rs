//! The control socket next to the socket of an export.
//!
//! Takes an order as a line of JSON, carries it out, and returns one answer as a line of JSON. The
//! callers define the orders.
//!
//! A server takes orders one at a time, and hears all callers at once: one that is silent, or sends its
//! line byte by byte, holds up neither the others nor the server's end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::socket::connect_unix;
use crate::{Address, Listener, NbdError, Socket};

/// Bytes of an order: two paths of 4096 bytes, each byte escaped as `\u0001`, and their keys.
const ORDER_MAX: usize = 64 << 10;
/// How long a caller has for its whole order, and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Callers heard at a time. One more displaces the first.
const CALLERS_MAX: usize = 32;
/// How long to wait for a server that does not accept.
const CONNECTING: Duration = Duration::from_secs(5);

/// The control socket of an export's socket.
#[must_use]
pub fn control_of(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".control");
    path.into()
}

/// Sends an order to the server, and waits no longer than `patience` for the answer.
pub fn send_order<O: Serialize, A: DeserializeOwned>(
    control: &Path,
    order: &O,
    patience: Duration,
) -> Result<A, NbdError> {
    let fail = |operation| move |source: io::Error| NbdError::at(operation, control, source);
    let connected = connect_unix(control, Some(CONNECTING)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            "its server accepts no connections: it is stopped, or hangs",
        ),
        _ => error,
    });
    let mut stream = connected.map_err(fail("connect to"))?;
    stream.set_read_timeout(Some(patience)).map_err(fail("connect to"))?;
    let mut line = serde_json::to_vec(order).map_err(|error| fail("write to")(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(fail("write to"))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(fail("read from"))?;
    serde_json::from_str(&answer).map_err(|error| fail("understand the answer of")(error.into()))
}

/// The server's side: callers whose orders are incomplete.
#[derive(Debug)]
pub struct ControlServer {
    listener: Listener,
    /// In the order in which they came.
    callers: Vec<Caller>,
}

#[derive(Debug)]
struct Caller {
    socket: Socket,
    line: Vec<u8>,
    deadline: Instant,
}

/// An order that has arrived, or why it is invalid; and the socket for [`send_answer`].
pub type ArrivedOrder<O> = (Socket, Result<O, String>);

impl ControlServer {
    /// Binds the path of a control socket.
    pub fn bind(path: PathBuf) -> Result<Self, NbdError> {
        Ok(Self { listener: Listener::bind(&Address::Unix(path))?, callers: Vec::new() })
    }

    /// Waits for an order, no longer than `patience`.
    pub fn next<O: DeserializeOwned>(&mut self, patience: Duration) -> Option<ArrivedOrder<O>> {
        self.wait(patience);
        while let Ok(socket) = self.listener.accept() {
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            if self.callers.len() == CALLERS_MAX {
                self.callers.remove(0);
            }
            let deadline = Instant::now() + PATIENCE;
            self.callers.push(Caller { socket, line: Vec::new(), deadline });
        }
        let heard = self.callers.iter_mut().map(Caller::hear);
        let (at, heard) = heard.enumerate().find_map(|(at, heard)| Some((at, heard?)))?;
        let Caller { socket, line, .. } = self.callers.remove(at);
        let is_set =
            socket.set_nonblocking(false).and_then(|()| socket.set_timeout(Some(PATIENCE)));
        is_set.ok()?;
        let order = heard.map_err(str::to_owned);
        Some((
            socket,
            order.and_then(|()| serde_json::from_slice(&line).map_err(|error| error.to_string())),
        ))
    }

    fn wait(&self, patience: Duration) {
        let sockets = self.callers.iter().map(|caller| caller.socket.as_fd());
        let awaited = std::iter::once(self.listener.as_fd()).chain(sockets);
        let mut awaited: Vec<_> =
            awaited.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        let patience = Timespec::try_from(patience).ok();
        // The reads that follow see the outcome; errors of poll are transient.
        if poll(&mut awaited, patience.as_ref()).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Caller {
    /// Reads the bytes that have arrived: `None` while the line is incomplete.
    fn hear(&mut self) -> Option<Result<(), &'static str>> {
        let mut arrived = [0; 4096];
        loop {
            match (&self.socket).read(&mut arrived) {
                Ok(0) => return Some(Ok(())),
                Ok(count) => self.line.extend_from_slice(&arrived[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Some(Err("the caller is gone")),
            }
            if self.line.len() > ORDER_MAX {
                return Some(Err("it is longer than 64 KiB"));
            }
            if self.line.ends_with(b"\n") {
                return Some(Ok(()));
            }
        }
        (Instant::now() >= self.deadline).then_some(Err("it took longer than 2 s to arrive"))
    }
}

/// Answers the order. The client may be gone.
pub fn send_answer<A: Serialize>(mut stream: &Socket, answer: &A) {
    if let Ok(mut line) = serde_json::to_vec(answer) {
        line.push(b'\n');
        let _ = stream.write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const LOOK: Duration = Duration::from_millis(1);

    fn bound() -> (tempfile::TempDir, PathBuf, ControlServer) {
        let folder = tempfile::tempdir().unwrap();
        let path = control_of(&folder.path().join("socket"));
        let server = ControlServer::bind(path.clone()).unwrap();
        (folder, path, server)
    }

    /// A caller that has sent this.
    fn caller(path: &Path, sent: &str) -> UnixStream {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    }

    fn next(server: &mut ControlServer) -> Result<String, String> {
        loop {
            if let Some((socket, order)) = server.next(LOOK) {
                send_answer(&socket, &"taken");
                return order;
            }
        }
    }

    #[test]
    fn an_order_is_heard_before_callers_that_came_first_and_are_not_done() {
        let (_folder, path, mut server) = bound();
        let _silent = caller(&path, "");
        let mut slow = caller(&path, "\"begun, ");
        let whole = std::thread::spawn({
            let path = path.clone();
            move || send_order::<_, String>(&path, &"whole", Duration::from_secs(60)).unwrap()
        });
        assert_eq!(next(&mut server), Ok("whole".to_owned()));
        assert_eq!(whole.join().unwrap(), "taken");
        slow.write_all(b"and ended\"\n").unwrap();
        assert_eq!(next(&mut server), Ok("begun, and ended".to_owned()));
    }

    #[test]
    fn silence_and_a_line_that_drips_end_2_seconds_after_the_call() {
        let (_folder, path, mut server) = bound();
        let _silent = caller(&path, "");
        let mut dripping = caller(&path, "");
        let begin = Instant::now();
        let mut refused = Vec::new();
        while refused.len() < 2 {
            // A caller that was sent away gets an error.
            let _ = dripping.write_all(b"x");
            std::thread::sleep(Duration::from_millis(10));
            refused.extend(server.next::<String>(LOOK).map(|(_, order)| order));
            assert!(begin.elapsed() < Duration::from_secs(60), "they are still heard");
        }
        assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
        let late = "it took longer than 2 s to arrive".to_owned();
        assert_eq!(refused, [Err(late.clone()), Err(late)]);
        assert_eq!(PATIENCE, Duration::from_secs(2));
    }

    #[test]
    fn a_line_of_64_kib_is_heard_and_a_longer_one_is_not() {
        let (_folder, path, mut server) = bound();
        let whole = |length: usize| format!("\"{}\"\n", "x".repeat(length - 3));
        let longest = whole(ORDER_MAX);
        let _long = caller(&path, &longest);
        assert_eq!(next(&mut server).unwrap().len(), 65_533);
        let _longer = caller(&path, &whole(ORDER_MAX + 1));
        let refusal = next(&mut server);
        assert_eq!(refusal, Err("it is longer than 64 KiB".to_owned()));
        // Two paths as long as Linux has them, each byte as an escape.
        const { assert!(ORDER_MAX > 2 * 4096 * 6 + 200) };
    }

    #[test]
    fn of_more_silent_callers_than_32_the_first_is_sent_away() {
        let (_folder, path, mut server) = bound();
        let mut silent: Vec<_> = (0..33).map(|_| caller(&path, "")).collect();
        assert!(server.next::<String>(LOOK).is_none());
        assert_eq!(server.callers.len(), 32);
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the first hears the end");
        silent[1].set_nonblocking(true).unwrap();
        let second = silent[1].read(&mut [0]).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        silent[1].write_all(b"\"here\"\n").unwrap();
        assert_eq!(next(&mut server), Ok("here".to_owned()));
    }

    #[test]
    fn a_server_that_accepts_nobody_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _server = crate::tests::full_listener(&path);
        let begin = Instant::now();
        let error = send_order::<_, String>(&path, &"whole", Duration::from_secs(60)).unwrap_err();
        let expected = format!("cannot connect to '{}'", path.display());
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            error.source.to_string(),
            "its server accepts no connections: it is stopped, or hangs"
        );
        assert!(begin.elapsed() >= Duration::from_secs(5), "{:?}", begin.elapsed());
        assert_eq!(CONNECTING, Duration::from_secs(5));
    }
}
