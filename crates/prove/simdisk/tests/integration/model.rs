//! The disk against a model that shares nothing with it: for each sector the versions in their order,
//! and which of them was promised.

use durio_base::Nanos;
use durio_simdisk::{CacheKind, Disk, DiskError, DiskRequest, Lie, Profile, SECTOR, Ticket};
use proptest::prelude::*;

const SECTORS: u64 = 64;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write {
        sector: u64,
        sectors: u64,
        fua: bool,
    },
    Flush,
    /// Ends the request that has been in flight for this many others.
    End(usize),
    Cut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write =
        (0..SECTORS, 1_u64..20, prop::bool::weighted(0.3)).prop_map(|(sector, sectors, fua)| {
            Step::Write { sector, sectors: sectors.min(SECTORS - sector), fua }
        });
    let step = prop_oneof![
        4 => write,
        2 => Just(Step::Flush),
        6 => (0_usize..4).prop_map(Step::End),
        1 => Just(Step::Cut),
    ];
    prop::collection::vec(step, 1..60)
}

/// What was asked of one sector since it was last known, oldest first.
#[derive(Debug, Clone)]
struct Versions {
    /// The version, and whether it must be there at least.
    list: Vec<u64>,
}

#[derive(Debug)]
enum Asked {
    Write {
        sector: u64,
        sectors: u64,
        fua: bool,
    },
    /// The writes that had ended when it began.
    Flush {
        covers: Vec<(u64, u64, u64)>,
    },
}

struct Model {
    sectors: Vec<Versions>,
    ended: Vec<(u64, u64, u64)>,
    in_flight: Vec<(Ticket, u64, Asked)>,
    version: u64,
    kind: CacheKind,
}

impl Model {
    fn promise(&mut self, (sector, sectors, version): (u64, u64, u64)) {
        for at in sector..sector + sectors {
            let list = &mut self.sectors[usize::try_from(at).unwrap()].list;
            if let Some(place) = list.iter().position(|&listed| listed == version) {
                list.drain(..place);
            }
        }
    }

    /// A write may not begin where one is in flight: the order of such two is nobody's.
    fn is_free(&self, sector: u64, sectors: u64) -> bool {
        self.in_flight.iter().all(|(_, _, asked)| match asked {
            Asked::Write { sector: other, sectors: length, .. } => {
                other + length <= sector || sector + sectors <= *other
            }
            Asked::Flush { .. } => true,
        })
    }

    fn end(&mut self, version: u64, asked: Asked) {
        match asked {
            Asked::Write { sector, sectors, fua } => {
                let write = (sector, sectors, version);
                self.ended.push(write);
                if fua || self.kind != CacheKind::WriteBack {
                    self.promise(write);
                }
            }
            Asked::Flush { covers } => covers.into_iter().for_each(|write| self.promise(write)),
        }
    }
}

fn data(version: u64, sectors: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(usize::try_from(sectors).unwrap() * SECTOR / 8)
}

/// Takes the steps; an error is a sector that holds what it must not.
fn live(profile: Profile, seed: u64, steps: &[Step]) -> Result<u64, String> {
    let kind = profile.cache;
    let mut disk = Disk::new(profile, seed);
    let versions = Versions { list: vec![0] };
    let mut model = Model {
        sectors: vec![versions; usize::try_from(SECTORS).unwrap()],
        ended: Vec::new(),
        in_flight: Vec::new(),
        version: 0,
        kind,
    };
    let mut lost = 0;
    for (now, &step) in (0..).map(|step| Nanos::new(step * 1_000_000)).zip(steps) {
        match step {
            Step::Write { sector, sectors, fua } if model.is_free(sector, sectors) => {
                model.version += 1;
                let bytes = data(model.version, sectors);
                let ticket =
                    disk.begin(0, now, DiskRequest::Write { sector, data: &bytes, fua }).unwrap();
                for at in sector..sector + sectors {
                    model.sectors[usize::try_from(at).unwrap()].list.push(model.version);
                }
                model.in_flight.push((
                    ticket,
                    model.version,
                    Asked::Write { sector, sectors, fua },
                ));
            }
            Step::Write { .. } => {}
            Step::Flush => {
                let ticket = disk.begin(1, now, DiskRequest::Flush).unwrap();
                let covers = model.ended.clone();
                model.in_flight.push((ticket, 0, Asked::Flush { covers }));
            }
            Step::End(which) if which < model.in_flight.len() => {
                let (ticket, version, asked) = model.in_flight.remove(which);
                disk.end(ticket, now, &mut []).unwrap();
                model.end(version, asked);
            }
            Step::End(_) => {}
            Step::Cut => {
                disk.cut();
                assert_eq!(disk.begin(0, now, DiskRequest::Flush), Err(DiskError::Gone));
                disk.restore().unwrap();
                model.in_flight.clear();
                model.ended.clear();
                lost += check(&mut disk, &mut model, now)?;
            }
        }
    }
    Ok(lost)
}

/// Every sector holds a version that it may; from now on that one is certain. Counts those that lost one.
fn check(disk: &mut Disk, model: &mut Model, now: Nanos) -> Result<u64, String> {
    let mut lost = 0;
    for (at, versions) in (0..).zip(&mut model.sectors) {
        let mut bytes = [0; SECTOR];
        disk.carry_out(0, now, DiskRequest::Read { sector: at }, &mut bytes).unwrap();
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if bytes[..] != data(version, 1)[..] {
            return Err(format!("sector {at} holds half of something"));
        }
        if !versions.list.contains(&version) {
            return Err(format!("sector {at} holds {version}, and not one of {:?}", versions.list));
        }
        lost += u64::from(versions.list.last() != Some(&version));
        versions.list = vec![version];
    }
    Ok(lost)
}

fn disk(kind: CacheKind, cache_bytes: u64) -> Profile {
    Profile { cache: kind, cache_bytes, ..Profile::honest(SECTORS * SECTOR as u64) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_honest_disk_keeps_what_it_promised(steps in steps(), seed: u64, kind in 0..3, small: bool) {
        let kinds = [CacheKind::WriteBack, CacheKind::WriteThrough, CacheKind::Protected];
        let kind = kinds[usize::try_from(kind).unwrap()];
        let profile = disk(kind, if small { 8192 } else { 1 << 20 });
        prop_assert_eq!(live(profile, seed, &steps).map(|_| ()), Ok(()));
    }

    #[test]
    fn the_same_seed_gives_the_same_disk(steps in steps(), seed: u64) {
        let lives = [0; 2].map(|_| live(disk(CacheKind::WriteBack, 1 << 20), seed, &steps));
        prop_assert_eq!(&lives[0], &lives[1]);
    }
}

fn write(disk: &mut Disk, sector: u64, sectors: usize, fua: bool) {
    let data = vec![7; sectors * SECTOR];
    disk.carry_out(0, Nanos::ZERO, DiskRequest::Write { sector, data: &data, fua }, &mut [])
        .unwrap();
}

#[test]
fn a_full_cache_gives_up_its_oldest_pages_and_no_more_than_it_lacks_room_for() {
    let mut disk = Disk::new(disk(CacheKind::WriteBack, 4 * 4096), 1);
    for (page, left) in [(0, 4096), (1, 8192), (2, 12288), (3, 16384), (4, 16384), (5, 16384)] {
        write(&mut disk, page * 8, 8, false);
        assert_eq!(disk.stats().volatile_bytes, left, "page {page}");
    }
    let stored: Vec<u64> =
        (0..6).filter(|page| disk.durable().sector(page * 8).is_some()).collect();
    assert_eq!(stored, [0, 1]);
}

#[test]
fn a_write_heals_each_sector_that_it_covers_and_no_other() {
    // Each sector of the one page is hit with so many.
    let mut disk =
        Disk::new(disk(CacheKind::WriteBack, 1 << 20).telling(Lie::LatentErrors(200)), 1);
    write(&mut disk, 0, 8, true);
    disk.cut();
    disk.restore().unwrap();
    write(&mut disk, 2, 4, true);
    let read = |sector| {
        let mut into = vec![0; SECTOR];
        disk.clone().carry_out(0, Nanos::ZERO, DiskRequest::Read { sector }, &mut into).is_ok()
    };
    let readable: Vec<u64> = (0..8).filter(|&sector| read(sector)).collect();
    assert_eq!(readable, [2, 3, 4, 5]);
}

/// The model tells liars, so it can fail.
#[test]
fn the_model_finds_each_lie_about_flushes() {
    let write = |sector| Step::Write { sector, sectors: 8, fua: false };
    let fua = |sector| Step::Write { sector, sectors: 8, fua: true };
    let flushed: Vec<Step> = (0..7)
        .flat_map(|at| [write(at * 8), Step::End(0), Step::Flush, Step::End(0)])
        .chain([Step::Cut])
        .collect();
    let forced: Vec<Step> =
        (0..8).flat_map(|at| [fua(at * 8), Step::End(0)]).chain([Step::Cut]).collect();
    let found = |lie, steps: &[Step]| {
        let lives = |seed| live(disk(CacheKind::WriteBack, 1 << 20).telling(lie), seed, steps);
        (0..40).any(|seed| lives(seed).is_err())
    };
    let day = Nanos::new(86_400_000_000_000);
    let on_flush = [
        Lie::FlushIgnored,
        Lie::FlushEvery(2),
        Lie::FlushEarly(day),
        Lie::FlushSkipsYoung(day),
        Lie::IgnoredAtDepth(1),
        Lie::FlushOneConnection,
        Lie::IgnoredAbove(0),
        Lie::ReordersPerMille(200),
        Lie::DropsPerMille(200),
        Lie::TearsPerMille(200),
        Lie::Misdirects { per_mille: 200, pages: 1 },
        Lie::BitRot(4),
        Lie::MirrorLags(4),
    ];
    for lie in on_flush {
        assert!(found(lie, &flushed), "{lie:?}");
    }
    for lie in [Lie::FuaIgnored, Lie::IgnoredAtDepth(1), Lie::DropsPerMille(200)] {
        assert!(found(lie, &forced), "{lie:?}");
    }
    assert!(!found(Lie::FlushIgnored, &forced) && !found(Lie::FuaIgnored, &flushed));
}

/// Without this, an honest disk that loses nothing at all would pass.
#[test]
fn an_honest_cache_loses_what_was_not_flushed_and_a_protected_one_does_not() {
    let steps = [Step::Write { sector: 0, sectors: 64, fua: false }, Step::End(0), Step::Cut];
    let lost =
        |kind| (0..20).map(|seed| live(disk(kind, 1 << 20), seed, &steps).unwrap()).sum::<u64>();
    assert!(lost(CacheKind::WriteBack) > 300);
    assert_eq!((lost(CacheKind::WriteThrough), lost(CacheKind::Protected)), (0, 0));
}

#[test]
fn a_fork_and_its_disk_go_different_ways() {
    let mut disk = Disk::new(disk(CacheKind::WriteBack, 1 << 20), 1);
    let zero = Nanos::ZERO;
    let write = |disk: &mut Disk, version| {
        let bytes = data(version, 8);
        disk.carry_out(0, zero, DiskRequest::Write { sector: 0, data: &bytes, fua: true }, &mut [])
            .unwrap();
    };
    write(&mut disk, 1);
    let mut fork = disk.clone();
    write(&mut disk, 2);
    fork.cut();
    let mut bytes = [0; SECTOR];
    disk.carry_out(0, zero, DiskRequest::Read { sector: 0 }, &mut bytes).unwrap();
    assert_eq!(bytes[0], 2);
    fork.restore().unwrap();
    fork.carry_out(0, zero, DiskRequest::Read { sector: 0 }, &mut bytes).unwrap();
    assert_eq!(bytes[0], 1);
}

#[test]
fn a_fork_may_be_further_in_its_life_and_what_begins_with_the_third_cut_begins_there() {
    let begin = Disk::new(disk(CacheKind::WriteBack, 1 << 20).telling(Lie::Dies(3)), 1);
    for (cuts, is_back) in [(0, true), (1, true), (2, false)] {
        let mut fork = begin.after_cuts(cuts);
        fork.cut();
        assert_eq!((fork.restore().is_ok(), fork.stats().cuts), (is_back, cuts + 1));
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut disk = Disk::new(disk(CacheKind::WriteBack, 1 << 20), 1);
    let before = disk.stats();
    let write = |sector| DiskRequest::Write { sector, data: &[1; 1024], fua: false };
    for sector in [SECTORS - 1, SECTORS, u64::MAX] {
        assert_eq!(disk.begin(0, Nanos::ZERO, write(sector)), Err(DiskError::BeyondEnd));
    }
    let zero = DiskRequest::Zero { sector: 1, sectors: u64::MAX, fua: false };
    assert_eq!(disk.begin(0, Nanos::ZERO, zero), Err(DiskError::BeyondEnd));
    assert_eq!(disk.stats(), before);
}

#[test]
fn the_truth_names_the_promises_that_a_cut_broke() {
    let mut disk = Disk::new(disk(CacheKind::WriteBack, 1 << 20).telling(Lie::FlushIgnored), 3);
    let write = DiskRequest::Write { sector: 8, data: &[1; 4096], fua: false };
    disk.carry_out(0, Nanos::ZERO, write, &mut []).unwrap();
    disk.carry_out(0, Nanos::ZERO, DiskRequest::Flush, &mut []).unwrap();
    let fork = disk.clone();
    let broken = (0..40).filter(|_| {
        disk.cut();
        let cut = disk.truth().last_cut().unwrap();
        let is_broken = cut.broken_promises().any(|page| page.sector == 8);
        disk.restore().unwrap();
        let mut bytes = [0; SECTOR];
        let mut whole = vec![0; 8 * SECTOR];
        disk.carry_out(0, Nanos::ZERO, DiskRequest::Read { sector: 8 }, &mut bytes).unwrap();
        disk.carry_out(0, Nanos::ZERO, DiskRequest::Read { sector: 8 }, &mut whole).unwrap();
        assert_eq!(is_broken, whole.contains(&0));
        disk.carry_out(
            0,
            Nanos::ZERO,
            DiskRequest::Zero { sector: 8, sectors: 8, fua: true },
            &mut [],
        )
        .unwrap();
        let _ = disk.carry_out(0, Nanos::ZERO, write, &mut []);
        let _ = disk.carry_out(0, Nanos::ZERO, DiskRequest::Flush, &mut []);
        is_broken
    });
    assert!(broken.count() > 10);
    assert!(fork.truth().last_cut().is_none());
}
