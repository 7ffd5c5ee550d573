//! The answer of a comparison in a sentence: how many times the baseline's rate the other side has,
//! how sure that is, and what would decide it where it is open.

use durio_analyse::{Findings, WorkloadFindings, each_once};
use durio_base::{Rate, counted};
use durio_record::OperationName;

use super::again;
use super::comparison::{
    CompareAnswer, CompareSettings, Comparison, FigureComparison, FigureName, Gate, Pair,
    PairAnswer, SideWord, StepComparison,
};
use super::differences::shared_device_of_places;
use super::effect::repeats_to_decide;
use super::gate::REPEATS_FIRST;
use super::side::Side;

/// The answer of a comparison whose pairs and gate are known.
pub(super) fn answer(sides: &[Side], comparison: &Comparison) -> CompareAnswer {
    let Some(baseline) = sides.first() else { return CompareAnswer::default() };
    let settings = &comparison.settings;
    let mut found = CompareAnswer {
        runs_needed: comparison.gate.as_ref().and_then(|gate| gate.repeats_needed),
        ..CompareAnswer::default()
    };
    for pair in &comparison.pairs {
        let Some((step, rate, effect)) = leading(baseline, pair) else { continue };
        found.runs_needed = found.runs_needed.max(runs_needed(rate, settings));
        found.pairs.push(pair_answer(pair, step, rate, effect));
    }
    if let (Some(runs), [a, b], [pair]) = (found.runs_needed, sides, comparison.pairs.as_slice()) {
        let is_environment_same = pair.environment.is_empty();
        found.command = again::command([a, b], runs, settings, is_environment_same);
    }
    found
}

/// The step whose rate is the answer, its rate and the effect on it.
fn leading<'c>(
    baseline: &Side,
    pair: &'c Pair,
) -> Option<(&'c StepComparison, &'c FigureComparison, f64)> {
    let compared = || {
        pair.steps.iter().filter_map(|step| {
            let rate = step.figure(FigureName::Rate)?;
            Some((step, rate, rate.effect?))
        })
    };
    let named = baseline.runs.first().and_then(|run| run.findings.headline.as_ref());
    let is_named = |step: &StepComparison| {
        named
            .is_some_and(|named| named.workload == step.name && named.location == step.locations[0])
    };
    let of_commits = || compared().find(|(step, ..)| step.headline == OperationName::Commit);
    compared().find(|(step, ..)| is_named(step)).or_else(of_commits).or_else(|| compared().next())
}

fn pair_answer(
    pair: &Pair,
    step: &StepComparison,
    rate: &FigureComparison,
    effect: f64,
) -> PairAnswer {
    // A single run's interval holds nothing of the next run.
    let interval = rate.interval.filter(|_| rate.word != SideWord::NoInterval);
    let step_name = (pair.steps.len() > 1).then_some(step.name.as_str());
    PairAnswer {
        baseline: pair.baseline.clone(),
        other: pair.other.clone(),
        unit: unit(step.headline, step_name),
        rates: [rate.baseline, rate.other].map(Option::unwrap_or_default),
        ratio: 1.0 + effect,
        interval: interval.map(|ends| ends.map(|end| 1.0 + end)),
        word: rate.word,
        reason: rate.reason.clone(),
    }
}

impl Comparison {
    /// The answer as people read it, such as `B is 2.5 × A (1.9 to 3.2): 12 k against 4.8 k
    /// commits/s`, for each other side.
    pub fn sentence(&self) -> String {
        let of_pair = |pair: &Pair| {
            let Pair { baseline, other, .. } = pair;
            match self.answer.pairs.iter().find(|answer| answer.other == *other) {
                Some(answer) => answer.sentence(self.settings.threshold),
                None => format!("No results of {other} could be compared with {baseline}"),
            }
        };
        let gate = self.gate.iter().map(|gate| of_gate(gate, &self.settings));
        self.pairs.iter().map(of_pair).chain(gate).collect::<Vec<_>>().join(". ")
    }

    /// What to know about the answer, such as that both sides used the same disk.
    pub fn reasons(&self) -> Vec<String> {
        let remarks = self.pairs.iter().flat_map(|pair| &pair.remarks);
        let open = self.answer.pairs.iter().filter_map(|answer| answer.reason.as_ref());
        let steps = self.pairs.iter().flat_map(|pair| &pair.steps);
        let doubts = steps.flat_map(|step| step.not_comparable.iter().chain(&step.cautions));
        each_once(remarks.chain(open).chain(doubts).cloned())
    }
}

impl PairAnswer {
    fn sentence(&self, threshold: f64) -> String {
        let Self { baseline, other, unit, ratio, word, .. } = self;
        let margin = percent(threshold);
        let times = times(*ratio);
        let interval = self.interval.map_or_else(String::new, |ends| {
            let [low, high] = ends.map(|ratio_end| end(ratio_end, decimals(*ratio)));
            format!(" ({low} to {high})")
        });
        // Twice as much is clear as it is; 1.04 times is read more easily as 4 per cent.
        let change = match (0.5..2.0).contains(ratio) {
            true => format!(", {:+.1} %", (ratio - 1.0) * 100.0),
            false => String::new(),
        };
        let answer = match word {
            SideWord::Faster | SideWord::Slower | SideWord::NoInterval => {
                format!("{other} is {times} × {baseline}{interval}{change}")
            }
            SideWord::NoDifference => {
                format!("{other} equals {baseline} within {margin}: {times} ×{interval}")
            }
            SideWord::Undecided => format!(
                "Undecided: {other} is {times} × {baseline}{interval}, too uncertain to tell whether \
                 they differ by {margin}"
            ),
        };
        let joint = if *word == SideWord::NoDifference { "," } else { ":" };
        let [a, b] = self.rates.map(per_second);
        let why = self.reason.iter().filter(|_| *word == SideWord::NoInterval);
        let why = why.map(|why| format!("; {why}")).collect::<String>();
        format!("{answer}{joint} {b} against {a} {unit}{why}")
    }
}

/// `commits/s`; with the step's name where there are several.
fn unit(operation: OperationName, step: Option<&str>) -> String {
    let step = step.map_or_else(String::new, |name| format!(" ({name})"));
    format!("{}s/s{step}", operation.name())
}

/// The places of one run, each against the first: the same sentence as of two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacesAnswer {
    /// Label and location of each place.
    pub places: Vec<(String, String)>,
    pub sentence: String,
    /// That places share a device.
    pub remarks: Vec<String>,
    /// The command that compares two places by turns.
    pub command: Option<String>,
}

/// How the places of a run compare; `None` if it measured one.
pub fn between_places(findings: &Findings) -> Option<PlacesAnswer> {
    let locations = findings.workloads.iter().map(|workload| workload.location.as_str());
    let locations = each_once(locations);
    let labels: Vec<String> = (0..locations.len()).map(super::label).collect();
    let ((first, others), (baseline, further)) = (locations.split_first()?, labels.split_first()?);
    if others.is_empty() {
        return None;
    }
    let (mut sentences, mut remarks) = (Vec::new(), Vec::new());
    for (other, label) in others.iter().zip(further) {
        sentences.push(match same_workload(findings, [*first, *other]) {
            Some(pair) => of_places(pair, [baseline, label]),
            None => format!("Nothing of {label} could be compared with {baseline}"),
        });
        let shared = shared_device_of_places(findings, [*first, *other]);
        let labels = [baseline.clone(), label.clone()];
        remarks.extend(shared.and_then(|shared| shared.remark(&labels, false)));
    }
    let command = match locations.as_slice() {
        [a, b] => again::command_for_places(&findings.run.command, [*a, *b], REPEATS_FIRST),
        _ => None,
    };
    let places = labels.iter().cloned().zip(locations.iter().map(|place| (*place).to_owned()));
    Some(PlacesAnswer {
        places: places.collect(),
        sentence: sentences.join(". "),
        remarks,
        command,
    })
}

fn of_places([a, b]: [&WorkloadFindings; 2], [baseline, other]: [&String; 2]) -> String {
    let rates = [a.headline_rate(), b.headline_rate()];
    let answer = PairAnswer {
        baseline: baseline.clone(),
        other: other.clone(),
        unit: unit(a.headline, Some(&a.name)),
        rates,
        ratio: rates[1] / rates[0],
        reason: Some("one run of each does not show how much runs vary".to_owned()),
        ..PairAnswer::default()
    };
    answer.sentence(CompareSettings::THRESHOLD_DEFAULT)
}

/// The headline's workload, or else the first that both places completed.
fn same_workload<'f>(
    findings: &'f Findings,
    places: [&str; 2],
) -> Option<[&'f WorkloadFindings; 2]> {
    let at = |name: &str, place: &str| {
        findings.workloads.iter().find(|workload| {
            workload.name == name && workload.location == place && workload.headline_rate() > 0.0
        })
    };
    let headline = findings.headline.iter().map(|headline| headline.workload.as_str());
    let names = headline.chain(findings.workloads.iter().map(|workload| workload.name.as_str()));
    let both = |name: &str| Some([at(name, places[0])?, at(name, places[1])?]);
    names.filter_map(both).find(|[a, b]| a.headline == b.headline)
}

/// What `--fail-over` asked, as a part of the answer.
fn of_gate(gate: &Gate, settings: &CompareSettings) -> String {
    let share = percent(settings.fail_over.unwrap_or_default());
    let counted = |lines: &[String]| counted(lines.len() as u64, "result");
    match (gate.regressions.as_slice(), gate.undecided.as_slice()) {
        ([], []) => format!("No regression of more than {share}"),
        ([], open) => format!("Regression of more than {share}: undecided for {}", counted(open)),
        (worse, _) => format!("Regression of more than {share} in {}", counted(worse)),
    }
}

/// Runs of each side that would probably decide; `None` if it is decided, or a thousand are too
/// few.
fn runs_needed(rate: &FigureComparison, settings: &CompareSettings) -> Option<usize> {
    match rate.word {
        SideWord::NoInterval => Some(REPEATS_FIRST),
        SideWord::Undecided => repeats_to_decide(rate, settings.threshold),
        SideWord::Faster | SideWord::Slower | SideWord::NoDifference => None,
    }
}

/// Two significant digits, but two decimals between a half and two.
fn times(ratio: f64) -> String {
    format!("{ratio:.0$}", decimals(ratio))
}

/// Enough for two digits that differ, and for 1 % about 1.
fn decimals(ratio: f64) -> usize {
    match ratio {
        ratio if ratio >= 9.95 => 0,
        ratio if ratio >= 1.995 => 1,
        ratio if ratio >= 0.0995 => 2,
        ratio if ratio >= 0.00995 => 3,
        _ => 4,
    }
}

/// One end of the interval of a ratio with this many decimals, which a wide scatter may put anywhere.
fn end(ratio: f64, decimals: usize) -> String {
    match ratio {
        ratio if ratio > 1000.0 => "more than 1000".to_owned(),
        ratio if ratio < 0.001 => "less than 0.001".to_owned(),
        ratio => format!("{ratio:.decimals$}"),
    }
}

fn per_second(value: f64) -> String {
    // A quotient of damaged numbers is not a rate.
    let finite = if value.is_finite() { value } else { 0.0 };
    Rate::new(finite).to_string().trim_end_matches("/s").trim_end().to_owned()
}

/// A share as per cent, in tenths where it has them.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(values: [f64; 2], interval: Option<[f64; 2]>, word: SideWord) -> FigureComparison {
        let [baseline, other] = values;
        FigureComparison {
            figure: FigureName::Rate,
            baseline: Some(baseline),
            other: Some(other),
            effect: Some(other / baseline - 1.0),
            interval: interval.map(|ends| ends.map(|end| end - 1.0)),
            repeats_scatter: Some(0.1),
            word,
            ..FigureComparison::default()
        }
    }

    fn step(name: &str, headline: OperationName, rate: FigureComparison) -> StepComparison {
        StepComparison {
            name: name.to_owned(),
            locations: ["/a", "/b"].map(str::to_owned),
            target: String::new(),
            repeats: [3, 3],
            different_workload: false,
            differences: Vec::new(),
            not_comparable: Vec::new(),
            cautions: Vec::new(),
            headline,
            figures: vec![rate],
            curves: [Vec::new(), Vec::new()],
            rates: Default::default(),
        }
    }

    fn commits(rate: FigureComparison) -> StepComparison {
        step("commit", OperationName::Commit, rate)
    }

    fn answered(steps: Vec<StepComparison>, gate: Option<Gate>) -> Comparison {
        let pair = Pair {
            baseline: "A".to_owned(),
            other: "B".to_owned(),
            remarks: Vec::new(),
            environment: Vec::new(),
            steps,
            only_baseline: Vec::new(),
            only_other: Vec::new(),
        };
        let settings = CompareSettings {
            fail_over: gate.as_ref().map(|_| 0.05),
            ..CompareSettings::default()
        };
        let mut comparison = Comparison {
            schema: String::new(),
            settings,
            resamples: 0,
            sides: Vec::new(),
            answer: CompareAnswer::default(),
            pairs: vec![pair],
            gate,
        };
        let side = || Side { source: String::new(), runs: Vec::new() };
        comparison.answer = answer(&[side(), side()], &comparison);
        comparison
    }

    fn sentence_of(values: [f64; 2], interval: Option<[f64; 2]>, word: SideWord) -> String {
        answered(vec![commits(rate(values, interval, word))], None).sentence()
    }

    #[test]
    fn less_than_twice_and_no_less_than_half_is_also_a_percentage() {
        let rows = [
            (0.49, None),
            (0.5, Some("-50.0 %")),
            (1.042, Some("+4.2 %")),
            (1.99, Some("+99.0 %")),
            (2.0, None),
        ];
        for (ratio, change) in rows {
            let said = sentence_of([1000.0, 1000.0 * ratio], None, SideWord::Faster);
            assert_eq!(said.contains('%'), change.is_some(), "{said}");
            assert!(change.is_none_or(|change| said.contains(change)), "{said}");
        }
    }

    #[test]
    fn a_decided_difference_is_a_ratio_with_its_interval() {
        let said = sentence_of([4800.0, 12_000.0], Some([1.9, 3.24]), SideWord::Faster);
        assert_eq!(said, "B is 2.5 × A (1.9 to 3.2): 12 k against 4.8 k commits/s");
        let said = sentence_of([5000.0, 4550.0], Some([0.888, 0.93]), SideWord::Slower);
        assert_eq!(said, "B is 0.91 × A (0.89 to 0.93), -9.0 %: 4.55 k against 5 k commits/s");
        let said = sentence_of([5000.0, 5010.0], Some([0.99, 1.014]), SideWord::NoDifference);
        assert_eq!(
            said,
            "B equals A within 5 %: 1.00 × (0.99 to 1.01), 5.01 k against 5 k commits/s"
        );
    }

    #[test]
    fn single_runs_have_their_ratio_and_what_would_give_an_interval() {
        let reason = "one run per side does not show how much runs vary";
        let rate = FigureComparison {
            reason: Some(reason.to_owned()),
            // That of blocks, which says nothing of the next run.
            ..rate([399.0, 11_900.0], Some([29.0, 31.0]), SideWord::NoInterval)
        };
        let found = answered(vec![commits(rate)], None);
        let said = format!("B is 30 × A: 11.9 k against 399 commits/s; {reason}");
        assert_eq!(found.sentence(), said);
        let [pair] = found.answer.pairs.as_slice() else { panic!("{found:?}") };
        assert_eq!((pair.word, pair.interval), (SideWord::NoInterval, None));
        assert!((pair.ratio - 11_900.0 / 399.0).abs() < 1e-9);
        assert_eq!((found.answer.runs_needed, found.reasons()), (Some(5), vec![reason.to_owned()]));
    }

    #[test]
    fn an_interval_across_the_margin_is_undecided_and_says_how_many_runs_would_decide() {
        let undecided = |values| rate(values, Some([0.86, 1.38]), SideWord::Undecided);
        let found = answered(vec![commits(undecided([4400.0, 4800.0]))], None);
        let said = "Undecided: B is 1.09 × A (0.86 to 1.38), too uncertain to tell whether they \
                    differ by 5 %: 4.8 k against 4.4 k commits/s";
        assert_eq!(found.sentence(), said);
        let needed = repeats_to_decide(&undecided([4400.0, 4800.0]), 0.05);
        assert_eq!(found.answer.runs_needed, needed);
        let small = answered(vec![commits(undecided([4790.0, 4800.0]))], None);
        assert!(needed.is_some() && small.answer.runs_needed > needed, "{small:?} {needed:?}");
        let wide = rate([100.0, 250.0], Some([0.000_2, 9e9]), SideWord::Undecided);
        let said = answered(vec![commits(wide)], None).sentence();
        assert!(said.contains("(less than 0.001 to more than 1000)"), "{said}");
    }

    #[test]
    fn the_answer_is_of_commits_if_there_are_any_and_names_the_step_among_several() {
        let read =
            || step("read", OperationName::Read, rate([100.0, 300.0], None, SideWord::Faster));
        let commit = commits(rate([100.0, 50.0], None, SideWord::Slower));
        let found = answered(vec![read(), commit], None);
        assert_eq!(found.sentence(), "B is 0.50 × A, -50.0 %: 50 against 100 commits/s (commit)");
        let found = answered(vec![read(), read()], None);
        assert_eq!(found.sentence(), "B is 3.0 × A: 300 against 100 reads/s (read)");
        let nothing = answered(Vec::new(), None);
        assert_eq!(nothing.sentence(), "No results of B could be compared with A");
        assert_eq!(nothing.answer, CompareAnswer::default());
    }

    #[test]
    fn the_gate_is_a_part_of_the_answer() {
        let of = |[regressions, undecided]: [usize; 2], repeats_needed| {
            let lines = |count| vec!["x".to_owned(); count];
            let (regressions, undecided) = (lines(regressions), lines(undecided));
            let gate = Gate { regressions, undecided, repeats_needed, ..Gate::default() };
            let rate = rate([100.0, 300.0], None, SideWord::Faster);
            let found = answered(vec![commits(rate)], Some(gate));
            let sentence = found.sentence();
            let (_, said) = sentence.split_once(". ").unwrap();
            (said.to_owned(), found.answer.runs_needed)
        };
        assert_eq!(of([0, 0], None), ("No regression of more than 5 %".to_owned(), None));
        let said = "Regression of more than 5 %: undecided for 2 results".to_owned();
        assert_eq!(of([0, 2], Some(9)), (said, Some(9)));
        assert_eq!(of([1, 2], None), ("Regression of more than 5 % in 1 result".to_owned(), None));
    }

    #[test]
    fn ratios_have_two_digits_and_more_near_one() {
        let shown = [0.00123, 0.0456, 0.324, 0.5, 1.042, 1.994, 2.0, 9.94, 29.8, 1660.0].map(times);
        let expected =
            ["0.0012", "0.046", "0.32", "0.50", "1.04", "1.99", "2.0", "9.9", "30", "1660"];
        assert_eq!(shown, expected);
    }
}
