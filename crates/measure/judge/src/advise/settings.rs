//! A database's settings, as a user, a server that runs or its configuration files give them.
//!
//! The caller reads the files and asks the server. Files are read simply: `name = value`,
//! `name value` or `name: value`, `#` and `;` start comments, the last of several counts. In files
//! with sections only the server's count. Settings missing in a file are unknown: defaults differ
//! by version.

use super::facts::{AdviceError, Catalogue, Facts};

// Sections of my.cnf that a server reads; those of clients have settings of the same names.
const SERVER_SECTIONS: [&str; 4] = ["mysqld", "server", "mariadb", "mariadbd"];

// A larger file is not a configuration.
const LINES_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSetting {
    /// As the database calls it.
    pub name: String,
    /// As the file has it.
    pub value: String,
    /// The option or the file and line that gave it.
    pub place: String,
}

/// All settings that are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatabaseSettings {
    /// Named by the user: each must be one that a rule reads.
    pub given: Vec<DatabaseSetting>,
    /// From files or the server, a later one in place of an earlier one; those that no rule reads
    /// are passed over.
    pub from_file: Vec<DatabaseSetting>,
}

/// The files, by name and text, that a line of a file includes: by the file's name, the directive
/// and its value.
pub type IncludedFiles<'a> = &'a mut dyn FnMut(&str, &str, &str) -> Vec<(String, String)>;

impl DatabaseSettings {
    /// Takes the settings of a configuration file whose name is `file`.
    pub fn read_file(&mut self, file: &str, text: &str) {
        self.read_including(file, text, &mut |_, _, _| Vec::new());
    }

    /// The same, with the files that it includes.
    pub fn read_including(&mut self, file: &str, text: &str, included: IncludedFiles<'_>) {
        // Lines before the first section count: postgresql.conf has no sections.
        let mut counts = true;
        for (number, line) in text.lines().take(LINES_MAX).enumerate() {
            let line = line.trim();
            if let Some(section) = line.strip_prefix('[') {
                let section = section.trim_end_matches(']').trim();
                counts = is_of_server(section);
                continue;
            }
            let Some((name, value)) = setting(line) else { continue };
            if name.trim_start_matches('!').starts_with("include") {
                for (file, text) in included(file, &name, &value) {
                    self.read_including(&file, &text, included);
                }
            } else if counts {
                let place = format!("{file}:{}", number + 1);
                self.from_file.push(DatabaseSetting { name, value, place });
            }
        }
    }

    /// The settings as facts of `database`.
    pub(super) fn facts(
        &self,
        catalogue: &Catalogue,
        database: Option<&str>,
    ) -> Result<Facts, AdviceError> {
        let group = database.and_then(|name| catalogue.settings_of(name));
        let mut facts = Facts::default();
        for setting in &self.from_file {
            if let Some(name) = fact_name(catalogue, group, &setting.name) {
                facts.read(catalogue, &name, &setting.value, &setting.place);
            }
        }
        // After the file, so that a setting named by the user takes the place of the file's; and what
        // the user names has to exist, while a file has many settings that no rule reads.
        for setting in &self.given {
            let name = fact_name(catalogue, group, &setting.name)
                .ok_or_else(|| unknown(catalogue, group, &setting.name))?;
            facts.read(catalogue, &name, &setting.value, &setting.place);
            if let Some(Err(reason)) = facts.get(&name).map(|fact| &fact.value) {
                let (name, reason) = (setting.name.clone(), reason.clone());
                return Err(AdviceError::BadSetting { name, reason });
            }
        }
        Ok(facts)
    }
}

/// The fact that a setting is.
fn fact_name(catalogue: &Catalogue, group: Option<&str>, name: &str) -> Option<String> {
    let of_group = |name: &str| group.map(|group| format!("{group}.{name}"));
    let known = |name: &String| catalogue.kind(name).is_some();
    let zfs = name.starts_with("zfs.").then(|| name.to_owned());
    // `zfs.recordsize` is a fact by itself, and my.cnf writes names with dashes too.
    let spellings = [of_group(name), of_group(&name.replace('-', "_")), zfs];
    spellings.into_iter().flatten().find(known)
}

fn unknown(catalogue: &Catalogue, group: Option<&str>, name: &str) -> AdviceError {
    // As the user would write them: without the prefix of the database.
    let prefix = group.map(|group| format!("{group}.")).unwrap_or_default();
    let known = catalogue.names().filter_map(|fact| {
        fact.strip_prefix(&prefix).filter(|_| !prefix.is_empty()).or(Some(fact))
    });
    AdviceError::unknown("no rule reads the setting", name, known)
}

// A server also reads groups of its version, such as [mysqld-8.0]; [mysqldump] and [mysqld_safe]
// belong to other programs.
fn is_of_server(section: &str) -> bool {
    let mut rests = SERVER_SECTIONS.iter().filter_map(|known| section.strip_prefix(known));
    rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The setting of a line; `None` for a comment.
fn setting(line: &str) -> Option<(String, String)> {
    let line = without_comment(line);
    let end = line.find(['=', ':', ' ', '\t']).unwrap_or(line.len());
    let (name, value) = line.split_at(end);
    let value = value.trim_start().trim_start_matches(['=', ':']).trim();
    // PostgreSQL quotes with ', Redis with ".
    let value = value.trim_matches(['\'', '"']);
    // A name alone switches something on.
    let value = if value.is_empty() { "on" } else { value };
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// The line up to a comment sign that is not in quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = None;
    for (at, c) in line.char_indices() {
        match (quoted, c) {
            (None, '\'' | '"') => quoted = Some(c),
            (Some(open), c) if open == c => quoted = None,
            (None, '#' | ';') => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(database: &str, file: &str) -> Facts {
        let mut settings = DatabaseSettings::default();
        settings.read_file("x.conf", file);
        settings.facts(Catalogue::shipped().unwrap(), Some(database)).unwrap()
    }

    fn setting(name: &str, value: &str, place: &str) -> DatabaseSetting {
        DatabaseSetting { name: name.into(), value: value.into(), place: place.into() }
    }

    const POSTGRESQL: &str = "# commit_delay = 9\ncommit_delay = 10ms   # a comment\n\
                              wal_sync_method 'open_datasync'\nfsync = off\nfsync = on\nfuture = '#x'\n";

    const MY_CNF: &str =
        "[client]\nsync_binlog = 7\n[mysqld]\ninnodb-io-capacity=2K\nsync-binlog=1\n";

    /// Files, and the value and the line of a setting in them; none where its unit is wrong.
    const FILES: [(&str, &str, &str, Option<&str>, u32); 7] = [
        ("postgresql", POSTGRESQL, "postgresql.commit_delay", Some("10 ms"), 2),
        ("postgresql", POSTGRESQL, "postgresql.wal_sync_method", Some("open_datasync"), 3),
        ("postgresql", POSTGRESQL, "postgresql.fsync", Some("on"), 5),
        ("mariadb", MY_CNF, "mysql.sync_binlog", Some("1"), 5),
        ("mariadb", MY_CNF, "mysql.innodb_io_capacity", None, 4),
        ("redis", "appendfsync everysec\n", "redis.appendfsync", Some("everysec"), 1),
        (
            "scylladb",
            "commitlog_use_o_dsync: false\n",
            "scylladb.commitlog_use_o_dsync",
            Some("off"),
            1,
        ),
    ];

    #[test]
    fn files_are_read_with_comments_quotes_units_and_sections() {
        for (database, text, name, shown, line) in FILES {
            let facts = facts(database, text);
            let fact = facts.get(name).unwrap_or_else(|| panic!("{name}: {facts:?}"));
            let value = fact.value.as_ref().ok().map(ToString::to_string);
            let expected = (shown, format!("x.conf:{line}"));
            assert_eq!((value.as_deref(), fact.place.clone()), expected, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_included_counts_at_its_place_and_begins_without_a_section() {
        let mut settings = DatabaseSettings::default();
        let text = "[mysqld]\nsync_binlog = 1\n!includedir conf.d\ninnodb_io_capacity = 300\n\
                    [client]\n!include last.cnf\nsync_binlog = 9\n";
        let mut asked = Vec::new();
        settings.read_including("my.cnf", text, &mut |file, directive, value| {
            asked.push(format!("{file} {directive} {value}"));
            let text = match value {
                "conf.d" => "[mysqld]\nsync_binlog = 5\ninnodb_io_capacity = 200\n",
                _ => "[mysqld]\nsync_binlog = 7\n",
            };
            vec![(format!("{value}/x"), text.to_owned())]
        });
        assert_eq!(asked, ["my.cnf !includedir conf.d", "my.cnf !include last.cnf"]);
        let facts = settings.facts(Catalogue::shipped().unwrap(), Some("mysql")).unwrap();
        assert_eq!(facts.number("mysql.innodb_io_capacity"), Some(300.0));
        let binlog = facts.get("mysql.sync_binlog").unwrap();
        assert_eq!((binlog.text.as_str(), binlog.place.as_str()), ("7", "last.cnf/x:2"));
    }

    #[test]
    fn groups_of_a_servers_version_count_and_those_of_programs_with_like_names_do_not() {
        let servers = ["mysqld-8.0", "server", "mariadb-11.4", "mariadbd", "mariadbd-10.11"];
        let others = ["mysqldump", "mysqld_safe", "mysqld_multi", "mariadb_safe", "mysql"];
        for (groups, value) in [(servers, 100.0), (others, 1.0)] {
            for group in groups {
                let text = format!("[mysqld]\nsync_binlog = 1\n[{group}]\nsync_binlog = 100\n");
                let found = facts("mysql", &text).number("mysql.sync_binlog");
                assert_eq!(found, Some(value), "{group}");
            }
        }
    }

    /// Answers of servers, and what they say in the unit of the setting.
    const ANSWERS: [(&str, &str, &str, &str, Option<f64>); 26] = [
        // PostgreSQL, as SHOW prints it: microseconds without a unit.
        ("postgresql", "commit_delay", "0", "0 ns", Some(0.0)),
        ("postgresql", "commit_delay", "1500", "1.5 ms", Some(1.5e6)),
        ("postgresql", "commit_siblings", "5", "5", Some(5.0)),
        ("postgresql", "effective_io_concurrency", "16", "16", Some(16.0)),
        ("postgresql", "fsync", "on", "on", None),
        ("postgresql", "full_page_writes", "off", "off", None),
        ("postgresql", "io_method", "io_uring", "io_uring", None),
        ("postgresql", "maintenance_io_concurrency", "10", "10", Some(10.0)),
        ("postgresql", "random_page_cost", "1.1", "1.1", Some(1.1)),
        ("postgresql", "seq_page_cost", "1", "1", Some(1.0)),
        ("postgresql", "server_version", "17", "17", Some(17.0)),
        ("postgresql", "synchronous_commit", "remote_apply", "remote_apply", None),
        ("postgresql", "wal_init_zero", "on", "on", None),
        ("postgresql", "wal_recycle", "off", "off", None),
        ("postgresql", "wal_sync_method", "open_datasync", "open_datasync", None),
        // MySQL and MariaDB: microseconds and bytes without a unit.
        ("mysql", "binlog_group_commit_sync_delay", "250", "250 µs", Some(250e3)),
        ("mysql", "innodb_doublewrite", "DETECT_AND_RECOVER", "DETECT_AND_RECOVER", None),
        ("mysql", "innodb_flush_log_at_trx_commit", "2", "2", Some(2.0)),
        ("mysql", "innodb_flush_method", "O_DIRECT", "O_DIRECT", None),
        ("mariadb", "innodb_io_capacity", "200", "200", Some(200.0)),
        ("mariadb", "innodb_io_capacity_max", "2000", "2000", Some(2000.0)),
        ("mysql", "innodb_log_write_ahead_size", "8192", "8 KiB", Some(8192.0)),
        ("mysql", "sync_binlog", "1", "1", Some(1.0)),
        // Redis, as CONFIG GET prints it.
        ("redis", "appendfsync", "everysec", "everysec", None),
        ("redis", "no-appendfsync-on-rewrite", "no", "off", None),
        ("redis", "no-appendfsync-on-rewrite", "yes", "on", None),
    ];

    #[test]
    fn every_setting_that_a_server_is_asked_for_is_read_in_its_unit() {
        for (database, name, answer, shown, magnitude) in ANSWERS {
            let from_file = vec![setting(name, answer, "SHOW")];
            let settings = DatabaseSettings { from_file, given: Vec::new() };
            let catalogue = Catalogue::shipped().unwrap();
            let facts = settings.facts(catalogue, Some(database)).unwrap();
            let fact = format!("{}.{name}", catalogue.settings_of(database).unwrap());
            let value = facts.value(&fact).unwrap_or_else(|| panic!("{fact}: {facts:?}"));
            assert_eq!(
                (value.to_string().as_str(), value.magnitude()),
                (shown, magnitude),
                "{fact}"
            );
        }
        // No setting of theirs is left out.
        let catalogue = Catalogue::shipped().unwrap();
        for database in ["postgresql", "mysql", "mariadb", "redis"] {
            let group = catalogue.settings_of(database);
            for asked in crate::advise::settings_read(database).unwrap() {
                let is_answered = |other: &str, name: &str| {
                    name == asked && catalogue.settings_of(other) == group
                };
                let mut answers = ANSWERS.iter();
                assert!(
                    answers.any(|(other, name, ..)| is_answered(other, name)),
                    "{database} {asked}"
                );
            }
        }
    }

    /// Settings of PostgreSQL that a user names, and what is said of those that cannot be used.
    const GIVEN: [(&str, &str, &[&str]); 4] = [
        ("comit_delay", "5", &["comit_delay", "'commit_delay'"]),
        ("commit_delay", "soon", &["'soon' is not a time"]),
        ("device.scheduler", "none", &["device.scheduler"]),
        ("zfs.recordsize", "8K", &[]),
    ];

    #[test]
    fn a_setting_that_no_rule_reads_is_an_error_with_the_one_that_was_meant() {
        for (name, value, said) in GIVEN {
            let given = vec![setting(name, value, "--setting")];
            let settings = DatabaseSettings { given, from_file: Vec::new() };
            let facts = settings.facts(Catalogue::shipped().unwrap(), Some("postgresql"));
            let error = facts.err().map(|error| error.to_string());
            assert_eq!(error.is_none(), said.is_empty(), "{name}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(said.iter().all(|words| error.contains(*words)), "{name}: {error}");
        }
    }

    #[test]
    fn garbage_gives_no_settings_and_no_panic() {
        for text in ["", "====", "[", "[mysqld", "'", "\u{0}\u{1}=\u{2}", "é", "a='b"] {
            facts("mysql", text);
        }
    }
}
