//! Forged archives of a guest: an untrusted kernel's input to `durio lab run --out`.
//!
//! Reports files that end up outside the folder. A program in QEMU's place sends the frames, so the
//! whole way from the port to the folder is attacked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Result;

use super::arena::{self, Arena, AttackCase};
use super::kills::PlaceSnapshot;
use super::mutate::{TextForm, mutate};
use super::random::Random;
use super::rows::{AttackRow, nothing};
use super::witness::{FolderTree, faults_but};

const LIMIT: Duration = Duration::from_secs(30);
/// Content of a frame at most.
// CONTENT_BYTES_MAX of durio-lab's `wire`; a longer frame is refused before it is read.
const FRAME_BYTES: usize = 1 << 20;
const READY: u8 = 1;
const ARCHIVE: u8 = 4;
const EXIT: u8 = 5;
/// The exit codes of `durio lab` if the guest failed, and if its time was over.
const LAB_FAILED: i32 = 125;
const TIMED_OUT: i32 = 124;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;
// The last has the set-user-ID bit, which must not arrive.
const KINDS: [u32; 8] = [FOLDER, FILE, LINK, FILE, LINK, 0o020_666, 0o010_666, 0o104_755];

pub(super) fn rows() -> Vec<AttackRow> {
    vec![
        AttackRow {
            name: "archives:forged",
            small: 30,
            full: 900,
            missing: nothing,
            attack: forged,
        },
        AttackRow {
            name: "archives:mutated",
            small: 10,
            full: 100,
            missing: nothing,
            attack: mutated,
        },
        AttackRow {
            name: "archives:hanging",
            small: 3,
            full: 30,
            missing: nothing,
            attack: hanging,
        },
    ]
}

/// Whole archives with entries that point elsewhere.
fn forged(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let mut archive = Vec::new();
    for (name, mode, content) in entries(&case, number, random) {
        append(&mut archive, name.as_bytes(), mode, content.len(), &content);
    }
    if random.once_in(20) {
        // Larger than the archive, and than memory should take.
        append(&mut archive, b"large", FILE, 1 << 30, &[]);
    }
    append(&mut archive, b"TRAILER!!!", 0, 0, &[]);
    bring_out(&case, &frames(&archive))
}

/// Good archives with mutated bytes, or with mutations in the frames around them.
fn mutated(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    let mut archive = Vec::new();
    append(&mut archive, b"a", FOLDER, 0, &[]);
    append(&mut archive, b"a/file", FILE, 5, b"hello");
    append(&mut archive, b"a/link", LINK, 4, b"file");
    append(&mut archive, b"TRAILER!!!", 0, 0, &[]);
    let bytes = match random.once_in(2) {
        true => frames(&mutate(&archive, TextForm::Bytes, &[], random)),
        false => mutate(&frames(&archive), TextForm::Bytes, &[], random),
    };
    bring_out(&case, &bytes)
}

/// A QEMU that does not end, or leaves a child behind: the time limit must hold.
fn hanging(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    const SCRIPTS: [&str; 3] = [
        "sleep 120",
        "case \"$*\" in *--version*) echo 'QEMU emulator version 7.2.0';; *) sleep 120 & wait;; esac",
        "case \"$*\" in *--version*) echo 'QEMU emulator version 7.2.0'; sleep 120 & ;; *) sleep 120;; esac",
    ];
    let case = arena.clean_case()?;
    stand_in(&case, SCRIPTS[number % SCRIPTS.len()])?;
    let place = PlaceSnapshot::of(arena, &case)?;
    let line = lab("--time-limit 2s");
    let ended =
        // durio waits 10 s for an answer of QEMU: with a limit of 15 s, on a loaded machine, it was
        // killed before it had ended its children.
        case.durio(&line).env("PATH", search_path(&case)).limit(Duration::from_secs(60)).run()?;
    let mut wrong = faults_but(&ended, &[LAB_FAILED, TIMED_OUT]);
    // Processes killed with their group may take a moment to disappear.
    wrong.extend(place.settled_differences(arena));
    Ok(wrong)
}

fn lab(options: &str) -> String {
    let kernel = "--kernel kernel --modules modules --root shared --timing counted";
    format!("lab run {kernel} --out out {options} -- true")
}

fn search_path(case: &AttackCase) -> String {
    format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", case.path("bin").display())
}

/// Entries: known ways out first, then random ones.
fn entries(case: &AttackCase, number: usize, random: &mut Random) -> Vec<(String, u32, Vec<u8>)> {
    let victims = case.path("data").display().to_string();
    let link = |name: &str, to: &str| (name.to_owned(), LINK, to.as_bytes().to_vec());
    let file = |name: &str| (name.to_owned(), FILE, b"evil".to_vec());
    let known = [
        vec![link("d", &victims), link("d/evil", "x")],
        vec![link("d", &victims), file("d/evil")],
        vec![link("d", &victims), ("d/evil".to_owned(), FOLDER, Vec::new())],
        vec![link("d", ".."), link("d/evil", "x")],
        vec![file("../data/evil")],
        vec![file(&format!("{victims}/evil"))],
        vec![("d".to_owned(), FOLDER, Vec::new()), link("d", &victims), file("d/evil")],
        vec![link("d", "e"), link("e", &victims), link("d/evil", "x")],
        vec![link("keep", &format!("{victims}/keep")), file("keep")],
        vec![file("d"), link("d", &victims), link("d/evil", "x")],
        vec![link(".", &victims), link("evil", "x")],
        vec![link("", &victims), link("evil", "x")],
    ];
    let mut entries = known[number % known.len()].clone();
    // Many a known way ends at an entry that cannot be made before it.
    let more = if random.once_in(2) { random.below(6) } else { 0 };
    for _ in 0..more {
        let names = [
            "d",
            "d/e",
            "d/e/f",
            "e",
            "../evil",
            "./d/../evil",
            "d//x",
            "/evil",
            "d/evil",
            "\u{1b}[2J",
        ];
        let targets = [victims.as_str(), "..", ".", "d", "/", "../data", "../data/keep", ""];
        let content = random.pick(&targets).as_bytes().to_vec();
        entries.insert(
            random.below(entries.len() + 1),
            (random.pick(&names).to_owned(), random.pick(&KINDS), content),
        );
    }
    entries
}

/// Appends an entry in cpio's "newc" form; `size` is the size in its header.
fn append(archive: &mut Vec<u8>, name: &[u8], mode: u32, size: usize, content: &[u8]) {
    let fields = [1, mode as usize, 0, 0, 1, 0, size, 0, 0, 0, 0, name.len() + 1, 0];
    archive.extend_from_slice(b"070701");
    archive.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
    archive.extend_from_slice(name);
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// A guest's frames: ready, the archive, exit code 0.
fn frames(archive: &[u8]) -> Vec<u8> {
    let contents = archive.chunks(FRAME_BYTES).map(|chunk| (ARCHIVE, chunk));
    let all = [(READY, &[][..])].into_iter().chain(contents).chain([(EXIT, &[0][..])]);
    let framed = all.flat_map(|(kind, content)| {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes();
        [&[kind], &length[..], content].concat()
    });
    framed.collect()
}

/// Runs `durio lab` with a program in QEMU's place.
fn bring_out(case: &AttackCase, frames: &[u8]) -> Result<Vec<String>> {
    arena::user_files(&case.path("data"))?;
    let path = case.path("frames").display().to_string();
    let script = format!(
        "case \"$*\" in\n*--version*) echo 'QEMU emulator version 7.2.0';;\n\
         *-kernel*) cat '{path}'; exec sleep 5;;\nesac"
    );
    stand_in(case, &script)?;
    fs::write(case.path("frames"), frames)?;
    let before = FolderTree::of(case.root()).without(&["out", "state"]);
    let ended = case.durio(&lab("")).env("PATH", search_path(case)).limit(LIMIT).run()?;
    let mut wrong = faults_but(&ended, &[LAB_FAILED]);
    let text = ended.stderr_text();
    if ["kernel image", "no modules", "its version", "no driver"]
        .iter()
        .any(|part| text.contains(part))
    {
        // Then nothing was attacked.
        wrong.push(format!("the stand-in is not accepted: {}", super::witness::shown(&text)));
    }
    let after = FolderTree::of(case.root()).without(&["out", "state"]);
    wrong.extend(before.differences(&after));
    wrong.extend(links_outside(case));
    Ok(wrong)
}

/// Links in the folder that lead out of it: a user who works there next would follow them.
fn links_outside(case: &AttackCase) -> Vec<String> {
    let out = case.path("out");
    let (mut outside, mut open) = (Vec::new(), vec![out.clone()]);
    while let Some(path) = open.pop() {
        if let Ok(to) = fs::read_link(&path) {
            // Where it would lead if it existed, by its text.
            let mut place = if to.is_absolute() {
                vec![]
            } else {
                path.parent().unwrap_or(&out).components().collect::<Vec<_>>()
            };
            for part in to.components() {
                match part {
                    std::path::Component::ParentDir => drop(place.pop()),
                    std::path::Component::CurDir => {}
                    _ => place.push(part),
                }
            }
            let place: std::path::PathBuf = place.into_iter().collect();
            if !place.starts_with(&out) {
                outside.push("a link that leads outside of the folder".to_owned());
            }
        } else if path.is_dir() {
            open.extend(super::witness::entries(&path));
        }
    }
    outside.truncate(1);
    outside
}

/// A kernel with only a header, and a program that sends frames as QEMU passes on a guest's.
fn stand_in(case: &AttackCase, script: &str) -> Result<()> {
    // setup_sects, boot_flag, header, version, kernel_version and xloadflags of Linux's boot
    // protocol (Documentation/arch/x86/boot.rst); kernel_version counts from 0x200.
    let mut kernel = vec![0_u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| kernel[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x1fe, &[0x55, 0xaa]);
    put(0x202, b"HdrS");
    put(0x206, &[0x0f, 0x02]);
    put(0x20e, &0x200_u16.to_le_bytes());
    put(0x236, &[1, 0]);
    put(0x400, b"6.1.0-attack (x)\0");
    fs::write(case.path("kernel"), kernel)?;
    fs::create_dir(case.path("modules"))?;
    // Without these durio refuses the kernel, and no archive would be read.
    let drivers = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];
    let built_in: String = drivers.iter().map(|name| format!("kernel/{name}.ko\n")).collect();
    fs::write(case.path("modules/modules.builtin"), built_in)?;
    fs::create_dir(case.path("bin"))?;
    let program = case.path("bin/qemu-system-x86_64");
    fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_entries_at_multiples_of_four_bytes() {
        let mut archive = Vec::new();
        append(&mut archive, b"a", FILE, 5, b"hello");
        assert_eq!((archive.len(), &archive[110..112]), (112 + 8, &b"a\0"[..]));
        assert_eq!(&archive[112..117], b"hello");
    }

    #[test]
    fn frames_are_kind_length_and_content() {
        assert_eq!(frames(b"xy"), [1, 0, 0, 0, 0, 4, 2, 0, 0, 0, b'x', b'y', 5, 1, 0, 0, 0, 0]);
    }
}
