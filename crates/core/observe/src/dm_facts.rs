//! Facts of a volume's table, which comes without keys: its kinds of targets, and their parameters.
//!
//! Orders of parameters are those of the kernel's Documentation/admin-guide/device-mapper.

use std::str::FromStr;

use durio_block::DmSegment;

use crate::Fact;
use crate::block_facts::from_sectors;

/// The facts of all segments, those of each kind of target once.
///
/// `dm_targets`: the kinds, in order, by commas. `dm_segments`: how many, if more than one. The rest
/// is of the first segment of each kind.
pub(crate) fn dm_facts(table: &[DmSegment]) -> Vec<Fact> {
    let mut kinds: Vec<&DmSegment> = Vec::new();
    for segment in table {
        if !kinds.iter().any(|known| known.target == segment.target) {
            kinds.push(segment);
        }
    }
    let names: Vec<&str> = kinds.iter().map(|segment| segment.target.as_str()).collect();
    let mut facts = Vec::new();
    if !names.is_empty() {
        facts.push(Fact::new("dm_targets", names.join(",")));
    }
    if table.len() > 1 {
        facts.push(Fact::new("dm_segments", table.len().to_string()));
    }
    facts.extend(kinds.into_iter().flat_map(of_target));
    facts
}

fn of_target(segment: &DmSegment) -> Vec<Fact> {
    let words = DmParameters(&segment.parameters);
    let found = match segment.target.as_str() {
        "striped" => striped(&words),
        "raid" => raid(&words),
        "mirror" => vec![("dm_mirror_log", words.text(0)), ("dm_mirrors", words.mirrors())],
        "crypt" => crypt(&words),
        "integrity" => integrity(&words),
        "cache" => cache(&words),
        "writecache" => writecache(&words),
        "thin" => vec![("dm_thin_id", words.text(1))],
        "thin-pool" => thin_pool(&words),
        "snapshot" => vec![("dm_snapshot_chunk_bytes", words.sectors(3))],
        "delay" => vec![
            ("dm_read_delay_ms", words.text(2)),
            // With one device writes are held up as long as reads (device-mapper/delay.rst).
            ("dm_write_delay_ms", words.text(5).or_else(|| words.text(2))),
        ],
        "flakey" => vec![("dm_up_seconds", words.text(2)), ("dm_down_seconds", words.text(3))],
        _ => Vec::new(),
    };
    Fact::known(found)
}

type DmValues = Vec<(&'static str, Option<String>)>;

fn striped(words: &DmParameters<'_>) -> DmValues {
    vec![("dm_stripes", words.text(0)), ("dm_stripe_bytes", words.sectors(1))]
}

/// The level, the number of parameters, the chunk in sectors, more parameters by name; then the
/// number of members.
fn raid(words: &DmParameters<'_>) -> DmValues {
    let members = words.number::<usize>(1).and_then(|count| count.checked_add(2));
    vec![
        ("dm_raid_level", words.text(0)),
        // Levels without chunks have 0 or 1 there.
        ("dm_raid_chunk_bytes", words.sectors(2).filter(|bytes| bytes.len() > 3)),
        ("dm_raid_members", members.and_then(|place| words.text(place))),
    ]
}

/// The cipher, the key (hidden), the offset of vectors, the device, the start, counted options.
fn crypt(words: &DmParameters<'_>) -> DmValues {
    vec![("dm_cipher", words.text(0)), ("dm_crypt_options", words.list(5))]
}

/// The device, reserved sectors, the size of a tag, the mode, counted options.
fn integrity(words: &DmParameters<'_>) -> DmValues {
    let mode = words.text(3).map(|mode| match mode.as_str() {
        "J" => "journal".to_owned(),
        "B" => "bitmap".to_owned(),
        "D" => "direct".to_owned(),
        "R" => "recovery".to_owned(),
        _ => mode,
    });
    vec![("dm_integrity_tag_bytes", words.text(2)), ("dm_integrity_mode", mode)]
}

/// Three devices, the size of a block, counted features, the policy; without a feature that names
/// the mode it is write back.
fn cache(words: &DmParameters<'_>) -> DmValues {
    let features = words.list(4);
    // The kernel's default is write back (device-mapper/cache.rst): then no word names it.
    let modes = ["writethrough", "passthrough", "writeback"];
    let named = features.as_deref().unwrap_or_default();
    let mode = modes.iter().find(|mode| named.split(',').any(|feature| feature == **mode));
    let policy = words.number::<usize>(4).and_then(|count| count.checked_add(5));
    vec![
        ("dm_cache_block_bytes", words.sectors(3)),
        // Too short a table says nothing of the mode.
        ("dm_cache_mode", words.text(4).map(|_| (*mode.unwrap_or(&"writeback")).to_owned())),
        ("dm_cache_policy", policy.and_then(|place| words.text(place))),
    ]
}

/// On a disk or in persistent memory, two devices, the size of a block.
fn writecache(words: &DmParameters<'_>) -> DmValues {
    let medium = words.text(0).map(|word| match word.as_str() {
        "p" => "persistent memory".to_owned(),
        "s" => "disk".to_owned(),
        _ => word,
    });
    vec![("dm_writecache_on", medium), ("dm_writecache_block_bytes", words.text(3))]
}

/// Two devices, the size of a block, the low mark, counted features.
fn thin_pool(words: &DmParameters<'_>) -> DmValues {
    vec![("dm_pool_block_bytes", words.sectors(2)), ("dm_pool_features", words.list(4))]
}

/// Parameters by their place.
struct DmParameters<'a>(&'a [String]);

impl DmParameters<'_> {
    fn text(&self, place: usize) -> Option<String> {
        self.0.get(place).cloned()
    }

    fn number<T: FromStr>(&self, place: usize) -> Option<T> {
        self.0.get(place)?.parse().ok()
    }

    fn sectors(&self, place: usize) -> Option<String> {
        self.number(place).map(|sectors| from_sectors(sectors).get().to_string())
    }

    /// As many words as the one at `place` says, by commas; none if it says zero.
    fn list(&self, place: usize) -> Option<String> {
        let count: usize = self.number(place)?;
        let first = place.checked_add(1)?;
        let words = self.0.get(first..first.checked_add(count)?)?;
        (!words.is_empty()).then(|| words.join(","))
    }

    /// The log's kind and counted parameters come before the number of mirrors.
    fn mirrors(&self) -> Option<String> {
        self.text(self.number::<usize>(1)?.checked_add(2)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> Vec<String> {
        let text: Vec<String> = lines.iter().map(|line| format!("v: 0 8 {line}")).collect();
        let table = durio_block::parse_dm_table(&text.join("\n"), "v");
        dm_facts(&table).iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn kinds_are_named_once_and_segments_counted() {
        let linear = ["linear 8:0 0", "linear 8:0 64", "striped 2 128 8:0 0 8:16 0"];
        let expected =
            ["dm_targets=linear,striped", "dm_segments=3", "dm_stripes=2", "dm_stripe_bytes=65536"];
        assert_eq!(facts(&linear), expected);
        assert!(facts(&[]).is_empty());
    }

    #[test]
    fn caches_tell_their_mode_and_policy() {
        let cache = "cache 253:1 253:0 253:2 128 1 writethrough smq 0";
        let expected = [
            "dm_targets=cache",
            "dm_cache_block_bytes=65536",
            "dm_cache_mode=writethrough",
            "dm_cache_policy=smq",
        ];
        assert_eq!(facts(&[cache]), expected);
        let default = facts(&["cache 253:1 253:0 253:2 128 0 default 0"]);
        assert_eq!(default[2..], ["dm_cache_mode=writeback", "dm_cache_policy=default"]);
        assert_eq!(facts(&["cache 253:1"]), ["dm_targets=cache"]);
        let write = facts(&["writecache s 253:0 253:1 4096 0"]);
        assert_eq!(write[1..], ["dm_writecache_on=disk", "dm_writecache_block_bytes=4096"]);
    }

    #[test]
    fn volumes_of_lvm_and_cryptsetup_tell_what_is_set() {
        let raid = facts(&["raid raid1 3 0 region_size 4096 2 253:0 253:1 253:2 253:3"]);
        assert_eq!(raid[1..], ["dm_raid_level=raid1", "dm_raid_members=2"]);
        let raid = facts(&["raid raid5_ls 3 128 region_size 4096 3 - 253:1 - 253:3 - 253:5"]);
        assert_eq!(raid[2..], ["dm_raid_chunk_bytes=65536", "dm_raid_members=3"]);
        let crypt =
            facts(&["crypt aes-xts-plain64 c0ffee 0 8:0 0 2 allow_discards sector_size:4096"]);
        let options = "dm_crypt_options=allow_discards,sector_size:4096";
        assert_eq!(crypt[1..], ["dm_cipher=aes-xts-plain64", options]);
        let integrity = facts(&["integrity 8:0 0 4 J 1 internal_hash:crc32c"]);
        assert_eq!(integrity[1..], ["dm_integrity_tag_bytes=4", "dm_integrity_mode=journal"]);
        let mirror = facts(&["mirror core 2 1024 nosync 3 8:0 0 8:16 0 8:32 0"]);
        assert_eq!(mirror[1..], ["dm_mirror_log=core", "dm_mirrors=3"]);
        let pool = facts(&["thin-pool 253:0 253:1 128 0 1 skip_block_zeroing"]);
        assert_eq!(pool[1..], ["dm_pool_block_bytes=65536", "dm_pool_features=skip_block_zeroing"]);
        let delay = facts(&["delay 8:0 0 5 8:0 0 7"]);
        assert_eq!(delay[1..], ["dm_read_delay_ms=5", "dm_write_delay_ms=7"]);
    }

    #[test]
    fn parameters_that_are_missing_or_too_many_say_nothing() {
        for target in ["raid", "mirror", "crypt", "cache", "thin-pool", "integrity", "delay"] {
            for rest in
                ["", " 18446744073709551615 18446744073709551615 x x x 18446744073709551615"]
            {
                facts(&[&format!("{target}{rest}")]);
            }
        }
    }

    #[test]
    fn each_kind_of_target_tells_its_own_parameters() {
        let rows = [
            ("linear 8:0 2048", ""),
            ("snapshot 253:1 253:2 P 16", "dm_snapshot_chunk_bytes=8192"),
            ("thin 253:4 7", "dm_thin_id=7"),
            ("delay 8:0 0 5", "dm_read_delay_ms=5,dm_write_delay_ms=5"),
            ("flakey 8:0 0 30 4", "dm_up_seconds=30,dm_down_seconds=4"),
            ("flakey 8:0 0 30", "dm_up_seconds=30"),
            (
                "writecache p 253:0 253:1 4096 0",
                "dm_writecache_on=persistent memory,dm_writecache_block_bytes=4096",
            ),
            ("integrity 8:0 0 32 B 0", "dm_integrity_tag_bytes=32,dm_integrity_mode=bitmap"),
            ("integrity 8:0 0 32 D 0", "dm_integrity_tag_bytes=32,dm_integrity_mode=direct"),
            ("integrity 8:0 0 28 R 0", "dm_integrity_tag_bytes=28,dm_integrity_mode=recovery"),
            (
                "cache 253:1 253:0 253:2 256 2 metadata2 passthrough mq 0",
                "dm_cache_block_bytes=131072,dm_cache_mode=passthrough,dm_cache_policy=mq",
            ),
            ("crypt aes-cbc-essiv:sha256 c0 9 8:0 4096", "dm_cipher=aes-cbc-essiv:sha256"),
            ("thin-pool 253:0 253:1 2048 0 0", "dm_pool_block_bytes=1048576"),
        ];
        for (target, told) in rows {
            assert_eq!(facts(&[target])[1..].join(","), told, "{target}");
        }
    }

    #[test]
    fn the_first_segment_of_a_kind_speaks_for_it() {
        let told = facts(&["thin 253:4 7", "linear 8:0 0", "thin 253:5 8"]);
        assert_eq!(told, ["dm_targets=thin,linear", "dm_segments=3", "dm_thin_id=7"]);
    }
}
