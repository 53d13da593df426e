//! Ranks that want others to be started, and what they hear of it, in both versions.

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::limits::{PMI_LINE_BYTES_MAX, SPAWN_TEXTS_BYTES_MAX};
use coppice_protocol::pmi::Event;
use coppice_protocol::spawn::{KeyValue, Origin, Spawned, Wanted};

use crate::cluster::{Cluster, JOB};

/// As MPICH's client writes it.
fn command(program: &str, arguments: &[&str], (so_far, total): (u32, u32)) -> String {
    let arguments: String = (1..).zip(arguments).map(|(number, text)| format!("arg{number}={text}\n")).collect();
    format!(
        "mcmd=spawn\nnprocs=2\nexecname={program}\ntotspawns={total}\nspawnssofar={so_far}\n{arguments}argcnt=1\n\
         preput_num=1\npreput_key_0=PARENT\npreput_val_0=tag#0$port 7$\ninfo_num=2\ninfo_key_0=wdir\ninfo_val_0=/d\n\
         info_key_1=host\ninfo_val_1=x\nendcmd"
    )
}

fn wanted(ranks: u32) -> Wanted {
    let keys = vec![KeyValue { key: "PARENT".into(), value: "tag#0$port 7$".into() }];
    let (program, arguments) = ("./worker".into(), vec!["with space = sign".into(), "".into()]);
    Wanted { program, arguments, directory: Some("/d".into()), ranks, keys }
}

fn spawned(rank: u32, number: u64, outcome: Result<u64, &str>) -> Spawned {
    let outcome = outcome.map(JobId).map_err(str::to_owned);
    Spawned { job: JOB, rank: Rank(rank), number, outcome }
}

/// What nodes were asked to have started.
fn wishes(cluster: &mut Cluster) -> Vec<(u32, u64, Wanted)> {
    let wish = |event| match event {
        Event::Spawn { rank, number, wanted } => (rank.0, number, wanted),
        other => panic!("{other:?}"),
    };
    cluster.events.drain(..).map(wish).collect()
}

/// A rank of version 2 says a message.
fn say_second(cluster: &mut Cluster, rank: u32, text: &str) -> String {
    let message = format!("{:6}{text}", text.len());
    assert_eq!(cluster.say(rank, message.as_bytes()), message.len());
    cluster.hear(rank)
}

fn second(cluster: &mut Cluster, rank: u32) {
    assert_eq!(cluster.ask(rank, "cmd=init pmi_version=2 pmi_subversion=0").matches("rc=0").count(), 1);
}

#[test]
fn a_rank_hears_of_those_that_are_started_for_it_and_says_nothing_meanwhile() {
    let mut cluster = Cluster::new(&[2]);
    let both = command("./worker", &["with space = sign", ""], (1, 2));
    assert_eq!(cluster.ask(0, &both), "");
    assert_eq!(wishes(&mut cluster), [], "more belongs to it");
    assert_eq!(cluster.ask(0, &command("./worker", &["with space = sign", ""], (2, 2))), "");
    assert_eq!(wishes(&mut cluster), [(0, 1, wanted(4))]);
    // What it says meanwhile is not heard; another one is.
    assert_eq!(cluster.say(0, b"cmd=get_appnum\n"), 0);
    assert_eq!(cluster.ask(1, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
    // Of another wish, and of another rank.
    cluster.servers[0].spawned(spawned(0, 2, Ok(9)));
    cluster.servers[0].spawned(spawned(1, 1, Ok(9)));
    assert_eq!(cluster.hear(0), "");
    cluster.servers[0].spawned(spawned(0, 1, Ok(9)));
    assert_eq!(cluster.servers[0].poll_event(), Some(Event::Released(Rank(0))));
    assert_eq!(cluster.hear(0), "cmd=spawn_result rc=0\n");
    // Said again it is nothing new.
    cluster.servers[0].spawned(spawned(0, 1, Err("late")));
    assert_eq!((cluster.servers[0].poll_event(), cluster.hear(0)), (None, String::new()));
    // The next has another number.
    assert_eq!(cluster.ask(0, &command("./worker", &["with space = sign", ""], (1, 1))), "");
    assert_eq!(wishes(&mut cluster), [(0, 2, wanted(2))]);
    cluster.servers[0].spawned(spawned(0, 2, Err("no node is free")));
    assert_eq!(cluster.hear(0), "cmd=spawn_result rc=-1 msg=not_started\n");
    assert_eq!(cluster.ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
}

#[test]
fn what_cannot_be_meant_is_refused_once_for_all_its_commands() {
    let mut cluster = Cluster::new(&[1]);
    let long = "x".repeat(PMI_LINE_BYTES_MAX - 10);
    let longs = [long.as_str(); 1 + SPAWN_TEXTS_BYTES_MAX / (PMI_LINE_BYTES_MAX - 10)];
    let too_long = "y".repeat(PMI_LINE_BYTES_MAX);
    let cases = [
        (command("./other", &[], (1, 2)), "one_program_at_a_time"),
        (command("", &[], (1, 2)), "malformed_spawn"),
        (command("./worker", &["a\nnonsense"], (1, 2)), "malformed_spawn"),
        (command("./worker", &["a\0b"], (1, 2)), "malformed_spawn"),
        (command("./worker", &longs, (1, 2)), "arguments_too_long"),
        (command("./worker", &[&too_long], (1, 2)), "arguments_too_long"),
        (command("./worker", &["a"], (1, 2)).replace("preput_key_0=PARENT\n", ""), "malformed_spawn"),
        (command("./worker", &["a"], (1, 2)).replace("nprocs=2", "nprocs=-1"), "malformed_spawn"),
        (command("./worker", &["a"], (1, 2)).replace("PARENT", &"k".repeat(65)), "no_key_or_too_long"),
    ];
    for (first, why) in cases {
        assert_eq!(cluster.ask(0, &first), "", "{why}");
        let second = command("./worker", &["a"], (2, 2));
        let second = if why == "no_key_or_too_long" { second.replace("PARENT", &"k".repeat(65)) } else { second };
        assert_eq!(cluster.ask(0, &second), format!("cmd=spawn_result rc=-1 msg={why}\n"));
        assert_eq!(cluster.ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n", "{why}");
        assert_eq!(wishes(&mut cluster), []);
    }
}

#[test]
fn version_2_says_it_in_one_message_and_goes_on_meanwhile() {
    let mut cluster = Cluster::new(&[1]);
    second(&mut cluster, 0);
    let one = "subcmd=./worker;maxprocs=3;argc=2;argv0=with space = sign;argv1=;infokeycount=2;infokey0=wdir;\
               infoval0=/d;infokey1=host;infoval1=x;";
    let says = format!("cmd=spawn;thrid=7;ncmds=2;preputcount=1;ppkey0=PARENT;ppval0=tag#0$port 7$;{one}{one}");
    assert_eq!(say_second(&mut cluster, 0, &says), "");
    assert_eq!(wishes(&mut cluster), [(0, 1, wanted(6))]);
    // One at a time.
    let refused = "cmd=spawn-response;thrid=8;errmsg=starts_others_already;";
    assert!(say_second(&mut cluster, 0, &says.replace("thrid=7", "thrid=8")).ends_with(refused));
    assert!(say_second(&mut cluster, 0, "cmd=job-getid;thrid=9;").ends_with("thrid=9;jobid=k0;rc=0;"));
    cluster.servers[0].spawned(spawned(0, 1, Ok(9)));
    assert!(cluster.hear(0).ends_with("cmd=spawn-response;thrid=7;rc=0;jobid=k9;nerrs=0;"));
    assert_eq!(say_second(&mut cluster, 0, &says), "");
    cluster.servers[0].spawned(spawned(0, 2, Err("no node is free")));
    // MPICH's client takes any `rc` for success.
    assert!(cluster.hear(0).ends_with("cmd=spawn-response;thrid=7;errmsg=not_started;"));
    for (says, why) in [
        ("cmd=spawn;ncmds=1;".to_owned(), "malformed_spawn"),
        (format!("cmd=spawn;{one}").replace("maxprocs=3;", ""), "malformed_spawn"),
        (format!("cmd=spawn;ppval0=x;{one}"), "malformed_spawn"),
        (format!("cmd=spawn;{one}subcmd=./other;maxprocs=1;"), "one_program_at_a_time"),
    ] {
        assert!(say_second(&mut cluster, 0, &says).ends_with(&format!("cmd=spawn-response;errmsg={why};")), "{says}");
    }
}

#[test]
fn those_that_were_started_know_by_whom_and_find_keys_that_nobody_put() {
    let mut cluster = Cluster::new(&[1, 1]);
    let keys = || vec![KeyValue { key: "PARENT".into(), value: "tag#0$port$".into() }];
    for server in &mut cluster.servers {
        server.set_origin(Some(Box::new(Origin { job: JobId(5), keys: keys() })), 7);
    }
    let got = "cmd=get_result rc=0 msg=success value=tag#0$port$\n";
    assert_eq!(cluster.ask(0, "cmd=get kvsname=k0 key=PARENT"), got);
    assert_eq!(cluster.ask(0, "cmd=get_universe_size"), "cmd=universe_size size=7\n");
    second(&mut cluster, 1);
    let init = say_second(&mut cluster, 1, "cmd=fullinit;pmijobid=k0;pmirank=1;threaded=FALSE;");
    assert!(init.ends_with("rc=0;spawner-jobid=k5;"), "{init}");
    let get = "cmd=kvs-get;jobid=k0;srcid=-1;key=PARENT;";
    let got = "cmd=kvs-get-response;found=TRUE;value=tag#0$port$;rc=0;";
    assert!(say_second(&mut cluster, 1, get).ends_with(got));
    let universe = say_second(&mut cluster, 1, "cmd=info-getjobattr;key=universeSize;");
    assert!(universe.ends_with("value=7;rc=0;"), "{universe}");
}

/// Of a wish from before a checkpoint nothing came, as far as anybody knows.
#[test]
fn a_rank_that_goes_on_from_a_checkpoint_hears_that_nobody_was_started() {
    let mut cluster = Cluster::new(&[1]);
    assert_eq!(cluster.ask(0, &command("./worker", &[], (1, 1))), "");
    let mut again = cluster.again();
    assert_eq!(again.hear(0), "cmd=spawn_result rc=-1 msg=not_started\n");
}

/// Nobody waits for an answer to a rank that is gone, and what it wanted takes no memory.
#[test]
fn what_a_rank_wanted_goes_with_it() {
    let mut cluster = Cluster::new(&[2]);
    let before = cluster.servers[0].memory_bytes();
    assert_eq!(cluster.ask(0, &command("./worker", &["x"; 20], (1, 1))), "");
    assert!(cluster.servers[0].memory_bytes() > before + 20);
    cluster.servers[0].rank_closed(Rank(0), 0);
    assert_eq!(cluster.servers[0].memory_bytes(), before);
    cluster.servers[0].spawned(spawned(0, 1, Ok(9)));
    assert_eq!(cluster.servers[0].poll_event(), None);
}
