//! Arithmetic in parentheses, as fio's own lexer and parser compute it (`exp/`).
//!
//! Computes a whole number from a text that begins with `(`. Units are binary for bytes (`kib` is
//! 1000, as everywhere in fio) and microseconds for times. A value that overflows fio's 32-bit
//! intermediate values is an error here. `$keywords` are replaced in `variables`.

/// The deepest nesting of operators.
const DEPTH_MAX: u32 = 100;

#[derive(Debug, Clone, Copy)]
struct Number {
    whole: i64,
    real: f64,
    /// Whether the real part counts. fio keeps the left operand's mark in a result.
    is_real: bool,
}

#[derive(Debug, Clone, Copy)]
enum Token {
    Number(Number),
    Unit(Number),
    Operator(char),
}

/// The value of an expression in bytes, or in microseconds with `is_time`.
///
/// A number without any unit counts `implied` each (1 for bytes; 1 000 000 for times in seconds).
///
/// # Errors
/// A sentence: the part that is not arithmetic, or that fio's 32-bit numbers cannot hold.
pub(super) fn arithmetic(text: &str, implied: i64, is_time: bool) -> Result<i64, String> {
    let tokens = tokens(text, is_time)?;
    let has_unit = tokens.iter().any(|token| matches!(token, Token::Unit(_)));
    let mut parser = ArithmeticParser { tokens: &tokens, depth: 0 };
    let value = parser.expression(0)?;
    check_fractions(&tokens, text)?;
    if !parser.tokens.is_empty() {
        return Err(format!("{text:?} has text after its arithmetic"));
    }
    // A unit makes fio compute in 64 bits.
    if has_unit {
        return Ok(value.whole);
    }
    let scaled = value.whole.checked_mul(implied).filter(|scaled| i32::try_from(*scaled).is_ok());
    scaled.ok_or_else(|| {
        format!("fio computes {text:?} without a unit in 32 bits, where it overflows; add a unit")
    })
}

// Refuses what fio computes wrongly: fractions with `t`, which it scales by 1024⁵ there.
fn check_fractions(tokens: &[Token], text: &str) -> Result<(), String> {
    let is_real = |token: &Token| match token {
        Token::Number(it) | Token::Unit(it) => it.is_real,
        Token::Operator(_) => false,
    };
    let is_tera = |token: &Token| matches!(token, Token::Unit(it) if it.whole == 1 << 40);
    if tokens.iter().any(is_real) && tokens.iter().any(is_tera) {
        return Err(format!("fio miscomputes {text:?}; write its value"));
    }
    Ok(())
}

fn tokens(text: &str, is_time: bool) -> Result<Vec<Token>, String> {
    let mut rest = text;
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = match first {
            '#' | ':' | ',' => return Ok(tokens),
            '0'..='9' | '.' => number(rest)?,
            '+' | '-' | '*' | '/' | '^' | '%' | '(' | ')' => (Token::Operator(first), 1),
            _ => unit(rest, is_time)?,
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let digits = |text: &str, digit: fn(&char) -> bool| text.chars().take_while(digit).count();
    let overflow = || format!("fio reads whole numbers in parentheses in 32 bits: {text:?}");
    if let Some(hex) = text.strip_prefix("0x") {
        let length = digits(hex, char::is_ascii_hexdigit);
        let value = i32::from_str_radix(hex.get(..length).unwrap_or_default(), 16);
        return Ok((whole_token(value.map_err(|_| overflow())?), length + 2));
    }
    let whole = digits(text, char::is_ascii_digit);
    let behind = text.get(whole..).unwrap_or_default();
    let fraction =
        behind.strip_prefix('.').map_or(0, |decimals| 1 + digits(decimals, char::is_ascii_digit));
    if fraction == 1 {
        return Err(format!("{text:?}: fio needs digits after a decimal point"));
    }
    let length = whole + fraction;
    let exponent = exponent_length(text.get(length..).unwrap_or_default());
    let written = text.get(..length + exponent).unwrap_or_default();
    if fraction == 0 && exponent == 0 {
        return Ok((whole_token(written.parse::<i32>().map_err(|_| overflow())?), length));
    }
    let real: f64 = written.parse().map_err(|_| format!("{written:?} is not a number"))?;
    Ok((Token::Number(Number { whole: truncated(real), real, is_real: true }), length + exponent))
}

/// The length of `e12`, `E-3`; 0 without an exponent.
fn exponent_length(text: &str) -> usize {
    let Some(behind) = text.strip_prefix(['e', 'E']) else { return 0 };
    let digits = behind.strip_prefix(['+', '-']).unwrap_or(behind);
    let count = digits.chars().take_while(char::is_ascii_digit).count();
    if count == 0 { 0 } else { text.len() - digits.len() + count }
}

fn whole_token(value: i32) -> Token {
    Token::Number(Number { whole: value.into(), real: value.into(), is_real: false })
}

fn unit(text: &str, is_time: bool) -> Result<(Token, usize), String> {
    let length = text.chars().take_while(char::is_ascii_alphabetic).count();
    let word = text.get(..length).unwrap_or_default();
    let scale: i64 = match word.to_ascii_lowercase().as_str() {
        "k" | "kb" => 1 << 10,
        "m" if is_time => 60_000_000,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1 << 40,
        "p" | "pb" => 1 << 50,
        "kib" => 1_000,
        "mib" => 1_000_000,
        "gib" => 1_000_000_000,
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(format!("{text:?} is not a unit that fio accepts in parentheses")),
    };
    // fio marks these two as fractions.
    let is_real = word.eq_ignore_ascii_case("us") || word.eq_ignore_ascii_case("ms");
    Ok((Token::Unit(Number { whole: scale, real: real(scale), is_real }), length))
}

struct ArithmeticParser<'t> {
    tokens: &'t [Token],
    depth: u32,
}

// How strongly a unit binds: more than a sum, less than a product, so that `8k/2k` is `(8k/2)k`.
const UNIT_STRENGTH: u8 = 2;

impl ArithmeticParser<'_> {
    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    /// Reads operators that bind at least as strongly as `least`.
    fn expression(&mut self, least: u8) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the arithmetic nests too deeply".to_owned());
        }
        let mut left = self.operand()?;
        while let Some(&token) = self.tokens.first() {
            match token {
                Token::Unit(unit) if UNIT_STRENGTH >= least => {
                    self.next();
                    left = with_unit(left, unit)?;
                }
                Token::Operator(operator) => {
                    let Some((strength, right)) = strength(operator) else { break };
                    if strength < least {
                        break;
                    }
                    self.next();
                    left = apply(left, operator, self.expression(right)?)?;
                }
                _ => break,
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, String> {
        match self.next() {
            Some(Token::Number(number)) => Ok(number),
            // fio takes the mark of a fraction from another token there, so that results vary.
            Some(Token::Operator('-')) => {
                Err("fio miscomputes a number with a leading sign; subtract it instead".to_owned())
            }
            Some(Token::Operator('(')) => {
                let inner = self.expression(0)?;
                match self.next() {
                    Some(Token::Operator(')')) => Ok(inner),
                    _ => Err("a parenthesis is not closed".to_owned()),
                }
            }
            _ => Err("the arithmetic lacks a number".to_owned()),
        }
    }
}

/// How strongly an operator binds, and the least strength within its right operand.
fn strength(operator: char) -> Option<(u8, u8)> {
    match operator {
        '+' | '-' => Some((1, 2)),
        '*' | '/' => Some((3, 4)),
        '^' => Some((4, 4)),
        // More strongly than powers and products, by fio's grammar (exp/).
        '%' => Some((5, 6)),
        _ => None,
    }
}

fn with_unit(left: Number, unit: Number) -> Result<Number, String> {
    if left.is_real || unit.is_real {
        // The whole part is scaled, not the fraction: `(1.5k)` is 1024, and that is what fio does.
        let whole = truncated(left.real.trunc() * unit.real);
        return Ok(Number { whole, real: left.real * unit.real, is_real: left.is_real });
    }
    let whole = left.whole.checked_mul(unit.whole).ok_or("the arithmetic overflows")?;
    Ok(Number { whole, real: real(whole), is_real: false })
}

fn apply(left: Number, operator: char, right: Number) -> Result<Number, String> {
    let (a, b) = (left.whole, right.whole);
    let is_real = left.is_real || right.is_real;
    let (real, exact) = match operator {
        '+' => (left.real + right.real, a.checked_add(b)),
        '-' => (left.real - right.real, a.checked_sub(b)),
        '*' => (left.real * right.real, a.checked_mul(b)),
        '/' if right.real != 0.0 => (left.real / right.real, a.checked_div(b)),
        '%' if b != 0 && is_real => return Err("% needs whole numbers".to_owned()),
        '%' if b != 0 => (a.checked_rem(b).map_or(0.0, real), a.checked_rem(b)),
        '^' => (left.real.powf(right.real), power(a, b)),
        _ => return Err("the arithmetic divides by zero".to_owned()),
    };
    let whole = if is_real { Some(truncated(real)) } else { exact };
    let whole = whole.ok_or("the arithmetic overflows")?;
    Ok(Number { whole, real, is_real: left.is_real })
}

// A power; with an exponent below 0, which a difference can give, its whole part.
fn power(base: i64, exponent: i64) -> Option<i64> {
    match u32::try_from(exponent) {
        Ok(exponent) => base.checked_pow(exponent),
        Err(_) if exponent > 0 => None,
        Err(_) => Some(truncated(real(base).powf(real(exponent)))),
    }
}

#[expect(clippy::cast_precision_loss, reason = "fio computes in doubles as well")]
fn real(whole: i64) -> f64 {
    whole as f64
}

#[expect(clippy::cast_possible_truncation, reason = "fio cuts the fraction off")]
fn truncated(real: f64) -> i64 {
    real as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn bytes(text: &str, expected: i64) {
        assert_eq!(arithmetic(text, 1, false), Ok(expected), "{text}");
    }

    #[test]
    fn parentheses_nest_a_hundred_deep_at_most() {
        let of = |depth: usize| {
            arithmetic(&format!("{}1{}", "(".repeat(depth), ")".repeat(depth)), 1, false)
        };
        assert_eq!(of(99), Ok(1));
        assert_eq!(of(101), Err("the arithmetic nests too deeply".to_owned()));
    }

    /// The answers are those of fio's own parser, compiled from `exp/`.
    #[test]
    fn bytes_are_computed_with_fio_s_units_and_precedence() {
        bytes("(4096)", 4096);
        bytes("(2+3*4)", 14);
        bytes("(2^10)", 1024);
        bytes("(2^3^2)", 512);
        bytes("((2+3)*4k)", 20 * 1024);
        bytes("(10%4*2)", 4);
        bytes("(4kib)", 4000);
        bytes("(1g+1)", (1 << 30) + 1);
        bytes("(0x10)", 16);
        bytes("(7/2)", 3);
        bytes("(7.0/2)", 3);
        bytes("(4)k", 4096);
        bytes("(1m) , 8k", 1 << 20);
    }

    #[test]
    fn a_unit_binds_less_than_a_product_and_cuts_fractions() {
        bytes("(8k/2k)", 4096 * 1024);
        bytes("(1.5k)", 1024);
        bytes("(3*1.5k)", 4096);
        bytes("(1.5*2k)", 3072);
        bytes("(3k+0.5k)", 3584);
        bytes("(3%2k)", 1024);
        bytes("(2k^2)", 1 << 22);
        bytes("(1e3k)", 1_024_000);
        bytes("(0.5*8k)", 4096);
    }

    #[test]
    fn times_are_microseconds_with_seconds_as_default_unit() {
        assert_eq!(arithmetic("(10)", 1_000_000, true), Ok(10_000_000));
        assert_eq!(arithmetic("(2m)", 1_000_000, true), Ok(120_000_000));
        assert_eq!(arithmetic("(500ms+1s)", 1_000_000, true), Ok(1_500_000));
    }

    #[test]
    fn what_fio_cannot_compute_is_an_error() {
        let long = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        let cases = [
            "(",
            "()",
            "(1",
            "(1+)",
            "(1/0)",
            "(1%0)",
            "(1.)",
            "(-4+8)",
            "(1.5*2t)",
            "(4x)",
            "(1)2",
            "(5000000000)",
            "(2^31)",
            "(2^1000k)",
            "(1.5%2)",
            "(tib)",
            "(é)",
            &long,
        ];
        for text in cases {
            assert!(arithmetic(text, 1, false).is_err(), "{text}");
        }
        assert!(arithmetic("(3600)", 1_000_000, true).unwrap_err().contains("add a unit"));
    }
}
