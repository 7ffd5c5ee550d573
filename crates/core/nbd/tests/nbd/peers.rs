//! This server under the clients of others: libnbd's tools, qemu's, fio's engine.

use std::path::Path;
use std::process::Command;

use durio_block::testkit::note_skip;
use durio_nbd::{Address, Export, MemoryStorage, Uri};

use crate::serving::{folder, is_missing, served, served_at};

const SIZE: u64 = 8 << 20;

/// What a program prints. Debian's own folders come first: nbdsh is of Debian's Python.
fn printed(program: &str, arguments: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", format!("/usr/bin:/bin:{path}"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn skips(test: &str, program: &str) -> bool {
    let is_missing = is_missing(program);
    if is_missing {
        note_skip(test, &format_args!("{program} is not there"));
    }
    is_missing
}

/// Data that no part of is like another.
fn contents() -> Vec<u8> {
    (0..SIZE / 8)
        .flat_map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
        .collect()
}

#[test]
fn nbdinfo_sees_what_is_exported() {
    if skips("nbdinfo_sees_what_is_exported", "nbdinfo") {
        return;
    }
    let export =
        Export { block_size_min: 512, flush: false, rotational: true, ..Export::new("disk", SIZE) };
    served(&MemoryStorage::new(export), |uri| {
        let text = printed("nbdinfo", &["--json", &uri.to_string()]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["structured"], true);
        let export = &document["exports"][0];
        let expected = [
            ("export-name", "disk".into()),
            ("export-size", SIZE.into()),
            ("is_rotational", true.into()),
            ("is_read_only", false.into()),
            ("can_df", true.into()),
            ("can_flush", false.into()),
            ("can_fua", true.into()),
            ("can_multi_conn", true.into()),
            ("can_trim", true.into()),
            ("can_zero", true.into()),
            ("block_size_minimum", 512.into()),
            ("block_size_preferred", 4096.into()),
            ("block_size_maximum", (32 << 20).into()),
            ("contexts", vec!["base:allocation"].into()),
        ];
        for (key, value) in expected {
            let value: serde_json::Value = value;
            assert_eq!(export[key], value, "{key}");
        }
        let list = printed("nbdinfo", &["--list", &uri.to_string()]);
        assert!(list.contains("export=\"disk\""), "{list}");
        let map = printed("nbdinfo", &["--map", &uri.to_string()]);
        assert_eq!(
            map.split_whitespace().collect::<Vec<_>>(),
            ["0", &SIZE.to_string(), "3", "hole,zero"]
        );
    });
}

/// nbdcopy uses several connections, since the server says that they are as one.
#[test]
fn nbdcopy_copies_in_and_out() {
    if skips("nbdcopy_copies_in_and_out", "nbdcopy") {
        return;
    }
    let folder = folder();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&from, contents()).unwrap();
    let storage = MemoryStorage::new(Export::new("disk", SIZE));
    served_at(&Address::Tcp("127.0.0.1:0".parse().unwrap()), &storage, |uri| {
        printed("nbdcopy", &["--flush", &from, &uri.to_string()]);
        printed("nbdcopy", &[&uri.to_string(), &to]);
    });
    assert!(storage.contents() == contents());
    assert!(std::fs::read(&to).unwrap() == contents());
}

#[test]
fn nbdsh_is_told_in_the_protocols_words_what_it_did_wrong() {
    let test = "nbdsh_is_told_in_the_protocols_words_what_it_did_wrong";
    if skips(test, "nbdsh") {
        return;
    }
    let script = r#"
import errno
h.set_strict_mode(0)
size = h.get_size()
assert size == 8 << 20 and h.can_fua() and h.can_flush() and h.can_trim() and h.can_zero()
def fails(name, f):
    try:
        f()
    except nbd.Error as error:
        assert error.errnum == getattr(errno, name), error
    else:
        raise Exception("done: " + name)
fails("EINVAL", lambda: h.pread(0, 0))
fails("EINVAL", lambda: h.pread(512, size))
fails("EINVAL", lambda: h.pread(512, 2**63))
fails("ENOSPC", lambda: h.pwrite(b"x" * 512, size))
fails("ENOSPC", lambda: h.zero(2**32 - 4096, 0))
fails("EINVAL", lambda: h.trim(2**32 - 4096, 4096))
fails("EINVAL", lambda: h.pwrite(b"x" * (33 << 20), 0))
fails("EINVAL", lambda: h.cache(512, 0))
h.pwrite(b"y" * 4096, 4096, nbd.CMD_FLAG_FUA)
h.zero(1024, 4096, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
h.flush()
assert h.pread(5120, 4096) == b"\0" * 1024 + b"y" * 3072 + b"\0" * 1024
h.trim(4096, 4096)
"#;
    served(&MemoryStorage::new(Export::new("disk", SIZE)), |uri| {
        printed("nbdsh", &["-u", &uri.to_string(), "-c", script]);
    });
}

#[test]
fn qemu_io_verifies_what_it_wrote() {
    if skips("qemu_io_verifies_what_it_wrote", "qemu-io") {
        return;
    }
    served(&MemoryStorage::new(Export::new("disk", SIZE)), |uri| {
        let commands = [
            "write -P 7 0 64k",
            "write -z 4k 8k",
            "discard 32k 4k",
            "write -f -P 9 1M 4k",
            "aio_write -P 5 2M 1M",
            "aio_write -P 6 3M 1M",
            "aio_flush",
            "flush",
            "read -P 7 0 4k",
            "read -P 0 4k 8k",
            "read -P 0 32k 4k",
            "read -P 9 1M 4k",
            "read -P 5 2M 1M",
            "read -P 6 3M 1M",
        ];
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        let address = uri.to_string();
        let text = printed("qemu-io", &[&["-f", "raw"], &words[..], &[&address]].concat());
        assert!(!text.contains("failed") && text.contains("read 1048576/1048576"), "{text}");
    });
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if skips("qemu_img_converts_compares_and_maps", "qemu-img") {
        return;
    }
    let folder = folder();
    let file = folder.path().join("file");
    let mut half = contents();
    half[..1 << 20].fill(0);
    std::fs::write(&file, &half).unwrap();
    let storage = MemoryStorage::new(Export::new("disk", SIZE));
    served(&storage, |uri| qemu_img(&file, uri));
    assert!(storage.contents() == half);
}

fn qemu_img(file: &Path, uri: &Uri) {
    let (file, uri) = (file.display().to_string(), uri.to_string());
    printed("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &file, &uri]);
    printed("qemu-img", &["compare", "-f", "raw", "-F", "raw", &file, &uri]);
    let map = printed("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    assert_eq!((&map[0]["zero"], &map[0]["length"]), (&true.into(), &(1 << 20).into()));
    assert_eq!(map[1]["data"], true);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let test = "fio_verifies_what_it_wrote";
    if skips(test, "fio") {
        return;
    }
    let engines = printed("fio", &["--enghelp"]);
    if !engines.lines().any(|line| line.trim() == "nbd") {
        return note_skip(test, &"fio has no engine nbd");
    }
    served(&MemoryStorage::new(Export::new("disk", SIZE)), |uri| {
        let uri = format!("--uri={uri}");
        let job = [
            "--name=j",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--bsrange=512-64k",
            "--iodepth=16",
            "--verify=crc32c",
            "--verify_state_save=0",
            "--do_verify=1",
            "--fsync=32",
            "--output-format=json",
        ];
        let text = printed("fio", &job);
        let document: serde_json::Value =
            serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
        let job = &document["jobs"][0];
        assert_eq!(job["error"], 0);
        assert!(job["read"]["io_bytes"].as_u64() >= Some(SIZE), "{}", job["read"]["io_bytes"]);
    });
}
