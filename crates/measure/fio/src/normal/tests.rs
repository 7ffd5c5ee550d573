//! What fio printed is printed again from its JSON.

use super::*;
use crate::json::read;

/// Output of fio 3.33 with `--output-format=json,normal`: the document, then the text.
fn check(recorded: &str) {
    let (document, expected) = recorded.split_once("\n}\n").unwrap();
    let document = format!("{document}\n}}\n");
    let output = read(document.as_bytes()).unwrap().output;
    let facts = |block: &str| {
        let copies = block.split_once("jobs=").unwrap().1.split_once(')').unwrap().0;
        let process = block.split_once(": pid=").unwrap().1.split_once(':').unwrap().0;
        RowFacts { copies: copies.parse().unwrap(), process: process.parse().unwrap() }
    };
    let rows: Vec<_> = expected.lines().filter(|it| it.contains("groupid=")).map(facts).collect();
    let written = write(&output, &rows);
    for (written, expected) in written.lines().zip(expected.lines()) {
        assert_eq!(written, expected);
    }
    assert_eq!(written, expected);
}

#[test]
fn reads_in_a_group_are_as_fio_prints_them() {
    check(include_str!("../../tests/recorded/normal_group.txt"));
}

#[test]
fn writes_with_syncs_are_as_fio_prints_them() {
    check(include_str!("../../tests/recorded/normal_sync.txt"));
}

#[test]
fn a_mix_with_percentiles_of_its_own_is_as_fio_prints_it() {
    check(include_str!("../../tests/recorded/normal_mixed.txt"));
}

#[test]
fn the_lines_before_a_run_are_fio_s() {
    let head_of = |copies| JobHead {
        name: "rr".to_owned(),
        group: 0,
        pattern: "randread".to_owned(),
        block_bytes: (4096, 65536),
        engine: "libaio".to_owned(),
        depth: 4,
        copies,
    };
    let expected = "rr: (g=0): rw=randread, bs=(R) 4096B-64.0KiB, (W) 4096B-64.0KiB, \
                    (T) 4096B-64.0KiB, ioengine=libaio, iodepth=4\n...\nfio-3.33\n\
                    Starting 2 processes\n";
    assert_eq!(head("fio-3.33", &[head_of(2)]), expected);
}

#[test]
fn numbers_are_as_short_as_fio_makes_them() {
    let rate = |number| short(number, 4, Prefixes::Decimal, "");
    assert_eq!([0, 1022, 9999, 10_000].map(rate), ["0", "1022", "9999", "10.0k"]);
    assert_eq!([23_272, 127_150, 222_256].map(rate), ["23.3k", "127k", "222k"]);
    // The rest rounds up to one.
    assert_eq!([99_999, 999_999].map(rate), ["100.0k", "1000k"]);
    let binary = |number| short(number, 4, Prefixes::Binary, "B/s");
    assert_eq!([4_190_113, 95_325_090].map(binary), ["4092KiB/s", "90.9MiB/s"]);
    let decimal = |number| short(number, 4, Prefixes::Decimal, "B/s");
    assert_eq!([4_190_113, 95_325_090].map(decimal), ["4190kB/s", "95.3MB/s"]);
    assert_eq!(short(u64::MAX, 4, Prefixes::Binary, "B"), "16.0EiB");
}
