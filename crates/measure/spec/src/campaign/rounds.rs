//! What ends the rounds of a section.

use durio_plan::{Rounds, Step, Tracking, Until};
use durio_workload::PerMille;

use super::axes::AxisPoint;
use super::file::RoundsTable;
use super::steps::StepLadder;
use crate::SpecError;
use crate::table::{PlacedValue, SpecText};

// SNIA Solid State Storage Performance Test Specification 2.0.2 (2020): at most 25 rounds, the last
// five of which are judged: excursion at most 20 %, slope of the fitted line at most 10 %.
const ROUNDS_MAX: u32 = 25;
const WINDOW: u32 = 5;
const EXCURSION: PerMille = PerMille(200);
const SLOPE: PerMille = PerMille(100);
/// The precision of a searched rate: 2 %.
const PRECISION: PerMille = PerMille(20);

/// The rounds of a section, if its block has any.
pub(crate) fn rounds(
    source: SpecText<'_>,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
    steps: &[Step],
) -> Result<Option<Rounds>, SpecError> {
    let Some(table) = &ladder.block.rounds else { return Ok(None) };
    let fail = |text: &str| Err(source.error(table.at, text));
    if ladder.is_precondition {
        return fail("a precondition has no rounds; a step with rounds conditions by itself");
    }
    if steps.len() != points.len() {
        return fail("rounds repeat the section already; leave out 'repeats'");
    }
    let max = table.max.get().unwrap_or(ROUNDS_MAX);
    let until = match (table.steady_state.get(), table.goal.get()) {
        (Some(tracking), None) => steady_state(source, table, tracking, ladder, points, max)?,
        (None, Some(goal)) => {
            // Each round has one rate, which the search chooses by the round before.
            let [step] = steps else {
                return fail("a goal is searched with one step: no ladders");
            };
            if step.load.arrivals.is_closed() {
                return fail("a goal is searched from a rate: give 'rate'");
            }
            let precision_per_mille = table.precision.get().unwrap_or(PRECISION).0;
            Until::GoalFound { goal, precision_per_mille, ceiling_step: None }
        }
        _ => return fail("rounds need either 'steady_state' or 'goal'"),
    };
    match max {
        0 => fail("there is at least one round"),
        max => Ok(Some(Rounds { max, until })),
    }
}

fn steady_state(
    source: SpecText<'_>,
    table: &PlacedValue<RoundsTable>,
    tracking: Tracking,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
    max: u32,
) -> Result<Until, SpecError> {
    let window = table.window.get().unwrap_or(WINDOW);
    // One round has neither range nor slope.
    if window < 2 || window > max {
        let text = format!("a window of {window} rounds does not fit into 2 to {max}");
        return Err(source.error(table.at, text));
    }
    Ok(Until::SteadyState {
        tracked: tracked(source, table, ladder, points)?,
        tracking,
        window,
        excursion_per_mille: table.excursion.get().unwrap_or(EXCURSION).0,
        slope_per_mille: table.slope.get().unwrap_or(SLOPE).0,
    })
}

/// The one step that has all the values that `tracked` says.
fn tracked(
    source: SpecText<'_>,
    table: &RoundsTable,
    ladder: &StepLadder<'_>,
    points: &[AxisPoint<'_>],
) -> Result<u32, SpecError> {
    let Some(wanted) = &table.tracked else { return Ok(0) };
    let is_it = |point: &AxisPoint<'_>| {
        let load = ladder.at(point).all.load;
        // Put over those of the step, values that it has already change nothing.
        wanted.or(&load) == load
    };
    let found = (0..).zip(points).filter(|(_, point)| is_it(point));
    let found: Vec<u32> = found.map(|(index, _)| index).collect();
    match found[..] {
        [one] => Ok(one),
        _ => {
            let count = found.len();
            let text = format!("'tracked' must be one step of the section, and is {count}");
            Err(source.error(wanted.at, text))
        }
    }
}
