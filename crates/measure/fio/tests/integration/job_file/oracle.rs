//! fio itself as the oracle: it is asked what it read, and that is compared.
//!
//! `--showcmd` prints the options of each section, `--debug=parse` the numbers that it made of
//! them, and a run with the null engine how often it drew each block size.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use durio_fio::job_file::{
    AccessPattern, BlockSizeShare, GivenValue, HostParameters, JobOptions, JobSource,
    MachineValues, SizeValue, find_option, option_help, parse_command_line, parse_job_file,
    resolve,
};
use durio_fio::{FioError, job_file::JobFile};

use super::{EXAMPLES, MACHINE, good, jobs, skip};

/// Runs fio and returns whether it succeeded, and what it printed.
fn fio(arguments: &[&str], folder: &Path) -> Option<(bool, String, String)> {
    let mut command = Command::new("fio");
    command.args(arguments).current_dir(folder).env("DURIO_SIZE", "16k");
    let output = command.output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status.success(), text(&output.stdout), text(&output.stderr)))
}

/// Runs fio over a job file; `None`, with a note, if there is no fio.
fn fio_on(test: &str, text: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("j.fio"), text).unwrap();
    std::fs::write(folder.path().join("inner.fio"), "iodepth=7\n; nothing\ndirect=1").unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["j.fio"]).collect();
    let found = fio(&arguments, folder.path()).map(|(ok, out, err)| (ok, out + &err));
    if found.is_none() {
        skip(test, "fio is not installed");
    }
    found
}

/// Reads a file with the folder's includes and the environment that [`fio`] sets.
fn parse_in(folder: &Path, name: &str, machine: MachineValues) -> Result<JobFile, FioError> {
    let mut read = |name: &str, from: Option<&str>| -> Result<JobSource, String> {
        let beside = from.and_then(|from| Path::new(from).parent()).map(|folder| folder.join(name));
        let paths = [Some(folder.join(name)), beside.map(|path| folder.join(path))];
        let path = paths.into_iter().flatten().find(|path| path.exists()).ok_or("no such file")?;
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok(JobSource { name: path.to_string_lossy().into_owned(), text })
    };
    let text = std::fs::read(folder.join(name)).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let environment = |name: &str| (name == "DURIO_SIZE").then(|| "16k".to_owned());
    let mut host = HostParameters { read: &mut read, environment: &environment, machine };
    parse_job_file(&JobSource { name: name.to_owned(), text }, &mut host)
}

/// The options of each section as `--showcmd` prints them, sorted.
fn shown(text: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with("fio ")).unwrap_or_default();
    words(line.strip_prefix("fio").unwrap_or_default())
}

fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> =
        line.split(" --").skip(1).map(|word| word.trim_end().to_owned()).collect();
    words.sort();
    words
}

/// What we read, in the form of `--showcmd`.
fn ours(file: &JobFile) -> Vec<String> {
    let mut line = String::new();
    let mut defaults = String::new();
    for section in &file.sections {
        let settings = section.settings.iter().map(|setting| match setting.value.as_deref() {
            Some(value) if setting.name == "description" => format!(" --description=\"{value}\""),
            Some(value) => format!(" --{}={value}", setting.name),
            None => format!(" --{}", setting.name),
        });
        if section.is_global {
            // With each global section fio shows those before it again.
            defaults.extend(settings);
            line.push_str(&defaults);
        } else {
            line.push_str(&format!(" --name={}", section.name));
            line.extend(settings);
        }
    }
    words(&line)
}

/// The machine as fio sees it.
fn fio_s_machine(test: &str) -> Option<MachineValues> {
    let text = "[a]\nbs=$pagesize\nsize=$mb_memory\nnumjobs=$ncpus\n";
    let (_, printed) = fio_on(test, text, &["--parse-only", "--showcmd"])?;
    let words = shown(&printed);
    let number = |name: &str| {
        let word = words.iter().find_map(|word| word.strip_prefix(name));
        word.unwrap().parse::<u64>().unwrap()
    };
    Some(MachineValues {
        page_bytes: number("bs="),
        memory_mib: number("size="),
        cpus: u32::try_from(number("numjobs=")).unwrap(),
    })
}

#[test]
fn sections_and_settings_are_those_that_fio_shows() {
    let test = "sections_and_settings_are_those_that_fio_shows";
    let text = "; a comment\n[global]\n  blocksize = 4096 \nrw=randrw:8 ; trailing\nsize=${DURIO_SIZE}\n\
        ioengine=null\n\n[first job]\ninclude inner.fio\niodepth=9\ndescription=some text#cut\n\
        time_based\nruntime=10\n[globally]\nnumjobs=3\n# another\n[second]\n\tstonewall\nfileoffset=4k\n\
        timeout=5\nbs=4k,8k,\nfilename=a\\:b:c\nnorandommap=1\ngroup_reporting\nbsrange=1k-4k\nio_size=5*1024*$mb_memory/8\n\
        rate_iops=$ncpus\noffset_increment=(2+3)*$pagesize-7\n";
    let Some((ok, printed)) = fio_on(test, text, &["--parse-only", "--showcmd"]) else { return };
    assert!(ok, "{printed}");
    let Some(machine) = fio_s_machine(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("j.fio"), text).unwrap();
    std::fs::write(folder.path().join("inner.fio"), "iodepth=7\n; nothing\ndirect=1").unwrap();
    let file = parse_in(folder.path(), "j.fio", machine).unwrap();
    assert_eq!(ours(&file), shown(&printed));
}

#[test]
fn the_command_line_begins_jobs_where_fio_does() {
    let test = "the_command_line_begins_jobs_where_fio_does";
    let line = "--direct=1 --name=a --rw randread -bs=8k --time_based --runtime 5 --name=global \
                --iodepth=4 --name b --size=4k --stonewall=1";
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    let arguments = [&["--parse-only", "--debug=parse"], arguments.as_slice()].concat();
    let Some((ok, out, err)) = fio(&arguments, Path::new(".")) else {
        return skip(test, "fio is not installed");
    };
    assert!(ok, "{err}");
    let mut read = |_: &str, _: Option<&str>| Err(String::new());
    let mut host = HostParameters { read: &mut read, environment: &|_| None, machine: MACHINE };
    let file = parse_command_line(&words, &mut host).unwrap();
    let handled: Vec<String> = handled(&(out + &err)).into_iter().map(|option| option.0).collect();
    let settings = file.sections.iter().flat_map(|section| &section.settings);
    let settings: Vec<&str> = settings.map(|setting| setting.name).collect();
    let without_names: Vec<&str> =
        handled.iter().map(String::as_str).filter(|name| *name != "name").collect();
    assert_eq!(settings, without_names);
    let found = resolve(&file).unwrap();
    assert_eq!(found.iter().map(|job| job.group).collect::<Vec<_>>(), [0, 1]);
    assert!(found[0].options.queue.depth.is_none() && found[1].options.queue.depth.is_some());
    assert!(found[1].options.target.direct.as_ref().unwrap().value);
}

/// Each option that fio handled, in order, with the numbers that it made of its value.
fn handled(debug: &str) -> Vec<(String, Vec<u64>)> {
    let mut found: Vec<(String, Vec<u64>)> = Vec::new();
    for line in debug.lines() {
        if let Some((_, rest)) = line.split_once(" handle_option=") {
            let name = rest.split(',').next().unwrap_or_default();
            found.push((name.to_owned(), Vec::new()));
        } else if let (Some((_, number)), Some(last)) =
            (line.split_once("ret=0, out="), found.last_mut())
        {
            last.1.extend(number.trim().parse::<u64>());
        }
    }
    found
}

/// A setting, and how its numbers are taken from our options.
type Row = (&'static str, fn(&JobOptions) -> Vec<u64>);

fn one<T: Clone + Into<u64>>(given: Option<&GivenValue<T>>) -> Vec<u64> {
    given.map(|given| given.value.clone().into()).into_iter().collect()
}

fn scaled(given: Option<&GivenValue<SizeValue>>) -> Vec<u64> {
    let number = |given: &GivenValue<SizeValue>| match given.value {
        SizeValue::Bytes(bytes) => bytes,
        // fio keeps a percentage as the distance from its largest number.
        SizeValue::Percent(percent) => u64::MAX - u64::from(percent),
        SizeValue::Zones(zones) => zones.into(),
    };
    given.map(number).into_iter().collect()
}

const SIZE: fn(&JobOptions) -> Vec<u64> = |options| scaled(options.target.size.as_ref());
const RUNTIME: fn(&JobOptions) -> Vec<u64> = |options| one(options.timing.runtime_us.as_ref());
const DEPTH: fn(&JobOptions) -> Vec<u64> = |options| one(options.queue.depth.as_ref());
const READ_BLOCK: fn(&JobOptions) -> Vec<u64> =
    |options| one(options.pattern.block_bytes.read.as_ref());
const BLOCKS: fn(&JobOptions) -> Vec<u64> = |options| {
    let options = &options.pattern.block_bytes;
    [&options.read, &options.write, &options.trim]
        .into_iter()
        .flat_map(|given| one(given.as_ref()))
        .collect()
};

/// Settings that fio reads as numbers. Its numbers and ours are compared.
const NUMBERS: &[Row] = &[
    ("size=4k", SIZE),
    ("size=4K", SIZE),
    ("size=4kb", SIZE),
    ("size=4ki", SIZE),
    ("size=4kib", SIZE),
    ("size=4KiB", SIZE),
    ("size=3m", SIZE),
    ("size=3MiB", SIZE),
    ("size=2g", SIZE),
    ("size=2gib", SIZE),
    ("size=1t", SIZE),
    ("size=1tib", SIZE),
    ("size=2p", SIZE),
    ("size=512", SIZE),
    ("size=512b", SIZE),
    ("size=50%", SIZE),
    ("size=100%", SIZE),
    ("size=0x1000", SIZE),
    ("size=0X10", SIZE),
    ("size=007", SIZE),
    ("runtime=30", RUNTIME),
    ("runtime=2m", RUNTIME),
    ("runtime=5ms", RUNTIME),
    ("runtime=7us", RUNTIME),
    ("runtime=7usec", RUNTIME),
    ("runtime=7MSEC", RUNTIME),
    ("runtime=1h", RUNTIME),
    ("runtime=1d", RUNTIME),
    ("runtime=10s", RUNTIME),
    ("runtime=0", RUNTIME),
    ("iodepth=16", DEPTH),
    ("iodepth=0x20", DEPTH),
    ("iodepth=1k", DEPTH),
    ("bs=4k", READ_BLOCK),
    ("bs=4k,8k,16k", BLOCKS),
    ("bs=4k:8k:16k", BLOCKS),
    ("bs=4k-8k-16k", BLOCKS),
    ("rate_iops=100,50,20", |options| {
        let options = &options.queue.accesses_per_second;
        [&options.read, &options.write, &options.trim]
            .into_iter()
            .flat_map(|given| one(given.as_ref()))
            .collect()
    }),
    ("rate=1m", |options| one(options.queue.bytes_per_second.read.as_ref())),
    ("offset=10%", |options| scaled(options.target.offset.as_ref())),
    ("io_limit=1g", |options| scaled(options.target.io_size.as_ref())),
    ("offset_increment=64k", |options| scaled(options.target.offset_increment.as_ref())),
    ("rwmixread=70", |options| one(options.pattern.read_percent.as_ref())),
    ("fsync=32", |options| one(options.durability.fsync_every.as_ref())),
    ("fdatasync=1", |options| one(options.durability.fdatasync_every.as_ref())),
    ("numjobs=3", |_| vec![3]),
    ("number_ios=10k", |options| one(options.target.accesses.as_ref())),
    ("randseed=0x89", |_| vec![0x89]),
    ("end_fsync=1", |options| one(options.durability.fsync_at_end.as_ref())),
    ("time_based", |options| one(options.timing.time_based.as_ref())),
    ("group_reporting=0", |_| vec![0]),
    ("buffer_compress_chunk=2k", |options| one(options.data.compress_chunk_bytes.as_ref())),
    ("filesize=4k-8k", |options| {
        options
            .target
            .file_bytes
            .as_ref()
            .map_or_else(Vec::new, |given| vec![given.value.0, given.value.1])
    }),
];

#[test]
fn numbers_are_those_that_fio_makes_of_them() {
    let test = "numbers_are_those_that_fio_makes_of_them";
    for base in [1024, 1000] {
        let sections = NUMBERS.iter().enumerate().map(|(number, row)| {
            format!("[s{number}]\nkb_base={base}\nioengine=null\n{}\n", row.0)
        });
        let text: String = sections.collect();
        let Some((ok, debug)) = fio_on(test, &text, &["--parse-only", "--debug=parse"]) else {
            return;
        };
        assert!(ok, "{debug}");
        let handled = handled(&debug);
        let options: Vec<_> = handled
            .iter()
            .filter(|option| option.0 != "kb_base" && option.0 != "ioengine")
            .collect();
        let found = good(&text);
        assert_eq!((options.len(), found.len()), (NUMBERS.len(), NUMBERS.len()));
        for ((row, option), job) in NUMBERS.iter().zip(options).zip(found) {
            assert_eq!(row.1(&job.options), option.1, "kb_base={base} {}", row.0);
        }
    }
}

/// Values that fio itself rejects: so do we.
const REJECTED: &[&str] = &[
    "direct",
    "bs=",
    "size=x",
    "rw=reed",
    "bssplit=x/5",
    "random_distribution=zipf:1",
    "random_distribution=zoned:50/50",
    "random_distribution=normal:100",
    "rwmixread=101",
    "blocksiez=4k",
    "filename=",
    "hipri",
    "bsrange=4k",
    "file_service_type=zipf:1",
    "gtod_reduce=x",
    "bwavgtime",
    "unit_base=3",
    "bs=3z",
];

#[test]
fn what_fio_rejects_is_an_error_or_refused() {
    let test = "what_fio_rejects_is_an_error_or_refused";
    let folder = tempfile::tempdir().unwrap();
    let texts = REJECTED.iter().map(|line| format!("[a]\nrw=randrw\nsize=1g\n{line}\n"));
    let texts: Vec<String> = texts.collect();
    // All at once: fio measures its clock for a tenth of a second at each start.
    let mut running = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new("fio");
        command.arg("--parse-only").arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else { return skip(test, "fio is not installed") };
        running.push(child);
    }
    for (mut child, text) in running.into_iter().zip(&texts) {
        assert!(!child.wait().unwrap().success(), "fio takes {text}");
        let found = jobs(text);
        let taken = found.is_ok_and(|jobs| jobs.iter().all(|job| job.refusals.is_empty()));
        assert!(!taken, "taken: {text}");
    }
}

/// The names at the beginning of the lines of a help text, before a colon.
fn listed(help: &str) -> impl Iterator<Item = &str> {
    let names = help.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.filter(|name| !name.is_empty() && !name.contains(' '))
}

#[test]
fn every_option_that_fio_lists_is_in_the_table_with_its_engines() {
    let test = "every_option_that_fio_lists_is_in_the_table_with_its_engines";
    let here = Path::new(".");
    let ask = |question: &str| Some(fio(&[question], here)?.1);
    let Some(of_jobs) = ask("--cmdhelp=all") else { return skip(test, "fio is not installed") };
    let unknown = |name: &&str| find_option(name).is_none();
    assert_eq!(listed(&of_jobs).filter(unknown).collect::<Vec<_>>(), [""; 0]);
    assert!(listed(&of_jobs).count() > 200);
    let engines = ask("--enghelp").unwrap();
    for engine in engines.lines().filter_map(|line| line.strip_prefix('\t')) {
        let help = ask(&format!("--enghelp={engine}")).unwrap();
        for name in listed(&help) {
            let row = find_option(name).unwrap_or_else(|| panic!("{engine}: {name}"));
            assert!(row.engines.contains(&engine), "{name} belongs to {engine} too");
        }
    }
    let of_program = ask("--help").unwrap();
    let words = of_program.lines().filter_map(|line| line.strip_prefix("  --"));
    let names = words.filter_map(|line| line.split(['=', '\t', ' ']).next());
    let unknown: Vec<_> = names.filter(|name| option_help(name).is_err()).collect();
    assert_eq!(unknown, [""; 0]);
}

/// Values that fio accepts: so do we.
const ACCEPTED: &[&str] = &[
    "bssplit=4k/10:64k/50:32k/40",
    "bssplit=4k/50:1k/:2k/",
    "bssplit=2k,4k",
    "bssplit=4k,,8k",
    "bsrange=64k-4k,1k-2k",
    "rw=write:4k",
    "rw=read:-8k",
    "rw=randrw:16",
    "rw=readwrite",
    "sync=dsync",
    "sync=1",
    "random_distribution=zipf",
    "random_distribution=zipf:0.9:0.2",
    "random_distribution=zoned:50/5:30/15:20/",
    "random_distribution=zoned_abs:95/1g:5/9g",
    "random_distribution=normal:30",
    "random_distribution=pareto:0.2",
    "bs=,8k",
    "bs=4k,",
    "rate=,5m",
    "rate_process=poisson",
    "cpus_allowed=0",
    "file_service_type=random:8",
    "file_service_type=gauss:10",
    "fallocate=keep",
    "exitall=0",
    "random_generator=lfsr",
    "percentage_random=50,20",
    "filename=/tmp/a\\:b:/tmp/c",
    "ioengine=io_uring\nhipri=0\nfixedbufs\nregisterfiles\nsqthread_poll=1",
    "ioengine=pvsync2\nhipri=0",
    "openfiles=2",
    "thread=0",
    "threads=1",
    "size=3z",
    "numjobs=$ncpus",
];

#[test]
fn what_fio_accepts_is_read() {
    let section = |line: &&str| format!("[a]\nrw=randrw\nsize=1g\n{line}\n");
    let text: String = ACCEPTED.iter().map(section).collect();
    let Some((ok, printed)) = fio_on("what_fio_accepts_is_read", &text, &["--parse-only"]) else {
        return;
    };
    assert!(ok, "{printed}");
    for (job, setting) in good(&text).iter().zip(ACCEPTED) {
        assert_eq!(job.refusals, [], "{setting}");
    }
}

/// What fio makes of values that say something else, as it says itself.
const MISREAD: &[(&str, u64)] = &[
    ("size= 4k", 4),
    ("size=1.5g", 1),
    ("size=4 k", 4),
    ("runtime=10min", 10),
    ("runtime=1m30s", 1),
    ("runtime= 5m", 5_000_000),
    ("size=0x10k", 16),
    ("size=4x", 4),
    ("size=200%", u64::MAX - 200),
    ("size=1g-2g", 1 << 30),
    ("iodepth=4-8", 4),
];

#[test]
fn what_fio_misreads_without_a_word_is_an_error() {
    let test = "what_fio_misreads_without_a_word_is_an_error";
    let text: String = MISREAD.iter().map(|misread| format!("[a]\n{}\n", misread.0)).collect();
    let Some((_, debug)) = fio_on(test, &text, &["--parse-only", "--debug=parse"]) else { return };
    let handled = handled(&debug);
    assert_eq!(handled.len(), MISREAD.len(), "{debug}");
    for ((setting, number), (_, numbers)) in MISREAD.iter().zip(&handled) {
        assert_eq!(numbers.first(), Some(number), "fio on {setting}");
        assert!(jobs(&format!("[a]\n{setting}\n")).is_err(), "{setting}");
    }
}

#[test]
fn block_sizes_have_the_shares_that_fio_draws() {
    let test = "block_sizes_have_the_shares_that_fio_draws";
    let splits = ["1k:2k:4k", "4k/50:8k/10", "512/10:64k/50:32k/40", "4k/50:1k/:2k/"];
    let section = |split: &&str| {
        format!(
            "[a]\nstonewall\nioengine=null\nthread\nrw=randread\nnorandommap\nsize=1t\n\
             number_ios=20000\nbssplit={split}\n"
        )
    };
    let text: String = splits.iter().map(section).collect();
    let Some((ok, printed)) = fio_on(test, &text, &["--output-format=terse"]) else { return };
    assert!(ok, "{printed}");
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("3;")).collect();
    assert_eq!(lines.len(), splits.len(), "{printed}");
    for ((line, job), split) in lines.iter().zip(good(&text)).zip(splits) {
        let kib: f64 = line.split(';').nth(5).unwrap().parse().unwrap();
        let drawn = kib * 1024.0 / 20_000.0;
        let expected = mean_block_bytes(&job.options);
        assert!((drawn / expected - 1.0).abs() < 0.03, "{split}: fio {drawn}, ours {expected}");
    }
}

fn mean_block_bytes(options: &JobOptions) -> f64 {
    let shares = options.pattern.block_split.read.clone().unwrap().value;
    let each = |share: &BlockSizeShare| {
        f64::from(share.percent) / 100.0 * f64::from(u32::try_from(share.bytes).unwrap())
    };
    shares.iter().map(each).sum()
}

#[test]
fn the_examples_of_fio_are_read_as_fio_reads_them() {
    let test = "the_examples_of_fio_are_read_as_fio_reads_them";
    let folder = Path::new(EXAMPLES);
    if !folder.is_dir() {
        return skip(test, "fio-examples is not installed");
    }
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".fio"))
        .collect();
    names.sort();
    let Some(machine) = fio_s_machine(test) else { return };
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut differing = Vec::new();
    for name in names {
        let Some((ok, out, err)) = fio(&["--parse-only", "--showcmd", &name], folder) else {
            return skip(test, "fio is not installed");
        };
        let file = parse_in(folder, &name, machine);
        let found = file.as_ref().map_err(ToString::to_string);
        let found = found.and_then(|file| resolve(file).map_err(|error| error.to_string()));
        let refused = found.iter().flatten().flat_map(|job| &job.refusals).next();
        let verdict = match (&found, refused) {
            (Err(_), _) => "error",
            (Ok(_), Some(_)) => "refused",
            (Ok(_), None) => "read",
        };
        *counts.entry(verdict).or_default() += 1;
        let why = match (&found, refused) {
            (Err(error), _) => error.to_string(),
            (_, Some(refusal)) => refusal.to_string(),
            _ => String::new(),
        };
        let fio_says = if ok { "taken" } else { "rejected" };
        eprintln!("{name}: fio {fio_says}, durio {verdict} {why}");
        let same = file.as_ref().is_ok_and(|file| ours(file) == shown(&out));
        if ok && !same {
            differing.push(format!("{name}: {why} {err}"));
        }
    }
    eprintln!("{counts:?}");
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn numbers_in_a_row_are_read_as_fio_documents_them() {
    let found = good("[a]\nrw=randread:8\n[b]\nrw=write:4k");
    let patterns: Vec<_> =
        found.iter().map(|job| job.options.pattern.access.clone().unwrap().value.pattern).collect();
    let expected =
        [AccessPattern::Random { run: 8 }, AccessPattern::Sequential { skip_bytes: 4096 }];
    assert_eq!(patterns, expected);
}
