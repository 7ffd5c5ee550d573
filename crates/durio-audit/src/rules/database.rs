//! Block size and depth against the database that a claim is said to stand for.
//!
//! In: a claim that names a database, or a log. Out: I/O that it does not do. Not here: verdicts.

use durio_units::Bytes;

use super::super::phrases::words;
use super::super::wording::{evidence, with_text};
use super::{Claim, Seen, Tier};

/// The unit in which a database reads and writes its data files at random.
struct Database {
    names: &'static [&'static str],
    page_bytes: u64,
    /// Where the size is documented.
    source: &'static str,
}

const DATABASES: [Database; 7] = [
    Database {
        names: &["postgresql", "postgres"],
        page_bytes: 8192,
        source: "PostgreSQL documentation, preset option block_size",
    },
    Database {
        names: &["innodb", "mysql"],
        page_bytes: 16_384,
        source: "MySQL reference manual, innodb_page_size",
    },
    Database {
        names: &["mariadb"],
        page_bytes: 16_384,
        source: "MariaDB documentation, innodb_page_size",
    },
    Database {
        names: &["sqlite"],
        page_bytes: 4096,
        source: "SQLite documentation, PRAGMA page_size",
    },
    Database {
        names: &["rocksdb", "tikv"],
        page_bytes: 4096,
        source: "RocksDB, include/rocksdb/table.h, block_size",
    },
    Database {
        names: &["tigerbeetle"],
        page_bytes: 524_288,
        source: "TigerBeetle, src/config.zig, block_size",
    },
    Database {
        names: &["oracle"],
        page_bytes: 8192,
        source: "Oracle Database Reference, DB_BLOCK_SIZE",
    },
];

/// Databases whose log record is known; larger blocks are not theirs.
const LOG_BYTES_MAX: [(&str, u64, &str); 1] = [(
    // Records of about 2.3 KiB go through a writer of 4 KiB pages.
    "etcd",
    4096,
    "etcd, server/storage/wal/encoder.go, walPageBytes",
)];

/// Words for a log that one writer appends to, waiting for each record.
const LOG_WORDS: [&str; 5] = ["wal", "redo", "journal", "commit", "etcd"];

pub(super) fn unlike(claim: &Claim) -> Option<Seen> {
    let words = words(&claim.workload);
    page(claim, &words).or_else(|| record(claim, &words)).or_else(|| depth(claim, &words))
}

fn page(claim: &Claim, words: &[String]) -> Option<Seen> {
    let named = |database: &&Database| words.iter().any(|it| database.names.contains(&&**it));
    let database = DATABASES.iter().find(named)?;
    let block = claim.block_size?;
    let is_unlike = claim.random == Some(true) && block.get() != database.page_bytes;
    is_unlike.then(|| {
        let page = Bytes::new(database.page_bytes);
        let reason = format!(
            "random I/O of {block} for '{}', whose pages have {page} ({})",
            claim.workload, database.source
        );
        Seen::new(Tier::Method, reason, sizes(block, page, database.source))
    })
}

fn record(claim: &Claim, words: &[String]) -> Option<Seen> {
    let named = |(name, ..): &&(&str, u64, &str)| words.iter().any(|word| word == name);
    let (name, bytes, source) = LOG_BYTES_MAX.iter().find(named)?;
    let (block, largest) = (claim.block_size?, Bytes::new(*bytes));
    let is_unlike = claim.random != Some(true) && claim.writes() && block > largest;
    is_unlike.then(|| {
        let reason = format!("log writes of {block} for {name}, which writes {largest} ({source})");
        Seen::new(Tier::Method, reason, sizes(block, largest, source))
    })
}

#[expect(clippy::cast_precision_loss, reason = "sizes of some digits")]
fn sizes(block: Bytes, expected: Bytes, source: &str) -> super::Evidence {
    let figures = [("block_bytes", block.get() as f64), ("database_bytes", expected.get() as f64)];
    with_text(evidence(figures), "source", source)
}

/// One process writes the log, and waits for it: a log at depth 32 is nobody's.
fn depth(claim: &Claim, words: &[String]) -> Option<Seen> {
    let depth = claim.depth.filter(|&depth| depth > 1)?;
    let is_log = words.iter().any(|word| LOG_WORDS.contains(&word.as_str()));
    (is_log && claim.writes() && claim.random != Some(true)).then(|| {
        let reason = format!(
            "depth {depth} for '{}': the writer of a log waits for each record",
            claim.workload
        );
        Seen::new(Tier::Method, reason, evidence([("depth", f64::from(depth))]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::sound;
    use super::*;

    fn told(workload: &str, block: u64, depth: u32) -> bool {
        let mut claim = sound(workload);
        claim.block_size = Some(Bytes::new(block));
        claim.depth = Some(depth);
        unlike(&claim).is_some()
    }

    #[test]
    fn random_io_is_compared_with_the_pages_of_the_database() {
        assert!(told("PostgreSQL lookup: randread", 4096, 1));
        assert!(!told("PostgreSQL lookup: randread", 8192, 1));
        assert!(told("randwrite for InnoDB", 4096, 1));
        assert!(!told("randwrite for InnoDB", 16_384, 1));
        assert!(!told("PostgreSQL scan: seq read", 262_144, 16), "scans read ahead");
        assert!(!told("randread", 4096, 32), "no database is named");
    }

    #[test]
    fn logs_are_written_one_record_after_the_other() {
        assert!(told("wal: seq write + fsync", 8192, 32));
        assert!(!told("wal: seq write + fsync", 8192, 1));
        assert!(!told("seq write", 8192, 32));
        assert!(told("etcd: seq write", 8192, 1));
        assert!(!told("etcd: seq write", 2300, 1));
    }
}
