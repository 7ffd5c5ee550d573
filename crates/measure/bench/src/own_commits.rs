//! Why commits of durio itself are slow: a recorder in a thread next to what measures, for `--why` of
//! run, check, watch and replay.

use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use durio_analyse::why::{SlowCalls, WhyFindings, explain};
use durio_base::Nanos;
use durio_command::{CommandError, StopFlag};
use durio_observe::SlowWatchFacts;
use durio_plan::{Plan, Role};
use durio_record::Event;
use durio_run::{
    BegunWatch, CaptureTarget, CountedTimes, SlowLimit, WhyWish, begin_slow_watch, monotonic,
};

use crate::state_folder::CaptureMark;

/// Records until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct OwnCommits {
    times: CountedTimes,
    stop: StopFlag,
    thread: Option<JoinHandle<WhyFindings>>,
    // Without a state folder only `durio stack clean` would find the remains of a kill.
    _mark: Option<CaptureMark>,
}

impl OwnCommits {
    /// Begins to record calls on files at or below these places; those of measured time count, and
    /// this many of the slowest are explained.
    ///
    /// # Errors
    /// If the kernel does not let this process trace.
    pub(crate) fn begin<'p>(
        places: impl IntoIterator<Item = &'p Path>,
        worst: usize,
    ) -> Result<Self, CommandError> {
        let mark = CaptureMark::begin().ok();
        let (times, stop) = (CountedTimes::default(), StopFlag::default());
        let mut places: Vec<PathBuf> = places.into_iter().map(real).collect();
        // Without a place all files would count, also those of the record.
        if places.is_empty() {
            places.push(PathBuf::from("/dev/null"));
        }
        let wish = WhyWish {
            target: CaptureTarget::Own(places),
            duration: Nanos::new(u64::MAX),
            limit: SlowLimit::Worst(worst),
            times: Some(times.clone()),
        };
        let watch = begin_slow_watch(wish, Path::new("/")).map_err(|error| {
            CommandError::from(error)
                .context("--why cannot record slow commits")
                .hint("measure without --why, or see what durio doctor says about tracing")
        })?;
        let (begin, flag) = (monotonic(), stop.clone());
        let thread = Builder::new()
            .name("durio-why".to_owned())
            .spawn(move || explained(watch, worst, begin, &flag))
            .map_err(|error| CommandError::cannot(error).context("cannot start another thread"))?;
        Ok(Self { times, stop, thread: Some(thread), _mark: mark })
    }

    /// Has the calls of measured steps count, and no others: layouts and the record's syncs are slow
    /// too.
    pub(crate) fn event(&self, plan: &Plan, event: &Event) {
        match event {
            Event::StepStarted(started) => {
                let step = plan.steps.get(started.step as usize);
                if step.is_some_and(|step| step.role == Role::Measure) {
                    self.measures();
                }
            }
            Event::StepEnded(_) | Event::StepDeclined(_) | Event::RunEnded(_) => self.times.end(),
            _ => {}
        }
    }

    /// Has all calls from now on count.
    pub(crate) fn measures(&self) {
        self.times.begin();
    }

    /// Stops, and explains the slow calls.
    pub(crate) fn end(mut self) -> Option<WhyFindings> {
        self.times.end();
        self.join()
    }

    fn join(&mut self) -> Option<WhyFindings> {
        self.stop.set();
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for OwnCommits {
    fn drop(&mut self) {
        self.stop.set();
        // The thread removes its trace instances.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The path as the kernel names open files; one of a file that is still to be made is kept.
fn real(path: &Path) -> PathBuf {
    let whole = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.canonicalize().unwrap_or_else(|_| whole())
}

/// What the watch found until `stop`, or until the trace could not be read any more.
fn explained(watch: BegunWatch<'_>, worst: usize, begin: u64, stop: &StopFlag) -> WhyFindings {
    let mut calls = SlowCalls::new(worst);
    let watched = watch.until_the_end(stop, &mut |window| calls.take(explain(&window, begin)));
    let facts = watched.unwrap_or_else(|error| SlowWatchFacts {
        ended_early: Some(error.to_string()),
        ..SlowWatchFacts::default()
    });
    // Its end is that of the measurement, which is not an interruption.
    let target = "durio itself".to_owned();
    calls.findings(SlowWatchFacts { target, interrupted: false, ..facts })
}
