//! Which files are to be staged, and where ranks are to find them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use coppice_api::path::bytes;
use coppice_api::shown;
use coppice_api::staging::{Staged, staged_path};

/// A `FILE[=PATH]` of a job that sees `root`, which has no links in it, as `/`. FILE ends at the first `=`.
pub(super) fn parse(text: &OsStr, root: &Path) -> anyhow::Result<Staged> {
    let all = text.as_bytes();
    let (name, path) = match all.iter().position(|byte| *byte == b'=') {
        Some(at) => (&all[..at], Some(&all[at + 1..])),
        None => (all, None),
    };
    if name.is_empty() {
        return Err(anyhow!("--stage '{}' names no file; give FILE or FILE=PATH", shown(text)));
    }
    let file = std::path::absolute(OsStr::from_bytes(name)).context("cannot find the working directory")?;
    let path = match path {
        Some(path) => path.into(),
        None => in_root(&file, root)?,
    };
    let path = staged_path(&path).map_err(|error| anyhow!("--stage '{}': {error}", shown(text)))?;
    Ok(Staged { file, path })
}

/// Where a file lies for those who see `root` as `/`.
fn in_root(file: &Path, root: &Path) -> anyhow::Result<coppice_api::ByteString> {
    let show = shown(file);
    let real = file.canonicalize().map_err(|error| {
        let error = error.to_string();
        let plain = error.split(" (os error").next().unwrap_or_default();
        anyhow!("cannot stage '{show}': {plain}; name a file that is there")
    })?;
    match real.strip_prefix(root) {
        Ok(below) => Ok(bytes(Path::new("/").join(below))),
        Err(_) => Err(anyhow!(
            "--stage '{show}': it does not lie in the root '{}'; say where ranks are to find it, with FILE=PATH",
            shown(root)
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::parse;

    fn text(bytes: &[u8]) -> &OsStr {
        OsStr::from_bytes(bytes)
    }

    #[test]
    fn a_file_goes_where_one_says() {
        let root = Path::new("/srv");
        let staged = parse(text(b"/x/a\xff=/in//./b=\xfe"), root).expect("fine");
        assert_eq!((staged.file.as_os_str(), &*staged.path), (text(b"/x/a\xff"), &b"/in/b=\xfe"[..]));
        let here = parse(text(b"a=/a"), root).expect("fine");
        assert!(here.file.is_absolute() && here.file.ends_with("a"));
    }

    #[test]
    fn without_a_path_a_file_stays_where_it_lies_in_the_root() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().canonicalize().expect("there");
        fs::create_dir(root.join("in")).expect("made");
        fs::write(root.join("in/data"), "x").expect("written");
        std::os::unix::fs::symlink(root.join("in/data"), root.join("link")).expect("linked");
        let at = |file: &str, root: &Path| parse(directory.path().join(file).as_os_str(), root);
        assert_eq!(at("in/data", &root).expect("fine").path, "/in/data");
        assert_eq!(at("in/../in/data", &root.join("in")).expect("fine").path, "/data");
        assert_eq!(at("link", &root).expect("fine").path, "/in/data");
        let whole = at("in/data", Path::new("/")).expect("fine");
        assert_eq!(*whole.path, *root.join("in/data").as_os_str().as_bytes());
        let error = at("in/data", Path::new("/srv")).expect_err("outside").to_string();
        assert!(error.contains("does not lie in the root '/srv'") && error.contains("=PATH"), "{error}");
        let error = at("nosuch", &root).expect_err("missing").to_string();
        assert!(error.contains("No such file") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_cannot_be_staged_is_refused_in_one_line() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "names no file"),
            (b"=/x", "names no file"),
            (b"a=", "absolute path"),
            (b"a=b", "absolute path"),
            (b"a=/in/../proc/x", "/proc"),
            (b"\n=/", "root directory"),
        ];
        for (given, words) in cases {
            let error = parse(text(given), Path::new("/")).expect_err(words).to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }
}
