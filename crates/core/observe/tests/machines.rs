//! Made-up and recorded machines: each is read to the end, whatever its files hold.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use durio_observe::{LayerKind, Stack, read_host_in, read_stack_in};
use testkit::{Entry, Machine, machines};

fn read(root: &Path, machine: &Machine) -> Option<Stack> {
    read_stack_in(root, &machine.target).ok()
}

#[test]
fn every_machine_says_what_it_is_and_where_it_is_from() {
    let machines = machines();
    assert!(machines.len() >= 25, "{}", machines.len());
    for machine in &machines {
        assert!(!machine.about.is_empty() && !machine.signals.is_empty(), "{}", machine.name);
        let origin = ["recorded on ", "made by hand from "];
        assert!(origin.iter().any(|origin| machine.origin.starts_with(origin)), "{}", machine.name);
    }
    assert!(machines.iter().any(|machine| machine.origin.starts_with("recorded")));
}

#[test]
fn every_machine_is_walked_down_to_its_end() {
    for machine in machines() {
        let tree = machine.tree();
        let stack = read(tree.path(), &machine).unwrap_or_else(|| panic!("{}", machine.name));
        let lowest = stack.walk().filter(|(_, layer)| layer.below.is_empty());
        let hidden = lowest.filter(|(_, layer)| layer.kind == LayerKind::Unknown).count();
        let expected =
            usize::from(machine.signals.iter().any(|signal| signal == "fact hidden-below"));
        assert_eq!(hidden, expected, "{}: {:#?}", machine.name, stack.root);
    }
}

/// What a file may hold instead of what the kernel documents.
const SPOILS: [&[u8]; 5] = [b"", b"\n", b"\xff\xfe\0\x01[", b"18446744073709551616\n", b"[[[]-,:="];

/// Where the files are that tell of the machine rather than of a device.
const OF_THE_HOST: [&str; 4] = ["/proc", "/etc", "/sys/class", "/sys/module"];

/// Calls `look` with each file of the machine as `spoil` leaves it, one after the other.
fn with_each_file(spoil: impl Fn(&Path, usize), mut look: impl FnMut(&Path, &Machine)) {
    for machine in machines() {
        let tree = machine.tree();
        for (index, entry) in machine.entries.iter().enumerate() {
            let Entry::File { path, .. } = entry else { continue };
            let path = tree.path().join(path.trim_start_matches('/'));
            let content = std::fs::read(&path).unwrap();
            spoil(&path, index);
            look(tree.path(), &machine);
            if OF_THE_HOST.iter().any(|folder| entry.path().starts_with(folder)) {
                let _ = read_host_in(tree.path());
            }
            std::fs::write(&path, content).unwrap();
        }
    }
}

#[test]
fn whatever_one_file_holds_the_machine_is_read() {
    let spoil = |path: &Path, index| std::fs::write(path, SPOILS[index % SPOILS.len()]).unwrap();
    with_each_file(spoil, |root, machine| drop(read(root, machine)));
}

#[test]
fn whichever_file_is_missing_the_rest_is_read() {
    let remove = |path: &Path, _| std::fs::remove_file(path).unwrap();
    with_each_file(remove, |root, machine| drop(read(root, machine)));
}

#[test]
fn with_every_file_empty_or_garbage_there_is_an_error_or_a_stack() {
    for (index, machine) in machines().into_iter().enumerate() {
        // Each machine with some of them: all with all takes long and shows no more.
        for spoil in [SPOILS[index % SPOILS.len()], SPOILS[(index + 2) % SPOILS.len()]] {
            let tree = machine.expand(|_, _| Some(spoil.to_vec()));
            assert!(read(tree.path(), &machine).is_none(), "without mounts no path is known");
        }
    }
}

#[test]
fn files_that_may_not_be_read_are_as_good_as_absent() {
    let machine = machines().remove(0);
    let tree = machine.tree();
    let whole = read(tree.path(), &machine).unwrap();
    for entry in &machine.entries {
        let Entry::File { path, .. } = entry else { continue };
        let path = tree.path().join(path.trim_start_matches('/'));
        // Root reads what it likes, so that a folder stands for a file that cannot be read.
        if path.ends_with("proc/self/mountinfo") || path.ends_with("dev") {
            continue;
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
    }
    let unreadable = read(tree.path(), &machine).unwrap();
    assert_ne!(whole, unreadable);
    // The bus is no file: it follows from the place of the folder.
    let mut facts = unreadable.walk().flat_map(|(_, layer)| &layer.facts);
    assert!(facts.all(|fact| fact.name == "bus"), "{unreadable:#?}");
}
