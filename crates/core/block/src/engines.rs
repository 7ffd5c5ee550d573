//! Every engine by its name: the one list of them.
//!
//! An engine is a file in `engines/` with an [`Engine`] and an [`EngineDescriptor`], and two lines
//! here: its module, and its place in the list. The driver of an engine is an [`EngineUser`], so
//! that its loop is compiled for each engine: no call per operation goes through a table.

mod aio;
mod looks;
mod mmap;
mod null;
mod sync;
mod uring;

use std::fmt;
use std::os::fd::OwnedFd;

use rustix::fs::Advice;
use serde::{Deserialize, Serialize};

use crate::{BlockError, Buffers, Clock, Engine, ErrorKind};

pub use aio::AioEngine;
pub use looks::LookGap;
pub use mmap::MmapEngine;
pub use null::{NullAnswers, NullEngine};
pub use sync::SyncEngine;
pub use uring::{Ring, UringEngine};

/// What an engine is built over.
#[derive(Debug)]
pub struct EngineSetup<C> {
    /// Stamps completions.
    pub clock: C,
    /// The first of the open files.
    pub file: OwnedFd,
    /// Those that operations name by their place after it.
    pub more_files: Vec<OwnedFd>,
    /// A slot for each operation.
    pub buffers: Buffers,
    /// Accesses in flight.
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
    /// The result.
    type Output;

    /// Takes the engine.
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
            ///
            /// # Errors
            /// The reason why not.
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
    /// io_uring.
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
    BlockError::because(ErrorKind::Unsupported, "build an engine", None, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = EngineKind::ALL.map(EngineKind::name).into();
        assert_eq!(names.len(), EngineKind::ALL.len());
        assert_eq!(format!("{:>6}", EngineKind::Uring), " uring");
    }
}
