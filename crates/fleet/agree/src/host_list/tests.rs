//! Lists of hosts: ranges, files, duplicates and hostile names.

use durio_command::{CommandErrorKind, error_chain};
use proptest::prelude::*;

use super::*;
use crate::host_name::{HOSTS_MAX, SHOWN_CHARACTERS};

fn names(list: &str) -> Vec<String> {
    parse_list(list).unwrap().into_iter().map(|host| host.name).collect()
}

/// The sentence and the hints of a refusal.
fn refused(list: &str) -> (String, Vec<String>) {
    let error = parse_list(list).unwrap_err();
    assert_eq!(error.kind, CommandErrorKind::WrongUse, "{list:?}");
    (error_chain(&error), error.hints)
}

#[test]
fn ranges_keep_their_zeros_and_multiply() {
    let rows: [(&str, &[&str]); 7] = [
        ("db1", &["db1"]),
        ("db[08-11]", &["db08", "db09", "db10", "db11"]),
        ("db[8-11]", &["db8", "db9", "db10", "db11"]),
        ("db[001-002].lab, x", &["db001.lab", "db002.lab", "x"]),
        ("n[1-2,7]", &["n1", "n2", "n7"]),
        ("r[1-2]n[05-06]", &["r1n05", "r1n06", "r2n05", "r2n06"]),
        ("[7-8]", &["7", "8"]),
    ];
    for (list, expected) in rows {
        assert_eq!(names(list), expected, "{list}");
    }
    assert_eq!(names("db[001-250]").len(), 250);
}

#[test]
fn a_login_and_a_port_go_to_ssh_and_not_into_the_name() {
    let rows: [(&str, &str, &[&str]); 6] = [
        ("db1", "db1", &["--", "db1"]),
        ("root@db1:2222", "db1", &["-p", "2222", "--", "root@db1"]),
        ("10.0.0.7:22", "10.0.0.7", &["-p", "22", "--", "10.0.0.7"]),
        ("[2001:DB8:0::1]:65535", "ip6-2001-db8--1", &["-p", "65535", "--", "2001:db8::1"]),
        ("x@2001:db8::1", "ip6-2001-db8--1", &["--", "x@2001:db8::1"]),
        ("[::1]", "ip6---1", &["--", "::1"]),
    ];
    for (list, name, arguments) in rows {
        let hosts = parse_list(list).unwrap();
        assert_eq!((hosts[0].name.as_str(), hosts.len()), (name, 1), "{list}");
        assert_eq!(hosts[0].ssh_arguments(), arguments, "{list}");
        let again = parse_list(&hosts[0].to_string()).unwrap();
        assert_eq!(again, hosts, "{list} as printed");
    }
}

#[test]
fn every_refusal_has_its_sentence() {
    let long = "a".repeat(300);
    let long_shown = format!(
        "host name '{}…' is too long: 300 bytes, the limit is 253",
        "a".repeat(SHOWN_CHARACTERS)
    );
    let rows = [
        ("", "no hosts are named"),
        (" ", "no hosts are named"),
        ("a,,b", "empty host name in 'a,,b'"),
        ("-oProxyCommand=x", "host name '-oProxyCommand=x' begins with '-'"),
        ("root@-x", "host name '-x' begins with '-'"),
        ("-l@db1", "host name '-l@db1' begins with '-'"),
        ("@db1", "empty user name"),
        ("root@", "empty host name"),
        ("db 1", "host name 'db 1' contains a space"),
        ("db'1", "host name 'db'1' contains a quote"),
        ("db\"1", "host name 'db\"1' contains a quote"),
        ("db\n1", "host name 'db\\n1' contains a line break"),
        ("db%1", "host name 'db%1' contains '%'"),
        ("[fe80::1%eth0]", "host name '[fe80::1%eth0]' contains '%'"),
        ("db$(id)", "host name 'db$(id)' contains '$'"),
        ("db;id", "host name 'db;id' contains ';'"),
        ("../db", "host name '../db' contains '/'"),
        ("..", "host name '..' begins with '.'"),
        ("dü", "host name 'dü' contains 'ü'"),
        (long.as_str(), long_shown.as_str()),
        ("db[1-100000]", "'db[1-100000]' expands to 100000 hosts; the limit is 20000"),
        ("a[1-200]b[1-101]", "'a[1-200]b[1-101]' expands to 20200 hosts; the limit is 20000"),
        ("db[1-20000],x", "too many hosts: the limit is 20000"),
        ("db[5-1]", "'db[5-1]': range '5-1' runs backwards"),
        ("db[a-c]", "'db[a-c]': invalid range 'a-c'"),
        ("db[1-]", "'db[1-]': invalid range '1-'"),
        ("db[1234567890]", "'db[1234567890]': invalid range '1234567890'"),
        ("db[1-2", "'db[1-2': '[' and ']' do not match"),
        ("db1]", "'db1]': '[' and ']' do not match"),
        ("db[[1]]", "'db[[1]]': '[' and ']' do not match"),
        ("db1:0", "'db1:0': invalid port '0'"),
        ("db1:65536", "'db1:65536': invalid port '65536'"),
        ("db1:", "'db1:': invalid port ''"),
        ("a,b,a", "host 'a' is listed twice"),
        ("db[1-3],db2", "host 'db2' is listed twice"),
        ("DB1,db1.", "'DB1' and 'db1.' have the same name, 'db1.'"),
        ("db1,root@db1", "'db1' and 'root@db1' have the same name, 'db1'"),
        (
            "10.0.0.1,[::ffff:10.0.0.1]",
            "'10.0.0.1' and '[::ffff:10.0.0.1]' are the same host: 10.0.0.1",
        ),
        ("[2001:db8::1],2001:db8:0:0::1", "host '[2001:db8::1]' is listed twice"),
    ];
    for (list, sentence) in rows {
        assert_eq!(refused(list).0, sentence, "{list:?}");
    }
}

#[test]
fn hints_say_what_to_write_instead() {
    let rows = [
        (
            "",
            "name them by --hosts db[001-250], --hosts FILE with one host per line, or $DURIO_HOSTS",
        ),
        ("-x", "ssh would read it as an option"),
        ("a b", "letters, digits, '.', '-' and '_' are allowed"),
        ("a[1-100000]", "check the range for a digit too many"),
        ("a,a", "name each host once"),
        ("a[x]", "a range has two numbers of at most 9 digits, as in [001-250]"),
        ("a:x", "a port is a number from 1 to 65535; IPv6 with a port is [ADDRESS]:PORT"),
    ];
    for (list, hint) in rows {
        assert_eq!(refused(list).1, [hint], "{list:?}");
    }
}

#[test]
fn the_limits_are_reached_and_not_passed() {
    assert_eq!(parse_list("db[1-20000]").unwrap().len(), HOSTS_MAX);
    assert_eq!(names(&"a".repeat(253)), ["a".repeat(253)]);
    assert!(refused(&"a".repeat(254)).0.ends_with("254 bytes, the limit is 253"));
    assert!(parse_list("db[999999998-999999999]").is_ok());
}

#[test]
fn a_file_has_a_host_per_line_and_its_errors_have_lines() {
    let text = "\u{feff}# rack 1\r\ndb[1-2]\r\n\n  root@x  # spare\n[2001:db8::7]\n";
    let list = parse_file(text, "hosts.txt", None).unwrap();
    let found: Vec<&str> = list.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(found, ["db1", "db2", "x", "ip6-2001-db8--7"]);
    let error = parse_file("a\nb c\n", "hosts.txt", None).unwrap_err();
    assert_eq!(error_chain(&error), "line 2 of 'hosts.txt': host name 'b c' contains a space");
    let error = parse_file("a\n", "hosts.txt", Some("db")).unwrap_err();
    assert_eq!(error_chain(&error), "'hosts.txt' is a list and has no groups");
    let error = parse_file("# none\n", "hosts.txt", None).unwrap_err();
    assert_eq!(error_chain(&error), "no hosts are named");
}

#[test]
fn the_option_goes_before_the_variable_and_a_slash_means_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    std::fs::write(&path, "n1\nn2\n").unwrap();
    let named = |option: Option<&OsStr>, variable: Option<&OsStr>| {
        let list = named_or(option, variable, None).map_err(|error| error_chain(&error))?;
        Ok::<_, String>(list.hosts.into_iter().map(|host| host.name).collect::<Vec<_>>())
    };
    let (file, list) = (path.as_os_str(), OsStr::new("v[1-2]"));
    assert_eq!(named(Some(file), Some(list)).unwrap(), ["n1", "n2"]);
    assert_eq!(named(None, Some(list)).unwrap(), ["v1", "v2"]);
    assert_eq!(named(None, Some(OsStr::new(""))).unwrap_err(), "no hosts are named");
    let refused = named(None, Some(OsStr::new("a b"))).unwrap_err();
    assert_eq!(refused, "$DURIO_HOSTS: host name 'a b' contains a space");
    let absent = folder.path().join("absent");
    let refused = named(Some(absent.as_os_str()), None).unwrap_err();
    let expected = format!("cannot read the hosts in '{}': ", absent.display());
    assert!(refused.starts_with(&expected), "{refused}");
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_place() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    std::fs::write(&path, b"db1\ndb\xff\n").unwrap();
    let error = read(path.as_os_str(), None).unwrap_err();
    let expected = format!("'{}' is not UTF-8 text: byte 7", path.display());
    assert_eq!(error_chain(&error), expected);
    let error = read(OsStr::from_bytes(b"db\xff"), None).unwrap_err();
    assert_eq!(error_chain(&error), "the list of hosts is not UTF-8 text");
}

#[test]
fn a_name_is_not_a_list_a_range_or_an_address_with_a_login() {
    assert_eq!(parse_name("db1.example").unwrap().address, "db1.example");
    for text in ["", "db[1-2]", "db[1]", "a,a2", "root@db1", "db1:22", "-oProxyCommand=x", "a b"] {
        assert_eq!(parse_name(text), None, "{text}");
    }
}

#[test]
fn a_list_has_no_groups_and_long_words_are_cut_after_64_characters_in_messages() {
    let error = read(OsStr::new("db[1-2]"), Some("db")).unwrap_err();
    assert_eq!(error_chain(&error), "a list of host names has no groups");
    assert_eq!(error.hints, ["name an inventory file to select one of its groups"]);
    let sentence = |word: &str| refused(&format!("{word}!")).0;
    let (whole, long) = ("ä".repeat(63), "ä".repeat(64));
    assert_eq!(sentence(&whole), format!("host name '{whole}!' contains 'ä'"));
    assert_eq!(sentence(&long), format!("host name '{long}…' contains 'ä'"));
    assert_eq!(refused("a\tb").0, "host name 'a\\tb' contains '\\t'");
}

#[test]
fn a_file_of_hosts_has_16_mib_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    let read_of = |bytes: usize| {
        let text = "a\n#".to_owned();
        let rest = "x".repeat(bytes - text.len());
        std::fs::write(&path, text + &rest).unwrap();
        read(path.as_os_str(), None).map(|list| list.hosts.len())
    };
    assert_eq!(read_of(16_777_216).unwrap(), 1);
    let refused = error_chain(&read_of(16_777_217).unwrap_err());
    assert!(refused.starts_with("cannot read the hosts in '"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse_list(&text);
        let _ = parse_file(&text, "hosts", None);
    }

    #[test]
    fn nothing_like_a_list_makes_the_parser_panic(text in "[a-c0-9@:,.\\[\\] -]{0,40}") {
        let _ = parse_list(&text);
        let _ = parse_file(&text, "hosts", None);
    }

    #[test]
    fn a_range_is_its_numbers(
        begin in "[a-z][a-z0-9-]{0,8}",
        first in 0_u64..5_000,
        count in 1_u64..200,
        width in 1_usize..6,
        end in "(\\.[a-z]{1,5})?",
    ) {
        let last = first + count - 1;
        let list = format!("{begin}[{first:0width$}-{last:0width$}]{end}");
        let is_padded = format!("{first:0width$}").starts_with('0');
        let width = if is_padded { width } else { 0 };
        let expected: Vec<String> =
            (first..=last).map(|number| format!("{begin}{number:0width$}{end}")).collect();
        prop_assert_eq!(names(&list), expected);
    }

    #[test]
    fn a_host_is_read_back_as_it_is_printed(
        user in proptest::option::of("[a-z_][a-z0-9_-]{0,8}"),
        address in prop_oneof![
            "[a-z0-9][a-z0-9.-]{0,20}",
            any::<[u8; 4]>().prop_map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            any::<[u16; 8]>().prop_map(|parts| std::net::Ipv6Addr::from(parts).to_string()),
        ],
        port in proptest::option::of(1_u16..),
    ) {
        let login = user.map(|user| user + "@").unwrap_or_default();
        let bracketed =
            if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let written = format!("{login}{bracketed}{port}");
        let hosts = parse_list(&written).unwrap();
        prop_assert_eq!(hosts.len(), 1);
        prop_assert_eq!(hosts[0].to_string(), written);
    }
}
