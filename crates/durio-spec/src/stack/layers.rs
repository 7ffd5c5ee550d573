//! A `[[stack]]` as it was read to a [`DeclaredStack`].
//!
//! In: a table whose keys and values are known. Out: the stack, or what it lacks and where. Not here:
//! whether such a stack can be built (`durio_layers`).

use durio_layers::{
    Btrfs, BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, Device, Dm,
    DmTarget, Ext4, Loop, Lvm, LvmLayout, Made, MadeFilesystem, MdBitmap, Null, Ram, Tool, Xfs,
    Zfs, ZfsLayout, Zram, check_words,
};
use durio_units::Nanos;

use super::file::{
    Common, DmLayer, DmName, FilesystemTable, LayerTable, MadeTable, MdLayer, MdLevel, StackTable,
};
use crate::SpecError;
use crate::table::value::{Delay, Shown, Span, Texts};
use crate::table::{One, Placed, Source};

const NAME_MAX: usize = 60;

/// A stack, and whether each layer is to be had degraded too.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) stack: DeclaredStack,
    /// Byte of its begin in the text.
    pub(crate) at: usize,
    /// Indices of the layers that `degraded` stands at.
    pub(crate) degraded: Vec<usize>,
}

/// Reads a stack; `suffix` are the values of axes that its name lacks.
pub(crate) fn stack(
    source: Source<'_>,
    table: &StackTable,
    at: usize,
    suffix: &[String],
) -> Result<Read, SpecError> {
    let first = table.name.0.clone();
    let name = suffix.iter().fold(first, |name, value| format!("{name}-{value}"));
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.len() > NAME_MAX {
        let text = format!("the name '{name}' is longer than {NAME_MAX} letters");
        return Err(source.error(at, text).hint("use {AXIS} in a shorter name"));
    }
    if table.layers.is_empty() {
        let error = source.error(at, format!("stack '{name}' has no layers"));
        return Err(error.hint("add layers = [{ ram = { size = \"1GiB\" } }]"));
    }
    let is_degraded = |it: &Placed<LayerTable>| match &it.value {
        LayerTable::Md(md) => md.degraded.get() == Some(true),
        _ => false,
    };
    let degraded = (0..table.layers.len()).filter(|&index| is_degraded(&table.layers[index]));
    let degraded = degraded.collect();
    let layers = table.layers.iter().map(|it| layer(source, it)).collect::<Result<_, _>>()?;
    Ok(Read { stack: DeclaredStack { name, layers }, at, degraded })
}

const fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn layer(source: Source<'_>, table: &LayerTable) -> Result<DeclaredLayer, SpecError> {
    let (kind, common) = match table {
        LayerTable::Ram(it) => (DeclaredKind::Ram(Ram { made: made(&it.made) }), &it.common),
        LayerTable::Zram(it) => (DeclaredKind::Zram(Zram { made: made(&it.made) }), &it.common),
        LayerTable::Null(it) => {
            let completion = it.completion.get().map(|Span(span)| span);
            let (made, queue_depth) = (made(&it.made), it.queue_depth.get());
            (DeclaredKind::Null(Null { made, completion, queue_depth }), &it.common)
        }
        LayerTable::Loop(it) => {
            let (made, directory) = (made(&it.made), it.directory.get());
            (DeclaredKind::Loop(Loop { made, directory }), &it.common)
        }
        LayerTable::Device(it) => {
            (DeclaredKind::Device(Device { paths: it.path.to_vec() }), &it.common)
        }
        LayerTable::Md(it) => (DeclaredKind::Md(md(source, it)?), &it.common),
        LayerTable::Lvm(it) => {
            let layout = it.layout.get().unwrap_or(LvmLayout::Linear);
            (DeclaredKind::Lvm(Lvm { layout, chunk: it.chunk.get() }), &it.common)
        }
        LayerTable::Dm(it) => (DeclaredKind::Dm(Dm { target: dm_target(source, it)? }), &it.common),
        LayerTable::Ext4(it) => {
            let options = filesystem(source, &it.options, Tool::MKFS_EXT4, Tool::MOUNT_EXT4)?;
            (DeclaredKind::Ext4(Ext4 { options }), &it.common)
        }
        LayerTable::Xfs(it) => {
            let options = filesystem(source, &it.options, Tool::MKFS_XFS, Tool::MOUNT_XFS)?;
            (DeclaredKind::Xfs(Xfs { options }), &it.common)
        }
        LayerTable::Btrfs(it) => {
            let options = filesystem(source, &it.options, Tool::MKFS_BTRFS, Tool::MOUNT_BTRFS)?;
            let profile = it.profile.get().unwrap_or(BtrfsProfile::Single);
            (DeclaredKind::Btrfs(Btrfs { profile, options }), &it.common)
        }
        LayerTable::Zfs(it) => {
            let words = |key, words, tool| tool_words(source, key, words, tool);
            let kind = DeclaredKind::Zfs(Zfs {
                layout: it.layout.get().unwrap_or(ZfsLayout::Single),
                properties: words("properties", &it.properties, Tool::ZFS_PROPERTIES)?,
                pool_properties: words(
                    "pool_properties",
                    &it.pool_properties,
                    Tool::ZPOOL_PROPERTIES,
                )?,
            });
            (kind, &it.common)
        }
    };
    let Common { groups, measured } = common;
    let (groups, measured) = (groups.get().unwrap_or(1), measured.get().unwrap_or(true));
    Ok(DeclaredLayer { kind, groups, measured })
}

fn made(table: &MadeTable) -> Made {
    Made { count: table.count.get().unwrap_or(1), size: table.size.value }
}

fn md(source: Source<'_>, it: &MdLayer) -> Result<DeclaredMd, SpecError> {
    let MdLevel(level) = it.level.value;
    if level == 0 && it.degraded.get() == Some(true) {
        let text = "level 0 survives no failure: it cannot be degraded";
        return Err(source.error(it.degraded.at, text));
    }
    Ok(DeclaredMd {
        level,
        layout: it.layout.get(),
        chunk: it.chunk.get(),
        bitmap: it.bitmap.get().unwrap_or(MdBitmap::None),
        bitmap_chunk: it.bitmap_chunk.get(),
        ppl: it.ppl.get().unwrap_or(false),
        journal: it.journal.get().unwrap_or(false),
        initial_sync: it.initial_sync.get().unwrap_or(false),
        removed: it.removed.get().unwrap_or(0),
    })
}

fn dm_target(source: Source<'_>, it: &Placed<DmLayer>) -> Result<DmTarget, SpecError> {
    let target = it.target.value;
    for (key, time, of) in [
        ("delay", &it.delay, DmName::Delay),
        ("up", &it.up, DmName::Flakey),
        ("down", &it.down, DmName::Flakey),
    ] {
        if of != target && time.one().is_some() {
            let (of, target) = (of.label(), target.label());
            let text = format!("'{key}' is for the target {of}, not for {target}");
            return Err(source.error(time.at, text));
        }
    }
    let whole = |key: &str, time: &One<Delay>, unit: Nanos| {
        let Some(Span(span)) = time.get() else {
            return Err(source.error(it.at, format!("'{key}' of the layer is missing")));
        };
        match span.get().is_multiple_of(unit.get()) {
            true => Ok(span),
            false => {
                let text = format!("{key} {span} is no whole number of {unit}");
                Err(source.error(time.at, text))
            }
        }
    };
    let seconds = |key: &str, time: &One<Delay>| {
        let seconds = whole(key, time, Nanos::from_secs(1))?.get() / 1_000_000_000;
        Ok::<u32, SpecError>(u32::try_from(seconds).unwrap_or(u32::MAX))
    };
    Ok(match target {
        DmName::Linear => DmTarget::Linear,
        DmName::Crypt => DmTarget::Crypt,
        DmName::Delay => {
            DmTarget::Delay { delay: whole("delay", &it.delay, Nanos::from_millis(1))? }
        }
        DmName::Flakey => DmTarget::Flakey {
            up_seconds: seconds("up", &it.up)?,
            down_seconds: seconds("down", &it.down)?,
        },
    })
}

fn filesystem(
    source: Source<'_>,
    it: &FilesystemTable,
    mkfs: Tool,
    mount: Tool,
) -> Result<MadeFilesystem, SpecError> {
    Ok(MadeFilesystem {
        mkfs: tool_words(source, "mkfs", &it.mkfs, mkfs)?,
        mount: tool_words(source, "mount", &it.mount, mount)?,
    })
}

/// Words that become those of a command, each of which is listed for it.
fn tool_words(
    source: Source<'_>,
    key: &str,
    said: &One<Texts>,
    tool: Tool,
) -> Result<Vec<String>, SpecError> {
    let texts = said.get().unwrap_or_default();
    let words = texts.to_vec();
    check_words(tool, &words).map_err(|fault| {
        let at = texts.0.get(fault.index).map_or(said.at, |text| text.at);
        source.error(at, format!("{key}: {}", fault.what)).hint(fault.allowed)
    })?;
    Ok(words)
}

/// The same stack with one member less at the layers that `degraded` stands at.
pub(crate) fn degraded(read: &Read) -> Option<DeclaredStack> {
    if read.degraded.is_empty() {
        return None;
    }
    let mut stack = read.stack.clone();
    stack.name.push_str("-degraded");
    for &index in &read.degraded {
        if let Some(DeclaredLayer { kind: DeclaredKind::Md(md), .. }) = stack.layers.get_mut(index)
        {
            md.removed = md.removed.saturating_add(1);
        }
    }
    Some(stack)
}
