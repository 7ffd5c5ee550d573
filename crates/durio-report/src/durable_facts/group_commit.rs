//! What group commit gains, and what waiting for more records does.

use durio_analyse::durable::{CommitDelayAdvice, CommitDelayFindings, DurableFindings};
use durio_plan::Slice;
use durio_units::Nanos;

use super::{DurablePart, Said, method_words, part};
use crate::durable_tables as tables;
use crate::figures::{counted, decimal, percent};

pub(super) fn group_commit(found: &DurableFindings) -> DurablePart {
    let summary = "Committers that share a log's writes and syncs, against as many who write and \
                   sync for themselves; latency as a committer sees it.";
    let mut part = part(Slice::GroupCommit, "Group commit", summary);
    let Some(commits) = &found.group_commit else { return part };
    part.tables = vec![tables::group_commit(commits)];
    let mut methods: Vec<String> =
        commits.rows.iter().map(|row| method_words(&row.arm.setting)).collect();
    methods.dedup();
    part.said.push(("method", methods.join(", ")));
    for row in commits.rows.iter().filter(|row| row.gain.is_some()) {
        let (gain, setting) = (row.gain.unwrap_or_default(), &row.arm.setting);
        part.said.push((
            "gain",
            format!(
                "{} with records of {}: {} × the commits of independent writers",
                counted(setting.committers().into(), "committer"),
                setting.block_size,
                decimal(gain)
            ),
        ));
    }
    part
}

pub(super) fn delays(found: &DurableFindings) -> DurablePart {
    let summary = "What a leader gains by waiting for more records. Advised is the smallest delay \
                   within the noise of the best, if that gains more than the noise over none, and \
                   the smallest batch bound that costs nothing.";
    let mut part = part(Slice::CommitDelay, "Commit delay and batch bound", summary);
    if found.commit_delays.is_empty() {
        return part;
    }
    part.tables = vec![tables::commit_delays(&found.commit_delays)];
    part.said = found.commit_delays.iter().filter_map(advice).collect();
    part
}

fn advice(found: &CommitDelayFindings) -> Option<Said> {
    let advice = found.advice.as_ref()?;
    let setting = &found.arms.get(advice.arm)?.setting;
    let name = counted(setting.committers().into(), "committer");
    Some(("advised", format!("{name}: {}", delay_words(advice))))
}

fn delay_words(advice: &CommitDelayAdvice) -> String {
    let bound = advice.batch_max;
    if advice.delay == Nanos::ZERO {
        return format!(
            "no delay: the best gains {}, and up to {} is noise; batches up to {bound}",
            percent(advice.best_gain_share),
            percent(advice.noise_share)
        );
    }
    let tail =
        advice.p99_share.map_or_else(String::new, |share| format!(", p99 {:+.1} %", share * 100.0));
    let (delay, gain) = (advice.delay, percent(advice.gain_share));
    format!("a delay of {delay}: {gain} more commits than without{tail}; batches up to {bound}")
}
