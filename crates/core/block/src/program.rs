//! Short programs that are asked something: a version, a list, a status.
//!
//! Programs that are followed while they run (a guest, fio, a stack's builder) are handled
//! elsewhere.
//!
//! A program that hangs must not hold durio up, nor one that leaves a child behind which keeps its
//! output open (a wrapper script). So the program leads a process group, which is ended as a whole
//! when the program has ended or its time is over; output is taken up to then, not to its end. If
//! durio is killed, the kernel kills the program.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    set_parent_process_death_signal, waitid,
};

/// How long a program may take to report its version or the like. Most take milliseconds; a busy
/// machine with cold caches takes seconds.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Bytes kept of each stream; the rest is dropped.
const KEPT_BYTES: usize = 1 << 20;
/// Interval of looks where the kernel cannot say when a program ends.
const LOOK: Duration = Duration::from_millis(20);

/// What a program said, and how it ended.
#[derive(Debug, Clone)]
pub struct ProgramAnswer {
    pub status: ExitStatus,
    /// What it wrote to its stdout, at most 1 MiB.
    pub stdout: Vec<u8>,
    /// The same of its stderr.
    pub stderr: Vec<u8>,
}

/// Has the kernel kill the command's process when the thread that starts it ends, by its own end or by
/// that of durio. For a thread that waits for the command.
pub fn end_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let set_signal = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // durio may have ended before the signal was set.
        match rustix::process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec only two system calls are made, which are async-signal-safe;
    // nothing is allocated, and no lock is taken.
    unsafe { command.pre_exec(set_signal) };
}

/// Has the command's process lead a process group, so that signals to durio's group, such as a
/// terminal's Ctrl-C and hang-up, do not reach it.
///
/// The standard library starts such a program by `posix_spawn`, which holds signals back until the
/// program runs: one that came before the change of the group then kills it. Between `fork` and exec
/// durio's handlers take the signal. A function to run there makes the library take that way.
pub fn lead_process_group(command: &mut Command) -> &mut Command {
    // SAFETY: nothing is done between fork and exec.
    unsafe { command.pre_exec(|| Ok(())) }.process_group(0)
}

/// A program and all that it started, as far as it stays in the program's process group; killed as a
/// whole when this goes.
#[derive(Debug)]
pub struct ProcessGroup {
    /// The started program; its streams can be taken.
    pub leader: Child,
    is_killed: bool,
}

impl ProcessGroup {
    /// Starts the command in a separate process group, so that a terminal's Ctrl-C does not reach
    /// it. It ends with the thread that calls this.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        end_with_this_thread(command);
        Ok(Self { leader: lead_process_group(command).spawn()?, is_killed: false })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.leader)
    }

    /// True if the program has ended; its children may not have.
    pub fn has_ended(&self) -> io::Result<bool> {
        // It is not reaped: its number must stay its own until the group is killed.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(self.is_killed || waitid(WaitId::Pid(self.pid()), look)?.is_some())
    }

    /// Kills the rest of the group, and returns how the program ended.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_killed {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            self.is_killed = true;
        }
        self.leader.wait()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Runs a command without input, for `limit` at most.
///
/// # Errors
/// If it cannot be started; [`io::ErrorKind::TimedOut`] if it does not end in time.
pub fn ask(command: &mut Command, limit: Duration) -> io::Result<ProgramAnswer> {
    ask_until(command, limit, None)
}

/// The same for a user's program, which may take long: it is ended when `stop` says so.
///
/// # Errors
/// As [`ask`]; [`io::ErrorKind::Interrupted`] if it was stopped.
pub fn ask_stoppable(
    command: &mut Command,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> io::Result<ProgramAnswer> {
    ask_until(command, limit, Some(stop))
}

/// The wish to stop, of a program that can be stopped.
type StopWish<'a> = Option<&'a dyn Fn() -> bool>;

fn ask_until(
    command: &mut Command,
    limit: Duration,
    stop: StopWish<'_>,
) -> io::Result<ProgramAnswer> {
    let (stdout, its_stdout) = pipe()?;
    let (stderr, its_stderr) = pipe()?;
    command.stdin(Stdio::null()).stdout(its_stdout).stderr(its_stderr);
    let group = ProcessGroup::start(command);
    // Our ends of what it writes to: while they are open here, its end is not seen.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut group = group?;
    let mut outputs = [StreamOutput::new(stdout), StreamOutput::new(stderr)];
    if !ends_before(&group, Instant::now() + limit, stop, &mut outputs)? {
        let reason = format!("it did not end within {} s", limit.as_secs_f64());
        return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
    }
    let status = group.end()?;
    // What it wrote before its end is in the pipe.
    outputs.iter_mut().for_each(StreamOutput::take);
    let [stdout, stderr] = outputs.map(|output| output.kept);
    Ok(ProgramAnswer { status, stdout, stderr })
}

/// Ours does not block; the program's does, as it expects.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    Ok((reader, writer))
}

/// Takes output until the program has ended, or time is over.
fn ends_before(
    group: &ProcessGroup,
    end: Instant,
    stop: StopWish<'_>,
    outputs: &mut [StreamOutput],
) -> io::Result<bool> {
    // Linux since 5.3; without it, and in containers that refuse it, is looked now and then.
    let ended = pidfd_open(group.pid(), PidfdFlags::empty()).ok();
    loop {
        outputs.iter_mut().for_each(StreamOutput::take);
        if group.has_ended()? {
            return Ok(true);
        }
        if stop.is_some_and(|asked| asked()) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let look = if stop.is_some() { LOOK } else { Duration::MAX };
        sleep(ended.as_ref(), outputs, left.min(look))?;
    }
}

/// Until the program ends, says something, or time is over.
fn sleep(ended: Option<&OwnedFd>, outputs: &[StreamOutput], left: Duration) -> io::Result<()> {
    let time = if ended.is_some() { left } else { left.min(LOOK) };
    let open = outputs.iter().filter_map(|output| output.pipe.as_ref());
    let mut watched: Vec<PollFd<'_>> = open
        .map(AsFd::as_fd)
        .chain(ended.map(AsFd::as_fd))
        .map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN))
        .collect();
    let time = Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(&mut watched, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What a program writes to a stream.
struct StreamOutput {
    /// None at its end.
    pipe: Option<File>,
    kept: Vec<u8>,
}

impl StreamOutput {
    fn new(pipe: OwnedFd) -> Self {
        Self { pipe: Some(pipe.into()), kept: Vec::new() }
    }

    /// Takes the available bytes, at most a pipe's capacity, so that a pipe that is filled all the
    /// time is not read for ever.
    fn take(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut part = [0; 4096];
        for _ in 0..PIPE_PARTS {
            match pipe.read(&mut part) {
                Ok(count @ 1..) => {
                    let room = KEPT_BYTES.saturating_sub(self.kept.len()).min(count);
                    self.kept.extend_from_slice(&part[..room]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    self.pipe = None;
                    return;
                }
            }
        }
    }
}

/// A pipe holds 64 KiB (pipe(7)).
const PIPE_PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_says_all_and_how_it_ended() {
        let script = "head -c 300000 /dev/zero; echo wrong >&2; exit 3";
        let answer = ask(&mut shell(script), ANSWER_LIMIT).unwrap();
        assert_eq!((answer.status.code(), answer.stdout.len()), (Some(3), 300_000));
        assert_eq!(answer.stderr, b"wrong\n");
        assert!(ask(&mut Command::new("/nonexistent"), ANSWER_LIMIT).is_err());
    }

    fn is_gone(pid: &str) -> bool {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
    }

    fn wait_until_gone(pid: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_gone(pid) {
            assert!(Instant::now() < end, "{pid} is still there");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("trap '' TERM; sleep 600 & echo $! > {}; wait; wait", pid.display());
        let begin = Instant::now();
        let error = ask(&mut shell(&script), Duration::from_secs(2)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        wait_until_gone(std::fs::read_to_string(pid).unwrap().trim());
    }

    #[test]
    fn a_program_that_is_to_stop_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let path = pid.display();
        let script = format!("sleep 600 & echo $! > {path}.new; mv {path}.new {path}; wait");
        let error = ask_stoppable(&mut shell(&script), Duration::from_secs(3600), &|| pid.exists());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::Interrupted);
        wait_until_gone(std::fs::read_to_string(pid).unwrap().trim());
    }

    #[test]
    fn a_child_that_is_left_behind_with_the_pipe_is_not_waited_for_and_does_not_stay() {
        let begin = Instant::now();
        let answer = ask(&mut shell("sleep 600 & echo $!"), Duration::from_secs(60)).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        wait_until_gone(String::from_utf8(answer.stdout).unwrap().trim());
    }

    #[test]
    fn of_endless_output_the_beginning_is_kept() {
        let error = ask(&mut shell("exec yes"), Duration::from_millis(500)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let answer = ask(&mut shell("yes | head -c 3000000"), ANSWER_LIMIT).unwrap();
        assert_eq!(answer.stdout.len(), 1_048_576);
    }

    #[test]
    fn a_program_ends_with_the_thread_that_waits_for_it() {
        let started = std::thread::spawn(|| {
            let mut command = shell("exec sleep 600");
            end_with_this_thread(&mut command);
            command.spawn().unwrap()
        });
        let mut child = started.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
