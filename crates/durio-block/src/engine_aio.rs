//! aio placeholder
