//! durio's arrays (docs/design/0014-raid-engine.md), each served by a separate process.
//!
//! The array is made by `durio raid create` and served by `durio raid start`, as a user would. How
//! the server is found again, proven to be ours and ended is in `server`.

mod server;

use durio_base::RaidLevel;

use super::prelude::*;
use crate::declared::GroupSizes;

pub(crate) use server::EndServer;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "raid",
    help: "An array of durio's engine, served as a block device by a process.",
    role: LayerRole::Devices,
    drivers: &[UBLK, NBD],
    tools: &[],
    superblock: Some(SuperblockFormat {
        signatures: &[durio_block::MEMBER_SIGNATURE],
        read: server::superblock,
    }),
    #[cfg(test)]
    examples: tests::examples,
};

const UBLK: Driver = Driver {
    module: "ublk_drv",
    purpose: "block devices that a process serves; Linux 6.0 or later has it",
    shown: DriverSign::At("/sys/class/misc/ublk-control"),
};

const NBD: Driver =
    Driver::module("nbd", "block devices of NBD; Linux 5.14 or later tells them apart");

// `durio raid create` says the same, but only when the devices are there.
const CHUNK_DEFAULT: Bytes = Bytes::from_kib(16);
const CHUNK_MOST: Bytes = Bytes::from_mib(1);
const QUEUES_MOST: u32 = 64;
/// Superblocks and map take over 1 MiB, and data begins at a multiple of that.
const MEMBER_LEAST: Bytes = Bytes::from_mib(4);

impl SpecScalar for RaidLevel {
    const FORM: SpecForm = SpecForm::Numbers(&Self::NUMBERS);

    fn of(value: &SpecValue) -> Option<Self> {
        Self::of_number(u32::of(value)?.try_into().ok()?)
    }
}

spec_words! {
    /// How an array reaches the layer above.
    pub enum RaidFront {
        /// As a block device of the kernel's ublk.
        Ublk = "ublk",
        /// As a block device of the kernel's NBD client.
        Nbd = "nbd",
    }
}

spec_keys! {
    /// An array of durio's engine.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Raid {
        /// 0, 1, 5, 6 or 10. Level 10 mirrors the first device with the second, and so on.
        #[serde(with = "durio_base::raid_level::as_number")]
        pub level: RaidLevel,
        /// Chunk size: a power of two from 4 KiB to 1 MiB. Default: 16 KiB.
        #[serde(rename = "chunk_bytes")]
        pub chunk: Bytes = CHUNK_DEFAULT,
        /// How it becomes a block device: ublk, of Linux 6.0 or later; or nbd, by the kernel's NBD client
        /// of Linux 5.14 or later, which costs 1.4 to 2.3 times as much. Default: ublk.
        pub front: RaidFront = RaidFront::Ublk,
        /// Queues of the block device, each served by a thread: 1 to 64, and at most as many as the machine
        /// has processors. More than one needs ublk. Default: 1.
        #[serde(default = "one_queue", skip_serializing_if = "is_one_queue")]
        pub queues: u32 = one_queue(),
    }
}

const fn one_queue() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_one_queue(queues: &u32) -> bool {
    *queues == one_queue()
}

impl RaidFront {
    const fn driver(self) -> Driver {
        match self {
            Self::Ublk => UBLK,
            Self::Nbd => NBD,
        }
    }
}

impl BuildableLayer for Raid {
    fn label(&self) -> Vec<String> {
        let mut label = vec![
            format!("durio RAID{}", self.level.number()),
            format!("chunk {}", self.chunk),
            self.front.word().into(),
        ];
        label.extend((self.queues > 1).then(|| format!("{} queues", self.queues)));
        label
    }

    fn needs(&self) -> Vec<Missing> {
        vec![self.front.driver().missing()]
    }

    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        let group = below.group()?;
        let count = group.devices;
        if !self.level.takes(count) {
            let even = match self.level {
                RaidLevel::Raid10 => "an even number of devices from",
                _ => "devices from",
            };
            let (level, (least, most)) = (self.level.number(), self.level.members());
            return Err(format!("level {level} takes {even} {least} to {most}, and has {count}"));
        }
        power_of_two(self.chunk, "the chunk", CHUNK_MOST)?;
        at_least(MEMBER_LEAST, group.size, "per member")?;
        if !(1..=QUEUES_MOST).contains(&self.queues) {
            return Err(format!("the array has 1 to {QUEUES_MOST} queues, not {}", self.queues));
        }
        if self.queues > 1 && self.level.parities() > 0 {
            return Err("levels 5 and 6 are served by one queue".into());
        }
        if self.queues > 1 && self.front == RaidFront::Nbd {
            return Err(
                "several queues take front = \"ublk\": the kernel's NBD client has one".into()
            );
        }
        Ok(group.joined(self.level.data_members(count)))
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        let held = |group: GroupSizes| {
            // 1 MiB before the data, and less than 1 MiB behind it.
            let member = group.least.saturating_sub(2 << 20).saturating_sub(self.log_most());
            let count = u32::try_from(group.count).unwrap_or(u32::MAX);
            member.saturating_mul(self.level.data_members(count).into())
        };
        per_group(below, held)
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        draft.load(self.front.driver().module, &[]);
        draft.in_groups(below, |draft, group, below| self.array(draft, group, below))
    }
}

impl Raid {
    /// The log of a member takes no more: slots for 4 MiB of chunks, or 16 of them, with a block each.
    fn log_most(&self) -> u64 {
        let chunk = self.chunk.get();
        if self.level.parities() == 0 { 0 } else { ((4 << 20) / chunk).max(16) * (chunk + 4096) }
    }

    fn array(&self, draft: &mut PlanDraft<'_>, group: usize, members: &[String]) -> String {
        let name = draft.name(group);
        // Only this user can enter it, so only our server can serve there.
        let folder = draft.place.mounts.join(&name).display().to_string();
        draft.make_directory(&folder);
        let (level, chunk) = (self.level.number().to_string(), self.chunk.get() / 1024);
        let chunk = format!("{chunk}KiB");
        let mut words = vec!["raid", "create", &name, "--level", &level, "--chunk", &chunk];
        // The permit already covers the contents of existing devices; new ones are all zeros, so
        // copies are equal.
        words.extend(["--assume-clean", "--force-signature"]);
        words.extend(members.iter().flat_map(|member| ["--destroy", member]));
        words.extend(members.iter().map(String::as_str));
        draft.run(DURIO, &words, None);
        let socket = format!("{folder}/array");
        let mut words = vec!["raid", "start", "--front", self.front.word(), "--socket", &socket];
        words.extend((self.front == RaidFront::Nbd).then_some("--attach"));
        let queues = self.queues.to_string();
        words.extend((self.queues > 1).then_some(["--queues", &queues]).into_iter().flatten());
        words.extend(members.iter().map(String::as_str));
        let device = format!("array{}-{group}", draft.layer);
        let undo = EndServer { socket: socket.clone(), members: members.to_vec() };
        draft.serve(DURIO, &words, &device, Undo::EndServer(undo));
        draft.present(format!("{{{device}}}"))
    }
}

#[cfg(test)]
mod tests {
    //! The exact words of durio's commands, limits, and the proof of an array.

    use super::*;
    use crate::tests::stacks::{
        TAG, ext4, fault, head, loops, on_loops, plan, raid, raid_by, ram, stack, types_on,
    };
    use crate::{DeclaredKind, DeclaredStack};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        let paths = ["/dev/sdx", "/dev/sdy"].map(str::to_owned).into();
        let devices = DeclaredKind::Device(crate::Device { paths });
        let mut nested = stack(vec![ram(4), raid(1), raid(0)]);
        nested.layers[1].groups = 2;
        vec![
            stack(vec![ram(4), raid(10), ext4()]),
            stack(vec![loops(2, 64), raid(1)]),
            stack(vec![ram(4), raid_by(10, RaidFront::Nbd), ext4()]),
            stack(vec![ram(2), queues(RaidFront::Ublk, 2)]),
            stack(vec![devices, raid(1), ext4()]),
            nested,
        ]
    }

    #[test]
    fn an_array_is_made_and_served_by_durio_itself() {
        let plan = plan(vec![ram(4), raid(10)]);
        let above = plan.iter().position(|line| line.contains("ublk_drv")).unwrap();
        let folder = "/run/durio/durioabc1234-1-0";
        assert_eq!(
            plan[above..],
            [
                "modprobe ublk_drv  (unless the driver is there)".to_owned(),
                format!("make directory {folder}  | remove directory {folder}"),
                "durio raid create durioabc1234-1-0 --level 10 --chunk 16KiB --assume-clean \
                 --force-signature --destroy /dev/ram0 --destroy /dev/ram1 --destroy /dev/ram2 --destroy \
                 /dev/ram3 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3"
                    .to_owned(),
                format!(
                    "durio raid start --front ublk --socket {folder}/array /dev/ram0 /dev/ram1 /dev/ram2 \
                     /dev/ram3 &  → {{array1-0}}  | durio raid stop --socket {folder}/array"
                ),
                "wait until {array1-0} is there".to_owned(),
            ]
        );
    }

    #[test]
    fn a_kernel_without_ublk_gets_the_device_by_its_nbd_client() {
        let plan = plan(vec![ram(2), raid_by(1, RaidFront::Nbd)]);
        let has = |text: &str| plan.iter().any(|line| line.contains(text));
        assert!(has("modprobe nbd ") && !has("ublk_drv"), "{plan:?}");
        assert!(has(
            "start --front nbd --socket /run/durio/durioabc1234-1-0/array --attach /dev/ram0 "
        ));
    }

    #[test]
    fn an_array_has_chunks_of_16_kib_and_one_queue_of_ublk_unless_it_is_declared_otherwise() {
        let values = SpecValues::from([("level", SpecValue::Count(1))]);
        let declared = <Raid as crate::spec::SpecField>::read(&values, "").unwrap();
        let expected = "durio RAID1, chunk 16 KiB, ublk";
        assert_eq!(DeclaredKind::Raid(declared).layer().label().join(", "), expected);
    }

    fn queues(front: RaidFront, queues: u32) -> DeclaredKind {
        DeclaredKind::Raid(Raid { level: RaidLevel::Raid1, chunk: CHUNK_DEFAULT, front, queues })
    }

    #[test]
    fn a_device_has_the_queues_that_it_shall_have() {
        let plan = plan(vec![ram(2), queues(RaidFront::Ublk, 2)]);
        assert!(plan.iter().any(|line| line.contains(" --queues 2 /dev/ram0 ")), "{plan:?}");
        for (front, count, part) in [
            (RaidFront::Ublk, 0, "1 to 64 queues, not 0"),
            (RaidFront::Ublk, 65, "1 to 64 queues, not 65"),
            (RaidFront::Nbd, 2, "several queues take front = \"ublk\""),
        ] {
            let error = on_loops(2, 64, queues(front, count)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(on_loops(2, 64, queues(RaidFront::Ublk, 64)).is_ok());
    }

    #[test]
    fn each_level_takes_the_devices_that_it_can_use() {
        for (level, fits, not) in [
            (0, [2, 32], [1, 33]),
            (1, [2, 4], [1, 5]),
            (5, [3, 16], [2, 17]),
            (6, [4, 16], [3, 17]),
            (10, [4, 32], [2, 5]),
        ] {
            for count in fits {
                on_loops(count, 64, raid(level)).unwrap();
            }
            for count in not {
                let error = on_loops(count, 64, raid(level)).unwrap_err();
                assert!(error.contains(&format!("level {level} takes ")), "{error}");
            }
        }
        let with = |chunk| {
            let (level, front) = (RaidLevel::Raid10, RaidFront::Ublk);
            on_loops(4, 64, DeclaredKind::Raid(Raid { level, chunk, front, queues: 1 }))
        };
        assert!(with(Bytes::from_kib(4)).is_ok() && with(Bytes::from_mib(1)).is_ok());
        for chunk in [Bytes::from_kib(2), Bytes::from_kib(12), Bytes::from_mib(2)] {
            assert!(with(chunk).unwrap_err().contains("the chunk"), "{chunk}");
        }
        assert!(on_loops(2, 2, raid(1)).unwrap_err().contains("per member"));
        assert!(fault(vec![raid(1)]).contains("it needs devices below it"));
    }

    fn superblock(slot: usize, name: &str, epoch: u8) -> Vec<u8> {
        let epoch = [epoch];
        let parts: [(usize, &[u8]); 4] = [
            (slot, MAGIC_BYTES),
            (slot + 16, b"0123456789abcdef"),
            (slot + 48, &epoch),
            (slot + 104, name.as_bytes()),
        ];
        head(&parts)
    }

    const MAGIC_BYTES: &[u8] = b"durioRDS";

    #[test]
    fn a_member_is_ours_by_its_name_and_unused_by_its_epoch() {
        let read = |bytes: &[u8]| server::superblock(&DeviceHead(bytes), TAG);
        let ours = format!("{TAG}-1-0");
        for slot in [0, 4096] {
            assert_eq!(read(&superblock(slot, &ours, 2)), Some((&["durio raid"][..], true)));
            assert_eq!(read(&superblock(slot, &ours, 3)), Some((&["durio raid"][..], false)));
            for name in ["", "data", TAG, "durioxyz1234-1-0"] {
                assert_eq!(read(&superblock(slot, name, 2)), None, "{name}");
            }
            assert_eq!(read(&superblock(slot + 512, &ours, 2)), None);
        }
        // The newer of two slots counts.
        let mut both = superblock(0, &ours, 2);
        both[4096..8192].copy_from_slice(&superblock(4096, &ours, 9)[4096..8192]);
        assert_eq!(read(&both), Some((&["durio raid"][..], false)));
        assert!(types_on("durio raid", &[(0, b"durioRDS")]).is_err());
    }
}
