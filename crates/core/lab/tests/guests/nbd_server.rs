//! A small server of the NBD protocol, which keeps a disk in memory and counts what is asked of it.
//!
//! As much of the protocol as QEMU's client uses (the project nbd's doc/proto.md): the fixed newstyle
//! handshake, simple replies. One thread for each connection.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

const HANDSHAKE: &[u8] = b"NBDMAGICIHAVEOPT\x00\x03";
const OPTION_GO: u32 = 7;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const ACK: u32 = 1;
const INFO: u32 = 3;
const UNSUPPORTED: u32 = 0x8000_0001;
/// HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM.
const EXPORT_FLAGS: u16 = 1 | 4 | 8 | 32;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const FUA: u16 = 1;

/// What a disk holds, and what was asked of it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) bytes: Vec<u8>,
    pub(crate) writes: usize,
    /// Of the writes, those with FUA.
    pub(crate) fuas: usize,
    pub(crate) flushes: usize,
    connections: Vec<UnixStream>,
    is_gone: bool,
}

/// A disk at a socket, gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    folder: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub(crate) fn start(size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = Arc::new(Mutex::new(State { bytes: vec![0; size], ..State::default() }));
        let server = Self { folder, state };
        let listener = UnixListener::bind(server.socket()).unwrap();
        let state = Arc::clone(&server.state);
        thread::spawn(move || accept(&listener, &state));
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every connection, and takes no other.
    pub(crate) fn vanish(&self) {
        let mut state = self.state();
        state.is_gone = true;
        for connection in state.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.vanish();
        // The thread that accepts looks whether it shall end.
        let _ = UnixStream::connect(self.socket());
    }
}

fn accept(listener: &UnixListener, state: &Arc<Mutex<State>>) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else { return };
        let mut all = state.lock().unwrap();
        if all.is_gone {
            return;
        }
        all.connections.push(connection.try_clone().unwrap());
        let state = Arc::clone(state);
        thread::spawn(move || serve(connection, &state));
    }
}

/// Until the client has enough or the connection ends.
fn serve(mut stream: UnixStream, state: &Mutex<State>) -> io::Result<()> {
    stream.write_all(HANDSHAKE)?;
    let _client_flags: [u8; 4] = read(&mut stream)?;
    while !answer_option(&mut stream, state)? {}
    while answer_request(&mut stream, state)? {}
    Ok(())
}

fn read<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// True when the handshake is over.
fn answer_option(stream: &mut UnixStream, state: &Mutex<State>) -> io::Result<bool> {
    let _magic: [u8; 8] = read(stream)?;
    let option = u32::from_be_bytes(read(stream)?);
    let length = u32::from_be_bytes(read(stream)?);
    io::copy(&mut stream.take(length.into()), &mut io::sink())?;
    let mut reply = |kind: u32, content: &[u8]| {
        let length = u32::try_from(content.len()).unwrap();
        let head = [&OPTION_REPLY.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()];
        stream.write_all(&[&head.concat()[..], &length.to_be_bytes(), content].concat())
    };
    if option != OPTION_GO {
        return reply(UNSUPPORTED, &[]).map(|()| false);
    }
    let size = state.lock().unwrap().bytes.len() as u64;
    reply(INFO, &[&[0, 0][..], &size.to_be_bytes(), &EXPORT_FLAGS.to_be_bytes()].concat())?;
    reply(ACK, &[]).map(|()| true)
}

/// False when the client has said farewell.
fn answer_request(stream: &mut UnixStream, state: &Mutex<State>) -> io::Result<bool> {
    let _magic: [u8; 4] = read(stream)?;
    let flags = u16::from_be_bytes(read(stream)?);
    let kind = u16::from_be_bytes(read(stream)?);
    let handle: [u8; 8] = read(stream)?;
    let offset = usize::try_from(u64::from_be_bytes(read(stream)?)).unwrap();
    let length = usize::try_from(u32::from_be_bytes(read(stream)?)).unwrap();
    let mut written = vec![0; if kind == 1 { length } else { 0 }];
    stream.read_exact(&mut written)?;
    let mut content = Vec::new();
    {
        let mut state = state.lock().unwrap();
        match kind {
            0 => content.extend_from_slice(&state.bytes[offset..offset + length]),
            1 => {
                state.bytes[offset..offset + length].copy_from_slice(&written);
                state.writes += 1;
                state.fuas += usize::from(flags & FUA != 0);
            }
            2 => return Ok(false),
            3 => state.flushes += 1,
            _ => {}
        }
    }
    let head = [&SIMPLE_REPLY.to_be_bytes()[..], &[0; 4], &handle];
    stream.write_all(&[&head.concat()[..], &content].concat())?;
    Ok(true)
}
