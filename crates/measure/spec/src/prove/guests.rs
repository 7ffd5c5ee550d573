//! Series in guests of the lab, and their expected results.
//!
//! Makes series from a table `[[guest]]` and an arm.
//!
//! Expected results follow from the requests that reach a disk for a durable write; kernel and QEMU
//! decide that (seen with Linux 6.1 and 6.12 and QEMU 7.2):
//!
//! | write cache | device | a sync after the write | the write itself (`O_DSYNC`, `RWF_DSYNC`) |
//! |---|---|---|---|
//! | off | virtio-blk, SCSI | FUA | FUA |
//! | off | NVMe | FUA and flush: QEMU declares a cache all the same | FUA; a blocking write to a raw device: FUA and flush |
//! | on | virtio-blk | flush | flush: it has no FUA, and the kernel flushes after the write |
//! | on | SCSI | flush | flush: QEMU makes one of FUA |
//! | on | NVMe | flush | nothing: QEMU drops FUA. The kernel follows a blocking write to a raw device by a flush |
//!
//! ext4 and XFS pass that on for a file that was written before (`ext4_sync_file`,
//! `iomap_dio_bio_iter`). md is a raw device, which passes flush and FUA on to each member
//! (`md_flush_request`, and for RAID5 `R5_WantFUA`). durio's array, by ublk, has no volatile cache,
//! and makes every write to a member durable by itself. Btrfs makes every durable write one way:
//! data and log tree, a flush, and last, with FUA, the superblock that points to the log
//! (`btrfs_sync_log`, `write_dev_supers`). So where FUA is dropped no superblock leads to the last
//! acknowledged write until the next one's flush.
//!
//! A file that grows or is replaced changes the filesystem's metadata, so that ext4 and XFS commit
//! too: data and journal, a flush, and last, with FUA, the block that makes the commit count
//! (`jbd2_journal_commit_transaction`, `xlog_write_iclog`). As under Btrfs, the last commit is lost
//! where FUA is dropped, also by `fdatasync`. An unsynced rename stays in memory until the next
//! commit.

use durio_base::{Bytes, RaidLevel};
use durio_plan::EngineKind;
use durio_plan::proof::{
    Arm, CommandTarget, ExpectedVerdict, FileWrites, GuestArray, GuestArrayKind, GuestFilesystem,
    GuestFrontEnd, GuestLayers, GuestTarget, LossClass, ProofSeries, ProofTarget,
};
use durio_simdisk::{CacheKind, Lie, NamedProfile, named};

use super::{CELL, CUTS_MAX, GuestTable, SIZE_MAX, class_of, levels, profiles, series_of, written};
use crate::SpecError;
use crate::table::value::Amount;
use crate::table::{OptionalValue, SpecText};

/// Bytes of a disk that are written to, at most.
pub(super) const USED_MAX: Bytes = Bytes::from_mib(4);
/// Cuts after which 99 campaigns of 100 have found a cache that is never flushed.
const WITHIN: u32 = 2;
/// The same if only a superblock of Btrfs waits in the cache: a cut takes it away in a good half of
/// the cases (1 - 0.5^7 = 0.992).
const WITHIN_OF_SUPERBLOCK: u32 = 7;
/// The same if half of the acknowledgements wait for such a commit, or for half of the time: the
/// next writes flush it (1 - 0.75^17 = 0.992).
const WITHIN_OF_COMMIT: u32 = 17;

/// Every combination of a table's values.
pub(super) fn series(
    source: SpecText<'_>,
    table: &GuestTable,
    arm: Arm,
    cuts: u32,
) -> Result<Vec<ProofSeries>, SpecError> {
    let kernel = table.kernel.get();
    let states = states(source, table)?;
    let engines = levels(&table.engine, EngineKind::Uring);
    if engines.iter().any(|&engine| !is_engine(engine, arm.depth)) {
        let message = "'engine' must be sync, uring or aio; sync keeps only one write in flight";
        return Err(source.error(table.engine.at, message));
    }
    let mut all = Vec::new();
    for named in profiles(source, &table.profile)? {
        for front_end in levels(&table.front_end, GuestFrontEnd::VirtioBlk) {
            for write_cache in levels(&table.write_cache, true) {
                for layers in levels(&table.layers, GuestLayers::RAW) {
                    let size = size(source, &table.size, layers)?;
                    let liar = table.liar.get();
                    if liar.is_some_and(|liar| !is_liar(liar, layers)) {
                        let message = "'liar' must be one of the disks of an array, counted from 0";
                        return Err(source.error(table.liar.at, message));
                    }
                    all.extend(engines.iter().map(|&engine| {
                        let (profile, kernel) = (named.name.to_owned(), kernel.clone());
                        let target = GuestTarget {
                            profile,
                            liar,
                            size,
                            front_end,
                            write_cache,
                            layers,
                            engine,
                            kernel,
                            enumerated: states.is_some(),
                        };
                        one(named, target, arm, states.unwrap_or(cuts))
                    }));
                }
            }
        }
    }
    Ok(all)
}

/// How many crash states are read; none where the power is cut.
fn states(source: SpecText<'_>, table: &GuestTable) -> Result<Option<u32>, SpecError> {
    let Some(states) = table.states.get() else { return Ok(None) };
    let wrong = |what: String| Err(source.error(table.states.at, format!("'states' takes {what}")));
    if !(1..=CUTS_MAX).contains(&states) {
        return wrong(format!("1 to {CUTS_MAX}"));
    }
    if !profiles(source, &table.profile)?.into_iter().all(is_enumerable) {
        return wrong("an honest disk: write-back or write-through".to_owned());
    }
    if levels(&table.layers, GuestLayers::RAW).into_iter().any(|layers| layers.disks() > 1) {
        return wrong("layers of one disk".to_owned());
    }
    Ok(Some(states))
}

/// The states are those of a disk that keeps its word, and loses its cache.
fn is_enumerable(named: &NamedProfile) -> bool {
    named.lie.is_none() && named.cache != CacheKind::Protected
}

/// Whether a series of a folder could have been asked for.
pub(super) fn is_possible(guest: &GuestTarget) -> bool {
    let is_profile = |profile: &NamedProfile| !guest.enumerated || is_enumerable(profile);
    named(&guest.profile).is_some_and(is_profile)
        && !(guest.enumerated && guest.layers.disks() > 1)
        && is_size(guest.size, guest.layers)
        && is_engine(guest.engine, 1)
        && guest.liar.is_none_or(|liar| is_liar(liar, guest.layers))
}

fn is_liar(disk: u32, layers: GuestLayers) -> bool {
    layers.disks() > 1 && disk < layers.disks()
}

/// The same of a user's command.
pub(super) fn runs_a_command(it: &CommandTarget) -> bool {
    let has_disk = named(&it.profile).is_some() && is_size(it.size, it.layers);
    // No other is made for a command.
    has_disk && it.layers == GuestLayers::EXT4 && !it.command.is_empty()
}

fn is_engine(engine: EngineKind, depth: u32) -> bool {
    match engine {
        EngineKind::Sync => depth == 1,
        EngineKind::Uring | EngineKind::Aio => true,
        _ => false,
    }
}

/// Bytes of a disk at least.
const fn size_min(layers: GuestLayers) -> Bytes {
    Bytes::from_mib(match (layers.array, layers.filesystem) {
        // As much as ext4 needs for its journal and as much again.
        (_, None) | (None, Some(GuestFilesystem::Ext4)) => 16,
        // The data of a member begins at 1 MiB.
        (Some(_), Some(GuestFilesystem::Ext4)) => 32,
        // mkfs.btrfs wants 45 MiB at least, and each write goes to a new place.
        (_, Some(GuestFilesystem::Btrfs)) => 128,
        // mkfs.xfs makes none below 300 MiB.
        (_, Some(GuestFilesystem::Xfs)) => 320,
    })
}

/// Layers whose results with each lie were compared with real cuts (docs/method/proof.md).
fn is_measured(layers: GuestLayers) -> bool {
    match layers.array {
        None => true,
        Some(GuestArray { kind: GuestArrayKind::Md, level }) => {
            matches!(level, RaidLevel::Raid1 | RaidLevel::Raid5) && layers.is_device()
        }
        Some(GuestArray { kind: GuestArrayKind::Durio, level }) => {
            level == RaidLevel::Raid1 && layers.filesystem != Some(GuestFilesystem::Btrfs)
        }
    }
}

fn is_size(size: Bytes, layers: GuestLayers) -> bool {
    size.get().is_multiple_of(CELL) && (size_min(layers)..=SIZE_MAX).contains(&size)
}

fn size(
    source: SpecText<'_>,
    given: &OptionalValue<Amount>,
    layers: GuestLayers,
) -> Result<Bytes, SpecError> {
    let least = size_min(layers);
    match given.get() {
        None => Ok(least),
        Some(Amount::Bytes(size)) if is_size(size, layers) => Ok(size),
        Some(_) => {
            let message =
                format!("a guest's disk must be {least} to 4 GiB and a multiple of 4 KiB");
            let under = format!("{layers} takes at least {least}");
            Err(source.error(given.at, message).hint(under))
        }
    }
}

fn one(named: &NamedProfile, target: GuestTarget, arm: Arm, cuts: u32) -> ProofSeries {
    let cache = if target.write_cache { "" } else { "/no-cache" };
    let engine = match target.engine {
        EngineKind::Uring => String::new(),
        other => format!("/{other}"),
    };
    let (front_end, layers, path) = (target.front_end.word(), target.layers, arm.words());
    let liar = target.liar.map_or_else(String::new, |liar| format!("@{liar}"));
    let device = format!("{}{liar}/{front_end}{cache}", named.name);
    let name = format!("{device}/{layers}/{path}/{}{}{engine}", arm.depth, written(arm));
    let states = if target.enumerated { "/states" } else { "" };
    let name = format!("{name}{states}");
    let expected = match expected(named, &target, arm) {
        // Every moment is tried, also those before the first acknowledgement.
        Some(ExpectedVerdict::Breaks { class, .. }) if target.enumerated => {
            Some(ExpectedVerdict::Breaks { class, within: cuts })
        }
        Some(ExpectedVerdict::Loses { .. }) if target.enumerated => {
            Some(ExpectedVerdict::Loses { within: cuts })
        }
        expected => expected,
    };
    series_of(name, ProofTarget::Guest(target), arm, cuts, expected)
}

/// The request for a durable write that reaches a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaching {
    Flush,
    Fua,
    /// Either would do.
    Both,
    Nothing,
    /// A flush, and then FUA of the block that makes a commit count: Btrfs's superblock, the commit
    /// block of a journal.
    CommitByFua,
    /// A flush, and nothing for that.
    CommitByNothing,
}

fn reaching(target: &GuestTarget, arm: Arm) -> Reaching {
    if target.layers.durio_level().is_some() {
        // Every write to a member, whatever its reason, is durable by its own flag, from io_uring.
        return match (target.front_end, target.write_cache) {
            (GuestFrontEnd::Nvme, true) => Reaching::Nothing,
            (_, true) => Reaching::Flush,
            (_, false) => Reaching::Fua,
        };
    }
    let is_blocking_on_raw = target.layers.is_device() && target.engine == EngineKind::Sync;
    let is_flushed = arm.path.syncs() || is_blocking_on_raw;
    // ext4 and XFS do where more than data changes.
    let is_btrfs = target.layers.filesystem == Some(GuestFilesystem::Btrfs);
    let commits = is_btrfs || !arm.writes.is_overwrite();
    match (target.front_end, target.write_cache) {
        (GuestFrontEnd::Nvme, true) if commits => Reaching::CommitByNothing,
        (GuestFrontEnd::Nvme, false) if commits => Reaching::CommitByFua,
        (GuestFrontEnd::Nvme, true) if !is_flushed => Reaching::Nothing,
        (_, true) => Reaching::Flush,
        (GuestFrontEnd::Nvme, false) if is_flushed => Reaching::Both,
        (_, false) => Reaching::Fua,
    }
}

fn expected(named: &NamedProfile, target: &GuestTarget, arm: Arm) -> Option<ExpectedVerdict> {
    if target.liar.is_some() {
        return expected_of_one(named, target, arm);
    }
    let is_simple = match target.layers {
        layers if layers == GuestLayers::RAW => true,
        layers if layers == GuestLayers::EXT4 => arm.writes.is_overwrite(),
        _ => false,
    };
    // Unmeasured: the effect of other lies on the layers' metadata.
    let loses_all = matches!(named.lie, Some(Lie::FlushIgnored | Lie::FuaIgnored));
    if named.lie.is_some() && !is_measured(target.layers) {
        return None;
    }
    if !is_simple && named.lie.is_some() && !loses_all {
        return None;
    }
    // Also ext4 could not be mounted again when its own blocks were lost.
    let is_simple = is_simple && (target.layers.is_device() || !loses_all);
    if arm.writes == FileWrites::Rename {
        let lost = ExpectedVerdict::Breaks { class: LossClass::Lost, within: WITHIN };
        // The name is in the guest's memory, whatever the disk does.
        return Some(if named.lie.is_none() {
            lost
        } else {
            ExpectedVerdict::Loses { within: WITHIN }
        });
    }
    let shows = match reaching(target, arm) {
        Reaching::Nothing => return of_unflushed(named, is_simple),
        Reaching::CommitByFua if named.on_fua => return Some(commit_lost(arm)),
        Reaching::CommitByNothing if !named.on_flush => {
            let is_volatile = named.cache == CacheKind::WriteBack;
            return Some(if is_volatile { commit_lost(arm) } else { ExpectedVerdict::Holds });
        }
        Reaching::Flush | Reaching::CommitByNothing => named.on_flush,
        Reaching::Fua => named.on_fua,
        Reaching::Both => named.on_flush && named.on_fua,
        // All that the flush is for has FUA.
        Reaching::CommitByFua => false,
    };
    // QEMU has one connection, whose writes each flush covers.
    let shows = shows && named.lie != Some(Lie::FlushOneConnection);
    match named.symptom() {
        Some(symptom) if shows && arm.depth >= named.depth => {
            Some(breaks(class_of(symptom), named.cuts, is_simple))
        }
        _ => Some(ExpectedVerdict::Holds),
    }
}

/// The result with one disk that lies. Unmeasured for arrays other than durio's.
fn expected_of_one(
    named: &NamedProfile,
    target: &GuestTarget,
    arm: Arm,
) -> Option<ExpectedVerdict> {
    let all_lie = expected(named, &GuestTarget { liar: None, ..target.clone() }, arm)?;
    match all_lie {
        ExpectedVerdict::Holds => Some(ExpectedVerdict::Holds),
        // durio's mirror overwrites the second disk from the first, unless the first one's
        // superblocks give it away.
        ExpectedVerdict::Loses { .. }
            if target.liar == Some(0) && target.layers.durio_level().is_some() =>
        {
            Some(ExpectedVerdict::MayLose)
        }
        _ => None,
    }
}

/// Nothing is older than the commit before.
const fn commit_lost(arm: Arm) -> ExpectedVerdict {
    let within = match arm.writes {
        FileWrites::Overwrite => WITHIN_OF_SUPERBLOCK,
        _ => WITHIN_OF_COMMIT,
    };
    ExpectedVerdict::Breaks { class: LossClass::Lost, within }
}

/// Over more than one disk, or if filesystem metadata may be lost, the way it shows is chance.
fn breaks(class: LossClass, within: u32, is_simple: bool) -> ExpectedVerdict {
    if is_simple {
        ExpectedVerdict::Breaks { class, within }
    } else {
        ExpectedVerdict::Loses { within }
    }
}

/// Nothing is ever made durable; what a lie adds to that is unmeasured.
fn of_unflushed(named: &NamedProfile, is_simple: bool) -> Option<ExpectedVerdict> {
    match (named.cache, named.lie) {
        (CacheKind::WriteBack, None | Some(Lie::FlushIgnored | Lie::FuaIgnored)) => {
            Some(breaks(LossClass::Lost, WITHIN, is_simple))
        }
        (CacheKind::WriteThrough | CacheKind::Protected, None) => Some(ExpectedVerdict::Holds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use durio_plan::proof::DurablePath;

    use super::*;

    fn of(
        profile: &str,
        front_end: GuestFrontEnd,
        write_cache: bool,
        path: DurablePath,
    ) -> ExpectedVerdict {
        let (layers, engine) = (GuestLayers::EXT4, EngineKind::Uring);
        expected_of(profile, front_end, write_cache, path, (layers, engine))
    }

    fn expected_of(
        profile: &str,
        front_end: GuestFrontEnd,
        write_cache: bool,
        path: DurablePath,
        below: (GuestLayers, EngineKind),
    ) -> ExpectedVerdict {
        expected_by(profile, front_end, write_cache, Arm::new(path, 1), below)
    }

    fn expected_by(
        profile: &str,
        front_end: GuestFrontEnd,
        write_cache: bool,
        arm: Arm,
        (layers, engine): (GuestLayers, EngineKind),
    ) -> ExpectedVerdict {
        let (profile, kernel) = (profile.to_owned(), None);
        let named = named(&profile).unwrap();
        let size = size_min(layers);
        let enumerated = false;
        let target = GuestTarget {
            profile,
            liar: None,
            size,
            front_end,
            write_cache,
            layers,
            engine,
            kernel,
            enumerated,
        };
        expected(named, &target, arm).unwrap()
    }

    const LOST: ExpectedVerdict = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 2 };
    const LOSES: ExpectedVerdict = ExpectedVerdict::Loses { within: 2 };

    #[test]
    fn only_nvme_with_a_write_cache_loses_what_is_durable_by_fua() {
        use DurablePath::{Fdatasync, ODsync, RwfDsync};
        for path in [ODsync, RwfDsync] {
            assert_eq!(of("write-back", GuestFrontEnd::Nvme, true, path), LOST);
            assert_eq!(of("write-back", GuestFrontEnd::Nvme, false, path), ExpectedVerdict::Holds);
            assert_eq!(of("write-back", GuestFrontEnd::Scsi, true, path), ExpectedVerdict::Holds);
            assert_eq!(
                of("write-back", GuestFrontEnd::VirtioBlk, true, path),
                ExpectedVerdict::Holds
            );
            assert_eq!(
                of("write-through", GuestFrontEnd::Nvme, true, path),
                ExpectedVerdict::Holds
            );
            let blocking = (GuestLayers::RAW, EngineKind::Sync);
            let held = expected_of("write-back", GuestFrontEnd::Nvme, true, path, blocking);
            assert_eq!(held, ExpectedVerdict::Holds, "the kernel flushes after it");
        }
        assert_eq!(of("write-back", GuestFrontEnd::Nvme, true, Fdatasync), ExpectedVerdict::Holds);
    }

    #[test]
    fn on_nvme_btrfs_loses_its_last_write_on_every_path_unless_fua_reaches_the_disk() {
        let (layers, engine) = (GuestLayers::BTRFS, EngineKind::Uring);
        let of = |profile, front_end, write_cache, path| {
            expected_of(profile, front_end, write_cache, path, (layers, engine))
        };
        let superblock_lost =
            ExpectedVerdict::Breaks { class: LossClass::Lost, within: WITHIN_OF_SUPERBLOCK };
        for path in DurablePath::ALL {
            for profile in ["write-back", "fua-ignored"] {
                assert_eq!(of(profile, GuestFrontEnd::Nvme, true, path), superblock_lost);
            }
            assert_eq!(of("fua-ignored", GuestFrontEnd::Nvme, false, path), superblock_lost);
            assert_eq!(of("write-back", GuestFrontEnd::Nvme, false, path), ExpectedVerdict::Holds);
            assert_eq!(
                of("flush-ignored", GuestFrontEnd::Nvme, false, path),
                ExpectedVerdict::Holds
            );
            assert_eq!(of("protected", GuestFrontEnd::Nvme, true, path), ExpectedVerdict::Holds);
            for front_end in [GuestFrontEnd::VirtioBlk, GuestFrontEnd::Scsi] {
                assert_eq!(of("write-back", front_end, true, path), ExpectedVerdict::Holds);
                assert_eq!(of("flush-ignored", front_end, true, path), LOSES);
                assert_eq!(of("fua-ignored", front_end, false, path), LOSES);
            }
        }
    }

    #[test]
    fn what_makes_a_filesystem_commit_loses_the_last_commit_where_fua_is_dropped() {
        let of = |profile, front_end, write_cache, arm: Arm| {
            let layers = (GuestLayers::EXT4, EngineKind::Uring);
            expected_by(profile, front_end, write_cache, arm, layers)
        };
        let lost = ExpectedVerdict::Breaks { class: LossClass::Lost, within: WITHIN_OF_COMMIT };
        for writes in [FileWrites::Append, FileWrites::Replace] {
            for path in DurablePath::ALL {
                let arm = Arm { writes, ..Arm::new(path, 1) };
                assert_eq!(
                    of("write-back", GuestFrontEnd::VirtioBlk, true, arm),
                    ExpectedVerdict::Holds
                );
                assert_eq!(of("flush-ignored", GuestFrontEnd::VirtioBlk, true, arm), LOSES);
                assert_eq!(of("write-back", GuestFrontEnd::Nvme, true, arm), lost);
                assert_eq!(
                    of("write-back", GuestFrontEnd::Nvme, false, arm),
                    ExpectedVerdict::Holds
                );
                assert_eq!(of("protected", GuestFrontEnd::Nvme, true, arm), ExpectedVerdict::Holds);
            }
        }
        let arm = Arm { writes: FileWrites::Rename, ..Arm::new(DurablePath::Fsync, 1) };
        assert_eq!(of("write-back", GuestFrontEnd::VirtioBlk, true, arm), LOST);
        assert_eq!(
            of("protected", GuestFrontEnd::Scsi, true, arm),
            LOST,
            "it is in no disk's cache"
        );
    }

    #[test]
    fn an_array_loses_what_its_members_lose_in_whichever_way() {
        for layers in [GuestLayers::md(RaidLevel::Raid1), GuestLayers::md(RaidLevel::Raid5)] {
            let of = |profile, write_cache, path, engine| {
                expected_of(profile, GuestFrontEnd::Nvme, write_cache, path, (layers, engine))
            };
            let (path, uring) = (DurablePath::ODsync, EngineKind::Uring);
            assert_eq!(of("write-back", true, path, uring), LOSES);
            assert_eq!(of("write-back", true, path, EngineKind::Sync), ExpectedVerdict::Holds);
            assert_eq!(
                of("write-back", true, DurablePath::Fdatasync, uring),
                ExpectedVerdict::Holds
            );
            assert_eq!(of("fua-ignored", false, path, uring), LOSES);
            assert_eq!(
                of("fua-ignored", false, DurablePath::Fdatasync, uring),
                ExpectedVerdict::Holds
            );
        }
    }

    #[test]
    fn durios_own_mirror_loses_what_its_members_lose_and_the_first_copy_is_the_one_that_shows() {
        let durio = GuestLayers::durio(RaidLevel::Raid1);
        for layers in [durio, durio.with(GuestFilesystem::Ext4), durio.with(GuestFilesystem::Xfs)] {
            let path = DurablePath::Fdatasync;
            let below = (layers, EngineKind::Uring);
            let of = |profile, front_end, write_cache| {
                expected_of(profile, front_end, write_cache, path, below)
            };
            assert_eq!(of("write-back", GuestFrontEnd::VirtioBlk, true), ExpectedVerdict::Holds);
            assert_eq!(of("flush-ignored", GuestFrontEnd::VirtioBlk, true), LOSES);
            assert_eq!(of("write-back", GuestFrontEnd::Nvme, true), LOSES, "QEMU drops FUA");
            assert_eq!(of("write-back", GuestFrontEnd::Nvme, false), ExpectedVerdict::Holds);
            assert_eq!(of("fua-ignored", GuestFrontEnd::Scsi, false), LOSES);
            let one = |liar| {
                let target = GuestTarget {
                    profile: "flush-ignored".to_owned(),
                    liar: Some(liar),
                    size: size_min(layers),
                    front_end: GuestFrontEnd::VirtioBlk,
                    write_cache: true,
                    layers,
                    engine: EngineKind::Uring,
                    kernel: None,
                    enumerated: false,
                };
                assert!(is_possible(&target));
                expected(named("flush-ignored").unwrap(), &target, Arm::new(path, 1))
            };
            assert_eq!(one(0), Some(ExpectedVerdict::MayLose), "its superblocks may give it away");
            assert_eq!(one(1), None, "what the first copy repairs is hidden");
        }
    }

    #[test]
    fn a_lie_about_fua_shows_without_the_guests_write_cache_and_one_about_flushes_with_it() {
        let path = DurablePath::Fdatasync;
        for front_end in [GuestFrontEnd::VirtioBlk, GuestFrontEnd::Nvme, GuestFrontEnd::Scsi] {
            let is_flushed = front_end == GuestFrontEnd::Nvme;
            let shown = if is_flushed { ExpectedVerdict::Holds } else { LOSES };
            assert_eq!(of("fua-ignored", front_end, false, path), shown);
            assert_eq!(of("fua-ignored", front_end, false, DurablePath::ODsync), LOSES);
            assert_eq!(of("fua-ignored", front_end, true, path), ExpectedVerdict::Holds);
            assert_eq!(of("flush-ignored", front_end, true, path), LOSES);
            let raw = (GuestLayers::RAW, EngineKind::Uring);
            assert_eq!(expected_of("flush-ignored", front_end, true, path, raw), LOST);
            assert_eq!(of("flush-ignored", front_end, false, path), ExpectedVerdict::Holds);
        }
    }
}
