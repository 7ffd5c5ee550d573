//! How two sides differ, apart from their results. Whether a difference matters is for the reader
//! to judge.
//!
//! Definitions are compared field by field as they are saved, so a field added to workloads is
//! compared without a change here.

use durio_observe::{Layer, Stack};
use serde::Serialize;
use serde_json::Value;

use super::comparison::Difference;
use super::side::{ComparedRun, Side};
use super::units::{UnitMember, WorkloadUnit};
use durio_analyse::{Findings, each_once, grouped};

type NamedFact = (String, String);

/// The device under the one path of each side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SharedDevice {
    /// Its name, or those of an array's members.
    names: Vec<String>,
    is_disk: bool,
    is_path_same: bool,
}

impl SharedDevice {
    /// What a reader should know: that the sides are repeats, if they are alike in everything, or
    /// two paths on one device. Nothing if something else was changed on purpose.
    pub(super) fn remark(&self, labels: &[String; 2], is_alike: bool) -> Option<String> {
        let what = if self.is_disk { "same disk" } else { "same storage" };
        let ([a, b], names) = (labels, self.names.join(", "));
        match (self.is_path_same, is_alike) {
            (true, true) => Some(format!("{what}: these are repeats")),
            (true, false) => None,
            (false, _) => Some(format!("{what}: {a} and {b} are two paths on {names}")),
        }
    }
}

/// A path that was measured, and the devices at the bottom of it.
#[derive(Debug, PartialEq, Eq)]
struct MeasuredPlace<'f> {
    host: Option<&'f str>,
    path: &'f str,
    /// Name, number and serial number of each; numbers alone may change at the next boot.
    devices: Vec<(&'f str, &'f str, Option<&'f str>)>,
    is_disk: bool,
}

/// The device that both sides measured, if each has one path and both lie on it.
pub(super) fn shared_device(baseline: &Side, other: &Side) -> Option<SharedDevice> {
    shared(&only_place(baseline)?, &only_place(other)?)
}

fn shared(a: &MeasuredPlace<'_>, b: &MeasuredPlace<'_>) -> Option<SharedDevice> {
    (a.host == b.host && a.devices == b.devices).then(|| SharedDevice {
        names: a.devices.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        is_disk: a.is_disk,
        is_path_same: a.path == b.path,
    })
}

/// The device that two places of one run share.
pub(super) fn shared_device_of_places(
    findings: &Findings,
    places: [&str; 2],
) -> Option<SharedDevice> {
    let host = findings.host.hostname.as_deref();
    let [a, b] = places.map(|place| {
        let stack = findings.stack.iter().find(|stack| stack.target == place)?;
        measured_place(stack, host)
    });
    shared(&a?, &b?)
}

/// The path of all runs of a side; `None` if there are several.
fn only_place(side: &Side) -> Option<MeasuredPlace<'_>> {
    let all = side.runs.iter().flat_map(|run| {
        let host = run.findings.host.hostname.as_deref();
        run.findings.stack.iter().map(move |stack| measured_place(stack, host))
    });
    let mut places = each_once(all.collect::<Option<Vec<_>>>()?);
    places.pop().filter(|_| places.is_empty())
}

/// `None` if the bottom of the path is not known, such as that of a scripted target.
fn measured_place<'f>(stack: &'f Stack, host: Option<&'f str>) -> Option<MeasuredPlace<'f>> {
    let layers = stack.walk().map(|(_, layer)| layer);
    let lowest: Vec<&'f Layer> = layers.filter(|layer| layer.below.is_empty()).collect();
    let device = |layer: &'f Layer| {
        let serial = layer.block.as_ref().and_then(|block| block.serial.as_deref());
        Some((layer.name.as_str(), layer.device.as_deref()?, serial))
    };
    Some(MeasuredPlace {
        host,
        path: &stack.target,
        devices: lowest.iter().copied().map(device).collect::<Option<_>>()?,
        is_disk: lowest.iter().all(|layer| layer.block.is_some()),
    })
}

/// In which facts of machine, storage and program the sides differ.
pub(super) fn of_environment(baseline: &Side, other: &Side) -> Vec<Difference> {
    let facts =
        |side: &Side| joined(side.runs.iter().map(ComparedRun::findings).map(facts).collect());
    between(&facts(baseline), &facts(other))
}

/// The facts of all runs of a side: where they differ among each other, all values.
fn joined(runs: Vec<Vec<NamedFact>>) -> Vec<NamedFact> {
    by_name(runs.into_iter().flatten(), " or ")
}

/// One fact for each name, with all its values.
fn by_name(facts: impl Iterator<Item = NamedFact>, between: &str) -> Vec<NamedFact> {
    let facts = grouped(facts, |a, b| a.0 == b.0).into_iter().map(|alike| {
        let (names, values): (Vec<String>, Vec<String>) = alike.into_iter().unzip();
        (names.into_iter().next().unwrap_or_default(), each_once(values).join(between))
    });
    facts.collect()
}

fn facts(findings: &Findings) -> Vec<NamedFact> {
    let host = &findings.host;
    let optional = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut facts: Vec<NamedFact> = [
        ("durio", findings.run.durio_version.clone()),
        ("kernel", host.kernel.clone()),
        ("operating system", optional(&host.os)),
        ("machine", optional(&host.dmi_product)),
        ("hypervisor", optional(&host.hypervisor)),
        ("processor", optional(&host.cpu_model)),
        ("processors allowed", host.cpus_allowed.to_string()),
        ("frequency governor", optional(&host.governor)),
        ("memory", host.memory.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    if findings.why.is_some() {
        facts.push(("slow commits recorded (--why)".to_owned(), "yes".to_owned()));
    }
    let parameters = host.kernel_parameters.iter();
    facts.extend(parameters.map(|fact| (fact.name.clone(), fact.value.clone())));
    facts.extend(by_name(findings.stack.iter().flat_map(storage), ", "));
    facts
}

fn storage(stack: &Stack) -> Vec<NamedFact> {
    let mut facts = vec![("location".to_owned(), stack.target.clone())];
    if let Some(filesystem) = stack.filesystem() {
        let options = filesystem.relevant_options.join(",");
        facts.push(("filesystem".to_owned(), format!("{} {options}", filesystem.fs_type)));
    }
    facts.extend(stack.walk().flat_map(|(_, layer)| device(layer)));
    facts
}

/// A block device in words: its properties, not the kernel's name for it.
fn device(layer: &Layer) -> Vec<NamedFact> {
    let Some(block) = &layer.block else { return Vec::new() };
    // Not the kernel's name: sda and sdb may change places with the next boot.
    let serial = block.serial.as_ref().map(|serial| format!("serial {serial}"));
    let size = block.size.map(|size| size.to_string());
    let known = [block.vendor.clone(), block.model.clone(), serial, size];
    let known = known.into_iter().flatten().filter(|word| !word.is_empty());
    let kind = std::iter::once(format!("{:?}", layer.kind));
    let cache = block
        .write_cache
        .map(|cache| format!("{cache:?}").to_lowercase().replace("write", "write "));
    let facts = [
        ("device", Some(kind.chain(known).collect::<Vec<_>>().join(" "))),
        ("scheduler", block.scheduler.clone()),
        ("write cache", cache),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    facts.chain(layer.facts.iter().map(|fact| (fact.name.clone(), fact.value.clone()))).collect()
}

/// The differences of two steps, and whether their workloads differ.
pub(super) fn of_steps(
    baseline: &WorkloadUnit<'_>,
    other: &WorkloadUnit<'_>,
) -> (bool, Vec<Difference>) {
    let defined = |unit: &WorkloadUnit<'_>| {
        let mut facts = fields(&unit.first.workload.definition);
        // Labels for people: two workloads are the same if they do the same.
        facts.retain(|(name, _)| name != "name" && name != "summary");
        facts
    };
    let mut differences = between(&defined(baseline), &defined(other));
    let different_workload = !differences.is_empty();
    let effective = |unit: &WorkloadUnit<'_>| fields(&unit.first.workload.effective);
    let further = between(&effective(baseline), &effective(other)).into_iter();
    let further = further.chain(between(&circumstances(baseline), &circumstances(other)));
    // The effective settings repeat the differences of the definitions: each is reported once.
    for difference in further {
        if !differences.iter().any(|known| known.what == difference.what) {
            differences.push(difference);
        }
    }
    (different_workload, differences)
}

/// Target, its size and the duration.
fn circumstances(unit: &WorkloadUnit<'_>) -> Vec<NamedFact> {
    let member: &UnitMember<'_> = &unit.first;
    let plan = &member.run.findings.plan;
    let Some(step) = member.step() else { return Vec::new() };
    let mut facts = fields(&step.limit);
    facts.push(("ramp".to_owned(), step.ramp.to_string()));
    facts.push(("target size".to_owned(), plan.target_of(&step.load).size.to_string()));
    facts.push(("target".to_owned(), member.workload.target.clone()));
    facts
}

/// The fields of a saved form, those of inner ones with both names.
fn fields(value: &impl Serialize) -> Vec<NamedFact> {
    let mut facts = Vec::new();
    flatten("", &serde_json::to_value(value).unwrap_or_default(), &mut facts);
    facts
}

fn flatten(name: &str, value: &Value, facts: &mut Vec<NamedFact>) {
    match value {
        Value::Object(fields) => {
            for (inner, value) in fields {
                let words = inner.replace('_', " ");
                flatten(format!("{name} {words}").trim_start(), value, facts);
            }
        }
        Value::String(text) => facts.push((name.to_owned(), text.clone())),
        Value::Array(values) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
            let texts: Vec<String> = values.iter().map(text).collect();
            facts.push((name.to_owned(), texts.join("; ")));
        }
        other => facts.push((name.to_owned(), other.to_string())),
    }
}

/// The words for something that one side lacks.
const ABSENT: &str = "none";

fn between(baseline: &[NamedFact], other: &[NamedFact]) -> Vec<Difference> {
    let find = |facts: &[NamedFact], name: &str| {
        let value = facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        value.filter(|value| !value.trim().is_empty()).unwrap_or_else(|| ABSENT.to_owned())
    };
    let known = |name: &str| baseline.iter().any(|(known_name, _)| known_name == name);
    let names = baseline.iter().chain(other.iter().filter(|(name, _)| !known(name)));
    let differences = names.map(|(name, _)| Difference {
        what: name.clone(),
        baseline: find(baseline, name),
        other: find(other, name),
    });
    differences.filter(|difference| difference.baseline != difference.other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Inner {
        method: &'static str,
    }

    #[derive(Serialize)]
    struct Outer {
        depth: u32,
        sync: Option<Inner>,
        features: Vec<&'static str>,
    }

    #[test]
    fn fields_of_any_depth_are_compared_by_name() {
        let a = Outer { depth: 1, sync: Some(Inner { method: "fsync" }), features: vec!["x", "y"] };
        let b = Outer { depth: 4, sync: None, features: vec!["x", "y"] };
        let found = between(&fields(&a), &fields(&b));
        let found: Vec<_> = found
            .iter()
            .map(|difference| {
                format!("{}: {}, {}", difference.what, difference.baseline, difference.other)
            })
            .collect();
        assert_eq!(found, ["depth: 1, 4", "sync method: fsync, none", "sync: none, null"]);
    }

    #[test]
    fn runs_of_one_side_that_differ_are_all_named() {
        let fact = |value: &str| vec![("kernel".to_owned(), value.to_owned())];
        let joined = joined(vec![fact("6.1"), fact("6.12"), fact("6.1")]);
        assert_eq!(joined, [("kernel".to_owned(), "6.1 or 6.12".to_owned())]);
    }

    #[test]
    fn storage_is_told_by_what_it_is_and_not_by_what_the_kernel_calls_it() {
        let block = |vendor: &str, cache: &str| {
            serde_json::json!({
                "vendor": vendor, "model": "M1", "serial": "77", "size_bytes": 1_073_741_824,
                "scheduler": "none", "write_cache": cache
            })
        };
        let layer = |kind: &str, block: Value, facts: Value, below: Value| {
            serde_json::json!({
                "kind": kind, "name": "x", "device": null, "filesystem": null, "block": block,
                "facts": facts, "below": below
            })
        };
        let facts = serde_json::json!([{"name": "level", "value": "raid1"}]);
        let disk = layer(
            "partition",
            block("", "write_through"),
            Value::Array(vec![]),
            Value::Array(vec![]),
        );
        let mut root =
            layer("partition", block("V", "write_back"), facts, Value::Array(vec![disk]));
        root["filesystem"] =
            serde_json::json!({"fs_type": "ext4", "relevant_options": ["a", "b=1"]});
        let stack: Stack =
            serde_json::from_value(serde_json::json!({"target": "/mnt", "root": root})).unwrap();
        let told: Vec<_> =
            storage(&stack).into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "location: /mnt",
            "filesystem: ext4 a,b=1",
            "device: Partition V M1 serial 77 1 GiB",
            "scheduler: none",
            "write cache: write back",
            "level: raid1",
            "device: Partition M1 serial 77 1 GiB",
            "scheduler: none",
            "write cache: write through",
        ];
        assert_eq!(told, expected);
    }

    fn stack(target: &str, name: &str, serial: Option<&str>) -> Stack {
        let disk = serde_json::json!({
            "kind": "disk", "name": name, "device": "8:0", "filesystem": null,
            "block": {"serial": serial}, "facts": [], "below": []
        });
        let root = serde_json::json!({
            "kind": "filesystem", "name": "/mnt", "device": "8:0", "filesystem": null,
            "block": null, "facts": [], "below": [disk]
        });
        serde_json::from_value(serde_json::json!({"target": target, "root": root})).unwrap()
    }

    #[test]
    fn one_path_on_one_device_is_a_repeat_and_another_path_shares_the_disk() {
        let labels = ["A", "B"].map(str::to_owned);
        let on = |a: (&Stack, &str), b: (&Stack, &str), is_alike| {
            let [a, b] = [a, b].map(|(stack, host)| measured_place(stack, Some(host)).unwrap());
            shared(&a, &b)?.remark(&labels, is_alike)
        };
        let remark = |a: &Stack, b: &Stack, is_alike| on((a, "vm"), (b, "vm"), is_alike);
        let here = stack("/mnt/db", "sda", Some("77"));
        let said = Some("same disk: these are repeats".to_owned());
        assert_eq!(remark(&here, &here, true), said);
        // Another scheduler or workload was changed on purpose.
        assert_eq!(remark(&here, &here, false), None);
        let said = Some("same disk: A and B are two paths on sda".to_owned());
        assert_eq!(remark(&here, &stack("/mnt/other", "sda", Some("77")), true), said);
        // The kernel's name and number may be another disk's at the next boot.
        assert_eq!(remark(&here, &stack("/mnt/db", "sda", Some("78")), true), None);
        assert_eq!(remark(&here, &stack("/mnt/db", "sdb", Some("77")), true), None);
        assert_eq!(on((&here, "vm"), (&here, "other"), true), None);
        let mut unknown = stack("/mnt/db", "sda", None);
        unknown.root.below[0].device = None;
        assert_eq!(measured_place(&unknown, None), None);
    }

    #[test]
    fn what_one_side_lacks_or_leaves_empty_is_none() {
        let of = |facts: &[(&str, &str)]| -> Vec<NamedFact> {
            facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let told = |a: &[(&str, &str)], b: &[(&str, &str)]| {
            let found = between(&of(a), &of(b)).into_iter();
            found
                .map(|difference| {
                    format!("{} {} {}", difference.what, difference.baseline, difference.other)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            told(&[("a", "1"), ("b", "2")], &[("b", "3"), ("c", "4")]),
            ["a 1 none", "b 2 3", "c none 4"]
        );
        assert_eq!(told(&[("a", " ")], &[]), [""; 0]);
        assert_eq!(told(&[("a", "")], &[("a", "x")]), ["a none x"]);
    }
}
