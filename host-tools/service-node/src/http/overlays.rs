//! Performance overlays of jobs, and what they have gathered.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use coppice_api::overlay::{OverlayOrder, OverlayView, ProfileQuery, ProfileView};
use coppice_api::stacks::{StackView, StacksView};
use coppice_protocol::ids::JobId;

use super::{Answered, Api, Number, answer};
use crate::controller::{Refused, Request, Sampled};
use crate::limits::{HOST_FILE_TIME_MAX, IMPORT_TIME_MAX, PROFILE_EPOCHS_MAX, PROFILE_WRITE_TIME_MAX};
use crate::profiles::{ProfileError, Profiles};
use crate::store::Found;

/// How a job's overlay is.
pub(super) async fn show(State(api): State<Api>, Number(job): Number<u64>) -> Answered<OverlayView> {
    answer(api.ask(|answer| Request::ShowOverlay(JobId(job), answer)).await)
}

/// Begins one, or ends it.
pub(super) async fn order(
    State(api): State<Api>,
    Number(job): Number<u64>,
    order: Result<Json<OverlayOrder>, JsonRejection>,
) -> Answered<OverlayView> {
    let Json(order) = order.map_err(|error| Refused::bad(error.body_text()))?;
    answer(api.ask(|answer| Request::Overlay(JobId(job), order, answer)).await)
}

/// What was recorded of it, meanwhile and afterwards.
pub(super) async fn profile(
    State(api): State<Api>,
    Number(job): Number<u64>,
    query: Result<Query<ProfileQuery>, QueryRejection>,
) -> Answered<ProfileView> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    let id = JobId(job);
    let (path, written) = api.ask(|answer| Request::Profiles(id, answer)).await?;
    // What cannot be written in time is not waited for: what there is is told.
    let _ = tokio::time::timeout(PROFILE_WRITE_TIME_MAX, written).await;
    let limit = query.limit.unwrap_or(u32::MAX).min(PROFILE_EPOCHS_MAX as u32);
    let read = move || Profiles::read(&path)?.map_or_else(|| Ok(Vec::new()), |profiles| profiles.of_job(id, limit));
    let epochs = api.files.work("the database of profiles", HOST_FILE_TIME_MAX, read).await?;
    let epochs = epochs.map_err(|error| Refused { status: 500, message: error.to_string() })?;
    answer(Ok(ProfileView { job, epochs }))
}

/// What ranks were at, and where the program is that can say what that is called.
pub(super) async fn stacks(State(api): State<Api>, Number(job): Number<u64>) -> Answered<StacksView> {
    let id = JobId(job);
    let sampled = *api.ask(|answer| Request::Sampled(id, answer)).await?;
    let Sampled { job: view, profiles, written, copy } = sampled;
    // As above.
    let _ = tokio::time::timeout(PROFILE_WRITE_TIME_MAX, written).await;
    let read = move || {
        let Some(profiles) = Profiles::read(&profiles)? else { return Ok((Vec::new(), None)) };
        Ok((profiles.stacks_of(id)?, profiles.sample_hz(id)?))
    };
    let read = api.files.work("the database of profiles", HOST_FILE_TIME_MAX, read).await?;
    let (stacks, sample_hz) =
        read.map_err(|error: ProfileError| Refused { status: 500, message: error.to_string() })?;
    let store = api.store.clone();
    let find = move || {
        let copy = copy?;
        let is_sound = matches!(store.check(&copy), Ok(Found::Sound));
        is_sound.then(|| store.path(copy.id))
    };
    let program_file = api.files.work("the stored copy of a program", IMPORT_TIME_MAX, find).await?;
    let samples = stacks.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let stacks = stacks.into_iter().map(|(frames, count)| StackView { frames, count }).collect();
    answer(Ok(StacksView { job, name: view.name, program: view.program, program_file, sample_hz, samples, stacks }))
}
