//! RAM disks of the kernel's brd.
//!
//! brd has one size for all and one set of disks: it must not be loaded already. Unloading it
//! removes them all, so it is proven that all are this build's.

use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "ram",
    help: "RAM disks of the kernel's brd.",
    role: LayerRole::Source,
    drivers: &[BRD],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

const BRD: Driver = Driver::module("brd", "RAM disks");

spec_keys! {
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Ram {
        /// How many, and how large.
        #[serde(flatten)]
        pub made: NewDevices,
    }
}

impl BuildableLayer for Ram {
    fn label(&self) -> Vec<String> {
        vec![self.made.label(KIND.word)]
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("modprobe", "kmod"), Missing::program("rmmod", "kmod"), BRD.missing()]
    }

    fn check(&self, _below: Below) -> Result<Below, CheckFault> {
        self.made.check(Bytes::from_kib(4))
    }

    fn sizes(&self, _below: SizesBelow<'_>) -> Vec<Bytes> {
        self.made.sizes()
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, _below: &[String]) -> PlannedLayer {
        let NewDevices { count, size } = self.made;
        let size_kib = size.get() / 1024;
        // A driver that is loaded keeps its disks and their size: modprobe would change nothing and
        // succeed.
        draft.check(StepCheck::NoRamDisks(NoRamDisks));
        let words = [format!("rd_nr={count}"), format!("rd_size={size_kib}")];
        let undo = Undo::UnloadBrd(UnloadBrd { count, size_kib });
        draft.run("modprobe", &["brd", &words[0], &words[1]], Some(undo));
        draft.wait_for((0..count).map(|n| format!("/dev/ram{n}")).collect(), size)
    }

    fn made(&mut self) -> Option<&mut NewDevices> {
        Some(&mut self.made)
    }
}

/// No RAM disks are there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRamDisks;

impl Checking for NoRamDisks {
    fn text(&self) -> String {
        "check that no RAM disks of brd are there".to_owned()
    }

    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        let disks = stepper.system.names(Path::new("/sys/block"));
        let found = disks
            .iter()
            .any(|name| name.strip_prefix("ram").is_some_and(|rest| rest.parse::<u32>().is_ok()));
        // A brd that is a part of the kernel shows here too: it can be given no size, and never be
        // unloaded.
        if found || stepper.system.is_there(Path::new("/sys/module/brd")) {
            return Err(BuildError::Failed(
                "RAM disks of brd exist already and may be in use; unload them with \
                 `rmmod brd`, or declare another source"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// The RAM disks of brd, with the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnloadBrd {
    /// How many were asked for.
    pub(crate) count: u32,
    pub(crate) size_kib: u64,
}

impl UnloadBrd {
    fn nodes(&self) -> Vec<String> {
        (0..self.count).map(|n| format!("/dev/ram{n}")).collect()
    }

    fn are_as_asked(&self, prover: &Prover<'_>) -> bool {
        let parameter = |name: &str| {
            prover.system.read(Path::new(&format!("/sys/module/brd/parameters/{name}")))
        };
        parameter("rd_nr") == Some(self.count.to_string())
            && parameter("rd_size") == Some(self.size_kib.to_string())
    }

    fn are_blank(&self, prover: &Prover<'_>) -> bool {
        self.nodes().iter().all(|node| {
            let usage = prover.system.usage(Path::new(node));
            usage.is_ok_and(|usage| !usage.is_in_use() && usage.signatures.is_empty())
        })
    }
}

impl UndoStep for UnloadBrd {
    fn text(&self) -> String {
        "rmmod brd".to_owned()
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of("brd", disk_identity(prover.system, "/sys/block/ram0")))
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        let is_ours = self.are_as_asked(prover) && self.are_blank(prover);
        let fault =
            "its RAM disks are not those that this bench asked for, or something is on them";
        (!is_ours).then(|| fault.to_owned())
    }

    fn further(
        &self,
        prover: &mut Prover<'_>,
        _found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        nothing_foreign_on(prover, &self.nodes())
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        undoer.run_until(proven, "rmmod", &[proven.target()], |system| {
            !system.is_there(Path::new("/sys/module/brd"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{btrfs, ext4, fault, made, plan, ram, stack};
    use crate::{BtrfsProfile, DeclaredKind, DeclaredStack};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![ram(1), ext4()]), stack(vec![ram(2), btrfs(BtrfsProfile::Raid1)])]
    }

    #[test]
    fn the_driver_is_loaded_with_number_and_size_of_the_disks() {
        assert_eq!(
            plan(vec![ram(2)])[..2],
            [
                "check that no RAM disks of brd are there",
                "modprobe brd rd_nr=2 rd_size=524288  | rmmod brd",
            ]
        );
    }

    #[test]
    fn a_sensible_number_of_whole_pages_is_made() {
        for (count, size) in [(0, 1 << 20), (257, 1 << 20), (u32::MAX, 1 << 20), (1, 0), (1, 1000)]
        {
            let made = NewDevices { count, size: Bytes::new(size) };
            assert!(fault(vec![DeclaredKind::Ram(Ram { made })]).contains("ram"), "{made:?}");
        }
        assert_eq!(DeclaredKind::Ram(Ram { made: made(2, 8) }).made(), Some(made(2, 8)));
    }
}
