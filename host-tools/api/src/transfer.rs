//! What transfers of files to a job's nodes took. Every number was counted or measured.

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::schema::Text;
use crate::staging::Scheme;

/// A transfer of a file that a job had staged, or that its nodes read, from its begin until every node had it or was
/// given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransferView {
    /// Where the job's ranks find the file; nothing for its program.
    #[schema(value_type = Option<Text>)]
    pub path: Option<ByteString>,
    /// Its length, bytes.
    pub bytes: u64,
    /// How many nodes had it open when they began to read it, if it was sent to all for that; nothing if it was staged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<u32>,
    /// How it got to the nodes.
    pub scheme: Scheme,
    /// Branches of [`Scheme::Tree`].
    pub branches: Option<u32>,
    /// Pieces that it was cut into.
    pub pieces: u32,
    /// Nodes that were to have it.
    pub nodes: u32,
    /// Bandwidth that each link was taken to have, bytes/s.
    pub link_bytes_per_second: u64,
    /// Whether somebody said so; if not it is what is taken where nobody does.
    pub link_is_stated: bool,
    /// Time from its begin until the I/O node that has the file knew that all have it, ns.
    pub elapsed_ns: u64,
    /// That time as a multiple of what the file's bytes take on one such link.
    pub times_bound: Ratio,
    /// What that I/O node sent of it, with all headers, bytes.
    pub home_bytes: u64,
    /// Pieces, or packets of them, that it sent because a node asked for them.
    pub home_answered: u64,
    /// Nodes that did not say that they have it.
    pub lost: u32,
    /// The first of them.
    pub lost_nodes: Vec<u32>,
    /// What the nodes counted, as far as they have said so, which they do when the job's ranks have ended there.
    pub members: Option<MembersView>,
}

/// What nodes counted in a transfer, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MembersView {
    /// How many have said what they counted.
    pub nodes: u32,
    /// Pieces that they asked others for, as often as they did. In [`Scheme::TwoTrees`] each is a repair.
    pub asked: u64,
    /// Pieces, or packets of them, that they sent because others asked for them.
    pub answered: u64,
    /// Pieces that came and failed the file's hash.
    pub wrong: u64,
    /// What came to them of pieces from other psets, with all headers, bytes.
    #[serde(default)]
    pub crossed_bytes: u64,
}

/// One number as a multiple of another, to a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct Ratio {
    thousandths: u64,
}

impl Ratio {
    /// How often `part` is in `whole`; of nothing as of one.
    #[must_use]
    pub fn of(whole: u64, part: u64) -> Self {
        let thousandths = (u128::from(whole) * 1000 + u128::from(part) / 2) / u128::from(part.max(1));
        Self { thousandths: u64::try_from(thousandths).unwrap_or(u64::MAX) }
    }
}

impl PartialSchema for Ratio {
    fn schema() -> RefOr<Schema> {
        let description = "One number as a multiple of another, to a thousandth.";
        ObjectBuilder::new().schema_type(Type::Number).description(Some(description)).build().into()
    }
}

impl ToSchema for Ratio {}

impl From<f64> for Ratio {
    fn from(ratio: f64) -> Self {
        // Numbers that are none or too large become the nearest.
        Self { thousandths: (ratio * 1000.0).round() as u64 }
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        // Exact for what any machine measures.
        ratio.thousandths as Self / 1000.0
    }
}

/// How long bytes take on a link, ns.
#[must_use]
pub fn link_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Ratio, link_ns};

    #[test]
    fn ratios_are_numbers_and_come_back() {
        assert_eq!(serde_json::to_string(&Ratio::of(1167, 1000)).expect("plain"), "1.167");
        for (whole, part) in [(0, 5), (5, 0), (22, 7), (u64::MAX, u64::MAX), (1_000_000_007, 3)] {
            let ratio = Ratio::of(whole, part);
            let text = serde_json::to_string(&ratio).expect("plain");
            assert_eq!(serde_json::from_str::<Ratio>(&text).expect("what was written"), ratio, "{text}");
        }
        assert_eq!((link_ns(3_000_000, 1_000_000), link_ns(1, 0)), (3_000_000_000, 1_000_000_000));
    }
}
