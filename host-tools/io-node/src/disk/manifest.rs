//! Asks what is in a manifest again, on the host.

use coppice_protocol::manifest::encode;
use coppice_protocol::ship::{Keeping, Known, Reply};

use super::names;
use crate::files::Files;
use crate::machine::{Answer, ToCheck};

/// Makes the calls of a manifest. The answer has the entries that the node has not, and which of all are not so.
pub(super) fn check(files: &Files, ToCheck { made, entries, from }: &ToCheck) -> Answer {
    let mut untrue = Vec::new();
    for (place, entry) in (0..).zip(entries.iter()) {
        let (reply, text) = names::execute(files, entry.call.clone());
        let (is_plain, known) = match reply {
            Reply::Known(keeping, known) => (keeping.is_plain, known),
            other => match other.into_known() {
                Ok(known) => (false, known),
                Err(_) => (false, Known::Failed(0)),
            },
        };
        if let Known::Opened { handle, .. } = &known {
            // It was missing.
            let _ = files.close(*handle);
        }
        if !entry.is_so(&known, &text, is_plain) {
            untrue.push(place);
        }
    }
    let new = encode(entries.get(*from..).unwrap_or_default());
    (Reply::Known(Keeping::default(), Known::Manifest { made: *made, untrue }), new)
}
