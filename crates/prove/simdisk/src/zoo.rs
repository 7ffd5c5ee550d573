//! The named disks, honest ones and liars, each with the expected finding.

use durio_base::Nanos;

use crate::{CacheKind, Lie, Profile, Symptom};

/// A disk with a name.
#[derive(Debug, Clone, Copy)]
pub struct NamedProfile {
    pub name: &'static str,
    /// Its behaviour, in a line.
    pub about: &'static str,
    /// The fate of completed writes.
    pub cache: CacheKind,
    /// Its lie; `None` if it is honest.
    pub lie: Option<Lie>,
    /// Whether the lie shows if writes are made durable by a flush.
    pub on_flush: bool,
    /// Whether it shows if they are made durable one by one (FUA).
    pub on_fua: bool,
    /// Operations in flight that it takes.
    pub depth: u32,
    /// Cuts after which 99 campaigns of 100 have found it, measured by `cargo xtask prove zoo`.
    pub cuts: u32,
}

impl NamedProfile {
    /// The disk, with this size.
    #[must_use]
    pub fn profile(&self, size: u64) -> Profile {
        let honest = Profile { cache: self.cache, ..Profile::honest(size) };
        match self.lie {
            Some(lie) => honest.telling(lie),
            None => honest,
        }
    }

    /// How its lie shows; `None` if it is honest.
    #[must_use]
    pub fn symptom(&self) -> Option<Symptom> {
        self.lie.map(Lie::shows_as)
    }
}

const fn honest(name: &'static str, cache: CacheKind, about: &'static str) -> NamedProfile {
    NamedProfile {
        name,
        about,
        cache,
        lie: None,
        on_flush: false,
        on_fua: false,
        depth: 1,
        cuts: 0,
    }
}

/// A liar with a volatile cache; its lie shows on any path.
const fn liar(name: &'static str, lie: Lie, cuts: u32, about: &'static str) -> NamedProfile {
    let (cache, lie) = (CacheKind::WriteBack, Some(lie));
    NamedProfile { name, about, cache, lie, on_flush: true, on_fua: true, depth: 1, cuts }
}

const fn flush_liar(name: &'static str, lie: Lie, cuts: u32, about: &'static str) -> NamedProfile {
    NamedProfile { on_fua: false, ..liar(name, lie, cuts, about) }
}

/// All named disks, the honest first.
pub const ZOO: &[NamedProfile] = &[
    honest("write-back", CacheKind::WriteBack, "honest: a volatile cache, flush and FUA kept"),
    honest("write-through", CacheKind::WriteThrough, "honest: no cache, every write is durable"),
    honest("protected", CacheKind::Protected, "honest: the cache outlives a power cut"),
    flush_liar("flush-ignored", Lie::FlushIgnored, 2, "acknowledges flushes and does nothing"),
    NamedProfile {
        on_flush: false,
        ..liar("fua-ignored", Lie::FuaIgnored, 2, "treats a write with FUA as any other")
    },
    flush_liar("flush-every-third", Lie::FlushEvery(3), 9, "two flushes of three do nothing"),
    flush_liar(
        "flush-early",
        Lie::FlushEarly(Nanos::new(20_000_000)),
        2,
        "acknowledges a flush 20 ms before its data is durable",
    ),
    flush_liar(
        "flush-skips-young",
        Lie::FlushSkipsYoung(Nanos::new(5_000_000)),
        2,
        "a flush leaves out what was written in the last 5 ms",
    ),
    NamedProfile {
        depth: 2,
        ..liar("ignored-at-depth", Lie::IgnoredAtDepth(2), 3, "keeps its word at depth 1 alone")
    },
    flush_liar(
        "flush-one-connection",
        Lie::FlushOneConnection,
        5,
        "a flush covers the connection that asks for it, not the others",
    ),
    flush_liar(
        "ignored-when-full",
        Lie::IgnoredAbove(64 << 10),
        2,
        "ignores flushes while more than 64 KiB wait",
    ),
    flush_liar(
        "reorders",
        Lie::ReordersPerMille(65),
        120,
        "a flush leaves 6 writes of 100 behind, and later ones overtake them",
    ),
    liar("drops", Lie::DropsPerMille(1), 80, "acknowledges 1 write of 1000 and never stores it"),
    liar("torn", Lie::TearsPerMille(2), 60, "stores 2 acknowledged pages of 1000 in part"),
    liar(
        "misdirected",
        Lie::Misdirects { per_mille: 20, pages: 100 },
        10,
        "stores 2 writes of 100 400 KiB before their place",
    ),
    liar(
        "stale-reads",
        Lie::StaleReadsPerMille(20),
        5,
        "2 reads of 100 answer what was there before the last write",
    ),
    liar("bit-rot", Lie::BitRot(1), 2, "one bit turns at each power cut"),
    liar("latent-errors", Lie::LatentErrors(1), 2, "one sector is unreadable after each cut"),
    liar(
        "claims-write-through",
        Lie::ClaimsWriteThrough,
        2,
        "declares that it has no volatile cache, and has one",
    ),
    NamedProfile {
        cache: CacheKind::Protected,
        ..liar("capacitor-dies", Lie::CapacitorDies(5), 7, "its protection holds for 5 cuts")
    },
    liar("mirror-lags", Lie::MirrorLags(8), 8, "a mirror whose second leg lacks the last 8 writes"),
    liar("dies", Lie::Dies(3), 3, "does not come back from the third cut"),
    liar("shrinks", Lie::Shrinks(3), 3, "comes back from the third cut with half of its capacity"),
];

/// The disk of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static NamedProfile> {
    ZOO.iter().find(|it| it.name == name)
}
