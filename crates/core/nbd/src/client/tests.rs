//! Where the data of a read goes, and what a request's result is.

use super::*;

/// A request of these bytes that has no answer yet.
fn flight(is_read: bool, offset: u64, length: u32) -> UnansweredRequest {
    UnansweredRequest {
        sequence: 1,
        is_transfer: true,
        is_read,
        offset,
        length,
        received: 0,
        errno: 0,
        submitted_at: None,
    }
}

#[test]
fn data_has_a_place_only_in_a_read_and_within_what_was_requested() {
    let place = |offset, length| flight(true, 8192, 4096).place_of(offset, length);
    let within = [place(8192, 4096), place(8192, 1), place(12_287, 1), place(9000, 100)];
    assert_eq!(within, [Some(0), Some(0), Some(4095), Some(808)]);
    let beyond = [place(8191, 1), place(8192, 4097), place(12_288, 1), place(12_287, 2)];
    assert_eq!(beyond, [None; 4]);
    assert_eq!(flight(false, 8192, 4096).place_of(8192, 1), None);
}

#[test]
fn a_read_receives_its_bytes_in_pieces_and_never_more_of_them() {
    let mut read = flight(true, 0, 4096);
    assert_eq!((read.place_of(0, 3000), read.received), (Some(0), 3000));
    assert_eq!((read.place_of(3000, 1096), read.received), (Some(3000), 4096));
    assert_eq!(read.place_of(0, 1), None);
    assert_eq!(flight(true, 0, 4096).place_of(0, u32::MAX), None);
}

#[test]
fn a_result_is_the_bytes_of_a_transfer_and_0_of_anything_else() {
    let transfer = flight(false, 0, 4096);
    assert_eq!(transfer.result(), 4096);
    assert_eq!(UnansweredRequest { is_transfer: false, ..transfer }.result(), 0);
    assert_eq!(UnansweredRequest { length: u32::MAX, ..transfer }.result(), i32::MAX);
}
