//! A database in a private folder: made, started, loaded, stopped; under strace where it is traced.
//!
//! Takes a row of the table; runs loads, and returns their reports and traces.
//!
//! strace, its command and all children are one process group, which is ended as a whole. strace
//! itself ignores SIGTERM (with `-o` it blocks it) and ends with the last of its processes, its
//! file whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::figures::{FOLDER_PREFIX, LoadReport, LogFigures, TracedLoad};
use super::table::{Database, PERCENTILES, Serve};
use super::trace;
use crate::bench::Interrupt;
use crate::packages;

/// Until a server takes transactions, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// For all transactions of one load.
const LOAD_MAX: Duration = Duration::from_secs(600);

const POLL: Duration = Duration::from_millis(50);

/// A database and its folder, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ScratchDatabase<'a> {
    database: &'a Database,
    folder: TempDir,
    search_path: OsString,
    ports: [u16; 2],
    interrupt: &'a Interrupt,
}

impl<'a> ScratchDatabase<'a> {
    /// Makes it, in `parent`.
    pub(crate) fn new(
        database: &'a Database,
        parent: &Path,
        interrupt: &'a Interrupt,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(FOLDER_PREFIX)
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let ports = [free_port()?, free_port()?];
        let search_path = search_path();
        let scratch = Self { database, folder, search_path, ports, interrupt };
        if let Some(user) = scratch.user() {
            let mut chown = Command::new("chown");
            chown.arg(user).arg(scratch.folder.path());
            ensure!(chown.status()?.success(), "there is no user {user}, who runs it");
        }
        scratch.step("setup", database.setup, 1, 1)?;
        Ok(scratch)
    }

    /// Traces the loads of these numbers of clients, `transactions` each.
    pub(super) fn figures(&self, clients: &[u32], transactions: u32) -> Result<Vec<LogFigures>> {
        let Some(server) = self.serve(&self.strace("server.trace"))? else {
            return clients.iter().map(|&clients| self.alone(clients, transactions)).collect();
        };
        let loads: Result<Vec<TracedLoad>> =
            clients.iter().map(|&clients| self.load(clients, transactions, &[])).collect();
        let loads = loads.with_context(|| self.tail("server"))?;
        server.stop()?;
        let events = trace::parse(&self.read("server.trace")?)?;
        loads.iter().map(|load| LogFigures::of(&events, self.database.is_log, load)).collect()
    }

    /// For a database that lives in its clients.
    fn alone(&self, clients: u32, transactions: u32) -> Result<LogFigures> {
        let strace = self.strace("load.trace");
        let load = self.load(clients, transactions, &strace)?;
        let events = trace::parse(&self.read("load.trace")?)?;
        LogFigures::of(&events, self.database.is_log, &load)
    }

    fn load(&self, clients: u32, transactions: u32, strace: &[OsString]) -> Result<TracedLoad> {
        let before = self.log_bytes();
        let begin = now();
        let mut most = before;
        // A log may disappear with its last client.
        let look = || most = most.max(self.log_bytes());
        let said = self.commit((clients, (transactions / clients).max(1)), "", strace, look)?;
        let time = begin..now();
        let log_bytes = [before, most.max(self.log_bytes())];
        Ok(TracedLoad { clients, commits: said.commits, time, log_bytes })
    }

    /// `clients` clients commit `each` times each.
    pub(crate) fn measure(&self, clients: u32, each: u32) -> Result<LoadReport> {
        self.commit((clients, each), "1", &[], || ())
    }

    fn commit(
        &self,
        (clients, each): (u32, u32),
        warm: &str,
        strace: &[OsString],
        mut look: impl FnMut(),
    ) -> Result<LoadReport> {
        let mut command = self.shell("load", self.database.load, strace)?;
        let numbers =
            [("CLIENTS", clients), ("EACH", each)].map(|(name, value)| (name, value.to_string()));
        command.envs(numbers).env("WARM", warm);
        let ended = ServerGroup::spawn(command)?.expect(LOAD_MAX, || {
            look();
            self.interrupt.check()
        });
        ended.with_context(|| self.tail("load"))?;
        let said = LoadReport::parse(&self.read("load.out")?).with_context(|| self.tail("load"))?;
        let wanted = u64::from(clients) * u64::from(each);
        let commits = said.commits;
        ensure!(commits == wanted, "of {wanted} transactions {commits} were committed");
        Ok(said)
    }

    /// The database's count of syncs, if it has one.
    pub(crate) fn syncs(&self) -> Result<Option<u64>> {
        let Some(text) = self.database.syncs else { return Ok(None) };
        self.step("syncs", text, 1, 1)?;
        let count = self.read("syncs.out")?.trim().parse().ok();
        count.with_context(|| self.tail("syncs")).map(Some)
    }

    /// Where it lives.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts it, until the returned group is dropped; `None` if it lives in its clients.
    pub(crate) fn serve(&self, strace: &[OsString]) -> Result<Option<ServerGroup>> {
        self.database.serve.map(|serve| self.start(serve, strace)).transpose()
    }

    fn start(&self, serve: Serve, strace: &[OsString]) -> Result<ServerGroup> {
        let command = self.shell("server", serve.start, strace)?;
        let mut server = ServerGroup::spawn(command)?;
        let deadline = Instant::now() + PATIENCE;
        while self.step("ready", serve.ready, 1, 1).is_err() {
            self.interrupt.check()?;
            if let Some(status) = server.child.try_wait()? {
                bail!("it did not start ({status}): {}", self.tail("server"));
            }
            ensure!(Instant::now() < deadline, "it takes no transactions: {}", self.tail("ready"));
            sleep(POLL);
        }
        Ok(server)
    }

    /// Runs a command of the table to its end.
    fn step(&self, name: &str, text: &str, clients: u32, each: u32) -> Result<()> {
        let mut command = self.shell(name, text, &[])?;
        command.env("CLIENTS", clients.to_string()).env("EACH", each.to_string());
        let ended = ServerGroup::spawn(command)?.expect(PATIENCE, || self.interrupt.check());
        ended.with_context(|| self.tail(name))
    }

    /// A command of the table, with its output in `name`.out and `name`.err.
    fn shell(&self, name: &str, text: &str, prefix: &[OsString]) -> Result<Command> {
        let folder = self.folder.path();
        let mut words = prefix.iter().cloned().chain(["sh", "-euc", text].map(OsString::from));
        let mut command = Command::new(words.next().context("no command")?);
        let user = self.user().map_or_else(String::new, |user| {
            format!("setpriv --reuid={user} --regid={user} --clear-groups")
        });
        command
            .args(words)
            .current_dir(folder)
            .envs([("PATH", self.search_path.as_os_str()), ("DIR", folder.as_os_str())])
            .envs([("AS", user.as_str()), ("LC_ALL", "C"), ("PERCENTILES", PERCENTILES)])
            .envs([("PORT", self.ports[0].to_string()), ("PEER_PORT", self.ports[1].to_string())])
            .stdin(Stdio::null())
            .stdout(File::create(folder.join(format!("{name}.out")))?)
            .stderr(File::create(folder.join(format!("{name}.err")))?);
        Ok(command)
    }

    fn strace(&self, file: &str) -> Vec<OsString> {
        let file = self.folder.path().join(file);
        let options = ["--seccomp-bpf", "-f", "-ttt", "-T", "-y", "-s", "0"];
        let mut words: Vec<OsString> = vec!["strace".into()];
        words.extend(options.map(OsString::from));
        words.extend(["-e", trace::CALLS, "-o"].map(OsString::from));
        words.push(file.into());
        words
    }

    /// Bytes of all files of the log that are there now.
    fn log_bytes(&self) -> u64 {
        bytes_below(self.folder.path(), self.database.is_log)
    }

    fn user(&self) -> Option<&'static str> {
        self.database.user.filter(|_| packages::is_root())
    }

    fn read(&self, file: &str) -> Result<String> {
        let bytes =
            fs::read(self.folder.path().join(file)).with_context(|| format!("no {file}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The end of a command's output, for an error.
    fn tail(&self, name: &str) -> String {
        let said = [format!("{name}.out"), format!("{name}.err")].map(|log| self.read(&log).ok());
        let said = said.into_iter().flatten().collect::<String>();
        let lines: Vec<_> = said.lines().collect();
        let last = lines.len().saturating_sub(8);
        format!("{} {name} says:\n{}", self.database.name, lines[last..].join("\n"))
    }
}

/// The version, as the database prints it.
pub(crate) fn version(database: &Database) -> Result<String> {
    let mut command = Command::new("sh");
    command.args(["-euc", database.version]).env("PATH", search_path());
    let output = command.output().context("cannot run sh")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && !text.trim().is_empty(), "it says no version");
    Ok(text.trim().to_owned())
}

/// The search path with PostgreSQL's programs, which Debian keeps apart by version.
pub(super) fn search_path() -> OsString {
    let mut path = OsString::new();
    if let Some(folder) = crate::bench::newest_postgresql() {
        path.push(folder);
        path.push(":");
    }
    path.push(packages::search_path());
    path
}

fn bytes_below(folder: &Path, is_log: fn(&str) -> bool) -> u64 {
    let mut sum = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // Files removed in the meantime have no bytes.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(it) if it.is_dir() => folders.push(entry.path()),
                Ok(it) if is_log(&entry.path().to_string_lossy()) => sum += it.len(),
                _ => {}
            }
        }
    }
    sum
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on the loopback")?;
    Ok(listener.local_addr()?.port())
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A process and its children; ended when dropped.
#[derive(Debug)]
pub(crate) struct ServerGroup {
    child: Child,
}

impl ServerGroup {
    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        let name = command.get_program().to_owned();
        let child = command.process_group(0).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot run {}", name.display()))? })
    }

    /// Waits for its end, which must be a success.
    fn expect(&mut self, patience: Duration, check: impl FnMut() -> Result<()>) -> Result<()> {
        let status = self.wait(patience, check)?.context("it takes too long")?;
        ensure!(status.success(), "it failed ({status})");
        Ok(())
    }

    /// Its first process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.kill(Signal::TERM);
        self.wait(PATIENCE, || Ok(()))?.context("it does not end")?;
        Ok(())
    }

    fn wait(
        &mut self,
        patience: Duration,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            check()?;
            sleep(POLL);
        }
        Ok(None)
    }

    fn kill(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // A process that has ended already cannot be killed.
        let _ = group.map(|group| kill_process_group(group, signal));
    }
}

impl Drop for ServerGroup {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // A server and its children release their resources on a request to end.
        self.kill(Signal::TERM);
        if matches!(self.wait(Duration::from_secs(10), || Ok(())), Ok(Some(_))) {
            return;
        }
        self.kill(Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::DATABASES;
    use super::*;

    fn scratch<'a>(
        database: &'a Database,
        interrupt: &'a Interrupt,
        at: &Path,
    ) -> Result<ScratchDatabase<'a>> {
        ScratchDatabase::new(database, at, interrupt)
    }

    /// A database without programs: a shell that writes.
    fn toy(serve: Option<Serve>, setup: &'static str) -> Database {
        Database { user: None, setup, serve, load: "echo commits 1", ..DATABASES[6] }
    }

    #[test]
    fn a_server_that_does_not_start_says_why_and_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::never();
        let serve = Serve { start: "echo the port is taken >&2; exit 1", ready: "false" };
        let database = toy(Some(serve), ":");
        let made = scratch(&database, &interrupt, parent.path()).unwrap();
        let error = made.start(serve, &[]).unwrap_err().to_string();
        assert!(error.contains("did not start") && error.contains("the port is taken"), "{error}");
        drop(made);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_setup_that_fails_is_an_error_with_its_words_and_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let database = toy(None, "echo no room >&2; false");
        let error = scratch(&database, &Interrupt::never(), parent.path()).unwrap_err();
        assert!(format!("{error:#}").contains("no room"), "{error:#}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_server_started_ends_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::never();
        let database = toy(None, ":");
        let made = scratch(&database, &interrupt, parent.path()).unwrap();
        let group =
            made.shell("server", "sleep 60 & echo $!; wait", &[]).and_then(ServerGroup::spawn);
        let group = group.unwrap();
        let child = loop {
            if let Ok(it) = made.read("server.out").unwrap().trim().parse::<u32>() {
                break it;
            }
            sleep(POLL);
        };
        drop(group);
        let state = fs::read_to_string(format!("/proc/{child}/stat"));
        assert!(state.is_err() || state.unwrap().contains(") Z "));
    }
}
