//! `bs`, `bsrange` and `bssplit` together: what fio does with them is not what they say.

use super::super::{BlockSizeShare, Note, Refusal};
use super::{Draft, note, refusal, refusal_at};

impl Draft<'_> {
    pub(super) fn check_block_sizes(&self, notes: &mut Vec<Note>, refusals: &mut Vec<Refusal>) {
        let setting = |name| self.last.get(name).map(|last| last.setting);
        let (range, split) = (setting("bsrange"), setting("bssplit"));
        if let (Some(_), Some(split)) = (range, split) {
            refusals.push(refusal(split, "it mixes with bsrange in the order of lines; give one"));
        }
        if let (Some(by), Some(bs)) = (split.or(range), setting("bs")) {
            let what = format!("{} decides where it is given, also over a later bs", by.name);
            notes.push(note(bs, &what));
        }
        let pattern = &self.options.pattern;
        if pattern.block_unaligned.as_ref().is_some_and(|it| it.value) {
            return;
        }
        let shares = [&pattern.block_split.read, &pattern.block_split.write];
        let mut shares = shares.into_iter().flatten();
        if let Some((shares, bytes)) = shares.find_map(|it| Some((it, rounded(&it.value)?))) {
            let reason = format!(
                "fio rounds {bytes} bytes down to a multiple of the smallest size; \
                 add bs_unaligned, or give multiples"
            );
            let value = split.and_then(|it| it.value.clone());
            refusals.push(refusal_at("bssplit", value, &shares.at, &reason));
        }
    }
}

/// A size that is no multiple of the smallest one.
fn rounded(shares: &[BlockSizeShare]) -> Option<u64> {
    let smallest = shares.iter().map(|it| it.bytes).min()?;
    shares.iter().map(|it| it.bytes).find(|it| it.checked_rem(smallest).is_some_and(|it| it > 0))
}
