//! The NBD front end: an array as a storage of durio-nbd.
//!
//! Takes batches of a connection's requests and returns their outcomes.
//!
//! A batch is cut at the borders of chunks, and its pieces are in flight together, as many as the
//! engine may hold. Every answered write is durable on all copies, so a flush is answered at once,
//! and holds for all connections. Flush and FUA are advertised nevertheless: some clients consider
//! a device without them unsafe.

use std::sync::Arc;

use durio_nbd::{Command, Connection, Export, Refusal, Request, Storage};

use super::ArrayHandle;
use super::queue::{ArrayJob, Asker, Desk, FinishedJob, Mailbox, ServerState, WritePayload};
use crate::RequestKind;

/// Pieces of one connection that are on their way: some more than the engine holds would wait there.
const WINDOW: usize = 128;

impl Storage for ArrayHandle {
    fn export(&self) -> Export {
        let shared = &self.0;
        Export {
            block_size_min: shared.alignment,
            block_size_preferred: shared.alignment.max(4096),
            // Members are not sent discards yet.
            trim: false,
            ..Export::new(shared.name.clone(), shared.size)
        }
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        let desk = self.0.desk_of_connection();
        Box::new(ArrayClient { shared: &self.0, desk, mailbox: Arc::default() })
    }
}

struct ArrayClient<'s> {
    shared: &'s ServerState,
    /// Buffers of the thread that serves this connection.
    desk: &'s Desk,
    mailbox: Arc<Mailbox>,
}

/// A part of a request within a chunk.
#[derive(Debug, Clone, Copy)]
struct NbdPiece {
    /// Index of the request in the batch.
    request: usize,
    /// Bytes from the start of the request.
    within: usize,
    offset: u64,
    length: u32,
}

impl Connection for ArrayClient<'_> {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        let chunk = u64::from(self.shared.chunk);
        let ranges: Vec<_> = batch.iter().map(|request| range_of(&request.command)).collect();
        let mut pieces = ranges
            .iter()
            .enumerate()
            .flat_map(|(request, &(offset, length))| pieces_of(request, offset, length, chunk));
        batch.iter_mut().for_each(|request| request.outcome = Ok(()));
        let mut open = [None; WINDOW];
        let mut free: Vec<u32> = (0..WINDOW as u32).collect();
        loop {
            let mut jobs = Vec::new();
            while let Some(number) = free.pop() {
                let Some(piece) = pieces.next() else {
                    free.push(number);
                    break;
                };
                open[number as usize] = Some(piece);
                jobs.push(self.job_of(number, piece, &batch[piece.request].command));
            }
            if let Err(jobs) = self.desk.push_jobs(jobs) {
                for ArrayJob { from, .. } in jobs {
                    if let Asker::Mailbox(number, mailbox) = from {
                        let result = Err(Refusal::Shutdown);
                        mailbox.put(FinishedJob { number, result, data: None });
                    }
                }
            }
            if free.len() == WINDOW {
                return;
            }
            for done in self.mailbox.take() {
                free.push(done.number);
                if let Some(piece) = open[done.number as usize].take() {
                    self.settle(done, piece, &mut batch[piece.request]);
                }
            }
        }
    }
}

impl ArrayClient<'_> {
    fn job_of(&self, number: u32, piece: NbdPiece, command: &Command<'_>) -> ArrayJob {
        let NbdPiece { within, offset, length, .. } = piece;
        let (kind, data) = match command {
            Command::Write { data, .. } => {
                let bytes = &data[within..][..length as usize];
                (RequestKind::Write, WritePayload::Own(self.desk.copy_of(bytes)))
            }
            Command::Read { .. } => (RequestKind::Read, WritePayload::None),
            Command::Trim { .. } | Command::WriteZeroes { .. } | Command::Flush => {
                (RequestKind::Zero, WritePayload::None)
            }
        };
        let from = Asker::Mailbox(number, Arc::clone(&self.mailbox));
        ArrayJob { kind, offset, length, data, from }
    }

    fn settle(&self, done: FinishedJob, piece: NbdPiece, request: &mut Request<'_>) {
        let length = piece.length as usize;
        if let (Command::Read { into, .. }, Some(data)) = (&mut request.command, &done.data) {
            into[piece.within..][..length].copy_from_slice(&data.slot(0)[..length]);
        }
        done.data.into_iter().for_each(|buffers| self.desk.give_back(buffers));
        request.outcome = request.outcome.and(done.result);
    }
}

/// The range of a command; empty for a flush, which is done already.
fn range_of(command: &Command<'_>) -> (u64, u64) {
    match command {
        Command::Read { offset, into } => (*offset, into.len() as u64),
        Command::Write { offset, data, .. } => (*offset, data.len() as u64),
        Command::Flush => (0, 0),
        Command::Trim { offset, length, .. } | Command::WriteZeroes { offset, length, .. } => {
            (*offset, *length)
        }
    }
}

fn pieces_of(
    request: usize,
    first: u64,
    length: u64,
    chunk: u64,
) -> impl Iterator<Item = NbdPiece> {
    let mut at = first;
    std::iter::from_fn(move || {
        let left = first + length - at;
        if left == 0 {
            return None;
        }
        let size = left.min(chunk - at % chunk);
        let within = usize::try_from(at - first).unwrap_or(usize::MAX);
        let piece = NbdPiece { request, within, offset: at, length: size as u32 };
        at += size;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use durio_block::RingWaker;

    use super::super::array::LockedArray;
    use super::super::tests::{CHUNK, Members};
    use super::*;
    use crate::Config;

    #[test]
    fn a_request_is_cut_at_the_borders_of_chunks() {
        let cut = |offset, length| {
            let pieces = pieces_of(3, offset, length, 4096);
            pieces.map(|piece| (piece.within, piece.offset, piece.length)).collect::<Vec<_>>()
        };
        assert_eq!(cut(0, 4096), [(0, 0, 4096)]);
        assert_eq!(cut(512, 8192), [(0, 512, 3584), (3584, 4096, 4096), (7680, 8192, 512)]);
        assert_eq!(cut(0, 0), []);
    }

    /// Places of the jobs of a write of so many chunks, and how many were on their way each time that some
    /// came, where three of them are answered then.
    fn asked_for(chunks: usize) -> (Vec<u64>, Vec<usize>) {
        let members = Members::new();
        let config = Config { parts_max: 256, ..Config::default() };
        let plan = members.plan(&[0, 1]);
        let table = plan.table.clone();
        let array = LockedArray::new(plan, &config, &[members.member(0), members.member(1)], 1);
        let waker = RingWaker::new().unwrap();
        let shared = ServerState::new(&table, 512, array, std::iter::once(waker));
        let desk = &shared.desks[0];
        let data = vec![1; chunks * CHUNK as usize];
        let (mut places, mut on_their_way, mut open) = (Vec::new(), Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let command = Command::Write { offset: 0, data: &data, fua: false };
                let mut batch = [Request { command, outcome: Err(Refusal::Io) }];
                ArrayClient { shared: &shared, desk, mailbox: Arc::default() }
                    .carry_out(&mut batch);
                batch[0].outcome
            });
            while places.len() < chunks || !open.is_empty() {
                let jobs = desk.take().map_or(Vec::new(), |incoming| incoming.jobs);
                if !jobs.is_empty() {
                    places.extend(jobs.iter().map(|job| job.offset));
                    open.extend(jobs);
                    on_their_way.push(open.len());
                }
                for ArrayJob { from, .. } in open.drain(..open.len().min(3)) {
                    let Asker::Mailbox(number, mailbox) = from else { unreachable!() };
                    mailbox.put(FinishedJob { number, result: Ok(()), data: None });
                }
                std::thread::yield_now();
            }
            assert_eq!(asking.join().unwrap(), Ok(()));
        });
        (places, on_their_way)
    }

    #[test]
    fn a_connection_has_128_pieces_on_their_way_and_one_more_for_each_that_is_answered() {
        for (chunks, most) in [(127, 127), (128, 128), (300, 128)] {
            let (places, on_their_way) = asked_for(chunks);
            let expected: Vec<u64> =
                (0..chunks as u64).map(|chunk| chunk * u64::from(CHUNK)).collect();
            assert!(places == expected, "{places:?}");
            assert_eq!((on_their_way[0], on_their_way.iter().max()), (most, Some(&most)));
        }
    }

    #[test]
    fn a_client_learns_size_and_blocks_and_that_flush_and_fua_are_kept_and_nothing_is_discarded() {
        let members = Members::new();
        for alignment in [512, 4096] {
            let plan = members.plan(&[0, 1]);
            let table = plan.table.clone();
            let files = [members.member(0), members.member(1)];
            let config = Config { parts_max: 256, ..Config::default() };
            let array = LockedArray::new(plan, &config, &files, 1);
            let waker = RingWaker::new().unwrap();
            let state = ServerState::new(&table, alignment, array, std::iter::once(waker));
            let export = ArrayHandle(Arc::new(state)).export();
            let expected = Export {
                block_size_min: alignment,
                block_size_preferred: 4096,
                trim: false,
                ..Export::new("test", 4_194_304)
            };
            assert_eq!(export, expected);
            assert!(export.flush && export.fua && export.write_zeroes && export.multi_conn);
        }
    }

    #[test]
    fn the_range_of_a_command_is_its_own() {
        let mut into = [0; 7];
        assert_eq!(range_of(&Command::Read { offset: 3, into: &mut into }), (3, 7));
        assert_eq!(range_of(&Command::Write { offset: 5, data: &[1; 9], fua: true }), (5, 9));
        assert_eq!(range_of(&Command::Flush), (0, 0));
        assert_eq!(range_of(&Command::Trim { offset: 11, length: 13, fua: false }), (11, 13));
        let zeroes = Command::WriteZeroes { offset: 17, length: 19, fua: false, no_hole: true };
        assert_eq!(range_of(&zeroes), (17, 19));
    }

    #[test]
    fn a_piece_that_was_read_goes_to_its_place_and_the_first_failed_one_fails_its_request() {
        let members = Members::new();
        let plan = members.plan(&[0, 1]);
        let table = plan.table.clone();
        let files = [members.member(0), members.member(1)];
        let config = Config { parts_max: 256, ..Config::default() };
        let array = LockedArray::new(plan, &config, &files, 1);
        let waker = RingWaker::new().unwrap();
        let shared = ServerState::new(&table, 512, array, std::iter::once(waker));
        let desk: &Desk = &shared.desks[0];
        let client = ArrayClient { shared: &shared, desk, mailbox: Arc::default() };
        let done = |result, data: Option<&[u8]>| {
            let data = data.map(|bytes| desk.copy_of(bytes));
            FinishedJob { number: 0, result, data }
        };
        let piece = |within, length| NbdPiece { request: 0, within, offset: 0, length };
        let mut into = [9_u8; 12];
        let command = Command::Read { offset: 0, into: &mut into };
        let mut request = Request { command, outcome: Ok(()) };
        client.settle(done(Ok(()), Some(&[1, 2, 3, 4][..])), piece(4, 3), &mut request);
        client.settle(done(Ok(()), Some(&[5, 6][..])), piece(0, 2), &mut request);
        assert_eq!(request.outcome, Ok(()));
        client.settle(done(Err(Refusal::Io), None), piece(8, 4), &mut request);
        client.settle(done(Ok(()), Some(&[7][..])), piece(2, 1), &mut request);
        client.settle(done(Err(Refusal::Shutdown), None), piece(8, 4), &mut request);
        assert_eq!(request.outcome, Err(Refusal::Io));
        assert_eq!(into, [5, 6, 7, 9, 1, 2, 3, 9, 9, 9, 9, 9]);
        let mut other = Request { command: Command::Flush, outcome: Ok(()) };
        client.settle(done(Err(Refusal::Shutdown), None), piece(0, 0), &mut other);
        assert_eq!(other.outcome, Err(Refusal::Shutdown));
    }
}
