//! Proofs in guests of the lab: what QEMU's NVMe device drops is found, and a sync on the same device is
//! kept.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Durio;
use crate::guests::{bootable, with_kernels};
use crate::requirements::skip;
use crate::sandbox::Sandbox;

/// Half a minute on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(600);

fn series<'a>(proof: &'a Value, name: &str) -> &'a Value {
    let all = proof["series"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}: {proof}"))
}

#[test]
#[ignore = "slow"]
fn a_guest_loses_what_is_durable_by_fua_on_nvme_and_keeps_what_is_flushed() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    let (dropped, kept) = ("write-back/nvme/ext4/o_dsync/1", "write-back/nvme/ext4/fdatasync/1");
    let line = format!(
        "prove run prove-vm --only {dropped} --only {kept} --cuts 2 --seed 7 --format json --out out"
    );
    let ended = with_kernels(&sandbox, &line).start().wait_at_most(PATIENCE).expect_exit(0);
    let proof = ended.json();
    let (dropped, kept) = (series(&proof, dropped), series(&proof, kept));
    assert_eq!(
        (&dropped["verdict"]["class"], &dropped["as_expected"]),
        (&"lost".into(), &true.into())
    );
    assert_eq!((&kept["verdict"]["verdict"], &kept["effective"]), (&"no_loss".into(), &2.into()));
    assert!(dropped["target"]["kernel"].is_string(), "{dropped}");
}

#[test]
#[ignore = "slow"]
fn an_appended_and_a_replaced_file_last_and_a_rename_that_nobody_synced_does_not() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    let [append, replace, rename] = ["append/fdatasync/1", "replace/fsync/1", "rename/fsync/1"]
        .map(|it| format!("write-back/virtio-blk/ext4/{it}"));
    let line = format!(
        "prove run prove-files --only {append} --only {replace} --only {rename} --cuts 1 --seed 7 \
         --format json --out out"
    );
    let proof = with_kernels(&sandbox, &line).start().wait_at_most(PATIENCE).expect_exit(0).json();
    for kept in [append, replace] {
        let kept = series(&proof, &kept);
        assert_eq!(kept["verdict"]["verdict"], "no_loss", "{kept}");
    }
    // The prover sees what a forgotten sync of the folder loses, on the same disk.
    let lost = series(&proof, &rename);
    assert_eq!((&lost["verdict"]["class"], &lost["as_expected"]), (&"lost".into(), &true.into()));
}

#[test]
#[ignore = "slow"]
fn crash_states_of_a_guest_that_acknowledges_too_early_lose_and_others_do_not() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    // The disk keeps its word. QEMU's NVMe device drops FUA, so the guest is told too early.
    let spec = "schema = 1\nname = \"states\"\n\
                [[guest]]\nprofile = \"write-back\"\nfront_end = \"nvme\"\nlayers = \"ext4\"\n\
                states = 12\n[[arm]]\npath = [\"fdatasync\", \"o_dsync\"]\n";
    fs::write(sandbox.root().join("states.toml"), spec).unwrap();
    let line = "prove run states.toml --seed 7 --format json --out out";
    let proof = with_kernels(&sandbox, line).start().wait_at_most(PATIENCE).expect_exit(0).json();
    let kept = series(&proof, "write-back/nvme/ext4/fdatasync/1/states");
    assert_eq!((&kept["verdict"]["verdict"], &kept["effective"]), (&"no_loss".into(), &12.into()));
    assert!(kept["interval"].is_null() && kept["at_risk"].as_u64() > Some(0), "{kept}");
    let lost = series(&proof, "write-back/nvme/ext4/o_dsync/1/states");
    assert_eq!((&lost["verdict"]["class"], &lost["as_expected"]), (&"lost".into(), &true.into()));
    assert!(lost["loss"]["state"].as_str().unwrap().contains("after mark"), "{lost}");
    assert!(lost["target"]["kernel"].is_string(), "{lost}");
}

/// A proof of a series of the matrix with durio's own mirror; none, and said so, where the guest
/// has no ublk.
fn mirror_proof(sandbox: &Sandbox, only: &str, cuts: u32) -> Option<Value> {
    let line = format!(
        "prove run prove-matrix --only {only} --cuts {cuts} --seed 8 --format json --out out-{cuts}"
    );
    let ended = with_kernels(sandbox, &line).start().wait_at_most(PATIENCE);
    if ended.stderr.contains("no driver ublk_drv") {
        skip("the newest kernel has no ublk");
        return None;
    }
    Some(ended.expect_exit(0).json())
}

fn keeps_its_word(sandbox: &Sandbox, series_name: &str) {
    let Some(proof) = mirror_proof(sandbox, series_name, 3) else { return };
    let kept = series(&proof, series_name);
    assert_eq!((&kept["verdict"]["verdict"], &kept["effective"]), (&"no_loss".into(), &3.into()));
}

#[test]
#[ignore = "slow"]
fn a_first_copy_that_lies_is_found_behind_durios_own_mirror() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    let lost = "flush-ignored@0/virtio-blk/durio-raid1-ext4/fdatasync/1";
    // A cut that takes the liar's superblocks too is hidden by the other copy: most are not, and the first
    // loss ends the series.
    let Some(proof) = mirror_proof(&sandbox, lost, 12) else { return };
    assert_eq!(series(&proof, lost)["verdict"]["verdict"], "breaks");
}

#[test]
#[ignore = "slow"]
fn durios_own_mirror_keeps_its_word_in_a_guest() {
    let Some(sandbox) = bootable(&[]) else { return };
    keeps_its_word(&sandbox, "write-back/virtio-blk/durio-raid1/fdatasync/1");
}

#[test]
#[ignore = "slow"]
fn durios_own_mirror_keeps_its_word_below_xfs() {
    let Some(sandbox) = bootable(&["mkfs.xfs"]) else { return };
    keeps_its_word(&sandbox, "write-back/virtio-blk/durio-raid1-xfs/fdatasync/1");
}

#[test]
#[ignore = "slow"]
fn xfs_on_an_honest_disk_keeps_what_was_synced_and_a_mirror_of_two_liars_does_not() {
    let Some(sandbox) = bootable(&["mkfs.xfs", "mdadm"]) else { return };
    let (kept, lost) =
        ("write-back/virtio-blk/xfs/fdatasync/1", "flush-ignored/scsi/md-raid1/o_dsync/1");
    let line = format!(
        "prove run prove-matrix --only {kept} --only {lost} --cuts 2 --seed 7 --format json --out out"
    );
    let ended = with_kernels(&sandbox, &line).start().wait_at_most(PATIENCE).expect_exit(0);
    let proof = ended.json();
    let (kept, lost) = (series(&proof, kept), series(&proof, lost));
    assert_eq!((&kept["verdict"]["verdict"], &kept["effective"]), (&"no_loss".into(), &2.into()));
    assert_eq!(
        (&lost["verdict"]["verdict"], &lost["as_expected"]),
        (&"breaks".into(), &true.into())
    );
}

#[test]
#[ignore = "slow"]
fn an_interrupt_ends_the_guests_of_a_proof_and_it_can_be_resumed() {
    let Some(sandbox) = bootable(&[]) else { return };
    let line =
        "prove run prove-vm --only write-back/scsi/raw/fdatasync --cuts 1 --seed 7 --out out";
    let mut running = with_kernels(&sandbox, line).start();
    std::thread::sleep(Duration::from_secs(3));
    assert!(running.is_alive(), "{}", running.stderr());
    running.signal(Signal::INT);
    running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
    let folder = fs::read_dir(sandbox.root().join("out")).unwrap().next().unwrap().unwrap();
    let line = with_kernels(&sandbox, "prove run --format json --resume").word(folder.path());
    let proof = line.start().wait_at_most(PATIENCE).expect_exit(0).json();
    assert_eq!(proof["series"][0]["verdict"]["verdict"], "no_loss", "{proof}");
}

#[test]
fn nobody_proves_in_a_guest_who_is_none() {
    Durio::new()
        .words("prove in-guest {}")
        .run()
        .expect_exit(2)
        .expect_stderr("a proof runs only in a lab guest");
}

#[test]
fn a_proof_in_guests_without_a_kernel_cannot_be_decided() {
    let sandbox = Sandbox::new();
    let line = "prove run none.toml --out out";
    let spec = "schema = 1\nname = \"none\"\ncuts = 1\n\
                [[guest]]\nprofile = \"write-back\"\nkernel = \"6.1.0-none\"\n\
                [[arm]]\npath = \"fdatasync\"\n";
    fs::write(sandbox.root().join("none.toml"), spec).unwrap();
    sandbox.durio(line).run().expect_exit(3).expect_stderr("6.1.0-none");
}
