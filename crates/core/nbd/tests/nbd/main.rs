//! Server and client against each other, against those of other projects, and against hostile ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod engine;
mod handshake;
mod hostile_clients;
mod hostile_servers;
mod life;
mod peers;
mod requests;
mod serving;
mod storages;
mod wire;
