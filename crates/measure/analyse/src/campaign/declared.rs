//! Derived from the user's statements about a target: its layout, its sheet, its price, its
//! replicas.

use durio_base::Bytes;
use durio_base::stats::least_squares::float;
use durio_plan::{Campaign, DeclaredLayout, DeclaredTarget, Plan, Sheet};
use durio_workload::{Pattern, Workload};
use serde::{Deserialize, Serialize};

use super::row::CampaignRow;
use super::{CampaignInput, SectionFindings, baseline};
use crate::DeclinedAnalysis;
use crate::raid_efficiency::{
    RaidModel, WriteFactor, device_writes_per_write, model, rate_per_price, specification_delta,
};

/// A value of a specification sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetFigure {
    /// Random reads per second.
    RandomReadIops,
    /// Random writes per second.
    RandomWriteIops,
    /// Sequential reads in bytes per second.
    ReadBandwidth,
    /// Sequential writes in bytes per second.
    WriteBandwidth,
}

/// A value of the sheet against the best measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SheetDelta {
    pub figure: SheetFigure,
    /// The sheet's value, per second or in bytes per second.
    pub specified: f64,
    /// The highest that was measured.
    pub measured: f64,
    /// Measured ÷ specified − 1.
    pub delta_share: f64,
    /// Where it was measured: position of the section.
    pub section: usize,
    /// Position of the row in it.
    pub row: usize,
}

/// A workload's rate for the price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PricePerformance {
    /// Name of the workload.
    pub workload: String,
    /// Its highest rate: commits per second where there are any, else accesses.
    pub rate_per_second: f64,
    /// That for each unit of the currency.
    pub rate_per_price: f64,
    /// Where it was measured: position of the section.
    pub section: usize,
    /// Position of the row in it.
    pub row: usize,
}

/// The results derived from the statements about a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFindings {
    /// Its name in the plan.
    pub target: String,
    /// Its location, as the user named it; empty if it has none.
    pub location: String,
    /// The model of its layout, with the failures that it survives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidModel>,
    /// Why the declared layout has no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
    /// The layers that write more than they are given, from above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_factors: Vec<WriteFactor>,
    /// Device writes per small random write of the application: their product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes_per_write: Option<f64>,
    /// The sheet against the measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sheet: Vec<SheetDelta>,
    /// The price of all its devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// The currency of the price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// What each workload does for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_price: Vec<PricePerformance>,
}

/// One for each target with declarations.
pub(super) fn targets(
    measured: &CampaignInput<'_>,
    campaign: &Campaign,
    sections: &[SectionFindings],
) -> Vec<TargetFindings> {
    campaign.declared.iter().map(|target| of_target(measured.plan, target, sections)).collect()
}

/// A row with its place.
type PlacedRow<'a> = (usize, usize, &'a CampaignRow);

fn of_target(plan: &Plan, said: &DeclaredTarget, sections: &[SectionFindings]) -> TargetFindings {
    let location = said.location.as_ref().map_or_else(String::new, ToString::to_string);
    let rows = sections.iter().enumerate().flat_map(|(section, findings)| {
        findings.rows.iter().enumerate().map(move |(position, row)| (section, position, row))
    });
    let is_its = |row: &CampaignRow| {
        let here = location.is_empty() || row.location == location;
        row.complete && row.target == said.target && here
    };
    let rows: Vec<PlacedRow<'_>> = rows.filter(|(.., row)| is_its(row)).collect();
    let declared = &said.declared;
    let layout = baseline::array(declared).map(|array| array.and_then(model));
    let (raid, declined) = layout.map_or((None, None), DeclinedAnalysis::split);
    let sheet = declared.sheet.as_ref();
    let price = sheet.and_then(|sheet| sheet.price);
    let currency = sheet.and_then(|sheet| sheet.currency.clone());
    let write_factors = write_factors(declared, raid.as_ref());
    let factor_of_all = device_writes_per_write(&write_factors).ok();
    TargetFindings {
        target: said.target.clone(),
        device_writes_per_write: factor_of_all.filter(|_| !write_factors.is_empty()),
        write_factors,
        declined,
        raid,
        sheet: sheet.map_or_else(Vec::new, |sheet| deltas(plan, sheet, &rows)),
        price,
        currency: price.map(|_| currency.unwrap_or_else(|| "USD".to_owned())),
        per_price: price.map_or_else(Vec::new, |price| per_price(plan, price, &rows)),
        location,
    }
}

fn write_factors(declared: &DeclaredLayout, raid: Option<&RaidModel>) -> Vec<WriteFactor> {
    let factor = |layer: String, writes: f64| WriteFactor { layer, writes_per_write: writes };
    // Replicas lie above an array: each of them writes to a separate one.
    let replicas = declared.replicas.map(|copies| factor("replicas".to_owned(), f64::from(copies)));
    let level = declared.raid.map_or_else(String::new, |level| level.number().to_string());
    let raid = raid.map(|model| factor(format!("RAID{level}"), model.writes_per_write));
    replicas.into_iter().chain(raid).collect()
}

/// The workload of a row that reads or writes only, and no other at the same time.
fn alone<'p>(plan: &'p Plan, row: &CampaignRow) -> Option<&'p Workload> {
    let step = plan.steps.get(row.step as usize)?;
    step.beside.is_empty().then_some(&step.load.workload)
}

fn deltas(plan: &Plan, sheet: &Sheet, rows: &[PlacedRow<'_>]) -> Vec<SheetDelta> {
    let exact = |bytes: Bytes| float(bytes.get());
    let figures = [
        (SheetFigure::RandomReadIops, sheet.random_read_iops),
        (SheetFigure::RandomWriteIops, sheet.random_write_iops),
        (SheetFigure::ReadBandwidth, sheet.read_bandwidth.map(exact)),
        (SheetFigure::WriteBandwidth, sheet.write_bandwidth.map(exact)),
    ];
    let delta = |(figure, specified): (SheetFigure, Option<f64>)| {
        let specified = specified?;
        let shows = |(.., row): &&PlacedRow<'_>| {
            alone(plan, row).is_some_and(|workload| is_of(figure, workload))
        };
        let value = |row: &CampaignRow| match figure {
            SheetFigure::RandomReadIops | SheetFigure::RandomWriteIops => row.iops,
            SheetFigure::ReadBandwidth | SheetFigure::WriteBandwidth => row.bandwidth,
        };
        let by_value = |a: &&PlacedRow<'_>, b: &&PlacedRow<'_>| value(a.2).total_cmp(&value(b.2));
        // A sheet gives the best that a drive can do, so it is compared with the best that it did.
        let (section, position, row) = *rows.iter().filter(shows).max_by(by_value)?;
        let measured = value(row);
        let delta_share = specification_delta(measured, specified).ok()?;
        Some(SheetDelta { figure, specified, measured, delta_share, section, row: position })
    };
    figures.into_iter().filter_map(delta).collect()
}

/// Block size up to which sheets give random accesses.
// Nearly all give 4 KiB.
const SHEET_RANDOM_MAX: u64 = 4096;

fn is_of(figure: SheetFigure, workload: &Workload) -> bool {
    let random = workload.pattern == Pattern::Random;
    let small = workload.block_size.get() <= SHEET_RANDOM_MAX;
    // Sheets give pure loads; there is no value for a mix.
    let (only_reads, only_writes) = (!workload.writes(), !workload.reads());
    match figure {
        SheetFigure::RandomReadIops => random && small && only_reads,
        SheetFigure::RandomWriteIops => random && small && only_writes,
        SheetFigure::ReadBandwidth => !random && only_reads,
        SheetFigure::WriteBandwidth => !random && only_writes,
    }
}

/// The highest rate of each workload.
fn per_price(plan: &Plan, price: f64, rows: &[PlacedRow<'_>]) -> Vec<PricePerformance> {
    let mut found: Vec<PricePerformance> = Vec::new();
    for (section, position, row) in rows.iter().filter(|(.., row)| alone(plan, row).is_some()) {
        let Ok(rate_per_price) = rate_per_price(row.rate, price) else { continue };
        let this = PricePerformance {
            workload: row.name.clone(),
            rate_per_second: row.rate,
            rate_per_price,
            section: *section,
            row: *position,
        };
        match found.iter_mut().find(|best| best.workload == row.name) {
            // Price buys the highest rate that can be had, at whatever load.
            Some(best) if best.rate_per_second < this.rate_per_second => *best = this,
            Some(_) => {}
            None => found.push(this),
        }
    }
    found
}
