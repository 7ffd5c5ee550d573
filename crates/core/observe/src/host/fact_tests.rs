//! What a machine shows, file by file.

use super::*;
use crate::tests::fixture::Fixture;

#[test]
fn each_fact_of_a_machine_is_its_own() {
    let fixture = Fixture::new();
    let memory = "MemTotal: 100 kB\nMemFree: 7 kB\nMemAvailable: 30 kB\nSwapTotal: 8 kB\n";
    for (path, text) in [
        ("proc/meminfo", memory),
        ("proc/sys/kernel/hostname", "box\n"),
        ("proc/sys/kernel/osrelease", "6.1\n"),
        ("usr/lib/os-release", "NAME=x\nPRETTY_NAME='Small Linux'\n"),
        ("sys/class/dmi/id/sys_vendor", "Maker\n"),
        ("sys/class/dmi/id/product_name", "Model 5\n"),
        ("sys/devices/system/cpu/online", "0-6\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-2\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
    ] {
        fixture.file(path, text);
    }
    let host = host_in(&fixture.root());
    let sizes = [host.memory, host.memory_available, host.swap];
    assert_eq!(sizes, [100, 30, 8].map(Bytes::from_kib));
    assert_eq!((host.cpus_online, host.cpus_allowed, host.numa_nodes), (7, 3, 2));
    let names = [host.hostname, host.os, host.dmi_vendor, host.dmi_product, host.clocksource];
    let expected = ["box", "Small Linux", "Maker", "Model 5", "hpet"];
    assert_eq!(names, expected.map(|name| Some(name.to_owned())));
    assert_eq!(host.kernel, "6.1");
}

#[test]
fn each_virtual_machine_is_known_by_its_maker_or_its_model() {
    for (maker, model, expected) in [
        ("QEMU", "Standard PC", Some("qemu")),
        ("Red Hat", "KVM", Some("kvm")),
        ("VMware, Inc.", "VMware7,1", Some("vmware")),
        ("innotek GmbH", "VirtualBox", Some("virtualbox")),
        ("Amazon EC2", "t3.small", Some("amazon")),
        ("Google", "Google Compute Engine", Some("google")),
        ("Microsoft Corporation", "Virtual Machine", Some("microsoft")),
        ("Xen", "HVM domU", Some("xen")),
        ("Bochs", "x", Some("bochs")),
        ("OpenStack Foundation", "OpenStack Nova", Some("openstack")),
        ("Parallels", "x", Some("parallels")),
        ("Dell Inc.", "PowerEdge R650", None),
        ("Amazon EC2", "c5.metal", None),
    ] {
        let fixture = Fixture::new();
        fixture.file("sys/class/dmi/id/sys_vendor", maker);
        fixture.file("sys/class/dmi/id/product_name", model);
        assert_eq!(hypervisor(&fixture.root()).as_deref(), expected, "{maker} {model}");
    }
}

#[test]
fn a_processor_has_the_first_of_its_names() {
    let named = |text: &str| {
        let fixture = Fixture::new();
        fixture.file("proc/cpuinfo", text);
        cpu_model(&fixture.root())
    };
    assert_eq!(named("cpu\t: B\nmodel name\t: A\n").as_deref(), Some("A"));
    assert_eq!(named("processor\t: 0\ncpu\t\t: POWER9\n").as_deref(), Some("POWER9"));
    assert_eq!(named("processor\t: 0\nCPU part\t: 0xd0c\n").as_deref(), Some("0xd0c"));
    assert_eq!([named("model name\t: \n"), named("processor\t: 0\n")], [None, None]);
}
