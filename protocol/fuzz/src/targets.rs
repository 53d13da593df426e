//! What inputs are tried on.

mod body;
mod distribution;
mod messages;
mod overlay;
mod personality;
mod pmi;
mod pmix;
mod program;
mod session;
mod trace;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::corpus::inputs;

/// A parser and what must hold of it.
pub struct Target {
    /// Its name, and that of its file in `corpus/`.
    pub name: &'static str,
    /// Panics if something does not hold; gives a number that is the same for inputs of which the same was made.
    pub(crate) run: fn(&[u8]) -> u64,
    /// Texts with inputs to start from.
    texts: &'static [&'static str],
    /// More of them.
    examples: fn() -> Vec<Vec<u8>>,
}

/// The snapshot of one kind of message, with the bytes of each.
macro_rules! snapshot {
    ($name:literal) => {
        include_str!(concat!("../../tests/messages/snapshots/messages__wire__", $name, ".snap"))
    };
    ($module:literal, $name:literal) => {
        include_str!(concat!("../../tests/messages/wire/snapshots/messages__wire__", $module, "__", $name, ".snap"))
    };
}

/// The inputs kept in the tree.
macro_rules! kept {
    ($name:literal) => {
        include_str!(concat!("../corpus/", $name, ".txt"))
    };
}

/// All of them.
pub const TARGETS: [Target; 12] = [
    Target { name: "body", run: body::run, texts: &[kept!("body")], examples: body::examples },
    Target {
        name: "control",
        run: messages::control,
        texts: &[snapshot!("control"), kept!("control")],
        examples: Vec::new,
    },
    Target {
        name: "distribution",
        run: distribution::run,
        texts: &[kept!("distribution")],
        examples: distribution::examples,
    },
    Target { name: "overlay", run: overlay::run, texts: &[kept!("overlay")], examples: overlay::examples },
    Target {
        name: "personality",
        run: personality::run,
        texts: &[snapshot!("personality"), kept!("personality")],
        examples: Vec::new,
    },
    Target { name: "pmi", run: pmi::run, texts: &[kept!("pmi")], examples: pmi::examples },
    Target { name: "pmix", run: pmix::run, texts: &[kept!("pmix")], examples: pmix::examples },
    Target { name: "program", run: program::run, texts: &[kept!("program")], examples: program::examples },
    Target { name: "pset", run: messages::pset, texts: &[kept!("pset")], examples: messages::pset_examples },
    Target { name: "session", run: session::run, texts: &[kept!("session")], examples: session::examples },
    Target {
        name: "ship",
        run: messages::ship,
        texts: &[snapshot!("shipping", "calls"), snapshot!("shipping", "replies"), kept!("ship")],
        examples: Vec::new,
    },
    Target { name: "trace", run: trace::run, texts: &[kept!("trace")], examples: trace::examples },
];

impl Target {
    /// What to start from.
    pub(crate) fn corpus(&self) -> Vec<Vec<u8>> {
        self.texts.iter().flat_map(|text| inputs(text)).chain((self.examples)()).collect()
    }
}

/// A number for what was made of an input, from how it prints: its shape counts, its numbers and texts do not.
fn shape(printed: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut in_text = false;
    for character in printed.chars().take(2000) {
        in_text ^= character == '"';
        if !in_text && !character.is_ascii_digit() {
            character.hash(&mut hasher);
        }
    }
    hasher.finish()
}
