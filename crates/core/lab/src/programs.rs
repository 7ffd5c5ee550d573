//! The files that a program needs to run elsewhere.
//!
//! Takes a program's name or file and returns files of this machine, at their paths in the guest.
//!
//! The loader that the program names decides which libraries the program gets, because only the
//! loader knows all rules; it is not asked if earlier programs already needed all named libraries.
//! A script gets its interpreter.
//!
//! Drivers built outside the kernel, such as ZFS, need programs of the same version, which take
//! precedence. These are in the folder `tools` of the kernel's tree, next to `boot` and `lib` (made
//! by `cargo xtask lab zfs`), laid out as a root directory: `tools/usr/sbin/zpool` is
//! `/usr/sbin/zpool` in the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use durio_base::Bytes;
use durio_block::{ANSWER_LIMIT, ask, open_input, read_bounded};
use durio_command::CommandError;
use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};

use crate::error::{bad_tool, cannot_read, missing_tool};
use crate::kernels::{Kernel, tree_of_image};

/// Limit of interpreters that are scripts themselves.
// The kernel follows no more either, and returns ELOOP (fs/exec.c).
const INTERPRETERS_MAX: usize = 4;
const HEAD_BYTES: u64 = 64 * 1024;
const PROGRAM_BYTES_MAX: Bytes = Bytes::from_mib(1024);

/// The collected programs and their dependencies.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Files of this machine by the paths at which they are needed.
    pub(crate) files: BTreeMap<PathBuf, PathBuf>,
    /// Symbolic links on the way to them, and their targets.
    pub(crate) links: BTreeMap<PathBuf, PathBuf>,
    /// The kernel's programs, which take precedence over this machine's.
    tools: KernelTools,
    known: BTreeSet<PathBuf>,
    /// Libraries by the names in programs; they and their dependencies were added already.
    libraries: BTreeSet<String>,
}

/// The path of a program: as given, or on the search path and in the administrators' folders.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return is_executable(name).then(|| name.to_owned());
    }
    let given = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let folders = env::split_paths(&given).chain(more).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|path| is_executable(path))
}

pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

impl Programs {
    pub(crate) fn with(tools: KernelTools) -> Self {
        Self { tools, ..Self::default() }
    }

    /// The path of a program: among the kernel's, else as [`find_program`] finds it.
    pub(crate) fn find(&self, name: &Path) -> Option<PathBuf> {
        let is_name = !name.as_os_str().as_bytes().contains(&b'/');
        let own = name.to_str().filter(|_| is_name).and_then(|name| self.tools.find(name));
        own.or_else(|| find_program(name))
    }

    pub(crate) fn is_of_kernel(&self, file: &Path) -> bool {
        self.tools.has(file)
    }

    /// Adds a program by its name or path, with its dependencies.
    pub(crate) fn add(&mut self, name: &str) -> Result<(), CommandError> {
        let path = self.find(Path::new(name)).ok_or_else(|| missing_tool(name))?;
        let path = std::path::absolute(&path).map_err(|error| cannot_read(&path, error))?;
        self.add_file(&path)
    }

    /// Adds a program's file with its dependencies, at its path on this machine.
    pub(crate) fn add_file(&mut self, path: &Path) -> Result<(), CommandError> {
        let mut next = path.to_owned();
        // The kernel follows only this many too (fs/exec.c).
        for _ in 0..=INTERPRETERS_MAX {
            self.add_path(&next)?;
            let real = next.canonicalize().map_err(|error| cannot_read(&next, error))?;
            if !self.known.insert(real) {
                return Ok(());
            }
            match needs_of(&next)? {
                ProgramNeeds::Nothing => return Ok(()),
                ProgramNeeds::Libraries(interpreter) => {
                    return self.add_libraries(&next, &interpreter);
                }
                ProgramNeeds::Interpreter(interpreter) => next = interpreter,
            }
        }
        Err(bad_tool(path, "its chain of interpreters is too long"))
    }

    fn add_libraries(&mut self, program: &Path, loader: &Path) -> Result<(), CommandError> {
        if self.knows_libraries_of(program)? {
            return self.add_path(loader);
        }
        let first = self.tools.library_path(program);
        for library in libraries_of(program, loader, first.as_deref())? {
            let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.libraries.insert(name);
            self.add_path(&library)?;
        }
        self.add_path(loader)
    }

    /// Starting a loader for each of a hundred programs takes seconds on a busy machine.
    fn knows_libraries_of(&self, program: &Path) -> Result<bool, CommandError> {
        let read = open_input(program).and_then(|file| read_bounded(file, PROGRAM_BYTES_MAX));
        let bytes = read.map_err(|error| cannot_read(program, error))?;
        let named = libraries_named_in(&bytes);
        Ok(named.is_some_and(|names| names.iter().all(|name| self.libraries.contains(name))))
    }

    /// Adds a file by its path: the links on the way, and the file where it really is.
    fn add_path(&mut self, path: &Path) -> Result<(), CommandError> {
        let fail = |error| cannot_read(path, error);
        let mut path = path.to_owned();
        loop {
            let folder = path.parent().unwrap_or(Path::new("/")).canonicalize().map_err(fail)?;
            let here = folder.join(path.file_name().unwrap_or_default());
            match fs::read_link(&here) {
                Ok(target) => {
                    path = folder.join(&target);
                    // A cycle of links ends here; the canonical path shows missing files.
                    if self.links.insert(self.tools.guest_path(&here), target).is_some() {
                        path = here.canonicalize().map_err(fail)?;
                    }
                }
                Err(_) => {
                    self.files.insert(self.tools.guest_path(&here), here);
                    return Ok(());
                }
            }
        }
    }
}

const FOLDER: &str = "tools";
const PROGRAMS: [&str; 2] = ["usr/sbin", "usr/bin"];
/// Where loaders search by default; the first is Debian's.
const LIBRARIES: [&str; 3] = ["usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"];

/// The folder with a kernel's programs, if it has one.
#[derive(Debug, Default)]
pub(crate) struct KernelTools {
    folder: Option<PathBuf>,
}

impl KernelTools {
    /// The programs in the tree of the kernel's image; the root directory does not count as a tree.
    pub(crate) fn of(kernel: &Kernel) -> Self {
        let image = kernel.image.canonicalize().ok();
        let tree = image.as_deref().and_then(tree_of_image);
        // This machine's kernel is in /boot, but /tools does not belong to it.
        let tree = tree.filter(|folder| folder.parent().is_some());
        Self { folder: tree.map(|folder| folder.join(FOLDER)).filter(|folder| folder.is_dir()) }
    }

    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let folders = self.below(&PROGRAMS);
        folders.map(|folder| folder.join(name)).find(|path| is_executable(path))
    }

    /// True for a file that is one of them, or a library of theirs.
    pub(crate) fn has(&self, file: &Path) -> bool {
        self.folder.as_deref().is_some_and(|folder| file.starts_with(folder))
    }

    /// The guest's path of a file of this machine: only these differ.
    pub(crate) fn guest_path(&self, file: &Path) -> PathBuf {
        let below = self.folder.as_deref().and_then(|folder| file.strip_prefix(folder).ok());
        below.map_or_else(|| file.to_owned(), |path| Path::new("/").join(path))
    }

    /// Where the loader must search first for this program's libraries.
    pub(crate) fn library_path(&self, program: &Path) -> Option<OsString> {
        if !self.has(program) {
            return None;
        }
        std::env::join_paths(self.below(&LIBRARIES).filter(|folder| folder.is_dir())).ok()
    }

    fn below(&self, folders: &'static [&str]) -> impl Iterator<Item = PathBuf> {
        let folder = self.folder.clone();
        folders.iter().filter_map(move |inner| Some(folder.as_ref()?.join(inner)))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ProgramNeeds {
    Nothing,
    Libraries(PathBuf),
    Interpreter(PathBuf),
}

fn needs_of(path: &Path) -> Result<ProgramNeeds, CommandError> {
    let mut head = Vec::new();
    let read = open_input(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| cannot_read(path, error))?;
    needs_of_head(&head).map_err(|why| bad_tool(path, why))
}

fn needs_of_head(head: &[u8]) -> Result<ProgramNeeds, &'static str> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        let interpreter = PathBuf::from(OsStr::from_bytes(word));
        return match interpreter.is_absolute() {
            true => Ok(ProgramNeeds::Interpreter(interpreter)),
            false => Err("its interpreter has no absolute path"),
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return Err("it is neither an ELF program nor a script");
    }
    let wrong = |_| "it is not a program for 64-bit x86";
    let header = FileHeader64::<LittleEndian>::parse(head).map_err(wrong)?;
    // The guest is an x86-64 machine, whatever this one can run.
    if header.e_machine(LittleEndian) != object::elf::EM_X86_64 {
        return Err("it is not a program for 64-bit x86");
    }
    let programs = header.program_headers(LittleEndian, head).map_err(|_| "it is truncated")?;
    let interpreter = programs.iter().find(|header| header.p_type(LittleEndian) == PT_INTERP);
    let Some(interpreter) = interpreter else { return Ok(ProgramNeeds::Nothing) };
    let bytes = interpreter.data(LittleEndian, head).map_err(|()| "it is truncated")?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(ProgramNeeds::Libraries(PathBuf::from(OsStr::from_bytes(name))))
}

/// The names of libraries in a program; `None` if it also says where they are, or cannot be read.
fn libraries_named_in(program: &[u8]) -> Option<Vec<String>> {
    let file: ElfFile64<LittleEndian> = ElfFile64::parse(program).ok()?;
    let table = file.elf_section_table().dynamic_table(LittleEndian, program).ok()?;
    let mut names = Vec::new();
    for entry in table.iter() {
        // A library of a known name may be another file then.
        if entry.tag == DT_RPATH || entry.tag == DT_RUNPATH {
            return None;
        }
        if entry.tag == DT_NEEDED {
            names.push(String::from_utf8_lossy(table.string(entry).ok()?).into_owned());
        }
    }
    Some(names)
}

/// Asks the loader which files it would load; it searches the given folders first.
fn libraries_of(
    program: &Path,
    loader: &Path,
    first: Option<&OsStr>,
) -> Result<Vec<PathBuf>, CommandError> {
    let bad = |why: String| bad_tool(program, &why);
    let mut command = Command::new(loader);
    // The program does not need what the user preloads here.
    if let Some(folders) = first {
        command.arg("--library-path").arg(folders);
    }
    command.arg("--list").arg(program).env_remove("LD_PRELOAD");
    let output = ask(&mut command, ANSWER_LIMIT).map_err(|error| {
        bad(format!("its loader '{}' cannot be run: {error}", loader.display()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(bad(format!("its libraries cannot be listed: {said}")));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().find(|line| line.contains("=> not found")) {
        Some(line) => Err(bad(format!("a library is missing: {}", line.trim()))),
        None => Ok(text.lines().filter_map(library_of_line).collect()),
    }
}

/// `NAME => /PATH (0x…)`, or `/PATH (0x…)` for a library without a name.
fn library_of_line(line: &str) -> Option<PathBuf> {
    let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
    let (path, _address) = path.rsplit_once(" (")?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader_are_read() {
        let found = |line| library_of_line(line).map(|path| path.display().to_string());
        assert_eq!(
            found("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)").unwrap(),
            "/lib/x/libc.so.6"
        );
        assert_eq!(found("\t/lib64/ld.so.2 (0x00007f)").unwrap(), "/lib64/ld.so.2");
        assert_eq!(found("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(found("\tstatically linked"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_program_brings_its_loader_its_libraries_and_the_links_to_them() {
        let mut programs = Programs::default();
        programs.add("sh").unwrap();
        let names: Vec<String> = programs
            .files
            .keys()
            .chain(programs.links.keys())
            .map(|path| path.display().to_string())
            .collect();
        for part in ["/sh", "libc.so.6", "/ld-linux-x86-64.so.2"] {
            assert!(names.iter().any(|name| name.ends_with(part)), "{part} in {names:?}");
        }
        for path in programs.files.keys() {
            assert_eq!(path, &path.canonicalize().unwrap(), "files are where they really are");
        }
    }

    #[test]
    fn what_is_known_of_one_program_serves_the_next_and_changes_nothing() {
        let [mut together, mut alone] = [Programs::default(), Programs::default()];
        for name in ["ls", "sh", "mount", "cat"] {
            together.add(name).unwrap();
            let mut single = Programs::default();
            single.add(name).unwrap();
            alone.files.extend(single.files);
            alone.links.extend(single.links);
        }
        assert_eq!(together.files, alone.files);
        assert_eq!(together.links, alone.links);
        let shell = fs::read(find_program(Path::new("sh")).unwrap()).unwrap();
        assert_eq!(libraries_named_in(&shell).unwrap(), ["libc.so.6"]);
        assert_eq!(libraries_named_in(b"#!/bin/sh"), None);
    }

    #[test]
    fn four_interpreters_may_be_scripts_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let script = |number: usize| folder.path().join(number.to_string());
        fs::write(script(0), "#!/bin/sh\n").unwrap();
        for number in 1..=4 {
            fs::write(script(number), format!("#!{}\n", script(number - 1).display())).unwrap();
        }
        // Number 3 has the interpreters 2, 1, 0 and the shell.
        assert!(Programs::default().add_file(&script(3)).is_ok());
        let error = Programs::default().add_file(&script(4)).unwrap_err().to_string();
        assert!(error.contains("chain of interpreters is too long"), "{error}");
    }

    #[test]
    fn a_script_brings_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh -e\ntrue\n").unwrap();
        let mut programs = Programs::default();
        programs.add_file(&script).unwrap();
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert!(programs.known.contains(&shell), "{:?}", programs.known);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Programs::default().add("no-such-program-anywhere").unwrap_err();
        assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
    }

    #[test]
    fn what_is_no_program_is_told_at_every_length() {
        assert!(needs_of_head(b"").is_err());
        assert!(needs_of_head(b"#!sh\n").is_err());
        assert!(needs_of_head(b"\x7fELF").is_err());
        let program = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(matches!(needs_of_head(&program[..65_536]), Ok(ProgramNeeds::Libraries(_))));
        for length in 0..400 {
            assert!(needs_of_head(&program[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_circle_of_scripts_or_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        fs::write(&a, format!("#!{}\n", b.display())).unwrap();
        fs::write(&b, format!("#!{}\n", a.display())).unwrap();
        Programs::default().add_file(&a).unwrap();
        fs::remove_file(&b).unwrap();
        std::os::unix::fs::symlink("a", &b).unwrap();
        fs::remove_file(&a).unwrap();
        std::os::unix::fs::symlink("b", &a).unwrap();
        assert!(Programs::default().add_file(&a).is_err());
    }

    fn kernel_in(tree: &Path, image: &str) -> Kernel {
        let image = tree.join(image);
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(&image, "").unwrap();
        Kernel { release: "6.1.0".to_owned(), image, modules: tree.join("modules") }
    }

    /// A tree whose tools are a copy of this machine's `true`, under another name.
    fn tree_with_tool(name: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("tools/usr/sbin");
        fs::create_dir_all(&folder).unwrap();
        let real = find_program(Path::new("true")).unwrap();
        fs::copy(real, folder.join(name)).unwrap();
        tree
    }

    #[test]
    fn tools_beside_the_kernel_come_first_and_are_where_a_root_directory_has_them() {
        for image in ["boot/vmlinuz-6.1.0", "vmlinuz"] {
            let tree = tree_with_tool("sh");
            let tools = KernelTools::of(&kernel_in(tree.path(), image));
            let mut programs = Programs::with(tools);
            programs.add("sh").unwrap();
            let folder = tree.path().canonicalize().unwrap();
            let own = folder.join("tools/usr/sbin/sh");
            assert_eq!(programs.files.get(Path::new("/usr/sbin/sh")), Some(&own), "{image}");
            assert!(programs.files.keys().all(|path| !path.starts_with(&folder)), "{programs:?}");
            let names = programs.files.keys().chain(programs.links.keys());
            let loader = |path: &&PathBuf| path.ends_with("ld-linux-x86-64.so.2");
            assert!(names.into_iter().any(|path| loader(&path)), "its loader is this machine's");
        }
    }

    #[test]
    fn a_kernel_without_tools_has_this_machines_programs() {
        let tree = tempfile::tempdir().unwrap();
        let tools = KernelTools::of(&kernel_in(tree.path(), "boot/vmlinuz"));
        assert_eq!(tools.find("sh"), None);
        assert!(Programs::with(tools).find(Path::new("sh")).is_some());
    }

    #[test]
    fn libraries_are_looked_for_beside_the_tools_alone() {
        let tree = tree_with_tool("x");
        let libraries = tree.path().join("tools/usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        let tools = KernelTools::of(&kernel_in(tree.path(), "vmlinuz"));
        let found = tools.library_path(&tools.find("x").unwrap()).unwrap();
        let expected = [libraries, tree.path().join("tools/usr/lib")];
        let expected = expected.map(|path| path.canonicalize().unwrap());
        assert_eq!(std::env::split_paths(&found).collect::<Vec<_>>(), expected);
        assert_eq!(tools.library_path(Path::new("/usr/bin/env")), None);
    }
}
