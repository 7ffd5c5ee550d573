//! Requests of users: checked, cut at the borders of chunks, counted, answered.
//!
//! `transfer.rs` carries out the parts, in the order of their lanes (`lanes.rs`).

use super::lanes::{ChunkPart, PartKind, PartPhase};
use super::output::{EngineOutput, RequestCompletion};
use super::{Engine, Run};
use crate::geometry::{BytePlace, SECTOR};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Read into the buffer.
    Read,
    /// Write the buffer, durable when it is answered.
    Write,
    /// Make zero, durable when it is answered: write zeroes, and discard.
    Zero,
    /// Answered at once: every answered write is durable.
    Flush,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayRequest {
    /// Comes back with the answer.
    pub tag: u64,
    pub kind: RequestKind,
    /// Bytes from the start of the array, a multiple of 512.
    pub offset: u64,
    /// Bytes, a multiple of 512, at least one sector; nothing for a flush.
    pub length: u32,
    /// The caller's name of the buffer.
    pub buffer: u32,
}

/// Why a request is not taken, or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No slot is free: submit the request again after the next answer.
    #[error("the engine's limit of requests in flight is reached")]
    Busy,
    /// Its bounds are not multiples of 512 bytes.
    #[error("offset and length must be multiples of 512, and the length must not be zero")]
    Unaligned,
    /// Beyond the end, or too long.
    #[error("the request extends beyond the end of the array, or is too long")]
    Beyond,
    /// No copy could be read.
    #[error("no copy can be read")]
    Unreadable,
    /// The array has stopped; whether a write that was taken took place is not known.
    #[error("the array has stopped")]
    Stopped,
}

/// A request in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RequestSlot {
    pub(super) tag: u64,
    pub(super) buffer: u32,
    pub(super) parts: u16,
    pub(super) failed: bool,
    pub(super) answered: bool,
}

impl Engine {
    /// Takes a request.
    ///
    /// # Errors
    /// [`RequestError`]; nothing has changed then.
    pub fn submit(
        &mut self,
        request: ArrayRequest,
        out: &mut EngineOutput,
    ) -> Result<(), RequestError> {
        if matches!(self.run, Run::Stopped(_)) || self.is_closing {
            return Err(RequestError::Stopped);
        }
        if request.kind == RequestKind::Flush {
            // Every answered write is durable on all copies.
            out.answers.push(RequestCompletion { tag: request.tag, result: Ok(()) });
            return Ok(());
        }
        let parts = self.parts_of(&request)?;
        let slot = self.free_requests.pop().ok_or(RequestError::Busy)?;
        let (tag, buffer) = (request.tag, request.buffer);
        self.requests[usize::from(slot)] =
            RequestSlot { tag, buffer, parts, ..RequestSlot::default() };
        let (mut at, mut left) = (request.offset, request.length);
        while left > 0 {
            let room = self.geometry.chunk - (at as u32 & (self.geometry.chunk - 1));
            let length = left.min(room);
            self.enter(&request, slot, at, length, out);
            at += u64::from(length);
            left -= length;
        }
        self.pump(out);
        Ok(())
    }

    /// How many parts a request has, if it can be taken now.
    fn parts_of(&self, request: &ArrayRequest) -> Result<u16, RequestError> {
        let (sector, length) = (SECTOR, u64::from(request.length));
        if length == 0 || !request.offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            return Err(RequestError::Unaligned);
        }
        let end = request.offset.checked_add(length).ok_or(RequestError::Beyond)?;
        if end > self.size {
            return Err(RequestError::Beyond);
        }
        let shift = self.chunk_shift;
        let parts = ((end - 1) >> shift) - (request.offset >> shift) + 1;
        if parts > u64::from(self.parts_max) {
            return Err(RequestError::Beyond);
        }
        if parts as usize > self.free_parts.len() {
            Err(RequestError::Busy)
        } else {
            Ok(parts as u16)
        }
    }

    /// The place on the members of a byte of the request.
    #[inline(always)]
    pub(super) fn locate(&self, at: u64) -> BytePlace {
        let (chunk, within) = (at >> self.chunk_shift, at & u64::from(self.geometry.chunk - 1));
        let row = chunk / self.chunks_in_row;
        let number = (chunk - row * self.chunks_in_row) as u8;
        let offset = (row << self.chunk_shift) | within;
        match self.parities {
            0 => BytePlace { set: number, offset, column: 0 },
            _ => BytePlace { set: 0, offset, column: number },
        }
    }

    #[inline]
    fn enter(
        &mut self,
        request: &ArrayRequest,
        slot: u16,
        at: u64,
        length: u32,
        out: &mut EngineOutput,
    ) {
        let Some(index) = self.free_parts.pop() else { return };
        let place = self.locate(at);
        let region = self.region_at(place);
        let kind = match request.kind {
            RequestKind::Read => PartKind::Read,
            RequestKind::Write => PartKind::Write,
            RequestKind::Zero | RequestKind::Flush => PartKind::Zero,
        };
        // A read of copies that may differ must run alone: a read that meets an error writes.
        let exclusive = kind != PartKind::Read || self.regions[region as usize].needs_sync;
        let (lane, issued) = (self.lane_of(at), self.now);
        let part = &mut self.parts[usize::from(index)];
        *part = ChunkPart {
            kind,
            phase: PartPhase::Queued,
            exclusive,
            set: place.set,
            offset: place.offset,
            column: place.column,
            length,
            region,
            request: slot,
            buffer_offset: (at - request.offset) as u32,
            lane,
            generation: part.generation.wrapping_add(1),
            issued,
            ..ChunkPart::FREE
        };
        self.enter_lane(index, out);
    }

    /// A part of a request is done: releases it, and answers if it was the last.
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        index: u16,
        result: Result<(), RequestError>,
        out: &mut EngineOutput,
    ) {
        self.release_region(index);
        self.leave_lane(index);
        let part = &mut self.parts[usize::from(index)];
        if part.kind == PartKind::Copy {
            return self.copy_ended(index, result.is_ok(), out);
        }
        part.phase = PartPhase::Free;
        let request = part.request;
        self.free_parts.push(index);
        let has_failed = result.is_err() || self.is_written_nowhere(index);
        let slot = &mut self.requests[usize::from(request)];
        slot.failed |= has_failed;
        slot.parts -= 1;
        if slot.parts > 0 {
            return;
        }
        self.free_requests.push(request);
        self.requests_done = self.requests_done.wrapping_add(1);
        if !slot.answered {
            let result = if slot.failed { Err(RequestError::Unreadable) } else { Ok(()) };
            out.answers.push(RequestCompletion { tag: slot.tag, result });
        }
    }

    /// Fails every request: the array has stopped.
    pub(super) fn refuse_all(&mut self, out: &mut EngineOutput) {
        for slot in &mut self.requests {
            if slot.parts > 0 && !slot.answered {
                out.answers
                    .push(RequestCompletion { tag: slot.tag, result: Err(RequestError::Stopped) });
            }
            slot.parts = 0;
        }
        // Operations still in flight no longer belong to a part.
        for part in &mut self.parts {
            part.generation = part.generation.wrapping_add(1);
            part.remaining = 0;
            part.phase = PartPhase::Free;
        }
    }
}
