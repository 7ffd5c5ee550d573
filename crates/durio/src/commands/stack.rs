//! `durio stack`.

pub(crate) mod show;
