//! The version of the API, and who understands whom.
//!
//! A version is `MAJOR.MINOR`. MINOR grows with a release that adds something: a request, a parameter, a field, a value
//! that a field may have. MAJOR, which is also in the paths, grows when something that was there is gone or means
//! something else; MINOR is 0 again then. What is not released yet may change under its number.
//!
//! Whoever reads answers ignores fields that he does not know. So a client understands a service node whose MAJOR is
//! its own, and whose MINOR is not less. [`crate::Client`] looks at each answer's [`HEADER`], and gives up with one
//! line if that is not so; only the order to end a cluster is taken from clients of any version.

use std::fmt;
use std::str::FromStr;

use hyper::header::{HeaderMap, HeaderName};

use crate::error::ApiError;

/// The version that this is.
pub const VERSION: ApiVersion = ApiVersion { major: 1, minor: 0 };

/// What says the version in each answer.
pub const HEADER: HeaderName = HeaderName::from_static("coppice-api-version");

/// Whether whoever answered with these is understood.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let node = ApiVersion::told(headers);
    match node {
        Some(node) if VERSION.understands(node) => Ok(()),
        _ => Err(ApiError::Version { node, client: VERSION }),
    }
}

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApiVersion {
    /// Another one is understood by nobody.
    pub major: u32,
    /// A larger one has more.
    pub minor: u32,
}

/// A text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version is two numbers with a dot between them, such as 1.0")]
pub struct NoVersion;

impl ApiVersion {
    /// The version of whoever answered, if he says so.
    #[must_use]
    pub fn told(headers: &HeaderMap) -> Option<Self> {
        headers.get(HEADER)?.to_str().ok()?.parse().ok()
    }

    /// Whether a client of this version understands a service node of that one.
    #[must_use]
    pub fn understands(self, node: Self) -> bool {
        self.major == node.major && self.minor <= node.minor
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ApiVersion {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let number = |digits: &str| digits.parse().map_err(|_| NoVersion);
        let (major, minor) = text.split_once('.').ok_or(NoVersion)?;
        Ok(Self { major: number(major)?, minor: number(minor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiVersion, NoVersion, VERSION};

    #[test]
    fn a_client_understands_what_has_all_that_it_knows() {
        let version = |text: &str| text.parse::<ApiVersion>().expect(text);
        for (client, node, understood) in [
            ("1.2", "1.2", true),
            ("1.2", "1.10", true),
            ("1.2", "1.1", false),
            ("1.2", "2.2", false),
            ("2.0", "1.9", false),
        ] {
            assert_eq!(version(client).understands(version(node)), understood, "{client} {node}");
        }
        assert_eq!(version(&VERSION.to_string()), VERSION);
        for bad in ["", "1", "1.", ".1", "1.2.3", "a.b", "-1.0"] {
            assert_eq!(bad.parse::<ApiVersion>(), Err(NoVersion), "{bad}");
        }
    }
}
