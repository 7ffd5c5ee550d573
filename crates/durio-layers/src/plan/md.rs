//! Arrays of md by mdadm.

use std::path::Path;

use super::Draft;
use crate::command::{Action, Check};
use crate::place::md_uuid;
use crate::undo::Undo;
use crate::{DeclaredMd, MdBitmap};

impl Draft<'_> {
    pub(super) fn md(&mut self, md: &DeclaredMd, group: usize, below: &[String]) -> String {
        let device = format!("/dev/md/{}", self.name(group));
        let members = if md.journal { &below[..below.len().saturating_sub(1)] } else { below };
        if md.bitmap == MdBitmap::Lockless {
            self.check(Check::LocklessBitmap);
        }
        self.load("md_mod", &[]);
        self.load(md_driver(md.level), &[]);
        let uuid = md_uuid(&self.name(group));
        let mut words = vec!["--create".to_owned(), device.clone()];
        words.extend(self.options(md, group, &uuid));
        words.push(format!("--raid-devices={}", members.len()));
        if md.journal {
            words.extend(["--write-journal".to_owned(), last(below)]);
        }
        words.extend(members.iter().cloned());
        let bitmap = self.external_bitmap(md, group);
        let undo = Undo::StopArray { uuid, link: device.clone(), bitmap };
        self.run("mdadm", &words, Some(undo));
        self.check(Check::Present { device: device.clone(), size: None });
        if md.initial_sync && md.level != 0 {
            self.check(Check::Synced { device: device.clone() });
        }
        self.remove_members(md, &device, members);
        let level = format!("raid{}", md.level);
        self.check(Check::Array { device: device.clone(), level, missing: md.removed });
        device
    }

    /// All that could depend on mdadm's configuration or its questions is said explicitly.
    fn options(&self, md: &DeclaredMd, group: usize, uuid: &str) -> Vec<String> {
        let mut words = vec!["--run".to_owned(), "--quiet".to_owned()];
        words.extend(["--metadata=1.2".to_owned(), "--homehost=any".to_owned()]);
        words.extend([format!("--name={}", self.name(group)), format!("--uuid={uuid}")]);
        words.push(format!("--level={}", md.level));
        words.extend(md.layout.as_ref().map(|layout| format!("--layout={layout}")));
        words.extend(md.chunk.map(|chunk| format!("--chunk={}", chunk.get() / 1024)));
        words.extend(self.bitmap_option(md, group));
        words.extend(md.bitmap_chunk.map(|c| format!("--bitmap-chunk={}", c.get() / 1024)));
        if md.ppl {
            words.push("--consistency-policy=ppl".to_owned());
        }
        // Without redundancy there is nothing to be in step.
        if md.level != 0 && !md.initial_sync {
            words.push("--assume-clean".to_owned());
        }
        words
    }

    /// mdadm refuses any word about bitmaps with level 0, and takes PPL or a journal for a policy
    /// that excludes them.
    fn bitmap_option(&self, md: &DeclaredMd, group: usize) -> Option<String> {
        if md.level == 0 || md.ppl || md.journal {
            return None;
        }
        Some(match &md.bitmap {
            MdBitmap::None => "--bitmap=none".to_owned(),
            MdBitmap::Internal => "--bitmap=internal".to_owned(),
            MdBitmap::Lockless => "--bitmap=lockless".to_owned(),
            MdBitmap::External(file) => format!("--bitmap={}", self.bitmap_file(file, group).1),
        })
    }

    /// mdadm makes the file itself, also through a link and over one that is there: so it is made in
    /// a folder that this build has just made.
    fn external_bitmap(&mut self, md: &DeclaredMd, group: usize) -> Option<String> {
        let MdBitmap::External(file) = &md.bitmap else { return None };
        let (folder, path) = self.bitmap_file(file, group);
        let undo = Undo::RemoveDirectory { path: folder.clone() };
        self.push(Action::MakeDirectory { path: folder }, Some(undo));
        Some(path)
    }

    /// A folder beside the declared file, and the file in it.
    fn bitmap_file(&self, file: &str, group: usize) -> (String, String) {
        let file = Path::new(file);
        let name = file.file_name().unwrap_or_default();
        let folder = file.parent().unwrap_or(file).join(self.name(group));
        (folder.display().to_string(), folder.join(name).display().to_string())
    }

    fn remove_members(&mut self, md: &DeclaredMd, device: &str, members: &[String]) {
        let removed = usize::try_from(md.removed).unwrap_or(usize::MAX);
        for member in members.iter().rev().take(removed) {
            self.run("mdadm", &[device, "--quiet", "--fail", member], None);
            self.run("mdadm", &[device, "--quiet", "--remove", member], None);
        }
    }
}

fn last(devices: &[String]) -> String {
    devices.last().cloned().unwrap_or_default()
}

/// The module that has the level.
pub(crate) const fn md_driver(level: u8) -> &'static str {
    match level {
        0 => "raid0",
        1 => "raid1",
        10 => "raid10",
        _ => "raid456",
    }
}
