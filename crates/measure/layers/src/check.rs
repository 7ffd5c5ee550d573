//! Whether a declaration can be built at all: order, counts, sizes.
//!
//! Returns the first fault of a declared stack from the bottom. The limits of one kind are in
//! [`crate::kinds`]; what exists on a machine is found out while building.

use std::ops::RangeInclusive;

use durio_base::Bytes;

use crate::declared::{DeclaredLayer, DeclaredStack};
use crate::error::BuildError;
use crate::kinds::{KINDS, LayerRole};
use crate::tool_words::check_words;

/// Devices of a layer.
// Enough for any comparison; a typing error must not make a million.
pub(crate) const MOST_DEVICES: u32 = 256;

/// Layers of a stack.
// Enough for any stack, and names of devices must not grow without bounds.
pub(crate) const MOST_LAYERS: usize = 16;

/// The fault, and what to do.
pub(crate) type CheckFault = String;

/// Checks order, counts and sizes.
///
/// # Errors
/// The first thing that is wrong, from the bottom, with what to do.
pub fn check_declared(stack: &DeclaredStack) -> Result<(), BuildError> {
    let whole = |what: &str| BuildError::Stack { stack: stack.name.clone(), what: what.to_owned() };
    if stack.layers.is_empty() {
        return Err(whole("it has no layers; the first one says where its devices come from"));
    }
    if stack.layers.len() > MOST_LAYERS {
        return Err(whole("it has more than 16 layers; nothing sensible does"));
    }
    let mut below = Below::default();
    let mut lower = None;
    for (index, layer) in stack.layers.iter().enumerate() {
        below = check_layer(lower, below, layer).map_err(|what| BuildError::Declared {
            stack: stack.name.clone(),
            layer: index,
            kind: layer.kind.name(),
            what,
        })?;
        lower = Some(layer);
    }
    Ok(())
}

/// What the next layer stands on.
fn check_layer(
    lower: Option<&DeclaredLayer>,
    below: Below,
    layer: &DeclaredLayer,
) -> Result<Below, CheckFault> {
    check_order(lower, layer)?;
    let kind = layer.kind.layer();
    let above = kind.check(Below { groups: layer.groups, ..below })?;
    // A stack that did not come from a spec, or from an older one, is held to the same lists.
    for (_, tool, words) in kind.tool_words() {
        check_words(tool, words).map_err(|fault| fault.to_string())?;
    }
    Ok(above)
}

fn check_order(lower: Option<&DeclaredLayer>, layer: &DeclaredLayer) -> Result<(), CheckFault> {
    if layer.groups == 0 {
        return Err("groups is 0; leave it out, or say into how many".into());
    }
    match (lower, layer.kind.is_source()) {
        (None, false) => Err(format!("it stands on nothing; put {} first", sources())),
        (Some(_), true) => Err("it can only be the first layer, for it stands on nothing".into()),
        (None, true) if layer.groups > 1 => Err("the first layer has no groups".into()),
        (Some(lower), false) if lower.kind.is_filesystem() => {
            Err("nothing can stand on a filesystem; make the filesystem the last layer".into())
        }
        _ => Ok(()),
    }
}

/// `ram, zram or device`.
fn sources() -> String {
    let words = KINDS.iter().filter(|kind| kind.role == LayerRole::Source).map(|kind| kind.word);
    let words = words.collect::<Vec<_>>().join(", ");
    words.rsplit_once(", ").map_or(words.clone(), |(first, last)| format!("{first} or {last}"))
}

/// What a layer stands on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Below {
    pub(crate) devices: u32,
    /// At most so large is each; unknown for existing devices.
    pub(crate) size: Option<Bytes>,
    /// Into how many groups the layer divides them.
    pub(crate) groups: u32,
}

impl Below {
    /// What a source gives.
    pub(crate) const fn of_devices(devices: u32, size: Option<Bytes>) -> Self {
        Self { devices, size, groups: 1 }
    }

    /// The devices of one group, and how many groups there are.
    pub(crate) fn group(self) -> Result<DeviceGroup, CheckFault> {
        let Self { devices, groups, size } = self;
        if devices % groups != 0 {
            return Err(format!("{devices} devices cannot be divided into {groups} equal groups"));
        }
        Ok(DeviceGroup { groups, devices: devices / groups, size })
    }

    /// A filesystem on a number of devices in this range, each of at least `least` bytes.
    pub(crate) fn filesystem(
        self,
        devices: RangeInclusive<u32>,
        least: Bytes,
        of_what: &str,
    ) -> Result<Self, CheckFault> {
        if self.groups > 1 {
            return Err("a filesystem has no groups".into());
        }
        let (fewest, found) = (devices.start(), self.devices);
        if found < *fewest {
            return Err(format!("it needs {fewest} devices or more and stands on {found}"));
        }
        if found > *devices.end() {
            return Err(format!(
                "it takes one device and stands on {found}; join them with md or lvm, or use one"
            ));
        }
        at_least(least, self.size, of_what).map(|()| self)
    }
}

/// What becomes one device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceGroup {
    groups: u32,
    pub(crate) devices: u32,
    /// At most so large is each device.
    pub(crate) size: Option<Bytes>,
}

impl DeviceGroup {
    /// One device for each group, as large as at most `members` of its members.
    pub(crate) fn joined(self, members: u32) -> Below {
        let times = |size: Bytes| Bytes::new(size.get().saturating_mul(u64::from(members)));
        Below::of_devices(self.groups, self.size.map(times))
    }
}

/// Each device is so large for all that is known. What a program itself needs on top, it says itself.
pub(crate) fn at_least(least: Bytes, size: Option<Bytes>, of_what: &str) -> Result<(), CheckFault> {
    // A declaration does not know the size of an existing device: mkfs and mdadm report that
    // themselves.
    match size {
        Some(size) if size < least => Err(format!(
            "it needs {least} {of_what} or more and there is {size}; declare larger devices"
        )),
        _ => Ok(()),
    }
}

/// From 4 KiB, a page, up to `most`.
pub(crate) fn power_of_two(size: Bytes, what: &str, most: Bytes) -> Result<(), CheckFault> {
    let least = Bytes::from_kib(4);
    if size.get().is_power_of_two() && size >= least && size <= most {
        return Ok(());
    }
    Err(format!("{what}, {size}, is no power of two from {least} to {most}"))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
