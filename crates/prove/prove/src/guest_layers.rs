//! The layers on the disks of a guest under proof: a filesystem, an array, or none. They are made,
//! attached after a boot, and detached. The words of mkfs, mount and mdadm are those of stacks
//! (durio-layers). No journal is kept: the machine and its disks go with the proof.
//!
//! An array of durio's engine is served by a separate process, started by this program's commands; only the
//! proof's end or the power ends it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use durio_base::RaidLevel;
use durio_block::ask;
use durio_command::{CommandError, CommandErrorKind, error_chain, own_program};
use durio_layers::{
    Action, Btrfs, BtrfsProfile, BuildPlace, DeclaredKind, DeclaredLayer, DeclaredMd,
    DeclaredStack, Device, Ext4, MadeFilesystem, MdBitmap, NamedNeeds, Xfs, commands,
};
use durio_plan::proof::{GuestArrayKind, GuestFilesystem, GuestLayers};

use crate::wire::AgentSays;

/// The kernel's part of durio's block device.
const UBLK: &str = "ublk_drv";
/// Part of all names in every guest: a guest has one proof.
const ID: &str = "proof00";
/// How long a command may take: half of what a boot may. An emulated guest on a busy machine is slow.
const COMMAND_MAX: Duration = Duration::from_secs(300);
/// The server's control socket, and the file with its output.
const SOCKET: &str = "/tmp/proof-raid";
const SAID: &str = "/tmp/proof-raid.said";
/// How often the output is read.
const LOOK: Duration = Duration::from_millis(20);
/// The server's line with its address starts with this.
const READY: &str = "ready: ";

/// Programs and drivers for all of these layers.
pub(crate) fn needs(layers: impl Iterator<Item = GuestLayers>) -> NamedNeeds {
    let layers: Vec<GuestLayers> = layers.collect();
    let mut needs = NamedNeeds::of_stacks(
        &layers.iter().map(|layers| stack(kinds(*layers))).collect::<Vec<_>>(),
    );
    if layers.iter().any(|layers| layers.durio_level().is_some()) {
        needs.modules.push(UBLK.to_owned());
    }
    needs
}

fn stack(kinds: Vec<DeclaredKind>) -> DeclaredStack {
    let layer = |kind| DeclaredLayer { kind, groups: 1, measured: true };
    DeclaredStack { name: String::new(), layers: kinds.into_iter().map(layer).collect() }
}

/// The layers of a stack, from below; durio's array is not one of them.
fn kinds(layers: GuestLayers) -> Vec<DeclaredKind> {
    let md = md_level(layers).map(|level| DeclaredKind::Md(md(level.number())));
    let filesystem = layers.filesystem.map(|filesystem| match filesystem {
        // Blocks of a cell's size, which a filesystem this small has not by itself.
        GuestFilesystem::Ext4 => DeclaredKind::Ext4(Ext4 {
            options: MadeFilesystem { mkfs: vec!["-b".into(), "4096".into()], mount: Vec::new() },
        }),
        GuestFilesystem::Xfs => DeclaredKind::Xfs(Xfs::default()),
        GuestFilesystem::Btrfs => DeclaredKind::Btrfs(Btrfs {
            profile: BtrfsProfile::Single,
            options: MadeFilesystem::default(),
        }),
    });
    md.into_iter().chain(filesystem).collect()
}

fn md_level(layers: GuestLayers) -> Option<RaidLevel> {
    layers.array.filter(|array| array.kind == GuestArrayKind::Md).map(|array| array.level)
}

/// As mdadm makes a small one: without a bitmap, so that all of it is synced after a cut.
const fn md(level: u8) -> DeclaredMd {
    DeclaredMd {
        level,
        layout: None,
        chunk: None,
        bitmap: MdBitmap::None,
        bitmap_chunk: None,
        ppl: false,
        journal: false,
        initial_sync: false,
        removed: 0,
        degraded: false,
    }
}

/// Layers on disks of the guest in which this runs.
pub(crate) struct GuestStack<'a> {
    pub(crate) layers: GuestLayers,
    pub(crate) disks: &'a [PathBuf],
}

impl GuestStack<'_> {
    /// Makes the layers on empty disks, and returns the path to write to: a device, or a file that
    /// does not exist yet.
    pub(crate) fn make(&self) -> Result<PathBuf, CommandError> {
        if let Some(level) = self.layers.durio_level() {
            create_array(level, self.disks)?;
            let disks = [self.start_array()?];
            return GuestStack { disks: &disks, ..self.above_durio() }.make();
        }
        self.actions()?.iter().try_for_each(carry_out)?;
        self.target()
    }

    /// Makes them be there after a boot.
    pub(crate) fn attach(&self) -> Result<PathBuf, CommandError> {
        if self.layers.durio_level().is_some() {
            let disks = [self.start_array()?];
            return GuestStack { disks: &disks, ..self.above_durio() }.attach();
        }
        let actions = self.actions()?;
        let (mounts, others): (Vec<_>, Vec<_>) =
            actions.iter().filter(|action| !is_making(action)).partition(|action| is_mount(action));
        others.into_iter().try_for_each(carry_out)?;
        if md_level(self.layers).is_some() {
            // Also where a member is missing or was kicked out: what then can be read is the finding.
            let words = ["--assemble", "--run", "--quiet", &array()].map(String::from);
            run("mdadm", &words.into_iter().chain(self.disk_words()).collect::<Vec<_>>())?;
        }
        mounts.into_iter().try_for_each(carry_out)?;
        self.target()
    }

    /// Detaches in order: cached data is then on the disks, if those keep their word.
    pub(crate) fn detach(&self) -> Result<(), CommandError> {
        if self.layers.filesystem.is_some() {
            unmount(&mount_point())?;
        }
        match self.layers.array.map(|array| array.kind) {
            None => Ok(()),
            Some(GuestArrayKind::Md) => run("mdadm", &["--stop".into(), "--quiet".into(), array()]),
            Some(GuestArrayKind::Durio) => {
                run(own_program()?, &["raid", "stop", "--socket", SOCKET].map(String::from))
            }
        }
    }

    /// The layers on a durio array, which is one disk to them.
    const fn above_durio(&self) -> Self {
        Self { layers: GuestLayers { array: None, ..self.layers }, disks: &[] }
    }

    /// An array of durio that was created on the disks; returns its block device.
    fn start_array(&self) -> Result<PathBuf, CommandError> {
        run("modprobe", &[UBLK.to_owned()])?;
        serve_array(self.disks, COMMAND_MAX)
    }

    fn target(&self) -> Result<PathBuf, CommandError> {
        if self.layers.filesystem.is_some() {
            return Ok(mount_point().join("proof"));
        }
        match md_level(self.layers) {
            Some(_) => Ok(PathBuf::from(array())),
            None => {
                let no_disk = || CommandError::cannot_measure("the guest has no disk");
                self.disks.first().cloned().ok_or_else(no_disk)
            }
        }
    }

    fn disk_words(&self) -> impl Iterator<Item = String> {
        self.disks.iter().map(|disk| disk.display().to_string())
    }

    /// All that makes them, above the disks.
    fn actions(&self) -> Result<Vec<Action>, CommandError> {
        let disks = DeclaredKind::Device(Device { paths: self.disk_words().collect() });
        let layers = std::iter::once(disks).chain(kinds(self.layers)).collect();
        let steps = commands(&stack(layers), &place()).map_err(CommandError::cannot)?;
        let above = steps.into_iter().filter(|step| step.layer > 0);
        Ok(above.map(|step| step.action).collect())
    }
}

/// Makes the filesystem alone.
pub(crate) fn make_filesystem(layers: GuestLayers, disk: &Path) -> Result<(), CommandError> {
    let stack = GuestStack { layers, disks: &[disk.to_owned()] };
    stack.actions()?.iter().filter(|action| is_making(action)).try_for_each(carry_out)
}

/// Mounts the filesystem of these layers at a folder, which is made if need be.
pub(crate) fn mount(layers: GuestLayers, disk: &Path, place: &Path) -> Result<(), CommandError> {
    let filesystem =
        layers.filesystem.ok_or_else(|| CommandError::cannot_measure("no filesystem"))?;
    fs::create_dir_all(place).map_err(|error| CommandError::io("make the folder", place, error))?;
    let words = ["-t", filesystem.word()].map(String::from).into_iter();
    run(
        "mount",
        &words.chain([disk, place].map(|path| path.display().to_string())).collect::<Vec<_>>(),
    )
}

/// The report on layers that are missing after a cut: they existed before it, so they are lost. A
/// time limit alone decides nothing: the machine may be slow.
pub(crate) fn not_attached(error: &CommandError) -> AgentSays {
    let reason = error_chain(error);
    match error.kind {
        CommandErrorKind::TimeLimit => AgentSays::Failed { reason },
        _ => AgentSays::Gone { reason },
    }
}

/// Takes it off again.
pub(crate) fn unmount(place: &Path) -> Result<(), CommandError> {
    run("umount", &[place.display().to_string()])
}

fn is_making(action: &Action) -> bool {
    matches!(action, Action::Run { .. }) && !is_mount(action)
}

fn is_mount(action: &Action) -> bool {
    matches!(action, Action::Run { program, .. } if program == "mount")
}

fn place() -> BuildPlace {
    BuildPlace::with_id(ID, Path::new("/tmp"))
}

fn mount_point() -> PathBuf {
    place().mounts.join(place().tag())
}

/// The array's device: of layer 1, its first group.
fn array() -> String {
    format!("/dev/md/{}-1-0", place().tag())
}

fn carry_out(action: &Action) -> Result<(), CommandError> {
    match action {
        Action::Run { program, arguments, .. } => run(program, arguments),
        Action::Load { module, arguments } => {
            let words: Vec<String> = std::iter::once(module).chain(arguments).cloned().collect();
            run("modprobe", &words)
        }
        Action::MakeDirectory { path } => fs::create_dir_all(path)
            .map_err(|error| CommandError::io("make the folder", Path::new(path), error)),
        // The command that follows, or the opening of the target, checks this anyway.
        Action::Check(_) => Ok(()),
        Action::Serve { .. }
        | Action::MountConfigfs
        | Action::Write { .. }
        | Action::MakeFile { .. } => Err(CommandError::cannot_measure(format!(
            "unknown action '{action}' in a proof's guest"
        ))),
    }
}

fn run(program: impl AsRef<Path>, arguments: &[String]) -> Result<(), CommandError> {
    let program = program.as_ref();
    let failed = |kind, why: &str| CommandError::new(kind, format!("{}: {why}", program.display()));
    let answer = ask(Command::new(program).args(arguments), COMMAND_MAX).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::TimedOut => CommandErrorKind::TimeLimit,
            _ => CommandErrorKind::CannotMeasure,
        };
        failed(kind, &error.to_string())
    })?;
    match answer.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&answer.stderr);
            Err(failed(CommandErrorKind::CannotMeasure, why.trim()))
        }
    }
}

/// Writes a new array to empty disks.
fn create_array(level: RaidLevel, disks: &[PathBuf]) -> Result<(), CommandError> {
    let level = level.number().to_string();
    let words = ["raid", "create", "proof", "--level", &level, "--assume-clean"].map(String::from);
    let named = disks.iter().map(|disk| disk.display().to_string());
    let permits = named.clone().flat_map(|disk| ["--destroy".to_owned(), disk]);
    run(own_program()?, &words.into_iter().chain(permits).chain(named).collect::<Vec<_>>())
}

/// Serves the array of these disks, and says where, when it does.
fn serve_array(disks: &[PathBuf], within: Duration) -> Result<PathBuf, CommandError> {
    let said = Path::new(SAID);
    let file = || File::create(said).map_err(|error| CommandError::io("make", said, error));
    let mut command = Command::new(own_program()?);
    command.args(["raid", "start", "--front", "ublk", "--socket", SOCKET]).args(disks);
    let both = file()?;
    let errors = both.try_clone().map_err(|error| CommandError::io("share", said, error))?;
    let mut server =
        command.stdin(Stdio::null()).stdout(both).stderr(errors).spawn().map_err(|error| {
            CommandError::cannot_measure(format!("cannot start durio raid: {error}"))
        })?;
    let begin = Instant::now();
    loop {
        // Whether it has ended is asked first, so that all of its output is there.
        let has_ended = server.try_wait().ok().flatten().is_some();
        let text = fs::read_to_string(said).unwrap_or_default();
        let whole = text.lines().filter(|line| text.contains(&format!("{line}\n")));
        if let Some(device) = whole.filter_map(|line| line.strip_prefix(READY)).next() {
            return Ok(PathBuf::from(device));
        }
        let why = || format!("durio raid start: {}", text.trim());
        if has_ended {
            return Err(CommandError::cannot_measure(why()));
        }
        if begin.elapsed() > within {
            return Err(CommandError::new(CommandErrorKind::TimeLimit, why()));
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_take_too_long_to_attach_are_not_taken_for_lost() {
        let too_long = CommandError::new(CommandErrorKind::TimeLimit, "mount: it did not end");
        assert!(matches!(not_attached(&too_long), AgentSays::Failed { .. }));
        let refused = CommandError::cannot_measure("mount: wrong fs type");
        assert!(matches!(not_attached(&refused), AgentSays::Gone { .. }));
    }

    fn words(layers: GuestLayers) -> Vec<String> {
        let disks: Vec<PathBuf> =
            (0..layers.disks()).map(|number| format!("/dev/disk/by-id/{number}").into()).collect();
        let stack = GuestStack { layers, disks: &disks };
        let shown = stack.actions().unwrap().iter().map(ToString::to_string).collect();
        assert!(stack.target().is_ok());
        shown
    }

    #[test]
    fn an_array_is_made_of_all_disks_where_it_is_looked_for() {
        for (layers, level) in [
            (GuestLayers::md(RaidLevel::Raid1), 1),
            (GuestLayers::md(RaidLevel::Raid5), 5),
            (GuestLayers::md(RaidLevel::Raid10), 10),
        ] {
            let words = words(layers);
            let create = words.iter().find(|word| word.starts_with("mdadm --create")).unwrap();
            assert!(create.contains(&format!("--create {} ", array())), "{create}");
            let last = format!("/dev/disk/by-id/{}", layers.disks() - 1);
            assert!(create.contains(&format!("--level={level} ")) && create.ends_with(&last));
        }
    }

    #[test]
    fn a_filesystem_is_made_on_the_disk_and_mounted_where_it_is_looked_for() {
        for layers in [GuestLayers::EXT4, GuestLayers::XFS, GuestLayers::BTRFS] {
            let words = words(layers);
            let name = layers.to_string();
            assert!(words[0].starts_with(&format!("mkfs.{name} ")), "{words:?}");
            let mount = format!("mount -t {name} /dev/disk/by-id/0 {}", mount_point().display());
            assert!(words.contains(&mount), "{words:?}");
        }
        assert!(words(GuestLayers::RAW).is_empty());
    }

    #[test]
    fn a_filesystem_on_an_array_is_made_on_the_array_and_mounted_from_it() {
        let words = words(GuestLayers::md(RaidLevel::Raid6).with(GuestFilesystem::Xfs));
        let at = |begin: &str| words.iter().position(|word| word.starts_with(begin)).unwrap();
        let (create, mkfs, mount) = (at("mdadm --create"), at("mkfs.xfs"), at("mount -t xfs"));
        assert!(create < mkfs && mkfs < mount, "{words:?}");
        for word in ["--level=6 ", "--raid-devices=4 "] {
            assert!(words[create].contains(word), "{word}: {}", words[create]);
        }
        assert!(words[mkfs].ends_with(&array()), "{}", words[mkfs]);
        assert_eq!(words[mount], format!("mount -t xfs {} {}", array(), mount_point().display()));
    }

    #[test]
    fn a_guest_has_the_programs_and_drivers_of_its_layers() {
        let needs = needs(
            [GuestLayers::RAW, GuestLayers::XFS, GuestLayers::md(RaidLevel::Raid5)].into_iter(),
        );
        assert_eq!(needs.tools, ["mdadm", "mkfs.xfs"]);
        assert_eq!(needs.modules, ["raid456", "xfs"]);
        let needs = self::needs(
            [GuestLayers::durio(RaidLevel::Raid1).with(GuestFilesystem::Ext4)].into_iter(),
        );
        assert!(needs.tools.contains(&"mkfs.ext4".to_owned()));
        assert!(needs.modules.contains(&UBLK.to_owned()));
    }
}
