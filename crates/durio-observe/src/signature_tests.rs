//! Signatures on made-up devices.

use super::*;

const SIZE: usize = 4 << 20;

fn device(writes: &[(usize, &[u8])]) -> Sample {
    sized_device(SIZE, writes)
}

fn sized_device(size: usize, writes: &[(usize, &[u8])]) -> Sample {
    let mut bytes = vec![0; size];
    for (offset, content) in writes {
        bytes[*offset..offset + content.len()].copy_from_slice(content);
    }
    Sample::of_bytes(&bytes)
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn names(sample: &Sample) -> Vec<String> {
    find_signatures("sda", sample).into_iter().map(|signature| signature.name).collect()
}

#[test]
fn an_empty_device_bears_nothing() {
    assert!(names(&device(&[])).is_empty());
    for size in [0, 1, 511, 512, 4096, 70_000] {
        assert!(names(&sized_device(size, &[])).is_empty(), "{size}");
    }
}

#[test]
fn random_bytes_bear_nothing() {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    let bytes: Vec<u8> = (0..SIZE).map(|_| next()).collect();
    assert!(names(&Sample::of_bytes(&bytes)).is_empty());
}

#[test]
fn rows_of_the_tables_are_recognised_at_their_place() {
    for (name, offset, magic) in AT_HEAD {
        let found = find_signatures("sda", &device(&[(place(*offset), magic)]));
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!((found[0].name.as_str(), found[0].offset), (*name, Bytes::new(*offset)));
    }
    for (name, back, magic) in AT_TAIL {
        let found = names(&device(&[(SIZE - place(*back), magic)]));
        assert_eq!(found, [*name]);
    }
}

#[test]
fn the_three_ext_filesystems_are_told_apart_by_their_features() {
    let superblock = |compatible: u8, incompatible: [u8; 2]| {
        let magic: &[u8] = &[0x53, 0xef];
        let compatible = [compatible];
        names(&device(&[(1080, magic), (1116, &compatible), (1120, &incompatible)]))
    };
    assert_eq!(superblock(0x00, [0x02, 0]), ["ext2"]);
    assert_eq!(superblock(0x04, [0x02, 0]), ["ext3"]);
    assert_eq!(superblock(0x04, [0x42, 0x02]), ["ext4"]);
    assert_eq!(superblock(0x00, [0x42, 0x00]), ["ext4"]);
    assert_eq!(superblock(0x00, [0x08, 0x00]), ["ext journal"]);
}

#[test]
fn swap_is_recognised_for_every_size_of_page() {
    assert_eq!(names(&device(&[(4086, b"SWAPSPACE2")])), ["swap"]);
    assert_eq!(names(&device(&[(65526, b"SWAPSPACE2")])), ["swap"]);
}

#[test]
fn a_physical_volume_is_recognised_in_any_of_its_four_sectors() {
    assert_eq!(names(&device(&[(512, b"LABELONE"), (536, b"LVM2 001")])), ["lvm2"]);
    assert_eq!(names(&device(&[(1536, b"LABELONE"), (1560, b"LVM2 001")])), ["lvm2"]);
    assert!(names(&device(&[(512, b"LABELONE")])).is_empty());
}

#[test]
fn md_is_recognised_at_its_four_places() {
    let magic = &[0xfc, 0x4e, 0x2b, 0xa9][..];
    assert_eq!(names(&device(&[(0, magic)])), ["md 1.1"]);
    assert_eq!(names(&device(&[(4096, magic)])), ["md 1.2"]);
    assert_eq!(names(&device(&[(SIZE - 8192, magic)])), ["md 1.0"]);
    assert_eq!(names(&device(&[(SIZE - 65536, magic)])), ["md 0.90"]);
    assert_eq!(names(&device(&[(SIZE - 65536, &[0xa9, 0x2b, 0x4e, 0xfc])])), ["md 0.90"]);
    // 1000 sectors beyond 4 MiB: the places round down.
    let odd = SIZE + 512 * 1001;
    assert_eq!(names(&sized_device(odd, &[((odd - 8192) & !4095, magic)])), ["md 1.0"]);
    assert_eq!(names(&sized_device(odd, &[((odd & !0xffff) - 65536, magic)])), ["md 0.90"]);
}

#[test]
fn a_pool_is_recognised_at_either_end() {
    let magic = 0x00ba_b10c_u64.to_le_bytes();
    assert_eq!(names(&device(&[((128 << 10) + 4096, &magic)])), ["zfs"]);
    assert_eq!(names(&device(&[(SIZE - (384 << 10), &magic)])), ["zfs"]);
    assert_eq!(names(&device(&[(SIZE - (128 << 10), &magic)])), ["zfs"]);
}

#[test]
fn a_partition_table_is_told_from_a_boot_sector() {
    let mark = (510, &[0x55, 0xaa][..]);
    let linux = (446 + 4, &[0x83][..]);
    let protective = (446 + 4, &[0xee][..]);
    assert_eq!(names(&device(&[mark, linux])), ["mbr"]);
    assert!(names(&device(&[mark])).is_empty());
    assert_eq!(names(&device(&[mark, protective, (512, b"EFI PART")])), ["gpt"]);
    assert_eq!(names(&device(&[mark, linux, (0x52, b"FAT32   ")])), ["vfat"]);
}

#[test]
fn a_member_of_an_array_of_durio_is_known_by_any_of_its_superblocks() {
    let size = device(&[]).size;
    for place in [0, 4096, size - 8192, size - 4096] {
        let place = usize::try_from(place).unwrap();
        assert_eq!(names(&device(&[(place, b"durioRDS")])), ["durio raid"], "{place}");
    }
    assert!(names(&device(&[(8192, b"durioRDS")])).is_empty());
}

#[test]
fn leftovers_of_several_owners_are_all_reported() {
    let found = names(&device(&[(0, b"XFSB"), (4096, &[0xfc, 0x4e, 0x2b, 0xa9])]));
    assert_eq!(found, ["xfs", "md 1.2"]);
}

#[test]
fn both_ends_are_read_by_their_place_on_the_device() {
    let mut bytes = vec![0_u8; 2 << 20];
    bytes[5] = 7;
    let last = bytes.len() - 1;
    bytes[last] = 9;
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &bytes).unwrap();
    let size = size_of_file(&mut file).unwrap();
    let sample = read_sample(&file, 0, size).unwrap();
    assert_eq!(sample, Sample::of_bytes(&bytes));
    assert!(sample.has(5, &[7]) && sample.has(last as u64, &[9]));
    assert_eq!(sample.at(1 << 20, 1), None);
    assert_eq!(sample.at(u64::MAX, 1), None);
    assert_eq!(sample.at(last as u64, 2), None);
}

#[test]
fn a_part_is_read_from_its_start() {
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &[1, 2, 3, 4, 5]).unwrap();
    let sample = read_sample(&file, 2, 2).unwrap();
    assert_eq!(sample.at(0, 2), Some(&[3, 4][..]));
    assert!(read_sample(&file, 2, 9).is_err());
}
