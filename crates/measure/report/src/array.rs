//! durio's arrays as documents: the state of a served one, and the contents of devices.
//!
//! Shows an [`ArrayStatus`] or an [`ArrayExamination`] as facts and a table of members.
//! `durio-raid-commands` asks the server and reads superblocks.

use durio_base::{Bytes, RaidLevel};
use durio_observe::{
    ArrayExamination, ArrayList, ArrayScrub, ArrayShape, ArrayState, ArrayStatus, ExaminedDevice,
    ListedArray, MemberStanding, MemberStatus,
};

use crate::Report;
use crate::document::{
    Cell, Column, DetailLevel, Document, Section, Table, Tone, both, record, shown, words,
};
use crate::figures::precise;

impl Report for ArrayStatus {
    fn document(&self) -> Document {
        let mut document = Document::new("durio raid", self.shape.name.as_str());
        let mut section = Section::default();
        let (tone, words) = standing_words(self);
        section.say(tone, words);
        if let Some(why) = &self.stopped_because {
            section.toned(Tone::Bad, "why", why.as_str());
        }
        section.fact("served at", self.served_at.as_str());
        section.facts(shape_facts(&self.shape));
        section.fact("requests", format!("{} in flight", self.requests));
        section.fact("regions", regions(self));
        self.scrub.iter().for_each(|progress| scrub(progress, self, &mut section));
        document.push(section);
        let rows = self.devices.iter().map(|member| (self, member));
        let mut members = Section::new("Members");
        members.table(Table::shown(&columns(), rows.clone()));
        document.push(members);
        document.records = Table::records(&columns(), rows);
        document
    }
}

impl Report for ArrayList {
    fn document(&self) -> Document {
        let mut section = Section::default();
        if self.arrays.is_empty() {
            section.note("no array is served now; durio raid start serves one");
        }
        section.table(Table::shown(&list_columns(), &self.arrays));
        let mut document = Document::new("durio raid", "served arrays");
        document.push(section);
        document.records = Table::records(&list_columns(), &self.arrays);
        document
    }
}

fn list_columns() -> Vec<Column<ListedArray>> {
    vec![
        words(both("name", "array", |listed| {
            of_status(listed, |status| Cell::text(&status.shape.name))
        })),
        words(both("socket", "socket", |listed| Cell::text(&listed.socket))),
        words(both("served_at", "served at", |listed| {
            of_status(listed, |status| Cell::text(&status.served_at))
        })),
        words(shown("state", |listed| match (&listed.status, &listed.problem) {
            (Some(status), _) => {
                let (tone, words) = standing_words(status);
                Cell::Word(tone, words)
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or_default();
                Cell::Word(Tone::Bad, format!("no answer: {why}"))
            }
        })),
        record("state", |listed| of_status(listed, |status| Cell::saved(&status.state))),
        record("problem", |listed| Cell::of(listed.problem.as_ref(), Cell::text)),
    ]
}

fn of_status(listed: &ListedArray, cell: impl FnOnce(&ArrayStatus) -> Cell) -> Cell {
    Cell::of(listed.status.as_ref(), cell)
}

/// What a user may rely on now, in one line.
pub fn array_standing(status: &ArrayStatus) -> String {
    standing_words(status).1
}

fn standing_words(status: &ArrayStatus) -> (Tone, String) {
    let resync = resync_words(status);
    match status.state {
        ArrayState::Starting => {
            (Tone::Warning, "starting: writing its first superblocks".to_owned())
        }
        ArrayState::Stopped => {
            (Tone::Bad, "stopped by itself: no reads or writes are served".to_owned())
        }
        ArrayState::Running if status.shape.level == RaidLevel::Raid0 => {
            let replacing = replacing_words(status);
            (Tone::Good, format!("running, without redundancy: one failure loses data{replacing}"))
        }
        ArrayState::Running => {
            let replacing = replacing_words(status);
            (Tone::Good, format!("running, redundant: {}{replacing}", may_fail_words(status, "")))
        }
        ArrayState::Resyncing => {
            let may_fail = may_fail_words(status, "");
            (Tone::Warning, format!("{}; {may_fail}", resync.unwrap_or_default()))
        }
        ArrayState::Degraded => {
            let lacking = status.devices.iter().filter_map(|member| lacking_words(member, status));
            let lacking = lacking.chain(resync).collect::<Vec<_>>().join("; ");
            let may_fail = may_fail_words(status, " more");
            (Tone::Warning, format!("degraded: {lacking}; {may_fail}"))
        }
    }
}

fn may_fail_words(status: &ArrayStatus, more: &str) -> String {
    match status.may_fail {
        0 => format!("one{more} failure loses data"),
        1 => format!("any one{more} member may fail"),
        count => format!("any {count}{more} members may fail"),
    }
}

fn replacing_words(status: &ArrayStatus) -> String {
    let words = status.devices.iter().filter_map(|member| {
        let (replaces, done) = (member.replaces?, member.rebuilt_bytes?);
        Some(format!(
            "; member {replaces} is being replaced, {}",
            percent(done, status.shape.member_bytes)
        ))
    });
    words.collect()
}

/// The words for a member that lacks data.
fn lacking_words(member: &MemberStatus, status: &ArrayStatus) -> Option<String> {
    let role = member.role?;
    match member.state {
        MemberStanding::Faulty => Some(format!("member {role} is missing")),
        MemberStanding::Rebuilding => {
            let done = percent(member.rebuilt_bytes.unwrap_or(0), status.shape.member_bytes);
            Some(format!("member {role} is being rebuilt, {done}"))
        }
        _ => None,
    }
}

/// None if nothing is left to resync.
fn resync_words(status: &ArrayStatus) -> Option<String> {
    let (left, all) = (status.regions_to_resync, status.regions.max(status.regions_to_resync));
    let done = percent((all - left).into(), all.into());
    let what = if has_parity(status) { "parities may be wrong" } else { "copies may differ" };
    (left > 0).then(|| format!("resyncing, {done}: elsewhere {what} until then"))
}

/// Rounded down: 100 % is all of it.
fn percent(done: u64, all: u64) -> String {
    let percent = u128::from(done) * 100 / u128::from(all.max(1));
    format!("{percent} % done")
}

fn has_parity(status: &ArrayStatus) -> bool {
    status.shape.level.parities() > 0
}

fn scrub(it: &ArrayScrub, status: &ArrayStatus, section: &mut Section) {
    let has_parity = has_parity(status);
    let what = if has_parity { "parities" } else { "copies of chunks" };
    let [done, all] = [it.done_bytes, it.all_bytes].map(Bytes::new);
    let is_rebuilding = |member: &MemberStatus| member.state == MemberStanding::Rebuilding;
    let waits = status.regions_to_resync > 0 || status.devices.iter().any(is_rebuilding);
    let (differ, unreadable) = (it.mismatches, it.unreadable);
    let compared = it.done_bytes.saturating_sub(it.skipped_bytes);
    let how_far = match (it.is_running, waits) {
        (true, true) if it.done_bytes == 0 => "waits for resync and rebuild".to_owned(),
        (true, true) => format!("{done} of {all}, paused by resync or rebuild"),
        (true, false) => format!("running, {done} of {all}"),
        (false, _) if it.done_bytes < it.all_bytes => format!("ended early, {done} of {all}"),
        (false, _) => format!("finished, {done}"),
    };
    let is_whole = !it.is_running && it.done_bytes == it.all_bytes;
    let found = match (differ, unreadable) {
        (0, 0) if compared == 0 => "nothing was compared".to_owned(),
        (0, 0) if !is_whole || it.skipped_bytes > 0 => {
            let so_far = if it.is_running { " so far" } else { "" };
            format!("no difference in {}{so_far}", Bytes::new(compared))
        }
        (0, 0) if has_parity => "all parities were right".to_owned(),
        (0, 0) => "all copies were equal".to_owned(),
        (differ, 0) => format!("{what} that differ: {differ}"),
        (differ, unreadable) => {
            format!("{what} that differ: {differ}; chunks that cannot be read: {unreadable}")
        }
    };
    let tone = if differ + unreadable > 0 { Tone::Bad } else { Tone::Plain };
    let repaired = if it.repairs { format!(", {} repaired", it.repaired) } else { String::new() };
    section.toned(tone, "scrub", format!("{how_far}: {found}{repaired}"));
    if it.skipped_bytes > 0 {
        let skipped = Bytes::new(it.skipped_bytes);
        let why = if has_parity { "a member missing" } else { "no second copy in sync" };
        section.fact("", format!("{skipped} had {why}"));
    }
    for place in &it.places {
        let text =
            format!("member {} differs at byte {} of the array", place.role, place.offset_bytes);
        section.toned_at(DetailLevel::Detail, Tone::Plain, "", text);
    }
}

fn regions(status: &ArrayStatus) -> String {
    let ArrayStatus { regions_dirty: dirty, regions_to_resync: left, .. } = status;
    let size = Bytes::new(status.shape.region_bytes);
    match left {
        0 => format!("{dirty} of {size} dirty"),
        left => format!("{dirty} of {size} dirty, {left} still to be resynced"),
    }
}

fn shape_facts(shape: &ArrayShape) -> [(&'static str, String); 2] {
    let size = Bytes::new(shape.size_bytes);
    let chunk = Bytes::new(shape.chunk_bytes);
    let kind = format!("RAID {} of {}, chunks of {chunk}", shape.level.number(), shape.members);
    [("array", format!("{kind}, {size}")), ("id", shape.array.clone())]
}

/// A member with its array.
type MemberRow<'s> = (&'s ArrayStatus, &'s MemberStatus);

fn columns<'s>() -> Vec<Column<MemberRow<'s>>> {
    vec![
        both("role", "role", |(_, member)| Cell::of(member.role, |role| Cell::Count(role.into()))),
        words(shown("state", |(_, member)| {
            let word = member.state.word();
            let replaces = member.replaces.map(|role| format!(", replaces {role}"));
            Cell::Word(tone(member.state), format!("{word}{}", replaces.unwrap_or_default()))
        })),
        record("state", |(_, member)| Cell::text(member.state.word())),
        record("replaces", |(_, member)| {
            Cell::of(member.replaces, |role| Cell::Count(role.into()))
        }),
        words(both("path", "device", |(_, member)| Cell::of(member.path.as_ref(), Cell::text))),
        shown("rebuilt", |(status, member)| {
            let all = precise(status.shape.member_bytes.max(1));
            Cell::of(member.rebuilt_bytes, |done| Cell::Share(precise(done) / all))
        }),
        both("in_flight", "in flight", |(_, member)| Cell::Count(member.in_flight.into())),
        both("reads", "reads", |(_, member)| Cell::Count(member.reads)),
        both("writes", "writes", |(_, member)| Cell::Count(member.writes)),
        both("errors", "errors", |(_, member)| Cell::Count(member.errors)),
    ]
}

impl Report for ArrayExamination {
    fn document(&self) -> Document {
        let mut document = Document::new("durio raid examine", "");
        let mut section = Section::default();
        match &self.does_not_start {
            None if self.devices.iter().any(|device| device.problem.is_some()) => {
                section.warn("can start, without the members that have a problem");
            }
            None if self.devices.iter().any(|device| device.older.is_some()) => {
                section.warn("can start; older members will be rebuilt");
            }
            None => section.say(Tone::Good, "the members start together"),
            Some(why) => section.say(Tone::Bad, format!("they do not start: {why}")),
        }
        document.push(section);
        self.devices.iter().for_each(|examined| document.push(device(examined)));
        document.records = Table::with_columns(
            &self.devices,
            [
                ("path", |device| Cell::text(&device.path)),
                ("problem", |device| Cell::of(device.problem.as_ref(), Cell::text)),
                ("older", |device| Cell::of(device.older.as_ref(), Cell::text)),
                ("array", |device| {
                    Cell::of(device.member.as_ref(), |member| Cell::text(&member.shape.array))
                }),
                ("epoch", |device| {
                    Cell::of(device.member.as_ref(), |member| Cell::Count(member.epoch))
                }),
            ],
        );
        document
    }
}

const fn tone(standing: MemberStanding) -> Tone {
    match standing {
        MemberStanding::InSync => Tone::Good,
        MemberStanding::Faulty | MemberStanding::GivenUp => Tone::Bad,
        MemberStanding::Rebuilding => Tone::Warning,
        MemberStanding::Spare => Tone::Plain,
    }
}

fn device(device: &ExaminedDevice) -> Section {
    let mut section = Section::new(device.path.as_str());
    if let Some(problem) = &device.problem {
        let label = if device.member.is_some() { "damaged" } else { "no member" };
        section.toned(Tone::Bad, label, problem.as_str());
    }
    let Some(member) = &device.member else { return section };
    let role = member.role.map_or_else(|| "no role".to_owned(), |role| format!("role {role}"));
    section.fact("name", member.shape.name.as_str());
    section.facts(shape_facts(&member.shape));
    let word = member.state.word();
    match &device.older {
        None => section.toned(tone(member.state), "state", format!("{role}, {word}")),
        Some(why) => {
            section.toned(Tone::Warning, "older", why.as_str());
            section.fact("state", format!("{role}, {word} according to its superblock"));
        }
    }
    let words: Vec<_> = member.roles.iter().map(|role| role.word()).collect();
    section.fact("roles", words.join(", "));
    let size = Bytes::new(member.shape.region_bytes);
    section.fact("marked", format!("{} regions of {size}", member.regions_marked));
    let (at, bytes) = (member.shape.data_at_bytes, Bytes::new(member.shape.member_bytes));
    section.fact("data", format!("{bytes} from byte {at} on"));
    let (epoch, revision) = (member.epoch, member.revision);
    let newest = format!("epoch {epoch}, written {revision} times");
    section.toned_at(DetailLevel::Detail, Tone::Plain, "superblock", newest);
    section.toned_at(DetailLevel::Detail, Tone::Plain, "member", member.member.as_str());
    section
}

#[cfg(test)]
mod tests;
