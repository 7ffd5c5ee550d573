//! Signals: what can be said about a storage's flush without cutting its power.
//!
//! The record (layers, machine, process) and the measurements give [`Signal`]s, each with its
//! readings and their places, what they imply, and one of four words. A signal never acquits: only
//! power cuts prove anything.
//!
//! A rule is a function, with its smallest positive and negative case as tests next to it, a row in
//! its file's `EXPLAINED` for each of its ids, and a line in [`LAYER_RULES`], [`HOST_RULES`] or
//! [`RUN_RULES`].

mod device;
mod filesystem;
mod layers;
mod measured;
mod process;
mod remote;
mod slope;
mod sync_calls;

pub(crate) use filesystem::dropping_options;

use durio_analyse::{
    EvidenceReading, Explanation, ExplanationFact, ExplanationKind, Signal, SignalWord,
};
use durio_observe::{Host, Layer, LayerKind, Stack, WriteCache};

use crate::RuleInput;

/// Where the kernel shows mounts and their options.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A rule about one layer, with all that lies below it.
type LayerRule = fn(&Layer, &Host) -> Option<Signal>;

const LAYER_RULES: &[LayerRule] = &[
    filesystem::memory_backed,
    filesystem::barriers_off,
    filesystem::overlay_volatile,
    filesystem::checkpoint_disabled,
    filesystem::zfs_no_flush,
    filesystem::zfs_sync_property,
    filesystem::no_journal,
    filesystem::journal_options,
    filesystem::no_tree_log,
    filesystem::nothing_known_below,
    remote::not_strict,
    remote::server,
    remote::fuse,
    remote::block,
    layers::strips_flushes,
    layers::md_write_hole,
    layers::md_journal_write_back,
    layers::md_degraded,
    layers::md_resyncing,
    layers::md_without_policy,
    layers::cached_volume,
    layers::bcache_write_back,
    layers::loop_backing,
    device::cache_view,
    device::contradicts_kernel,
    device::fua,
    device::qemu_nvme,
    device::ephemeral,
    device::cloud_volume,
    device::raid_controller,
];

/// A rule about the machine and the process, given the layers of every location.
type HostRule = fn(&Host, &[Stack]) -> Option<Signal>;

const HOST_RULES: &[HostRule] = &[
    process::sync_swallower,
    process::preloaded,
    process::imitated_kernel,
    process::traced,
    process::filtered,
    process::virtual_machine,
];

/// A rule about measurements.
type RunRule = fn(&RuleInput<'_>) -> Vec<Signal>;

const RUN_RULES: &[RunRule] = &[
    sync_calls::swallowed,
    measured::flushes_per_sync,
    measured::latency_floor,
    measured::flush_delta,
    measured::fua_against_flush,
    slope::measured,
];

/// What the signals of each file mean: id, words, when it is given, what follows, what to do.
const EXPLAINED: &[&[[&str; 5]]] = &[
    device::EXPLAINED,
    filesystem::EXPLAINED,
    layers::EXPLAINED,
    process::EXPLAINED,
    remote::EXPLAINED,
    measured::EXPLAINED,
    slope::EXPLAINED,
    sync_calls::EXPLAINED,
];

/// What each signal means.
pub(crate) fn explanations() -> impl Iterator<Item = Explanation> {
    EXPLAINED.iter().copied().flatten().map(|[id, words, what, why, advice]| {
        let text = [*id, *what, *why, *advice];
        let words = ExplanationFact::new("given as", words);
        Explanation { facts: vec![words], ..Explanation::new(ExplanationKind::Signal, text) }
    })
}

/// The signals of layers, machine and process alone, most severe first: no run is needed.
pub fn standing_signals(stacks: &[Stack], host: &Host) -> Vec<Signal> {
    let mut found: Vec<Signal> = Vec::new();
    let mut seen: Vec<&Layer> = Vec::new();
    for layer in stacks.iter().flat_map(|stack| stack.walk().map(|(_, layer)| layer)) {
        // Two locations may share lower layers.
        if seen.contains(&layer) {
            continue;
        }
        seen.push(layer);
        found.extend(LAYER_RULES.iter().filter_map(|rule| rule(layer, host)));
    }
    found.extend(HOST_RULES.iter().filter_map(|rule| rule(host, stacks)));
    by_weight(found)
}

/// All signals of a run that makes writes durable; empty for other runs.
pub(crate) fn signals(input: &RuleInput<'_>) -> Vec<Signal> {
    let environment = input.environment;
    let is_asked = input.writes_durably() || !input.probed.is_empty();
    // Without a location there is nothing whose flush could be asked about.
    if !is_asked || environment.stacks.is_empty() {
        return Vec::new();
    }
    let mut found = standing_signals(&environment.stacks, &environment.host);
    found.extend(RUN_RULES.iter().flat_map(|rule| rule(input)));
    by_weight(found)
}

fn by_weight(mut signals: Vec<Signal>) -> Vec<Signal> {
    signals.sort_by_key(|signal| signal.word);
    let mut kept: Vec<Signal> = Vec::new();
    for signal in signals {
        if !kept.contains(&signal) {
            kept.push(signal);
        }
    }
    kept
}

/// A signal: its id, word and layer, the readings, what they imply, and what to do.
fn signal(
    (id, word, layer): (&str, SignalWord, String),
    read: Vec<EvidenceReading>,
    implies: impl Into<String>,
    advice: impl Into<String>,
) -> Option<Signal> {
    let (implies, advice) = (implies.into(), advice.into());
    Some(Signal { id: id.to_owned(), word, layer, read, implies, advice })
}

fn reading(what: &str, place: impl Into<String>, value: impl Into<String>) -> EvidenceReading {
    EvidenceReading { what: what.to_owned(), place: place.into(), value: value.into() }
}

/// What the block layer takes the layer's cache for, which decides whether it sends flushes.
fn cache_reading(what: &str, layer: &Layer, view: WriteCache) -> EvidenceReading {
    let value = match view {
        WriteCache::WriteBack => "write back",
        WriteCache::WriteThrough => "write through",
    };
    reading(what, sysfs(layer, "queue/write_cache"), value)
}

/// The file of a block device in sysfs.
fn sysfs(layer: &Layer, file: &str) -> String {
    // sysfs cannot have a slash in a name, and writes `cciss/c0d0` as `cciss!c0d0`.
    format!("/sys/class/block/{}/{file}", layer.name.replace('/', "!"))
}

/// The layer as signals name it.
fn layer_name(layer: &Layer) -> String {
    if let Some(filesystem) = &layer.filesystem {
        return format!("{} at {}", filesystem.fs_type, filesystem.mount_point);
    }
    let kind = match layer.kind {
        LayerKind::Md => "array",
        LayerKind::Dm => "volume",
        LayerKind::Disk => "disk",
        LayerKind::Loop => "loop device",
        LayerKind::Partition => "partition",
        _ => "device",
    };
    format!("{kind} {}", layer.name)
}

/// True for the lowest device that the kernel shows: only the device knows its inside.
fn is_end(layer: &Layer) -> bool {
    let is_last = match layer.kind {
        LayerKind::Disk | LayerKind::Nbd => true,
        // A ublk device whose server is hidden.
        LayerKind::Ublk => layer.below.is_empty(),
        _ => false,
    };
    is_last && layer.block.is_some()
}

/// The devices at the bottom of a stack, which the kernel's flushes end at.
pub(crate) fn ends(stack: &Stack) -> impl Iterator<Item = &Layer> {
    stack.walk().map(|(_, layer)| layer).filter(|layer| is_end(layer))
}

/// True if the kernel sends flushes to the layer.
fn is_flushed(layer: &Layer) -> bool {
    layer.block.as_ref().is_some_and(|block| block.write_cache == Some(WriteCache::WriteBack))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{disk, stack_of};

    #[test]
    fn what_two_locations_share_is_told_once_and_the_weightiest_first() {
        let mut shared = disk("nvme0n1");
        shared.block.as_mut().unwrap().model = Some("QEMU NVMe Ctrl".into());
        let stacks = [stack_of(shared.clone()), stack_of(shared)];
        let signals = standing_signals(&stacks, &Host::default());
        let ids: Vec<_> = signals.iter().map(|signal| signal.id.as_str()).collect();
        assert_eq!(ids, ["qemu-nvme-fua", "flush-sent", "fua"]);
        assert!(signals.iter().all(|signal| !signal.read.is_empty()));
    }

    #[test]
    fn every_signal_is_explained_once_and_nothing_else_is() {
        let sources = [
            include_str!("signals/device.rs"),
            include_str!("signals/filesystem.rs"),
            include_str!("signals/layers.rs"),
            include_str!("signals/measured.rs"),
            include_str!("signals/process.rs"),
            include_str!("signals/remote.rs"),
            include_str!("signals/slope.rs"),
            include_str!("signals/sync_calls.rs"),
        ];
        // An id is the literal before the word in the arguments of `signal`.
        let is_word = |after: &str| {
            let after = after.trim_start_matches(',').trim_start();
            after.starts_with("SignalWord::") || after.starts_with("word, layer_name")
        };
        let mut used: Vec<&str> = Vec::new();
        for source in sources {
            let code = source.split("#[cfg(test)]").next().unwrap();
            let parts: Vec<&str> = code.split('"').collect();
            let pairs =
                parts.windows(2).filter(|pair| pair[1].starts_with(',') && is_word(pair[1]));
            used.extend(pairs.map(|pair| pair[0]));
        }
        used.sort_unstable();
        used.dedup();
        let mut explained: Vec<String> = explanations().map(|explanation| explanation.id).collect();
        explained.sort_unstable();
        assert_eq!(used, explained);
    }

    #[test]
    fn only_runs_that_make_writes_durable_somewhere_have_signals() {
        use durio_workload::SyncPolicy;

        let asked = |spoil: fn(&mut crate::tests::Sample)| {
            let mut sample = crate::tests::sample();
            spoil(&mut sample);
            signals(&sample.input()).len()
        };
        assert!(asked(|_| {}) > 0);
        assert_eq!(asked(|sample| sample.environment.stacks.clear()), 0);
        assert_eq!(asked(|sample| sample.plan.steps[0].load.workload.sync = SyncPolicy::NONE), 0);
    }

    #[test]
    fn words_and_readings_are_saved_as_users_read_them() {
        let read = vec![reading("a", "/b", "c")];
        let one = signal(("x", SignalWord::UnsafeConfig, "l".into()), read, "i", "").unwrap();
        let text = serde_json::to_string(&one).unwrap();
        assert!(text.contains("\"unsafe-config\"") && text.contains("\"where\":\"/b\""), "{text}");
        assert_eq!(serde_json::from_str::<Signal>(&text).unwrap(), one);
        for word in [SignalWord::Fact, SignalWord::Declared, SignalWord::Suspect] {
            let saved = serde_json::to_string(&word).unwrap();
            assert_eq!(saved, format!("\"{}\"", word.words()));
        }
    }
}
