//! The bytes of `buffer_pattern`.

/// As long as fio keeps patterns (fio 3.33, options of `verify_pattern` and `buffer_pattern`).
const LENGTH_MAX: usize = 512;

/// Reads hexadecimal digits after `0x`, or a text in quotes; fio's other forms are an error.
pub(in crate::job_file) fn pattern(text: &str) -> Result<Vec<u8>, String> {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let bytes = match (quoted, hexadecimal) {
        (Some(inner), _) if !inner.contains(['"', '\\']) => Some(inner.as_bytes().to_vec()),
        (None, Some(digits)) => bytes_of(digits),
        _ => None,
    };
    bytes.filter(|bytes| (1..=LENGTH_MAX).contains(&bytes.len())).ok_or_else(|| {
        format!(
            "{text:?}: durio knows 1 to {LENGTH_MAX} bytes as hexadecimal digits (0xdeadbeef) or a \
             text in quotes"
        )
    })
}

/// As fio reads them: an odd number of digits begins with half a byte.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let even = match digits.len() % 2 {
        0 => digits.to_owned(),
        _ => format!("0{digits}"),
    };
    if !even.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..even.len()).step_by(2).map(|at| even.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_bytes_as_fio_writes_them() {
        assert_eq!(pattern("0xdeadbeef").unwrap(), [0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(pattern("0xabc").unwrap(), [0x0a, 0xbc]);
        assert_eq!(pattern("\"durio\"").unwrap(), b"durio");
        for text in ["", "\"\"", "0x", "durio", "1234", "-12", "0xg1", "'file'", "\"a\"0x1"] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }
}
