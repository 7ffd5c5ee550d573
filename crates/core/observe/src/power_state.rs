//! The state that a power loss changes on a machine: the identifier of its boot, and its drives'
//! counters. A [`PowerState`] is compared with an earlier one.
//!
//! NVMe drives are asked by the kernel, SATA drives by smartctl of smartmontools where it is
//! installed. Drives that cannot be asked are reported with the reason.

use std::path::Path;
use std::process::Command;

use durio_block::{ANSWER_LIMIT, ask, nvme_power_counters};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layer::{Stack, leaf_devices};
use crate::system_dir::SystemDir;

/// What shows later whether a machine's power was gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerState {
    /// The kernel's identifier of this boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The drives below a target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveCounters>,
}

/// What a drive has counted since it was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveCounters {
    /// Its serial number, or the kernel's name where it shows none.
    pub drive: String,
    /// How often it lost power without a notice: `unsafe_shutdowns` of NVMe, attribute 174 of SATA
    /// or, without it, 192.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsafe_shutdowns: Option<u64>,
    /// How often it got power: `power_cycles` of NVMe, attribute 12 of SATA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycles: Option<u64>,
    /// Why the counter is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl PowerState {
    /// True if it shows nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// State of a target whose drives cannot be asked.
    pub fn of_machine() -> Self {
        let boot_id = SystemDir::live_root().text("proc/sys/kernel/random/boot_id");
        Self { boot_id, drives: Vec::new() }
    }
}

/// What this machine and the drives below a path show of their power.
pub fn read_power_state(stack: &Stack) -> PowerState {
    let drives = leaf_devices(stack).into_iter().map(|name| {
        let layer = stack.walk().map(|(_, layer)| layer).find(|layer| layer.name == name);
        let serial = layer.and_then(|layer| layer.block.as_ref()?.serial.clone());
        DriveCounters { drive: serial.unwrap_or_else(|| name.clone()), ..of_device(&name) }
    });
    PowerState { drives: drives.collect(), ..PowerState::of_machine() }
}

fn of_device(name: &str) -> DriveCounters {
    let node = Path::new("/dev").join(name.replace('!', "/"));
    if name.starts_with("nvme") {
        return match nvme_power_counters(&node) {
            Ok(Some(counters)) => DriveCounters {
                unsafe_shutdowns: Some(counters.unsafe_shutdowns),
                power_cycles: Some(counters.power_cycles),
                ..DriveCounters::default()
            },
            Ok(None) => missing("the controller does not count power cycles".to_owned()),
            Err(error) => missing(format!("{error}: {}", error.source)),
        };
    }
    if !name.starts_with("sd") {
        return missing("durio knows no such counter for this kind of device".to_owned());
    }
    let mut smartctl = Command::new("smartctl");
    match ask(smartctl.args(["--json", "-A"]).arg(&node), ANSWER_LIMIT) {
        // The exit status has a bit for each thing that is wrong with the drive; the answer decides.
        Ok(answer) => of_smartctl(&answer.stdout),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            missing("smartctl is not installed (package smartmontools)".to_owned())
        }
        Err(error) => missing(format!("smartctl: {error}")),
    }
}

fn missing(why: String) -> DriveCounters {
    DriveCounters { missing: Some(why), ..DriveCounters::default() }
}

/// Numbers of attributes (SMART Attribute Descriptions, and Intel's for its drives): power losses
/// without notice to the drive, emergency retracts of the heads or an SSD's equivalent, power-ons.
const UNEXPECTED_LOSS: u64 = 174;
const UNSAFE_SHUTDOWN: u64 = 192;
const POWER_CYCLES: u64 = 12;

/// From the answer of `smartctl --json -A`.
fn of_smartctl(answer: &[u8]) -> DriveCounters {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let table = answer["ata_smart_attributes"]["table"].as_array();
    let raw = |id: u64| {
        let row = table?.iter().find(|row| row["id"].as_u64() == Some(id))?;
        row["raw"]["value"].as_u64()
    };
    let unsafe_shutdowns = raw(UNEXPECTED_LOSS).or_else(|| raw(UNSAFE_SHUTDOWN));
    let said = || answer["smartctl"]["messages"][0]["string"].as_str();
    let why = || match (table, said()) {
        (None, Some(said)) => format!("smartctl: {said}"),
        _ => "the drive has neither attribute 174 nor 192".to_owned(),
    };
    DriveCounters {
        unsafe_shutdowns,
        power_cycles: raw(POWER_CYCLES),
        missing: unsafe_shutdowns.is_none().then(why),
        ..DriveCounters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[(u64, u64)]) -> Vec<u8> {
        let row =
            |(id, value): &(u64, u64)| serde_json::json!({ "id": id, "raw": { "value": value } });
        let table: Vec<Value> = rows.iter().map(row).collect();
        serde_json::to_vec(&serde_json::json!({ "ata_smart_attributes": { "table": table } }))
            .unwrap()
    }

    #[test]
    fn each_drive_has_its_own_name() {
        let disk = |name: &str, serial: Option<&str>| {
            let block = serde_json::json!({ "serial": serial });
            serde_json::json!({ "kind": "disk", "name": name, "block": block, "below": [] })
        };
        let disks = [disk("xa", Some("S-1")), disk("xb", None), disk("xc", Some("S-3"))];
        let array = serde_json::json!({ "kind": "md", "name": "md0", "block": {}, "below": disks });
        let stack = serde_json::json!({ "target": "/dev/md0", "root": array });
        let stack: Stack = serde_json::from_value(stack).unwrap();
        let state = read_power_state(&stack);
        let names: Vec<&str> = state.drives.iter().map(|drive| drive.drive.as_str()).collect();
        assert_eq!(names, ["S-1", "xb", "S-3"]);
    }

    #[test]
    fn attribute_174_counts_before_192() {
        let of = |rows: &[(u64, u64)]| {
            let drive = of_smartctl(&answer(rows));
            (drive.unsafe_shutdowns, drive.power_cycles, drive.missing.is_some())
        };
        assert_eq!(of(&[(12, 40), (174, 7), (192, 30)]), (Some(7), Some(40), false));
        assert_eq!(of(&[(12, 40), (192, 30)]), (Some(30), Some(40), false));
        assert_eq!(of(&[(12, 40)]), (None, Some(40), true));
    }

    #[test]
    fn an_answer_that_is_none_is_said() {
        let refused = br#"{"smartctl":{"messages":[{"string":"Permission denied"}]}}"#;
        assert_eq!(of_smartctl(refused).missing.as_deref(), Some("smartctl: Permission denied"));
        for odd in
            [&b""[..], b"[]", br#"{"ata_smart_attributes":{"table":[{"id":174,"raw":"x"}]}}"#]
        {
            assert!(of_smartctl(odd).missing.is_some(), "{odd:?}");
        }
    }

    #[test]
    fn this_machine_has_a_boot_identifier_and_a_device_without_counters_says_so() {
        assert_eq!(PowerState::of_machine().boot_id.map(|id| id.len()), Some(36));
        assert!(of_device("loop0").missing.is_some());
        assert!(of_device("nvme99n1").missing.unwrap().contains("/dev/nvme99n1"));
    }

    #[test]
    fn a_state_without_anything_is_read() {
        assert_eq!(serde_json::from_str::<PowerState>("{}").unwrap(), PowerState::default());
    }
}
