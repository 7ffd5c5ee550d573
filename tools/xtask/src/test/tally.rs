//! Accounting: passed, failed and skipped tests, with the reasons of skips.
//!
//! Parses the output of test programs and of rustdoc line by line; with the skips that tests reported,
//! and whether the tool succeeded, that makes a [`Tally`], whose text is the sum.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

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

/// Enough for a panic's location, its message and a program's output in it.
const QUOTED_LINES: usize = 30;

/// The results of the lines so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TestOutput {
    /// Tests that returned.
    pub(super) passed: usize,
    /// Tests that did not pass, and test programs that ended without a result.
    pub(super) failed: usize,
    /// Tests marked as ignored, except for slow ones, which have a separate stage.
    pub(super) ignored: usize,
    /// Names of tests that did not pass, as far as they were printed.
    pub(super) failed_names: Vec<String>,
    /// The first lines that each failed test printed, at most [`QUOTED_LINES`].
    pub(super) failed_texts: BTreeMap<String, Vec<String>>,
    /// Names of ignored tests, as far as they were printed.
    pub(super) ignored_names: Vec<String>,
    /// Each timed test with its time on the wall clock, while other tests ran too.
    pub(super) times: Vec<(Duration, String)>,
    /// The running test program, which has not given its result yet.
    pub(super) program: Option<RunningTests>,
}

/// A test program between its first line and its result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunningTests {
    /// How many tests it announced.
    count: usize,
    /// True once it lists the output of failed tests, which may look like results.
    is_listing_failures: bool,
    /// The failed test whose output is being listed.
    quoted: Option<String>,
    last_test: String,
    slow: usize,
}

impl TestOutput {
    /// Parses one line; ignores lines that are not about tests.
    pub(super) fn read_line(&mut self, line: &str) {
        let is_quoting = self.program.as_ref().is_some_and(|program| program.is_listing_failures);
        if let Some(result) = line.strip_prefix("test result: ") {
            self.read_result(result);
        } else if is_quoting {
            self.read_quoted(line);
        } else if let Some(count) = announced(line) {
            self.end_program();
            self.program = Some(RunningTests { count, ..RunningTests::default() });
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_test(test);
        } else if let Some(program) = &mut self.program {
            program.is_listing_failures = line == "failures:";
        }
    }

    /// A program that started and never gave its result has crashed: one failure.
    ///
    /// Must be called once more after the last line.
    pub(super) fn end_program(&mut self) {
        if let Some(program) = self.program.take() {
            self.failed += 1;
            let hint = format!("(a test program crashed; last result: '{}')", program.last_test);
            self.failed_names.push(hint);
        }
    }

    /// A result whose counts do not match the announced number is a quotation.
    fn read_result(&mut self, result: &str) {
        let count = |word| count_before(result, word);
        let (passed, failed, ignored) = (count(" passed"), count(" failed"), count(" ignored"));
        let sum = passed + failed + ignored + count(" measured");
        if let Some(program) = self.program.take_if(|program| program.count == sum) {
            self.passed += passed;
            self.failed += failed;
            self.ignored += ignored.saturating_sub(program.slow);
        }
    }

    /// A line of a failed test's output.
    fn read_quoted(&mut self, line: &str) {
        let Some(program) = &mut self.program else { return };
        let heading = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) =
            heading.filter(|name| self.failed_names.iter().any(|failed| failed == name))
        {
            program.quoted = Some(name.to_owned());
        } else if line == "failures:" {
            program.quoted = None;
        } else if let Some(name) = &program.quoted {
            let text = self.failed_texts.entry(name.clone()).or_default();
            if text.len() < QUOTED_LINES && !line.is_empty() {
                text.push(line.to_owned());
            }
        }
    }

    fn read_test(&mut self, test: &str) {
        let Some((name, verdict)) = test.rsplit_once(" ... ") else { return };
        let Some(program) = &mut self.program else { return };
        name.clone_into(&mut program.last_test);
        let (verdict, time) = split_time(verdict);
        self.times.extend(time.map(|time| (time, name.to_owned())));
        if verdict == "FAILED" {
            self.failed_names.push(name.to_owned());
        // libtest prints the reason of `#[ignore = "slow"]` behind the word.
        } else if verdict == "ignored, slow" {
            program.slow += 1;
        } else if verdict.starts_with("ignored") {
            self.ignored_names.push(name.to_owned());
        }
    }
}

/// `ok <1.250s>` of libtest's `--report-time` as the word and the time.
fn split_time(verdict: &str) -> (&str, Option<Duration>) {
    let timed = verdict.strip_suffix("s>").and_then(|timed| timed.rsplit_once(" <"));
    let timed = timed.and_then(|(word, seconds)| Some((word, seconds.parse::<f64>().ok()?)));
    let timed = timed.and_then(|(word, s)| Some((word, Duration::try_from_secs_f64(s).ok()?)));
    timed.map_or((verdict, None), |(word, time)| (word, Some(time)))
}

/// The count in `running 1 test`, `running 7 tests`.
fn announced(line: &str) -> Option<usize> {
    let (count, plural) = line.strip_prefix("running ")?.split_once(" test")?;
    count.parse().ok().filter(|_| plural.len() < 2)
}

/// The number in front of `word`; zero if absent.
fn count_before(result: &str, word: &str) -> usize {
    let before = result.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
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

    fn read(text: &str) -> TestOutput {
        let mut output = TestOutput::default();
        text.lines().for_each(|line| output.read_line(line));
        output.end_program();
        output
    }

    #[test]
    fn several_results_are_added() {
        let output = read(
            "\nrunning 2 tests\ntest a ... ok\ntest b ... ok\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.00s\n\n\
             running 4 tests\ntest c ... FAILED\ntest d ... ignored, why\ntest e ... ok\n\
             test f ... ignored, slow\n\n\
             test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((output.passed, output.failed, output.ignored), (3, 1, 1));
        assert_eq!(output.failed_names, ["c"]);
        assert_eq!(output.ignored_names, ["d"]);
    }

    #[test]
    fn times_are_taken_from_the_verdicts_that_have_one() {
        let output = read(
            "running 4 tests\ntest quick ... ok <0.004s>\ntest a::long - should panic ... ok <71.250s>\n\
             test broken ... FAILED <2.500s>\ntest f ... ignored, slow\n\n\
             test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((output.passed, output.failed, output.ignored), (2, 1, 0));
        assert_eq!(output.failed_names, ["broken"]);
        let times: Vec<_> =
            output.times.iter().map(|(time, name)| (time.as_millis(), name.as_str())).collect();
        assert_eq!(times, [(4, "quick"), (71_250, "a::long - should panic"), (2500, "broken")]);
    }

    #[test]
    fn documentation_tests_are_counted() {
        let output = read(
            "running 2 tests\n\
             test crates/core/base/src/bytes.rs - bytes::Bytes (line 20) ... ok\n\
             test crates/core/base/src/rate.rs - rate::Rate (line 12) - compile ... FAILED\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; \
             finished in 0.01s\n\n\
             all doctests ran in 0.31s; merged doctests compilation took 0.29s\n",
        );
        assert_eq!((output.passed, output.failed), (1, 1));
        let failed = "crates/core/base/src/rate.rs - rate::Rate (line 12) - compile";
        assert_eq!(output.failed_names, [failed]);
    }

    #[test]
    fn a_crash_between_two_good_programs_is_one_failure() {
        let good = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed;\n";
        let crash = "running 2 tests\ntest b ... ok\n";
        let output = read(&format!("{good}{crash}{good}"));
        assert_eq!((output.passed, output.failed), (2, 1));
        assert!(output.failed_names[0].contains("last result: 'b'"), "{output:?}");
    }

    #[test]
    fn a_crash_of_the_last_program_is_a_failure() {
        assert_eq!(read("running 1 test\n").failed, 1);
    }

    #[test]
    fn what_a_failed_test_printed_is_no_result() {
        let output = read(
            "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n\
             ---- b stdout ----\nrunning 9 tests\ntest c ... FAILED\n\
             test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\n\
             failures:\n    b\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((output.passed, output.failed), (1, 1));
        assert_eq!(output.failed_names, ["b"]);
        let text = &output.failed_texts["b"];
        assert_eq!((text.len(), text[1].as_str()), (2, "test c ... FAILED"));
    }

    #[test]
    fn a_compiler_s_output_has_no_tests() {
        let output = read("error[E0425]: cannot find value `x`\nrunning out of tests\n");
        assert_eq!((output.passed, output.failed, output.ignored), (0, 0, 0));
    }
}
