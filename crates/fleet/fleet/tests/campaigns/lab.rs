//! Hosts for tests: an sshd each, with its own machine-id, state folder and port. Nothing outside of
//! the lab's folder is written, and everything that a test started ends with the lab.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAMS: [&str; 5] = ["nats-server", "sshd", "ssh", "ssh-keygen", "unshare"];

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Two measured steps of this length.
pub(crate) fn spec(seconds: u32) -> String {
    format!(
        r#"
schema = 1
name = "tiny"
[[target]]
name = "data"
size = "4MiB"
[defaults]
block_size = "4KiB"
pattern = "random"
duration = "{seconds}s"
[[step]]
name = "read"
reads = "100%"
[[step]]
name = "commit"
reads = "0%"
sync = "fdatasync"
"#
    )
}

pub(crate) struct Lab {
    folder: TempDir,
    hosts: Vec<Host>,
}

struct Host {
    name: String,
    port: u16,
    sshd: Mutex<Child>,
}

/// A campaign under way, or what became of it.
pub(crate) struct Campaign {
    pub(crate) folder: PathBuf,
    process: Child,
    output: PathBuf,
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Lab {
    /// Hosts db1 and up; `None` if this machine cannot have them.
    pub(crate) fn new(hosts: usize) -> Option<Self> {
        Self::with(hosts, "")
    }

    /// The same, with further lines for each sshd.
    pub(crate) fn with(hosts: usize, lines: &str) -> Option<Self> {
        if !has_all() {
            return None;
        }
        // Paths of sockets are short.
        let folder = tempfile::Builder::new().prefix("dfl").tempdir().unwrap();
        let mut lab = Self { folder, hosts: Vec::new() };
        let at = |name: &str| lab.folder.path().join(name);
        for key in ["id", "hostkey"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at(key));
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(at("id.pub"), at("authorized_keys")).unwrap();
        fs::create_dir(at("bin")).unwrap();
        for (name, program) in [("durio", durio()), ("durio-fleet", fleet())] {
            std::os::unix::fs::symlink(program, at("bin").join(name)).unwrap();
        }
        fs::create_dir(at("data")).unwrap();
        let (mut config, mut known) = (String::new(), String::new());
        let hostkey = fs::read_to_string(at("hostkey.pub")).unwrap();
        for number in 1..=hosts {
            let (name, port) = (format!("db{number}"), free_port());
            config.push_str(&format!("Host {name}\n HostName 127.0.0.1\n Port {port}\n"));
            known.push_str(&format!("[127.0.0.1]:{port} {hostkey}"));
            lab.make_host(&name, port, lines);
            let sshd = Mutex::new(lab.start_sshd(&name, port));
            lab.hosts.push(Host { name, port, sshd });
        }
        let folder = lab.folder.path().display();
        config.push_str(&format!(
            "Host *\n User root\n IdentityFile {folder}/id\n IdentitiesOnly yes\n \
             UserKnownHostsFile {folder}/known\n GlobalKnownHostsFile none\n"
        ));
        fs::write(lab.path("ssh_config"), config).unwrap();
        fs::write(lab.path("known"), known).unwrap();
        Some(lab)
    }

    fn make_host(&self, name: &str, port: u16, lines: &str) {
        let home = self.path(name);
        fs::create_dir(&home).unwrap();
        let (folder, shown) = (self.folder.path().display(), home.display());
        let path = format!("{folder}/bin:/usr/bin:/bin");
        let path = if lines.contains("SetEnv") { "" } else { path.as_str() };
        let environment = match path {
            "" => String::new(),
            path => format!(
                "SetEnv PATH={path} HOME={shown} XDG_STATE_HOME={shown}/state TMPDIR={shown}\n"
            ),
        };
        let lines = lines.replace("HOME_OF_HOST", &shown.to_string());
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/hostkey\n\
             AuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPermitRootLogin prohibit-password\n{environment}{lines}\n"
        );
        fs::write(home.join("sshd_config"), config).unwrap();
        // Hosts of one machine have one id; without others the second one would be refused.
        fs::write(home.join("machine-id"), format!("{}\n", self.machine_id(name))).unwrap();
    }

    fn start_sshd(&self, name: &str, port: u16) -> Child {
        let home = self.path(name);
        let script = "mount --bind \"$1/machine-id\" /etc/machine-id && \
                      mount -t tmpfs tmpfs /run && mkdir /run/sshd && \
                      exec \"$2\" -D -e -f \"$1/sshd_config\"";
        let log = File::create(home.join("sshd.log")).unwrap();
        let sshd = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&home)
            .arg(program_path("sshd").unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        wait_until("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        sshd
    }

    /// Labs that run at the same time have other ones: a machine has one campaign at a time.
    pub(crate) fn machine_id(&self, host: &str) -> String {
        let lab = self.folder.path().file_name().unwrap().as_encoded_bytes();
        let bytes = host.bytes().chain(lab.iter().copied());
        bytes.cycle().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// durio-fleet of this build.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/durio-fleet"));
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("HOME", self.folder.path());
        command
    }

    /// Starts a campaign on all hosts, in the folder `campaign`.
    pub(crate) fn campaign(&self, seconds: u32, more: &[&str]) -> Campaign {
        fs::write(self.path("tiny.toml"), spec(seconds)).unwrap();
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let (hosts, target) = (hosts.join(","), format!("data={}", self.path("data").display()));
        let mut words = vec!["run", "tiny.toml", "--hosts", &hosts, "--target", &target];
        words.extend(["--ssh-config", "ssh_config", "--yes", "-o", "campaign"]);
        words.extend(more);
        // Other tests keep the disk and the processors busy.
        if !more.contains(&"--lost-after") {
            words.extend(["--lost-after", "10s"]);
        }
        self.start(&words)
    }

    pub(crate) fn start(&self, words: &[&str]) -> Campaign {
        let output = self.path(&format!("{}.out", words[0]));
        let mut command = self.command(words);
        let _ = fs::remove_file(&output);
        let open = || File::options().append(true).create(true).open(&output).unwrap();
        command.stdout(open()).stderr(open());
        let process = command.spawn().unwrap();
        Campaign { folder: self.path("campaign"), process, output }
    }

    /// Processes of a host whose command line has this part.
    pub(crate) fn processes(&self, host: &str, part: &str) -> Vec<Pid> {
        let mark = format!("XDG_STATE_HOME={}", self.path(host).join("state").display());
        let has = |pid: &str, file: &str, part: &str| {
            fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|text| String::from_utf8_lossy(&text).replace('\0', " ").contains(part))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let pids = pids.filter(|pid| has(pid, "environ", &mark) && has(pid, "cmdline", part));
        pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    pub(crate) fn kill(&self, host: &str, part: &str) {
        let found = self.processes(host, part);
        assert!(!found.is_empty(), "no {part} on {host}");
        found.into_iter().for_each(|pid| {
            let _ = kill_process(pid, Signal::KILL);
        });
    }

    /// Ends a host's sshd: it cannot be reached any more.
    pub(crate) fn close(&self, host: &str) {
        end(&mut self.host(host).sshd.lock().unwrap());
    }

    /// Starts it again.
    pub(crate) fn open(&self, host: &str) {
        let host = self.host(host);
        *host.sshd.lock().unwrap() = self.start_sshd(&host.name, host.port);
    }

    /// At which its sshd listens.
    pub(crate) fn port(&self, host: &str) -> u16 {
        self.host(host).port
    }

    fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|known| known.name == name).unwrap()
    }

    /// What is left of campaigns on a host.
    pub(crate) fn leftovers(&self, host: &str) -> Vec<String> {
        let fleet = self.path(host).join("state/durio/fleet");
        let Ok(entries) = fs::read_dir(fleet) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
        let mut names: Vec<String> =
            names.filter(|name| name != "lock" && name != "ended-campaigns").collect();
        names.sort();
        names
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.hosts {
            end(&mut host.sshd.lock().unwrap());
        }
        for host in &self.hosts {
            for pid in self.processes(&host.name, "") {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Campaign {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn wait(mut self) -> Ended {
        let until = Instant::now() + PATIENCE + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return Ended { code: status.code(), said: self.said() };
            }
            assert!(Instant::now() < until, "does not end: {}", self.said());
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Waits until a host is in a state, as the record has it.
    pub(crate) fn await_state(&self, host: &str, state: &str) {
        wait_until(&format!("{host} is {state}: {}", self.said()), || {
            self.changes().iter().any(|change| change["host"] == host && change["state"] == state)
        });
    }

    pub(crate) fn changes(&self) -> Vec<Value> {
        lines(&self.folder.join("hosts.jsonl"))
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(self, code: i32, part: &str) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.said);
        assert!(self.said.contains(part), "no '{part}' in {}", self.said);
        self
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The states of a host, in their order.
pub(crate) fn states(folder: &Path, host: &str) -> Vec<String> {
    let changes = lines(&folder.join("hosts.jsonl"));
    let of_host = changes.iter().filter(|change| change["host"] == host);
    of_host.map(|change| change["state"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn events(folder: &Path, name: &str) -> Vec<Value> {
    let mut events = lines(&folder.join("events.jsonl"));
    events.retain(|event| event["event"] == name);
    events
}

/// The run folders of a host.
pub(crate) fn runs(folder: &Path, host: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("hosts").join(host)) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn fleet() -> PathBuf {
    env!("CARGO_BIN_EXE_durio-fleet").into()
}

fn durio() -> PathBuf {
    fleet().with_file_name("durio")
}

fn has_all() -> bool {
    let missing = env::var("DURIO_TEST_MISSING").unwrap_or_default();
    let is_missing = |program: &&str| {
        missing.split(',').any(|name| name.trim() == *program) || program_path(program).is_none()
    };
    let lacking = PROGRAMS.iter().find(|program| is_missing(program));
    let reason = if let Some(program) = lacking {
        format!("{program} is missing")
    } else if !rustix::process::geteuid().is_root() {
        "only root may do this".to_owned()
    } else if !durio().is_file() {
        "durio was not built".to_owned()
    } else {
        return true;
    };
    skip(&reason);
    false
}

pub(crate) fn program_path(program: &str) -> Option<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    let folders = format!("{path}:/usr/sbin:/sbin");
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Reports the running test as skipped: one line, in one call, so that parallel tests do not mix.
fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("campaigns::{}: {reason}\n", thread.name().unwrap_or("unknown"));
    // Not by eprintln, which libtest swallows in a test that passes.
    std::io::stderr().write_all(format!("SKIPPED {line}").as_bytes()).unwrap();
    if let Some(path) = env::var_os("DURIO_TEST_SKIPS") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
