//! Where clusters' files are, for homes of all kinds.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn name(text: &str) -> ClusterName {
    text.parse().expect("valid name")
}

fn find(variables: &[(&str, &str)]) -> Result<ClusterPaths, PathError> {
    let lookup = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, v)| OsString::from(v));
    ClusterPaths::find_with(name("default"), lookup, 1000)
}

#[test]
fn nobody_is_kept_from_a_directory_by_who_takes_its_name() {
    let user = rustix::process::getuid().as_raw();
    let parent = tempfile::tempdir().expect("directory");
    let named = |suffix: &str| parent.path().join(format!("coppice-{user}{suffix}"));
    let found = || own_directory(parent.path(), user);
    assert_eq!(found(), named(""));
    // Somebody else's: no directory, or a link to one of ours.
    fs::write(named(""), "").expect("written");
    std::os::unix::fs::symlink(parent.path(), named(".1")).expect("linked");
    assert_eq!(found(), named(".2"));
    // Where ours is, we stay, also if the others go.
    make_private(&found()).expect("made");
    assert_eq!(found(), named(".2"));
    fs::remove_file(named("")).expect("removed");
    assert_eq!(found(), named(".2"));
    // Of another user all are somebody else's.
    assert_eq!(own_directory(parent.path(), user + 1), parent.path().join(format!("coppice-{}", user + 1)));
}

#[test]
fn names_that_are_paths_are_refused() {
    for bad in ["", ".", "..", "a/b", "-x", "_x", "a b", "ü", &"x".repeat(33)] {
        assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
    }
    for good in ["a", "default", "Test-2_b", "7"] {
        assert_eq!(name(good).as_str(), good);
    }
}

#[test]
fn what_is_no_name_is_shown_in_one_harmless_line() {
    let bad = OsStr::from_bytes(b"\xff\n\x1b[2J");
    let line = ClusterName::try_from(bad).expect_err("no name").to_string();
    assert!(line.starts_with("'\\xff\\n\\u{1b}[2J' is no name for a cluster;"), "{line}");
    let lookup = |wanted: &str| (wanted == "COPPICE_HOME").then(|| bad.to_owned());
    let line = ClusterPaths::find_with(name("c"), lookup, 1000).expect_err("relative").to_string();
    assert!(line.starts_with("COPPICE_HOME is '\\xff\\n\\u{1b}[2J', which"), "{line}");
}

#[test]
fn a_home_may_have_any_name() {
    let parent = tempfile::tempdir().expect("directory");
    let home = parent.path().join(OsStr::from_bytes(b"\xff\n"));
    let lookup = |wanted: &str| (wanted == "COPPICE_HOME").then(|| home.clone().into_os_string());
    let paths = ClusterPaths::find_with(name("c"), lookup, rustix::process::getuid().as_raw()).expect("paths");
    paths.create().expect("created");
    assert!(home.join("state/c/programs").is_dir() && paths.runtime().starts_with(&home));
}

#[test]
fn coppice_home_decides_alone() {
    let paths = find(&[("COPPICE_HOME", "/x"), ("HOME", "/home/u"), ("XDG_STATE_HOME", "/s")]).expect("paths");
    assert_eq!(paths.state(), Path::new("/x/state/default"));
    assert_eq!(paths.runtime(), Path::new("/x/run/default"));
}

#[test]
fn without_it_the_xdg_directories_do() {
    let paths = find(&[("HOME", "/home/u"), ("XDG_RUNTIME_DIR", "/no/such/directory")]).expect("paths");
    assert_eq!(paths.state(), Path::new("/home/u/.local/state/coppice/default"));
    assert_eq!(paths.runtime(), Path::new("/tmp/coppice-1000/default"));
    let paths = find(&[("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/tmp")]).expect("paths");
    assert_eq!(paths.state(), Path::new("/s/coppice/default"));
    assert_eq!(paths.runtime(), Path::new("/tmp/coppice/default"));
    assert!(matches!(find(&[("XDG_STATE_HOME", "relative")]), Err(PathError::NoHome)));
    assert!(matches!(find(&[("COPPICE_HOME", "x"), ("HOME", "/home/u")]), Err(PathError::Relative(_))));
}

#[test]
fn a_path_too_long_for_sockets_says_what_to_shorten() {
    let long = format!("/{}", "d".repeat(90));
    let error = find(&[("COPPICE_HOME", &long)]).expect_err("too long");
    let text = error.to_string();
    assert!(text.contains("set COPPICE_HOME to a shorter one") && !text.contains('\n'), "{text}");
    let fits = format!("/{}", "d".repeat(107 - SOCKET_NAME_BYTES_MAX - "//run/default".len()));
    assert!(find(&[("COPPICE_HOME", &fits)]).is_ok());
}

#[test]
fn directories_are_private_and_checked() {
    let home = tempfile::tempdir().expect("directory");
    let text = home.path().to_str().expect("UTF-8").to_owned();
    let lookup = |wanted: &str| (wanted == "COPPICE_HOME").then(|| OsString::from(&text));
    let user = rustix::process::getuid().as_raw();
    let paths = ClusterPaths::find_with(name("c"), lookup, user).expect("paths");
    paths.create().expect("created");
    assert_eq!(fs::metadata(paths.runtime()).expect("runtime").mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(paths.programs()).expect("programs").mode() & 0o777, 0o700);
    paths.check_runtime().expect("private");
    fs::set_permissions(paths.runtime(), fs::Permissions::from_mode(0o755)).expect("chmod");
    assert!(matches!(paths.create(), Err(PathError::Unsafe { .. })));
    fs::remove_dir(paths.runtime()).expect("removed");
    std::os::unix::fs::symlink("/tmp", paths.runtime()).expect("link");
    assert!(matches!(paths.check_runtime(), Err(PathError::Unsafe { .. })));
}

#[test]
fn removing_leaves_other_clusters() {
    let home = tempfile::tempdir().expect("directory");
    let text = home.path().to_str().expect("UTF-8").to_owned();
    let lookup = |wanted: &str| (wanted == "COPPICE_HOME").then(|| OsString::from(&text));
    let user = rustix::process::getuid().as_raw();
    let one = ClusterPaths::find_with(name("one"), lookup, user).expect("paths");
    let two = ClusterPaths::find_with(name("two"), lookup, user).expect("paths");
    one.create().expect("created");
    two.create().expect("created");
    one.remove_runtime().expect("removed");
    assert!(!one.runtime().exists() && two.runtime().exists() && one.state().exists());
    two.remove_runtime().expect("removed");
    two.remove_runtime().expect("removed twice");
    assert!(!home.path().join("run").exists());
}
