//! Where a stack is built, under which names, and the names that only the machine knows.
//!
//! The time and the process give the names and identifiers of a build; the machine's answers fill
//! the placeholders (`{loop0}`) of texts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Names and places of one build. Every name that is made begins with [`BuildPlace::tag`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildPlace {
    /// Seven letters and digits, unlike those of any other build.
    pub id: String,
    /// Where the files of loop devices are made, if the layer does not say.
    pub files: PathBuf,
    /// Below this the filesystems are mounted.
    pub mounts: PathBuf,
    /// The existing devices that may be overwritten.
    pub destroy: Vec<PathBuf>,
    /// They may be overwritten even if a filesystem or an array is on them; never if in use.
    pub force: bool,
}

/// Digits of an id.
// No upper case, for XFS labels and LVM names alike.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

// So that the tag fits a label of XFS, twelve bytes.
pub(super) const ID_LENGTH: usize = 7;

impl BuildPlace {
    /// A place with a fresh id, mounts below /run/durio, files in `files`.
    pub fn new(files: &Path) -> Self {
        Self::with_id(&fresh_id(), files)
    }

    /// As [`BuildPlace::new`] with a given id, of small letters and digits; for a plan that is only shown.
    pub fn with_id(id: &str, files: &Path) -> Self {
        Self {
            id: id.to_owned(),
            files: files.to_owned(),
            // In memory: a crash of the machine leaves no empty mount points.
            mounts: PathBuf::from("/run/durio"),
            destroy: Vec::new(),
            force: false,
        }
    }

    /// `durio` and the id: the beginning of every name.
    pub fn tag(&self) -> String {
        tag_of(&self.id)
    }
}

/// The beginning of every name of the build with this id.
pub(super) fn tag_of(id: &str) -> String {
    format!("durio{id}")
}

/// From the time in nanoseconds and the process, well mixed.
fn fresh_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut state = u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or_default();
    // Two that are started together may read the same time.
    state ^= u64::from(std::process::id()) << 40;
    let mut id = String::new();
    for _ in 0..ID_LENGTH {
        state = mixed(state);
        let digit = usize::try_from(state % 36).unwrap_or_default();
        id.push(char::from(DIGITS.get(digit).copied().unwrap_or(b'0')));
    }
    id
}

/// An identifier that follows from the name of a thing, so that the thing is found again by it.
fn uuid_bytes(name: &str) -> [u8; 16] {
    // Without the version bits of RFC 9562: mkfs, mdadm and LVM take any sixteen bytes, and all of
    // them distinguish builds.
    let seed = name.bytes().fold(0, |state, byte| mixed(state ^ u64::from(byte)));
    let words = [seed >> 32, seed, mixed(seed) >> 32, mixed(seed)];
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_mut(4).zip(words) {
        let word = u32::try_from(word & 0xffff_ffff).unwrap_or_default();
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// In hexadecimal digits, in groups of `lengths`.
fn grouped(bytes: &[u8], lengths: &[usize], between: &str) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut rest = digits.as_str();
    let group = |length: &usize| {
        let (group, after) = rest.split_at_checked(*length).unwrap_or((rest, ""));
        rest = after;
        group
    };
    lengths.iter().map(group).collect::<Vec<_>>().join(between)
}

/// The identifier of an array: as four words, as mdadm writes it, and as the bytes in the members'
/// superblocks.
pub(super) fn md_uuid(name: &str) -> (String, [u8; 16]) {
    let bytes = uuid_bytes(name);
    (grouped(&bytes, &[8; 4], ":"), bytes)
}

/// The identifier of a build's filesystem, as text and as bytes.
pub(super) fn filesystem_uuid(tag: &str) -> (String, [u8; 16]) {
    let bytes = uuid_bytes(&format!("{tag} filesystem"));
    (grouped(&bytes, &[8, 4, 4, 4, 12], "-"), bytes)
}

/// The identifier of the nth device below a layer as a physical volume, in LVM's form.
pub(super) fn volume_uuid(tag: &str, layer: usize, n: u32) -> String {
    grouped(&uuid_bytes(&format!("{tag} {layer} {n}")), &[6, 4, 4, 4, 4, 4, 6], "-")
}

/// The mixing function of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
pub(super) const fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the machine answered, by the placeholder's name.
pub(super) type Values = BTreeMap<String, String>;

/// The text with every placeholder that has a value filled in; others stay.
pub(super) fn filled(text: &str, values: &Values) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        result.push_str(before);
        match after.split_once('}').and_then(|(name, tail)| Some((values.get(name)?, tail))) {
            Some((value, tail)) => {
                result.push_str(value);
                rest = tail;
            }
            None => {
                result.push('{');
                rest = after;
            }
        }
    }
    result.push_str(rest);
    result
}

/// True if a placeholder without a value is left. LVM's settings have braces too, with blanks.
pub(super) fn is_open(text: &str) -> bool {
    let inside = |part: &str| {
        let name = part.split_once('}').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
    };
    text.split('{').skip(1).any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_fit_into_a_label_of_xfs() {
        let mut ids: Vec<String> = (0..200).map(|_| fresh_id()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 200);
        for id in ids {
            assert!(id.bytes().all(|byte| DIGITS.contains(&byte)));
            assert_eq!(BuildPlace::with_id(&id, Path::new("/tmp")).tag().len(), 12);
        }
    }

    #[test]
    fn only_known_placeholders_are_filled_in() {
        let values = Values::from([("a".into(), "1".into()), ("b-0".into(), "{a}".into())]);
        assert_eq!(filled("x{a}{b-0}{c} { a } }{", &values), "x1{a}{c} { a } }{");
        assert!(is_open("x{c}") && !is_open("devices { x=1 }") && !is_open("{"));
    }
}
