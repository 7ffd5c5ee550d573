//! null_blk, memory-backed: disks with a request queue that do nothing, or take a declared time.

use super::prelude::*;
use crate::permit::{NULL_CONFIG, PermittedWrite};

pub(crate) const KIND: KindEntry = KindEntry {
    word: "null",
    help: "null_blk, memory-backed, with a request queue.",
    role: LayerRole::Source,
    drivers: &[CONFIGFS, DRIVER],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

const CONFIGFS: Driver = Driver::filesystem("configfs", "configuration of null_blk");
const DRIVER: Driver = Driver {
    module: "null_blk",
    purpose: "disks that do nothing",
    shown: DriverSign::At(NULL_CONFIG),
};

spec_keys! {
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Null {
        /// How many, and how large.
        #[serde(flatten)]
        pub made: NewDevices,
        /// Time from a request's start to its completion, by a timer. Default: at once.
        #[serde(rename = "completion_ns", default, skip_serializing_if = "Option::is_none")]
        pub completion: Option<Nanos>,
        /// Requests in flight per device; further ones wait. Default: 64, the driver's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub queue_depth: Option<u32>,
    }
}

impl BuildableLayer for Null {
    fn label(&self) -> Vec<String> {
        let completion = self.completion.map(|span| format!("completion {span}"));
        let depth = self.queue_depth.map(|depth| format!("depth {depth}"));
        [self.made.label(KIND.word)].into_iter().chain(completion).chain(depth).collect()
    }

    fn needs(&self) -> Vec<Missing> {
        vec![DRIVER.missing()]
    }

    fn check(&self, _below: Below) -> Result<Below, CheckFault> {
        // Beyond BLK_MQ_MAX_DEPTH the kernel silently takes less (block/blk-mq.c).
        if let Some(depth) = self.queue_depth.filter(|depth| !(1..=10_240).contains(depth)) {
            return Err(format!("its queue_depth is {depth}; 1 to 10240 can be had"));
        }
        // Its size is given in MiB (Documentation/block/null_blk.rst).
        self.made.check(Bytes::from_mib(1))
    }

    fn sizes(&self, _below: SizesBelow<'_>) -> Vec<Bytes> {
        self.made.sizes()
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, _below: &[String]) -> PlannedLayer {
        draft.load(CONFIGFS.module, &[]);
        draft.push(Action::MountConfigfs, None);
        // By itself the driver makes one disk when it is loaded, which no journal would know.
        draft.load(DRIVER.module, &["nr_devices=0"]);
        let devices = (0..self.made.count).map(|n| self.one_disk(draft, n)).collect();
        draft.wait_for(devices, self.made.size)
    }

    fn made(&mut self) -> Option<&mut NewDevices> {
        Some(&mut self.made)
    }
}

impl Null {
    /// Since Linux 5.19 the device has the name of its directory in configfs.
    fn one_disk(&self, draft: &mut PlanDraft<'_>, n: u32) -> String {
        let name = format!("{}n{n}", draft.place.tag());
        let path = format!("{NULL_CONFIG}/{name}");
        let undo = Undo::RemoveNull(RemoveNull { name: name.clone() });
        draft.push(Action::MakeDirectory { path: path.clone() }, Some(undo));
        let mut set = |file: &str, value| draft.write(format!("{path}/{file}"), value);
        // Otherwise writes are discarded, and a filesystem cannot stand on it.
        set("memory_backed", 1);
        set("size", self.made.size.get() >> 20);
        if let Some(completion) = self.completion {
            // Completion by a timer (Documentation/block/null_blk.rst).
            set("irqmode", 2);
            set("completion_nsec", completion.get());
        }
        if let Some(depth) = self.queue_depth {
            // One queue has all of the device's tags, whichever processor submits.
            set("submit_queues", 1);
            set("hw_queue_depth", depth.into());
        }
        // Last: the disk is made with the contents of the other files at this moment.
        set("power", 1);
        format!("/dev/{name}")
    }
}

/// A device of null_blk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNull {
    /// Its name in configfs.
    pub(crate) name: String,
}

impl UndoStep for RemoveNull {
    fn text(&self) -> String {
        let name = &self.name;
        format!("write 0 to {NULL_CONFIG}/{name}/power, remove directory {NULL_CONFIG}/{name}")
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let directory = format!("{NULL_CONFIG}/{}", self.name);
        Ok(LiveThing::of(&directory, prover.system.file_identity(Path::new(&directory))))
    }

    /// Its name has this build's tag.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let power = Path::new(proven.target()).join("power");
        in_words(undoer.system.write(&PermittedWrite::undoing(proven, &power, "0")))?;
        in_words(undoer.system.remove_directory(proven)).map(|()| Undone::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{ext4, made, md, plan, stack};
    use crate::{DeclaredKind, DeclaredStack, check_declared};

    fn null(made: NewDevices, queue_depth: Option<u32>) -> DeclaredKind {
        DeclaredKind::Null(Null { made, completion: Some(Nanos::from_micros(20)), queue_depth })
    }

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![null(made(2, 64), None), DeclaredKind::Md(md(0)), ext4()])]
    }

    #[test]
    fn a_disk_is_configured_before_it_is_switched_on() {
        assert_eq!(
            plan(vec![null(made(1, 64), Some(4))])[3..],
            [
                "make directory /sys/kernel/config/nullb/durioabc1234n0  | write 0 to \
                 /sys/kernel/config/nullb/durioabc1234n0/power, remove directory \
                 /sys/kernel/config/nullb/durioabc1234n0",
                "write 1 to /sys/kernel/config/nullb/durioabc1234n0/memory_backed",
                "write 64 to /sys/kernel/config/nullb/durioabc1234n0/size",
                "write 2 to /sys/kernel/config/nullb/durioabc1234n0/irqmode",
                "write 20000 to /sys/kernel/config/nullb/durioabc1234n0/completion_nsec",
                "write 1 to /sys/kernel/config/nullb/durioabc1234n0/submit_queues",
                "write 4 to /sys/kernel/config/nullb/durioabc1234n0/hw_queue_depth",
                "write 1 to /sys/kernel/config/nullb/durioabc1234n0/power",
                "wait until /dev/durioabc1234n0 is there",
            ]
        );
    }

    #[test]
    fn a_disk_completes_at_once_and_has_the_driver_s_queue_unless_it_is_declared_otherwise() {
        let plain = Null { made: made(2, 96), completion: None, queue_depth: None };
        assert_eq!(plain.label(), ["2 × null 96 MiB"]);
        let plan = plan(vec![DeclaredKind::Null(plain)]);
        let second = "/sys/kernel/config/nullb/durioabc1234n1";
        assert_eq!(plan.len(), 3 + 2 * 4 + 2, "{plan:?}");
        assert_eq!(
            plan[8..],
            [
                format!("write 1 to {second}/memory_backed"),
                format!("write 96 to {second}/size"),
                format!("write 1 to {second}/power"),
                "wait until /dev/durioabc1234n0 is there".to_owned(),
                "wait until /dev/durioabc1234n1 is there".to_owned(),
            ]
        );
        let slow = Null {
            made: made(1, 64),
            completion: Some(Nanos::from_micros(70)),
            queue_depth: Some(3),
        };
        assert_eq!(slow.label(), ["null 64 MiB", "completion 70 µs", "depth 3"]);
    }

    #[test]
    fn sizes_are_whole_mib_and_queues_what_the_kernel_takes() {
        let odd = NewDevices { count: 1, size: Bytes::from_kib(1500) };
        assert!(check_declared(&stack(vec![null(odd, None)])).is_err());
        for (depth, fits) in [(0, false), (1, true), (10_240, true), (10_241, false)] {
            let declared = stack(vec![null(made(1, 64), Some(depth))]);
            assert_eq!(check_declared(&declared).is_ok(), fits, "{depth}");
        }
    }
}
