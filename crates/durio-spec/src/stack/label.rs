//! What a layer is, in a line.

use durio_layers::{BtrfsProfile, DeclaredKind, DeclaredLayer, DeclaredMd, DmTarget, Made, MadeFilesystem, MdBitmap, ZfsLayout};

use crate::table::value::Shown;

/// A layer in a line: `md RAID10 n2 chunk 16 KiB bitmap none`.
#[must_use]
pub fn layer_label(layer: &DeclaredLayer) -> String {
    let words = words(&layer.kind).into_iter().filter(|word| !word.is_empty());
    let label = words.collect::<Vec<_>>().join(" ");
    if layer.groups > 1 { format!("{} × {label}", layer.groups) } else { label }
}

fn words(kind: &DeclaredKind) -> Vec<String> {
    let word = kind.name();
    match kind {
        DeclaredKind::Ram(it) | DeclaredKind::Zram(it) => made(word, *it),
        DeclaredKind::Loop { made: it, .. } => made(word, *it),
        DeclaredKind::Null { made: it, completion, queue_depth } => {
            let completion = completion.map(|span| format!("completion {span}"));
            let depth = queue_depth.map(|depth| format!("depth {depth}"));
            made(word, *it).into_iter().chain(completion).chain(depth).collect()
        }
        DeclaredKind::Device { paths } => vec![paths.join(" ")],
        DeclaredKind::Md(it) => md(it),
        DeclaredKind::Lvm { layout, chunk } => {
            let chunk = chunk.map(|chunk| format!("chunk {chunk}"));
            [word.to_owned(), layout.label()].into_iter().chain(chunk).collect()
        }
        DeclaredKind::Dm { target } => vec![word.to_owned(), dm(*target)],
        DeclaredKind::Ext4(it) | DeclaredKind::Xfs(it) => filesystem(word, "", it),
        DeclaredKind::Btrfs { profile: BtrfsProfile::Single, options } => {
            filesystem(word, "", options)
        }
        DeclaredKind::Btrfs { profile, options } => filesystem(word, &profile.label(), options),
        DeclaredKind::Zfs { layout, properties, pool_properties } => {
            let layout = (*layout != ZfsLayout::Single).then(|| layout.label());
            let first = [word.to_owned()].into_iter().chain(layout);
            first.chain(properties.clone()).chain(pool_properties.clone()).collect()
        }
    }
}

fn made(word: &str, made: Made) -> Vec<String> {
    let one = format!("{word} {}", made.size);
    vec![if made.count == 1 { one } else { format!("{} × {one}", made.count) }]
}

fn md(md: &DeclaredMd) -> Vec<String> {
    let mut words = vec![format!("md RAID{}", md.level)];
    words.extend(md.layout.clone());
    words.extend(md.chunk.map(|chunk| format!("chunk {chunk}")));
    if md.level != 0 {
        words.push(bitmap(&md.bitmap));
        words.extend(md.bitmap_chunk.map(|chunk| format!("bitmap chunk {chunk}")));
    }
    words.extend(md.ppl.then(|| "PPL".to_owned()));
    words.extend(md.journal.then(|| "journal".to_owned()));
    words.extend((md.removed > 0).then(|| format!("degraded by {}", md.removed)));
    words
}

fn bitmap(bitmap: &MdBitmap) -> String {
    match bitmap {
        MdBitmap::None => "bitmap none".to_owned(),
        MdBitmap::Internal => "bitmap internal".to_owned(),
        MdBitmap::Lockless => "bitmap lockless".to_owned(),
        MdBitmap::External(file) => format!("bitmap in {file}"),
    }
}

fn dm(target: DmTarget) -> String {
    match target {
        DmTarget::Linear => "linear".to_owned(),
        DmTarget::Crypt => "crypt".to_owned(),
        DmTarget::Delay { delay } => format!("delay {delay}"),
        DmTarget::Flakey { up_seconds, down_seconds } => {
            format!("flakey {up_seconds} s up {down_seconds} s down")
        }
    }
}

fn filesystem(word: &str, profile: &str, made: &MadeFilesystem) -> Vec<String> {
    let mut words = vec![word.to_owned(), profile.to_owned()];
    words.extend(made.mkfs.iter().cloned());
    if !made.mount.is_empty() {
        words.push(format!("mounted {}", made.mount.join(",")));
    }
    words
}
