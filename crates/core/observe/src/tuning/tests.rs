//! Settings of made-up machines.

use super::*;
use crate::device_probe::CopiedDevices;
use crate::identity::{FileKind, ObservedSystem};
use crate::survey::Survey;
use crate::tests::fixture::Fixture;

fn stack_of(fixture: &Fixture, path: &str) -> Stack {
    let (root, identify) = (fixture.root(), fixture.identify());
    Survey::new(ObservedSystem { root: &root, identify: &identify }, &CopiedDevices(&root))
        .stack(Path::new(path))
        .unwrap()
}

fn readings(fixture: &Fixture, path: &str) -> TuningReadings {
    let stack = stack_of(fixture, path);
    read_readings_in(fixture.root().path(), &stack)
}

fn value<'a>(readings: &'a [TuningReading], name: &str) -> Option<&'a str> {
    readings.iter().find(|reading| reading.name == name).map(|reading| reading.value.as_str())
}

fn nvme_machine() -> Fixture {
    let fixture = Fixture::new();
    fixture.nvme_disk("nvme0n1", "259:0");
    fixture.knows_block("/dev/nvme0n1", "259:0");
    fixture
}

#[test]
fn settings_of_a_device_come_with_their_files() {
    let fixture = nvme_machine();
    let path = fixture.path_of("nvme0n1");
    fixture.file(&format!("{path}/queue/read_ahead_kb"), "128\n");
    fixture.file(&format!("{path}/mq/0/cpu_list"), "0\n");
    fixture.file(&format!("{path}/mq/1/cpu_list"), "1\n");
    let all = readings(&fixture, "/dev/nvme0n1");
    let device = all.of("nvme0n1").unwrap();
    let read_ahead = device.get("read_ahead_kb").unwrap();
    assert_eq!(read_ahead.value, "128");
    assert_eq!(read_ahead.path, "/sys/class/block/nvme0n1/queue/read_ahead_kb");
    assert_eq!(value(&device.readings, "scheduler"), Some("mq-deadline"));
    assert_eq!(value(&device.readings, "schedulers"), Some("none [mq-deadline] kyber"));
    assert_eq!(value(&device.readings, "transport"), Some("nvme"));
    assert_eq!(value(&device.readings, "hardware_queues"), Some("2"));
    assert_eq!(value(&device.readings, "io_max"), Some("none"));
    assert_eq!(value(&device.readings, "nomerges"), None);
}

#[test]
fn the_pcie_link_of_an_nvme_device_is_that_of_its_controller() {
    let fixture = nvme_machine();
    let function = "sys/devices/pci0000:02";
    fixture.file(&format!("{function}/current_link_speed"), "8.0 GT/s PCIe\n");
    fixture.file(&format!("{function}/max_link_speed"), "16.0 GT/s PCIe\n");
    fixture.link(&format!("{function}/nvme/nvme0/device"), function);
    let all = readings(&fixture, "/dev/nvme0n1");
    let device = &all.of("nvme0n1").unwrap().readings;
    assert_eq!(value(device, "current_link_speed"), Some("8.0 GT/s PCIe"));
    assert_eq!(value(device, "max_link_speed"), Some("16.0 GT/s PCIe"));
}

#[test]
fn attachments_are_told_by_name_and_place() {
    let fixture = Fixture::new();
    let virtio = fixture.virtio_disk("vda", "254:0");
    assert_eq!(transport(&virtio), Some("virtio".to_owned()));
    let rows = [
        ("sys/devices/pci0/ata1/host0/block/sda", "sata"),
        ("sys/devices/pci0/virtio2/host1/block/sdb", "virtio"),
        ("sys/devices/pci0/host2/port-2:0/end_device-2:0/block/sdc", "sas"),
        ("sys/devices/pci0/usb1/host3/block/sdd", "usb"),
        ("sys/devices/pci0/host4/block/sde", "scsi"),
    ];
    for (path, expected) in rows {
        fixture.file(&format!("{path}/size"), "8\n");
        let dir = fixture.root().follow(path).unwrap();
        assert_eq!(transport(&dir).as_deref(), Some(expected), "{path}");
    }
    fixture.file("sys/devices/virtual/block/dm-0/size", "8\n");
    let volume = fixture.root().follow("sys/devices/virtual/block/dm-0").unwrap();
    assert_eq!(transport(&volume), None);
}

#[test]
fn an_array_tells_its_stripe_cache_and_a_disk_does_not() {
    let fixture = Fixture::new();
    fixture.scsi_disk("sda", "8:0");
    fixture.scsi_disk("sdb", "8:16");
    fixture.mirror("md0", "9:0", &["sda", "sdb"]);
    fixture.file("sys/devices/virtual/block/md0/md/stripe_cache_size", "256\n");
    fixture.knows_block("/dev/md0", "9:0");
    let all = readings(&fixture, "/dev/md0");
    let names: Vec<&str> = all.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["md0", "sda", "sdb"]);
    assert_eq!(value(&all.layers[0].readings, "stripe_cache_size"), Some("256"));
    assert_eq!(value(&all.layers[0].readings, "level"), Some("raid1"));
    assert_eq!(value(&all.layers[1].readings, "level"), None);
    assert_eq!(value(&all.layers[1].readings, "scsi_cache"), Some("write through"));
}

#[test]
fn settings_of_the_machine_are_read() {
    let fixture = nvme_machine();
    fixture.file("proc/sys/vm/swappiness", "60\n");
    fixture.file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    fixture.file("proc/pressure/io", "some avg10=1.53 avg60=0 avg300=0 total=9\nfull avg10=0\n");
    fixture.file("proc/meminfo", "MemTotal:  24682416 kB\n");
    for (state, latency, disabled) in [(0, 0, 0), (1, 2, 0), (2, 133, 0), (3, 890, 1)] {
        let dir = format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}");
        fixture.file(&format!("{dir}/latency"), format!("{latency}\n"));
        fixture.file(&format!("{dir}/disable"), format!("{disabled}\n"));
    }
    fixture.file("proc/17/comm", "irqbalance\n");
    fixture.file("etc/systemd/system/x", "");
    let host = readings(&fixture, "/dev/nvme0n1").host;
    let rows = [
        ("swappiness", "60"),
        ("transparent_hugepage", "always"),
        ("io_pressure", "1.53"),
        ("memory_kb", "24682416"),
        ("idle_latency_us", "133"),
        ("irqbalance", "running"),
        ("trim_timer", "absent"),
    ];
    for (name, expected) in rows {
        assert_eq!(value(&host, name), Some(expected), "{name}");
    }
    fixture.link("etc/systemd/system/timers.target.wants/fstrim.timer", "usr/nowhere");
    let host = readings(&fixture, "/dev/nvme0n1").host;
    assert_eq!(value(&host, "trim_timer"), Some("enabled"));
}

#[test]
fn limits_of_control_groups_are_those_of_the_device() {
    let fixture = nvme_machine();
    fixture.file("proc/self/cgroup", "0::/job\n");
    fixture.mounts("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    fixture.file("sys/fs/cgroup/job/io.max", "259:0 rbps=max wiops=500\n8:0 riops=7\n");
    let all = readings(&fixture, "/dev/nvme0n1");
    assert_eq!(value(&all.layers[0].readings, "io_max"), Some("rbps=max wiops=500"));
}

#[test]
fn a_machine_that_shows_nothing_gives_no_settings_of_its_own() {
    let fixture = Fixture::new();
    fixture.knows("/srv", FileKind::Directory, "0:30", None);
    let all = readings(&fixture, "/srv");
    assert_eq!(all, TuningReadings::default());
}

#[test]
fn empty_and_garbled_files_are_handed_on_or_left_out_without_harm() {
    let fixture = nvme_machine();
    let path = fixture.path_of("nvme0n1");
    fixture.file(&format!("{path}/queue/read_ahead_kb"), "\n");
    fixture.file(&format!("{path}/queue/nr_requests"), [0xff, 0xfe, 0, b'x'].repeat(500));
    fixture.file(&format!("{path}/queue/scheduler"), "none mq-deadline] [kyber");
    fixture.file("proc/pressure/io", "some");
    fixture.file("proc/meminfo", "MemTotal: many kB");
    let all = readings(&fixture, "/dev/nvme0n1");
    let device = &all.of("nvme0n1").unwrap().readings;
    assert_eq!(value(device, "read_ahead_kb"), None);
    assert!(value(device, "nr_requests").unwrap().chars().count() == 200);
    assert!(value(device, "scheduler").is_some());
    assert_eq!(value(&all.host, "io_pressure"), None);
    assert_eq!(value(&all.host, "memory_kb"), Some("many"));
}

#[test]
fn this_machine_can_be_read() {
    let stack = crate::read_stack(Path::new("/")).unwrap();
    assert!(read_readings(&stack).host.iter().any(|reading| reading.name == "kernel"));
}
