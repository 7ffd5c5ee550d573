//! What the tests of this crate share: a machine that only keeps account, and stacks.

pub(crate) mod scripted;
pub(crate) mod stacks;
