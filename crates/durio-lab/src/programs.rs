//! Which files a program needs to run elsewhere.
//!
//! In: a program's name or file. Out: files of this machine, at the paths at which a guest must have
//! them. Not here: packing them.
//!
//! Which libraries a program gets is asked of the loader that the program itself names, for it alone
//! knows all rules; unless all that it names is known already from programs before it. A script gets
//! its interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use durio_block::{ANSWER_LIMIT, ask, open_input, read_bounded};
use durio_units::Bytes;
use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};

use crate::LabError;
use crate::kernel_tools::KernelTools;

/// Interpreters that are scripts again, at most.
const INTERPRETERS_MAX: usize = 4;
const HEAD_BYTES: u64 = 64 * 1024;
/// Far more than any program has.
const PROGRAM_BYTES_MAX: Bytes = Bytes::from_mib(1024);

/// The programs that were collected, and what they need.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// Files of this machine by the paths at which they are needed.
    pub(crate) files: BTreeMap<PathBuf, PathBuf>,
    /// Symbolic links on the way to them, and where they point to.
    pub(crate) links: BTreeMap<PathBuf, PathBuf>,
    /// Those of the kernel, which come before this machine's.
    tools: KernelTools,
    known: BTreeSet<PathBuf>,
    /// Libraries by the names that programs give them, which are here with all that they need.
    libraries: BTreeSet<String>,
}

/// Where a program of this name is: as a path, or on the search path and in the administrators'
/// folders.
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
    fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

impl Programs {
    /// None yet, of this machine and of a kernel.
    pub(crate) fn with(tools: KernelTools) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Where a program is: among the kernel's, else as [`find_program`] finds it.
    pub(crate) fn find(&self, name: &Path) -> Option<PathBuf> {
        let is_name = !name.as_os_str().as_bytes().contains(&b'/');
        let own = name.to_str().filter(|_| is_name).and_then(|name| self.tools.find(name));
        own.or_else(|| find_program(name))
    }

    /// True for a file of the kernel's tools.
    pub(crate) fn is_of_kernel(&self, file: &Path) -> bool {
        self.tools.has(file)
    }

    /// Adds a program by its name or path, with all that it needs.
    ///
    /// # Errors
    /// [`LabError::MissingTool`], [`LabError::BadTool`], [`LabError::Io`].
    pub(crate) fn add(&mut self, name: &str) -> Result<(), LabError> {
        let missing = || LabError::MissingTool { name: name.to_owned() };
        let path = self.find(Path::new(name)).ok_or_else(missing)?;
        let path = std::path::absolute(&path).map_err(|error| LabError::reading(&path, error))?;
        self.add_file(&path)
    }

    /// Adds a program's file, with all that it needs, at the path that it has here.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn add_file(&mut self, path: &Path) -> Result<(), LabError> {
        let mut next = path.to_owned();
        for _ in 0..=INTERPRETERS_MAX {
            self.add_path(&next)?;
            let real = next.canonicalize().map_err(|error| LabError::reading(&next, error))?;
            if !self.known.insert(real) {
                return Ok(());
            }
            match needs_of(&next)? {
                Needs::Nothing => return Ok(()),
                Needs::Libraries(interpreter) => return self.add_libraries(&next, &interpreter),
                Needs::Interpreter(interpreter) => next = interpreter,
            }
        }
        let why = "its interpreters are scripts without end".to_owned();
        Err(LabError::BadTool { path: path.to_owned(), why })
    }

    fn add_libraries(&mut self, program: &Path, loader: &Path) -> Result<(), LabError> {
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
    fn knows_libraries_of(&self, program: &Path) -> Result<bool, LabError> {
        let read = open_input(program).and_then(|file| read_bounded(file, PROGRAM_BYTES_MAX));
        let bytes = read.map_err(|error| LabError::reading(program, error))?;
        let named = libraries_named_in(&bytes);
        Ok(named.is_some_and(|names| names.iter().all(|name| self.libraries.contains(name))))
    }

    /// Adds a file under its name: the links that lead there, and the file where it really is.
    fn add_path(&mut self, path: &Path) -> Result<(), LabError> {
        let fail = |error| LabError::reading(path, error);
        let mut path = path.to_owned();
        loop {
            let folder = path.parent().unwrap_or(Path::new("/")).canonicalize().map_err(fail)?;
            let here = folder.join(path.file_name().unwrap_or_default());
            match fs::read_link(&here) {
                Ok(target) => {
                    path = folder.join(&target);
                    // A circle of links ends here; what is missing is seen by the canonical path.
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

/// What a file needs to be run.
#[derive(Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Libraries(PathBuf),
    Interpreter(PathBuf),
}

fn needs_of(path: &Path) -> Result<Needs, LabError> {
    let mut head = Vec::new();
    let read = open_input(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|error| LabError::reading(path, error))?;
    needs_of_head(&head)
        .map_err(|why| LabError::BadTool { path: path.to_owned(), why: why.to_owned() })
}

fn needs_of_head(head: &[u8]) -> Result<Needs, &'static str> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let word = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        let interpreter = PathBuf::from(OsStr::from_bytes(word));
        return match interpreter.is_absolute() {
            true => Ok(Needs::Interpreter(interpreter)),
            false => Err("its interpreter has no absolute path"),
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return Err("it is neither a program of ELF form nor a script");
    }
    let wrong = |_| "it is no program for 64-bit x86";
    let header = FileHeader64::<LittleEndian>::parse(head).map_err(wrong)?;
    if header.e_machine(LittleEndian) != object::elf::EM_X86_64 {
        return Err("it is no program for 64-bit x86");
    }
    let programs = header.program_headers(LittleEndian, head).map_err(|_| "it is cut off")?;
    let interpreter = programs.iter().find(|it| it.p_type(LittleEndian) == PT_INTERP);
    let Some(interpreter) = interpreter else { return Ok(Needs::Nothing) };
    let bytes = interpreter.data(LittleEndian, head).map_err(|()| "it is cut off")?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Needs::Libraries(PathBuf::from(std::ffi::OsStr::from_bytes(name))))
}

/// The names of libraries in a program; none if it also says where they are, or cannot be read.
fn libraries_named_in(program: &[u8]) -> Option<Vec<String>> {
    let file: ElfFile64<LittleEndian> = ElfFile64::parse(program).ok()?;
    let table = file.elf_section_table().dynamic_table(LittleEndian, program).ok()?;
    let mut names = Vec::new();
    for entry in table.iter() {
        if entry.tag == DT_RPATH || entry.tag == DT_RUNPATH {
            return None;
        }
        if entry.tag == DT_NEEDED {
            names.push(String::from_utf8_lossy(table.string(entry).ok()?).into_owned());
        }
    }
    Some(names)
}

/// Asks the loader which files it would load; it looks first in the folders that are named.
fn libraries_of(
    program: &Path,
    loader: &Path,
    first: Option<&OsStr>,
) -> Result<Vec<PathBuf>, LabError> {
    let bad = |why: String| LabError::BadTool { path: program.to_owned(), why };
    let mut command = Command::new(loader);
    // What the user preloads here is no need of the program.
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

/// `NAME => /PATH (0x…)`, or `/PATH (0x…)` for what has no name of its own.
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
            .map(|it| it.display().to_string())
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
        assert!(matches!(needs_of_head(&program[..65_536]), Ok(Needs::Libraries(_))));
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
}
