//! The handshake (fixed newstyle): which export, and what both sides understand.
//!
//! Takes a stream and the export; returns the agreed features, or nothing if the client left in
//! order.

use std::io::{Read, Write};

use super::violation;
use crate::wire::{self, WireReader, info, option, reply, transmission};
use crate::{Export, NbdError};

/// Options per handshake: some five times as many as any client sends.
const OPTIONS_MAX: usize = 64;

/// Bytes of an option to parse: a name, and hundreds of queries.
const OPTION_BYTES_MAX: u32 = 64 << 10;

/// Bytes of an option to skip before refusing it. A longer option is not an honest mistake.
const SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// The number of the one metadata context, in answers.
pub(super) const ALLOCATION_ID: u32 = 1;

/// The result of the negotiation.
#[derive(Debug)]
pub(super) struct ServerAgreement {
    pub(super) export: Export,
    /// Answers have a structure.
    pub(super) structured: bool,
    /// Block status can be asked for.
    pub(super) allocation: bool,
}

/// Negotiates with a client until it chooses an export, or leaves.
pub(super) fn run(
    stream: &mut (impl Read + Write),
    export: Export,
) -> Result<Option<ServerAgreement>, NbdError> {
    let zeroes = greet(stream)?;
    let agreed = ServerAgreement { export, structured: false, allocation: false };
    let mut handshake = Handshake { agreed, zeroes, out: Vec::new() };
    for _ in 0..OPTIONS_MAX {
        let option = handshake.take_option(stream)?;
        send(stream, &handshake.out)?;
        match option {
            HandshakeStep::Option => {}
            HandshakeStep::Transmission => return Ok(Some(handshake.agreed)),
            HandshakeStep::End => return Ok(None),
        }
    }
    Err(violation("the client sends one option after another and chooses no export"))
}

/// Exchanges the greeting: true if the client wants zeros after [`option::EXPORT_NAME`].
fn greet(stream: &mut (impl Read + Write)) -> Result<bool, NbdError> {
    let flags = wire::FIXED_NEWSTYLE | wire::NO_ZEROES;
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(wire::SERVER_MAGIC.to_be_bytes());
    greeting.extend(wire::OPTION_MAGIC.to_be_bytes());
    greeting.extend(flags.to_be_bytes());
    send(stream, &greeting)?;
    let answer = u32::from_be_bytes(receive(stream)?);
    if answer & !u32::from(flags) != 0 {
        return Err(violation("the client sent flags that this server does not know"));
    }
    Ok(answer & u32::from(wire::NO_ZEROES) == 0)
}

/// The phase after an option.
enum HandshakeStep {
    Option,
    Transmission,
    End,
}

struct Handshake {
    agreed: ServerAgreement,
    zeroes: bool,
    /// The answer to the option.
    out: Vec<u8>,
}

impl Handshake {
    fn take_option(&mut self, stream: &mut (impl Read + Write)) -> Result<HandshakeStep, NbdError> {
        self.out.clear();
        if u64::from_be_bytes(receive(stream)?) != wire::OPTION_MAGIC {
            return Err(violation("the client sent an invalid option"));
        }
        let option = u32::from_be_bytes(receive(stream)?);
        let length = u32::from_be_bytes(receive(stream)?);
        if length > OPTION_BYTES_MAX {
            self.skip(stream, option, length)?;
            return Ok(HandshakeStep::Option);
        }
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data).map_err(lost)?;
        self.answer(option, &data)
    }

    fn skip(&mut self, stream: &mut impl Read, option: u32, length: u32) -> Result<(), NbdError> {
        if option == option::EXPORT_NAME || length > SKIPPED_BYTES_MAX {
            return Err(violation("the client sent an option that is too long"));
        }
        let skipped = std::io::copy(&mut stream.take(length.into()), &mut std::io::sink());
        if skipped.map_err(lost)? < length.into() {
            return Err(violation("the connection ended within an option"));
        }
        self.reply(option, reply::ERR_TOO_BIG, &[b"the option is longer than 64 KiB"]);
        Ok(())
    }

    fn answer(&mut self, option: u32, data: &[u8]) -> Result<HandshakeStep, NbdError> {
        match option {
            option::EXPORT_NAME => return self.choose_by_name(data),
            option::ABORT => {
                self.reply(option, reply::ACK, &[]);
                return Ok(HandshakeStep::End);
            }
            option::INFO | option::GO => return Ok(self.inform(option, data)),
            option::LIST => self.list(data),
            option::STRUCTURED_REPLY => self.structure(data),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            // Includes STARTTLS: TLS is not supported.
            _ => self.reply(option, reply::ERR_UNSUP, &[b"not supported by this server"]),
        }
        Ok(HandshakeStep::Option)
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[&[u8]]) {
        wire::push_option(&mut self.out, wire::OPTION_REPLY_MAGIC, &[option, kind], data);
    }

    fn refuse(&mut self, option: u32, reason: &str) {
        self.reply(option, reply::ERR_INVALID, &[reason.as_bytes()]);
    }

    /// Whether this is the name of the export, or empty for the default.
    fn is_known(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.agreed.export.name.as_bytes()
    }

    fn choose_by_name(&mut self, name: &[u8]) -> Result<HandshakeStep, NbdError> {
        if !self.is_known(name) {
            // This option has no error reply.
            return Err(violation("the client asks for an export that does not exist"));
        }
        self.out.extend(self.agreed.export.size.to_be_bytes());
        self.out.extend(self.flags().to_be_bytes());
        if self.zeroes {
            self.out.extend([0; wire::EXPORT_NAME_ZEROES]);
        }
        Ok(HandshakeStep::Transmission)
    }

    fn list(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.refuse(option::LIST, "a list request must not carry data");
        }
        let name = self.agreed.export.name.clone();
        let length = wire::length_u32(name.len()).to_be_bytes();
        self.reply(option::LIST, reply::SERVER, &[&length, name.as_bytes()]);
        self.reply(option::LIST, reply::ACK, &[]);
    }

    fn structure(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.refuse(option::STRUCTURED_REPLY, "it is asked for without data");
        }
        self.agreed.structured = true;
        self.reply(option::STRUCTURED_REPLY, reply::ACK, &[]);
    }

    fn inform(&mut self, option: u32, data: &[u8]) -> HandshakeStep {
        let Some((name, wanted)) = parse_info(data) else {
            self.refuse(option, "the name and the list of queries do not match the length");
            return HandshakeStep::Option;
        };
        if !self.is_known(name) {
            self.reply(option, reply::ERR_UNKNOWN, &[b"there is no export with this name"]);
            return HandshakeStep::Option;
        }
        let export = self.agreed.export.clone();
        let (size, flags) = (export.size.to_be_bytes(), self.flags().to_be_bytes());
        self.reply(option, reply::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
        if wanted.contains(&info::NAME) {
            let name = export.name.as_bytes();
            self.reply(option, reply::INFO, &[&info::NAME.to_be_bytes(), name]);
        }
        let sizes = [export.block_size_min, export.block_size_preferred, export.payload_max()];
        let sizes = sizes.map(u32::to_be_bytes).concat();
        self.reply(option, reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), &sizes]);
        self.reply(option, reply::ACK, &[]);
        if option == option::GO { HandshakeStep::Transmission } else { HandshakeStep::Option }
    }

    fn flags(&self) -> u16 {
        let structured = if self.agreed.structured { transmission::DF } else { 0 };
        wire::flags_of(&self.agreed.export) | structured
    }

    fn contexts(&mut self, option: u32, data: &[u8]) {
        let is_set = option == option::SET_META_CONTEXT;
        if is_set {
            // The earlier selection is dropped, even if this one fails.
            self.agreed.allocation = false;
        }
        if !self.agreed.structured {
            return self.refuse(option, "structured replies come first");
        }
        let Some((name, queries)) = parse_queries(data) else {
            return self.refuse(option, "the queries do not match the length");
        };
        if !self.is_known(name) {
            let reason = b"there is no export with this name";
            return self.reply(option, reply::ERR_UNKNOWN, &[reason]);
        }
        let asks =
            |query: &[u8]| query == wire::ALLOCATION.as_bytes() || !is_set && query == b"base:";
        if queries.iter().any(|query| asks(query)) || !is_set && queries.is_empty() {
            self.agreed.allocation |= is_set;
            let id = if is_set { ALLOCATION_ID } else { 0 }.to_be_bytes();
            self.reply(option, reply::META_CONTEXT, &[&id, wire::ALLOCATION.as_bytes()]);
        }
        self.reply(option, reply::ACK, &[]);
    }
}

/// A name, and the kinds of information.
fn parse_info(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut reader = WireReader(data);
    let name = reader.text()?;
    let count = reader.u16()?;
    let wanted = (0..count).map(|_| reader.u16()).collect::<Option<_>>()?;
    reader.0.is_empty().then_some((name, wanted))
}

/// A name, and queries for metadata contexts.
fn parse_queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut reader = WireReader(data);
    let name = reader.text()?;
    let count = reader.u32()?;
    // Each has at least its length: an excessive count ends at the first missing one.
    let queries = (0..count).map(|_| reader.text()).collect::<Option<_>>()?;
    reader.0.is_empty().then_some((name, queries))
}

fn receive<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], NbdError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map_err(lost)?;
    Ok(bytes)
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> Result<(), NbdError> {
    stream.write_all(bytes).map_err(lost)
}

fn lost(error: std::io::Error) -> NbdError {
    NbdError::new("negotiate an export with a client", error)
}
