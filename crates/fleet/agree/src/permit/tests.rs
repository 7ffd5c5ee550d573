//! Each limit of a permit, on both sides of its bound.

use std::os::unix::fs::symlink;
use std::time::Duration;

use durio_command::{CommandErrorKind, error_chain};

use super::*;
use crate::host_file::TrustedCoordinator;
use crate::tests::planned_write;

const KEY: &str = "UKEY";

/// A host with a folder for `data` and a device for `raw`.
struct PermitCase {
    folder: tempfile::TempDir,
    file: HostFile,
    plan: PlannedWrites,
}

fn permit(target: &str, place: PermittedPlace) -> HostPermit {
    HostPermit {
        coordinator: "storage".to_owned(),
        target: target.to_owned(),
        place,
        size_max: Some(Bytes::from_gib(64)),
        written_max: Some(Bytes::from_gib(4096)),
        rate_max: None,
    }
}

fn host() -> PermitCase {
    let folder = tempfile::tempdir().unwrap();
    // The place of temporary files may be reached by a link.
    let place = folder.path().canonicalize().unwrap();
    let serial = "S64G".to_owned();
    let device = PermittedPlace::Device { serial, destroy: true, force_signature: false };
    let coordinator =
        |name: &str, key: &str| TrustedCoordinator { name: name.to_owned(), key: key.to_owned() };
    let file = HostFile {
        name: None,
        bus: None,
        coordinators: vec![coordinator("storage", KEY), coordinator("other", "UOTHER")],
        permits: vec![permit("data", PermittedPlace::Folder(place.clone())), permit("raw", device)],
        limits: HostLimits::default(),
    };
    let write = PlannedWrite {
        place: WritePlace::Folder(place),
        size: Bytes::from_gib(64),
        written: Some(Bytes::from_gib(4096)),
        ..planned_write()
    };
    let duration = Some(Nanos::from_secs(3600));
    let plan = PlannedWrites { writes: vec![write], duration, is_watchable: true };
    PermitCase { folder, file, plan }
}

impl PermitCase {
    /// Permitted, and without a watch.
    fn asked(&self, seconds: u64, key: &str) -> Result<(), String> {
        self.watch(seconds, key).map(|watch| assert_eq!(watch, None))
    }

    fn watch(&self, seconds: u64, key: &str) -> Result<Option<WriteWatch>, String> {
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        permitted(&self.plan, PermitSource::File(&self.file), now, key).map_err(|error| {
            assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
            error_chain(&error).replace(&self.place(), "FOLDER")
        })
    }

    fn refused(&self) -> String {
        self.asked(0, KEY).unwrap_err()
    }

    fn place(&self) -> String {
        self.folder.path().canonicalize().unwrap().display().to_string()
    }

    fn put_on_device(&mut self, serial: &str) {
        let place = WritePlace::Device { path: "/dev/sdx".into(), serial: serial.to_owned() };
        let write = &mut self.plan.writes[0];
        (write.target, write.place, write.destroys) = ("raw".to_owned(), place, true);
    }
}

#[test]
fn what_the_file_permits_is_permitted_up_to_its_limits() {
    let mut host = host();
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.writes[0].size = Bytes::new(Bytes::from_gib(64).get() + Bytes::from_gib(1).get());
    assert_eq!(host.refused(), "permit 'data': size 65 GiB exceeds size_max of 64 GiB");
    host.file.permits[0].size_max = None;
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.writes[0].written = Some(Bytes::from_gib(5120));
    assert_eq!(host.refused(), "permit 'data': bytes written 5 TiB exceeds written_max of 4 TiB");
    host.plan.writes[0].written = None;
    host.plan.is_watchable = false;
    assert_eq!(
        host.refused(),
        "permit 'data': the plan does not limit its bytes written; written_max is 4 TiB"
    );
    host.file.permits[0].written_max = None;
    host.file.permits[0].rate_max = Some(Bytes::from_mib(200));
    assert_eq!(
        host.refused(),
        "permit 'data': the plan does not limit its write rate; rate_max is 200 MiB/s"
    );
    host.plan.writes[0].rate = Some(Bytes::from_mib(200));
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.writes[0].rate = Some(Bytes::from_mib(201));
    assert_eq!(host.refused(), "permit 'data': write rate 201 MiB/s exceeds rate_max of 200 MiB/s");
}

#[test]
fn each_amount_is_permitted_at_its_limit_and_refused_with_one_more() {
    let limit = 5 << 20;
    type Set = fn(&mut PlannedWrite, Bytes);
    let rows: [(&str, Set); 3] = [
        ("size 5 MiB exceeds size_max of 5 MiB", |write, bytes| write.size = bytes),
        ("bytes written 5 MiB exceeds written_max of 5 MiB", |write, bytes| {
            write.written = Some(bytes);
        }),
        ("write rate 5 MiB/s exceeds rate_max of 5 MiB/s", |write, bytes| {
            write.rate = Some(bytes);
        }),
    ];
    for (sentence, set) in rows {
        let mut host = host();
        let amounts = Some(Bytes::new(limit));
        let permit = &mut host.file.permits[0];
        (permit.size_max, permit.written_max, permit.rate_max) = (amounts, amounts, amounts);
        let write = &mut host.plan.writes[0];
        (write.size, write.written, write.rate) = (Bytes::new(limit), amounts, amounts);
        assert_eq!(host.asked(0, KEY), Ok(()), "{sentence}");
        set(&mut host.plan.writes[0], Bytes::new(limit + 1));
        assert_eq!(host.refused(), format!("permit 'data': {sentence}"));
    }
    let mut host = host();
    let limit = Nanos::from_secs(60);
    host.file.limits.duration_max = Some(limit);
    host.plan.duration = Some(limit);
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.duration = Some(Nanos::new(limit.get() + 1));
    assert!(host.refused().contains("exceeds duration_max of 1 min"), "{}", host.refused());
}

#[test]
fn a_run_that_time_alone_limits_is_watched_by_the_smallest_of_its_permits() {
    let mut host = host();
    host.plan.writes[0].written = None;
    let watch = host.watch(0, KEY).unwrap();
    assert_eq!(watch, Some(WriteWatch::new("data", Bytes::from_gib(4096))));
    // A second target that is limited by its plan.
    host.plan
        .writes
        .push(PlannedWrite { written: Some(Bytes::ZERO), ..host.plan.writes[0].clone() });
    host.plan.writes[1].target = "raw".to_owned();
    host.plan.writes[1].place =
        WritePlace::Device { path: "/dev/sdx".into(), serial: "S64G".to_owned() };
    host.file.permits[1].written_max = Some(Bytes::from_gib(7));
    assert_eq!(host.watch(0, KEY).unwrap(), watch);
    host.plan.writes[1].written = None;
    assert_eq!(host.watch(0, KEY), Ok(Some(WriteWatch::new("raw", Bytes::from_gib(7)))));
    (host.file.permits[0].written_max, host.file.permits[1].written_max) = (None, None);
    assert_eq!(host.asked(0, KEY), Ok(()), "nothing to watch for");
}

#[test]
fn a_watched_run_ends_if_it_would_have_written_too_much_by_the_next_look() {
    let mut watch = WriteWatch::new("data", Bytes::from_kib(100));
    let mut note = |millis: u64, kib: Option<u64>| {
        let now = Nanos::from_millis(millis);
        assert_eq!(watch.due(), now);
        watch.note(now, kib.map(Bytes::from_kib))
    };
    assert_eq!(note(0, Some(40)), None);
    assert_eq!(note(500, Some(70)), None);
    // As much again would be 100 KiB.
    assert_eq!(note(1_000, Some(85)), None);
    let reason = "the run has written 93 KiB; written_max of permit 'data' is 100 KiB";
    assert_eq!(note(1_500, Some(93)), Some(reason.to_owned()));
    let reason = "cannot see how much the run writes; written_max of permit 'data' is 100 KiB";
    assert_eq!(note(2_000, None), Some(reason.to_owned()));
}

#[test]
fn several_writes_to_one_target_are_added_up() {
    let mut host = host();
    host.plan.writes[0].size = Bytes::from_gib(32);
    host.plan.writes[0].written = Some(Bytes::from_gib(1));
    host.plan.writes.push(host.plan.writes[0].clone());
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.writes.push(host.plan.writes[0].clone());
    assert_eq!(host.refused(), "permit 'data': size 96 GiB exceeds size_max of 64 GiB");
}

#[test]
fn a_key_without_permits_and_an_unknown_key_are_refused() {
    let mut host = host();
    assert_eq!(
        host.asked(0, "UEVIL").unwrap_err(),
        "the coordinator's key 'UEVIL' is not in the host file"
    );
    assert_eq!(
        host.asked(0, "UOTHER").unwrap_err(),
        "coordinator 'other' has no permit for target 'data'"
    );
    host.plan.writes[0].target = "logs".to_owned();
    assert_eq!(host.refused(), "coordinator 'storage' has no permit for target 'logs'");
    host.plan.writes.clear();
    assert_eq!(host.asked(0, KEY), Ok(()), "a plan that writes nothing");
    assert!(host.asked(0, "UEVIL").is_err(), "and of an unknown key not even that");
}

#[test]
fn a_device_is_overwritten_by_serial_and_consent_only() {
    let mut host = host();
    host.put_on_device("S64G");
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.put_on_device("S64H");
    assert_eq!(
        host.refused(),
        "permit 'raw' is for the device with serial 'S64G'; the plan writes to 'S64H'"
    );
    host.put_on_device("S64G");
    let serial = "S64G".to_owned();
    host.file.permits[1].place =
        PermittedPlace::Device { serial, destroy: false, force_signature: false };
    assert_eq!(
        host.refused(),
        "permit 'raw' does not allow overwriting the device with serial 'S64G'"
    );
    host.plan.writes[0].target = "data".to_owned();
    assert_eq!(
        host.refused(),
        "permit 'data' is for the folder 'FOLDER'; the plan writes to the device '/dev/sdx'"
    );
    let folder = WritePlace::Folder("/srv/x".into());
    (host.plan.writes[0].target, host.plan.writes[0].place) = ("raw".to_owned(), folder);
    assert_eq!(
        host.refused(),
        "permit 'raw' is for the device with serial 'S64G'; the plan writes to the folder '/srv/x'"
    );
}

#[test]
fn a_folder_is_the_permitted_one_or_below_and_reached_without_links() {
    let mut host = host();
    let place = PathBuf::from(host.place());
    std::fs::create_dir(place.join("below")).unwrap();
    std::fs::write(place.join("file"), "").unwrap();
    symlink("/tmp", place.join("link")).unwrap();
    std::fs::create_dir(place.join("below/deeper")).unwrap();
    symlink(place.join("below"), place.join("inside")).unwrap();
    let outside = |path: &str| {
        format!("permit 'data' is for the folder 'FOLDER'; the plan writes to '{path}'")
    };
    let rows = [
        (place.join("below"), Ok(())),
        (place.join("below/deeper"), Ok(())),
        ("/srv".into(), Err(outside("/srv"))),
        (place.join("../x"), Err(outside("FOLDER/../x"))),
        (format!("{}-other", place.display()).into(), Err(outside("FOLDER-other"))),
        (place.join("absent"), Err("permit 'data': 'FOLDER/absent' does not exist".to_owned())),
        (place.join("file"), Err("permit 'data': 'FOLDER/file' is not a folder".to_owned())),
        (place.join("link"), Err("permit 'data': 'FOLDER/link' is a symbolic link".to_owned())),
        (
            place.join("inside/deeper"),
            Err("permit 'data': 'FOLDER/inside' is a symbolic link".to_owned()),
        ),
    ];
    for (path, expected) in rows {
        host.plan.writes[0].place = WritePlace::Folder(path.clone());
        assert_eq!(host.asked(0, KEY), expected, "{}", path.display());
    }
    // Also where the file itself names the link.
    host.file.permits[0].place = PermittedPlace::Folder(place.join("inside"));
    host.plan.writes[0].place = WritePlace::Folder(place.join("inside"));
    assert_eq!(host.refused(), "permit 'data': 'FOLDER/inside' is a symbolic link");
    host.file.permits[0].place = PermittedPlace::Folder(place.clone());
    host.plan.writes[0].place = WritePlace::Folder(place);
    host.plan.writes[0].destroys = true;
    assert_eq!(
        host.refused(),
        "permit 'data' is for new files; the plan overwrites existing files in 'FOLDER'"
    );
}

#[test]
fn a_plan_is_within_its_duration_and_its_hours() {
    const HOUR: u64 = 3600;
    let mut host = host();
    host.file.limits.duration_max = Some(Nanos::from_secs(HOUR));
    assert_eq!(host.asked(0, KEY), Ok(()));
    host.plan.duration = Some(Nanos::from_secs(2 * HOUR));
    assert_eq!(host.refused(), "the plan takes 2 h, which exceeds duration_max of 1 h");
    host.plan.duration = None;
    assert_eq!(host.refused(), "the plan does not limit its duration; duration_max is 1 h");

    host.file.limits.duration_max = None;
    host.file.limits.hours = Some("20:00-06:00".parse().unwrap());
    assert_eq!(host.refused(), "the plan does not limit its duration; hours are 20:00-06:00 UTC");
    host.plan.duration = Some(Nanos::from_secs(2 * HOUR));
    let refused = |at: &str| {
        let plan = format!("a plan of 2 h that starts at {at} UTC");
        Err(format!("{plan} is not within the hours 20:00-06:00 UTC"))
    };
    let day = 24 * HOUR;
    let rows = [
        (20 * HOUR, Ok(())),
        (20 * HOUR - 1, refused("19:59")),
        (23 * HOUR, Ok(())),
        (day, Ok(())),
        (day + 4 * HOUR, Ok(())),
        (day + 4 * HOUR + 1, refused("04:00")),
        (day + 6 * HOUR, refused("06:00")),
        (day + 12 * HOUR + 34 * 60, refused("12:34")),
    ];
    for (seconds, expected) in rows {
        assert_eq!(host.asked(seconds, KEY), expected, "{seconds} s");
    }
    // Within one day.
    host.file.limits.hours = Some("08:00-10:00".parse().unwrap());
    assert_eq!(host.asked(8 * HOUR, KEY), Ok(()));
    assert_eq!(
        host.asked(8 * HOUR + 60, KEY).unwrap_err(),
        "a plan of 2 h that starts at 08:01 UTC is not within the hours 08:00-10:00 UTC"
    );
}

#[test]
fn by_ssh_without_a_file_only_new_files_in_the_folders_of_the_operator() {
    let mut host = host();
    let targets = [("data".to_owned(), PathBuf::from(host.place()))];
    let asked = |host: &PermitCase| {
        let source = PermitSource::Targets(&targets);
        let watch = permitted(&host.plan, source, UNIX_EPOCH, "");
        watch.map(|watch| assert_eq!(watch, None)).map_err(|error| error_chain(&error))
    };
    assert_eq!(asked(&host), Ok(()));
    host.plan.writes[0].destroys = true;
    let sentence = asked(&host).unwrap_err();
    assert!(sentence.starts_with("permit 'data' is for new files; "), "{sentence}");
    host.plan.writes[0].destroys = false;
    host.plan.writes[0].target = "logs".to_owned();
    assert_eq!(asked(&host).unwrap_err(), "target 'logs' is not among the folders of --target");
    host.put_on_device("S64G");
    assert_eq!(
        asked(&host).unwrap_err(),
        "target 'raw' is a device, and this host has no host file"
    );
}

#[test]
fn an_amount_is_known_if_that_of_each_write_is_and_the_smallest_permit_is_watched_wherever_it_is() {
    let mut host = host();
    host.plan.writes.push(host.plan.writes[0].clone());
    let write = &mut host.plan.writes;
    (write[0].size, write[1].size) = (Bytes::from_gib(1), Bytes::from_gib(1));
    (write[0].written, write[1].written) = (Some(Bytes::from_gib(1)), None);
    let watch = WriteWatch::new("data", Bytes::from_gib(4096));
    assert_eq!(host.watch(0, KEY), Ok(Some(watch)));
    host.file.permits[0].rate_max = Some(Bytes::from_mib(200));
    host.plan.writes[0].rate = Some(Bytes::from_mib(1));
    let sentence = "permit 'data': the plan does not limit its write rate; rate_max is 200 MiB/s";
    assert_eq!(host.refused(), sentence);

    host.file.permits[0].rate_max = None;
    host.plan.writes[1].target = "raw".to_owned();
    host.plan.writes[1].place =
        WritePlace::Device { path: "/dev/sdx".into(), serial: "S64G".to_owned() };
    host.plan.writes[0].written = None;
    for (data, raw, target, smallest) in [(3, 7, "data", 3), (7, 3, "raw", 3)] {
        host.file.permits[0].written_max = Some(Bytes::from_gib(data));
        host.file.permits[1].written_max = Some(Bytes::from_gib(raw));
        let watch = WriteWatch::new(target, Bytes::from_gib(smallest));
        assert_eq!(host.watch(0, KEY), Ok(Some(watch)));
    }
}

#[test]
fn a_device_is_overwritable_for_its_coordinator_and_target_with_consent() {
    let mut host = host();
    assert_eq!(overwritable(&host.file, KEY, "raw"), Some(("S64G", false)));
    for (key, target) in [(KEY, "data"), (KEY, "logs"), ("UOTHER", "raw"), ("UEVIL", "raw")] {
        assert_eq!(overwritable(&host.file, key, target), None, "{key} {target}");
    }
    let place = |destroy, force_signature| {
        let serial = "S64G".to_owned();
        PermittedPlace::Device { serial, destroy, force_signature }
    };
    host.file.permits[1].place = place(true, true);
    assert_eq!(overwritable(&host.file, KEY, "raw"), Some(("S64G", true)));
    host.file.permits[1].place = place(false, false);
    assert_eq!(overwritable(&host.file, KEY, "raw"), None);
}

#[test]
fn the_times_of_a_run_are_those_of_the_host_on_its_monotonic_clock() {
    const HOUR: u64 = 3600;
    let [begin, ns] = [Nanos::from_secs(50), Nanos::new(1)];
    let after = |hours: u64| later(begin, Nanos::from_secs(hours * HOUR));
    let mut host = host();
    host.plan.duration = Some(Nanos::from_secs(2 * HOUR));
    let time = |host: &PermitCase, hours: u64| {
        let today = UNIX_EPOCH + Duration::from_secs(hours * HOUR);
        PermittedTime::new(&host.plan, &host.file.limits, (today, begin))
    };
    let free = time(&host, 12);
    assert_eq!(free, PermittedTime::default());
    let never = Nanos::new(u64::MAX);
    assert_eq!((free.too_late(never), free.passed(begin, never)), (None, None));

    host.file.limits.hours = Some("20:00-06:00".parse().unwrap());
    let sentence = "the run would not end within the hours 20:00-06:00 UTC any more";
    // At 20:00, 23:00 and 04:00 of the next day.
    for (hour, left) in [(20, 10), (23, 7), (28, 2)] {
        let time = time(&host, hour);
        let begin_by = after(left - 2);
        assert_eq!(time.too_late(begin_by), None, "{hour}:00");
        assert_eq!(time.too_late(later(begin_by, ns)).as_deref(), Some(sentence), "{hour}:00");
        assert_eq!(time.passed(begin, after(left)), None, "{hour}:00");
        let passed = time.passed(begin, later(after(left), ns));
        assert_eq!(passed.as_deref(), Some("the hours 20:00-06:00 UTC"), "{hour}:00");
    }

    host.file.limits = HostLimits { duration_max: Some(Nanos::from_secs(HOUR)), hours: None };
    let time = time(&host, 20);
    let began = after(5);
    assert_eq!((time.too_late(never), time.passed(began, after(6))), (None, None));
    let passed = time.passed(began, later(after(6), ns));
    assert_eq!(passed.as_deref(), Some("duration_max of 1 h"));
}
