//! Reads the values of options: units, names, shares. Only the name of a report's file is looked up.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{
    PathBufValueParser, PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser,
};
use durio_analyse::history::{Metric, RunFigure};
use durio_base::{Bytes, Nanos, did_you_mean};
use durio_command::CommandError;
use durio_judge::advise::{AdviceRole, DatabaseSetting};
use durio_plan::proof::{CUT_PRESETS, DurablePath};
use durio_plan::{ClockChoice, EngineKind};
use durio_report::Format;
use durio_spec::profile::known_databases;
use durio_spec::written::thousandths;
use durio_workload::{PerMille, SyncMethod, check_workloads};

/// A name that shells complete. The command that uses it knows the valid names, and suggests the
/// closest.
#[derive(Clone, Copy)]
pub(crate) struct CompletedName(fn() -> Vec<String>);

pub(crate) const DATABASE: CompletedName = CompletedName(|| known_databases().unwrap_or_default());

pub(crate) const SIMDISK: CompletedName =
    CompletedName(|| durio_simdisk::ZOO.iter().map(|disk| disk.name.to_owned()).collect());

pub(crate) const WORKLOAD: CompletedName =
    CompletedName(|| check_workloads().into_iter().map(|(_, workload)| workload.name).collect());

impl TypedValueParser for CompletedName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A number of power cuts, or the name of one.
pub(crate) fn cuts(text: &str) -> Result<u32, String> {
    let named = CUT_PRESETS.iter().find(|(name, _)| *name == text).map(|(_, cuts)| *cuts);
    let cuts = named.or_else(|| text.parse().ok().filter(|cuts| (1..=1_000_000).contains(cuts)));
    cuts.ok_or_else(|| {
        let names: Vec<_> =
            CUT_PRESETS.iter().map(|(name, cuts)| format!("{name} ({cuts})")).collect();
        format!("expected 1 to 1000000, or one of {}", names.join(", "))
    })
}

/// A share of reads in percent: `70`, `70%`, `70/30`, `99.5`.
pub(crate) fn read_share(text: &str) -> Result<PerMille, String> {
    let wrong =
        || format!("invalid share of reads '{text}'; expected 0 to 100, such as 70 or 70/30");
    let (reads, writes) = match text.split_once('/') {
        Some((reads, writes)) => (reads, Some(writes)),
        None => (text.trim_end_matches('%'), None),
    };
    // Whole thousandths only: nothing is rounded behind the user's back.
    let per_mille = |text: &str| -> Option<u16> {
        let percent = thousandths(text.trim())?;
        let share = u16::try_from(percent / 100).ok().filter(|share| *share <= 1000)?;
        (percent % 100 == 0).then_some(share)
    };
    let reads = per_mille(reads).ok_or_else(wrong)?;
    match writes.map(per_mille) {
        None => Ok(PerMille(reads)),
        Some(Some(writes)) if reads + writes == 1000 => Ok(PerMille(reads)),
        Some(_) => Err(wrong()),
    }
}

/// A factor of speed: `2`, `0.5`.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (0.001..=1_000_000.0).contains(speed));
    speed.ok_or_else(|| "expected a factor from 0.001 to 1000000, such as 2 or 0.5".to_owned())
}

/// A list of processors: `0,2,4-7`.
pub(crate) fn processors(text: &str) -> Result<ProcessorList, String> {
    // The default of the option, which clap parses as if it were given.
    if text.is_empty() {
        return Ok(ProcessorList::default());
    }
    durio_observe::numbers_in_list(text)
        .map(ProcessorList)
        .ok_or_else(|| format!("invalid list of CPUs '{text}'; expected a list such as 0,2,4-7"))
}

/// Processors; none for any.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessorList(pub(crate) Vec<u32>);

/// A share in percent, `5%` or `5`, as a share of one; 0 to 1000 %.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_end_matches('%').trim_end().parse().ok();
    // Also refuses NaN and infinities, which the parser of floats takes.
    let known = number.filter(|percent| (0.0..=1000.0).contains(percent));
    known
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("invalid percentage '{text}'; expected 0 to 1000, such as 5%"))
}

/// The time from one probe to the next.
pub(crate) fn period(text: &str) -> Result<Nanos, String> {
    let period: Nanos =
        text.parse().map_err(|error: durio_base::ParseQuantityError| error.to_string())?;
    // A probe takes two seconds, and must stay a small part of the load.
    match period >= Nanos::from_secs(10) {
        true => Ok(period),
        false => Err(format!("{period} is too short; a probe takes 2 s: give 10s or more")),
    }
}

/// A factor such as `0.02`, in thousandths; 0.001 to 1000.
pub(crate) fn scale(text: &str) -> Result<u32, String> {
    let wrong =
        || format!("'{text}' is not a factor; expected 0.001 to 1000 in thousandths, such as 0.02");
    thousandths(text.trim()).filter(|scale| (1..=1_000_000).contains(scale)).ok_or_else(wrong)
}

/// An engine, and for fio its ioengine: `uring`, `fio`, `fio:libaio`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineChoice {
    pub(crate) kind: EngineKind,
    /// fio's name of the engine; absent for fio's default by depth.
    pub(crate) fio_engine: Option<String>,
}

/// The name of an engine, for which fio's name of the same interface may stand.
fn our_engine(text: &str) -> &str {
    match text {
        "io_uring" => "uring",
        "libaio" => "aio",
        "psync" | "pvsync" | "pvsync2" => "sync",
        ours => ours,
    }
}

pub(crate) fn engine(text: &str) -> Result<EngineChoice, String> {
    if let Some(fio_engine) = text.strip_prefix("fio:") {
        let known = durio_fio::export_job::ENGINES;
        if !known.contains(&fio_engine) {
            let list = known.join(", ");
            return Err(format!("unsupported ioengine '{fio_engine}'; expected one of {list}"));
        }
        let fio_engine = Some(fio_engine.to_owned());
        return Ok(EngineChoice { kind: EngineKind::Fio, fio_engine });
    }
    let kind = named(our_engine(text), "engine", &EngineKind::ALL, |engine| engine.name())?;
    Ok(EngineChoice { kind, fio_engine: None })
}

pub(crate) fn sync_method(text: &str) -> Result<SyncMethod, String> {
    named(text, "sync method", &SyncMethod::ALL, |method| method.name())
}

pub(crate) fn format(text: &str) -> Result<Format, String> {
    named(text, "format", &Format::ALL, |format| format.name())
}

/// A new file for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportFile {
    /// As long-lived as the command line, so that options that have one can be copied.
    pub(crate) path: &'static Path,
    /// That of its ending.
    pub(crate) format: Format,
}

/// A file for a report, refused before anything is measured if it could not be written in the end.
pub(crate) fn report_file() -> impl TypedValueParser<Value = ReportFile> {
    PathBufValueParser::new().try_map(|path: PathBuf| {
        let format = format_of_ending(&path)?;
        refuse_existing(&path).map_err(|error| error.to_string())?;
        Ok::<_, String>(ReportFile { path: Box::leak(path.into_boxed_path()), format })
    })
}

fn format_of_ending(path: &Path) -> Result<Format, String> {
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    match ending.to_ascii_lowercase().as_str() {
        "txt" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        "html" | "htm" => Ok(Format::Html),
        "md" => Ok(Format::Markdown),
        "csv" => Ok(Format::Csv),
        "prom" => Ok(Format::OpenMetrics),
        "xml" => Ok(Format::JUnit),
        "toml" => {
            Err("a report cannot be TOML; to write a profile, give --profile FILE".to_owned())
        }
        _ => {
            Err("the ending names the format: .txt, .json, .html, .md, .csv, .prom or .xml"
                .to_owned())
        }
    }
}

/// An age in days, or as any time.
pub(crate) fn age(text: &str) -> Result<Nanos, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u64>().ok());
    match days {
        Some(days) => Ok(Nanos::from_secs(days.saturating_mul(86_400))),
        None => text.parse::<Nanos>().map_err(|error| {
            let meant =
                error.meant.map_or_else(String::new, |word| format!("did you mean '{word}'? "));
            format!(
                "'{text}' is not an age; {meant}expected days such as 90d, or a time such as 12h"
            )
        }),
    }
}

/// A workload and its figure: `commit.p99`.
pub(crate) fn metric(text: &str) -> Result<Metric, String> {
    let wrong = || {
        let figures = RunFigure::ALL.map(RunFigure::name).join(", ");
        format!(
            "'{text}' is not a metric; expected a workload and one of {figures}, such as commit.p99"
        )
    };
    // The figure p99.9 contains a dot.
    let (workload, figure) = text.split_once('.').ok_or_else(wrong)?;
    let figure = RunFigure::ALL.into_iter().find(|kind| kind.name() == figure).ok_or_else(wrong)?;
    Ok(Metric { workload: workload.to_owned(), figure })
}

pub(crate) fn clock(text: &str) -> Result<ClockChoice, String> {
    let name = |clock: ClockChoice| match clock {
        ClockChoice::Auto => "auto",
        ClockChoice::Tsc => "tsc",
        ClockChoice::Monotonic => "monotonic",
    };
    named(text, "clock", &[ClockChoice::Auto, ClockChoice::Tsc, ClockChoice::Monotonic], name)
}

/// One of a few words, which help and completions list.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(all.iter().map(|&item| name(item)));
    words.try_map(move |word| named(&word, "choice", all, name))
}

/// An access pattern by fio's words; `readwrite` is fio's other word for `rw`.
pub(crate) fn access_pattern() -> impl TypedValueParser<Value = String> {
    let words = ["read", "write", "rw", "randread", "randwrite", "randrw"];
    let words = words.map(|word| match word {
        "rw" => PossibleValue::new(word).alias("readwrite"),
        _ => PossibleValue::new(word),
    });
    PossibleValuesParser::new(words).map(|word| match word.as_str() {
        "readwrite" => "rw".to_owned(),
        _ => word,
    })
}

fn named<T: Copy>(
    text: &str,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let known = all.iter().find(|&&value| name(value) == text).copied();
    known.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&value| name(value)).collect();
        format!("'{text}' is not a known {what}; {}", did_you_mean(text, &names, "expected"))
    })
}

/// A use of the storage: `log`, `data`, `scan`.
pub(crate) fn advice_role(text: &str) -> Result<AdviceRole, String> {
    let roles = [AdviceRole::Log, AdviceRole::Data, AdviceRole::Scan];
    roles
        .into_iter()
        .find(|role| role.name() == text)
        .ok_or_else(|| format!("unknown role '{text}'; expected log, data or scan"))
}

/// A database's setting: `commit_delay=100`.
pub(crate) fn setting(text: &str) -> Result<DatabaseSetting, String> {
    let wrong =
        || format!("'{text}' is not a setting; expected NAME=VALUE, such as commit_delay=100");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(DatabaseSetting { name, value, place: "--setting".to_owned() })
}

/// The durable path of a write, by its name.
pub(crate) fn durable_path(text: &str) -> Result<DurablePath, String> {
    let words = DurablePath::ALL.map(DurablePath::word);
    DurablePath::ALL.into_iter().find(|path| path.word() == text).ok_or_else(|| {
        let hint = did_you_mean(text, &words, "there are");
        format!("'{text}' does not make writes durable; {hint}")
    })
}

/// The size of a write, in cells of 4 KiB.
pub(crate) fn write_cells(text: &str) -> Result<u64, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    match size.get() / 4096 {
        cells @ 1..=256 if size.get().is_multiple_of(4096) => Ok(cells),
        _ => Err("a write has 4 KiB to 1 MiB, a multiple of 4 KiB".to_owned()),
    }
}

/// An engine that reaches storage.
pub(crate) fn real_engine(text: &str) -> Result<EngineKind, String> {
    match our_engine(text) {
        "sync" => Ok(EngineKind::Sync),
        "uring" => Ok(EngineKind::Uring),
        "aio" => Ok(EngineKind::Aio),
        _ => Err(format!("unknown engine '{text}'; expected sync, uring or aio")),
    }
}

/// Checks before the work whether the file can be written.
pub(crate) fn refuse_existing(path: &Path) -> Result<(), CommandError> {
    let folder =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.symlink_metadata().is_ok() {
        let text = format!("'{}' exists, and is not overwritten", path.display());
        return Err(CommandError::wrong_use(text).hint("name a new file"));
    }
    match folder.is_dir() {
        true => Ok(()),
        false => Err(CommandError::wrong_use(format!("'{}' is not a directory", folder.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_thousandths_and_never_rounded() {
        assert_eq!(read_share("70"), Ok(PerMille(700)));
        assert_eq!(read_share("70%"), Ok(PerMille(700)));
        assert_eq!(read_share("30/70"), Ok(PerMille(300)));
        assert_eq!(read_share("99.5"), Ok(PerMille(995)));
        for wrong in ["", "101", "-1", "70/40", "99.99", "x", "70/", "nan"] {
            assert!(read_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn processors_are_read_as_the_kernel_lists_them() {
        assert_eq!(processors("0,4-6").unwrap().0, [0, 4, 5, 6]);
        assert!(processors("6-4").is_err() && processors("x").is_err());
    }

    #[test]
    fn per_cent_are_shares_of_a_hundred() {
        assert_eq!(
            (percent("5%"), percent(" 2.5 %"), percent("0")),
            (Ok(0.05), Ok(0.025), Ok(0.0))
        );
        for wrong in ["", "%", "-1", "1001", "nan", "inf", "5%%x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn factors_are_read_in_thousandths() {
        assert_eq!((scale("0.02"), scale("1"), scale("0.001")), (Ok(20), Ok(1000), Ok(1)));
        for wrong in ["", "0", "0.0001", "1001", "-1", "x", "1e3", ".5"] {
            assert!(scale(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_listed_when_they_are_wrong() {
        assert_eq!(engine("uring").unwrap().kind, EngineKind::Uring);
        assert_eq!(engine("fio:libaio").unwrap().fio_engine.as_deref(), Some("libaio"));
        assert!(engine("fio:null").unwrap_err().contains("psync"));
        assert_eq!(
            engine("iouring"),
            Err("'iouring' is not a known engine; did you mean 'uring'?".to_owned())
        );
        assert!(
            engine("spdk").unwrap_err().ends_with("expected null, sync, uring, aio, mmap, fio")
        );
        assert!(sync_method("fsync").is_ok() && sync_method("flush").is_err());
        assert!(format("html").is_ok() && format("pdf").is_err());
        assert!(clock("tsc").is_ok() && clock("sundial").is_err());
    }

    #[test]
    fn the_ending_of_a_report_s_file_is_its_format() {
        let format = |name: &str| format_of_ending(Path::new(name));
        for (name, expected) in [
            ("a.txt", Format::Text),
            ("b/a.json", Format::Json),
            ("a.HTML", Format::Html),
            ("a.b.md", Format::Markdown),
            ("./a.csv", Format::Csv),
            ("a.prom", Format::OpenMetrics),
            ("a.xml", Format::JUnit),
        ] {
            assert_eq!(format(name), Ok(expected), "{name}");
        }
        for wrong in ["a", ".html", "a.pdf"] {
            assert!(format(wrong).is_err_and(|why| why.contains(".prom or .xml")), "{wrong}");
        }
        assert!(format("mine.toml").is_err_and(|why| why.contains("--profile FILE")));
    }

    #[test]
    fn times_and_ages_are_read_in_their_units() {
        let days = |days: u64| -> Result<Nanos, String> { Ok(Nanos::from_secs(days * 86_400)) };
        assert_eq!((age("90d"), age("0d"), age("1 d")), (days(90), days(0), days(1)));
        assert_eq!(age("12h"), Ok(Nanos::from_secs(43_200)));
        assert_eq!(age("1.5d"), Ok(Nanos::from_secs(129_600)));
        for wrong in ["", "d", "soon", "-1d"] {
            assert!(age(wrong).unwrap_err().contains("not an age"), "{wrong}");
        }
        assert_eq!(period("10s"), Ok(Nanos::from_secs(10)));
        assert_eq!(period("1m"), Ok(Nanos::from_secs(60)));
        assert!(period("9999ms").unwrap_err().contains("too short"));
    }

    #[test]
    fn counts_and_factors_have_both_of_their_bounds() {
        let named = [("smoke", 5), ("standard", 59), ("strong", 299), ("paper", 3000)];
        for (word, count) in named {
            assert_eq!(cuts(word), Ok(count), "{word}");
        }
        assert_eq!((cuts("1"), cuts("1000000")), (Ok(1), Ok(1_000_000)));
        for wrong in ["0", "1000001", "-1", "", "weak", "1.5"] {
            assert!(cuts(wrong).unwrap_err().contains("smoke (5), standard (59)"), "{wrong}");
        }
        assert_eq!((speed("0.001"), speed("1000000")), (Ok(0.001), Ok(1_000_000.0)));
        for wrong in ["0", "0.0009", "1000001", "-2", "nan", "inf", ""] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
        assert_eq!((percent("1000"), percent("100%")), (Ok(10.0), Ok(1.0)));
        for (size, cells) in [("4KiB", 1), ("12KiB", 3), ("1MiB", 256)] {
            assert_eq!(write_cells(size), Ok(cells), "{size}");
        }
        for wrong in ["0", "2KiB", "6KiB", "1028KiB", "x"] {
            assert!(write_cells(wrong).is_err(), "{wrong}");
        }
        assert!(processors("").unwrap().0.is_empty());
    }

    #[test]
    fn names_of_two_parts_are_taken_apart_at_the_first_sign() {
        for (text, workload, figure) in [
            ("commit.p99", "commit", RunFigure::P99),
            ("commit.p99.9", "commit", RunFigure::P99_9),
            ("lookup.rate", "lookup", RunFigure::Rate),
            ("scan.p50", "scan", RunFigure::P50),
        ] {
            let workload = workload.to_owned();
            assert_eq!(metric(text), Ok(Metric { workload, figure }), "{text}");
        }
        for wrong in ["commit", "commit.p9", "commit.", "p99"] {
            assert!(metric(wrong).unwrap_err().contains("rate, p50, p99, p99.9"), "{wrong}");
        }
        let found = setting(" wal_sync_method = a=b ").unwrap();
        assert_eq!((&*found.name, &*found.value), ("wal_sync_method", "a=b"));
        assert!(setting("x").is_err() && setting(" =1").is_err());
    }

    #[test]
    fn fios_names_of_engines_mean_ours() {
        for (text, kind) in [
            ("io_uring", EngineKind::Uring),
            ("libaio", EngineKind::Aio),
            ("psync", EngineKind::Sync),
            ("pvsync2", EngineKind::Sync),
        ] {
            let ours = EngineChoice { kind, fio_engine: None };
            assert_eq!((engine(text), real_engine(text)), (Ok(ours), Ok(kind)), "{text}");
        }
        let kinds = ["sync", "uring", "aio"].map(real_engine);
        assert_eq!(kinds, [Ok(EngineKind::Sync), Ok(EngineKind::Uring), Ok(EngineKind::Aio)]);
        assert!(real_engine("null").is_err() && real_engine("mmap").is_err());
    }
}
