//! Sums of parities: the field of 256 elements, over x^8 + x^4 + x^3 + x^2 + 1, as in md.
//!
//! P of a stripe is the sum of its data, Q the sum of 2^column times the data (H. P. Anvin, "The
//! mathematics of RAID-6", 2004). Addition is XOR, so every computation that writes, restores or
//! checks a parity is a series of additions of one buffer, times a factor, to another
//! (`engine/stripes.rs`).

/// x^8 without the carry.
const REDUCED: u8 = 0x1d;
/// Elements of the field but zero: the powers of 2 repeat after this many.
const ORDER: u8 = 255;
/// Bytes that are worked on at once.
const BLOCK_BYTES: usize = 512;

/// The product of two elements.
pub(crate) fn product(one: u8, other: u8) -> u8 {
    let (mut one, mut sum) = (one, 0);
    for bit in 0..8 {
        if other & (1 << bit) != 0 {
            sum ^= one;
        }
        one = (one << 1) ^ if one & 0x80 != 0 { REDUCED } else { 0 };
    }
    sum
}

/// 2 to this power.
pub(crate) fn power_of_two(exponent: u8) -> u8 {
    (0..exponent % ORDER).fold(1, |power, _| product(power, 2))
}

/// The inverse of this element, which is not 0.
pub(crate) fn inverse(of: u8) -> u8 {
    (1..ORDER - 1).fold(of, |power, _| product(power, of))
}

/// Adds `from` times `factor` to `to`, byte by byte.
pub(crate) fn add(to: &mut [u8], from: &[u8], factor: u8) {
    // Loops over bytes without branches, which compilers vectorize.
    if factor == 1 {
        to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
        return;
    }
    for (to, from) in to.chunks_mut(BLOCK_BYTES).zip(from.chunks(BLOCK_BYTES)) {
        let mut doubled = [0; BLOCK_BYTES];
        doubled[..from.len()].copy_from_slice(from);
        let mut left = factor;
        while left != 0 {
            if left & 1 != 0 {
                to.iter_mut().zip(&doubled).for_each(|(to, from)| *to ^= from);
            }
            left >>= 1;
            if left != 0 {
                doubled.iter_mut().for_each(|byte| *byte = (*byte << 1) ^ ((*byte >> 7) * REDUCED));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn two_generates_all_elements_and_each_has_an_inverse() {
        let powers: std::collections::BTreeSet<u8> = (0..ORDER).map(power_of_two).collect();
        assert_eq!(powers.len(), usize::from(ORDER));
        assert!((1..=ORDER).all(|number| product(number, inverse(number)) == 1));
        // From "The mathematics of RAID-6": 2^8 is 1d, and 8e halves.
        assert_eq!((power_of_two(8), inverse(2)), (0x1d, 0x8e));
    }

    proptest! {
        #[test]
        fn blocks_are_added_as_bytes_are(
            bytes in proptest::collection::vec(any::<(u8, u8)>(), 0..1100),
            factor in any::<u8>(),
        ) {
            let (mut to, from): (Vec<u8>, Vec<u8>) = bytes.iter().copied().unzip();
            let expected: Vec<u8> =
                bytes.iter().map(|(to, from)| to ^ product(*from, factor)).collect();
            add(&mut to, &from, factor);
            prop_assert_eq!(to, expected);
        }
    }
}
