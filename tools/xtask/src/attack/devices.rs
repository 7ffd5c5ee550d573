//! Devices that are in use, that change, or that the user did not name, on the suite's loop
//! devices.
//!
//! Reports changed bytes of an image. `races` has names that change during a run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Result;
use rustix::process::Signal;

use super::arena::{self, Arena, AttackCase, sh};
use super::random::Random;
use super::rows::{AttackRow, root};
use super::witness::{faults, faults_but, hash, loop_devices};

const LIMIT: Duration = Duration::from_secs(60);
/// An overwrite of the named path, with the options that permit it.
const OVERWRITE: &str = "run --quiet --rw randwrite --bs 4k --size 1MiB --ops 64 --no-self-cost";

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, small, full, attack| AttackRow { name, small, full, missing: root, attack };
    vec![
        row("devices:mounted-image", 3, 24, mounted_image),
        row("devices:swap-file", 2, 12, swap_file),
        row("devices:open-writer", 1, 12, open_writer),
        row("devices:unnamed-by-spec", UNNAMED.len(), 4 * UNNAMED.len(), unnamed_by_spec),
        row("devices:used-anew", 2, 12, used_anew),
        row("devices:attached-anew", 1, 24, attached_anew),
        row("devices:signature-appears", 2, 12, signature_appears),
        row("devices:resized", 1, 24, resized),
    ]
}

/// A filesystem of a user's in an image.
fn image(case: &AttackCase, name: &str) -> Result<PathBuf> {
    let path = case.path(name);
    arena::ext4(&path, 16)?;
    Ok(path)
}

/// Mounts an image and puts files there, all of them durable.
pub(super) fn mounted(case: &AttackCase, image: &Path) -> Result<()> {
    let point = case.path("mounted");
    fs::create_dir(&point)?;
    sh(&format!("mount -o loop '{}' '{}'", image.display(), point.display()))?;
    arena::user_files(&point)?;
    // The kernel itself has nothing left to write there.
    sh(&format!("mount -o remount,ro '{}' && sync '{}'", point.display(), image.display()))
        .map(drop)
}

fn attached(image: &Path) -> Result<PathBuf> {
    sh(&format!("losetup --find --show '{}'", image.display())).map(PathBuf::from)
}

/// Overwrites a path with a user's permission; returns changes to an image.
fn overwrite(case: &AttackCase, path: &Path, engine: &str, image: &Path) -> Result<Vec<String>> {
    let before = hash(image)?;
    let launch = case.durio(OVERWRITE).words(engine).word("--target").word(path);
    let ended = launch.word("--destroy").word(path).limit(LIMIT).run()?;
    let mut wrong = faults(&ended);
    if ended.code() == 0 {
        wrong.push("what is in use was not refused".to_owned());
    }
    if hash(image)? != before {
        wrong.push("what is in use was written to".to_owned());
    }
    Ok(wrong)
}

fn engine(random: &mut Random) -> &'static str {
    random.pick(&["--engine sync", "--engine uring --depth 4", "--buffered", "--engine fio:psync"])
}

/// A mounted image, by its name, another name of it, or a mount of the file.
fn mounted_image(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let image = image(&case, "image")?;
    mounted(&case, &image)?;
    overwrite(&case, &another_name(&case, &image, number % 3)?, engine(random), &image)
}

/// The file by its name, by a hard link, or by a bind mount.
fn another_name(case: &AttackCase, file: &Path, way: usize) -> Result<PathBuf> {
    let other = case.path("other");
    match way {
        0 => return Ok(file.to_owned()),
        1 => fs::hard_link(file, &other)?,
        _ => {
            fs::write(&other, "")?;
            sh(&format!("mount --bind '{}' '{}'", file.display(), other.display()))?;
        }
    }
    Ok(other)
}

fn swap_file(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let file = case.path("swap");
    sh(&format!(
        // Written in full: swapon refuses a file with holes.
        "head -c 4194304 /dev/zero > '{0}' && chmod 600 '{0}' && mkswap -q '{0}'",
        file.display()
    ))?;
    // A low priority: nothing must be swapped there.
    let path = another_name(&case, &file, 1 + number % 2)?;
    sh(&format!("sync '{0}'; swapon -p 0 '{0}'", file.display()))?;
    let wrong = overwrite(&case, &path, engine(random), &file);
    sh(&format!("swapoff '{}'", file.display()))?;
    wrong
}

/// A file that another program has open for writing, as a database does.
fn open_writer(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let file = case.path("data/table");
    fs::write(&file, vec![7; 2 << 20])?;
    let path = another_name(&case, &file, number % 3)?;
    let holder = format!("exec 3<>'{}'; echo ready; exec sleep 60", file.display());
    let mut launch = case.durio("");
    launch.words = ["sh", "-c", &holder].map(Into::into).to_vec();
    let holder = launch.start()?;
    thread::sleep(Duration::from_millis(100));
    let wrong = overwrite(&case, &path, engine(random), &file);
    holder.signal(Signal::KILL);
    holder.wait(LIMIT)?;
    wrong
}

/// Layers with options that name a device used nowhere else; `@` is that device, `%` a user's file.
const UNNAMED: [&str; 12] = [
    "btrfs = { mkfs = [\"@\"] }",
    "xfs = { mkfs = [\"-l\", \"logdev=@\"] }",
    "xfs = { mkfs = [\"-l\", \"logdev=@,size=16m\"] }",
    "xfs = { mkfs = [\"-llogdev=@\"] }",
    "xfs = { mkfs = [\"-r\", \"rtdev=@\"] }",
    "xfs = { mkfs = [\"-f\", \"@\", \"-N\"] }",
    "ext4 = { mkfs = [\"-J\", \"device=@\"] }",
    "ext4 = { mkfs = [\"-F\", \"@\"] }",
    "ext4 = { mkfs = [\"-F\", \"%\"] }",
    "ext4 = { mkfs = [\"-z\", \"%\"] }",
    "ext4 = { mount = [\"journal_path=@\"] }",
    "btrfs = { mkfs = [\"--rootdir\", \"%\"], mount = [\"device=@\"] }",
];

fn unnamed_by_spec(arena: &Arena, number: usize, _: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let victim = case.path("victim");
    arena::ext4(&victim, 160)?;
    let (device, file) = (attached(&victim)?, case.path("data/keep"));
    arena::user_files(&case.path("data"))?;
    let before = (hash(&victim)?, hash(&file)?);
    let layer = UNNAMED[number % UNNAMED.len()];
    let layer =
        layer.replace('@', &device.display().to_string()).replace('%', &file.display().to_string());
    let spec = format!(
        "schema = 1\nname = \"x\"\nself_cost = false\n[target]\nsize = \"1MiB\"\n[[stack]]\nname = \"x\"\n\
         layers = [{{ loop = {{ size = \"512MiB\", directory = \"{}\", measured = false }} }}, {{ {layer} }}]\n\
         [defaults]\nduration = \"100ms\"\n[[step]]\nname = \"w\"\nreads = \"0%\"\n",
        case.path("temporary").display()
    );
    fs::write(case.path("x.toml"), spec)?;
    let mut wrong = faults(&case.durio("stack bench --quiet x.toml").limit(LIMIT).run()?);
    if hash(&victim)? != before.0 {
        wrong.push(format!(
            "a device that nobody named was written to: {}",
            UNNAMED[number % UNNAMED.len()]
        ));
    }
    if hash(&file)? != before.1 {
        wrong.push(format!(
            "a file that nobody named was written to: {}",
            UNNAMED[number % UNNAMED.len()]
        ));
    }
    Ok(wrong)
}

/// After a kill of a bench on an existing device the user makes a filesystem there, and then `stack
/// clean` runs.
fn used_anew(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let image = case.path("image");
    fs::File::create_new(&image)?.set_len(32 << 20)?;
    let device = attached(&image)?;
    let spec = format!(
        "schema = 1\nname = \"x\"\nself_cost = false\n[target]\nsize = \"1MiB\"\n[[stack]]\nname = \"x\"\n\
         layers = [{{ device = {{ path = \"{}\", measured = false }} }}, {{ ext4 = {{}} }}]\n\
         [defaults]\nduration = \"20s\"\n[[step]]\nname = \"w\"\nreads = \"0%\"\n",
        device.display()
    );
    fs::write(case.path("x.toml"), spec)?;
    let bench = case.durio("stack bench --quiet x.toml --destroy").word(&device);
    let mut running = bench.start()?;
    let begin = Instant::now();
    let is_mounted = || {
        fs::read_to_string("/proc/mounts")
            .is_ok_and(|swaps| swaps.contains(&format!("{} ", device.display())))
    };
    while running.is_alive() && begin.elapsed() < LIMIT && !is_mounted() {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(random.below(300) as u64));
    running.signal(Signal::KILL);
    running.wait(LIMIT)?;
    // The user takes the device back, and uses it: whole, or with the old superblock's place kept.
    let _ = sh(&format!("while umount {} 2>&-; do :; done", device.display()));
    let made = match number % 2 {
        0 => format!("mkfs.ext4 -q -F {}", device.display()),
        _ => format!(
            "head -c 20000000 /dev/urandom | dd of={} bs=4096 seek=64 conv=notrunc status=none",
            device.display()
        ),
    };
    sh(&format!("{made}; sync {}", device.display()))?;
    let before = hash(&device)?;
    let cleaned = case.durio("stack clean").limit(LIMIT).run()?;
    let mut wrong = faults(&cleaned);
    if hash(&device)? != before {
        wrong.push("a device that is used anew was written to".to_owned());
    }
    Ok(wrong)
}

/// While a run overwrites a device, another file is attached under its name.
fn attached_anew(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let (scratch, victim) = (case.path("scratch"), image(&case, "victim")?);
    fs::File::create_new(&scratch)?.set_len(16 << 20)?;
    let (device, before) = (attached(&scratch)?, hash(&victim)?);
    let line = "run --quiet --rw randwrite --size 1MiB --duration 400ms --no-self-cost --target";
    let launch = case.durio(line).word(&device).word("--destroy").word(&device);
    let running = launch.start()?;
    thread::sleep(Duration::from_millis(random.below(400) as u64));
    let _ = sh(&format!("losetup -d {}", device.display()));
    // The name is not free until the last user is gone.
    let is_anew = (0..60).any(|_| {
        thread::sleep(Duration::from_millis(5));
        sh(&format!("losetup {} '{}'", device.display(), victim.display())).is_ok()
    });
    let mut wrong = faults(&running.wait(LIMIT)?);
    if hash(&victim)? != before {
        wrong.push(format!(
            "what was attached under the device's name was written to (attached: {is_anew})"
        ));
    }
    Ok(wrong)
}

/// Between a plan and the run a filesystem is made on the device, or mounted.
fn signature_appears(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let image = case.path("image");
    fs::File::create_new(&image)?.set_len(16 << 20)?;
    let device = attached(&image)?;
    sh(&format!("mkfs.ext4 -q -F {0} && sync {0}", device.display()))?;
    if number % 2 == 1 {
        let point = case.path("mounted");
        fs::create_dir(&point)?;
        sh(&format!("mount {} '{}'; sync", device.display(), point.display()))?;
    }
    overwrite(&case, &device, engine(random), &image)
}

/// The image under a device, or the device, changes its size while it is measured.
fn resized(arena: &Arena, number: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.clean_case()?;
    let (image, neighbour) = (case.path("image"), image(&case, "neighbour")?);
    fs::File::create_new(&image)?.set_len(16 << 20)?;
    let (device, before) = (attached(&image)?, hash(&neighbour)?);
    let line = "run --quiet --rw randwrite --size 8MiB --duration 400ms --no-self-cost --target";
    let running = case.durio(line).word(&device).word("--destroy").word(&device).start()?;
    thread::sleep(Duration::from_millis(random.below(500) as u64));
    fs::File::options().write(true).open(&image)?.set_len(random.below(16 << 20) as u64)?;
    if number.is_multiple_of(2) {
        sh(&format!("losetup -c {}", device.display()))?;
    }
    let mut wrong = faults_but(&running.wait(LIMIT)?, &[]);
    if hash(&neighbour)? != before {
        wrong.push("a neighbour was written to".to_owned());
    }
    if loop_devices(&image).count() != 1 {
        wrong.push("the device is no longer attached".to_owned());
    }
    Ok(wrong)
}
