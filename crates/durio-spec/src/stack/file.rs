//! Every key that a stack spec has beyond those of a campaign, as the fields of structs.
//!
//! The reader, the JSON schema and the reference in docs/formats/stack-spec.md come from these
//! fields and their doc comments ([`crate::table`]).

use durio_layers::tool_words_reference;
use durio_layers::{BtrfsProfile, LvmLayout, MdBitmap, ZfsLayout};
use durio_plan::FileLayout;
use durio_units::Bytes;
use serde_json::{Value as Json, json};

use super::RawDevices;
use crate::SpecError;
use crate::campaign::file::{Files, Head, Steps, shared_keys};
use crate::table::value::{Amount, Delay, Name, Texts, Value, none_of, word_enums, words};
use crate::table::{Entries, Faults, Field, Form, Item, Key, One, Placed, Table, reference, table};

table! {
    /// The whole file.
    struct StackFile [head: Head, steps: Steps, first: First] {
        /// What of each point is read and written.
        target: Option<Placed<TargetTable>>,
        /// What somebody found, to be set beside it.
        published: Vec<Placed<PublishedTable>>,
    }
}

table! {
    /// What is read before the rest, and is not there when that is read.
    struct First {
        /// Axes: lists of texts, whole numbers or flags, for which "{AXIS}" stands in stacks.
        matrix: One<Axes>,
        /// A stack, or one for each of the axes' values that it names. At least one.
        stack: Vec<Placed<StackTable>>,
    }
}

table! {
    /// `[[stack]]`.
    struct StackTable {
        /// Short name; values of axes that it does not name are appended.
        name: Placed<Name>,
        /// The layers from the bottom, a source such as { ram = { size = "1GiB" } } first. At least
        /// one.
        layers: Vec<Placed<LayerTable>>,
    }
}

const HINT: &str = "write { md = { level = 1 } }, { xfs = {} }";

/// Makes an enum that is a table with one key, whose name says which variant it is.
macro_rules! one_of {
    ($(#[doc = $about:literal])* enum $name:ident {
        $($(#[doc = $help:literal])+ $variant:ident $key:literal: $type:ty,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "there are as many as a spec has layers")]
        pub(crate) enum $name {
            $($(#[doc = $help])+ $variant(Placed<$type>),)*
        }

        impl Table for $name {
            const NOUN: &'static str = "a layer";

            fn read(entries: &Entries<'_>, faults: &mut Faults) -> Option<Self> {
                $(if let Some(table) = entries.take::<Option<_>>($key, faults)? {
                    return entries.only_one(HINT, faults).then_some(Self::$variant(table));
                })*
                entries.only_one(HINT, faults);
                None
            }

            fn keys() -> Vec<Key> {
                vec![$(<Option<Placed<$type>> as Field>::key($key, concat!($($help),+))),*]
            }

            fn all_keys() -> Vec<Key> {
                Self::keys()
            }

            fn names() -> Vec<&'static str> {
                vec![$($key),*]
            }
        }
    };
}

one_of! {
    /// One layer.
    enum LayerTable {
        /// RAM disks of the kernel's brd.
        Ram "ram": MadeLayer,
        /// Compressed RAM disks: several µs per write, which flatters the layers above.
        Zram "zram": MadeLayer,
        /// null_blk, memory-backed, with a request queue.
        Null "null": NullLayer,
        /// Files of this machine as block devices, with direct I/O where it is possible.
        Loop "loop": LoopLayer,
        /// Existing block devices, each of which --destroy must name.
        Device "device": DeviceLayer,
        /// A software RAID array of the kernel's md.
        Md "md": MdLayer,
        /// A logical volume.
        Lvm "lvm": LvmLayer,
        /// A target of the device mapper over one device.
        Dm "dm": DmLayer,
        /// An ext4 filesystem.
        Ext4 "ext4": FilesystemLayer,
        /// An XFS filesystem.
        Xfs "xfs": FilesystemLayer,
        /// A Btrfs over all devices below.
        Btrfs "btrfs": BtrfsLayer,
        /// A ZFS pool over all devices below, and a filesystem.
        Zfs "zfs": ZfsLayer,
    }
}

table! {
    /// What every layer may have.
    struct Common {
        /// The devices below in so many equal groups, in order, each of which becomes one device.
        /// Default: 1.
        groups: One<u32>,
        /// false: built, but no workload is run on it. Default: true.
        measured: One<bool>,
    }
}

table! {
    /// Devices that durio makes.
    struct MadeTable {
        /// How many. Default: 1.
        count: One<u32>,
        /// Bytes of each.
        size: Placed<Bytes>,
    }
}

table! { struct MadeLayer "the layer" [made: MadeTable, common: Common] {} }

table! {
    struct NullLayer "the layer" [made: MadeTable, common: Common] {
        /// Time from a request's start to its completion, by a timer. Default: at once.
        completion: One<Delay>,
        /// Requests that each device works on at once; more of them wait. Default: 64, as the
        /// driver has it.
        queue_depth: One<u32>,
    }
}

table! {
    struct LoopLayer "the layer" [made: MadeTable, common: Common] {
        /// Where the files are. Default: that for temporary files.
        directory: One<String>,
    }
}

table! {
    struct DeviceLayer "the layer" [common: Common] {
        /// A device or a list of devices, by paths below /dev.
        path: Placed<Texts>,
    }
}

table! {
    struct MdLayer "the layer" [common: Common] {
        /// 0, 1, 4, 5, 6 or 10.
        level: Placed<MdLevel>,
        /// mdadm's word: n2, f2, o2, left-symmetric … Default: that of mdadm.
        layout: One<String>,
        /// Bytes on a member before the next one. Default: that of mdadm.
        chunk: One<Bytes>,
        /// none, internal, lockless, or external:FILE on another filesystem: it is made in a new
        /// folder of durio's own beside that path. Default: none.
        bitmap: One<MdBitmap>,
        /// Bytes of the array per bit. Default: that of mdadm.
        bitmap_chunk: One<Bytes>,
        /// Partial parity log, of level 5. Default: false.
        ppl: One<bool>,
        /// The last device is the journal, of levels 4 to 6. Default: false.
        journal: One<bool>,
        /// Members are made equal before anything is measured, however long it takes. Default:
        /// false, for new devices are all zeros.
        initial_sync: One<bool>,
        /// So many members are failed and removed, the last ones. Default: 0.
        removed: One<u32>,
        /// true adds a stack NAME-degraded, of which one member more is removed. Default: false.
        degraded: One<bool>,
    }
}

table! {
    struct LvmLayer "the layer" [common: Common] {
        /// How it lies on the devices. Default: linear.
        layout: One<LvmLayout>,
        /// Stripe size of striped and raid10. Default: that of LVM.
        chunk: One<Bytes>,
    }
}

table! {
    struct DmLayer "the layer" [common: Common] {
        /// Which of its targets.
        target: Placed<DmName>,
        /// With delay: what every access takes more, in whole milliseconds.
        delay: One<Delay>,
        /// With flakey: how long it works, in whole seconds.
        up: One<Delay>,
        /// With flakey: how long it fails then, in whole seconds.
        down: One<Delay>,
    }
}

table! {
    /// Words for programs that make and mount.
    struct FilesystemTable {
        /// Words for the program that makes it, of those listed below: no device, label or file.
        mkfs: One<Texts>,
        /// Options with which it is mounted, of those listed below.
        mount: One<Texts>,
    }
}

table! { struct FilesystemLayer "the layer" [options: FilesystemTable, common: Common] {} }

table! {
    struct BtrfsLayer "the layer" [options: FilesystemTable, common: Common] {
        /// Copies of data and metadata. Default: single.
        profile: One<BtrfsProfile>,
    }
}

table! {
    struct ZfsLayer "the layer" [common: Common] {
        /// How the devices are joined. Default: single.
        layout: One<ZfsLayout>,
        /// Of the filesystem, of those listed below: "recordsize=4k".
        properties: One<Texts>,
        /// Of the pool, of those listed below: "ashift=12".
        pool_properties: One<Texts>,
    }
}

table! {
    /// `[target]`.
    struct TargetTable {
        /// Bytes of the file on a filesystem, or a share of its free space. Default: 1 GiB, at most
        /// a tenth of the free space.
        size: One<Amount>,
        /// What is touched of each device, from its begin, at most all of it. Default: size if that
        /// is in bytes, else 100%.
        region: One<Amount>,
        /// Where a layer has several devices: only the first is measured, or all side by side.
        /// Default: one.
        raw: One<RawDevices>,
        /// How a file is laid out before. Default: incompressible.
        layout: One<FileLayout>,
        /// One file that all jobs share, or one for each. Default: shared.
        files: One<Files>,
    }
}

table! {
    /// `[[published]]`.
    struct PublishedTable "what was published" {
        /// Name of a stack, with the values of its axes.
        stack: Placed<String>,
        /// Which of its layers, by its word: md, xfs. Default: the uppermost.
        layer: One<String>,
        /// Name of a step; if it is several workloads, that of one, as a report has it: write,
        /// o_dsync.
        workload: Placed<String>,
        /// Which point of its ladder, where jobs are one of its axes.
        jobs: One<u32>,
        /// Its rate as a share of the raw device's: 0.0274. Required.
        share_of_raw: One<f64>,
        /// Its rate, in accesses per second.
        rate: One<f64>,
        /// Where it stands. Default: the source of the file.
        source: One<String>,
    }
}

word_enums! {
    /// A target of the device mapper.
    DmName { "linear" => Linear, "crypt" => Crypt, "delay" => Delay, "flakey" => Flakey }
}

words! {
    RawDevices { "one" => One, "all" => All }
    LvmLayout { "linear" => Linear, "striped" => Striped, "raid1" => Raid1, "raid10" => Raid10 }
    BtrfsProfile { "single" => Single, "raid1" => Raid1, "raid10" => Raid10 }
    ZfsLayout { "single" => Single, "mirror" => Mirror, "raidz1" => Raidz1, "raidz2" => Raidz2 }
}

/// A level of md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MdLevel(pub(crate) u8);

impl Value for MdLevel {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        let level = u32::read(item)?;
        match u8::try_from(level) {
            Ok(level @ (0 | 1 | 4 | 5 | 6 | 10)) => Ok(Self(level)),
            _ => Err(item.fail(format!("{level} is no level: 0, 1, 4, 5, 6 or 10"))),
        }
    }

    fn form() -> Form {
        Form::new("0, 1, 4, 5, 6, 10", json!({ "enum": [0, 1, 4, 5, 6, 10] }))
    }
}

impl Value for MdBitmap {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        item.text(|text| match text {
            "none" => Ok(Self::None),
            "internal" => Ok(Self::Internal),
            "lockless" => Ok(Self::Lockless),
            _ => match text.strip_prefix("external:") {
                Some(file) if file.starts_with('/') => Ok(Self::External(file.to_owned())),
                Some(_) => Err("the file of an external bitmap is not named".to_owned()),
                None => Err(none_of(text, &["none", "internal", "lockless", "external:/FILE"])),
            },
        })
    }

    fn form() -> Form {
        Form::pattern(
            "none, internal, lockless, `\"external:/FILE\"`",
            "^(none|internal|lockless|external:/.+)$",
        )
    }
}

/// A table whose keys are names of axes, with lists of values; read before the rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axes;

impl Value for Axes {
    fn read(item: Item<'_>) -> Result<Self, SpecError> {
        Err(item.fail("expected a table"))
    }

    fn form() -> Form {
        let axis = json!({ "type": "array", "minItems": 1 });
        let schema = json!({ "type": "object", "additionalProperties": axis });
        Form::new("`chunk = [\"4KiB\", \"64KiB\"]`", schema)
    }
}

/// The JSON schema (draft 2020-12) of stack specs, for editors that check TOML by one.
#[must_use]
pub fn stack_spec_json_schema() -> String {
    let keys = StackFile::all_keys();
    let mut schema = reference::file("durio stack spec", &keys, &shared_keys());
    with_axes(&mut schema["properties"]["stack"]["items"]);
    format!("{schema:#}\n")
}

/// Where an axis may stand: `"{AXIS}"` instead of any value, and in the key of a layer.
fn with_axes(schema: &mut Json) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(properties) = fields.get_mut("properties").and_then(Json::as_object_mut) {
        properties.values_mut().for_each(with_axes);
        fields.insert("patternProperties".to_owned(), json!({ "[{]": { "type": "object" } }));
    } else if let Some(items) = fields.get_mut("items").filter(|items| items["type"] == "object") {
        with_axes(items);
    } else if fields.get("anyOf").is_none() {
        let description = fields.remove("description");
        let own = Json::Object(std::mem::take(fields));
        fields.insert("anyOf".to_owned(), json!([own, { "type": "string", "pattern": "[{]" }]));
        fields.extend(description.map(|text| ("description".to_owned(), text)));
    }
}

/// Tables of all keys that are not those of campaigns, and of the words that programs are given, as
/// Markdown.
#[must_use]
pub fn stack_spec_reference() -> String {
    let words = tool_words_reference();
    format!("{}\n### Words for mkfs, mount and ZFS\n{words}", reference::tables(&sections()))
}

/// Every table with the heading under which it is described.
fn sections() -> Vec<(&'static str, Vec<Key>)> {
    vec![
        ("The file", [Head::keys(), StackFile::keys(), Steps::keys()].concat()),
        ("The file: what is made", First::keys()),
        ("[[stack]]", StackTable::keys()),
        ("A layer", LayerTable::keys()),
        ("Every layer", Common::keys()),
        ("ram, zram, null and loop", MadeTable::keys()),
        ("null", NullLayer::keys()),
        ("loop", LoopLayer::keys()),
        ("device", DeviceLayer::keys()),
        ("md", MdLayer::keys()),
        ("lvm", LvmLayer::keys()),
        ("dm", DmLayer::keys()),
        ("ext4, xfs and btrfs", FilesystemTable::keys()),
        ("btrfs", BtrfsLayer::keys()),
        ("zfs", ZfsLayer::keys()),
        ("[target]", TargetTable::keys()),
        ("[[published]]", PublishedTable::keys()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::check_reference;

    #[test]
    fn the_reference_and_the_schema_are_what_the_code_says() {
        let (schema, words) = (stack_spec_json_schema(), stack_spec_reference());
        check_reference("stack-spec", &schema, &words, &sections());
    }
}
