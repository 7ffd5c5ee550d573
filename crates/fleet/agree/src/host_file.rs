//! `/etc/durio/fleet.toml`: who may order runs on this host, and what those may write to.
//!
//! The file is the host's only consent, so it counts only if no other user can write to it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use durio_base::{Bytes, Nanos, line_and_column};
use durio_block::{open_regular, read_bounded};
use durio_command::{CommandError, CommandErrorKind};
use rustix::process::geteuid;
use serde::Deserialize;
use toml::Spanned;

use crate::bus_rights::check_bus_address;
use crate::host_name::check_word;
use crate::sign::check_public_key;

pub const HOST_FILE: &str = "/etc/durio/fleet.toml";
/// Version of its keys.
pub const HOST_FILE_SCHEMA: u32 = 1;
const FILE_BYTES_MAX: Bytes = Bytes::from_mib(1);

/// The host's word on who may do what here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFile {
    /// The host's name in campaigns; without it the machine's own.
    pub name: Option<String>,
    /// The bus that a standing agent dials.
    pub bus: Option<String>,
    pub coordinators: Vec<TrustedCoordinator>,
    /// At most one for a coordinator and a target.
    pub permits: Vec<HostPermit>,
    pub limits: HostLimits,
}

/// A coordinator whose orders are obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCoordinator {
    pub name: String,
    /// Its public key, `U…`.
    pub key: String,
}

/// What a coordinator may write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPermit {
    /// By its name, as in [`TrustedCoordinator`].
    pub coordinator: String,
    pub target: String,
    pub place: PermittedPlace,
    /// Space at any time.
    pub size_max: Option<Bytes>,
    /// Bytes written by a campaign.
    pub written_max: Option<Bytes>,
    /// Bytes written per second.
    pub rate_max: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermittedPlace {
    /// An absolute path: new files in it, removed at the end.
    Folder(PathBuf),
    /// The serial number of a device, which is overwritten only if `destroy` is true.
    Device {
        serial: String,
        destroy: bool,
        /// Also if it holds a filesystem or an array's member.
        force_signature: bool,
    },
}

/// Limits of every campaign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostLimits {
    pub duration_max: Option<Nanos>,
    pub hours: Option<PermittedHours>,
}

/// A part of each day, in UTC; it may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedHours {
    /// Minutes from midnight, UTC.
    pub begin: u32,
    pub end: u32,
}

impl FromStr for PermittedHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let minutes = |time: &str| -> Option<u32> {
            let (hour, minute) = time.split_once(':')?;
            let number = |digits: &str, limit: u32| -> Option<u32> {
                let is_two = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
                digits.parse::<u32>().ok().filter(|number| is_two && *number < limit)
            };
            Some(number(hour, 24)? * 60 + number(minute, 60)?)
        };
        let times = text.split_once('-');
        match times.and_then(|(begin, end)| Some((minutes(begin)?, minutes(end)?))) {
            Some((begin, end)) if begin != end => Ok(Self { begin, end }),
            _ => Err(format!("'{text}' is not a part of the day; expected UTC as in 20:00-06:00")),
        }
    }
}

impl fmt::Display for PermittedHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begin, end } = self;
        let [begin_hour, end_hour] = [begin, end].map(|minutes| minutes / 60);
        let [begin_minute, end_minute] = [begin, end].map(|minutes| minutes % 60);
        write!(f, "{begin_hour:02}:{begin_minute:02}-{end_hour:02}:{end_minute:02}")
    }
}

/// The host file; `None` on a host without one.
///
/// # Errors
/// If it is a link, another user can write to it, or its text is refused.
pub fn read(path: &Path) -> Result<Option<HostFile>, CommandError> {
    let failed = |error| CommandError::io("read the host file", path, error);
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    let user = geteuid().as_raw();
    let facts = file.metadata().map_err(failed)?;
    check_owner(path, facts.uid(), facts.mode(), user)?;
    // A user who can rename files in the folder can exchange the file.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let facts = fs::metadata(folder).map_err(failed)?;
    check_owner(folder, facts.uid(), facts.mode(), user)?;
    let bytes = read_bounded(file, FILE_BYTES_MAX).map_err(failed)?;
    let name = path.display().to_string();
    let text = String::from_utf8(bytes)
        .map_err(|_| CommandError::cannot_measure(format!("'{name}' is not UTF-8 text")))?;
    parse(&text, &name).map(Some)
}

fn check_owner(path: &Path, owner: u32, mode: u32, user: u32) -> Result<(), CommandError> {
    let reason = if owner != 0 && owner != user {
        format!("belongs to user {owner}")
    } else if mode & 0o002 != 0 {
        "can be written by all users".to_owned()
    } else if mode & 0o020 != 0 {
        "can be written by its group".to_owned()
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(CommandError::cannot_measure(format!("the host file is not trusted: '{path}' {reason}"))
        .hint(format!("as root: chown root '{path}'; chmod go-w '{path}'")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    schema: Spanned<u32>,
    name: Option<Spanned<String>>,
    bus: Option<Spanned<String>>,
    #[serde(default)]
    coordinator: Vec<CoordinatorText>,
    #[serde(default)]
    permit: Vec<PermitText>,
    #[serde(default)]
    limits: LimitsText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoordinatorText {
    name: Spanned<String>,
    key: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PermitText {
    coordinator: Spanned<String>,
    target: Spanned<String>,
    path: Option<Spanned<String>>,
    device: Option<Spanned<String>>,
    destroy: Option<Spanned<bool>>,
    force_signature: Option<Spanned<bool>>,
    size_max: Option<Spanned<String>>,
    written_max: Option<Spanned<String>>,
    rate_max: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsText {
    duration_max: Option<Spanned<String>>,
    hours: Option<Spanned<String>>,
}

/// The text with its name, for places in messages.
struct HostFileSource<'t> {
    text: &'t str,
    name: &'t str,
}

impl HostFileSource<'_> {
    fn error(&self, at: usize, reason: impl fmt::Display) -> CommandError {
        let (line, column) = line_and_column(self.text, at);
        let place = format!("'{}' line {line}, column {column}", self.name);
        // The administrator of the host has to act, whose machine does not permit the campaign.
        CommandError::new(CommandErrorKind::CannotMeasure, format!("{place}: {reason}"))
    }

    fn at<T>(&self, value: &Spanned<T>, reason: impl fmt::Display) -> CommandError {
        self.error(value.span().start, reason)
    }

    fn quantity<T: FromStr<Err: fmt::Display>>(
        &self,
        value: Option<&Spanned<String>>,
    ) -> Result<Option<T>, CommandError> {
        let Some(value) = value else { return Ok(None) };
        value.get_ref().parse().map(Some).map_err(|error| self.at(value, error))
    }

    fn rate(&self, value: Option<&Spanned<String>>) -> Result<Option<Bytes>, CommandError> {
        let Some(value) = value else { return Ok(None) };
        let amount = value.get_ref().strip_suffix("/s").ok_or_else(|| {
            self.at(value, format!("'{}' is not a rate; expected 200MiB/s", value.get_ref()))
        })?;
        amount
            .parse()
            .map(Some)
            .map_err(|error: durio_base::ParseQuantityError| self.at(value, error))
    }
}

/// The host file of a text. `name` is the file's, for messages.
///
/// # Errors
/// With line and column of the first key or value that is refused.
pub fn parse(text: &str, name: &str) -> Result<HostFile, CommandError> {
    let source = HostFileSource { text, name };
    let file: FileText = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        source.error(at, error.message().trim_end())
    })?;
    if *file.schema.get_ref() != HOST_FILE_SCHEMA {
        let reason = format!(
            "unsupported schema {}; this durio reads {HOST_FILE_SCHEMA}",
            file.schema.get_ref()
        );
        return Err(source.at(&file.schema, reason));
    }
    if let Some(host) = &file.name {
        check_word(host.get_ref(), "host name").map_err(|error| source.at(host, error))?;
    }
    if let Some(bus) = &file.bus {
        check_bus_address(bus.get_ref()).map_err(|error| source.at(bus, error))?;
    }
    let coordinators = coordinators(&source, file.coordinator)?;
    let permits = permits(&source, &file.permit, &coordinators)?;
    let limits = HostLimits {
        duration_max: source.quantity(file.limits.duration_max.as_ref())?,
        hours: source.quantity(file.limits.hours.as_ref())?,
    };
    Ok(HostFile {
        name: file.name.map(Spanned::into_inner),
        bus: file.bus.map(Spanned::into_inner),
        coordinators,
        permits,
        limits,
    })
}

fn coordinators(
    source: &HostFileSource<'_>,
    texts: Vec<CoordinatorText>,
) -> Result<Vec<TrustedCoordinator>, CommandError> {
    let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
    let mut coordinators = Vec::new();
    for CoordinatorText { name, key } in texts {
        check_word(name.get_ref(), "coordinator name").map_err(|error| source.at(&name, error))?;
        check_public_key(key.get_ref()).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            source.at(&key, format!("invalid key: {}", cause.unwrap_or_default()))
        })?;
        if !names.insert(name.get_ref().clone()) {
            let reason = format!("coordinator '{}' is listed twice", name.get_ref());
            return Err(source.at(&name, reason));
        }
        // It would be open which permits count.
        if !keys.insert(key.get_ref().clone()) {
            return Err(source.at(&key, "the key belongs to another coordinator above"));
        }
        coordinators.push(TrustedCoordinator { name: name.into_inner(), key: key.into_inner() });
    }
    Ok(coordinators)
}

fn permits(
    source: &HostFileSource<'_>,
    texts: &[PermitText],
    coordinators: &[TrustedCoordinator],
) -> Result<Vec<HostPermit>, CommandError> {
    let mut known = BTreeSet::new();
    let mut permits = Vec::new();
    for text in texts {
        let (coordinator, target) = (text.coordinator.get_ref(), text.target.get_ref());
        if !coordinators.iter().any(|known| known.name == *coordinator) {
            let reason = format!("no [[coordinator]] is named '{coordinator}'");
            return Err(source.at(&text.coordinator, reason));
        }
        if target.is_empty() {
            return Err(source.at(&text.target, "empty target"));
        }
        if !known.insert((coordinator, target)) {
            let reason = format!("'{coordinator}' has a permit for target '{target}' already");
            return Err(source.at(&text.target, reason));
        }
        permits.push(HostPermit {
            coordinator: coordinator.clone(),
            target: target.clone(),
            place: place(source, text)?,
            size_max: source.quantity(text.size_max.as_ref())?,
            written_max: source.quantity(text.written_max.as_ref())?,
            rate_max: source.rate(text.rate_max.as_ref())?,
        });
    }
    Ok(permits)
}

fn place(source: &HostFileSource<'_>, text: &PermitText) -> Result<PermittedPlace, CommandError> {
    match (&text.path, &text.device) {
        (Some(path), None) => {
            for (name, value) in
                [("destroy", &text.destroy), ("force_signature", &text.force_signature)]
            {
                let Some(value) = value else { continue };
                let reason =
                    format!("'{name}' is for devices; in a folder durio makes new files only");
                return Err(source.at(value, reason));
            }
            let folder = PathBuf::from(path.get_ref());
            let is_plain =
                folder.components().all(|part| !matches!(part, std::path::Component::ParentDir));
            if !folder.is_absolute() || !is_plain {
                let reason = format!("'{}' is not an absolute path without '..'", path.get_ref());
                return Err(source.at(path, reason));
            }
            Ok(PermittedPlace::Folder(folder))
        }
        (None, Some(device)) => {
            let serial = device.get_ref().strip_prefix("serial:").unwrap_or_default();
            if serial.trim().is_empty() {
                let reason = format!(
                    "'{}' does not name a device by serial number; expected serial:NUMBER",
                    device.get_ref()
                );
                return Err(source.at(device, reason));
            }
            let destroy = text.destroy.as_ref().is_some_and(|destroy| *destroy.get_ref());
            let force = text.force_signature.as_ref().filter(|force| *force.get_ref());
            if let Some(force) = force.filter(|_| !destroy) {
                return Err(source.at(force, "'force_signature' needs destroy = true"));
            }
            let force_signature = force.is_some();
            let serial = serial.trim().to_owned();
            Ok(PermittedPlace::Device { serial, destroy, force_signature })
        }
        _ => Err(source.at(&text.target, "a permit has either 'path' or 'device'")),
    }
}

#[cfg(test)]
mod tests;
