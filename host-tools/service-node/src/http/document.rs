//! The description of the API: what it has besides what is said at each request, and the whole as text.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use coppice_api::body::{ChannelBody, JSON_TYPE};
use coppice_api::error::Refusal;
use coppice_api::output::OutputStream;
use coppice_api::schema::{Document, HeldThread, MappedArea};
use coppice_api::stream::JobEvent;
use coppice_api::version::{HEADER, VERSION};
use serde_json::Value;
use utoipa::openapi::{
    ComponentsBuilder, Content, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    Response as Described, ResponseBuilder, Schema, ServerBuilder,
};
use utoipa::{IntoResponses, ToSchema};

/// What is said of the API as a whole, for readers of the description.
const INTRODUCTION: &str = include_str!("document/introduction.md");

/// The description as text.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // Plain data with string keys: serialising it cannot fail.
    let mut document = serde_json::to_value(super::routes().into_openapi()).unwrap_or_default();
    make_plain(&mut document);
    format!("{document:#}\n")
});

/// What the description has without any request.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Coppice service node")
        .version(VERSION.to_string())
        .description(Some(INTRODUCTION))
        .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build()));
    let server = ServerBuilder::new().url("http://coppice").description(Some("Over the cluster's Unix socket."));
    // What stands at no request, at all of them, or in tuples alone.
    let mut schemas = Vec::new();
    describe::<JobEvent>(&mut schemas);
    describe::<OutputStream>(&mut schemas);
    describe::<Refusal>(&mut schemas);
    describe::<HeldThread>(&mut schemas);
    describe::<MappedArea>(&mut schemas);
    let components = ComponentsBuilder::new().schemas_from_iter(schemas).responses_from_iter(refusals());
    OpenApiBuilder::new()
        .info(info.build())
        .servers(Some([server.build()]))
        .components(Some(components.build()))
        .build()
}

/// The description of this API, as OpenAPI has it.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "description",
    responses((status = 200, description = "This document.", body = Document))
)]
pub(super) async fn openapi() -> Response {
    ([(CONTENT_TYPE, JSON_TYPE)], DOCUMENT.as_str()).into_response()
}

/// An answer that says which version of the API it belongs to.
pub(super) async fn with_version(mut answer: Response) -> Response {
    static VALUE: LazyLock<Option<HeaderValue>> = LazyLock::new(|| VERSION.to_string().try_into().ok());
    answer.headers_mut().extend(VALUE.clone().map(|version| (HEADER, version)));
    answer
}

/// An answer that comes piece by piece.
pub(super) fn of_type(content_type: &'static str, body: ChannelBody) -> Response {
    ([(CONTENT_TYPE, content_type)], Body::new(body)).into_response()
}

fn describe<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// Makes descriptions of the documentation of Rust code: without its links, and with paragraphs of one line each.
/// Formats get the names that others know.
fn make_plain(part: &mut Value) {
    match part {
        Value::Array(parts) => parts.iter_mut().for_each(make_plain),
        Value::Object(parts) => {
            for (key, part) in parts {
                match part {
                    Value::String(text) if key == "description" || key == "summary" => {
                        *text = in_paragraphs(&unlinked(text))
                    }
                    // As the registry of formats has them.
                    Value::String(format) if key == "format" => *format = format.replace("u-int", "uint"),
                    part => make_plain(part),
                }
            }
        }
        _ => {}
    }
}

/// ``[`a::B::c`]`` becomes `` `B.c` ``.
fn unlinked(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[`") {
        let Some((path, behind)) = behind.split_once("`]") else { break };
        let types = path.split("::").skip_while(|part| part.starts_with(|first: char| first.is_ascii_lowercase()));
        let name = types.collect::<Vec<_>>().join(".");
        plain += &format!("{before}`{}`", if name.is_empty() { path } else { &name });
        rest = behind;
    }
    plain + rest
}

/// However its lines were broken; what has lines on purpose is not.
fn in_paragraphs(text: &str) -> String {
    let is_own = |line: &str| ["- ", "| ", "```", "# "].iter().any(|sign| line.starts_with(sign));
    let is_text = |paragraph: &str| !paragraph.lines().any(is_own);
    let paragraphs = text.split("\n\n");
    let joined =
        paragraphs.map(|paragraph| if is_text(paragraph) { paragraph.replace('\n', " ") } else { paragraph.into() });
    joined.collect::<Vec<_>>().join("\n\n").trim_end().to_owned()
}

/// Refusals, each of which looks the same, described once.
macro_rules! refusals {
    ($($(#[$doc:meta])* $group:ident: $($status:literal, $name:literal, $description:literal);+.)+) => {
        fn refusals() -> Vec<(&'static str, Described)> {
            vec![$($(($name, refusal($description)),)+)+]
        }

        $(
            $(#[$doc])*
            pub(super) enum $group {}

            impl IntoResponses for $group {
                fn responses() -> BTreeMap<String, RefOr<Described>> {
                    [$(($status.to_owned(), Ref::from_response_name($name).into())),+].into()
                }
            }
        )+
    };
}

fn refusal(description: &str) -> Described {
    let content = Content::new(Some(Ref::from_schema_name(Refusal::name())));
    ResponseBuilder::new().description(description).content(JSON_TYPE, content).build()
}

refusals! {
    /// Of requests that have something in them.
    Bad: "400", "Bad", "What was asked makes no sense.".
    /// Of requests that name something.
    Missing: "404", "Missing", "There is no such thing.".
    /// Of any.
    Usual: "409", "Conflict",
            "It cannot be done now, as what it is about is in another state, or the cluster is going down.";
        "500", "Failed", "The service node could not do it: a disk or its database fails.";
        "503", "Busy", "Too much is under way, or nothing can be recorded; try again later.".
}

#[cfg(test)]
mod tests {
    use super::{in_paragraphs, unlinked};

    #[test]
    fn links_of_the_documentation_become_names() {
        for (text, plain) in [
            ("as [`crate::job::Submission::detached`].", "as `Submission.detached`."),
            ("[`A`], [`x::B::C`] and `D`", "`A`, `B.C` and `D`"),
            ("[`crate::a::b`] [x](y) [`", "`crate::a::b` [x](y) [`"),
        ] {
            assert_eq!(unlinked(text), plain);
        }
    }
    #[test]
    fn paragraphs_are_lines_and_lists_stay() {
        assert_eq!(in_paragraphs("a\nb\n\nc\n\n- d\n- e\n"), "a b\n\nc\n\n- d\n- e");
    }
}
