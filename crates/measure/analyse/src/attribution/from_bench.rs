//! From the manifest of a bench folder to its points.
//!
//! A [`BenchManifest`] and the findings of its runs, layer by layer, give a [`BenchPoints`]: base, kind
//! and array of each point.

use durio_base::RaidLevel;
use durio_layers::{
    DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, Device, Loop, Lvm, LvmLayout, Null,
    Raid, Ram, Zram,
};
use durio_plan::SeveralDevices;
use durio_record::bench::{BenchLayer, BenchManifest, BenchStack, LayerState};

use super::points::{Base, BaseKind, BenchPoints, PointKind, RaidPoint, StackPoint, Timing};
use crate::Findings;
use crate::campaign::baseline::layout_of;
use crate::raid_efficiency::{ArrayLayout, MemberLayout};

/// The measured layers of each stack; `findings` are those of the runs, per stack and layer.
///
/// A layer that was not to be measured gives no point: the layers above it are compared with the
/// next measured one below. A layer that could not be built or measured is a point with the reason.
pub fn bench_of<'a>(
    manifest: &BenchManifest<DeclaredStack>,
    findings: &'a [Vec<Option<Findings>>],
    timing: Option<Timing>,
) -> BenchPoints<'a> {
    let mut points: Vec<StackPoint<'a>> = Vec::new();
    for (at, stack) in manifest.stacks.iter().enumerate() {
        let of_stack = findings.get(at).map_or(&[][..], Vec::as_slice);
        let mut below = None;
        for (index, layer) in stack.layers.iter().enumerate() {
            let declared = stack.declared.layers.get(index);
            if !declared.is_some_and(|declared| declared.measured) {
                continue;
            }
            let found = of_stack.get(index).and_then(Option::as_ref);
            let point = point(manifest, stack, index, layer, found);
            let point = StackPoint { below, ..point };
            below = Some(points.len());
            points.push(point);
        }
    }
    BenchPoints { name: manifest.name.clone(), summary: manifest.summary.clone(), timing, points }
}

fn point<'a>(
    manifest: &BenchManifest<DeclaredStack>,
    stack: &BenchStack<DeclaredStack>,
    index: usize,
    layer: &BenchLayer,
    found: Option<&'a Findings>,
) -> StackPoint<'a> {
    let nothing = || Base { kind: BaseKind::Device, label: layer.label.clone() };
    let declared = &stack.declared;
    let published = manifest.published.iter();
    let published = published.filter(|share| share.stack == declared.name && share.layer == index);
    StackPoint {
        stack: declared.name.clone(),
        layer: layer.label.clone(),
        // An index without a layer is passed over before.
        kind: declared.layers.get(index).map_or(PointKind::Raw, |layer| kind_of(&layer.kind)),
        base: base_of(declared, manifest.several_devices).unwrap_or_else(nothing),
        below: None,
        raid: raid_of(declared, index),
        no_model: declared.layers.get(index).and_then(|layer| no_model_of(&layer.kind)),
        published: published.cloned().collect(),
        runs: found.into_iter().collect(),
        failure: failure(stack, layer, found),
    }
}

/// Why a point has no results, or what went wrong with them.
fn failure(
    stack: &BenchStack<DeclaredStack>,
    layer: &BenchLayer,
    found: Option<&Findings>,
) -> Option<String> {
    let reason = |otherwise: &str| stack.failure.clone().unwrap_or_else(|| otherwise.to_owned());
    match layer.state {
        LayerState::Measured if found.is_some() => None,
        LayerState::Measured => Some("its run cannot be read".to_owned()),
        LayerState::Partial => Some(reason("its run is incomplete")),
        LayerState::Failed => Some(reason("it could not be built")),
        // A layer above one that failed was never tried: the reason is the lower one's.
        LayerState::Waiting => Some(match &stack.failure {
            Some(failure) => format!("not built: {failure}"),
            None => "the bench ended before it was measured".to_owned(),
        }),
        LayerState::Built => Some(reason("it was built but not measured")),
        LayerState::Unknown => Some("its state was written by a newer durio".to_owned()),
    }
}

/// The devices at the bottom, with their number if all are measured; `None` without devices.
fn base_of(stack: &DeclaredStack, several: SeveralDevices) -> Option<Base> {
    let (kind, label) = match &stack.layers.first()?.kind {
        DeclaredKind::Ram(Ram { made }) => (BaseKind::Ram, format!("RAM disks of {}", made.size)),
        DeclaredKind::Zram(Zram { made }) => (BaseKind::Zram, format!("zram of {}", made.size)),
        DeclaredKind::Null(Null { made, completion, queue_depth }) => {
            let time =
                completion.map_or_else(|| "at once".to_owned(), |time| format!("after {time}"));
            let depth =
                queue_depth.map_or_else(String::new, |depth| format!(", {depth} at a time"));
            (BaseKind::Null, format!("null_blk of {}, done {time}{depth}", made.size))
        }
        DeclaredKind::Loop(Loop { made, directory }) => {
            let place = directory.as_ref().map_or_else(String::new, |path| format!(" in {path}"));
            (BaseKind::Loop, format!("loop devices of {}{place}", made.size))
        }
        DeclaredKind::Device(Device { paths }) => (BaseKind::Device, paths.join(" ")),
        _ => return None,
    };
    // Points with one label count as the same storage: raw storage of two devices is not a measure
    // of four, so their number is a part of the label.
    let measured = devices(stack, 0).filter(|_| several == SeveralDevices::All);
    let label = match measured.filter(|count| *count > 1) {
        // Devices that existed before are named separately.
        Some(count) if kind != BaseKind::Device => format!("{count} × {label}"),
        _ => label,
    };
    Some(Base { kind, label })
}

/// The kind of a point with this layer on top.
const fn kind_of(kind: &DeclaredKind) -> PointKind {
    match kind {
        DeclaredKind::Md(_)
        | DeclaredKind::Raid(_)
        | DeclaredKind::Lvm(Lvm { layout: LvmLayout::Raid1 | LvmLayout::Raid10, .. }) => {
            PointKind::Raid
        }
        kind if kind.is_filesystem() => PointKind::Filesystem,
        kind if kind.is_source() => PointKind::Raw,
        _ => PointKind::Volume,
    }
}

/// The array that a layer makes, if there is a model of it: md 0, 1, 4, 5, 6 and 10, a mirror of
/// stripes or stripes over mirrors, durio's own on devices, LVM striped, raid1 and raid10.
// Journals and partial parity logs have no model, because they write more than it knows, nor have
// the filesystems' own arrays, which do not write in place.
fn raid_of(stack: &DeclaredStack, at: usize) -> Option<RaidPoint> {
    let layer = stack.layers.get(at)?;
    let members = members(stack, at)?;
    let (array, degraded_members) = match &layer.kind {
        DeclaredKind::Md(md) => match at.checked_sub(1).and_then(|below| under(stack, below)) {
            Some((lower, lower_members)) => (nested(md, members, lower, lower_members)?, 0),
            None => (of_md(md, members)?, md.removed),
        },
        DeclaredKind::Raid(raid) if stack.layers.get(at.checked_sub(1)?)?.kind.is_source() => {
            (of_own(raid, members)?, 0)
        }
        DeclaredKind::Lvm(Lvm { layout, .. }) => (of_lvm(*layout, members)?, 0),
        _ => return None,
    };
    Some(RaidPoint { array, degraded_members })
}

/// Devices that each group of the layer at `at` is made of.
fn members(stack: &DeclaredStack, at: usize) -> Option<u32> {
    let below = at.checked_sub(1)?;
    let groups = stack.layers.get(at)?.groups;
    let devices = devices(stack, below)?;
    (groups > 0 && devices.is_multiple_of(groups)).then(|| devices / groups)
}

/// Devices that the layer at `at` makes; each group becomes one.
fn devices(stack: &DeclaredStack, at: usize) -> Option<u32> {
    let layer: &DeclaredLayer = stack.layers.get(at)?;
    match &layer.kind {
        DeclaredKind::Device(Device { paths }) => u32::try_from(paths.len()).ok(),
        kind => Some(kind.made().map_or(layer.groups, |made| made.count)),
    }
}

/// The arrays that an array lies on.
fn under(stack: &DeclaredStack, at: usize) -> Option<(&DeclaredMd, u32)> {
    let DeclaredKind::Md(md) = &stack.layers.get(at)?.kind else { return None };
    Some((md, members(stack, at)?))
}

/// An array of durio. Its map is not in the model, as md's bitmap is not.
fn of_own(raid: &Raid, members: u32) -> Option<ArrayLayout> {
    let level = Some(raid.level).filter(|level| level.parities() == 0)?;
    Some(ArrayLayout { layout: layout_of(level, members, None), members })
}

fn of_md(md: &DeclaredMd, members: u32) -> Option<ArrayLayout> {
    if md.journal || md.ppl {
        return None;
    }
    if md.level == 4 {
        return Some(ArrayLayout { layout: level_4(members), members });
    }
    let level = RaidLevel::of_number(md.level)?;
    // n2, f3, o2: the digit is the number of copies.
    let copies = md.layout.as_ref().and_then(|layout| layout.get(1..)?.parse().ok());
    let copies = copies.filter(|_| level == RaidLevel::Raid10);
    Some(ArrayLayout { layout: layout_of(level, members, copies), members })
}

/// Why an array unknown to [`raid_of`] has no model; `None` if it is not an array.
fn no_model_of(kind: &DeclaredKind) -> Option<&'static str> {
    let DeclaredKind::Md(md) = kind else {
        return (kind_of(kind) == PointKind::Raid).then_some("there is no model of its layout");
    };
    Some(if md.ppl {
        "no model: each small write adds a write to the partial parity log, and how many of these \
         are merged depends on the load"
    } else if md.journal {
        "no model: each write goes to the journal first, and later, often merged with others, to \
         the array"
    } else {
        "there is no model of its layout"
    })
}

/// Parity of level 4 is brought up to date as that of level 5.
fn level_4(members: u32) -> MemberLayout {
    match layout_of(RaidLevel::Raid5, members, None) {
        MemberLayout::Raid5 { parity_write } => MemberLayout::Raid4 { parity_write },
        other => other,
    }
}

/// Two copies of stripes, or stripes over copies.
// Either way each block is on as many members as the mirror has, and the failures that it survives
// are those of RAID10.
fn nested(upper: &DeclaredMd, above: u32, lower: &DeclaredMd, below: u32) -> Option<ArrayLayout> {
    let copies = match (upper.level, lower.level, lower.removed) {
        (1, 0, 0) => above,
        (0, 1, 0) => below,
        _ => return None,
    };
    // A member of the upper array that is removed takes all of its lower ones with it.
    let members = above.checked_mul(below).filter(|_| upper.removed == 0)?;
    Some(ArrayLayout { layout: MemberLayout::Raid10 { copies }, members })
}

fn of_lvm(layout: LvmLayout, members: u32) -> Option<ArrayLayout> {
    let layout = match layout {
        LvmLayout::Linear => return None,
        LvmLayout::Striped => MemberLayout::Raid0,
        LvmLayout::Raid1 => MemberLayout::Raid1 { copies: members },
        // durio-layers makes it with one mirror of each stripe (--mirrors 1).
        LvmLayout::Raid10 => MemberLayout::Raid10 { copies: 2 },
    };
    Some(ArrayLayout { layout, members })
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_layers::{Ext4, MdBitmap, NewDevices, RaidFront};
    use durio_plan::PublishedShare;
    use durio_record::bench::BENCH_FOLDER_SCHEMA;

    use super::super::tests::{run, writes};
    use super::*;
    use crate::raid_efficiency::{ParityWrite, model};

    fn declared(measured: bool, kind: DeclaredKind) -> DeclaredLayer {
        DeclaredLayer { kind, groups: 1, measured }
    }

    /// RAM disks, a mirror on them that is not measured, ext4 on it.
    fn stack(failure: Option<&str>, states: [LayerState; 3]) -> BenchStack<DeclaredStack> {
        let layers = vec![
            declared(
                true,
                DeclaredKind::Ram(Ram { made: NewDevices { count: 2, size: Bytes::from_mib(64) } }),
            ),
            declared(false, DeclaredKind::Md(md(1, None))),
            declared(true, DeclaredKind::Ext4(Ext4::default())),
        ];
        let labels = ["ram", "md", "ext4"].map(|word| (word.to_owned(), format!("the {word}")));
        let stack = DeclaredStack { name: "s".into(), layers };
        let mut stack = BenchStack::waiting(stack, labels.into());
        stack.failure = failure.map(str::to_owned);
        stack.layers.iter_mut().zip(states).for_each(|(layer, state)| layer.state = state);
        stack
    }

    fn manifest(stack: BenchStack<DeclaredStack>) -> BenchManifest<DeclaredStack> {
        let published = |layer, share_of_raw| PublishedShare {
            stack: "s".into(),
            layer,
            workload: "randwrite".into(),
            jobs: Some(16),
            share_of_raw,
            rate: None,
            source: Some("somebody".into()),
        };
        BenchManifest {
            schema: BENCH_FOLDER_SCHEMA,
            bench: "b".into(),
            durio_version: "0".into(),
            started: String::new(),
            command: Vec::new(),
            label: None,
            name: "n".into(),
            summary: String::new(),
            spec: String::new(),
            seed: 1,
            time_scale_per_mille: 1000,
            size_scale_per_mille: 1000,
            several_devices: SeveralDevices::One,
            published: vec![published(2, 0.3), published(1, 0.5)],
            outcome: None,
            stacks: vec![stack],
        }
    }

    #[test]
    fn a_layer_that_is_not_measured_is_no_point_and_what_lies_on_it_lies_on_the_next_below() {
        use LayerState::{Built, Measured};
        let manifest = manifest(stack(None, [Measured, Built, Measured]));
        let findings = vec![vec![Some(run(&[writes(2.0)])), None, Some(run(&[writes(1.0)]))]];
        let bench = bench_of(&manifest, &findings, Some(Timing::Counted));
        let kinds: Vec<_> = bench.points.iter().map(|point| (point.kind, point.below)).collect();
        assert_eq!(kinds, [(PointKind::Raw, None), (PointKind::Filesystem, Some(0))]);
        assert!(bench.points.iter().all(|point| point.failure.is_none() && point.runs.len() == 1));
        assert_eq!(bench.points[1].layer, "the ext4");
        let shares: Vec<_> = bench.points[1]
            .published
            .iter()
            .map(|share| (share.share_of_raw, share.jobs))
            .collect();
        assert_eq!(shares, [(0.3, Some(16))], "of this layer alone");
        assert_eq!(bench.points[0].base.kind, BaseKind::Ram);
    }

    #[test]
    fn raw_storage_of_several_devices_is_the_same_only_for_as_many() {
        let labels = |several| {
            let mut manifest = manifest(stack(None, [LayerState::Measured; 3]));
            manifest.several_devices = several;
            let mut wider = manifest.stacks[0].clone();
            let made = NewDevices { count: 5, size: Bytes::from_mib(64) };
            wider.declared.layers[0].kind = DeclaredKind::Ram(Ram { made });
            manifest.stacks.push(wider);
            let points = bench_of(&manifest, &[], None).points.into_iter();
            let raw = points.filter(|point| point.kind == PointKind::Raw);
            raw.map(|raw| raw.base.label).collect::<Vec<_>>()
        };
        assert_eq!(labels(SeveralDevices::One), ["RAM disks of 64 MiB"; 2]);
        let all = ["2 × RAM disks of 64 MiB", "5 × RAM disks of 64 MiB"];
        assert_eq!(labels(SeveralDevices::All), all);
    }

    #[test]
    fn a_point_without_figures_says_why() {
        use LayerState::{Failed, Measured, Waiting};
        let why = |failure, states, found: bool| {
            let manifest = manifest(stack(failure, states));
            let findings = vec![vec![Some(run(&[writes(2.0)])), None, None]];
            let findings = if found { findings } else { Vec::new() };
            let bench = bench_of(&manifest, &findings, None);
            bench.points[1].failure.clone().unwrap()
        };
        let mkfs = Some("mkfs.ext4: no space");
        assert_eq!(why(mkfs, [Measured, Measured, Failed], true), "mkfs.ext4: no space");
        assert_eq!(why(mkfs, [Measured, Failed, Waiting], true), "not built: mkfs.ext4: no space");
        assert_eq!(
            why(None, [Measured, Waiting, Waiting], true),
            "the bench ended before it was measured"
        );
        assert_eq!(why(None, [Measured; 3], false), "its run cannot be read");
    }

    fn md(level: u8, layout: Option<&str>) -> DeclaredMd {
        DeclaredMd {
            level,
            layout: layout.map(str::to_owned),
            chunk: None,
            bitmap: MdBitmap::None,
            bitmap_chunk: None,
            ppl: false,
            journal: false,
            initial_sync: false,
            removed: 0,
            degraded: false,
        }
    }

    fn layer(kind: DeclaredKind, groups: u32) -> DeclaredLayer {
        DeclaredLayer { kind, groups, measured: true }
    }

    fn over(count: u32, upper: Vec<DeclaredLayer>) -> DeclaredStack {
        let ram = DeclaredKind::Ram(Ram { made: NewDevices { count, size: Bytes::from_mib(64) } });
        let layers = std::iter::once(layer(ram, 1)).chain(upper).collect();
        DeclaredStack { name: "s".into(), layers }
    }

    #[test]
    fn an_array_of_durios_own_has_the_model_of_mds_where_it_lies_on_devices() {
        let own = |level| {
            let (chunk, front) = (Bytes::from_kib(16), RaidFront::Ublk);
            let raid = Raid { level, chunk, front, queues: 1 };
            layer(DeclaredKind::Raid(raid), 1)
        };
        for level in [RaidLevel::Raid0, RaidLevel::Raid1, RaidLevel::Raid10] {
            let found = raid_of(&over(4, vec![own(level)]), 1).unwrap();
            assert_eq!(Some(found.array), array(4, level.number(), None));
            assert_eq!((found.degraded_members, kind_of(&own(level).kind)), (0, PointKind::Raid));
        }
        let on_array = over(4, vec![layer(own(RaidLevel::Raid1).kind, 2), own(RaidLevel::Raid0)]);
        assert_eq!(raid_of(&on_array, 2), None);
    }

    fn array(count: u32, level: u8, layout: Option<&str>) -> Option<ArrayLayout> {
        let stack = over(count, vec![layer(DeclaredKind::Md(md(level, layout)), 1)]);
        raid_of(&stack, 1).map(|raid| raid.array)
    }

    #[test]
    fn levels_become_layouts_with_their_copies() {
        let layout = |count, level, words| array(count, level, words).map(|array| array.layout);
        assert_eq!(layout(2, 1, None), Some(MemberLayout::Raid1 { copies: 2 }));
        assert_eq!(layout(4, 10, None), Some(MemberLayout::Raid10 { copies: 2 }));
        assert_eq!(layout(6, 10, Some("f3")), Some(MemberLayout::Raid10 { copies: 3 }));
        let modify = ParityWrite::ReadModifyWrite;
        assert_eq!(layout(5, 5, None), Some(MemberLayout::Raid5 { parity_write: modify }));
        let reconstruct = ParityWrite::ReconstructWrite;
        assert_eq!(
            layout(3, 5, Some("left-symmetric")),
            Some(MemberLayout::Raid5 { parity_write: reconstruct })
        );
        assert_eq!(layout(3, 4, None), Some(MemberLayout::Raid4 { parity_write: reconstruct }));
        assert_eq!(layout(5, 4, None), Some(MemberLayout::Raid4 { parity_write: modify }));
    }

    #[test]
    fn stripes_of_mirrors_and_mirrors_of_stripes_write_as_raid10_does() {
        for (lower, upper) in [(1, 0), (0, 1)] {
            let layers = vec![
                layer(DeclaredKind::Md(md(lower, None)), 4),
                layer(DeclaredKind::Md(md(upper, None)), 1),
            ];
            let stack = over(8, layers);
            let found = raid_of(&stack, 2).unwrap().array;
            let copies = if upper == 1 { 4 } else { 2 };
            assert_eq!(found, ArrayLayout { layout: MemberLayout::Raid10 { copies }, members: 8 });
            assert_eq!(model(found).unwrap().writes_per_write, f64::from(copies));
        }
    }

    #[test]
    fn what_the_model_does_not_know_has_none() {
        let with = |change: fn(&mut DeclaredMd)| {
            let mut changed = md(5, None);
            change(&mut changed);
            let kind = DeclaredKind::Md(changed);
            let why = no_model_of(&kind).unwrap();
            (raid_of(&over(4, vec![layer(kind, 1)]), 1), why)
        };
        let (ppl, why) = with(|md| md.ppl = true);
        assert!(ppl.is_none() && why.contains("partial parity log"), "{why}");
        let (journal, why) = with(|md| md.journal = true);
        assert!(journal.is_none() && why.contains("journal first"), "{why}");
        assert_eq!(with(|md| md.removed = 1).0.unwrap().degraded_members, 1);
        assert_eq!(no_model_of(&over(1, Vec::new()).layers[0].kind), None);
        let stack = over(4, vec![layer(DeclaredKind::Md(md(0, None)), 3)]);
        assert_eq!(
            (raid_of(&stack, 1), raid_of(&stack, 0), raid_of(&stack, 9)),
            (None, None, None)
        );
    }

    #[test]
    fn every_layer_has_a_kind_and_the_first_a_base() {
        let ext4 = DeclaredKind::Ext4(durio_layers::Ext4::default());
        let linear = DeclaredKind::Lvm(Lvm { layout: LvmLayout::Linear, chunk: None });
        let stack = over(2, vec![layer(ext4.clone(), 1)]);
        assert_eq!(kind_of(&ext4), PointKind::Filesystem);
        assert_eq!(kind_of(&linear), PointKind::Volume);
        assert_eq!(kind_of(&stack.layers[0].kind), PointKind::Raw);
        assert_eq!(base_of(&stack, SeveralDevices::All).unwrap().kind, BaseKind::Ram);
        let none = DeclaredStack { name: "none".into(), layers: Vec::new() };
        assert_eq!(base_of(&none, SeveralDevices::One), None);
    }
}
