//! What fio derives from other options (`fixup_options` in its init.c, `setup_files` in its
//! filesetup.c), and what it makes of options per direction.

use durio_base::Bytes;
use durio_workload::{Arrivals, Contents, Coverage, PerMille, Region, Renewal, Skew};

use super::{imported, load, plan};

#[track_caller]
fn refusal(text: &str) -> String {
    let refusals = imported(text).unwrap_err();
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn random_and_sequential_parts_are_those_of_each_direction() {
    let of = |more: &str| load(&format!("[a]\nfilename=/dev/a\nrw=randrw\n{more}")).workload;
    let workload = of("percentage_random=100,0\nbs=32k\noffset=1m\nsize=32m");
    let jumps = workload.jumps.unwrap();
    assert_eq!((jumps.reads, jumps.writes), (PerMille::ALL, PerMille::NONE));
    assert_eq!(workload.coverage, Coverage::JumpsOnce, "fio's map has jumps alone");
    assert_eq!((workload.own_cursors, workload.cursors_wrap), (true, false));
    // The third is that of trims; one value is that of all.
    let jumps = of("percentage_random=30,60,90").jumps.unwrap();
    assert_eq!((jumps.reads, jumps.writes), (PerMille(300), PerMille(600)));
    let jumps = of("percentage_random=25").jumps.unwrap();
    assert_eq!((jumps.reads, jumps.writes), (PerMille(250), PerMille(250)));
    assert_eq!(of("percentage_random=100").coverage, Coverage::EachOnce);
    let free = of("percentage_random=10,20\nnorandommap");
    assert_eq!((free.coverage, free.own_cursors), (Coverage::Independent, true));
    // What does not occur changes nothing.
    let reads = load("[a]\nfilename=/dev/a\nrw=randread\npercentage_random=100,0").workload;
    assert_eq!((reads.jumps, reads.coverage), (None, Coverage::EachOnce));
}

#[test]
fn runs_have_a_place_for_reads_and_one_for_writes() {
    let of = |more: &str| load(&format!("[a]\nfilename=/dev/a\n{more}")).workload;
    let mixed = of("rw=randrw:8");
    assert_eq!((mixed.run_length, mixed.own_cursors), (8, true));
    assert_eq!((mixed.coverage, mixed.jumps), (Coverage::JumpsOnce, None));
    assert!(!of("rw=randread:8").own_cursors);
    assert!(of("rw=rw").own_cursors);
    let timed = "time_based\nruntime=9";
    assert!(of(&format!("rw=randrw:8\n{timed}")).cursors_wrap);
    assert!(of(&format!("rw=randwrite\npercentage_random=5\n{timed}")).cursors_wrap);
    assert!(!of(&format!("rw=randwrite\n{timed}")).cursors_wrap, "nothing goes on");
    // Of several files fio resets no place before all are done.
    let several =
        format!("[a]\nnrfiles=2\nsize=2m\ndirect=1\nrw=randread\npercentage_random=5\n{timed}");
    assert!(!load(&several).workload.cursors_wrap);
}

#[test]
fn passes_by_size_of_jobs_that_go_on_are_noted() {
    let notes = |more: &str| -> Vec<String> {
        let notes = plan(&format!("[a]\nfilename=/dev/a\nrw=randread:4\n{more}")).notes;
        notes.iter().map(ToString::to_string).filter(|note| note.contains("rw:")).collect()
    };
    assert!(notes("loops=2")[0].contains("after each size"));
    assert!(notes("size=8m\nio_size=9m")[0].contains("after each size"));
    assert!(notes("size=8m")[0].contains("ends such a job early"));
    assert_eq!(notes("size=8m\ntime_based\nruntime=3"), [""; 0]);
}

#[test]
fn notes_are_about_options_of_the_job_file_only() {
    let notes = |more: &str| -> Vec<String> {
        let notes = plan(&format!("[a]\nrw=randread\nsize=1m\nioengine=io_uring{more}")).notes;
        notes.iter().map(|note| format!("{} {}", note.at, note.option)).collect()
    };
    assert_eq!(notes(""), [""; 0]);
    assert_eq!(notes("\nfixedbufs=0\nregisterfiles=1"), ["j.fio:5 fixedbufs"]);
    assert_eq!(notes("\nwrite_bw_log=x"), ["j.fio:5 write_bw_log"]);
    assert_eq!(notes("\nwrite_bw_log=x\nlog_avg_msec=100"), [""; 0]);
    assert_eq!(notes("\ndirectory=dir"), ["j.fio:5 directory"]);
    assert_eq!(notes("\ndirectory=dir\nfilename=new"), ["j.fio:6 filename"]);
    assert_eq!(notes("\nfilename=/dev/a"), [""; 0]);
}

#[test]
fn there_is_a_map_of_blocks_for_the_random_distribution_alone() {
    let of = |more: &str| load(&format!("[a]\nfilename=/dev/a\nrw=randread\n{more}")).workload;
    for distribution in ["zipf:1.2", "pareto:0.3", "zoned:50/5:30/15:20/80", "zoned_abs:100/1m"] {
        for more in ["", "\nnorandommap=0", "\nrandom_generator=lfsr"] {
            let workload = of(&format!("random_distribution={distribution}{more}"));
            assert_eq!(workload.coverage, Coverage::Independent, "{distribution}{more}");
        }
    }
    assert_eq!(of("random_distribution=random").coverage, Coverage::EachOnce);
    assert_eq!(of("random_distribution=random\nnorandommap").coverage, Coverage::Independent);
}

fn byte_zones(skew: &Skew) -> Vec<(u16, u64)> {
    let Skew::ByteZones { zones } = skew else { panic!("{skew:?}") };
    zones.iter().map(|zone| (zone.accesses.0, zone.size.get() >> 10)).collect()
}

fn zones(skew: &Skew) -> Vec<(u16, u16)> {
    let Skew::Zones { zones } = skew else { panic!("{skew:?}") };
    zones.iter().map(|zone| (zone.accesses.0, zone.size.0)).collect()
}

#[test]
fn zones_are_in_percent_or_in_bytes_and_of_each_direction() {
    let of =
        |more: &str| load(&format!("[a]\nfilename=/dev/a\noffset=1m\nsize=8m\n{more}")).workload;
    let workload = of("rw=randread\nrandom_distribution=zoned_abs:60/1m:30/2m:10/5m");
    assert_eq!(byte_zones(&workload.skew), [(600, 1024), (300, 2048), (100, 5120)]);
    assert_eq!(workload.write_skew, None);
    let both = "random_distribution=zoned_abs:60/1m:40/3m,100/512k";
    let workload = of(&format!("rw=randrw\n{both}"));
    assert_eq!(byte_zones(&workload.skew), [(600, 1024), (400, 3072)]);
    assert_eq!(byte_zones(&workload.write_skew.unwrap()), [(1000, 512)]);
    let workload = of(&format!("rw=randwrite\n{both}"));
    assert_eq!((byte_zones(&workload.skew), workload.write_skew), (vec![(1000, 512)], None));
    let workload = of("rw=randrw\nrandom_distribution=zoned:90/10:10/90,20/50:80/50");
    assert_eq!(zones(&workload.skew), [(900, 100), (100, 900)]);
    assert_eq!(zones(&workload.write_skew.unwrap()), [(200, 500), (800, 500)]);
    let workload = of("rw=randrw\nrandom_distribution=zoned:90/10:10/90");
    assert_eq!((zones(&workload.skew).len(), workload.write_skew), (2, None));
}

#[test]
fn zones_behind_the_region_are_refused() {
    let text = "[a]\nfilename=/dev/a\nsize=8m\nrw=randread\n";
    let refused = refusal(&format!("{text}random_distribution=zoned_abs:60/4m:40/5m"));
    assert!(refused.contains("its zones end at 9 MiB and the region at 8 MiB"), "{refused}");
    plan(&format!("{text}random_distribution=zoned_abs:60/4m:40/4m"));
}

#[test]
fn a_rate_of_one_direction_alone_is_refused_where_both_occur() {
    for (rate, option) in
        [("rate=,40m", "rate"), ("rate=40m,", "rate"), ("rate_iops=,80", "rate_iops")]
    {
        let text = format!("[a]\nfilename=/dev/a\nrw=randrw\nrwmixwrite=75\n{rate}");
        let refused = refusal(&text);
        assert!(refused.contains(&format!("j.fio:5: {option}: it limits")), "{refused}");
        assert!(refused.contains("limits both or neither"), "{refused}");
    }
    let read = load("[a]\nfilename=/dev/a\nrw=randread\nrate=,40m");
    assert_eq!(read.arrivals, Arrivals::Closed, "no read is limited");
    let write = load("[a]\nfilename=/dev/a\nrw=randwrite\nbs=128k\nrate=,40m");
    assert_eq!(write.arrivals, Arrivals::Constant { rate_per_second: 320.0 });
}

#[test]
fn each_file_has_whole_blocks_of_its_share() {
    let load = load("[ten]\nrw=write\nbs=64k\nsize=1m\nnrfiles=10");
    let length = |kib| Some(Region { offset: Bytes::ZERO, length: Bytes::from_kib(kib) });
    assert_eq!((load.targets_each, load.workload.within), (10, length(64)));
    // 1048570 bytes of whole blocks in files of 104857.
    let volume = |text: &str| format!("{:?}", super::step(text).limit);
    let expected = |kib| format!("{:?}", durio_plan::Limit::Volume(Bytes::from_kib(kib)));
    assert_eq!(volume("[ten]\nrw=write\nbs=64k\nsize=1m\nnrfiles=10"), expected(640));
    assert_eq!(volume("[ten]\nrw=randread\ndirect=1\nbs=64k\nsize=1m\nnrfiles=10"), expected(640));
    assert_eq!(
        volume("[ten]\nrw=randread\ndirect=1\nbs=64k\nsize=1m\nnrfiles=10\nloops=3"),
        expected(1920)
    );
    // Free draws go on until the size is moved.
    let free = "[ten]\nrw=randread\ndirect=1\nbs=64k\nsize=1m\nnrfiles=10\nnorandommap";
    assert_eq!(volume(free), expected(1024));
    let each = super::load("[seven]\nrw=read\nbs=4k\nsize=1m\nnrfiles=7\noffset=8k").workload;
    assert_eq!(
        each.within,
        Some(Region { offset: Bytes::from_kib(8), length: Bytes::from_kib(144) })
    );
    // 5 blocks and a third of each: the last of all ends the job in the first file.
    let longer = super::step("[a]\nfilename=old1:old2:old3\nrw=read\nbs=64k\nsize=1m");
    assert_eq!(longer.load.workload.within, length(384));
    assert_eq!(format!("{:?}", longer.limit), expected(1024));
    let longer = refusal("[a]\nfilename=old1:old2:old3\nrw=randread\nbs=64k\nsize=1m");
    assert!(longer.contains("not a whole number of blocks"), "{longer}");
}

#[test]
fn a_name_of_global_is_no_section_s_and_results_keep_127_bytes_of_it() {
    let long = "ü".repeat(92);
    let text = format!(
        "[global]\nname=suite\nfilename=/dev/a\nrw=read\n[first]\n[second]\nname=own\n\
         [third]\nname={long}x\n"
    );
    let shape = plan(&text).shape;
    let names: Vec<&str> = shape.rows.iter().map(|row| row.name.as_str()).collect();
    // 63 letters of two bytes each: the half of another would be no text.
    assert_eq!(names, ["first", "own", &"ü".repeat(63)]);
    let jobs: Vec<&str> = shape.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(jobs, ["first", "own", &format!("{long}x")]);
    let text = format!("[{}]\nfilename=/dev/a\nrw=read", "n".repeat(185));
    assert_eq!(plan(&text).shape.rows[0].name.len(), 127);
}

#[test]
fn a_share_of_zeros_refills_the_buffers_unless_it_is_told_not_to() {
    let of = |more: &str| {
        let workload = load(&format!("[a]\nfilename=/dev/a\nrw=write\n{more}")).workload;
        (workload.contents, workload.renewal, workload.duplicates.0)
    };
    let zeros = |percent: u16| Contents::Compressible { zeros: PerMille(percent * 10) };
    let percent = "buffer_compress_percentage=30";
    assert_eq!(of(percent), (zeros(30), Renewal::EachWrite, 0));
    let kept = format!("{percent}\nrefill_buffers=0");
    assert_eq!(of(&kept), (zeros(30), Renewal::Scrambled, 0));
    assert_eq!(of(&format!("{kept}\nscramble_buffers=0")), (zeros(30), Renewal::Never, 0));
    assert_eq!(of("buffer_compress_percentage=100"), (zeros(100), Renewal::Never, 0));
    let twice = (Contents::Incompressible, Renewal::EachWrite, 250);
    assert_eq!(of("dedupe_percentage=25"), twice);
}

#[test]
fn with_holes_an_io_size_is_what_is_moved() {
    let limit = |more: &str| {
        super::step(&format!("[a]\nfilename=/dev/a\nrw=write:8k\nbs=8k\nsize=4m\n{more}")).limit
    };
    let volume = |kib| durio_plan::Limit::Volume(Bytes::from_kib(kib));
    // By fio 3.33 under strace: 45 and 768 writes of 8 KiB.
    assert_eq!(limit("io_size=360k"), volume(360));
    assert_eq!(limit("io_size=6m"), volume(6144));
}
