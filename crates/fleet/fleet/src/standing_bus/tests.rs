//! The folder of a bus that stays, and who is let in.

use durio_agree::host_file;

use super::*;

fn arguments(folder: &Path, listen: Option<&str>, public: Option<&str>) -> ServeArguments {
    ServeArguments {
        listen: listen.map(ToOwned::to_owned),
        public: public.map(ToOwned::to_owned),
        folder: Some(folder.to_owned()),
        prepare: true,
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_folder_is_private_and_a_later_start_uses_what_is_there() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("bus");
    let error = StandingBus::open(Some(&folder)).unwrap_err();
    assert!(error_chain(&error).ends_with("is not the folder of a bus"), "{error}");
    serve(&arguments(&folder, Some("0.0.0.0:4300"), Some("fleet.example"))).unwrap();
    assert_eq!(mode(&folder), 0o700);
    for name in [PLACE_FILE, COORDINATOR_FILE, AUTHORITY_FILE, "server.key", "nats.conf"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    let key = StandingBus::open(Some(&folder)).unwrap().coordinator_key().unwrap();
    let (again, lock) = StandingBus::open_or_make(&arguments(&folder, None, None)).unwrap();
    assert_eq!(again.place.url(), "tls://fleet.example:4300");
    assert_eq!(again.coordinator_key().unwrap(), key);
    // Coordinators find the address of the bus that is served.
    let elsewhere = arguments(&folder, Some("10.0.0.1"), None);
    let error = StandingBus::open_or_make(&elsewhere).unwrap_err();
    let sentence = format!("another durio-fleet serves the bus of '{}'", folder.display());
    assert_eq!(error_chain(&error), sentence);
    assert_eq!(StandingBus::open(Some(&folder)).unwrap().place, again.place);
    drop(lock);
    // Reserved for documents (RFC 5737).
    let nowhere = ServeArguments { prepare: false, ..arguments(&folder, Some("192.0.2.1"), None) };
    serve(&nowhere).unwrap_err();
    assert_eq!(StandingBus::open(Some(&folder)).unwrap().place, again.place, "it did not start");
    // Another address is not another name: hosts need no new credentials.
    let (moved, _lock) = StandingBus::open_or_make(&elsewhere).unwrap();
    assert_eq!(moved.place.url(), "tls://fleet.example:4222");
    let error =
        StandingBus::open_or_make(&arguments(&folder, None, Some("other.example"))).unwrap_err();
    assert!(error_chain(&error).ends_with("is for 'fleet.example'"), "{error}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    let error = StandingBus::open(Some(&folder)).unwrap_err();
    assert!(error_chain(&error).starts_with("other users can look into"), "{error}");
    assert_eq!(error.hints, [format!("chmod 700 '{}'", folder.display())]);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
        let error = error_chain(&StandingBus::open(Some(&folder)).unwrap_err());
        assert!(error.ends_with("it belongs to user 12345"), "{error}");
    }
}

#[test]
fn a_place_that_no_host_can_dial_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("bus");
    for (listen, public, sentence) in [
        (None, None, "a new bus needs --listen ADDRESS[:PORT]"),
        (Some("fleet"), None, "invalid --listen 'fleet'"),
        (Some("10.0.0.1:0"), None, "invalid --listen '10.0.0.1:0'"),
        (Some("0.0.0.0"), None, "no host can dial 0.0.0.0: name the bus by --public HOST"),
        (Some("10.0.0.1"), Some("-x"), "host name '-x' begins with '-'"),
    ] {
        let error = StandingBus::open_or_make(&arguments(&folder, listen, public)).unwrap_err();
        assert_eq!(error_chain(&error), sentence);
        assert!(!folder.exists(), "{sentence}");
    }
    let place = |public: &str| BusPlace {
        address: "::1".parse().unwrap(),
        port: 4222,
        public: public.to_owned(),
    };
    assert_eq!(place("2001:db8::1").url(), "tls://[2001:db8::1]:4222");
}

fn invitation(folder: &Path, name: &str, revoke: bool) -> Result<(), String> {
    let arguments =
        InviteArguments { names: vec![name.to_owned()], revoke, folder: Some(folder.to_owned()) };
    invite(&arguments).map_err(|error| error_chain(&error))
}

#[test]
fn hosts_are_users_of_the_server_from_their_invitation_until_it_is_revoked() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("bus");
    serve(&arguments(&folder, Some("127.0.0.1:4222"), None)).unwrap();
    invitation(&folder, "db[1-2]", false).unwrap();
    let invited = Err("db2 has been invited already".to_owned());
    assert_eq!(invitation(&folder, "db2,db3", false), invited);
    assert_eq!(invitation(&folder, "db3", true), Err("db3 is not invited".to_owned()));
    let user = Err("'root@db4' is not a name of a host".to_owned());
    assert_eq!(invitation(&folder, "root@db4", false), user);

    let bus = StandingBus::open(Some(&folder)).unwrap();
    // One that is being invited has no key yet.
    fs::create_dir(bus.host_folder("db9")).unwrap();
    let keys = invited_keys(&folder.join(HOSTS_FOLDER)).unwrap();
    assert_eq!(keys.keys().collect::<Vec<_>>(), ["db1", "db2"]);
    let host = bus.host_folder("db1");
    assert_eq!((mode(&host), mode(&host.join("bus.creds"))), (0o700, 0o600));
    let seed = fs::read_to_string(host.join("bus.creds")).unwrap();
    assert_eq!(SigningKey::from_seed(&seed).unwrap().public(), keys["db1"]);
    let text = fs::read_to_string(host.join("fleet.toml")).unwrap();
    let file = host_file::parse(&text, "fleet.toml").unwrap();
    let named = (file.name.as_deref(), file.bus.as_deref(), file.permits.len());
    assert_eq!(named, (Some("db1"), Some("tls://127.0.0.1:4222"), 0));
    assert_eq!(file.coordinators[0].key, bus.coordinator_key().unwrap());
    let permit = text.replace("# [[", "[[").replace("\n# ", "\n");
    let permit = permit.split_once("such as this.\n").unwrap().1;
    let file = host_file::parse(&format!("{text}{permit}"), "fleet.toml").unwrap();
    assert_eq!(file.permits.len(), 1);

    let settings = || fs::read_to_string(folder.join("nats.conf")).unwrap();
    assert!(settings().contains(&keys["db1"]) && settings().contains(&keys["db2"]));
    assert!(settings().contains("  cert_file: \"server.pem\"\n"), "{}", settings());
    invitation(&folder, "db1", true).unwrap();
    assert!(!settings().contains(&keys["db1"]) && settings().contains(&keys["db2"]));
    assert!(!host.exists());
    // New credentials, another key.
    invitation(&folder, "db1", false).unwrap();
    assert_ne!(invited_keys(&folder.join(HOSTS_FOLDER)).unwrap()["db1"], keys["db1"]);
}

#[test]
fn invitations_at_the_same_time_lose_no_key_and_one_of_two_for_a_host_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("bus");
    serve(&arguments(&folder, Some("127.0.0.1:4222"), None)).unwrap();
    let commons: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let commands: Vec<_> = (0..4)
            .map(|thread| {
                let folder = &folder;
                scope.spawn(move || {
                    for host in 0..5 {
                        invitation(folder, &format!("db{thread}{host}"), false).unwrap();
                    }
                    invitation(folder, "common", false)
                })
            })
            .collect();
        commands.into_iter().map(|command| command.join().unwrap()).collect()
    });
    let refused = Err("common has been invited already".to_owned());
    assert_eq!(commons.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(commons.iter().filter(|result| **result == refused).count(), 3);
    let keys = invited_keys(&folder.join(HOSTS_FOLDER)).unwrap();
    let settings = fs::read_to_string(folder.join("nats.conf")).unwrap();
    assert_eq!(keys.len(), 21);
    assert_eq!(keys.values().filter(|key| settings.contains(*key)).count(), 21);
    let seed = fs::read_to_string(folder.join("hosts/common/bus.creds")).unwrap();
    assert_eq!(SigningKey::from_seed(&seed).unwrap().public(), keys["common"]);
}
