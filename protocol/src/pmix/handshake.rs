//! The first words of a client: who it is and how it speaks (`pmix_ptl_base_construct_message`).
//!
//! They are answered with a status and, if that is success, with the client's index at the server, four bytes each.
//! Who a client is need not be proven: its connection comes from the process of one rank.

use super::dialect::Dialect;
use super::reader::{Process, Reader};
use super::status::Status;

/// What a client says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// Who it is.
    pub process: Process<'a>,
    /// How it writes.
    pub dialect: Dialect,
}

/// A client that was started by its server; all others are tools of some sort.
const SIMPLE_CLIENT: u8 = 0;

/// `PMIX_BFROP_BUFFER_NON_DESC`.
const NOT_DESCRIBED: u8 = 1;

impl<'a> Greeting<'a> {
    /// Understands it.
    ///
    /// # Errors
    /// [`Status::UNPACK_FAILURE`]: it is none. [`Status::NOT_SUPPORTED`]: a tool, a client of a version that nobody
    /// knows, or one that wants every value described.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Status> {
        let mut rest = bytes;
        // How it wants to prove who it is, and what proves it.
        text(&mut rest)?;
        let credential = number(&mut rest)?;
        rest = rest.get(credential as usize..).ok_or(Status::UNPACK_FAILURE)?;
        let (&flag, behind) = rest.split_first().ok_or(Status::UNPACK_FAILURE)?;
        rest = behind;
        if flag != SIMPLE_CLIENT {
            return Err(Status::NOT_SUPPORTED);
        }
        let process = Process { space: text(&mut rest)?, rank: number(&mut rest)? };
        // Its version, then how it writes.
        text(&mut rest)?;
        let dialect = Dialect::of_module(text(&mut rest)?).ok_or(Status::NOT_SUPPORTED)?;
        match rest.first() {
            None => Err(Status::UNPACK_FAILURE),
            Some(&NOT_DESCRIBED) => Ok(Self { process, dialect }),
            Some(_) => Err(Status::NOT_SUPPORTED),
        }
    }
}

/// A text up to its zero byte.
fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Status> {
    let end = rest.iter().position(|byte| *byte == 0).ok_or(Status::UNPACK_FAILURE)?;
    let (text, behind) = rest.split_at(end);
    *rest = behind.get(1..).unwrap_or_default();
    Ok(text)
}

/// A number of four bytes, most significant first.
fn number(rest: &mut &[u8]) -> Result<u32, Status> {
    let mut reader = Reader::new(rest, Dialect::Wide);
    let number = reader.u32()?;
    *rest = reader.rest();
    Ok(number)
}
