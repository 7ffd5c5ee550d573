//! What `--bus` accepts, where a server listens, and what a host is told.

use std::os::unix::fs::PermissionsExt as _;

use durio_command::{CommandErrorKind, error_chain};

use super::*;

fn arguments(bus: Option<&str>, via: LaunchVia) -> BusArguments {
    BusArguments { bus: bus.map(ToOwned::to_owned), bus_credentials: None, bus_ca: None, via }
}

#[test]
fn the_bus_is_behind_a_tunnel_of_ssh_and_direct_in_slurm_unless_the_operator_says_otherwise() {
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let rows = [
        (None, LaunchVia::Ssh, BusChoice::Tunnel),
        (None, LaunchVia::Slurm, BusChoice::Direct { address: None, port: None }),
        (Some("direct"), LaunchVia::Ssh, BusChoice::Direct { address: None, port: None }),
        (
            Some("direct:10.0.0.1"),
            LaunchVia::Ssh,
            BusChoice::Direct { address: address("10.0.0.1"), port: None },
        ),
        (
            Some("direct:10.0.0.1:4222"),
            LaunchVia::Slurm,
            BusChoice::Direct { address: address("10.0.0.1"), port: Some(4222) },
        ),
        (
            Some("direct:[2001:db8::1]:4222"),
            LaunchVia::Ssh,
            BusChoice::Direct { address: address("2001:db8::1"), port: Some(4222) },
        ),
        (
            Some("direct:2001:db8::1"),
            LaunchVia::Ssh,
            BusChoice::Direct { address: address("2001:db8::1"), port: None },
        ),
    ];
    for (bus, via, expected) in rows {
        assert_eq!(arguments(bus, via).choice().unwrap(), expected, "{bus:?}");
    }
}

#[test]
fn a_bus_that_cannot_be_meant_is_refused_and_no_password_is_repeated() {
    let invalid = "invalid --bus: expected tunnel, direct or tls://HOST:PORT";
    let rows = [
        ("direct:0.0.0.0", LaunchVia::Ssh, invalid),
        ("direct:[::]:4222", LaunchVia::Ssh, invalid),
        ("direct:10.0.0.1:0", LaunchVia::Ssh, invalid),
        ("direct:10.0.0.1:65536", LaunchVia::Ssh, invalid),
        ("directly", LaunchVia::Ssh, invalid),
        ("user:hunter2@fleet:4222", LaunchVia::Ssh, invalid),
        ("tunnel", LaunchVia::Slurm, "--bus tunnel is carried by ssh, not by Slurm"),
        (
            "tls://user:hunter2@fleet:4222",
            LaunchVia::Ssh,
            "invalid bus address: it contains a user or a password",
        ),
        ("nats://10.0.0.1:4222", LaunchVia::Ssh, "invalid bus address: nats:// is not encrypted"),
        ("tls://fleet:4222", LaunchVia::Ssh, "the bus of the site needs --bus-credentials FILE"),
    ];
    for (bus, via, sentence) in rows {
        let error = arguments(Some(bus), via).choice().unwrap_err();
        assert_eq!(
            (error_chain(&error).as_str(), error.kind),
            (sentence, CommandErrorKind::WrongUse)
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    let with_file = BusArguments {
        bus_credentials: Some("/x".into()),
        ..arguments(Some("direct"), LaunchVia::Ssh)
    };
    let error = error_chain(&with_file.choice().unwrap_err());
    assert!(error.ends_with("are for a server of the site: --bus tls://HOST:PORT"), "{error}");
}

#[test]
fn the_server_of_a_site_needs_credentials_and_may_have_an_authority() {
    let site = BusArguments {
        bus_credentials: Some("coordinator.creds".into()),
        bus_ca: Some("ca.pem".into()),
        ..arguments(Some("tls://fleet.example:4222"), LaunchVia::Ssh)
    };
    let expected = BusChoice::Site {
        address: "tls://fleet.example:4222".to_owned(),
        credentials: "coordinator.creds".into(),
        authority: Some("ca.pem".into()),
        invited: None,
    };
    assert_eq!(site.choice().unwrap(), expected);
    assert_eq!(expected.listener(&[]).unwrap(), None);
}

#[test]
fn hosts_join_the_bus_of_a_folder_or_one_with_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus").display().to_string();
    let error = arguments(Some(&path), LaunchVia::Joined).choice().unwrap_err();
    assert_eq!(error_chain(&error), format!("'{path}' is not the folder of a bus"));
    let with_file = |bus: &str| BusArguments {
        bus_credentials: Some("coordinator.nk".into()),
        ..arguments(Some(bus), LaunchVia::Joined)
    };
    let site = with_file("tls://fleet.example:4222").choice().unwrap();
    assert!(matches!(site, BusChoice::Site { authority: None, invited: None, .. }), "{site:?}");
    let error = error_chain(&with_file(&path).choice().unwrap_err());
    assert!(error.ends_with("are for a server of the site: --bus tls://HOST:PORT"), "{error}");
}

fn host(address: &str) -> SshHost {
    SshHost { name: "db".to_owned(), user: None, address: address.to_owned(), port: None }
}

#[test]
fn without_an_address_the_server_listens_where_packets_to_the_hosts_leave() {
    let direct = BusChoice::Direct { address: None, port: Some(4222) };
    let listener = direct.listener(&[host("127.0.0.1")]).unwrap().unwrap();
    let expected =
        BusListener { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: Some(4222), is_tls: true };
    assert_eq!(listener, expected);
    let error = direct.listener(&[]).unwrap_err();
    assert_eq!(error_chain(&error), "cannot tell at which address hosts reach this machine");
    let tunnel = BusChoice::Tunnel.listener(&[host("10.0.0.1")]).unwrap().unwrap();
    assert!(tunnel.address.is_loopback() && !tunnel.is_tls);
}

#[test]
fn a_host_trusts_the_authority_of_the_invitation_alone() {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::generate();
    let bus = |authority: Option<&str>| HostBus {
        address: "tls://10.0.0.1:4222".to_owned(),
        authority: authority.map(ToOwned::to_owned),
        is_site: false,
    };
    let held = Folder::open(folder.path()).unwrap();
    let access = bus(Some("PEM")).access(&key, &held).unwrap();
    let path = folder.path().join(AUTHORITY_FILE);
    assert_eq!(access.authority.as_deref(), Some(path.as_path()));
    assert_eq!(fs::read_to_string(path).unwrap(), "PEM");
    assert_eq!(bus(None).access(&key, &held).unwrap().authority, None);
}

#[test]
fn a_host_that_cannot_reach_the_bus_says_so() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = listener.local_addr().unwrap();
    let bus = HostBus { address: format!("tls://{place}"), authority: None, is_site: false };
    bus.check().unwrap();
    drop(listener);
    let error = error_chain(&bus.check().unwrap_err());
    let expected = format!("cannot reach the bus at {place} from this host: Connection refused");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn credentials_are_the_seed_of_a_user_or_a_file_of_nats_that_others_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bus.creds");
    let sentence = |text: &str, mode: u32| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        SignIn::File(&path).options().map(|_| ()).map_err(|error| error_chain(&error))
    };
    let seed = SigningKey::generate().seed().unwrap();
    assert_eq!(sentence(&format!("{seed}\n"), 0o600), Ok(()));
    assert_eq!(sentence(&seed, 0o400), Ok(()));
    let head = "cannot sign in to the bus of this site: ";
    let shown = path.display();
    for mode in [0o640, 0o604] {
        assert_eq!(sentence(&seed, mode), Err(format!("{head}other users can read '{shown}'")));
    }
    // Its length is that of a seed, and its checksum is wrong.
    let broken = format!("{}AAAA", &seed[..seed.len() - 4]);
    let refused = format!("{head}'{shown}' has neither credentials of NATS nor the seed of a user");
    for text in [broken.as_str(), "", "user:password"] {
        assert_eq!(sentence(text, 0o600), Err(refused.clone()));
    }
    let absent = folder.path().join("absent");
    let error = SignIn::File(&absent).options().map(|_| ()).unwrap_err();
    assert!(error_chain(&error).contains("cannot read the credentials in"));
}

#[test]
fn a_tunnel_whose_port_is_open_on_other_addresses_is_noticed() {
    let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
    // Port 20001 is 4E21; addresses are in the order of a little-endian machine.
    for (local, state, is_open) in [
        ("0100007F:4E21", "0A", false),
        ("00000000:4E21", "0A", true),
        ("0500000A:4E21", "0A", true),
        ("00000000:4E22", "0A", false),
        ("00000000:4E21", "01", false),
        ("00000000000000000000000001000000:4E21", "0A", false),
        ("00000000000000000000000000000000:4E21", "0A", true),
    ] {
        let table = format!("{head}   0: {local} 00000000:0000 {state} 00000000:00000000\n");
        assert_eq!(listens_beyond_loopback(&table, 20_001), is_open, "{local} {state}");
    }
    assert!(!listens_beyond_loopback(head, 20_001));
}

#[test]
fn three_hundred_hosts_need_2000_open_files() {
    let sentence = |hosts, maximum| {
        check_file_limit(hosts, maximum).map_err(|error| (error_chain(&error), error.hints))
    };
    assert_eq!(sentence(300, Some(2_000)), Ok(()));
    assert_eq!(sentence(300, None), Ok(()));
    let text = "300 hosts need 2000 open files, and the limit is 1999".to_owned();
    let hints = vec!["ulimit -Hn 2000, as root".to_owned()];
    assert_eq!(sentence(300, Some(1_999)), Err((text, hints)));
}

#[test]
fn saved_settings_without_goals_have_none_and_an_address_is_one_host() {
    let saved = r#"{"hosts":[{"name":"n","address":"ADDRESS"}],"targets":[],"ssh_config":null,
        "via":"ssh","bus":"tunnel","push":false,"fanout":8,"run":null,"lost_wait_ns":0,
        "lost_after_ns":0}"#;
    let hosts = |address: &str| {
        let saved = saved.replace("ADDRESS", address);
        let settings: LaunchSettings = serde_json::from_str(&saved).unwrap();
        assert!(settings.goals.is_empty());
        settings.own_hosts().map_err(|error| error.to_string())
    };
    let expected = SshHost {
        name: "n".to_owned(),
        user: Some("root".to_owned()),
        address: "10.0.0.1".to_owned(),
        port: Some(2222),
    };
    assert_eq!(hosts("root@10.0.0.1:2222"), Ok(vec![expected]));
    assert_eq!(hosts("a,b"), Err("'n' is not one host".to_owned()));
}
