//! The YAML form: groups with `hosts`, `children` and `vars`.
//!
//! Read from the events of the parser, so that depth is bounded and aliases, which can make a
//! short file long, are never followed.

use durio_command::CommandError;
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

use super::{AnsibleInventory, check_group};
use crate::host_name::shown;

/// Groups within groups take two levels each.
const DEPTH_MAX: usize = 64;

struct YamlNode {
    value: YamlValue,
    line: usize,
}

enum YamlValue {
    Absent,
    Text(String),
    Table(Vec<(String, YamlNode)>),
    List,
}

pub(super) fn parse(text: &str) -> Result<AnsibleInventory, CommandError> {
    let mut events = YamlEvents { parser: Parser::new_from_str(text) };
    let mut inventory = AnsibleInventory::default();
    loop {
        let (event, line) = events.pull()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok(inventory),
            other => {
                let root = events.node(other, line, 0)?;
                for (name, group) in table(root, "the inventory")? {
                    add_group(&mut inventory, &name, group)?;
                }
            }
        }
    }
}

struct YamlEvents<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> YamlEvents<'t> {
    /// The next event and its line.
    fn pull(&mut self) -> Result<(Event<'t>, usize), CommandError> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => {
                let (line, column) = (error.marker().line(), error.marker().col() + 1);
                let reason = format!("line {line}, column {column}: {}", error.info());
                Err(CommandError::wrong_use(reason))
            }
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    fn node(
        &mut self,
        event: Event<'t>,
        line: usize,
        depth: usize,
    ) -> Result<YamlNode, CommandError> {
        if depth > DEPTH_MAX {
            return Err(at(line, &format!("more than {DEPTH_MAX} levels")));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..)
                if matches!(&*text, "" | "~" | "null" | "Null" | "NULL") =>
            {
                YamlValue::Absent
            }
            Event::Scalar(text, ..) => YamlValue::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                loop {
                    match self.pull()? {
                        (Event::SequenceEnd, _) => break,
                        (event, line) => self.node(event, line, depth + 1)?,
                    };
                }
                YamlValue::List
            }
            Event::MappingStart(..) => self.mapping(depth)?,
            Event::Alias(_) => {
                return Err(at(line, "aliases are not supported")
                    .hint("write it out by ansible-inventory -i INVENTORY --list"));
            }
            _ => return Err(at(line, "unexpected end")),
        };
        Ok(YamlNode { value, line })
    }

    fn mapping(&mut self, depth: usize) -> Result<YamlValue, CommandError> {
        let mut entries = Vec::new();
        loop {
            let (event, line) = self.pull()?;
            let key = match event {
                Event::MappingEnd => return Ok(YamlValue::Table(entries)),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(at(line, "expected a name before ':'")),
            };
            let (event, value_line) = self.pull()?;
            let node = self.node(event, value_line, depth + 1)?;
            // An absent value is where the next key is.
            entries.push((key, YamlNode { line, ..node }));
        }
    }
}

fn at(line: usize, reason: &str) -> CommandError {
    CommandError::wrong_use(format!("line {line}: {reason}"))
}

/// The entries of a table; of an absent value none.
fn table(node: YamlNode, place: &str) -> Result<Vec<(String, YamlNode)>, CommandError> {
    match node.value {
        YamlValue::Table(entries) => Ok(entries),
        YamlValue::Absent => Ok(Vec::new()),
        YamlValue::Text(_) | YamlValue::List => {
            Err(at(node.line, &format!("expected names with ':' in {place}")))
        }
    }
}

/// Its depth is bounded by the depth of the nodes.
fn add_group(
    inventory: &mut AnsibleInventory,
    name: &str,
    group: YamlNode,
) -> Result<(), CommandError> {
    let line = group.line;
    let of_line = |error: CommandError| error.context(format!("line {line}"));
    check_group(name).map_err(of_line)?;
    inventory.group(name).map_err(of_line)?;
    for (key, value) in table(group, &format!("group '{name}'"))? {
        let (line, place) = (value.line, format!("'{}' of group '{name}'", shown(&key)));
        match key.as_str() {
            "hosts" => add_hosts(inventory, name, table(value, &place)?)?,
            "children" => {
                for (child, group) in table(value, &place)? {
                    inventory.add_child(name, &child)?;
                    add_group(inventory, &child, group)?;
                }
            }
            "vars" => {
                for (variable, value) in table(value, &place)? {
                    if let YamlValue::Text(value) = value.value {
                        inventory.set_group_variable(name, &variable, &value)?;
                    }
                }
            }
            _ => {
                return Err(at(line, &format!("unknown key {place}"))
                    .hint("a group has hosts, children and vars"));
            }
        }
    }
    Ok(())
}

fn add_hosts(
    inventory: &mut AnsibleInventory,
    group: &str,
    hosts: Vec<(String, YamlNode)>,
) -> Result<(), CommandError> {
    for (pattern, variables) in hosts {
        let line = variables.line;
        let positions = inventory
            .add_hosts(&pattern, group)
            .map_err(|error| error.context(format!("line {line}")))?;
        for (variable, value) in table(variables, &format!("host '{}'", shown(&pattern)))? {
            if let YamlValue::Text(value) = value.value {
                inventory.set_host_variable(&positions, &variable, &value);
            }
        }
    }
    Ok(())
}
