//! `durio raid`: arrays of durio's own.

use std::path::{Path, PathBuf};

use durio_bench::{
    ArrayOrder, BenchError, CreateWish, EraseConsent, FrontKind, ServeWish, create_array,
    examine_array, order_array, serve_array,
};
use durio_units::Bytes;

use crate::args::{
    Front, Raid, RaidAdd, RaidCommand, RaidConsent, RaidCreate, RaidExamine, RaidReplace, RaidStart,
};
use crate::exit_code::Exit;
use crate::output;
use crate::stop_signals::stop_on_signals;

pub(super) fn raid(arguments: &Raid) -> Result<Exit, BenchError> {
    match &arguments.command {
        RaidCommand::Create(arguments) => create(arguments),
        RaidCommand::Examine(arguments) => examine(arguments),
        RaidCommand::Start(arguments) => start(arguments),
        RaidCommand::Status { socket, output } => {
            let status = order_array(&socket.socket, &ArrayOrder::Status)?;
            output::report(*output, &status)?;
            Ok(Exit::Fine)
        }
        RaidCommand::Fail(it) => {
            tell(&it.socket.socket, &ArrayOrder::Fail { path: absolute(&it.path)? })
        }
        RaidCommand::Remove(it) => {
            tell(&it.socket.socket, &ArrayOrder::Remove { path: absolute(&it.path)? })
        }
        RaidCommand::Add(arguments) => add(arguments),
        RaidCommand::Replace(arguments) => replace(arguments),
        RaidCommand::Scrub { repair, socket } => {
            tell(&socket.socket, &ArrayOrder::Scrub { repair: *repair })
        }
        RaidCommand::Stop(it) => tell(&it.socket, &ArrayOrder::Stop),
    }
}

fn create(arguments: &RaidCreate) -> Result<Exit, BenchError> {
    let wish = CreateWish {
        name: &arguments.name,
        level: arguments.level,
        chunk: arguments.chunk,
        members: &arguments.members,
        spares: &arguments.spares,
        destroy: &arguments.destroy,
        force_signature: arguments.force_signature,
        assume_clean: arguments.assume_clean,
    };
    let shape = create_array(&wish)?;
    let size = Bytes::new(shape.size_bytes);
    output::answer_text(&format!("created: {}, {size}, {}\n", shape.name, shape.array))?;
    Ok(Exit::Fine)
}

fn examine(arguments: &RaidExamine) -> Result<Exit, BenchError> {
    let examination = examine_array(&arguments.devices)?;
    output::report(arguments.output, &examination)?;
    Ok(Exit::Fine)
}

fn start(arguments: &RaidStart) -> Result<Exit, BenchError> {
    let socket = absolute(&arguments.socket)?;
    let wish = ServeWish {
        paths: &arguments.devices,
        front: match arguments.front {
            Front::Nbd => FrontKind::Nbd,
            Front::Ublk => FrontKind::Ublk,
        },
        socket: &socket,
        timeout: arguments.timeout,
        force: arguments.force,
    };
    let stop = stop_on_signals()?;
    let ready = |name: &str| {
        // Who does not listen any more wants no array either; the next signal ends it.
        let _ = output::answer_text(&format!("ready: {name}\n"));
    };
    let remark = |text: &str| output::remark(&format!("durio: {text}"));
    serve_array(&wish, ready, &remark, &|| stop.is_set())?;
    Ok(Exit::Fine)
}

fn add(arguments: &RaidAdd) -> Result<Exit, BenchError> {
    let path = &arguments.device.path;
    let consent = consent(&arguments.consent, path)?;
    let order = ArrayOrder::Add { path: absolute(path)?, consent };
    tell(&arguments.device.socket.socket, &order)
}

fn replace(arguments: &RaidReplace) -> Result<Exit, BenchError> {
    let RaidReplace { old, new, socket, .. } = arguments;
    let consent = consent(&arguments.consent, new)?;
    let order = ArrayOrder::Replace { old: absolute(old)?, new: absolute(new)?, consent };
    tell(&socket.socket, &order)
}

fn consent(arguments: &RaidConsent, path: &Path) -> Result<EraseConsent, BenchError> {
    if let Some(named) = arguments.destroy.as_ref().filter(|it| *it != path) {
        let text = format!("--destroy '{}' does not match '{}'", named.display(), path.display());
        return Err(BenchError::wrong_use(text));
    }
    let force_signature = arguments.force_signature;
    Ok(EraseConsent { destroy: arguments.destroy.is_some(), force_signature })
}

fn tell(socket: &Path, order: &ArrayOrder) -> Result<Exit, BenchError> {
    order_array(socket, order)?;
    Ok(Exit::Fine)
}

/// The server has a working directory of its own.
fn absolute(path: &Path) -> Result<PathBuf, BenchError> {
    std::path::absolute(path).map_err(|error| BenchError::io("find", path, error))
}
