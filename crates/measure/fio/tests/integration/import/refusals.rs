//! What cannot be honoured is named, with its line.

use std::path::Path;

use durio_base::Bytes;
use durio_fio::import::{ImportSettings, import};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Location, LocationFacts, RawPath, TargetKind,
};

use super::{imported, resolved};

/// `[a]`, `filename=`, then what is refused in line 3.
#[test]
fn each_option_that_cannot_be_honoured_is_refused_in_its_line() {
    for (line, option) in [
        ("rw=read:-4k", "rw"),
        ("file_append=1", "file_append"),
        ("startdelay=2:1", "startdelay"),
        ("pre_read=1", "pre_read"),
        ("size=2g", "size"),
        ("offset=2g", "offset"),
        ("filesize=1m-2m", "filesize"),
        ("io_size=5000", "io_size"),
        ("ioengine=null", "ioengine"),
        ("ioengine=rbd", "ioengine"),
        ("numa_cpu_nodes=0-1", "numa_cpu_nodes"),
        ("numa_mem_policy=interleave", "numa_mem_policy"),
        ("cpus_allowed=0-3", "cpus_allowed"),
        ("thinktime_spin=1ms", "thinktime_spin"),
        ("verify=crc32c", "verify"),
        ("bs_is_seq_rand=1", "bs_is_seq_rand"),
    ] {
        let refusals = imported(&format!("[a]\nfilename=/dev/a\n{line}")).unwrap_err();
        let named = refusals
            .iter()
            .any(|refusal| refusal.option == option && refusal.at.to_string() == "j.fio:3");
        assert!(named, "{line}: {refusals:?}");
    }
}

#[test]
fn a_size_that_leaves_a_block_or_more_over_is_refused_as_fio_makes_some_files_longer() {
    let of = |size: u64| {
        let job = format!("[a]\ndirectory=dir\nnrfiles=600\nbs=512\nrw=write\nsize={size}");
        imported(&job)
    };
    // 600 files of two blocks each, and what does not divide.
    assert!(of(614_400 + 511).is_ok());
    let refusals = of(614_400 + 512).unwrap_err();
    assert!(refusals.iter().any(|refusal| refusal.option == "size"), "{refusals:?}");
}

#[test]
fn what_a_mapping_does_not_do_is_refused_by_name() {
    for (lines, option) in [
        ("sync=dsync", "sync"),
        ("sync=1", "sync"),
        ("fadvise_hint=noreuse", "fadvise_hint"),
        ("create_on_open=1", "create_on_open"),
        ("direct=1\nbs=512", "bs"),
        ("fsync=4\nbs=6k", "bs"),
        ("fdatasync=1\nbs=1k", "bs"),
        ("loops=2", "invalidate"),
    ] {
        let of = |engine: &str| {
            imported(&format!("[a]\nfilename=new\nsize=64k\nrw=write\nioengine={engine}\n{lines}"))
        };
        let refusals = of("mmap").unwrap_err();
        assert!(refusals.iter().all(|refusal| refusal.option == option), "{lines}: {refusals:?}");
        assert!(of("psync").is_ok(), "{lines}");
    }
    for lines in ["fsync=4", "direct=1\nbs=8k", "bs=512", "loops=2\ninvalidate=0", "sync=none"] {
        let text =
            format!("[a]\nfilename=new\nsize=64k\nrw=write\nioengine=mmap\niodepth=8\n{lines}");
        let plan = imported(&text).unwrap().plan;
        assert_eq!(plan.steps[0].load.engine, EngineKind::Mmap, "{lines}");
        assert_eq!(plan.steps[0].load.workload.depth, 1, "{lines}");
        // A mapping does not make its file longer: what it writes to is there before.
        let TargetKind::NewFile { layout, .. } = &plan.targets[0].kind else { panic!("{plan:?}") };
        assert_eq!(*layout, FileLayout::Incompressible, "{lines}");
    }
}

#[test]
fn unlink_is_refused_for_a_file_that_is_there_and_leaves_devices_alone() {
    for (name, is_taken) in [("old", false), ("gone", true), ("/dev/a", true), ("new", true)] {
        let text = format!("[a]\nfilename={name}\nrw=write\nsize=64k\nunlink=1");
        assert_eq!(imported(&text).is_ok(), is_taken, "{name}");
    }
    let refusals = imported("[a]\nfilename=older.gone\nrw=write\nunlink=1").unwrap_err();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(
        (refusals[0].option.as_str(), refusals[0].at.to_string().as_str()),
        ("unlink", "j.fio:4")
    );
}

#[test]
fn a_start_that_is_drawn_for_each_of_several_jobs_is_refused() {
    for others in ["numjobs=2", "[b]\nfilename=/dev/b"] {
        let text = format!("[a]\nfilename=/dev/a\nstartdelay=1:2\n{others}");
        let refusals = imported(&text).unwrap_err();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        assert_eq!(refusals[0].option, "startdelay");
        assert!(refusals[0].what.contains("fio draws a start for each job"), "{refusals:?}");
    }
    let alone = "[a]\nfilename=/dev/a\nstartdelay=1:2\n[b]\nfilename=/dev/b\nstonewall";
    assert!(imported(alone).is_ok(), "each has its group");
}

#[test]
fn what_fio_would_do_otherwise_is_refused() {
    for (lines, option) in [
        ("rw=randread:8\nrw_sequencer=identical\nnorandommap", "rw_sequencer"),
        ("rw=randrw\nbs=8k\nblockalign=4k,8k", "blockalign"),
        ("rw=randrw\nnorandommap\nbs=4k,8k", "blockalign"),
        ("rw=randread\nrandom_distribution=normal:10", "random_distribution"),
        ("rw=randread\nrandom_distribution=zipf:1.2:0.5", "random_distribution"),
        ("rw=write\nend_fsync=1\nloops=2", "end_fsync"),
        ("io_submit_mode=offload\niodepth=4", "io_submit_mode"),
        ("rw=write\nfsync=1\nfdatasync=1", "fsync"),
        ("filename=/dev/a", "filename"),
        ("filename=/dev/b\nrw=write\nfsync=1", "fsync"),
        ("filename=/dev/b\nfile_service_type=gauss:1", "file_service_type"),
        ("filename=/dev/b\nrw=randread\nsize=20k", "size"),
        ("filename=/dev/b\nrw=read\nsize=20k\nloops=2", "size"),
        ("filename=/dev/b\nrw=read\nsize=20k\ntime_based\nruntime=1", "size"),
        ("filename=/dev/b\nrw=read\nsize=20k\nfile_service_type=sequential", "size"),
        ("filename=/dev/b\nsize=10%", "size"),
        ("filename=/dev/b\nio_size=1m", "io_size"),
        ("filename=/dev/b\nrw=randread:8", "rw"),
        ("filename=/dev/b\nbssplit=4k/50:8k/50", "bs"),
        ("filename=/dev/b\nioengine=posixaio", "ioengine"),
        ("filename=old", "filename"),
        ("ioengine=libaio\niodepth=8\niodepth_batch_complete_min=0", "iodepth_batch_complete_min"),
        ("ioengine=io_uring\niodepth=8\nhipri", "hipri"),
        ("ioengine=vsync\niodepth=8\niodepth_batch=4", "iodepth_batch"),
        ("time_based\nruntime=1\nnumber_ios=5", "number_ios"),
        ("rate=1m\nrate_iops=20", "rate_iops"),
        ("rw=randread\nnorandommap\nbssplit=4k/50:8k/50\nrate=1m", "rate"),
        ("rw=randread\nnorandommap\nbsrange=4k-8k\nbs_unaligned=1", "bs_unaligned"),
        ("rw=randread\nnorandommap\nbssplit=4k/50:8k/50\nnumber_ios=9", "number_ios"),
        (
            "rw=write\nbuffer_compress_percentage=20\nbuffer_pattern=0x1f",
            "buffer_compress_percentage",
        ),
        ("numa_cpu_nodes=0\ncpus_allowed=1", "numa_cpu_nodes"),
        ("rw=randread\nrandom_distribution=zipf:1.2\nbs=8k\nblockalign=4k", "random_distribution"),
        ("random_distribution=zipf:12\nrw=randread", "random_distribution"),
        ("size=50%\nfilesize=8m", "size"),
    ] {
        let refusals = imported(&format!("[a]\nfilename=/dev/a\n{lines}")).unwrap_err();
        let named = refusals.iter().any(|refusal| refusal.option == option);
        assert!(named, "{lines}: {refusals:?}");
    }
}

#[test]
fn all_refusals_of_all_jobs_are_told_at_once() {
    let text = "[a]\nfilename=/dev/a\nrw=read:-4k\nthinkcycles=1\n[b]\nfilename=/dev/a:/dev/a";
    let options: Vec<_> =
        imported(text).unwrap_err().into_iter().map(|refusal| refusal.option).collect();
    for option in ["thinkcycles", "rw", "filename"] {
        assert!(options.iter().any(|known| known == option), "{options:?}");
    }
}

#[test]
fn writing_to_what_exists_needs_permission() {
    for (name, is_permitted) in
        [("/dev/kept", false), ("/dev/a", true), ("old", false), ("old-gone", true), ("new", true)]
    {
        let text = format!("[a]\nfilename={name}\nrw=write\nsize=1m");
        let result = imported(&text);
        assert_eq!(result.is_ok(), is_permitted, "{name}: {result:?}");
        if let Err(refusals) = result {
            assert!(refusals[0].what.contains(&format!("--destroy '{name}'")), "{refusals:?}");
        }
        let read = format!("[a]\nfilename={name}\nrw=read\nsize=1m");
        assert!(imported(&read).is_ok(), "{name}");
    }
}

#[test]
fn a_job_runs_for_366_days_at_most() {
    let of = |seconds: u32| {
        imported(&format!("[a]\nfilename=/dev/a\nrw=read\ntime_based\nruntime={seconds}"))
    };
    assert!(of(31_622_400).is_ok());
    let refusals = of(31_622_401).unwrap_err();
    assert_eq!(
        (refusals[0].option.as_str(), refusals[0].what.as_str()),
        ("runtime", "more than a year")
    );
}

#[test]
fn durio_draws_from_512_sizes_at_most() {
    let of = |most: &str| {
        imported(&format!("[a]\nfilename=/dev/a\nrw=randread\nnorandommap\nbsrange=4k-{most}"))
    };
    assert!(of("2m").is_ok(), "512 of 4 KiB");
    let refusals = of("2052k").unwrap_err();
    assert_eq!(refusals[0].option, "bsrange");
    assert!(refusals[0].what.contains("at most 512 sizes"), "{refusals:?}");
}

#[test]
fn nothing_and_files_that_do_not_fit_are_refused() {
    assert!(imported("[global]\nbs=4k\n").is_err());
    assert!(imported("[a]\nfilename=new\nrw=read").is_err(), "no size");
    assert!(imported("[a]\nfilename=new\nrw=read\nsize=4000t").is_err(), "no room");
}

/// Where and why jobs are refused, if two directories have 10 MiB free each, and one of them a file of
/// 64 MiB.
fn refused_in_10_mib(jobs: &str) -> Vec<(String, String)> {
    let free = Bytes::from_mib(10);
    let locate = |path: &Path| {
        let facts = match path.to_str()? {
            "dir1" | "dir2" => LocationFacts::Directory { free, filesystem: 1 },
            "dir1/old" => LocationFacts::File { size: Bytes::from_mib(64) },
            _ => LocationFacts::Absent { free },
        };
        Some(Location { path: RawPath::from(path), facts, destroy: false })
    };
    let settings = ImportSettings {
        seed: 7,
        clock: ClockChoice::Auto,
        file_name: ".durio-x".to_owned(),
        copies_apart: true,
    };
    let text = format!("[global]\nrw=write\n{jobs}");
    let refusals = import(&resolved(&text), &locate, &settings).err().unwrap_or_default();
    refusals.into_iter().map(|refusal| (refusal.at.to_string(), refusal.what)).collect()
}

#[test]
fn the_files_of_all_jobs_in_a_directory_must_fit_into_it_together() {
    for jobs in [
        "[a]\ndirectory=dir1\nsize=5m\nnumjobs=2",
        "[a]\ndirectory=dir1\nsize=7m\n[b]\ndirectory=dir1\nsize=3m",
        "[a]\ndirectory=dir1\nsize=7m\n[b]\ndirectory=dir2\nsize=8m",
        // One file of two jobs, and one that is there.
        "[a]\nfilename=dir1/new\nsize=7m\n[b]\nstonewall\nfilename=dir1/new\nsize=7m",
        "[a]\nfilename=dir1/old\nrw=read\n[b]\ndirectory=dir1\nsize=9m",
    ] {
        let refused = refused_in_10_mib(jobs);
        assert!(refused.is_empty(), "{jobs}: {refused:?}");
    }
    let not = |line: u32, mib: u32, directory: &str| {
        let reason = format!("files of {mib} MiB do not fit: '{directory}' has 10 MiB free");
        (format!("j.fio:{line}"), reason)
    };
    // Told once for a directory, where it is full.
    for (jobs, expected) in [
        ("[a]\ndirectory=dir1\nsize=4m\nnumjobs=5", vec![not(4, 20, "dir1")]),
        ("[a]\ndirectory=dir1\nsize=12m\nnrfiles=3", vec![not(4, 12, "dir1")]),
        (
            "[a]\ndirectory=dir1\nsize=7m\n[b]\ndirectory=dir2\nsize=9m\n\
             [c]\nfilename=dir1/new\nsize=5m\n[d]\ndirectory=dir1\nsize=1m",
            vec![not(10, 13, "dir1")],
        ),
        (
            "[a]\ndirectory=dir1\nsize=11m\n[b]\ndirectory=dir2\nsize=12m",
            vec![not(4, 11, "dir1"), not(7, 12, "dir2")],
        ),
    ] {
        assert_eq!(refused_in_10_mib(jobs), expected, "{jobs}");
    }
}

#[test]
fn what_a_path_is_fits_what_the_job_does_with_it() {
    for (lines, option, what) in [
        ("filename=dir1", "filename", "'dir1' is a directory; use directory="),
        ("filename=/dev/a:dir1\nsize=1m", "filename", "'dir1' is a directory; use directory="),
        ("directory=old\nsize=1m", "directory", "'old' is not a directory"),
        ("directory=dir1:new\nnumjobs=2\nsize=1m", "directory", "'new' is not a directory"),
    ] {
        let refusals = imported(&format!("[a]\n{lines}")).unwrap_err();
        let told: Vec<_> = refusals
            .iter()
            .map(|refusal| (refusal.option.as_str(), refusal.what.as_str(), refusal.at.to_string()))
            .collect();
        assert_eq!(told, [(option, what, "j.fio:2".to_owned())], "{lines}");
    }
}

#[test]
fn a_later_job_makes_a_file_longer_only_if_it_lays_it_out_in_the_same_way() {
    let after_a_write_of_1_mib = |lines: &str| {
        imported(&format!(
            "[a]\nfilename=new\nrw=write\nsize=1m\n[b]\nstonewall\nfilename=new\n{lines}"
        ))
        .map(|imported| imported.plan.targets[0].size)
    };
    assert_eq!(after_a_write_of_1_mib("rw=write\nsize=3m"), Ok(Bytes::from_mib(3)));
    for fits in ["rw=read", "rw=read\nsize=1m", "rw=write\noverwrite=1\nsize=512k"] {
        assert_eq!(after_a_write_of_1_mib(fits), Ok(Bytes::from_mib(1)), "{fits}");
    }
    for (other, size) in [("rw=read", "2m"), ("rw=write\noverwrite=1", "1028k")] {
        let refusals = after_a_write_of_1_mib(&format!("{other}\nsize={size}")).unwrap_err();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        let refusal = &refusals[0];
        assert_eq!(
            (refusal.option.as_str(), refusal.at.to_string()),
            ("size", "j.fio:7".to_owned())
        );
        assert!(refusal.what.contains("than an earlier job creates"), "{refusal:?}");
    }
}

#[test]
fn a_file_that_is_made_at_its_open_is_not_read_and_one_that_is_there_is() {
    let job = |lines: &str| imported(&format!("[a]\nsize=1m\ncreate_on_open=1\n{lines}"));
    for reads in ["filename=new\nrw=read", "nrfiles=2\nrw=randrw", "directory=dir\nrw=randread"] {
        let refusals = job(reads).unwrap_err();
        let named: Vec<&str> = refusals.iter().map(|refusal| refusal.option.as_str()).collect();
        assert_eq!(named, ["create_on_open"], "{reads}");
    }
    for accepted in
        ["filename=new\nrw=write", "filename=old\nrw=read", "filename=old\nrw=randread\nbs=64k"]
    {
        assert!(job(accepted).is_ok(), "{accepted}");
    }
}
