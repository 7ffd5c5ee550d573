//! How a coordinator and hosts agree on a campaign: messages, states, clocks, permits and the
//! timetable, as state machines without clock, socket or thread.

pub mod bus_rights;
pub mod clock;
pub mod coordinator;
mod fault;
pub mod folder_digest;
pub mod host;
pub mod host_file;
pub mod host_list;
pub mod host_name;
mod inventory;
pub mod live;
pub mod message;
pub mod permit;
pub mod region;
pub mod relay;
pub mod sign;
#[cfg(any(test, feature = "simulate"))]
pub mod sim;

pub use fault::FleetFault;

#[cfg(test)]
mod tests;
