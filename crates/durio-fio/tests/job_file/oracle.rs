pub use std as _;
