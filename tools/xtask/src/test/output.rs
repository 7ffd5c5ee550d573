//! Parses the output of `cargo test`, line by line.
//!
//! Takes lines of standard output, from test programs and from rustdoc; returns counts and names.

use std::collections::BTreeMap;
use std::time::Duration;

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
