//! The client protocol of NATS, as far as a scripted host needs it: one thread, one socket.
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use durio_agree::sign::SigningKey;

const PATIENCE: Duration = Duration::from_secs(5);
const CHUNK: usize = 16 << 10;
/// The agent's client asks a bus that has been silent for this long.
const PING_EVERY: Duration = Duration::from_secs(1);

/// A connection to the bus.
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    next_ping: Instant,
    /// Bytes in both directions.
    pub(super) bytes: u64,
}

/// What the bus sends.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Message(Vec<u8>),
    Ping,
    Other(String),
}

impl Wire {
    /// Signs in by a key.
    pub(super) fn connect(port: u16, key: &SigningKey) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("no bus")?;
        stream.set_nodelay(true)?;
        let next_ping = Instant::now() + PING_EVERY;
        let mut wire = Self { stream, buffer: Vec::new(), next_ping, bytes: 0 };
        let info = wire.line()?;
        let info = info.strip_prefix("INFO ").context("the bus does not begin with INFO")?;
        let info: serde_json::Value = serde_json::from_str(info)?;
        let nonce = info["nonce"].as_str().context("the bus asks for no signature")?;
        let options = serde_json::json!({
            "verbose": false, "pedantic": false, "tls_required": false, "echo": false,
            "lang": "rust", "version": env!("CARGO_PKG_VERSION"), "protocol": 1,
            "nkey": key.public(), "sig": key.sign(nonce.as_bytes())?,
        });
        wire.write(format!("CONNECT {options}\r\nPING\r\n").as_bytes())?;
        match wire.line()?.as_str() {
            "PONG" => Ok(wire),
            other => bail!("the bus answers {other}"),
        }
    }

    pub(super) fn subscribe(&mut self, subject: &str, number: usize) -> Result<()> {
        self.write(format!("SUB {subject} {number}\r\n").as_bytes())
    }

    pub(super) fn publish(&mut self, subject: &str, payload: &[u8]) -> Result<()> {
        let mut bytes = format!("PUB {subject} {}\r\n", payload.len()).into_bytes();
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.write(&bytes)
    }

    /// How long the bus may still be silent.
    pub(super) fn silent_in(&self) -> Duration {
        self.next_ping.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }

    /// Asks a bus that has been silent for a second.
    pub(super) fn keep_alive(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.next_ping {
            return Ok(());
        }
        self.next_ping = now + PING_EVERY;
        self.write(b"PING\r\n")
    }

    /// The messages that come within this time.
    pub(super) fn receive(&mut self, limit: Duration) -> Result<Vec<Vec<u8>>> {
        self.fill(limit)?;
        let mut messages = Vec::new();
        while let Some(frame) = self.next_frame()? {
            match frame {
                Frame::Message(payload) => messages.push(payload),
                Frame::Ping => self.write(b"PONG\r\n")?,
                Frame::Other(line) if line.starts_with("-ERR") => bail!("the bus says {line}"),
                Frame::Other(_) => {}
            }
        }
        Ok(messages)
    }

    /// The next line, which must be no message.
    fn line(&mut self) -> Result<String> {
        loop {
            match self.next_frame()? {
                Some(Frame::Other(line)) => return Ok(line),
                Some(_) => {}
                None if self.fill(PATIENCE)? => {}
                None => bail!("the bus is silent"),
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame>> {
        let Some((frame, length)) = frame(&self.buffer)? else { return Ok(None) };
        self.buffer.drain(..length);
        Ok(Some(frame))
    }

    /// Reads once; false if nothing came.
    fn fill(&mut self, limit: Duration) -> Result<bool> {
        self.stream.set_read_timeout(Some(limit))?;
        let mut chunk = [0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => bail!("the bus has closed the connection"),
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                self.bytes += count as u64;
                self.next_ping = Instant::now() + PING_EVERY;
                Ok(true)
            }
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(error).context("the bus cannot be read"),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("the bus cannot be written to")?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The first frame of a buffer and its length, if all of it is there.
fn frame(buffer: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(end) = buffer.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let after = end + 2;
    if line == "PING" {
        return Ok(Some((Frame::Ping, after)));
    }
    let Some(words) = line.strip_prefix("MSG ") else {
        return Ok(Some((Frame::Other(line), after)));
    };
    let size = words.rsplit(' ').next().and_then(|word| word.parse::<usize>().ok());
    let payload_end = after + size.context("a message without a size")?;
    let whole = payload_end + 2;
    if buffer.len() < whole {
        return Ok(None);
    }
    Ok(Some((Frame::Message(buffer[after..payload_end].to_vec()), whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_whole() {
        let text = b"MSG a.b 1 5\r\nab\r\nc\r\nPING\r\n";
        for cut in 0..20 {
            assert_eq!(frame(&text[..cut]).unwrap(), None, "{cut}");
        }
        let message = Frame::Message(b"ab\r\nc".to_vec());
        assert_eq!(frame(text).unwrap(), Some((message, 20)));
        assert_eq!(frame(&text[20..]).unwrap(), Some((Frame::Ping, 6)));
        let error = Frame::Other("-ERR 'x'".to_owned());
        assert_eq!(frame(b"-ERR 'x'\r\n").unwrap(), Some((error, 10)));
        frame(b"MSG a b\r\n").unwrap_err();
    }
}
