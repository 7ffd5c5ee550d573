//! Signals: what can be said about a storage's flush without cutting its power.
//!
//! The record (layers, machine, process) and the measurements give [`Signal`]s, each with its
//! readings and their places, what they imply, and one of four words. A signal never acquits: only
//! power cuts prove anything.
//!
//! A rule is a function, with its smallest positive and negative case as tests next to it, a line in
//! [`LAYER_RULES`], [`HOST_RULES`] or [`RUN_RULES`], and its words in `data/rules`, in the file that
//! [`FAMILIES`] names.

mod device;
mod filesystem;
mod layers;
mod measured;
mod process;

pub(crate) use filesystem::dropping_options;

use durio_analyse::{
    EvidenceReading, Explanation, ExplanationFact, ExplanationKind, Signal, SignalWord,
};
use durio_observe::{Host, Layer, LayerKind, Stack, WriteCache};

use crate::RuleInput;
use crate::rule_text::{RuleTexts, SignalText};

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
    layers::not_strict,
    layers::server,
    layers::fuse,
    layers::block,
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
    process::swallowed,
    measured::flushes_per_sync,
    measured::latency_floor,
    measured::flush_delta,
    measured::fua_against_flush,
    measured::slopes,
];

// The order is that of the reference.
static FAMILIES: RuleTexts = RuleTexts::new(&[
    include_str!("../data/rules/signal-device.toml"),
    include_str!("../data/rules/signal-filesystem.toml"),
    include_str!("../data/rules/signal-layers.toml"),
    include_str!("../data/rules/signal-process.toml"),
    include_str!("../data/rules/signal-remote.toml"),
    include_str!("../data/rules/signal-measured.toml"),
    include_str!("../data/rules/signal-slope.toml"),
    include_str!("../data/rules/signal-sync-calls.toml"),
]);

/// What each signal means.
pub(crate) fn explanations() -> impl Iterator<Item = Explanation> {
    FAMILIES.all().iter().map(|rule| {
        let mut words: Vec<SignalWord> = rule.signal.iter().map(|signal| signal.word).collect();
        words.sort_unstable();
        words.dedup();
        let words: Vec<&str> = words.into_iter().map(SignalWord::words).collect();
        let given = ExplanationFact::new("given as", &words.join(", "));
        Explanation { facts: vec![given], ..rule.explanation(ExplanationKind::Signal) }
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

/// A signal with the words that `key` has in the data: its id, and after a colon the case of several.
fn signal(key: &str, layer: String, read: Vec<EvidenceReading>) -> Option<Signal> {
    let (id, case) = key.split_once(':').unwrap_or((key, ""));
    // A test compares the keys of the rules with those of the data.
    let text = FAMILIES.get(id)?.signal.iter().find(|text| text.case == case)?;
    let SignalText { word, implies, advice, .. } = text.clone();
    Some(Signal { id: id.to_owned(), word, layer, read, implies, advice })
}

/// The signal with the values of the names in braces that its words have.
fn filled(signal: Option<Signal>, values: &[(&str, &str)]) -> Option<Signal> {
    let signal = signal?;
    let fill =
        |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
    let implies = values.iter().fold(signal.implies, fill);
    let advice = values.iter().fold(signal.advice, fill);
    Some(Signal { implies, advice, ..signal })
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
        ];
        let code: String =
            sources.iter().filter_map(|source| source.split("#[cfg(test)]").next()).collect();
        let is_used = |id: &str, case: &str| match case {
            "" => code.contains(&format!("\"{id}\"")),
            // The options of a journal are the cases of their signal.
            _ if code.contains(&format!("\"{id}:{{}}\"")) => code.contains(&format!("\"{case}\"")),
            _ => code.contains(&format!("\"{id}:{case}\"")),
        };
        for rule in FAMILIES.all() {
            let mut cases: Vec<&str> = rule.signal.iter().map(|text| text.case.as_str()).collect();
            let unused = cases.iter().find(|case| !is_used(&rule.id, case));
            assert_eq!(unused, None, "{}", rule.id);
            let count = cases.len();
            cases.sort_unstable();
            cases.dedup();
            assert!(count > 0 && cases.len() == count, "{}: {cases:?}", rule.id);
        }
        // What is given to `signal` as a literal has words, too.
        let literals = code.split("signal(").skip(1).filter_map(|call| {
            let literal = call.trim_start().strip_prefix('"')?;
            literal.split('"').next().map(str::to_owned)
        });
        let literals: Vec<String> = literals.collect();
        assert!(literals.len() > 20, "{literals:?}");
        for key in literals {
            assert!(signal(&key, String::new(), Vec::new()).is_some(), "{key}");
        }
    }

    #[test]
    fn the_words_of_a_case_are_filled_with_values() {
        let key = "flush-fast:virtual";
        let values = [("medium", "a volume"), ("limit", "100 µs")];
        let found = filled(signal(key, "disk vda".to_owned(), Vec::new()), &values).unwrap();
        assert_eq!((found.id.as_str(), found.word), ("flush-fast", SignalWord::Suspect));
        let implies = "a volume needs more than 100 µs: the cache is protected against power loss, \
                       or the flush is acknowledged before it is done, or the host answers it from \
                       memory; speed alone does not show which";
        assert_eq!(found.implies, implies);
        assert_eq!(signal("flush-fast:unknown", String::new(), Vec::new()), None);
        // Only values are left to fill.
        let texts = FAMILIES.all().iter().flat_map(|rule| &rule.signal);
        let named = texts.filter(|text| format!("{}{}", text.implies, text.advice).contains('{'));
        assert_eq!(named.count(), 4);
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
        let one = signal("barriers-off", "l".into(), read).unwrap();
        let text = serde_json::to_string(&one).unwrap();
        assert!(text.contains("\"unsafe-config\"") && text.contains("\"where\":\"/b\""), "{text}");
        assert_eq!(serde_json::from_str::<Signal>(&text).unwrap(), one);
        for word in [SignalWord::Fact, SignalWord::Declared, SignalWord::Suspect] {
            let saved = serde_json::to_string(&word).unwrap();
            assert_eq!(saved, format!("\"{}\"", word.words()));
        }
    }
}
