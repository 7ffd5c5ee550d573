//! Names of the kernel's functions by their addresses: `/proc/kallsyms`.
//!
//! Stacks and functions of workers are addresses in a ring buffer. Lines of the file:
//!
//! ```text
//! ffffffff817aca25 t ext4_sync_file [ext4]
//! ```

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::plain_name;

/// Bytes of the whole table. A kernel of a distribution with its modules takes about half of it.
const TABLE_MAX: usize = 8 << 20;

/// No function of the kernel is larger: an address farther behind one is not in it.
const FUNCTION_MAX: u64 = 1 << 20;

/// The functions of a kernel. Empty if it hides their addresses (`kernel.kptr_restrict`).
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Where each begins, in the order of addresses, and the place of its name.
    functions: Vec<(u64, u32)>,
    /// Names, each with a newline at its end.
    names: String,
}

impl KernelSymbols {
    /// Reads the functions of the system whose root is `root`.
    pub fn read(root: &Path) -> Self {
        let file = File::open(root.join("proc/kallsyms"));
        file.map_or_else(|_| Self::default(), |file| Self::parse(BufReader::new(file)))
    }

    pub(super) fn parse(text: impl BufRead) -> Self {
        let mut symbols = Self::default();
        for line in text.lines().map_while(Result::ok) {
            let Some((address, name)) = function(&line) else { continue };
            let Ok(place) = u32::try_from(symbols.names.len()) else { return Self::default() };
            symbols.functions.push((address, place));
            symbols.names.push_str(name);
            symbols.names.push('\n');
            if symbols.bytes() > TABLE_MAX {
                // A part of the table would name functions that are not in it by their neighbours.
                return Self::default();
            }
        }
        // The kernel prints the first of several names for one place.
        symbols.functions.sort_by_key(|(address, _)| *address);
        symbols.functions.dedup_by_key(|(address, _)| *address);
        symbols.functions.shrink_to_fit();
        symbols.names.shrink_to_fit();
        symbols
    }

    fn bytes(&self) -> usize {
        self.functions.len() * size_of::<(u64, u32)>() + self.names.len()
    }

    /// True if no address has a name.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function in which this address lies, without the suffix of a compiler; the address itself
    /// if that is not known.
    pub fn name(&self, address: u64) -> String {
        let behind = self.functions.partition_point(|(begin, _)| *begin <= address);
        let known = behind.checked_sub(1).and_then(|at| self.functions.get(at));
        let near = known.filter(|(begin, _)| address - begin < FUNCTION_MAX);
        let name = near.and_then(|(_, place)| {
            self.names.get(usize::try_from(*place).ok()?..)?.split('\n').next()
        });
        name.map_or_else(|| format!("{address:#x}"), str::to_owned)
    }
}

/// Address and name of a line, if it is of a function whose address is shown.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address > 0)?;
    let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?;
    // Space in front of a function, where nothing runs.
    (is_function && !name.starts_with("__pfx_")).then(|| (address, plain_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81002000 t __pfx_ext4_sync_file
ffffffff81002010 t ext4_sync_file
ffffffff81001000 t do_one.isra.0
ffffffff81003000 D jiffies
ffffffffc0200000 t xfs_file_fsync\t[xfs]
not a line
ffffffffc0200100 t
zz t odd
";

    fn symbols(text: &str) -> KernelSymbols {
        KernelSymbols::parse(text.as_bytes())
    }

    #[test]
    fn an_address_is_named_by_the_function_before_it() {
        let symbols = symbols(LINES);
        let names = [
            (0xffff_ffff_8100_0000, "_stext"),
            (0xffff_ffff_8100_0fff, "_stext"),
            (0xffff_ffff_8100_1000, "do_one"),
            (0xffff_ffff_8100_200f, "do_one"),
            (0xffff_ffff_8100_2010, "ext4_sync_file"),
            (0xffff_ffff_8100_3000, "ext4_sync_file"),
            (0xffff_ffff_c020_0000, "xfs_file_fsync"),
        ];
        for (address, name) in names {
            assert_eq!(symbols.name(address), name, "{address:#x}");
        }
        assert!(!symbols.is_empty());
    }

    #[test]
    fn an_address_outside_of_all_functions_names_itself() {
        let symbols = symbols(LINES);
        assert_eq!(symbols.name(0xffff_ffff_80ff_ffff), "0xffffffff80ffffff");
        assert_eq!(symbols.name(0), "0x0");
        // 1 MiB behind the begin of a function.
        assert_eq!(symbols.name(0xffff_ffff_c02f_ffff), "xfs_file_fsync");
        assert_eq!(symbols.name(0xffff_ffff_c030_0000), "0xffffffffc0300000");
        assert_eq!(symbols.name(u64::MAX), "0xffffffffffffffff");
    }

    #[test]
    fn hidden_addresses_leave_no_names() {
        let symbols = symbols("0000000000000000 T _stext\n0000000000000000 t ext4_sync_file\n");
        assert!(symbols.is_empty());
        assert_eq!(symbols.name(0x1000), "0x1000");
        assert!(KernelSymbols::read(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_table_of_more_than_8_mib_is_not_kept() {
        // 16 bytes of a place, and 16 of a name with its end.
        let line = |number: u64| format!("{:016x} t function_{number:06}\n", number + 1);
        let text = |lines: u64| (0..lines).map(line).collect::<String>();
        let most = symbols(&text(262_144));
        assert_eq!((most.bytes(), most.name(1)), (8_388_608, "function_000000".to_owned()));
        assert!(symbols(&text(262_145)).is_empty());
    }
}
