//! `cargo xtask databases`: the writes of real databases to their log files, seen by strace.
//!
//! Prints for each installed database and for 1, 8 and 32 clients the behaviour of its log, as
//! Markdown; with `--write` puts it in docs/method/databases.md, which the profiles cite.
//!
//! strace slows a database down: rates are those of a traced database. Its syncs take the same time
//! as before, so fewer commits may share one than otherwise.

mod evidence;
mod figures;
mod server;
mod table;
mod trace;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::bench::{self, Interrupt};
use crate::cargo;

pub(crate) use self::server::{ScratchDatabase, ServerGroup, version};
pub(crate) use self::table::{DATABASES, Database};

const DOCUMENT: &str = "docs/method/databases.md";

const CLIENTS: [u32; 3] = [1, 8, 32];

/// A requirement is not installed.
const CANNOT: u8 = 3;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Databases {
    /// Traces what the log of a database does while 1, 8 and 32 clients commit: postgresql, mariadb, etcd,
    /// redis, rocksdb, sqlite-wal, sqlite-rollback
    ///
    /// Each runs in a folder of its own, which is removed, on a socket in it or a port of the loopback. As root,
    /// PostgreSQL and MariaDB run as their own users. Exit code 3 if a package is missing.
    Trace(DatabasesArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DatabasesArguments {
    /// Only these; all of them if none is named
    names: Vec<String>,
    /// Transactions of each load
    #[arg(long, value_name = "N", default_value_t = 8000, value_parser = clap::value_parser!(u32).range(32..=1_000_000))]
    transactions: u32,
    /// A folder on a real filesystem, which the databases' users can reach
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    folder: PathBuf,
    /// Writes what is printed into docs/method/databases.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(Databases::Trace(arguments): &Databases) -> Result<ExitCode> {
    let databases = chosen(&arguments.names)?;
    if let Some(code) = cannot(&databases, &[("strace", "strace")]) {
        return Ok(code);
    }
    let filesystem = real_filesystem(&arguments.folder)?;
    let interrupt = Interrupt::watch()?;
    for database in databases {
        eprintln!("{}", database.name);
        let traced = one(database, arguments, &filesystem, &interrupt);
        if interrupt.came() {
            eprintln!("interrupted; the temporary files are removed");
            return Ok(ExitCode::from(bench::INTERRUPTED));
        }
        let text = traced.with_context(|| format!("{} cannot be traced", database.name))?;
        println!("## {}\n\n{text}", database.name);
        if arguments.write {
            write(database, &text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn one(
    database: &Database,
    arguments: &DatabasesArguments,
    filesystem: &str,
    interrupt: &Interrupt,
) -> Result<String> {
    let version = server::version(database)?;
    let scratch = ScratchDatabase::new(database, &arguments.folder, interrupt)?;
    let figures = scratch.figures(&CLIENTS, arguments.transactions)?;
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = date.split('T').next().unwrap_or_default();
    let machine = format!("traced on {date}, {filesystem}, Linux {}", bench::kernel());
    Ok(evidence::section(&version, database.transaction, &machine, &figures))
}

/// The databases of these names; all, if none is named.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Database>> {
    if names.is_empty() {
        return Ok(DATABASES.iter().collect());
    }
    let find = |name: &String| {
        let known =
            || DATABASES.iter().map(|database| database.name).collect::<Vec<_>>().join(", ");
        let found = DATABASES.iter().find(|database| database.name == name);
        found.with_context(|| format!("'{name}' is not known here; these are: {}", known()))
    };
    names.iter().map(find).collect()
}

/// Reports missing packages, of the databases and of `beside`; `None` if all are installed.
pub(crate) fn cannot(databases: &[&Database], beside: &[PackagedProgram]) -> Option<ExitCode> {
    let missing = missing(databases, beside);
    if missing.is_empty() {
        return None;
    }
    let packages = missing.into_iter().collect::<Vec<_>>().join(" ");
    eprintln!(
        "missing: {packages}\nOn Debian: sudo apt-get install --no-install-recommends {packages}; or name the \
         databases that are there"
    );
    Some(ExitCode::from(CANNOT))
}

/// A program and its package.
type PackagedProgram = (&'static str, &'static str);

/// The packages of missing programs.
fn missing(databases: &[&Database], beside: &[PackagedProgram]) -> BTreeSet<&'static str> {
    let path = server::search_path();
    let is_here = |name: &str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let needed = databases.iter().flat_map(|database| database.programs).chain(beside);
    needed.filter(|(program, _)| !is_here(program)).map(|(_, package)| *package).collect()
}

/// The name of a folder's filesystem, which must be one on which syncs have an effect.
pub(crate) fn real_filesystem(folder: &Path) -> Result<String> {
    ensure!(folder.is_dir(), "there is no folder {}", folder.display());
    let name = bench::filesystem(folder);
    let name = name.split_whitespace().next().unwrap_or_default();
    if ["tmpfs", "ramfs", "overlay"].contains(&name) {
        bail!(
            "{} is on {name}: name a folder of a real filesystem with --folder",
            folder.display()
        );
    }
    Ok(name.to_owned())
}

fn write(database: &Database, text: &str) -> Result<()> {
    let path = cargo::workspace_root().join(DOCUMENT);
    let document = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let mark = format!("<!-- cargo xtask databases trace {} -->", database.name);
    let document = bench::replaced(&document, &mark, text)?;
    fs::write(&path, document).with_context(|| format!("cannot write {DOCUMENT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_database_is_named_with_those_that_are_known() {
        let error = chosen(&["oracle".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("'oracle'") && error.contains("sqlite-rollback"), "{error}");
    }

    #[test]
    fn all_missing_packages_are_named_at_once() {
        let database = Database { programs: &[("no-such-program", "its-package")], ..DATABASES[0] };
        let missing = missing(&[&database], &[("neither-this", "another")]);
        assert!(missing.contains("its-package") && missing.contains("another"));
    }

    #[test]
    fn the_page_has_a_place_for_each_database() {
        let page = fs::read_to_string(cargo::workspace_root().join(DOCUMENT)).unwrap();
        for database in &DATABASES {
            let mark = format!("<!-- cargo xtask databases trace {} -->", database.name);
            assert!(bench::replaced(&page, &mark, "new").is_ok(), "{mark}");
        }
    }
}
