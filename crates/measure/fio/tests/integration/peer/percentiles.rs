//! Percentiles from bins are those that fio printed, for every kind of latency.

use durio_fio::histogram::FioBins;
use durio_fio::json::{FioFile, LatencyBlock};

use crate::peer::requirements::Fio;

/// Every latency that has percentiles, with its name.
fn latencies(file: &FioFile) -> Vec<(String, &LatencyBlock)> {
    let mut all = Vec::new();
    for job in &file.output.jobs {
        let directions = [("read", &job.read), ("write", &job.write), ("mixed", &job.mixed)];
        for (name, direction) in directions {
            let Some(direction) = direction else { continue };
            all.push((format!("{name} slat"), &direction.slat_ns));
            all.push((format!("{name} clat"), &direction.clat_ns));
            all.push((format!("{name} lat"), &direction.lat_ns));
        }
        all.extend(job.sync.iter().map(|sync| ("sync".to_owned(), &sync.lat_ns)));
    }
    all.retain(|(_, block)| !block.percentiles.is_empty());
    all
}

/// Compares all percentiles; returns how many there were.
fn assert_same(file: &FioFile) -> usize {
    let mut compared = 0;
    for (name, block) in latencies(file) {
        assert_eq!(Some(block.bins.total()), block.n, "{name}");
        for &(percent, printed_ns) in &block.percentiles {
            let found = block.bins.percentile_ns(percent);
            assert_eq!(found, Some(printed_ns), "{name}: {percent} % of {:?}", block.n);
            compared += 1;
        }
    }
    compared
}

#[test]
fn percentiles_of_small_counts_are_fio_s_to_the_last_sample() {
    let Some(fio) = Fio::new() else { return };
    let counts = [1, 2, 3, 7, 10, 99, 100, 200, 1000, 3000];
    let jobs: String =
        counts.iter().map(|count| format!(" --name=n{count} --number_ios={count}")).collect();
    let file = fio.file(&format!(
        "--ioengine=null --size=1g --rw=randread --lat_percentiles=1 --clat_percentiles=1 \
         --output-format=json+ {jobs}"
    ));
    assert_eq!(assert_same(&file), 2 * 17 * counts.len());
    let found = file.output.jobs.iter().map(|job| job.read.as_ref().unwrap().lat_ns.samples());
    assert_eq!(found.collect::<Vec<_>>(), counts);
}

/// As it would be without extended precision.
fn in_doubles(block: &LatencyBlock, percent: f64) -> Option<u64> {
    let needed = percent / 100.0 * f64::from(u32::try_from(block.bins.total()).unwrap());
    let mut so_far = 0.0;
    block.bins.iter().find_map(|(middle_ns, count)| {
        so_far += f64::from(u32::try_from(count).unwrap());
        (so_far >= needed).then_some(middle_ns)
    })
}

/// Of 50 samples these percentages fall on one of them, where rounding decides.
#[test]
fn percentiles_that_fall_on_a_sample_are_rounded_as_fio_rounds() {
    let Some(fio) = Fio::new() else { return };
    let file = fio.file(
        "--name=p --ioengine=psync --rw=randwrite --size=1m --number_ios=50 --numjobs=16 \
         --percentile_list=7:14:28:30:56:60 --output-format=json+",
    );
    assert_eq!(assert_same(&file), 16 * 6);
    let latencies = latencies(&file);
    let differs = |block: &LatencyBlock| {
        block.percentiles.iter().any(|&(percent, ns)| in_doubles(block, percent) != Some(ns))
    };
    assert!(latencies.iter().any(|(_, block)| differs(block)), "doubles would do as well");
}

#[test]
fn percentiles_of_mixed_and_synced_jobs_are_fio_s() {
    let Some(fio) = Fio::new() else { return };
    let percentiles = "--lat_percentiles=1 --clat_percentiles=1 --slat_percentiles=1 \
        --percentile_list=0.1:12.5:33.3:50:66.6:90:99.7:99.9:99.99:99.99999:100";
    for (job, names) in [
        (
            "--ioengine=psync --rw=randrw --size=1m --fdatasync=4 --number_ios=300",
            vec!["read clat", "read lat", "write clat", "write lat", "sync"],
        ),
        (
            "--ioengine=null --iodepth=16 --rw=read --size=64m --numjobs=2 --group_reporting=1 \
             --unified_rw_reporting=both",
            vec!["read slat", "read clat", "read lat", "mixed slat", "mixed clat", "mixed lat"],
        ),
    ] {
        let file = fio.file(&format!("--name=j {job} {percentiles} --output-format=json+"));
        let found: Vec<String> = latencies(&file).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, names);
        assert_eq!(assert_same(&file), 11 * names.len());
    }
}

#[test]
fn percentiles_of_io_uring_are_fio_s() {
    let Some(fio) = Fio::new() else { return };
    let line = "--name=u --ioengine=io_uring --iodepth=8 --size=4m --rw=randwrite --fsync=16 \
                --lat_percentiles=1 --clat_percentiles=1 --slat_percentiles=1 --output-format=json+";
    let file = fio.file(line);
    assert_eq!(assert_same(&file), 17 * 4);
}

#[test]
fn bins_of_clones_together_are_the_bins_of_the_group() {
    let Some(fio) = Fio::new() else { return };
    let file =
        fio.file("--name=n --ioengine=null --size=16m --rw=read --numjobs=3 --output-format=json+");
    let mut sum = FioBins::default();
    for job in &file.output.jobs {
        sum.merge(&job.read.as_ref().unwrap().clat_ns.bins);
    }
    assert_eq!(file.output.jobs.len(), 3);
    assert_eq!(sum.total(), 3 * (16 << 20) / 4096);
}
