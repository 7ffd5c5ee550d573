//! Replacements in a line before it is split: `${NAME}` and fio's keywords.
//!
//! Names become values; a keyword next to an operator is computed (fio asks `bc` for that).
//! Arithmetic in parentheses is left to `arithmetic`.

use super::{HostParameters, LINE_BYTES_MAX, MachineValues};

// The longest line that fio computes, and the longest value in it.
const COMPUTED_LINE_BYTES_MAX: usize = 127;
const COMPUTED_VALUE_BYTES_MAX: usize = 100;

/// The line with variables and keywords replaced.
///
/// # Errors
/// A sentence: the line grows too long, or cannot be computed.
pub(super) fn replaced(line: &str, host: &HostParameters<'_>) -> Result<String, String> {
    let line = with_variables(line, host.environment);
    if line.len() >= LINE_BYTES_MAX {
        return Err(format!(
            "with its variables replaced, the line exceeds {LINE_BYTES_MAX} bytes"
        ));
    }
    with_keywords(line, host.machine)
}

/// Replaces each `${NAME}` by the variable's value, or by nothing if it is unset.
fn with_variables(line: &str, environment: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        // A variable's text is not replaced again.
        out.push_str(&environment(name).unwrap_or_default());
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn with_keywords(line: String, machine: MachineValues) -> Result<String, String> {
    let keywords = [
        ("$pagesize", machine.page_bytes),
        ("$mb_memory", machine.memory_mib),
        ("$ncpus", u64::from(machine.cpus)),
    ];
    let mut replaced = line.clone();
    for (word, value) in keywords {
        replaced = replaced.replace(word, &value.to_string());
    }
    // fio computes no line in which it replaced no keyword.
    if replaced == line { Ok(line) } else { computed(replaced) }
}

/// Computes the value if there is an operator in the line, as `bc` would: with whole numbers.
fn computed(line: String) -> Result<String, String> {
    let Some((name, value)) = line.split_once('=') else { return Ok(line) };
    let is_math = line.contains(['+', '-', '*', '/']) && !line.contains('\'');
    if !is_math {
        return Ok(line);
    }
    if line.len() > COMPUTED_LINE_BYTES_MAX || value.len() > COMPUTED_VALUE_BYTES_MAX {
        return Err(format!("{value:?} is too long for fio to compute; write its value"));
    }
    let result = Calculator { rest: value }.whole().ok_or_else(|| {
        format!("{value:?} is not arithmetic with whole numbers (+ - * / % ^ and parentheses); write its value")
    })?;
    Ok(format!("{name}={result}"))
}

/// Whole numbers with the usual operators, by precedence; `None` is any error.
struct Calculator<'t> {
    rest: &'t str,
}

// Expressions have at most 100 bytes (checked above), which bounds the recursion too.
impl Calculator<'_> {
    fn whole(mut self) -> Option<i64> {
        let value = self.expression(0)?;
        self.rest.trim().is_empty().then_some(value)
    }

    fn take(&mut self, operators: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let next = rest.chars().next().filter(|it| operators.contains(it))?;
        self.rest = rest.get(next.len_utf8()..)?;
        Some(next)
    }

    /// What binds at least as strongly as `least`: 0 a sum, 1 a product, 2 a power.
    fn expression(&mut self, least: usize) -> Option<i64> {
        const OPERATORS: [&[char]; 3] = [&['+', '-'], &['*', '/', '%'], &['^']];
        let Some(operators) = OPERATORS.get(least) else { return self.operand() };
        let mut value = self.expression(least + 1)?;
        while let Some(operator) = self.take(operators) {
            // bc takes powers from the right: 2^3^2 is 2^9.
            let right = if operator == '^' { least } else { least + 1 };
            let other = self.expression(right)?;
            value = match operator {
                '+' => value.checked_add(other),
                '-' => value.checked_sub(other),
                '*' => value.checked_mul(other),
                '/' => value.checked_div(other),
                '%' => value.checked_rem(other),
                _ => value.checked_pow(u32::try_from(other).ok()?),
            }?;
        }
        Some(value)
    }

    fn operand(&mut self) -> Option<i64> {
        match self.take(&['(', '-']) {
            Some('(') => {
                let inner = self.expression(0)?;
                self.take(&[')']).map(|_| inner)
            }
            // A sign binds more strongly than a power, as in bc: -2^2 is 4.
            Some(_) => self.operand()?.checked_neg(),
            None => {
                let rest = self.rest.trim_start();
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let (digits, behind) = rest.split_at_checked(end)?;
                self.rest = behind;
                digits.parse().ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: MachineValues = MachineValues { page_bytes: 4096, memory_mib: 7940, cpus: 2 };

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(with_keywords(line.to_owned(), MACHINE).as_deref(), Ok(expected));
    }

    #[test]
    fn keywords_are_computed_where_an_operator_stands() {
        check("size=$mb_memory", "size=7940");
        check("size=$mb_memorym", "size=7940m");
        check("size=8*$mb_memory", "size=63520");
        check("bs=$pagesize*(2+2)-1", "bs=16383");
        check("numjobs=$ncpus*3/4", "numjobs=1");
        check("numjobs=-2^2+ 10 % 4+$ncpus", "numjobs=8");
        check("description=$nothing+1", "description=$nothing+1");
    }

    #[test]
    fn what_bc_could_not_compute_is_an_error() {
        for line in ["size=4k*$ncpus", "filename=/dev/sd$ncpus", "bs=$pagesize/0", "bs=$pagesize+"]
        {
            assert!(with_keywords(line.to_owned(), MACHINE).is_err(), "{line}");
        }
        let deep = format!("bs=$ncpus+{}1", "(".repeat(90));
        assert!(with_keywords(deep, MACHINE).is_err());
    }

    #[test]
    fn fio_computes_lines_of_127_bytes_and_values_of_100() {
        let of = |name: usize, value: usize| {
            let value = format!("{}2+2", "0".repeat(value - 3));
            computed(format!("{}={value}", "n".repeat(name)))
        };
        assert!(of(26, 100).is_ok(), "127 bytes with the sign: {:?}", of(26, 100));
        assert!(of(27, 100).unwrap_err().contains("too long for fio to compute"));
        assert!(of(1, 100).is_ok());
        assert!(of(1, 101).unwrap_err().contains("too long for fio to compute"));
    }

    #[test]
    fn a_variable_that_is_not_set_is_nothing() {
        let environment = |name: &str| (name == "A").then(|| "x${B}".to_owned());
        assert_eq!(with_variables("a=${A}${B}c${", &environment), "a=x${B}c${");
        assert_eq!(with_variables("a=${A", &environment), "a=${A");
        assert_eq!(with_variables("a=${}b", &environment), "a=b");
    }
}
