//! Checks an output for anything that a browser, a spreadsheet or a table reader would obey.
//! `verdict` checks for terminals.

use super::MARK;

/// The faults of an output in this format.
pub(super) fn faults(text: &str, format: &str) -> Vec<String> {
    match format {
        "html" => html(text),
        "csv" => csv(text),
        "json" | "fio-json" => json(text),
        _ => table(text),
    }
}

/// Elements on which durio's pages have no more than these attributes: an attribute that begins
/// with `on` is a script.
fn html(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lower = text.to_lowercase();
    // The page's scripts do not contain the marks.
    let is_script = |rest: &str| rest.split("</script").next().is_some_and(|it| it.contains(MARK));
    if lower.split("<script").skip(1).any(is_script) {
        wrong.push("a name within a script".to_owned());
    }
    for tag in tags(&lower) {
        let mut attributes = outside_of_quotes(tag);
        attributes.retain(|c| c != '\n');
        let begins_with_on = attributes.split_whitespace().skip(1).any(|it| it.starts_with("on"));
        if begins_with_on
            || ["<img", "<iframe", "<object", "<embed"].iter().any(|it| tag.starts_with(it))
        {
            wrong.push(format!("active HTML: {}", crate::attack::verdict::shown(tag)));
        }
        let is_marked = tag.contains(&format!("javascript:alert(1){MARK}"));
        if is_marked && tag.contains("href") {
            wrong.push("a link to a script".to_owned());
        }
    }
    wrong
}

/// `<name …>`, each from its bracket to the one that ends it.
fn tags(text: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    for (at, _) in text.match_indices('<') {
        let rest = &text[at..];
        if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            let mut quote = None;
            let end = rest.find(|c| {
                match (quote, c) {
                    (None, '"' | '\'') => quote = Some(c),
                    (Some(it), _) if it == c => quote = None,
                    _ => {}
                }
                quote.is_none() && c == '>'
            });
            tags.push(&rest[..end.unwrap_or(rest.len())]);
        }
    }
    tags
}

fn outside_of_quotes(tag: &str) -> String {
    let mut quote = None;
    let outside = tag.chars().filter(|&c| match quote {
        None if c == '"' || c == '\'' => {
            quote = Some(c);
            false
        }
        None => true,
        Some(it) => {
            if it == c {
                quote = None;
            }
            false
        }
    });
    outside.collect()
}

/// Every row of a table has as many cells as its header, and no cell with a name is a formula.
fn csv(text: &str) -> Vec<String> {
    let rows = cells(text);
    let mut wrong = Vec::new();
    let mut width = None;
    for row in &rows {
        if row.len() == 1 && row[0].is_empty() {
            width = None;
        } else if *width.get_or_insert(row.len()) != row.len() {
            wrong.push(format!(
                "a row of {} cells below a header of {}",
                row.len(),
                width.unwrap_or(0)
            ));
            break;
        }
    }
    let is_formula =
        |cell: &&String| cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.contains(MARK);
    let formula = rows.iter().flatten().find(is_formula);
    wrong.extend(formula.map(|cell| format!("a formula: {}", crate::attack::verdict::shown(cell))));
    wrong
}

/// The rows of a table by RFC 4180.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = letters.next() {
        match c {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(c),
        }
    }
    rows
}

fn json(text: &str) -> Vec<String> {
    let is_broken = !text.is_empty() && serde_json::from_str::<serde_json::Value>(text).is_err();
    if is_broken { vec!["no JSON".to_owned()] } else { Vec::new() }
}

/// No line of a table was started by a name: text after a line feed in a name is never at the start
/// of a line.
fn table(text: &str) -> Vec<String> {
    let is_torn = text.lines().any(|line| line.starts_with(&format!("fit{MARK}")));
    if is_torn { vec!["a name tears a line".to_owned()] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_browser_would_run_is_found_and_what_it_shows_is_not() {
        assert_eq!(html("<p title=\"on x=1\">zq7&lt;img src=x onerror=alert(1)&gt;</p>"), [""; 0]);
        assert_eq!(html("<p>zq7<img src=x onerror=alert(1)></p>").len(), 1);
        assert_eq!(html("<p title='zq7' onmouseover='alert(1)'>x</p>").len(), 1);
        assert_eq!(html("<script>let name = 'zq7';</script>").len(), 1);
        assert_eq!(html("<a href=\"javascript:alert(1)zq7\">x</a>").len(), 1);
    }

    #[test]
    fn a_torn_row_and_a_formula_are_found() {
        assert_eq!(csv("a,b\n1,\"x\ny,z\"\n"), [""; 0]);
        assert_eq!(csv("a,b\n1,2,3\n").len(), 1);
        assert_eq!(csv("a,b\n-1,=1+1zq7\n").len(), 1);
    }

    #[test]
    fn a_torn_line_and_a_torn_document_are_found() {
        assert_eq!(table("x zq7\\nfitzq7\n"), [""; 0]);
        assert_eq!(table("x zq7\nfitzq7\n").len(), 1);
        assert_eq!((json("{\"a\": 1}").len(), json("{\"a\": \"").len(), json("").len()), (0, 1, 0));
    }
}
