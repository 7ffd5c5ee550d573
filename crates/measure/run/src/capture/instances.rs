//! The two trace instances of a capture.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use durio_observe::{
    CallRole, CaptureEnd, CaptureEventKind, CaptureFormats, CapturedDevice, SubBuffer, TRACED_CALLS,
};

use crate::trace_files::{TraceFiles, event_text, read_pages, trace_also, trace_only};
use crate::tracefs::{TraceInstance, device_filter, remove_dead_in};

/// Events that each processor's buffer can hold between two looks.
const EVENTS: u64 = 80_000;

/// An event as it comes from a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawEvent {
    pub(super) at: u64,
    pub(super) task: u32,
    pub(super) kind: CaptureEventKind,
}

#[derive(Debug)]
pub(super) struct Tracing {
    // First, because an instance cannot be removed while one of its files is open.
    buffers: Vec<(u32, File)>,
    calls: TraceInstance,
    requests: Option<TraceInstance>,
    formats: CaptureFormats,
    layout: SubBuffer,
    // Last, because the instances are below it.
    _mount: Option<OwnedFd>,
}

impl Tracing {
    pub(super) fn begin(
        files: TraceFiles,
        root: &Path,
        processes: &[u32],
        devices: &[CapturedDevice],
    ) -> Result<Self, String> {
        let TraceFiles { path: tracefs, layout, mount } = files;
        let _ = remove_dead_in(&tracefs, root);
        let reads = |place: &str| event_text(&tracefs, place);
        let mut formats = CaptureFormats::default();
        let (calls, _) = TraceInstance::make(&tracefs, root, &["mono"], EVENTS)?;
        trace_only(&calls, root, processes)?;
        let mut switched = 0;
        for name in call_events() {
            // Not every machine has every call (open and creat are older ones).
            let is_known =
                reads(&format!("{name}/format")).is_ok_and(|format| formats.add(&name, &format));
            if is_known {
                calls.set(&format!("events/{name}/enable"), "1")?;
                switched += 1;
            }
        }
        if switched == 0 {
            return Err("this kernel has no events of system calls (CONFIG_FTRACE_SYSCALLS)".into());
        }
        let requests = match devices {
            [] => None,
            _ => Some(request_instance(&tracefs, root, devices, &mut formats, &reads)?),
        };
        let mut buffers = calls.buffers()?;
        if let Some(instance) = &requests {
            buffers.extend(instance.buffers()?);
            instance.set("tracing_on", "1")?;
        }
        calls.set("tracing_on", "1")?;
        let tracing = Self { buffers, calls, requests, formats, layout, _mount: mount };
        // Threads that were started between the list and now.
        tracing.also(root, processes)?;
        Ok(tracing)
    }

    /// Watches these processes too.
    pub(super) fn also(&self, root: &Path, processes: &[u32]) -> Result<(), String> {
        trace_also(&self.calls, root, processes)
    }

    /// Takes the contents of the buffers, each processor's in order.
    pub(super) fn read(&self, into: &mut Vec<RawEvent>) -> Result<(), String> {
        read_pages(&self.buffers, self.layout, &mut |_, page| {
            self.decode(page, into);
            true
        })
    }

    fn decode(&self, page: &[u8], into: &mut Vec<RawEvent>) {
        self.layout.events(page, |event| {
            if let Some((task, kind)) = self.formats.read(event.bytes) {
                into.push(RawEvent { at: event.at, task, kind });
            }
        });
    }

    /// Stops tracing; the rest of the buffers can be read.
    pub(super) fn stop(&self) {
        for instance in [Some(&self.calls), self.requests.as_ref()].into_iter().flatten() {
            // It ends with the instance at the latest.
            let _ = instance.set("tracing_on", "0");
        }
    }

    /// Notes how many events the kernel did not keep.
    pub(super) fn note_losses(&self, end: &mut CaptureEnd) {
        let lost = |instance: Option<&TraceInstance>| {
            instance.map_or(0, |instance| instance.losses(0, |stats| stats.oldest).0)
        };
        (end.lost_calls, end.lost_requests) =
            (lost(Some(&self.calls)), lost(self.requests.as_ref()));
    }
}

fn call_events() -> Vec<String> {
    let mut names = Vec::new();
    for call in &TRACED_CALLS {
        // An open is interesting for its new descriptor, a close for the one that is gone.
        if call.role != CallRole::Open {
            names.push(format!("syscalls/sys_enter_{}", call.name));
        }
        if call.role != CallRole::Close {
            names.push(format!("syscalls/sys_exit_{}", call.name));
        }
    }
    // Before Linux 6.0 by the second name.
    names.extend(
        ["io_uring/io_uring_submit_req", "io_uring/io_uring_submit_sqe"].map(str::to_owned),
    );
    names
}

fn request_instance(
    tracefs: &Path,
    root: &Path,
    devices: &[CapturedDevice],
    formats: &mut CaptureFormats,
    reads: &dyn Fn(&str) -> Result<String, String>,
) -> Result<TraceInstance, String> {
    let (instance, _) = TraceInstance::make(tracefs, root, &["mono"], EVENTS)?;
    for (event, has_requests) in [("block/block_rq_issue", true), ("block/block_bio_queue", false)]
    {
        let own = devices.iter().filter(|device| device.has_requests == has_requests);
        let filter = device_filter(own.map(|device| device.number));
        if filter.is_empty() {
            continue;
        }
        formats.add(event, &reads(&format!("{event}/format"))?);
        instance.set(&format!("events/{event}/filter"), &filter)?;
        instance.set(&format!("events/{event}/enable"), "1")?;
    }
    Ok(instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_PAGE: &str = "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    /// Lost events of calls and of requests, where the buffers of each processor lost so many.
    fn lost(calls: &[u64], requests: Option<&[u64]>) -> (u64, u64) {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let requests = requests.map(|lost| TraceInstance::that_lost(folders[1].path(), lost));
        let tracing = Tracing {
            buffers: Vec::new(),
            calls: TraceInstance::that_lost(folders[0].path(), calls),
            requests,
            formats: CaptureFormats::default(),
            layout: SubBuffer::parse(HEADER_PAGE).unwrap(),
            _mount: None,
        };
        let mut end = CaptureEnd { lost_calls: 1, lost_requests: 2, ..CaptureEnd::default() };
        tracing.note_losses(&mut end);
        (end.lost_calls, end.lost_requests)
    }

    #[test]
    fn lost_events_of_calls_and_of_requests_are_counted_apart_over_all_processors() {
        assert_eq!(lost(&[26, 3], Some(&[0, 17, 4])), (29, 21));
        // A busy process on an idle device, and the reverse.
        assert_eq!(lost(&[26], Some(&[0])), (26, 0));
        assert_eq!(lost(&[0, 0], Some(&[7, 1])), (0, 8));
        // Without devices to watch.
        assert_eq!(lost(&[5], None), (5, 0));
    }
}
