//! How what the API is made of looks in JSON, for its description ([OpenAPI](https://spec.openapis.org/oas/v3.1.0)).
//!
//! Types of this crate describe themselves. What is here stands for others in that: text that is bytes, and types of
//! the protocols, which nodes have as well and which know nothing of descriptions. Nothing of it is ever made; what is
//! answered is held against it in the service node's tests.

mod debugged;
mod held;
mod questions;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

pub use self::debugged::{BreakAt, BreakOn, Go, SetThread, Stop, Why};
pub use self::held::{EndedBy, HeldProcess, HeldThread, MappedArea, MemoryPart, NotTold, Shows};
pub use self::questions::{
    Answer, Keeping, OpenObject, PairKind, Part, PartOf, Query, Question, Saving, SlotKey, Step, What,
};

/// Text that need not be UTF-8, or a path of the host: see [`crate::ByteString`].
#[derive(Debug)]
pub enum Text {}

impl PartialSchema for Text {
    fn schema() -> RefOr<Schema> {
        let digits =
            of_type(Type::String).description(Some("Its bytes in hexadecimal.")).pattern(Some("^([0-9a-f]{2})*$"));
        let bytes = ObjectBuilder::new().property("bytes", digits).required("bytes");
        let either = OneOfBuilder::new()
            .description(Some("Text that need not be UTF-8: a string if it is, and its bytes in hexadecimal if not."))
            .item(of_type(Type::String))
            .item(bytes);
        Schema::OneOf(either.build()).into()
    }
}

impl ToSchema for Text {}

/// Nothing: the answer to an order that was taken, of which there is nothing to say.
#[derive(Debug)]
pub enum Nothing {}

impl PartialSchema for Nothing {
    fn schema() -> RefOr<Schema> {
        let description = "Nothing: it was done, and there is nothing to say of it.";
        Schema::Object(of_type(Type::Null).description(Some(description)).build()).into()
    }
}

impl ToSchema for Nothing {}

/// Bytes as they come, which are no text.
#[derive(Debug)]
pub enum Raw {}

impl PartialSchema for Raw {
    fn schema() -> RefOr<Schema> {
        // As the standard wants bytes described that are a whole body: without a type.
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).build().into()
    }
}

impl ToSchema for Raw {}

/// The description of the API.
#[derive(Debug)]
pub enum Document {}

impl PartialSchema for Document {
    fn schema() -> RefOr<Schema> {
        let description = "An OpenAPI document.";
        let anything = Some(AdditionalProperties::FreeForm(true));
        Schema::Object(of_type(Type::Object).description(Some(description)).additional_properties(anything).build())
            .into()
    }
}

impl ToSchema for Document {}

fn of_type(of: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(of)
}

/// What a type looks like that is written as text.
pub(crate) fn written(description: &str, pattern: &str, example: &str) -> RefOr<Schema> {
    of_type(Type::String).description(Some(description)).pattern(Some(pattern)).examples([example]).build().into()
}

/// What a rank took.
#[derive(Debug, ToSchema)]
pub struct RankCounters {
    /// From the launch message to the first instruction of the program, ns.
    pub launch_ns: u64,
    /// From its first instruction to its end, ns.
    pub run_ns: u64,
    /// Page faults taken.
    pub page_faults: u64,
    /// Of those, on instruction fetches.
    pub instruction_faults: u64,
    /// Program pages fetched from the I/O node, those included that were read ahead.
    pub pages_fetched: u64,
    /// Most memory that it had, in pages of 4 KiB.
    pub pages_peak: u64,
    /// Bytes the program read from files.
    pub bytes_read: u64,
    /// Bytes the program wrote to files.
    pub bytes_written: u64,
    /// Calls that looked for names or at attributes of files and were made at the I/O node, opens included.
    pub lookups: u64,
    /// Files of the I/O node that it opened.
    pub files_opened: u64,
    /// Pages of files that were asked for at the I/O node to be kept, those included that were read ahead; not those of
    /// short files, which come with each open.
    pub file_pages_fetched: u64,
    /// Pages of files that were on the node when their file was opened, as earlier jobs had read them.
    pub file_pages_found: u64,
}

/// How the ranks of a job find each other.
#[derive(Debug, ToSchema)]
pub struct Startup {
    /// How they come to know what others have put; nothing: by how many they are.
    pub modex: Option<Modex>,
    /// How nodes meet in a barrier; nothing: as is predicted to be quickest.
    pub fence: Option<Fence>,
}

/// How ranks come to know what others have put.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "kebab-case")]
pub enum Modex {
    /// Barriers bring what was put.
    Full,
    /// Who wants a key asks for it.
    Direct,
}

/// An algorithm for a barrier that brings every node what the others have put.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "kebab-case")]
pub enum Fence {
    /// To nodes twice as far in each step: the fewest steps.
    Dissemination,
    /// Up a binomial tree and down again: the fewest frames.
    Tree,
    /// From neighbour to neighbour: the smallest frames.
    Ring,
}
