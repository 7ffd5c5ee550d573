//! Where each lie begins and ends, on a disk whose every cached page is lost in a cut.

use std::collections::BTreeSet;

use durio_base::Nanos;
use durio_simdisk::{
    CacheKind, Disk, DiskError, DiskRequest, Leg, Lie, Profile, SECTOR, Survivors, Ticket,
};

const PAGES: u64 = 64;

fn profile(lies: &[Lie]) -> Profile {
    Profile { survivors: Survivors::None, lies: lies.to_vec(), ..Profile::honest(PAGES * 4096) }
}

fn disk(lie: Lie) -> Disk {
    Disk::new(profile(&[lie]), 1)
}

fn begin(disk: &mut Disk, connection: u32, millis: u64, request: DiskRequest<'_>) -> Ticket {
    disk.begin(connection, Nanos::new(millis * 1_000_000), request).unwrap()
}

fn end(disk: &mut Disk, millis: u64, ticket: Ticket) {
    disk.end(ticket, Nanos::new(millis * 1_000_000), &mut []).unwrap();
}

fn carry_out(disk: &mut Disk, connection: u32, millis: u64, request: DiskRequest<'_>) {
    let ticket = begin(disk, connection, millis, request);
    end(disk, millis, ticket);
}

/// Writes a whole page of this byte.
fn write(disk: &mut Disk, connection: u32, millis: u64, page: u64, byte: u8) {
    let data = [byte; 4096];
    let write = DiskRequest::Write { sector: page * 8, data: &data, fua: false };
    carry_out(disk, connection, millis, write);
}

fn flush(disk: &mut Disk, connection: u32, millis: u64) {
    carry_out(disk, connection, millis, DiskRequest::Flush);
}

/// The pages on the medium, each with its first byte.
fn stored(disk: &Disk) -> Vec<(u64, u8)> {
    disk.durable().written().map(|(sector, bytes)| (sector / 8, bytes[0])).collect()
}

fn cut(disk: &mut Disk) -> Result<(), DiskError> {
    disk.cut();
    disk.restore()
}

#[test]
fn of_three_flushes_the_third_works() {
    let mut disk = disk(Lie::FlushEvery(3));
    let works: Vec<bool> = (0..9)
        .map(|page| {
            write(&mut disk, 0, page, page, 7);
            flush(&mut disk, 0, page);
            stored(&disk).contains(&(page, 7))
        })
        .collect();
    assert_eq!(works, [false, false, true, false, false, true, false, false, true]);
    // Each works for all that was written until then.
    assert_eq!(stored(&disk).len(), 9);
}

#[test]
fn flush_and_fua_are_ignored_from_that_depth_on_and_kept_below_it() {
    for (depth, is_kept) in [(1, true), (2, true), (3, false), (4, false)] {
        let mut disk = disk(Lie::IgnoredAtDepth(3));
        write(&mut disk, 0, 0, 5, 1);
        // Reads are operations in flight, too.
        let others: Vec<Ticket> =
            (1..depth).map(|_| begin(&mut disk, 0, 1, DiskRequest::Read { sector: 0 })).collect();
        flush(&mut disk, 0, 1);
        let data = [2; 4096];
        let fua = DiskRequest::Write { sector: 48, data: &data, fua: true };
        carry_out(&mut disk, 0, 1, fua);
        assert_eq!(others.len() + 1, depth);
        assert_eq!(stored(&disk).len(), if is_kept { 2 } else { 0 }, "depth {depth}");
    }
}

#[test]
fn flushes_are_ignored_while_more_bytes_wait_than_the_cache_is_said_to_bear() {
    for (pages, is_kept) in [(1, true), (4, true), (5, false), (9, false)] {
        let mut disk = disk(Lie::IgnoredAbove(16_384));
        (0..pages).for_each(|page| write(&mut disk, 0, 0, page, 1));
        flush(&mut disk, 0, 0);
        let expected = if is_kept { pages } else { 0 };
        assert_eq!(stored(&disk).len() as u64, expected, "{pages} pages");
    }
}

#[test]
fn a_flush_leaves_out_what_is_younger_than_that_and_takes_what_is_as_old() {
    let mut disk = disk(Lie::FlushSkipsYoung(Nanos::new(5_000_000)));
    for (page, millis) in [(0, 10), (1, 11), (2, 12)] {
        write(&mut disk, 0, millis, page, 1);
    }
    flush(&mut disk, 0, 16);
    assert_eq!(stored(&disk), [(0, 1), (1, 1)]);
    flush(&mut disk, 0, 17);
    assert_eq!(stored(&disk), [(0, 1), (1, 1), (2, 1)]);
}

#[test]
fn a_flush_that_is_acknowledged_early_stores_when_its_time_has_come_and_no_sooner() {
    let mut disk = disk(Lie::FlushEarly(Nanos::new(20_000_000)));
    write(&mut disk, 0, 0, 3, 1);
    flush(&mut disk, 0, 1);
    // A second flush does not put it off.
    flush(&mut disk, 0, 15);
    let mut at = |millis| {
        carry_out(&mut disk, 0, millis, DiskRequest::Zero { sector: 8, sectors: 1, fua: false });
        stored(&disk).len()
    };
    assert_eq!([at(20), at(21)], [0, 1]);
    let mut late = Disk::new(profile(&[Lie::FlushEarly(Nanos::new(20_000_000))]), 1);
    write(&mut late, 0, 0, 3, 1);
    flush(&mut late, 0, 1);
    cut(&mut late).unwrap();
    assert_eq!(stored(&late), []);
}

#[test]
fn a_flush_covers_the_connection_that_asks_for_it_alone() {
    let mut disk = disk(Lie::FlushOneConnection);
    for (page, connection) in [(0, 0), (1, 1), (2, 2), (3, 1)] {
        write(&mut disk, connection, 0, page, 1);
    }
    flush(&mut disk, 1, 0);
    assert_eq!(stored(&disk), [(1, 1), (3, 1)]);
    flush(&mut disk, 3, 0);
    assert_eq!(stored(&disk).len(), 2);
    flush(&mut disk, 2, 0);
    assert_eq!(stored(&disk), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn a_flush_of_an_honest_disk_covers_what_had_ended_when_it_began_of_all_connections() {
    let mut disk = Disk::new(profile(&[]), 1);
    let data = [4; 4096];
    write(&mut disk, 3, 0, 0, 1);
    let open = begin(&mut disk, 0, 0, DiskRequest::Write { sector: 8, data: &data, fua: false });
    let flush = begin(&mut disk, 1, 0, DiskRequest::Flush);
    end(&mut disk, 0, open);
    write(&mut disk, 1, 0, 2, 1);
    end(&mut disk, 0, flush);
    assert_eq!(stored(&disk), [(0, 1)]);
    cut(&mut disk).unwrap();
    assert_eq!(stored(&disk), [(0, 1)]);
}

#[test]
fn a_misdirected_page_is_stored_so_many_pages_before_its_place_and_goes_round() {
    let mut disk = disk(Lie::Misdirects { per_mille: 1000, pages: 10 });
    for (page, byte) in [(12, 1), (10, 2), (9, 3), (0, 4)] {
        write(&mut disk, 0, 0, page, byte);
    }
    // Until a cut it reads as if nothing were wrong.
    let mut into = [0; SECTOR];
    disk.read(12 * 8, &mut into, Leg::Any).unwrap();
    assert_eq!(into[0], 1);
    flush(&mut disk, 0, 0);
    assert_eq!(stored(&disk), [(0, 2), (2, 1), (54, 4), (63, 3)]);
    let lies = |disk: &Disk| {
        let cut = disk.truth().last_cut().unwrap();
        cut.lies.iter().map(|told| told.sector / 8).collect::<BTreeSet<u64>>()
    };
    cut(&mut disk).unwrap();
    assert_eq!(lies(&disk), BTreeSet::from([0, 9, 10, 12]));
}

#[test]
fn a_capacitor_holds_for_so_many_cuts_and_then_never_again() {
    let protected = Profile { cache: CacheKind::Protected, ..profile(&[Lie::CapacitorDies(3)]) };
    let mut disk = Disk::new(protected, 1);
    let kept: Vec<bool> = (0..6)
        .map(|page| {
            write(&mut disk, 0, 0, page, 9);
            cut(&mut disk).unwrap();
            stored(&disk).contains(&(page, 9))
        })
        .collect();
    assert_eq!(kept, [true, true, true, false, false, false]);
}

#[test]
fn a_disk_dies_or_shrinks_once_at_its_cut() {
    let mut dying = disk(Lie::Dies(3));
    let alive = [(); 5].map(|()| cut(&mut dying).is_ok());
    assert_eq!(alive, [true, true, false, false, false]);
    let mut shrinking = disk(Lie::Shrinks(2));
    let sizes = [(); 4].map(|()| {
        cut(&mut shrinking).unwrap();
        shrinking.size()
    });
    assert_eq!(sizes, [262_144, 131_072, 131_072, 131_072]);
    let beyond = DiskRequest::Write { sector: 256, data: &[1; SECTOR], fua: true };
    let refused = shrinking.begin(0, Nanos::ZERO, beyond);
    assert_eq!(refused, Err(DiskError::BeyondEnd));
}

#[test]
fn the_second_leg_of_a_mirror_lacks_so_many_of_the_last_pages_after_a_cut() {
    let mut disk = disk(Lie::MirrorLags(2));
    for (page, byte) in [(0, 1), (1, 2), (2, 3), (1, 4)] {
        write(&mut disk, 0, 0, page, byte);
        flush(&mut disk, 0, 0);
    }
    cut(&mut disk).unwrap();
    let mut of = |leg| {
        [0, 1, 2].map(|page| {
            let mut into = [0; SECTOR];
            disk.read(page * 8, &mut into, leg).unwrap();
            into[0]
        })
    };
    assert_eq!((of(Leg::First), of(Leg::Second)), ([1, 4, 3], [1, 2, 0]));
}

#[test]
fn a_write_is_stored_at_its_age_without_any_flush() {
    let profile = Profile { write_back_after: Some(Nanos::new(30_000_000)), ..profile(&[]) };
    let mut disk = Disk::new(profile, 1);
    for (page, millis) in [(0, 0), (1, 5)] {
        write(&mut disk, 0, millis, page, 1);
    }
    // A read stores nothing by itself: it lets time pass.
    let mut pages_at = |millis| {
        let read = begin(&mut disk, 0, millis, DiskRequest::Read { sector: 0 });
        disk.end(read, Nanos::new(millis * 1_000_000), &mut [0; SECTOR]).unwrap();
        stored(&disk).len()
    };
    assert_eq!([29, 30, 34, 35].map(&mut pages_at), [0, 1, 1, 2]);
}

#[test]
fn a_disk_that_claims_write_through_declares_no_cache_and_has_one() {
    let honest = Disk::new(profile(&[]), 1);
    let mut liar = disk(Lie::ClaimsWriteThrough);
    assert_eq!([honest.profile(), liar.profile()].map(Profile::declares_cache), [true, false]);
    write(&mut liar, 0, 0, 0, 1);
    assert_eq!(liar.stats().volatile_bytes, 4096);
    cut(&mut liar).unwrap();
    // Its end was the promise.
    let truth = liar.truth().last_cut().unwrap();
    assert_eq!((truth.broken_promises().count(), stored(&liar).len()), (1, 0));
}

/// What a cut leaves of 32 pages in four lines of 64 KiB, written as writes of two pages.
fn survivors(rule: Survivors, seed: u64) -> (Survivors, Vec<u8>) {
    let mut disk = Disk::new(Profile { survivors: rule, ..profile(&[]) }, seed);
    let data = [1; 8192];
    for pair in 0..32 {
        let write = DiskRequest::Write { sector: pair * 16, data: &data, fua: false };
        carry_out(&mut disk, 0, 0, write);
    }
    disk.cut();
    let truth = disk.truth().last_cut().unwrap();
    let masks = truth.waiting.iter().map(|page| {
        assert_eq!((page.written, page.ended, page.promised), (0xff, true, false));
        page.survived
    });
    (truth.survivors, masks.collect())
}

#[test]
fn each_rule_of_survival_keeps_what_it_says() {
    let is_whole = |masks: &[u8]| masks.iter().all(|&mask| mask == 0 || mask == 0xff);
    let is_alike = |masks: &[u8]| masks.iter().all(|&mask| mask == masks[0]);
    // Whether a rule has kept all, nothing, and a part in some cut.
    let mut fates = Vec::new();
    for rule in [
        Survivors::None,
        Survivors::Prefix,
        Survivors::Writes,
        Survivors::Sectors,
        Survivors::Lines,
        Survivors::All,
    ] {
        let mut has_part = false;
        let mut first_pages = BTreeSet::new();
        for seed in 0..64 {
            let (drawn, masks) = survivors(rule, seed);
            assert_eq!((drawn, masks.len()), (rule, 64));
            let is_right = match rule {
                Survivors::None => masks.iter().all(|&mask| mask == 0),
                Survivors::All => masks.iter().all(|&mask| mask == 0xff),
                Survivors::Prefix => is_whole(&masks) && masks.is_sorted_by(|a, b| a >= b),
                Survivors::Writes => is_whole(&masks) && masks.chunks(2).all(is_alike),
                Survivors::Lines => is_whole(&masks) && masks.chunks(16).all(is_alike),
                Survivors::Sectors | Survivors::Mixed => true,
            };
            assert!(is_right, "{rule:?} {seed}: {masks:?}");
            has_part |= !is_alike(&masks);
            first_pages.insert(masks[0]);
        }
        fates.push((has_part, first_pages.len()));
    }
    assert_eq!([fates[0], fates[5]], [(false, 1); 2]);
    // The others keep a part in some of 64 cuts, and the first page in some and not in others.
    assert!(fates[1..5].iter().all(|&(has_part, _)| has_part), "{fates:?}");
    assert_eq!([fates[2].1, fates[4].1], [2; 2]);
    // Any of 256 masks.
    assert!(fates[3].1 > 20, "{fates:?}");
}

#[test]
fn a_cut_draws_one_of_five_rules_and_the_next_cut_draws_anew() {
    let drawn: BTreeSet<String> =
        (0..200).map(|seed| format!("{:?}", survivors(Survivors::Mixed, seed).0)).collect();
    let expected = ["Lines", "None", "Prefix", "Sectors", "Writes"];
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), expected);
    let mut disk = Disk::new(Profile { survivors: Survivors::Sectors, ..profile(&[]) }, 5);
    let left: BTreeSet<Vec<u8>> = (0..20)
        .map(|_| {
            (0..8).for_each(|page| write(&mut disk, 0, 0, page, 1));
            cut(&mut disk).unwrap();
            let waiting = &disk.truth().last_cut().unwrap().waiting;
            waiting.iter().map(|page| page.survived).collect()
        })
        .collect();
    assert_eq!(left.len(), 20);
}
