//! The layers under a path, and this machine, as data: [`Stack`], [`Host`], the counters of a
//! device and of the processors, whether a device is in use ([`DeviceUse`]), the state of an array of durio
//! ([`ArrayStatus`]), and the events of a trace of the kernel ([`TraceText`],
//! [`KernelEvent`]).
//!
//! Values come from `/sys`, `/proc`, statx and statvfs, and if a device may be read from its
//! superblock and its answers; they can be saved and compared. Nothing is written or opened for
//! writing.
//!
//! A file of the kernel that is absent is a value (`None`), not an error: kernels, drivers and
//! containers differ in what they show.

mod array;
mod block_facts;
mod block_node;
mod block_trace;
mod capture_events;
mod counters;
mod device_probe;
mod device_use;
mod dm_facts;
mod error;
mod family;
mod filesystem;
mod host;
mod identity;
mod kernel_events;
mod layer;
mod layer_facts;
mod mountinfo;
mod open_files;
mod power_state;
mod process_facts;
mod signature;
mod strace;
mod superblock;
mod survey;
mod system_dir;
mod trace_text;
mod tracefs;
mod tuning;

pub use durio_block::Alignment;

pub use array::{
    ArrayExamination, ArrayList, ArrayScrub, ArrayShape, ArrayState, ArrayStatus, ExaminedDevice,
    ExaminedMember, ListedArray, MemberStanding, MemberStatus, MismatchPlace,
};
pub use block_facts::{BlockFacts, CloudDisk, CloudProvider, WriteCache, device_serial};
pub use block_trace::read_block_trace;
pub use capture_events::{CaptureEnd, CaptureEvent, CapturedDevice, CapturedFile, WriteCallRates};
pub use counters::{CpuCounters, DeviceCounters, read_cpu_counters, read_device_counters};
pub use device_use::{DeviceUse, MountUse, device_use, holds_device_nodes, use_of};
pub use error::{StackError, StackErrorKind};
pub use family::Holder;
pub use filesystem::FilesystemFacts;
pub use host::{Host, LabFacts, LabTiming, read_host, read_nodes};
pub use identity::free_space;
pub use kernel_events::{
    KERNEL_EVENTS, KernelEvent, KernelEventFormats, KernelEventKind, KernelEventName,
    KernelEventText, KernelSymbols, OffProcessor, RequestEvent, RequestOperation, RequestStage,
    STACK_EVENT, SlowCall, SlowWatchFacts, SlowWindow, TraceTask, WindowFacts, name_tasks,
    parse_kernel_events, write_kernel_events,
};
pub use layer::{Layer, LayerKind, Stack, leaf_devices};
pub use mountinfo::{MountedThing, UnmountedPlace, mounted_at, unmounted_place};
pub use open_files::{
    OpenFile, descriptors, family_of, holders_below, moved_bytes, open_file, process_of,
    processes_of_unit, threads_of, write_calls,
};
pub use power_state::{DriveCounters, PowerState, read_power_state};
pub use process_facts::{
    CgroupLimits, MemoryGroup, ProcessFacts, RunningProgram, memory_group, process_names,
    running_programs,
};
pub use signature::Signature;
pub use strace::read_strace;
pub use survey::{read_host_in, read_stack, read_stack_in};
pub use system_dir::{Fact, numbers_in_list};
pub use trace_text::TraceTextError;
pub use tracefs::{
    BinaryEvent, BlockRequest, BufferStats, CallRole, CaptureEventKind, CaptureFormats,
    DeviceRequest, EventFormat, SubBuffer, TRACED_CALLS, TraceClock, TraceEvent, TraceEventKind,
    TraceField, TraceText, TracedCall, block_device_number, find_tracefs, has_request_queue,
    parse_buffer_stats, parse_trace,
};
pub use tuning::{LayerReadings, TuningReading, TuningReadings, read_readings, read_readings_in};

#[cfg(test)]
mod tests {
    pub(crate) mod fixture;
}
