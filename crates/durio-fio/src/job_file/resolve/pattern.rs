//! Which accesses: order, sizes, mix, distribution.

use super::super::options::option_words;
use super::super::values::{self, KbBase, by_direction, pieces};
use super::super::{
    AccessPattern, BlockSizeShare, Direction, Distribution, Given, Note, PatternOptions,
    PerDirection, RandomGenerator, ReadWrite, Refusal, Sequencer,
};
use super::settings::{Settings, complaint, percent};
use super::{note, refusal, refusal_at};
use crate::FioError;

/// Reads the options of the pattern.
pub(super) fn pattern(
    settings: &Settings<'_>,
    notes: &mut Vec<Note>,
    refusals: &mut Vec<Refusal>,
) -> Result<PatternOptions, FioError> {
    let sizes = |text: &str, base| by_direction(&pieces(text), |part| values::size(part, base));
    let blocks = |text: &str, base| by_direction(&pieces(text), |part| block_bytes(part, base));
    let shares = |text: &str, base| by_direction(&pieces(text), |part| percent(part, base));
    let pattern = PatternOptions {
        access: access(settings, refusals)?,
        sequencer: settings.read("rw_sequencer", |text, _| sequencer(text))?,
        read_percent: read_percent(settings)?,
        block_bytes: settings.read_directions("bs", blocks)?,
        align_bytes: settings.read_directions("ba", sizes)?,
        block_range_bytes: settings.read_directions("bsrange", ranges)?,
        block_split: settings.read_directions("bssplit", values::block_size_split)?,
        block_unaligned: settings.flag("bs_unaligned")?,
        block_is_by_order: settings.boolean("bs_is_seq_rand")?,
        random_percent: settings.read_directions("percentage_random", shares)?,
        distribution: distribution(settings, refusals)?,
        no_random_map: settings.flag("norandommap")?,
        soft_random_map: settings.boolean("softrandommap")?,
        generator: settings.read("random_generator", |text, _| generator(text))?,
        repeatable: settings.boolean("randrepeat")?,
        seed: settings.size("randseed")?,
    };
    check_block_sizes(&pattern, settings, notes, refusals);
    Ok(pattern)
}

fn block_bytes(text: &str, base: KbBase) -> Result<u64, String> {
    match values::size(text, base)? {
        0 => Err("a block has at least one byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// `bsrange`: up to three ranges, separated by commas.
fn ranges(text: &str, base: KbBase) -> Result<PerDirection<Option<(u64, u64)>>, String> {
    let parts: Vec<&str> = text.split(',').collect();
    by_direction(&parts, |part| match values::range(part, base)? {
        (0, _) => Err("a block has at least one byte".to_owned()),
        range => Ok(range),
    })
}

fn access(
    settings: &Settings<'_>,
    refusals: &mut Vec<Refusal>,
) -> Result<Option<Given<ReadWrite>>, FioError> {
    let Some(setting) = settings.last("rw") else { return Ok(None) };
    if setting.value.as_deref().is_some_and(|it| it.contains("trim")) {
        refusals.push(refusal(setting, "durio sends no trims; use fio for this job"));
        return Ok(None);
    }
    settings.read("rw", read_write)
}

fn read_write(text: &str, base: KbBase) -> Result<ReadWrite, String> {
    let (word, number) = values::choice(text, option_words("rw"))?;
    let direction = match word {
        "read" | "randread" => Direction::Read,
        "write" | "randwrite" => Direction::Write,
        _ => Direction::Mixed,
    };
    let number = number.map(|it| signed_size(it.trim(), base)).transpose()?;
    let pattern = if word.starts_with("rand") {
        let run = u32::try_from(number.unwrap_or(1)).ok().filter(|it| *it > 0);
        let run =
            run.ok_or_else(|| format!("{text:?}: 1 to {} in a row are possible", u32::MAX))?;
        AccessPattern::Random { run }
    } else {
        AccessPattern::Sequential { skip_bytes: number.unwrap_or(0) }
    };
    Ok(ReadWrite { direction, pattern })
}

fn distribution(
    settings: &Settings<'_>,
    refusals: &mut Vec<Refusal>,
) -> Result<Option<Given<Distribution>>, FioError> {
    let Some(setting) = settings.last("random_distribution") else { return Ok(None) };
    if setting.value.as_deref().is_some_and(|it| it.starts_with("sequence:")) {
        refusals.push(refusal(setting, "durio knows no listed sequence of offsets"));
        return Ok(None);
    }
    settings.read("random_distribution", values::distribution)
}

fn sequencer(text: &str) -> Result<Sequencer, String> {
    match text {
        "sequential" => Ok(Sequencer::Sequential),
        "identical" => Ok(Sequencer::Identical),
        _ => Err(format!("{text:?} is none of: sequential, identical")),
    }
}

fn generator(text: &str) -> Result<RandomGenerator, String> {
    match text {
        "tausworthe" => Ok(RandomGenerator::Tausworthe),
        "tausworthe64" => Ok(RandomGenerator::Tausworthe64),
        "lfsr" => Ok(RandomGenerator::Lfsr),
        _ => Err(format!("{text:?} is none of: tausworthe, tausworthe64, lfsr")),
    }
}

/// A number of bytes that may be negative.
fn signed_size(text: &str, base: KbBase) -> Result<i64, String> {
    let (sign, size) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let size = values::size(size, base)?;
    i64::try_from(size).map(|size| sign * size).map_err(|_| format!("{text:?} is too large"))
}

/// `rwmixread` and `rwmixwrite` set the same thing: the later one counts.
fn read_percent(settings: &Settings<'_>) -> Result<Option<Given<u8>>, FioError> {
    let Some(setting) = settings.later("rwmixread", "rwmixwrite") else { return Ok(None) };
    let value = setting.value.as_deref().ok_or_else(|| complaint(setting, "it needs a value"))?;
    let value = percent(value, 1024).map_err(|what| complaint(setting, &what))?;
    let value = if setting.name == "rwmixread" { value } else { 100 - value };
    Ok(Some(Given { value, at: setting.at.clone() }))
}

/// `bs`, `bsrange` and `bssplit` together: what fio does with them is not what they say.
fn check_block_sizes(
    pattern: &PatternOptions,
    settings: &Settings<'_>,
    notes: &mut Vec<Note>,
    refusals: &mut Vec<Refusal>,
) {
    let split = &pattern.block_split;
    let has_range = settings.last("bsrange").is_some();
    let has_split = settings.last("bssplit").is_some();
    if let (true, Some(setting)) = (has_range && has_split, settings.last("bssplit")) {
        refusals.push(refusal(setting, "it mixes with bsrange in the order of lines; give one"));
    }
    if let (true, Some(bs)) = (has_range || has_split, settings.last("bs")) {
        let by = if has_split { "bssplit" } else { "bsrange" };
        let what = format!("{by} decides where it is given, also over a later bs");
        notes.push(note(bs, &what));
    }
    if pattern.block_unaligned.as_ref().is_some_and(|it| it.value) {
        return;
    }
    for shares in [&split.read, &split.write].into_iter().flatten() {
        if let Some(bytes) = rounded(&shares.value) {
            let reason = format!(
                "fio rounds {bytes} bytes down to a multiple of the smallest size; \
                 add bs_unaligned, or give multiples"
            );
            let value = settings.last("bssplit").and_then(|it| it.value.clone());
            refusals.push(refusal_at("bssplit", value, &shares.at, &reason));
            return;
        }
    }
}

/// A size that is no multiple of the smallest one.
fn rounded(shares: &[BlockSizeShare]) -> Option<u64> {
    let smallest = shares.iter().map(|it| it.bytes).min()?;
    shares.iter().map(|it| it.bytes).find(|it| it.checked_rem(smallest).is_some_and(|it| it > 0))
}
