//! The stamp as docs/formats/stamp.md has it: its example, byte by byte, and its table.

use std::fs;

use durio_prove::stamp::{MAGIC, StampOwner, VERSION, place};
use durio_prove::writer::seal_write;

fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/stamp.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_the_book_is_what_is_written() {
    let owner = StampOwner { run: std::array::from_fn(|at| u8::try_from(at).unwrap()), target: 1 };
    let mut bytes = [0; 4096];
    seal_write(owner, 258, 4096, &mut bytes);
    let text = text();
    let (_, example) = text.split_once("## An example").unwrap();
    let example = example.split("```").nth(1).unwrap();
    let lines = example.lines().filter_map(|line| line.trim().split_once("  "));
    let mut shown = 0;
    for (at, row) in lines {
        let at: usize = at.parse().unwrap();
        for (place, byte) in (at..).zip(row.split(' ')) {
            assert_eq!(format!("{:02x}", bytes[place]), byte, "byte {place}");
            shown += 1;
        }
    }
    assert_eq!(shown, 5 * 16 + 16 + 8, "{example}");
}

#[test]
fn every_field_is_described_at_its_place() {
    let text = text();
    for (name, place) in [
        ("MAGIC", place::MAGIC),
        ("VERSION", place::VERSION),
        ("SECTOR_BYTES", place::SECTOR_BYTES),
        ("INDEX", place::INDEX),
        ("COUNT", place::COUNT),
        ("RUN", place::RUN),
        ("TARGET", place::TARGET),
        ("SECTOR", place::SECTOR),
        ("SEQ", place::SEQ),
        ("FILL", place::FILL),
        ("CHECKSUM", place::CHECKSUM),
    ] {
        let row = format!("| {}–{} | `{name}` |", place.start, place.end - 1);
        assert!(text.contains(&row), "{row}");
    }
    assert!(text.contains(&format!("version: {VERSION}\n")));
    assert!(text.contains(std::str::from_utf8(&MAGIC).unwrap()));
}
