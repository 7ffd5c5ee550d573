//! Warnings about what lies under the target, and whether its flushes can be believed.
//!
//! Words as in docs: a fact is read from the kernel, suspect is implausible, unsafe configuration is
//! documented to drop syncs. Nothing here says "safe": only a power cut could.

use durio_plan::{Plan, TargetKind};
use durio_record::OperationName;
use durio_stack::{BlockFacts, Layer, Stack, WriteCache};
use durio_units::{Bytes, Nanos};
use durio_workload::SyncMethod;

use super::{Basis, per_workload, warning};
use crate::{OperationFindings, WarningFinding, WorkloadFindings};

/// A flush to flash without power-loss protection programs at least one page: planar NAND took 200
/// to 1350 µs, current 3D NAND takes some 400 to 700 (research: durability-proof 4.6; HP white
/// paper). Below this, either the cache is protected or the flush was not done.
const FLASH_FLUSH_MIN: Nanos = Nanos::from_micros(150);

/// A disk that turns 7200 times a minute needs 8.3 ms to come to the same sector again; even a
/// shorter way to another one is not under a millisecond.
const DISK_FLUSH_MIN: Nanos = Nanos::from_millis(1);

/// Syncs of a workload below which their flushes are not counted against it.
const SYNCS_MIN: u64 = 20;

/// A share of flushes per sync that can be other writers' or merged ones.
const FLUSHES_PER_SYNC_MIN: f64 = 0.5;

/// Mount options that are documented to drop flushes.
const DROPS_FLUSHES: [&str; 5] =
    ["nobarrier", "barrier=0", "volatile", "fsync_mode=nobarrier", "fsync=volatile"];

/// The layers under the workload's location.
pub(super) fn stack_of<'a>(basis: &'a Basis<'_>, workload: &WorkloadFindings) -> Option<&'a Stack> {
    let locations = basis.plan.locations();
    let index = locations.iter().position(|path| path.to_string() == workload.location)?;
    basis.environment.stacks.get(index)
}

/// The block devices at the bottom.
fn leaves(stack: &Stack) -> impl Iterator<Item = (&Layer, &BlockFacts)> {
    stack
        .walk()
        .filter(|(_, layer)| layer.below.is_empty())
        .filter_map(|(_, layer)| Some((layer, layer.block.as_ref()?)))
}

/// True if the filesystem of the location keeps its files in memory.
pub(super) fn is_memory(stack: &Stack) -> bool {
    stack.filesystem().is_some_and(|filesystem| filesystem.memory_backed)
}

pub(super) fn memory_backed(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let memory = basis.environment.stacks.iter().filter(|stack| is_memory(stack));
    let about: Vec<String> = memory.map(|stack| stack.target.clone()).collect();
    if about.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "memory",
        about.clone(),
        format!("{} lies in memory", about.join(", ")),
        "memory is not storage: nothing survives a power cut, and no figure here is a device's",
        "name a directory on the storage that the database will use",
    )]
}

/// The operation that waits for durability, and whether it is the write itself. A linked sync has
/// no latency of its own: there is one for each commit, which takes longer.
fn synced(workload: &WorkloadFindings) -> Option<(&OperationFindings, bool)> {
    let method = workload.definition.sync.method;
    let calls = workload.operation(OperationName::Sync);
    let waits = match method {
        SyncMethod::None => None,
        _ => calls.or_else(|| workload.operation(OperationName::Commit)),
    };
    Some((waits?, !method.is_sync_call()))
}

pub(super) fn flush_never_sent(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "flush-never-sent",
        |workload| {
            let (syncs, by_writes) = synced(workload)?;
            let sync = syncs.service.count;
            let stack = stack_of(basis, workload)?;
            let volatile =
                leaves(stack).any(|(_, block)| block.write_cache == Some(WriteCache::WriteBack));
            // A write that bypasses the cache needs no flush, and is not counted as one.
            if by_writes && leaves(stack).any(|(_, block)| block.fua == Some(true)) {
                return None;
            }
            let counted: Vec<u64> =
                workload.devices.iter().filter_map(|device| device.flushes_completed).collect();
            let flushes = *counted.iter().max()?;
            #[expect(clippy::cast_precision_loss, reason = "a ratio of counts")]
            let few = (flushes as f64) < sync as f64 * FLUSHES_PER_SYNC_MIN;
            (volatile && sync >= SYNCS_MIN && few).then(|| {
                format!("{sync} syncs were acknowledged, but the device was sent {flushes} flushes")
            })
        },
        "the device says that its cache is volatile, and something above it swallowed the flushes: \
         acknowledged commits can be lost",
        "check mount options and layers between filesystem and device; prove it with a power cut",
    )
}

/// The mounts of the stack that are told to drop flushes.
pub(super) fn dropped_flushes(stack: &Stack) -> Vec<String> {
    let mut seen = Vec::new();
    for filesystem in stack.walk().filter_map(|(_, layer)| layer.filesystem.as_ref()) {
        let options = filesystem.options.iter();
        for option in options.filter(|option| DROPS_FLUSHES.contains(&option.as_str())) {
            seen.push(format!("{} is mounted with {option}", filesystem.mount_point));
        }
    }
    seen
}

pub(super) fn flush_disabled(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let seen: Vec<String> = basis.environment.stacks.iter().flat_map(dropped_flushes).collect();
    if seen.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "flush-disabled",
        Vec::new(),
        seen.join("; "),
        "unsafe configuration: with this option a sync sends no flush, so acknowledged commits can \
         be lost at a power cut",
        "mount without it, unless every device below is proved to keep its cache",
    )]
}

pub(super) fn flush_not_offered(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let mut seen = Vec::new();
    for stack in &basis.environment.stacks {
        for (layer, block) in leaves(stack) {
            if block.virtio_flush == Some(false) {
                seen.push(format!("{}: the hypervisor offers no flush", layer.name));
            } else if block.write_cache == Some(WriteCache::WriteThrough)
                && block.virtual_device != Some(true)
                && writes_durably(basis.plan)
            {
                seen.push(format!(
                    "{}: the kernel takes its cache for write through and sends no flush",
                    layer.name
                ));
            }
        }
    }
    if seen.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "flush-not-sent",
        Vec::new(),
        seen.join("; "),
        "a sync ends at the block layer: right if the device keeps what it has taken without power, \
         fatal if it does not",
        "find out whether the device has power-loss protection, or what the host does with writes",
    )]
}

fn writes_durably(plan: &Plan) -> bool {
    plan.measured_steps().any(|step| step.loads().any(|load| load.workload.is_durable()))
}

pub(super) fn cache_view_overridden(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let mut seen = Vec::new();
    for stack in &basis.environment.stacks {
        for (layer, block) in leaves(stack) {
            let device = block.device_write_cache.as_deref();
            if block.write_cache == Some(WriteCache::WriteThrough) && device == Some("write back") {
                seen.push(format!(
                    "{}: queue/write_cache is write through, the device's own is write back",
                    layer.name
                ));
            }
        }
    }
    if seen.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "cache-view",
        Vec::new(),
        seen.join("; "),
        "unsafe configuration: somebody told the kernel that the cache is not volatile, the device \
         says that it is; no flush is sent",
        "echo 'write back' into queue/write_cache of the device",
    )]
}

pub(super) fn flush_fast(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "flush-fast",
        |workload| {
            let (sync, _) = synced(workload)?;
            let p50 = Nanos::new(sync.service.p50_ns?);
            let stack = stack_of(basis, workload)?;
            let (layer, block) = leaves(stack)
                .find(|(_, block)| block.write_cache == Some(WriteCache::WriteBack))?;
            let virtual_machine = basis.environment.host.hypervisor.is_some();
            let disk = block.rotational == Some(true) && !virtual_machine;
            let limit = if disk { DISK_FLUSH_MIN } else { FLASH_FLUSH_MIN };
            let medium =
                if disk { "a spinning disk" } else { "flash without power-loss protection" };
            (p50 < limit).then(|| {
                format!(
                    "a sync takes {p50} (p50) on {}, whose cache the kernel takes for volatile; \
                     {medium} needs more than {limit}",
                    layer.name
                )
            })
        },
        "suspect: either the cache is protected against power loss (then all is well) or the flush \
         is acknowledged before it is done; speed alone cannot tell which",
        "look up power-loss protection for the model, or what the hypervisor does with flushes; only \
         a power cut proves it",
    )
}

pub(super) fn raw_reads(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let devices: Vec<String> = basis
        .plan
        .targets
        .iter()
        .filter(|target| matches!(target.kind, TargetKind::Device { .. }))
        .filter_map(|target| target.location.as_ref().map(ToString::to_string))
        .collect();
    let mut about = devices;
    about.dedup();
    if about.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "raw-reads",
        about.clone(),
        format!("reads of {} go wherever the device has data or not", about.join(", ")),
        "blocks that were never written, or trimmed, are answered without reading the medium",
        "take reads of a new or trimmed device for an upper bound; write it over first",
    )]
}

/// How much of an existing file is allocated, if that is less than what is touched.
pub(super) fn sparse(basis: &Basis<'_>, workload: &WorkloadFindings) -> Option<String> {
    let step = basis.plan.steps.get(workload.step as usize)?;
    let target = basis.plan.target_of(step.stream(workload.stream)?);
    if !matches!(target.kind, TargetKind::ExistingFile { .. }) {
        return None;
    }
    let allocated = stack_of(basis, workload)?.root.fact("allocated_bytes")?;
    let allocated = Bytes::new(allocated.parse().ok()?);
    (allocated < target.size).then(|| format!("{allocated} of {} are allocated", target.size))
}

pub(super) fn sparse_files(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "sparse",
        |workload| sparse(basis, workload),
        "blocks of a file that were never written, or are compressed, are answered without reading \
         the medium, and writing them allocates first",
        "take a file that is written fully, or name its directory and let durio make one",
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::{check_quiet, check_warns};
    use super::*;
    use durio_stack::{DeviceCounters, Fact, FilesystemFacts};

    #[test]
    fn a_clean_run_gives_no_warning_of_this_file() {
        let rules = [
            memory_backed,
            flush_never_sent,
            flush_disabled,
            flush_not_offered,
            cache_view_overridden,
            flush_fast,
            raw_reads,
            sparse_files,
        ];
        for rule in rules {
            check_quiet(rule, |_| {});
        }
    }

    #[test]
    fn memory_is_not_storage() {
        check_warns(memory_backed, "memory", |sample| {
            let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        });
    }

    #[test]
    fn holes_in_a_file_are_named() {
        let allocate = |bytes: u64| {
            move |sample: &mut super::super::sample::Sample| {
                let fact = Fact { name: "allocated_bytes".into(), value: bytes.to_string() };
                sample.environment.stacks[0].root.facts.push(fact);
            }
        };
        check_warns(sparse_files, "sparse", allocate((1 << 30) - 4096));
        check_quiet(sparse_files, allocate(1 << 30));
    }

    #[test]
    fn swallowed_flushes_are_named() {
        let device = DeviceCounters { flushes_completed: Some(3), ..DeviceCounters::default() };
        check_warns(flush_never_sent, "flush-never-sent", |sample| {
            sample.workloads[0].devices = vec![device.clone()];
        });
        check_quiet(flush_never_sent, |sample| {
            let flushes_completed = Some(20_000);
            sample.workloads[0].devices =
                vec![DeviceCounters { flushes_completed, ..device.clone() }];
        });
    }

    #[test]
    fn writes_that_are_durable_by_themselves_are_held_against_flushes_too() {
        let by_writes = |fua: Option<bool>| {
            move |sample: &mut super::super::sample::Sample| {
                let workload = &mut sample.workloads[0];
                workload.definition.sync.method = SyncMethod::ODsync;
                workload.operations.retain(|it| it.operation != OperationName::Sync);
                let flushes_completed = Some(3);
                workload.devices =
                    vec![DeviceCounters { flushes_completed, ..DeviceCounters::default() }];
                sample.operation(OperationName::Commit).service.p50_ns = Some(50_000);
                sample.block().fua = fua;
            }
        };
        check_warns(flush_never_sent, "flush-never-sent", by_writes(Some(false)));
        check_quiet(flush_never_sent, by_writes(Some(true)));
        check_warns(flush_fast, "flush-fast", by_writes(Some(true)));
    }

    #[test]
    fn linked_syncs_are_counted_by_their_commits_and_need_a_flush_each() {
        let linked = |flushes: u64| {
            move |sample: &mut super::super::sample::Sample| {
                let workload = &mut sample.workloads[0];
                workload.definition.sync.method = SyncMethod::LinkedFdatasync;
                workload.operations.retain(|it| it.operation != OperationName::Sync);
                let commits = workload.operation(OperationName::Commit).unwrap().service.count;
                assert_eq!(workload.sync_count(), Some(commits));
                let flushes_completed = Some(flushes);
                workload.devices =
                    vec![DeviceCounters { flushes_completed, ..DeviceCounters::default() }];
                // A sync is no write, so a device that knows FUA is no excuse.
                sample.block().fua = Some(true);
            }
        };
        check_warns(flush_never_sent, "flush-never-sent", linked(3));
        check_quiet(flush_never_sent, linked(20_000));
    }

    #[test]
    fn options_that_drop_flushes_are_named() {
        check_warns(flush_disabled, "flush-disabled", |sample| {
            let options = vec!["rw".to_owned(), "nobarrier".to_owned()];
            let facts = FilesystemFacts { options, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        });
    }

    #[test]
    fn caches_that_get_no_flush_are_named() {
        check_warns(flush_not_offered, "flush-not-sent", |sample| {
            sample.block().virtio_flush = Some(false);
        });
        check_warns(flush_not_offered, "flush-not-sent", |sample| {
            sample.block().write_cache = Some(WriteCache::WriteThrough);
        });
        check_warns(cache_view_overridden, "cache-view", |sample| {
            sample.block().write_cache = Some(WriteCache::WriteThrough);
            sample.block().device_write_cache = Some("write back".to_owned());
        });
    }

    #[test]
    fn flushes_faster_than_their_medium_are_suspect() {
        check_warns(flush_fast, "flush-fast", |sample| {
            sample.operation(OperationName::Sync).service.p50_ns = Some(50_000);
        });
        check_warns(flush_fast, "flush-fast", |sample| {
            sample.operation(OperationName::Sync).service.p50_ns = Some(900_000);
            sample.block().rotational = Some(true);
        });
        check_quiet(flush_fast, |sample| {
            sample.operation(OperationName::Sync).service.p50_ns = Some(50_000);
            sample.block().write_cache = Some(WriteCache::WriteThrough);
        });
    }
}
