//! `durio watch`: a light probe of the durable write, again and again, for monitoring.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use durio_analyse::history::{Metric, Percentiles, RunFigure, RunRow, history};
use durio_analyse::{Findings, WorkloadFindings};
use durio_base::{Bytes, Nanos};
use durio_bench::{
    Execution, KeptRuns, RunOptions, list_runs, probes_folder, read_run_row, remove_run,
};
use durio_command::http::{self, HttpPage};
use durio_command::{CommandError, Permission, StopFlag, locate};
use durio_plan::{
    BatchPolicy, ClockChoice, EngineKind, Limit, LocationFacts, Placement, Plan, RawPath,
};
use durio_record::{Latency, OperationName, Outcome};
use durio_report::{WatchedLocation, WatchedProbe};
use durio_spec::{RunRequest, plan_run};
use durio_workload::{Arrivals, check_workloads};

use crate::exit_code::{Exit, TABLE};
use crate::measure::clear_up;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Probe durable writes periodically, for monitoring
///
/// A probe creates an unnamed file of 128 KiB, makes 200 durable commits of 8 KiB in it (O_DIRECT,
/// fdatasync each) at a fixed rate of 100 per second, and ends after two seconds. It writes 1.7 MiB,
/// less than 1 MiB in any second, and takes about 50 ms of one CPU. Existing files are not touched.
///
/// Each probe is a run, kept apart from other runs in the state folder:
///
///   durio runs --probes                             # the probes, with their results
///   durio history /data --metric commit.p99 --probes
///   durio report 2026-11-23T15:40                   # everything about one of them
///
/// With --listen, /metrics serves the results to Prometheus and / shows the history. Anyone who can
/// reach the address can read them. A failed probe is counted and reported on stderr, and the next
/// one runs at its usual time; only a failed first probe ends the command. SIGTERM and Ctrl-C end
/// it with exit code 0.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct WatchArguments {
    /// Directories on the storage to watch
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) directories: Vec<PathBuf>,

    /// Time from the start of one probe to the start of the next, at least 10s
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::period)]
    pub(crate) every: Nanos,

    /// Serve /metrics and a page at this address, such as 127.0.0.1:9119
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = http::listen_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Number of probes to keep per directory; older ones are removed
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,

    /// Record why the slowest commits of each probe were slow (needs root and tracefs)
    ///
    /// As durio why does for a running database: the five slowest of each probe's 200 commits are
    /// explained. The page shows the latest 100, and /metrics has their time by cause in
    /// durio_slow_commit_seconds_total. Recording makes commits a little slower.
    #[arg(long)]
    pub(crate) why: bool,

    /// Do not print a line per probe on stderr
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

// The fewest commits with more than one beyond the p99; few enough that a probe stays below 1 MiB a
// second and ends within two.
const COMMITS: u64 = 200;
const COMMITS_PER_SECOND: f64 = 100.0;
const FILE: Bytes = Bytes::from_kib(128);

/// Commits of a probe that are explained.
const EXPLAINED: usize = 5;

const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// A signal is seen this soon; more often would cost more than the probes.
const LOOK: Duration = Duration::from_millis(250);

pub(crate) fn watch(arguments: &WatchArguments) -> Result<Exit, CommandError> {
    let stop = stop_on_signals()?;
    let mut watcher = Watcher::new(arguments)?;
    if let Some(address) = arguments.listen {
        let address = serve(address, Arc::clone(&watcher.shown))?;
        output::remark(&format!("durio: metrics at http://{address}/metrics, a page at /"));
        output::warn_of_reach(address, "can read the metrics");
    }
    let every = Duration::from_nanos(arguments.every.get());
    let mut due = Instant::now();
    let mut is_first = true;
    while !stop.is_set() {
        if Instant::now() < due {
            thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
            continue;
        }
        for at in 0..arguments.directories.len() {
            match watcher.probe(at, &stop) {
                // A probe that cannot succeed must not be retried for a week.
                Err(error) if is_first => return Err(error),
                Err(error) => output::remark(&format!("durio: the probe failed: {error}")),
                Ok(()) => {}
            }
        }
        is_first = false;
        // A probe that took longer than its time leaves out others, and does not shift them.
        while due <= Instant::now() {
            due += every;
        }
    }
    Ok(Exit::Fine)
}

struct Watcher<'a> {
    arguments: &'a WatchArguments,
    directories: Vec<PathBuf>,
    folder: PathBuf,
    /// The latest first.
    rows: Vec<RunRow>,
    shown: Arc<Mutex<WatchedProbe>>,
}

impl<'a> Watcher<'a> {
    fn new(arguments: &'a WatchArguments) -> Result<Self, CommandError> {
        clear_up();
        let folder = probes_folder()?;
        // Readers elsewhere do not know the working directory.
        let directories = arguments.directories.iter().map(std::path::absolute);
        let directories = directories.collect::<Result<Vec<_>, _>>().map_err(|error| {
            CommandError::cannot_measure(format!("cannot resolve a relative directory: {error}"))
        })?;
        let locations = directories.iter().map(|directory| saved_form(directory));
        let locations = locations.map(WatchedLocation::new).collect();
        let shown = Arc::new(Mutex::new(WatchedProbe { every: arguments.every, locations }));
        let rows = list_runs(&KeptRuns::probes()?)?;
        let watcher = Self { arguments, directories, folder, rows, shown };
        for at in 0..watcher.directories.len() {
            watcher.show_history(at);
        }
        Ok(watcher)
    }

    /// One probe and its consequences.
    fn probe(&mut self, at: usize, stop: &StopFlag) -> Result<(), CommandError> {
        let begun = SystemTime::now();
        let seconds =
            begun.duration_since(SystemTime::UNIX_EPOCH).map(|time| time.as_secs_f64()).ok();
        self.location(at, |location| location.running_since = seconds);
        let why = self.arguments.why.then_some(EXPLAINED);
        let probed = probe(&self.directories[at], &self.folder, why, stop);
        self.location(at, |location| location.running_since = None);
        match probed {
            Ok(WatchProbe { folder, findings, written }) => {
                self.rows.insert(0, read_run_row(&folder));
                self.prune(at);
                let commits = findings.workloads.iter().filter_map(commits);
                let kept = commits.filter_map(|commits| commits.kept.as_ref());
                let latencies = kept.map(|kept| &kept.service);
                let started = &findings.run.started;
                let why = findings.why.as_ref();
                let slow = why.map(|why| why.calls.as_slice()).unwrap_or_default();
                self.location(at, |location| {
                    succeeded(location, seconds, written, latencies);
                    location.slow.add(started, slow);
                });
                self.show_history(at);
                self.tell(at);
                Ok(())
            }
            // A probe that a signal ended has not failed.
            Err(_) if stop.is_set() => Ok(()),
            Err(error) => {
                self.location(at, |location| failed(location, &error));
                // It may have left a record, which counts towards those that are kept.
                self.rows =
                    KeptRuns::probes().and_then(|kept| list_runs(&kept)).unwrap_or_default();
                self.prune(at);
                Err(error)
            }
        }
    }

    /// Changes the published state of a location.
    fn location(&self, at: usize, change: impl FnOnce(&mut WatchedLocation)) {
        change(&mut lock(&self.shown).locations[at]);
    }

    /// Publishes the rows of a location: also after a restart.
    fn show_history(&self, at: usize) {
        let name = self.name(at);
        let metric = Metric { workload: "commit".to_owned(), figure: RunFigure::P99 };
        let found = history(&self.rows, Some(&name), &metric);
        let latest = self.rows.iter().find_map(|row| {
            let figures = row.figures.iter().find(|watched| watched.location == name)?;
            Some((row.started.clone(), figures.latency))
        });
        self.location(at, |watched| (watched.history, watched.latest) = (found, latest));
    }

    fn name(&self, at: usize) -> String {
        saved_form(&self.directories[at])
    }

    fn prune(&mut self, at: usize) {
        let name = self.name(at);
        // Also those without results, because they were killed.
        let is_its = |row: &RunRow| row.targets.contains(&name);
        let old = self.rows.iter().filter(|row| is_its(row)).skip(self.arguments.keep as usize);
        let old: Vec<String> = old.map(|row| row.run.clone()).collect();
        for run in &old {
            // A run that is being read or was removed is not a reason to stop watching.
            if let Err(error) = KeptRuns::probes().and_then(|kept| remove_run(&kept, run)) {
                output::remark(&format!("durio: {error}"));
            }
        }
        self.rows.retain(|row| !old.contains(&row.run));
    }

    fn tell(&self, at: usize) {
        let shown = lock(&self.shown);
        let Some((started, Percentiles { p50_ns, p99_ns, .. })) = &shown.locations[at].latest
        else {
            return;
        };
        if self.arguments.quiet {
            return;
        }
        let of = |nanos: &Option<u64>| {
            nanos.map_or("-".to_owned(), |nanos| Nanos::new(nanos).to_string())
        };
        let name = &shown.locations[at].location;
        output::remark(&format!("{started} {name}: p50 {}, p99 {}", of(p50_ns), of(p99_ns)));
    }
}

/// Counts a probe that began at `seconds` since 1970.
fn succeeded<'a>(
    location: &mut WatchedLocation,
    seconds: Option<f64>,
    written: Bytes,
    latencies: impl Iterator<Item = &'a Latency>,
) {
    location.probes += 1;
    location.error = None;
    location.succeeded_at = seconds;
    location.written = Bytes::new(location.written.get() + written.get());
    latencies.for_each(|latency| location.latencies.add(latency));
}

fn failed(location: &mut WatchedLocation, error: &CommandError) {
    location.failures += 1;
    location.error = Some(error.to_string());
}

/// A path as in records, which keeps invalid UTF-8 and doubles backslashes.
fn saved_form(path: &Path) -> String {
    RawPath::from(path).to_string()
}

// A panicked probe leaves consistent values.
fn lock(shown: &Mutex<WatchedProbe>) -> MutexGuard<'_, WatchedProbe> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

fn commits(it: &WorkloadFindings) -> Option<&durio_analyse::OperationFindings> {
    it.operation(OperationName::Commit)
}

struct WatchProbe {
    folder: PathBuf,
    findings: Findings,
    written: Bytes,
}

fn probe(
    directory: &Path,
    folder: &Path,
    why: Option<usize>,
    stop: &StopFlag,
) -> Result<WatchProbe, CommandError> {
    let options = RunOptions { out: Some(folder), histograms: true, ..RunOptions::default() };
    let execution = Execution::begin("watch", &options)?.with_why(why);
    // Looked up for each probe: a watch must not keep a filesystem from being unmounted.
    let located = locate(
        [&directory.to_owned()],
        Permission::Named { destroy: &[], force_signature: false },
    )?;
    if !located
        .places
        .iter()
        .all(|location| matches!(location.facts, LocationFacts::Directory { .. }))
    {
        let text = format!("'{}' is not a directory", directory.display());
        return Err(CommandError::wrong_use(text)
            .hint("name a directory on the storage, in which durio watch can create its files"));
    }
    let plan = plan_of(&execution, located.places)?;
    let written = plan.cost().written;
    let executed = execution.execute(&plan, located.held, stop, &Terminal::new(true))?;
    if executed.outcome? != Outcome::Complete {
        return Err(CommandError::cannot_measure("the probe was interrupted"));
    }
    Ok(WatchProbe { folder: execution.folder().to_owned(), findings: executed.findings, written })
}

fn plan_of(
    execution: &Execution,
    mut places: Vec<durio_plan::Location>,
) -> Result<Plan, CommandError> {
    let commit = check_workloads().into_iter().map(|(_, workload)| workload);
    let workload =
        commit.into_iter().find(|workload| workload.name == "commit").unwrap_or_default();
    plan_run(&RunRequest {
        location: places.pop(),
        workload,
        engine: EngineKind::Sync,
        fio_engine: None,
        arrivals: Arrivals::Constant { rate_per_second: COMMITS_PER_SECOND },
        placement: Placement::DeviceNode,
        batch: BatchPolicy::DEFAULT,
        script: None,
        limit: Limit::Operations(COMMITS),
        ramp: Nanos::ZERO,
        interval: None,
        size: Some(FILE),
        self_cost: false,
        trace_path: false,
        seed: execution.seed,
        clock: ClockChoice::Auto,
        file_name: execution.file_name(),
    })
}

/// Seconds after which a browser asks again: as often as there is something new, within bounds.
fn refresh_seconds(every: Nanos) -> u32 {
    u32::try_from(every.get() / Nanos::from_secs(1).get()).unwrap_or(60).clamp(5, 60)
}

/// Serves the numbers in separate threads: they are most needed when a probe hangs.
fn serve(address: SocketAddr, shown: Arc<Mutex<WatchedProbe>>) -> Result<SocketAddr, CommandError> {
    let page = move |path: &str| {
        let mut body = Vec::new();
        let shown = lock(&shown);
        let (kind, refresh, made) = match path {
            "/metrics" => (METRICS, None, shown.write_metrics(&mut body)),
            // Without a script: a page that is left open follows the probes.
            "/" => {
                let refresh = Some(refresh_seconds(shown.every));
                ("text/html; charset=utf-8", refresh, shown.write_page(&mut body))
            }
            _ => return None,
        };
        made.is_ok().then_some(HttpPage { kind, body, refresh })
    };
    http::serve(address, output::remark, page).map_err(|error| {
        CommandError::cannot_measure(format!("cannot listen at {address}: {error}")).hint(
            "is another durio watch running? give --listen another port, such as 127.0.0.1:9120",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(location: WatchedLocation) -> (WatchedLocation, String) {
        let every = Nanos::from_secs(600);
        let mut shown = WatchedProbe { every, locations: vec![location] };
        let mut body = Vec::new();
        shown.write_page(&mut body).unwrap();
        (shown.locations.remove(0), String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_browser_asks_again_when_there_is_a_new_probe_and_at_least_once_a_minute() {
        let expected = [(1, 5), (5, 5), (6, 6), (59, 59), (60, 60), (61, 60), (86_400, 60)];
        for (seconds, refresh) in expected {
            assert_eq!(refresh_seconds(Nanos::from_secs(seconds)), refresh, "{seconds} s");
        }
        assert_eq!(refresh_seconds(Nanos::new(u64::MAX)), 60);
    }

    #[test]
    fn the_page_says_why_the_latest_probe_failed_until_a_later_one_succeeds() {
        let mut location = WatchedLocation::new("/data".to_owned());
        failed(&mut location, &CommandError::cannot_measure("the first storage is away"));
        failed(&mut location, &CommandError::cannot_measure("the second storage is away"));
        let (mut location, text) = page(location);
        assert!(text.contains("failed: the second storage is away"), "{text}");
        assert!(!text.contains("the first storage"), "{text}");
        let latencies = [[70_000, 40_000], [50_000, 90_000]].map(|nanos| {
            let mut latency = Latency::default();
            nanos.into_iter().for_each(|nanos| latency.record(nanos));
            latency
        });
        for (seconds, written) in [(1000.0, Bytes::from_kib(1728)), (1600.0, Bytes::from_kib(2))] {
            succeeded(&mut location, Some(seconds), written, latencies.iter());
        }
        let (location, text) = page(location);
        assert!(!text.contains("storage is away"), "{text}");
        assert_eq!((location.probes, location.failures, location.error), (2, 2, None));
        assert_eq!(location.written, Bytes::from_kib(1730));
        assert!(location.succeeded_at.is_some_and(|seconds| (seconds - 1600.0).abs() < 1e-9));
        let all = location.latencies.exact;
        assert_eq!((all.count, all.min_ns, all.max_ns), (8, 40_000, 90_000));
    }
}
