//! What a module says of itself: the section `.modinfo`, `KEY=VALUE` with zero bytes between.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

/// The part of it that bears on loading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModuleInfo {
    /// The kernel that it was built for: the first word of `vermagic`.
    pub(crate) release: String,
    /// Modules whose symbols it uses.
    pub(crate) depends: Vec<String>,
    /// Modules or aliases that should be loaded before it, or after it.
    pub(crate) soft: Vec<String>,
    /// The text of its soft dependencies, as they are written in `modules.softdep`.
    pub(crate) soft_texts: Vec<String>,
    /// Other names by which it is asked for.
    pub(crate) aliases: Vec<String>,
}

/// Reads the section; an error says in words what is wrong.
pub(super) fn module_info(module: &[u8]) -> Result<ModuleInfo, &'static str> {
    let file: ElfFile64 = ElfFile64::parse(module).map_err(|_| "it is no 64-bit ELF file")?;
    let section = file.section_by_name(".modinfo").ok_or("it has no section .modinfo")?;
    Ok(parse(section.data().map_err(|_| "it is cut off")?))
}

fn parse(section: &[u8]) -> ModuleInfo {
    let mut info = ModuleInfo::default();
    for entry in section.split(|byte| *byte == 0) {
        let Ok(entry) = std::str::from_utf8(entry) else { continue };
        match entry.split_once('=') {
            Some(("depends", names)) => info.depends.extend(names_in(names, ',')),
            Some(("softdep", text)) => add_soft(&mut info, text),
            Some(("alias", alias)) => info.aliases.push(alias.to_owned()),
            Some(("vermagic", text)) => {
                info.release = text.split(' ').next().unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }
    info
}

fn add_soft(info: &mut ModuleInfo, text: &str) {
    let names = names_in(text, ' ').filter(|name| name != "pre:" && name != "post:");
    info.soft.extend(names);
    info.soft_texts.push(text.trim().to_owned());
}

fn names_in(text: &str, separator: char) -> impl Iterator<Item = String> {
    text.split(separator).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_aliases_and_release_are_read() {
        let info = parse(
            b"license=GPL\0depends=raid6_pq,xor,\0softdep=pre: crc32c  post: x\0alias=fs-btrfs\0\
              alias=devname:btrfs-control\0vermagic=6.1.0-56-amd64 SMP mod_unload \0",
        );
        assert_eq!(info.depends, ["raid6_pq", "xor"]);
        assert_eq!(info.soft, ["crc32c", "x"]);
        assert_eq!(info.soft_texts, ["pre: crc32c  post: x"]);
        assert_eq!(info.aliases, ["fs-btrfs", "devname:btrfs-control"]);
        assert_eq!(info.release, "6.1.0-56-amd64");
    }

    #[test]
    fn a_module_that_needs_nothing_needs_nothing() {
        assert_eq!(parse(b"depends=\0"), ModuleInfo::default());
        assert_eq!(parse(b"garbage\0=\0\xff\xfe"), ModuleInfo::default());
    }

    #[test]
    fn what_is_no_module_is_told() {
        assert_eq!(module_info(b"").unwrap_err(), "it is no 64-bit ELF file");
        assert_eq!(module_info(&[0xff; 512]).unwrap_err(), "it is no 64-bit ELF file");
        let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(module_info(&this_program).unwrap_err(), "it has no section .modinfo");
        for length in [16, 64, 200, 4096] {
            assert!(module_info(&this_program[..length]).is_err());
        }
    }
}
