//! Facts of machine, filesystem and devices.
//!
//! In: a stack and the settings that were read. Out: [`Facts`], for each subject of a rule.
//! Not here: reading them.

use durio_observe::{FilesystemFacts, Layer, LayerKind, LayerReadings, Reading, Readings, Stack};

use super::catalogue::Catalogue;
use super::facts::Facts;
use super::rule::Subject;
use super::value::Value;

/// Where the mounts are.
const MOUNTS: &str = "/proc/self/mountinfo";

/// What arrays and volumes are told from their parts.
const STACK: &str = "the layers below";

/// Names of disks that are gone when the machine is stopped, as their makers write them.
const EPHEMERAL: &[&str] = &["Amazon EC2 NVMe Instance Storage", "nvme_card", "EphemeralDisk"];

/// Of members, what should be alike.
const ALIKE: &[&str] = &["scheduler", "read_ahead_kb", "write_cache", "rotational", "nomerges"];

/// A subject of rules, and what is known of it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) about: String,
    pub(super) facts: Facts,
}

/// Everything that was read, by what it is of.
#[derive(Debug)]
pub(super) struct SystemFacts {
    base: Facts,
    filesystem: Option<Known>,
    volumes: Vec<Known>,
    disks: Vec<Known>,
    partitions: Vec<Known>,
    arrays: Vec<Known>,
}

impl SystemFacts {
    pub(super) fn new(catalogue: &Catalogue, stack: &Stack, readings: &Readings) -> Self {
        let mut base = Facts::default();
        for reading in &readings.host {
            put(&mut base, catalogue, "host", reading);
        }
        aio_share(&mut base);
        let device = |name: &str| {
            let layer = readings.of(name)?;
            let facts = device_facts(catalogue, stack, readings, layer);
            Some(Known { about: name.to_owned(), facts })
        };
        let of_kind = |kind: LayerKind| -> Vec<Known> {
            let layers = readings.layers.iter().filter(|layer| layer.kind == kind);
            layers.filter_map(|layer| device(&layer.name)).collect()
        };
        let volumes: Vec<Known> =
            top_devices(&stack.root).iter().filter_map(|name| device(name)).collect();
        let filesystem = filesystem(catalogue, stack, &volumes, readings);
        if let Some(filesystem) = &filesystem {
            base.extend(&filesystem.facts);
        }
        Self {
            filesystem,
            disks: of_kind(LayerKind::Disk),
            partitions: of_kind(LayerKind::Partition),
            arrays: of_kind(LayerKind::Md),
            volumes,
            base,
        }
    }

    /// What holds for every subject.
    pub(super) fn base(&self) -> &Facts {
        &self.base
    }

    /// The subjects of this kind that are here; the database is one that has the volume's facts.
    pub(super) fn subjects(&self, subject: Subject, database: Option<&str>) -> Vec<Known> {
        let copies = |known: &[Known]| known.iter().map(|it| self.with_base(it)).collect();
        match subject {
            Subject::Host => vec![Known { about: "host".to_owned(), facts: self.base.clone() }],
            Subject::Filesystem => self.filesystem.iter().map(|it| self.with_base(it)).collect(),
            Subject::Volume => copies(&self.volumes),
            Subject::Disk => copies(&self.disks),
            Subject::Partition => copies(&self.partitions),
            Subject::Array => copies(&self.arrays),
            Subject::Database => database.map(|name| self.database(name)).into_iter().collect(),
        }
    }

    fn with_base(&self, known: &Known) -> Known {
        let mut facts = self.base.clone();
        facts.extend(&known.facts);
        Known { about: known.about.clone(), facts }
    }

    fn database(&self, name: &str) -> Known {
        let volume = self.volumes.first().map(|volume| self.with_base(volume));
        let facts = volume.map_or_else(|| self.base.clone(), |volume| volume.facts);
        Known { about: name.to_owned(), facts }
    }
}

fn put(facts: &mut Facts, catalogue: &Catalogue, group: &str, reading: &Reading) -> bool {
    let name = format!("{group}.{}", reading.name);
    facts.read(catalogue, &name, &reading.value, &reading.path)
}

fn aio_share(facts: &mut Facts) {
    let (used, all) = (facts.number("host.aio_nr"), facts.number("host.aio_max_nr"));
    if let (Some(used), Some(all)) = (used, all.filter(|all| *all > 0.0)) {
        facts.put("host.aio_used_share", Value::Number(used / all), "/proc/sys/fs/aio-nr");
    }
}

/// The names of the block devices that the target is on, partitions standing for their disks.
fn top_devices(layer: &Layer) -> Vec<String> {
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
    readings: &Readings,
    layer: &LayerReadings,
) -> Facts {
    let mut facts = Facts::default();
    let place = format!("/sys/class/block/{}", layer.name);
    facts.put("device.name", Value::Text(layer.name.clone()), &place);
    for reading in &layer.readings {
        let is_of_device = put(&mut facts, catalogue, "device", reading);
        if !is_of_device {
            put(&mut facts, catalogue, "md", reading);
        }
    }
    model(&mut facts, layer);
    alignment(&mut facts);
    if layer.kind == LayerKind::Md {
        stripe(&mut facts);
        members(&mut facts, stack, readings, &layer.name);
    }
    facts
}

/// What the device's own name tells.
fn model(facts: &mut Facts, layer: &LayerReadings) {
    if layer.kind != LayerKind::Disk {
        return;
    }
    let model = layer.get("model");
    let place = model.map_or_else(
        || format!("/sys/class/block/{}/device/model", layer.name),
        |model| model.path.clone(),
    );
    let text = model.map(|model| model.value.as_str()).unwrap_or_default();
    let is_ephemeral = EPHEMERAL.iter().any(|name| text.starts_with(name));
    let is_ebs = text.starts_with("Amazon Elastic Block Store");
    facts.put("device.is_ephemeral", Value::Flag(is_ephemeral), &place);
    facts.put("device.is_ebs", Value::Flag(is_ebs), &place);
}

/// How far a partition's begin is beyond a whole MiB.
fn alignment(facts: &mut Facts) {
    const MIB: f64 = 1_048_576.0;
    let Some(start) = facts.number("device.start_sectors") else { return };
    let place = facts.get("device.start_sectors").map(|fact| fact.place.clone());
    facts.put("device.start_beyond_mib", Value::Bytes(start % MIB), place.unwrap_or_default());
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
        facts.put("md.stripe_width", Value::Bytes(chunk * data_disks), STACK);
    }
}

/// Whether the disks below an array rotate, and in what they differ.
fn members(facts: &mut Facts, stack: &Stack, readings: &Readings, array: &str) {
    let Some((_, layer)) = stack.walk().find(|(_, layer)| layer.name == array) else { return };
    let below = layer.walk().filter(|(_, it)| it.kind == LayerKind::Disk);
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
        let any = rotate.contains(&"1");
        facts.put("md.members_rotational", Value::Flag(any), STACK);
    }
    let differ = |name: &&&str| values(name).windows(2).any(|pair| pair[0] != pair[1]);
    let different: Vec<&str> = ALIKE.iter().filter(differ).copied().collect();
    let text = if different.is_empty() { "nothing".to_owned() } else { different.join(" and ") };
    facts.put("md.members_differ_in", Value::Text(text), STACK);
}

fn filesystem(
    catalogue: &Catalogue,
    stack: &Stack,
    volumes: &[Known],
    readings: &Readings,
) -> Option<Known> {
    let layer = stack.walk().map(|(_, layer)| layer).find(|it| it.filesystem.is_some())?;
    let known = layer.filesystem.as_ref()?;
    let mut facts = Facts::default();
    let words = [("fs.type", &known.fs_type), ("fs.mount_point", &known.mount_point)];
    for (name, text) in words {
        facts.put(name, Value::Text(text.clone()), MOUNTS);
    }
    facts.put("fs.options", Value::List(known.options.clone()), MOUNTS);
    let flags = [
        ("fs.network", layer.kind == LayerKind::Network),
        ("fs.overlay", layer.kind == LayerKind::Overlay),
        ("fs.memory", known.memory_backed),
    ];
    for (name, flag) in flags {
        facts.put(name, Value::Flag(flag), MOUNTS);
    }
    used_share(&mut facts, known);
    valued_options(&mut facts, catalogue, known);
    below_filesystem(&mut facts, volumes, readings);
    Some(Known { about: known.mount_point.clone(), facts })
}

fn used_share(facts: &mut Facts, known: &FilesystemFacts) {
    let (size, free) = (known.size.get(), known.free.get());
    if size > 0 {
        #[expect(clippy::cast_precision_loss, reason = "a share of a filesystem")]
        let share = 1.0 - free.min(size) as f64 / size as f64;
        facts.put("fs.used_share", Value::Number(share), "statvfs of the mount");
    }
}

/// Options with a value that is a number. Of `commit` the kernel shows only what is not the
/// default, 5 s (ext4's documentation).
fn valued_options(facts: &mut Facts, catalogue: &Catalogue, known: &FilesystemFacts) {
    if known.fs_type == "ext4" {
        facts.read(catalogue, "fs.commit", "5", "the default of ext4");
    }
    for option in &known.options {
        let Some((name, value)) = option.split_once('=') else { continue };
        if ["stripe", "sunit", "swidth", "logbsize", "commit"].contains(&name) {
            facts.read(catalogue, &format!("fs.{name}"), value, MOUNTS);
        }
    }
}

fn below_filesystem(facts: &mut Facts, volumes: &[Known], readings: &Readings) {
    let array = volumes.iter().find(|volume| volume.facts.get("md.level").is_some());
    facts.put("fs.on_array", Value::Flag(array.is_some()), STACK);
    if let Some(array) = array {
        for (name, from) in
            [("fs.array_chunk", "md.chunk_size"), ("fs.array_stripe_width", "md.stripe_width")]
        {
            // A mirror has no stripe.
            let value = array.facts.value(from).cloned().unwrap_or(Value::Bytes(0.0));
            facts.put(name, value, STACK);
        }
    }
    let disks = readings.layers.iter().filter(|layer| layer.kind == LayerKind::Disk);
    let trims = disks.filter_map(|disk| disk.get("discard_max_bytes"));
    let sizes: Vec<bool> = trims.map(|reading| reading.value != "0").collect();
    if !sizes.is_empty() {
        // Only what takes discards needs them.
        facts.put("fs.on_flash", Value::Flag(sizes.contains(&true)), STACK);
    }
}
