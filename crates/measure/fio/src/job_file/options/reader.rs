//! How a value is read, by kind; the fields that keep it.
//!
//! Turns a value as written into a typed value, or an error sentence. The documented kind and the
//! reading function are one [`ValueReader`], so that they cannot differ.

use super::super::terms::{
    AccessPattern, AdviceHint, CpuPolicy, Direction, ExitScope, Fallocate, FileService, FioEngine,
    MemoryPolicy, OffsetDistribution, RandomGenerator, RateProcess, ReadWrite, Sequencer,
    SizeValue, SubmitMode, SyncOpen,
};
use super::super::values::{self, KbBase, by_direction, choice, pieces};
use super::super::{BlockSizeShare, Each, GivenOption, GivenValue, JobSetting, PerDirection};
use super::{NO_VALUE, OptionKind};

/// A value as it was written.
#[derive(Debug, Clone, Copy)]
pub struct WrittenValue<'w> {
    pub(in crate::job_file) setting: &'w JobSetting,
    /// The text after `=`.
    pub(in crate::job_file) text: Option<&'w str>,
    /// The meaning of its units.
    pub(in crate::job_file) base: KbBase,
}

/// What reads the values of a kind.
pub(super) struct ValueReader<T> {
    pub(super) kind: OptionKind,
    read: fn(&str, KbBase) -> Result<T, String>,
    /// The value of a bare word.
    bare: Option<fn() -> T>,
    /// Why a value that fio takes is refused.
    refuse: fn(&str) -> Option<String>,
}

impl<T> ValueReader<T> {
    const fn new(kind: OptionKind, read: fn(&str, KbBase) -> Result<T, String>) -> Self {
        Self { kind, read, bare: None, refuse: |_| None }
    }

    const fn or_bare(self, bare: fn() -> T) -> Self {
        Self { bare: Some(bare), ..self }
    }

    const fn refusing(self, refuse: fn(&str) -> Option<String>) -> Self {
        Self { refuse, ..self }
    }

    fn value(&self, it: &WrittenValue<'_>) -> Result<T, String> {
        match (it.text, self.bare) {
            (Some(text), _) => (self.read)(text, it.base),
            (None, Some(bare)) => Ok(bare()),
            (None, None) => Err(NO_VALUE.to_owned()),
        }
    }
}

/// Reads a value into its field; a value that is refused leaves nothing there.
pub(super) fn set<T, F: Keep<T> + Default>(
    field: &mut F,
    reader: &ValueReader<T>,
    it: &WrittenValue<'_>,
) -> Result<Option<String>, String> {
    if let Some(reason) = it.text.and_then(reader.refuse) {
        // Otherwise an earlier line would stay in force.
        *field = F::default();
        return Ok(Some(reason));
    }
    field.keep(reader.value(it)?, it.setting);
    Ok(None)
}

/// A field that values are read into, one after another.
pub(super) trait Keep<T> {
    fn keep(&mut self, value: T, from: &JobSetting);
}

impl<T> Keep<T> for GivenOption<T> {
    fn keep(&mut self, value: T, from: &JobSetting) {
        *self = Some(GivenValue { value, option: from.name, at: from.at.clone() });
    }
}

/// A direction that a value leaves out keeps its earlier value.
impl<T> Keep<PerDirection<Option<T>>> for Each<T> {
    fn keep(&mut self, value: PerDirection<Option<T>>, from: &JobSetting) {
        let each = [
            (&mut self.read, value.read),
            (&mut self.write, value.write),
            (&mut self.trim, value.trim),
        ];
        for (field, value) in each {
            if let Some(value) = value {
                field.keep(value, from);
            }
        }
    }
}

/// Names that are added to those before, also to those of the defaults.
pub(super) struct AddedNames(Vec<String>);

impl Keep<AddedNames> for GivenOption<Vec<String>> {
    fn keep(&mut self, AddedNames(names): AddedNames, from: &JobSetting) {
        let mut all = self.take().map_or_else(Vec::new, |given| given.value);
        all.extend(names);
        self.keep(all, from);
    }
}

/// Words that stand for values.
pub(super) trait WordSet: Copy + 'static {
    const NAMES: &'static [&'static str];
    const VALUES: &'static [Self];

    const WORD: ValueReader<Self> = ValueReader::new(OptionKind::Choice(Self::NAMES), |text, _| {
        // The whole text, as no word here takes more after a colon.
        let place = Self::NAMES.iter().position(|name| *name == text);
        let value = place.and_then(|place| Self::VALUES.get(place)).copied();
        value.ok_or_else(|| format!("{text:?}: expected one of: {}", Self::NAMES.join(", ")))
    });
}

macro_rules! words_of {
    ($($type:ident { $($name:literal $value:ident),+ })+) => {$(
        impl WordSet for $type {
            const NAMES: &'static [&'static str] = &[$($name),+];
            const VALUES: &'static [Self] = &[$(Self::$value),+];
        }
    )+};
}

words_of! {
    Sequencer { "sequential" Sequential, "identical" Identical }
    SubmitMode { "inline" Inline, "offload" Offload }
    RateProcess { "linear" Linear, "poisson" Poisson }
    RandomGenerator { "tausworthe" Tausworthe, "tausworthe64" Tausworthe64, "lfsr" Lfsr }
    SyncOpen { "none" None, "0" None, "sync" Sync, "1" Sync, "dsync" Dsync }
    Fallocate {
        "none" None, "native" Native, "posix" Posix, "keep" Keep, "truncate" Truncate, "0" None,
        "1" Posix
    }
    AdviceHint {
        "0" None, "1" Pattern, "none" None, "random" Random, "sequential" Sequential,
        "noreuse" NoReuse
    }
    ExitScope { "group" Group, "stonewall" Stonewall, "all" All }
    CpuPolicy { "shared" Shared, "split" Split }
    FioEngine {
        "sync" Sync, "psync" Psync, "vsync" Vsync, "pvsync" Pvsync, "pvsync2" Pvsync2,
        "libaio" Libaio, "io_uring" IoUring, "posixaio" Posixaio, "mmap" Mmap, "null" Null
    }
}

pub(super) const FLAG: ValueReader<bool> =
    ValueReader::new(OptionKind::Flag, |text, _| values::flag(text)).or_bare(|| true);
pub(super) const BOOL: ValueReader<bool> =
    ValueReader::new(OptionKind::Bool, |text, _| values::boolean(text));
/// For an option that is the reverse of another one.
pub(super) const NOT: ValueReader<bool> =
    ValueReader::new(OptionKind::Bool, |text, _| values::boolean(text).map(|on| !on));
pub(super) const NUMBER: ValueReader<u32> = ValueReader::new(OptionKind::Integer, values::integer);
pub(super) const COUNT: ValueReader<u32> =
    ValueReader::new(OptionKind::Integer, |text, base| match values::integer(text, base)? {
        0 => Err("at least 1 is needed".to_owned()),
        value => Ok(value),
    });
pub(super) const PERCENT: ValueReader<u8> = ValueReader::new(OptionKind::Integer, values::percent);
/// For an option that gives the rest to 100 of another one.
pub(super) const REST: ValueReader<u8> = ValueReader::new(OptionKind::Integer, |text, base| {
    values::percent(text, base).map(|percent| 100 - percent)
});
pub(super) const SIZE: ValueReader<u64> = ValueReader::new(OptionKind::Size, values::size);
pub(super) const SIZE_OR_SHARE: ValueReader<SizeValue> =
    ValueReader::new(OptionKind::SizeOrShare, |text, base| {
        values::check_uncut(text)?;
        values::scaled_size(text, base)
    });
pub(super) const SIZE_OR_RANGE: ValueReader<(u64, u64)> =
    ValueReader::new(OptionKind::Size, |text, base| match pieces(text).as_slice() {
        [one] => values::size(one, base).map(|size| (size, size)),
        [least, most] => match (values::size(least, base)?, values::size(most, base)?) {
            (least, most) if least > most => {
                Err(format!("{text:?}: the smaller size must come first"))
            }
            range => Ok(range),
        },
        _ => Err(format!("{text:?} is neither a size nor a range of sizes")),
    });
pub(super) const SECONDS: ValueReader<u64> =
    ValueReader::new(OptionKind::Seconds, |text, _| values::seconds(text));
pub(super) const MICROSECONDS: ValueReader<u64> =
    ValueReader::new(OptionKind::Microseconds, |text, _| values::microseconds(text));
pub(super) const TIME_OR_RANGE: ValueReader<(u64, u64)> =
    ValueReader::new(OptionKind::Seconds, |text, _| match pieces(text).as_slice() {
        [one] => values::seconds(one).map(|time| (time, time)),
        [least, most] => Ok((values::seconds(least)?, values::seconds(most)?)),
        _ => Err(format!("{text:?} is neither a time nor a range of times")),
    });
pub(super) const KB_BASE: ValueReader<KbBase> =
    ValueReader::new(OptionKind::Choice(&["1024", "1000"]), |text, _| match text {
        "1024" => Ok(1024),
        "1000" => Ok(1000),
        _ => Err("expected 1024 or 1000".to_owned()),
    });

pub(super) const ANY_TEXT: ValueReader<String> =
    ValueReader::new(OptionKind::Text, |text, _| Ok(text.to_owned()));
pub(super) const TEXT: ValueReader<String> =
    ValueReader::new(OptionKind::Text, |text, _| match text {
        "" => Err("the value is missing".to_owned()),
        text => Ok(text.to_owned()),
    });
pub(super) const NAMES: ValueReader<Vec<String>> =
    ValueReader::new(OptionKind::Text, |text, _| values::name_list(text));
pub(super) const ADDED_NAMES: ValueReader<AddedNames> =
    ValueReader::new(OptionKind::Text, |text, _| values::name_list(text).map(AddedNames));
/// The name may be missing; then the job's name counts.
pub(super) const LOG_NAME: ValueReader<String> = ValueReader::new(OptionKind::Text, |text, _| {
    if text.contains('\0') { Err("invalid file name".to_owned()) } else { Ok(text.to_owned()) }
})
.or_bare(String::new);

type Directions<T> = ValueReader<PerDirection<Option<T>>>;

pub(super) const SIZES: Directions<u64> = ValueReader::new(OptionKind::Sizes, |text, base| {
    by_direction(&pieces(text), |part| values::size(part, base))
});
pub(super) const BLOCKS: Directions<u64> = ValueReader::new(OptionKind::Sizes, |text, base| {
    by_direction(&pieces(text), |part| match values::size(part, base)? {
        0 => Err(NO_BLOCK.to_owned()),
        bytes => Ok(bytes),
    })
});
pub(super) const NUMBERS: Directions<u64> = ValueReader::new(OptionKind::Integers, |text, base| {
    by_direction(&pieces(text), |part| values::integer(part, base).map(u64::from))
});
pub(super) const SHARES: Directions<u8> = ValueReader::new(OptionKind::Integers, |text, base| {
    by_direction(&pieces(text), |part| values::percent(part, base))
});
pub(super) const RANGES: Directions<(u64, u64)> =
    ValueReader::new(OptionKind::Ranges, |text, base| {
        let parts: Vec<&str> = text.split(',').collect();
        by_direction(&parts, |part| match values::range(part, base)? {
            (0, _) => Err(NO_BLOCK.to_owned()),
            range => Ok(range),
        })
    });
pub(super) const SPLITS: Directions<Vec<BlockSizeShare>> =
    ValueReader::new(OptionKind::Text, values::block_size_split);

const NO_BLOCK: &str = "a block has at least one byte";

pub(super) const CPUS: ValueReader<Vec<u32>> =
    ValueReader::new(OptionKind::Text, |text, _| values::cpu_list(text));
pub(super) const CPU_MASK: ValueReader<Vec<u32>> =
    ValueReader::new(OptionKind::Integer, |text, _| {
        values::integer(text, 1024).and_then(values::cpu_mask)
    });
pub(super) const NODES: ValueReader<Vec<u32>> =
    ValueReader::new(OptionKind::Text, |text, _| values::node_list(text));
pub(super) const MEMORY_POLICY: ValueReader<MemoryPolicy> = ValueReader::new(
    OptionKind::Choice(&["default", "prefer", "bind", "interleave", "local"]),
    |text, _| values::memory_policy(text),
);
pub(super) const BYTE_PATTERN: ValueReader<Vec<u8>> =
    ValueReader::new(OptionKind::Text, |text, _| values::pattern(text));
pub(super) const PERCENTILES: ValueReader<Vec<f64>> =
    ValueReader::new(OptionKind::Floats, |text, _| values::percentiles(text));
pub(super) const FILE_ORDER: ValueReader<FileService> =
    ValueReader::new(OptionKind::Choice(values::FILE_ORDERS), |text, _| values::file_service(text));
pub(super) const DISTRIBUTION: ValueReader<OffsetDistribution> =
    ValueReader::new(OptionKind::Choice(values::DISTRIBUTIONS), values::distribution).refusing(
        |text| {
            let is_listed = text.starts_with("sequence:");
            is_listed.then(|| "durio does not support a listed sequence of offsets".to_owned())
        },
    );

// Other engines of fio are refused, not misread.
pub(super) const ENGINE: ValueReader<FioEngine> = FioEngine::WORD.refusing(|text| match text {
    own if own.is_empty() || FioEngine::NAMES.contains(&own) => None,
    other => Some(format!("durio has no engine {other}; it has {}", FioEngine::NAMES.join(", "))),
});

const PATTERNS: &[&str] = &[
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

pub(super) const READ_WRITE: ValueReader<ReadWrite> =
    ValueReader::new(OptionKind::Choice(PATTERNS), read_write).refusing(|text| {
        text.contains("trim").then(|| "durio does not send trims; use fio for this job".to_owned())
    });

fn read_write(text: &str, base: KbBase) -> Result<ReadWrite, String> {
    let (word, number) = choice(text, PATTERNS)?;
    let direction = match word {
        "read" | "randread" => Direction::Read,
        "write" | "randwrite" => Direction::Write,
        // Patterns with trims were refused before.
        _ => Direction::Mixed,
    };
    // fio takes a negative hole and goes backwards; import decides about it.
    let number = number.map(|number| values::signed_size(number.trim(), base)).transpose()?;
    let pattern = if word.starts_with("rand") {
        let run = u32::try_from(number.unwrap_or(1)).ok().filter(|run| *run > 0);
        let run = run.ok_or_else(|| format!("{text:?}: expected 1 to {} in a row", u32::MAX))?;
        AccessPattern::Random { run }
    } else {
        AccessPattern::Sequential { skip_bytes: number.unwrap_or(0) }
    };
    Ok(ReadWrite { direction, pattern })
}
