//! How settings are changed: the command for now and its undo, and the line that keeps the change,
//! grouped by file.

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
        if !self.fact.is_empty() {
            return;
        }
        let name = self.name.as_str();
        self.fact = match self.place {
            SettingPlace::Queue => format!("device.{name}"),
            SettingPlace::Md => format!("md.{name}"),
            SettingPlace::Zfs => format!("zfs.{name}"),
            SettingPlace::Database => format!("{group}.{name}"),
            SettingPlace::Sysctl
            | SettingPlace::Sysfs
            | SettingPlace::Mount
            | SettingPlace::Boot => {
                let (_, short) = name.rsplit_once('.').unwrap_or(("", name));
                format!("host.{}", short.replace('-', "_"))
            }
        };
    }

    /// The command or words that change it, and the undo.
    pub(super) fn apply(&self, group: &str) -> Apply {
        let Self { place, name, to, fact } = self;
        let file = match place {
            SettingPlace::Queue => Some(format!("/sys/block/${{device.name}}/queue/{name}")),
            SettingPlace::Md => Some(format!("/sys/block/${{device.name}}/md/{name}")),
            SettingPlace::Sysfs => Some(format!("/sys/{name}")),
            _ => None,
        };
        if let Some(file) = file {
            let is_device = matches!(place, SettingPlace::Queue | SettingPlace::Md);
            return Apply {
                command: Some(format!("echo {to} > {file}")),
                undo: Some(format!("echo ${{{fact}}} > {file}")),
                udev: is_device.then(|| self.line(group)),
                setting: None,
            };
        }
        match place {
            SettingPlace::Sysctl => Apply {
                command: Some(format!("sysctl -w {name}={to}")),
                undo: Some(format!("sysctl -w {name}=${{{fact}}}")),
                ..Apply::default()
            },
            SettingPlace::Mount => Apply {
                command: Some(format!("mount -o remount,{to} ${{fs.mount_point}}")),
                ..Apply::default()
            },
            SettingPlace::Boot => Apply {
                setting: Some(format!("{name}={to} on the kernel's command line")),
                ..Apply::default()
            },
            _ => Apply { setting: Some(self.setting(group)), ..Apply::default() },
        }
    }

    /// The setting as the database's documents write it.
    fn setting(&self, group: &str) -> String {
        let Self { place, name, to, .. } = self;
        match (place, group) {
            (SettingPlace::Zfs, _) => format!("zfs set {name}={to} DATASET"),
            (_, "redis") => format!("{name} {to}"),
            (_, "scylladb") => format!("{name}: {to}"),
            (_, "sqlite") => format!("PRAGMA {name} = {to}"),
            _ => format!("{name} = {to}"),
        }
    }

    /// The line that keeps the change.
    fn line(&self, group: &str) -> String {
        let Self { place, name, to, .. } = self;
        let udev = |folder: &str| {
            format!(
                "ACTION==\"add|change\", KERNEL==\"${{device.name}}\", ATTR{{{folder}/{name}}}=\"{to}\""
            )
        };
        match (place, group) {
            (SettingPlace::Queue, _) => udev("queue"),
            (SettingPlace::Md, _) => udev("md"),
            (SettingPlace::Sysctl, _) => format!("{name} = {to}"),
            (SettingPlace::Sysfs, _) => format!("w /sys/{name} - - - - {to}"),
            (SettingPlace::Mount, _) => format!("${{fs.mount_point}}: add {to}"),
            (SettingPlace::Boot, _) => format!("{name}={to}"),
            (SettingPlace::Database, "postgresql") => format!("ALTER SYSTEM SET {name} = '{to}';"),
            (SettingPlace::Database, "sqlite") => format!("{};", self.setting(group)),
            (SettingPlace::Database | SettingPlace::Zfs, _) => self.setting(group),
        }
    }

    /// The line, and where it belongs; `about` is the rule's subject here.
    pub(super) fn config_line(&self, group: &str, about: &str) -> ConfigLine {
        let is_meant =
            |kind: &&ConfigFileKind| kind.place == self.place && ["", group].contains(&kind.group);
        // The last of the list takes every other database.
        let kind = FILES.iter().find(is_meant).unwrap_or(LAST_FILE);
        let setting = format!("{about} {}", self.name);
        ConfigLine { file: kind.name.to_owned(), setting, line: self.line(group) }
    }
}

/// A file of settings.
struct ConfigFileKind {
    place: SettingPlace,
    /// The database's settings; empty for any.
    group: &'static str,
    /// As `--write` names it.
    name: &'static str,
    /// What begins a comment.
    comment: &'static str,
    install: &'static str,
    /// Lines before and after the settings.
    first: &'static str,
    last: &'static str,
}

const UDEV: &str = "copy it to /etc/udev/rules.d/, then: udevadm control --reload && udevadm trigger --subsystem-match=block";

const fn kind(
    place: SettingPlace,
    group: &'static str,
    name: &'static str,
    install: &'static str,
) -> ConfigFileKind {
    ConfigFileKind { place, group, name, comment: "#", install, first: "", last: "" }
}

const LAST_FILE: &ConfigFileKind = &kind(
    SettingPlace::Database,
    "",
    "database-options.txt",
    "set these options where the database is configured or opened, then restart it",
);

// A database's settings come first; the order is that of reports.
const FILES: &[ConfigFileKind] = &[
    ConfigFileKind {
        comment: "--",
        last: "SELECT pg_reload_conf();",
        ..kind(
            SettingPlace::Database,
            "postgresql",
            "postgresql.sql",
            "run it as a superuser: psql -f postgresql.sql; restart PostgreSQL for io_method",
        )
    },
    ConfigFileKind {
        first: "[mysqld]",
        ..kind(
            SettingPlace::Database,
            "mysql",
            "durio-my.cnf",
            "copy it to /etc/mysql/conf.d/, /etc/mysql/mariadb.conf.d/ or /etc/my.cnf.d/, then restart the server",
        )
    },
    ConfigFileKind {
        comment: "--",
        ..kind(SettingPlace::Database, "sqlite", "sqlite.sql", "run it in each new connection")
    },
    kind(SettingPlace::Database, "redis", "redis.conf", "add it to redis.conf, then restart Redis"),
    kind(
        SettingPlace::Database,
        "scylladb",
        "scylla.yaml",
        "add it to scylla.yaml, then restart ScyllaDB",
    ),
    kind(SettingPlace::Zfs, "", "zfs.sh", "replace DATASET, then run it as root: sh zfs.sh"),
    kind(SettingPlace::Queue, "", "60-durio.rules", UDEV),
    kind(SettingPlace::Md, "", "60-durio.rules", UDEV),
    kind(
        SettingPlace::Sysctl,
        "",
        "60-durio-sysctl.conf",
        "copy it to /etc/sysctl.d/, then: sysctl --system",
    ),
    kind(
        SettingPlace::Sysfs,
        "",
        "durio-tmpfiles.conf",
        "copy it to /etc/tmpfiles.d/, then: systemd-tmpfiles --create",
    ),
    kind(
        SettingPlace::Mount,
        "",
        "fstab.txt",
        "add the options to the line of the mount point in /etc/fstab, then mount it again",
    ),
    kind(
        SettingPlace::Boot,
        "",
        "kernel-command-line.txt",
        "add it to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub) and boot again",
    ),
];

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
    for kind in FILES.iter().chain([LAST_FILE]) {
        let of_file = kept.iter().filter(|line| line.file == kind.name);
        let lines: Vec<String> = of_file.map(|line| line.line.clone()).collect();
        // Two places may share a file.
        if lines.is_empty() || files.iter().any(|file| file.name == kind.name) {
            continue;
        }
        let [first, last] =
            [kind.first, kind.last].map(|end| (!end.is_empty()).then(|| end.to_owned()));
        files.push(ConfigFile {
            name: kind.name.to_owned(),
            comment: kind.comment.to_owned(),
            install: kind.install.to_owned(),
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
    fn each_place_has_its_command_its_undo_and_its_line() {
        let cases = [
            (
                "queue",
                "nomerges",
                "2",
                "",
                "echo 2 > /sys/block/${device.name}/queue/nomerges",
                r#"ACTION=="add|change", KERNEL=="${device.name}", ATTR{queue/nomerges}="2""#,
            ),
            ("sysctl", "fs.aio-max-nr", "9", "", "sysctl -w fs.aio-max-nr=9", "fs.aio-max-nr = 9"),
            (
                "mount",
                "options",
                "noatime",
                "",
                "mount -o remount,noatime ${fs.mount_point}",
                "${fs.mount_point}: add noatime",
            ),
            (
                "boot",
                "nvme.poll_queues",
                "4",
                "",
                "nvme.poll_queues=4 on the kernel's command line",
                "nvme.poll_queues=4",
            ),
            ("zfs", "atime", "off", "", "zfs set atime=off DATASET", "zfs set atime=off DATASET"),
            (
                "database",
                "fsync",
                "on",
                "postgresql",
                "fsync = on",
                "ALTER SYSTEM SET fsync = 'on';",
            ),
            ("database", "sync_binlog", "1", "mysql", "sync_binlog = 1", "sync_binlog = 1"),
            (
                "database",
                "appendfsync",
                "always",
                "redis",
                "appendfsync always",
                "appendfsync always",
            ),
            (
                "database",
                "synchronous",
                "FULL",
                "sqlite",
                "PRAGMA synchronous = FULL",
                "PRAGMA synchronous = FULL;",
            ),
            ("database", "x", "true", "scylladb", "x: true", "x: true"),
        ];
        for (place, name, to, group, how, line) in cases {
            let mut change = change(place, name, to);
            change.find_fact(group);
            let apply = change.apply(group);
            assert_eq!(apply.command.or(apply.setting).as_deref(), Some(how), "{place}");
            assert_eq!(change.line(group), line, "{place}");
        }
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
