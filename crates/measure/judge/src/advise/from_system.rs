//! Facts of machine, filesystem and devices.
//!
//! The stack and the settings were read before; each subject of a rule gets its [`Facts`].

use durio_base::stats::least_squares::float;

use durio_observe::{
    CloudDisk, FilesystemFacts, Layer, LayerKind, LayerReadings, Stack, TuningReading,
    TuningReadings,
};

use super::facts::{Catalogue, FactValue, Facts};
use super::rule::Subject;

const MOUNTS: &str = "/proc/self/mountinfo";

/// The place of facts that arrays and volumes take from their parts.
const STACK: &str = "the layers below";

// Settings that should be the same on all members.
const ALIKE: &[&str] = &["scheduler", "read_ahead_kb", "write_cache", "rotational", "nomerges"];

/// A subject of rules, and its facts.
#[derive(Debug, Clone)]
pub(super) struct SubjectFacts {
    subject: Subject,
    pub(super) about: String,
    pub(super) facts: Facts,
}

/// Everything that was read, by subject.
#[derive(Debug)]
pub(super) struct SystemFacts {
    base: Facts,
    known: Vec<SubjectFacts>,
}

impl SystemFacts {
    pub(super) fn new(catalogue: &Catalogue, stack: &Stack, readings: &TuningReadings) -> Self {
        let mut base = Facts::default();
        for reading in &readings.host {
            put(&mut base, catalogue, "host", reading);
        }
        aio_share(&mut base);
        let device = |subject: Subject, name: &str| {
            let facts = device_facts(catalogue, stack, readings, readings.of(name)?);
            Some(SubjectFacts { subject, about: name.to_owned(), facts })
        };
        let top = top_devices(&stack.root);
        let mut known: Vec<SubjectFacts> =
            top.iter().filter_map(|name| device(Subject::Volume, name)).collect();
        let filesystem = filesystem(catalogue, stack, &known, readings);
        known.extend(readings.layers.iter().filter_map(|layer| match layer.kind {
            LayerKind::Disk => device(Subject::Disk, &layer.name),
            LayerKind::Partition => device(Subject::Partition, &layer.name),
            LayerKind::Md => device(Subject::Array, &layer.name),
            _ => None,
        }));
        // Rules about a database ask for its filesystem too.
        if let Some(filesystem) = filesystem {
            base.extend(&filesystem.facts);
            known.push(filesystem);
        }
        let (subject, about) = (Subject::Host, "host".to_owned());
        known.push(SubjectFacts { subject, about, facts: Facts::default() });
        Self { base, known }
    }

    /// What holds for every subject.
    pub(super) fn base(&self) -> &Facts {
        &self.base
    }

    /// The subjects of this kind that are here; the database is one that has the volume's facts.
    pub(super) fn subjects(&self, subject: Subject, database: Option<&str>) -> Vec<SubjectFacts> {
        if subject == Subject::Database {
            let Some(name) = database else { return Vec::new() };
            let volume = self.subjects(Subject::Volume, None).into_iter().next();
            let facts = volume.map_or_else(|| self.base.clone(), |volume| volume.facts);
            return vec![SubjectFacts { subject, about: name.to_owned(), facts }];
        }
        let with_base = |known: &SubjectFacts| {
            let mut facts = self.base.clone();
            facts.extend(&known.facts);
            SubjectFacts { facts, ..known.clone() }
        };
        self.known.iter().filter(|known| known.subject == subject).map(with_base).collect()
    }
}

fn put(facts: &mut Facts, catalogue: &Catalogue, group: &str, reading: &TuningReading) -> bool {
    let name = format!("{group}.{}", reading.name);
    facts.read(catalogue, &name, &reading.value, &reading.path)
}

fn aio_share(facts: &mut Facts) {
    let (used, all) = (facts.number("host.aio_nr"), facts.number("host.aio_max_nr"));
    if let (Some(used), Some(all)) = (used, all.filter(|all| *all > 0.0)) {
        facts.put("host.aio_used_share", FactValue::Number(used / all), "/proc/sys/fs/aio-nr");
    }
}

/// The names of the block devices that the target is on.
fn top_devices(layer: &Layer) -> Vec<String> {
    // A partition has no queue: the settings are those of its disk.
    if layer.block.is_some() && layer.kind != LayerKind::Partition {
        return vec![layer.name.clone()];
    }
    let mut names: Vec<String> = Vec::new();
    for name in layer.below.iter().flat_map(top_devices) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn device_facts(
    catalogue: &Catalogue,
    stack: &Stack,
    readings: &TuningReadings,
    layer: &LayerReadings,
) -> Facts {
    let mut facts = Facts::default();
    let place = format!("/sys/class/block/{}", layer.name);
    facts.put("device.name", FactValue::Text(layer.name.clone()), &place);
    for reading in &layer.readings {
        // An array has facts of a device too; names that no device has belong to the array.
        let _ = put(&mut facts, catalogue, "device", reading)
            || put(&mut facts, catalogue, "md", reading);
    }
    model(&mut facts, layer);
    alignment(&mut facts);
    if layer.kind == LayerKind::Md {
        stripe(&mut facts);
        members(&mut facts, stack, readings, &layer.name);
    }
    facts
}

fn model(facts: &mut Facts, layer: &LayerReadings) {
    if layer.kind != LayerKind::Disk {
        return;
    }
    let (text, place) = match layer.get("model") {
        Some(model) => (model.value.as_str(), model.path.clone()),
        None => ("", format!("/sys/class/block/{}/device/model", layer.name)),
    };
    let is_ephemeral = CloudDisk::of("", text) == Some(CloudDisk::Local);
    let is_ebs = text.starts_with("Amazon Elastic Block Store");
    facts.put("device.is_ephemeral", FactValue::Flag(is_ephemeral), &place);
    facts.put("device.is_ebs", FactValue::Flag(is_ebs), &place);
}

/// How far the start of a partition is from a whole MiB.
fn alignment(facts: &mut Facts) {
    const MIB: f64 = 1_048_576.0;
    let Some(start) = facts.number("device.start_sectors") else { return };
    let place =
        facts.get("device.start_sectors").map_or_else(String::new, |fact| fact.place.clone());
    facts.put("device.start_beyond_mib", FactValue::Bytes(start % MIB), place);
}

/// The bytes of a whole stripe, without parity and copies.
fn stripe(facts: &mut Facts) {
    let (chunk, disks) = (facts.number("md.chunk_size"), facts.number("md.raid_disks"));
    let data_disks = match (facts.text("md.level"), disks) {
        (Some("raid0"), Some(disks)) => disks,
        (Some("raid4" | "raid5"), Some(disks)) => disks - 1.0,
        (Some("raid6"), Some(disks)) => disks - 2.0,
        // Two copies each, as md makes by default.
        (Some("raid10"), Some(disks)) => disks / 2.0,
        _ => return,
    };
    if let Some(chunk) = chunk.filter(|_| data_disks > 0.0) {
        facts.put("md.stripe_width", FactValue::Bytes(chunk * data_disks), STACK);
    }
}

/// Whether the disks below an array rotate, and how they differ.
fn members(facts: &mut Facts, stack: &Stack, readings: &TuningReadings, array: &str) {
    let Some((_, layer)) = stack.walk().find(|(_, layer)| layer.name == array) else { return };
    // Members may be partitions: what counts is the disk below.
    let below = layer.walk().filter(|(_, disk)| disk.kind == LayerKind::Disk);
    let disks: Vec<&LayerReadings> =
        below.filter_map(|(_, disk)| readings.of(&disk.name)).collect();
    if disks.is_empty() {
        return;
    }
    let values = |name: &str| -> Vec<&str> {
        disks.iter().filter_map(|disk| Some(disk.get(name)?.value.as_str())).collect()
    };
    let rotate = values("rotational");
    if !rotate.is_empty() {
        facts.put("md.members_rotational", FactValue::Flag(rotate.contains(&"1")), STACK);
    }
    let differ = |name: &&&str| values(name).windows(2).any(|pair| pair[0] != pair[1]);
    let different: Vec<&str> = ALIKE.iter().filter(differ).copied().collect();
    let text = if different.is_empty() { "nothing".to_owned() } else { different.join(" and ") };
    facts.put("md.members_differ_in", FactValue::Text(text), STACK);
}

fn filesystem(
    catalogue: &Catalogue,
    stack: &Stack,
    volumes: &[SubjectFacts],
    readings: &TuningReadings,
) -> Option<SubjectFacts> {
    let layer = stack.walk().map(|(_, layer)| layer).find(|layer| layer.filesystem.is_some())?;
    let known = layer.filesystem.as_ref()?;
    let mut facts = Facts::default();
    let mounted = [
        ("fs.type", FactValue::Text(known.fs_type.clone())),
        ("fs.mount_point", FactValue::Text(known.mount_point.clone())),
        ("fs.options", FactValue::List(known.options.clone())),
        ("fs.network", FactValue::Flag(layer.kind == LayerKind::Network)),
        ("fs.overlay", FactValue::Flag(layer.kind == LayerKind::Overlay)),
        ("fs.memory", FactValue::Flag(known.memory_backed)),
    ];
    for (name, value) in mounted {
        facts.put(name, value, MOUNTS);
    }
    used_share(&mut facts, known);
    valued_options(&mut facts, catalogue, known);
    below_filesystem(&mut facts, volumes, readings);
    Some(SubjectFacts { subject: Subject::Filesystem, about: known.mount_point.clone(), facts })
}

fn used_share(facts: &mut Facts, known: &FilesystemFacts) {
    let (size, free) = (known.size.get(), known.free.get());
    if size > 0 {
        let share = 1.0 - float(free.min(size)) / float(size);
        facts.put("fs.used_share", FactValue::Number(share), "statvfs of the mount");
    }
}

/// Options with a value that is a number.
fn valued_options(facts: &mut Facts, catalogue: &Catalogue, known: &FilesystemFacts) {
    if known.fs_type == "ext4" {
        // The kernel shows only a `commit` that is not the default, 5 s (ext4's documentation).
        facts.read(catalogue, "fs.commit", "5", "the default of ext4");
    }
    for option in &known.options {
        let Some((name, value)) = option.split_once('=') else { continue };
        if ["stripe", "sunit", "swidth", "logbsize", "commit"].contains(&name) {
            facts.read(catalogue, &format!("fs.{name}"), value, MOUNTS);
        }
    }
}

fn below_filesystem(facts: &mut Facts, volumes: &[SubjectFacts], readings: &TuningReadings) {
    let array = volumes.iter().find(|volume| volume.facts.get("md.level").is_some());
    facts.put("fs.on_array", FactValue::Flag(array.is_some()), STACK);
    if let Some(array) = array {
        let sizes = [("chunk", "md.chunk_size"), ("stripe_width", "md.stripe_width")];
        for (name, from) in sizes {
            // A mirror has no stripe.
            let value = array.facts.value(from).cloned().unwrap_or(FactValue::Bytes(0.0));
            facts.put(format!("fs.array_{name}"), value, STACK);
        }
    }
    let disks = readings.layers.iter().filter(|layer| layer.kind == LayerKind::Disk);
    let trims = disks.filter_map(|disk| disk.get("discard_max_bytes"));
    // Only what takes discards needs them.
    if let Some(any) = trims.map(|reading| reading.value != "0").reduce(|a, b| a || b) {
        facts.put("fs.on_flash", FactValue::Flag(any), STACK);
    }
}
