//! The picture of advice: the measured gains of the changes to make.

use durio_judge::advise::{AdviceReport, GainBasis};

use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::figures::factor;

/// More changes than this do not fit a first screen; the largest gains come first.
const CHANGES_MAX: usize = 5;

/// A bar for the rate now, which is 1, and one for the rate expected after each change.
pub(super) fn gains(report: &AdviceReport) -> Chart {
    let measured = report.to_do().into_iter().filter_map(|advice| {
        let ratio = advice.gain.ratio.filter(|ratio| ratio.is_finite() && *ratio > 1.0)?;
        let colour = match advice.gain.basis {
            GainBasis::Run => Colour::First,
            _ => Colour::Second,
        };
        let bars = [
            Bar::new("", 1.0, Colour::Shade, "now".to_owned()),
            Bar::new("", ratio, colour, factor(ratio)),
        ];
        Some(BarGroup::new(format!("{}: {}", advice.rule, advice.instruction()), bars))
    });
    let legend = [
        ("as measured in a run here", Colour::First),
        ("as measured by the project on other storage", Colour::Second),
    ];
    Chart::bars("Expected gain of each change", measured.take(CHANGES_MAX).collect(), legend)
}
