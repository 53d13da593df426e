//! Performance overlays of jobs, and what they have gathered.

use axum::extract::State;
use coppice_api::overlay::{OverlayOrder, OverlayView, ProfileQuery, ProfileView, RankProfileView};
use coppice_api::stacks::{StackView, StacksView};
use coppice_protocol::ids::{JobId, Rank};

use super::{Answered, Api, Bad, Missing, Number, OfJob, OfRank, Order, Parameters, Usual, answer};
use crate::controller::{Recorded, Refused, Request, Sampled, units};
use crate::limits::{HOST_FILE_TIME_MAX, IMPORT_TIME_MAX, PROFILE_EPOCHS_MAX, PROFILE_WRITE_TIME_MAX};
use crate::profiles::{ProfileError, Profiles};
use crate::store::Found;

/// How a job's performance overlay is, and the last epoch of it.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/overlay",
    tag = "overlays",
    operation_id = "overlay",
    params(OfJob),
    responses((status = 200, description = "The overlay.", body = OverlayView), Bad, Missing, Usual)
)]
pub(super) async fn show(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Answered<OverlayView> {
    answer(api.ask(|answer| Request::ShowOverlay(JobId(job), answer)).await)
}

/// Begins a job's performance overlay, or another one, or ends it, and says how it is then.
#[utoipa::path(
    post,
    path = "/v1/jobs/{job}/overlay",
    tag = "overlays",
    operation_id = "order_overlay",
    params(OfJob),
    request_body = OverlayOrder,
    responses((status = 200, description = "The overlay.", body = OverlayView), Bad, Missing, Usual)
)]
pub(super) async fn order(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Order(order): Order<OverlayOrder>,
) -> Answered<OverlayView> {
    answer(api.ask(|answer| Request::Overlay(JobId(job), order, answer)).await)
}

/// What was recorded of a job's overlays, meanwhile and afterwards.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/profile",
    tag = "overlays",
    operation_id = "profile",
    params(OfJob, ProfileQuery),
    responses((status = 200, description = "Epochs, in order.", body = ProfileView), Bad, Missing, Usual)
)]
pub(super) async fn profile(
    State(api): State<Api>,
    Number(OfJob { job }): Number<OfJob>,
    Parameters(query): Parameters<ProfileQuery>,
) -> Answered<ProfileView> {
    let id = JobId(job);
    let recorded = api.ask(|answer| Request::Profiles(id, answer)).await?;
    let epochs = read(&api, recorded, move |profiles| profiles.of_job(id, limit(query))).await?;
    answer(Ok(ProfileView { job, epochs }))
}

/// What was recorded of one rank of a job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/profile/ranks/{rank}",
    tag = "overlays",
    operation_id = "rank_profile",
    params(OfRank, ProfileQuery),
    responses((status = 200, description = "Spans of time, in order.", body = RankProfileView), Bad, Missing, Usual)
)]
pub(super) async fn rank_profile(
    State(api): State<Api>,
    Number(OfRank { job, rank }): Number<OfRank>,
    Parameters(query): Parameters<ProfileQuery>,
) -> Answered<RankProfileView> {
    let id = JobId(job);
    let recorded = api.ask(|answer| Request::Profiles(id, answer)).await?;
    if rank >= recorded.ranks {
        let last = recorded.ranks.saturating_sub(1);
        return Err(Refused { status: 404, message: format!("job {job} has no rank {rank}; its last is {last}") });
    }
    let read = read(&api, recorded, move |profiles| profiles.of_rank(id, Rank(rank), limit(query) as usize));
    let spans = read.await?;
    answer(Ok(RankProfileView { job, rank, units: units(&spans), spans }))
}

/// How many of something are wanted.
fn limit(query: ProfileQuery) -> u32 {
    query.limit.unwrap_or(u32::MAX).min(PROFILE_EPOCHS_MAX as u32)
}

/// Reads some of what was recorded; nothing, if nothing was.
async fn read<T: Send + 'static>(
    api: &Api,
    Recorded { path, written, .. }: Recorded,
    some: impl FnOnce(Profiles) -> Result<Vec<T>, ProfileError> + Send + 'static,
) -> Result<Vec<T>, Refused> {
    // What cannot be written in time is not waited for: what there is is told.
    let _ = tokio::time::timeout(PROFILE_WRITE_TIME_MAX, written).await;
    let read = move || Profiles::read(&path)?.map_or_else(|| Ok(Vec::new()), some);
    let read = api.files.work("the database of profiles", HOST_FILE_TIME_MAX, read).await?;
    read.map_err(|error| Refused { status: 500, message: error.to_string() })
}

/// What the ranks of a job were at as they were sampled, and where the program is that can say what that is called.
#[utoipa::path(
    get,
    path = "/v1/jobs/{job}/stacks",
    tag = "overlays",
    operation_id = "stacks",
    params(OfJob),
    responses((status = 200, description = "Stacks, the most frequent first.", body = StacksView), Bad, Missing, Usual)
)]
pub(super) async fn stacks(State(api): State<Api>, Number(OfJob { job }): Number<OfJob>) -> Answered<StacksView> {
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
