//! The words of a spec that reach the command line of a program.
//!
//! Finds the first word for a [`Tool`] that is not allowed, and why. The lists are with the kinds
//! of layers ([`crate::kinds`]).
//!
//! A builder runs as root: a word such as `logdev=/dev/sdb` would have a program write to a device
//! that the user did not name. So only listed words pass, and no listed word takes a path, a
//! device, a label or an identifier. The lists omit words that name a file or device (`-d`,
//! `-l logdev=`, `-p`, `-r`, `device=`, `journal_path=`, `compatibility=FILE`), labels and
//! identifiers, by which `stack clean` recognises durio's layers, and words that make no measurable
//! filesystem (`-n`, `-S`, `ro`).

use std::fmt::Write;

/// A program that is handed words of a spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    /// As the user knows it.
    pub(crate) name: &'static str,
    /// Over its list in the reference.
    pub(crate) heading: &'static str,
    pub(crate) form: WordForm,
    pub(crate) words: &'static [ToolWord],
}

/// A word with its permitted value.
#[derive(Debug)]
pub(crate) struct ToolWord {
    pub(crate) name: &'static str,
    pub(crate) takes: WordArgument,
}

/// What a word is followed by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WordArgument {
    Nothing,
    Count,
    Percent,
    Size,
    One(&'static [&'static str]),
    /// Nothing or one of these.
    Maybe(&'static [&'static str]),
    /// One of these, with the separator and a number or without.
    Level(char, &'static [&'static str]),
    /// Some of these, separated by commas, each negated by `^` or not.
    Some(&'static [&'static str]),
    Pairs(&'static [ToolWord]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordForm {
    /// Options of a command.
    Options,
    /// Each is a list of names and pairs.
    List,
    /// Each is a pair.
    Pair,
}

/// A list of words: the permitted value, and the names of the words that take it.
macro_rules! word_list {
    ($($takes:expr => $($name:literal)+;)+) => {
        &[$($($crate::tool_words::ToolWord { name: $name, takes: $takes },)+)+]
    };
}
pub(crate) use word_list;

pub(crate) const ZERO_ONE: &[&str] = &["0", "1"];
/// A word that a program is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordFault {
    /// Which of the words, from zero.
    pub(crate) index: usize,
    pub(crate) what: String,
    /// The words allowed in its place.
    pub(crate) allowed: String,
}

impl std::fmt::Display for WordFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what, self.allowed)
    }
}

/// The first word that is not listed, or whose value is not one that is listed.
pub(crate) fn check_words(tool: Tool, words: &[String]) -> Result<(), WordFault> {
    let mut next = 0;
    while let Some(word) = words.get(next) {
        let following = words.get(next + 1).map(String::as_str);
        match check_word(tool, word, following) {
            Ok(taken) => next += taken,
            Err((further, WrongWord { word, allowed })) => {
                let what = format!("{} is not given '{}'{}", tool.name, escaped(&word), why(&word));
                return Err(WordFault { index: next + further, what, allowed });
            }
        }
    }
    Ok(())
}

/// Quoted in a message: a control character is shown and not printed.
fn escaped(word: &str) -> String {
    word.chars().flat_map(char::escape_debug).collect()
}

fn why(word: &str) -> &'static str {
    match word.contains('/') {
        true => ": a spec's words cannot name a file or a device",
        false => "",
    }
}

/// The forbidden word, and the words permitted in its place.
struct WrongWord {
    word: String,
    allowed: String,
}

/// How many words it is, or how many words further on the fault is.
fn check_word(
    tool: Tool,
    word: &str,
    following: Option<&str>,
) -> Result<usize, (usize, WrongWord)> {
    let here = |fault| (0, fault);
    match tool.form {
        WordForm::Options => check_option(tool, word, following),
        WordForm::List => check_pairs(tool.words, word).map(|()| 1).map_err(here),
        WordForm::Pair => check_pair(tool.words, word).map(|()| 1).map_err(here),
    }
}

/// `-b 4096`, `-b4096`, `--nodesize 4k`, `--nodesize=4k`.
fn check_option(
    tool: Tool,
    word: &str,
    following: Option<&str>,
) -> Result<usize, (usize, WrongWord)> {
    let known = |name: &str| tool.words.iter().find(|known| known.name == name);
    let unknown = || (0, WrongWord { word: word.to_owned(), allowed: listed(tool.words) });
    let (name, attached) = match word.split_once('=') {
        Some((name, value)) if word.starts_with("--") => (name, Some(value)),
        _ if word.starts_with("--") || !word.starts_with('-') => (word, None),
        _ => match word.char_indices().nth(2) {
            Some((end, _)) => (word.get(..end).unwrap_or(word), word.get(end..)),
            None => (word, None),
        },
    };
    let option = known(name).ok_or_else(unknown)?;
    match (option.takes, attached) {
        (WordArgument::Nothing, None) => Ok(1),
        (WordArgument::Nothing, Some(_)) => Err(unknown()),
        (takes, Some(value)) => {
            check_value(takes, word, value).map(|()| 1).map_err(|fault| (0, fault))
        }
        (takes, None) => match following {
            Some(value) => check_value(takes, value, value).map(|()| 2).map_err(|fault| (1, fault)),
            None => {
                let allowed = format!("{name} takes {}", shown(takes));
                Err((0, WrongWord { word: word.to_owned(), allowed }))
            }
        },
    }
}

fn check_pairs(known: &[ToolWord], text: &str) -> Result<(), WrongWord> {
    text.split(',').try_for_each(|pair| check_pair(known, pair))
}

/// `noatime`, `data=journal`.
fn check_pair(known: &[ToolWord], text: &str) -> Result<(), WrongWord> {
    let (name, value) =
        text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let fault = |allowed| WrongWord { word: text.to_owned(), allowed };
    let found = known.iter().find(|known| known.name == name);
    let found = found.ok_or_else(|| fault(listed(known)))?;
    match (found.takes, value) {
        (WordArgument::Nothing | WordArgument::Maybe(_), None) => Ok(()),
        (WordArgument::Nothing, Some(_)) => Err(fault(format!("{name} takes no value"))),
        (takes, Some(value)) => check_value(takes, text, value),
        (takes, None) => Err(fault(format!("{name} takes {}", shown(takes)))),
    }
}

fn check_value(takes: WordArgument, word: &str, value: &str) -> Result<(), WrongWord> {
    let is_fine = match takes {
        WordArgument::Nothing => value.is_empty(),
        WordArgument::Count => is_number(value),
        WordArgument::Percent => value.split('.').count() <= 2 && value.split('.').all(is_number),
        WordArgument::Size => is_size(value),
        WordArgument::One(words) | WordArgument::Maybe(words) => words.contains(&value),
        WordArgument::Level(separator, words) => {
            let with_level =
                |(word, level): (&str, &str)| words.contains(&word) && is_number(level);
            words.contains(&value) || value.rsplit_once(separator).is_some_and(with_level)
        }
        WordArgument::Some(words) => {
            value.split(',').all(|word| words.contains(&word.strip_prefix('^').unwrap_or(word)))
        }
        WordArgument::Pairs(known) => return check_pairs(known, value),
    };
    match is_fine {
        true => Ok(()),
        false => Err(WrongWord {
            word: word.to_owned(),
            allowed: format!("allowed is {}", shown(takes)),
        }),
    }
}

fn is_number(text: &str) -> bool {
    // Any number of 19 digits fits into 64 bits, so no program has to overflow.
    (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits and at most one letter: a power of 1024, or blocks or sectors with mkfs.xfs.
fn is_size(text: &str) -> bool {
    let unit = |c: char| "kKmMgGtTpPsb".contains(c);
    is_number(text.strip_suffix(unit).unwrap_or(text))
}

fn listed(known: &[ToolWord]) -> String {
    let names: Vec<&str> = known.iter().map(|known| known.name).collect();
    format!("allowed are {}", names.join(", "))
}

fn shown(takes: WordArgument) -> String {
    match takes {
        WordArgument::Nothing => "no value".to_owned(),
        WordArgument::Count => "a number".to_owned(),
        WordArgument::Percent => "a percentage".to_owned(),
        WordArgument::Size => "a size such as 64k".to_owned(),
        WordArgument::One(words) => one_of(words),
        WordArgument::Maybe(words) => format!("nothing or {}", one_of(words)),
        WordArgument::Level(separator, words) => {
            format!("{}, with {separator}LEVEL or without", one_of(words))
        }
        WordArgument::Some(words) => {
            format!("a list of {}, each with ^ or without", words.join(", "))
        }
        WordArgument::Pairs(known) => {
            let pairs: Vec<String> = known.iter().map(pair_shown).collect();
            format!("a list of {}", pairs.join(", "))
        }
    }
}

fn pair_shown(known: &ToolWord) -> String {
    let name = known.name;
    match known.takes {
        WordArgument::Nothing => name.to_owned(),
        WordArgument::Count => format!("{name}=NUMBER"),
        WordArgument::Size => format!("{name}=SIZE"),
        WordArgument::One(words) => format!("{name}={}", words.join("|")),
        WordArgument::Maybe(words) => format!("{name}[={}]", words.join("|")),
        WordArgument::Level(separator, words) => {
            format!("{name}={}[{separator}LEVEL]", words.join("|"))
        }
        takes => format!("{name}={}", shown(takes)),
    }
}

fn one_of(words: &[&str]) -> String {
    words.join(" or ")
}

/// The lists as Markdown, for docs/formats/stack-spec.md; those whose words stand alike together.
pub(crate) fn reference(tools: &[Tool]) -> String {
    let of_form = |form| tools.iter().filter(move |tool| tool.form == form);
    let mut text = String::new();
    for tool in [WordForm::Options, WordForm::List, WordForm::Pair].into_iter().flat_map(of_form) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n#### {}\n\n| word | value |\n|---|---|\n", tool.heading);
        for known in tool.words {
            let takes = match known.takes {
                WordArgument::Nothing => String::new(),
                takes => shown(takes).replace('|', "\\|"),
            };
            let _ = writeln!(text, "| `{}` | {takes} |", known.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    //! Words that pass and words that do not, by program.

    use super::*;

    fn check(tool: Tool, text: &str) -> Result<(), WordFault> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        check_words(tool, &words)
    }

    #[test]
    fn what_is_compared_for_speed_passes() {
        for (tool, text) in [
            (
                Tool::MKFS_EXT4,
                "-b 4096 -I256 -i 64k -O ^has_journal,bigalloc -C 64k -m 0.5 -J size=64",
            ),
            (
                Tool::MKFS_EXT4,
                "-E stride=4,stripe_width=16,lazy_itable_init=0,nodiscard -T largefile",
            ),
            (
                Tool::MKFS_XFS,
                "-b size=4k -d su=64k,sw=4,agcount=8 -l internal,size=64m,su=64k -m reflink=0",
            ),
            (Tool::MKFS_XFS, "-d noalign -i size=1k -s size=4096 -n ftype=1 -l lazy-count=1"),
            (
                Tool::MKFS_BTRFS,
                "--nodesize=4k -s 4k --csum xxhash -O block-group-tree,^no-holes -M",
            ),
            (Tool::MOUNT_EXT4, "noatime,data=writeback,commit=30,barrier=0 discard"),
            (Tool::MOUNT_XFS, "logbufs=8,logbsize=256k,nobarrier,allocsize=1m largeio"),
            (
                Tool::MOUNT_BTRFS,
                "compress=zstd:3,nodatacow,ssd discard=async space_cache=v2 compress=lzo",
            ),
            (
                Tool::ZFS_PROPERTIES,
                "recordsize=4k sync=always compression=zstd-19 logbias=throughput",
            ),
            (Tool::ZPOOL_PROPERTIES, "ashift=12 feature@log_spacemap=disabled"),
        ] {
            check(tool, text).unwrap();
        }
    }

    #[test]
    fn no_word_reaches_another_file_or_device() {
        for (tool, text) in [
            (Tool::MKFS_EXT4, "/dev/loop7"),
            (Tool::MKFS_EXT4, "-J device=/dev/loop7"),
            (Tool::MKFS_EXT4, "-Jdevice=LABEL=log"),
            (Tool::MKFS_EXT4, "-O journal_dev"),
            (Tool::MKFS_EXT4, "-d /etc"),
            (Tool::MKFS_EXT4, "-d/etc"),
            (Tool::MKFS_EXT4, "-l /dev/loop7"),
            (Tool::MKFS_EXT4, "-z undo"),
            (Tool::MKFS_EXT4, "-E stride=4,offset=7"),
            (Tool::MKFS_EXT4, "-T ../../x"),
            (Tool::MKFS_EXT4, "-L name"),
            (Tool::MKFS_EXT4, "-U random"),
            (Tool::MKFS_EXT4, "--"),
            (Tool::MKFS_EXT4, "-b -4096"),
            (Tool::MKFS_EXT4, "-b"),
            (Tool::MKFS_XFS, "-l logdev=/dev/loop7"),
            (Tool::MKFS_XFS, "-l/dev/loop7"),
            (Tool::MKFS_XFS, "-l size=64m,logdev=loop7"),
            (Tool::MKFS_XFS, "-d file,name=x"),
            (Tool::MKFS_XFS, "-d name=/dev/loop7"),
            (Tool::MKFS_XFS, "-r rtdev=/dev/loop7"),
            (Tool::MKFS_XFS, "-c options=/etc/mkfs.conf"),
            (Tool::MKFS_XFS, "-p /tmp/proto"),
            (Tool::MKFS_XFS, "-p"),
            (Tool::MKFS_XFS, "-m uuid=1"),
            (Tool::MKFS_BTRFS, "/dev/loop7"),
            (Tool::MKFS_BTRFS, "-r /etc"),
            (Tool::MKFS_BTRFS, "--rootdir=/etc"),
            (Tool::MKFS_BTRFS, "--root /etc"),
            (Tool::MKFS_BTRFS, "--nodesize=/dev/loop7"),
            (Tool::MOUNT_EXT4, "journal_path=/dev/loop7"),
            (Tool::MOUNT_EXT4, "journal_dev=0x700"),
            (Tool::MOUNT_EXT4, "noatime,usrjquota=x,jqfmt=vfsv0"),
            (Tool::MOUNT_EXT4, "bind"),
            (Tool::MOUNT_EXT4, "remount"),
            (Tool::MOUNT_EXT4, "loop=/dev/loop7"),
            (Tool::MOUNT_EXT4, "x-mount.mkdir"),
            (Tool::MOUNT_EXT4, "data=/dev/loop7"),
            (Tool::MOUNT_EXT4, "errors=panic"),
            (Tool::MOUNT_EXT4, ""),
            (Tool::MOUNT_XFS, "rtdev=/dev/loop7"),
            (Tool::MOUNT_XFS, "logdev=LABEL=log"),
            (Tool::MOUNT_XFS, "lowerdir=/etc"),
            (Tool::MOUNT_BTRFS, "device=/dev/loop7"),
            (Tool::MOUNT_BTRFS, "subvol=/x"),
            (Tool::MOUNT_BTRFS, "compress=zstd:/x"),
            (Tool::ZFS_PROPERTIES, "mountpoint=/etc"),
            (Tool::ZFS_PROPERTIES, "keylocation=file:///etc/key"),
            (Tool::ZFS_PROPERTIES, "recordsize=4k,sync=always"),
            (Tool::ZFS_PROPERTIES, "sharenfs=on"),
            (Tool::ZPOOL_PROPERTIES, "cachefile=/etc/zpool"),
            (Tool::ZPOOL_PROPERTIES, "altroot=/mnt"),
            (Tool::ZPOOL_PROPERTIES, "compatibility=openzfs-2.1"),
            (Tool::ZPOOL_PROPERTIES, "feature@x/y=enabled"),
        ] {
            let fault = check(tool, text).expect_err(text);
            assert!(!fault.allowed.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_fault_names_the_word_its_place_and_what_is_allowed() {
        let fault = check(Tool::MKFS_XFS, "-b size=4k -l size=8m,logdev=/dev/loop7").unwrap_err();
        assert_eq!(fault.index, 3);
        assert_eq!(
            fault.what,
            "mkfs.xfs is not given 'logdev=/dev/loop7': a spec's words cannot name a file or a device"
        );
        assert!(
            fault.allowed.starts_with("allowed are internal, size, agnum"),
            "{}",
            fault.allowed
        );
        let fault = check(Tool::MKFS_EXT4, "-O no_such\u{1b}").unwrap_err();
        assert!(fault.what.ends_with("'no_such\\u{1b}'"), "{}", fault.what);
    }

    /// Every list is read whole: each of its words passes with a value of its own.
    #[test]
    fn every_listed_word_passes_with_each_of_its_values() {
        for tool in crate::kinds::KINDS.iter().flat_map(|kind| kind.tools) {
            for known in tool.words {
                for value in values(known.takes) {
                    let words = match (tool.form, value) {
                        (_, None) => vec![known.name.to_owned()],
                        (WordForm::Options, Some(value)) => vec![known.name.to_owned(), value],
                        (_, Some(value)) => vec![format!("{}={value}", known.name)],
                    };
                    check_words(*tool, &words).unwrap();
                }
            }
        }
    }

    fn values(takes: WordArgument) -> Vec<Option<String>> {
        let all = |words: &[&str]| words.iter().map(|word| Some((*word).to_owned())).collect();
        match takes {
            WordArgument::Nothing => vec![None],
            WordArgument::Count | WordArgument::Percent => vec![Some("4".to_owned())],
            WordArgument::Size => vec![Some("4".to_owned()), Some("4k".to_owned())],
            WordArgument::One(words) | WordArgument::Some(words) => all(words),
            WordArgument::Maybe(words) => [vec![None], all(words)].concat(),
            WordArgument::Level(separator, words) => {
                let with = words.iter().map(|word| Some(format!("{word}{separator}3")));
                [with.collect(), all(words)].concat()
            }
            WordArgument::Pairs(known) => known
                .iter()
                .flat_map(|known| {
                    values(known.takes).into_iter().map(|value| match value {
                        Some(value) => Some(format!("{}={value}", known.name)),
                        None => Some(known.name.to_owned()),
                    })
                })
                .collect(),
        }
    }
}
