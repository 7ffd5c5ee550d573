//! Devices that durio makes out of memory or files: how many, and how large.

use super::prelude::*;

spec_keys! {
    /// Devices that durio makes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NewDevices {
        /// How many. Default: 1.
        pub count: u32 = 1,
        /// Bytes of each.
        #[serde(rename = "size_bytes")]
        pub size: Bytes,
    }
}

impl NewDevices {
    /// Checks `count`, and that the size is a multiple of `unit`.
    pub(crate) fn check(self, unit: Bytes) -> Result<Below, CheckFault> {
        if self.count == 0 || self.count > MOST_DEVICES {
            return Err(format!("count is {}; 1 to {MOST_DEVICES} can be made", self.count));
        }
        if self.size.get() == 0 || !self.size.is_multiple_of(unit) {
            return Err(format!("its size, {}, is no multiple of {unit}", self.size));
        }
        Ok(Below::of_devices(self.count, Some(self.size)))
    }

    /// `2 × ram 1 GiB`.
    pub(crate) fn label(self, word: &str) -> String {
        let one = format!("{word} {}", self.size);
        if self.count == 1 { one } else { format!("{} × {one}", self.count) }
    }

    pub(crate) fn sizes(self) -> Vec<Bytes> {
        vec![self.size; self.count as usize]
    }
}
