//! From the manifest of a bench folder to its points.
//!
//! In: a [`BenchManifest`] and the findings of its runs, layer by layer. Out: [`Bench`]. Not here:
//! reading the folder.

use durio_record::bench::{BenchLayer, BenchManifest, BenchPublished, BenchStack, LayerState};

use super::declared::{base_of, kind_of, raid_of};
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
            let mut point = point(stack, index, layer, found);
            point.below = below;
            point.published = published;
            below = Some(points.len());
            points.push(point);
        }
    }
    Bench { name: manifest.name.clone(), summary: manifest.summary.clone(), timing, points }
}

fn point<'a>(
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
        base: base_of(declared).unwrap_or_else(nothing),
        below: None,
        raid: raid_of(declared, index),
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
