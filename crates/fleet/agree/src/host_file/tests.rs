//! Files of hosts, right and wrong, with the line of the fault.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use durio_command::error_chain;

use super::*;
use crate::sign::SigningKey;

const REST: &str = r#"
[[permit]]
coordinator = "storage"
target = "data"
path = "/srv/qualify"
size_max = "64GiB"
written_max = "4TiB"
rate_max = "200MiB/s"
[[permit]]
coordinator = "storage"
target = "raw"
device = "serial:S64GNE0R"
destroy = true
[limits]
duration_max = "8h"
hours = "20:00-06:00"
"#;

fn begin(key: &str) -> String {
    format!(
        "schema = 1\nname = \"db-017\"\nbus = \"tls://fleet.example:4222\"\n\
         [[coordinator]]\nname = \"storage\"\nkey = \"{key}\"\n"
    )
}

#[test]
fn the_file_of_the_manual_is_read() {
    let key = SigningKey::generate().public();
    let file = parse(&(begin(&key) + REST), "fleet.toml").unwrap();
    let permit = |target: &str, place| HostPermit {
        coordinator: "storage".to_owned(),
        target: target.to_owned(),
        place,
        size_max: None,
        written_max: None,
        rate_max: None,
    };
    let data = HostPermit {
        size_max: Some(Bytes::from_gib(64)),
        written_max: Some(Bytes::from_gib(4096)),
        rate_max: Some(Bytes::from_mib(200)),
        ..permit("data", PermittedPlace::Folder("/srv/qualify".into()))
    };
    let serial = "S64GNE0R".to_owned();
    let device = PermittedPlace::Device { serial, destroy: true, force_signature: false };
    let expected = HostFile {
        name: Some("db-017".to_owned()),
        bus: Some("tls://fleet.example:4222".to_owned()),
        coordinators: vec![TrustedCoordinator { name: "storage".to_owned(), key }],
        permits: vec![data, permit("raw", device)],
        limits: HostLimits {
            duration_max: Some(Nanos::from_secs(8 * 3600)),
            hours: Some(PermittedHours { begin: 1200, end: 360 }),
        },
    };
    assert_eq!(file, expected);
    let least = parse("schema = 1\n", "x").unwrap();
    assert_eq!((least.name, least.permits.len(), least.limits), (None, 0, HostLimits::default()));
}

/// The text, its replacement, and the sentence.
#[test]
fn every_refusal_has_its_line_column_and_sentence() {
    let key = SigningKey::generate().public();
    let text = begin(&key) + REST;
    let rows = [
        ("schema = 1", "schema = 2", "line 1, column 10: unsupported schema 2; this durio reads 1"),
        ("name = \"db-017\"", "name = \"-x\"", "line 2, column 8: host name '-x' begins with '-'"),
        (
            "tls://fleet.example",
            "tls://u:secret@fleet.example",
            "line 3, column 7: invalid bus address: it contains a user or a password",
        ),
        (
            "path = \"/srv/qualify\"",
            "pth = \"/srv/qualify\"",
            "line 11, column 1: unknown field `pth`, expected one of `coordinator`, `target`, \
             `path`, `device`, `destroy`, `force_signature`, `size_max`, `written_max`, `rate_max`",
        ),
        (
            "\"/srv/qualify\"",
            "\"srv\"",
            "line 11, column 8: 'srv' is not an absolute path without '..'",
        ),
        (
            "\"/srv/qualify\"",
            "\"/srv/../etc\"",
            "line 11, column 8: '/srv/../etc' is not an absolute path without '..'",
        ),
        (
            "path = \"/srv/qualify\"",
            "path = \"/srv\"\ndestroy = true",
            "line 12, column 11: 'destroy' is for devices; in a folder durio makes new files only",
        ),
        (
            "path = \"/srv/qualify\"",
            "path = \"/srv\"\nforce_signature = false",
            "line 12, column 19: 'force_signature' is for devices; in a folder durio makes new files \
             only",
        ),
        (
            "destroy = true",
            "force_signature = true",
            "line 19, column 19: 'force_signature' needs destroy = true",
        ),
        (
            "path = \"/srv/qualify\"",
            "path = \"/srv\"\ndevice = \"serial:1\"",
            "line 10, column 10: a permit has either 'path' or 'device'",
        ),
        (
            "serial:S64GNE0R",
            "/dev/sdb",
            "line 18, column 10: '/dev/sdb' does not name a device by serial number; expected \
             serial:NUMBER",
        ),
        (
            "target = \"raw\"",
            "target = \"data\"",
            "line 17, column 10: 'storage' has a permit for target 'data' already",
        ),
        (
            "coordinator = \"storage\"\ntarget = \"raw\"",
            "coordinator = \"stores\"\ntarget = \"raw\"",
            "line 16, column 15: no [[coordinator]] is named 'stores'",
        ),
        ("200MiB/s", "200MiB", "line 14, column 12: '200MiB' is not a rate; expected 200MiB/s"),
        (
            "20:00-06:00",
            "20-6",
            "line 22, column 9: '20-6' is not a part of the day; expected UTC as in 20:00-06:00",
        ),
        (
            "64GiB",
            "64x",
            "line 12, column 12: '64x' ends with an unknown unit; expected a size such as 4096, \
             8k, 64MiB, 1g (powers of 1024) or 64MB (of 1000)",
        ),
        (
            key.as_str(),
            "UDIK3G",
            "line 6, column 7: invalid key: Invalid key length: Bad key length: 6",
        ),
    ];
    for (old, new, sentence) in rows {
        let error = parse(&text.replacen(old, new, 1), "f.toml").unwrap_err();
        assert_eq!(error_chain(&error), format!("'f.toml' {sentence}"));
        assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
    }
    let again = format!("{text}[[coordinator]]\nname = \"storage\"\nkey = \"{key}\"\n");
    let error = parse(&again, "f").unwrap_err();
    assert!(error_chain(&error).ends_with("coordinator 'storage' is listed twice"), "{error}");
    let again = format!("{text}[[coordinator]]\nname = \"b\"\nkey = \"{key}\"\n");
    let error = parse(&again, "f").unwrap_err();
    assert!(error_chain(&error).ends_with("the key belongs to another coordinator above"));
}

#[test]
fn parts_of_the_day_have_two_different_times() {
    for (text, begin, end) in [("20:00-06:00", 1200, 360), ("00:00-23:59", 0, 1439)] {
        let hours: PermittedHours = text.parse().unwrap();
        assert_eq!((hours.begin, hours.end, hours.to_string()), (begin, end, text.to_owned()));
    }
    for text in
        ["", "20:00", "24:00-06:00", "20:60-06:00", "8:00-09:00", "+1:00-02:00", "06:00-06:00"]
    {
        assert!(text.parse::<PermittedHours>().is_err(), "{text}");
    }
}

#[test]
fn only_a_file_that_no_other_user_can_write_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.toml");
    assert!(read(&path).unwrap().is_none());
    std::fs::write(&path, "schema = 1\n").unwrap();
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let shown = path.display();
    for (mode, reason) in [
        (0o644, None),
        (0o600, None),
        (0o664, Some("can be written by its group")),
        (0o646, Some("can be written by all users")),
    ] {
        set(&path, mode);
        let found = read(&path).map(|file| file.is_some()).map_err(|error| error_chain(&error));
        let expected = match reason {
            None => Ok(true),
            Some(reason) => Err(format!("the host file is not trusted: '{shown}' {reason}")),
        };
        assert_eq!(found, expected, "{mode:o}");
    }
    set(&path, 0o644);
    set(folder.path(), 0o777);
    let error = read(&path).unwrap_err();
    let place = folder.path().display();
    assert_eq!(
        error_chain(&error),
        format!("the host file is not trusted: '{place}' can be written by all users")
    );
    assert_eq!(error.hints, [format!("as root: chown root '{place}'; chmod go-w '{place}'")]);
    set(folder.path(), 0o700);
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let error = read(&link).unwrap_err();
    assert_eq!(
        error_chain(&error),
        format!(
            "cannot read the host file '{}': it is a symbolic link, not a regular file",
            link.display()
        )
    );
    std::fs::write(&path, b"schema = 1 # \xff\n").unwrap();
    assert_eq!(error_chain(&read(&path).unwrap_err()), format!("'{shown}' is not UTF-8 text"));
}

#[test]
fn a_folder_whose_owner_could_exchange_the_file_is_not_trusted() {
    if !geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.toml");
    std::fs::write(&path, "schema = 1\n").unwrap();
    std::fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(12_345), None).unwrap();
    let place = folder.path().display();
    let sentence = format!("the host file is not trusted: '{place}' belongs to user 12345");
    assert_eq!(error_chain(&read(&path).unwrap_err()), sentence);
}

#[test]
fn the_owner_is_root_or_the_running_user() {
    let path = Path::new("/etc/durio/fleet.toml");
    let of = |owner, user| check_owner(path, owner, 0o644, user).map_err(|error| error.to_string());
    assert_eq!((of(0, 0), of(0, 1000), of(1000, 1000)), (Ok(()), Ok(()), Ok(())));
    let refused = "the host file is not trusted: '/etc/durio/fleet.toml' belongs to user 1000";
    assert_eq!(of(1000, 0), Err(refused.to_owned()));
    assert_eq!(of(1000, 1001), Err(refused.to_owned()));
}

#[test]
fn a_device_is_overwritten_only_where_the_file_says_so() {
    let key = SigningKey::generate().public();
    let text = begin(&key) + REST;
    let device = |destroy: &str| {
        let text = text.replace("serial:S64GNE0R", "serial: S64GNE0R ");
        let file = parse(&text.replace("destroy = true\n", destroy), "f").unwrap();
        file.permits.into_iter().next_back().unwrap().place
    };
    for (lines, destroy, force_signature) in [
        ("", false, false),
        ("destroy = false\n", false, false),
        ("destroy = false\nforce_signature = false\n", false, false),
        ("destroy = true\n", true, false),
        ("destroy = true\nforce_signature = false\n", true, false),
        ("destroy = true\nforce_signature = true\n", true, true),
    ] {
        let serial = "S64GNE0R".to_owned();
        let expected = PermittedPlace::Device { serial, destroy, force_signature };
        assert_eq!(device(lines), expected, "{lines}");
    }
    let rows = [
        (
            "serial:S64GNE0R",
            "serial: ",
            "line 18, column 10: 'serial: ' does not name a device by serial number; expected \
             serial:NUMBER",
        ),
        ("target = \"raw\"", "target = \"\"", "line 17, column 10: empty target"),
        (
            "path = \"/srv/qualify\"\n",
            "",
            "line 10, column 10: a permit has either 'path' or 'device'",
        ),
    ];
    for (old, new, sentence) in rows {
        let error = parse(&text.replacen(old, new, 1), "f.toml").unwrap_err();
        assert_eq!(error_chain(&error), format!("'f.toml' {sentence}"));
    }
}

#[test]
fn a_file_has_1_mib_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.toml");
    let read_of = |bytes: usize| {
        let text = "schema = 1\n#".to_owned();
        let rest = "x".repeat(bytes - text.len());
        std::fs::write(&path, text + &rest).unwrap();
        std::fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        read(&path).map(|file| file.is_some())
    };
    assert!(matches!(read_of(1_048_576), Ok(true)));
    let refused = error_chain(&read_of(1_048_577).unwrap_err());
    assert!(refused.starts_with("cannot read the host file '"), "{refused}");
}
