//! Documents as bytes.
//!
//! In: a [`Document`](crate::document::Document). Out: text, HTML, CSV, into a writer. Not here: any
//! kind of findings; a renderer that has to know one lacks a block in the document.

pub(crate) mod csv;
pub(crate) mod html;
mod page;
mod svg;
pub(crate) mod text;
