//! The unplanned end of a service node: a panic, or an error that it cannot go on from. The log tells of it, if its
//! disk has room; the next service node does in any case, as a RAS event.

use std::path::{Path, PathBuf};

use coppice_api::in_one_line;
use coppice_protocol::ras::{RasEvent, RasKind, Severity};

use crate::records::Records;
use crate::time::realtime_ns;

/// Leaves word of every panic from now on.
pub(super) fn tell_of_panics(reserve: PathBuf) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        let at = panic.location().map_or_else(String::new, |location| format!(" ({location})"));
        let why = panic.payload_as_str().unwrap_or("for an unknown reason");
        leave(&reserve, format!("the service node panicked: {why}{at}"));
    }));
}

/// Leaves word of an error that ends the service node.
pub(super) fn tell(reserve: &Path, error: &anyhow::Error) {
    leave(reserve, format!("the service node ended: {}", in_one_line(error.as_ref())));
}

fn leave(reserve: &Path, text: String) {
    let (severity, kind) = (Severity::Error, RasKind::Recovery);
    let event = RasEvent { severity, kind, job: None, rank: None, address: None, instruction: None, text };
    if let Err(error) = Records::leave(reserve, event, realtime_ns()) {
        tracing::error!(%error, "the next service node will not know why this one ended");
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::ras::RasQuery;

    use super::{tell, tell_of_panics};
    use crate::database::Database;
    use crate::records::Records;

    #[test]
    fn the_next_one_records_why() {
        let home = tempfile::tempdir().expect("directory");
        let reserve = home.path().join("reserve");
        let records =
            || Records::with_reserve(Box::new(Database::in_memory().expect("made")), &reserve).expect("opened");
        let told = |records: &Records| {
            let events = records.storage().ras(&RasQuery::default()).expect("read");
            events.into_iter().map(|event| event.text).collect::<Vec<_>>()
        };
        assert!(told(&records()).is_empty());
        tell_of_panics(reserve.clone());
        let _ = std::thread::spawn(|| panic!("number {}\nof two lines", 7)).join();
        let _ = std::panic::take_hook();
        tell(&reserve, &anyhow::anyhow!("no more").context("it"));
        let texts = told(&records());
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("the service node panicked: number 7 of two lines ("), "{texts:?}");
        assert!(texts[0].contains("unplanned.rs"), "{texts:?}");
        assert_eq!(texts[1], "the service node ended: it: no more");
        assert!(told(&records()).is_empty(), "once");
    }
}
