//! The fastest durable write of `durio durable`, as the results of a summary.

use durio_analyse::durable::{DATABASE_METHODS, DurableFindings};
use durio_base::stats::least_squares::float;
use durio_observe::Stack;
use durio_workload::CacheMode;

use super::{SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, p99, slow};

/// The fastest of the methods that databases use, by one writer.
pub(super) fn parts(found: &DurableFindings, stacks: &[Stack]) -> SummaryParts {
    let mut parts = SummaryParts::default();
    let rows = found.methods.iter().flat_map(|methods| &methods.rows);
    let used = rows.filter(|row| DATABASE_METHODS.contains(&row.arm.setting.method));
    let measured = used.filter_map(|row| Some((&row.arm.setting, row.arm.figures.as_ref()?)));
    let fastest = measured.max_by(|(_, a), (_, b)| a.rate_per_second.total_cmp(&b.rate_per_second));
    let Some((setting, figures)) = fastest else {
        let text = "no sync method that databases use was measured";
        parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
        parts.results = text.to_owned();
        return parts;
    };
    // A commit in memory is not durable.
    let is_in_memory = stacks.iter().any(Stack::is_in_memory);
    let durable = if is_in_memory { "" } else { "durable " };
    let cache = match setting.cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    };
    let method = format!("{} ({cache})", setting.method.name());
    let p99_ns = figures.latency.p99_ns;
    parts.results = format!(
        "{} {durable}commits/s with one writer by {method}, the fastest that databases use, {}",
        bare_rate(figures.rate_per_second),
        p99(p99_ns)
    );
    parts.headline.push(SummaryFigure {
        label: format!("{durable}commits by {method}"),
        value: figures.rate_per_second,
        unit: "per second",
    });
    parts.headline.extend(p99_ns.map(|nanos| SummaryFigure {
        label: format!("p99 of a {durable}commit by {method}"),
        value: float(nanos),
        unit: "ns",
    }));
    match p99_ns {
        Some(nanos) => parts.reasons.extend(slow(nanos, "commits take")),
        None => {
            let text = "fewer than 100 commits: their p99 is unknown";
            parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
        }
    }
    parts
}
