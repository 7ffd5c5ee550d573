//! The major and minor number by which the kernel knows a device.

use std::fmt;
use std::str::FromStr;

/// A device number, written `8:1` as in sysfs and in mountinfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl DeviceNumber {
    /// True for the numbers that filesystems without a device of their own are given.
    pub(crate) fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self { major: major.parse()?, minor: minor.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_number_reads_as_it_prints() {
        let number: DeviceNumber = "259:12".parse().unwrap();
        assert_eq!(number, DeviceNumber { major: 259, minor: 12 });
        assert_eq!(number.to_string(), "259:12");
        assert!("259".parse::<DeviceNumber>().is_err());
    }
}
