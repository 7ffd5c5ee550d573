//! Options of fio's built-in profiles, which fio takes in any job and then ignores.

use super::{Class, Kind, OptionRow};

const ACT: &str = "fio takes it only for its profile act, and ignores it otherwise";
const TIOBENCH: &str = "fio takes it only for its profile tiobench, and ignores it otherwise";

const fn row(name: &'static str, kind: Kind, reason: &'static str) -> OptionRow {
    OptionRow { name, alias: None, kind, class: Class::WithoutEffect { reason }, engines: &[] }
}

/// Options of the profiles that no job has.
pub(super) const ROWS: &[OptionRow] = &[
    row("device-names", Kind::Text, ACT),
    row("load", Kind::Integer, ACT),
    row("test-duration", Kind::Seconds, ACT),
    row("threads-per-queue", Kind::Integer, ACT),
    row("read-req-num-512-blocks", Kind::Integer, ACT),
    row("large-block-op-kbytes", Kind::Integer, ACT),
    row("prep", Kind::Flag, ACT),
    row("block", Kind::Size, TIOBENCH),
    row("numruns", Kind::Integer, TIOBENCH),
    row("dir", Kind::Text, TIOBENCH),
    row("threads", Kind::Integer, TIOBENCH),
];
