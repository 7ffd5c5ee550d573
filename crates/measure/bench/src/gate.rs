//! The gate of a run: another process orders when measured steps start, over a socket that durio has
//! inherited. docs/formats/gate.md has the lines.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use durio_base::Nanos;
use durio_block::{Clock as _, MonotonicClock};
use durio_command::{CommandError, StopFlag};
use durio_plan::{Limit, Plan, Step};
use durio_record::{Event, Outcome};
use durio_run::{GateOrder, StepStart};
use serde::{Deserialize, Serialize};

/// Without its line feed, in bytes.
const LINE_MAX: u64 = 64 << 10;

// A start that is further away is more likely a time of another clock.
const AHEAD_MAX: Nanos = Nanos::from_secs(24 * 3600);

// A coordinator that does not read for so long is gone or stopped.
const WRITE_MAX: Duration = Duration::from_secs(10);

const CLOSED: &str = "the gate was closed";

/// A line that durio writes to its coordinator.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GateMessage<'a> {
    Ready {
        step: u32,
        section: u32,
        round: u32,
        workload: &'a str,
        target: &'a str,
        seconds: Option<f64>,
    },
    Ended {
        step: u32,
        outcome: Outcome,
    },
}

/// A line that the coordinator writes to durio.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GateLine {
    Start(StartLine),
    Abort(String),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartLine {
    at_ns: u64,
    offset_ns: i64,
    bound_ns: u64,
    #[serde(default = "each_step")]
    free: FreeSteps,
    #[serde(default)]
    timetable: Vec<TimetableStep>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimetableStep {
    step: u32,
    at_ns: u64,
}

/// Which of the following steps start without an order.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "free is true, false or \"section\"")]
enum FreeSteps {
    /// All of them, or none.
    All(bool),
    Part(FreePart),
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FreePart {
    /// Those of the same section.
    Section,
}

const fn each_step() -> FreeSteps {
    FreeSteps::All(false)
}

/// Ends the run; the first reason counts, and none after a wish of the user's.
#[derive(Debug, Clone)]
struct GateEnd {
    reason: Arc<OnceLock<String>>,
    stop: StopFlag,
}

impl GateEnd {
    fn end(&self, reason: impl Into<String>) {
        if !self.stop.is_set() {
            // The reader and the run may both find a reason.
            let _ = self.reason.set(reason.into());
            self.stop.set();
        }
    }
}

/// One end of the socket, in a run.
#[derive(Debug)]
pub(crate) struct StartGate {
    stream: UnixStream,
    orders: Receiver<StartLine>,
    reader: Option<JoinHandle<()>>,
    end: GateEnd,
    /// Starts that were ordered in advance.
    timetable: BTreeMap<u32, GateOrder>,
    free: FreeSteps,
    /// The section of the latest order.
    section: u32,
    /// The measured step that was started last and has not ended.
    running: Option<u32>,
}

impl StartGate {
    /// Listens to the other end from now on: its hang-up sets `stop`.
    ///
    /// # Errors
    /// If the socket cannot be set up, or no thread be started.
    pub(crate) fn open(stream: &UnixStream, stop: &StopFlag) -> Result<Self, CommandError> {
        Self::try_open(stream, stop)
            .map_err(|error| CommandError::cannot(error).context("cannot use the gate"))
    }

    fn try_open(stream: &UnixStream, stop: &StopFlag) -> io::Result<Self> {
        let (stream, incoming) = (stream.try_clone()?, stream.try_clone()?);
        // The parent may have made both ends non-blocking.
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        let end = GateEnd { reason: Arc::default(), stop: stop.clone() };
        // One: each step waits for one order, and a sender that has more does not follow.
        let (sender, orders) = sync_channel(1);
        let reading = end.clone();
        let reader = Builder::new()
            .name("durio-gate".to_owned())
            .spawn(move || reading.end(read_orders(incoming, &sender)))?;
        let (timetable, free) = (BTreeMap::new(), each_step());
        let reader = Some(reader);
        Ok(Self { stream, orders, reader, end, timetable, free, section: 0, running: None })
    }

    /// Why the other end, or its silence, ended the run.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.end.reason.get().map(String::as_str)
    }

    /// When `step` starts; waits for the order.
    pub(crate) fn step_ready(&mut self, plan: &Plan, step: &Step, round: u32) -> StepStart {
        self.running = Some(step.index);
        let section = section_of(step);
        let order = match (self.timetable.remove(&step.index), self.free) {
            (Some(order), _) => order,
            (None, FreeSteps::All(true)) => return StepStart::Now,
            (None, FreeSteps::Part(FreePart::Section)) if section == self.section => {
                return StepStart::Now;
            }
            (None, _) => match self.ask(plan, step, round) {
                Some(line) => self.accept(line, section),
                None => return StepStart::Aborted,
            },
        };
        let latest = MonotonicClock.now().0.saturating_add(AHEAD_MAX.get());
        if order.at.get() > latest {
            self.end.end("the gate ordered a start more than 24 h ahead");
            return StepStart::Aborted;
        }
        StepStart::At(order)
    }

    /// The order for a step; `None` if the run ends instead.
    fn ask(&mut self, plan: &Plan, step: &Step, round: u32) -> Option<StartLine> {
        const LOOK: Duration = Duration::from_millis(50);
        if self.orders.try_recv().is_ok() {
            self.end.end("the gate ordered a start that no step waited for");
            return None;
        }
        self.write(&GateMessage::Ready {
            step: step.index,
            section: section_of(step),
            round,
            workload: &step.load.workload.name,
            target: &plan.target_of(&step.load).name,
            seconds: seconds(step),
        });
        loop {
            match self.orders.recv_timeout(LOOK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Timeout) if !self.end.stop.is_set() => {}
                Err(_) => return None,
            }
        }
    }

    fn accept(&mut self, line: StartLine, section: u32) -> GateOrder {
        let StartLine { at_ns, offset_ns, bound_ns, free, timetable } = line;
        let order = |at_ns| GateOrder { at: Nanos::new(at_ns), offset_ns, bound_ns };
        self.timetable.extend(timetable.into_iter().map(|entry| (entry.step, order(entry.at_ns))));
        (self.free, self.section) = (free, section);
        order(at_ns)
    }

    /// What to write when a step has ended that started here; also of one that the end of the run
    /// cut.
    pub(crate) fn ended(&mut self, event: &Event) -> Option<GateMessage<'static>> {
        let (step, outcome) = match event {
            Event::StepEnded(ended) => (Some(ended.step), ended.outcome),
            Event::StepDeclined(declined) => (Some(declined.step), Outcome::Failed),
            Event::RunEnded(ended) => (self.running, ended.outcome),
            _ => return None,
        };
        let step = self.running.take_if(|running| Some(*running) == step)?;
        Some(GateMessage::Ended { step, outcome })
    }

    /// The step to which the end of the run belongs.
    pub(crate) fn running(&self) -> Option<u32> {
        self.running
    }

    /// A failure counts as a hang-up.
    pub(crate) fn write(&mut self, message: &GateMessage<'_>) {
        let written = serde_json::to_vec(message).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.stream.write_all(&line)
        });
        if written.is_err() {
            self.end.end(CLOSED);
        }
    }
}

impl Drop for StartGate {
    fn drop(&mut self) {
        // Wakes the reader, which ends. The run is over, so nothing looks at the flag that it sets.
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            // A panic of it was printed.
            let _ = reader.join();
        }
    }
}

/// Hands on orders until there are no more; gives the reason.
fn read_orders(incoming: UnixStream, orders: &SyncSender<StartLine>) -> String {
    let mut lines = BufReader::new(incoming);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line);
        match (read, line.last()) {
            (Ok(_), Some(b'\n')) => {}
            (Ok(_), _) if line.len() as u64 > LINE_MAX => {
                return "the gate sent a line of more than 64 KiB".to_owned();
            }
            _ => return CLOSED.to_owned(),
        }
        let start = match serde_json::from_slice(&line) {
            Ok(GateLine::Start(start)) => start,
            Ok(GateLine::Abort(reason)) => return format!("the gate aborted the run: {reason}"),
            Err(error) => return format!("the gate sent an invalid line: {error}"),
        };
        if orders.try_send(start).is_err() {
            return "the gate ordered several starts at once".to_owned();
        }
    }
}

/// A plan without sections counts as one.
fn section_of(step: &Step) -> u32 {
    step.section.unwrap_or(0)
}

/// The time that a step takes, where it ends by time.
fn seconds(step: &Step) -> Option<f64> {
    match step.limit {
        Limit::Duration(duration) => Some(step.ramp.as_secs_f64() + duration.as_secs_f64()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{
        ClockChoice, EngineKind, Load, PLAN_SCHEMA, Purpose, Role, Target, TargetKind,
    };
    use durio_record::TimedEvent;
    use durio_workload::Workload;

    use super::*;

    /// The orders in what was sent before a hang-up, and the reason for the end.
    fn heard(sent: &str) -> (Vec<u64>, String) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(sent.as_bytes()).unwrap();
        drop(theirs);
        let (sender, orders) = sync_channel(3);
        let reason = read_orders(ours, &sender);
        drop(sender);
        (orders.iter().map(|line| line.at_ns).collect(), reason)
    }

    #[test]
    fn orders_are_handed_on_until_the_other_end_closes() {
        let start = |at| format!(r#"{{"start":{{"at_ns":{at},"offset_ns":-3,"bound_ns":0}}}}"#);
        let closed = || CLOSED.to_owned();
        assert_eq!(heard(""), (vec![], closed()));
        assert_eq!(heard(&format!("{}\n{}\n", start(7), start(9))), (vec![7, 9], closed()));
        // The hang-up cut the second line.
        assert_eq!(heard(&format!("{}\n{}", start(7), start(9))), (vec![7], closed()));
    }

    #[test]
    fn a_line_has_64_kib_at_most() {
        let abort = |length: usize| {
            let frame = r#"{"abort":""}"#.len();
            heard(&format!("{{\"abort\":\"{}\"}}\n", "x".repeat(length - frame))).1
        };
        assert!(abort(65_536).starts_with("the gate aborted the run: xxx"));
        assert_eq!(abort(65_537), "the gate sent a line of more than 64 KiB");
    }

    #[test]
    fn a_start_frees_the_steps_that_it_names() {
        let free = |part: &str| {
            let line = format!(r#"{{"start":{{"at_ns":1,"offset_ns":0,"bound_ns":2{part}}}}}"#);
            match serde_json::from_str(&line).unwrap() {
                GateLine::Start(start) => start.free,
                GateLine::Abort(reason) => panic!("{reason}"),
            }
        };
        assert_eq!((free(""), free(r#","free":false"#)), (each_step(), each_step()));
        assert_eq!(free(r#","free":true"#), FreeSteps::All(true));
        assert_eq!(free(r#","free":"section""#), FreeSteps::Part(FreePart::Section));
    }

    #[test]
    fn the_first_reason_counts_and_none_after_a_wish_to_stop() {
        let new = || GateEnd { reason: Arc::default(), stop: StopFlag::default() };
        let end = new();
        end.end("first");
        end.end("second");
        assert!(end.stop.is_set() && end.reason.get().unwrap() == "first");
        let wished = new();
        wished.stop.set();
        wished.end("closed");
        assert_eq!(wished.reason.get(), None);
    }

    fn plan() -> Plan {
        let target = Target {
            name: "data".to_owned(),
            location: None,
            kind: TargetKind::NullDevice { path: "/dev/zero".into() },
            size: Bytes::from_mib(1),
            destroy: false,
        };
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Run,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: vec![target],
            steps: Vec::new(),
            campaign: None,
            thresholds: Vec::new(),
        }
    }

    fn step(index: u32, section: Option<u32>, limit: Limit) -> Step {
        let workload = Workload { name: "commit".to_owned(), ..Workload::default() };
        let load = Load::new(0, workload, EngineKind::Null);
        let ramp = Nanos::from_millis(500);
        Step { index, section, ramp, ..Step::new(Role::Measure, load, limit, Nanos::from_secs(1)) }
    }

    fn order(at: u64, others: &str) -> String {
        format!("{{\"start\":{{\"at_ns\":{at},\"offset_ns\":-3,\"bound_ns\":9{others}}}}}")
    }

    fn start_at(at: u64) -> StepStart {
        StepStart::At(GateOrder { at: Nanos::new(at), offset_ns: -3, bound_ns: 9 })
    }

    /// A gate, and its other end.
    fn opened(stop: &StopFlag) -> (StartGate, BufReader<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (StartGate::open(&ours, stop).unwrap(), BufReader::new(theirs))
    }

    /// When a step starts that asks and gets this order, and the line by which it asks.
    fn exchanged(
        (gate, other): &mut (StartGate, BufReader<UnixStream>),
        step: &Step,
        order: &str,
    ) -> (StepStart, String) {
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || {
                let mut line = String::new();
                other.read_line(&mut line).unwrap();
                other.get_mut().write_all(format!("{order}\n").as_bytes()).unwrap();
                line
            });
            (gate.step_ready(&plan(), step, 3), asked.join().unwrap())
        })
    }

    #[test]
    fn a_start_is_24_h_ahead_at_most() {
        for (seconds, is_accepted) in [(86_399, true), (86_401, false)] {
            let stop = StopFlag::default();
            let mut ends = opened(&stop);
            let at = MonotonicClock.now().0 + seconds * 1_000_000_000;
            let limit = Limit::Operations(1);
            let (start, _) = exchanged(&mut ends, &step(0, None, limit), &order(at, ""));
            let expected = if is_accepted { start_at(at) } else { StepStart::Aborted };
            assert_eq!((start, stop.is_set()), (expected, !is_accepted), "{seconds} s");
            let reason = "the gate ordered a start more than 24 h ahead";
            assert_eq!(ends.0.reason(), (!is_accepted).then_some(reason));
        }
    }

    #[test]
    fn a_step_that_is_ready_tells_its_place_and_its_time_with_the_ramp() {
        let (volume, duration) = (Bytes::from_mib(1), Nanos::from_secs(3));
        for (limit, seconds) in [
            (Limit::Duration(duration), "3.5"),
            (Limit::VolumeWithin { volume, duration }, "null"),
            (Limit::Operations(9), "null"),
        ] {
            let mut ends = opened(&StopFlag::default());
            let (_, line) = exchanged(&mut ends, &step(7, Some(2), limit), &order(1, ""));
            let expected = format!(
                "{{\"ready\":{{\"step\":7,\"section\":2,\"round\":3,\"workload\":\"commit\",\
                 \"target\":\"data\",\"seconds\":{seconds}}}}}\n"
            );
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn the_steps_of_a_section_are_free_until_another_order_and_a_timetable_goes_before() {
        let mut ends = opened(&StopFlag::default());
        let limit = Limit::Operations(1);
        let others = ",\"free\":\"section\",\"timetable\":[{\"step\":5,\"at_ns\":77}]";
        let (start, _) = exchanged(&mut ends, &step(1, None, limit), &order(10, others));
        assert_eq!(start, start_at(10));
        let mut ready =
            |index, section| ends.0.step_ready(&plan(), &step(index, section, limit), 3);
        // A plan without sections counts as one.
        assert_eq!((ready(2, Some(0)), ready(5, Some(0))), (StepStart::Now, start_at(77)));
        // Its time is used up.
        assert_eq!(ready(5, Some(0)), StepStart::Now);
        let (start, line) = exchanged(&mut ends, &step(6, Some(1), limit), &order(20, ""));
        assert_eq!((start, line.is_empty()), (start_at(20), false));
        // That order freed none.
        let (start, line) = exchanged(&mut ends, &step(7, Some(1), limit), &order(30, ""));
        assert_eq!((start, line.is_empty()), (start_at(30), false));
    }

    #[test]
    fn an_order_before_a_step_is_ready_ends_the_run() {
        let stop = StopFlag::default();
        let (mut gate, _other) = opened(&stop);
        let (sender, orders) = sync_channel(1);
        let GateLine::Start(line) = serde_json::from_str(&order(1, "")).unwrap() else {
            panic!("a start")
        };
        sender.send(line).unwrap();
        gate.orders = orders;
        let start = gate.step_ready(&plan(), &step(0, None, Limit::Operations(1)), 0);
        assert_eq!((start, stop.is_set()), (StepStart::Aborted, true));
        assert_eq!(gate.reason(), Some("the gate ordered a start that no step waited for"));
    }

    #[test]
    fn the_end_of_the_step_that_was_started_is_told_once_with_its_outcome() {
        let (mut gate, _other) = opened(&StopFlag::default());
        let mut ended = |text: &str| {
            let event = TimedEvent::read(text.as_bytes()).unwrap().event;
            gate.running.get_or_insert(4);
            let told = gate.ended(&event).map(|message| serde_json::to_string(&message).unwrap());
            (told, gate.running())
        };
        let told =
            |outcome: &str| Some(format!("{{\"ended\":{{\"step\":4,\"outcome\":\"{outcome}\"}}}}"));
        let end = |step: u32| {
            format!(
                r#"{{"at_ns":1,"event":"step_ended","step":{step},"outcome":"complete","measured_ns":5,"cpu":null,"devices":[]}}"#
            )
        };
        assert_eq!(ended(&end(4)), (told("complete"), None));
        assert_eq!(ended(&end(3)), (None, Some(4)), "it prepared");
        let declined = r#"{"at_ns":1,"event":"step_declined","step":4,"message":"no"}"#;
        assert_eq!(ended(declined), (told("failed"), None));
        let cut = r#"{"at_ns":1,"event":"run_ended","outcome":"interrupted","memory_max_bytes":1}"#;
        assert_eq!(ended(cut), (told("interrupted"), None));
    }
}
