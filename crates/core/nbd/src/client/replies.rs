//! A server's answers, taken apart.
//!
//! Takes bytes as they arrive; returns the first answer in them and its length. Data itself
//! follows.

use crate::wire::{self, WireReader, chunk};

/// Bytes of an answer other than data: the protocol's limit for words, plus the fields around them.
const WORDS_BYTES_MAX: u32 = 4096 + 64;

/// An answer, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    /// The client's name for the request.
    pub(super) cookie: u64,
    pub(super) part: ReplyPart,
    /// The last part of the answer, except for its data.
    pub(super) is_last: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyPart {
    /// An unstructured answer reports success; the data of a read follows in full.
    Well,
    /// Success, unless an error came before.
    Nothing,
    /// It failed, with this errno.
    Failed(i32),
    /// This many bytes follow, for this place.
    Data { offset: u64, length: u32 },
    /// This many zeros at this place.
    Zeros { offset: u64, length: u32 },
}

/// Not an answer of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbage;

/// The first answer, and its length; `None` if more bytes must arrive.
pub(super) fn parse(bytes: &[u8], structured: bool) -> Result<Option<(usize, Reply)>, Garbage> {
    let Some(magic) = bytes.first_chunk() else { return Ok(None) };
    match u32::from_be_bytes(*magic) {
        wire::SIMPLE_REPLY_MAGIC => Ok(simple(bytes)),
        wire::CHUNK_MAGIC if structured => parse_chunk(bytes),
        _ => Err(Garbage),
    }
}

fn simple(bytes: &[u8]) -> Option<(usize, Reply)> {
    let mut reader = WireReader(bytes);
    let _magic = reader.u32()?;
    let part = match reader.u32()? {
        0 => ReplyPart::Well,
        number => ReplyPart::Failed(wire::errno(number)),
    };
    let reply = Reply { cookie: reader.u64()?, part, is_last: true };
    Some((bytes.len() - reader.0.len(), reply))
}

struct ChunkHead {
    kind: u16,
    is_last: bool,
    cookie: u64,
    length: u32,
}

fn chunk_head(reader: &mut WireReader<'_>) -> Option<ChunkHead> {
    let _magic = reader.u32()?;
    let is_last = reader.u16()? & chunk::DONE != 0;
    Some(ChunkHead { is_last, kind: reader.u16()?, cookie: reader.u64()?, length: reader.u32()? })
}

fn parse_chunk(bytes: &[u8]) -> Result<Option<(usize, Reply)>, Garbage> {
    let mut reader = WireReader(bytes);
    let Some(head) = chunk_head(&mut reader) else { return Ok(None) };
    let is_data = head.kind == chunk::OFFSET_DATA;
    if !is_data && head.length > WORDS_BYTES_MAX {
        return Err(Garbage);
    }
    let payload_length = if is_data { 8 } else { head.length };
    let Some(payload) = reader.bytes(payload_length as usize) else { return Ok(None) };
    let part = part_of(&head, payload).ok_or(Garbage)?;
    let reply = Reply { cookie: head.cookie, part, is_last: head.is_last };
    Ok(Some((bytes.len() - reader.0.len(), reply)))
}

/// Parses a chunk; `None` if the protocol does not define it.
fn part_of(head: &ChunkHead, payload: &[u8]) -> Option<ReplyPart> {
    let mut payload = WireReader(payload);
    match (head.kind, head.length) {
        (chunk::NONE, 0) if head.is_last => Some(ReplyPart::Nothing),
        (chunk::OFFSET_DATA, 9..) => {
            Some(ReplyPart::Data { offset: payload.u64()?, length: head.length - 8 })
        }
        (chunk::OFFSET_HOLE, 12) => {
            let (offset, length) = (payload.u64()?, payload.u32()?);
            (length > 0).then_some(ReplyPart::Zeros { offset, length })
        }
        // A message for people follows the number; it is ignored.
        (kind, 6..) if kind & chunk::IS_ERROR != 0 => {
            let (number, words) = (payload.u32()?, payload.u16()?);
            let fits = u32::from(words) <= head.length - 6;
            (fits && number != 0).then(|| ReplyPart::Failed(wire::errno(number)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_of(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::push_chunk(&mut bytes, kind, 7, wire::length_u32(payload.len()));
        bytes.extend(payload);
        bytes
    }

    fn part(kind: u16, payload: &[u8]) -> Result<ReplyPart, Garbage> {
        parse(&chunk_of(kind, payload), true).map(|it| it.expect("it is whole").1.part)
    }

    #[test]
    fn an_answer_is_none_until_it_is_whole() {
        let mut bytes = Vec::new();
        wire::push_simple_reply(&mut bytes, 5, 7);
        let whole = Reply { cookie: 7, part: ReplyPart::Failed(libc::EIO), is_last: true };
        for length in 0..16 {
            assert_eq!(parse(&bytes[..length], false), Ok(None));
        }
        assert_eq!(parse(&bytes, false), Ok(Some((16, whole))));
        let bytes = chunk_of(chunk::ERROR, &[0, 0, 0, 28, 0, 2, b'n', b'o']);
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length], true), Ok(None));
        }
        assert_eq!(part(chunk::ERROR, &bytes[20..]), Ok(ReplyPart::Failed(libc::ENOSPC)));
    }

    #[test]
    fn data_follows_its_place() {
        let bytes = chunk_of(chunk::OFFSET_DATA, &[0, 0, 0, 0, 0, 0, 1, 0, 9, 9]);
        let expected = ReplyPart::Data { offset: 256, length: 2 };
        let (used, reply) = parse(&bytes, true).unwrap().unwrap();
        assert_eq!((used, reply.part), (28, expected));
        let zeros = [&256_u64.to_be_bytes()[..], &[0, 0, 0, 3]].concat();
        let expected = ReplyPart::Zeros { offset: 256, length: 3 };
        assert_eq!(part(chunk::OFFSET_HOLE, &zeros), Ok(expected));
    }

    #[test]
    fn what_the_protocol_does_not_have_is_garbage() {
        assert_eq!(part(chunk::NONE, &[1]), Err(Garbage));
        assert_eq!(part(chunk::OFFSET_DATA, &[0; 8]), Err(Garbage));
        assert_eq!(part(chunk::OFFSET_HOLE, &[0; 12]), Err(Garbage));
        assert_eq!(part(chunk::ERROR, &[0; 6]), Err(Garbage));
        assert_eq!(part(chunk::ERROR, &[0, 0, 0, 5, 0, 1]), Err(Garbage));
        assert_eq!(part(77, &[]), Err(Garbage));
        assert_eq!(parse(&chunk_of(chunk::NONE, &[]), false), Err(Garbage));
        let mut endless = Vec::new();
        wire::push_chunk(&mut endless, chunk::ERROR, 7, 1 << 20);
        assert_eq!(parse(&endless, true), Err(Garbage));
        // 4096 bytes of words, and 64 for what stands around them.
        let head = |length| {
            let mut bytes = Vec::new();
            wire::push_chunk(&mut bytes, 0x8002, 7, length);
            parse(&bytes, true)
        };
        assert_eq!((head(4160), head(4161)), (Ok(None), Err(Garbage)));
    }
}
