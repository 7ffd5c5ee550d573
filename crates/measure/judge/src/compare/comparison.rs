//! The results of a comparison: plain data, and the JSON document of `durio compare --format json`.
//! Latencies are nanoseconds, rates per second, bandwidths bytes per second, effects other /
//! baseline − 1.

use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use durio_analyse::{CurvePoint, RunState};

/// Name and version of the document.
pub const COMPARE_SCHEMA: &str = "durio-compare-1";

/// How to compare, as the command line says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CompareSettings {
    /// The margin: smaller effects have no practical interest; a share, 0 or more.
    pub threshold: f64,
    /// Seed of the resampling.
    pub seed: u64,
    /// Compare also what ended early, fell back or drifted.
    pub forced: bool,
    /// A regression by more than this share should be found.
    pub fail_over: Option<f64>,
}

impl CompareSettings {
    /// 5 %, which a usual comparison can decide: rates of the steadiest recorded workload scatter
    /// by 3.3 % from run to run (docs/benchmarks.md, `bench compare`). At that scatter 9 runs a
    /// side find a change of 5 % in four of five comparisons; 3 % would take 20.
    pub const THRESHOLD_DEFAULT: f64 = 0.05;
    /// Any number would do; a fixed one gives the same intervals again.
    pub const SEED_DEFAULT: u64 = 1;
}

impl Default for CompareSettings {
    fn default() -> Self {
        Self {
            threshold: Self::THRESHOLD_DEFAULT,
            seed: Self::SEED_DEFAULT,
            forced: false,
            fail_over: None,
        }
    }
}

/// Two or more sides, each against the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`COMPARE_SCHEMA`] in this version.
    pub schema: String,
    /// How it was compared.
    pub settings: CompareSettings,
    /// Times that each run's intervals were drawn again.
    pub resamples: usize,
    /// The compared sides; the first is the baseline.
    pub sides: Vec<SideFacts>,
    pub answer: CompareAnswer,
    /// Each other side against the baseline.
    pub pairs: Vec<Pair>,
    /// The answer to `--fail-over`, if it was asked for.
    pub gate: Option<Gate>,
}

/// The answer: each side's rate against the baseline's, and what would decide it where it is open.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CompareAnswer {
    /// For each other side that has a rate to compare.
    pub pairs: Vec<PairAnswer>,
    /// Runs of each side that would probably decide it; `None` if it is decided, or if more runs
    /// would not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed: Option<usize>,
    /// The command that makes them, as a shell takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One side's rate against the baseline's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PairAnswer {
    /// Label of the baseline.
    pub baseline: String,
    /// Label of the other side.
    pub other: String,
    /// Unit of the rates: `commits/s`, with the step's name where there are several. The step is the
    /// headline of the baseline's first run, or else its first step of commits, or its first step.
    pub unit: String,
    /// Per second, the baseline first.
    pub rates: [f64; 2],
    /// Rate of the other side ÷ rate of the baseline.
    pub ratio: f64,
    /// Both ends of the ratio's 95 % confidence interval; `None` with a single run on a side.
    pub interval: Option<[f64; 2]>,
    pub word: SideWord,
    /// Why it is undecided, or has no interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideFacts {
    /// A, B, C, …, or the names of the runs.
    pub label: String,
    /// As the user named it.
    pub source: String,
    pub runs: Vec<RunFacts>,
}

/// One run of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFacts {
    pub run: String,
    /// Where its record is.
    pub run_folder: String,
    /// Start, in RFC 3339.
    pub started: String,
    pub state: RunState,
}

/// One side against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Label of the baseline.
    pub baseline: String,
    /// Label of the other.
    pub other: String,
    /// Remarks on both, such as that they are the same run.
    pub remarks: Vec<String>,
    /// In which facts of machine and storage they differ.
    pub environment: Vec<Difference>,
    /// The steps that both have, in the baseline's order.
    pub steps: Vec<StepComparison>,
    /// Steps of the baseline that the other has not.
    pub only_baseline: Vec<String>,
    /// Steps of the other that the baseline has not.
    pub only_other: Vec<String>,
}

impl Pair {
    /// True if both sides have any result, whether its word is open or not.
    pub fn is_any_compared(&self) -> bool {
        let mut figures = self.steps.iter().flat_map(|step| &step.figures);
        figures.any(|figure| figure.effect.is_some())
    }

    /// How many rates and 99th percentiles have this word.
    pub fn gated_with(&self, word: SideWord) -> usize {
        let figures = self.steps.iter().flat_map(|step| &step.figures);
        figures.filter(|compared| compared.figure.is_gated() && compared.word == word).count()
    }
}

/// One fact that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact in words, such as `kernel`.
    pub what: String,
    pub baseline: String,
    pub other: String,
}

/// One step against its like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepComparison {
    /// Name of the workload with its levels: `read, jobs 4`.
    pub name: String,
    /// Location in the baseline and in the other.
    pub locations: [String; 2],
    /// Name of the target.
    pub target: String,
    /// Repeats of the baseline and of the other.
    pub repeats: [usize; 2],
    /// True if the results are those of different workloads.
    pub different_workload: bool,
    /// Differences in definition, target, engine and duration.
    pub differences: Vec<Difference>,
    /// Why the results cannot be compared.
    pub not_comparable: Vec<String>,
    /// Doubts about results that were compared all the same: a drift, and with `forced` everything
    /// that makes results incomparable otherwise.
    pub cautions: Vec<String>,
    /// The headline operation: of the latencies.
    pub headline: OperationName,
    /// The results; empty if they are not comparable.
    pub figures: Vec<FigureComparison>,
    /// The headline operation's service latency, a curve per repeat, of the baseline and of the
    /// other. Not in the JSON document: each run's findings have them.
    #[serde(skip)]
    pub curves: [Vec<Vec<CurvePoint>>; 2],
    /// The headline rate of the same repeats over time: seconds from the start, and per second.
    #[serde(skip)]
    pub rates: [Vec<Vec<(f64, f64)>>; 2],
}

impl StepComparison {
    /// The comparison of one result.
    pub fn figure(&self, name: FigureName) -> Option<&FigureComparison> {
        self.figures.iter().find(|compared| compared.figure == name)
    }

    /// The step in words: name, and location where there is one.
    pub fn title(&self) -> String {
        match &self.locations {
            [a, b] if a.is_empty() && b.is_empty() => self.name.clone(),
            [a, b] if a == b => format!("{} at {a}", self.name),
            [a, b] => format!("{} at {a} against {b}", self.name),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureName {
    /// Commits, or else reads and writes, per second.
    #[default]
    Rate,
    /// Bytes read and written per second.
    Bandwidth,
    /// Mean latency of the headline operation.
    Mean,
    /// 50th percentile of the same latency.
    P50,
    /// 99th percentile of the same latency.
    P99,
    /// 99.9th percentile of the same latency.
    P99_9,
    /// Mean latency of the sync calls.
    SyncMean,
    /// 50th percentile of the sync calls.
    SyncP50,
    /// 99th percentile of the sync calls.
    SyncP99,
    /// 99.9th percentile of the sync calls.
    SyncP99_9,
    /// CPU time per operation.
    CpuPerOperation,
}

impl FigureName {
    /// Every result in the order of reports; those that are resampled come first, in that order.
    pub const ALL: [Self; 11] = [
        Self::Rate,
        Self::Bandwidth,
        Self::Mean,
        Self::P50,
        Self::P99,
        Self::P99_9,
        Self::SyncMean,
        Self::SyncP50,
        Self::SyncP99,
        Self::SyncP99_9,
        Self::CpuPerOperation,
    ];

    /// As users read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Bandwidth => "bandwidth",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::SyncMean => "sync mean",
            Self::SyncP50 => "sync p50",
            Self::SyncP99 => "sync p99",
            Self::SyncP99_9 => "sync p99.9",
            Self::CpuPerOperation => "CPU per operation",
        }
    }

    /// True where more is better.
    pub const fn is_more_better(self) -> bool {
        matches!(self, Self::Rate | Self::Bandwidth)
    }

    /// True for the results that `--fail-over` looks at.
    pub const fn is_gated(self) -> bool {
        // Each further result would make Holm's procedure stricter for all the others.
        matches!(self, Self::Rate | Self::P99)
    }
}

/// The other side, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideWord {
    /// Better by more than the threshold, and the interval does not reach zero.
    Faster,
    /// Worse by more than the threshold, and the interval does not reach zero.
    Slower,
    /// The interval lies within the threshold on both sides of zero.
    NoDifference,
    /// Neither: the interval spans the threshold, because the repeats scatter too much.
    Undecided,
    /// No interval: a side has a single run, or the result is missing.
    #[default]
    NoInterval,
}

/// How the interval was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From how far the repeats scatter: Welch's interval.
    Repeats,
    /// From blocks of the runs' own intervals, drawn again. With two repeats or more on both sides
    /// it is the wider of both. With a single run it does not include the difference to the next
    /// run of the same thing.
    Blocks,
}

/// One result against its counterpart.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FigureComparison {
    pub figure: FigureName,
    /// The baseline's: of several repeats the geometric mean.
    pub baseline: Option<f64>,
    pub other: Option<f64>,
    /// other / baseline − 1.
    pub effect: Option<f64>,
    /// Both ends of the effect's 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
    /// The probability of an effect towards worse as large as this, or larger, if there is none:
    /// one-sided, 0 to 1, not corrected for the number of results. `None` with a single run on a
    /// side.
    #[serde(default)]
    pub p_worse: Option<f64>,
    /// With 95 % confidence (one-sided) the other side is worse by this share at most; below zero it is
    /// better. None with a single run on a side.
    #[serde(default)]
    pub worse_at_most: Option<f64>,
    /// How the interval was found.
    pub method: Option<Method>,
    /// Pooled standard deviation of repeats, as a share; `None` without two repeats on a side.
    #[serde(default)]
    pub repeats_scatter: Option<f64>,
    /// The smallest effect, as a share, that would be found in four of five such comparisons.
    #[serde(default)]
    pub visible: Option<f64>,
    pub word: SideWord,
    /// Why it is undecided, or has no interval.
    pub reason: Option<String>,
}

impl FigureComparison {
    /// The share by which the other side is worse; negative if it is better.
    pub fn worse_by(&self) -> Option<f64> {
        let effect = self.effect?;
        Some(if self.figure.is_more_better() { -effect } else { effect })
    }
}

/// The answer to `--fail-over`: every rate and p99 of every step is in one of the three lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Steps and results that are worse, by more than was allowed.
    pub regressions: Vec<String>,
    /// Steps and results that are neither, and why.
    pub undecided: Vec<String>,
    /// Steps and results for which a loss beyond the allowed share is excluded.
    #[serde(default)]
    pub excluded: Vec<String>,
    /// Repeats per side that would probably settle the undecided ones; `None` if more would not
    /// help.
    #[serde(default)]
    pub repeats_needed: Option<usize>,
}

#[cfg(test)]
mod tests {
    use durio_base::stats::repeats::repeats_to_see;

    use super::*;

    fn step(locations: [&str; 2], figures: Vec<FigureComparison>) -> StepComparison {
        StepComparison {
            name: "commit".to_owned(),
            locations: locations.map(str::to_owned),
            target: String::new(),
            repeats: [2, 3],
            different_workload: false,
            differences: Vec::new(),
            not_comparable: Vec::new(),
            cautions: Vec::new(),
            headline: OperationName::Commit,
            figures,
            curves: [Vec::new(), Vec::new()],
            rates: Default::default(),
        }
    }

    fn figure(figure: FigureName, effect: Option<f64>, word: SideWord) -> FigureComparison {
        FigureComparison { figure, effect, word, ..FigureComparison::default() }
    }

    fn pair(steps: Vec<StepComparison>) -> Pair {
        Pair {
            baseline: "A".to_owned(),
            other: "B".to_owned(),
            remarks: Vec::new(),
            environment: Vec::new(),
            steps,
            only_baseline: Vec::new(),
            only_other: Vec::new(),
        }
    }

    #[test]
    fn a_step_is_called_by_its_name_and_where_it_ran() {
        let title = |a, b| step([a, b], Vec::new()).title();
        assert_eq!(title("", ""), "commit");
        assert_eq!(title("/a", "/a"), "commit at /a");
        assert_eq!(title("/a", "/b"), "commit at /a against /b");
        assert_eq!(title("/a", ""), "commit at /a against ");
    }

    #[test]
    fn rates_and_99th_percentiles_are_gated_and_counted_by_their_word() {
        let figures = FigureName::ALL.map(|name| figure(name, Some(0.1), SideWord::Slower));
        let mut all = step(["", ""], figures.to_vec());
        assert_eq!(all.figure(FigureName::P99).unwrap().figure, FigureName::P99);
        all.figures.push(figure(FigureName::P99, None, SideWord::Faster));
        let pair = pair(vec![all.clone(), all]);
        assert_eq!(
            [SideWord::Slower, SideWord::Faster, SideWord::NoDifference]
                .map(|word| pair.gated_with(word)),
            [4, 2, 0]
        );
    }

    #[test]
    fn sides_without_any_effect_were_not_compared() {
        let without = figure(FigureName::Rate, None, SideWord::Undecided);
        let with = figure(FigureName::P50, Some(0.0), SideWord::Undecided);
        assert!(!pair(vec![step(["", ""], vec![without.clone()])]).is_any_compared());
        assert!(!pair(Vec::new()).is_any_compared());
        let steps =
            vec![step(["", ""], vec![without.clone()]), step(["", ""], vec![without, with])];
        assert!(pair(steps).is_any_compared());
    }

    #[test]
    fn less_of_a_rate_and_more_of_a_latency_are_worse() {
        let worse = |name, effect| figure(name, effect, SideWord::Undecided).worse_by();
        assert_eq!(worse(FigureName::Rate, Some(-0.25)), Some(0.25));
        assert_eq!(worse(FigureName::Bandwidth, Some(0.5)), Some(-0.5));
        let others = FigureName::ALL.into_iter().skip(2);
        others.for_each(|name| assert_eq!(worse(name, Some(0.25)), Some(0.25), "{name:?}"));
        assert_eq!(worse(FigureName::Rate, None), None);
    }

    #[test]
    fn each_figure_has_its_name() {
        let names = FigureName::ALL.map(FigureName::name);
        let expected = [
            "rate",
            "bandwidth",
            "mean",
            "p50",
            "p99",
            "p99.9",
            "sync mean",
            "sync p50",
            "sync p99",
            "sync p99.9",
            "CPU per operation",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn five_percent_is_the_threshold_which_nine_runs_of_the_steadiest_workload_resolve() {
        let settings = CompareSettings::default();
        assert_eq!((settings.threshold, settings.seed), (0.05, 1));
        assert_eq!((settings.forced, settings.fail_over), (false, None));
        let needed = |share: f64| repeats_to_see(share.ln_1p(), 0.033_f64.ln_1p());
        assert_eq!((needed(settings.threshold), needed(0.03)), (Some(9), Some(20)));
    }
}
