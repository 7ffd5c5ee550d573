//! Profiles of databases, as text and as JSON: every field, its value, and where it is from.
//!
//! In: profiles. Out: bytes, into a writer. Not here: figures.

use std::io;

use durio_workload::profile::Profile;
use serde::Serialize;

use crate::{AuditFormat, Options, text};

/// How profiles are written down: as findings of an audit are.
pub type ProfileFormat = AuditFormat;

/// A profile in the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    title: &'a str,
    summary: &'a str,
    thresholds: usize,
}

/// The list, as a document.
#[derive(Debug, Serialize)]
struct List<'a> {
    profiles: Vec<Listed<'a>>,
}

/// Writes the names of profiles, and what they are.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_profiles(
    format: ProfileFormat,
    profiles: &[Profile],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        ProfileFormat::Text => text::write_profiles(profiles, options, out),
        ProfileFormat::Json => {
            let profiles: Vec<Listed<'_>> = profiles
                .iter()
                .map(|it| Listed {
                    name: &it.name,
                    title: &it.title,
                    summary: &it.summary,
                    thresholds: it.thresholds.len(),
                })
                .collect();
            crate::json::write_document(&List { profiles }, out)
        }
    }
}

/// Writes a profile whole.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_profile(
    format: ProfileFormat,
    profile: &Profile,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        ProfileFormat::Text => text::write_profile(profile, options, out),
        ProfileFormat::Json => crate::json::write_document(profile, out),
    }
}
