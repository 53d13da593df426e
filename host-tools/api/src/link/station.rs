//! Whose a link is, and lists of links as people write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::NODES_MAX;
use crate::schema::written;

/// What a link connects to the fabric: a compute node, written `2`, or the I/O node of a pset, written `io0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Station {
    /// A compute node.
    Node(u32),
    /// A pset's I/O node.
    IoNode(u32),
}

/// What a text is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StationError {
    /// It names no link.
    #[error("give nodes and I/O nodes, such as 2, 0,3-5 or io0")]
    NoStation,
    /// No cluster has that many.
    #[error("there is no node {0}: a cluster has at most {NODES_MAX}, counted from 0")]
    Beyond(String),
    /// A range from the larger to the smaller.
    #[error("{0} counts down; begin with the smaller number")]
    Down(String),
    /// Nothing is done twice.
    #[error("{0} is named twice; name it once")]
    Twice(Station),
}

impl Station {
    /// The node, if it is one.
    #[must_use]
    pub fn node(self) -> Option<u32> {
        match self {
            Self::Node(node) => Some(node),
            Self::IoNode(_) => None,
        }
    }
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "{node}"),
            Self::IoNode(pset) => write!(f, "io{pset}"),
        }
    }
}

impl PartialSchema for Station {
    fn schema() -> RefOr<Schema> {
        let description =
            "What a link connects to the network: a compute node, such as `2`, or a pset's I/O node, `io0`.";
        written(description, "^(io)?[0-9]+$", "2")
    }
}

impl ToSchema for Station {}

impl From<Station> for String {
    fn from(station: Station) -> Self {
        station.to_string()
    }
}

impl FromStr for Station {
    type Err = StationError;

    fn from_str(text: &str) -> Result<Self, StationError> {
        match text.strip_prefix("io") {
            Some(pset) => number(pset).map(Self::IoNode),
            None => number(text).map(Self::Node),
        }
    }
}

impl TryFrom<String> for Station {
    type Error = StationError;

    fn try_from(text: String) -> Result<Self, StationError> {
        text.parse()
    }
}

/// Links, each once and at least one, in the order they were named: `0,3-5,io0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stations(Vec<Station>);

impl Stations {
    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Station] {
        &self.0
    }

    /// The one, if it is only one.
    #[must_use]
    pub fn only(&self) -> Option<Station> {
        if let [station] = *self.0 { Some(station) } else { None }
    }
}

impl From<Station> for Stations {
    fn from(station: Station) -> Self {
        Self(vec![station])
    }
}

impl FromStr for Stations {
    type Err = StationError;

    fn from_str(text: &str) -> Result<Self, StationError> {
        let mut stations = Vec::new();
        for part in text.split(',') {
            let (make, numbers): (fn(u32) -> Station, _) = match part.strip_prefix("io") {
                Some(psets) => (Station::IoNode, range(part, psets)?),
                None => (Station::Node, range(part, part)?),
            };
            for station in numbers.map(make) {
                // Also what bounds the list: there are only so many.
                if stations.contains(&station) {
                    return Err(StationError::Twice(station));
                }
                stations.push(station);
            }
        }
        Ok(Self(stations))
    }
}

impl TryFrom<String> for Stations {
    type Error = StationError;

    fn try_from(text: String) -> Result<Self, StationError> {
        text.parse()
    }
}

impl PartialSchema for Stations {
    fn schema() -> RefOr<Schema> {
        let part = "(io)?[0-9]+(-[0-9]+)?";
        written("Links, each once and at least one.", &format!("^{part}(,{part})*$"), "0,3-5,io0")
    }
}

impl ToSchema for Stations {}

impl fmt::Display for Stations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, station) in self.0.iter().enumerate() {
            write!(f, "{}{station}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl From<Stations> for String {
    fn from(stations: Stations) -> Self {
        stations.to_string()
    }
}

/// The numbers that `digits` names, `3` or `3-5`, of the list's part `part`.
fn range(part: &str, digits: &str) -> Result<RangeInclusive<u32>, StationError> {
    let (first, last) = digits.split_once('-').unwrap_or((digits, digits));
    let (first, last) = (number(first)?, number(last)?);
    if last < first {
        return Err(StationError::Down(part.to_owned()));
    }
    Ok(first..=last)
}

fn number(digits: &str) -> Result<u32, StationError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(StationError::NoStation);
    }
    let number = digits.parse().ok().filter(|number| *number < NODES_MAX);
    number.ok_or_else(|| StationError::Beyond(digits.chars().take(20).collect()))
}

#[cfg(test)]
mod tests {
    use super::{NODES_MAX, Station, Stations};

    fn parsed(text: &str) -> Result<Vec<Station>, String> {
        text.parse::<Stations>().map(|stations| stations.0).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_keep_their_order() {
        use Station::{IoNode, Node};
        assert_eq!(parsed("7"), Ok(vec![Node(7)]));
        assert_eq!(parsed("io1"), Ok(vec![IoNode(1)]));
        assert_eq!(
            parsed("4,0-2,io0-1,3-3"),
            Ok(vec![Node(4), Node(0), Node(1), Node(2), IoNode(0), IoNode(1), Node(3)])
        );
        let all = format!("0-{last},io0-{last}", last = NODES_MAX - 1);
        assert_eq!(parsed(&all).map(|all| all.len()), Ok(2 * NODES_MAX as usize));
    }

    #[test]
    fn what_is_no_list_is_refused_in_one_line() {
        let cases = [
            ("", "such as 2"),
            ("x", "such as 2"),
            ("1,,2", "such as 2"),
            ("-1", "such as 2"),
            ("1-", "such as 2"),
            ("1-2-3", "such as 2"),
            ("io", "such as 2"),
            ("io-1", "such as 2"),
            ("IO0", "such as 2"),
            ("1-io2", "such as 2"),
            ("5-3", "5-3 counts down"),
            ("io5-3", "io5-3 counts down"),
            ("1,2,1", "1 is named twice"),
            ("io0,0,io0", "io0 is named twice"),
            ("0,16384", "there is no node 16384"),
            ("99999999999999999999999999", "there is no node 99999999999999999999:"),
        ];
        for (text, words) in cases {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(words) && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        for text in ["0", "3,io0,1", "io16383,0"] {
            let stations: Stations = text.parse().expect(text);
            assert_eq!(stations.to_string(), text);
            let json = serde_json::to_string(&stations).expect("json");
            assert_eq!(serde_json::from_str::<Stations>(&json).expect("read"), stations);
        }
        assert!(serde_json::from_str::<Station>("\"io16384\"").is_err());
    }
}
