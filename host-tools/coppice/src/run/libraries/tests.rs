//! Roots that are made, with libraries that are there and others that are not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use coppice_api::ByteString;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{check, substituted};

/// A root in the making.
struct Built(TempDir);

impl Built {
    /// With this machine's dynamic linker and C library.
    fn new() -> Self {
        let built = Self(tempfile::tempdir().expect("directory"));
        for (from, to) in [
            ("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
            ("/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/libc.so.6"),
        ] {
            fs::create_dir_all(built.at(to).parent().expect("below")).expect("directory");
            fs::copy(from, built.at(to)).expect("copied");
        }
        built
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().expect("there").join(path)
    }

    /// Links something with what else the compiler is told.
    fn link(&self, to: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let to = self.at(to);
        fs::create_dir_all(to.parent().expect("below")).expect("directory");
        let file = self.at("source.c");
        fs::write(&file, source).expect("written");
        let linked =
            Command::new("gcc").arg(&file).arg("-o").arg(&to).args(arguments).current_dir(self.at("")).status();
        assert!(linked.expect("gcc").success());
        to
    }

    fn library(&self, to: &str, arguments: &[&str]) -> PathBuf {
        self.link(to, "int f(void) { return 1; }", &[&["-shared", "-fPIC", "-Wl,--no-as-needed"], arguments].concat())
    }

    fn program(&self, arguments: &[&str]) -> PathBuf {
        let all = [&["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"], arguments].concat();
        self.link("bin/program", "int main(void) { return 0; }", &all)
    }

    fn missing(&self, program: &Path, environment: &[&str]) -> Option<String> {
        let environment: Vec<ByteString> = environment.iter().map(|pair| ByteString::from(*pair)).collect();
        check(program, &self.at(""), &environment).expect("its linker is there")
    }
}

#[test]
fn a_program_that_has_all_it_needs() {
    let built = Built::new();
    let program = built.program(&[]);
    assert_eq!(built.missing(&program, &[]), None);
    assert_eq!(check(&std::env::current_exe().expect("a path"), Path::new("/"), &[]).expect("there"), None);
    // No program at all.
    assert_eq!(built.missing(&built.at("source.c"), &[]), None);
    assert_eq!(built.missing(&built.at("nothing"), &[]), None);
    // Nobody will ever write to it.
    let pipe = built.at("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).expect("made");
    assert_eq!(built.missing(&pipe, &[]), None);
}

#[test]
fn a_dynamic_linker_that_is_not_there_is_refused() {
    let built = Built::new();
    let program = built.program(&[]);
    fs::remove_file(built.at("lib64/ld-linux-x86-64.so.2")).expect("removed");
    let refused = check(&program, &built.at(""), &[]).expect_err("it is gone").to_string();
    assert!(refused.contains("/lib64/ld-linux-x86-64.so.2") && refused.contains("--root /"), "{refused}");
    // A link that leads out of the root leads nowhere.
    symlink("../../../../lib64/ld-linux-x86-64.so.2", built.at("lib64/ld-linux-x86-64.so.2")).expect("linked");
    assert!(check(&program, &built.at(""), &[]).is_err());
}

#[test]
fn what_is_missing_is_named_wherever_it_is_needed() {
    let built = Built::new();
    // Without a name of its own it is needed by the path that it is linked by.
    let deep = built.library("usr/lib/libdeep.so", &[]);
    let near = built.library("usr/lib/libnear.so", &["usr/lib/libdeep.so", "-Wl,-soname,libnear.so"]);
    let program = built.program(&["usr/lib/libnear.so"]);
    assert_eq!(built.missing(&program, &[]), None);
    fs::remove_file(deep).expect("removed");
    let line = built.missing(&program, &[]).expect("it is gone");
    assert!(line.contains("needs usr/lib/libdeep.so,"), "{line}");
    fs::remove_file(near).expect("removed");
    let line = built.missing(&program, &[]).expect("it is gone");
    assert!(line.contains("needs libnear.so,") && line.contains("LD_LIBRARY_PATH"), "{line}");
}

#[test]
fn directories_are_searched_as_the_files_say() {
    let built = Built::new();
    let one = built.library("opt/one/libone.so", &["-Wl,-soname,libone.so"]);
    for path in ["-Wl,-rpath,$ORIGIN/../opt/one", "-Wl,-rpath,${ORIGIN}/../opt/one", "-Wl,-rpath,/opt/one"] {
        for tags in ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"] {
            let program = built.program(&["opt/one/libone.so", path, tags]);
            assert_eq!(built.missing(&program, &[]), None, "{path} {tags}");
        }
    }
    let program = built.program(&["opt/one/libone.so"]);
    assert!(built.missing(&program, &[]).is_some());
    assert_eq!(built.missing(&program, &["LD_LIBRARY_PATH=/nothing:/opt/one"]), None);
    assert!(built.missing(&program, &["LD_LIBRARY_PATH=/opt/one", "LD_LIBRARY_PATH=/other"]).is_some());
    let better = built.at("usr/lib/glibc-hwcaps/x86-64-v2");
    fs::create_dir_all(&better).expect("directory");
    fs::rename(one, better.join("libone.so")).expect("moved");
    assert_eq!(built.missing(&program, &[]), None);
}

#[test]
fn names_in_paths_are_replaced() {
    let values: [(&[u8], &[u8]); 2] = [(b"ORIGIN", b"/o"), (b"LIB", b"lib64")];
    let replaced = |text: &str| String::from_utf8(substituted(text.as_bytes(), &values)).expect("text");
    assert_eq!(replaced("$ORIGIN/a:${LIB}:$LIBRARY:$X:$"), "/o/a:lib64:lib64RARY:$X:$");
}
