//! Tests of whole files: every quirk of fio's output, damage, limits.

use proptest::prelude::*;

use super::*;
use crate::json::{FioJob, write};

const REAL: &str = include_str!("../../../tests/fixtures/fio-3.33.json");

/// A small document with these jobs.
fn document(jobs: &str) -> String {
    format!("{{\"fio version\" : \"fio-3.33\",\n\"timestamp\" : 7,\n\"jobs\" : [{jobs}]\n}}")
}

fn job(fields: &str) -> FioJob {
    let text = document(&format!("{{\"jobname\":\"a\",\"groupid\":0,{fields}}}"));
    read(text.as_bytes()).unwrap().output.jobs.remove(0)
}

fn error(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_result_of_fio_3_33_is_read_with_its_lines() {
    let file = read(REAL.as_bytes()).unwrap();
    let [wal, reads] = file.output.jobs.as_slice() else { panic!("two jobs") };
    assert_eq!((wal.jobname.as_str(), reads.jobname.as_str()), ("wal", "reads"));
    let line = |number: u64| REAL.lines().nth(usize::try_from(number).unwrap() - 1).unwrap();
    assert_eq!((line(wal.line).trim(), line(reads.line).trim()), ("{", "{"));
    assert!(line(reads.line + 1).contains("\"reads\""));
    let sync = wal.sync.as_ref().unwrap();
    assert_eq!((sync.total_ios, sync.lat_ns.samples()), (0, 31));
    assert_eq!(wal.write.as_ref().unwrap().lat_ns.bins.total(), 32);
    assert_eq!(reads.option("bs", &file.output.global_options), Some("4k"));
}

#[test]
fn text_before_between_and_after_is_kept_and_the_last_document_counts() {
    let text = format!(
        "fio: a {{ \"note\nJobs: 1 (f=1)\r{}\nuser text {{x}}\n{}\nbye",
        document(""),
        document("{\"jobname\":\"b\"}")
    );
    let file = read(text.as_bytes()).unwrap();
    assert_eq!((file.documents, file.cut_off_line), (2, None));
    assert_eq!(file.output.jobs[0].jobname, "b");
    assert_eq!(file.output.jobs[0].line, 9);
    assert_eq!(file.text, "fio: a { \"note\nJobs: 1 (f=1)\nuser text {x}\nbye");
}

/// A document of one job at this second, whose reads took so many milliseconds and were so many.
fn state(name: &str, second: u64, runtime: u64, reads: u64) -> String {
    format!(
        "{{\"fio version\":\"fio-3.33\",\"timestamp\":{second},\"jobs\":[{{\"jobname\":\"{name}\",\
         \"read\":{{\"total_ios\":{reads},\"runtime\":{runtime}}}}}]}}\n"
    )
}

#[test]
fn results_of_several_runs_are_all_there_and_states_of_one_run_are_one() {
    let reads = |text: &str| {
        let file = read(text.as_bytes()).unwrap();
        let all = file.earlier.iter().chain([&file.output]);
        let of = |output: &FioOutput| output.jobs[0].read.as_ref().unwrap().total_ios;
        (all.map(of).collect::<Vec<_>>(), file.documents)
    };
    // Each second of one run, with its end twice.
    let interval: Vec<String> = [(100, 1000, 10), (101, 2000, 19), (102, 3010, 31)]
        .map(|(at, ran, reads)| state("a", at, ran, reads))
        .into();
    let text = interval.concat() + &interval[2];
    assert_eq!(reads(&text), (vec![31], 4));
    // The same job once more, with text between: it did more in about the same time, a minute later.
    let again = text + "Jobs: 1 (f=1)\n" + &state("a", 162, 3020, 35);
    assert_eq!(reads(&again), (vec![31, 35], 5));
    // Another job at the same second, and one that did less.
    let other = state("a", 100, 1000, 10) + &state("b", 100, 1000, 10) + &state("b", 101, 2000, 9);
    assert_eq!(reads(&other), (vec![10, 10, 9], 3));
    // Documents have whole seconds: they may be off by two from the time that the job ran.
    let apart = |second| state("a", 100, 1000, 10) + &state("a", second, 2000, 20);
    assert_eq!(reads(&apart(103)), (vec![20], 2));
    assert_eq!(reads(&apart(104)), (vec![10, 20], 2));
    // In an array, as tools keep them.
    let array = format!("[{},{}]", state("a", 7, 5, 1), state("c", 7, 5, 2));
    assert_eq!(reads(&array), (vec![1, 2], 2));
}

#[test]
fn runs_that_follow_each_other_at_once_are_told_apart_by_what_had_elapsed_or_when_they_began() {
    // Milliseconds since 1970, seconds since fio began, the start of the job, and milliseconds that it ran.
    let state = |at: u64, elapsed: u64, start: u64, ran: u64| {
        let start = if start > 0 { format!("\"job_start\":{start},") } else { String::new() };
        format!(
            "{{\"fio version\":\"fio-3.33\",\"timestamp\":{},\"timestamp_ms\":{at},\"jobs\":[{{\
             \"jobname\":\"a\",{start}\"elapsed\":{elapsed},\"read\":{{\"total_ios\":{ran},\"runtime\":{ran}}}}}]}}\n",
            at / 1000
        )
    };
    let runs = |states: &[String]| {
        let file = read(states.concat().as_bytes()).unwrap();
        let all = file.earlier.iter().chain([&file.output]);
        all.map(|output| output.jobs[0].read.as_ref().unwrap().total_ios).collect::<Vec<_>>()
    };
    // Two runs of a second each, the second a little longer.
    assert_eq!(runs(&[state(50_200, 2, 0, 1000), state(51_400, 2, 0, 1003)]), [1000, 1003]);
    assert_eq!(runs(&[state(50_200, 2, 0, 1000), state(52_300, 3, 0, 1900)]), [1000, 1900]);
    // States of one run: `elapsed` grows by a second more or less than the clock does.
    assert_eq!(runs(&[state(50_200, 2, 0, 1000), state(51_199, 2, 0, 1999)]), [1999]);
    let grows = [state(50_200, 2, 0, 1000), state(51_201, 4, 0, 2001), state(53_300, 6, 0, 4100)];
    assert_eq!(runs(&grows), [4100]);
    // fio 3.36 says when a job began; one that is still to begin says 0.
    let begun = |start: u64| state(50_700, 1, start, 520);
    assert_eq!(runs(&[state(50_200, 1, 49_700, 500), begun(50_180)]), [500, 520]);
    assert_eq!(runs(&[state(50_200, 1, 49_700, 500), begun(49_700)]), [520]);
    assert_eq!(runs(&[state(50_200, 1, 0, 500), begun(49_700)]), [520]);
}

#[test]
fn a_further_document_that_is_cut_off_is_said_and_the_complete_one_counts() {
    let text = format!("note\n{}\n{}", document("{\"jobname\":\"a\"}"), &REAL[..REAL.len() / 2]);
    let file = read(text.as_bytes()).unwrap();
    assert_eq!((file.documents, file.output.jobs[0].jobname.as_str()), (1, "a"));
    assert_eq!(file.cut_off_line, Some(u64::try_from(text.lines().count()).unwrap()));
    assert_eq!(file.text, "note");
}

#[test]
fn a_document_after_one_that_was_cut_off_counts() {
    let text = format!("{}\n{}", &REAL[..REAL.len() / 2], document("{\"jobname\":\"a\"}"));
    let file = read(text.as_bytes()).unwrap();
    assert_eq!((file.documents, file.cut_off_line), (1, None));
    assert_eq!(file.output.jobs[0].jobname, "a");
}

#[test]
fn a_client_s_document_has_jobs_with_hosts() {
    let text = "\n{\n\"fio version\" : \"fio-3.33\",\n\"global options\" : [{\"bs\" : \"4k\"}],\n\
        \"client_stats\" : [{\"jobname\" : \"a\", \"hostname\" : \"h\", \"port\" : 8765},\n\
        {\"jobname\" : \"All clients\"}],\n\"disk_util\" : []}";
    let output = read(text.as_bytes()).unwrap().output;
    assert!(output.is_client);
    assert_eq!((output.jobs[0].hostname.as_deref(), output.jobs[0].port), (Some("h"), Some(8765)));
    assert_eq!(output.jobs[0].option("bs", &output.global_options), Some("4k"));
    assert_eq!((output.jobs[1].jobname.as_str(), output.jobs[1].line), ("All clients", 6));
    assert!(write(&output).contains("\"client_stats\" : ["));
}

#[test]
fn fio_3_0_fills_its_percentiles_with_zeros_and_says_no_count() {
    let job = job("\"write\":{\"io_bytes\":8192,\"bw\":3,\"clat_ns\":{\"min\":10,\"max\":90,\
        \"mean\":20.5,\"stddev\":1.0,\"percentile\":{\"1.000000\":10,\"99.000000\":90,\"0.00\":0,\
        \"0.00\":0},\"bins\":{\"10\":5,\"90\":2}}}");
    let write = job.write.unwrap();
    assert_eq!(write.bw_bytes, 3 * 1024);
    assert_eq!(write.clat_ns.percentiles, [(1.0, 10), (99.0, 90)]);
    assert_eq!((write.clat_ns.n, write.clat_ns.samples()), (None, 7));
    assert_eq!(write.clat_ns.percentile_ns(99.0), Some(90));
    let read = "\"read\":{\"clat_ns\":{\"max\":0,\"percentile\":{\"1.000000\":0},\"bins\":{}}}";
    assert!(self::job(read).read.unwrap().clat_ns.percentiles.is_empty());
    assert!(job.sync.is_none() && job.read.is_none() && job.job_runtime.is_none());
}

#[test]
fn percentiles_that_print_alike_are_both_kept_and_sorted() {
    let job = job("\"read\":{\"clat_ns\":{\"percentile\":{\"99.999990\":9,\"5.000000\":1,\
        \"99.999990\":10}}}");
    let percentiles = job.read.unwrap().clat_ns.percentiles;
    assert_eq!(percentiles, [(5.0, 1), (99.99999, 9), (99.99999, 10)]);
}

#[test]
fn figures_that_are_no_numbers_and_counts_beyond_i64_are_read_and_written_as_json() {
    let found = job("\"usr_cpu\":-nan,\"sys_cpu\":inf,\"ctx\":-1,\"majf\":\"3\",\"minf\":null,\
        \"read\":{\"io_bytes\":-2,\"iops\":12,\"bw_min\":4.7,\"lat_ns\":{\"mean\":nan}}");
    assert!(found.usr_cpu.is_nan() && found.sys_cpu.is_infinite());
    assert_eq!((found.ctx, found.majf, found.minf), (u64::MAX, 3, 0));
    let read = found.read.as_ref().unwrap();
    assert_eq!((read.io_bytes, read.iops, read.bw_min), (u64::MAX - 1, 12.0, 4));
    let output =
        FioOutput { version: "fio-3.33".into(), jobs: vec![found], ..FioOutput::default() };
    let strict: serde_json::Value = serde_json::from_str(&write(&output)).unwrap();
    assert_eq!(strict["jobs"][0]["ctx"], u64::MAX);
    assert_eq!(strict["jobs"][0]["usr_cpu"], 0.0);
}

#[test]
fn names_with_control_characters_and_broken_utf_8_are_read_and_written_as_json() {
    let bytes =
        [b"{\"fio version\":\"fio-3.33\",\"jobs\":[{\"jobname\":\"a\t\xff\\\"\"}]}".as_slice()];
    let output = read(&bytes.concat()).unwrap().output;
    assert_eq!(output.jobs[0].jobname, "a\t\u{fffd}\"");
    let strict: serde_json::Value = serde_json::from_str(&write(&output)).unwrap();
    assert_eq!(strict["jobs"][0]["jobname"], "a\t\u{fffd}\"");
}

#[test]
fn keys_of_later_versions_are_read_or_skipped() {
    let job = job("\"job_start\":1700000000000,\"latency_target_ns\":5,\"zone_resets\":1,\
        \"job options\":{\"time_based\":\"\",\"rw\":\"read\",\"rw\":\"write\"},\
        \"unknown\":{\"deep\":[1,{}]},\"steadystate\":{\"ss\":\"lat:5.000000%\",\"attained\":1,\
        \"data\":{\"bw_mean\":1,\"lat_mean\":9,\"lat_ns\":[8,10],\"iops\":[],\"bw\":[1]}}");
    assert_eq!(job.job_start, Some(1_700_000_000_000));
    assert_eq!(job.option("time_based", &Vec::new()), Some(""));
    assert_eq!(job.option("rw", &Vec::new()), Some("write"));
    let steady = job.steadystate.unwrap();
    assert!(steady.attained && steady.data.latency.unwrap().lat_ns == [8, 10]);
}

#[test]
fn the_entry_without_name_and_group_is_no_job() {
    let text = document("{\"jobname\":\"a\",\"groupid\":0},{\"groupid\":4294967295,\"error\":0}");
    assert_eq!(read(text.as_bytes()).unwrap().output.jobs.len(), 1);
}

#[test]
fn a_result_inside_other_json_is_found() {
    let text = format!("{{\"host\": \"h\", \"result\": {}}}", document("{\"jobname\":\"a\"}"));
    let file = read(text.as_bytes()).unwrap();
    assert_eq!(file.output.jobs[0].jobname, "a");
}

#[test]
fn sorted_keys_are_no_hindrance() {
    let text = "{\"disk_util\":[],\"fio version\":\"fio-3.33\",\"jobs\":[]}";
    assert_eq!(read(text.as_bytes()).unwrap().output.version, "fio-3.33");
}

#[test]
fn nothing_text_and_other_json_are_told_apart() {
    assert!(error("").starts_with("empty"));
    assert!(error(" \n\t").starts_with("empty"));
    let text = "\nfio-3.33\nStarting 1 process\n";
    assert!(error(text).contains("the file begins with 'fio-3.33'"), "{}", error(text));
    assert!(error("x\n{\"a\": 1}").starts_with("line 2: JSON, but not a fio result"));
    assert!(error("{}").starts_with("line 1: JSON, but not"));
    assert!(error("[1, 2]").contains("not JSON: the file begins with"));
    assert!(error("\u{1f}\u{8b}\u{8}\0\0").starts_with("not JSON: the file begins with"));
}

#[test]
fn of_the_text_around_results_64_kib_are_kept() {
    let kept = |bytes: usize| {
        read(format!("{}\n{}", "x".repeat(bytes), document("")).as_bytes()).unwrap().text.len()
    };
    assert_eq!([kept(65_535), kept(65_536), kept(70_000)], [65_535, 65_536, 65_536]);
}

#[test]
fn of_the_first_eight_braces_one_may_begin_other_json() {
    let of = |braces: usize| error(&format!("{}{{\"a\": 1}}", "{x ".repeat(braces)));
    assert!(of(7).starts_with("line 1: JSON, but not a fio result"), "{}", of(7));
    assert!(!of(8).contains("JSON, but not"), "{}", of(8));
}

#[test]
fn a_result_that_is_cut_off_says_where() {
    let end = REAL.find("\"bins\"").unwrap() + 20;
    let text = error(&REAL[..end]);
    let line = REAL[..end].lines().count();
    assert!(text.starts_with(&format!("line {line}: truncated inside jobs.")), "{text}");
    assert!(text.contains(".bins"), "{text}");
    assert!(
        error("{\"fio version\" : \"fio-3.33\"")
            .starts_with("line 1: truncated inside the document")
    );
}

#[test]
fn a_wrong_type_says_where_and_what() {
    let text = document("{\"jobname\":\"a\",\n\"read\":{\"iops\":[]}}");
    assert_eq!(error(&text), "line 4: jobs.read.iops: expected a number, found an array");
    let text = document("{\"read\":{\"clat_ns\":{\"bins\":{\"129\":1, \"130\":1}}}}");
    assert!(
        error(&text).contains("read.clat_ns.bins.130: 130 ns is not the middle"),
        "{}",
        error(&text)
    );
    assert!(error(&document("3")).contains("expected an object, found a number"));
}

#[test]
fn results_in_microseconds_are_refused() {
    let text = document("").replace("fio-3.33", "fio-2.21");
    assert!(error(&text).contains("written by fio-2.21"));
}

#[test]
fn a_missing_file_is_named() {
    let error = read_file(Path::new("/no/such/file")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read '/no/such/file'");
}

#[test]
fn a_file_beyond_the_limit_is_refused_without_reading_it_whole() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 40).unwrap();
    let error = read_within(file.path(), 1000).unwrap_err();
    let said = "more than 1000 bytes: too large for a fio result that durio can read";
    assert_eq!(error.to_string(), said);
}

#[test]
fn every_cut_of_a_result_is_an_error_with_a_line() {
    let end = REAL.trim_end().len();
    for cut in (2..end).step_by(397).chain([end - 1]) {
        let said = read(&REAL.as_bytes()[..cut]).unwrap_err().to_string();
        let line = REAL[..cut].matches('\n').count() + 1;
        // Without its first key a result is not known as fio's.
        let is_unknown = cut < 17 && said.starts_with("not JSON: ");
        let is_cut = said.starts_with(&format!("line {line}: truncated inside "));
        assert!(is_cut || is_unknown, "{cut}: {said}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_tokens_are_read_or_refused(tokens in prop::collection::vec(token(), 0..60)) {
        let _ = read(tokens.concat().as_bytes());
    }

    #[test]
    fn a_damaged_result_is_read_or_refused(at in 0..REAL.len(), length in 0_usize..40,
                                           bytes in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut damaged = REAL.as_bytes().to_vec();
        let end = (at + length).min(damaged.len());
        damaged.splice(at..end, bytes);
        if let Ok(file) = read(&damaged) {
            let again = read(write(&file.output).as_bytes()).unwrap();
            prop_assert_eq!(again.output.jobs.len(), file.output.jobs.len());
        }
    }
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"fio version\"",
        "\"fio-3.33\"",
        "\"jobs\"",
        "\"jobname\"",
        "\"read\"",
        "\"clat_ns\"",
        "\"bins\"",
        "\"129\"",
        "\"percentile\"",
        "-1",
        "nan",
        "1e999",
        "null",
        "\"",
        "\\",
        "\n",
        " ",
        "\"job options\"",
        "\"steadystate\"",
        "\"data\"",
        "x",
    ])
}
