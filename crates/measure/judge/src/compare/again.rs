//! The command that measures a comparison again, with more runs of each side.

use durio_base::shell_word;

use super::comparison::CompareSettings;
use super::side::{ComparedRun, Side};

/// Options of the earlier runs that the new ones do not take, and whether a value follows.
const LEFT_OUT: [(&str, bool); 12] = [
    ("--out", true),
    // A second run of one name could not be found by it.
    ("--name", true),
    ("--format", true),
    ("-o", true),
    ("--output", true),
    ("--json", false),
    ("--verbose", false),
    ("--quiet", false),
    ("-q", false),
    ("--yes", false),
    ("--fresh", false),
    // `durio compare DIR DIR` gives it to each turn.
    ("--no-predictions", false),
];

/// How the first runs of both sides were made.
#[derive(Debug)]
struct EarlierRuns {
    /// Their command lines without the program and [`LEFT_OUT`].
    words: [Vec<String>; 2],
    /// The path of each, if it had a single one.
    places: [Option<String>; 2],
}

/// The command for `runs` of each side, by turns where a command of durio's does that. `None` if
/// the sides differ in something that a command cannot switch, such as the kernel.
pub(super) fn command(
    sides: [&Side; 2],
    runs: usize,
    settings: &CompareSettings,
    is_environment_same: bool,
) -> Option<String> {
    let [Some(a), Some(b)] = sides.map(|side| side.runs.first()) else { return None };
    let earlier = EarlierRuns { words: [words(a), words(b)], places: [place(a), place(b)] };
    // One run shows no scatter that the new runs would have to repeat.
    let is_first = sides.iter().any(|side| side.runs.len() == 1);
    earlier.again(runs, &limits(settings), is_environment_same, is_first)
}

/// The options that decide the words and the exit code.
fn limits(settings: &CompareSettings) -> String {
    // As the options take them, in tenths.
    let option = |name, share: f64| format!(" --{name} {}%", (share * 1000.0).round() / 10.0);
    let margin = Some(settings.threshold);
    let margin = margin.filter(|margin| *margin != CompareSettings::THRESHOLD_DEFAULT);
    let margin = margin.map(|margin| option("threshold", margin));
    let gate = settings.fail_over.map(|share| option("fail-over", share));
    margin.into_iter().chain(gate).collect()
}

/// The command that compares two places by turns, with the options of the `durio check` that
/// measured both.
pub(super) fn command_for_places(
    command: &[String],
    [a, b]: [&str; 2],
    runs: usize,
) -> Option<String> {
    let words = kept(command);
    let options = options_of_check(&words, a)?;
    let options: Vec<String> = options.into_iter().filter(|word| word != b).collect();
    let options = self::options(&options);
    Some(format!("durio compare {} {} --pairs {runs}{options}", shell_word(a), shell_word(b)))
}

fn words(run: &ComparedRun) -> Vec<String> {
    kept(&run.findings.run.command)
}

fn place(run: &ComparedRun) -> Option<String> {
    match run.findings.plan.locations().as_slice() {
        [one] => Some(one.to_string()),
        _ => None,
    }
}

fn kept(command: &[String]) -> Vec<String> {
    let mut words = command.iter().skip(1);
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let left_out = LEFT_OUT.iter().find(|(option, has_value)| {
            let joined = word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
            word == option || (*has_value && joined)
        });
        match left_out {
            Some((option, true)) if word == option => {
                words.next();
            }
            Some(_) => {}
            None => kept.push(word.clone()),
        }
    }
    kept
}

impl EarlierRuns {
    fn again(
        &self,
        runs: usize,
        limits: &str,
        is_environment_same: bool,
        is_first: bool,
    ) -> Option<String> {
        let turns = self.of_specs().or_else(|| self.of_checks(is_first));
        if let Some((sides, options)) = turns {
            return Some(format!("durio compare {sides} --pairs {runs}{limits}{options}"));
        }
        let [a, b] = &self.words;
        let is_repeatable = !a.is_empty() && !b.is_empty() && (a != b || is_environment_same);
        is_repeatable.then(|| {
            let [a, b] = [a, b].map(|words| joined(words));
            format!(
                "for i in $(seq {runs}); do durio {a} --out runs-a; durio {b} --out runs-b; done; \
                 durio compare runs-a runs-b{limits}"
            )
        })
    }

    /// Two specs with the same options.
    fn of_specs(&self) -> Option<(String, String)> {
        let [a, b] = &self.words;
        let ([run_a, spec_a, rest_a @ ..], [run_b, spec_b, rest_b @ ..]) =
            (a.as_slice(), b.as_slice())
        else {
            return None;
        };
        let is_spec = |word: &String| !word.starts_with('-');
        let are_runs = run_a == "run" && run_b == "run" && is_spec(spec_a) && is_spec(spec_b);
        (are_runs && spec_a != spec_b && rest_a == rest_b).then(|| {
            let sides = format!("--interleave {} {}", shell_word(spec_a), shell_word(spec_b));
            (sides, options(rest_a))
        })
    }

    /// Two places that `durio check` measured with the same options.
    fn of_checks(&self, is_first: bool) -> Option<(String, String)> {
        let [Some(place_a), Some(place_b)] = &self.places else { return None };
        let [words_a, words_b] = &self.words;
        let (rest_a, rest_b) =
            (options_of_check(words_a, place_a)?, options_of_check(words_b, place_b)?);
        // Without options `durio compare` makes quick runs, which scatter otherwise than long ones.
        let are_alike = rest_a == rest_b && (is_first || !rest_a.is_empty());
        (are_alike && place_a != place_b)
            .then(|| (format!("{} {}", shell_word(place_a), shell_word(place_b)), options(&rest_a)))
    }
}

/// The options of a `durio check` of this place.
fn options_of_check(words: &[String], place: &str) -> Option<Vec<String>> {
    let (command, rest) = words.split_first()?;
    let is_option = |word: &&String| *word != place && *word != "--target";
    (command == "check").then(|| rest.iter().filter(is_option).cloned().collect())
}

fn options(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!(" -- {}", joined(words)) }
}

fn joined(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier(lines: [&str; 2], places: [&str; 2]) -> EarlierRuns {
        let words = lines.map(|line| kept(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()));
        EarlierRuns { words, places: places.map(|place| Some(place.to_owned())) }
    }

    fn again(lines: [&str; 2], places: [&str; 2]) -> Option<String> {
        earlier(lines, places).again(7, "", true, false)
    }

    #[test]
    fn two_checked_places_are_measured_by_turns_with_their_options() {
        let lines = [
            "durio check --quick --name x /a",
            "/bin/durio check --yes --no-predictions --quick --out=y -q /b",
        ];
        let found = again(lines, ["/a", "/b"]).unwrap();
        assert_eq!(found, "durio compare /a /b --pairs 7 -- --quick");
        let settings = CompareSettings {
            fail_over: Some(0.025),
            threshold: 0.1,
            ..CompareSettings::default()
        };
        let limits = limits(&settings);
        let gated = earlier(lines, ["/a", "/b"]).again(12, &limits, false, false).unwrap();
        let expected = "durio compare /a /b --pairs 12 --threshold 10% --fail-over 2.5% -- --quick";
        assert_eq!(gated, expected);
        assert_eq!(self::limits(&CompareSettings::default()), "");
    }

    #[test]
    fn a_check_of_two_places_becomes_a_comparison_of_them() {
        let again = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            command_for_places(&words, ["/a", "/b"], 5)
        };
        let found = again("durio check --quick /a /b --json").unwrap();
        assert_eq!(found, "durio compare /a /b --pairs 5 -- --quick");
        assert_eq!(again("durio check /a /b").unwrap(), "durio compare /a /b --pairs 5");
        assert_eq!(again("durio run x --target /a"), None);
    }

    #[test]
    fn single_checks_without_options_are_measured_anew_and_repeats_as_they_were() {
        let lines = ["durio check /a", "durio check --target /b"];
        let of = |is_first| earlier(lines, ["/a", "/b"]).again(5, "", true, is_first).unwrap();
        assert_eq!(of(true), "durio compare /a /b --pairs 5");
        assert_eq!(
            of(false),
            "for i in $(seq 5); do durio check /a --out runs-a; durio check --target /b --out \
             runs-b; done; durio compare runs-a runs-b"
        );
    }

    #[test]
    fn specs_are_interleaved_with_the_options_of_their_runs() {
        let lines =
            ["durio run a.toml --yes --fresh --out /r/a --target d", "durio run b.toml --target d"];
        let found = again(lines, ["d", "d"]).unwrap();
        assert_eq!(found, "durio compare --interleave a.toml b.toml --pairs 7 -- --target d");
    }

    #[test]
    fn other_commands_are_repeated_by_turns_unless_only_the_machine_differs() {
        let lines = ["durio run --rw read --target d;x", "durio run --rw write --target d;x"];
        let found = again(lines, ["d;x", "d;x"]).unwrap();
        assert_eq!(
            found,
            "for i in $(seq 7); do durio run --rw read --target 'd;x' --out runs-a; durio run --rw \
             write --target 'd;x' --out runs-b; done; durio compare runs-a runs-b"
        );
        let alike = ["durio check --quick /a"; 2];
        let of = |is_same| earlier(alike, ["/a"; 2]).again(9, "", is_same, false);
        assert!(of(true).unwrap().starts_with("for i in $(seq 9); do durio check --quick /a"));
        assert_eq!(of(false), None);
        assert_eq!(again(["durio", ""], ["/a", "/b"]), None);
    }
}
