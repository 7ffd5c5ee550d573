//! The client's half of the handshake.
//!
//! Takes a stream and the name of an export, and returns the server's description of it.

use std::io::{Read, Write};

use crate::wire::{self, WireReader, info, option, reply, transmission};
use crate::{Export, NbdError, NbdErrorKind, PAYLOAD_MAX};

const OPERATION: &str = "negotiate an export with the server";

/// The second word of an old-style server.
const OLD_STYLE_MAGIC: u64 = 0x0000_4202_8186_1253;

/// Bytes of an answer to an option: far more than any server sends.
const ANSWER_BYTES_MAX: u32 = 64 << 10;

/// Answers to one option.
const ANSWERS_MAX: usize = 64;

/// The server wants TLS.
const ERR_TLS_REQD: u32 = reply::ERROR | 5;

/// The result of the negotiation.
#[derive(Debug)]
pub(crate) struct ClientAgreement {
    pub(crate) export: Export,
    /// Answers have a structure.
    pub(crate) structured: bool,
}

/// Negotiates with a server until its export can be used; with structured replies if they are
/// wanted and the server has them.
pub(crate) fn run(
    stream: &mut (impl Read + Write),
    name: &str,
    wants_structure: bool,
) -> Result<ClientAgreement, NbdError> {
    let is_fixed = greet(stream)?;
    if !is_fixed {
        return Ok(ClientAgreement {
            export: choose_by_name(stream, name, false)?,
            structured: false,
        });
    }
    let structured = wants_structure && {
        send_option(stream, option::STRUCTURED_REPLY, &[])?;
        take_answer(stream, option::STRUCTURED_REPLY)?.kind == reply::ACK
    };
    let export = match go(stream, name)? {
        Some(export) => export,
        None => choose_by_name(stream, name, true)?,
    };
    check(&export)?;
    Ok(ClientAgreement { export, structured })
}

/// True if the server takes options.
fn greet(stream: &mut (impl Read + Write)) -> Result<bool, NbdError> {
    let magic = u64::from_be_bytes(receive(stream)?);
    let style = u64::from_be_bytes(receive(stream)?);
    if magic != wire::SERVER_MAGIC {
        return Err(violation("the server there does not speak NBD"));
    }
    if style == OLD_STYLE_MAGIC {
        let reason = "the server speaks the old style of NBD";
        return Err(NbdError::because(NbdErrorKind::Unsupported, OPERATION, reason));
    }
    if style != wire::OPTION_MAGIC {
        return Err(violation("the server there does not speak NBD"));
    }
    let flags = u16::from_be_bytes(receive(stream)?) & (wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
    send(stream, &u32::from(flags).to_be_bytes())?;
    // Only servers that are not of the fixed style insist on the zeros.
    Ok(flags & wire::FIXED_NEWSTYLE != 0)
}

/// The export; `None` if the server does not know the option.
fn go(stream: &mut (impl Read + Write), name: &str) -> Result<Option<Export>, NbdError> {
    let length = wire::length_u32(name.len()).to_be_bytes();
    let wanted = [1, info::BLOCK_SIZE].map(u16::to_be_bytes).concat();
    send_option(stream, option::GO, &[&length, name.as_bytes(), &wanted])?;
    let mut export = Export { block_size_max: PAYLOAD_MAX, ..nothing(name) };
    let mut is_described = false;
    for _ in 0..ANSWERS_MAX {
        let answer = take_answer(stream, option::GO)?;
        match answer.kind {
            reply::INFO => is_described |= describe(&mut export, &answer.data)?,
            reply::ACK if is_described => return Ok(Some(export)),
            reply::ACK => return Err(violation("the server does not describe its export")),
            reply::ERR_UNSUP => return Ok(None),
            _ => return Err(refused(&answer)),
        }
    }
    Err(violation("the server does not stop sending answers"))
}

/// Parses a piece of information; true if it is the size of the export.
fn describe(export: &mut Export, data: &[u8]) -> Result<bool, NbdError> {
    let mut reader = WireReader(data);
    let mut take = || {
        match reader.u16()? {
            info::EXPORT => {
                export.size = reader.u64()?;
                set_flags(export, reader.u16()?);
                return Some(true);
            }
            info::BLOCK_SIZE => {
                export.block_size_min = reader.u32()?;
                export.block_size_preferred = reader.u32()?;
                export.block_size_max = reader.u32()?;
            }
            _ => {}
        }
        Some(false)
    };
    take().ok_or_else(|| violation("the server's description of its export is too short"))
}

fn choose_by_name(
    stream: &mut (impl Read + Write),
    name: &str,
    is_fixed: bool,
) -> Result<Export, NbdError> {
    send_option(stream, option::EXPORT_NAME, &[name.as_bytes()])?;
    let mut export = nothing(name);
    export.size = u64::from_be_bytes(receive(stream)?);
    set_flags(&mut export, u16::from_be_bytes(receive(stream)?));
    // All servers of the fixed style of the last ten years omit the zeros, if asked.
    if !is_fixed {
        receive::<{ wire::EXPORT_NAME_ZEROES }>(stream)?;
    }
    Ok(export)
}

/// An export with unknown properties; for the sizes, the protocol's defaults.
fn nothing(name: &str) -> Export {
    let mut export = Export::new(name, 0);
    set_flags(&mut export, 0);
    export
}

fn set_flags(export: &mut Export, flags: u16) {
    let has = |flag| flags & flag != 0;
    export.read_only = has(transmission::READ_ONLY);
    export.flush = has(transmission::FLUSH);
    export.fua = has(transmission::FUA);
    export.rotational = has(transmission::ROTATIONAL);
    export.trim = has(transmission::TRIM);
    export.write_zeroes = has(transmission::WRITE_ZEROES);
    export.multi_conn = has(transmission::MULTI_CONN);
}

fn check(export: &Export) -> Result<(), NbdError> {
    let (min, max) = (export.block_size_min, export.block_size_max);
    if !min.is_power_of_two() || min > 1 << 16 || max < min {
        return Err(violation("the server's block sizes violate the protocol"));
    }
    Ok(())
}

struct OptionReply {
    kind: u32,
    data: Vec<u8>,
}

fn take_answer(stream: &mut impl Read, option: u32) -> Result<OptionReply, NbdError> {
    let magic = u64::from_be_bytes(receive(stream)?);
    let answered = u32::from_be_bytes(receive(stream)?);
    if magic != wire::OPTION_REPLY_MAGIC || answered != option {
        return Err(violation("the server's answer does not match the option"));
    }
    let kind = u32::from_be_bytes(receive(stream)?);
    let length = u32::from_be_bytes(receive(stream)?);
    if length > ANSWER_BYTES_MAX {
        return Err(violation("the server's answer to an option is longer than 64 KiB"));
    }
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data).map_err(lost)?;
    Ok(OptionReply { kind, data })
}

/// The server's refusal, with its message if it has one.
fn refused(answer: &OptionReply) -> NbdError {
    let (kind, reason) = match answer.kind {
        reply::ERR_UNKNOWN => (NbdErrorKind::NotFound, "the server has no export with this name"),
        ERR_TLS_REQD => (NbdErrorKind::Unsupported, "the server wants TLS"),
        kind if kind & reply::ERROR != 0 => (NbdErrorKind::Unsupported, "the server refuses"),
        _ => return violation("the server's answer is not valid for this option"),
    };
    let said = String::from_utf8_lossy(&answer.data);
    let said: String = said.chars().filter(|letter| !letter.is_control()).take(200).collect();
    match said.is_empty() {
        true => NbdError::because(kind, OPERATION, reason),
        false => NbdError::because(kind, OPERATION, format!("{reason}: {said}")),
    }
}

fn violation(reason: &str) -> NbdError {
    NbdError::because(NbdErrorKind::Protocol, OPERATION, reason)
}

fn receive<const N: usize>(stream: &mut impl Read) -> Result<[u8; N], NbdError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map_err(lost)?;
    Ok(bytes)
}

fn send_option(stream: &mut impl Write, option: u32, data: &[&[u8]]) -> Result<(), NbdError> {
    let mut bytes = Vec::new();
    wire::push_option(&mut bytes, wire::OPTION_MAGIC, &[option], data);
    send(stream, &bytes)
}

fn send(stream: &mut impl Write, bytes: &[u8]) -> Result<(), NbdError> {
    stream.write_all(bytes).map_err(lost)
}

fn lost(error: std::io::Error) -> NbdError {
    NbdError::new(OPERATION, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ScriptedPeer;

    const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";

    /// An answer as doc/proto.md has it.
    fn answer(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        let (option, kind) = (option.to_be_bytes(), kind.to_be_bytes());
        [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &option, &kind, &length, data].concat()
    }

    /// 5 MiB; of the flags those that are given.
    fn described(flags: u16) -> Vec<u8> {
        let size = (5_u64 << 20).to_be_bytes();
        answer(7, 3, &[&[0, 0][..], &size, &flags.to_be_bytes()].concat())
    }

    fn sized(min: u32, preferred: u32, max: u32) -> Vec<u8> {
        let sizes = [min, preferred, max].map(u32::to_be_bytes).concat();
        answer(7, 3, &[&[0, 3][..], &sizes].concat())
    }

    /// What comes of a server that answers so when an export is asked for.
    fn agreed(answers: &[&[u8]]) -> Result<Export, String> {
        let mut script = ScriptedPeer::new(&[GREETING, &answers.concat()]);
        let agreed = run(&mut script, "disk", false);
        agreed.map(|handshake| handshake.export).map_err(|error| error.source.to_string())
    }

    #[test]
    fn the_client_says_what_the_protocol_has_and_asks_for_block_sizes() {
        let structured = answer(8, 1, &[]);
        let words = [GREETING, &structured, &described(1), &answer(7, 1, &[])];
        let mut script = ScriptedPeer::new(&words);
        assert!(run(&mut script, "disk", true).unwrap().structured);
        let expected: [&[u8]; 5] = [
            &[0, 0, 0, 3],
            b"IHAVEOPT\0\0\0\x08\0\0\0\0",
            b"IHAVEOPT\0\0\0\x07\0\0\0\x0c",
            b"\0\0\0\x04disk",
            &[0, 1, 0, 3],
        ];
        assert_eq!(script.output, expected.concat());
    }

    #[test]
    fn each_flag_and_size_of_a_server_is_that_of_its_export() {
        let ack = answer(7, 1, &[]);
        let nothing = Export {
            flush: false,
            fua: false,
            trim: false,
            write_zeroes: false,
            multi_conn: false,
            ..Export::new("disk", 5 << 20)
        };
        let of = |flags| agreed(&[&described(flags), &ack]).unwrap();
        assert_eq!(of(1), nothing);
        for (bit, export) in [
            (1, Export { read_only: true, ..nothing.clone() }),
            (2, Export { flush: true, ..nothing.clone() }),
            (3, Export { fua: true, ..nothing.clone() }),
            (4, Export { rotational: true, ..nothing.clone() }),
            (5, Export { trim: true, ..nothing.clone() }),
            (6, Export { write_zeroes: true, ..nothing.clone() }),
            (8, Export { multi_conn: true, ..nothing.clone() }),
        ] {
            assert_eq!(of(1 | 1 << bit), export, "bit {bit}");
        }
        let sizes = agreed(&[&described(1), &sized(512, 4096, 65_536), &ack]).unwrap();
        let found = (sizes.block_size_min, sizes.block_size_preferred, sizes.block_size_max);
        assert_eq!(found, (512, 4096, 65_536));
    }

    #[test]
    fn a_minimum_block_size_is_a_power_of_two_up_to_64_kib_and_no_larger_than_the_maximum() {
        let ack = answer(7, 1, &[]);
        let of = |min, max| agreed(&[&described(1), &sized(min, min, max), &ack]).is_ok();
        assert_eq!([of(65_536, 65_536), of(131_072, 131_072)], [true, false]);
        assert_eq!(
            [of(1, 1), of(0, 4096), of(3, 4096), of(4096, 4095)],
            [true, false, false, false]
        );
    }

    #[test]
    fn an_answer_has_64_kib_at_most_and_an_option_64_answers() {
        let ack = answer(7, 1, &[]);
        // A kind of information that is not known.
        let long = |length: usize| answer(7, 3, &vec![9; length]);
        assert!(agreed(&[&described(1), &long(65_536), &ack]).is_ok());
        let refused = agreed(&[&described(1), &long(65_537), &ack]);
        let expected = "the server's answer to an option is longer than 64 KiB";
        assert_eq!(refused.unwrap_err(), expected);
        let many = |count: usize| agreed(&[&described(1), &long(2).repeat(count - 2), &ack]);
        assert!(many(64).is_ok());
        let expected = "the server does not stop sending answers";
        assert_eq!(many(65).unwrap_err(), expected);
    }

    #[test]
    fn a_refusal_is_told_with_up_to_200_characters_of_the_servers_words() {
        let refusal = |number: u32, words: &str| {
            agreed(&[&answer(7, (1 << 31) + number, words.as_bytes())]).unwrap_err()
        };
        assert_eq!(refusal(5, ""), "the server wants TLS");
        assert_eq!(refusal(6, "no\n"), "the server has no export with this name: no");
        assert_eq!(refusal(2, ""), "the server refuses");
        let words = "é".repeat(201);
        assert_eq!(refusal(2, &words), format!("the server refuses: {}", "é".repeat(200)));
    }
}
