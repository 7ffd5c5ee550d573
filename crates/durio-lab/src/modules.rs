//! The modules of a kernel: which there are, which a set of them needs, and the indexes by which a
//! guest's modprobe finds them.
//!
//! In: the folder `lib/modules/RELEASE` as a package has it, with or without depmod's files. Out:
//! unpacked modules in the order in which they can be loaded. Not here: loading them.
//!
//! What a module needs is read from the module itself (its section `.modinfo`), so that a kernel
//! package that was only unpacked works as one that is installed.

mod closure;
mod index_file;
mod modinfo;
mod tree;

pub(crate) use closure::{Module, closure};
pub(crate) use index_file::index_files;
pub(crate) use tree::ModuleTree;
