//! The API's description, and what is said without a look at the version.

use super::{Client, read_body};
use crate::error::ApiError;
use crate::limits::ANSWER_TIME_MAX;

impl Client {
    /// The description of the API that the service node answers, as OpenAPI has it: JSON.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn description(&self) -> Result<String, ApiError> {
        let body = async { read_body(self.get_response("/openapi.json").await?).await };
        let body = self.within(ANSWER_TIME_MAX, body).await?;
        String::from_utf8(body.into()).map_err(|_| ApiError::Damaged("a description that is no text".to_owned()))
    }
}
