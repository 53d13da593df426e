//! Metrics, which are text.

use super::{Client, read_body};
use crate::error::ApiError;
use crate::limits::ANSWER_TIME_MAX;

/// Where they are, also over TCP.
pub const METRICS_PATH: &str = "/metrics";

impl Client {
    /// What there is at the moment, in OpenMetrics' text format.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn metrics(&self) -> Result<String, ApiError> {
        let body = async { read_body(self.get_response(METRICS_PATH).await?).await };
        let body = self.within(ANSWER_TIME_MAX, body).await?;
        String::from_utf8(body.into()).map_err(|_| ApiError::Damaged("metrics that are no text".to_owned()))
    }
}
