//! From the manifest of a bench folder to its points.
//!
//! In: a [`BenchManifest`] and the findings of its runs, layer by layer. Out: [`Bench`]. Not here:
//! reading the folder.

use durio_record::bench::{BenchLayer, BenchManifest, BenchPublished, BenchStack, LayerState};

use super::declared::{base_of, kind_of, no_model_of, raid_of};
use super::point::{Base, BaseKind, Bench, Point, PublishedShare, Timing};
use crate::Findings;

/// The measured layers of each stack; `findings` are those of the runs, per stack and layer.
///
/// A layer that was not to be measured is no point: what lies above it is set against the next
/// measured one below. A layer that could not be built or measured is a point that says why.
#[must_use]
pub fn bench_of<'a>(
    manifest: &BenchManifest,
    findings: &'a [Vec<Option<Findings>>],
    timing: Option<Timing>,
) -> Bench<'a> {
    let mut points: Vec<Point<'a>> = Vec::new();
    for (at, stack) in manifest.stacks.iter().enumerate() {
        let of_stack = findings.get(at).map_or(&[][..], Vec::as_slice);
        let mut below = None;
        for (index, layer) in stack.layers.iter().enumerate() {
            let declared = stack.declared.layers.get(index);
            if !declared.is_some_and(|declared| declared.measured) {
                continue;
            }
            let found = of_stack.get(index).and_then(Option::as_ref);
            let published = published_for(manifest, stack, index);
            let mut point = point(manifest, stack, index, layer, found);
            point.below = below;
            point.published = published;
            below = Some(points.len());
            points.push(point);
        }
    }
    Bench { name: manifest.name.clone(), summary: manifest.summary.clone(), timing, points }
}

fn point<'a>(
    manifest: &BenchManifest,
    stack: &BenchStack,
    index: usize,
    layer: &BenchLayer,
    found: Option<&'a Findings>,
) -> Point<'a> {
    let nothing = || Base { kind: BaseKind::Device, label: layer.label.clone() };
    let declared = &stack.declared;
    Point {
        stack: declared.name.clone(),
        layer: layer.label.clone(),
        // An index without a layer is passed over before.
        kind: declared.layers.get(index).map_or(super::PointKind::Raw, |it| kind_of(&it.kind)),
        base: base_of(declared, manifest.several_devices).unwrap_or_else(nothing),
        below: None,
        raid: raid_of(declared, index),
        no_model: declared.layers.get(index).and_then(|it| no_model_of(&it.kind)),
        published: Vec::new(),
        runs: found.into_iter().collect(),
        failure: failure(stack, layer, found),
    }
}

/// Why a point has no figures, or what went wrong with them.
fn failure(stack: &BenchStack, layer: &BenchLayer, found: Option<&Findings>) -> Option<String> {
    let reason = |otherwise: &str| stack.failure.clone().unwrap_or_else(|| otherwise.to_owned());
    match layer.state {
        LayerState::Measured if found.is_some() => None,
        LayerState::Measured => Some("its run cannot be read".to_owned()),
        LayerState::Partial => Some(reason("its run did not come to its end")),
        LayerState::Failed => Some(reason("it could not be built")),
        LayerState::Waiting => Some(match &stack.failure {
            Some(failure) => format!("not built: {failure}"),
            None => "the bench ended before its turn".to_owned(),
        }),
        LayerState::Built => Some(reason("it was built and not measured")),
        LayerState::Unknown => Some("its state is of a newer durio".to_owned()),
    }
}

fn published_for(
    manifest: &BenchManifest,
    stack: &BenchStack,
    layer: usize,
) -> Vec<PublishedShare> {
    let is_of_it = |published: &&BenchPublished| {
        published.stack == stack.declared.name && published.layer == layer
    };
    let share = |published: &BenchPublished| PublishedShare {
        workload: published.workload.clone(),
        jobs: published.jobs,
        share_of_raw: published.share_of_raw,
        source: published.source.clone().unwrap_or_default(),
    };
    manifest.published.iter().filter(is_of_it).map(share).collect()
}

#[cfg(test)]
mod tests {
    use durio_layers::{
        DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, Ext4, Made, MdBitmap, Ram,
    };
    use durio_record::bench::{BENCH_FOLDER_SCHEMA, SeveralDevices};
    use durio_units::Bytes;

    use super::super::PointKind;
    use super::super::made::{run, writes};
    use super::*;

    fn declared(measured: bool, kind: DeclaredKind) -> DeclaredLayer {
        DeclaredLayer { kind, groups: 1, measured }
    }

    /// RAM disks, a mirror on them that is not measured, ext4 on it.
    fn stack(failure: Option<&str>, states: [LayerState; 3]) -> BenchStack {
        let mirror = DeclaredMd {
            level: 1,
            layout: None,
            chunk: None,
            bitmap: MdBitmap::None,
            bitmap_chunk: None,
            ppl: false,
            journal: false,
            initial_sync: false,
            removed: 0,
            degraded: false,
        };
        let layers = vec![
            declared(
                true,
                DeclaredKind::Ram(Ram { made: Made { count: 2, size: Bytes::from_mib(64) } }),
            ),
            declared(false, DeclaredKind::Md(mirror)),
            declared(true, DeclaredKind::Ext4(Ext4::default())),
        ];
        let labels = ["ram", "md", "ext4"].map(|word| (word.to_owned(), format!("the {word}")));
        let stack = DeclaredStack { name: "s".into(), layers };
        let mut stack = BenchStack::waiting(stack, labels.into());
        stack.failure = failure.map(str::to_owned);
        stack.layers.iter_mut().zip(states).for_each(|(layer, state)| layer.state = state);
        stack
    }

    fn manifest(stack: BenchStack) -> BenchManifest {
        let published = |layer, share_of_raw| BenchPublished {
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
        let kinds: Vec<_> = bench.points.iter().map(|it| (it.kind, it.below)).collect();
        assert_eq!(kinds, [(PointKind::Raw, None), (PointKind::Filesystem, Some(0))]);
        assert!(bench.points.iter().all(|it| it.failure.is_none() && it.runs.len() == 1));
        assert_eq!(bench.points[1].layer, "the ext4");
        let shares: Vec<_> =
            bench.points[1].published.iter().map(|it| (it.share_of_raw, it.jobs)).collect();
        assert_eq!(shares, [(0.3, Some(16))], "of this layer alone");
        assert_eq!(bench.points[0].base.kind, BaseKind::Ram);
    }

    #[test]
    fn raw_storage_of_several_devices_is_the_same_only_for_as_many() {
        let labels = |several| {
            let mut manifest = manifest(stack(None, [LayerState::Measured; 3]));
            manifest.several_devices = several;
            let mut wider = manifest.stacks[0].clone();
            let made = Made { count: 5, size: Bytes::from_mib(64) };
            wider.declared.layers[0].kind = DeclaredKind::Ram(Ram { made });
            manifest.stacks.push(wider);
            let points = bench_of(&manifest, &[], None).points.into_iter();
            let raw = points.filter(|it| it.kind == PointKind::Raw);
            raw.map(|it| it.base.label).collect::<Vec<_>>()
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
            "the bench ended before its turn"
        );
        assert_eq!(why(None, [Measured; 3], false), "its run cannot be read");
    }
}
