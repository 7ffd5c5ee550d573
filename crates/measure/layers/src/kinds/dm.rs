//! Targets of the device mapper, one over each device below.

use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "dm",
    help: "A target of the device mapper over one device.",
    role: LayerRole::Devices,
    drivers: &[MAPPER, CRYPT, DELAY, FLAKEY],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

const PURPOSE: &str = "device mapper";

/// The device mapper itself.
pub(super) const MAPPER: Driver = Driver {
    module: "dm_mod",
    purpose: PURPOSE,
    shown: DriverSign::In("/proc/misc", "device-mapper"),
};
const CRYPT: Driver = Driver::module("dm_crypt", PURPOSE);
const DELAY: Driver = Driver::module("dm_delay", PURPOSE);
const FLAKEY: Driver = Driver::module("dm_flakey", PURPOSE);

spec_keys! {
    /// A target over each device.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Dm {
        /// Which.
        #[serde(flatten)]
        pub target: DmTarget,
    }
}

/// A target of the device mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "target")]
pub enum DmTarget {
    /// The device as it is.
    Linear,
    /// Encrypted with a key made for the occasion.
    Crypt,
    /// Every read and write takes this much longer.
    Delay {
        /// By how much, in whole milliseconds.
        #[serde(rename = "delay_ns")]
        delay: Nanos,
    },
    /// Works for a while and then returns errors for a while.
    Flakey {
        /// Seconds of the former.
        up_seconds: u32,
        /// Seconds of the latter.
        down_seconds: u32,
    },
}

spec_words! {
    /// The word of a target.
    enum TargetWord {
        Linear = "linear",
        Crypt = "crypt",
        Delay = "delay",
        Flakey = "flakey",
    }
}

spec_keys! {
    /// A target as a spec has it: which keys it takes depends on its word.
    struct TargetKeys {
        /// The target.
        target: TargetWord,
        /// With delay: added to every access, in whole milliseconds.
        delay: Option<Nanos>,
        /// With flakey: how long it works, in whole seconds.
        up: Option<Nanos>,
        /// With flakey: how long it then fails, in whole seconds.
        down: Option<Nanos>,
    }
}

impl SpecField for DmTarget {
    fn keys(name: &'static str, help: &'static str, is_required: bool) -> Vec<SpecKey> {
        TargetKeys::keys(name, help, is_required)
    }

    fn read(values: &SpecValues, key: &'static str) -> Result<Self, KeyFault> {
        let TargetKeys { target, delay, up, down } = TargetKeys::read(values, key)?;
        for (key, span, of) in [
            ("delay", delay, TargetWord::Delay),
            ("up", up, TargetWord::Flakey),
            ("down", down, TargetWord::Flakey),
        ] {
            if of != target && span.is_some() {
                let (of, target) = (of.word(), target.word());
                let what = format!("'{key}' is for the target {of}, not for {target}");
                return Err(KeyFault::new(key, what));
            }
        }
        let seconds = |key, span| {
            let seconds = whole(key, span, Nanos::from_secs(1))?.get() / 1_000_000_000;
            Ok(u32::try_from(seconds).unwrap_or(u32::MAX))
        };
        Ok(match target {
            TargetWord::Linear => Self::Linear,
            TargetWord::Crypt => Self::Crypt,
            TargetWord::Delay => {
                Self::Delay { delay: whole("delay", delay, Nanos::from_millis(1))? }
            }
            TargetWord::Flakey => Self::Flakey {
                up_seconds: seconds("up", up)?,
                down_seconds: seconds("down", down)?,
            },
        })
    }
}

/// A time that must be there, in whole units: the kernel knows no finer ones.
fn whole(key: &'static str, span: Option<Nanos>, unit: Nanos) -> Result<Nanos, KeyFault> {
    let span = span.ok_or_else(|| KeyFault::missing(key))?;
    match span.get().is_multiple_of(unit.get()) {
        true => Ok(span),
        false => Err(KeyFault::new(key, format!("{key} {span} is not a whole number of {unit}"))),
    }
}

impl DmTarget {
    /// Where it is not a part of the device mapper's core.
    const fn driver(self) -> Option<Driver> {
        match self {
            Self::Linear => None,
            Self::Crypt => Some(CRYPT),
            Self::Delay { .. } => Some(DELAY),
            Self::Flakey { .. } => Some(FLAKEY),
        }
    }
}

impl BuildableLayer for Dm {
    fn label(&self) -> Vec<String> {
        let target = match self.target {
            DmTarget::Linear => "linear".to_owned(),
            DmTarget::Crypt => "crypt".to_owned(),
            DmTarget::Delay { delay } => format!("delay {delay}"),
            DmTarget::Flakey { up_seconds, down_seconds } => {
                format!("flakey {up_seconds} s up {down_seconds} s down")
            }
        };
        vec![KIND.word.to_owned(), target]
    }

    fn needs(&self) -> Vec<Missing> {
        let program = match self.target {
            DmTarget::Crypt => Missing::program("cryptsetup", "cryptsetup-bin"),
            _ => Missing::program("dmsetup", "dmsetup"),
        };
        let driver = self.target.driver().map(Driver::missing);
        [program, MAPPER.missing()].into_iter().chain(driver).collect()
    }

    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        // As many groups as devices say the same as none; any other number asks for a target over
        // several.
        if below.groups != 1 && below.groups != below.devices {
            return Err("a target takes one device; leave groups out".into());
        }
        match self.target {
            DmTarget::Delay { delay } if delay.get() % 1_000_000 != 0 || delay.get() == 0 => {
                Err("the kernel delays by whole milliseconds; use 1ms or more".into())
            }
            DmTarget::Flakey { up_seconds: 0, .. } => {
                Err("up_seconds is 0, so it would never work; say 1 or more".into())
            }
            _ => Ok(below),
        }
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        below.sizes.to_vec()
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        draft.load(MAPPER.module, &[]);
        if let Some(driver) = self.target.driver() {
            draft.load(driver.module, &[]);
        }
        let one = |(n, device): (usize, &String)| self.map_one(draft, n, device);
        PlannedLayer::of_devices(below.iter().enumerate().map(one).collect())
    }
}

impl Dm {
    fn map_one(&self, draft: &mut PlanDraft<'_>, n: usize, device: &str) -> String {
        let name = draft.name(n);
        let undo = Some(Undo::RemoveMapped(RemoveMapped { name: name.clone() }));
        match self.target {
            DmTarget::Crypt => crypt(draft, &name, device, undo),
            DmTarget::Linear => table(draft, n, device, &format!("linear {device} 0"), undo),
            DmTarget::Delay { delay } => {
                let milliseconds = delay.get() / 1_000_000;
                // A single set of parameters delays reads, writes and flushes alike (the kernel's
                // Documentation/admin-guide/device-mapper/delay.rst).
                table(draft, n, device, &format!("delay {device} 0 {milliseconds}"), undo);
            }
            DmTarget::Flakey { up_seconds, down_seconds } => {
                let target = format!("flakey {device} 0 {up_seconds} {down_seconds}");
                table(draft, n, device, &target, undo);
            }
        }
        draft.present(format!("/dev/mapper/{name}"))
    }
}

/// Maps a device by one line of a table.
pub(super) fn table(
    draft: &mut PlanDraft<'_>,
    n: usize,
    device: &str,
    target: &str,
    undo: Option<Undo>,
) {
    let sectors = format!("sectors{}-{n}", draft.layer);
    draft.ask("blockdev", &["--getsz", device], &sectors, None);
    let (name, table) = (draft.name(n), format!("0 {{{sectors}}} {target}"));
    let uuid = format!("DURIO-{name}");
    // Where no udev runs, the node is made by dmsetup itself.
    let words = ["create", &name, "--verifyudev", "--uuid", &uuid, "--table", &table];
    draft.run("dmsetup", &words, undo);
}

/// The key is read from the kernel's random numbers and never shown or kept.
fn crypt(draft: &mut PlanDraft<'_>, name: &str, device: &str, undo: Option<Undo>) {
    // Plain, because it has no header: nothing is written but data, and with the mapping the key is
    // gone.
    let words = ["open", "--batch-mode", "--type", "plain", "--cipher", "aes-xts-plain64"];
    // XTS has two keys: 512 bits are AES-256.
    let key = ["--key-size", "512", "--key-file", "/dev/urandom", device, name];
    let words: Vec<&str> = words.into_iter().chain(key).collect();
    draft.run("cryptsetup", &words, undo);
}

/// A device of the device mapper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveMapped {
    pub(crate) name: String,
}

impl UndoStep for RemoveMapped {
    fn text(&self) -> String {
        format!("dmsetup remove {}", self.name)
    }

    fn holds_devices(&self) -> bool {
        true
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let system = &*prover.system;
        let Some(disk) = mapped(system, &self.name) else { return Ok(None) };
        let uuid = system.read(Path::new(&format!("/sys/block/{disk}/dm/uuid")));
        let identity = disk_identity(system, &format!("/sys/block/{disk}"));
        let identity = identity.map(|disk| disk.with("uuid", &uuid.unwrap_or_default()));
        Ok(LiveThing::of(&self.name, identity))
    }

    fn fault_of_begun(&self, _prover: &Prover<'_>, found: &LiveThing) -> Option<String> {
        let uuid = found.identity.get("uuid").unwrap_or_default();
        // `dmsetup rename` gives a name away; an identifier, once it is set, stays.
        (!uuid.ends_with(&self.name)).then(|| "its identifier is another one".to_owned())
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let gone = |system: &dyn System| mapped(system, &self.name).is_none();
        undoer.run_until(proven, "dmsetup", &["remove", "--verifyudev", proven.target()], gone)
    }
}

/// The kernel's name of the device that has this name.
fn mapped(system: &dyn System, name: &str) -> Option<String> {
    system.names(Path::new("/sys/block")).into_iter().find(|disk| {
        let path = format!("/sys/block/{disk}/dm/name");
        system.read(Path::new(&path)).as_deref() == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{ext4, loops, md, on_loops, plan_above, ram, stack};
    use crate::{DeclaredKind, DeclaredStack, check_declared};

    fn dm(target: DmTarget) -> DeclaredKind {
        DeclaredKind::Dm(Dm { target })
    }

    pub(super) fn examples() -> Vec<DeclaredStack> {
        [DmTarget::Crypt, DmTarget::Delay { delay: Nanos::from_millis(2) }]
            .map(|target| stack(vec![ram(2), dm(target), DeclaredKind::Md(md(1)), ext4()]))
            .into()
    }

    #[test]
    fn each_target_has_its_table() {
        let table = |target| plan_above(vec![ram(1), dm(target)]).join("\n");
        let head =
            "dmsetup create durioabc1234-1-0 --verifyudev --uuid DURIO-durioabc1234-1-0 --table";
        let linear = table(DmTarget::Linear);
        assert!(linear.contains("blockdev --getsz /dev/ram0  → {sectors1-0}"), "{linear}");
        let linear_table = format!("{head} '0 {{sectors1-0}} linear /dev/ram0 0'");
        assert!(linear.contains(&linear_table), "{linear}");
        let delay = table(DmTarget::Delay { delay: Nanos::from_millis(5) });
        assert!(delay.contains("delay /dev/ram0 0 5'"), "{delay}");
        let flakey = table(DmTarget::Flakey { up_seconds: 9, down_seconds: 2 });
        assert!(flakey.contains("flakey /dev/ram0 0 9 2'"), "{flakey}");
        let crypt = table(DmTarget::Crypt);
        let words = "cryptsetup open --batch-mode --type plain --cipher aes-xts-plain64 --key-size \
                     512 --key-file /dev/urandom /dev/ram0 durioabc1234-1-0";
        assert!(crypt.contains(words), "{crypt}");
    }

    #[test]
    fn a_target_stands_on_each_device() {
        let delay = |nanos| dm(DmTarget::Delay { delay: Nanos::new(nanos) });
        assert!(on_loops(4, 64, delay(1_000_000)).is_ok());
        for nanos in [0, 999_999, 1_500_000] {
            assert!(on_loops(1, 64, delay(nanos)).unwrap_err().contains("whole milliseconds"));
        }
        let flakey = DmTarget::Flakey { up_seconds: 0, down_seconds: 1 };
        assert!(on_loops(1, 64, dm(flakey)).is_err());
        let mut groups = stack(vec![loops(4, 64), delay(1_000_000)]);
        groups.layers[1].groups = 2;
        assert!(check_declared(&groups).is_err());
    }
}
