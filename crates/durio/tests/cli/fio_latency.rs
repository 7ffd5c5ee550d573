//! The parts of a latency in `durio fio`: submission until the call for it has returned, completion
//! until it is taken, as fio has them.

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// What `durio fio` prints for the only job of `lines`.
fn job(lines: &str) -> Value {
    let mut sandbox = Sandbox::new();
    fs::write(sandbox.data().join("f"), vec![1; 4 << 20]).unwrap();
    sandbox.accept_changes();
    let file = sandbox.root().join("job.fio");
    fs::write(&file, format!("[a]\nfilename=data/f\nbs=4k\nsize=4m\n{lines}\n")).unwrap();
    let permission = if lines.contains("write") { "--destroy data/f" } else { "" };
    let line = format!("fio {permission} --output-format=json");
    let document = sandbox.durio(&line).word(&file).run().expect_exit(0).json();
    sandbox.accept_changes();
    document["jobs"][0].clone()
}

#[test]
fn no_completion_takes_no_time_and_the_parts_are_the_whole() {
    let queue = "iodepth=32\nslat_percentiles=1\nlat_percentiles=1";
    for (side, lines) in [
        // Through the page cache: complete when the submitting call returns.
        ("read", "rw=randread\nioengine=io_uring\ninvalidate=0"),
        (
            "read",
            "rw=randread\nioengine=libaio\ninvalidate=0\niodepth_batch=8\niodepth_batch_complete_max=8",
        ),
        ("write", "rw=write\nioengine=io_uring\niodepth_batch=16\niodepth_batch_complete_min=16"),
        ("write", "rw=randwrite\nioengine=libaio\niodepth_low=8"),
        ("read", "rw=read\nioengine=io_uring\nrate_iops=5000\ninvalidate=0"),
    ] {
        let job = job(&format!("{lines}\n{queue}"));
        let part = |name: &str| &job[side][name];
        let sum = |name: &str| {
            let (mean, count) = (&part(name)["mean"], &part(name)["N"]);
            assert_eq!(count, 1024, "{lines}: {name}");
            mean.as_f64().unwrap() * 1024.0
        };
        let (submit, completion, all) = (sum("slat_ns"), sum("clat_ns"), sum("lat_ns"));
        // Means are printed to a millionth of a nanosecond.
        assert!((submit + completion - all).abs() < 1.0, "{lines}: {submit} {completion} {all}");
        for name in ["slat_ns", "clat_ns", "lat_ns"] {
            assert!(part(name)["min"].as_u64().unwrap() > 0, "{lines}: {name}");
            let first = &part(name)["percentile"]["1.000000"];
            assert!(first.as_u64().unwrap() > 0, "{lines}: {name} {first}");
        }
    }
}
