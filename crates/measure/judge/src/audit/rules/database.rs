//! Block size and depth against the database that a claim is said to stand for.
//!
//! Reports I/O that the named database or log does not do.

use durio_base::Bytes;

use super::{Claim, Observation, Tier};
use crate::audit::figure::real;
use crate::audit::phrases::words;

/// The names of a database, the unit in bytes in which it reads and writes its data files at random,
/// and where that is documented.
const DATABASES: [(&[&str], u64, &str); 7] = [
    (&["postgresql", "postgres"], 8192, "PostgreSQL documentation, preset option block_size"),
    (&["innodb", "mysql"], 16_384, "MySQL reference manual, innodb_page_size"),
    (&["mariadb"], 16_384, "MariaDB documentation, innodb_page_size"),
    (&["sqlite"], 4096, "SQLite documentation, PRAGMA page_size"),
    (&["rocksdb", "tikv"], 4096, "RocksDB, include/rocksdb/table.h, block_size"),
    (&["tigerbeetle"], 524_288, "TigerBeetle, src/config.zig, block_size"),
    (&["oracle"], 8192, "Oracle Database Reference, DB_BLOCK_SIZE"),
];

/// Databases whose log record is known; larger blocks are not theirs.
const LOG_BYTES_MAX: [(&str, u64, &str); 1] = [
    // Records of about 2.3 KiB go through a writer of 4 KiB pages.
    ("etcd", 4096, "etcd, server/storage/wal/encoder.go, walPageBytes"),
];

// Words for a log that one writer appends to, waiting for each record.
const LOG_WORDS: [&str; 5] = ["wal", "redo", "journal", "commit", "etcd"];

pub(super) fn unlike(claim: &Claim) -> Option<Observation> {
    let words = words(&claim.workload);
    page(claim, &words).or_else(|| record(claim, &words)).or_else(|| depth(claim, &words))
}

fn page(claim: &Claim, words: &[String]) -> Option<Observation> {
    let named = |(names, ..): &&(&[&str], _, _)| words.iter().any(|it| names.contains(&&**it));
    let (_, bytes, source) = DATABASES.iter().find(named)?;
    let (block, page) = (claim.block_size?, Bytes::new(*bytes));
    (claim.random == Some(true) && block != page).then(|| {
        let workload = &claim.workload;
        let reason =
            format!("random I/O of {block} for '{workload}', whose pages have {page} ({source})");
        unlike_size(reason, block, page, source)
    })
}

fn record(claim: &Claim, words: &[String]) -> Option<Observation> {
    let named = |(name, ..): &&(&str, u64, &str)| words.iter().any(|word| word == name);
    let (name, bytes, source) = LOG_BYTES_MAX.iter().find(named)?;
    let (block, largest) = (claim.block_size?, Bytes::new(*bytes));
    let is_unlike = claim.random != Some(true) && claim.writes() && block > largest;
    is_unlike.then(|| {
        let reason = format!("log writes of {block} for {name}, which writes {largest} ({source})");
        unlike_size(reason, block, largest, source)
    })
}

fn unlike_size(reason: String, block: Bytes, expected: Bytes, source: &str) -> Observation {
    let figures = [("block_bytes", real(block.get())), ("database_bytes", real(expected.get()))];
    Observation::new(Tier::Method, reason, figures).with_text("source", source)
}

fn depth(claim: &Claim, words: &[String]) -> Option<Observation> {
    // One process writes the log and waits for it: no database keeps a log at depth 32.
    let depth = claim.depth.filter(|&depth| depth > 1)?;
    let is_log = words.iter().any(|word| LOG_WORDS.contains(&word.as_str()));
    (is_log && claim.writes() && claim.random != Some(true)).then(|| {
        let reason = format!(
            "depth {depth} for '{}': the writer of a log waits for each record",
            claim.workload
        );
        Observation::new(Tier::Method, reason, [("depth", f64::from(depth))])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::rules::tests::sound;

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

    #[test]
    fn a_log_is_what_is_written_in_order_with_a_bound_of_its_own() {
        assert!(!told("etcd: seq write", 4096, 1) && told("etcd: seq write", 4097, 1));
        assert!(!told("etcd: seq read", 8192, 32), "a read waits for nobody");
        assert!(!told("etcd: randwrite", 8192, 32), "a log is no random I/O");
        for word in LOG_WORDS {
            assert!(told(&format!("{word}: seq write"), 4096, 2), "{word}");
            assert!(!told(&format!("{word}: seq write"), 4096, 1), "{word}");
        }
        assert!(!told("postgresql seq write", 4096, 32));
    }

    #[test]
    fn each_database_has_its_page() {
        for (name, page) in [
            ("postgres", 8192),
            ("mysql", 16_384),
            ("mariadb", 16_384),
            ("sqlite", 4096),
            ("tikv", 4096),
            ("tigerbeetle", 524_288),
            ("oracle", 8192),
        ] {
            let workload = format!("{name} randread");
            assert!(!told(&workload, page, 1) && told(&workload, page * 2, 1), "{name}");
        }
    }
}
