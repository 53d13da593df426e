//! What keeps people out who cannot see, or point, or tell colours apart: axe-core looks for that in a page.

use serde::Deserialize;
use serde_json::Value;

use super::Browser;

/// `tests/assets/axe/README.md` says where it is from.
const AXE: &str = include_str!("../../assets/axe/axe.min.js");

/// One of its rules that a page breaks.
#[derive(Debug, Deserialize)]
pub struct Barrier {
    /// The rule.
    pub id: String,
    /// How bad it is: `minor`, `moderate`, `serious`, `critical`.
    pub impact: Option<String>,
    /// The rule in words.
    pub help: String,
    /// Where, and why there.
    pub nodes: Vec<Value>,
}

impl Browser {
    /// What it finds in the page.
    ///
    /// # Panics
    /// If it fails.
    #[must_use]
    #[track_caller]
    pub fn barriers(&self) -> Vec<Barrier> {
        // The driver's scripts are not the page's: what that may load does not bind them.
        let _ = self.run(AXE);
        let report = "nodes => nodes.map(({ html, failureSummary }) => ({ html, failureSummary }))";
        let result = self.promised(&format!(
            "axe.run(document, {{ resultTypes: ['violations'] }}).then(({{ violations }}) => violations.map(
                ({{ id, impact, help, nodes }}) => ({{ id, impact, help, nodes: ({report})(nodes) }})))"
        ));
        serde_json::from_value(result["value"].clone()).unwrap_or_else(|error| panic!("{error}: {result}"))
    }
}
