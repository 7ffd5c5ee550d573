//! Compares two captures: of a database and of its replay, or before and after a change. An earlier
//! capture is read from its JSON document; results are per second of each.

use durio_base::stats::least_squares::{count, float};
use serde::{Deserialize, Serialize};

use super::files::per_second;
use super::{CAPTURE_SCHEMA, CaptureFindings, CaptureSource, CapturedSize};

/// Sizes of writes that are compared, those with most bytes.
const SIZES_MAX: usize = 4;

/// The values of a capture that are compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EarlierCapture {
    source: CaptureSource,
    pub(super) seconds: f64,
    writes: u64,
    written_bytes: u64,
    durable: u64,
    sizes: Vec<CapturedSize>,
    files: Vec<EarlierFile>,
    devices: Vec<EarlierDevice>,
    cost: EarlierCost,
    /// Operations outside the files' counts: through io_uring, or on files that could not be named.
    ring_operations: u64,
    unnamed_calls: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct EarlierFile {
    syncing_threads: usize,
    syncs_at_once: u32,
    sync_p50_ns: Option<u64>,
    sync_p99_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct EarlierDevice {
    writes: u64,
    written_bytes: u64,
    flushes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct EarlierCost {
    lost_calls: u64,
}

/// The form alone, which says whether the rest can be read.
#[derive(Deserialize)]
struct SidecarForm {
    schema: String,
}

/// An earlier capture compared with this one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaptureBeside {
    /// The earlier capture's process, time and place.
    pub before: CaptureSource,
    /// Events of calls that the earlier one lost: its counts are too low.
    pub before_lost_calls: u64,
    /// Writes and syncs of the earlier one that no count includes.
    pub before_untraced: u64,
    pub rows: Vec<BesideRow>,
}

/// A value of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BesideRow {
    pub figure: BesideFigure,
    /// The earlier capture's value.
    pub before: f64,
    pub now: f64,
    /// This one's by the earlier one's, unless that is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// A value that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BesideFigure {
    /// Writes to files, per second.
    Writes,
    /// Bytes of them, per second.
    Written,
    /// The same in writes of this size.
    WrittenIn(u64),
    /// Syncs and writes that are durable by themselves, per second.
    Durable,
    /// Threads that sync one file, the most.
    SyncingThreads,
    /// Syncs of one file at a time, the most.
    SyncsAtOnce,
    /// Time of a sync of the file that most is waited for, nanoseconds, median.
    SyncP50,
    /// The same, 99 of 100.
    SyncP99,
    /// Writes that reached the devices, per second.
    DeviceWrites,
    /// Their bytes, per second.
    DeviceWritten,
    /// Flushes of the devices, per second.
    DeviceFlushes,
}

impl EarlierCapture {
    /// Reads the document of `durio capture --json`.
    ///
    /// # Errors
    /// The error in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = serde_json::from_str::<SidecarForm>(text);
        match form {
            Ok(SidecarForm { schema }) if schema == CAPTURE_SCHEMA => {}
            Ok(SidecarForm { schema }) => {
                return Err(format!("its format is {schema}, not {CAPTURE_SCHEMA}"));
            }
            Err(_) => return Err("it is not a JSON document of durio capture".to_owned()),
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Scales it as if it had run `speed` times as fast.
    pub(super) fn speed_up(&mut self, speed: f64) {
        self.seconds /= speed;
    }

    fn of(now: &CaptureFindings) -> Self {
        let files = now.files.iter().map(|file| EarlierFile {
            syncing_threads: file.syncing_threads,
            syncs_at_once: file.syncs_at_once,
            sync_p50_ns: file.sync_p50_ns,
            sync_p99_ns: file.sync_p99_ns,
        });
        let devices = now.devices.iter().map(|device| EarlierDevice {
            writes: device.writes,
            written_bytes: device.written_bytes,
            flushes: device.flushes,
        });
        Self {
            source: now.source.clone(),
            seconds: now.seconds,
            writes: now.writes,
            written_bytes: now.written_bytes,
            durable: now.durable,
            sizes: now.sizes.clone(),
            files: files.collect(),
            devices: devices.collect(),
            cost: EarlierCost { lost_calls: now.cost.lost_calls },
            ring_operations: now.ring_operations,
            unnamed_calls: now.unnamed_calls,
        }
    }

    /// A compared value; `None` if this capture has nothing of the kind.
    fn value(&self, figure: BesideFigure) -> Option<f64> {
        let per_second = |count: u64| per_second(count, self.seconds);
        let devices = |of: fn(&EarlierDevice) -> u64| {
            (!self.devices.is_empty()).then(|| per_second(self.devices.iter().map(of).sum()))
        };
        let sync = |of: fn(&EarlierFile) -> Option<u64>| self.files.first().and_then(of).map(float);
        Some(match figure {
            BesideFigure::Writes => per_second(self.writes),
            BesideFigure::Written => per_second(self.written_bytes),
            BesideFigure::WrittenIn(bytes) => {
                let sizes = self.sizes.iter().filter(|size| size.bytes == bytes);
                per_second(sizes.map(|size| size.bytes * size.count).sum())
            }
            BesideFigure::Durable => per_second(self.durable),
            BesideFigure::SyncingThreads => {
                count(self.files.iter().map(|file| file.syncing_threads).max().unwrap_or(0))
            }
            BesideFigure::SyncsAtOnce => {
                self.files.iter().map(|file| f64::from(file.syncs_at_once)).fold(0.0, f64::max)
            }
            BesideFigure::SyncP50 => return sync(|file| file.sync_p50_ns),
            BesideFigure::SyncP99 => return sync(|file| file.sync_p99_ns),
            BesideFigure::DeviceWrites => return devices(|device| device.writes),
            BesideFigure::DeviceWritten => return devices(|device| device.written_bytes),
            BesideFigure::DeviceFlushes => return devices(|device| device.flushes),
        })
    }
}

impl CaptureFindings {
    /// Compares it with an earlier capture.
    pub fn compare_with(&mut self, before: &EarlierCapture) {
        let now = EarlierCapture::of(self);
        let bytes_of = |size: &CapturedSize| size.bytes * size.count;
        let mut sizes: Vec<u64> = Vec::new();
        for all in [&before.sizes, &now.sizes] {
            let mut all: Vec<&CapturedSize> = all.iter().collect();
            all.sort_by_key(|size| std::cmp::Reverse(bytes_of(size)));
            sizes.extend(all.iter().take(SIZES_MAX).map(|size| size.bytes));
        }
        sizes.sort_unstable();
        sizes.dedup();
        let figures = [BesideFigure::Writes, BesideFigure::Written].into_iter();
        let figures = figures.chain(sizes.into_iter().map(BesideFigure::WrittenIn)).chain([
            BesideFigure::Durable,
            BesideFigure::SyncingThreads,
            BesideFigure::SyncsAtOnce,
            BesideFigure::SyncP50,
            BesideFigure::SyncP99,
            BesideFigure::DeviceWrites,
            BesideFigure::DeviceWritten,
            BesideFigure::DeviceFlushes,
        ]);
        let row = |figure| {
            let (before, now) = (before.value(figure)?, now.value(figure)?);
            let ratio = (before > 0.0).then(|| now / before);
            Some(BesideRow { figure, before, now, ratio })
        };
        self.beside = Some(CaptureBeside {
            before: before.source.clone(),
            before_lost_calls: before.cost.lost_calls,
            before_untraced: before.ring_operations.saturating_add(before.unnamed_calls),
            rows: figures.filter_map(row).collect(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::short_capture;
    use super::*;

    #[test]
    fn a_capture_beside_itself_is_equal_in_everything() {
        let mut findings = short_capture();
        let document = serde_json::to_string(&findings).unwrap();
        findings.compare_with(&EarlierCapture::parse(&document).unwrap());
        let beside = findings.beside.unwrap();
        assert!(beside.rows.len() >= 7 && beside.rows.iter().any(|row| row.ratio.is_some()));
        assert!(
            beside.rows.iter().all(|row| row.ratio.is_none_or(|ratio| ratio == 1.0)),
            "{beside:?}"
        );
    }

    #[test]
    fn figures_are_per_second_of_each() {
        let mut findings = short_capture();
        let document = serde_json::to_value(&findings).unwrap();
        let mut longer = document.clone();
        longer["seconds"] = (findings.seconds * 2.0).into();
        findings.compare_with(&EarlierCapture::parse(&longer.to_string()).unwrap());
        let rows = findings.beside.unwrap().rows;
        let ratio = |figure| rows.iter().find(|row| row.figure == figure).and_then(|row| row.ratio);
        assert_eq!(ratio(BesideFigure::Writes), Some(2.0));
        assert_eq!(ratio(BesideFigure::Durable), Some(2.0));
        assert_eq!(ratio(BesideFigure::SyncingThreads), Some(1.0));
    }

    #[test]
    fn what_is_no_capture_is_refused_in_words() {
        for (text, words) in [
            ("", "not a JSON document"),
            ("[1]", "not a JSON document"),
            (r#"{"schema":"durio-findings-1"}"#, "not durio-capture-1"),
            (r#"{"schema":"durio-capture-1","seconds":"x"}"#, "invalid type"),
        ] {
            let error = EarlierCapture::parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_four_sizes_of_most_bytes_of_each_capture_are_compared() {
        let mut findings = short_capture();
        let size = |(bytes, count): (u64, u64)| CapturedSize { bytes, count };
        findings.sizes = [(512, 90), (4096, 2), (8192, 3), (16_384, 4), (32_768, 5), (65_536, 6)]
            .map(size)
            .into();
        let mut before = findings.clone();
        before.sizes = [(2048, 1), (1024, 1)].map(size).into();
        let document = serde_json::to_string(&before).unwrap();
        findings.compare_with(&EarlierCapture::parse(&document).unwrap());
        let rows = findings.beside.unwrap().rows;
        let sizes: Vec<(u64, f64, f64)> = rows
            .iter()
            .filter_map(|row| match row.figure {
                BesideFigure::WrittenIn(bytes) => {
                    // Two seconds.
                    Some((bytes, 2.0 * row.before, 2.0 * row.now))
                }
                _ => None,
            })
            .collect();
        let expected = [
            (512, 0.0, 46_080.0),
            (1024, 1024.0, 0.0),
            (2048, 2048.0, 0.0),
            (16_384, 0.0, 65_536.0),
            (32_768, 0.0, 163_840.0),
            (65_536, 0.0, 393_216.0),
        ];
        assert_eq!(sizes, expected);
    }

    /// A capture of 10 s in which no two figures are alike, so many times as much of everything.
    fn unlike(times: u32) -> CaptureFindings {
        let mut it = short_capture();
        let much = u64::from(times);
        let many = usize::try_from(times).unwrap();
        it.seconds = 10.0;
        (it.writes, it.written_bytes, it.durable) = (20 * much, 500 * much, 90 * much);
        (it.cost.lost_calls, it.ring_operations, it.unnamed_calls) =
            (13 * much, 17 * much, 4 * much);
        it.sizes = vec![CapturedSize { bytes: 4096, count: 30 * much }];
        let mut first = it.files[0].clone();
        (first.syncing_threads, first.syncs_at_once) = (2 * many, 7 * times);
        (first.sync_p50_ns, first.sync_p99_ns) = (Some(1000 * much), Some(8000 * much));
        let mut second = first.clone();
        (second.syncing_threads, second.syncs_at_once) = (5 * many, 3 * times);
        (second.sync_p50_ns, second.sync_p99_ns) = (Some(1_000_000), Some(9_000_000));
        it.files = vec![first, second];
        let device = |writes: u64, bytes: u64, flushes: u64| super::super::CapturedDeviceFindings {
            writes: writes * much,
            written_bytes: bytes * much,
            flushes: flushes * much,
            metadata_writes: 7,
            ..Default::default()
        };
        it.devices = vec![device(300, 7000, 110), device(500, 13_000, 290)];
        it
    }

    #[test]
    fn each_figure_stands_beside_its_own() {
        let document = serde_json::to_string(&unlike(2)).unwrap();
        let mut now = unlike(6);
        now.compare_with(&EarlierCapture::parse(&document).unwrap());
        let beside = now.beside.unwrap();
        // Per second of each, or of the file that has most, or of the first.
        let expected = [
            (BesideFigure::Writes, 2.0),
            (BesideFigure::Written, 50.0),
            (BesideFigure::WrittenIn(4096), 12_288.0),
            (BesideFigure::Durable, 9.0),
            (BesideFigure::SyncingThreads, 5.0),
            (BesideFigure::SyncsAtOnce, 7.0),
            (BesideFigure::SyncP50, 1000.0),
            (BesideFigure::SyncP99, 8000.0),
            (BesideFigure::DeviceWrites, 80.0),
            (BesideFigure::DeviceWritten, 2000.0),
            (BesideFigure::DeviceFlushes, 40.0),
        ];
        assert_eq!(beside.rows.len(), expected.len(), "{beside:?}");
        for (row, (figure, once)) in beside.rows.iter().zip(expected) {
            assert_eq!(row.figure, figure);
            let off = [row.before - 2.0 * once, row.now - 6.0 * once, row.ratio.unwrap() - 3.0];
            assert!(off.iter().all(|off| off.abs() < 1e-9), "{row:?}");
        }
        assert_eq!((beside.before_lost_calls, beside.before_untraced), (26, 42));
    }

    #[test]
    fn a_figure_that_one_of_them_lacks_has_no_row_and_from_nothing_there_is_no_ratio() {
        let mut before = unlike(2);
        before.devices.clear();
        (before.files[0].sync_p99_ns, before.durable) = (None, 0);
        let document = serde_json::to_string(&before).unwrap();
        let mut now = unlike(6);
        now.compare_with(&EarlierCapture::parse(&document).unwrap());
        let rows = now.beside.unwrap().rows;
        let row = |figure| rows.iter().find(|row| row.figure == figure);
        for lacking in
            [BesideFigure::SyncP99, BesideFigure::DeviceWrites, BesideFigure::DeviceFlushes]
        {
            assert_eq!(row(lacking), None);
        }
        assert_eq!(row(BesideFigure::Durable).unwrap().ratio, None);
        assert_eq!(row(BesideFigure::SyncP50).unwrap().ratio, Some(3.0));
    }
}
