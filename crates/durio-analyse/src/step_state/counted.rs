//! Which devices have counted what went through them.
//!
//! In: a step's counters, and whether it must have moved them. Out: the same, with those marked that
//! count nothing.

use durio_observe::DeviceCounters;

/// The counters; `has_io` says that something must have reached the devices. Where none of them has
/// moved all the same, they count nothing, and their zeros are no figures.
pub(super) fn counted(mut devices: Vec<DeviceCounters>, has_io: bool) -> Vec<DeviceCounters> {
    if has_io && devices.iter().all(DeviceCounters::is_zero) {
        devices.iter_mut().for_each(|device| device.not_counted = true);
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(writes_completed: u64) -> DeviceCounters {
        DeviceCounters { writes_completed, ..DeviceCounters::default() }
    }

    #[test]
    fn zeros_of_devices_that_were_written_to_are_no_figures() {
        let marked = |devices, has_io| -> Vec<bool> {
            counted(devices, has_io).iter().map(|it| it.not_counted).collect()
        };
        assert_eq!(marked(vec![device(0), device(0)], true), [true, true]);
        // One member of an array may well have had nothing to do.
        assert_eq!(marked(vec![device(0), device(9)], true), [false, false]);
        assert_eq!(marked(vec![device(0)], false), [false]);
        assert_eq!(marked(vec![], true), [] as [bool; 0]);
    }
}
