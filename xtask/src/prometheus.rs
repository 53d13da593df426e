//! Prometheus, which reads metrics of clusters in tests, and its checker: Debian's, in `target/prometheus`.

use anyhow::Result;

use crate::command::target;
use crate::debian::Binary;

const PROMETHEUS: Binary = Binary { title: "Prometheus", package: "prometheus" };

/// Makes sure that its programs are there.
///
/// # Errors
/// If they cannot be fetched; says what to do.
pub(crate) fn ready() -> Result<()> {
    PROMETHEUS.unpack(&target().join("prometheus"))
}
