//! Makes targets ready: lays out files, opens existing ones, removes those that durio made.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use durio_base::Bytes;
use durio_block::{
    Alignment, Buffers, DirectIo, FileMark, HeldTarget, HeldTargets, NewFile, OpenMode, OpenTarget,
    Removal, TargetAccess, Usage, WriteReason, create_named, create_unnamed, direct_io,
    supports_reallocate,
};
use durio_plan::{FileLayout, Target, TargetKind};
use durio_record::{Journal, MadeFile, TargetPreparation, TargetPrepared};
use durio_workload::BlockFiller;
use rustix::fs::{FallocateFlags, fallocate, fstat, fsync, ftruncate};
use rustix::io::Errno;

use crate::StopFlag;
use crate::error::RunError;

/// Bytes per write of the layout.
pub(crate) const CHUNK: Bytes = Bytes::from_mib(1);

/// A target that is ready to be measured.
#[derive(Debug)]
pub(crate) struct PreparedTarget {
    origin: Origin,
    pub(crate) direct: bool,
    /// The alignment that it asks for, where the kernel says.
    pub(crate) alignment: Option<Alignment>,
    /// Writes that are aligned to memory's alignment alone are taken, through the filesystem's cache.
    pub(crate) caches_parts: bool,
    /// A range can be returned to the preallocated state.
    pub(crate) reallocates: bool,
    /// It was to be preallocated, and zeros were written because the filesystem refuses that.
    pub(crate) zeros_stand_in: bool,
}

#[derive(Debug)]
enum Origin {
    /// A file that durio made.
    Created(NewFile),
    /// What existed, held since it was looked up.
    Existing(Arc<TargetAccess>),
    /// The null engine has no file.
    Nowhere,
}

impl PreparedTarget {
    /// Opens the target for one job.
    pub(crate) fn open(&self, mode: OpenMode) -> Result<OpenTarget, RunError> {
        match &self.origin {
            Origin::Created(made) => Ok(made.open(mode)?),
            Origin::Existing(access) => Ok(access.open(mode)?),
            Origin::Nowhere => {
                Err(RunError::unsupported("only the null engine runs without a target"))
            }
        }
    }

    /// A path by which another process of this user opens the target: never its name, which may lead
    /// elsewhere by now, and which the other program may understand otherwise (fio cuts names at # and
    /// ;, and strips blanks).
    pub(crate) fn path_for_others(&self) -> Result<PathBuf, RunError> {
        match &self.origin {
            Origin::Existing(access) => Ok(access.target().path_for_others()),
            Origin::Created(NewFile { file, .. }) => {
                let (process, file) = (std::process::id(), file.as_raw_fd());
                Ok(PathBuf::from(format!("/proc/{process}/fd/{file}")))
            }
            Origin::Nowhere => {
                Err(RunError::unsupported("only the null engine runs without a target"))
            }
        }
    }

    /// Finds out the target's support for direct I/O.
    fn find_direct(&mut self) -> Result<(), RunError> {
        let opened = self.open(OpenMode { direct: true, ..OpenMode::default() })?;
        let answer = direct_io(opened.file.as_fd());
        // An open with O_DIRECT proves nothing: ZFS before 2.3 takes the flag and does as it likes.
        self.direct = opened.direct && answer != DirectIo::Impossible;
        self.caches_parts = matches!(answer, DirectIo::CachesParts(_));
        self.alignment = match answer {
            DirectIo::Possible(alignment) | DirectIo::CachesParts(alignment) => Some(alignment),
            DirectIo::Unknown | DirectIo::Impossible => None,
        };
        Ok(())
    }

    /// Writes the dirty pages of the target and drops all from the page cache.
    pub(crate) fn drop_cache(&self) -> Result<(), RunError> {
        if matches!(self.origin, Origin::Nowhere) {
            return Ok(());
        }
        let file = self.open(OpenMode::default())?.file;
        // A file that was only read has nothing to write.
        let _ = rustix::fs::fdatasync(&file);
        // Dirty pages would stay: DONTNEED drops clean ones only (posix_fadvise(2)).
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|errno| {
            RunError::target("cannot drop the page cache of the target")
                .because(io::Error::from(errno))
        })
    }

    /// Removes the file if durio made it and it has a name.
    pub(crate) fn remove(self, journal: &mut Journal) -> Result<(), RunError> {
        let Origin::Created(made) = self.origin else { return Ok(()) };
        let Some(entry) = entry(&made) else { return Ok(()) };
        if let Removal::Kept(reason) = made.remove()? {
            return Err(RunError::target(format!("'{}' stays: {reason}", entry.path)));
        }
        remember(journal, &MadeFile { removed: true, ..entry })
    }
}

/// Makes `target` ready. `writes` says whether a step will write to it.
pub(crate) fn prepare(
    index: usize,
    target: &Target,
    writes: bool,
    (journal, held): (&mut Journal, &HeldTargets),
    seed: u64,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Bytes),
) -> Result<(PreparedTarget, TargetPrepared), RunError> {
    let begin = Instant::now();
    // Three look at it: the plan is refused before, this asserts, and the guard gives the permit.
    assert!(!writes || target.may_be_written(), "the plan writes to {target:?} without permission");
    let (prepared, layout, written) = match &target.kind {
        TargetKind::NewFile { directory, layout, .. } => {
            let made = make(directory.as_path(), journal)?;
            let kind = if made.path.is_some() {
                TargetPreparation::Named
            } else {
                TargetPreparation::Unnamed
            };
            let filled = fill(&made, target.size, *layout, seed, stop, progress)
                .and_then(|written| remember_size(&made, *layout, journal).map(|()| written));
            let reallocates = filled.is_ok()
                && *layout == FileLayout::Preallocated
                // Asked by doing it, which destroys nothing of a file that has just been preallocated.
                && supports_reallocate(made.file.as_fd(), target.size);
            let zeros_stand_in = *layout == FileLayout::Preallocated
                && filled.as_ref().is_ok_and(|written| *written > Bytes::ZERO);
            let made = nowhere(Origin::Created(made));
            let mut prepared = PreparedTarget { reallocates, zeros_stand_in, ..made };
            match filled.and_then(|written| prepared.find_direct().map(|()| written)) {
                Ok(written) => (prepared, kind, written),
                Err(error) => return Err(without_file(prepared, journal, error)),
            }
        }
        TargetKind::ExistingFile { path } | TargetKind::Device { path } => {
            (existing(held.find(path.as_path())?)?, TargetPreparation::Existing, Bytes::ZERO)
        }
        TargetKind::NullDevice { path } => {
            (existing(null_device(path.as_path())?)?, TargetPreparation::Existing, Bytes::ZERO)
        }
        TargetKind::Scripted => (nowhere(Origin::Nowhere), TargetPreparation::None, Bytes::ZERO),
    };
    let event = TargetPrepared {
        target: index,
        layout,
        written,
        elapsed: begin.elapsed().into(),
        direct: prepared.direct,
        reallocates: prepared.reallocates,
    };
    Ok((prepared, event))
}

/// Makes a file of `size` bytes of which these ranges are written and the rest is a hole.
pub(crate) fn prepare_ranges(
    directory: &Path,
    (size, ranges): (Bytes, &[Range<u64>]),
    journal: &mut Journal,
    seed: u64,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Bytes),
) -> Result<PreparedTarget, RunError> {
    let made = make(directory, journal)?;
    let failed = |errno| layout_error(&made, size, errno);
    let filled = ftruncate(&made.file, size.get()).map_err(failed).and_then(|()| {
        for range in ranges {
            write_range(&made, (size, range.clone()), Some(seed ^ range.start), stop, progress)?;
        }
        fsync(&made.file).map_err(failed)
    });
    let mut prepared = nowhere(Origin::Created(made));
    match filled.and_then(|()| prepared.find_direct()) {
        Ok(()) => Ok(prepared),
        Err(error) => Err(without_file(prepared, journal, error)),
    }
}

// A made file must be removed even if it could not be made ready.
fn without_file(prepared: PreparedTarget, journal: &mut Journal, mut error: RunError) -> RunError {
    if let Err(removal) = prepared.remove(journal) {
        error.add_left(&removal);
    }
    error
}

fn nowhere(origin: Origin) -> PreparedTarget {
    PreparedTarget {
        origin,
        direct: false,
        alignment: None,
        caches_parts: false,
        reallocates: false,
        zeros_stand_in: false,
    }
}

/// Makes the file. Where it needs a name it gets one of durio's own, which is in the journal before it
/// exists; a name that the user gave stays the user's.
fn make(directory: &Path, journal: &mut Journal) -> Result<NewFile, RunError> {
    match create_unnamed(directory)? {
        Some(made) => Ok(made),
        None => make_named(directory, journal),
    }
}

fn make_named(directory: &Path, journal: &mut Journal) -> Result<NewFile, RunError> {
    // The journal leads a later process to it, whatever its folder and links are then.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mark = FileMark::new()?;
    remember(journal, &MadeFile::announced(&directory.join(mark.file_name()), mark.clone()))?;
    let made = create_named(&directory, mark)?;
    match entry(&made).map_or(Ok(()), |entry| remember(journal, &entry)) {
        Ok(()) => Ok(made),
        Err(error) => Err(without_file(nowhere(Origin::Created(made)), journal, error)),
    }
}

/// What the journal has of a file with a name.
fn entry(made: &NewFile) -> Option<MadeFile> {
    let entry = MadeFile::announced(made.path.as_deref()?, made.mark.clone()?);
    Some(MadeFile { identity: Some(made.identity), ..entry })
}

fn remember(journal: &mut Journal, entry: &MadeFile) -> Result<(), RunError> {
    journal.remember(entry).map_err(|error| RunError::sink(error.into()))
}

// From now on another size is another process's doing, except for a file that grows.
fn remember_size(
    made: &NewFile,
    layout: FileLayout,
    journal: &mut Journal,
) -> Result<(), RunError> {
    let Some(entry) = entry(made).filter(|_| layout != FileLayout::Empty) else { return Ok(()) };
    let stat = fstat(&made.file).map_err(|errno| {
        RunError::target(format!("cannot look at '{}'", entry.path)).because(errno)
    })?;
    let size = Some(Bytes::new(stat.st_size.cast_unsigned()));
    remember(journal, &MadeFile { size, ..entry })
}

/// The user did not name durio's null target; the guard sees that nothing can be lost there.
fn null_device(path: &Path) -> Result<Arc<TargetAccess>, RunError> {
    let permit = HeldTarget::open(path)?.permit(WriteReason::KeepsNothing, &Usage::default());
    let permit = permit.map_err(|refusal| {
        RunError::target(format!("cannot use '{}'", path.display())).because(refusal)
    })?;
    Ok(Arc::new(TargetAccess::Write(permit)))
}

fn existing(access: Arc<TargetAccess>) -> Result<PreparedTarget, RunError> {
    let mut prepared = nowhere(Origin::Existing(access));
    prepared.find_direct()?;
    Ok(prepared)
}

/// Fills a new file and makes it durable; says how many bytes were written.
fn fill(
    made: &NewFile,
    size: Bytes,
    layout: FileLayout,
    seed: u64,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Bytes, RunError> {
    let written = match layout {
        FileLayout::Preallocated => {
            match fallocate(&made.file, FallocateFlags::empty(), 0, size.get()) {
                Ok(()) => Bytes::ZERO,
                // Not the same for a log: a written block has no extent to convert at fdatasync,
                // which made ext4 a quarter faster (docs/design/0003). So the record says that
                // zeros were written.
                Err(Errno::OPNOTSUPP) => write_all(made, size, None, stop, progress)?,
                Err(errno) => return Err(layout_error(made, size, errno)),
            }
        }
        FileLayout::Empty => Bytes::ZERO,
        FileLayout::ZeroFilled => write_all(made, size, None, stop, progress)?,
        FileLayout::Incompressible => write_all(made, size, Some(seed), stop, progress)?,
    };
    // Otherwise the kernel would write the file back while the first step is measured.
    fsync(&made.file).map_err(|errno| layout_error(made, size, errno))?;
    Ok(written)
}

/// Writes all of a file of `size`; says how many bytes that were.
fn write_all(
    made: &NewFile,
    size: Bytes,
    random_seed: Option<u64>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Bytes, RunError> {
    write_range(made, (size, 0..size.get()), random_seed, stop, progress)
}

/// Writes a range of a file of `size`: whole chunks past the page cache where that is possible, so that
/// a large layout does not push everybody's pages out; the rest through it. Says where it ended.
fn write_range(
    made: &NewFile,
    (size, range): (Bytes, Range<u64>),
    random_seed: Option<u64>,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Bytes, RunError> {
    let direct = made.open(OpenMode { write: true, direct: true, ..OpenMode::default() })?;
    let chunk = usize::try_from(CHUNK.get()).unwrap_or(usize::MAX);
    let mut buffers = Buffers::try_new(1, chunk)?;
    let mut filler = random_seed.map(BlockFiller::unique);
    let mut offset = range.start;
    while offset < range.end && !stop.is_set() {
        let length = CHUNK.get().min(range.end - offset);
        let data = &mut buffers.slot_mut(0)[..usize::try_from(length).unwrap_or(chunk)];
        if let Some(filler) = &mut filler {
            filler.fill(data);
        }
        // The rest may not be a whole number of sectors.
        let file = if length == CHUNK.get() { &direct.file } else { &made.file };
        write_at(file, data, offset).map_err(|errno| layout_error(made, size, errno))?;
        offset += length;
        progress(Bytes::new(offset));
    }
    Ok(Bytes::new(offset))
}

/// Writes all of `data`, despite interruptions.
pub(crate) fn write_at(file: &OwnedFd, mut data: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::pwrite(file, data, offset) {
            // A write of nothing would be tried for ever.
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => {
                data = &data[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn layout_error(made: &NewFile, size: Bytes, errno: Errno) -> RunError {
    let place = match &made.path {
        Some(path) => format!("the file '{}'", path.display()),
        None => "a file".to_owned(),
    };
    let source = io::Error::from(errno);
    let is_full = source.kind() == io::ErrorKind::StorageFull;
    let error = RunError::target(format!("cannot lay out {place} of {size}")).because(source);
    if is_full { error.hint("free some space, or use a smaller --size") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_name_is_in_the_journal_and_another_of_its_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let mut made = || {
            let made = make_named(folder.path(), &mut journal).unwrap();
            fill(
                &made,
                Bytes::from_mib(1),
                FileLayout::Preallocated,
                1,
                &StopFlag::default(),
                &mut |_| {},
            )
            .unwrap();
            remember_size(&made, FileLayout::Preallocated, &mut journal).unwrap();
            made
        };
        let (own, swapped) = (made(), made());
        let path = swapped.path.clone().unwrap();
        std::fs::rename(&path, path.with_extension("moved")).unwrap();
        std::fs::write(&path, "somebody's").unwrap();
        nowhere(Origin::Created(own)).remove(&mut journal).unwrap();
        let error = nowhere(Origin::Created(swapped)).remove(&mut journal).unwrap_err();
        assert!(error.message.contains("another file has its name now"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
        let text = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7, "announced, made, laid out, each; and one removed: {text}");
        assert!(
            lines[0].contains(r#""identity":null"#) && lines[2].contains(r#""size_bytes":1048576"#)
        );
        assert!(lines[6].contains(r#""removed":true"#));
    }

    #[test]
    fn a_file_that_stays_is_named_beside_what_ended_the_run() {
        let mut error = RunError::unsupported("first").hint("do this");
        error.add_left(&RunError::target("'/x/.durio-1' stays: moved"));
        let hint = error.hint.unwrap();
        assert!(hint.starts_with("do this; '/x/.durio-1' stays: moved; "), "{hint}");
    }

    #[test]
    fn laid_out_blocks_differ_from_each_other_in_all_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        let (size, stop) = (Bytes::new((3 << 20) + 5000), StopFlag::default());
        write_all(&made, size, Some(7), &stop, &mut |_| {}).unwrap();
        let data = std::fs::read(made.path.as_ref().unwrap()).unwrap();
        assert_eq!(data.len() as u64, size.get());
        // A block, and the one at its place in the next chunk; one byte of 256 is equal by chance.
        for (a, b) in data.chunks(4096).zip(data[1 << 20..].chunks(4096)) {
            let equal = a.iter().zip(b).filter(|(a, b)| a == b).count();
            assert!(equal < 60, "{equal} of 4096 bytes");
        }
    }

    #[test]
    fn progress_is_the_end_of_each_chunk_and_of_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        let (size, stop) = (Bytes::new((2 << 20) + 700), StopFlag::default());
        let mut told = Vec::new();
        let written = write_all(&made, size, None, &stop, &mut |done| told.push(done.get()));
        assert_eq!(written.unwrap(), size);
        assert_eq!(told, [1 << 20, 2 << 20, (2 << 20) + 700]);
        let data = std::fs::read(made.path.as_ref().unwrap()).unwrap();
        assert!(data.len() as u64 == size.get() && data.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn only_the_ranges_that_are_asked_for_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        let size = Bytes::from_mib(4);
        let range = (1 << 20)..(2 << 20) + 4096;
        let stop = StopFlag::default();
        write_range(&made, (size, range), Some(5), &stop, &mut |_| {}).unwrap();
        let data = std::fs::read(made.path.as_ref().unwrap()).unwrap();
        assert_eq!(data.len(), (2 << 20) + 4096);
        assert!(data[..1 << 20].iter().all(|byte| *byte == 0));
        // A block of random bytes has some 16 zeros.
        for block in data[1 << 20..].chunks(4096) {
            let zeros = block.iter().filter(|byte| **byte == 0).count();
            assert!(zeros < 80, "{zeros} of 4096 bytes");
        }
    }

    fn named() -> (tempfile::TempDir, NewFile) {
        let folder = tempfile::tempdir().unwrap();
        let made = create_named(folder.path(), FileMark::new().unwrap()).unwrap();
        (folder, made)
    }

    #[test]
    fn a_layout_that_is_to_stop_writes_nothing_more() {
        let (_folder, made) = named();
        let (size, stop) = (Bytes::from_mib(3), StopFlag::default());
        let mut told = Vec::new();
        let written = write_all(&made, size, None, &stop, &mut |done| {
            told.push(done.get());
            stop.set();
        });
        assert_eq!((written.unwrap(), told), (Bytes::from_mib(1), vec![1 << 20]));
        assert_eq!(fstat(&made.file).unwrap().st_size, 1 << 20);
        let again = write_all(&made, size, None, &stop, &mut |_| panic!("it is to stop"));
        assert_eq!(again.unwrap(), Bytes::ZERO);
    }

    #[test]
    fn a_file_of_ranges_has_its_size_and_holes_between_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let ranges = [4096..8192, 2 << 20..(2 << 20) + 4096];
        let parts = (Bytes::from_mib(4), ranges.as_slice());
        let stop = StopFlag::default();
        let made =
            prepare_ranges(folder.path(), parts, &mut journal, 7, &stop, &mut |_| {}).unwrap();
        let file = made.open(OpenMode::default()).unwrap().file;
        let mut data = Vec::new();
        io::Read::read_to_end(&mut std::fs::File::from(file), &mut data).unwrap();
        assert_eq!(data.len(), 4 << 20);
        let mut written = Vec::new();
        for (number, block) in (0..).zip(data.chunks(4096)) {
            if block.iter().any(|byte| *byte != 0) {
                written.push((number, block));
            }
        }
        let numbers: Vec<u32> = written.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 512]);
        assert_ne!(written[0].1, written[1].1, "blocks of two ranges are not alike");
        made.remove(&mut journal).unwrap();
    }

    #[test]
    fn only_a_full_filesystem_is_a_matter_of_size() {
        let (_folder, made) = named();
        let of = |errno| layout_error(&made, Bytes::from_mib(1), errno);
        let full = of(Errno::NOSPC);
        assert!(full.hint.is_some_and(|hint| hint.contains("--size")));
        let (broken, path) = (of(Errno::IO), made.path.clone().unwrap());
        assert_eq!((broken.errno(), broken.hint.clone()), (Some(5), None));
        let expected = format!("cannot lay out the file '{}' of 1 MiB", path.display());
        assert_eq!(broken.to_string(), expected);
        let nowhere =
            OwnedFd::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
        assert_eq!(write_at(&nowhere, &[1; 512], 0), Err(Errno::NOSPC));
        assert_eq!(write_at(&nowhere, &[], 0), Ok(()));
    }
}
