//! What jobs come out of job files.

use super::{good, jobs, parse};
use durio_fio::job_file::{
    AccessPattern, Class, CpuPolicy, Direction, ExitScope, FILENAMES_MAX, Fallocate, FioEngine,
    MemoryPolicy, OffsetDistribution, ReadWrite, SizeValue, SyncOpen, option_rows,
};

#[test]
fn defaults_accumulate_and_count_for_the_jobs_after_them() {
    let found = good("[global]\nbs=4k\nrw=read\n[a]\n[global]\nbs=8k\n[b]\nrw=write\n[c]\nbs=,1k");
    let blocks: Vec<_> = found
        .iter()
        .map(|job| {
            let it = &job.options.pattern.block_bytes;
            (it.read.as_ref().unwrap().value, it.write.as_ref().unwrap().value)
        })
        .collect();
    assert_eq!(blocks, [(4096, 4096), (8192, 8192), (8192, 1024)]);
    let access = |index: usize| found[index].options.pattern.access.clone().unwrap();
    assert_eq!(
        (access(0).value.direction, access(0).at.to_string()),
        (Direction::Read, "j.fio:3".into())
    );
    assert_eq!(
        (access(1).value.direction, access(1).at.to_string()),
        (Direction::Write, "j.fio:8".into())
    );
}

#[test]
fn a_stonewall_begins_a_group_and_clones_are_copies() {
    let text = "[a]\nstonewall\n[b]\nnumjobs=4\n[c]\nstonewall\n[d]\nnew_group\n[e]\nwait_for_previous=1\n[f]\nstonewall=0";
    let found = good(text);
    let groups: Vec<_> =
        found.iter().map(|job| (job.group, job.reporting_group, job.copies)).collect();
    assert_eq!(groups, [(0, 0, 1), (0, 0, 4), (1, 1, 1), (1, 2, 1), (2, 3, 1), (2, 3, 1)]);
}

/// The groups of jobs, and the options that are refused.
fn order_of(text: &str) -> (Vec<u32>, Vec<String>) {
    let found = good(text);
    let refused = found.iter().flat_map(|job| &job.refusals).map(|remark| remark.option.clone());
    (found.iter().map(|job| job.group).collect(), refused.collect())
}

#[test]
fn a_job_that_waits_for_all_before_by_their_name_begins_a_group() {
    let chain =
        "[a]\n[b]\nwait_for=a\n[b2]\nname=b\nwait_for=a\n[c]\nwait_for=b\n[d]\nstonewall\n[e]";
    assert_eq!(order_of(chain), (vec![0, 1, 1, 2, 3, 3], vec![]));
}

#[test]
fn a_job_that_waits_for_some_of_those_before_is_refused() {
    for text in [
        "[a]\n[x]\n[b]\nwait_for=a",
        "[a]\n[b]\nwait_for=a\n[x]",
        "[a]\n[b]\nwait_for=a\n[c]\nwait_for=b\n[d]\nwait_for=a",
        "[a]\n[b]\nwait_for=nobody",
        "[b]\nwait_for=b",
    ] {
        assert_eq!(order_of(text).1, ["wait_for"], "{text}");
    }
}

#[test]
fn drives_have_sections_of_their_own() {
    let text = "[global]\ndirect=1\niodepth=32\nioengine=io_uring\nrw=randread\nruntime=1m\ntime_based\n\
                numa_mem_policy=bind:0\nnuma_cpu_nodes=0\nexitall\nnorandommap\n\
                [nvme0]\nfilename=/dev/nvme0n1\ncpus_allowed=0-3\ncpus_allowed_policy=split\n\
                [nvme1]\nfilename=/dev/disk/by-path/pci-0000\\:01\\:00.0:/dev/x\noffset_increment=10%\nsize=25%";
    let found = good(text);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|job| job.refusals.is_empty() && job.notes.is_empty()));
    let [one, two] = [&found[0].options, &found[1].options];
    assert_eq!(one.target.filenames.as_ref().unwrap().value, ["/dev/nvme0n1"]);
    assert_eq!(
        two.target.filenames.as_ref().unwrap().value,
        ["/dev/disk/by-path/pci-0000:01:00.0", "/dev/x"]
    );
    assert_eq!(two.target.offset_increment.as_ref().unwrap().value, SizeValue::Percent(10));
    assert_eq!(two.target.size.as_ref().unwrap().value, SizeValue::Percent(25));
    assert_eq!(one.placement.cpus.as_ref().unwrap().value, [0, 1, 2, 3]);
    assert_eq!(one.placement.cpu_policy.as_ref().unwrap().value, CpuPolicy::Split);
    assert_eq!(one.placement.memory.as_ref().unwrap().value, MemoryPolicy::Bind(vec![0]));
    assert_eq!(one.queue.engine.as_ref().unwrap().value, FioEngine::IoUring);
    assert_eq!(one.timing.runtime_us.as_ref().unwrap().value, 60_000_000);
    assert!(two.timing.time_based.as_ref().unwrap().value);
    assert!(two.timing.exit_all.as_ref().unwrap().value);
    assert!(one.target.direct.as_ref().unwrap().value);
}

#[test]
fn the_rest_of_a_log_s_options_is_typed() {
    let text = "[wal]\nrw=write:4k\nbs=2300\nfdatasync=1\nfsync=8\nsync=dsync\nend_fsync=1\nfallocate=posix\n\
                rwmixwrite=30\nrate_iops=100,50\nrate_process=poisson\nexit_what=all\nloops=3\nramp_time=500ms\n\
                random_distribution=zipf:1.2\nbuffered=0\nbuffer_compress_percentage=50\nname=log\n\
                filesize=4k-8k\nrandseed=0x89";
    let found = good(text);
    let [job] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(job.name, "log");
    let it = &job.options;
    let skip = AccessPattern::Sequential { skip_bytes: 4096 };
    let access = ReadWrite { direction: Direction::Write, pattern: skip };
    assert_eq!(it.pattern.access.as_ref().unwrap().value, access);
    assert_eq!(it.pattern.read_percent.as_ref().unwrap().value, 70);
    let zipf = OffsetDistribution::Zipf { theta: 1.2, center: None };
    assert_eq!(it.pattern.distribution.as_ref().unwrap().value, zipf);
    assert_eq!(it.durability.open.as_ref().unwrap().value, SyncOpen::Dsync);
    assert_eq!(it.durability.fdatasync_every.as_ref().unwrap().value, 1);
    assert_eq!(it.durability.fsync_every.as_ref().unwrap().value, 8);
    assert_eq!(it.target.fallocate.as_ref().unwrap().value, Fallocate::Posix);
    assert_eq!(it.target.file_bytes.as_ref().unwrap().value, (4096, 8192));
    assert!(it.target.direct.as_ref().unwrap().value);
    assert_eq!(it.timing.exit_scope.as_ref().unwrap().value, ExitScope::All);
    assert_eq!(it.timing.ramp_us.as_ref().unwrap().value, 500_000);
    let rates = &it.queue.accesses_per_second;
    assert_eq!(rates.read.as_ref().unwrap().value, 100);
    assert_eq!(rates.trim.as_ref().unwrap().value, 50);
}

#[test]
fn the_later_of_two_options_for_one_thing_counts() {
    let direct = |text: &str| good(text)[0].options.target.direct.as_ref().unwrap().value;
    assert!(!direct("[global]\ndirect=1\n[a]\nbuffered=1"));
    assert!(direct("[global]\nbuffered=1\n[a]\ndirect=1"));
    let reads = |text: &str| good(text)[0].options.pattern.read_percent.as_ref().unwrap().value;
    assert_eq!(reads("[a]\nrwmixread=70\nrwmixwrite=40"), 60);
    assert_eq!(reads("[a]\nrwmixwrite=40\nrwmixread=70"), 70);
}

#[test]
fn kb_base_counts_for_its_whole_section_and_for_later_ones() {
    let found =
        good("[a]\nsize=4k\n[b]\nsize=4k\nkb_base=1000\n[global]\nkb_base=1000\n[c]\nsize=4kib");
    let sizes: Vec<_> =
        found.iter().map(|job| job.options.target.size.as_ref().unwrap().value).collect();
    assert_eq!(sizes, [SizeValue::Bytes(4096), SizeValue::Bytes(4000), SizeValue::Bytes(4096)]);
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_line() {
    let cases = [
        ("[a]\nverify=crc32c", "j.fio:2: verify=crc32c: durio run does not check contents"),
        ("[a]\nrw=randtrim", "j.fio:2: rw=randtrim: durio does not send trims"),
        ("[a]\n\nioengine=splice", "j.fio:3: ioengine=splice: durio has no engine splice; it has"),
        ("[global]\nthinkcycles=10\n[a]", "j.fio:2: thinkcycles=10: durio sleeps"),
        ("[a]\nhipri", "j.fio:2: hipri: the engine psync has no such option"),
        ("[a]\nioengine=libaio\nfixedbufs", "j.fio:3: fixedbufs: the engine libaio has no such"),
        ("[a]\nbssplit=4k/50:6k/50", "j.fio:2: bssplit=4k/50:6k/50: fio rounds 6144 bytes down"),
        (
            "[a]\nbssplit=4k:8k\nbsrange=4k-8k",
            "j.fio:2: bssplit=4k:8k: fio combines it with bsrange",
        ),
        ("[a]\nzonemode=zbd", "j.fio:2: zonemode=zbd: durio does not write zone by zone"),
    ];
    for (text, expected) in cases {
        let refusals: Vec<_> = good(text)[0].refusals.iter().map(ToString::to_string).collect();
        assert_eq!(refusals.len(), 1, "{text:?}: {refusals:?}");
        assert!(refusals[0].starts_with(expected), "{text:?}: {refusals:?}");
    }
}

#[test]
fn a_refused_option_with_its_neutral_value_changes_nothing_and_is_fine() {
    let text = "[global]\nverify=md5\n[a]\nverify=0\nthinktime=0\nzonemode=none\nrate_cycle=1000\n\
                startdelay=0\nio_submit_mode=inline\nspr_op=0.15\nmem=malloc\nzonesize=0k";
    assert_eq!(good(text)[0].refusals, []);
}

#[test]
fn what_only_changes_fio_s_output_is_noted_with_its_line() {
    let found =
        good("[a]\ngroup_reporting\ngtod_reduce=1\nunit_base=8\nbs=8k\nbssplit=4k/50:64k/50");
    let notes: Vec<_> =
        found[0].notes.iter().map(|remark| format!("{} {}", remark.at, remark.option)).collect();
    let expected = ["j.fio:3 gtod_reduce", "j.fio:4 unit_base", "j.fio:5 bs"];
    assert_eq!(notes, expected);
    assert_eq!(found[0].refusals, []);
}

#[test]
fn a_bad_value_is_an_error_with_its_line_and_what_fio_would_have_read() {
    let cases = [
        ("[a]\nsize = 4k", "j.fio:2: size: fio ignores a unit after a blank"),
        ("[a]\nbs=x\nbs=4k", "j.fio:2: bs: \"x\" is not a number"),
        ("[a]\nbs=1.5k", "j.fio:2: bs: \"1.5k\": fio would read 1 and ignore the rest"),
        (
            "[a]\nruntime=10min",
            "j.fio:2: runtime: \"10min\": fio would read 10 and ignore the rest",
        ),
        ("[a]\nruntime=1:2", "j.fio:2: runtime:"),
        ("[a]\ndirect", "j.fio:2: direct: it needs a value"),
        ("[a]\ndirect=2", "j.fio:2: direct: \"2\": expected 0 or 1"),
        ("[a]\nrw=reed", "j.fio:2: rw: \"reed\": expected one of: read, write"),
        ("[a]\nrw=randread:0", "j.fio:2: rw:"),
        ("[a]\nrw=randread:x", "j.fio:2: rw:"),
        ("[a]\nrw=randread:-8", "j.fio:2: rw:"),
        ("[a]\nbssplit=4k/60:8k/60", "j.fio:2: bssplit: the shares exceed 100 percent"),
        ("[a]\nnumjobs=0", "j.fio:2: numjobs: at least 1"),
        ("[a]\niodepth=4-8", "j.fio:2: iodepth:"),
        ("[a]\nbs=(8k-4k)", "j.fio:2: bs: fio splits lists at"),
        ("[a]\nsize=(8k-4k)", "j.fio:2: size:"),
        ("[a]\nrwmixread=101", "j.fio:2: rwmixread: \"101\": expected 0 to 100"),
        ("[a]\nfilename=", "j.fio:2: filename: the name is missing"),
        ("[a]\nkb_base=1001", "j.fio:2: kb_base: expected 1024 or 1000"),
        ("[global]\nbs=x\n[a]\n", "j.fio:2: bs: \"x\" is not a number"),
    ];
    for (text, expected) in cases {
        let Err(error) = jobs(text) else { panic!("{text:?} is taken") };
        let error = error.to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_job_has_a_bounded_number_of_files() {
    let names = |count: usize| format!("[global]\n{}[a]", "filename=a:b\n".repeat(count / 2));
    assert_eq!(good(&names(FILENAMES_MAX)).len(), 1);
    let error = jobs(&names(FILENAMES_MAX + 2)).unwrap_err().to_string();
    assert!(error.starts_with("j.fio:2050: filename: more than 4096 files"), "{error}");
}

#[test]
fn no_honoured_option_is_ignored() {
    // Each honoured option is given a value that no kind can read: if it is looked at, it is an
    // error; the few whose value is any text are left out.
    let any_text =
        ["name", "description", "filename", "directory", "filename_format", "ioengine", "exitall"];
    let logs = ["write_bw_log", "write_lat_log", "write_iops_log"];
    let any_text = [&any_text[..], &logs, &["wait_for"]].concat();
    let honoured = option_rows().filter(|row| matches!(row.class, Class::Honoured(_)));
    let mut count = 0;
    for row in honoured.filter(|row| !any_text.contains(&row.name)) {
        let text = format!("[a]\nioengine=io_uring\n{}=?", row.name);
        let error = jobs(&text).map(|_| row.name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("j.fio:3: {}:", row.name)), "{error}");
        count += 1;
    }
    assert!(count > 70, "{count}");
}

#[test]
fn a_file_without_jobs_has_none() {
    assert!(good("").is_empty());
    assert!(good("# nothing\n[global]\nbs=4k").is_empty());
    assert!(parse("\u{1}\u{2}binary").is_err());
}

#[test]
fn as_many_jobs_are_taken_as_fio_takes() {
    let sections =
        |count: u32| (0..count).map(|number| format!("[s{number}]\n")).collect::<String>();
    assert_eq!(good(&format!("[global]\nsize=1m\n{}", sections(4096))).len(), 4096);
    let limit = "more than 4096 jobs including all copies, which is fio's limit";
    let refused = |text: &str| jobs(text).unwrap_err().to_string();
    assert!(refused(&sections(4097)).contains(&format!("j.fio:4097: {limit}")));
    assert_eq!(good("[a]\nnumjobs=4000\n[b]\nnumjobs=96")[1].copies, 96);
    assert!(refused("[a]\nnumjobs=4000\n[b]\nnumjobs=97").contains(limit));
}

#[test]
fn defaults_with_many_files_are_not_taken_over_without_end() {
    let files = format!("[global]\nfilename={}\n", "f:".repeat(4000));
    let with = |count: usize| format!("{files}{}", "[s]\n".repeat(count));
    assert_eq!(good(&with(32)).len(), 32);
    let refusal = jobs(&with(33)).unwrap_err().to_string();
    assert!(refusal.contains("j.fio:35: the jobs so far name more than 131072 files"), "{refusal}");
}
