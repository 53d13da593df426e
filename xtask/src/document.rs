//! Documents that are made from the code.

use anyhow::Result;

use crate::command::{cargo, run};

/// Writes the table in `docs/linux.md`: the test that holds the document against the code does it when it is told to.
///
/// # Errors
/// The code does not compile, or the document has no place for the table.
pub(crate) fn linux_table() -> Result<()> {
    let test = "the_document_says_what_the_code_says";
    let test = ["test", "--quiet", "--package", "coppice-protocol", "--lib", test];
    run(cargo(&test).env("COPPICE_WRITE_LINUX_TABLE", "1"))
}

/// Writes `docs/openapi.json`, the description of the service node's API, in the same way.
///
/// # Errors
/// The code does not compile.
pub(crate) fn openapi() -> Result<()> {
    let test = "the_description_is_kept_as_the_code_says";
    let test = ["test", "--quiet", "--package", "coppice-service-node", "--test", "openapi", test];
    run(cargo(&test).env("COPPICE_WRITE_OPENAPI", "1"))
}
