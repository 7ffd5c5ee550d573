//! What ends the rounds of a section.

use durio_plan::{Rounds, Step, Tracking, Until};
use durio_workload::PerMille;

use super::axes::Point;
use super::reader::{Block, Placed};
use super::steps::Ladder;
use super::text::Source;
use super::value::Value;
use crate::SpecError;

/// SNIA Solid State Storage Performance Test Specification 2.0.2 (2020): at most 25 rounds, the
/// last five of which are judged: excursion at most 20 %, slope of the fitted line at most 10 %.
const ROUNDS_MAX: u32 = 25;
const WINDOW: u32 = 5;
const EXCURSION: PerMille = PerMille(200);
const SLOPE: PerMille = PerMille(100);
/// Of a rate that is searched: 2 %.
const PRECISION: PerMille = PerMille(20);

/// The rounds of a section, if its block has any.
pub(crate) fn rounds(
    source: Source<'_>,
    ladder: &Ladder<'_>,
    points: &[Point<'_>],
    steps: &[Step],
) -> Result<Option<Rounds>, SpecError> {
    let Some(block) = ladder.block.blocks("rounds").next() else { return Ok(None) };
    let fail = |text: &str| Err(source.error(block.at, text));
    if ladder.is_precondition {
        return fail("a precondition has no rounds; a step with rounds conditions by itself");
    }
    if steps.len() != points.len() {
        return fail("rounds repeat the section already; leave out 'repeats'");
    }
    let max = count(block, "max").unwrap_or(ROUNDS_MAX);
    let until = match (block.text("steady_state"), block.value("goal")) {
        (Some(figure), None) => steady_state(source, block, figure, points, max)?,
        (None, Some(Placed { value: Value::Goal(goal), .. })) => {
            let [step] = steps else {
                return fail("a goal is searched with one step: no ladders");
            };
            if step.load.arrivals.is_closed() {
                return fail("a goal is searched from a rate: give 'rate'");
            }
            let precision_per_mille = share(block, "precision").unwrap_or(PRECISION).0;
            Until::GoalFound { goal: *goal, precision_per_mille, ceiling_step: None }
        }
        _ => return fail("rounds need either 'steady_state' or 'goal'"),
    };
    match max {
        0 => fail("there is at least one round"),
        max => Ok(Some(Rounds { max, until })),
    }
}

fn steady_state(
    source: Source<'_>,
    block: &Block,
    figure: &str,
    points: &[Point<'_>],
    max: u32,
) -> Result<Until, SpecError> {
    let window = count(block, "window").unwrap_or(WINDOW);
    if window < 2 || window > max {
        let text = format!("a window of {window} rounds does not fit into 2 to {max}");
        return Err(source.error(block.at, text));
    }
    let tracking = match figure {
        "bandwidth" => Tracking::Bandwidth,
        "latency" => Tracking::LatencyMean,
        _ => Tracking::Iops,
    };
    Ok(Until::SteadyState {
        tracked: tracked(source, block, points)?,
        tracking,
        window,
        excursion_per_mille: share(block, "excursion").unwrap_or(EXCURSION).0,
        slope_per_mille: share(block, "slope").unwrap_or(SLOPE).0,
    })
}

/// The one step that has all the values that `tracked` says.
fn tracked(source: Source<'_>, block: &Block, points: &[Point<'_>]) -> Result<u32, SpecError> {
    let Some(wanted) = block.blocks("tracked").next() else { return Ok(0) };
    let matches = |point: &Point<'_>| {
        wanted.settings.iter().all(|setting| {
            let found = point.value(setting.key.name).map(|placed| &placed.value);
            found == setting.values.first().map(|placed| &placed.value)
        })
    };
    let found: Vec<u32> =
        (0..).zip(points).filter(|(_, point)| matches(point)).map(|(index, _)| index).collect();
    match found[..] {
        [one] => Ok(one),
        _ => Err(source.error(
            wanted.at,
            format!("'tracked' must be one step of the section, and is {}", found.len()),
        )),
    }
}

fn count(block: &Block, key: &str) -> Option<u32> {
    match block.value(key)?.value {
        Value::Count(count) => Some(count),
        _ => None,
    }
}

fn share(block: &Block, key: &str) -> Option<PerMille> {
    match block.value(key)?.value {
        Value::Share(share) => Some(share),
        _ => None,
    }
}
