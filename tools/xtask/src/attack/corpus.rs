//! Good inputs: those of the checkout, and records that durio itself makes at the start.
//!
//! Takes texts and folders from the checkout, and records from durio, by kind.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::arena::{Arena, AttackCase};
use super::witness::entries;
use crate::cargo;

/// A folder: paths in it, and the files' contents.
pub(super) type FolderFiles = Vec<(PathBuf, Vec<u8>)>;

/// Good inputs, each kind non-empty except for benches, which only root can make.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) specs: Vec<Vec<u8>>,
    pub(super) stack_specs: Vec<Vec<u8>>,
    pub(super) profiles: Vec<Vec<u8>>,
    pub(super) job_files: Vec<Vec<u8>>,
    pub(super) fio_json: Vec<Vec<u8>>,
    pub(super) tables: Vec<Vec<u8>>,
    pub(super) runs: Vec<FolderFiles>,
    pub(super) benches: Vec<FolderFiles>,
}

/// A campaign of a few short steps.
pub(super) const CAMPAIGN: &str = r#"schema = 1
name = "small"
summary = "a campaign for attacks"
self_cost = false
[[target]]
name = "data"
size = "4MiB"
[defaults]
duration = "100ms"
[[step]]
name = "read"
reads = "100%"
[[step]]
name = "commit"
reads = "0%"
sync = "fdatasync"
jobs = [1, 2]
"#;

/// A published table with typical defects.
const TABLE: &str = "\
workload,block size,iops,bandwidth,p50,p99,jobs,depth,sync\n\
commit,8KiB,12000,96 MB/s,80us,200us,1,1,fdatasync\n\
lookup,8KiB,450000,3.6 GB/s,60us,0.2ms,8,4,\n\
scan,256KiB,11000,2.8 GB/s,2ms,9ms,2,16,\n";

impl Corpus {
    pub(super) fn make(arena: &Arena) -> Result<Self> {
        let root = cargo::workspace_root();
        let files = |folder: &str, ending: &str| -> Result<Vec<Vec<u8>>> {
            let found = read(&root.join(folder), ending)?;
            ensure!(!found.is_empty(), "no *.{ending} in {folder}");
            Ok(found)
        };
        // A mutation of a good input gets further into a reader than random bytes.
        let mut specs = files("crates/measure/spec/specs", "toml")?;
        specs.push(CAMPAIGN.into());
        let golden = root.join("crates/core/record/tests/golden");
        let mut corpus = Self {
            specs,
            stack_specs: files("crates/measure/spec/specs/stacks", "toml")?,
            profiles: files("crates/measure/spec/profiles", "toml")?,
            job_files: files("crates/durio/tests/fio", "fio")?,
            fio_json: files("crates/measure/fio/tests/fixtures", "json")?,
            tables: vec![TABLE.into()],
            runs: vec![folder(&golden.join("v1"))?, folder(&golden.join("v2"))?],
            benches: vec![folder(&golden.join("bench1"))?],
        };
        corpus.add_records(arena).context("cannot make records to begin with")?;
        Ok(corpus)
    }

    fn add_records(&mut self, arena: &Arena) -> Result<()> {
        let case = arena.clean_case()?;
        fs::write(case.path("small.toml"), CAMPAIGN)?;
        let commands = [
            "run --engine null --ops 500",
            "run --target data --size 1MiB --rw randrw --ops 300 --depth 4 --engine uring",
            "run small.toml --target data --scale-time 0.5",
            "check data --size 4MiB --duration 100ms",
            "sweep --engine null --goal p99=2ms --from 100 --duration 100ms --trials 3",
        ];
        for (number, command) in commands.iter().enumerate() {
            let out = case.path(&format!("out{number}"));
            let tail = "--quiet --seed 1 --format fio-json --out";
            let launch = case.durio(&format!("{command} {tail}")).word(&out);
            let ended = launch.limit(Duration::from_secs(120)).run()?;
            // A search that did not reach its goal ends with 1.
            ensure!(ended.code() < 2, "{command}: {}", ended.stderr_text());
            self.fio_json.push(ended.stdout);
            let run = the_only(&out)?;
            let table = case.durio("report --format csv").word(&run).run()?;
            self.tables.push(table.stdout);
            self.runs.push(folder(&run)?);
        }
        if arena.is_root() {
            self.benches.push(folder(&bench(&case)?)?);
        }
        Ok(())
    }
}

/// Two layers, measured for a moment each.
pub(super) fn stack_spec(case: &AttackCase, duration: &str) -> String {
    let folder = case.path("data");
    let folder = folder.display();
    format!(
        "schema = 1\nname = \"small\"\nself_cost = false\n[target]\nsize = \"2MiB\"\n\
         [[stack]]\nname = \"first\"\nlayers = [\n\
         {{ loop = {{ size = \"16MiB\", directory = \"{folder}\" }} }},\n{{ ext4 = {{}} }},\n]\n\
         [defaults]\nduration = \"{duration}\"\n[[step]]\nname = \"write\"\nreads = \"0%\"\n"
    )
}

fn bench(case: &AttackCase) -> Result<PathBuf> {
    fs::write(case.path("stack.toml"), stack_spec(case, "100ms"))?;
    let launch = case.durio("stack bench --quiet --seed 1 stack.toml --out bench");
    let ended = launch.limit(Duration::from_secs(120)).run()?;
    ensure!(ended.code() == 0, "stack bench: {}", ended.stderr_text());
    the_only(&case.path("bench"))
}

fn the_only(folder: &Path) -> Result<PathBuf> {
    entries(folder).pop().with_context(|| format!("nothing in {}", folder.display()))
}

/// Files of a folder with an ending, in the order of their names.
fn read(folder: &Path, ending: &str) -> Result<Vec<Vec<u8>>> {
    let mut paths = entries(folder);
    paths.retain(|path| path.extension() == Some(OsStr::new(ending)));
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| path.display().to_string())).collect()
}

/// All files of a folder and its folders, in the order of their names.
fn folder(root: &Path) -> Result<FolderFiles> {
    let (mut files, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(entries(&path));
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.push((name, fs::read(&path).with_context(|| path.display().to_string())?));
        }
    }
    ensure!(!files.is_empty(), "{} is empty", root.display());
    files.sort();
    Ok(files)
}

/// Writes a folder's files.
pub(super) fn write(files: &FolderFiles, root: &Path) -> Result<()> {
    for (name, bytes) in files {
        let path = root.join(name);
        let parent = path.parent().unwrap_or(root);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
