//! What can go wrong between a client and the service node.

use std::io;

use serde::{Deserialize, Serialize};

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The answer is not one of this API: the binaries are of different versions.
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
