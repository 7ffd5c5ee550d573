//! The rows of fio's results, and the loads that measure them.

use durio_base::Nanos;
use durio_fio::import::{LogKind, ResultRow, StreamPlace};

use super::plan;

/// Name, group, copies and loads (step and stream).
type Row = (String, u32, u32, Vec<(u32, u32)>);

fn rows(text: &str) -> Vec<Row> {
    let place = |at: &StreamPlace| (at.step, at.stream);
    let row = |row: &ResultRow| {
        (row.name.clone(), row.group, row.copies, row.places.iter().map(place).collect())
    };
    plan(text).shape.rows.iter().map(row).collect()
}

const GLOBAL: &str = "[global]\nfilename=/dev/a\nrw=randread\n";

#[test]
fn copies_have_a_row_and_a_load_each() {
    let text = format!("{GLOBAL}[a]\nnumjobs=2\n[b]\nstonewall\n");
    let row = |name: &str, group, place| (name.to_owned(), group, 1, vec![place]);
    assert_eq!(rows(&text), [row("a", 0, (0, 0)), row("a", 0, (0, 1)), row("b", 1, (1, 0))]);
}

#[test]
fn sections_that_differ_in_their_file_have_a_row_each() {
    let rows = rows("[global]\nrw=randread\n[x]\nfilename=/dev/a\n[y]\nfilename=/dev/b");
    assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn a_reporting_group_is_one_row_of_all_its_loads() {
    let text = format!(
        "{GLOBAL}group_reporting\n[a]\nnumjobs=4\n[b]\nrw=randwrite\n[c]\nnew_group\nnumjobs=2"
    );
    let expected =
        [("a".to_owned(), 0, 5, vec![(0, 0), (0, 1)]), ("c".to_owned(), 1, 2, vec![(0, 2)])];
    assert_eq!(rows(&text), expected);
    // The options are those of the last job, as in fio.
    let shape = plan(&text).shape;
    assert_eq!(shape.rows[0].options, [("rw".to_owned(), "randwrite".to_owned())]);
}

#[test]
fn a_job_without_group_reporting_has_a_row_beside_a_group_s() {
    let text = format!("{GLOBAL}[a]\n[b]\ngroup_reporting\n[c]\n");
    // fio lets a grouped job join the row before it if that is of the same group.
    let names: Vec<_> = rows(&text).into_iter().map(|row| (row.0, row.2)).collect();
    assert_eq!(names, [("a".to_owned(), 2), ("c".to_owned(), 1)]);
}

#[test]
fn more_copies_than_a_step_has_loads_are_one_row_and_that_is_said() {
    let imported = plan(&format!("{GLOBAL}[a]\nnumjobs=100"));
    assert_eq!(imported.shape.rows.len(), 1);
    assert!(imported.notes.iter().any(|note| note.what.contains("one row")));
}

#[test]
fn a_log_has_a_load_per_copy_and_intervals_of_its_length() {
    let text = format!(
        "{GLOBAL}runtime=10\ntime_based\n[a]\nnumjobs=2\ngroup_reporting\nwrite_bw_log=x\n\
         log_avg_msec=500"
    );
    let imported = plan(&text);
    assert_eq!(imported.plan.steps[0].interval, Nanos::from_millis(500));
    let logs: Vec<_> =
        imported.shape.logs.iter().map(|log| (log.kind, log.number, log.place.stream)).collect();
    assert_eq!(logs, [(LogKind::Bandwidth, Some(1), 0), (LogKind::Bandwidth, Some(2), 1)]);
    assert_eq!(imported.shape.rows.len(), 1);
    let other = plan(&text.replace("log_avg_msec=500", "per_job_logs=0"));
    assert_eq!(other.plan.steps[0].interval, Nanos::from_millis(100));
    assert!(other.shape.logs.iter().all(|log| log.number.is_none() && !log.is_averaged));
    assert!(other.notes.iter().any(|note| note.what.contains("a line per 100 ms")));
}
