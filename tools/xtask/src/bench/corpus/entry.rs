//! A job file or a command line of the corpus: its sections and settings, reduced in size.
//!
//! Returns arguments for `fio` and for `durio fio` that touch one folder alone, and move little
//! data.

use std::fmt::Write as _;

/// A section or a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryItem {
    Section(String),
    Setting { key: String, value: Option<String> },
}

/// The form of a corpus entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryForm {
    File,
    Words,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CorpusEntry {
    pub(super) form: EntryForm,
    pub(super) items: Vec<EntryItem>,
}

/// The new size for an entry's largest size, or four of its largest blocks.
const BYTES: u64 = 1 << 20;
const BLOCKS: u64 = 4;
const COPIES_MAX: u64 = 3;
const FILES_MAX: u64 = 6;
const DEPTH_MAX: u64 = 32;

/// Settings that make a run long, or print: left out when a run is compared.
const LEFT_OUT: [&str; 31] = [
    "runtime",
    "time_based",
    "ramp_time",
    "startdelay",
    "rate",
    "rate_iops",
    "rate_process",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "nonvectored",
    "output",
    "output-format",
    "status-interval",
    "eta",
    "eta-newline",
    "eta-interval",
    "minimal",
    "append-terse",
    "bandwidth-log",
    "warnings-fatal",
    // Without it fio's jobs lay out files, where the first process is expected to.
    "create_serialize",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
];

/// Options, or values of options, with which a job is not plain I/O.
const NOT_PLAIN: [&str; 36] = [
    "verify",
    "do_verify",
    "verify_pattern",
    "verify_only",
    "read_iolog",
    "write_iolog",
    "replay_redirect",
    "merge_blktrace_file",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "max_open_zones",
    "exec_prerun",
    "exec_postrun",
    "ioscheduler",
    "profile",
    "client",
    "server",
    "remote-config",
    "fdp",
    "fdp_pli",
    "dedupe_percentage",
    "buffer_pattern",
    "buffer_pattern_file",
    "cgroup",
    "uid",
    "gid",
    "atomic",
    "opendir",
    "steadystate",
    "ss",
    "latency_target",
    "trim_percentage",
    "experimental_verify",
    "write_barrier",
];

/// Engines of plain I/O on files and devices.
const ENGINES: [&str; 9] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap"];

fn main_name(key: &str) -> &str {
    match key {
        "blocksize" => "bs",
        "readwrite" => "rw",
        "io_limit" => "io_size",
        "nr_files" => "nrfiles",
        "timeout" => "runtime",
        "fileoffset" => "offset",
        "blocksize_range" => "bsrange",
        other => other,
    }
}

impl CorpusEntry {
    /// Reads a job file. Environment variables get a value suggested by their name.
    pub(super) fn of_file(text: &str) -> Self {
        let text = with_variables(text);
        let items = text.lines().filter_map(|line| {
            let line = line.trim();
            if line.is_empty() || line.starts_with([';', '#']) {
                return None;
            }
            if let Some(name) = line.strip_prefix('[') {
                return Some(EntryItem::Section(
                    name.rsplit_once(']').map_or(name, |parts| parts.0).to_owned(),
                ));
            }
            // fio accepts both as comments, also after a value.
            let line = line.split([';', '#']).next().unwrap_or(line).trim_end();
            Some(setting(line))
        });
        Self { form: EntryForm::File, items: items.collect() }
    }

    /// Reads a command line, one word a line.
    pub(super) fn of_words(text: &str) -> Self {
        let mut items: Vec<EntryItem> = Vec::new();
        for word in text.lines().filter(|word| !word.is_empty()) {
            let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
            match (bare, items.last_mut()) {
                (Some(bare), _) => items.push(setting(bare)),
                (None, Some(EntryItem::Setting { value: value @ None, .. })) => {
                    *value = Some(word.to_owned());
                }
                (None, _) => items.push(setting(word)),
            }
        }
        Self { form: EntryForm::Words, items }
    }

    fn settings(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.items.iter().filter_map(|item| match item {
            EntryItem::Setting { key, value } => Some((main_name(key), value.as_deref())),
            EntryItem::Section(_) => None,
        })
    }

    /// Why this is not plain I/O on files or devices; `None` if it is.
    pub(super) fn not_plain(&self) -> Option<String> {
        self.settings().find_map(|(key, value)| {
            let value = value.unwrap_or("1");
            let is_off = matches!(value, "0" | "none");
            let is_foreign = match key {
                "ioengine" => !ENGINES.contains(&value),
                "rw" => value.contains("trim"),
                key => NOT_PLAIN.contains(&key) && !is_off,
            };
            is_foreign.then(|| format!("{key}={value}"))
        })
    }

    /// Whether `key` is set to anything but off.
    pub(super) fn has(&self, wanted: &str) -> bool {
        self.settings().any(|(key, value)| key == wanted && value != Some("0"))
    }

    /// Whether a job's accesses are those of mapped memory.
    pub(super) fn maps_files(&self) -> bool {
        self.settings().any(|(key, value)| key == "ioengine" && value == Some("mmap"))
    }

    /// Whether every job draws for each access whether it reads or writes.
    pub(super) fn mixes(&self) -> bool {
        let is_mix = |value: &str| ["rw", "randrw", "readwrite"].contains(&value);
        let mut values = self.settings().filter(|(key, _)| *key == "rw").peekable();
        values.peek().is_some() && values.all(|(_, value)| value.is_some_and(is_mix))
    }

    /// The entry with all paths within one folder, and with sizes, copies, files and depth reduced.
    pub(super) fn made_small(&self) -> Self {
        let scale = self.scale();
        let mut items = Vec::new();
        if self.is_template(&scale) {
            items.push(EntryItem::Section("global".to_owned()));
            let (key, value) = ("filename".to_owned(), Some("f_dev_disk".to_owned()));
            items.push(EntryItem::Setting { key, value });
        }
        for item in &self.items {
            match item {
                EntryItem::Section(name) => {
                    items.push(EntryItem::Section(name.replace('/', "_")));
                    // A job named after a device works on it.
                    if name.starts_with("/dev/") {
                        let (key, value) = ("filename".to_owned(), Some(each_name(name, "f_")));
                        items.push(EntryItem::Setting { key, value });
                    }
                }
                EntryItem::Setting { key, value } => {
                    let value = value.as_ref().map(|value| scale.value(main_name(key), value));
                    items.push(EntryItem::Setting { key: key.clone(), value });
                }
            }
        }
        Self { form: self.form, items }
    }

    /// True if it has neither target nor size: the command line names the device (`fio
    /// --filename=DEVICE`).
    fn is_template(&self, scale: &SizeScale) -> bool {
        let names_no_device = |item: &EntryItem| match item {
            EntryItem::Section(name) => !name.starts_with("/dev/"),
            EntryItem::Setting { .. } => true,
        };
        self.form == EntryForm::File
            && scale.largest == 0
            && !self.has("filename")
            && !self.has("directory")
            && self.items.iter().all(names_no_device)
    }

    /// Limited only by its size, and with an engine whose calls strace shows.
    pub(super) fn to_be_counted(&self) -> Self {
        let is_kept = |item: &&EntryItem| match item {
            EntryItem::Section(_) => true,
            EntryItem::Setting { key, .. } => !LEFT_OUT.contains(&main_name(key)),
        };
        let mut items: Vec<EntryItem> = self.items.iter().filter(is_kept).cloned().collect();
        // io_uring takes its I/Os from shared memory: strace sees none of them.
        for item in &mut items {
            if let EntryItem::Setting { key, value: Some(value) } = item
                && key == "ioengine"
                && value == "io_uring"
            {
                "libaio".clone_into(value);
            }
        }
        Self { form: self.form, items }
    }

    fn scale(&self) -> SizeScale {
        let largest = |keys: &[&str]| {
            let values = self.settings().filter(|(key, _)| keys.contains(key));
            let parts =
                values.flat_map(|(_, value)| value.unwrap_or("").split([',', '-', ':', '/']));
            parts.filter_map(bytes).max()
        };
        let block = largest(&["bs", "bsrange", "bssplit"]).unwrap_or(4096).max(4096);
        let size = largest(&["size", "filesize", "io_size"]).unwrap_or(0);
        let target = BYTES.max(block * BLOCKS);
        let mut shift = 0;
        while size >> shift > target {
            shift += 1;
        }
        SizeScale { shift, block, target, largest: size }
    }

    /// Bytes of a stand-in for a device.
    pub(super) fn device_bytes(&self) -> u64 {
        self.scale().target * 4
    }

    /// The names of stand-ins for devices, and the directories, all relative.
    pub(super) fn places(&self) -> (Vec<String>, Vec<String>) {
        let names = |wanted: &str| -> Vec<String> {
            let values = self.settings().filter(|(key, _)| *key == wanted);
            let names = values.flat_map(|(_, value)| value.unwrap_or("").split(':'));
            names.map(str::to_owned).collect()
        };
        let devices = names("filename").into_iter().filter(|name| name.starts_with("f_dev_"));
        (devices.collect(), names("directory"))
    }

    /// As fio and durio read it: a file's text, or words.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for item in &self.items {
            let dashes = if self.form == EntryForm::Words { "--" } else { "" };
            // Writing to a string cannot fail.
            let _ = match item {
                EntryItem::Section(name) => writeln!(text, "[{name}]"),
                EntryItem::Setting { key, value: None } => writeln!(text, "{dashes}{key}"),
                EntryItem::Setting { key, value: Some(value) } => {
                    writeln!(text, "{dashes}{key}={value}")
                }
            };
        }
        text
    }
}

fn setting(text: &str) -> EntryItem {
    match text.split_once('=') {
        Some((key, value)) => EntryItem::Setting {
            key: key.trim().to_owned(),
            value: Some(value.trim().trim_matches('"').to_owned()),
        },
        None => EntryItem::Setting { key: text.to_owned(), value: None },
    }
}

/// How values become small.
struct SizeScale {
    shift: u32,
    block: u64,
    target: u64,
    /// The largest size in bytes that is given; 0 if none is.
    largest: u64,
}

impl SizeScale {
    fn value(&self, key: &str, value: &str) -> String {
        let at_most = |most: u64| match value.parse::<u64>() {
            Ok(number) => number.min(most).to_string(),
            Err(_) => value.to_owned(),
        };
        match key {
            "filename" => each_name(value, "f_"),
            "directory" => each_name(value, "d_"),
            "name" => value.replace('/', "_"),
            "filename_format" => value.trim_start_matches('/').replace('/', "_"),
            "size" | "filesize" | "io_size" | "offset" | "offset_increment" => {
                let parts: Vec<String> =
                    value.split('-').map(|part| self.size(key, part)).collect();
                parts.join("-")
            }
            "numjobs" => at_most(COPIES_MAX),
            "nrfiles" | "openfiles" => at_most(FILES_MAX),
            "iodepth" => at_most(DEPTH_MAX),
            "loops" => at_most(2),
            "runtime" | "ramp_time" | "startdelay" => at_most(1),
            "cpus_allowed" => "0".to_owned(),
            _ => value.to_owned(),
        }
    }

    fn size(&self, key: &str, text: &str) -> String {
        match bytes(text) {
            // A share of this machine's memory.
            None if text.contains('$') => self.target.to_string(),
            Some(0) | None => text.to_owned(),
            Some(bytes) => {
                let least = if key.starts_with("offset") { 0 } else { self.block };
                let small = (bytes >> self.shift).min(self.target * 2);
                small.next_multiple_of(self.block).max(least).to_string()
            }
        }
    }
}

/// Names of files or folders below the current one; fio separates names by colons.
fn each_name(value: &str, prefix: &str) -> String {
    let name = |name: &str| match name {
        "/dev/null" | "/dev/zero" => name.to_owned(),
        name => format!("{prefix}{}", name.trim_matches(['.', '/']).replace(['/', '\\'], "_")),
    };
    let names: Vec<String> = value.replace("\\:", "_").split(':').map(name).collect();
    names.join(":")
}

/// Bytes of a number with fio's units; `None` for percents and words.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches("ib").trim_end_matches(['b', 'i']) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_shl(shift)
}

/// Replaces `${NAME}`.
fn with_variables(text: &str) -> String {
    let mut rest = text;
    let mut whole = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        whole.push_str(suggested(&name.to_ascii_lowercase()));
        rest = after;
    }
    whole.push_str(rest);
    whole
}

fn suggested(name: &str) -> &'static str {
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match () {
        // Before "dir" and "file", which are parts of them.
        () if is(&["direct"]) => "1",
        () if is(&["nrfiles", "nr_files", "numfiles", "num_files"]) => "4",
        // Before "type" and "mode": a kind of sync.
        () if is(&["sync"]) && !is(&["fsync"]) => "0",
        // Before "bs", which is a part of it.
        () if is(&["jobs"]) => "4",
        // A number that the file gives a unit: "${SIZE_GIB}Gi".
        () if is(&["gib"]) => "1",
        () if is(&["size"]) && !is(&["block"]) => "64m",
        () if is(&["dir", "path", "mount", "mnt"]) => "folder",
        () if is(&["file", "dev", "disk"]) => "/dev/disk",
        () if is(&["time", "dur"]) => "10",
        () if is(&["bs", "block"]) => "4k",
        () if is(&["engine"]) => "libaio",
        () if is(&["mix", "ratio", "perc"]) => "50",
        () if is(&["rw", "mode", "type", "pattern"]) => "randread",
        () => "4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_made_small_within_its_folder() {
        let entry =
            CorpusEntry::of_file("[/dev/sda]\nfilename=/dev/sda:/x/y\nsize=1g ; much\nbs=4k\nrw\n");
        let expected =
            "[_dev_sda]\nfilename=f_dev_sda\nfilename=f_dev_sda:f_x_y\nsize=1048576\nbs=4k\nrw\n";
        assert_eq!(entry.made_small().text(), expected);
        assert_eq!(
            entry.made_small().places(),
            (vec!["f_dev_sda".into(), "f_dev_sda".into()], vec![])
        );
    }

    #[test]
    fn a_template_gets_a_device_and_variables_get_values_of_their_kind() {
        let template = "[a]\nrw=read\nsize=100%\nnumjobs=${numjobs}\nbs=${bs}\n";
        let expected = "[global]\nfilename=f_dev_disk\n[a]\nrw=read\nsize=100%\nnumjobs=3\nbs=4k\n";
        assert_eq!(CorpusEntry::of_file(template).made_small().text(), expected);
        let flags = "direct=${DIRECT}\nnrfiles=${NR_FILES}\nsync=${sync_type}\nsize=${SIZE_GIB}Gi\n\
                     rw=${TYPE}\n";
        let expected = "direct=1\nnrfiles=4\nsync=0\nsize=1048576\nrw=randread\n";
        assert!(CorpusEntry::of_file(flags).made_small().text().ends_with(expected));
        for place in ["[/dev/sda]", "[a]\ndirectory=/x", "[a]\nfilename=y", "[a]\nsize=8k"] {
            let small = CorpusEntry::of_file(place).made_small();
            assert!(!small.text().starts_with("[global]"), "{place}");
        }
    }

    #[test]
    fn a_comment_after_a_value_is_no_part_of_it() {
        let text = "[a] # the log\nfilename=/dev/sda # fast\nsize=2g#;all\nbs=8k;x#y\n";
        let expected = "[a]\nfilename=f_dev_sda\nsize=1048576\nbs=8k\n";
        assert_eq!(CorpusEntry::of_file(text).made_small().text(), expected);
    }

    #[test]
    fn words_are_options_with_their_values() {
        let entry =
            CorpusEntry::of_words("--name\na\n-rw=read\n--ioengine=io_uring\n--runtime=60\n");
        assert_eq!(entry.to_be_counted().text(), "--name=a\n--rw=read\n--ioengine=libaio\n");
        assert_eq!(CorpusEntry::of_words("--rw=trim").not_plain().as_deref(), Some("rw=trim"));
    }
}
