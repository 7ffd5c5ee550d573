//! `cargo xtask lab`: files that the lab boots and that are not part of the checkout.
//!
//! Gets Debian's packages from the mirror that apt is set up for; puts kernels into the folder
//! where durio looks for them, and drivers built for them. Installs nothing; `durio lab` boots.

mod debian;
mod kernel;
mod zfs;

use std::process::ExitCode;

use anyhow::Result;

pub(crate) use kernel::provide_kernel;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Lab {
    /// Fetches a kernel package and unpacks it into ~/.cache/durio/kernels
    ///
    /// Package lists are fetched into ~/.cache/durio/apt: nothing of the system changes. A package that
    /// only names others is followed to the kernel's image, and to its modules where they are apart.
    Kernel {
        /// The package
        #[arg(default_value = kernel::DEFAULT_PACKAGE)]
        package: String,
        /// The suite it is taken from, such as trixie-backports or sid [default: the backports of this
        /// release, then what apt is set up for]
        #[arg(long)]
        suite: Option<String>,
    },
    /// Builds OpenZFS for such a kernel, with its programs; about 10 minutes of two processors
    ///
    /// Headers, sources and programs are Debian's packages (zfs is in the component contrib), fetched
    /// and unpacked, not installed. What is there already stays as it is.
    Zfs {
        /// The kernel's release or folder below ~/.cache/durio/kernels [default: the newest]
        kernel: Option<String>,
    },
}

pub(crate) fn run(command: &Lab) -> Result<ExitCode> {
    match command {
        Lab::Kernel { package, suite } => kernel::fetch(package, suite.as_deref())?,
        Lab::Zfs { kernel } => zfs::provide(kernel.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}
