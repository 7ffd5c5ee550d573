//! The trace of requests, and the sequences of them that commits sent.
//!
//! Commits are the same if they sent the same requests, by letters and bytes, in the same order to
//! each device; how the requests to one device lie between those to another is left to chance by
//! the kernel, and does not make another sequence.

use std::collections::BTreeMap;
use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_observe::{BlockRequest, TraceEventKind};
use durio_record::{TracedRequest, TracedSequence};

use crate::tracefs::{InstanceTrace, TraceInstance, device_filter};

/// The most reported sequences; their commits and the rest add up to the number of all.
const SEQUENCES_MAX: usize = 8;

/// The most reported requests of a sequence.
pub(super) const REQUESTS_MAX: usize = 256;

/// A device whose requests are traced.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TracedDevice {
    pub(super) name: String,
    pub(super) number: (u32, u32),
    /// Queued I/O becomes requests.
    pub(super) has_requests: bool,
}

impl TracedDevice {
    /// What the reader of its requests must know.
    pub(super) fn note(&self) -> Option<String> {
        let name = &self.name;
        (!self.has_requests)
            .then(|| format!("{name} issues no requests: those queued to it are traced instead"))
    }
}

/// Starts tracing the requests to `devices`; the error text says why it cannot.
pub(super) fn trace_requests(
    tracefs: &Path,
    root: &Path,
    devices: &[TracedDevice],
    events: u64,
) -> Result<TraceInstance, String> {
    // One clock for all processors; the other one for kernels before 3.18.
    let (instance, _) = TraceInstance::make(tracefs, root, &["mono", "global"], events)?;
    let simple: Vec<_> = devices.iter().filter(|device| !device.has_requests).collect();
    switch_on(&instance, &["block_rq_issue", "block_rq_complete"], devices.iter())?;
    if !simple.is_empty() {
        let events = ["block_bio_queue", "block_bio_complete"];
        switch_on(&instance, &events, simple.into_iter())?;
    }
    instance.set("tracing_on", "1")?;
    Ok(instance)
}

fn switch_on<'d>(
    instance: &TraceInstance,
    events: &[&str],
    devices: impl Iterator<Item = &'d TracedDevice>,
) -> Result<(), String> {
    let filter = device_filter(devices.map(|device| device.number));
    for event in events {
        // Without a filter the buffer holds more of others' events; ours are found all the same.
        let _ = instance.set(&format!("events/block/{event}/filter"), &filter);
        instance.set(&format!("events/block/{event}/enable"), "1")?;
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
pub(super) struct Sequences {
    /// The most frequent first.
    pub(super) sequences: Vec<TracedSequence>,
    /// The length of the longest sequence of which requests were left out.
    pub(super) shortened: Option<usize>,
}

pub(super) fn sequences(traced: &InstanceTrace, devices: &[TracedDevice]) -> Sequences {
    let commits = commits(traced, devices);
    let mut groups: BTreeMap<Vec<RequestKey<'_>>, Vec<&Commit>> = BTreeMap::new();
    for commit in &commits {
        groups.entry(commit.keys()).or_default().push(commit);
    }
    let mut groups: Vec<Vec<&Commit>> = groups.into_values().collect();
    // Others' I/O only adds requests: of two equally frequent sequences, the shorter is nearer.
    let length = |group: &[&Commit]| group.first().map_or(0, |commit| commit.requests.len());
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), length(group)));
    let longest = groups.iter().take(SEQUENCES_MAX).map(|group| length(group)).max();
    let told = groups.iter().take(SEQUENCES_MAX);
    Sequences {
        sequences: told.map(|group| sequence(group, devices)).collect(),
        shortened: longest.filter(|&length| length > REQUESTS_MAX),
    }
}

/// What makes a request the same as another: device, letters, bytes.
type RequestKey<'a> = (usize, &'a str, u64);

#[derive(Debug)]
struct Commit {
    begin: Nanos,
    end: Option<Nanos>,
    /// Sorted by device, then by time.
    requests: Vec<RequestEvents>,
}

impl Commit {
    fn keys(&self) -> Vec<RequestKey<'_>> {
        self.requests
            .iter()
            .map(|request| (request.device, request.flags.as_str(), request.bytes))
            .collect()
    }
}

#[derive(Debug)]
struct RequestEvents {
    /// Place among the devices.
    device: usize,
    flags: String,
    bytes: u64,
    issued: Nanos,
    completed: Option<Nanos>,
}

/// Recognises a request when it completes: its device, its letters and its first sector, which a
/// flush does not have.
type RequestIdentity = (usize, String, Option<u64>);

/// Where the requests are, by commit and place in it, that have not completed. A second one of the
/// same identity takes the place of the first, whose end was not seen.
type OpenRequests = BTreeMap<RequestIdentity, (usize, usize)>;

fn identity(device: usize, request: &BlockRequest) -> RequestIdentity {
    let sector = (request.bytes > 0).then_some(request.sector);
    (device, request.flags.clone(), sector)
}

/// The commits that the trace holds from begin to end.
fn commits(traced: &InstanceTrace, devices: &[TracedDevice]) -> Vec<Commit> {
    let mut commits: Vec<Commit> = Vec::new();
    let mut open = OpenRequests::new();
    let mut running = None;
    for event in &traced.text.events {
        let at = Nanos::new(event.at);
        match &event.kind {
            TraceEventKind::Mark(text) => match mark(text) {
                Some(("begin", number)) => {
                    running = Some(number);
                    let (begin, requests) = (at, Vec::new());
                    commits.push(Commit { begin, end: None, requests });
                }
                Some(("end", number)) if running == Some(number) => {
                    running = None;
                    if let Some(commit) = commits.last_mut() {
                        commit.end = Some(at);
                    }
                }
                _ => {}
            },
            kind => {
                let Some((request, is_begin, has_requests)) = of_device(kind) else { continue };
                let place = |device: &TracedDevice| {
                    device.number == request.device && device.has_requests == has_requests
                };
                let Some(device) = devices.iter().position(place) else { continue };
                let identity = identity(device, request);
                if !is_begin {
                    complete(&mut commits, &mut open, &identity, at);
                } else if let Some(commit) = commits.last_mut().filter(|_| running.is_some()) {
                    let number = commit.requests.len();
                    commit.requests.push(RequestEvents {
                        device,
                        flags: request.flags.clone(),
                        bytes: request.bytes,
                        issued: at,
                        completed: None,
                    });
                    open.insert(identity, (commits.len() - 1, number));
                }
            }
        }
    }
    // A commit of which an event was lost would be another sequence.
    commits.retain(|commit| commit.end.is_some() && commit.begin >= traced.complete_from);
    for commit in &mut commits {
        commit.requests.sort_by_key(|request| request.device);
    }
    commits
}

/// The request of an event, whether it begins, and whether it is one of a driver.
fn of_device(kind: &TraceEventKind) -> Option<(&BlockRequest, bool, bool)> {
    match kind {
        TraceEventKind::Issued(request) => Some((request, true, true)),
        TraceEventKind::Completed(request) => Some((request, false, true)),
        TraceEventKind::Queued(request) => Some((request, true, false)),
        TraceEventKind::Ended(request) => Some((request, false, false)),
        _ => None,
    }
}

fn complete(
    commits: &mut [Commit],
    open: &mut OpenRequests,
    identity: &RequestIdentity,
    at: Nanos,
) {
    let Some((commit, request)) = open.remove(identity) else { return };
    let request = commits.get_mut(commit).and_then(|commit| commit.requests.get_mut(request));
    if let Some(request) = request {
        request.completed = Some(at);
    }
}

/// A mark of the runner's: `durio begin 7`.
fn mark(text: &str) -> Option<(&str, u64)> {
    let (word, number) = text.strip_prefix("durio ")?.split_once(' ')?;
    Some((word, number.parse().ok()?))
}

/// What commits of the same requests have in common; times are their medians.
fn sequence(group: &[&Commit], devices: &[TracedDevice]) -> TracedSequence {
    let length = group.first().map_or(0, |commit| commit.requests.len());
    let mut requests: Vec<TracedRequest> =
        (0..length).filter_map(|place| request(group, place, devices)).collect();
    requests.sort_by_key(|request| request.issued);
    requests.truncate(REQUESTS_MAX);
    let spans = group.iter().filter_map(|commit| Some(commit.end?.saturating_sub(commit.begin)));
    TracedSequence {
        commits: group.len() as u64,
        requests,
        commit: median(spans).unwrap_or(Nanos::ZERO),
    }
}

/// The request at one place of commits that are the same.
fn request(group: &[&Commit], place: usize, devices: &[TracedDevice]) -> Option<TracedRequest> {
    let all = || group.iter().filter_map(|commit| Some((commit, commit.requests.get(place)?)));
    let (_, first) = all().next()?;
    let service = |request: &RequestEvents| Some(request.completed?.saturating_sub(request.issued));
    Some(TracedRequest {
        device: devices.get(first.device)?.name.clone(),
        flags: first.flags.clone(),
        bytes: Bytes::new(first.bytes),
        issued: median(all().map(|(commit, request)| request.issued.saturating_sub(commit.begin)))?,
        service: median(all().filter_map(|(_, request)| service(request))),
    })
}

/// The median; of an even number, the mean of the middle two. None of nothing.
fn median(spans: impl Iterator<Item = Nanos>) -> Option<Nanos> {
    let mut spans: Vec<u64> = spans.map(Nanos::get).collect();
    spans.sort_unstable();
    let upper = *spans.get(spans.len() / 2)?;
    let lower = *spans.get((spans.len() - 1) / 2)?;
    Some(Nanos::new(lower.midpoint(upper)))
}
