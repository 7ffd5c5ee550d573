//! Clocks as a type parameter: the time-stamp counter, CLOCK_MONOTONIC, or a virtual one.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, nanosleep};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A reading of a [`Clock`], in its own unit; only differences of one clock mean anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Later than every reading.
    pub const NEVER: Self = Self(u64::MAX);

    /// The ticks from `earlier` to this reading; zero if `earlier` is later, as it can be by a few
    /// cycles when a thread moves between processors.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This reading plus a number of ticks.
    #[inline]
    #[must_use]
    pub const fn plus(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }
}

/// Reads time for the measured loop.
pub trait Clock {
    fn now(&self) -> Ticks;

    /// Converts a span of this clock to nanoseconds, which its ticks are unless it says otherwise.
    #[inline]
    fn nanos(&self, ticks: u64) -> u64 {
        ticks
    }

    /// Converts nanoseconds to a span of this clock.
    #[inline]
    fn ticks(&self, nanos: u64) -> u64 {
        nanos
    }

    /// Nanoseconds of a clock that shares neither stamps nor calibration with this one, for checks
    /// of this one. A virtual clock has no other.
    fn reference_nanos(&self) -> u64 {
        monotonic_nanos()
    }
}

/// Nanoseconds at the end of a wait that are watched for rather than slept for: a thread is woken
/// some microseconds late.
pub const WATCHED: u64 = 20_000;

/// Waits until `deadline`: asleep, and for the last 20 us awake.
pub fn wait_until(clock: &impl Clock, deadline: Ticks) {
    loop {
        let left = clock.nanos(deadline.since(clock.now()));
        if left == 0 {
            return;
        }
        if left > WATCHED {
            // Interrupted by a signal: the loop looks at the clock again.
            let _ = nanosleep(&timespec(left - WATCHED));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Sleeps until `nanos` on CLOCK_MONOTONIC, and returns at once if that is past. Spinning at the
/// end would take a processor from the threads that are to start.
pub fn sleep_until(nanos: u64) {
    let request = timespec(nanos);
    while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(Errno::INTR) {}
}

fn timespec(nanos: u64) -> Timespec {
    let span = Duration::from_nanos(nanos);
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

#[inline]
fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC starts near zero at boot and is never negative.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// clock_gettime(CLOCK_MONOTONIC); a tick is a nanosecond.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Ticks {
        Ticks(monotonic_nanos())
    }
}

/// The null engine's time: it moves only when an operation completes. A tick is a nanosecond.
#[derive(Debug, Default)]
pub struct VirtualClock(Cell<u64>);

impl VirtualClock {
    /// Moves the time forward to `time`; never back.
    pub fn advance_to(&self, time: Ticks) {
        self.0.set(self.0.get().max(time.0));
    }
}

impl Clock for VirtualClock {
    #[inline]
    fn now(&self) -> Ticks {
        Ticks(self.0.get())
    }

    fn reference_nanos(&self) -> u64 {
        self.0.get()
    }
}

/// The time-stamp counter of x86-64, calibrated against CLOCK_MONOTONIC.
///
/// A read costs about 10 ns, half of clock_gettime through the vDSO; it is not ordered with the
/// instructions around it, an error of some tens of cycles.
#[derive(Debug, Clone, Copy)]
pub struct TscClock {
    /// Nanoseconds per tick, times 2³².
    nanos_per_tick: u64,
    /// Ticks per nanosecond, times 2³².
    ticks_per_nano: u64,
}

/// How long the calibration sleeps: two pairs of readings, each certain to about 50 ns, 20 ms
/// apart give the rate to a few millionths.
const CALIBRATION_SPAN: Duration = Duration::from_millis(20);

/// Pairs read at each end of the calibration; the tightest is kept.
const CALIBRATION_PAIRS: usize = 8;

impl TscClock {
    /// Measures the counter's rate; sleeps 20 ms. `None` if the processor lacks the counter.
    #[must_use]
    pub fn calibrate() -> Option<Self> {
        let (ticks_before, nanos_before) = tightest_pair()?;
        std::thread::sleep(CALIBRATION_SPAN);
        let (ticks_after, nanos_after) = tightest_pair()?;
        Self::from_spans(ticks_after.checked_sub(ticks_before)?, nanos_after - nanos_before)
    }

    /// The clock of a counter that advances `ticks` in `nanos`.
    fn from_spans(ticks: u64, nanos: u64) -> Option<Self> {
        if ticks == 0 || nanos == 0 {
            return None;
        }
        let ratio = |a: u64, b: u64| u64::try_from((u128::from(a) << 32) / u128::from(b)).ok();
        Some(Self { nanos_per_tick: ratio(nanos, ticks)?, ticks_per_nano: ratio(ticks, nanos)? })
    }
}

/// (ticks, nanoseconds) read as close together as several tries allow.
fn tightest_pair() -> Option<(u64, u64)> {
    (0..CALIBRATION_PAIRS)
        .filter_map(|_| {
            let before = read_tsc()?;
            let nanos = monotonic_nanos();
            let after = read_tsc()?;
            let width = after.saturating_sub(before);
            // The narrowest pair was interrupted least, and its middle is the best guess of when
            // the time was read.
            Some((width, before + width / 2, nanos))
        })
        .min()
        .map(|(_, ticks, nanos)| (ticks, nanos))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "other architectures have none")]
fn read_tsc() -> Option<u64> {
    // Justification: the counter has no safe read, and the vDSO costs twice as much.
    // SAFETY: RDTSC has no memory operands; user space may execute it unless the process asked
    // the kernel to forbid it (prctl PR_SET_TSC), which durio does not.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn read_tsc() -> Option<u64> {
    None
}

/// `value` × `factor` / 2³², without overflow in the middle.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "spans stay below 2⁶⁴ ns, 584 years")]
fn scaled(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Ticks {
        // A clock exists only if the counter could be read.
        Ticks(read_tsc().unwrap_or(0))
    }

    #[inline]
    fn nanos(&self, ticks: u64) -> u64 {
        scaled(ticks, self.nanos_per_tick)
    }

    #[inline]
    fn ticks(&self, nanos: u64) -> u64 {
        scaled(nanos, self.ticks_per_nano)
    }
}

/// True if the counter runs at a constant rate, also in idle states, on every processor alike: the
/// processor says so, and the kernel still lists it as a clock source (it removes one that it found
/// to be unstable).
#[must_use]
pub fn tsc_is_reliable() -> bool {
    const CLOCK_SOURCES: &str =
        "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let sources = fs::read_to_string(CLOCK_SOURCES).unwrap_or_default();
    tsc_is_reliable_by(&cpuinfo, &sources)
}

/// The same by the texts of `/proc/cpuinfo` and of the file `available_clocksource`.
#[must_use]
pub fn tsc_is_reliable_by(cpuinfo: &str, available_clock_sources: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |wanted| flags.split_whitespace().any(|flag| flag == wanted);
    let listed = available_clock_sources.split_whitespace().any(|source| source == "tsc");
    has("constant_tsc") && has("nonstop_tsc") && listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_stops_or_that_the_kernel_gave_up_is_not_reliable() {
        let good = "processor : 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n";
        assert!(tsc_is_reliable_by(good, "kvm-clock tsc acpi_pm\n"));
        assert!(!tsc_is_reliable_by(good, "kvm-clock acpi_pm\n"));
        assert!(!tsc_is_reliable_by("flags : fpu tsc constant_tsc\n", "tsc\n"));
        assert!(!tsc_is_reliable_by("", ""));
    }

    #[test]
    fn spans_convert_both_ways_without_loss_beyond_rounding() {
        let clock = TscClock::from_spans(2_596_000_000, 1_000_000_000).unwrap();
        for nanos in [0, 1, 999, 1_000_000, 3_600_000_000_000, 86_400_000_000_000] {
            let back = clock.nanos(clock.ticks(nanos));
            assert!(back.abs_diff(nanos) <= 1 + nanos / 1_000_000_000, "{nanos} became {back}");
        }
    }

    #[test]
    fn a_sleep_ends_at_its_time_and_one_whose_time_is_past_at_once() {
        let end = MonotonicClock.now().plus(20_000_000);
        sleep_until(end.0);
        assert!(MonotonicClock.now() >= end);
        sleep_until(end.0);
        sleep_until(0);
    }

    #[test]
    fn a_counter_that_does_not_move_is_no_clock() {
        assert!(TscClock::from_spans(0, 1).is_none());
        assert!(TscClock::from_spans(1, 0).is_none());
    }

    #[test]
    fn the_calibrated_counter_agrees_with_the_monotonic_clock() {
        if !tsc_is_reliable() {
            let name = "the_calibrated_counter_agrees_with_the_monotonic_clock";
            return crate::testkit::note_skip(name, &"this machine's counter is no clock");
        }
        let begin = monotonic_nanos();
        let clock = TscClock::calibrate().unwrap();
        // A shorter one would be less exact.
        let lasted = monotonic_nanos() - begin;
        assert!(lasted >= 20_000_000, "calibrated within {lasted} ns");
        let (start, start_nanos) = (clock.now(), clock.reference_nanos());
        std::thread::sleep(Duration::from_millis(50));
        let nanos = clock.nanos(clock.now().since(start));
        let reference = clock.reference_nanos() - start_nanos;
        // Preemption between the two reads on a busy machine; the rate itself is far closer.
        assert!(nanos.abs_diff(reference) < 5_000_000, "{nanos} against {reference}");
    }

    #[test]
    fn both_flags_and_the_source_itself_make_a_counter_reliable() {
        let flags = |flags: &str| format!("processor : 0\nflags\t\t: fpu {flags}\n");
        let both = flags("constant_tsc nonstop_tsc");
        assert!(tsc_is_reliable_by(&both, "tsc\n"));
        assert!(!tsc_is_reliable_by(&both, "tsc-early hpet\n"));
        assert!(!tsc_is_reliable_by(&flags("nonstop_tsc tsc"), "tsc\n"));
        assert!(!tsc_is_reliable_by(&flags("constant_tsc nonstop_tsc_s3"), "tsc\n"));
    }

    #[test]
    fn ticks_go_neither_below_zero_nor_round() {
        assert_eq!([Ticks(7).since(Ticks(5)), Ticks(5).since(Ticks(7))], [2, 0]);
        assert_eq!([Ticks(5).plus(2), Ticks(u64::MAX).plus(1)], [Ticks(7), Ticks(u64::MAX)]);
        let clock = VirtualClock::default();
        clock.advance_to(Ticks(50));
        clock.advance_to(Ticks(20));
        assert_eq!((clock.now(), clock.reference_nanos()), (Ticks(50), 50));
        assert_eq!((clock.nanos(30), clock.ticks(30)), (30, 30));
    }

    #[test]
    fn a_counter_of_2_500_mhz_has_five_ticks_in_two_nanoseconds() {
        let clock = TscClock::from_spans(2_500_000_000, 1_000_000_000).unwrap();
        assert_eq!([clock.ticks(2), clock.ticks(2_000_000)], [5, 5_000_000]);
        // The ratio is cut at 32 binary places.
        assert!(clock.nanos(5_000_000).abs_diff(2_000_000) <= 1);
    }
}
