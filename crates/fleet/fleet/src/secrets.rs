//! Files that only their owner may read: keys, among them those of campaigns, credentials, and the
//! certificate of a private bus.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use durio_agree::bus_rights::BusCertificate;
use durio_agree::sign::SigningKey;
use durio_base::Bytes;
use durio_block::{Folder, open_input, read_bounded};
use durio_command::{CommandError, error_chain};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::carrier::state_folder;
use crate::launch::{BusChoice, LaunchSettings, LaunchVia};
use crate::leftovers::KEPT_FOR;
use crate::words::remark;

/// The certificate of the authority that alone is trusted for a bus.
pub(crate) const AUTHORITY_FILE: &str = "bus-ca.pem";
const SECRET_BYTES_MAX: Bytes = Bytes::from_kib(64);
/// In the state folder: the seed of each campaign.
const KEYS_FOLDER: &str = "fleet-keys";
const KEY_BYTES_MAX: Bytes = Bytes::from_kib(4);

/// The text of a file with a secret; `doing` is for the error, as in [`CommandError::io`].
///
/// # Errors
/// If other users can read it, or it cannot be read.
pub(crate) fn read_secret(doing: &str, path: &Path) -> Result<String, CommandError> {
    let failed = |error| CommandError::io(doing, path, error);
    let file = open_input(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let shown = path.display();
        let text = format!("other users can read '{shown}'");
        return Err(CommandError::cannot_measure(text).hint(format!("chmod 600 '{shown}'")));
    }
    let text = read_bounded(file, SECRET_BYTES_MAX).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The key in the seed of a user, or in credentials of NATS.
pub(crate) fn key_in(text: &str) -> Option<SigningKey> {
    text.lines().find_map(|line| SigningKey::from_seed(line).ok())
}

/// Replaces a file that only this user can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), CommandError> {
    // Two processes may replace it at the same time.
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| CommandError::io("write", path, error))
}

/// A certificate for the server that is dialled by this name or address, by an authority whose key is
/// gone afterwards: hosts that trust this authority alone accept this server alone. Its files are named
/// as seen from `folder`, in which the server runs.
pub(crate) fn make_certificate(folder: &Path, name: &str) -> Result<BusCertificate, CommandError> {
    let failed = |error: rcgen::Error| {
        CommandError::cannot(error).context("cannot make a certificate for the bus")
    };
    let [authority, certificate, key] = certificate_texts(name).map_err(failed)?;
    let files = certificate_files();
    write_private(&folder.join(AUTHORITY_FILE), &authority)?;
    write_private(&folder.join(&files.certificate), &certificate)?;
    write_private(&folder.join(&files.key), &key)?;
    Ok(files)
}

pub(crate) fn certificate_files() -> BusCertificate {
    BusCertificate { certificate: "server.pem".into(), key: "server.key".into() }
}

/// The certificates of authority and server, and the key of the server, in PEM. They are valid at any
/// time: clocks of hosts may be wrong by days, and the authority signs nothing else.
fn certificate_texts(name: &str) -> Result<[String; 3], rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "durio campaign");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let trusted = authority.self_signed(&authority_key)?.pem();
    let mut server = CertificateParams::new(vec![name.to_owned()])?;
    server.distinguished_name.push(DnType::CommonName, "durio bus");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = server.signed_by(&key, &issuer)?;
    Ok([trusted, certificate.pem(), key.serialize_pem()])
}

/// The key that signs the orders of a campaign: that of `--key`; without it that of the bus, if hosts are
/// invited to one, or a new one.
pub(crate) fn signing_key(
    path: Option<&Path>,
    launch: &LaunchSettings,
) -> Result<SigningKey, CommandError> {
    let Some(path) = key_file(path, launch) else {
        if launch.via == LaunchVia::Joined {
            let text = "--via joined needs --key FILE: hosts obey the keys of their host files";
            return Err(CommandError::wrong_use(text));
        }
        return Ok(SigningKey::generate());
    };
    let text = read_secret("read the key in", path)?;
    Ok(SigningKey::from_seed(&text)?)
}

fn key_file<'p>(path: Option<&'p Path>, launch: &'p LaunchSettings) -> Option<&'p Path> {
    let of_bus = match &launch.bus {
        BusChoice::Site { credentials, invited: Some(_), .. } => Some(credentials.as_path()),
        _ => None,
    };
    path.or(of_bus)
}

/// True if the key is in no file.
fn is_made(path: Option<&Path>, launch: &LaunchSettings) -> bool {
    key_file(path, launch).is_none() && launch.via != LaunchVia::Joined
}

/// Keeps a key that was made for this campaign, because hosts obey no other until it ends. It is kept on
/// this machine alone, since folders of campaigns are passed on.
pub(crate) fn keep_key(
    path: Option<&Path>,
    launch: &LaunchSettings,
    (campaign, key): (&str, &SigningKey),
) {
    let kept = || state_folder(KEYS_FOLDER).and_then(|folder| keep(&folder, campaign, key));
    if is_made(path, launch)
        && let Err(error) = kept()
    {
        remark(&format!("durio: the campaign cannot be resumed: {}", error_chain(&error)));
    }
}

/// The key with which a campaign began.
///
/// # Errors
/// If it is not known here.
pub(crate) fn known_key(
    path: Option<&Path>,
    launch: &LaunchSettings,
    campaign: &str,
) -> Result<SigningKey, CommandError> {
    if !is_made(path, launch) {
        return signing_key(path, launch);
    }
    kept(&state_folder(KEYS_FOLDER)?, campaign)?.ok_or_else(|| {
        CommandError::cannot_measure("the key of the campaign is not on this machine")
            .hint("hosts obey no other: continue it where it began, as the same user")
    })
}

/// The same for further runs, which may have another key.
pub(crate) fn known_or_new_key(
    path: Option<&Path>,
    launch: &LaunchSettings,
    campaign: &str,
) -> Result<SigningKey, CommandError> {
    known_key(path, launch, campaign).or_else(|_| {
        let key = signing_key(path, launch)?;
        keep_key(path, launch, (campaign, &key));
        Ok(key)
    })
}

fn keep(folder: &Folder, campaign: &str, key: &SigningKey) -> Result<(), CommandError> {
    let failed = |error| CommandError::io("keep the key of the campaign in", folder.path(), error);
    let seed = key.seed()?;
    let write = || -> io::Result<()> {
        for name in folder.names()? {
            if folder.open_own(&name)?.metadata()?.modified()?.elapsed().unwrap_or_default()
                > KEPT_FOR
            {
                folder.remove_file(&name)?;
            }
        }
        let mut file = folder.make_file_with(campaign, 0o600)?;
        file.write_all(seed.as_bytes())?;
        file.sync_all()?;
        folder.sync()
    };
    write().map_err(failed)
}

fn kept(folder: &Folder, campaign: &str) -> Result<Option<SigningKey>, CommandError> {
    match folder.open_own(campaign).and_then(|file| read_bounded(file, KEY_BYTES_MAX)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(CommandError::io("read the key of the campaign in", folder.path(), error))
        }
        Ok(text) => Ok(Some(SigningKey::from_seed(&String::from_utf8_lossy(&text))?)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    const CAMPAIGN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn the_key_of_a_server_is_private_and_each_campaign_has_another_authority() {
        let folder = tempfile::tempdir().unwrap();
        let made = make_certificate(folder.path(), "10.0.0.1").unwrap();
        let key = fs::metadata(folder.path().join(&made.key)).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        let authority = || fs::read_to_string(folder.path().join(AUTHORITY_FILE)).unwrap();
        let first = authority();
        assert!(first.starts_with("-----BEGIN CERTIFICATE-----"), "{first}");
        make_certificate(folder.path(), "fleet.example").unwrap();
        assert_ne!(authority(), first);
    }

    #[test]
    fn a_secret_that_group_or_others_can_read_is_refused_with_the_command_that_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "SU").unwrap();
        let read = |mode: u32| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_secret("read the key in", &path)
                .map_err(|error| (error_chain(&error), error.hints))
        };
        let shown = path.display();
        for mode in [0o600, 0o400, 0o700] {
            assert_eq!(read(mode), Ok("SU".to_owned()), "{mode:o}");
        }
        let text = format!("other users can read '{shown}'");
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let hints = vec![format!("chmod 600 '{shown}'")];
            assert_eq!(read(mode), Err((text.clone(), hints)), "{mode:o}");
        }
        fs::remove_file(&path).unwrap();
        let error = error_chain(&read_secret("read the key in", &path).unwrap_err());
        assert!(error.starts_with(&format!("cannot read the key in '{shown}'")), "{error}");
    }

    #[test]
    fn a_key_is_found_in_a_seed_and_in_credentials_of_nats() {
        let key = SigningKey::generate();
        let seed = key.seed().unwrap();
        let credentials = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        for text in [seed.clone(), format!("{seed}\n"), credentials] {
            assert_eq!(key_in(&text).unwrap().public(), key.public());
        }
        assert!(key_in("user:password\n").is_none());
    }

    #[test]
    fn a_key_is_kept_for_its_owner_alone_and_found_by_its_campaign() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path()).unwrap();
        let key = SigningKey::generate();
        keep(&folder, CAMPAIGN, &key).unwrap();
        let found = kept(&folder, CAMPAIGN).unwrap().unwrap();
        assert_eq!(found.public(), key.public());
        let mode = fs::metadata(directory.path().join(CAMPAIGN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(kept(&folder, "another").unwrap().is_none());
        kept(&folder, "../x").unwrap_err();
        // A second key would lock the hosts out.
        keep(&folder, CAMPAIGN, &SigningKey::generate()).unwrap_err();
        fs::write(directory.path().join("empty"), "").unwrap();
        kept(&folder, "empty").unwrap_err();
    }

    #[test]
    fn keys_are_gone_after_30_days_as_the_folders_of_hosts_are() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::open(directory.path()).unwrap();
        for (name, days) in [("young", 29), ("old", 31)] {
            keep(&folder, name, &SigningKey::generate()).unwrap();
            let file = File::options().write(true).open(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
        }
        keep(&folder, CAMPAIGN, &SigningKey::generate()).unwrap();
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, [CAMPAIGN, "young"]);
    }
}
