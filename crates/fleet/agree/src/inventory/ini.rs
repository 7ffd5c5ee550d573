//! The INI form: `[group]`, `[group:children]`, `[group:vars]`, and a host per line.

use std::net::Ipv6Addr;

use durio_command::CommandError;

use super::{AnsibleInventory, UNGROUPED, check_group};
use crate::host_name::shown;

#[derive(Clone, Copy)]
enum SectionContent {
    Hosts,
    Children,
    Variables,
}

struct InventorySection {
    group: String,
    content: SectionContent,
}

/// True if a line cannot be of a plain list of hosts.
pub(super) fn is_section_or_variable(line: &str) -> bool {
    let line = line.trim();
    let is_comment = line.starts_with(['#', ';']);
    !is_comment && (header(line).is_some() || line.contains(" ansible_"))
}

pub(super) fn parse(text: &str) -> Result<AnsibleInventory, CommandError> {
    let mut inventory = AnsibleInventory::default();
    let mut section =
        InventorySection { group: UNGROUPED.to_owned(), content: SectionContent::Hosts };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        add_line(&mut inventory, &mut section, line)
            .map_err(|error| error.context(format!("line {}", index + 1)))?;
    }
    for group in inventory.groups.values() {
        // A child that is written nowhere is a misspelt one.
        if let Some(child) =
            group.children.iter().find(|child| !inventory.groups.contains_key(*child))
        {
            let reason = format!("group '{}' has no section", shown(child));
            return Err(CommandError::wrong_use(reason));
        }
    }
    Ok(inventory)
}

/// The text between the brackets of a section; `[2001:db8::1]` and `[1-3]` are hosts.
fn header(line: &str) -> Option<&str> {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    let is_range = inside.chars().all(|c| c.is_ascii_digit() || "-,:".contains(c));
    let is_host = is_range || inside.contains(['[', ']']) || inside.parse::<Ipv6Addr>().is_ok();
    (!is_host).then_some(inside)
}

fn add_line(
    inventory: &mut AnsibleInventory,
    section: &mut InventorySection,
    line: &str,
) -> Result<(), CommandError> {
    if let Some(inside) = header(line) {
        *section = parse_header(inside)?;
        inventory.group(&section.group)?;
        return Ok(());
    }
    match section.content {
        SectionContent::Hosts => add_host(inventory, &section.group, line),
        SectionContent::Children => {
            let child = words(line).into_iter().next().unwrap_or_default();
            check_group(&child)?;
            inventory.add_child(&section.group, &child)
        }
        SectionContent::Variables => {
            let (variable, value) = line.split_once('=').ok_or_else(|| no_value(line))?;
            let value = words(value).into_iter().next().unwrap_or_default();
            inventory.set_group_variable(&section.group, variable.trim(), &value)
        }
    }
}

fn parse_header(inside: &str) -> Result<InventorySection, CommandError> {
    let (group, content) = match inside.split_once(':') {
        None => (inside, SectionContent::Hosts),
        Some((group, "children")) => (group, SectionContent::Children),
        Some((group, "vars")) => (group, SectionContent::Variables),
        Some(_) => {
            let reason = format!("unknown section '[{}]'", shown(inside));
            return Err(CommandError::wrong_use(reason)
                .hint("sections are [GROUP], [GROUP:children] and [GROUP:vars]"));
        }
    };
    check_group(group)?;
    Ok(InventorySection { group: group.to_owned(), content })
}

fn add_host(inventory: &mut AnsibleInventory, group: &str, line: &str) -> Result<(), CommandError> {
    let words = words(line);
    let Some((pattern, variables)) = words.split_first() else { return Ok(()) };
    let positions = inventory.add_hosts(pattern, group)?;
    for word in variables {
        let (variable, value) = word.split_once('=').ok_or_else(|| no_value(word))?;
        inventory.set_host_variable(&positions, variable, value);
    }
    Ok(())
}

fn no_value(word: &str) -> CommandError {
    CommandError::wrong_use(format!("expected VARIABLE=VALUE, found '{}'", shown(word)))
}

/// Words with their quotes removed, up to a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
