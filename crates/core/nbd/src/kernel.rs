//! The kernel's NBD client: a server's export as a block device, /dev/nbdN.
//!
//! Takes the address of a server and a mark, and returns a block device that can be found again by
//! its mark. [`crate::NbdEngine`] is the client in a process.
//!
//! The kernel is asked by generic netlink (linux/nbd-netlink.h). It chooses a free device, takes
//! over the connection, and keeps it until it is detached, even if the process that asked is gone.
//! So a device may outlive its server; unanswered requests then wait until the device is detached.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::client::handshake;
use crate::wire::flags_of;
use crate::{Export, NbdError, NbdErrorKind, Uri};

/// The kernel's requirement to attach an export, for messages.
pub const NBD_DEVICE_NEEDS: &str = "the kernel module nbd (Linux 5.14 or later)";

const BLOCK_DEVICES: &str = "/sys/block";
/// Prefix of a mark in the kernel's name of a device's backend.
const MARK: &str = "durio-";

/// `GENL_ID_CTRL`, and its commands and attributes.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Commands of the family `nbd`.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// Since Linux 5.14; its value is shown in `/sys/block/nbdN/backend`.
const BACKEND: u16 = 10;

/// Bytes of `struct nlmsghdr`, and of that with `struct genlmsghdr`.
const HEAD: usize = 16;
const GENERIC_HEAD: usize = 20;
/// `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST: u16 = 1 | 4;
/// `NLMSG_ERROR`: an answer's end, with an errno or 0.
const ERROR: u16 = 2;

/// A block device that is attached to an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NbdDevice {
    pub number: u32,
    /// The mark given when it was attached.
    pub mark: u64,
}

impl NbdDevice {
    /// The device with this mark, if there is one.
    pub fn find(mark: u64) -> io::Result<Option<Self>> {
        for entry in fs::read_dir(BLOCK_DEVICES)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("nbd")?.parse().ok());
            let found = number.and_then(Self::look).filter(|device| device.mark == mark);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The device of this number, if it was attached by durio.
    #[must_use]
    pub fn look(number: u32) -> Option<Self> {
        let backend = fs::read_to_string(format!("{BLOCK_DEVICES}/nbd{number}/backend")).ok()?;
        let mark = u64::from_str_radix(backend.trim_end().strip_prefix(MARK)?, 16).ok()?;
        Some(Self { number, mark })
    }

    /// The path of the block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/nbd{}", self.number))
    }

    /// True if the block device is claimed by a mount or another layer.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(self.path());
        opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
    }
}

/// The kernel's NBD client.
#[derive(Debug)]
pub struct KernelClient {
    netlink: OwnedFd,
    family: u16,
}

impl KernelClient {
    /// Opens the kernel's NBD interface.
    ///
    /// # Errors
    /// With the kind [`NbdErrorKind::NotFound`] if the kernel does not have it ([`NBD_DEVICE_NEEDS`]).
    pub fn open() -> Result<Self, NbdError> {
        let fail = |error: Errno| NbdError::new("query the kernel's NBD client", error);
        let netlink = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        );
        let mut client = Self { netlink: netlink.map_err(fail)?, family: CONTROL };
        client.family = client.family_of(b"nbd\0").map_err(fail)?;
        Ok(client)
    }

    /// The number of the family of a name, which ends with a zero byte.
    fn family_of(&self, name: &[u8]) -> Result<u16, Errno> {
        let mut message = Message::new(CONTROL, GET_FAMILY);
        message.push(FAMILY_NAME, name);
        let answer = self.ask(message)?;
        let family = attribute(&answer, FAMILY_ID).and_then(|id| id.try_into().ok());
        family.map(u16::from_ne_bytes).ok_or(Errno::NOENT)
    }

    /// Connects to an export and hands the connection to the kernel. `export` describes the device
    /// to its users: without flushes it has no volatile cache. `mark` names it for
    /// [`NbdDevice::find`].
    ///
    /// # Errors
    /// If the server or the kernel refuses; if the kernel does not keep marks.
    pub fn attach(&self, uri: &Uri, export: &Export, mark: u64) -> Result<NbdDevice, NbdError> {
        let socket = uri.connect()?;
        // Request simple replies: the kernel knows no others.
        handshake::run(&mut &socket, &uri.export, false)?;
        let message = connecting(self.family, export, mark, socket.as_fd().as_raw_fd());
        let answer = self.ask(message).map_err(|error| NbdError::new("attach /dev/nbdN", error))?;
        let number = attribute(&answer, INDEX).and_then(|index| index.try_into().ok());
        let number = number.map(u32::from_ne_bytes).unwrap_or_default();
        let device = NbdDevice { number, mark };
        if NbdDevice::look(number) == Some(device) {
            return Ok(device);
        }
        // Report this error, not that of the detach.
        let _ = self.detach(&device);
        Err(NbdError::because(
            NbdErrorKind::Unsupported,
            "attach /dev/nbdN",
            "the kernel keeps no mark",
        ))
    }

    /// Ends the connection of a device. Pending requests fail; the device is free when its last
    /// user has closed it.
    pub fn detach(&self, device: &NbdDevice) -> Result<(), NbdError> {
        let message = disconnecting(self.family, device.number);
        let fail = |error| NbdError::new("detach", error).about(device.path().display());
        self.ask(message).map(drop).map_err(fail)
    }

    /// The attributes of the answer, once the kernel has said that it is complete.
    fn ask(&self, message: Message) -> Result<Vec<u8>, Errno> {
        send(&self.netlink, &message.finished(), SendFlags::empty())?;
        let mut attributes = Vec::new();
        let mut bytes = vec![0; 16 << 10];
        loop {
            let count = match recv(&self.netlink, &mut bytes[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                received => received?.0,
            };
            let mut rest = &bytes[..count];
            while let Some((kind, body, behind)) = first_message(rest) {
                rest = behind;
                if kind == ERROR {
                    let errno = body.first_chunk().map_or(0, |errno| i32::from_ne_bytes(*errno));
                    return match errno {
                        0 => Ok(attributes),
                        _ => Err(Errno::from_raw_os_error(-errno)),
                    };
                }
                attributes.extend_from_slice(body.get(GENERIC_HEAD - HEAD..).unwrap_or_default());
            }
        }
    }
}

/// Makes the kernel take over a connected socket.
fn connecting(family: u16, export: &Export, mark: u64, socket: RawFd) -> Message {
    let mut message = Message::new(family, CONNECT);
    message.push(SIZE_BYTES, &export.size.to_ne_bytes());
    message.push(BLOCK_SIZE_BYTES, &u64::from(export.block_size_min).to_ne_bytes());
    message.push(SERVER_FLAGS, &u64::from(flags_of(export)).to_ne_bytes());
    message.push(BACKEND, format!("{MARK}{mark:016x}\0").as_bytes());
    let mut descriptor = Vec::new();
    push_attribute(&mut descriptor, SOCKET_FD, &socket.to_ne_bytes());
    let mut item = Vec::new();
    push_attribute(&mut item, SOCKET_ITEM, &descriptor);
    message.push(SOCKETS, &item);
    message
}

/// Makes the kernel end the connection of a device.
fn disconnecting(family: u16, number: u32) -> Message {
    let mut message = Message::new(family, DISCONNECT);
    message.push(INDEX, &number.to_ne_bytes());
    message
}

/// A message, in the machine's order of bytes.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    fn new(family: u16, command: u8) -> Self {
        let mut bytes = vec![0; GENERIC_HEAD];
        bytes[4..6].copy_from_slice(&family.to_ne_bytes());
        bytes[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        // Then a version, which is 1 in both families.
        bytes[HEAD..HEAD + 2].copy_from_slice(&[command, 1]);
        Self(bytes)
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        push_attribute(&mut self.0, kind, value);
    }

    fn finished(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// Attributes begin at multiples of four bytes.
fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// The value of the first attribute of a kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let found = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        if found == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// Kind and body of the first message, and the bytes after it.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, bytes.get(HEAD..length)?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::transmission;

    #[test]
    fn a_message_has_the_form_of_the_header_and_attributes_are_padded() {
        let mut message = Message::new(0x10, GET_FAMILY);
        message.push(FAMILY_NAME, b"nbd\0");
        message.push(INDEX, &7u32.to_ne_bytes()[..3]);
        let bytes = message.finished();
        assert_eq!(bytes.len(), 20 + 8 + 8);
        let (kind, body, behind) = first_message(&bytes).unwrap();
        assert_eq!((kind, behind), (0x10, &[][..]));
        assert_eq!(body[..2], [GET_FAMILY, 1]);
        assert_eq!(attribute(&body[4..], FAMILY_NAME), Some(&b"nbd\0"[..]));
        assert_eq!(attribute(&body[4..], INDEX).map(<[u8]>::len), Some(3));
        assert_eq!(attribute(&body[4..], BACKEND), None);
    }

    /// An attribute as linux/netlink.h has it, up to the next multiple of four bytes.
    fn item(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let padding = vec![0; (4 - value.len() % 4) % 4];
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value, &padding].concat()
    }

    /// A message with a request that is to be acknowledged, of version 1.
    fn request(family: u16, command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let attributes = attributes.concat();
        let length = u32::try_from(20 + attributes.len()).unwrap().to_ne_bytes();
        let (family, flags) = (family.to_ne_bytes(), 5_u16.to_ne_bytes());
        let words = [&length[..], &family, &flags, &[0; 8], &[command, 1, 0, 0], &attributes];
        words.concat()
    }

    /// The numbers are those of linux/nbd-netlink.h.
    #[test]
    fn an_export_is_attached_and_detached_by_the_messages_of_the_kernels_header() {
        let export = Export { block_size_min: 512, ..Export::new("a", 3 << 40) };
        let expected = [
            item(2, &(3_u64 << 40).to_ne_bytes()),
            item(3, &512_u64.to_ne_bytes()),
            // Flags, flush, FUA, trim, write zeroes, several connections.
            item(5, &0x16d_u64.to_ne_bytes()),
            item(10, b"durio-00000000000000ab\0"),
            item(7, &item(1, &item(1, &9_u32.to_ne_bytes()))),
        ];
        let message = connecting(33, &export, 0xab, 9).finished();
        assert_eq!(message, request(33, 1, &expected));
        assert_eq!(disconnecting(33, 7).finished(), request(33, 2, &[item(1, &[7, 0, 0, 0])]));
    }

    /// The controller, GENL_ID_CTRL, is a family in every kernel.
    #[test]
    fn the_kernel_gives_the_number_of_a_family_or_an_error() {
        let generic = Some(netlink::GENERIC);
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, generic);
        let client = KernelClient { netlink: socket.unwrap(), family: CONTROL };
        assert_eq!(client.family_of(b"nlctrl\0"), Ok(16));
        assert_eq!(client.family_of(b"no such one\0"), Err(Errno::NOENT));
    }

    #[test]
    fn what_the_kernel_does_not_finish_is_no_message_and_no_attribute() {
        let bytes = Message::new(1, 2).finished();
        assert_eq!(first_message(&bytes[..19]), None);
        assert_eq!(first_message(&[]), None);
        for broken in [&[9, 0, 1, 0, 0][..], &[0, 0, 1, 0], &[4, 0]] {
            assert_eq!(attribute(broken, 1), None, "{broken:?}");
        }
    }

    #[test]
    fn a_device_without_a_volatile_cache_says_so_by_not_offering_flushes() {
        let export = Export { flush: false, fua: false, trim: false, ..Export::new("a", 1) };
        let flags = transmission::HAS_FLAGS | transmission::WRITE_ZEROES | transmission::MULTI_CONN;
        assert_eq!(flags_of(&export), flags);
    }

    #[test]
    fn each_ability_of_an_export_has_its_own_flag() {
        let none = || Export {
            flush: false,
            fua: false,
            trim: false,
            write_zeroes: false,
            multi_conn: false,
            ..Export::new("a", 1)
        };
        assert_eq!(flags_of(&none()), 1);
        // The bits that the protocol gives them (nbd/doc/proto.md, transmission flags).
        for (export, bit) in [
            (Export { read_only: true, ..none() }, 1),
            (Export { flush: true, ..none() }, 2),
            (Export { fua: true, ..none() }, 3),
            (Export { rotational: true, ..none() }, 4),
            (Export { trim: true, ..none() }, 5),
            (Export { write_zeroes: true, ..none() }, 6),
            (Export { multi_conn: true, ..none() }, 8),
        ] {
            assert_eq!(flags_of(&export), 1 | 1 << bit, "{export:?}");
        }
    }
}
