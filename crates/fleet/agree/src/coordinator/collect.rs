//! Run folders, piece by piece, of some hosts at a time.

use durio_base::Nanos;
use durio_record::fleet::HostState;

use super::views::Fetch;
use super::{CoordinatorEffect, CoordinatorMachine};
use crate::fault::FleetFault;
use crate::message::{Body, PIECE_BYTES};

/// Hosts whose folders are fetched at a time, and as many behind each relay; more are not faster.
const FETCHES_MAX: usize = 8;
/// A piece that has not come after this long is asked for again.
const PIECE_WAIT: Nanos = Nanos::from_secs(2);
/// Times that a piece is asked for again, a minute in all: the host cannot read it.
const REPEATS_MAX: u32 = 30;
/// Times that a folder may differ from its digest.
const FAILURES_MAX: u32 = 3;

impl CoordinatorMachine {
    pub(super) fn collect(&mut self) {
        let fetches_max = FETCHES_MAX * (1 + self.config.relays.len());
        let mut open = self.hosts.iter().filter(|view| view.fetch.is_some()).count();
        for at in 0..self.hosts.len() {
            let view = &mut self.hosts[at];
            let is_here = view.lost_since.is_none() && view.status.is_some();
            if view.recorded != HostState::Ended || view.run.is_none() || !is_here {
                continue;
            }
            if view.fetch.is_none() && open < fetches_max {
                view.fetch = Some(Fetch::default());
                open += 1;
            }
            self.fetch_on(at);
        }
    }

    /// Asks for the next piece, if none is under way.
    fn fetch_on(&mut self, at: usize) {
        let now = self.now;
        let view = &mut self.hosts[at];
        let (Some(run), Some(fetch)) = (&view.run, &mut view.fetch) else { return };
        while let Some(file) = run.files.get(fetch.file).filter(|file| file.bytes == 0) {
            fetch.digest.begin_file(file);
            fetch.file += 1;
            self.effects.push(CoordinatorEffect::Store {
                host: view.name.clone(),
                run: run.name.clone(),
                file: file.name.clone(),
                offset: 0,
                bytes: Vec::new(),
            });
        }
        let Some(file) = run.files.get(fetch.file) else { return self.complete(at) };
        if let Some(asked) = fetch.asked {
            if now.saturating_sub(asked) <= PIECE_WAIT {
                return;
            }
            fetch.repeats += 1;
            if fetch.repeats > REPEATS_MAX {
                let reason = format!("does not send '{}' of its run folder", file.name);
                view.fetch = None;
                return self.record(at, HostState::Failed, Some(reason));
            }
        }
        fetch.asked = Some(now);
        let body = Body::Fetch {
            run: run.name.clone(),
            file: file.name.clone(),
            offset: fetch.offset,
            length: (file.bytes - fetch.offset).min(PIECE_BYTES),
        };
        self.send(at, body);
    }

    pub(super) fn take_piece(
        &mut self,
        at: usize,
        (run_name, file_name, offset): (&str, &str, u64),
        bytes: Vec<u8>,
    ) {
        let view = &mut self.hosts[at];
        let (Some(run), Some(fetch)) = (&view.run, &mut view.fetch) else {
            self.ignored += 1;
            return;
        };
        let file = run.files.get(fetch.file).filter(|file| file.name == file_name);
        let Some(file) = file.filter(|_| run.name == run_name && fetch.offset == offset) else {
            self.ignored += 1;
            return;
        };
        let length = bytes.len() as u64;
        if length != (file.bytes - offset).min(PIECE_BYTES) {
            self.ignored += 1;
            return;
        }
        if offset == 0 {
            fetch.digest.begin_file(file);
        }
        fetch.digest.update(&bytes);
        (fetch.asked, fetch.repeats) = (None, 0);
        fetch.offset += length;
        if fetch.offset == file.bytes {
            (fetch.file, fetch.offset) = (fetch.file + 1, 0);
        }
        self.effects.push(CoordinatorEffect::Store {
            host: view.name.clone(),
            run: run.name.clone(),
            file: file.name.clone(),
            offset,
            bytes,
        });
        self.fetch_on(at);
    }

    /// All pieces are here.
    fn complete(&mut self, at: usize) {
        let view = &mut self.hosts[at];
        let (Some(run), Some(fetch)) = (&view.run, view.fetch.take()) else { return };
        let reason = view.status.as_ref().and_then(|status| status.reason.clone());
        let is_whole = fetch.digest.finish() == run.digest;
        if is_whole || FleetFault::DigestIgnored.is_in(self.config.fault) {
            let unknown = (!view.unknown.is_empty()).then(|| "silent while steps ran".to_owned());
            self.collected = self.now;
            return self.record(at, HostState::Collected, reason.or(unknown));
        }
        view.fetch_failures += 1;
        if view.fetch_failures >= FAILURES_MAX {
            let times = view.fetch_failures;
            let reason = format!("the folder differed from its digest {times} times");
            self.record(at, HostState::Failed, Some(reason));
        }
    }
}
