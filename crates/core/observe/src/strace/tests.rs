//! Texts of strace: calls, times and names of files.

use super::*;

fn read(text: &str) -> (Vec<CaptureEvent>, Result<CaptureEnd, TraceTextError>) {
    let mut events = Vec::new();
    let end = read_strace(text.as_bytes(), &mut |event| events.push(event));
    (events, end)
}

fn entered(events: &[CaptureEvent]) -> Vec<(u64, &'static str, Option<u64>, bool)> {
    let seen = events.iter().filter_map(|event| match event {
        CaptureEvent::Entered { at, call, offset, durable, .. } => {
            Some((*at, call.name, *offset, *durable))
        }
        _ => None,
    });
    seen.collect()
}

fn left(events: &[CaptureEvent]) -> Vec<(u64, i64)> {
    let seen = events.iter().filter_map(|event| match event {
        CaptureEvent::Left { at, result, .. } => Some((*at, *result)),
        _ => None,
    });
    seen.collect()
}

#[test]
fn calls_have_their_times_offsets_and_results_whatever_is_quoted_of_contents() {
    let text = "\
812 1.000100 pwrite64(7</pg/wal/1>, \"a, 1) = 2 <3>\"..., 8192, 16384) = 8192 <0.000012>\n\
812 1.000200 write(9<socket:[123]>, \"x\", 1) = 1 <0.000001>\n\
812 1.000300 pwritev2(7</pg/wal/1>, [{iov_base=\"\\0\\0\", iov_len=512}], 1, 0, RWF_DSYNC) = -1 ENOSPC (No space left on device) <0.000005>\n\
812 1.000400 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
812 1.000500 read(7</pg/wal/1>, \"\"..., 10) = 10 <0.000001>\n";
    let (events, end) = read(text);
    let end = end.unwrap();
    let second = 1_000_000_000;
    assert_eq!(
        entered(&events),
        [
            (second + 100_000, "pwrite64", Some(16384), false),
            (second + 300_000, "pwritev2", Some(0), true)
        ]
    );
    assert_eq!(left(&events), [(second + 112_000, 8192), (second + 305_000, -1)]);
    assert_eq!((end.duration_ns, end.processes, end.events), (400_000, 1, 2));
    assert_eq!(end.ended_early, None);
}

#[test]
fn halves_of_a_call_are_joined_by_their_thread() {
    let text = "\
[pid   812] 5.000000 fdatasync(7</w> <unfinished ...>\n\
[pid   813] 5.000100 fdatasync(7</w> <unfinished ...>\n\
[pid   812] 5.000300 <... fdatasync resumed>) = 0 <0.000250>\n\
[pid   813] 5.000500 <... fdatasync resumed>) = 0\n\
[pid   813] 5.000600 fsync(7</w> <unfinished ...>\n";
    let (events, end) = read(text);
    let second = 5_000_000_000;
    let begins: Vec<u64> = entered(&events).iter().map(|call| call.0).collect();
    assert_eq!(begins, [second, second + 100_000, second + 600_000]);
    // Both were under way at once, which a capture sees by the order of events.
    let is_begin = |event: &CaptureEvent| match event {
        CaptureEvent::Entered { .. } => Some(true),
        CaptureEvent::Left { .. } => Some(false),
        _ => None,
    };
    let order: Vec<bool> = events.iter().filter_map(is_begin).collect();
    assert_eq!(order, [true, true, false, false, true]);
    // By strace's own duration where it is there, else by the line.
    assert_eq!(left(&events), [(second + 250_000, 0), (second + 500_000, 0)]);
    let end = end.unwrap();
    assert_eq!((end.processes, end.events), (2, 2), "the third has no end");
}

#[test]
fn flags_and_an_empty_begin_are_those_of_the_last_time_it_was_opened() {
    let text = "\
1.0 openat(AT_FDCWD</tmp>, \"x\", O_WRONLY|O_CREAT|O_TRUNC|O_DSYNC, 0666) = 3</tmp/x> <0.000066>\n\
1.1 write(1</tmp/x>, \"\", 4096) = 4096 <0.000496>\n\
1.2 openat(AT_FDCWD</tmp>, \"x\", O_RDONLY) = 4</tmp/x> <0.000066>\n\
1.3 write(1</tmp/x>, \"\", 4096) = 4096 <0.000496>\n\
1.4 write(2</tmp/y>, \"\", 1) = 1 <0.000496>\n";
    let (events, _) = read(text);
    let files: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            CaptureEvent::File(file) => Some((file.path.as_str(), file.flags, file.size)),
            _ => None,
        })
        .collect();
    assert_eq!(files, [("/tmp/x", 0o10000, Some(0)), ("/tmp/y", 0, None)]);
    let opened = events.iter().filter(|event| matches!(event, CaptureEvent::Opened { .. }));
    assert_eq!(opened.count(), 2, "a position goes on from one write to the next");
}

#[test]
fn times_of_the_day_go_on_after_midnight() {
    let (events, end) =
        read("23:59:59.900000 fsync(3</x>) = 0\n00:00:00.100000 fsync(3</x>) = 0\n");
    assert_eq!(entered(&events).len(), 2);
    assert_eq!(end.unwrap().duration_ns, 200_000_000);
}

#[test]
fn relative_times_are_added_up() {
    let text = "\
812        0.000000 pwrite64(7</w>, \"a\"..., 4096, 8192) = 4096 <0.000020>\n\
812        0.000250 fdatasync(7</w>) = 0 <0.000300>\n\
813        0.000050 lseek(0</dev/null>, 0, SEEK_CUR) = 0 <0.000001>\n\
812        1.500000 pwrite64(7</w>, \"a\"..., 512, 512) = 512 <0.000030>\n";
    let (events, end) = read(text);
    let begins: Vec<u64> = entered(&events).iter().map(|call| call.0).collect();
    assert_eq!(begins, [0, 250_000, 1_500_300_000]);
    assert_eq!(left(&events), [(20_000, 4096), (550_000, 0), (1_500_330_000, 512)]);
    assert_eq!(end.unwrap().duration_ns, 1_500_330_000);
    // Without its first line nobody knows where they count from.
    let (_, rest) = text.split_once('\n').unwrap();
    let error = read(rest).1.unwrap_err().to_string();
    assert!(error.contains("-r when the first line is missing"), "{error}");
    // A clock that is set back is none.
    let text = "1700000001.0 fsync(3</x>) = 0\n1700000000.9 fsync(3</x>) = 0\n";
    assert_eq!(entered(&read(text).0).len(), 2);
}

#[test]
fn relative_times_of_a_single_thread_are_padded_and_named_where_they_cannot_be_used() {
    let text = "     0.000000 pwrite64(5</w>, \"x\"..., 4096, 0) = 4096\n\
                \x20    0.000100 pwrite64(5</w>, \"x\"..., 512, 4096) = 512\n\
                \x20    1.000200 fsync(5</w>) = 0\n";
    let begins: Vec<u64> = entered(&read(text).0).iter().map(|call| call.0).collect();
    assert_eq!(begins, [0, 100_000, 1_000_300_000]);
    let why = |text: &str| read(text).1.unwrap_err().to_string();
    let (_, rest) = text.split_once('\n').unwrap();
    let without_path = text.replace("</w>", "");
    for (text, words) in [
        ("     0.000100 pwrite64(5, \"x\"..., 4096, 0) = 4096\n", "first line is missing"),
        (rest, "first line is missing"),
        (&without_path, "no file paths"),
    ] {
        let error = why(text);
        assert!(error.starts_with("its times are relative (strace -r)"), "{error}");
        assert!(error.contains(words), "{error}");
        assert!(error.ends_with("run strace with -f -ttt -T -y"), "{error}");
    }
    // Whoever indents a text says nothing of its times.
    let indented = "  1700000000.100000 fsync(3</x>) = 0\n  1700000000.300000 fsync(3</x>) = 0\n";
    assert_eq!(read(indented).1.unwrap().duration_ns, 200_000_000);
}

#[test]
fn the_time_of_the_day_and_the_relative_one_may_stand_together() {
    let (events, end) = read(
        "13:59:01 (+     0.000000) fsync(3</x>) = 0 <0.000400>\n\
         13:59:03 (+     2.000123) fsync(3</x>) = 0 <0.000500>\n",
    );
    let begin = ((13 * 60 + 59) * 60 + 1) * 1_000_000_000;
    assert_eq!(left(&events), [(begin + 400_000, 0), (begin + 2_000_500_000, 0)]);
    let not_shown = end.unwrap().not_shown.unwrap();
    assert!(not_shown.contains("whole seconds") && !not_shown.contains("-T"), "{not_shown}");
}

#[test]
fn what_a_text_does_not_show_is_said() {
    let not_shown = |text: &str| read(text).1.unwrap().not_shown;
    let full = "1.000000 fsync(3</x>) = 0 <0.000400>\n";
    assert_eq!(not_shown(full), None);
    let without_end = not_shown("1.000000 fsync(3</x>) = 0\n").unwrap();
    assert_eq!(without_end, "the durations of calls are missing (strace -T shows them)");
    // The lines of both halves say it.
    let halves = "1.0 fsync(3</x> <unfinished ...>\n1.2 <... fsync resumed>) = 0\n";
    assert_eq!(not_shown(halves), None);
    let coarse = not_shown("13:59:01 fsync(3</x>) = 0 <0.000400>\n").unwrap();
    assert!(coarse.starts_with("its times are whole seconds"), "{coarse}");
}

#[test]
fn what_other_options_add_is_passed_over() {
    // -Y, -i, -n and -yy.
    let text = "\
812<postgres> 1.0 [00007f2a5c0e1d5f] [  18] pwrite64(7</dev/sda<block 8:0>>, \"a\"..., 512, 1024) = 512 <0.000012>\n\
[pid   813<postgres>] 1.1 fsync(8</d/w>) = 0 <0.000013>\n";
    let (events, end) = read(text);
    let seen: Vec<_> = entered(&events).iter().map(|call| (call.1, call.2)).collect();
    assert_eq!(seen, [("pwrite64", Some(1024)), ("fsync", None)]);
    let paths: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            CaptureEvent::File(file) => Some(file.path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(paths, ["/dev/sda", "/d/w"]);
    assert_eq!(end.unwrap().processes, 2);
}

#[test]
fn a_time_of_the_day_goes_on_for_several_midnights() {
    let hours = |hour: u32| format!("{hour:02}:00:00.0 fsync(3</x>) = 0 <0.000001>\n");
    let text: String = [20, 2, 10, 20, 2].into_iter().map(hours).collect();
    let hour = 3600 * 1_000_000_000_u64;
    assert_eq!(read(&text).1.unwrap().duration_ns, 30 * hour + 1000);
}

#[test]
fn a_text_of_another_tracer_is_named() {
    for (text, words) in [
        ("% time     seconds  usecs/call     calls    errors syscall\n", "strace -c"),
        ("  0.123 ( 0.010 ms): dd/12 write(fd: 1</d/x>, count: 512) = 512\n", "perf trace"),
        ("254,0    0       64     0.0023000   114  D WS 16 + 8 [dd]\n", "--block-trace"),
        ("0.000771 sync 22177 nvme1n1 W 41963894 3072 0.11 0.47\n", "--block-trace"),
        ("COMM  PID  TYPE DEV BLOCK BYTES LATms\n", "iosnoop without times"),
    ] {
        let error = read(text).1.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_cannot_be_used_says_what_is_missing_and_a_cut_line_is_told() {
    let why = |text: &str| read(text).1.unwrap_err().to_string();
    assert!(
        why("812 pwrite64(7</x>, \"\"..., 1, 0) = 1\n").contains("no times: run strace with -ttt")
    );
    assert!(
        why("1.0 pwrite64(7, \"\"..., 1, 0) = 1\n").contains("no file paths: run strace with -y")
    );
    assert!(why("").contains("no call"));
    assert!(why("\u{0}\u{1}(= <\n1.5 (((\n").contains("line 1 contains NUL bytes"));
    let (_, end) = read("1.0 fsync(7</x>) = 0\n1.1 fsync(7</x>) = ");
    assert_eq!(end.unwrap().ended_early.as_deref(), Some("the trace ends in the middle of a line"));
}

#[test]
fn a_deleted_file_has_its_name_and_one_that_is_named_like_it_is_not_without_a_name() {
    let path_of = |path: &str| {
        let (events, _) = read(&format!("1.0 fsync(7<{path}>) = 0 <0.000010>\n"));
        let found = events.into_iter().find_map(|event| match event {
            CaptureEvent::File(file) => Some(file.path),
            _ => None,
        });
        found.unwrap()
    };
    assert_eq!(path_of("/d/w (deleted)"), "/d/w");
    assert_eq!(path_of("/d/w (deleted) (deleted)"), "/d/w (deleted)");
    assert_eq!(path_of("/d/ (deleted)"), "/d/ (deleted)");
    assert_eq!(path_of("/d/ (deleted) (deleted)"), "/d/ (deleted)");
}

#[test]
fn what_is_no_storage_is_left_out_and_what_is_named_like_it_is_not() {
    let calls = |path: &str| {
        let (events, _) = read(&format!("1.0 write(3<{path}>, \"x\", 1) = 1 <0.000010>\n"));
        entered(&events).len()
    };
    for path in [
        "/dev/null",
        "/dev/tty",
        "/dev/tty1",
        "/dev/pts/0",
        "/proc/self/oom_score_adj",
        "/sys/x",
        "pipe:[7]",
        "anon_inode:[eventfd]",
    ] {
        assert_eq!(calls(path), 0, "{path}");
    }
    for path in ["/dev/nullb0", "/dev/sda", "/procure/log", "/system", "/d/null"] {
        assert_eq!(calls(path), 1, "{path}");
    }
}

#[test]
fn a_write_says_where_it_goes_and_whether_its_flags_make_it_durable() {
    for (call, expected) in [
        ("pwrite64(3</w>, \"x\", 512, 4096) = 512", ("pwrite64", Some(4096), false)),
        (
            "pwritev(3</w>, [{iov_base=\"x, 7\", iov_len=512}], 1, 8192) = 512",
            ("pwritev", Some(8192), false),
        ),
        (
            "pwritev2(3</w>, [{iov_base=\"x\", iov_len=512}], 1, 1024, 0) = 512",
            ("pwritev2", Some(1024), false),
        ),
        (
            "pwritev2(3</w>, [{iov_base=\"x\", iov_len=512}], 1, 2048, RWF_HIPRI|RWF_SYNC) = 512",
            ("pwritev2", Some(2048), true),
        ),
        (
            "pwritev2(3</w>, [{iov_base=\"x\", iov_len=512}], 1, -1, RWF_DSYNC|RWF_NOWAIT) = 512",
            ("pwritev2", None, true),
        ),
        (
            "pwritev2(3</w>, [{iov_base=\"x\", iov_len=512}], 1, 512, RWF_HIPRI|RWF_APPEND) = 512",
            ("pwritev2", Some(512), false),
        ),
        ("write(3</w>, \"x\", 512) = 512", ("write", None, false)),
        ("writev(3</w>, [{iov_base=\"x\", iov_len=512}], 1) = 512", ("writev", None, false)),
    ] {
        let (events, _) = read(&format!("1.0 {call} <0.000010>\n"));
        let seen: Vec<_> =
            entered(&events).into_iter().map(|call| (call.1, call.2, call.3)).collect();
        assert_eq!(seen, [expected], "{call}");
    }
}

/// Flags and size of each file.
fn opened_as(text: &str) -> Vec<(u32, Option<u64>)> {
    let (events, _) = read(text);
    let seen = events.iter().filter_map(|event| match event {
        CaptureEvent::File(file) => Some((file.flags, file.size)),
        _ => None,
    });
    seen.collect()
}

#[test]
fn a_file_has_the_flags_of_its_opening_also_where_that_is_in_two_halves() {
    let write = "pwrite64(3</d/w>, \"x\", 1, 0) = 1 <0.000001>\n";
    for (flags, expected) in [
        ("O_RDWR|O_CREAT|O_DSYNC, 0644", (0o10_000, None)),
        ("O_WRONLY|O_APPEND", (0o2_000, Some(0))),
        ("O_RDWR|O_CREAT|O_EXCL|O_DSYNC, 0600", (0o10_000, Some(0))),
        ("O_RDWR|O_SYNC", (0o4_010_000, None)),
        ("O_RDWR", (0, None)),
    ] {
        let whole = format!(
            "812 1.0 openat(AT_FDCWD</d>, \"w\", {flags}) = 3</d/w> <0.000200>\n812 1.3 {write}"
        );
        assert_eq!(opened_as(&whole), [expected], "{flags}");
        let halves = format!(
            "812 1.0 openat(AT_FDCWD</d>, \"w\", {flags} <unfinished ...>\n\
             813 1.1 close(9</d/x>) = 0 <0.000001>\n\
             812 1.2 <... openat resumed>) = 3</d/w> <0.200000>\n812 1.3 {write}"
        );
        assert_eq!(opened_as(&halves), [expected], "{flags}");
    }
    // An opening that failed gives no file.
    let failed = format!(
        "812 1.0 openat(AT_FDCWD</d>, \"w\", O_RDWR|O_DSYNC) = -1 EACCES (Permission denied) <0.000200>\n\
         812 1.3 {write}"
    );
    assert_eq!(opened_as(&failed), [(0, None)]);
}

#[test]
fn a_position_starts_over_when_its_descriptor_is_closed_or_opened_anew() {
    let starts = |text: &str| {
        let (events, _) = read(text);
        events.iter().filter(|event| matches!(event, CaptureEvent::Opened { .. })).count()
    };
    let write = "1.0 write(3</w>, \"x\", 1) = 1 <0.000001>\n";
    let close = "1.0 close(3</w>) = 0 <0.000001>\n";
    let open = "1.0 openat(AT_FDCWD</>, \"w\", O_RDWR) = 3</w> <0.000001>\n";
    let other = "1.0 write(4</w>, \"x\", 1) = 1 <0.000001>\n";
    let renamed = "1.0 write(3</v>, \"x\", 1) = 1 <0.000001>\n";
    assert_eq!(starts(&format!("{write}{write}")), 1);
    assert_eq!(starts(&format!("{write}{close}{write}")), 2);
    assert_eq!(starts(&format!("{write}{open}{write}")), 2);
    assert_eq!(starts(&format!("{write}{other}{write}{other}")), 2);
    assert_eq!(starts(&format!("{write}{renamed}{write}")), 3);
}

#[test]
fn a_call_that_never_returned_is_none() {
    let (events, end) = read("1.0 fsync(3</w>) = ?\n1.1 fsync(3</w>) = 0 <0.000001>\n");
    assert_eq!(left(&events), [(1_100_001_000, 0)]);
    assert_eq!(end.unwrap().events, 1);
}
