//! The project's own metrics, and their ceilings.
//!
//! `tools/xtask/ceilings.toml` has a ceiling for each; `cargo xtask tidy --lower` lowers them to
//! the measured values. A feature that needs more raises one by hand, where a reviewer sees it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

use super::cycles::cycles;
use super::map::{is_test_file, lines_of, product_of};
use super::tree::{self, SourceFile};
use super::{Problem, text, walks};

/// The ceilings, by name.
const CEILINGS: &str = "tools/xtask/ceilings.toml";

/// A named number; in hundredths, so that ceilings are compared exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TidyFigure {
    pub(super) name: String,
    pub(super) hundredths: u64,
}

impl TidyFigure {
    fn count(name: impl Into<String>, count: usize) -> Self {
        Self { name: name.into(), hundredths: count as u64 * 100 }
    }

    fn ratio(name: impl Into<String>, part: usize, whole: usize, scale: usize) -> Self {
        let hundredths = (part * scale * 100).div_ceil(whole.max(1)) as u64;
        Self { name: name.into(), hundredths }
    }

    /// Rounded up, so that a small fix raises nothing: lines to 500, ratios to a tenth.
    fn ceiling(self) -> Self {
        let step = match self.name.starts_with("lines") {
            true => 500 * 100,
            false => 10,
        };
        Self { hundredths: self.hundredths.next_multiple_of(step), ..self }
    }

    fn value(&self) -> String {
        match self.hundredths % 100 {
            0 => format!("{}", self.hundredths / 100),
            rest => format!("{}.{rest:02}", self.hundredths / 100),
        }
    }
}

/// The metrics of the sources and of the walks.
fn all(root: &Path, sources: &[SourceFile]) -> Result<Vec<TidyFigure>> {
    let mut figures = figures(sources);
    let walks = walks::counts(&walks::walks(root)?);
    figures.extend(walks.into_iter().map(|(name, count)| TidyFigure::count(name, count)));
    Ok(figures)
}

/// All metrics of the sources.
fn figures(sources: &[SourceFile]) -> Vec<TidyFigure> {
    let product: Vec<&SourceFile> =
        sources.iter().filter(|source| !is_test_file(&source.path)).collect();
    let lines_in = |folder: &str| {
        let own = product.iter().filter(|source| source.is_in(folder));
        own.map(|source| lines_of(source)[0]).sum::<usize>()
    };
    let (crates, tools) = (lines_in("crates"), lines_in("tools"));
    let names = type_names(&product);
    let reused = names.values().filter(|count| **count > 1).count();
    let knots = cycles(&product);
    let product_lines = |folder: &str| {
        TidyFigure::count(format!("lines of {folder}"), lines_in(&format!("crates/{folder}")))
    };
    let mut figures = vec![TidyFigure::count("lines of the product", crates)];
    figures.extend(["core", "measure", "prove", "raid", "fleet", "durio"].map(product_lines));
    figures.extend([
        TidyFigure::count("lines of the tools", tools),
        TidyFigure::ratio("files per 1000 lines", product.len(), crates + tools, 1000),
        TidyFigure::ratio("type names used more than once, %", reused, names.len(), 100),
        TidyFigure::count("cycles within crates", knots.len()),
        TidyFigure::count("files of the largest cycle", knots.first().map_or(0, Vec::len)),
        TidyFigure::count("documentation of three words or fewer", short_documentation(&product)),
    ]);
    let (patterns, words) = text::count_patterns(&product);
    let of_words = |(name, found)| {
        TidyFigure::ratio(format!("per 10,000 words: {name}"), found, words, 10_000)
    };
    figures.extend(patterns.into_iter().map(of_words));
    figures
}

/// Problems: metrics above their ceilings, and those without one.
pub(super) fn check(root: &Path, sources: &[SourceFile]) -> Result<Vec<Problem>> {
    let ceilings = read(root)?;
    let problem = |figure: TidyFigure| {
        let (name, value) = (&figure.name, figure.value());
        let what = match ceilings.get(name) {
            Some(ceiling) if figure.hundredths <= ceiling.hundredths => return None,
            Some(ceiling) => format!("{name}: {value}, above the ceiling of {}", ceiling.value()),
            None => {
                format!("{name}: {value}, without a ceiling; `cargo xtask tidy --lower` sets it")
            }
        };
        Some(Problem::new(CEILINGS, 1, what))
    };
    Ok(all(root, sources)?.into_iter().filter_map(problem).collect())
}

/// Lowers the ceilings to the measured values; none rises.
pub(super) fn lower(root: &Path, sources: &[SourceFile]) -> Result<()> {
    let before = read(root)?;
    let now = all(root, sources)?.into_iter().map(TidyFigure::ceiling);
    let lowered = now.map(|now| match before.get(&now.name) {
        Some(before) if before.hundredths < now.hundredths => before.clone(),
        _ => now,
    });
    let mut text = "# Numbers of `cargo xtask tidy --map` that may only fall.\n".to_owned();
    for ceiling in lowered {
        let _ = writeln!(text, "\"{}\" = {}", ceiling.name, ceiling.value());
    }
    std::fs::write(root.join(CEILINGS), text).with_context(|| CEILINGS.to_owned())
}

/// The metrics as lines, each with its ceiling.
pub(super) fn draw(root: &Path, sources: &[SourceFile]) -> Result<String> {
    let ceilings = read(root)?;
    let mut text = String::new();
    for figure in all(root, sources)? {
        let ceiling =
            ceilings.get(&figure.name).map_or_else(|| "none".to_owned(), TidyFigure::value);
        let _ = writeln!(text, "{:<84} {:>9}  ceiling {ceiling}", figure.name, figure.value());
    }
    for files in
        cycles(&sources.iter().filter(|source| !is_test_file(&source.path)).collect::<Vec<_>>())
    {
        let _ = writeln!(text, "cycle of {}: {}", files.len(), files.join(", "));
    }
    Ok(text)
}

fn read(root: &Path) -> Result<BTreeMap<String, TidyFigure>> {
    if !root.join(CEILINGS).exists() {
        return Ok(BTreeMap::new());
    }
    parse(&tree::read(root, CEILINGS)?)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ceilings are small")]
fn parse(text: &str) -> Result<BTreeMap<String, TidyFigure>> {
    let table: toml::Table = text.parse().context(CEILINGS)?;
    let ceilings = table.into_iter().map(|(name, value)| {
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let number = number.filter(|number| *number >= 0.0);
        let number = number.with_context(|| format!("{CEILINGS}: {name}: not a ceiling"))?;
        let hundredths = (number * 100.0).round() as u64;
        Ok((name.clone(), TidyFigure { name, hundredths }))
    });
    ceilings.collect()
}

/// How many types have each name.
fn type_names(product: &[&SourceFile]) -> BTreeMap<String, usize> {
    let mut names = TypeNames::default();
    for source in product {
        if let Ok(file) = syn::parse_file(product_of(source)) {
            names.visit_file(&file);
        }
    }
    names.0
}

#[derive(Default)]
struct TypeNames(BTreeMap<String, usize>);

impl TypeNames {
    fn add(&mut self, name: &syn::Ident) {
        *self.0.entry(name.to_string()).or_insert(0) += 1;
    }
}

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
        visit::visit_item_type(self, item);
    }
}

/// Documentation comments of one line with three words or fewer.
fn short_documentation(product: &[&SourceFile]) -> usize {
    let of_source = |source: &&SourceFile| {
        let lines: Vec<&str> = product_of(source).lines().map(str::trim).collect();
        let is_documentation = |at: Option<usize>| {
            at.and_then(|at| lines.get(at)).is_some_and(|line| line.starts_with("///"))
        };
        let is_short = |at: &usize| {
            let words = lines[*at].trim_start_matches('/').split_whitespace().count();
            words <= 3 && !is_documentation(at.checked_sub(1)) && !is_documentation(Some(at + 1))
        };
        (0..lines.len()).filter(|at| is_documentation(Some(*at))).filter(is_short).count()
    };
    product.iter().map(of_source).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, name: &str) -> String {
        let sources = [
            SourceFile::new("crates/a/src/b.rs", text),
            SourceFile::new("tools/xtask/src/c.rs", "x\n"),
        ];
        let found = figures(&sources).into_iter().find(|figure| figure.name == name).unwrap();
        found.value()
    }

    #[test]
    fn lines_are_those_of_the_product_without_tests_and_blank_lines() {
        let text = "//! A.\n\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(of(text, "lines of the product"), "2");
        assert_eq!(of(text, "lines of the tools"), "1");
        assert_eq!(of(text, "files per 1000 lines"), "666.67");
    }

    #[test]
    fn a_name_of_two_types_counts_once_whatever_they_are() {
        let text = "struct A; mod m { enum A {} trait B {} type C = u8; struct D; }\nimpl E {}\n";
        assert_eq!(of(text, "type names used more than once, %"), "25");
    }

    #[test]
    fn documentation_is_short_alone_and_with_three_words() {
        let text =
            "/// Its name here.\nx\n/// One two three four.\ny\n/// One\n/// more.\nz\n// Why.\n";
        assert_eq!(of(text, "documentation of three words or fewer"), "1");
    }

    #[test]
    fn a_ceiling_only_falls_and_a_figure_above_it_is_a_problem() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("tools/xtask")).unwrap();
        let walk = "## Three walks\n### Rate\n- `a.rs`: `A`, `B`\n";
        std::fs::write(root.path().join("ARCHITECTURE.md"), walk).unwrap();
        let source = |lines: usize| [SourceFile::new("crates/a/src/b.rs", &"x\n".repeat(lines))];
        let told = |lines| {
            let problems = check(root.path(), &source(lines)).unwrap();
            problems
                .into_iter()
                .map(|problem| problem.what)
                .filter(|problem| problem.contains("product"))
                .collect::<Vec<_>>()
        };
        let none =
            "lines of the product: 500, without a ceiling; `cargo xtask tidy --lower` sets it";
        assert_eq!(told(500), [none]);
        lower(root.path(), &source(500)).unwrap();
        assert!(told(500).is_empty() && told(499).is_empty());
        assert_eq!(told(501), ["lines of the product: 501, above the ceiling of 500"]);
        lower(root.path(), &source(501)).unwrap();
        assert_eq!(told(501).len(), 1);
        lower(root.path(), &source(0)).unwrap();
        assert_eq!(told(1), ["lines of the product: 1, above the ceiling of 0"]);
        lower(root.path(), &source(500)).unwrap();
        assert_eq!(told(1).len(), 1);
        let ceilings = read(root.path()).unwrap();
        assert_eq!(ceilings["types on the walk: Rate"].value(), "2");
    }

    #[test]
    fn each_product_has_its_lines() {
        let sources = [
            SourceFile::new(
                "crates/core/a/src/b.rs",
                "x
y
",
            ),
            SourceFile::new(
                "crates/raid/raid/src/b.rs",
                "x
y
z
",
            ),
            SourceFile::new(
                "crates/durio/src/main.rs",
                "x
",
            ),
        ];
        let lines = |name: &str| {
            let found = figures(&sources).into_iter().find(|figure| figure.name == name);
            found.unwrap().value()
        };
        let names = ["core", "measure", "prove", "raid", "durio", "the product"];
        assert_eq!(
            names.map(|name| lines(&format!("lines of {name}"))),
            ["2", "0", "0", "3", "1", "6"]
        );
    }

    #[test]
    fn a_ceiling_is_rounded_up_lines_to_500_and_the_rest_to_a_tenth() {
        let of =
            |name: &str, hundredths| TidyFigure { name: name.into(), hundredths }.ceiling().value();
        assert_eq!(
            [501, 1000].map(|lines| of("lines of the tools", lines * 100)),
            ["1000", "1000"]
        );
        assert_eq!([1651, 1660, 1600].map(|names| of("names, %", names)), ["16.60", "16.60", "16"]);
    }

    #[test]
    fn a_ceiling_is_a_number_and_anything_else_is_refused_by_name() {
        let found = parse("# x\n\"a, b\" = 4.50\nc = 16.29\nd = 7\n").unwrap();
        assert_eq!(["a, b", "c", "d"].map(|name| found[name].hundredths), [450, 1629, 700]);
        for bad in ["aa = -1", "aa = \"4\"", "aa = true"] {
            let error = parse(bad).unwrap_err().to_string();
            assert_eq!(error, "tools/xtask/ceilings.toml: aa: not a ceiling", "{bad}");
        }
        assert!(parse("a 4").is_err());
    }
}
