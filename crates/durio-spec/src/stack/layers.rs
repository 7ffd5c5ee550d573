//! A `[[stack]]` as it was read to a [`DeclaredStack`].
//!
//! In: a block whose keys and values are known. Out: the stack, or what it lacks and where. Not here:
//! whether such a stack can be built (`durio_stack::build`).

use durio_stack::build::{Tool, check_words};
use durio_stack::{
    BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredMd, DeclaredStack, DmTarget, LvmLayout,
    Made, MadeFilesystem, MdBitmap, ZfsLayout,
};
use durio_units::{Bytes, Nanos};

use crate::SpecError;
use crate::campaign::reader::{Block, Setting};
use crate::campaign::text::Source;
use crate::campaign::value::{Value, choice};

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
    block: &Block,
    suffix: &[String],
) -> Result<Read, SpecError> {
    let Some(first) = block.text("name") else {
        return Err(source.error(block.at, "'name' of the stack is missing"));
    };
    let name = suffix.iter().fold(first.to_owned(), |name, value| format!("{name}-{value}"));
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.len() > NAME_MAX {
        let text = format!("the name '{name}' is longer than {NAME_MAX} letters");
        return Err(source.error(block.at, text).hint("use {AXIS} in a shorter name"));
    }
    let mut read = Read {
        stack: DeclaredStack { name, layers: Vec::new() },
        at: block.at,
        degraded: Vec::new(),
    };
    for (index, outer) in block.blocks("layers").enumerate() {
        let (setting, inner) = only_key(source, outer)?;
        read.stack.layers.push(layer(Reading { source, block: inner }, setting.key.name)?);
        if matches!(inner.value("degraded").map(|placed| &placed.value), Some(Value::Flag(true))) {
            read.degraded.push(index);
        }
    }
    match read.stack.layers.is_empty() {
        true => Err(source
            .error(block.at, format!("stack '{}' has no layers", read.stack.name))
            .hint("add layers = [{ ram = { size = \"1GiB\" } }]")),
        false => Ok(read),
    }
}

const fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The word of a layer and its table.
fn only_key<'b>(
    source: Source<'_>,
    outer: &'b Block,
) -> Result<(&'b Setting, &'b Block), SpecError> {
    let [setting] = &outer.settings[..] else {
        let text = format!("a layer has one word, not {}", outer.settings.len());
        return Err(source
            .error(outer.at, text)
            .hint("write { md = { level = 1 } }, { xfs = {} }"));
    };
    match setting.values.first().map(|placed| &placed.value) {
        Some(Value::Block(block)) => Ok((setting, block)),
        _ => Err(source.error(setting.at, format!("'{}' is a table", setting.key.name))),
    }
}

fn layer(reading: Reading<'_>, word: &str) -> Result<DeclaredLayer, SpecError> {
    Ok(DeclaredLayer {
        kind: kind(reading, word)?,
        groups: reading.count("groups").unwrap_or(1),
        measured: reading.flag("measured").unwrap_or(true),
    })
}

fn kind(it: Reading<'_>, word: &str) -> Result<DeclaredKind, SpecError> {
    Ok(match word {
        "ram" => DeclaredKind::Ram(it.made()?),
        "zram" => DeclaredKind::Zram(it.made()?),
        "null" => DeclaredKind::Null {
            made: it.made()?,
            completion: it.time("completion"),
            queue_depth: it.count("queue_depth"),
        },
        "loop" => DeclaredKind::Loop { made: it.made()?, directory: it.text("directory") },
        "device" => DeclaredKind::Device { paths: it.required("path", it.some_texts("path"))? },
        "md" => DeclaredKind::Md(it.md()?),
        "lvm" => DeclaredKind::Lvm { layout: it.lvm_layout(), chunk: it.bytes("chunk") },
        "dm" => DeclaredKind::Dm { target: it.dm_target()? },
        "ext4" => DeclaredKind::Ext4(it.filesystem(Tool::MkfsExt4, Tool::MountExt4)?),
        "xfs" => DeclaredKind::Xfs(it.filesystem(Tool::MkfsXfs, Tool::MountXfs)?),
        "btrfs" => DeclaredKind::Btrfs {
            profile: it.btrfs_profile(),
            options: it.filesystem(Tool::MkfsBtrfs, Tool::MountBtrfs)?,
        },
        "zfs" => DeclaredKind::Zfs {
            layout: it.zfs_layout(),
            properties: it.tool_words("properties", Tool::ZfsProperties)?,
            pool_properties: it.tool_words("pool_properties", Tool::ZpoolProperties)?,
        },
        other => return Err(it.source.error(it.block.at, format!("unknown layer '{other}'"))),
    })
}

/// The table of a layer.
#[derive(Debug, Clone, Copy)]
struct Reading<'a> {
    source: Source<'a>,
    block: &'a Block,
}

impl Reading<'_> {
    fn required<T>(self, key: &str, value: Option<T>) -> Result<T, SpecError> {
        value.ok_or_else(|| {
            self.source.error(self.block.at, format!("'{key}' of the layer is missing"))
        })
    }

    /// An error at the value of a key.
    fn fail<T>(self, key: &str, text: impl AsRef<str>) -> Result<T, SpecError> {
        let at = self.block.value(key).map_or(self.block.at, |placed| placed.at);
        Err(self.source.error(at, text))
    }

    fn count(self, key: &str) -> Option<u32> {
        match self.block.value(key)?.value {
            Value::Count(count) => Some(count),
            _ => None,
        }
    }

    fn flag(self, key: &str) -> Option<bool> {
        match self.block.value(key)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn bytes(self, key: &str) -> Option<Bytes> {
        match self.block.value(key)?.value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn time(self, key: &str) -> Option<Nanos> {
        match self.block.value(key)?.value {
            Value::Delay(span) => Some(span),
            _ => None,
        }
    }

    fn text(self, key: &str) -> Option<String> {
        self.block.text(key).map(str::to_owned)
    }

    fn texts(self, key: &str) -> Vec<String> {
        self.block.texts(key).map(|placed| placed.value.to_owned()).collect()
    }

    fn some_texts(self, key: &str) -> Option<Vec<String>> {
        Some(self.texts(key)).filter(|texts| !texts.is_empty())
    }

    fn made(self) -> Result<Made, SpecError> {
        let size = self.required("size", self.bytes("size"))?;
        Ok(Made { count: self.count("count").unwrap_or(1), size })
    }

    fn md(self) -> Result<DeclaredMd, SpecError> {
        let level = self.required("level", self.count("level"))?;
        let known = u8::try_from(level).ok().filter(|level| [0, 1, 4, 5, 6, 10].contains(level));
        let Some(level) = known else {
            return self.fail("level", format!("{level} is no level: 0, 1, 4, 5, 6 or 10"));
        };
        if level == 0 && self.flag("degraded") == Some(true) {
            return self.fail("degraded", "level 0 survives no failure: it cannot be degraded");
        }
        Ok(DeclaredMd {
            level,
            layout: self.text("layout"),
            chunk: self.bytes("chunk"),
            bitmap: self.bitmap()?,
            bitmap_chunk: self.bytes("bitmap_chunk"),
            ppl: self.flag("ppl").unwrap_or(false),
            journal: self.flag("journal").unwrap_or(false),
            initial_sync: self.flag("initial_sync").unwrap_or(false),
            removed: self.count("removed").unwrap_or(0),
        })
    }

    fn bitmap(self) -> Result<MdBitmap, SpecError> {
        let text = self.block.text("bitmap").unwrap_or("none");
        if let Some(file) = text.strip_prefix("external:").filter(|file| file.starts_with('/')) {
            return Ok(MdBitmap::External(file.to_owned()));
        }
        match choice(&["none", "internal", "lockless", "external:/FILE"], text) {
            Ok(Value::Choice("internal")) => Ok(MdBitmap::Internal),
            Ok(Value::Choice("lockless")) => Ok(MdBitmap::Lockless),
            Ok(Value::Choice("none")) => Ok(MdBitmap::None),
            Ok(_) => self.fail("bitmap", "the file of an external bitmap is not named"),
            Err(reason) => self.fail("bitmap", format!("bitmap: {reason}")),
        }
    }

    fn lvm_layout(self) -> LvmLayout {
        match self.block.text("layout") {
            Some("striped") => LvmLayout::Striped,
            Some("raid1") => LvmLayout::Raid1,
            Some("raid10") => LvmLayout::Raid10,
            _ => LvmLayout::Linear,
        }
    }

    fn dm_target(self) -> Result<DmTarget, SpecError> {
        let target = self.required("target", self.block.text("target"))?;
        self.refuse_foreign_times(target)?;
        Ok(match target {
            "crypt" => DmTarget::Crypt,
            "delay" => DmTarget::Delay { delay: self.whole("delay", Nanos::from_millis(1))? },
            "flakey" => {
                let seconds = |key: &str| {
                    let span = self.whole(key, Nanos::from_secs(1))?;
                    let seconds = span.get() / 1_000_000_000;
                    Ok::<u32, SpecError>(u32::try_from(seconds).unwrap_or(u32::MAX))
                };
                DmTarget::Flakey { up_seconds: seconds("up")?, down_seconds: seconds("down")? }
            }
            _ => DmTarget::Linear,
        })
    }

    fn refuse_foreign_times(self, target: &str) -> Result<(), SpecError> {
        for (key, of) in [("delay", "delay"), ("up", "flakey"), ("down", "flakey")] {
            if of != target && self.block.setting(key).is_some() {
                return self.fail(key, format!("'{key}' is for the target {of}, not for {target}"));
            }
        }
        Ok(())
    }

    fn whole(self, key: &str, unit: Nanos) -> Result<Nanos, SpecError> {
        let span = self.required(key, self.time(key))?;
        match span.get().is_multiple_of(unit.get()) {
            true => Ok(span),
            false => self.fail(key, format!("{key} {span} is no whole number of {unit}")),
        }
    }

    fn filesystem(self, mkfs: Tool, mount: Tool) -> Result<MadeFilesystem, SpecError> {
        let (mkfs, mount) = (self.tool_words("mkfs", mkfs)?, self.tool_words("mount", mount)?);
        Ok(MadeFilesystem { mkfs, mount })
    }

    /// Words that become those of a command, each of which is listed for it.
    fn tool_words(self, key: &str, tool: Tool) -> Result<Vec<String>, SpecError> {
        let words = self.texts(key);
        check_words(tool, &words).map_err(|fault| {
            let at = self.block.texts(key).nth(fault.index).map_or(self.block.at, |it| it.at);
            self.source.error(at, format!("{key}: {}", fault.what)).hint(fault.allowed)
        })?;
        Ok(words)
    }

    fn btrfs_profile(self) -> BtrfsProfile {
        match self.block.text("profile") {
            Some("raid1") => BtrfsProfile::Raid1,
            Some("raid10") => BtrfsProfile::Raid10,
            _ => BtrfsProfile::Single,
        }
    }

    fn zfs_layout(self) -> ZfsLayout {
        match self.block.text("layout") {
            Some("mirror") => ZfsLayout::Mirror,
            Some("raidz1") => ZfsLayout::Raidz1,
            Some("raidz2") => ZfsLayout::Raidz2,
            _ => ZfsLayout::Single,
        }
    }
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
