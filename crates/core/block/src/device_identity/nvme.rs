//! NVMe: Identify Controller, Identify Namespace, the feature of the volatile write cache, and the
//! counters of power losses.
//!
//! Takes the node of a namespace, such as `/dev/nvme0n1`. The rest of the health log and vendor
//! extensions are not read.
//!
//! Field offsets are those of the NVM Express Base Specification 2.0 (Identify Controller, figure
//! 275; features, section 5.27; SMART / Health Information log, section 5.16.1.3) and of its NVM
//! Command Set Specification 1.0 (Identify Namespace).

use std::fs::File;
use std::path::Path;

use rustix::ioctl::{Opcode, opcode};

use super::{ioctl, open_node, padded_text};
use crate::BlockError;

/// The length of what Identify returns.
const IDENTIFY_LEN: u32 = 4096;

const ADMIN_GET_FEATURES: u8 = 0x0a;
const ADMIN_GET_LOG_PAGE: u8 = 0x02;
const ADMIN_IDENTIFY: u8 = 0x06;

/// What to identify (CNS).
const CNS_NAMESPACE: u32 = 0x00;
const CNS_CONTROLLER: u32 = 0x01;

/// The log of SMART / Health Information, and its length.
const LOG_HEALTH: u32 = 0x02;
const LOG_HEALTH_LEN: u32 = 512;
/// The whole controller, whatever namespace was opened.
const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// The feature of the volatile write cache.
const FEATURE_WRITE_CACHE: u32 = 0x06;

/// `struct nvme_admin_cmd` of the kernel's linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Debug, Default)]
struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    command_2: u32,
    command_3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    command_10: u32,
    command_11: u32,
    command_12: u32,
    command_13: u32,
    command_14: u32,
    command_15: u32,
    /// Zero is the driver's own, the only one that does not reset a slow controller too early.
    timeout_ms: u32,
    result: u32,
}

const ADMIN: Opcode = opcode::read_write::<AdminCommand>(b'N', 0x41);
const NAMESPACE_ID: Opcode = opcode::none(b'N', 0x40);

/// The reports of an NVMe controller and its namespace about themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NvmeIdentity {
    /// The model, without padding.
    pub model: Option<String>,
    /// The firmware's revision, without padding.
    pub firmware: Option<String>,
    /// The controller has a volatile write cache (VWC, bit 0).
    pub volatile_write_cache: bool,
    /// That cache is switched on; absent if the controller or the kernel does not say.
    pub write_cache_enabled: Option<bool>,
    /// Bytes that are written as a whole while there is power (NAWUN, else AWUN).
    pub atomic_write_bytes: Option<u64>,
    /// Bytes that are written as a whole or not at all when power fails (NAWUPF, else AWUPF).
    pub atomic_write_power_fail_bytes: Option<u64>,
    /// Optional commands that it supports (ONCS), by name.
    pub optional_commands: Vec<&'static str>,
}

/// Asks the controller behind the namespace at `path`.
///
/// # Errors
/// If `path` is not a block device, may not be read, is not an NVMe namespace, or the kernel or the
/// controller refuses the question.
pub fn nvme_identity(path: &Path) -> Result<NvmeIdentity, BlockError> {
    const OPERATION: &str = "ask the NVMe controller of";
    let at = |source| BlockError::at(OPERATION, path, source);
    let file = open_node(OPERATION, path, true)?;
    // Also the test whether it is an NVMe namespace at all: other drivers do not know this call.
    let namespace = namespace_id(&file).map_err(at)?;
    let controller = read_page(&file, identify_command(0, CNS_CONTROLLER)).map_err(at)?;
    // A namespace of another command set has no such page; the controller's word remains.
    let space = read_page(&file, identify_command(namespace, CNS_NAMESPACE)).ok();
    let mut word = parse(&controller, space.as_deref());
    if word.volatile_write_cache {
        word.write_cache_enabled = write_cache_enabled(&file).ok();
    }
    Ok(word)
}

/// What a controller has counted since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvmePowerCounters {
    /// How often it got power.
    pub power_cycles: u64,
    /// How often it lost power without a notice.
    pub unsafe_shutdowns: u64,
}

/// Asks the controller behind the namespace at `path`; none if it counts nothing.
pub fn nvme_power_counters(path: &Path) -> Result<Option<NvmePowerCounters>, BlockError> {
    const OPERATION: &str = "ask the NVMe controller of";
    let at = |source| BlockError::at(OPERATION, path, source);
    let file = open_node(OPERATION, path, true)?;
    namespace_id(&file).map_err(at)?;
    read_page(&file, health_log_command()).map(|page| parse_power_counters(&page)).map_err(at)
}

fn namespace_id(file: &File) -> rustix::io::Result<u32> {
    // SAFETY: NVME_IOCTL_ID takes no argument and returns the number; the drivers of other block devices
    // answer an opcode that they do not know with an error.
    unsafe { ioctl(file, NAMESPACE_ID, std::ptr::null_mut()) }.map(i32::cast_unsigned)
}

fn identify_command(namespace: u32, what: u32) -> AdminCommand {
    AdminCommand {
        opcode: ADMIN_IDENTIFY,
        namespace,
        data_len: IDENTIFY_LEN,
        command_10: what,
        ..AdminCommand::default()
    }
}

fn health_log_command() -> AdminCommand {
    AdminCommand {
        opcode: ADMIN_GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        data_len: LOG_HEALTH_LEN,
        // The upper half holds the count of 32-bit words, from zero.
        command_10: LOG_HEALTH | (LOG_HEALTH_LEN / 4 - 1) << 16,
        ..AdminCommand::default()
    }
}

fn write_cache_command() -> AdminCommand {
    AdminCommand {
        opcode: ADMIN_GET_FEATURES,
        command_10: FEATURE_WRITE_CACHE,
        ..AdminCommand::default()
    }
}

/// The data that a command reads.
fn read_page(file: &File, mut command: AdminCommand) -> rustix::io::Result<Vec<u8>> {
    let mut data = vec![0_u8; command.data_len as usize];
    command.address = data.as_mut_ptr().expose_provenance() as u64;
    submit(file, &mut command)?;
    Ok(data)
}

fn write_cache_enabled(file: &File) -> rustix::io::Result<bool> {
    let mut command = write_cache_command();
    submit(file, &mut command)?;
    Ok(command.result & 1 != 0)
}

/// Sends a command of this file: Identify, Get Log Page or Get Features.
fn submit(file: &File, command: &mut AdminCommand) -> rustix::io::Result<()> {
    // SAFETY: the struct has the kernel's layout, as a test checks by its size. The kernel writes its
    // `result`, and up to `data_len` bytes at `address`: either both are zero, or they are those of
    // the live vector in `read_page`, to which no reference is in use during the call. The commands only
    // read from the controller.
    let status = unsafe { ioctl(file, ADMIN, std::ptr::from_mut(command).cast()) }?;
    // A positive result is a status of the controller, such as an invalid field.
    if status == 0 { Ok(()) } else { Err(rustix::io::Errno::OPNOTSUPP) }
}

/// Names of the bits of ONCS, from bit 0 on.
const OPTIONAL_COMMANDS: [&str; 9] = [
    "compare",
    "write uncorrectable",
    "dataset management",
    "write zeroes",
    "save and select features",
    "reservations",
    "timestamp",
    "verify",
    "copy",
];

fn parse(controller: &[u8], namespace: Option<&[u8]>) -> NvmeIdentity {
    let optional = u16_at(controller, 520).unwrap_or_default();
    let bits = OPTIONAL_COMMANDS.iter().enumerate();
    let block = namespace.and_then(block_size);
    // Counts of blocks start at zero, which means one block: no value means that nothing is atomic.
    let bytes = |blocks: Option<u16>| Some((u64::from(blocks?) + 1) * block?);
    NvmeIdentity {
        model: padded_text(controller.get(24..64)),
        firmware: padded_text(controller.get(64..72)),
        volatile_write_cache: controller.get(525).is_some_and(|vwc| vwc & 1 != 0),
        write_cache_enabled: None,
        atomic_write_bytes: bytes(of_namespace(namespace, 34).or(u16_at(controller, 526))),
        atomic_write_power_fail_bytes: bytes(
            of_namespace(namespace, 36).or(u16_at(controller, 528)),
        ),
        optional_commands: bits
            .filter(|(bit, _)| optional >> bit & 1 != 0)
            .map(|(_, name)| *name)
            .collect(),
    }
}

/// The namespace's count, which it has only with bit 1 of NSFEAT.
fn of_namespace(namespace: Option<&[u8]>, place: usize) -> Option<u16> {
    let namespace = namespace?;
    let has_own = namespace.get(24)? & 0b10 != 0;
    has_own.then(|| u16_at(namespace, place))?
}

/// Block size of the format in use: FLBAS names the format by bits 3:0 and 6:5; the size is a power
/// of two.
fn block_size(namespace: &[u8]) -> Option<u64> {
    let formatted = *namespace.get(26)?;
    let format = usize::from(formatted & 0x0f | (formatted & 0x60) >> 1);
    let power = *namespace.get(128 + 4 * format + 2)?;
    // A block is of 512 bytes at least; 2^16 is beyond any that is made.
    (9..=16).contains(&power).then(|| 1 << power)
}

fn parse_power_counters(page: &[u8]) -> Option<NvmePowerCounters> {
    let power_cycles = u128_at(page, 112)?;
    let unsafe_shutdowns = u128_at(page, 144)?;
    // Who answers has power: one that never got any does not count (QEMU's emulated controller).
    (power_cycles > 0).then_some(NvmePowerCounters { power_cycles, unsafe_shutdowns })
}

/// A counter of 16 bytes, as far as it fits.
fn u128_at(bytes: &[u8], place: usize) -> Option<u64> {
    let field = bytes.get(place..place.checked_add(16)?)?;
    let value = u128::from_le_bytes(field.try_into().ok()?);
    Some(u64::try_from(value).unwrap_or(u64::MAX))
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    let field = bytes.get(place..place.checked_add(2)?)?;
    Some(u16::from_le_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by hand from the specification: a controller's page with these fields.
    fn controller(vwc: u8, awun: u16, awupf: u16) -> Vec<u8> {
        let mut page = vec![0; IDENTIFY_LEN as usize];
        page[24..64].copy_from_slice(format!("{:40}", "FASTDISK 3000").as_bytes());
        page[64..72].copy_from_slice(b"GDC5602Q");
        page[520..522].copy_from_slice(&0b1_0000_1100_u16.to_le_bytes());
        page[525] = vwc;
        page[526..528].copy_from_slice(&awun.to_le_bytes());
        page[528..530].copy_from_slice(&awupf.to_le_bytes());
        page
    }

    /// A namespace in format 1 of `1 << power` bytes, with or without counts of its own.
    fn namespace(power: u8, own: Option<(u16, u16)>) -> Vec<u8> {
        let mut page = vec![0; IDENTIFY_LEN as usize];
        page[26] = 1;
        page[128 + 4 + 2] = power;
        if let Some((nawun, nawupf)) = own {
            page[24] = 0b10;
            page[34..36].copy_from_slice(&nawun.to_le_bytes());
            page[36..38].copy_from_slice(&nawupf.to_le_bytes());
        }
        page
    }

    /// Made by hand from the specification: a log with these counters, and others around them.
    fn health(power_cycles: u128, unsafe_shutdowns: u128) -> Vec<u8> {
        let mut page = vec![0xa5; LOG_HEALTH_LEN as usize];
        page[112..128].copy_from_slice(&power_cycles.to_le_bytes());
        page[144..160].copy_from_slice(&unsafe_shutdowns.to_le_bytes());
        page
    }

    #[test]
    fn power_cycles_and_unsafe_shutdowns_stand_in_the_health_log() {
        let counters = |power_cycles, unsafe_shutdowns| {
            Some(NvmePowerCounters { power_cycles, unsafe_shutdowns })
        };
        assert_eq!(parse_power_counters(&health(61, 17)), counters(61, 17));
        assert_eq!(parse_power_counters(&health(1 << 40, 0)), counters(1 << 40, 0));
        assert_eq!(parse_power_counters(&health(1, 1 << 100)), counters(1, u64::MAX));
    }

    #[test]
    fn a_controller_that_never_got_power_counts_nothing_and_a_short_log_says_nothing() {
        assert_eq!(parse_power_counters(&health(0, 0)), None);
        let page = health(61, 17);
        for len in 0..160 {
            assert_eq!(parse_power_counters(&page[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_command_has_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<AdminCommand>(), 72);
        assert_eq!(ADMIN, 0xc048_4e41);
        assert_eq!(NAMESPACE_ID, 0x4e40);
    }

    /// The numbers are those of the NVM Express Base Specification.
    #[test]
    fn a_controller_is_asked_by_commands_that_only_read() {
        let words = |command: AdminCommand| {
            let rest =
                command.command_11 | command.command_12 | command.command_13 | command.timeout_ms;
            (command.opcode, command.namespace, command.data_len, command.command_10, rest)
        };
        assert_eq!(words(identify_command(0, CNS_CONTROLLER)), (6, 0, 4096, 1, 0));
        assert_eq!(words(identify_command(7, CNS_NAMESPACE)), (6, 7, 4096, 0, 0));
        assert_eq!(words(health_log_command()), (2, u32::MAX, 512, 0x7f_0002, 0));
        assert_eq!(words(write_cache_command()), (10, 0, 0, 6, 0));
        // As much memory as the controller writes.
        assert_eq!((IDENTIFY_LEN, LOG_HEALTH_LEN), (4096, 512));
    }

    #[test]
    fn a_controller_with_a_volatile_cache_is_told_from_one_without() {
        let with = parse(&controller(0b111, 0, 0), Some(&namespace(12, None)));
        assert!(with.volatile_write_cache);
        assert_eq!(with.model.as_deref(), Some("FASTDISK 3000"));
        assert_eq!(with.firmware.as_deref(), Some("GDC5602Q"));
        assert_eq!(with.optional_commands, ["dataset management", "write zeroes", "copy"]);
        assert!(!parse(&controller(0b110, 0, 0), None).volatile_write_cache);
    }

    #[test]
    fn counts_of_blocks_become_bytes_and_the_namespaces_own_come_first() {
        let word = parse(&controller(0, 255, 0), Some(&namespace(12, None)));
        assert_eq!(word.atomic_write_bytes, Some(256 * 4096));
        assert_eq!(word.atomic_write_power_fail_bytes, Some(4096));
        let word = parse(&controller(0, 255, 0), Some(&namespace(9, Some((7, 31)))));
        assert_eq!(word.atomic_write_bytes, Some(8 * 512));
        assert_eq!(word.atomic_write_power_fail_bytes, Some(32 * 512));
    }

    /// FLBAS: bits 3:0 are the low part of the format's number, bits 6:5 the high one; bit 4 tells of
    /// metadata.
    #[test]
    fn the_format_in_use_is_named_by_both_parts_of_its_number() {
        for (formatted, format, power, bytes) in [
            (0b0000_0010, 2, 9, 512),
            (0b0001_0011, 3, 12, 4096),
            (0b0101_0010, 34, 9, 512),
            (0b0010_0001, 17, 13, 8192),
            (0b0000_0000, 0, 16, 65_536),
        ] {
            let mut page = namespace(11, None);
            page[26] = formatted;
            page[128 + 4 * format + 2] = power;
            let word = parse(&controller(0, 7, 0), Some(&page));
            assert_eq!(word.atomic_write_bytes, Some(8 * bytes), "{formatted:#b}");
        }
    }

    #[test]
    fn only_one_bit_says_that_a_namespace_has_counts_of_its_own() {
        for (features, blocks) in [(0b1101, 16), (0b0010, 2), (0b1111, 2), (0, 16)] {
            let mut page = namespace(12, Some((1, 1)));
            page[24] = features;
            let word = parse(&controller(0, 15, 15), Some(&page));
            assert_eq!(word.atomic_write_bytes, Some(blocks * 4096), "{features:#b}");
            assert_eq!(word.atomic_write_power_fail_bytes, Some(blocks * 4096), "{features:#b}");
        }
    }

    #[test]
    fn without_a_size_of_blocks_there_are_no_bytes() {
        let page = controller(1, 7, 7);
        for space in [None, Some(namespace(0, None)), Some(namespace(64, None)), Some(vec![])] {
            let word = parse(&page, space.as_deref());
            assert_eq!(word.atomic_write_power_fail_bytes, None);
        }
    }

    #[test]
    fn a_page_that_is_too_short_is_read_as_far_as_it_goes() {
        let page = controller(1, 7, 7);
        let space = namespace(9, Some((1, 1)));
        for len in 0..600 {
            let word = parse(&page[..len], Some(&space[..len.min(200)]));
            assert_eq!(word.volatile_write_cache, len > 525, "{len}");
        }
    }
}
