//! The settings of kernel and devices that advice is about, as they stand, each with its file.
//!
//! In: the root of `/sys`, `/proc` and `/etc`, and a stack. Out: [`Readings`].
//! Not here: what a value means, and whether it is a good one.
//!
//! A file that is absent gives no reading; one whose content is no text of the documented form is
//! handed on as it is, so that whoever judges can say what stands there. A new reading is one more
//! row in `rows.rs`.

mod derived;
mod rows;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::block_node;
use crate::layer::{Layer, LayerKind, Stack};
use crate::system_dir::SystemDir;
use rows::{Form, Row};

/// Longer contents are cut: no setting is that long, and a wrong file shall not fill a report.
const VALUE_CHARS_MAX: usize = 200;

/// One setting as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The kernel's name of the setting, such as `read_ahead_kb`.
    pub name: String,
    /// The content without surrounding blanks; of a list, the chosen one.
    pub value: String,
    /// Where it was read.
    pub path: String,
}

impl Reading {
    fn new(name: &str, value: impl Into<String>, path: impl Into<String>) -> Self {
        let value: String = value.into();
        let value = value.chars().take(VALUE_CHARS_MAX).collect();
        Self { name: name.to_owned(), value, path: path.into() }
    }
}

/// The settings of one block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReadings {
    /// The kernel's name of the device.
    pub name: String,
    /// What it is.
    pub kind: LayerKind,
    /// Its settings.
    pub readings: Vec<Reading>,
}

/// The settings of a machine and of the devices of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Readings {
    /// Of the machine.
    pub host: Vec<Reading>,
    /// Of each block device, each once, top to bottom.
    pub layers: Vec<LayerReadings>,
}

impl Readings {
    /// The settings of the device of this name.
    #[must_use]
    pub fn of(&self, device: &str) -> Option<&LayerReadings> {
        self.layers.iter().find(|layer| layer.name == device)
    }
}

impl LayerReadings {
    /// The setting of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Reading> {
        self.readings.iter().find(|reading| reading.name == name)
    }
}

/// Reads the settings of this machine and of the devices of `stack`; never fails, for every part
/// may be absent.
#[must_use]
pub fn read_readings(stack: &Stack) -> Readings {
    read_readings_in(Path::new("/"), stack)
}

/// As [`read_readings`], below another root than `/`.
#[must_use]
pub fn read_readings_in(root: &Path, stack: &Stack) -> Readings {
    let root = SystemDir::at(root);
    let mut layers: Vec<LayerReadings> = Vec::new();
    for (_, layer) in stack.walk().filter(|(_, layer)| layer.block.is_some()) {
        if !layers.iter().any(|known| known.name == layer.name) {
            layers.push(layer_readings(&root, layer));
        }
    }
    Readings { host: host_readings(&root), layers }
}

fn host_readings(root: &SystemDir) -> Vec<Reading> {
    let rows = rows::HOST.iter().filter_map(|row| read_row(root, "", row));
    rows.chain(derived::of_host(root)).collect()
}

fn layer_readings(root: &SystemDir, layer: &Layer) -> LayerReadings {
    let empty = LayerReadings { name: layer.name.clone(), kind: layer.kind, readings: Vec::new() };
    let Some(dir) = block_node::by_name(root, &layer.name) else { return empty };
    let shown = format!("sys/class/block/{}/", layer.name.replace('/', "!"));
    let further: &[Row] = if layer.kind == LayerKind::Md { rows::MD } else { &[] };
    let rows = rows::BLOCK.iter().chain(further).filter_map(|row| read_row(&dir, &shown, row));
    let readings = rows.chain(derived::of_device(root, &dir, layer, &shown)).collect();
    LayerReadings { readings, ..empty }
}

fn read_row(dir: &SystemDir, shown: &str, row: &Row) -> Option<Reading> {
    let value = match row.form {
        Form::Text => dir.text(row.file),
        Form::Choice => dir.choice(row.file),
    };
    Some(Reading::new(row.name, value?, format!("/{shown}{}", row.file)))
}

#[cfg(test)]
mod tests;
