//! The settings of a database server that runs here: asked over its socket by the database's own
//! client, else read from its configuration files. Nothing is written, and only the server's user
//! and root ask.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use durio_base::Bytes;
use durio_block::read_bounded;
use durio_command::CommandError;
use durio_judge::advise::{DatabaseSetting, DatabaseSettings, settings_read};
use durio_observe::{RunningProgram, running_programs};
use rustix::process::geteuid;

use super::text_of;

/// Databases whose servers are found, and the names of their programs.
const SERVERS: [(&str, &[&str]); 3] = [
    ("postgresql", &["postgres", "postmaster"]),
    ("mysql", &["mysqld", "mariadbd"]),
    ("mariadb", &["mariadbd", "mysqld"]),
];

/// PostgreSQL's documented defaults on Linux that all supported releases share.
const POSTGRESQL_DEFAULTS: [(&str, &str); 8] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("wal_sync_method", "fdatasync"),
    ("commit_delay", "0"),
    ("random_page_cost", "4"),
    ("wal_init_zero", "on"),
    ("wal_recycle", "on"),
];

const MYSQL_FILES: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/etc/mysql/mariadb.cnf"];
const MYSQL_SOCKETS: [&str; 3] =
    ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

/// Files may include each other.
const FILES_MAX: usize = 64;

/// A server that does not answer in this time is not waited for.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Below the size of a pipe, so that a client never waits for its reader.
const ANSWER_BYTES_MAX: Bytes = Bytes::from_kib(60);

/// The settings that were read, and where from in words.
#[derive(Debug, Default)]
pub(super) struct ServerSettings {
    pub(super) settings: DatabaseSettings,
    /// `None` if no such server runs here.
    pub(super) origin: Option<String>,
}

/// A server, its data directory and the options that it was started with.
struct DatabaseServer {
    program: RunningProgram,
    directory: PathBuf,
    options: Vec<(String, String)>,
}

/// Reads the settings of the server of `database`: the only one, or the one whose data directory is
/// at `place`.
///
/// # Errors
/// If the rules cannot be read.
pub(super) fn read_settings(database: &str, place: &Path) -> Result<ServerSettings, CommandError> {
    let known = SERVERS.iter().find(|(name, _)| *name == database);
    let servers: Vec<DatabaseServer> = known.map(|(_, names)| servers(names)).unwrap_or_default();
    let said = |origin: String| {
        let settings = DatabaseSettings::default();
        Ok(ServerSettings { settings, origin: Some(origin) })
    };
    let count = servers.len();
    let Some(server) = chosen(servers, place) else {
        return match count {
            0 => Ok(ServerSettings::default()),
            _ => said(format!(
                "{count} servers of {database} run here; name the data directory of one"
            )),
        };
    };
    let name = format!("{database} (process {})", server.program.process);
    let me = geteuid();
    if !me.is_root() && me.as_raw() != server.program.user {
        return said(format!("{name} runs as another user: run durio as that user or root"));
    }
    let mut files = ConfigFiles::default();
    let mut settings = files.settings(database, &server);
    let asked = ask(database, &server, &settings, &settings_read(database)?);
    let origin = match asked {
        Ok((client, asked)) => {
            settings.from_file = asked;
            format!("{name}: settings in effect, queried by {client}")
        }
        Err(why) => {
            if database == "postgresql" && files.unread.is_empty() {
                let defaults = POSTGRESQL_DEFAULTS.map(|(name, value)| {
                    setting(name, value, "PostgreSQL's default; no file sets it")
                });
                // Later ones take the place of earlier ones.
                settings.from_file.splice(0..0, defaults).for_each(drop);
            }
            files.described(&name, &why)
        }
    };
    if database == "postgresql" {
        let file = server.directory.join("PG_VERSION");
        let version = text_of(&file).unwrap_or_default();
        let place = file.display().to_string();
        settings.from_file.push(setting("server_version", version.trim(), &place));
    }
    Ok(ServerSettings { settings, origin: Some(origin) })
}

fn setting(name: &str, value: &str, place: &str) -> DatabaseSetting {
    let [name, value, place] = [name, value, place].map(str::to_owned);
    DatabaseSetting { name, value, place }
}

fn servers(names: &[&str]) -> Vec<DatabaseServer> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let own = namespace("self");
    // A file in another mount namespace, as of a container, has another meaning here.
    let is_here = |program: &RunningProgram| {
        namespace(&program.process.to_string()).is_none_or(|other| Some(other) == own)
    };
    // A worker of PostgreSQL calls itself `postgres: checkpointer`.
    let is_main = |program: &RunningProgram| {
        program.arguments.first().is_some_and(|first| !first.contains(": "))
    };
    let server = |program: RunningProgram| {
        let options = options(&program.arguments);
        let named = value_of(&options, &["data_directory", "datadir"]).map(PathBuf::from);
        // Both change to their data directory when they start.
        let directory = program.directory.clone().or(named).unwrap_or_default();
        DatabaseServer { program, directory, options }
    };
    let running = running_programs(names).into_iter();
    running.filter(|program| is_main(program) && is_here(program)).map(server).collect()
}

/// The options `-c NAME=VALUE`, `--NAME=VALUE` and `-D DIRECTORY`.
fn options(arguments: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let pair = match argument.as_str() {
            "-c" => rest.next().and_then(|text| text.split_once('=')),
            "-D" | "--pgdata" => rest.next().map(|text| ("data_directory", text.as_str())),
            text => match (text.strip_prefix("--"), text.strip_prefix("-D")) {
                (Some(text), _) => text.split_once('='),
                (None, Some(directory)) => Some(("data_directory", directory)),
                (None, None) => None,
            },
        };
        found.extend(pair.map(|(name, value)| (name.replace('-', "_"), value.to_owned())));
    }
    found
}

fn value_of<'a>(options: &'a [(String, String)], names: &[&str]) -> Option<&'a str> {
    let named = options.iter().rev().find(|(name, _)| names.contains(&name.as_str()));
    named.map(|(_, value)| value.as_str())
}

fn chosen(mut servers: Vec<DatabaseServer>, place: &Path) -> Option<DatabaseServer> {
    if servers.len() > 1 {
        let place = fs::canonicalize(place).ok()?;
        servers.retain(|server| {
            server.directory.starts_with(&place) || place.starts_with(&server.directory)
        });
    }
    let only = servers.pop()?;
    servers.is_empty().then_some(only)
}

/// The configuration files of a server.
#[derive(Default)]
struct ConfigFiles {
    read: Vec<String>,
    unread: Vec<String>,
}

impl ConfigFiles {
    fn settings(&mut self, database: &str, server: &DatabaseServer) -> DatabaseSettings {
        let mut settings = DatabaseSettings::default();
        let named = value_of(&server.options, &["config_file", "defaults_file"]).map(PathBuf::from);
        let main: Vec<PathBuf> = match (named, database) {
            (Some(named), "postgresql") => {
                vec![named, server.directory.join("postgresql.auto.conf")]
            }
            (None, "postgresql") => ["postgresql.conf", "postgresql.auto.conf"]
                .map(|name| server.directory.join(name))
                .to_vec(),
            (Some(named), _) => vec![named],
            (None, _) => MYSQL_FILES.map(PathBuf::from).to_vec(),
        };
        for path in main {
            // Files of MySQL and MariaDB may be links to each other.
            let is_new = !self.read.contains(&path.display().to_string());
            if let Some((name, text)) = is_new.then(|| self.text(&path)).flatten() {
                settings.read_including(&name, &text, &mut |file, directive, value| {
                    self.included(file, directive, value)
                });
            }
        }
        let place = format!("the command line of process {}", server.program.process);
        let given = server.options.iter().map(|(name, value)| setting(name, value, &place));
        settings.from_file.extend(given);
        settings
    }

    /// The files that a line of `file` includes.
    fn included(&mut self, file: &str, directive: &str, value: &str) -> Vec<(String, String)> {
        let path = Path::new(file).parent().unwrap_or(Path::new("/")).join(value);
        let paths = match directive {
            "include" | "include_if_exists" | "!include" => vec![path],
            "include_dir" | "!includedir" => files_of(&path),
            _ => return Vec::new(),
        };
        paths.iter().filter_map(|path| self.text(path)).collect()
    }

    /// The name and the text of a file that is there.
    fn text(&mut self, path: &Path) -> Option<(String, String)> {
        let name = path.display().to_string();
        let is_missing =
            fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if is_missing || self.read.len() >= FILES_MAX {
            return None;
        }
        match text_of(path) {
            Ok(text) => {
                self.read.push(name.clone());
                Some((name, text))
            }
            Err(_) => {
                self.unread.push(name);
                None
            }
        }
    }

    fn described(&self, name: &str, why: &str) -> String {
        let read = match self.read.as_slice() {
            [] => "no configuration file could be read".to_owned(),
            files => format!("settings of {}", files.join(", ")),
        };
        let unread = match self.unread.as_slice() {
            [] => String::new(),
            files => format!("; cannot read {}", files.join(", ")),
        };
        format!("{name}: {read}{unread} ({why})")
    }
}

/// The files of a directory that both databases include, in order of their names.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "conf" || ending == "cnf"))
        .filter(|path| {
            !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
        })
        .collect();
    paths.sort();
    paths
}

/// The client that was asked, and the settings in effect; else why not.
fn ask(
    database: &str,
    server: &DatabaseServer,
    known: &DatabaseSettings,
    wanted: &[&str],
) -> Result<(&'static str, Vec<DatabaseSetting>), String> {
    if database == "postgresql" {
        let answer = answer_of(postgresql_question(server, wanted)?, "psql")?;
        return Ok(("psql", rows(&answer, "SHOW")));
    }
    let socket = mysql_socket(server, known).ok_or("its socket was not found")?;
    let mut why = String::new();
    for client in ["mariadb", "mysql"] {
        match answer_of(mysql_question(client, socket, wanted), client) {
            Ok(answer) => return Ok((client, rows(&answer, "SHOW GLOBAL VARIABLES"))),
            Err(reason) => why = reason,
        }
    }
    Err(why)
}

/// That of its command line, of its files, or the first usual one that is there.
fn mysql_socket<'a>(server: &'a DatabaseServer, known: &'a DatabaseSettings) -> Option<&'a str> {
    let in_files = known.from_file.iter().rev().find(|setting| setting.name == "socket");
    let named = value_of(&server.options, &["socket"]).or(in_files.map(|set| set.value.as_str()));
    named.or_else(|| MYSQL_SOCKETS.into_iter().find(|path| Path::new(path).exists()))
}

fn mysql_question(client: &str, socket: &str, wanted: &[&str]) -> Command {
    let mut command = quiet(client);
    command
        .args(["--no-defaults", "--batch", "--skip-column-names", "--connect-timeout=3"])
        .arg(format!("--socket={socket}"))
        .arg(format!(
            "--execute=SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})",
            quoted(wanted)
        ));
    command
}

fn postgresql_question(server: &DatabaseServer, wanted: &[&str]) -> Result<Command, String> {
    let status = text_of(&server.directory.join("postmaster.pid"))
        .map_err(|_| "its postmaster.pid cannot be read".to_owned())?;
    let lines: Vec<&str> = status.lines().map(str::trim).collect();
    let (Some(port), Some(socket)) = (lines.get(3), lines.get(4)) else {
        return Err("its postmaster.pid has no socket".to_owned());
    };
    if socket.is_empty() {
        return Err("it has no socket".to_owned());
    }
    let mut command = quiet("psql");
    command
        .env("PGCONNECT_TIMEOUT", "3")
        .env("PGOPTIONS", "-c default_transaction_read_only=on -c statement_timeout=3000")
        .args(["-X", "-A", "-t", "-q", "-w", "-F", "\t", "--dbname=postgres"])
        .arg(format!("--host={socket}"))
        .arg(format!("--port={port}"))
        .arg(format!(
            "--command=SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({}) \
             AND name <> 'server_version'",
            quoted(wanted)
        ));
    // PostgreSQL lets its own user in without a password, and knows no root.
    if geteuid().is_root() {
        command.uid(server.program.user).gid(server.program.group);
    }
    Ok(command)
}

/// A client that gets nothing of durio's environment but where programs are.
fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Names of settings, which are those of durio's rules.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn answer_of(mut command: Command, client: &str) -> Result<String, String> {
    let started = command.spawn();
    let mut child = started.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{client} is not installed"),
        _ => format!("{client} does not start: {error}"),
    })?;
    let until = Instant::now() + ANSWER_MAX;
    let ended = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            Ok(Some(status)) => break status,
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{client} did not answer in {} s", ANSWER_MAX.as_secs()));
            }
        }
    };
    let bytes = child.stdout.take().and_then(|stdout| read_bounded(stdout, ANSWER_BYTES_MAX).ok());
    match bytes {
        Some(bytes) if ended.success() => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Err(format!("{client} could not ask it")),
    }
}

fn rows(answer: &str, place: &str) -> Vec<DatabaseSetting> {
    let pairs = answer.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(name, value)| setting(name, value.trim(), place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn server(directory: &Path, options: &[(&str, &str)]) -> DatabaseServer {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let program = RunningProgram {
            process: 812,
            user: 26,
            group: 26,
            arguments: Vec::new(),
            directory: None,
        };
        let options = options.iter().map(owned).collect();
        DatabaseServer { program, directory: directory.to_owned(), options }
    }

    #[test]
    fn options_of_a_command_line_are_found_in_each_of_their_spellings() {
        let line = texts(&[
            "/usr/bin/postgres",
            "-D",
            "/data/a",
            "-c",
            "config_file=/etc/a.conf",
            "--commit-delay=100",
            "-F",
        ]);
        let found = options(&line);
        assert_eq!(value_of(&found, &["data_directory"]), Some("/data/a"));
        assert_eq!(value_of(&found, &["config_file"]), Some("/etc/a.conf"));
        assert_eq!(value_of(&found, &["commit_delay"]), Some("100"));
        assert_eq!(found.len(), 3);
        let joined = options(&texts(&["postgres", "-D/data/b"]));
        assert_eq!(value_of(&joined, &["data_directory", "datadir"]), Some("/data/b"));
    }

    #[test]
    fn the_server_at_the_path_is_chosen_and_of_several_others_none() {
        let at = |places: &[&str]| -> Vec<DatabaseServer> {
            places.iter().map(|place| server(Path::new(place), &[])).collect()
        };
        let found =
            |places: &[&str]| chosen(at(places), Path::new("/proc")).map(|server| server.directory);
        assert_eq!(found(&["/srv/db"]), Some(PathBuf::from("/srv/db")));
        assert_eq!(found(&["/srv/a", "/proc/b"]), Some(PathBuf::from("/proc/b")));
        assert_eq!(found(&["/srv/a", "/srv/b"]), None);
        assert_eq!(found(&["/proc/a", "/proc/b"]), None);
    }

    #[test]
    fn included_files_count_where_they_are_included_and_the_last_value_wins() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("conf.d")).unwrap();
        write("postgresql.conf", "fsync = off\ninclude_dir = 'conf.d'\ncommit_delay = 5\n");
        write("conf.d/20-b.conf", "fsync = on\n");
        write("conf.d/10-a.conf", "commit_delay = 7\nfsync = off\n");
        write("conf.d/note.txt", "fsync = off\n");
        write("postgresql.auto.conf", "commit_delay = '9'\n");
        let mut files = ConfigFiles::default();
        let server = server(folder.path(), &[("wal_recycle", "off")]);
        let settings = files.settings("postgresql", &server);
        let last = |name: &str| {
            let found = settings.from_file.iter().rev().find(|setting| setting.name == name);
            found.map(|setting| (setting.value.as_str(), setting.place.clone())).unwrap()
        };
        let place = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(last("fsync"), ("on", format!("{}:1", place("conf.d/20-b.conf"))));
        assert_eq!(last("commit_delay"), ("9", format!("{}:1", place("postgresql.auto.conf"))));
        assert_eq!(last("wal_recycle"), ("off", "the command line of process 812".to_owned()));
        assert_eq!((files.read.len(), files.unread.len()), (4, 0));
        let said = files.described("postgresql (process 812)", "psql is not installed");
        assert!(said.ends_with("(psql is not installed)"), "{said}");
    }

    #[test]
    fn files_that_include_themselves_end() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("postgresql.conf"), "include 'postgresql.conf'\n").unwrap();
        let mut files = ConfigFiles::default();
        files.settings("postgresql", &server(folder.path(), &[]));
        assert_eq!(files.read.len(), FILES_MAX);
    }

    fn given(command: &Command) -> Vec<&str> {
        command.get_args().map(|argument| argument.to_str().unwrap()).collect()
    }

    #[test]
    fn postgresql_is_asked_read_only_for_what_rules_read_at_the_socket_of_its_pid_file() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(folder.path(), &[]);
        let wanted = settings_read("postgresql").unwrap();
        let ask = || postgresql_question(&server, &wanted);
        assert_eq!(ask().unwrap_err(), "its postmaster.pid cannot be read");
        let pid_file = |text: &str| fs::write(folder.path().join("postmaster.pid"), text).unwrap();
        pid_file("812\n/data\n1700000000\n5433\n");
        assert_eq!(ask().unwrap_err(), "its postmaster.pid has no socket");
        pid_file("812\n/data\n1700000000\n5433\n\nlocalhost\n");
        assert_eq!(ask().unwrap_err(), "it has no socket");
        pid_file("812\n/data\n1700000000\n5433\n/run/pg\nlocalhost\n");
        let command = ask().unwrap();
        assert_eq!(command.get_program(), "psql");
        let question = "--command=SELECT name, current_setting(name) FROM pg_settings WHERE name \
                        IN ('commit_delay', 'commit_siblings', 'effective_io_concurrency', \
                        'fsync', 'full_page_writes', 'io_method', 'maintenance_io_concurrency', \
                        'random_page_cost', 'seq_page_cost', 'server_version', \
                        'synchronous_commit', 'wal_init_zero', 'wal_recycle', \
                        'wal_sync_method') AND name <> 'server_version'";
        assert_eq!(
            given(&command),
            [
                "-X",
                "-A",
                "-t",
                "-q",
                "-w",
                "-F",
                "\t",
                "--dbname=postgres",
                "--host=/run/pg",
                "--port=5433",
                question,
            ]
        );
        let environment: Vec<(&str, &str)> = command
            .get_envs()
            .filter(|(name, _)| *name != "PATH")
            .map(|(name, value)| (name.to_str().unwrap(), value.unwrap().to_str().unwrap()))
            .collect();
        let options = "-c default_transaction_read_only=on -c statement_timeout=3000";
        assert_eq!(environment, [("PGCONNECT_TIMEOUT", "3"), ("PGOPTIONS", options)]);
    }

    #[test]
    fn mysql_and_mariadb_are_asked_the_same_for_what_rules_read() {
        let question = "--execute=SHOW GLOBAL VARIABLES WHERE Variable_name IN \
                        ('binlog_group_commit_sync_delay', 'innodb_doublewrite', \
                        'innodb_flush_log_at_trx_commit', 'innodb_flush_method', \
                        'innodb_io_capacity', 'innodb_io_capacity_max', \
                        'innodb_log_write_ahead_size', 'sync_binlog')";
        for (client, database) in [("mysql", "mysql"), ("mariadb", "mariadb")] {
            let wanted = settings_read(database).unwrap();
            let command = mysql_question(client, "/run/a.sock", &wanted);
            assert_eq!(command.get_program(), client);
            assert_eq!(
                given(&command),
                [
                    "--no-defaults",
                    "--batch",
                    "--skip-column-names",
                    "--connect-timeout=3",
                    "--socket=/run/a.sock",
                    question,
                ]
            );
        }
    }

    #[test]
    fn the_socket_of_the_command_line_comes_before_the_last_of_the_files() {
        let mut known = DatabaseSettings::default();
        known.read_file("my.cnf", "[mysqld]\nsocket = /a.sock\nsocket = /b.sock\n");
        let plain = server(Path::new("/data"), &[]);
        assert_eq!(mysql_socket(&plain, &known), Some("/b.sock"));
        let started = server(Path::new("/data"), &[("socket", "/c.sock"), ("port", "3307")]);
        assert_eq!(mysql_socket(&started, &known), Some("/c.sock"));
    }

    #[test]
    fn an_answer_is_read_by_name_and_value() {
        let found = rows("fsync\ton\ncommit_delay\t10ms\nnonsense\n", "SHOW");
        let pairs: Vec<_> =
            found.iter().map(|set| (set.name.as_str(), set.value.as_str())).collect();
        assert_eq!(pairs, [("fsync", "on"), ("commit_delay", "10ms")]);
    }

    #[test]
    fn a_client_that_is_not_installed_is_named() {
        let why = answer_of(quiet("durio-no-such-client"), "psql").unwrap_err();
        assert_eq!(why, "psql is not installed");
        assert_eq!(answer_of(quiet("false"), "psql").unwrap_err(), "psql could not ask it");
    }
}
