//! A machine for tests: it takes the words of the real programs and keeps account of what is there.
//!
//! In: steps. Out: answers as of a kernel on which everything works, or where one step fails.
//! Not here: doing anything.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use durio_base::Bytes;
use rustix::process::Signal;

use crate::identity::{HeldDevice, LayerIdentity};
use crate::permit::{PermittedBlock, PermittedCommand, PermittedWrite, ProgramQuery, Proven};
use crate::system::{ExitedProcess, ServerRemains, System};
use durio_observe::{DeviceUse, Signature, StackError};

/// What is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct There {
    /// Files, directories and links; what a file of the kernel says, or where a link leads.
    pub(crate) paths: BTreeMap<String, String>,
    pub(crate) devices: BTreeSet<String>,
    /// Mount point and type.
    pub(crate) mounts: BTreeMap<String, String>,
}

/// When a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fails {
    /// Before it has done anything.
    Early(usize),
    /// After it has done all.
    Late(usize),
    /// As `Early`, and all that come after it too.
    From(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) there: There,
    /// Everything that was run, written or made.
    pub(crate) log: Vec<String>,
    pub(crate) fails: Option<Fails>,
    /// What the members of every array are short of.
    pub(crate) degraded: u32,
    /// What arrays say after each pause: action, first sector not in sync, sectors done.
    pub(crate) looks: Vec<[&'static str; 3]>,
    /// What is found on existing devices.
    pub(crate) signatures: Vec<Signature>,
    /// Programs that hang on to a mount.
    pub(crate) busy: bool,
    /// Numbers of files and directories, in the order in which they were made.
    pub(crate) inodes: BTreeMap<String, u32>,
    /// Of files that were made.
    pub(crate) sizes: BTreeMap<String, u64>,
    /// Of each socket its server's device and array, also of a server that was killed.
    pub(crate) served: BTreeMap<String, (String, String)>,
    /// Sockets whose server lives.
    pub(crate) servers: BTreeSet<String>,
    /// Servers do not end when they are asked.
    pub(crate) stubborn: bool,
    /// Of each mount its number and its device.
    pub(crate) mounted: BTreeMap<String, (u32, String)>,
    next: u32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted(pub(crate) Rc<RefCell<Account>>);

impl Account {
    fn act(
        &mut self,
        text: String,
        act: impl FnOnce(&mut Self) -> Option<String>,
    ) -> io::Result<ExitedProcess> {
        let number = self.log.len();
        self.log.push(text);
        let failed = || {
            Ok(ExitedProcess { failure: Some("exit status: 1".into()), ..ExitedProcess::default() })
        };
        let fails_early = match self.fails {
            Some(Fails::Early(failing)) => number == failing,
            Some(Fails::From(first)) => number >= first,
            Some(Fails::Late(_)) | None => false,
        };
        if fails_early {
            return failed();
        }
        match act(self) {
            Some(stdout) if self.fails == Some(Fails::Late(number)) => Ok(ExitedProcess {
                failure: Some("exit status: 1".into()),
                stdout,
                ..ExitedProcess::default()
            }),
            Some(stdout) => Ok(ExitedProcess { stdout, ..ExitedProcess::default() }),
            None => failed(),
        }
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn set(&mut self, path: String, text: &str) {
        self.there.paths.insert(path, text.to_owned());
    }

    fn forget(&mut self, prefix: &str) {
        self.there.paths.retain(|path, _| !path.starts_with(prefix));
    }

    fn disk(&mut self, name: &str, sectors: u64) {
        self.there.devices.insert(format!("/dev/{name}"));
        self.set(format!("/sys/block/{name}/size"), &sectors.to_string());
        let number = self.number();
        self.set(format!("/sys/block/{name}/diskseq"), &number.to_string());
    }

    fn no_disk(&mut self, name: &str) {
        // What was written on it goes with it.
        self.there.paths.remove(&format!("/dev/{name}"));
        self.there.devices.remove(&format!("/dev/{name}"));
        self.forget(&format!("/sys/block/{name}/"));
    }

    fn make(&mut self, path: &str) {
        self.set(path.to_owned(), "");
        let number = self.number();
        self.inodes.insert(path.to_owned(), number);
    }

    fn mount(&mut self, kind: &str, source: &str, place: &str) {
        self.there.mounts.insert(place.to_owned(), kind.to_owned());
        let number = self.number();
        self.mounted.insert(place.to_owned(), (number, source.to_owned()));
    }

    fn loops(&self) -> String {
        let files = self.there.paths.iter().filter_map(|(path, file)| {
            Some((path.strip_prefix("/sys/block/")?.strip_suffix("/loop/backing_file")?, file))
        });
        files
            .map(|(name, file)| {
                let (filesystem, inode) = self.numbers(file);
                format!("/dev/{name} \\x20{filesystem} {inode}\n")
            })
            .collect()
    }

    /// Filesystem and inode of a file; `/other` is another filesystem than all the rest.
    fn numbers(&self, file: &str) -> (&'static str, u32) {
        let filesystem = if file.starts_with("/other/") { "8:2" } else { "8:1" };
        (filesystem, self.inodes.get(file).copied().unwrap_or(0))
    }

    fn map(&mut self, name: &str) {
        let number = self.number();
        self.disk(&format!("dm-{number}"), 8192);
        self.set(format!("/sys/block/dm-{number}/dm/name"), name);
        self.set(format!("/sys/block/dm-{number}/dm/uuid"), &format!("DURIO-{name}"));
        self.set(format!("/dev/mapper/{name}"), &format!("/dev/dm-{number}"));
        self.there.devices.insert(format!("/dev/mapper/{name}"));
    }

    /// Superblocks on each device: magic number, identity, epoch, name, at their places.
    fn create_members(&mut self, name: &str, words: &[&str]) -> Option<String> {
        let number = self.number();
        let devices = words.windows(2).filter(|pair| pair[0] == "--destroy");
        for device in devices.map(|pair| pair[1].to_owned()) {
            let block =
                format!("durioRDS{:8}{number:016}{:16}\u{1}{:\0<7}{:48}{name}", "", "", "", "");
            self.set(device, &format!("{block:\0<140}"));
        }
        Some(String::new())
    }

    fn start_server(&mut self, name: &str, socket: &str, member: &str) -> Option<String> {
        let array = self.there.paths.get(member)?.get(16..32)?;
        let array = array.bytes().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{name}{}", self.number());
        self.disk(&name, 8192);
        self.make(&format!("{socket}.control"));
        self.served.insert(socket.to_owned(), (name.clone(), array));
        self.servers.insert(socket.to_owned());
        Some(format!("/dev/{name}"))
    }

    /// The server ends, in order or not.
    pub(crate) fn end_server(&mut self, socket: &str, in_order: bool) {
        self.servers.remove(socket);
        if in_order {
            self.there.paths.remove(&format!("{socket}.control"));
            self.end_served(socket);
        }
    }

    fn end_served(&mut self, socket: &str) {
        if let Some((name, _)) = self.served.remove(socket) {
            self.no_disk(&name);
        }
    }

    fn unmap(&mut self, name: &str) -> Option<String> {
        let link = format!("/dev/mapper/{name}");
        let node = self.there.paths.remove(&link)?;
        self.there.devices.remove(&link);
        self.no_disk(node.strip_prefix("/dev/")?);
        Some(String::new())
    }

    fn program(&mut self, program: &str, words: &[&str]) -> Option<String> {
        let done = Some(String::new());
        match (program, words) {
            ("losetup", ["--find", "--show", _, file]) => {
                let name = format!("loop{}", self.number());
                let sectors = self.sizes.get(*file).map_or(8192, |size| size / 512);
                self.disk(&name, sectors);
                self.set(format!("/sys/block/{name}/loop/backing_file"), file);
                Some(format!("/dev/{name}\n"))
            }
            ("losetup", ["--list", ..]) => Some(self.loops()),
            ("zpool", ["get", ..]) => Some("123\n".into()),
            ("losetup", ["--detach", node]) => self.gone(node.strip_prefix("/dev/")?),
            ("cat", [_]) => {
                let number = self.number();
                self.disk(&format!("zram{number}"), 0);
                self.set(format!("/sys/block/zram{number}/disksize"), "0");
                Some(format!("{number}\n"))
            }
            ("modprobe", ["brd", count, size]) => self.load_brd(count, size),
            ("rmmod", ["brd"]) => self.unload_brd(),
            ("mdadm", ["--create", link, words @ ..]) => self.create_array(link, words),
            ("mdadm", ["--detail", "--export", node]) => {
                let path = format!("/sys/block/{}/md/uuid", node.strip_prefix("/dev/")?);
                Some(format!("MD_LEVEL=raid1\nMD_UUID={}\n", self.there.paths.get(&path)?))
            }
            ("mdadm", ["--stop", "--quiet", node]) => self.gone(node.strip_prefix("/dev/")?),
            ("mdadm", [link, "--quiet", "--remove", _]) => self.degrade(link),
            ("lvm", ["vgcreate", _, _, _, _, name, ..]) => {
                self.set(format!("/vg/{name}"), "");
                done
            }
            ("lvm", ["lvcreate", .., name]) => {
                self.map(&format!("{name}-data"));
                done
            }
            ("lvm", ["vgs", ..]) => {
                let groups = self.there.paths.keys().filter_map(|path| path.strip_prefix("/vg/"));
                Some(groups.map(|name| format!("  {name} uuid-{name}\n")).collect())
            }
            ("lvm", ["vgremove", .., name]) => {
                self.unmap(&format!("{name}-data"));
                self.there.paths.remove(&format!("/vg/{name}"));
                done
            }
            ("dmsetup", ["create", name, ..]) | ("cryptsetup", [.., name]) => {
                self.map(name);
                done
            }
            ("dmsetup", ["remove", _, name]) => self.unmap(name),
            ("durio", ["raid", "create", name, words @ ..]) => self.create_members(name, words),
            ("durio", ["raid", "start", "--front", front, "--socket", socket, words @ ..]) => {
                let name = if *front == "ublk" { "ublkb" } else { "nbd" };
                let member = words.iter().find(|word| word.starts_with('/'))?;
                self.start_server(name, socket, member)
            }
            ("blockdev", _) => Some("8192\n".into()),
            ("mount", ["-t", kind, .., source, place]) => {
                self.mount(kind, source, place);
                done
            }
            ("umount", [place]) if !self.busy => {
                self.there.mounts.remove(*place).map(|_| String::new())
            }
            ("umount", _) => None,
            ("zpool", ["create", words @ ..]) => self.create_pool(words),
            ("zpool", ["destroy", _, name]) => {
                self.there.paths.remove(&format!("/proc/spl/kstat/zfs/{name}"));
                self.there.mounts.retain(|_, kind| kind != "zfs");
                done
            }
            ("wipefs", _) => {
                self.signatures.clear();
                done
            }
            (program, _) if program.starts_with("mkfs.") => done,
            ("modprobe" | "lvm" | "mdadm", _) => done,
            _ => None,
        }
    }

    fn gone(&mut self, name: &str) -> Option<String> {
        self.no_disk(name);
        Some(String::new())
    }

    fn load_brd(&mut self, count: &str, size: &str) -> Option<String> {
        let (count, size) = (count.strip_prefix("rd_nr=")?, size.strip_prefix("rd_size=")?);
        self.set("/sys/module/brd".into(), "");
        self.set("/sys/module/brd/parameters/rd_nr".into(), count);
        self.set("/sys/module/brd/parameters/rd_size".into(), size);
        let sectors = size.parse::<u64>().ok()? * 2;
        for n in 0..count.parse::<u32>().ok()? {
            self.disk(&format!("ram{n}"), sectors);
        }
        Some(String::new())
    }

    fn unload_brd(&mut self) -> Option<String> {
        self.there.devices.retain(|device| !device.starts_with("/dev/ram"));
        self.forget("/dev/ram");
        self.forget("/sys/block/ram");
        self.forget("/sys/module/brd");
        Some(String::new())
    }

    fn create_array(&mut self, link: &str, words: &[&str]) -> Option<String> {
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let name = format!("md{}", self.number());
        let (uuid, level) = (value("--uuid=")?.to_owned(), value("--level=")?.to_owned());
        let bitmap = value("--bitmap=/").map(|file| format!("/{file}"));
        self.disk(&name, 8192);
        self.set(format!("/sys/block/{name}/md/uuid"), &uuid);
        self.set(format!("/sys/block/{name}/md/level"), &format!("raid{level}"));
        self.set(format!("/sys/block/{name}/md/array_state"), "clean");
        let degraded = self.degraded.to_string();
        self.set(format!("/sys/block/{name}/md/degraded"), &degraded);
        self.set(link.to_owned(), &format!("/dev/{name}"));
        self.there.devices.insert(link.to_owned());
        if let Some(file) = bitmap {
            self.set(file, "bitm");
        }
        if !self.looks.is_empty() {
            let look = self.looks.remove(0);
            self.look(look);
        }
        Some(String::new())
    }

    fn look(&mut self, look: [&str; 3]) {
        let uuid = |path: &String| path.strip_suffix("/uuid").map(str::to_owned);
        let arrays: Vec<String> = self.there.paths.keys().filter_map(uuid).collect();
        for array in arrays {
            for (name, text) in ["sync_action", "resync_start", "sync_completed"].iter().zip(look) {
                self.set(format!("{array}/{name}"), text);
            }
        }
    }

    fn degrade(&mut self, link: &str) -> Option<String> {
        let node = self.there.paths.get(link)?.strip_prefix("/dev/")?.to_owned();
        let path = format!("/sys/block/{node}/md/degraded");
        let count: u32 = self.there.paths.get(&path)?.parse().ok()?;
        self.set(path, &(count + 1).to_string());
        Some(String::new())
    }

    fn create_pool(&mut self, words: &[&str]) -> Option<String> {
        let place = words.iter().find_map(|word| word.strip_prefix("mountpoint="))?;
        self.mount("zfs", "", place);
        let name = words.iter().find(|word| word.starts_with("durio"))?;
        self.set(format!("/proc/spl/kstat/zfs/{name}"), "");
        Some(String::new())
    }

    fn written(&mut self, path: &str, text: &str) {
        if path.ends_with("/hot_remove") {
            self.no_disk(&format!("zram{text}"));
        } else if let Some(name) = path.strip_suffix("/power").and_then(|p| p.rsplit('/').next()) {
            let directory = path.trim_end_matches("/power").to_owned();
            if text == "1" {
                let size = self.there.paths.get(&format!("{directory}/size")).cloned();
                let mib: u64 = size.and_then(|size| size.parse().ok()).unwrap_or(0);
                self.disk(name, mib * 2048);
            } else {
                self.no_disk(name);
            }
            self.forget(&format!("{directory}/"));
        } else {
            if let Some(disk) = path.strip_suffix("/disksize") {
                let sectors = text.parse::<u64>().unwrap_or(0) / 512;
                self.set(format!("{disk}/size"), &sectors.to_string());
            }
            self.set(path.to_owned(), text);
        }
    }
}

fn as_io(ended: ExitedProcess) -> io::Result<()> {
    ended.failure.map_or(Ok(()), |failure| Err(io::Error::other(failure)))
}

impl System for Scripted {
    fn look(&mut self, look: ProgramQuery<'_>, _output: &Path) -> io::Result<ExitedProcess> {
        let (program, words) = look.command();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let stdout = self.0.borrow_mut().program(program, &words);
        let failure = stdout.is_none().then(|| "exit status: 1".to_owned());
        Ok(ExitedProcess {
            failure,
            stdout: stdout.unwrap_or_default(),
            ..ExitedProcess::default()
        })
    }

    fn run(&mut self, command: &PermittedCommand, output: &Path) -> io::Result<ExitedProcess> {
        let (program, words) = (command.program(), command.words());
        let text = crate::system::in_shell(program, words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = self.0.borrow_mut().act(text, |account| account.program(program, &words))?;
        std::fs::write(output.with_extension("out"), &ended.stdout)?;
        Ok(ended)
    }

    fn serve(
        &mut self,
        command: &PermittedCommand,
        output: &Path,
        _stop: &dyn Fn() -> bool,
    ) -> io::Result<ExitedProcess> {
        let ended = self.run(command, output)?;
        Ok(ExitedProcess { stderr: "it said why".into(), ..ended })
    }

    fn served(&self, socket: &str, array: &str) -> io::Result<ServerRemains> {
        let account = self.0.borrow();
        let has_server = account.servers.contains(socket);
        let mut devices = account.served.values();
        let has_device = devices.any(|(_, identity)| identity == array);
        Ok(ServerRemains { has_server, has_device, is_in_use: account.busy })
    }

    fn signal_server(&mut self, proven: &Proven, signal: Signal) -> io::Result<()> {
        let mut account = self.0.borrow_mut();
        account.log.push(format!("signal {signal:?} to the server of {}", proven.target()));
        if signal == Signal::KILL || !account.stubborn {
            account.end_server(proven.target(), signal != Signal::KILL);
        }
        Ok(())
    }

    fn fail_users(&mut self, proven: &Proven, _array: &str) -> io::Result<()> {
        let mut account = self.0.borrow_mut();
        account.log.push(format!("fail the users of {}", proven.target()));
        Ok(())
    }

    fn remove_served(&mut self, proven: &Proven, _array: &str) -> io::Result<()> {
        let mut account = self.0.borrow_mut();
        account.log.push(format!("remove the device of {}", proven.target()));
        account.end_served(proven.target());
        Ok(())
    }

    fn erase(&mut self, block: &PermittedBlock) -> io::Result<()> {
        let mut account = self.0.borrow_mut();
        let device = block.device().display().to_string();
        account.log.push(format!("erase {device}"));
        account.there.paths.remove(&device).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, write: &PermittedWrite) -> io::Result<()> {
        let (path, text) = (write.path().display().to_string(), write.text());
        let line = format!("write {text} to {path}");
        let written = self.0.borrow_mut().act(line, |account| {
            account.written(&path, text);
            Some(String::new())
        });
        as_io(written?)
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<LayerIdentity> {
        self.make_file(path, Bytes::new(0), &LayerIdentity::default())
    }

    fn make_file(
        &mut self,
        file: &Path,
        size: Bytes,
        _folder: &LayerIdentity,
    ) -> io::Result<LayerIdentity> {
        let path = file.display().to_string();
        let made = self.0.borrow_mut().act(format!("make {path}"), |account| {
            account.make(&path);
            account.sizes.insert(path.clone(), size.get());
            Some(String::new())
        });
        as_io(made?)?;
        self.file_identity(file).ok_or(io::ErrorKind::NotFound.into())
    }

    fn remove_file(&mut self, proven: &Proven) -> io::Result<()> {
        let mut account = self.0.borrow_mut();
        let path = proven.target().to_owned();
        account.log.push(format!("remove {path}"));
        account.there.devices.remove(&path);
        account.there.paths.remove(&path).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn remove_directory(&mut self, proven: &Proven) -> io::Result<()> {
        let inside = format!("{}/", proven.target());
        if self.0.borrow().there.paths.keys().any(|path| path.starts_with(&inside)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.remove_file(proven)
    }

    fn open_device(&self, device: &Path) -> io::Result<HeldDevice> {
        let node = self.resolve(device).filter(|_| self.is_block_device(device));
        let node = node.ok_or(io::ErrorKind::NotFound)?;
        let name = node.file_name().unwrap_or_default().to_string_lossy();
        Ok(HeldDevice::new(format!("/sys/block/{name}"), None))
    }

    fn file_identity(&self, path: &Path) -> Option<LayerIdentity> {
        let account = self.0.borrow();
        let path = path.display().to_string();
        let (device, inode) = account.numbers(&path);
        let facts = [("device", Some(device.to_owned())), ("inode", Some(inode.to_string()))];
        account.there.paths.contains_key(&path).then(|| LayerIdentity::of(facts))
    }

    fn mount_identity(&self, mount_point: &Path) -> Option<LayerIdentity> {
        let account = self.0.borrow();
        let place = mount_point.display().to_string();
        account.there.mounts.get(&place)?;
        let (number, source) = account.mounted.get(&place).cloned().unwrap_or_default();
        Some(LayerIdentity::of([("mount", Some(number.to_string())), ("source", Some(source))]))
    }

    fn read(&self, path: &Path) -> Option<String> {
        self.0.borrow().there.paths.get(&path.display().to_string()).cloned()
    }

    fn head(&self, path: &Path, _size: Bytes) -> io::Result<Vec<u8>> {
        self.read(path).map(String::into_bytes).ok_or(io::ErrorKind::NotFound.into())
    }

    fn names(&self, directory: &Path) -> Vec<String> {
        let prefix = format!("{}/", directory.display());
        let account = self.0.borrow();
        let inside = account.there.paths.keys().filter_map(|path| path.strip_prefix(&prefix));
        let names: BTreeSet<&str> = inside.filter_map(|path| path.split('/').next()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let account = self.0.borrow();
        let path = path.display().to_string();
        match account.there.paths.get(&path).filter(|target| target.starts_with("/dev/")) {
            Some(target) => account.there.devices.get(target).map(PathBuf::from),
            None => Some(PathBuf::from(path)),
        }
    }

    fn is_there(&self, path: &Path) -> bool {
        let account = self.0.borrow();
        let path = path.display().to_string();
        let inside = format!("{path}/");
        account.there.paths.keys().any(|other| *other == path || other.starts_with(&inside))
    }

    fn is_block_device(&self, path: &Path) -> bool {
        self.0.borrow().there.devices.contains(&path.display().to_string())
    }

    fn mounted_at(&self, mount_point: &Path) -> Vec<String> {
        let mounts = &self.0.borrow().there.mounts;
        mounts.get(&mount_point.display().to_string()).cloned().into_iter().collect()
    }

    fn usage(&self, device: &Path) -> Result<DeviceUse, StackError> {
        let account = self.0.borrow();
        let mut signatures = account.signatures.clone();
        let path = device.display().to_string();
        if account.there.paths.get(&path).is_some_and(|text| text.starts_with("durioRDS")) {
            let (name, offset) = ("durio raid".to_owned(), Bytes::new(0));
            signatures.push(Signature { device: path, name, offset });
        }
        Ok(DeviceUse { device: device.display().to_string(), signatures, ..DeviceUse::default() })
    }

    fn has_driver(&self, module: &str) -> bool {
        !module.starts_with("dm_")
    }

    fn pause(&self, _span: Duration) {
        let mut account = self.0.borrow_mut();
        if !account.looks.is_empty() {
            let look = account.looks.remove(0);
            account.look(look);
        }
    }
}
