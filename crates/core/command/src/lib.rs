//! What every command of every product begins with, whatever it then measures, proves or serves:
//! an error that says who has to act ([`CommandError`]), progress for the user
//! ([`ProgressObserver`]), a way to be stopped ([`StopFlag`]), the command line for records, the places
//! that were named, held and permitted ([`locate()`]), and a server of a few pages ([`http`]).
//!
//! How the error of another crate becomes a [`CommandError`] stands next to that error.

mod error;
pub mod http;
mod locate;
mod process;

pub use error::{CommandError, CommandErrorKind, Ending, error_chain};
pub use locate::{LocatedPlaces, Permission, locate};
pub use process::{
    ProgressObserver, ProgressTimer, StopFlag, command_line, own_program, random_seed,
    random_token, set_command_line,
};
