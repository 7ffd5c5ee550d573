//! Ladders that others have published: their figures in, their conclusions out.

use durio_analyse::DeclinedAnalysis;
use durio_analyse::ladder::{
    Knee, LadderFindings, LadderKind, LadderPhase, LadderPoint, RateAndLatency, SaturationModel,
    analyse,
};

/// Level, operations per second, mean latency in microseconds.
type Row = (f64, f64, f64);

/// Samsung 970 EVO Plus, 4 KiB random reads, one job; the depth is raised.
/// "Fast by Design", section on measuring storage, table of queue depths.
const DEPTHS: [Row; 9] = [
    (1.0, 12_800.0, 78.0),
    (2.0, 25_600.0, 78.0),
    (4.0, 51_200.0, 78.0),
    (8.0, 102_400.0, 78.0),
    (16.0, 204_800.0, 78.0),
    (32.0, 340_000.0, 94.0),
    (64.0, 370_000.0, 173.0),
    (128.0, 380_000.0, 337.0),
    (256.0, 382_000.0, 670.0),
];

// Xinnor and Reperio, "High-performance small block synchronous write solution", 2 June 2025:
// RAID10 of 8 NVMe drives, 4 KiB random, psync, jobs in total.

const XIRAID_READS: [Row; 9] = [
    (1.0, 14_000.0, 71.02),
    (4.0, 56_800.0, 70.93),
    (16.0, 216_000.0, 73.2),
    (32.0, 420_000.0, 75.38),
    (64.0, 820_000.0, 77.32),
    (96.0, 1_221_000.0, 77.85),
    (128.0, 1_602_000.0, 79.02),
    (160.0, 1_933_000.0, 80.82),
    (192.0, 2_355_000.0, 80.04),
];

const XIRAID_WRITES: [Row; 9] = [
    (1.0, 58_400.0, 17.04),
    (4.0, 217_000.0, 17.99),
    (16.0, 834_000.0, 18.07),
    (32.0, 1_376_000.0, 20.09),
    (64.0, 1_410_000.0, 29.39),
    (96.0, 1_450_000.0, 36.19),
    (128.0, 1_398_000.0, 49.73),
    (160.0, 1_405_000.0, 74.94),
    (192.0, 1_436_000.0, 124.35),
];

const MD_READS: [Row; 9] = [
    (1.0, 14_700.0, 67.56),
    (4.0, 58_000.0, 68.38),
    (16.0, 231_000.0, 68.55),
    (32.0, 459_000.0, 68.9),
    (64.0, 904_000.0, 69.83),
    (96.0, 1_342_000.0, 70.8),
    (128.0, 1_737_000.0, 72.4),
    (160.0, 2_113_000.0, 74.32),
    (192.0, 2_464_000.0, 76.22),
];

const MD_WRITES: [Row; 9] = [
    (1.0, 21_490.0, 21.49),
    (4.0, 148_000.0, 26.53),
    (16.0, 250_000.0, 63.37),
    (32.0, 285_000.0, 111.3),
    (64.0, 278_000.0, 226.26),
    (96.0, 267_000.0, 357.57),
    (128.0, 232_000.0, 528.3),
    (160.0, 246_000.0, 619.43),
    (192.0, 247_000.0, 755.63),
];

/// Level, reads (thousands per second, µs), writes (the same).
type MixedRow = (f64, f64, f64, f64, f64);

const MD_READ70: [MixedRow; 7] = [
    (1.0, 11.5, 68.01, 5.0, 43.03),
    (4.0, 44.8, 69.92, 19.3, 43.04),
    (16.0, 182.0, 70.62, 78.0, 38.26),
    (32.0, 342.0, 71.84, 147.0, 47.64),
    (64.0, 489.0, 73.6, 210.0, 130.05),
    (96.0, 529.0, 74.3, 227.0, 246.25),
    (128.0, 527.0, 74.42, 226.0, 388.43),
];

const MD_WRITE70: [MixedRow; 7] = [
    (1.0, 6.0, 32.57, 16.0, 68.01),
    (4.0, 27.4, 70.67, 64.1, 31.32),
    (16.0, 86.8, 72.63, 203.0, 46.84),
    (32.0, 106.0, 73.53, 247.0, 96.57),
    (64.0, 119.0, 74.11, 278.0, 197.08),
    (96.0, 106.0, 74.72, 248.0, 352.89),
    (128.0, 106.0, 74.66, 248.0, 480.69),
];

const XIRAID_READ70: [MixedRow; 7] = [
    (1.0, 12.5, 70.96, 5.0, 19.09),
    (4.0, 50.2, 71.0, 21.6, 18.37),
    (16.0, 188.0, 74.19, 80.6, 23.21),
    (32.0, 344.0, 78.25, 148.0, 31.49),
    (64.0, 664.0, 81.29, 284.0, 32.67),
    (96.0, 962.0, 84.46, 412.0, 32.85),
    (128.0, 1234.0, 87.61, 529.0, 34.39),
];

const XIRAID_WRITE70: [MixedRow; 7] = [
    (1.0, 8.0, 70.35, 20.6, 17.64),
    (4.0, 34.4, 71.85, 80.3, 18.37),
    (16.0, 116.0, 77.33, 270.0, 25.33),
    (32.0, 212.0, 81.84, 494.0, 28.77),
    (64.0, 390.0, 88.77, 909.0, 31.33),
    (96.0, 550.0, 95.28, 1282.0, 32.88),
    (128.0, 603.0, 112.2, 1408.0, 37.76),
];

fn part(rate_per_second: f64, latency_us: f64) -> RateAndLatency {
    RateAndLatency { rate_per_second, latency_ns_mean: latency_us * 1e3 }
}

fn points(rows: &[Row]) -> Vec<LadderPoint> {
    rows.iter().map(|(n, rate, us)| LadderPoint::of_means(*n, *n, part(*rate, *us))).collect()
}

fn mixed(rows: &[MixedRow]) -> Vec<LadderPoint> {
    let point = |(n, read, read_us, write, write_us): &MixedRow| {
        LadderPoint::of_mix(*n, *n, part(read * 1e3, *read_us), part(write * 1e3, *write_us))
    };
    rows.iter().map(point).collect()
}

fn jobs(rows: &[Row]) -> LadderFindings {
    analyse(&points(rows), LadderKind::Jobs).unwrap()
}

fn mixed_jobs(rows: &[MixedRow]) -> LadderFindings {
    analyse(&mixed(rows), LadderKind::Jobs).unwrap()
}

fn phase_at(found: &LadderFindings, level: f64) -> LadderPhase {
    found.points.iter().find(|point| point.measured.level == level).unwrap().phase
}

#[test]
fn a_flash_drive_is_linear_to_16_and_saturated_from_64() {
    let found = analyse(&points(&DEPTHS), LadderKind::Depth).unwrap();
    assert_eq!(found.phases.linear_to_level, 16.0);
    assert_eq!(found.phases.saturated_from_level, Some(64.0));
    assert_eq!(found.phases.retrograde, None);
    assert_eq!(phase_at(&found, 16.0), LadderPhase::Linear);
    assert_eq!(phase_at(&found, 32.0), LadderPhase::Onset);
    assert_eq!(phase_at(&found, 64.0), LadderPhase::Saturated);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    assert_eq!(found.latency_against_rate.len(), DEPTHS.len());
}

#[test]
fn its_parallel_units_are_about_30() {
    let found = analyse(&points(&DEPTHS), LadderKind::Depth).unwrap();
    let Knee::Measured { units, fitted, fitted_low, fitted_high } = found.knee else {
        panic!("{:?}", found.knee)
    };
    // 382 000/s × 78 µs; the publication counts 32 planes.
    assert!((units - 29.796).abs() < 0.001, "{units}");
    assert!((fitted - 29.5).abs() < 0.5 && fitted_low < units && units < fitted_high);
    assert!(fitted_high / fitted_low < 1.1, "{fitted_low} to {fitted_high}");
    let saturation = found.saturation.unwrap();
    assert!(matches!(saturation.model, SaturationModel::SmoothAsymptotes { .. }));
    assert!(saturation.residual_share < 0.01, "{saturation:?}");
}

#[test]
fn random_writes_on_both_engines_are_best_with_32_jobs() {
    for rows in [XIRAID_WRITES, MD_WRITES] {
        let found = jobs(&rows);
        assert_eq!(found.best.levels, [32.0]);
        assert!(!found.best.at_ladder_end);
    }
}

#[test]
fn random_reads_grow_to_the_last_level_and_their_knee_is_beyond_it() {
    for rows in [XIRAID_READS, MD_READS] {
        let found = jobs(&rows);
        assert_eq!((found.best.level, found.best.at_ladder_end), (192.0, true));
        assert_eq!(found.phases.saturated_from_level, None);
        assert!(matches!(&found.knee, Knee::AtLeast { units, .. } if *units > 160.0));
    }
}

#[test]
fn mixes_that_read_more_are_best_where_published() {
    // Published as optimal for both engines: 96 and 128. Each is the best of one of them.
    assert_eq!(mixed_jobs(&MD_READ70).best.levels, [96.0]);
    let xiraid = mixed_jobs(&XIRAID_READ70);
    assert_eq!((xiraid.best.level, xiraid.best.at_ladder_end), (128.0, true));
}

#[test]
fn mixes_that_write_more_are_best_at_128_as_published_and_at_64_instead_of_32() {
    // Published as optimal for both engines: 32 and 128.
    let xiraid = mixed_jobs(&XIRAID_WRITE70);
    assert_eq!((xiraid.best.level, xiraid.best.at_ladder_end), (128.0, true));
    // 32 is md's. The rule contradicts: from 32 to 64 jobs the rate rises from 353 to 397 thousand,
    // 12 % for twice the jobs, and md's pure writes were published as optimal at 32 for a step of
    // 14 %. One threshold that gives both would have to lie between 12.5 and 14 %, which is less
    // than these figures repeat: 96 jobs fall back to 354 thousand. The publication weighs latency
    // too, which doubles in that step; this rule leaves it to the reader.
    assert_eq!(mixed_jobs(&MD_WRITE70).best.levels, [64.0]);
}

#[test]
fn the_write_intent_bitmap_makes_md_lose_rate_with_more_jobs() {
    let back = jobs(&MD_WRITES).phases.retrograde.unwrap();
    assert_eq!((back.peak_level, back.levels_after), (32.0, 5));
    assert!((back.loss_share - 0.11).abs() < 0.005, "{back:?}");
    assert_eq!(phase_at(&jobs(&MD_WRITES), 128.0), LadderPhase::Retrograde);
    assert_eq!(jobs(&XIRAID_WRITES).phases.retrograde, None);
}

#[test]
fn figures_that_cannot_be_are_named() {
    // Reads of 32.57 and writes of 68.01 µs: the two are exchanged in the publication.
    let mixed = mixed_jobs(&MD_WRITE70);
    assert!(mixed.notes[0].contains("level 1") && mixed.notes[0].contains("128 %"));
    assert!(mixed.notes[0].contains("impossible"));
    // 21.49 thousand per second at 21.49 µs: one was copied into the other.
    let md = jobs(&MD_WRITES);
    assert!(md.notes[0].contains("level 1") && md.notes[0].contains("46 %"), "{:?}", md.notes);
    assert!(md.notes[1].contains("72 % above that of level 1"), "{:?}", md.notes);
    assert!(matches!(md.knee, Knee::CannotTell { .. }), "{:?}", md.knee);
    // Latencies published for 32 to 160 jobs are up to 46 % too low for the rates beside them.
    let shortfalls = jobs(&XIRAID_WRITES).notes;
    assert_eq!(shortfalls.len(), 5, "{shortfalls:?}");
    assert!(shortfalls.iter().all(|note| note.contains("shortfall")));
}

#[test]
fn a_ladder_is_declined_with_the_reason() {
    let declined = |rows: &[Row]| analyse(&points(rows), LadderKind::Jobs).unwrap_err();
    assert!(matches!(declined(&DEPTHS[..3]), DeclinedAnalysis::TooFew { given: 3, needed: 4, .. }));
    let falling = [DEPTHS[0], DEPTHS[2], DEPTHS[1], DEPTHS[3]];
    assert_eq!(declined(&falling), DeclinedAnalysis::NotRising { position: 3 });
    let twice = [DEPTHS[0], DEPTHS[1], DEPTHS[1], DEPTHS[3]];
    assert_eq!(declined(&twice), DeclinedAnalysis::NotRising { position: 3 });
    let mut dip = DEPTHS;
    dip[6].1 = 250_000.0;
    assert!(matches!(declined(&dip), DeclinedAnalysis::Noisy { level: 64.0, .. }));
    let mut silent = DEPTHS;
    silent[2].1 = 0.0;
    assert!(matches!(declined(&silent), DeclinedAnalysis::NotAFigure { position: 3, .. }));
    let endless: Vec<Row> = (1..1000).map(|n| (f64::from(n), 10.0, 1.0)).collect();
    assert!(matches!(declined(&endless), DeclinedAnalysis::TooMany { given: 999, .. }));
}

#[test]
fn an_offered_rate_saturates_where_it_is_no_longer_achieved() {
    let offered = [1e4, 2e4, 4e4, 8e4, 1.2e5, 1.6e5, 2.4e5];
    let point = |level: &f64| {
        let busy = level / 1e5;
        let latency_us = if busy < 1.0 { 80.0 / (1.0 - busy) } else { 50_000.0 };
        LadderPoint::of_means(*level, 32.0, part(level.min(1e5), latency_us))
    };
    let points: Vec<LadderPoint> = offered.iter().map(point).collect();
    let found = analyse(&points, LadderKind::OfferedRate).unwrap();
    assert_eq!(found.phases.linear_to_level, 8e4);
    assert_eq!(found.phases.saturated_from_level, Some(1.2e5));
    assert!(matches!(found.knee, Knee::Measured { units, .. } if units == 1e5));
}

#[test]
fn findings_survive_being_saved_and_name_their_units() {
    let found = jobs(&XIRAID_WRITES);
    let text = serde_json::to_string(&found).unwrap();
    let read: LadderFindings = serde_json::from_str(&text).unwrap();
    // The last digit of a figure may be lost on the way.
    assert_eq!((read.points.len(), read.notes), (found.points.len(), found.notes));
    assert_eq!((read.best.levels, read.phases), (found.best.levels, found.phases));
    assert_eq!(read.saturation.unwrap().model, SaturationModel::TwoAsymptotes);
    for field in ["\"rate_per_second\"", "\"latency_ns_mean\"", "\"efficiency_share\""] {
        assert!(text.contains(field), "{field}");
    }
}
