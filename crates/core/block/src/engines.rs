//! Every engine by its name: the one list of them.
//!
//! An engine is a file in `engines/` with an [`Engine`] and an [`EngineDescriptor`], and two lines
//! here: its module, and its place in the list. The driver of an engine is an [`EngineUser`], so
//! that its loop is compiled for each engine: no call per operation goes through a table.
//!
//! Asynchronous engines look for completions. [`Looks`] keeps the time of each look and its count of completions, the oldest first, until the
//! caller has taken them. [`LookGap`] keeps the longest time between two looks while an operation in
//! flight might have completed. Waiting in the kernel for a completion is looking.

mod aio;
mod mmap;
mod null;
mod sync;
mod uring;

use std::fmt;
use std::os::fd::OwnedFd;

use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

use crate::{BlockError, Buffers, Clock, Engine, ErrorKind, Ticks};

pub use aio::AioEngine;
pub use mmap::MmapEngine;
pub use null::{NullAnswers, NullEngine};
pub use sync::SyncEngine;
pub use uring::{Ring, UringEngine};
pub(crate) use uring::{RingDescriptor, is_transient};

/// What an engine is built over.
#[derive(Debug)]
pub struct EngineSetup<C> {
    pub clock: C,
    /// The first of the open files.
    pub file: OwnedFd,
    /// Those that operations name by their place after it.
    pub more_files: Vec<OwnedFd>,
    /// A slot for each operation.
    pub buffers: Buffers,
    /// The most accesses in flight at a time.
    pub depth: u32,
    /// The same with the syncs that are linked to them.
    pub entries: u32,
    /// A sync holds up whatever comes after it.
    pub blocking_syncs: bool,
    /// The order of accesses, as `fadvise` gave it to the kernel.
    pub advice: Option<Advice>,
}

/// Drives an engine, whichever it is.
pub trait EngineUser<C: Clock>: Sized {
    type Output;

    fn drive<E: Engine<Clock = C>>(self, engine: E) -> Self::Output;

    /// Takes the error that prevented the engine.
    fn refused(self, error: BlockError) -> Self::Output;
}

/// The facts about an engine that are known before it exists.
pub trait EngineDescriptor {
    /// The name that users write and read.
    const NAME: &'static str;

    /// What fio calls it, or the nearest that it has.
    const FIO_NAME: &'static str;

    /// A job can have more than one operation in flight.
    const IS_ASYNCHRONOUS: bool;

    /// A sync can be linked to its write and start in the kernel (or in the null engine's script); with
    /// the others the two are calls one after the other.
    const LINKS_SYNCS: bool;

    /// Its writes are calls, which O_DSYNC, O_SYNC and flags of a write make durable. If not, it takes a
    /// sync.
    const WRITES_BY_CALLS: bool = true;

    /// Says whether it can be used here.
    ///
    /// # Errors
    /// The reason why not: missing in the kernel, forbidden, or used up.
    fn probe() -> Result<(), BlockError> {
        Ok(())
    }

    /// Builds it for `user`.
    fn open<C: Clock + Copy, U: EngineUser<C>>(setup: EngineSetup<C>, user: U) -> U::Output;
}

macro_rules! engines {
    ($($(#[$about:meta])* $kind:ident = $descriptor:ty,)*) => {
        /// How operations are submitted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum EngineKind {
            $($(#[$about])* $kind,)*
        }

        impl EngineKind {
            /// Every engine, in the order in which help texts list them.
            pub const ALL: [Self; [$(Self::$kind),*].len()] = [$(Self::$kind),*];

            /// The name that users write and read.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => <$descriptor>::NAME,)* }
            }

            /// What fio calls it, or the nearest that it has.
            #[must_use]
            pub const fn fio_name(self) -> &'static str {
                match self { $(Self::$kind => <$descriptor>::FIO_NAME,)* }
            }

            /// True if a job can have more than one operation in flight.
            #[must_use]
            pub const fn is_asynchronous(self) -> bool {
                match self { $(Self::$kind => <$descriptor>::IS_ASYNCHRONOUS,)* }
            }

            /// True if a sync can be linked to its write.
            #[must_use]
            pub const fn links_syncs(self) -> bool {
                match self { $(Self::$kind => <$descriptor>::LINKS_SYNCS,)* }
            }

            /// True if O_DSYNC, O_SYNC and flags of a write make its writes durable.
            #[must_use]
            pub const fn writes_by_calls(self) -> bool {
                match self { $(Self::$kind => <$descriptor>::WRITES_BY_CALLS,)* }
            }

            /// Says whether it can be used here.
            pub fn probe(self) -> Result<(), BlockError> {
                match self { $(Self::$kind => <$descriptor>::probe(),)* }
            }

            /// Builds it over a file, for `user`.
            pub fn open<C, U>(self, setup: EngineSetup<C>, user: U) -> U::Output
            where
                C: Clock + Copy,
                U: EngineUser<C>,
            {
                match self { $(Self::$kind => <$descriptor>::open(setup, user),)* }
            }
        }
    };
}

engines! {
    /// No I/O: scripted latencies on a virtual clock.
    Null = null::NullDescriptor,
    /// pread and pwrite, preadv2 and pwritev2: each job waits for each operation.
    Sync = sync::SyncDescriptor,
    Uring = uring::UringDescriptor,
    /// libaio's system calls.
    Aio = aio::AioDescriptor,
    /// Mapped files: accesses are copies, a sync is msync.
    Mmap = mmap::MmapDescriptor,
    /// The installed fio, with the ioengine that the load names.
    Fio = OfFio,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// fio brings its own jobs: it is a program, and no engine of this crate.
struct OfFio;

impl EngineDescriptor for OfFio {
    const NAME: &'static str = "fio";
    const FIO_NAME: &'static str = "psync";
    const IS_ASYNCHRONOUS: bool = true;
    const LINKS_SYNCS: bool = false;

    fn open<C: Clock + Copy, U: EngineUser<C>>(_: EngineSetup<C>, user: U) -> U::Output {
        user.refused(reaches_no_file("fio brings its own jobs"))
    }
}

fn reaches_no_file(why: &str) -> BlockError {
    BlockError::because(ErrorKind::Unsupported, "build an engine", why)
}

/// The longest time without a look, for engines that keep something in flight.
#[derive(Debug, Default)]
pub struct LookGap {
    last: Ticks,
    longest: u64,
}

impl LookGap {
    /// A look at `now`; something has been in flight since the one before.
    #[inline(always)]
    pub fn looked(&mut self, now: Ticks) {
        self.longest = self.longest.max(now.since(self.last));
        self.last = now;
    }

    /// A look at `now` that ends a wait for completions, or before which nothing was in flight.
    #[inline(always)]
    pub fn waited(&mut self, now: Ticks) {
        // Else the time of an idle job would show as time without a look.
        self.last = now;
    }

    /// When the last look was.
    #[inline(always)]
    #[must_use]
    pub fn last(&self) -> Ticks {
        self.last
    }

    /// The longest time without a look, in ticks; counting starts over.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.longest)
    }
}

/// Completions that a look found, or a part of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompletionBatch {
    pub(crate) count: usize,
    pub(crate) at: Ticks,
}

/// Looks of which completions are left.
#[derive(Debug)]
pub(crate) struct Looks {
    ring: Box<[CompletionBatch]>,
    /// Numbers of the oldest look and of the next one; a place is the number modulo the ring's length.
    first: usize,
    next: usize,
}

impl Looks {
    /// For at most `completions_max` completions at a time, and so at most as many looks.
    pub(crate) fn new(completions_max: usize) -> Self {
        // A power of two: a place is a mask and no division, in a loop where instructions count.
        let ring = vec![CompletionBatch::default(); completions_max.next_power_of_two()];
        Self { ring: ring.into_boxed_slice(), first: 0, next: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// A look that found at least one.
    #[inline(always)]
    pub(crate) fn push(&mut self, look: CompletionBatch) {
        let place = self.next & (self.ring.len() - 1);
        self.ring[place] = look;
        self.next = self.next.wrapping_add(1);
    }

    /// Up to `room` completions of the oldest look, at least one if there is room.
    #[inline(always)]
    pub(crate) fn take(&mut self, room: usize) -> Option<CompletionBatch> {
        if self.is_empty() {
            return None;
        }
        let place = self.first & (self.ring.len() - 1);
        let look = &mut self.ring[place];
        let count = look.count.min(room);
        let taken = CompletionBatch { count, ..*look };
        look.count -= count;
        if look.count == 0 {
            self.first = self.first.wrapping_add(1);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_engine_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = EngineKind::ALL.map(EngineKind::name).into();
        assert_eq!(names.len(), EngineKind::ALL.len());
        assert_eq!(format!("{:>6}", EngineKind::Uring), " uring");
    }

    #[test]
    fn the_longest_time_without_a_look_does_not_contain_waits() {
        let mut watch = LookGap::default();
        watch.waited(Ticks(100));
        watch.looked(Ticks(107));
        watch.waited(Ticks(900));
        watch.looked(Ticks(903));
        assert_eq!(watch.take(), 7);
        watch.looked(Ticks(905));
        assert_eq!(watch.take(), 2);
    }

    proptest! {
        /// The peer is a queue with the time of each completion.
        #[test]
        fn every_completion_is_given_once_in_order_with_the_time_of_its_look(
            completions_max in 1_usize..40,
            steps in prop::collection::vec((any::<bool>(), 1_usize..12), 0..200),
        ) {
            let (mut looks, mut peer) = (Looks::new(completions_max), VecDeque::new());
            for (time, (is_look, count)) in steps.into_iter().enumerate() {
                let at = Ticks(time as u64);
                if is_look {
                    let count = count.min(completions_max - peer.len());
                    if count > 0 {
                        looks.push(CompletionBatch { count, at });
                        peer.extend(vec![at; count]);
                    }
                } else if let Some(taken) = looks.take(count) {
                    prop_assert!((1..=count).contains(&taken.count));
                    let expected: Vec<Ticks> = peer.drain(..taken.count).collect();
                    prop_assert!(expected.iter().all(|&at| at == taken.at));
                }
                prop_assert_eq!(looks.is_empty(), peer.is_empty());
            }
        }
    }
}
