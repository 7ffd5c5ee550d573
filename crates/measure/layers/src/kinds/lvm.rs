//! Logical volumes: one group of each group of devices, with one volume.

use super::dm::MAPPER;
use super::prelude::*;
use crate::check::MOST_LAYERS;
use crate::place::volume_uuid;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "lvm",
    help: "A logical volume.",
    role: LayerRole::Devices,
    drivers: &[MAPPER, RAID],
    tools: &[],
    superblock: Some(SuperblockFormat { signatures: &["lvm2"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const RAID: Driver = Driver::module("dm_raid", "RAID of logical volumes");

/// The one volume of a group.
const VOLUME: &str = "data";

// One extent of 4 MiB behind the first MiB, where LVM keeps its metadata, and one for the metadata
// of a copy.
const LEAST: Bytes = Bytes::from_mib(9);

spec_keys! {
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Lvm {
        /// Layout on the devices. Default: linear.
        pub layout: LvmLayout = LvmLayout::Linear,
        /// Stripe size of striped and raid10. Default: LVM's own.
        #[serde(rename = "chunk_bytes", default, skip_serializing_if = "Option::is_none")]
        pub chunk: Option<Bytes>,
    }
}

spec_words! {
    /// Layout of a logical volume.
    pub enum LvmLayout {
        /// One device after the other.
        Linear = "linear",
        /// Striped over all devices.
        Striped = "striped",
        /// As many copies as devices.
        Raid1 = "raid1",
        /// Striped over pairs.
        Raid10 = "raid10",
    }
}

impl LvmLayout {
    const fn is_raid(self) -> bool {
        matches!(self, Self::Raid1 | Self::Raid10)
    }
}

impl BuildableLayer for Lvm {
    fn label(&self) -> Vec<String> {
        let chunk = self.chunk.map(|chunk| format!("chunk {chunk}"));
        [KIND.word, self.layout.word()].map(str::to_owned).into_iter().chain(chunk).collect()
    }

    fn needs(&self) -> Vec<Missing> {
        let raid = self.layout.is_raid().then(|| RAID.missing());
        [Missing::program("lvm", "lvm2"), MAPPER.missing()].into_iter().chain(raid).collect()
    }

    /// lvmraid(7): raid1 takes two devices or more, raid10 four or more. A stripe size is a power of
    /// two from 4 KiB up to an extent, by default 4 MiB (lvcreate(8)).
    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        let group = below.group()?;
        let devices = group.devices;
        let (least, data) = match self.layout {
            LvmLayout::Linear => (1, devices),
            LvmLayout::Striped => (2, devices),
            LvmLayout::Raid1 => (2, 1),
            LvmLayout::Raid10 => (4, devices / 2),
        };
        if devices < least {
            return Err(format!("this layout needs at least {least} devices, but has {devices}"));
        }
        if self.layout == LvmLayout::Raid10 && devices % 2 == 1 {
            return Err(format!("raid10 needs an even number of devices and has {devices}"));
        }
        match (self.layout, self.chunk) {
            (LvmLayout::Linear | LvmLayout::Raid1, Some(_)) => {
                return Err("this layout has no stripes; leave the chunk out".into());
            }
            (_, Some(chunk)) => power_of_two(chunk, "the chunk", Bytes::from_mib(4))?,
            _ => (),
        }
        at_least(LEAST, group.size, "of each device")?;
        Ok(group.joined(data))
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        per_group(below, |group| match self.layout {
            LvmLayout::Raid1 => group.least,
            LvmLayout::Raid10 => group.sum / 2,
            LvmLayout::Linear | LvmLayout::Striped => group.sum,
        })
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        draft.in_groups(below, |draft, group, below| self.volume(draft, group, below))
    }
}

impl Lvm {
    fn volume(&self, draft: &mut PlanDraft<'_>, group: usize, below: &[String]) -> String {
        draft.load(MAPPER.module, &[]);
        if self.layout.is_raid() {
            draft.load(RAID.module, &[]);
        }
        // No hyphens: the device mapper doubles them.
        let name = format!("{}v{}g{group}", draft.place.tag(), draft.layer);
        let config = config_for(below);
        let lvm = |command: &str, words: &[&str]| -> Vec<String> {
            let head = [command, "--config", &config, "--yes", "--quiet"];
            head.iter().chain(words).map(|word| (*word).to_owned()).collect()
        };
        // Numbered through all groups, so that no two volumes of a layer have one identifier.
        let first = u32::try_from(group * below.len()).unwrap_or(u32::MAX);
        for (n, device) in (first..).zip(below) {
            // By its identifier the volume is known again; LVM asks for a backup with one.
            let uuid = volume_uuid(&draft.place.tag(), draft.layer, n);
            let words = lvm("pvcreate", &["--uuid", &uuid, "--norestorefile", device]);
            draft.run("lvm", &words, None);
        }
        let words: Vec<&str> = std::iter::once(&name).chain(below).map(String::as_str).collect();
        let undo = RemoveVolumeGroup { name: name.clone(), config: config.clone() };
        draft.run("lvm", &lvm("vgcreate", &words), Some(Undo::RemoveVolumeGroup(undo)));
        let mut words = lvm("lvcreate", &["--name", VOLUME, "--extents", "100%FREE"]);
        words.extend(self.layout_words(below.len()));
        words.extend(["--wipesignatures", "n", &name].map(str::to_owned));
        draft.run("lvm", &words, None);
        draft.present(format!("/dev/mapper/{name}-{VOLUME}"))
    }

    fn layout_words(&self, devices: usize) -> Vec<String> {
        let mut words = vec!["--type".to_owned(), self.layout.word().to_owned()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        match self.layout {
            LvmLayout::Linear => (),
            LvmLayout::Striped => add(&["--stripes", &devices.to_string()]),
            LvmLayout::Raid1 => {
                // A first sync of the copies would run during the workloads.
                add(&["--nosync", "--mirrors", &devices.saturating_sub(1).to_string()]);
            }
            LvmLayout::Raid10 => {
                add(&["--nosync", "--mirrors", "1", "--stripes", &(devices / 2).to_string()]);
            }
        }
        if let Some(chunk) = self.chunk {
            add(&["--stripesize", &format!("{}k", chunk.get() / 1024)]);
        }
        words
    }
}

/// LVM must neither scan nor change anything but the devices of this layer, keep no copies in
/// /etc, start no daemon, and make device nodes itself where no udev runs.
fn config_for(below: &[String]) -> String {
    let accept = |device: &String| format!("\"a|^{}$|\"", in_pattern(device));
    let accepted = below.iter().map(accept).collect::<Vec<_>>();
    let accepted = accepted.join(",");
    // With a devices file LVM passes over every filter (lvmdevices(8)); udev's list is empty where
    // no udev runs.
    format!(
        "devices {{ filter=[{accepted},\"r|.*|\"] global_filter=[{accepted},\"r|.*|\"] \
         use_devicesfile=0 obtain_device_list_from_udev=0 }} \
         backup {{ backup=0 archive=0 }} \
         activation {{ udev_sync=0 udev_rules=0 verify_udev_operations=1 monitoring=0 }}"
    )
}

// A dot or a plus sign in the name of a device must match itself alone: another device must not.
fn in_pattern(device: &str) -> String {
    let literal = |c: char| match c {
        '.' | '+' => format!("[{c}]"),
        c => c.to_string(),
    };
    device.chars().map(literal).collect()
}

/// A group of logical volumes, with its volumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveVolumeGroup {
    pub(crate) name: String,
    /// LVM's settings that keep it to our devices.
    pub(crate) config: String,
}

impl UndoStep for RemoveVolumeGroup {
    fn text(&self) -> String {
        format!("lvm vgremove --force {}", self.name)
    }

    fn fill(&mut self, values: &Values) {
        self.config = filled(&self.config, values);
    }

    fn holds_devices(&self) -> bool {
        true
    }

    /// By its name, and the identifier that LVM chose.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let config = filled(&self.config, prover.known.values);
        let groups = prover.look(ProgramQuery::Groups { config: &config })?.stdout;
        let uuid = groups.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some(&self.name)).then(|| words.next().map(str::to_owned))
        });
        Ok(LiveThing::of(&self.name, uuid.map(|uuid| LayerIdentity::of([("uuid", uuid)]))))
    }

    /// Its name has this build's tag.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::restarted()
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let name = proven.target();
        let words = ["vgremove", "--config", &self.config, "--yes", "--force", "--quiet", name];
        let ran = undoer.run(proven, "lvm", &words);
        ran.map(|_| Undone::Done).map_err(|how| format!("`lvm vgremove {name}`: {how}"))
    }
}

/// The identifier of the physical volume, and no group on it but one of this build's: another
/// group keeps the identifier (LVM, lib/format_text/layout.h).
fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    const LABEL: usize = 512;
    const METADATA: usize = 4096;
    let uuid = head.at(LABEL + 32, 32)?;
    let mut layers = (0..MOST_LAYERS).flat_map(|layer| (0..MOST_DEVICES).map(move |n| (layer, n)));
    let is_uuid = |(layer, n)| volume_uuid(tag, layer, n).replace('-', "").as_bytes() == uuid;
    let is_ours = layers.any(is_uuid) && head.at(METADATA + 4, 16)? == b" LVM2 x[5A%r0N*>";
    let text = usize::try_from(head.u64_le(METADATA + 40)?).ok()?;
    // Where the text of the group stands, from the begin of the area; zero without a group.
    let group = head.at(METADATA.checked_add(text)?, tag.len())?;
    (is_ours && (text == 0 || group == tag.as_bytes())).then_some((&["LVM2_member"], text == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Action;
    use crate::tests::stacks::{TAG, ext4, on_loops, place, plan_above, ram, stack, types_on};
    use crate::{DeclaredKind, DeclaredStack, Device, commands};

    fn lvm(layout: LvmLayout, kib: Option<u64>) -> DeclaredKind {
        DeclaredKind::Lvm(Lvm { layout, chunk: kib.map(Bytes::from_kib) })
    }

    pub(super) fn examples() -> Vec<DeclaredStack> {
        [LvmLayout::Striped, LvmLayout::Raid10]
            .map(|layout| stack(vec![ram(4), lvm(layout, None), ext4()]))
            .into()
    }

    #[test]
    fn lvm_sees_only_the_devices_of_its_layer() {
        let layer = lvm(LvmLayout::Raid10, Some(64));
        let plan = commands(&stack(vec![ram(4), layer]), &place()).unwrap();
        let lvm: Vec<Vec<String>> = plan
            .iter()
            .filter_map(|command| match &command.action {
                Action::Run { program, arguments, .. } if program == "lvm" => {
                    Some(arguments.clone())
                }
                _ => None,
            })
            .collect();
        for words in &lvm {
            assert_eq!(words[1], "--config");
            let filter = r#"filter=["a|^/dev/ram0$|","a|^/dev/ram1$|","a|^/dev/ram2$|","a|^/dev/ram3$|","r|.*|"]"#;
            assert!(
                words[2].contains(filter) && words[2].contains("use_devicesfile=0"),
                "{words:?}"
            );
            assert!(words[2].contains("backup=0 archive=0"));
        }
        let tails: Vec<String> = lvm.iter().map(|words| words[5..].join(" ")).collect();
        assert_eq!(
            tails,
            [
                "--uuid 00e0f4-a51d-8265-7c01-065d-3fcb-eb126c --norestorefile /dev/ram0",
                "--uuid 144f21-ae5e-012e-0563-81ef-04f9-7e946f --norestorefile /dev/ram1",
                "--uuid dbf195-c314-68e6-7fd1-2e65-7766-a0b6ee --norestorefile /dev/ram2",
                "--uuid 4a0322-0b9e-e7ae-20ad-b228-c45a-ce4472 --norestorefile /dev/ram3",
                "durioabc1234v1g0 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3",
                "--name data --extents 100%FREE --type raid10 --nosync --mirrors 1 --stripes 2 \
                 --stripesize 64k --wipesignatures n durioabc1234v1g0",
            ]
        );
    }

    /// The words of lvcreate between the size and the name.
    fn layout_of(count: u32, layout: LvmLayout, kib: Option<u64>) -> String {
        let plan = plan_above(vec![ram(count), lvm(layout, kib)]);
        let create = plan.iter().find(|line| line.contains("lvm lvcreate ")).unwrap();
        let behind = create.split_once("100%FREE ").unwrap().1;
        behind.split_once(" --wipesignatures").unwrap().0.to_owned()
    }

    #[test]
    fn a_volume_has_stripes_and_copies_by_its_layout_and_its_devices() {
        for (count, layout, kib, expected) in [
            (3, LvmLayout::Linear, None, "--type linear"),
            (3, LvmLayout::Striped, None, "--type striped --stripes 3"),
            (5, LvmLayout::Striped, Some(128), "--type striped --stripes 5 --stripesize 128k"),
            (2, LvmLayout::Raid1, None, "--type raid1 --nosync --mirrors 1"),
            (4, LvmLayout::Raid1, None, "--type raid1 --nosync --mirrors 3"),
            (6, LvmLayout::Raid10, None, "--type raid10 --nosync --mirrors 1 --stripes 3"),
        ] {
            assert_eq!(layout_of(count, layout, kib), expected);
        }
    }

    #[test]
    fn every_group_has_its_devices_and_no_two_of_them_have_one_identifier() {
        let mut nested = stack(vec![ram(6), lvm(LvmLayout::Raid1, None)]);
        nested.layers[1].groups = 3;
        let plan = commands(&nested, &place()).unwrap();
        let lines: Vec<String> = plan.iter().map(|command| command.action.to_string()).collect();
        let uuids: std::collections::BTreeSet<&str> = lines
            .iter()
            .filter_map(|line| line.split_once("--uuid ")?.1.split(' ').next())
            .collect();
        assert_eq!(uuids.len(), 6, "{uuids:?}");
        for (group, members) in [(0, "/dev/ram0 /dev/ram1"), (2, "/dev/ram4 /dev/ram5")] {
            let end = format!("--yes --quiet durioabc1234v1g{group} {members}");
            let makes = |line: &&String| line.contains("vgcreate") && line.ends_with(&end);
            assert_eq!(lines.iter().filter(makes).count(), 1, "{lines:?}");
        }
    }

    #[test]
    fn a_dot_or_a_plus_in_a_device_s_path_lets_lvm_see_no_other_device() {
        let paths = vec!["/dev/disk/by-id/nvme.1".into(), "/dev/mapper/a+b".into()];
        let device = DeclaredKind::Device(Device { paths });
        let plan = plan_above(vec![device, lvm(LvmLayout::Linear, None)]).join("\n");
        assert!(plan.contains("\"a|^/dev/disk/by-id/nvme[.]1$|\""), "{plan}");
        assert!(plan.contains("\"a|^/dev/mapper/a[+]b$|\""), "{plan}");
    }

    #[test]
    fn logical_volumes_need_what_lvm_needs() {
        let lvm = |count, layout, kib| on_loops(count, 64, lvm(layout, kib));
        assert!(lvm(1, LvmLayout::Linear, None).is_ok());
        assert!(lvm(1, LvmLayout::Linear, Some(64)).is_err());
        assert!(lvm(2, LvmLayout::Striped, Some(64)).is_ok());
        assert!(lvm(2, LvmLayout::Striped, Some(65)).is_err());
        assert!(lvm(2, LvmLayout::Striped, Some(8192)).is_err());
        assert!(lvm(2, LvmLayout::Striped, Some(4096)).is_ok());
        assert!(lvm(1, LvmLayout::Striped, None).is_err());
        assert!(lvm(1, LvmLayout::Raid1, None).is_err() && lvm(2, LvmLayout::Raid1, None).is_ok());
        assert!(lvm(2, LvmLayout::Raid1, Some(64)).unwrap_err().contains("no stripes"));
        assert!(
            lvm(2, LvmLayout::Raid10, None)
                .unwrap_err()
                .contains("needs at least 4 devices, but has 2")
        );
        assert!(lvm(4, LvmLayout::Raid10, Some(64)).is_ok());
        assert!(lvm(5, LvmLayout::Raid10, None).unwrap_err().contains("even number"));
    }

    /// A volume group takes a physical volume over with its identifier.
    #[test]
    fn a_volume_with_a_group_of_somebody_else_is_not_ours() {
        let volume = volume_uuid(TAG, 1, 0).replace('-', "");
        let area = (4096 + 4, &b" LVM2 x[5A%r0N*>"[..]);
        types_on("lvm2", &[(544, volume.as_bytes()), area]).unwrap();
        let at = 512_u64.to_le_bytes();
        let of = |name: &[u8]| {
            types_on("lvm2", &[(544, volume.as_bytes()), area, (4136, &at), (4608, name)])
        };
        assert!(of(b"durioabc1234v1g0 {").is_ok());
        assert!(of(b"database {").is_err());
    }
}
