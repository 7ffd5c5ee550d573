//! The simulated disks of one guest, which share its power.
//!
//! A target and a seed give disks that are served, cut and restored together.

use std::path::Path;

use durio_base::Nanos;
use durio_command::CommandError;
use durio_lab::LabDisk;
use durio_plan::proof::{GuestFrontEnd, GuestTarget};
use durio_simdisk::{Disk, DiskRequest, Lie, NamedProfile, Profile, SharedDisk};
use durio_workload::job_seed;

use crate::background::BackgroundServer;
use crate::serving::Advertisement;
use crate::simulation;

/// Disks of one profile.
#[derive(Debug)]
pub(super) struct GuestDisks {
    disks: Vec<SharedDisk>,
    /// Each serves a disk while it is here.
    servers: Vec<BackgroundServer>,
    /// Lies of each lying disk, in force once the layers are made.
    lies: Vec<Lie>,
    /// The only liar; all are, without it.
    liar: Option<u32>,
}

impl GuestDisks {
    /// As many as the target's layers take; each is new and, for now, honest.
    pub(super) fn new(
        target: &GuestTarget,
        named: &NamedProfile,
        seed: u64,
    ) -> Result<Self, CommandError> {
        let lying = named.profile(target.size.get());
        let advertised = Advertisement::of(&lying);
        let honest = Profile { lies: Vec::new(), ..lying.clone() };
        // A cut leaves something else of each.
        let seeds = (0..target.layers.disks()).map(|number| job_seed(seed, number.into(), 2));
        let disk = |seed| SharedDisk::new(Disk::new(honest.clone(), seed));
        let disks: Vec<SharedDisk> = seeds.map(disk).collect();
        let servers = disks.iter().map(|disk| BackgroundServer::start(disk, advertised));
        let servers = servers.collect::<Result<_, _>>().map_err(CommandError::cannot)?;
        Ok(Self { disks, servers, lies: lying.lies, liar: target.liar })
    }

    /// As the guest has them.
    pub(super) fn in_lab(&self, target: &GuestTarget) -> Vec<LabDisk> {
        let disk = |(number, server): (usize, &BackgroundServer)| LabDisk {
            serial: format!("durio-proof-{number}"),
            ..lab_disk(server.socket(), target.front_end, target.write_cache)
        };
        self.servers.iter().enumerate().map(disk).collect()
    }

    /// The disk whose crash states are read: no array has them (durio-spec).
    pub(super) fn only(&self) -> &SharedDisk {
        &self.disks[0]
    }

    /// Only when the layers are made: a filesystem must be there to be tested.
    pub(super) fn begin_to_lie(&self, now: Nanos) -> Result<(), CommandError> {
        let is_liar = |number: u32| self.liar.is_none_or(|liar| liar == number);
        for (_, disk) in (0..).zip(&self.disks).filter(|(number, _)| is_liar(*number)) {
            let disk = &mut *disk.lock();
            if self.lies.contains(&Lie::ClaimsWriteThrough) {
                // A disk that claims write-through gets no flushes later.
                disk.carry_out(0, now, DiskRequest::Flush, &mut [])
                    .map_err(CommandError::cannot)?;
            }
            self.lies.iter().for_each(|&lie| disk.add_lie(lie));
        }
        Ok(())
    }

    /// Takes the power of all away in one instant.
    pub(super) fn cut(&self) {
        simulation::cut_power(&self.disks);
    }

    /// Restores the power; returns whether each disk came back with its old size.
    pub(super) fn restore(&self) -> bool {
        self.disks.iter().all(simulation::restore_power)
    }
}

/// A disk of a guest, without its serial number.
pub(crate) fn lab_disk(socket: &Path, front_end: GuestFrontEnd, write_cache: bool) -> LabDisk {
    LabDisk {
        socket: socket.to_owned(),
        export: String::new(),
        front_end,
        write_cache,
        serial: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use durio_base::{Bytes, RaidLevel};
    use durio_plan::EngineKind;
    use durio_plan::proof::GuestLayers;
    use durio_simdisk::named;

    use super::*;

    const SECTOR: usize = 512;

    fn array(profile: &str) -> GuestDisks {
        let target = GuestTarget {
            profile: profile.into(),
            liar: None,
            size: Bytes::from_mib(1),
            front_end: GuestFrontEnd::VirtioBlk,
            write_cache: true,
            layers: GuestLayers::md(RaidLevel::Raid5),
            engine: EngineKind::Uring,
            kernel: None,
            enumerated: false,
        };
        let disks = GuestDisks::new(&target, named(profile).unwrap(), 7).unwrap();
        let serials: Vec<String> =
            disks.in_lab(&target).into_iter().map(|disk| disk.serial).collect();
        assert_eq!(serials, ["durio-proof-0", "durio-proof-1", "durio-proof-2"]);
        disks
    }

    /// Writes a sector to each disk, flushes it, and says on which it stands after a cut.
    fn kept(disks: &GuestDisks) -> Vec<bool> {
        let data = [7; SECTOR];
        for disk in &disks.disks {
            let mut disk = disk.lock();
            let write = DiskRequest::Write { sector: 8, data: &data, fua: false };
            disk.carry_out(0, Nanos::new(1), write, &mut []).unwrap();
            disk.carry_out(0, Nanos::new(2), DiskRequest::Flush, &mut []).unwrap();
        }
        disks.cut();
        assert!(disks.disks.iter().all(|disk| disk.lock().stats().cuts == 1));
        assert!(disks.restore());
        let reads = disks.disks.iter().map(|disk| {
            let mut found = [0; SECTOR];
            let read = DiskRequest::Read { sector: 8 };
            disk.lock().carry_out(0, Nanos::new(3), read, &mut found).unwrap();
            found == data
        });
        reads.collect()
    }

    #[test]
    fn all_disks_of_an_array_lose_their_power_and_keep_what_was_flushed() {
        let disks = array("write-back");
        disks.begin_to_lie(Nanos::new(0)).unwrap();
        assert_eq!(kept(&disks), [true; 3]);
    }

    #[test]
    fn each_disk_of_an_array_lies_once_it_is_told_to() {
        let disks = array("dies");
        disks.begin_to_lie(Nanos::new(0)).unwrap();
        disks.cut();
        assert!(disks.restore());
        for _ in 0..2 {
            disks.cut();
            let _ = disks.restore();
        }
        assert!(!disks.restore());
        assert_eq!(kept(&array("flush-ignored")), [true; 3], "not yet");
    }
}
