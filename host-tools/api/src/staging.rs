//! Files of the host that every node of a job has in its memory before the job's ranks start.

use std::path::PathBuf;

use coppice_protocol::limits::PATH_BYTES_MAX;
use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;

/// A file to be staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Staged {
    /// The file on the host, absolute.
    #[serde(with = "crate::path")]
    #[schema(value_type = Text)]
    pub file: PathBuf,
    /// Where ranks find it, read only: an absolute path inside the root as [`staged_path`] gives it.
    #[schema(value_type = Text)]
    pub path: ByteString,
}

/// Whether the job's program is staged, too. It never is if all of the job's nodes hold pages of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramStaging {
    /// If that is reckoned to be faster than to have each node fetch what it touches.
    #[default]
    IfFaster,
    /// It is.
    Always,
    /// It is not.
    Never,
}

/// How staged files get to the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Every other piece goes down one binary tree, the rest down another.
    #[default]
    TwoTrees,
    /// The published scheme: pieces go down branches, then nodes ask each other.
    Tree,
}

/// What a job asked to have staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StagedView {
    /// Where its ranks find the file; nothing for its program.
    #[schema(value_type = Option<Text>)]
    pub path: Option<ByteString>,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Why nothing can be staged at a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StagedPathError {
    /// It depends on where one is.
    #[error("'{0}' is not an absolute path; give one that starts with /")]
    Relative(ByteString),
    /// It is the root itself.
    #[error("'{0}' is the job's root directory; give the path of a file in it")]
    Root(ByteString),
    /// What lies there is not files.
    #[error("'{0}' lies in /{1}, where a job has something else; give a path outside /dev, /proc and /sys")]
    Reserved(ByteString, &'static str),
    /// No call takes it.
    #[error("the path has {0} bytes, at most {max} are possible; give a shorter one", max = PATH_BYTES_MAX - 1)]
    TooLong(usize),
    /// It would end there.
    #[error("'{0}' has a zero byte in it; give a path without")]
    Zero(ByteString),
}

/// Directories of a job where nothing can be staged.
const RESERVED: [&str; 3] = ["dev", "proc", "sys"];

/// An absolute path made plain without looking at any file: without `.`, `..` and slashes that say nothing.
///
/// # Errors
/// [`StagedPathError`], if no file can be staged there.
pub fn staged_path(path: &[u8]) -> Result<ByteString, StagedPathError> {
    let given = || ByteString::from(path);
    if !path.starts_with(b"/") {
        return Err(StagedPathError::Relative(given()));
    }
    if path.contains(&0) {
        return Err(StagedPathError::Zero(given()));
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                // Above the root there is the root.
                names.pop();
            }
            name => names.push(name),
        }
    }
    let Some(first) = names.first() else { return Err(StagedPathError::Root(given())) };
    if let Some(reserved) = RESERVED.iter().find(|reserved| reserved.as_bytes() == *first) {
        return Err(StagedPathError::Reserved(given(), reserved));
    }
    let normal: Vec<u8> = names.iter().flat_map(|name| [b"/", *name].concat()).collect();
    if normal.len() >= PATH_BYTES_MAX {
        return Err(StagedPathError::TooLong(normal.len()));
    }
    Ok(normal.into())
}

#[cfg(test)]
mod tests {
    use super::{PATH_BYTES_MAX, StagedPathError, staged_path};

    #[test]
    fn paths_are_made_plain() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"/a", b"/a"),
            (b"//a/./b//c/", b"/a/b/c"),
            (b"/a/../b", b"/b"),
            (b"/../../b/..c", b"/b/..c"),
            (b"/\xff=\n", b"/\xff=\n"),
            (b"/devices/dev", b"/devices/dev"),
        ];
        for (given, plain) in cases {
            assert_eq!(*staged_path(given).expect("possible"), *plain);
        }
    }

    #[test]
    fn where_nothing_can_be_staged_is_said_in_one_line() {
        let long = [&b"/"[..], &[b'x'; PATH_BYTES_MAX - 1]].concat();
        let cases: [(&[u8], &str); 10] = [
            (b"", "absolute"),
            (b"a/b", "absolute"),
            (b"/", "root directory"),
            (b"/a/..", "root directory"),
            (b"/dev", "/dev, where"),
            (b"/a/../dev/x", "/dev, where"),
            (b"/proc/1", "/proc, where"),
            (b"//sys/x", "/sys, where"),
            (b"/a\0\n", "zero byte"),
            (&long, "4096 bytes, at most 4095"),
        ];
        for (given, words) in cases {
            let error = staged_path(given).expect_err(words).to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        assert!(staged_path(&long[..PATH_BYTES_MAX - 1]).is_ok());
        assert!(matches!(staged_path(b"x"), Err(StagedPathError::Relative(_))));
    }
}
