//! What the tool finds around it and does not choose: variables, working directories, terminals, what lies in its own
//! directories.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use coppice_tests::Cluster;
use coppice_tests::cluster::{binaries, finish, finish_child};
use coppice_tests::guests::{BUSYBOX, Toolchain, program};

/// A command as a line for a shell, and the environment it is to have.
fn in_a_shell(command: &Command) -> (String, Vec<(OsString, OsString)>) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(|word| format!("'{}'", word.display())).collect::<Vec<_>>().join(" ");
    let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    (line, set.collect())
}

#[test]
fn an_empty_variable_says_nothing() {
    let cluster = Cluster::home();
    let mut nodes = cluster.command(&["nodes"]);
    nodes.env("COPPICE_CLUSTER", "");
    let _ = finish(nodes).refused(&["cluster 'default' is not up"]);
}

#[test]
fn a_removed_working_directory_is_named() {
    let cluster = Cluster::up(1);
    let directory = tempfile::tempdir().expect("directory");
    let gone = directory.path().to_owned();
    // Removed by the command's own process: nothing can be started in what is not there.
    let (line, environment) = in_a_shell(&cluster.command(&["run", "true"]));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("rmdir '{}' && exec {line}", gone.display())]).envs(environment);
    let _ = shell.current_dir(&gone).stdin(Stdio::null());
    let _ = finish(shell).refused(&["cannot find the working directory"]);
    // It is gone already.
    let _ = directory.keep();
}

#[test]
fn a_damaged_database_is_refused_once_with_what_to_do() {
    let cluster = Cluster::up(1);
    let _ = cluster.run(&[BUSYBOX, "true"]).success();
    let _ = cluster.coppice(&["down"]).success();
    let database = cluster.home_path().join("state/default/coppice.db");
    std::fs::write(&database, b"this is no database at all, and much longer than a header is ".repeat(100))
        .expect("written");
    let ran = cluster.coppice(&["up", "--accel", "tcg"]).refused(&["coppice.db", "is damaged", "move it elsewhere"]);
    assert_eq!(ran.stderr.matches("damaged").count(), 1, "{}", ran.stderr);
    // What it says to do helps.
    for name in ["coppice.db", "coppice.db-wal", "coppice.db-shm"] {
        let path = database.with_file_name(name);
        if path.exists() {
            std::fs::rename(&path, path.with_extension("aside")).expect("moved");
        }
    }
    // So does what only looks like one of its own files.
    std::fs::create_dir(database.with_file_name("programs").join("0.partial")).expect("made");
    let _ = cluster.coppice(&["up", "--accel", "tcg", "--nodes", "1"]).success();
    let path = program("waits_and_exits", Toolchain::Glibc);
    assert_eq!(cluster.run(&[path.to_str().expect("a path"), "5"]).status, 5);
}

#[test]
fn following_a_console_ends_with_the_cluster() {
    let cluster = Cluster::up(1);
    let mut follow = cluster.command(&["console", "0", "--follow"]);
    let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    let _ = cluster.coppice(&["down"]).success();
    let ran = finish_child(follow, "console --follow").success();
    assert!(ran.text().contains("boot 1"), "{}", ran.text());
}

#[test]
fn a_program_is_called_what_it_is_called() {
    let cluster = Cluster::up(1);
    std::fs::copy(BUSYBOX, cluster.root().join("readlink")).expect("copied");
    assert_eq!(cluster.run(&["./readlink", "/proc/self/exe"]).success().text(), "/readlink\n");
}

#[test]
fn coppiced_says_what_is_wrong_with_its_arguments() {
    let mut command = Command::new(binaries().join("coppiced"));
    command.args(["--nodes", "no"]).stdin(Stdio::null());
    let ran = finish(command);
    assert_ne!(ran.status, 0);
    let report = ran.text();
    assert!(report.contains("\"coppiced does not take what it was told") && report.contains("--nodes"), "{report}");
    assert!(ran.stderr.contains("--nodes"), "{}", ran.stderr);
}

/// A job in the background of a shell at a terminal needs no input, and is not stopped for what it does not read.
#[test]
fn a_job_in_the_background_is_not_stopped() {
    let cluster = Cluster::up(1);
    let (line, environment) =
        in_a_shell(&cluster.command(&["run", "--quiet", BUSYBOX, "echo", "done in the background"]));
    let mut terminal = Command::new("script");
    let shell = format!("sh -m -c \"{line} & wait; echo waited\"");
    terminal.args(["--quiet", "--return", "--command", &shell, "/dev/null"]).envs(environment);
    let _ = terminal.current_dir(cluster.root()).stdin(Stdio::null());
    let text = finish(terminal).success().text();
    assert!(text.contains("done in the background") && text.contains("waited"), "{text}");
}
