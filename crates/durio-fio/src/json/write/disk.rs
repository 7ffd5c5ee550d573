//! An entry of `disk_util`.
//!
//! In: [`DiskUtil`]. Out: its keys in fio's order. Not here: where the figures come from.

use super::printer::Printer;
use crate::json::output::{DiskUtil, MembersUtil};

pub(super) fn write(printer: &mut Printer, disk: &DiskUtil) {
    printer.text("name", &disk.name);
    printer.count("read_ios", disk.read_ios);
    printer.count("write_ios", disk.write_ios);
    printer.maybe_count("read_sectors", disk.sectors.map(|(read, _)| read));
    printer.maybe_count("write_sectors", disk.sectors.map(|(_, write)| write));
    printer.count("read_merges", disk.read_merges);
    printer.count("write_merges", disk.write_merges);
    printer.count("read_ticks", disk.read_ticks);
    printer.count("write_ticks", disk.write_ticks);
    printer.count("in_queue", disk.in_queue);
    printer.figure("util", disk.util);
    if let Some(members) = &disk.members {
        write_members(printer, members);
    }
    printer.maybe_text("hostname", disk.hostname.as_deref());
    printer.maybe_count("port", disk.port);
}

fn write_members(printer: &mut Printer, members: &MembersUtil) {
    printer.count("aggr_read_ios", members.read_ios);
    printer.count("aggr_write_ios", members.write_ios);
    printer.maybe_count("aggr_read_sectors", members.sectors.map(|(read, _)| read));
    printer.maybe_count("aggr_write_sectors", members.sectors.map(|(_, write)| write));
    printer.count("aggr_read_merges", members.read_merges);
    printer.count("aggr_write_merge", members.write_merges);
    printer.count("aggr_read_ticks", members.read_ticks);
    printer.count("aggr_write_ticks", members.write_ticks);
    printer.count("aggr_in_queue", members.in_queue);
    printer.figure("aggr_util", members.util);
}
