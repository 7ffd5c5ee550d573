//! Compressed RAM disks.
//!
//! Reading `hot_add` makes a disk and returns its number; the disk has no size until it is given
//! one (Documentation/admin-guide/blockdev/zram.rst).

use super::prelude::*;
use crate::permit::{ZRAM_ADD, zram_size_file};

pub(crate) const KIND: KindEntry = KindEntry {
    word: "zram",
    help: "Compressed RAM disks: several µs per write, which flatters the layers above.",
    role: LayerRole::Source,
    drivers: &[DRIVER],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver {
    module: "zram",
    purpose: "compressed RAM disks",
    shown: DriverSign::At("/sys/class/zram-control"),
};

spec_keys! {
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Zram {
        /// How many, and how large.
        #[serde(flatten)]
        pub made: NewDevices,
    }
}

impl BuildableLayer for Zram {
    fn label(&self) -> Vec<String> {
        vec![self.made.label(KIND.word)]
    }

    fn needs(&self) -> Vec<Missing> {
        vec![DRIVER.missing()]
    }

    fn check(&self, _below: Below) -> Result<Below, CheckFault> {
        self.made.check(Bytes::from_kib(4))
    }

    fn sizes(&self, _below: SizesBelow<'_>) -> Vec<Bytes> {
        self.made.sizes()
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, _below: &[String]) -> PlannedLayer {
        // By itself the driver makes one disk when it is loaded, which no journal would know.
        draft.load(DRIVER.module, &["num_devices=0"]);
        let devices = (0..self.made.count).map(|n| one_disk(draft, n, self.made.size)).collect();
        draft.wait_for(devices, self.made.size)
    }

    fn made(&mut self) -> Option<&mut NewDevices> {
        Some(&mut self.made)
    }
}

fn one_disk(draft: &mut PlanDraft<'_>, n: u32, size: Bytes) -> String {
    let name = format!("zram{n}");
    let undo = Undo::RemoveZram(RemoveZram { number: format!("{{{name}}}") });
    // By a program, whose answer is in a file even if this process dies: otherwise a disk with an
    // unknown number would be left.
    draft.ask("cat", &[ZRAM_ADD], &name, Some(undo));
    draft.write(zram_size_file(&format!("{{{name}}}")), size.get());
    format!("/dev/zram{{{name}}}")
}

/// A compressed RAM disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveZram {
    /// Its number, as a rule a placeholder.
    pub(crate) number: String,
}

impl UndoStep for RemoveZram {
    fn text(&self) -> String {
        format!("write {} to /sys/class/zram-control/hot_remove", self.number)
    }

    fn fill(&mut self, values: &Values) {
        self.number = filled(&self.number, values);
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let number = filled(&self.number, prover.known.values);
        // Without a number its driver was not asked, or did not answer.
        if is_open(&number) || number.parse::<u32>().is_err() {
            return Ok(None);
        }
        // Numbers are given again: the identity, not the number, says whose it is.
        let disk = disk_identity(prover.system, &format!("/sys/block/zram{number}"));
        // It is given its size later.
        Ok(LiveThing::of(&number, disk.map(|disk| disk.without("size"))))
    }

    /// Only a disk without a size can be the one that was just made.
    fn fault_of_begun(&self, prover: &Prover<'_>, found: &LiveThing) -> Option<String> {
        let size = prover.system.read(Path::new(&zram_size_file(&found.target)));
        (size.as_deref() != Some("0")).then(|| "another process has set its size".to_owned())
    }

    fn further(
        &self,
        prover: &mut Prover<'_>,
        found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        nothing_foreign_on(prover, &[format!("/dev/zram{}", found.target)])
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let disk = format!("/sys/block/zram{}", proven.target());
        undoer.write_until_gone(proven, "/sys/class/zram-control/hot_remove", &disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{btrfs, made, plan, stack};
    use crate::{BtrfsProfile, DeclaredKind, DeclaredStack};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        let zram = DeclaredKind::Zram(Zram { made: made(2, 128) });
        vec![stack(vec![zram, btrfs(BtrfsProfile::Raid1)])]
    }

    #[test]
    fn the_number_of_a_disk_is_the_kernels_answer() {
        assert_eq!(
            plan(vec![DeclaredKind::Zram(Zram { made: made(1, 64) })]),
            [
                "modprobe zram num_devices=0  (unless the driver is there)",
                "cat /sys/class/zram-control/hot_add  → {zram0}  \
                 | write {zram0} to /sys/class/zram-control/hot_remove",
                "write 67108864 to /sys/block/zram{zram0}/disksize",
                "wait until /dev/zram{zram0} is there",
            ]
        );
    }

    #[test]
    fn each_disk_has_its_own_number_and_all_are_waited_for() {
        let plan = plan(vec![DeclaredKind::Zram(Zram { made: made(2, 3) })]);
        assert_eq!(
            plan[3..],
            [
                "cat /sys/class/zram-control/hot_add  → {zram1}  \
                 | write {zram1} to /sys/class/zram-control/hot_remove",
                "write 3145728 to /sys/block/zram{zram1}/disksize",
                "wait until /dev/zram{zram0} is there",
                "wait until /dev/zram{zram1} is there",
            ]
        );
    }
}
