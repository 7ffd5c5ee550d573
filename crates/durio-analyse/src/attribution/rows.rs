//! One workload on all points: which point is compared with which.
//!
//! In: a bench and a workload. Out: [`WorkloadRows`]. Not here: the figures of a point by itself.

use super::costs::{added, of_itself};
use super::findings::{LayerRow, RowFigures, WorkloadRows};
use super::point::{Bench, Point, PointKind, bottom};
use super::steps::{Measured, StepKey, measured};
use super::{mirrored, published, raid, waterfall};
use crate::layer_shares::{Layer, LayerCost, layer_costs};

/// One workload on every point.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) points: &'a [Point<'a>],
    pub(super) counted: bool,
    pub(super) key: StepKey,
    /// By point: its measurement, or why there is none.
    pub(super) measured: Vec<Result<Measured<'a>, String>>,
    /// By point: the figures that need no other point.
    alone: Vec<Option<RowFigures>>,
}

/// The raw storage that a point is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) at: usize,
    pub(super) measured: &'a Measured<'a>,
    /// It is of another stack.
    borrowed: bool,
}

impl<'a> Table<'a> {
    pub(super) fn new(bench: &'a Bench<'a>, key: StepKey) -> Self {
        let points = &bench.points;
        let measured: Vec<_> = points.iter().map(|point| measured(point, &key)).collect();
        let each = points.iter().zip(&measured);
        let alone = each.map(|(point, it)| Some(of_itself(point, &key, it.as_ref().ok()?)));
        let alone = alone.collect();
        let counted = bench.timing == Some(super::Timing::Counted);
        Self { points, counted, key, measured, alone }
    }

    /// The measurement on the point at a position.
    pub(super) fn at(&self, at: usize) -> Option<&Measured<'a>> {
        self.measured.get(at)?.as_ref().ok()
    }

    fn alone(&self, at: usize) -> Option<&RowFigures> {
        self.alone.get(at)?.as_ref()
    }

    pub(super) fn workload_rows(&self) -> WorkloadRows {
        let rows: Vec<LayerRow> = (0..self.points.len()).map(|at| self.row(at)).collect();
        WorkloadRows {
            key: self.key.clone(),
            label: self.key.label(),
            waterfalls: waterfall::waterfalls(self.points, &rows, self.counted),
            published: published::order(self.points, &self.key, &rows),
            rows,
        }
    }

    fn row(&self, at: usize) -> LayerRow {
        let absent = self.measured.get(at).and_then(|it| it.as_ref().err());
        LayerRow { point: at, absent: absent.cloned(), figures: self.figures(at) }
    }

    fn figures(&self, at: usize) -> Option<RowFigures> {
        let mut figures = self.alone(at)?.clone();
        let point = self.points.get(at)?;
        let raw = self.raw(at);
        self.set_shares(&mut figures, at, raw);
        self.set_added(&mut figures, at, raw);
        figures.raid = point.raid.and_then(|array| raid::row(self, at, array, raw));
        figures.mirror = point.raid.and_then(|array| mirrored::row(self, at, array, raw));
        if point.kind == PointKind::Raid && point.raid.is_none() {
            let why = point.no_model.unwrap_or("there is no model of its layout");
            figures.remarks.push(why.to_owned());
        }
        Some(figures)
    }

    /// The raw storage below a point: of its own stack, or else, of the other stacks over the same
    /// devices, the measurement with the median rate.
    fn raw(&self, at: usize) -> Option<Raw<'_>> {
        let own = bottom(self.points, at);
        let is_raw = |point: &Point<'_>| point.kind == PointKind::Raw;
        if let Some(measured) = self.at(own).filter(|_| self.points.get(own).is_some_and(is_raw)) {
            return Some(Raw { at: own, measured, borrowed: false });
        }
        let base = &self.points.get(at)?.base;
        let alike = self.points.iter().enumerate();
        let alike = alike.filter(|(_, point)| is_raw(point) && point.base == *base);
        let mut others: Vec<(usize, &Measured<'a>)> =
            alike.filter_map(|(at, _)| Some((at, self.at(at)?))).collect();
        others.sort_by(|(_, a), (_, b)| a.rate().total_cmp(&b.rate()));
        let (at, measured) = *others.get(others.len().saturating_sub(1) / 2)?;
        Some(Raw { at, measured, borrowed: true })
    }

    fn set_shares(&self, figures: &mut RowFigures, at: usize, raw: Option<Raw<'_>>) {
        figures.remarks.extend(self.remark(at, raw));
        let own = self.layer(at);
        let raw_layer = raw.and_then(|raw| self.layer(raw.at));
        figures.raw_point = raw.map(|raw| raw.at);
        figures.share_of_raw = share(raw_layer, own.clone());
        let below = self.points.get(at).and_then(|point| point.below);
        figures.share_of_below = match below {
            Some(below) => share(self.layer(below), own),
            None if raw.is_some_and(|raw| raw.at == at) => Some(1.0),
            None => None,
        };
    }

    fn remark(&self, at: usize, raw: Option<Raw<'_>>) -> Option<String> {
        let below = self.points.get(at)?.below;
        let unknown = below.filter(|below| self.at(*below).is_none());
        let unknown = unknown.and_then(|below| self.points.get(below));
        let raw_words = match raw {
            None => Some("no raw storage was measured with this workload: no share of raw".into()),
            Some(raw) if raw.borrowed => {
                let stack = &self.points.get(raw.at)?.stack;
                Some(format!("compared with the raw storage of stack {stack}"))
            }
            Some(_) => None,
        };
        let below_words =
            unknown.map(|below| format!("{}, just below, has no figures", below.layer));
        let words: Vec<String> = raw_words.into_iter().chain(below_words).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn layer(&self, at: usize) -> Option<Layer> {
        let name = self.points.get(at)?.layer.clone();
        let rate_per_second = self.at(at)?.rate();
        Some(Layer { name, below: None, rate_per_second, latency_ns_mean: None })
    }

    fn set_added(&self, figures: &mut RowFigures, at: usize, raw: Option<Raw<'_>>) {
        let below = self.points.get(at).and_then(|point| point.below);
        let against = |other: Option<usize>| {
            let other = other.filter(|other| *other != at)?;
            Some(added(self.alone(at)?, self.alone(other)?, other))
        };
        figures.against_raw = against(raw.map(|raw| raw.at));
        figures.against_below = against(below);
    }
}

/// Rate of `upper` ÷ rate of `lower`.
fn share(lower: Option<Layer>, upper: Option<Layer>) -> Option<f64> {
    let layers = [lower?, Layer { below: Some(0), ..upper? }];
    let costs: Vec<LayerCost> = layer_costs(&layers).ok()?;
    Some(costs.last()?.share_of_raw)
}
