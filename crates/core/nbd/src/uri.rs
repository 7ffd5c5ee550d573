//! Where an export is, as a URI (`doc/uri.md` of github.com/NetworkBlockDevice/nbd).
//!
//! Parses `nbd+unix:///export?socket=PATH` and `nbd://host[:port]/export`, and connects. `nbds`,
//! which is TLS, is not supported.

use std::ffi::OsString;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;

use crate::socket::Socket;
use crate::{NbdError, NbdErrorKind};

/// IANA's port for NBD.
const PORT: u16 = 10809;

/// An export of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    pub endpoint: Endpoint,
    /// The export's name; empty for the server's default.
    pub export: String,
}

/// Where a server is, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket in the filesystem.
    Unix(PathBuf),
    /// A host and a port.
    Tcp {
        /// Its name or address, without brackets.
        host: String,
        port: u16,
    },
}

impl Uri {
    /// The URI of an export of a server that is bound there.
    #[must_use]
    pub fn of(address: &Address, export: &str) -> Self {
        let endpoint = match address {
            Address::Unix(path) => Endpoint::Unix(path.clone()),
            Address::Tcp(address) => {
                Endpoint::Tcp { host: address.ip().to_string(), port: address.port() }
            }
        };
        Self { endpoint, export: export.to_owned() }
    }

    /// Connects to the server.
    pub fn connect(&self) -> Result<Socket, NbdError> {
        let connected = match &self.endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).map(Socket::from),
            Endpoint::Tcp { host, port } => {
                TcpStream::connect((host.as_str(), *port)).and_then(Socket::over_tcp)
            }
        };
        connected.map_err(|error| NbdError::new("connect to", error).about(self))
    }
}

impl FromStr for Uri {
    type Err = NbdError;

    fn from_str(text: &str) -> Result<Self, NbdError> {
        parse(text).map_err(|reason| {
            NbdError::because(NbdErrorKind::Usage, "understand", reason).about(text)
        })
    }
}

fn parse(text: &str) -> Result<Uri, &'static str> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("an NBD URI is nbd+unix:///EXPORT?socket=PATH or nbd://HOST[:PORT]/EXPORT")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
    let export = String::from_utf8(decoded(name)?).map_err(|_| "the export's name is not UTF-8")?;
    let endpoint = match scheme {
        "nbd+unix" => unix(authority, query)?,
        "nbd" if query.is_empty() => tcp(authority)?,
        "nbd" => return Err("nbd:// takes no parameters"),
        "nbds" | "nbds+unix" => return Err("TLS is not supported; without it: nbd, nbd+unix"),
        _ => return Err("the scheme must be nbd+unix or nbd"),
    };
    Ok(Uri { endpoint, export })
}

fn unix(authority: &str, query: &str) -> Result<Endpoint, &'static str> {
    if !authority.is_empty() {
        return Err("nbd+unix has no host: write three slashes, nbd+unix:///EXPORT?socket=PATH");
    }
    let path = query.strip_prefix("socket=").ok_or("the socket is missing: add ?socket=PATH")?;
    if path.contains('&') {
        return Err("the only parameter is socket");
    }
    let path = decoded(path)?;
    if path.is_empty() || path.contains(&0) {
        return Err("the path of the socket is empty or contains a NUL byte");
    }
    Ok(Endpoint::Unix(OsString::from_vec(path).into()))
}

fn tcp(authority: &str) -> Result<Endpoint, &'static str> {
    if authority.contains('@') {
        return Err("a user name needs TLS");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
            let port = match rest {
                "" => None,
                _ => Some(
                    rest.strip_prefix(':').ok_or("expected :PORT or nothing after the bracket")?,
                ),
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| "the port is not a number up to 65535")?,
        None => PORT,
    };
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

/// The bytes of a percent-encoded text.
fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let wrong = "expected two hexadecimal digits after the percent sign";
        let (digits, after) = rest.split_at_checked(2).ok_or(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong)?;
        if digits.starts_with('+') {
            return Err(wrong);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong)?);
        rest = after;
    }
    Ok(bytes)
}

/// The reverse: all but letters, digits and harmless signs is spelt out.
fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|&byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            write!(f, "{}", char::from(byte))
        }
        _ => write!(f, "%{byte:02X}"),
    })
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => {
                f.write_str("nbd+unix:///")?;
                encode(f, self.export.as_bytes())?;
                f.write_str("?socket=")?;
                encode(f, path.as_os_str().as_bytes())
            }
            Endpoint::Tcp { host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "nbd://{open}{host}{close}:{port}/")?;
                encode(f, self.export.as_bytes())
            }
        }
    }
}

/// Where a server is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the filesystem.
    Unix(PathBuf),
    /// An address and port of this machine.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_uri(host: &str, port: u16, export: &str) -> Uri {
        let endpoint = Endpoint::Tcp { host: host.to_owned(), port };
        Uri { endpoint, export: export.to_owned() }
    }

    #[test]
    fn uris_of_both_kinds_are_understood() {
        let cases = [
            ("nbd://example.com", tcp_uri("example.com", 10809, "")),
            ("nbd://example.com:1/a%20b", tcp_uri("example.com", 1, "a b")),
            ("nbd://example.com//a", tcp_uri("example.com", 10809, "/a")),
            ("nbd://[::1]:7/", tcp_uri("::1", 7, "")),
            ("nbd://[::1]", tcp_uri("::1", 10809, "")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Uri>().unwrap(), expected, "{text}");
        }
        let uri: Uri = "nbd+unix:///disk?socket=/tmp/a%3Fb".parse().unwrap();
        assert_eq!(uri.endpoint, Endpoint::Unix("/tmp/a?b".into()));
        assert_eq!(uri.export, "disk");
    }

    #[test]
    fn a_uri_is_printed_so_that_it_is_understood_again() {
        for text in ["nbd+unix:///a%20%C3%A4?socket=/x%25y", "nbd://[::1]:10809/", "nbd://h:1/x"] {
            let uri: Uri = text.parse().unwrap();
            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_with_a_uri_is_said() {
        let cases = [
            ("/dev/nbd0", "an NBD URI is"),
            ("http://a/", "the scheme"),
            ("nbds://a/", "TLS is not supported"),
            ("nbd:///x", "the host is missing"),
            ("nbd://a:b/x", "the port"),
            ("nbd://a:65536/x", "the port"),
            ("nbd://[::1/x", "a bracket is not closed"),
            ("nbd://[::1]1/x", "after the bracket"),
            ("nbd://u@a/x", "a user"),
            ("nbd://a/x?socket=y", "nbd:// takes no parameters"),
            ("nbd://a/%", "after the percent"),
            ("nbd://a/%+1", "after the percent"),
            ("nbd://a/%ff", "is not UTF-8"),
            ("nbd+unix://a/x?socket=y", "three slashes"),
            ("nbd+unix:///x", "the socket is missing"),
            ("nbd+unix:///x?socket=", "is empty"),
            ("nbd+unix:///x?socket=a&b=c", "the only parameter is socket"),
        ];
        for (text, words) in cases {
            let error = text.parse::<Uri>().unwrap_err();
            assert_eq!(error.kind, NbdErrorKind::Usage);
            assert!(error.source.to_string().contains(words), "{text}: {}", error.source);
        }
    }
}
