//! Facts in the words of a claim.
//!
//! Stack, workload, durability and note are searched for facts that they state plainly; ambiguous
//! text leaves a fact unknown.

use durio_base::Bytes;

use super::cell::{bandwidth_unit, digits};
use super::{Claim, Durability, Figure};

// Engines whose calls return when the operation is done. `dd` is a program that makes such calls.
const BLOCKING: [&str; 7] = ["psync", "pvsync", "pvsync2", "vsync", "dd", "blocking", "mmap"];

// Engines that can have several operations in flight.
const ASYNCHRONOUS: [&str; 5] = ["libaio", "aio", "io_uring", "uring", "posixaio"];

// Words for storage that is memory.
const MEMORY: [&str; 6] = ["brd", "ram", "ramdisk", "tmpfs", "zram", "null_blk"];

/// Fills the facts that the texts of `claim` have and its fields lack.
pub fn describe(claim: &mut Claim) {
    let durable = words(&claim.durable);
    let workload = words(&claim.workload);
    if claim.durability == Durability::Unknown {
        claim.durability = match durability(&durable) {
            Durability::Unknown if has(&workload, &["fsync", "fdatasync"]) => Durability::SyncCall,
            known => known,
        };
    }
    if claim.writes_per_sync.is_none() && claim.durability == Durability::SyncCall {
        claim.writes_per_sync = writes_per_sync(&durable);
    }
    let engine = claim.engine.clone().unwrap_or_default().to_ascii_lowercase();
    let named: Vec<&str> = durable.iter().map(String::as_str).chain([engine.as_str()]).collect();
    let is_any = |known: &[&str]| named.iter().any(|word| known.contains(word));
    if claim.engine.is_none() {
        let known = |word: &&&str| ASYNCHRONOUS.contains(*word) || BLOCKING.contains(*word);
        claim.engine = named.iter().find(known).map(|&word| word.to_owned());
    }
    if claim.blocking.is_none() {
        // `sync` is an engine of fio; among the words of durability it means something else.
        claim.blocking = either(is_any(&BLOCKING) || engine == "sync", is_any(&ASYNCHRONOUS));
    }
    if claim.buffered.is_none() {
        claim.buffered = buffered(&named, &words(&claim.stack));
    }
    pattern(claim, &workload);
    if claim.total.is_none() {
        claim.total = total(claim, &workload);
    }
}

/// Lower-case words; a sign other than those within names and numbers parts them.
pub(super) fn words(text: &str) -> Vec<String> {
    let within = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let parts = text.split(|c: char| !within(c));
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn has(words: &[String], known: &[&str]) -> bool {
    words.iter().any(|word| known.contains(&word.as_str()))
}

/// Which of two opposites is stated; `None` if neither or both are.
fn either(one: bool, other: bool) -> Option<bool> {
    (one != other).then_some(one)
}

fn durability(words: &[String]) -> Durability {
    // First: `no fsync` names the call that is not made.
    if has(words, &["no", "none", "not"]) {
        Durability::Denied
    } else if has(words, &["fsync", "fdatasync", "fsync/fdatasync", "sync_file_range"]) {
        Durability::SyncCall
    } else if has(words, &["o_sync", "o_dsync", "dsync", "rwf_dsync", "rwf_sync", "fua"]) {
        Durability::InTheWrite
    } else if !words.is_empty() && words.iter().all(|word| is_call(word)) {
        Durability::OnlyTheCall
    } else {
        Durability::Unknown
    }
}

/// True for a word that says how a call is made, and nothing about durability.
fn is_call(word: &str) -> bool {
    let call = ["direct", "o_direct", "buffered"];
    [&call[..], &BLOCKING, &ASYNCHRONOUS].iter().any(|known| known.contains(&word))
}

/// `fsync each` is one; `fsync every 32 writes` is 32; `None` for other words.
fn writes_per_sync(words: &[String]) -> Option<u32> {
    let every = words.iter().position(|word| word == "every");
    let next = every.and_then(|at| words.get(at + 1));
    match next.map(|next| next.parse()) {
        Some(Ok(writes)) => Some(writes).filter(|&writes| writes > 0),
        Some(Err(_)) if next.is_some_and(|next| next == "write") => Some(1),
        _ => has(words, &["each"]).then_some(1),
    }
}

fn buffered(call: &[&str], stack: &[String]) -> Option<bool> {
    let direct = call.iter().any(|word| ["direct", "o_direct"].contains(word));
    let buffered = call.contains(&"buffered") || has(stack, &["buffered"]);
    either(buffered, direct)
}

/// fio's names of patterns, and words such as `seq write` or `read70`.
fn pattern(claim: &mut Claim, words: &[String]) {
    if claim.random.is_none() {
        let random = words.iter().any(|word| word.starts_with("rand"));
        let sequential = has(words, &["seq", "sequential", "read", "write", "rw"]);
        claim.random = (random || sequential).then_some(random);
    }
    if claim.read_share.is_none() {
        let share_of = |prefix: &str| {
            let percent = words.iter().find_map(|word| word.strip_prefix(prefix)?.parse().ok());
            percent
                .filter(|percent: &f64| (0.0..=100.0).contains(percent))
                .map(|percent| percent / 100.0)
        };
        let mixed = has(words, &["rw", "randrw", "readwrite"]);
        claim.read_share = share_of("read").or_else(|| Some(1.0 - share_of("write")?));
        if claim.read_share.is_none() && !mixed {
            let reads = has(words, &["read", "randread", "reads"]);
            let writes = has(words, &["write", "randwrite", "writes"]);
            claim.read_share = either(reads, writes).map(|reads| if reads { 1.0 } else { 0.0 });
        }
    }
}

/// The volume before the word `total`, such as `16G total` or `128M per thread total`.
fn total(claim: &Claim, words: &[String]) -> Option<Bytes> {
    let at = words.iter().position(|word| word == "total")?;
    let before = words.get(..at)?;
    let each = before.ends_with(&["per".to_owned(), "thread".to_owned()]);
    let size = before.get(before.len().checked_sub(if each { 3 } else { 1 })?)?;
    let size: Bytes = size.parse().ok()?;
    let times = if each { u64::from(claim.jobs?) } else { 1 };
    size.get().checked_mul(times).map(Bytes::new)
}

/// Drives that the stack names, as in `8x NVMe` or `x4 cards`.
pub(super) fn drives(stack: &str) -> Option<u32> {
    words(stack).iter().find_map(|word| {
        let count = word.strip_suffix('x').or_else(|| word.strip_prefix('x'))?;
        count.parse().ok().filter(|&count| count > 0)
    })
}

pub(super) fn is_memory(stack: &str) -> bool {
    has(&words(stack), &MEMORY)
}

/// A number in the note: the one before `after`, as in `12 jobs per drive`.
pub(super) fn number_before(note: &str, after: &str) -> Option<Figure> {
    let (before, _) = note.split_once(after)?;
    let (figure, rest) = digits(before.split_whitespace().last()?)?;
    rest.is_empty().then_some(figure)
}

/// A bandwidth in the note before `after` (`4.09 MB/s per thread`) or, without that, after
/// `printed as`; with the text of number and unit.
pub(super) fn bandwidth_in<'a>(note: &'a str, mark: &str) -> Option<(Figure, &'a str)> {
    let (before, after) = note.split_once(mark)?;
    let text = match mark.ends_with("thread") {
        true => before.trim(),
        false => after.trim(),
    };
    let (figure, unit) = digits(text)?;
    let scale = bandwidth_unit(unit).filter(|_| !unit.is_empty())?;
    Some((figure.scaled(scale), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(stack: &str, workload: &str, durable: &str) -> Claim {
        let mut claim = Claim {
            stack: stack.into(),
            workload: workload.into(),
            durable: durable.into(),
            jobs: Some(4),
            ..Claim::default()
        };
        describe(&mut claim);
        claim
    }

    #[test]
    fn patterns_are_known_by_their_usual_names() {
        let rows = [
            ("randread", Some(1.0), Some(true)),
            ("randrw read70", Some(0.7), Some(true)),
            ("randrw write70", Some(0.3), Some(true)),
            ("randrw", None, Some(true)),
            ("scan: seq read", Some(1.0), Some(false)),
            ("wal: seq write + fsync", Some(0.0), Some(false)),
            ("tea", None, None),
            ("randrw read700", None, Some(true)),
        ];
        for (workload, share, random) in rows {
            let claim = described("", workload, "");
            let read_share = claim.read_share.map(|share| (share * 1000.0_f64).round() / 1000.0);
            assert_eq!((read_share, claim.random), (share, random), "{workload}");
        }
    }

    #[test]
    fn how_a_call_is_made_says_nothing_about_durability() {
        let rows = [
            ("psync+direct", Durability::OnlyTheCall),
            ("O_DIRECT", Durability::OnlyTheCall),
            ("libaio+direct", Durability::OnlyTheCall),
            ("no (buffered)", Durability::Denied),
            ("fsync each", Durability::SyncCall),
            ("O_DIRECT+O_SYNC", Durability::InTheWrite),
            ("yes", Durability::Unknown),
            ("", Durability::Unknown),
        ];
        for (durable, durability) in rows {
            assert_eq!(described("", "randwrite", durable).durability, durability, "{durable}");
        }
        assert_eq!(described("", "write + fsync", "").durability, Durability::SyncCall);
    }

    #[test]
    fn how_often_a_sync_follows_is_known_only_where_it_is_said() {
        let rows = [
            ("fsync each", Some(1)),
            ("fdatasync every write", Some(1)),
            ("fsync every 32 writes", Some(32)),
            ("fsync every now and then", None),
            ("fsync every 0", None),
            ("fsync", None),
            ("O_SYNC each", None),
        ];
        for (durable, writes) in rows {
            assert_eq!(described("", "write", durable).writes_per_sync, writes, "{durable}");
        }
    }

    #[test]
    fn engines_and_the_page_cache_are_known_where_they_are_named() {
        let claim = described("raw", "randread", "psync+direct");
        assert_eq!((claim.blocking, claim.buffered), (Some(true), Some(false)));
        assert_eq!(claim.engine.as_deref(), Some("psync"));
        assert_eq!(described("", "", "libaio+direct").blocking, Some(false));
        assert_eq!(described("NVMe buffered, read-ahead", "randrw", "").buffered, Some(true));
        assert_eq!(described("", "", "").buffered, None);
    }

    #[test]
    fn volumes_are_those_before_the_word_total() {
        assert_eq!(described("", "seq write 16G total", "").total, Some(Bytes::from_gib(16)));
        let each = described("", "seq write 128M per thread total", "");
        assert_eq!(each.total, Some(Bytes::from_mib(512)));
        assert_eq!(described("", "seq write  total", "").total, None);
        assert_eq!(described("", "total", "").total, None);
        assert_eq!(described("", "16777215t per thread total", "").total, None, "too large");
    }

    #[test]
    fn drives_and_memory_are_found_in_the_stack() {
        assert_eq!(drives("raw 8x NVMe"), Some(8));
        assert_eq!(drives("raid0 x2 cards"), Some(2));
        assert_eq!((drives("xfs NVMe"), drives("0x")), (None, None));
        assert!(is_memory("raw brd") && !is_memory("brand new NVMe"));
    }

    #[test]
    fn figures_are_found_in_notes() {
        assert_eq!(number_before("12 jobs per drive", "jobs per drive").unwrap().value, 12.0);
        assert_eq!(number_before("many jobs per drive", "jobs per drive"), None);
        let (figure, text) = bandwidth_in("printed as 584 GB/s", "printed as").unwrap();
        assert_eq!((figure.value, text), (584e9, "584 GB/s"));
        assert_eq!(bandwidth_in("4.09 MB/s per thread", "per thread").unwrap().0.value, 4.09e6);
        assert_eq!(bandwidth_in("printed as 584", "printed as"), None);
    }

    #[test]
    fn each_word_of_engines_calls_and_syncs_is_known() {
        for word in BLOCKING {
            let claim = described("", "randread", word);
            assert_eq!((claim.blocking, claim.engine.as_deref()), (Some(true), Some(word)));
        }
        for word in ASYNCHRONOUS {
            let claim = described("", "randread", word);
            assert_eq!((claim.blocking, claim.engine.as_deref()), (Some(false), Some(word)));
        }
        assert_eq!(described("", "randread", "psync+libaio").blocking, None, "both");
        for (words, durability) in [
            (&["no", "none", "not"][..], Durability::Denied),
            (&["fsync", "fdatasync", "fsync/fdatasync", "sync_file_range"], Durability::SyncCall),
            (
                &["o_sync", "o_dsync", "dsync", "rwf_dsync", "rwf_sync", "fua"],
                Durability::InTheWrite,
            ),
            (&["direct", "o_direct", "buffered"], Durability::OnlyTheCall),
        ] {
            for word in words {
                assert_eq!(described("", "randwrite", word).durability, durability, "{word}");
            }
        }
        let mut claim = Claim { engine: Some("Sync".into()), ..Claim::default() };
        describe(&mut claim);
        assert_eq!(claim.blocking, Some(true));
        let buffered = |durable: &str| described("", "", durable).buffered;
        assert_eq!([buffered("o_direct"), buffered("buffered")], [Some(false), Some(true)]);
        assert_eq!(buffered("direct buffered"), None);
        assert_eq!(described("buffered", "", "direct").buffered, None);
    }

    #[test]
    fn a_fact_that_is_known_is_not_taken_from_words() {
        let mut claim = Claim {
            workload: "seq write 1G total".into(),
            durable: "psync fsync every 3 direct".into(),
            read_share: Some(0.5),
            random: Some(true),
            durability: Durability::SyncCall,
            writes_per_sync: Some(9),
            blocking: Some(false),
            buffered: Some(true),
            engine: Some("mine".into()),
            total: Some(Bytes::new(5)),
            ..Claim::default()
        };
        let known = claim.clone();
        describe(&mut claim);
        assert_eq!(claim, known);
    }

    #[test]
    fn words_keep_what_is_within_names_and_numbers() {
        let expected = ["a_b", "4.5k", "/dev/x-y", "o_sync", "8x"];
        assert_eq!(words("A_b (4.5K), /dev/x-y+O_SYNC = 8x"), expected);
        assert_eq!(drives("1x NVMe"), Some(1));
        for word in MEMORY {
            assert!(is_memory(&format!("raw {word}")), "{word}");
        }
        let share = |workload: &str| described("", workload, "").read_share;
        assert_eq!(
            (share("read0"), share("read100"), share("read101")),
            (Some(0.0), Some(1.0), None)
        );
        assert_eq!(
            (share("reads"), share("writes"), share("read write")),
            (Some(1.0), Some(0.0), None)
        );
        assert_eq!((share("rw"), share("readwrite")), (None, None));
        for word in ["seq", "sequential", "read", "write", "rw"] {
            assert_eq!(described("", word, "").random, Some(false), "{word}");
        }
    }
}
