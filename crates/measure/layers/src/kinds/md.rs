//! Software RAID arrays of the kernel's md, made by mdadm.
//!
//! What an array may be is in `limits`; how a running one is looked at, proven and stopped in `array`.

mod array;
mod limits;

use super::prelude::*;
use crate::declared::GroupSizes;
use crate::place::md_uuid;

pub(crate) use array::{ArrayCheck, StopArray};

pub(crate) const KIND: KindEntry = KindEntry {
    word: "md",
    help: "A software RAID array of the kernel's md.",
    role: LayerRole::Devices,
    drivers: &[MD, RAID0, RAID1, RAID10, RAID456],
    tools: &[],
    superblock: Some(SuperblockFormat { signatures: &["md 1.2"], read: array::superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const MD: Driver = Driver { module: "md_mod", purpose: PURPOSE, shown: DriverSign::At(MDSTAT) };
const RAID0: Driver = personality("raid0", "[raid0]");
const RAID1: Driver = personality("raid1", "[raid1]");
const RAID10: Driver = personality("raid10", "[raid10]");
/// Levels 4 to 6.
const RAID456: Driver = personality("raid456", "[raid5]");

const PURPOSE: &str = "RAID arrays";
const MDSTAT: &str = "/proc/mdstat";

const fn personality(module: &'static str, word: &'static str) -> Driver {
    Driver { module, purpose: PURPOSE, shown: DriverSign::In(MDSTAT, word) }
}

/// Where md keeps which parts of an array may differ between its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MdBitmap {
    /// Nowhere.
    None,
    /// On the members.
    Internal,
    /// In a file on another filesystem.
    External(String),
    /// The kernel's lockless bitmap, on the members.
    Lockless,
}

/// A level; no other key of a spec is a number this small.
impl SpecScalar for u8 {
    const FORM: SpecForm = SpecForm::Numbers(&[0, 1, 4, 5, 6, 10]);

    fn of(value: &SpecValue) -> Option<Self> {
        u32::of(value)?.try_into().ok()
    }
}

impl SpecScalar for MdBitmap {
    const FORM: SpecForm = SpecForm::WordsOrPath(&["none", "internal", "lockless"], "external:");

    fn of(value: &SpecValue) -> Option<Self> {
        Some(match String::of(value)?.as_str() {
            "none" => Self::None,
            "internal" => Self::Internal,
            "lockless" => Self::Lockless,
            other => Self::External(other.strip_prefix("external:")?.to_owned()),
        })
    }
}

spec_keys! {
    /// A software RAID array.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct DeclaredMd {
        /// 0, 1, 4, 5, 6 or 10.
        pub level: u8,
        /// mdadm's word: n2, f2, o2, left-symmetric … Default: mdadm's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub layout: Option<String>,
        /// Chunk size: bytes on a member before the next one. Default: mdadm's own.
        #[serde(rename = "chunk_bytes", default, skip_serializing_if = "Option::is_none")]
        pub chunk: Option<Bytes>,
        /// none, internal, lockless, or external:FILE on another filesystem: it is made in a new
        /// private folder next to that path. Default: none.
        pub bitmap: MdBitmap = MdBitmap::None,
        /// Bytes of the array per bit. Default: mdadm's own.
        #[serde(rename = "bitmap_chunk_bytes", default, skip_serializing_if = "Option::is_none")]
        pub bitmap_chunk: Option<Bytes>,
        /// Partial parity log; level 5 only. Default: false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub ppl: bool = false,
        /// The last device is the write journal; levels 4 to 6 only. Default: false.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub journal: bool = false,
        /// Sync the members before anything is measured, however long that takes. Default: false,
        /// for new devices are all zeros.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub initial_sync: bool = false,
        /// Members to fail and remove, from the last. Default: 0.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub removed: u32 = 0,
        /// true adds a stack NAME-degraded with one more member removed. Default: false.
        // Only in a spec: when built and saved, the two stacks are separate.
        #[serde(skip)]
        pub degraded: bool = false,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl BuildableLayer for DeclaredMd {
    fn label(&self) -> Vec<String> {
        let mut words = vec![format!("md RAID{}", self.level)];
        words.extend(self.layout.clone());
        words.extend(self.chunk.map(|chunk| format!("chunk {chunk}")));
        if self.level != 0 {
            words.push(bitmap_label(&self.bitmap));
            words.extend(self.bitmap_chunk.map(|chunk| format!("bitmap chunk {chunk}")));
        }
        words.extend(self.ppl.then(|| "PPL".to_owned()));
        words.extend(self.journal.then(|| "journal".to_owned()));
        words.extend((self.removed > 0).then(|| format!("degraded by {}", self.removed)));
        words
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mdadm", "mdadm"), self.driver().missing()]
    }

    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        limits::check(self, below.group()?)
    }

    fn key_fault(&self) -> Option<KeyFault> {
        let what = "level 0 survives no failure: it cannot be degraded";
        (self.degraded && self.level == 0).then(|| KeyFault::new("degraded", what))
    }

    fn take_degraded(&mut self) -> Option<DeclaredKind> {
        let removed = self.removed.saturating_add(1);
        let asked = std::mem::take(&mut self.degraded);
        asked.then(|| DeclaredKind::Md(Self { removed, ..self.clone() }))
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        per_group(below, |group| self.held(group))
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        draft.in_groups(below, |draft, group, below| self.array(draft, group, below))
    }
}

fn bitmap_label(bitmap: &MdBitmap) -> String {
    match bitmap {
        MdBitmap::None => "bitmap none".to_owned(),
        MdBitmap::Internal => "bitmap internal".to_owned(),
        MdBitmap::Lockless => "bitmap lockless".to_owned(),
        MdBitmap::External(file) => format!("bitmap in {file}"),
    }
}

impl DeclaredMd {
    /// The module that has the level.
    const fn driver(&self) -> Driver {
        match self.level {
            0 => RAID0,
            1 => RAID1,
            10 => RAID10,
            _ => RAID456,
        }
    }

    fn held(&self, group: GroupSizes) -> u64 {
        let (least, count) = (group.least, group.count.saturating_sub(u64::from(self.journal)));
        match self.level {
            1 => least,
            4 | 5 => least.saturating_mul(count.saturating_sub(1)),
            6 => least.saturating_mul(count.saturating_sub(2)),
            10 => least.saturating_mul(count) / self.copies_by_digits(),
            _ => least.saturating_mul(count),
        }
    }

    /// Copies of level 10 by the digits of its layout; 2 without one, as mdadm has it.
    fn copies_by_digits(&self) -> u64 {
        let digits = self.layout.as_deref().and_then(|layout| layout.get(1..));
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(2).max(1)
    }

    fn array(&self, draft: &mut PlanDraft<'_>, group: usize, below: &[String]) -> String {
        let name = draft.name(group);
        let device = format!("/dev/md/{name}");
        // mdadm does not count the journal among --raid-devices.
        let members = if self.journal { &below[..below.len().saturating_sub(1)] } else { below };
        if self.bitmap == MdBitmap::Lockless {
            draft.check(StepCheck::ArrayCheck(ArrayCheck::LocklessBitmap));
        }
        // By name: the kernel loads a personality by itself through /sbin/modprobe, which in a
        // small guest may not be kmod's.
        draft.load(MD.module, &[]);
        draft.load(self.driver().module, &[]);
        let (uuid, _) = md_uuid(&name);
        let mut words = vec!["--create".to_owned(), device.clone()];
        words.extend(self.options(&name, &uuid));
        words.push(format!("--raid-devices={}", members.len()));
        if let Some(journal) = below.last().filter(|_| self.journal) {
            words.extend(["--write-journal".to_owned(), journal.clone()]);
        }
        words.extend(members.iter().cloned());
        let bitmap = self.external_bitmap(draft, &name);
        let undo = StopArray { uuid, link: device.clone(), bitmap };
        draft.run("mdadm", &words, Some(Undo::StopArray(undo)));
        let device = draft.present(device);
        // Otherwise nothing needs a sync: RAM disks and new files are zeros, whose copies and
        // parities (of RAID 6 both) are zeros as well.
        if self.initial_sync && self.level != 0 {
            draft.check(StepCheck::ArrayCheck(ArrayCheck::Synced { device: device.clone() }));
        }
        self.remove_members(draft, &device, members);
        let level = format!("raid{}", self.level);
        let runs = ArrayCheck::Runs { device: device.clone(), level, missing: self.removed };
        draft.check(StepCheck::ArrayCheck(runs));
        device
    }

    /// All that could depend on mdadm's configuration or its questions is said explicitly.
    fn options(&self, name: &str, uuid: &str) -> Vec<String> {
        let mut words = vec!["--run".to_owned(), "--quiet".to_owned()];
        // 1.2 puts the superblock where `array::superblock` looks for it, and a name without that
        // of the host is the same wherever the array is looked at.
        words.extend(["--metadata=1.2".to_owned(), "--homehost=any".to_owned()]);
        words.extend([format!("--name={name}"), format!("--uuid={uuid}")]);
        words.push(format!("--level={}", self.level));
        words.extend(self.layout.as_ref().map(|layout| format!("--layout={layout}")));
        words.extend(self.chunk.map(|chunk| format!("--chunk={}", chunk.get() / 1024)));
        words.extend(self.bitmap_option(name));
        words.extend(self.bitmap_chunk.map(|c| format!("--bitmap-chunk={}", c.get() / 1024)));
        if self.ppl {
            words.push("--consistency-policy=ppl".to_owned());
        }
        // Without redundancy there is nothing to be in step.
        if self.level != 0 && !self.initial_sync {
            words.push("--assume-clean".to_owned());
        }
        words
    }

    // mdadm refuses any word about bitmaps with level 0, and takes PPL or a journal for a policy
    // that excludes them.
    fn bitmap_option(&self, name: &str) -> Option<String> {
        if self.level == 0 || self.ppl || self.journal {
            return None;
        }
        Some(match &self.bitmap {
            // Unasked, mdadm adds an internal bitmap on devices of 100 GB and more (mdadm(8)),
            // which adds more than a third to a small synchronous write: on RAID 10 of null_blk and
            // Linux 6.12, 122 instead of 89 µs of counted time.
            MdBitmap::None => "--bitmap=none".to_owned(),
            MdBitmap::Internal => "--bitmap=internal".to_owned(),
            MdBitmap::Lockless => "--bitmap=lockless".to_owned(),
            MdBitmap::External(file) => format!("--bitmap={}", bitmap_file(file, name).1),
        })
    }

    // mdadm makes the file itself, also through a link and over one that is there: so it is made in
    // a folder that only this build has.
    fn external_bitmap(&self, draft: &mut PlanDraft<'_>, name: &str) -> Option<String> {
        let MdBitmap::External(file) = &self.bitmap else { return None };
        let (folder, path) = bitmap_file(file, name);
        draft.make_directory(&folder);
        Some(path)
    }

    fn remove_members(&self, draft: &mut PlanDraft<'_>, device: &str, members: &[String]) {
        let removed = usize::try_from(self.removed).unwrap_or(usize::MAX);
        for member in members.iter().rev().take(removed) {
            // md lets go of no member that it uses: it has to be failed first.
            draft.run("mdadm", &[device, "--quiet", "--fail", member], None);
            draft.run("mdadm", &[device, "--quiet", "--remove", member], None);
        }
    }
}

/// A folder in the declared file's folder, and the file in it.
fn bitmap_file(file: &str, array: &str) -> (String, String) {
    let file = Path::new(file);
    let name = file.file_name().unwrap_or_default();
    let folder = file.parent().unwrap_or(file).join(array);
    (folder.display().to_string(), folder.join(name).display().to_string())
}

#[cfg(test)]
mod tests {
    //! The exact words of mdadm, and what proves an array.

    use super::*;
    use crate::tests::stacks::{TAG, ext4, md, place, plan, plan_above, ram, stack, types_on};
    use crate::{DeclaredKind, DeclaredStack, commands};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        let external = MdBitmap::External("/srv/bitmap".into());
        let arrays = [
            DeclaredMd { removed: 1, ..md(10) },
            DeclaredMd { bitmap: external, ..md(1) },
            DeclaredMd { journal: true, ..md(5) },
        ];
        let mut stacks: Vec<DeclaredStack> =
            arrays.map(|array| stack(vec![ram(4), DeclaredKind::Md(array), ext4()])).into();
        let mut nested =
            stack(vec![ram(4), DeclaredKind::Md(md(0)), DeclaredKind::Md(md(1)), ext4()]);
        nested.layers[1].groups = 2;
        stacks.push(nested);
        stacks
    }

    fn mdadm(count: u32, md: DeclaredMd) -> String {
        let plan = plan_above(vec![ram(count), DeclaredKind::Md(md)]);
        plan.into_iter().find(|line| line.starts_with("mdadm --create")).unwrap()
    }

    /// The identifier is the same for the same name, and another for every other one.
    #[test]
    fn arrays_are_made_with_every_word_that_could_otherwise_be_asked_for() {
        let common = "mdadm --create /dev/md/durioabc1234-1-0 --run --quiet --metadata=1.2 \
                      --homehost=any --name=durioabc1234-1-0 --uuid=";
        let words = |md, count| {
            let line = mdadm(count, md);
            let rest = line.strip_prefix(common).expect("the common words").to_owned();
            assert_eq!(rest.split(' ').next().unwrap().len(), 35, "{rest}");
            rest[36..].to_owned()
        };
        let chunk = |kib| Some(Bytes::from_kib(kib));
        let flagship = DeclaredMd { layout: Some("n2".into()), chunk: chunk(16), ..md(10) };
        assert_eq!(
            words(flagship.clone(), 4),
            "--level=10 --layout=n2 --chunk=16 --bitmap=none --assume-clean --raid-devices=4 \
             /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3"
        );
        let bitmap = DeclaredMd {
            bitmap: MdBitmap::Internal,
            bitmap_chunk: chunk(65536),
            initial_sync: true,
            ..md(1)
        };
        assert_eq!(
            words(bitmap, 2),
            "--level=1 --bitmap=internal --bitmap-chunk=65536 --raid-devices=2 /dev/ram0 /dev/ram1"
        );
        assert_eq!(words(md(0), 2), "--level=0 --raid-devices=2 /dev/ram0 /dev/ram1");
        let ppl = DeclaredMd { ppl: true, chunk: chunk(4), ..md(5) };
        assert_eq!(
            words(ppl, 3),
            "--level=5 --chunk=4 --consistency-policy=ppl --assume-clean --raid-devices=3 /dev/ram0 \
             /dev/ram1 /dev/ram2"
        );
        assert_eq!(
            words(DeclaredMd { journal: true, ..md(5) }, 4),
            "--level=5 --assume-clean --raid-devices=3 --write-journal /dev/ram3 /dev/ram0 /dev/ram1 \
             /dev/ram2"
        );
        let lockless = DeclaredMd { bitmap: MdBitmap::Lockless, ..md(1) };
        assert!(words(lockless, 2).starts_with("--level=1 --bitmap=lockless --assume-clean"));
    }

    #[test]
    fn removed_members_are_failed_and_removed_from_the_last_and_then_counted() {
        let plan = plan_above(vec![ram(4), DeclaredKind::Md(DeclaredMd { removed: 2, ..md(6) })]);
        let device = "/dev/md/durioabc1234-1-0";
        assert_eq!(
            plan[4..],
            [
                format!("mdadm {device} --quiet --fail /dev/ram3"),
                format!("mdadm {device} --quiet --remove /dev/ram3"),
                format!("mdadm {device} --quiet --fail /dev/ram2"),
                format!("mdadm {device} --quiet --remove /dev/ram2"),
                format!("check that {device} runs as raid6 without 2 of its members"),
            ]
        );
    }

    #[test]
    fn a_sync_is_waited_for_before_the_members_are_counted() {
        let plan =
            plan_above(vec![ram(3), DeclaredKind::Md(DeclaredMd { initial_sync: true, ..md(5) })]);
        let tail: Vec<&str> = plan.iter().rev().take(2).map(String::as_str).collect();
        let device = "/dev/md/durioabc1234-1-0";
        assert_eq!(tail[1], format!("wait until {device} is in sync"));
        assert_eq!(tail[0], format!("check that {device} runs as raid5 with all members"));
    }

    #[test]
    fn nested_arrays_have_names_of_their_own() {
        let mut nested = stack(vec![ram(4), DeclaredKind::Md(md(0)), DeclaredKind::Md(md(1))]);
        nested.layers[1].groups = 2;
        let plan = commands(&nested, &place()).unwrap();
        let creates: Vec<String> = plan
            .iter()
            .map(|command| command.action.to_string())
            .filter(|line| line.starts_with("mdadm --create"))
            .collect();
        let ends = [
            "--raid-devices=2 /dev/ram0 /dev/ram1",
            "--raid-devices=2 /dev/ram2 /dev/ram3",
            "--raid-devices=2 /dev/md/durioabc1234-1-0 /dev/md/durioabc1234-1-1",
        ];
        assert_eq!(creates.len(), 3);
        for (line, end) in creates.iter().zip(ends) {
            assert!(line.ends_with(end), "{line}");
        }
        let uuid = |line: &String| line.split("--uuid=").nth(1).unwrap()[..35].to_owned();
        let uuids: std::collections::BTreeSet<String> = creates.iter().map(uuid).collect();
        assert_eq!(uuids.len(), 3);
    }

    #[test]
    fn an_external_bitmap_is_made_in_a_folder_of_the_build() {
        let md = DeclaredMd { bitmap: MdBitmap::External("/srv/bitmap".into()), ..md(1) };
        let plan = plan(vec![ram(2), DeclaredKind::Md(md)]);
        let make = "make directory /srv/durioabc1234-1-0  | remove directory /srv/durioabc1234-1-0";
        assert!(plan.iter().any(|line| line == make), "{plan:?}");
        let create = plan.iter().find(|line| line.starts_with("mdadm --create")).unwrap();
        assert!(create.contains("--bitmap=/srv/durioabc1234-1-0/bitmap "), "{create}");
        assert!(create.ends_with("remove file /srv/durioabc1234-1-0/bitmap"), "{create}");
    }

    #[test]
    fn lockless_bitmaps_need_a_new_kernel_and_a_new_mdadm() {
        let fault = |mdadm, release| array::lockless_fault(mdadm, release);
        let old = "mdadm - v4.2 - 2021-12-30 - Debian 4.2-5";
        assert_eq!(
            fault(old, "6.12.95+deb12-amd64").unwrap(),
            "lockless bitmaps need Linux 6.18, and this is 6.12"
        );
        assert_eq!(
            fault(old, "6.18.44").unwrap(),
            "lockless bitmaps need mdadm 4.6, and this is 4.2"
        );
        assert_eq!(fault("mdadm - v4.6 - 2026-03-01", "6.18.0-rc1"), None);
        assert_eq!(fault("mdadm - v5.0", "7.0.1"), None);
        assert!(fault("", "").unwrap().contains("unknown"));
    }

    #[test]
    fn a_member_is_ours_by_the_name_and_identifier_of_its_array() {
        for host in ["", "any:"] {
            let name = format!("{host}{TAG}-1-0");
            let (_, array) = md_uuid(&format!("{TAG}-1-0"));
            types_on("md 1.2", &[(4096 + 32, name.as_bytes()), (4096 + 16, &array)]).unwrap();
        }
        assert!(types_on("md 1.2", &[(4096 + 32, b"durioabc1234-1-0")]).is_err());
    }
}
