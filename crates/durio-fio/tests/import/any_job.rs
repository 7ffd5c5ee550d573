//! Jobs that nobody wrote: a plan that is sound, or refusals, never a panic.

use durio_fio::import::{ImportSettings, import};
use durio_plan::ClockChoice;
use proptest::prelude::*;

use super::{MACHINE, facts};
use durio_fio::job_file::{Source, Surroundings, parse_job_file, resolve};

const OPTIONS: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "blockalign",
    "size",
    "io_size",
    "filesize",
    "offset",
    "offset_increment",
    "offset_align",
    "numjobs",
    "loops",
    "runtime",
    "time_based",
    "ramp_time",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_max",
    "ioengine",
    "rate",
    "rate_iops",
    "rwmixread",
    "random_distribution",
    "norandommap",
    "direct",
    "sync",
    "fsync",
    "fdatasync",
    "filename",
    "directory",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "stonewall",
    "exitall",
    "number_ios",
    "zero_buffers",
    "buffer_compress_percentage",
    "percentage_random",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "100",
    "4k",
    "8k",
    "64k",
    "1m",
    "16e",
    "18446744073709551615", "16383p",
    "25%",
    "100%",
    "1%",
    "read",
    "write",
    "randread",
    "randwrite:8",
    "randrw",
    "read:4k",
    "zipf:1.2",
    "pareto:0.3",
    "zoned:50/5:30/15:20/80",
    "4k/50:8k/50",
    "1k-64k",
    "4096,8192",
    "new",
    "old",
    "/dev/a",
    "/dev/a:/dev/b",
    "/dev/zero",
    "dir",
    "libaio",
    "io_uring",
    "psync",
    "split",
    "0-3",
    "dsync",
    "1s",
    "1d",
    "500ms",
    "4000000000",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_job_is_a_sound_plan_or_refused(
        sections in prop::collection::vec(
            prop::collection::vec(
                (0..OPTIONS.len(), 0..VALUES.len(), any::<bool>()), 0..8,
            ),
            1..4,
        ),
    ) {
        let mut text = String::from("[global]\nfilename=new\nsize=1m\n");
        for (number, options) in sections.iter().enumerate() {
            text.push_str(&format!("[job{number}]\n"));
            for &(option, value, is_bare) in options {
                text.push_str(OPTIONS[option]);
                if !is_bare {
                    text.push_str(&format!("={}", VALUES[value]));
                }
                text.push('\n');
            }
        }
        let mut read = |_: &str, _: Option<&str>| Err("no such file".to_owned());
        let mut surroundings =
            Surroundings { read: &mut read, environment: &|_| None, machine: MACHINE };
        let source = Source { name: "j.fio".into(), text };
        let jobs = parse_job_file(&source, &mut surroundings).and_then(|file| resolve(&file));
        if let Ok(jobs) = jobs {
            let settings =
                ImportSettings { seed: 1, clock: ClockChoice::Auto, file_name: "f".to_owned() };
            match import(&jobs, &facts, &settings) {
                Ok(imported) => {
                    prop_assert_eq!(imported.plan.validate(), Ok(()));
                    let _ = imported.plan.duration();
                    for step in &imported.plan.steps {
                        for load in step.loads() {
                            for job in 0..load.workload.jobs.min(8) {
                                let place = load.place_of(job);
                                let size = imported.plan.targets[place.target].size;
                                let region =
                                    load.workload.region_among(place.place, place.sharers, size);
                                prop_assert!(region.is_ok(), "{}: {:?}", source.text, region);
                            }
                        }
                    }
                }
                Err(refusals) => prop_assert!(!refusals.is_empty()),
            }
        }
    }
}
