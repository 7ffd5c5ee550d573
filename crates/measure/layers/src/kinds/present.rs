//! Devices that a step makes, once they are there.

use std::time::Duration;

use super::prelude::*;

// A device that was asked for is there within moments, even where udev makes the node.
const PRESENT_TRIES: u32 = 100;
const PRESENT_PAUSE: Duration = Duration::from_millis(50);

/// A device node is there, waited for a short while, and has the given size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub(crate) device: String,
    /// Its size; of any size without it.
    pub(crate) size: Option<Bytes>,
}

impl Checking for Present {
    fn text(&self) -> String {
        format!("wait until {} is there", self.device)
    }

    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        wait_for(stepper, &self.device, self.size)?;
        let made = stepper.grounds.made(stepper.system, &self.device);
        made.map_err(BuildError::CameUpWrong)
    }
}

fn wait_for(
    stepper: &Stepper<'_, '_>,
    device: &str,
    size: Option<Bytes>,
) -> Result<(), BuildError> {
    for _ in 0..PRESENT_TRIES {
        if stepper.system.is_block_device(Path::new(device)) {
            return check_size(stepper, device, size);
        }
        stepper.system.pause(PRESENT_PAUSE);
    }
    Err(BuildError::CameUpWrong(format!("{device} did not appear")))
}

fn check_size(
    stepper: &Stepper<'_, '_>,
    device: &str,
    size: Option<Bytes>,
) -> Result<(), BuildError> {
    let sectors = stepper.attribute(device, "size").and_then(|text| text.parse::<u64>().ok());
    match (size, sectors) {
        (Some(size), Some(sectors)) if sectors.saturating_mul(512) != size.get() => {
            let found = Bytes::new(sectors.saturating_mul(512));
            Err(BuildError::CameUpWrong(format!("{device} has {found} and not {size}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::permit::Grounds;
    use crate::step::BuildOptions;
    use crate::tests::scripted::Scripted;

    #[test]
    fn a_device_has_the_very_size_that_was_asked_for() {
        let mut machine = Scripted::default();
        let mut account = machine.0.borrow_mut();
        account.there.devices.insert("/dev/loop3".into());
        account.there.paths.insert("/sys/block/loop3/size".into(), "2048".into());
        drop(account);
        let stepper = Stepper {
            system: &mut machine,
            grounds: &mut Grounds::default(),
            output: PathBuf::new(),
            options: BuildOptions::default(),
            stack: "s",
        };
        let present = |device, size| {
            let size: Option<u64> = size;
            wait_for(&stepper, device, size.map(Bytes::new)).map_err(|error| error.to_string())
        };
        assert_eq!(present("/dev/loop3", Some(1 << 20)), Ok(()));
        assert_eq!(present("/dev/loop3", None), Ok(()));
        for size in [(1 << 20) - 512, (1 << 20) + 512] {
            let error = present("/dev/loop3", Some(size)).unwrap_err();
            let expected = format!("/dev/loop3 has 1 MiB and not {}", Bytes::new(size));
            assert!(error.contains(&expected), "{error}");
        }
        let error = present("/dev/loop4", Some(1 << 20)).unwrap_err();
        assert!(error.contains("/dev/loop4 did not appear"), "{error}");
    }
}
