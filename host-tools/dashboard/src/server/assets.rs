//! What pages load: their style and the scripts that keep them live, all of which is part of the program.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// By name: what it is, and what is in it.
const ASSETS: [(&str, &str, &str); 7] = [
    ("icon.svg", IMAGE, include_str!("../../templates/icon.svg")),
    ("style.css", STYLE, include_str!("../../templates/style.css")),
    ("pages.css", STYLE, include_str!("../../templates/pages.css")),
    ("live.js", SCRIPT, include_str!("../../templates/live.js")),
    ("htmx.min.js", SCRIPT, include_str!("../../assets/htmx.min.js")),
    ("htmx-ext-sse.min.js", SCRIPT, include_str!("../../assets/htmx-ext-sse.min.js")),
    ("idiomorph-ext.min.js", SCRIPT, include_str!("../../assets/idiomorph-ext.min.js")),
];

/// One of them.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.into_iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, kind)], text).into_response(),
        None => (StatusCode::NOT_FOUND, "There is no such file here.\n").into_response(),
    }
}
