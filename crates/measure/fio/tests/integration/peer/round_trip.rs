//! Results of fio 3.33 read and written again are the same to the byte.

use durio_fio::json::{FioOutput, read, write};
use serde_json::Value;

use crate::peer::requirements::Fio;

/// Writes again what fio printed; the same bytes with fio 3.33, the same result with any.
fn assert_round_trip(text: &str) {
    let file = read(text.as_bytes()).unwrap();
    let (written, version) = (write(&file.output), file.output.version.clone());
    assert!(without_lines(read(written.as_bytes()).unwrap().output) == without_lines(file.output));
    if version == "fio-3.33" {
        let document = &text[text.find('{').unwrap()..];
        assert_eq!(keys(&written), keys(document));
        let differing = written.lines().zip(document.lines()).find(|(ours, theirs)| ours != theirs);
        assert_eq!(differing, None);
        assert_eq!(written.lines().count(), document.lines().count());
    }
}

/// Text before the document moves the jobs.
fn without_lines(mut output: FioOutput) -> FioOutput {
    output.jobs.iter_mut().for_each(|job| job.line = 0);
    output
}

/// Every key with the keys around it.
fn keys(text: &str) -> Vec<String> {
    fn collect(value: &Value, path: &str, keys: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                keys.push(format!("{path}/{key}"));
                collect(value, &format!("{path}/{key}"), keys);
            }),
            Value::Array(list) => list.iter().for_each(|item| collect(item, path, keys)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(&serde_json::from_str(text).unwrap(), "", &mut all);
    all
}

#[test]
fn single_jobs_come_back_to_the_byte() {
    let Some(fio) = Fio::new() else { return };
    for line in [
        "--name=n --ioengine=null --size=8m --rw=randrw --output-format=json",
        "--name=n --ioengine=null --size=8m --rw=randrw --output-format=json+ --disk_util=0",
        "--name=p --ioengine=psync --size=1m --rw=randwrite --fdatasync=1 --number_ios=50 \
         --lat_percentiles=1 --slat_percentiles=1 --output-format=json+",
        "--name=i --ioengine=null --size=8m --rw=randread --iodepth=8 --latency_target=10ms \
         --latency_window=100ms --output-format=json",
    ] {
        assert_round_trip(&fio.text(line));
    }
}

#[test]
fn groups_and_texts_come_back_to_the_byte() {
    let Some(fio) = Fio::new() else { return };
    for line in [
        "--name=global --ioengine=null --size=8m --description=a\\b\"c --name=a --rw=read \
         --name=b --rw=randwrite --stonewall=1 --output-format=json+",
        "--name=g --ioengine=null --size=8m --rw=randrw --numjobs=2 --group_reporting=1 \
         --unified_rw_reporting=mixed --continue_on_error=all --output-format=json+",
        "--name=h --ioengine=null --size=8m --rw=trim --unified_rw_reporting=both \
         --output-format=json+",
    ] {
        assert_round_trip(&fio.text(line));
    }
}

#[test]
fn a_steady_state_comes_back_to_the_byte() {
    let Some(fio) = Fio::new() else { return };
    let text = fio.text(
        "--name=s --ioengine=null --size=1g --rw=randread --time_based=1 --runtime=2 \
         --rate_iops=1000 --steadystate=iops_slope:50% --ss_dur=2 --output-format=json+",
    );
    assert!(text.contains("\"steadystate\""));
    assert_round_trip(&text);
}

#[test]
fn several_documents_among_text_give_the_last() {
    let Some(fio) = Fio::new() else { return };
    let file = fio.file(
        "--name=s --ioengine=null --size=1g --rw=randread --time_based=1 --runtime=2 \
         --rate_iops=500 --status-interval=1 --output-format=json,normal",
    );
    assert!(file.documents >= 2, "{}", file.documents);
    assert!(file.text.contains("IO depths"), "{}", file.text);
    assert!(file.output.jobs[0].read.as_ref().unwrap().runtime >= 1900);
    assert_eq!(file.cut_off_line, None);
}
