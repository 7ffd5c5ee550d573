//! Signatures on made-up devices.

use super::*;

const SIZE: usize = 4 << 20;

fn device(writes: &[(usize, &[u8])]) -> DeviceSample {
    sized_device(SIZE, writes)
}

fn sized_device(size: usize, writes: &[(usize, &[u8])]) -> DeviceSample {
    let mut bytes = vec![0; size];
    for (offset, content) in writes {
        bytes[*offset..offset + content.len()].copy_from_slice(content);
    }
    DeviceSample::of_bytes(&bytes)
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn names(sample: &DeviceSample) -> Vec<String> {
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
    assert!(names(&DeviceSample::of_bytes(&bytes)).is_empty());
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

/// Bits and places of ext4's documentation of its superblock.
#[test]
fn each_feature_of_ext2_and_ext3_is_known_and_any_other_is_one_of_ext4() {
    let magic: &[u8] = &[0x53, 0xef];
    let of = |at: usize, word: u32| {
        let word = word.to_le_bytes();
        let found = names(&device(&[(1024 + 0x38, magic), (1024 + at, &word)]));
        found.into_iter().next()
    };
    let (revision, block_size, compatible, incompatible, read_only) =
        (0x4c, 0x18, 0x5c, 0x60, 0x64);
    for bit in 0..32 {
        let expected = |known: &[u32]| if known.contains(&bit) { "ext2" } else { "ext4" };
        let journal = if bit == 3 { "ext journal" } else { expected(&[0, 1, 2, 4]) };
        assert_eq!(of(incompatible, 1 << bit).as_deref(), Some(journal), "bit {bit}");
        assert_eq!(of(read_only, 1 << bit).as_deref(), Some(expected(&[0, 1, 2])), "bit {bit}");
        let journal = if bit == 2 { "ext3" } else { "ext2" };
        assert_eq!(of(compatible, 1 << bit).as_deref(), Some(journal), "bit {bit}");
    }
    assert_eq!([of(revision, 1), of(revision, 2)], [Some("ext2".to_owned()), None]);
    assert_eq!([of(block_size, 6), of(block_size, 7)], [Some("ext2".to_owned()), None]);
}

#[test]
fn a_pool_is_found_by_any_uberblock_of_its_labels_also_where_the_size_is_none_of_theirs() {
    let magic = 0x00ba_b10c_u64.to_le_bytes();
    let size = 10 * 262_144 + 261_632;
    let found = |at: usize| names(&sized_device(size, &[(at, &magic)]));
    let labels = [0, 8 * 262_144, 9 * 262_144];
    for label in labels {
        for slot in [0, 1, 127] {
            assert_eq!(found(label + 131_072 + slot * 1024), ["zfs"], "{label}, {slot}");
        }
        assert!(found(label + 131_072 - 1024).is_empty() && found(label + 131_584).is_empty());
    }
    // The second label of the begin is not looked at.
    assert!(found(262_144 + 131_072).is_empty());
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
    assert_eq!(sample, DeviceSample::of_bytes(&bytes));
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

/// Places and bytes as libblkid and the makers' own headers have them.
#[test]
fn each_magic_number_is_its_makers_at_its_makers_place() {
    let head: &[(&str, usize, &[u8])] = &[
        ("xfs", 0, b"XFSB"),
        ("btrfs", 65_600, b"_BHRfS_M"),
        ("luks", 0, b"LUKS\xba\xbe"),
        ("luks", 16_384, b"SKUL\xba\xbe"),
        ("exfat", 3, b"EXFAT   "),
        ("ntfs", 3, b"NTFS    "),
        ("vfat", 54, b"FAT12   "),
        ("vfat", 54, b"FAT16   "),
        ("vfat", 82, b"FAT32   "),
        ("gpt", 512, b"EFI PART"),
        ("gpt", 4096, b"EFI PART"),
        ("f2fs", 1024, &0xf2f5_2010_u32.to_le_bytes()),
        ("erofs", 1024, &0xe0f5_e1e2_u32.to_le_bytes()),
        ("squashfs", 0, b"hsqs"),
        ("iso9660", 32_769, b"CD001"),
        ("jfs", 32_768, b"JFS1"),
        ("gfs2", 65_536, &0x0116_1970_u32.to_be_bytes()),
        ("bcache", 4120, &0xc685_73f6_4e1a_45ca_8265_f57f_48ba_6d81_u128.to_be_bytes()),
        ("bcachefs", 4120, &0xc685_73f6_66ce_90a9_d96a_60cf_803d_f7ef_u128.to_be_bytes()),
        ("ceph bluestore", 0, b"bluestore block device"),
        ("oracle asm", 32, b"ORCLDISK"),
        ("vdo", 0, b"dmvdo001"),
        ("dm-integrity", 0, b"integrt\0"),
    ];
    for (name, at, magic) in head {
        assert_eq!(names(&device(&[(*at, *magic)])), [*name], "{at}");
        assert!(names(&device(&[(*at, &magic[1..])])).is_empty(), "{name} at {at}");
    }
    let tail: &[(&str, usize, &[u8])] = &[
        ("gpt", 512, b"EFI PART"),
        ("gpt", 4096, b"EFI PART"),
        ("imsm raid", 1024, b"Intel Raid ISM Cfg Sig. "),
        ("ddf raid", 512, &0xde11_de11_u32.to_be_bytes()),
    ];
    for (name, back, magic) in tail {
        assert_eq!(names(&device(&[(SIZE - back, *magic)])), [*name], "{back}");
    }
}

#[test]
fn swap_is_known_by_each_of_its_marks_at_the_end_of_a_page_of_any_size() {
    for page in [4096, 8192, 16_384, 65_536] {
        for mark in [&b"SWAPSPACE2"[..], b"SWAP-SPACE", b"S1SUSPEND\0"] {
            let found = find_signatures("sda", &device(&[(page - 10, mark)]));
            let found: Vec<_> =
                found.iter().map(|found| (found.name.as_str(), found.offset.get())).collect();
            assert_eq!(found, [("swap", page as u64 - 10)], "{mark:?}");
        }
    }
    assert!(names(&device(&[(32_768 - 10, b"SWAPSPACE2")])).is_empty());
}

#[test]
fn a_physical_volume_has_its_label_in_one_of_four_sectors_and_no_other() {
    let labelled = |at: usize| names(&device(&[(at, b"LABELONE"), (at + 24, b"LVM2 001")]));
    for at in [0, 512, 1024, 1536] {
        assert_eq!(labelled(at), ["lvm2"], "{at}");
    }
    assert!(labelled(2048).is_empty());
}

#[test]
fn a_pool_is_known_whichever_machine_wrote_it() {
    let magic = 0x00ba_b10c_u64.to_be_bytes();
    for at in [131_072, SIZE - 393_216, SIZE - 131_072] {
        assert_eq!(names(&device(&[(at, &magic)])), ["zfs"], "{at}");
    }
}

#[test]
fn a_partition_table_may_use_any_of_its_entries_and_boot_from_one() {
    let mark = (510, &[0x55, 0xaa][..]);
    for entry in 0..4 {
        let begin = 446 + 16 * entry;
        let linux = (begin + 4, &[0x83][..]);
        assert_eq!(names(&device(&[mark, linux])), ["mbr"], "{entry}");
        assert_eq!(names(&device(&[mark, linux, (begin, &[0x80])])), ["mbr"], "{entry}");
        // An entry has no other flag.
        assert!(names(&device(&[mark, linux, (begin, &[0x01])])).is_empty(), "{entry}");
    }
}

#[test]
fn the_last_superblocks_of_a_member_are_in_its_last_whole_blocks() {
    let odd = SIZE + 1536;
    for at in [SIZE - 8192, SIZE - 4096] {
        assert_eq!(names(&sized_device(odd, &[(at, b"durioRDS")])), ["durio raid"], "{at}");
    }
    assert!(names(&sized_device(odd, &[(odd - 4096, b"durioRDS")])).is_empty());
}

#[test]
fn both_ends_of_a_part_are_its_own_and_not_those_of_the_whole() {
    let (begin, length) = (1_usize << 20, 3_usize << 20);
    let end = begin + length;
    let mut bytes = vec![0; 6 << 20];
    let whole = bytes.len();
    let mut put = |at: usize, magic: &[u8]| bytes[at..at + magic.len()].copy_from_slice(magic);
    put(begin, b"XFSB");
    put(end - 8192, &[0xfc, 0x4e, 0x2b, 0xa9]);
    put(512, b"EFI PART");
    put(whole - 512, b"EFI PART");
    put(end, b"XFSB");
    let mut file = tempfile::tempfile().unwrap();
    io::Write::write_all(&mut file, &bytes).unwrap();
    let part = read_sample(&file, begin as u64, length as u64).unwrap();
    assert_eq!(names(&part), ["xfs", "md 1.0"]);
    let all = read_sample(&file, 0, whole as u64).unwrap();
    assert_eq!(names(&all), ["gpt", "gpt"]);
}
