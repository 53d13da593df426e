//! What can go wrong between a client and the service node.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::holder::Elsewhere;
use crate::path::shown;
use crate::version::ApiVersion;

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// One line: what is wrong and what to do.
    pub error: String,
}

/// Why a request was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody listens on the cluster's socket.
    #[error("cluster '{0}' is not up; start it with `coppice up`")]
    NotUp(String),
    /// The service node runs, but its socket is gone.
    #[error(
        "cluster '{cluster}' is up (coppiced is process {process}), but its socket {} was deleted; end it with \
         `coppice down`",
        shown(socket)
    )]
    Unreachable {
        /// The cluster.
        cluster: String,
        /// Its service node.
        process: i32,
        /// Where its socket was.
        socket: PathBuf,
    },
    /// Another machine has the cluster.
    #[error(transparent)]
    Elsewhere(#[from] Elsewhere),
    /// The service node does not answer.
    #[error(
        "coppiced{} has not answered for {} s; its log may say why, and `kill -9` ends it and all of its nodes",
        process.map(|process| format!(", process {process},")).unwrap_or_default(), waited.as_secs()
    )]
    Silent {
        /// The service node, if it can be found.
        process: Option<i32>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The service node understood and refused.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// One line.
        message: String,
    },
    /// The connection broke.
    #[error("lost the connection to coppiced: {0}; its log says why")]
    Connection(String),
    /// The service node's version of the API is not understood ([`crate::version`]).
    #[error(
        "coppiced speaks {} of its API, and this program {client}; run `coppice down`, then `coppice up`, with \
         binaries of one version",
        node.map_or_else(|| "an older version".to_owned(), |node| format!("version {node}"))
    )]
    Version {
        /// What it speaks, if it says so.
        node: Option<ApiVersion>,
        /// What is spoken here.
        client: ApiVersion,
    },
    /// The answer is not one of this API, though it should be.
    #[error("coppiced answered what this coppice does not understand ({0}); run `coppice down`, then `coppice up`")]
    Damaged(String),
    /// The socket exists and cannot be used.
    #[error("cannot connect to coppiced: {0}")]
    Connect(io::Error),
}

impl From<hyper::Error> for ApiError {
    fn from(error: hyper::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

/// What went wrong and why, each reason behind the other; what an error has said already, its cause does not say again.
#[must_use]
pub fn in_one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::in_one_line;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read x: {0}")]
    struct Told(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Untold(#[source] Told);

    #[test]
    fn nothing_is_said_twice() {
        let error = Untold(Told(io::Error::other("broken")));
        assert_eq!(in_one_line(&error), "cannot start: cannot read x: broken");
    }
}
