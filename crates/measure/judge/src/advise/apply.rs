//! How settings are changed: the command for now and its undo, and the line that keeps the change,
//! grouped by file. Their texts are data (`rules/files.toml`).

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// How to apply and undo a piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Apply {
    /// A command, gone at the next boot.
    pub command: Option<String>,
    /// A udev rule, which stays.
    pub udev: Option<String>,
    /// A setting of the database or of the boot, which stays.
    pub setting: Option<String>,
    /// What undoes the command.
    pub undo: Option<String>,
}

/// A line that keeps a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigLine {
    /// The name of a [`ConfigFile`].
    pub file: String,
    /// The device, mount point or database, and the setting's name.
    pub setting: String,
    pub line: String,
}

/// A file of lines to paste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// As `--write` names it.
    pub name: String,
    /// What begins a comment in it.
    pub comment: String,
    /// How to install it.
    pub install: String,
    pub lines: Vec<String>,
}

/// Where a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SettingPlace {
    /// A file in `queue/` of a block device.
    Queue,
    /// A file in `md/` of an array.
    Md,
    Sysctl,
    /// Another file of `/sys`.
    Sysfs,
    /// The options of a mount.
    Mount,
    /// The kernel's command line.
    Boot,
    Database,
    Zfs,
}

/// A setting and the value that a rule advises.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingChange {
    pub(super) place: SettingPlace,
    /// As the place calls it.
    name: String,
    pub(super) to: String,
    /// The fact with the present value; left out where it follows from the name.
    #[serde(default)]
    pub(super) fact: String,
}

impl SettingChange {
    /// Finds the fact with the present value; `group` is that of the database's settings.
    pub(super) fn find_fact(&mut self, group: &str) {
        if self.fact.is_empty()
            && let Some(kind) = self.file(group)
        {
            let short = self.name.rsplit_once('.').map_or(self.name.as_str(), |(_, short)| short);
            let fact = kind.fact.replace("{name}", &self.name).replace("{group}", group);
            self.fact = fact.replace("{short}", &short.replace('-', "_"));
        }
    }

    /// The command or words that change it, and the undo.
    pub(super) fn apply(&self, group: &str) -> Apply {
        let Some(kind) = self.file(group) else { return Apply::default() };
        let filled = |text: &Option<String>| text.as_deref().map(|text| self.filled(text));
        Apply {
            command: filled(&kind.command),
            udev: filled(&kind.udev),
            setting: filled(&kind.setting),
            undo: filled(&kind.undo),
        }
    }

    /// The line that keeps the change, and where it belongs; `about` is the rule's subject here.
    pub(super) fn config_line(&self, group: &str, about: &str) -> Option<ConfigLine> {
        let kind = self.file(group)?;
        let line = kind.line.as_ref().or(kind.udev.as_ref()).or(kind.setting.as_ref())?;
        let setting = format!("{about} {}", self.name);
        Some(ConfigLine { file: kind.name.clone(), setting, line: self.filled(line) })
    }

    /// The file of its place, which every place has.
    fn file(&self, group: &str) -> Option<&'static ConfigFileKind> {
        let is_meant = |kind: &&ConfigFileKind| {
            kind.place == self.place && ["", group].contains(&kind.group.as_str())
        };
        kinds().iter().find(is_meant)
    }

    fn filled(&self, text: &str) -> String {
        // The value last: it may have facts in it.
        let text = text.replace("{name}", &self.name).replace("{fact}", &self.fact);
        text.replace("{to}", &self.to)
    }
}

/// A file of settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFileKind {
    place: SettingPlace,
    /// The database's settings; empty for any.
    #[serde(default)]
    group: String,
    /// As `--write` names it.
    name: String,
    /// What begins a comment.
    #[serde(default = "number_sign")]
    comment: String,
    install: String,
    /// Lines before and after the settings.
    first: Option<String>,
    last: Option<String>,
    /// The fact with the present value of a setting.
    fact: String,
    command: Option<String>,
    undo: Option<String>,
    udev: Option<String>,
    setting: Option<String>,
    line: Option<String>,
}

fn number_sign() -> String {
    "#".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFileKinds {
    file: Vec<ConfigFileKind>,
}

/// Every kind of file, in the order of reports; none if they cannot be read: a test would have said so.
fn kinds() -> &'static [ConfigFileKind] {
    static KINDS: OnceLock<Vec<ConfigFileKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let read = toml::from_str(include_str!("rules/files.toml"));
        read.map(|ConfigFileKinds { file }| file).unwrap_or_default()
    })
}

/// The lines of all advice by file. A later line for the same setting replaces an earlier one: rules
/// with measured values come after general ones.
pub(super) fn files<'a>(lines: impl Iterator<Item = &'a ConfigLine>) -> Vec<ConfigFile> {
    let mut kept: Vec<&ConfigLine> = Vec::new();
    for line in lines {
        let is_same =
            |known: &&ConfigLine| known.file == line.file && known.setting == line.setting;
        match kept.iter().position(is_same) {
            Some(at) => kept[at] = line,
            None => kept.push(line),
        }
    }
    let mut files: Vec<ConfigFile> = Vec::new();
    for kind in kinds() {
        let of_file = kept.iter().filter(|line| line.file == kind.name);
        let lines: Vec<String> = of_file.map(|line| line.line.clone()).collect();
        // Two places may share a file.
        if lines.is_empty() || files.iter().any(|file| file.name == kind.name) {
            continue;
        }
        let (first, last) = (kind.first.clone(), kind.last.clone());
        files.push(ConfigFile {
            name: kind.name.clone(),
            comment: kind.comment.clone(),
            install: kind.install.clone(),
            lines: first.into_iter().chain(lines).chain(last).collect(),
        });
    }
    files
}

impl ConfigFile {
    /// The whole file, which begins with how to install it.
    pub fn text(&self) -> String {
        let Self { comment, install, lines, .. } = self;
        let mut text = format!("{comment} Written by durio advise. To install: {install}.\n");
        for line in lines {
            // The name of a mount point may have any character in it.
            text.extend(line.chars().map(|c| if c.is_control() { '?' } else { c }));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::rule_named;

    fn change(place: &str, name: &str, to: &str) -> SettingChange {
        let text = format!("place = '{place}'\nname = '{name}'\nto = '{to}'\n");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn each_place_has_its_command_its_undo_its_line_and_its_file() {
        // Place, name, value, group; fact, command or words, undo, line, file.
        let cases = [
            [
                "queue",
                "nomerges",
                "2",
                "",
                "device.nomerges",
                "echo 2 > /sys/block/${device.name}/queue/nomerges",
                "echo ${device.nomerges} > /sys/block/${device.name}/queue/nomerges",
                r#"ACTION=="add|change", KERNEL=="${device.name}", ATTR{queue/nomerges}="2""#,
                "60-durio.rules",
            ],
            [
                "md",
                "stripe_cache_size",
                "4096",
                "",
                "md.stripe_cache_size",
                "echo 4096 > /sys/block/${device.name}/md/stripe_cache_size",
                "echo ${md.stripe_cache_size} > /sys/block/${device.name}/md/stripe_cache_size",
                r#"ACTION=="add|change", KERNEL=="${device.name}", ATTR{md/stripe_cache_size}="4096""#,
                "60-durio.rules",
            ],
            [
                "sysctl",
                "fs.aio-max-nr",
                "${run.x}",
                "",
                "host.aio_max_nr",
                "sysctl -w fs.aio-max-nr=${run.x}",
                "sysctl -w fs.aio-max-nr=${host.aio_max_nr}",
                "fs.aio-max-nr = ${run.x}",
                "60-durio-sysctl.conf",
            ],
            [
                "sysfs",
                "kernel/mm/transparent_hugepage/enabled",
                "never",
                "",
                "host.kernel/mm/transparent_hugepage/enabled",
                "echo never > /sys/kernel/mm/transparent_hugepage/enabled",
                "echo ${host.kernel/mm/transparent_hugepage/enabled} > \
                 /sys/kernel/mm/transparent_hugepage/enabled",
                "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never",
                "durio-tmpfiles.conf",
            ],
            [
                "mount",
                "options",
                "noatime",
                "",
                "host.options",
                "mount -o remount,noatime ${fs.mount_point}",
                "",
                "${fs.mount_point}: add noatime",
                "fstab.txt",
            ],
            [
                "boot",
                "nvme.poll-queues",
                "4",
                "",
                "host.poll_queues",
                "nvme.poll-queues=4 on the kernel's command line",
                "",
                "nvme.poll-queues=4",
                "kernel-command-line.txt",
            ],
            [
                "zfs",
                "atime",
                "off",
                "",
                "zfs.atime",
                "zfs set atime=off DATASET",
                "",
                "zfs set atime=off DATASET",
                "zfs.sh",
            ],
            [
                "database",
                "fsync",
                "on",
                "postgresql",
                "postgresql.fsync",
                "fsync = on",
                "",
                "ALTER SYSTEM SET fsync = 'on';",
                "postgresql.sql",
            ],
            [
                "database",
                "sync_binlog",
                "1",
                "mysql",
                "mysql.sync_binlog",
                "sync_binlog = 1",
                "",
                "sync_binlog = 1",
                "durio-my.cnf",
            ],
            [
                "database",
                "appendfsync",
                "always",
                "redis",
                "redis.appendfsync",
                "appendfsync always",
                "",
                "appendfsync always",
                "redis.conf",
            ],
            [
                "database",
                "synchronous",
                "FULL",
                "sqlite",
                "sqlite.synchronous",
                "PRAGMA synchronous = FULL",
                "",
                "PRAGMA synchronous = FULL;",
                "sqlite.sql",
            ],
            [
                "database",
                "x",
                "true",
                "scylladb",
                "scylladb.x",
                "x: true",
                "",
                "x: true",
                "scylla.yaml",
            ],
            [
                "database",
                "wal_bytes_per_sync",
                "512",
                "rocksdb",
                "rocksdb.wal_bytes_per_sync",
                "wal_bytes_per_sync = 512",
                "",
                "wal_bytes_per_sync = 512",
                "database-options.txt",
            ],
        ];
        for [place, name, to, group, fact, how, undo, line, file] in cases {
            let mut change = change(place, name, to);
            change.find_fact(group);
            assert_eq!(change.fact, fact, "{place}");
            let apply = change.apply(group);
            assert_eq!(apply.undo.as_deref().unwrap_or_default(), undo, "{place}");
            let is_udev = ["queue", "md"].contains(&place);
            assert_eq!(apply.udev.as_deref(), is_udev.then_some(line), "{place}");
            assert_eq!(apply.command.or(apply.setting).as_deref(), Some(how), "{place}");
            let kept = change.config_line(group, "sda").unwrap();
            let expected = ConfigLine {
                file: file.to_owned(),
                setting: format!("sda {name}"),
                line: line.to_owned(),
            };
            assert_eq!(kept, expected);
        }
    }

    #[test]
    fn files_are_in_the_order_of_reports_and_begin_and_end_as_their_programs_need() {
        let names: Vec<&str> = kinds().iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "postgresql.sql",
                "durio-my.cnf",
                "sqlite.sql",
                "redis.conf",
                "scylla.yaml",
                "zfs.sh",
                "60-durio.rules",
                "60-durio.rules",
                "60-durio-sysctl.conf",
                "durio-tmpfiles.conf",
                "fstab.txt",
                "kernel-command-line.txt",
                "database-options.txt",
            ]
        );
        let with = |part: fn(&ConfigFileKind) -> bool| -> Vec<&str> {
            let found = kinds().iter().filter(|kind| part(kind));
            found.map(|kind| kind.name.as_str()).collect()
        };
        assert_eq!(with(|kind| kind.comment == "--"), ["postgresql.sql", "sqlite.sql"]);
        assert_eq!(with(|kind| kind.comment != "--" && kind.comment != "#"), [""; 0]);
        assert_eq!(with(|kind| kind.first.as_deref() == Some("[mysqld]")), ["durio-my.cnf"]);
        let reloads =
            |kind: &ConfigFileKind| kind.last.as_deref() == Some("SELECT pg_reload_conf();");
        assert_eq!(with(reloads), ["postgresql.sql"]);
    }

    #[test]
    fn the_present_value_is_that_of_the_fact_which_the_name_gives() {
        for (place, name, fact) in [
            ("queue", "nomerges", "device.nomerges"),
            ("md", "stripe_cache_size", "md.stripe_cache_size"),
            ("sysctl", "fs.aio-max-nr", "host.aio_max_nr"),
            ("database", "fsync", "postgresql.fsync"),
        ] {
            let mut change = change(place, name, "1");
            change.find_fact("postgresql");
            assert_eq!(change.fact, fact);
        }
        let undo = rule_named("C12").unwrap().undo.as_deref();
        assert_eq!(undo, Some("sysctl -w vm.swappiness=${host.swappiness}"));
    }

    #[test]
    fn a_later_line_replaces_an_earlier_one_of_the_same_setting() {
        let line = |file: &str, setting: &str, line: &str| ConfigLine {
            file: file.to_owned(),
            setting: setting.to_owned(),
            line: line.to_owned(),
        };
        let lines = [
            line("60-durio-sysctl.conf", "host vm.swappiness", "vm.swappiness = 10"),
            line("postgresql.sql", "postgresql a", "SET a = 1;"),
            line("60-durio.rules", "sda nomerges", "x"),
            line("60-durio.rules", "sdb nomerges", "y"),
            line("postgresql.sql", "postgresql a", "SET a = 2;"),
        ];
        let found = files(lines.iter());
        let names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["postgresql.sql", "60-durio.rules", "60-durio-sysctl.conf"]);
        assert_eq!(found[0].lines, ["SET a = 2;", "SELECT pg_reload_conf();"]);
        assert_eq!(found[1].lines, ["x", "y"]);
    }

    fn file(lines: &[&str], comment: &str) -> ConfigFile {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let (name, install) = ("x".to_owned(), "copy it".to_owned());
        ConfigFile { name, comment: comment.to_owned(), install, lines }
    }

    #[test]
    fn a_file_begins_with_how_to_install_it_and_control_characters_are_replaced() {
        let text = file(&["a = 1", "/mnt/a\nb: add noatime"], "--").text();
        let expected =
            "-- Written by durio advise. To install: copy it.\na = 1\n/mnt/a?b: add noatime\n";
        assert_eq!(text, expected);
    }
}
