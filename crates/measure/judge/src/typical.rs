//! Typical latencies of classes of storage, which durio ships as data (data/typical.toml), and where
//! the commits of a check are among them.
//!
//! Only like is compared with like: one writer with one write in flight, and the volumes of a cloud,
//! which the device's model names, with that cloud's classes. A class without a source has no band.

use std::sync::OnceLock;

use durio_analyse::{
    BandPosition, MetLimit, PlacedClass, Placement, ThresholdSource, WorkloadFindings, each_once,
};
use durio_base::stats::least_squares::float;
use durio_command::{CommandError, CommandErrorKind};
use durio_observe::{CloudDisk, CloudProvider, Layer, Stack};
use durio_plan::{Provenance, Purpose};
use durio_record::OperationName;
use durio_workload::{CacheMode, Pattern};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use toml::{Table, Value};

use crate::RuleInput;
use crate::signals::ends;

const DATA: &str = include_str!("../data/typical.toml");

/// Writes that are compared, in bytes: those that most points were measured with.
const COMPARED_BYTES: std::ops::RangeInclusive<u64> = 4096..=8192;

/// How far a rate that stands at a limit may be from it: providers enforce theirs closely.
const AT_LIMIT: f64 = 0.03;

/// The largest access that a provider counts as one: Amazon's for SSD volumes, the smallest of them.
const ONE_ACCESS_BYTES_MAX: u64 = 256 << 10;

/// The data that this program was built with cannot be read: a test would have said so.
#[derive(Debug, Error)]
#[error("typical storage: {0}")]
pub struct TypicalError(String);

impl From<TypicalError> for CommandError {
    fn from(error: TypicalError) -> Self {
        Self::of(CommandErrorKind::Fault, error)
    }
}

/// All classes of storage, and limits of providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalStorage {
    /// When the sources were read.
    pub read_on: String,
    #[serde(rename(deserialize = "class"))]
    pub classes: Vec<TypicalClass>,
    #[serde(rename(deserialize = "limit"))]
    pub limits: Vec<TypicalLimit>,
}

/// A class of storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalClass {
    pub id: String,
    pub name: String,
    /// Which cloud's disks belong to it, and which of them; `None` outside of clouds.
    #[serde(skip_serializing)]
    provider: Option<CloudProvider>,
    #[serde(skip_serializing)]
    disk: Option<CloudDisk>,
    /// One small durable write in flight; `None` without a source.
    #[serde(skip_deserializing)]
    pub durable_write: Option<LatencyBand>,
    /// One small random read in flight; `None` without a source.
    #[serde(skip_deserializing)]
    pub random_read: Option<LatencyBand>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    pub points: Vec<TypicalPoint>,
}

/// The range of a class's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LatencyBand {
    pub latency_ns_min: u64,
    pub latency_ns_max: u64,
}

/// The publications about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalPoint {
    #[serde(
        default,
        rename(deserialize = "write_us"),
        deserialize_with = "from_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub durable_write_ns: Option<u64>,
    #[serde(
        default,
        rename(deserialize = "read_us"),
        deserialize_with = "from_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub random_read_ns: Option<u64>,
    pub device: String,
    /// Which statistic, and how it was made.
    pub figure: String,
    pub source: TypicalSource,
}

fn from_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let micros: Option<u64> = Option::deserialize(deserializer)?;
    Ok(micros.map(|micros| micros.saturating_mul(1000)))
}

/// Who published a latency or a limit, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalSource {
    pub publisher: String,
    pub document: String,
    /// Empty if its address is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The source's date; empty if it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub date: String,
}

/// A rate that a provider gives its volumes whatever their size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypicalLimit {
    pub provider: CloudProvider,
    pub iops: u32,
    /// What has this limit.
    pub of: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    pub source: TypicalSource,
}

/// The data that this program was built with.
///
/// # Errors
/// If it cannot be read: a test would have said so.
pub fn typical() -> Result<&'static TypicalStorage, TypicalError> {
    static STORAGE: OnceLock<Result<TypicalStorage, String>> = OnceLock::new();
    let storage = STORAGE.get_or_init(|| parse(DATA)).as_ref();
    storage.map_err(|reason| TypicalError(reason.clone()))
}

fn parse(text: &str) -> Result<TypicalStorage, String> {
    let mut document: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let sources = match document.remove("source") {
        Some(Value::Table(sources)) => sources,
        _ => Table::new(),
    };
    let mut document = Value::Table(document);
    put_sources(&mut document, &sources)?;
    let read = document.try_into::<TypicalStorage>();
    let mut storage = read.map_err(|error| error.to_string())?;
    for class in &mut storage.classes {
        let writes = class.points.iter().filter_map(|point| point.durable_write_ns);
        class.durable_write = LatencyBand::of(writes);
        let reads = class.points.iter().filter_map(|point| point.random_read_ns);
        class.random_read = LatencyBand::of(reads);
    }
    Ok(storage)
}

/// Puts each source in the place of its key.
fn put_sources(value: &mut Value, sources: &Table) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_sources(item, sources)),
        Value::Table(table) => {
            for (name, value) in table.iter_mut() {
                if name.as_str() != "source" {
                    put_sources(value, sources)?;
                    continue;
                }
                let key = value.as_str().unwrap_or_default();
                let source = sources.get(key).ok_or_else(|| format!("unknown source {key}"))?;
                *value = source.clone();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

impl TypicalClass {
    fn placed(&self, band: LatencyBand) -> PlacedClass {
        let LatencyBand { latency_ns_min, latency_ns_max } = band;
        PlacedClass { id: self.id.clone(), name: self.name.clone(), latency_ns_min, latency_ns_max }
    }
}

impl LatencyBand {
    fn of(latencies: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        let latency_ns_min = latencies.clone().min()?;
        Some(Self { latency_ns_min, latency_ns_max: latencies.max()? })
    }

    fn position(self, nanos: u64) -> BandPosition {
        match nanos {
            _ if nanos < self.latency_ns_min => BandPosition::Faster,
            _ if nanos > self.latency_ns_max => BandPosition::Slower,
            _ => BandPosition::Within,
        }
    }

    /// How far it is outside of the band, and how wide the band is, both as logarithms: twice as fast
    /// is as far away as twice as slow.
    fn distance(self, nanos: u64) -> (f64, f64) {
        let log = |nanos: u64| float(nanos.max(1)).ln();
        let (low, high, it) = (log(self.latency_ns_min), log(self.latency_ns_max), log(nanos));
        ((low - it).max(it - high).max(0.0), high - low)
    }
}

/// Where the commits of each location are among those of typical storage; only of a check, whose
/// commits are like those that the data has.
pub(crate) fn placements(input: &RuleInput<'_>) -> Vec<Placement> {
    let is_check = input.plan.purpose == Purpose::Check;
    // A test reads the data.
    let Some(storage) = typical().ok().filter(|_| is_check) else { return Vec::new() };
    let compared: Vec<_> =
        input.workloads.iter().filter(|workload| is_compared(workload)).collect();
    let locations = each_once(compared.iter().map(|workload| workload.location.as_str()));
    let first = |location: &str| compared.iter().find(|workload| workload.location == location);
    let commits = locations.into_iter().filter_map(first);
    commits.filter_map(|commit| storage.place(input, commit)).collect()
}

/// One writer with one small durable write in flight, as fast as it can.
fn is_compared(it: &WorkloadFindings) -> bool {
    it.complete
        && it.durable
        && it.open_loop.is_none()
        && it.definition.group_commit.is_none()
        && (it.effective.jobs, it.effective.depth) == (1, 1)
        && COMPARED_BYTES.contains(&it.definition.block_size.get())
}

impl TypicalStorage {
    fn place(&self, input: &RuleInput<'_>, commit: &WorkloadFindings) -> Option<Placement> {
        let operation = commit.operation(OperationName::Commit)?;
        let p50 = operation.service.p50_ns?;
        let stack = input.stack_at(&commit.location).filter(|stack| !stack.is_in_memory())?;
        // Disks of several kinds under one location are like no class.
        let cloud = match each_once(ends(stack).map(cloud_of)).as_slice() {
            [] => None,
            [cloud] => *cloud,
            _ => return None,
        };
        let classes = self.classes.iter().filter(|class| class.provider.zip(class.disk) == cloud);
        let mut near: Vec<(&TypicalClass, LatencyBand)> =
            classes.filter_map(|class| Some((class, class.durable_write?))).collect();
        // The narrowest of several bands says most.
        near.sort_by(|(_, one), (_, other)| {
            let (one, other) = (one.distance(p50), other.distance(p50));
            one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let ((class, band), others) = near.split_first()?;
        let mut among: Vec<_> = near.iter().map(|(class, band)| class.placed(*band)).collect();
        among.sort_by_key(|class| (class.latency_ns_min, class.latency_ns_max));
        let also = others.iter().filter(|(_, band)| band.position(p50) == BandPosition::Within);
        Some(Placement {
            location: commit.location.clone(),
            workload: commit.name.clone(),
            commit_latency_ns_p50: p50,
            commits_per_second: operation.rate,
            recognised: cloud.map(|(provider, disk)| disks_of(provider, disk).to_owned()),
            nearest: class.placed(*band),
            position: band.position(p50),
            also: also.map(|(class, _)| class.name.clone()).collect(),
            among,
            limit: cloud.and_then(|cloud| self.met_limit(input, stack, &commit.location, cloud)),
        })
    }

    /// The limit at which a workload of the location stands that keeps several accesses in flight.
    fn met_limit(
        &self,
        input: &RuleInput<'_>,
        stack: &Stack,
        location: &str,
        (provider, disk): (CloudProvider, CloudDisk),
    ) -> Option<MetLimit> {
        // Several volumes have a limit each, and a cache or an array in between changes the count.
        if disk != CloudDisk::Volume || ends(stack).count() != 1 {
            return None;
        }
        let mut its = self.limits.iter().filter(|limit| limit.provider == provider);
        its.find_map(|limit| {
            let stands = |workload: &&WorkloadFindings| {
                let share = workload.iops / f64::from(limit.iops);
                workload.location == location
                    && reaches_limits(workload)
                    && (share - 1.0).abs() <= AT_LIMIT
            };
            let workload = input.workloads.iter().find(stands)?;
            Some(MetLimit {
                workload: workload.name.clone(),
                iops: workload.iops,
                limit_iops: limit.iops,
                of: limit.of.clone(),
                then: limit.then.clone(),
                source: limit.source.threshold(),
            })
        })
    }
}

impl TypicalSource {
    fn threshold(&self) -> ThresholdSource {
        ThresholdSource {
            publisher: self.publisher.clone(),
            document: self.document.clone(),
            url: self.url.clone(),
            kind: Some(Provenance::VendorDoc),
        }
    }
}

/// Random accesses past the page cache, several at a time, each of which counts as one.
fn reaches_limits(it: &WorkloadFindings) -> bool {
    it.complete
        && it.open_loop.is_none()
        && it.definition.pattern == Pattern::Random
        && it.effective.cache == CacheMode::Direct
        && it.effective.jobs.saturating_mul(it.effective.depth) > 1
        && it.definition.block_size.get() <= ONE_ACCESS_BYTES_MAX
}

fn cloud_of(layer: &Layer) -> Option<(CloudProvider, CloudDisk)> {
    let block = layer.block.as_ref()?;
    CloudProvider::of_disk(block.vendor.as_deref().unwrap_or_default(), block.model.as_deref()?)
}

/// As the provider calls them. The model says no more: `Amazon Elastic Block Store` is gp2 or io2.
const fn disks_of(provider: CloudProvider, disk: CloudDisk) -> &'static str {
    match (provider, disk) {
        (CloudProvider::Amazon, CloudDisk::Volume) => "Amazon EBS",
        (CloudProvider::Amazon, CloudDisk::Local) => "Amazon EC2 instance store",
        (CloudProvider::Google, CloudDisk::Volume) => "Google persistent disk or Hyperdisk",
        (CloudProvider::Google, CloudDisk::Local) => "Google local SSD",
        (CloudProvider::Azure, CloudDisk::Volume) => "Azure managed disk",
        (CloudProvider::Azure, CloudDisk::Local) => "Azure local NVMe",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use durio_base::Bytes;
    use durio_observe::LayerKind;

    use super::*;
    use crate::tests::{Sample, disk, over, sample, stack_of};

    const EBS: &str = "Amazon Elastic Block Store";

    fn placed(spoil: impl FnOnce(&mut Sample)) -> Option<Placement> {
        let mut sample = sample();
        spoil(&mut sample);
        let mut found = placements(&sample.input());
        assert!(found.len() <= 1, "{found:?}");
        found.pop()
    }

    fn at(micros: u64) -> impl Fn(&mut Sample) {
        move |sample| sample.headline().service.p50_ns = Some(micros * 1000)
    }

    fn place(spoil: impl FnOnce(&mut Sample)) -> Option<(String, BandPosition)> {
        placed(spoil).map(|it| (it.nearest.id, it.position))
    }

    #[test]
    fn every_point_has_a_source_and_every_source_a_use() {
        let storage = parse(DATA).unwrap();
        let sources = storage.limits.iter().map(|limit| &limit.source);
        let mut used: Vec<&TypicalSource> = sources.collect();
        for class in &storage.classes {
            assert_eq!(class.provider.is_some(), class.disk.is_some(), "{}", class.id);
            // A class without a band says why.
            assert!(!class.points.is_empty() || !class.note.is_empty(), "{}", class.id);
            for point in &class.points {
                let latencies = [point.durable_write_ns, point.random_read_ns];
                let latencies: Vec<u64> = latencies.into_iter().flatten().collect();
                // One access, from the fastest flash to a disk under load.
                assert!(!latencies.is_empty(), "{}: {}", class.id, point.device);
                let is_likely = |nanos: &u64| (5_000..100_000_000).contains(nanos);
                assert!(latencies.iter().all(is_likely), "{latencies:?}");
                assert!(!point.device.is_empty() && !point.figure.is_empty(), "{}", class.id);
                used.push(&point.source);
            }
        }
        let document: Table = DATA.parse().unwrap();
        for (key, source) in document["source"].as_table().unwrap() {
            let source: TypicalSource = source.clone().try_into().unwrap();
            assert!(used.contains(&&source), "{key} is not used");
            let has_address = source.url.starts_with("http");
            assert!(has_address || source.document.contains("published-results.csv"), "{key}");
            assert!(!source.publisher.is_empty(), "{key}");
        }
    }

    #[test]
    fn the_data_is_read_and_a_band_is_the_range_of_its_points() {
        let storage = typical().unwrap();
        let class = |id: &str| storage.classes.iter().find(|class| class.id == id).unwrap();
        let band =
            |latency_ns_min, latency_ns_max| Some(LatencyBand { latency_ns_min, latency_ns_max });
        assert_eq!(class("ebs-gp3").durable_write, band(1_333_000, 2_800_000));
        assert_eq!(class("hdd").random_read, band(12_400_000, 16_200_000));
        assert_eq!(class("sata-ssd").random_read, None);
        assert_eq!(class("azure-local").durable_write, None);
        let ids: BTreeSet<_> = storage.classes.iter().map(|class| &class.id).collect();
        assert_eq!(ids.len(), storage.classes.len());
    }

    #[test]
    fn a_point_whose_source_is_missing_is_refused() {
        let text = DATA.replacen("source = \"etcd\"", "source = \"hearsay\"", 1);
        assert_eq!(parse(&text).unwrap_err(), "unknown source hearsay");
    }

    #[test]
    fn commits_are_placed_within_a_band_or_beside_the_nearest() {
        use BandPosition::{Faster, Slower, Within};
        for (micros, id, position) in [
            (480, "sata-ssd", Within),
            (5, "nvme-plp", Faster),
            (30, "nvme-plp", Within),
            (150, "nvme-plp", Slower),
            (5_000, "nvme", Within),
            (8_000, "nvme", Slower),
            (9_000, "hdd", Faster),
            (40_000, "hdd", Slower),
        ] {
            let found = place(at(micros));
            assert_eq!(found, Some((id.to_owned(), position)), "{micros} µs");
        }
        let both = placed(at(1_300)).unwrap();
        assert_eq!(
            (both.nearest.id.as_str(), both.also),
            ("sata-ssd", vec!["consumer NVMe SSD".to_owned()])
        );
        let alone = placed(at(480)).unwrap();
        assert_eq!((alone.also, alone.recognised), (Vec::new(), None));
        assert_eq!((alone.commit_latency_ns_p50, alone.nearest.latency_ns_min), (480_000, 355_000));
        assert_eq!((alone.workload.as_str(), alone.commits_per_second), ("commit", 1000.0));
    }

    #[test]
    fn a_cloud_s_disk_is_compared_with_its_cloud_s_classes_alone() {
        let on = |model: &'static str, micros: u64| {
            placed(move |sample| {
                sample.block().model = Some(model.into());
                at(micros)(sample);
            })
        };
        let found = on(EBS, 480).unwrap();
        assert_eq!((found.nearest.id.as_str(), found.position), ("ebs-io2", BandPosition::Faster));
        assert_eq!(found.recognised.as_deref(), Some("Amazon EBS"));
        assert_eq!(on(EBS, 30_000).unwrap().nearest.id, "ebs-io2");
        let both = on(EBS, 1_500).unwrap();
        assert_eq!((both.nearest.id.as_str(), both.also.len()), ("ebs-gp3", 1));
        let ids: Vec<_> = both.among.iter().map(|class| class.id.as_str()).collect();
        assert_eq!(ids, ["ebs-io2", "ebs-gp2", "ebs-gp3"]);
        assert_eq!(on("nvme_card-pd", 480).unwrap().nearest.id, "gce-pd-ssd");
        let local = on("Amazon EC2 NVMe Instance Storage", 480).unwrap();
        assert_eq!(
            (local.nearest.id.as_str(), local.position),
            ("ec2-local", BandPosition::Slower)
        );
        // No source says what it does.
        assert_eq!(on("Microsoft NVMe Direct Disk", 480), None);
    }

    #[test]
    fn only_one_writer_s_complete_small_durable_writes_to_storage_are_placed() {
        assert!(place(|_| {}).is_some());
        assert_eq!(place(|sample| sample.workloads[0].effective.jobs = 2), None);
        assert_eq!(place(|sample| sample.workloads[0].effective.depth = 2), None);
        assert_eq!(place(|sample| sample.workloads[0].complete = false), None);
        assert_eq!(place(|sample| sample.workloads[0].durable = false), None);
        assert_eq!(place(|sample| sample.headline().service.p50_ns = None), None);
        assert_eq!(place(|sample| sample.plan.purpose = Purpose::Run), None);
        let of_bytes = |bytes| {
            place(move |sample| sample.workloads[0].definition.block_size = Bytes::new(bytes))
        };
        assert_eq!([4095, 8193].map(of_bytes), [None, None]);
        assert!(of_bytes(4096).is_some());
        let in_memory =
            |sample: &mut Sample| sample.environment.stacks[0].root.kind = LayerKind::Memory;
        assert_eq!(place(in_memory), None);
        // The first of several.
        let twice = placed(|sample| {
            let mut again = sample.workloads[0].clone();
            again.name = "again".to_owned();
            sample.workloads.push(again);
        });
        assert_eq!(twice.unwrap().workload, "commit");
    }

    /// Reads of 8 KiB, 32 in flight, at this rate.
    fn lookup(sample: &mut Sample, iops: f64) {
        let mut lookup = sample.workloads[0].clone();
        lookup.name = "lookup".to_owned();
        lookup.durable = false;
        lookup.definition.pattern = Pattern::Random;
        lookup.effective.depth = 32;
        lookup.iops = iops;
        sample.workloads.push(lookup);
    }

    fn limit(model: &str, iops: f64, spoil: impl FnOnce(&mut Sample)) -> Option<MetLimit> {
        let found = placed(|sample| {
            sample.block().model = Some(model.to_owned());
            at(1_500)(sample);
            lookup(sample, iops);
            spoil(sample);
        });
        found.and_then(|it| it.limit)
    }

    #[test]
    fn a_rate_at_what_a_cloud_includes_is_said_to_stand_there() {
        let found = limit(EBS, 2_990.0, |_| {}).unwrap();
        assert_eq!(
            (found.workload.as_str(), found.iops, found.limit_iops),
            ("lookup", 2_990.0, 3_000)
        );
        assert!(found.of.contains("gp3") && found.then.is_some(), "{found:?}");
        assert!(found.source.url.contains("docs.aws.amazon.com"), "{found:?}");
        let stands = |iops| limit(EBS, iops, |_| {}).is_some();
        assert_eq!([2_900.0, 2_911.0, 3_089.0, 3_100.0].map(stands), [false, true, true, false]);
        let azure = limit("MSFT NVMe Accelerator v1.0", 3_010.0, |_| {}).unwrap();
        assert!(azure.of.contains("Premium SSD v2") && azure.then.is_none(), "{azure:?}");
        assert_eq!(limit("nvme_card-pd", 3_000.0, |_| {}), None);
        assert_eq!(limit("Samsung SSD 990 PRO", 3_000.0, |_| {}), None);
        assert_eq!(limit("Amazon EC2 NVMe Instance Storage", 3_000.0, |_| {}), None);
    }

    #[test]
    fn a_rate_that_something_else_may_hold_back_stands_at_no_limit() {
        let spoilt = |spoil: fn(&mut WorkloadFindings)| {
            limit(EBS, 3_000.0, |sample| spoil(&mut sample.workloads[1]))
        };
        assert!(spoilt(|_| {}).is_some());
        assert_eq!(spoilt(|it| it.effective.depth = 1), None);
        assert_eq!(spoilt(|it| it.effective.cache = CacheMode::Buffered), None);
        assert_eq!(spoilt(|it| it.definition.pattern = Pattern::Sequential), None);
        assert_eq!(spoilt(|it| it.definition.block_size = Bytes::from_kib(512)), None);
        assert_eq!(spoilt(|it| it.complete = false), None);
        assert_eq!(spoilt(|it| it.location = "/other".to_owned()), None);
        let volumes = |models: [&'static str; 2]| {
            placed(move |sample| {
                let volume = |model: &str| {
                    let mut disk = disk(model);
                    disk.block.as_mut().unwrap().model = Some(model.to_owned());
                    disk
                };
                let array = over(LayerKind::Md, "md0", models.map(volume).into());
                sample.environment.stacks[0] = stack_of(array);
                lookup(sample, 3_000.0);
            })
        };
        let array = volumes([EBS, EBS]).unwrap();
        assert_eq!((array.recognised.as_deref(), array.limit), (Some("Amazon EBS"), None));
        assert_eq!(volumes([EBS, "Amazon EC2 NVMe Instance Storage"]), None);
        assert_eq!(volumes([EBS, "Samsung SSD 990 PRO"]), None);
    }
}
