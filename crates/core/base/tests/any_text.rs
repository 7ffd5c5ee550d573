//! Quantities against arbitrary text and arbitrary values.

use durio_base::{Bytes, Nanos, Rate};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_a_parser_panic(text in any::<String>()) {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Nanos>();
    }

    #[test]
    fn nothing_like_a_number_makes_a_parser_panic(text in "[0-9.]{0,30}[a-zA-Zµ ]{0,4}") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Nanos>();
    }

    #[test]
    fn whole_counts_are_read_exactly(count in any::<u64>()) {
        prop_assert_eq!(format!("{count}").parse::<Bytes>().map(Bytes::get), Ok(count));
        prop_assert_eq!(format!("{count}ns").parse::<Nanos>().map(Nanos::get), Ok(count));
    }

    /// Three digits: within half of the last of them.
    #[test]
    fn what_is_printed_is_within_three_digits(count in any::<u64>()) {
        let printed = Nanos::new(count).to_string();
        if let Ok(read) = printed.parse::<Nanos>() {
            let off = read.get().abs_diff(count);
            prop_assert!(off <= count / 190, "{count} ns printed as {printed}");
        }
        let printed = Bytes::new(count).to_string();
        if let Ok(read) = printed.parse::<Bytes>() {
            prop_assert!(read.get().abs_diff(count) <= count / 190, "{count} B printed as {printed}");
        }
    }

    #[test]
    fn rates_are_finite_and_never_negative(count in any::<u64>(), span in any::<u64>()) {
        let rate = Rate::of(count, Nanos::new(span)).per_second();
        prop_assert!(rate.is_finite() && rate >= 0.0);
    }
}
