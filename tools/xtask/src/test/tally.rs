//! Accounting: passed, failed and skipped tests, with the reasons of skips.
//!
//! Takes the counts of `output`, the skips that tests reported, and whether the tool succeeded;
//! returns a [`Tally`], whose text is the sum.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::output::TestOutput;
use crate::attack::RowOutcome;

/// The tests of one stage, or of all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
    skips: Vec<(String, String)>,
    times: Vec<(Duration, String)>,
}

impl Tally {
    /// A check that is one test in the sum.
    pub(super) fn of_check(name: &str, is_good: bool) -> Self {
        match is_good {
            true => Self { passed: 1, ..Self::default() },
            false => Self { failed: 1, failures: vec![name.to_owned()], ..Self::default() },
        }
    }

    /// Something that was not run, and why.
    pub(super) fn of_skip(name: &str, reason: String) -> Self {
        Self { skips: vec![(name.to_owned(), reason)], ..Self::default() }
    }

    /// The attack suite: each case is a test, a row that was not run a skip.
    pub(super) fn of_attacks(outcomes: &[RowOutcome]) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            let failed = outcome.violations.len();
            tally.passed += outcome.tried.saturating_sub(failed);
            tally.failed += failed;
            tally.failures.extend(outcome.violations.iter().map(|(case, wrong)| {
                format!("attack --only {} --case {case}: {}", outcome.row, wrong.join("; "))
            }));
            let skip =
                outcome.not_run.iter().map(|why| (format!("attack {}", outcome.row), why.clone()));
            tally.skips.extend(skip);
        }
        tally
    }

    /// The test program `name`, or several.
    ///
    /// The test harness counts a test that reported a skip as passed; here it is a skip. One that
    /// reported a skip and then failed has failed.
    pub(super) fn of_tests(
        output: &TestOutput,
        mut skips: BTreeMap<String, String>,
        is_success: bool,
        name: &str,
    ) -> Self {
        skips.retain(|test, _| !output.failed_names.iter().any(|failed| is_same(test, failed)));
        let mut tally = Self {
            passed: output.passed.saturating_sub(skips.len()),
            failed: output.failed,
            failures: output.failed_names.iter().map(|name| with_text(name, output)).collect(),
            skips: skips.into_iter().collect(),
            times: output
                .times
                .iter()
                .map(|(time, test)| (*time, format!("{name}: {test}")))
                .collect(),
        };
        tally.skips.extend(ignored(output));
        if !is_success && tally.failed == 0 {
            // Nothing was compiled, or a program failed in an unknown way.
            tally.add(Self::of_check(name, false));
        }
        tally
    }

    /// Adds the tests of another stage.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.times.extend(other.times);
    }

    /// The count of failures.
    pub(super) const fn failed(&self) -> usize {
        self.failed
    }

    /// The names of failed tests, as far as they are known, each with its output in the lines
    /// below.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The slowest timed tests, at most `count`, the longest first.
    pub(super) fn slowest(&self, count: usize) -> Vec<&(Duration, String)> {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        times.truncate(count);
        times
    }

    /// Tests that did not run, with the reason.
    pub(super) fn skips(&self) -> &[(String, String)] {
        &self.skips
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skips, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {} skipped", skips.len())
    }
}

/// Reads lines `test name: reason`; a test that reports twice is one skip.
///
/// Names may hold `::` but no colon followed by a blank.
pub(super) fn read_skips(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let skips = lines.map(|line| line.split_once(": ").unwrap_or((line, "no reason given")));
    skips.map(|(test, reason)| (test.to_owned(), reason.to_owned())).collect()
}

fn with_text(name: &str, output: &TestOutput) -> String {
    let text = output.failed_texts.get(name).map_or(&[][..], Vec::as_slice);
    text.iter().fold(name.to_owned(), |lines, line| lines + "\n    " + line)
}

/// Ignored tests with their names, as far as they were printed.
fn ignored(output: &TestOutput) -> impl Iterator<Item = (String, String)> + '_ {
    let names = output.ignored_names.iter().map(String::as_str);
    let names = names.chain(std::iter::repeat("(name not printed)"));
    names.take(output.ignored).map(|name| (name.to_owned(), "ignored".to_owned()))
}

/// True if a reported name, which may carry a crate or file in front, is the printed one.
fn is_same(reported: &str, printed: &str) -> bool {
    let front = reported.strip_suffix(printed);
    front.is_some_and(|front| front.is_empty() || front.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(passed: usize, failed_names: &[&str]) -> TestOutput {
        let failed_names: Vec<_> = failed_names.iter().map(|&name| name.to_owned()).collect();
        TestOutput { passed, failed: failed_names.len(), failed_names, ..TestOutput::default() }
    }

    fn sum(output: &TestOutput, skips: &str, is_success: bool) -> String {
        Tally::of_tests(output, read_skips(skips), is_success, "test").to_string()
    }

    #[test]
    fn a_reported_skip_is_not_a_pass() {
        let skips = "xfs::grows: mkfs.xfs is missing\nreads_fio: fio is missing\n";
        assert_eq!(sum(&output(5, &[]), skips, true), "3 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_skip_reported_twice_is_one() {
        assert_eq!(sum(&output(1, &[]), "a: x\na: y\n", true), "0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_reports_a_skip_and_fails_has_failed() {
        let output = output(2, &["trim::reads_zero"]);
        let skips = "black_box::trim::reads_zero: no trim\n";
        assert_eq!(sum(&output, skips, false), "2 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn an_ignored_test_is_a_skip_with_its_reason() {
        let names = vec!["slow".to_owned()];
        let output =
            TestOutput { passed: 1, ignored: 2, ignored_names: names, ..TestOutput::default() };
        let tally = Tally::of_tests(&output, BTreeMap::new(), true, "test");
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 2 skipped");
        assert_eq!(tally.skips()[0], ("slow".to_owned(), "ignored".to_owned()));
    }

    #[test]
    fn a_failed_compilation_is_one_failure() {
        let tally =
            Tally::of_tests(&TestOutput::default(), BTreeMap::new(), false, "test --workspace");
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures(), ["test --workspace"]);
    }

    #[test]
    fn a_process_that_fails_after_good_results_is_a_failure() {
        assert_eq!(sum(&output(4, &[]), "", false), "4 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_failed_test_is_not_counted_again_for_the_exit_code() {
        assert_eq!(sum(&output(4, &["a"]), "", false), "4 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_failure_has_what_it_printed_below_its_name() {
        let mut output = output(0, &["a", "b"]);
        output
            .failed_texts
            .insert("b".to_owned(), vec!["left: 1".to_owned(), "right: 2".to_owned()]);
        let tally = Tally::of_tests(&output, BTreeMap::new(), false, "test");
        assert_eq!(tally.failures(), ["a", "b\n    left: 1\n    right: 2"]);
    }

    #[test]
    fn stages_are_added_up() {
        let mut total = Tally::of_check("fmt", true);
        total.add(Tally::of_check("clippy", false));
        total.add(Tally::of_tests(&output(3, &[]), read_skips("a: b"), true, "test"));
        assert_eq!(total.to_string(), "3 passed, 1 failed, 1 skipped");
        assert_eq!(total.failures(), ["clippy"]);
    }

    #[test]
    fn the_slowest_tests_of_all_programs_come_first() {
        let timed =
            |milliseconds, test: &str| (Duration::from_millis(milliseconds), test.to_owned());
        let of = |program, times| {
            let output = TestOutput { passed: 2, times, ..TestOutput::default() };
            Tally::of_tests(&output, BTreeMap::new(), true, program)
        };
        let mut total = of("raid raid", vec![timed(30, "a"), timed(4000, "b")]);
        total.add(of("durio cli", vec![timed(65_000, "lab::c"), timed(500, "d")]));
        let slowest = total.slowest(3);
        let slowest: Vec<_> =
            slowest.iter().map(|(time, test)| (time.as_millis(), test.as_str())).collect();
        let expected =
            [(65_000, "durio cli: lab::c"), (4000, "raid raid: b"), (500, "durio cli: d")];
        assert_eq!(slowest, expected);
    }

    #[test]
    fn every_case_of_an_attack_is_a_test_and_a_row_that_was_not_run_a_skip() {
        let row =
            |row: &str, tried| RowOutcome { row: row.to_owned(), tried, ..RowOutcome::default() };
        let violations = vec![(4, vec!["left: x".to_owned()])];
        let failing = RowOutcome { violations, ..row("kills:check", 5) };
        let skipped =
            RowOutcome { not_run: Some("needs root".to_owned()), ..row("devices:resized", 0) };
        let tally = Tally::of_attacks(&[row("inputs:spec", 10), failing, skipped]);
        assert_eq!(tally.to_string(), "14 passed, 1 failed, 1 skipped");
        assert_eq!(tally.failures(), ["attack --only kills:check --case 4: left: x"]);
        assert_eq!(tally.skips()[0].0, "attack devices:resized");
    }

    #[test]
    fn a_name_with_a_path_is_told_from_its_reason() {
        let skips = read_skips("cli::check::runs: needs root: no\n\nbare\n");
        assert_eq!(skips["cli::check::runs"], "needs root: no");
        assert_eq!(skips["bare"], "no reason given");
    }
}
