//! The first process of the guests that this crate's tests boot, and nothing else.

fn main() -> std::io::Result<()> {
    durio_lab::guest_main()
}
