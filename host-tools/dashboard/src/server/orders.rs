//! What a page can have done: whatever the tool can, by the tool itself, so that it is checked as on the terminal.
//!
//! A button leads to a question: a form with what there is to be said, and the command that it stands for. Only its
//! answer, which comes from a page of the dashboard's own, has something done.

mod line;
mod tool;
mod verbs;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use coppice_api::show::harmless;

use self::line::{Filled, Shown, typed};
pub use self::tool::Tool;
use self::tool::{Done, NotDone};
use self::verbs::{About, Kind, Verb};
use super::Shared;
use super::pages::{still, unknown};

/// Orders that are being obeyed at a time.
pub(super) const ORDERS_MAX: usize = 4;

/// What is in a form, bytes.
pub(super) const FORM_BYTES_MAX: usize = 64 << 10;

#[derive(Template)]
#[template(path = "order.html")]
struct Question<'a> {
    verb: &'a Verb,
    fields: Vec<Shown<'a>>,
    /// Where to go if it is not wanted.
    back: &'a str,
    /// Why it was not done, if it was tried.
    wrong: &'a str,
}

#[derive(Template)]
#[template(path = "done.html")]
struct Told<'a> {
    verb: &'a Verb,
    command: &'a str,
    output: &'a str,
    back: &'a str,
}

/// What is in a form.
type Given = Vec<(String, String)>;

/// Asks what exactly is to be done.
pub(super) async fn ask(Path(name): Path<String>, Query(given): Query<Given>) -> Response {
    let Some(verb) = Verb::find(&name) else { return unknown() };
    match Filled::with(verb, &given) {
        Ok(filled) => question(verb, &filled, StatusCode::OK, ""),
        Err(_) => unknown(),
    }
}

/// Has it done.
pub(super) async fn obey(State(shared): State<Shared>, Path(name): Path<String>, Form(given): Form<Given>) -> Response {
    let Some(verb) = Verb::find(&name) else { return unknown() };
    let Ok(filled) = Filled::with(verb, &given) else { return unknown() };
    let again = |status: StatusCode, why: &str| question(verb, &filled, status, why);
    let line = match filled.line() {
        Ok(line) => line,
        Err(wrong) => return again(StatusCode::BAD_REQUEST, &wrong.to_string()),
    };
    let Ok(permit) = Arc::clone(&shared.orders).try_acquire_owned() else {
        return again(StatusCode::SERVICE_UNAVAILABLE, "as many orders as may be are being obeyed; try it again");
    };
    let (command, ended) = (typed(&line), shared.ended.clone());
    // It goes on if its page is closed meanwhile.
    let obeying = tokio::spawn(async move {
        let _permit = permit;
        shared.tool.obey(&line, ended.cancelled()).await
    });
    match obeying.await {
        Ok(Ok(done)) if done.status.success() => told(verb, &filled, &command, &done),
        Ok(Ok(Done { status, errors, .. })) => {
            let why = if errors.trim().is_empty() { status.to_string() } else { errors };
            again(StatusCode::CONFLICT, &why.trim().lines().map(harmless).collect::<Vec<_>>().join(" "))
        }
        Ok(Err(error)) => {
            let status = match error {
                NotDone::NotStarted(..) | NotDone::Unread(_) => StatusCode::BAD_GATEWAY,
                NotDone::TooLong => StatusCode::GATEWAY_TIMEOUT,
                NotDone::Ending => StatusCode::SERVICE_UNAVAILABLE,
            };
            again(status, &error.to_string())
        }
        // It ends early only if all does.
        Err(_) => again(StatusCode::SERVICE_UNAVAILABLE, &NotDone::Ending.to_string()),
    }
}

fn question(verb: &'static Verb, filled: &Filled, status: StatusCode, wrong: &str) -> Response {
    let page = filled.page();
    still(status, verb.title, (Question { verb, fields: filled.fields().collect(), back: &page, wrong }).render())
}

/// It was done: leads to what came of it.
fn told(verb: &'static Verb, filled: &Filled, command: &str, Done { output, .. }: &Done) -> Response {
    let page = filled.page();
    let new_job = || output.lines().next()?.trim().parse::<u64>().ok();
    if verb.about == About::NewJob
        && let Some(job) = new_job()
    {
        return Redirect::to(&format!("/jobs/{job}")).into_response();
    }
    if !verb.is_told || output.trim().is_empty() {
        return Redirect::to(&page).into_response();
    }
    let output: Vec<_> = output.lines().map(harmless).collect();
    still(StatusCode::OK, verb.title, (Told { verb, command, output: &output.join("\n"), back: &page }).render())
}

#[cfg(test)]
mod tests;
