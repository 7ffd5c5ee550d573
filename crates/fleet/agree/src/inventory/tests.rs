//! Inventories of Ansible and Slurm.

use durio_command::error_chain;
use proptest::prelude::*;

use crate::host_list::parse_file;

/// Each host as ssh is called.
fn hosts(text: &str, file: &str, group: Option<&str>) -> Vec<String> {
    let list = parse_file(text, file, group).unwrap_or_else(|error| panic!("{error:?}"));
    let line = |host: &crate::host_name::SshHost| format!("{} {host}", host.name);
    list.hosts.iter().map(line).collect()
}

fn refused(text: &str, file: &str) -> String {
    error_chain(&parse_file(text, file, None).unwrap_err())
}

const INI: &str = "\
; the lab
gate ansible_port=2200
[db]
db[01:03] color=blue
db02 ansible_host=10.1.0.2 ansible_ssh_common_args='-o X=y'
[web]
web1.example   # spare
[all:vars]
ansible_user = ops
[db:vars]
ansible_user=storage
ansible_port=22
[racks:children]
db
web
";

#[test]
fn an_ini_inventory_gives_hosts_with_the_variables_of_their_groups() {
    assert_eq!(
        hosts(INI, "lab", None),
        [
            "gate ops@gate:2200",
            "db01 storage@db01:22",
            "db02 storage@10.1.0.2:22",
            "db03 storage@db03:22",
            "web1.example ops@web1.example",
        ]
    );
    assert_eq!(hosts(INI, "lab", Some("web")), ["web1.example ops@web1.example"]);
    assert_eq!(hosts(INI, "lab", Some("racks")).len(), 4);
    assert_eq!(hosts(INI, "lab", Some("all")).len(), 5);
    let list = parse_file(INI, "lab", None).unwrap();
    assert_eq!(list.unused_variables, ["ansible_ssh_common_args"]);
    let error = parse_file(INI, "lab", Some("dbs")).unwrap_err();
    assert_eq!(error_chain(&error), "the inventory has no group 'dbs'");
    assert_eq!(error.hints, ["did you mean 'db'?"]);
}

#[test]
fn deeper_groups_override_and_the_host_overrides_all() {
    let text = "[a]\nh1\nh2 ansible_user=own\n[b:children]\na\n[b:vars]\nansible_user=of_b\n\
                ansible_port=1\n[a:vars]\nansible_user=of_a\n";
    assert_eq!(hosts(text, "x", None), ["h1 of_a@h1:1", "h2 own@h2:1"]);
    // Of the same depth, the later in the alphabet.
    let text = "[z]\nh\n[y]\nh\n[y:vars]\nansible_user=y\n[z:vars]\nansible_user=z\n";
    assert_eq!(hosts(text, "x", None), ["h z@h"]);
}

#[test]
fn one_address_with_several_ports_is_several_hosts() {
    let text = "a ansible_host=10.0.0.1 ansible_port=2201\nb ansible_host=10.0.0.1:2202\n";
    assert_eq!(hosts(text, "x", None), ["a 10.0.0.1:2201", "b 10.0.0.1:2202"]);
    let text = "a ansible_host=10.0.0.1\nb ansible_host=::ffff:10.0.0.1\n";
    assert_eq!(
        refused(text, "x"),
        "'10.0.0.1' and '[::ffff:10.0.0.1]' are the same host: 10.0.0.1"
    );
}

#[test]
fn a_yaml_inventory_is_read_as_its_ini_form() {
    let text = "\
---
all:
  vars: {ansible_user: ops, other: [1, 2]}
  hosts:
    gate:
      ansible_port: 2200
  children:
    racks:
      children:
        db:
          hosts:
            db[01:03]:
            db02: {ansible_host: 10.1.0.2}
          vars:
            ansible_user: 'storage'
            ansible_connection: ssh
        web:
          hosts: {web1.example: ~}
";
    assert_eq!(
        hosts(text, "lab", None),
        [
            "gate ops@gate:2200",
            "db01 storage@db01",
            "db02 storage@10.1.0.2",
            "db03 storage@db03",
            "web1.example ops@web1.example",
        ]
    );
    assert_eq!(hosts(text, "lab.yml", Some("racks")).len(), 4);
    let list = parse_file(text, "lab.yml", None).unwrap();
    assert_eq!(list.unused_variables, ["ansible_connection"]);
}

#[test]
fn the_json_of_ansible_inventory_is_read() {
    let text = r#"{
        "_meta": {"hostvars": {"db1": {"ansible_host": "10.0.0.9", "ansible_port": 2222,
            "ansible_user": "s", "list": [1]}}},
        "all": {"children": ["ungrouped", "db"]},
        "db": {"hosts": ["db1", "db2"]}
    }"#;
    assert_eq!(hosts(text, "-", None), ["db1 s@10.0.0.9:2222", "db2 db2"]);
    assert_eq!(hosts(text, "-", Some("db")).len(), 2);
    let sentence = refused("{\"db\": {\"hosts\": 7}}", "x");
    assert!(
        sentence.starts_with("inventory 'x': group 'db': not the JSON of ansible-inventory: inv"),
        "{sentence}"
    );
}

#[test]
fn the_output_of_scontrol_is_a_list() {
    assert_eq!(hosts("n001\nn002\n", "/dev/fd/63", None), ["n001 n001", "n002 n002"]);
}

#[test]
fn every_refusal_names_the_inventory_and_the_line() {
    let rows = [
        ("[db]\n-x\n", "inventory 'i': line 2: host name '-x' begins with '-'"),
        (
            "[db]\nh ansible_port\n",
            "inventory 'i': line 2: expected VARIABLE=VALUE, found 'ansible_port'",
        ),
        ("[db:hosts]\n", "inventory 'i': line 1: unknown section '[db:hosts]'"),
        ("[d b]\n", "inventory 'i': line 1: group name 'd b' contains a space"),
        ("[a:children]\nb\n", "inventory 'i': group 'b' has no section"),
        (
            "[db]\ndb[1:100000]\n",
            "inventory 'i': line 2: 'db[1:100000]' expands to 100000 hosts; the limit is 20000",
        ),
        ("[db]\ndb[a:f]\n", "inventory 'i': line 2: 'db[a:f]': invalid range 'a:f'"),
        ("[db]\nh ansible_port=0\n", "'h': invalid port '0'"),
        ("[db]\nh ansible_host='{{ ip }}'\n", "host 'h': host name '{{ ip }}' contains '{'"),
        ("[db]\nh ansible_user='a b'\n", "host 'h': user name 'a b' contains a space"),
        ("[db]\nh ansible_host=x[1:2]\n", "host 'h': ansible_host 'x[1:2]' is more than one host"),
        ("[a:children]\nb\n[b:children]\na\n", "group 'a' is a child of itself"),
        ("[db]\n", "no hosts are named"),
        ("[db]\ndb1\nDB1\n", "'db1' and 'DB1' have the same name, 'DB1'"),
        (
            "all:\n  hosts: [a]\n",
            "inventory 'i': line 2: expected names with ':' in 'hosts' of group 'all'",
        ),
        ("all:\n  host:\n    a:\n", "inventory 'i': line 2: unknown key 'host' of group 'all'"),
        ("all:\n  hosts:\n    '-x':\n", "inventory 'i': line 3: host name '-x' begins with '-'"),
    ];
    for (text, sentence) in rows {
        assert_eq!(refused(text, "i"), sentence, "{text}");
    }
    let alias = refused("---\na: &x\n  hosts:\n    h:\nb: *x\n", "i");
    assert_eq!(alias, "inventory 'i': line 5: aliases are not supported");
    let deep = format!("---\n{}", "- ".repeat(500_000));
    assert_eq!(refused(&deep, "i"), "inventory 'i': line 2: more than 64 levels");
    let unclosed = refused("---\nall: {hosts: \n", "i");
    assert!(unclosed.starts_with("inventory 'i': line "), "{unclosed}");
}

#[test]
fn the_form_of_a_file_shows_in_its_first_line_that_is_not_a_comment_or_in_its_ending() {
    let rows = [
        ("# the lab\n\nall:\n  hosts:\n    a:\n", "x", "a a"),
        ("all: {hosts: {a: ~}}\n", "x.yml", "a a"),
        ("all: {hosts: {a: ~}}\n", "x.yaml", "a a"),
        ("a ansible_port=7\n", "x", "a a:7"),
        ("# a ansible_port=7\na\n", "x", "a a"),
        ("[db] # spare\na\n", "x", "a a"),
    ];
    for (text, file, host) in rows {
        assert_eq!(hosts(text, file, None), [host], "{text}");
    }
}

#[test]
fn brackets_around_an_address_or_a_range_are_a_host_and_no_section() {
    let text = "[db]\n[2001:db8::7]\n[7:8]\nn[1:2] ansible_user=ops\n";
    assert_eq!(
        hosts(text, "x", Some("db")),
        ["ip6-2001-db8--7 [2001:db8::7]", "7 7", "8 8", "n1 ops@n1", "n2 ops@n2"]
    );
}

#[test]
fn variables_in_quotes_are_one_word_and_of_a_group_or_a_host_the_last_counts() {
    let text = "[db]\na ansible_user='x' ansible_user=\"y\" # ansible_user=z\n[db:vars]\n\
                ansible_port=1\nansible_port=2 # ansible_port=3\n";
    assert_eq!(hosts(text, "x", None), ["a y@a:2"]);
    // A host of several groups is there once, at its first place.
    let text = "[web]\nb\na\n[db]\na\nc\n";
    assert_eq!(hosts(text, "x", None), ["b b", "a a", "c c"]);
}

#[test]
fn groups_levels_and_ports_are_accepted_up_to_their_limits() {
    let groups = |count: usize| {
        (0..count).map(|number| format!("[g{number}]\n")).collect::<String>() + "a\n"
    };
    assert_eq!(hosts(&groups(2_000), "i", Some("g1999")), ["a a"]);
    let sentence = "inventory 'i': line 2001: too many groups: the limit is 2000";
    assert_eq!(refused(&groups(2_001), "i"), sentence);
    let list = |levels: usize| format!("---\n{}a\n", "- ".repeat(levels));
    let sentence = "inventory 'i': line 2: expected names with ':' in the inventory";
    assert_eq!(refused(&list(64), "i"), sentence);
    assert_eq!(refused(&list(65), "i"), "inventory 'i': line 2: more than 64 levels");
    assert_eq!(hosts("a ansible_port=65535\n", "i", None), ["a a:65535"]);
    for port in ["65536", "+22", "-1", "ssh"] {
        let sentence = format!("'a': invalid port '{port}'");
        assert_eq!(refused(&format!("a ansible_port={port}\n"), "i"), sentence);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>()) {
        for file in ["x", "x.yml"] {
            let _ = parse_file(&text, file, None);
        }
        for begin in ["[a]\n", "---\n", "{"] {
            let _ = parse_file(&format!("{begin}{text}"), "x", None);
        }
    }

    #[test]
    fn nothing_like_an_inventory_makes_a_reader_panic(
        lines in proptest::collection::vec(
            prop_oneof![
                "\\[[a-c:]{0,9}\\]",
                "[a-c]{1,3}( ansible_(host|port)=[a-c0-9:']{0,4})?",
                " {0,4}[a-c]: ?[&*{\\[\\]}a]{0,3}",
            ],
            0..30,
        ),
    ) {
        let text = lines.join("\n");
        let _ = parse_file(&text, "x", None);
        let _ = parse_file(&text, "x.yml", Some("a"));
    }
}
