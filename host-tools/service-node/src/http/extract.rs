//! What a request has in its path, behind the `?`, and in its body. Whatever is wrong about one is refused in one way.

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::controller::Refused;

/// In the path of what is asked of a job.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfJob {
    /// The job's number.
    pub(super) job: u64,
}

/// In the path of what is asked of a rank.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfRank {
    /// The job's number.
    pub(super) job: u64,
    /// The rank, counted from 0.
    pub(super) rank: u32,
}

/// In the path of what is asked of a node.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfNode {
    /// The node's number, counted from 0.
    pub(super) node: u32,
}

/// The numbers in the path.
pub(super) struct Number<T>(pub(super) T);

/// What is named behind the `?`.
pub(super) struct Parameters<T>(pub(super) T);

/// An order: the body, as JSON.
pub(super) struct Order<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Number<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let number = Path::<T>::from_request_parts(parts, state).await;
        number.map(|Path(number)| Self(number)).map_err(|error| Refused::bad(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let named = Query::<T>::from_request_parts(parts, state).await;
        named.map(|Query(named)| Self(named)).map_err(|error| Refused::bad(error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Order<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let order = Json::<T>::from_request(request, state).await;
        order.map(|Json(order)| Self(order)).map_err(|error| Refused::bad(error.body_text()))
    }
}
