//! Targets of the device mapper, one over each device below.

use super::Draft;
use crate::DmTarget;
use crate::command::Check;
use crate::undo::Undo;

impl Draft<'_> {
    pub(super) fn mapped(&mut self, target: DmTarget, below: &[String]) -> Vec<String> {
        self.load("dm_mod", &[]);
        if let Some(driver) = dm_driver(target) {
            self.load(driver, &[]);
        }
        let mut devices = Vec::new();
        for (n, device) in below.iter().enumerate() {
            let name = self.name(n);
            let path = format!("/dev/mapper/{name}");
            self.map_one(target, n, &name, device);
            self.check(Check::Present { device: path.clone(), size: None });
            devices.push(path);
        }
        devices
    }

    fn map_one(&mut self, target: DmTarget, n: usize, name: &str, device: &str) {
        let undo = Some(Undo::RemoveMapped { name: name.to_owned() });
        let table = match target {
            DmTarget::Crypt => return self.crypt(name, device, undo),
            DmTarget::Linear => format!("linear {device} 0"),
            DmTarget::Delay { delay } => format!("delay {device} 0 {}", delay.get() / 1_000_000),
            DmTarget::Flakey { up_seconds, down_seconds } => {
                format!("flakey {device} 0 {up_seconds} {down_seconds}")
            }
        };
        let sectors = format!("sectors{}-{n}", self.layer);
        self.ask("blockdev", &["--getsz", device], &sectors, None);
        let table = format!("0 {{{sectors}}} {table}");
        let uuid = format!("DURIO-{name}");
        // Where no udev runs, the node is made by dmsetup itself.
        let words = ["create", name, "--verifyudev", "--uuid", &uuid, "--table", &table];
        self.run("dmsetup", &words, undo);
    }

    /// The key is read from the kernel's random numbers and never shown or kept.
    fn crypt(&mut self, name: &str, device: &str, undo: Option<Undo>) {
        let words = ["open", "--batch-mode", "--type", "plain", "--cipher", "aes-xts-plain64"];
        let key = ["--key-size", "512", "--key-file", "/dev/urandom", device, name];
        let words: Vec<&str> = words.into_iter().chain(key).collect();
        self.run("cryptsetup", &words, undo);
    }
}

/// The module of a target, where it is not a part of the device mapper's core.
pub(crate) const fn dm_driver(target: DmTarget) -> Option<&'static str> {
    match target {
        DmTarget::Linear => None,
        DmTarget::Crypt => Some("dm_crypt"),
        DmTarget::Delay { .. } => Some("dm_delay"),
        DmTarget::Flakey { .. } => Some("dm_flakey"),
    }
}
