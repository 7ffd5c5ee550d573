//! A profile of a capture: TOML as docs/formats/profile.md has it, each field with its source.
//!
//! A trace has no commits, but it has the unit they share: a batch with its sync. So the log of a
//! profile has one committer, whose records are the new bytes between two syncs, at the rate of the
//! syncs.

use std::collections::BTreeSet;
use std::fmt::Write;

use durio_base::stats::least_squares::{float, quotient};
use serde::{Deserialize, Serialize};

use super::{CaptureFindings, CapturedFileFindings, CapturedSize, FileClass};

/// The captured process, and the place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSource {
    /// The process: `process 812 (postgres)`.
    pub target: String,
    pub command: String,
    /// The day, as in `2026-11-25`.
    pub date: String,
    pub kernel: String,
    pub host: String,
}

/// Sizes of a mix; rarer ones count as the nearest of these.
const SIZES_MAX: usize = 12;

/// Streams in addition to the log: those that write most.
const STREAMS_MAX: usize = 4;

/// The log of a profile; `None` if nothing was made durable in order.
fn log(findings: &CaptureFindings) -> Option<&CapturedFileFindings> {
    let mut logs =
        findings.files.iter().filter(|file| file.class == FileClass::Log && file.writes > 0);
    logs.next()
}

/// The profile as TOML; `None` if no durable writes were seen.
pub fn profile_text(findings: &CaptureFindings) -> Option<String> {
    let log = log(findings);
    let beside = |file: &&CapturedFileFindings| file.writes > 0 && log != Some(*file);
    let mut others: Vec<_> = findings.files.iter().filter(beside).collect();
    others.sort_by_key(|file| std::cmp::Reverse(file.written_bytes));
    let left_out = others.split_off(others.len().min(STREAMS_MAX));
    if findings.durable == 0 || (log.is_none() && others.is_empty()) {
        return None;
    }
    let source = &findings.source;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "# What durio capture saw; durio spec show mariadb has an example of the format. Paths are in it, contents never.\n\
         schema = 1\nname = \"captured\"\ntitle = {}\nsummary = {}\nnotes = {}\n\
         check = {{ value = \"commit\", from = \"guess\" }}\n\n\
         [sources.captured]\nkind = \"traced\"\ndocument = {}\n\n\
         [sources.guess]\nkind = \"durio-guess\"\ndocument = \"not visible in a trace\"",
        quoted(&format!("{} on {}", source.target, source.host)),
        quoted("captured: commits wait for the log; all other writes run in the background"),
        notes(findings, log, &others, &left_out),
        quoted(&format!(
            "{}; {}, Linux {}, {:.0} s: {}",
            source.target, source.date, source.kernel, findings.seconds, source.command
        )),
    );
    if let Some(log) = log {
        log_table(log, &mut text);
    }
    let mut names = BTreeSet::from(["log".to_owned(), "data".to_owned(), "null".to_owned()]);
    for file in others {
        stream(file, findings.seconds, &mut names, &mut text);
    }
    Some(text)
}

fn notes(
    findings: &CaptureFindings,
    log: Option<&CapturedFileFindings>,
    streams: &[&CapturedFileFindings],
    left_out: &[&CapturedFileFindings],
) -> String {
    let mut notes = vec![
        "reads were not captured: add a [[read]] for what your database does".to_owned(),
        "a trace does not show how many commits share a sync: one committer represents a batch"
            .to_owned(),
    ];
    let lost = findings.cost.lost_calls;
    if lost > 0 {
        notes.push(format!("{lost} events were lost: counts and rates are too low"));
    }
    if findings.ring_operations > 0 {
        notes.push(format!(
            "{} operations went through io_uring and are missing",
            findings.ring_operations
        ));
    }
    if !left_out.is_empty() {
        let bytes = left_out.iter().map(|file| file.written_bytes).sum();
        notes.push(format!(
            "{} more files are missing: {:.1} % of the bytes written",
            left_out.len(),
            100.0 * quotient(bytes, findings.written_bytes)
        ));
    }
    let mixes = log.map(|log| (log, &log.batches, "syncs")).into_iter();
    let mixes = mixes.chain(streams.iter().map(|file| (*file, &file.sizes, "writes")));
    for (file, sizes, what) in mixes.filter(|(_, sizes, _)| sizes.len() > SIZES_MAX) {
        let count = |sizes: &[CapturedSize]| sizes.iter().map(|size| size.count).sum();
        let rare = &sizes[SIZES_MAX..];
        notes.push(format!(
            "{}: {} sizes are not in it, of {:.1} % of its {what}",
            file.path,
            rare.len(),
            100.0 * quotient(count(rare), count(sizes))
        ));
    }
    let quoted: Vec<String> = notes.iter().map(|note| quoted(note)).collect();
    format!("[{}]", quoted.join(", "))
}

/// A larger sync is not a commit: it fills a segment before its use.
const COMMIT_MAX: u64 = 1 << 20;

/// New bytes of a sync, mean, without those that fill a segment.
fn new_bytes_per_commit(log: &CapturedFileFindings) -> f64 {
    let filling = || log.batches.iter().filter(|batch| batch.bytes > COMMIT_MAX);
    let bytes = filling().map(|batch| batch.bytes * batch.count).sum();
    let syncs = filling().map(|batch| batch.count).sum();
    match (log.new_bytes.checked_sub(bytes), log.durable().checked_sub(syncs)) {
        (Some(new), Some(commits)) if new > 0 && commits > 0 => quotient(new, commits),
        _ => log.new_bytes_per_sync.unwrap_or(1.0),
    }
}

fn log_table(log: &CapturedFileFindings, text: &mut String) {
    let is_rewritten = quotient(log.pattern.tail_rewritten, log.writes) > 0.1;
    let per_sync = new_bytes_per_commit(log).max(1.0).round();
    let (records, note) = match is_rewritten || log.batches.is_empty() {
        // The new bytes of each sync are hidden by the rewritten page; their mean is not.
        true => (
            format!("{{ \"{per_sync}B\" = 1000 }}"),
            "new bytes of a sync, mean: the last block is written again until it is full",
        ),
        false => (mix(&log.batches), "bytes between two syncs"),
    };
    let alignment = match log.alignment {
        1..512 => "none".to_owned(),
        bytes => format!("{bytes}B"),
    };
    let syncs = log.sync_calls();
    let (sync, sync_note) =
        match log.syncs.iter().max_by_key(|(name, calls)| (**name != "sync_file_range", **calls)) {
            Some((name, _)) if syncs >= log.durable_writes => (*name, format!("{syncs} syncs")),
            _ => {
                ("o_dsync", format!("{} writes that are durable by themselves", log.durable_writes))
            }
        };
    let file = if log.grows() { "extend" } else { "recycled" };
    let grew = match log.growth() {
        Some(share) => format!("grew by {:.0} % of the new data", 100.0 * share),
        None => "the trace does not show whether it grew".to_owned(),
    };
    // Only batches that are filled up to a block have a last block to rewrite.
    let tail = match is_rewritten && log.alignment >= 512 {
        true => "rewrites_tail = { value = true, from = \"captured\" }\n",
        false => "",
    };
    let _ = write!(
        text,
        "\n[log]\nsummary = {}\n\
         records = {{ value = {records}, from = \"captured\", note = \"{note}\" }}\n\
         padding = {{ value = \"{alignment}\", from = \"captured\", note = \"unit of offsets and sizes\" }}\n\
         file = {{ value = \"{file}\", from = \"captured\", note = \"{grew}\" }}\n\
         file_size = {{ value = \"{}B\", from = \"captured\" }}\n\
         cache = {{ value = \"{}\", from = \"captured\" }}\n\
         sync = {{ value = \"{sync}\", from = \"captured\", note = {} }}\n\
         sync_every = {{ value = 1, from = \"captured\", note = \"a batch is what a sync makes durable\" }}\n\
         logs = {{ value = 1, from = \"captured\" }}\n\
         committers = {{ value = 1, from = \"guess\", note = \"{} threads sync, at most {} at once\" }}\n\
         rate = {{ value = \"{}/s\", from = \"captured\", note = \"as many as came; unlimited shows what the storage can\" }}\n\
         {tail}",
        quoted(&format!("{}: {}", log.path, log.class_because)),
        log.file_bytes.max(1 << 20),
        cache(log),
        quoted(&sync_note),
        log.syncing_threads,
        log.syncs_at_once.max(1),
        rate(log.syncs_per_second),
    );
}

fn cache(file: &CapturedFileFindings) -> &'static str {
    // Both ways were used: unaligned writes go through the cache.
    let is_direct = file.flags.contains(&"O_DIRECT") && file.alignment >= 512;
    if is_direct { "direct" } else { "buffered" }
}

fn stream(
    file: &CapturedFileFindings,
    seconds: f64,
    names: &mut BTreeSet<String>,
    text: &mut String,
) {
    let is_random = file.class == FileClass::Data;
    let layout = if !is_random && file.grows() { "extend" } else { "recycled" };
    let durable = file.durable();
    let (sync, every) = match file
        .syncs
        .iter()
        .max_by_key(|(name, calls)| (**name != "sync_file_range", **calls))
    {
        _ if durable == 0 => ("none", 1),
        Some((name, _)) if file.sync_calls() > 0 => (*name, (file.writes / durable).max(1)),
        _ => ("o_dsync", 1),
    };
    let per_second = if seconds > 0.0 { float(file.writes) / seconds } else { 1.0 };
    let _ = write!(
        text,
        "\n[[write]]\nname = \"{}\"\nsummary = {}\n\
         access = {{ value = \"{}\", from = \"captured\" }}\n\
         sizes = {{ value = {}, from = \"captured\" }}\n\
         cache = {{ value = \"{}\", from = \"captured\" }}\n\
         jobs = {{ value = {}, from = \"captured\", note = \"threads that write\" }}\n\
         depth = {{ value = 1, from = \"captured\" }}\n\
         rate = {{ value = \"{}/s\", from = \"captured\", note = \"mean over the capture\" }}\n\
         file = {{ value = \"{layout}\", from = \"captured\" }}\n\
         sync = {{ value = \"{sync}\", from = \"captured\" }}\n\
         sync_every = {{ value = {every}, from = \"captured\" }}\n",
        name(file, names),
        quoted(&format!("{}: {}", file.path, file.class_because)),
        if is_random { "random" } else { "sequential" },
        mix(&file.sizes),
        cache(file),
        file.writing_threads.clamp(1, 32),
        rate(per_second),
    );
}

/// A name that no other stream has: the last part of the path that has letters.
fn name(file: &CapturedFileFindings, names: &mut BTreeSet<String>) -> String {
    let part =
        file.path.rsplit('/').find(|part| part.bytes().any(|letter| letter.is_ascii_alphabetic()));
    let letters = part.unwrap_or("file").to_ascii_lowercase();
    let plain: String = letters
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(24)
        .collect();
    let plain = plain.trim_matches('-');
    let base = format!("{}-{}", file.class.word(), if plain.is_empty() { "file" } else { plain });
    let free =
        (1..).map(|number| if number == 1 { base.clone() } else { format!("{base}-{number}") });
    let found = free.into_iter().find(|name| !names.contains(name)).unwrap_or(base.clone());
    names.insert(found.clone());
    found
}

/// `{ "4096B" = 900, "8192B" = 100 }`, in thousandths that are a thousand together.
fn mix(sizes: &[CapturedSize]) -> String {
    let shown = &sizes[..sizes.len().min(SIZES_MAX)];
    let all: u64 = shown.iter().map(|batch| batch.count).sum();
    let mut weights: Vec<u64> =
        shown.iter().map(|size| (1000 * size.count / all.max(1)).max(1)).collect();
    // The most frequent takes what rounding left, or gave too much.
    let rest: u64 = weights.iter().skip(1).sum();
    if let Some(first) = weights.first_mut() {
        *first = 1000_u64.saturating_sub(rest).max(1);
    }
    let parts: Vec<String> = shown
        .iter()
        .zip(weights)
        .map(|(size, weight)| format!("\"{}B\" = {weight}", size.bytes))
        .collect();
    format!("{{ {} }}", parts.join(", "))
}

/// At least one in a hundred seconds, with a digit behind the point where that matters.
fn rate(per_second: f64) -> String {
    if per_second >= 100.0 {
        format!("{per_second:.0}")
    } else {
        format!("{:.2}", per_second.max(0.01))
    }
}

/// A text of TOML: JSON escapes the same way.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned()).replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::super::tests::short_capture;
    use super::*;

    fn mixed(sizes: &[(u64, u64)]) -> String {
        let sizes: Vec<CapturedSize> =
            sizes.iter().map(|&(bytes, count)| CapturedSize { bytes, count }).collect();
        mix(&sizes)
    }

    #[test]
    fn a_mix_is_of_a_thousand_and_of_twelve_sizes_at_most() {
        assert_eq!(mixed(&[(4096, 2), (512, 1)]), "{ \"4096B\" = 667, \"512B\" = 333 }");
        assert_eq!(mixed(&[(8192, 99_999), (512, 1)]), "{ \"8192B\" = 999, \"512B\" = 1 }");
        assert_eq!(mixed(&[(513, 7)]), "{ \"513B\" = 1000 }");
        let sizes: Vec<(u64, u64)> = (1..=13).map(|bytes| (bytes, 1)).collect();
        let found = mixed(&sizes);
        // 83 each of eleven.
        assert!(found.starts_with("{ \"1B\" = 87, \"2B\" = 83, "), "{found}");
        assert!(found.ends_with(", \"12B\" = 83 }"), "{found}");
    }

    #[test]
    fn a_rate_has_two_digits_behind_its_point_below_a_hundred_and_is_never_zero() {
        let rates = [1234.6, 100.0, 99.994, 0.014, 0.0].map(rate);
        assert_eq!(rates, ["1235", "100", "99.99", "0.01", "0.01"]);
    }

    #[test]
    fn streams_are_named_by_their_class_and_the_last_part_that_has_letters() {
        let mut file = short_capture().files.remove(0);
        let mut names = BTreeSet::new();
        let mut named = |path: &str, class| {
            (file.path, file.class) = (path.to_owned(), class);
            name(&file, &mut names)
        };
        assert_eq!(named("/d/pg_wal/#", FileClass::Log), "log-pg-wal");
        assert_eq!(named("/e/PG_WAL/0/1", FileClass::Log), "log-pg-wal-2");
        assert_eq!(named("/d/pg_wal", FileClass::Log), "log-pg-wal-3");
        assert_eq!(named("/d/pg_wal", FileClass::Checkpoint), "checkpoint-pg-wal");
        assert_eq!(named("/#/1", FileClass::Data), "data-file");
        let long = "/d/abcdefghijklmnopqrstuvwxyz";
        assert_eq!(named(long, FileClass::Temporary), "temp-abcdefghijklmnopqrstuvwx");
    }

    #[test]
    fn only_aligned_writes_of_a_file_with_o_direct_go_past_the_cache() {
        let mut file = short_capture().files.remove(0);
        let mut of = |flags: &[&'static str], alignment| {
            (file.flags, file.alignment) = (flags.to_vec(), alignment);
            cache(&file)
        };
        assert_eq!([of(&["O_DIRECT"], 512), of(&["O_DIRECT"], 256)], ["direct", "buffered"]);
        assert_eq!([of(&[], 4096), of(&["O_APPEND", "O_SYNC"], 4096)], ["buffered"; 2]);
    }

    /// The lines of a stream of the table, which has 5 writes in 2 s and one fsync.
    fn stream_of(change: impl Fn(&mut CapturedFileFindings)) -> String {
        let mut file = short_capture().files.remove(1);
        change(&mut file);
        let mut text = String::new();
        stream(&file, 2.0, &mut BTreeSet::new(), &mut text);
        text
    }

    fn has(text: &str, key: &str, value: &str) {
        assert!(text.contains(&format!("\n{key} = {{ value = {value}, from")), "{key}: {text}");
    }

    #[test]
    fn a_stream_has_the_syncs_rate_and_threads_of_its_file() {
        let table = stream_of(|_| {});
        has(&table, "access", "\"random\"");
        has(&table, "sync", "\"fsync\"");
        has(&table, "sync_every", "5");
        has(&table, "rate", "\"2.50/s\"");
        has(&table, "file", "\"recycled\"");
        let often = stream_of(|file| {
            file.syncs = [("fsync", 2), ("fdatasync", 5), ("sync_file_range", 90)].into();
            (file.writes, file.writing_threads) = (22, 33);
        });
        has(&often, "sync", "\"fdatasync\"");
        // 22 writes of 7 syncs.
        has(&often, "sync_every", "3");
        has(&often, "jobs", "32");
        let more_syncs_than_writes = stream_of(|file| {
            file.syncs = [("fsync", 9)].into();
            (file.writes, file.writing_threads) = (2, 0);
        });
        has(&more_syncs_than_writes, "sync_every", "1");
        has(&more_syncs_than_writes, "jobs", "1");
        let by_flags = stream_of(|file| {
            file.syncs.clear();
            file.durable_writes = 5;
        });
        has(&by_flags, "sync", "\"o_dsync\"");
        let hints = stream_of(|file| file.syncs = [("sync_file_range", 3)].into());
        has(&hints, "sync", "\"none\"");
    }

    #[test]
    fn a_stream_in_order_extends_its_file_if_that_grew_and_one_at_random_never() {
        let layout = |class, grown| {
            stream_of(|file| {
                (file.class, file.grown_bytes, file.new_bytes) = (class, Some(grown), 100);
            })
        };
        has(&layout(FileClass::Checkpoint, 51), "file", "\"extend\"");
        has(&layout(FileClass::Checkpoint, 51), "access", "\"sequential\"");
        has(&layout(FileClass::Checkpoint, 50), "file", "\"recycled\"");
        has(&layout(FileClass::Data, 51), "file", "\"recycled\"");
    }

    /// The table of a log of 10 writes in batches of 8 KiB.
    fn log_of(change: impl Fn(&mut CapturedFileFindings)) -> String {
        let mut file = short_capture().files.remove(0);
        change(&mut file);
        let mut text = String::new();
        log_table(&file, &mut text);
        text
    }

    #[test]
    fn a_log_is_durable_by_what_it_has_more_of_and_by_syncs_of_as_many() {
        let of = |syncs: u64, durable_writes| {
            log_of(|file| {
                file.syncs = [("fsync", syncs), ("sync_file_range", 99)].into();
                file.durable_writes = durable_writes;
            })
        };
        has(&of(3, 3), "sync", "\"fsync\"");
        has(&of(3, 4), "sync", "\"o_dsync\"");
    }

    #[test]
    fn a_log_writes_its_tail_again_if_more_than_a_tenth_of_its_writes_do_so() {
        let of = |tail_rewritten| log_of(|file| file.pattern.tail_rewritten = tail_rewritten);
        has(&of(1), "records", "{ \"8192B\" = 1000 }");
        assert!(!of(1).contains("rewrites_tail"));
        // 16,384 new bytes in ten syncs.
        has(&of(2), "records", "{ \"1638B\" = 1000 }");
        has(&of(2), "rewrites_tail", "true");
    }

    #[test]
    fn a_log_is_padded_to_sectors_or_not_at_all_and_has_a_mebibyte_at_least() {
        let of = |alignment, file_bytes| {
            log_of(|file| (file.alignment, file.file_bytes) = (alignment, file_bytes))
        };
        has(&of(512, 1 << 20), "padding", "\"512B\"");
        has(&of(256, (1 << 20) + 1), "padding", "\"none\"");
        has(&of(256, (1 << 20) + 1), "file_size", "\"1048577B\"");
        has(&of(256, 100), "file_size", "\"1048576B\"");
    }
}
