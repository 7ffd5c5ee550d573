//! Methods that cannot show what they are used to show: the target, the depth, the state before,
//! the duration; and block size and depth that the named database or log does not use.

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};

use super::{Claim, Observation, Tier};
use crate::audit::figure::{number, significant, time};
use crate::audit::phrases::words;

// Under 300 s a run says little about production; 5 s miss garbage collection, throttling and burst
// credits (Fast by design, chapter 83, on anti-patterns).
const PROVISIONAL_NS: f64 = 300e9;
const TOO_SHORT_NS: f64 = 5e9;

// Starting the next job takes about a second; a gap beyond this was a pause. Reperio's study warns
// of any idle time between preconditioning and test.
const IDLE_MAX: Nanos = Nanos::from_secs(5);

// A stack that names one is not called a device.
const FILESYSTEMS: [&str; 6] = ["ext4", "ext3", "xfs", "btrfs", "zfs", "f2fs"];

/// A stack is called raw, but its path is not a device.
pub(super) fn filesystem_as_device(claim: &Claim) -> Option<Observation> {
    let target = claim.target.as_deref()?;
    let words = words(&claim.stack);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let called_device = has(&["raw"]) && !has(&FILESYSTEMS);
    let is_file = target.starts_with('/') && !target.starts_with("/dev/");
    (called_device && is_file).then(|| {
        let reason = format!("called '{}', and '{target}' is a file", claim.stack);
        Observation::new(Tier::Method, reason, []).with_text("target", target)
    })
}

pub(super) fn no_preconditioning(claim: &Claim) -> Option<Observation> {
    (claim.preconditioned == Some(false)).then(|| {
        Observation::new(Tier::Method, "not preconditioned", []).with_text("preconditioned", "no")
    })
}

pub(super) fn idle_gap(claim: &Claim) -> Option<Observation> {
    let idle = claim.idle.filter(|&idle| idle > IDLE_MAX)?;
    let reason = format!("{idle} without I/O before or during the test");
    Some(Observation::new(Tier::Method, reason, [("idle_ns", float(idle.get()))]))
}

/// By the stated time, else by volume and bandwidth.
pub(super) fn too_short(claim: &Claim) -> Option<Observation> {
    let (nanos, stated) = claim.ran_ns()?;
    let tier = match nanos {
        _ if nanos < TOO_SHORT_NS => Tier::Doubtful,
        _ if nanos < PROVISIONAL_NS => Tier::Method,
        _ => return None,
    };
    let reason = match stated {
        // Durations of one length differ by the clock's jitter, and are reported together.
        true => format!("about {} long", time(significant(nanos, 1))),
        false => format!("its volume took {} at most", time(nanos)),
    };
    Some(Observation::new(tier, reason, [("ran_ns", nanos)]))
}

// Engines whose buffered reads do not block in submission (Linux 5.10 on ext4, XFS, Btrfs).
const BUFFERED_ASYNCHRONOUS: [&str; 2] = ["io_uring", "uring"];

pub(super) fn depth_not_real(claim: &Claim) -> Option<Observation> {
    let (jobs, depth) = (claim.jobs?, claim.depth?);
    let engine = claim.engine.clone().unwrap_or_default();
    let able = BUFFERED_ASYNCHRONOUS.contains(&engine.to_ascii_lowercase().as_str());
    let why = match (claim.blocking, claim.buffered) {
        (Some(true), _) => format!("the engine ({engine}) waits for each operation"),
        (_, Some(true)) if !able => "it is buffered".to_owned(),
        _ => return None,
    };
    (depth > 1).then(|| {
        let reason = format!(
            "depth {depth} is given and {why}: about {jobs} in flight, not {}",
            number(f64::from(jobs) * f64::from(depth)),
        );
        let figures = [("depth", f64::from(depth)), ("jobs", f64::from(jobs))];
        Observation::new(Tier::Method, reason, figures).with_text("engine", &engine)
    })
}

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
    let named = |(names, ..): &&(&[&str], _, _)| words.iter().any(|word| names.contains(&&**word));
    let (_, bytes, source) = DATABASES.iter().find(named)?;
    let (block, page) = (claim.block_size?, Bytes::new(*bytes));
    (claim.random == Some(true) && block != page).then(|| {
        let workload = &claim.workload;
        let reason =
            format!("random I/O of {block} for '{workload}', whose pages are {page} ({source})");
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
    let figures = [("block_bytes", float(block.get())), ("database_bytes", float(expected.get()))];
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
    use durio_base::Bytes;

    use super::*;
    use crate::audit::figure::Figure;
    use crate::audit::rules::tests::sound;

    #[test]
    fn a_file_that_is_called_a_device_is_told() {
        let mut claim = sound("randread");
        claim.target = Some("/mnt/db-volume/test".into());
        assert!(filesystem_as_device(&claim).is_some());
        claim.target = Some("/dev/nvme0n1".into());
        assert_eq!(filesystem_as_device(&claim), None);
        (claim.target, claim.stack) = (Some("/mnt/db-volume/test".into()), "xfs NVMe".into());
        assert_eq!(filesystem_as_device(&claim), None);
        claim.stack = "xfs on raw NVMe".into();
        assert_eq!(filesystem_as_device(&claim), None);
    }

    #[test]
    fn only_what_is_said_about_preconditioning_counts() {
        let mut claim = sound("randwrite");
        assert_eq!((no_preconditioning(&claim), idle_gap(&claim)), (None, None));
        (claim.preconditioned, claim.idle) = (Some(true), Some(Nanos::from_secs(5)));
        assert_eq!((no_preconditioning(&claim), idle_gap(&claim)), (None, None));
        (claim.preconditioned, claim.idle) = (Some(false), Some(Nanos::from_secs(6)));
        assert!(no_preconditioning(&claim).is_some() && idle_gap(&claim).is_some());
    }

    #[test]
    fn short_runs_are_told_in_two_tiers() {
        let tier = |seconds| {
            let claim = Claim { runtime: Some(Nanos::from_secs(seconds)), ..Claim::default() };
            too_short(&claim).map(|seen| seen.tier)
        };
        assert_eq!(
            [tier(4), tier(5), tier(299), tier(300)],
            [Some(Tier::Doubtful), Some(Tier::Method), Some(Tier::Method), None]
        );
    }

    #[test]
    fn the_time_is_known_by_volume_and_bandwidth_too() {
        let mut claim = sound("seq write");
        claim.total = Some(Bytes::new(3_000_000_000));
        claim.bandwidth = Some(Figure::exact(1e9));
        assert_eq!(too_short(&claim).map(|seen| seen.tier), Some(Tier::Doubtful));
        claim.bandwidth = Some(Figure::exact(1e7));
        assert_eq!(too_short(&claim), None, "300 s");
        claim.bandwidth = Some(Figure::exact(0.0));
        assert_eq!(too_short(&claim), None);
    }

    #[test]
    fn blocking_and_buffered_depths_are_told() {
        let mut claim = sound("randread");
        claim.depth = Some(32);
        assert_eq!(depth_not_real(&claim), None, "nothing is known of the engine");
        claim.blocking = Some(true);
        assert!(depth_not_real(&claim).is_some());
        claim.depth = Some(1);
        assert_eq!(depth_not_real(&claim), None);
        (claim.depth, claim.blocking, claim.buffered) = (Some(4), Some(false), Some(true));
        claim.engine = Some("libaio".into());
        assert!(depth_not_real(&claim).is_some());
        claim.engine = Some("io_uring".into());
        assert_eq!(depth_not_real(&claim), None);
        claim.engine = Some("libaio".into());
        claim.buffered = Some(false);
        assert_eq!(depth_not_real(&claim), None);
    }

    #[test]
    fn what_is_told_of_a_time_says_where_it_comes_from() {
        let mut claim = sound("seq write");
        claim.runtime = Some(Nanos::from_millis(4_321));
        assert_eq!(too_short(&claim).unwrap().reason, "about 4 s long");
        (claim.runtime, claim.total) = (None, Some(Bytes::new(3_000_000_000)));
        claim.bandwidth = Some(Figure { value: 1e9, low: 0.5e9, high: 2e9 });
        assert_eq!(too_short(&claim).unwrap().reason, "its volume took 6 s at most");
    }

    #[test]
    fn a_path_is_a_file_unless_it_is_below_dev() {
        let told = |target: &str, stack: &str| {
            let mut claim = sound("randread");
            (claim.target, claim.stack) = (Some(target.into()), stack.into());
            filesystem_as_device(&claim).is_some()
        };
        assert!(told("/srv/f", "raw NVMe") && !told("/dev/sda", "raw NVMe"));
        assert!(!told("nvme0n1", "raw NVMe") && !told("/srv/f", "NVMe"));
        for name in FILESYSTEMS {
            assert!(!told("/srv/f", &format!("raw {name}")), "{name}");
        }
    }

    #[test]
    fn only_io_uring_is_asynchronous_through_the_page_cache() {
        let told = |engine: &str| {
            let mut claim = sound("randread");
            (claim.depth, claim.buffered) = (Some(2), Some(true));
            claim.engine = Some(engine.into());
            depth_not_real(&claim).map(|seen| seen.reason)
        };
        assert_eq!([told("io_uring"), told("uring"), told("IO_URING")], [None, None, None]);
        let words = "depth 2 is given and it is buffered: about 1 in flight, not 2";
        assert_eq!(told("libaio").as_deref(), Some(words));
    }

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
