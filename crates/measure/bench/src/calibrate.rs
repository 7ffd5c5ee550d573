//! Finds the times of a database's software again: the database without a disk and its model run in
//! turns. A command loads the database; the model runs with its times scaled by a factor. The
//! result is [`CalibrationFindings`].

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use durio_analyse::calibration::{
    CALIBRATION_SCHEMA, CalibrationFindings, CalibrationPoint, Factor, factor,
};
use durio_block::ask_stoppable;
use durio_command::{CommandError, CommandErrorKind, StopFlag};
use durio_observe::{read_cpu_counters, read_host};

/// So often the database and its model are run in turns; then once more with the factor that was found.
const ROUNDS: usize = 3;

/// Others may have so much of one processor: a database that waits takes a little.
// Durio's choice: it moves a rate of two busy processors by 5 %.
const OTHERS_MAX: f64 = 0.1;
/// How long it is looked for others.
const LOOK: Duration = Duration::from_secs(1);

/// A load that has not ended after this never will.
const LOAD_LIMIT: Duration = Duration::from_secs(3600);

/// Stands for the number of clients.
const CLIENTS: &str = "{clients}";

/// The database and its model.
#[derive(Debug, Clone)]
pub struct CalibrationRequest {
    /// The name of the profile that is written.
    pub database: String,
    /// What loads the database with `{clients}` clients and prints its rate, for a shell.
    pub command: String,
    /// How many clients load the database, in the order of the runs.
    pub clients: Vec<u32>,
}

/// Runs the command and the model in turns. `model` gives the rates by clients with times by a factor; `tell`
/// gets a line about each load that has ended; `busy` gives the processors that are busy while nothing of
/// these runs ([`busy_processors`]).
///
/// # Errors
/// If the machine is busy, the command fails or says no rate, or no factor makes the model like the database.
pub fn calibrate(
    request: &CalibrationRequest,
    stop: &StopFlag,
    model: &mut dyn FnMut(f64) -> Result<Vec<f64>, CommandError>,
    tell: &dyn Fn(&str),
    busy: &dyn Fn() -> Result<f64, CommandError>,
) -> Result<CalibrationFindings, CommandError> {
    if request.clients.len() > 1 && !request.command.contains(CLIENTS) {
        let text = format!("--command lacks the placeholder for the number of clients: {CLIENTS}");
        return Err(CommandError::wrong_use(text).hint("or name one number: --clients 1"));
    }
    let mut others = busy()?;
    if others > OTHERS_MAX {
        let text = format!("other work uses {others:.1} CPUs on this machine");
        return Err(CommandError::cannot_measure(text)
            .hint("a calibration needs a quiet machine; top shows what is running"));
    }
    let point =
        |clients: &u32| CalibrationPoint { clients: *clients, ..CalibrationPoint::default() };
    let mut points: Vec<CalibrationPoint> = request.clients.iter().map(point).collect();
    let rounds = ROUNDS + 1;
    let load_all = |points: &mut Vec<CalibrationPoint>, round: usize| {
        for point in points {
            let rate = load(&request.command, point.clients, stop)?;
            tell(&format!("{round}/{rounds} command, clients {}: {rate:.0}/s", point.clients));
            point.real.push(rate);
        }
        Ok::<(), CommandError>(())
    };
    for round in 1..=ROUNDS {
        load_all(&mut points, round)?;
        for (point, rate) in points.iter_mut().zip(model(1.0)?) {
            point.once.push(rate);
        }
        for (point, rate) in points.iter_mut().zip(model(2.0)?) {
            point.twice.push(rate);
        }
        others = others.max(busy()?);
    }
    let Factor { median: factor, range: factor_range } = factor(&points).map_err(|reason| {
        CommandError::cannot_measure(format!("the model cannot be fitted to it: {reason}"))
    })?;
    load_all(&mut points, rounds)?;
    for (point, rate) in points.iter_mut().zip(model(factor)?) {
        point.calibrated = rate;
    }
    let (database, command) = (request.database.clone(), request.command.clone());
    let schema = CALIBRATION_SCHEMA;
    Ok(CalibrationFindings { schema, database, command, factor, factor_range, points, others })
}

/// Processors that are busy, on average of a second.
///
/// # Errors
/// If the kernel does not show it.
#[expect(clippy::cast_precision_loss, reason = "ticks of a second")]
pub fn busy_processors() -> Result<f64, CommandError> {
    let counters = || read_cpu_counters().map_err(CommandError::cannot);
    let before = counters()?;
    sleep(LOOK);
    let since = counters()?.saturating_since(&before);
    let busy = since.total().saturating_sub(since.idle + since.iowait);
    // All of the machine, as the counters are: this process may be kept to a few.
    let processors = f64::from(read_host().cpus_online);
    Ok(busy as f64 / since.total().max(1) as f64 * processors)
}

/// The rate that the command says.
fn load(command: &str, clients: u32, stop: &StopFlag) -> Result<f64, CommandError> {
    let command = command.replace(CLIENTS, &clients.to_string());
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]);
    let failed = |text: String| CommandError::cannot_measure(format!("'{command}' {text}"));
    let answer = ask_stoppable(&mut shell, LOAD_LIMIT, &|| stop.is_set()).map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::Interrupted => {
                CommandError::new(CommandErrorKind::Interrupted, "interrupted; nothing was written")
            }
            _ => failed(format!("failed: {error}")),
        }
    })?;
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.stderr);
        let last =
            said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(failed(format!("failed ({}): {last}", answer.status)));
    }
    let said = String::from_utf8_lossy(&answer.stdout);
    said_rate(&said).ok_or_else(|| {
        failed("says no rate".to_owned()).hint(
            "it must print transactions per second, as 'tps = 812.5', '812.5 ops/sec', '812.5 requests per \
             second' or '(812.5 per sec.)', or end with a line that is this number alone",
        )
    })
}

/// Transactions in a second, as pgbench, redis-benchmark, db_bench, YCSB, etcd's benchmark and sysbench write it.
const UNITS: [&str; 9] = [
    "tps",
    "ops/sec",
    "ops/s",
    "requests per second",
    "requests/sec",
    "transactions/sec",
    "transactions per second",
    "commits/s",
    "per sec.",
];

/// A number that is the whole last line of a benchmark's text; else its first rate.
fn said_rate(text: &str) -> Option<f64> {
    // Progress that is written over itself is separate lines.
    let lines = || text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back().and_then(|line| line.parse().ok()).filter(is_rate);
    // What sysbench reports in between begins so.
    let is_result = |line: &&str| !line.starts_with("[ ");
    last.or_else(|| lines().filter(is_result).find_map(of_line))
}

fn is_rate(rate: &f64) -> bool {
    rate.is_finite() && *rate > 0.0
}

/// A number behind a unit (`tps = 5`, `Requests/sec: 5`, `Throughput(ops/sec), 5`), or the one before it.
fn of_line(line: &str) -> Option<f64> {
    let line = line.to_ascii_lowercase();
    let (before, behind) = UNITS.iter().find_map(|unit| line.split_once(unit))?;
    let blank = [' ', '\t'];
    let of_behind = || {
        let value = behind.trim_start_matches(blank).strip_prefix(['=', ':', ')'])?;
        let value = value.trim_start_matches([' ', '\t', ',']);
        value.split(blank).next()?.parse().ok()
    };
    let of_before = || before.trim_end().rsplit([' ', '\t', '(']).next()?.parse().ok();
    of_behind().or_else(of_before).filter(is_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(command: &str, clients: &[u32]) -> CalibrationRequest {
        let database = "mine".to_owned();
        CalibrationRequest { database, command: command.to_owned(), clients: clients.to_vec() }
    }

    /// With a model whose transaction takes 100 µs, 40 of them the software's.
    fn calibrated(command: &str, clients: &[u32]) -> Result<CalibrationFindings, CommandError> {
        let of = |factor: f64, clients: u32| f64::from(clients) * 1e6 / (60.0 + 40.0 * factor);
        let mut model =
            |factor| Ok(clients.iter().map(|clients| of(factor, *clients)).collect::<Vec<_>>());
        let request = request(command, clients);
        calibrate(&request, &StopFlag::default(), &mut model, &|_| (), &|| Ok(0.05))
    }

    #[test]
    fn the_model_becomes_as_fast_as_what_the_command_says() {
        // 140 µs: the software takes twice as long.
        let found = calibrated("echo tps = $((1000000 * {clients} / 140))", &[1, 4]).unwrap();
        assert!((found.factor - 2.0).abs() < 0.01, "{found:?}");
        for (point, once) in found.points.iter().zip([1e4, 4e4]) {
            assert!((point.ratio() - 1.0).abs() < 0.01, "{point:?}");
            assert_eq!(point.once, [once; ROUNDS]);
            assert_eq!(point.real.len(), ROUNDS + 1);
        }
    }

    #[test]
    fn a_command_that_fails_says_nothing_or_has_no_place_for_clients_is_refused() {
        for (command, clients, said) in [
            ("echo no such table >&2; exit 3", &[1][..], "no such table"),
            ("echo done", &[1], "says no rate"),
            ("echo tps = 5", &[1, 8], "{clients}"),
            ("echo tps = 5", &[1], "a different database"),
            ("no-such-benchmark -c {clients}", &[1, 8], "not found"),
        ] {
            let error = calibrated(command, clients).unwrap_err();
            assert!(error.to_string().contains(said), "{command}: {error}");
        }
    }

    #[test]
    fn a_busy_machine_is_refused_before_anything_runs() {
        let mut model = |_| panic!("it ran");
        let request = request("echo tps = 5", &[1]);
        let refused = calibrate(&request, &StopFlag::default(), &mut model, &|_| (), &|| Ok(0.4));
        let error = refused.unwrap_err();
        assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
        assert!(error.to_string().contains("other work uses 0.4 CPUs on this machine"), "{error}");
    }

    #[test]
    fn a_tenth_of_a_processor_is_quiet_and_the_most_that_others_took_is_told() {
        let looks = std::cell::RefCell::new(vec![0.05, 0.4, 0.2, 0.1]);
        let busy = || Ok(looks.borrow_mut().pop().unwrap());
        let mut model = |factor: f64| Ok(vec![1e6 / (60.0 + 40.0 * factor)]);
        let request = request("echo tps = 10000", &[1]);
        let found = calibrate(&request, &StopFlag::default(), &mut model, &|_| (), &busy).unwrap();
        assert_eq!((found.others, looks.borrow().len()), (0.4, 0));
        let mut model = |_| panic!("it ran");
        let more = || Ok(0.1 + f64::EPSILON);
        let refused = calibrate(&request, &StopFlag::default(), &mut model, &|_| (), &more);
        assert_eq!(refused.unwrap_err().kind, CommandErrorKind::CannotMeasure);
    }

    #[test]
    fn a_load_that_is_stopped_ends_the_calibration() {
        let stop = StopFlag::default();
        stop.set();
        let mut model = |_| panic!("it ran");
        let request = request("sleep 100; echo tps = 5", &[1]);
        let error = calibrate(&request, &stop, &mut model, &|_| (), &|| Ok(0.0)).unwrap_err();
        assert_eq!(error.kind, CommandErrorKind::Interrupted);
    }

    #[test]
    fn rates_are_found_as_benchmarks_print_them() {
        for (text, rate) in [
            (
                "latency average = 1.007 ms\ntps = 993.104 (without initial connection time)\n",
                993.104,
            ),
            (
                "SET: rps=0.0 (overall: 1.0)\rSET: 21954.32 requests per second, p50=0.9\n",
                21_954.32,
            ),
            (
                "Read rate: 0 ops/second\nfillrandom : 54.4 micros/op 18359 ops/sec 5.4 seconds 9 operations; 2.1 MB/s",
                18_359.0,
            ),
            ("[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.91\n", 98.91),
            ("Summary:\n  Total: 1.8 secs.\n  Requests/sec:\t5552.0943\n", 5552.0943),
            (
                "  transactions:  12059 (1205.44 per sec.)\n  queries: 2 (2410.88 per sec.)\n",
                1205.44,
            ),
            ("warming up\n812.5\n", 812.5),
            ("[ 1s ] thds: 8 tps: 412.00\n transactions: 9 (500.0 per sec.)\n", 500.0),
            ("tps = 5\n812.5\n", 812.5),
        ] {
            assert_eq!(said_rate(text), Some(rate), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_none() {
        for text in ["", "done\n", "tps = inf", "0\n", "ops/sec", "5 seconds\n", "-3"] {
            assert_eq!(said_rate(text), None, "{text}");
        }
    }
}
