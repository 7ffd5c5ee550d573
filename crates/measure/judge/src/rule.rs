//! A rule whose check is a function, as warnings and the audit have them.
//!
//! Signals have lists of another shape (`signals.rs`): one look at a layer gives one of several
//! signals, in words that depend on what was read. Rules of advice are data (`advise/rule.rs`).

use durio_analyse::{Explanation, ExplanationKind};

/// A rule, and the function that looks for what it is about.
pub(crate) struct CodedRule<C> {
    /// For programs; it does not change.
    pub(crate) id: &'static str,
    /// The condition under which it speaks.
    pub(crate) what: &'static str,
    /// Why that matters; empty where `what` covers it.
    pub(crate) why: &'static str,
    /// What to do about it.
    pub(crate) advice: &'static str,
    pub(crate) check: C,
}

impl<C> CodedRule<C> {
    pub(crate) fn explanation(&self, kind: ExplanationKind) -> Explanation {
        Explanation::new(kind, [self.id, self.what, self.why, self.advice])
    }
}

/// A constant with rules, each of which is a kind of check, id and function, then its words: what,
/// why where that is not said with it, and after `=>` what to do.
macro_rules! rules {
    (
        $(#[$about:meta])* $vis:vis $list:ident of $check:ident;
        $($kind:ident $id:literal $seen:path:
            $what:literal $(, $why:literal)? => $advice:literal;)*
    ) => {
        $(#[$about])*
        $vis const $list: &[$crate::rule::CodedRule<$check>] = &[$($crate::rule::CodedRule {
            id: $id,
            what: $what,
            why: concat!($($why)?),
            advice: $advice,
            check: $check::$kind($seen),
        }),*];
    };
}

pub(crate) use rules;
