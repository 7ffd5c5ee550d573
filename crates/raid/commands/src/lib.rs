//! The commands of durio's arrays: created from devices, examined, served and given orders. The
//! engine and its server are durio-raid's; the rules of what may be overwritten are those of
//! durio-command's `locate` and the guard of durio-block.
//!
//! | file | what it does |
//! |---|---|
//! | `create` | superblocks on devices that `--destroy` names |
//! | `devices` | members that are open, with their permits; what superblocks say, read only |
//! | `serve` | an array until a user ends it |
//! | `front` | how its users reach it: NBD, or a block device by ublk or the kernel's NBD client |
//! | `orders` | orders to an array that is served |

mod create;
mod devices;
mod front;
mod orders;
mod serve;

use std::fs::File;
use std::io::Read;

use durio_command::CommandError;
use durio_observe::{ArrayShape, MemberStanding};
use durio_raid::{Id, MemberTable};

pub use create::{CreateArray, create_array};
pub use devices::examine_array;
pub use front::FrontChoice;
pub use orders::{ArrayAnswer, ArrayOrder, EraseConsent, list_arrays, order_array};
pub use serve::{ServeArray, serve_array};

/// A new name for an array or a member.
fn random_id() -> Result<Id, CommandError> {
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| CommandError::io("read", path, error))?;
    Ok(Id(bytes))
}

fn hexadecimal(id: Id) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shape_of(table: &MemberTable) -> ArrayShape {
    let geometry = &table.geometry;
    ArrayShape {
        name: table.name.clone(),
        array: hexadecimal(table.array),
        level: geometry.level,
        members: geometry.members,
        chunk_bytes: geometry.chunk.into(),
        region_bytes: geometry.region,
        size_bytes: geometry.size(),
        data_at_bytes: table.data_at,
        member_bytes: geometry.member_bytes,
    }
}

fn standing_of(state: durio_raid::MemberState) -> MemberStanding {
    match state {
        durio_raid::MemberState::InSync => MemberStanding::InSync,
        durio_raid::MemberState::Rebuilding => MemberStanding::Rebuilding,
        durio_raid::MemberState::Faulty => MemberStanding::Faulty,
        durio_raid::MemberState::Spare => MemberStanding::Spare,
    }
}
