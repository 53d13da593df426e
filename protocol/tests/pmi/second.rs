//! PMI version 2: what a rank may say, and what it hears.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{
    PMI_ANSWER_BYTES_MAX, PMI_ATTRIBUTES_MAX, PMI_LONG_MESSAGE_BYTES_MAX, PMI_MARK_BYTES_MAX, PMI_WAITS_MAX,
};
use coppice_protocol::pmi::{Conversation, Event, Failure, Server};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, proptest};

use crate::cluster::{Cluster, JOB, KEY};
use crate::placement::blocks;

fn message(text: &str) -> Vec<u8> {
    format!("{:6}{text}", text.len()).into_bytes()
}

/// What a rank hears, message by message.
fn hear(cluster: &mut Cluster, rank: u32) -> Vec<String> {
    let heard = cluster.hear(rank);
    let (mut rest, mut messages) = (&*heard, Vec::new());
    while !rest.is_empty() {
        let (length, behind) = rest.split_at(6);
        let (message, behind) = behind.split_at(length.trim().parse().expect("a length"));
        messages.push(message.to_owned());
        rest = behind;
    }
    messages
}

fn say(cluster: &mut Cluster, rank: u32, text: &str) {
    let bytes = message(text);
    assert_eq!(cluster.say(rank, &bytes), bytes.len());
}

fn ask(cluster: &mut Cluster, rank: u32, text: &str) -> String {
    say(cluster, rank, text);
    let heard = hear(cluster, rank);
    let [answer] = &heard[..] else { panic!("{text}: {heard:?}") };
    answer.clone()
}

/// A job all of whose ranks speak it.
fn cluster(counts: &[u32]) -> Cluster {
    let mut cluster = Cluster::new(counts);
    let ranks = counts.iter().sum::<u32>();
    for rank in 0..ranks {
        let init = cluster.ask(rank, "cmd=init pmi_version=2 pmi_subversion=0");
        assert_eq!(init, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
        let full = ask(&mut cluster, rank, &format!("cmd=fullinit;pmirank={rank};threaded=FALSE;"));
        let wanted = format!(
            "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank={rank};size={ranks};appnum=0;debugged=FALSE;\
             pmiverbose=FALSE;rc=0;"
        );
        assert_eq!(full, wanted);
    }
    cluster
}

#[test]
fn every_command_has_its_answer() {
    let mut cluster = cluster(&[1]);
    let long = "x".repeat(1025);
    let exchanges = [
        ("cmd=job-getid;", "cmd=job-getid-response;jobid=k0;rc=0;"),
        ("cmd=job-getid;thrid=0x7ffd;", "cmd=job-getid-response;thrid=0x7ffd;jobid=k0;rc=0;"),
        ("cmd=fullinit;pmirank=1;", "cmd=fullinit-response;rc=-1;errmsg=another_rank;"),
        (
            "cmd=info-getjobattr;key=PMI_process_mapping;",
            "cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,1));rc=0;",
        ),
        ("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;found=TRUE;value=1;rc=0;"),
        ("cmd=info-getjobattr;key=hasNameServ;", "cmd=info-getjobattr-response;found=FALSE;rc=0;"),
        ("cmd=kvs-put;key=one;value=a;;b=;;;", "cmd=kvs-put-response;rc=0;"),
        ("cmd=kvs-put;key=one;value=2;", "cmd=kvs-put-response;rc=-1;errmsg=duplicate_key;"),
        ("cmd=kvs-put;key=;value=2;", "cmd=kvs-put-response;rc=-1;errmsg=no_key_or_too_long;"),
        (&format!("cmd=kvs-put;key=x;value={long};"), "cmd=kvs-put-response;rc=-1;errmsg=value_too_long;"),
        ("cmd=kvs-get;jobid=k0;srcid=-1;key=one;", "cmd=kvs-get-response;found=TRUE;value=a;;b=;;;rc=0;"),
        ("cmd=kvs-get;jobid=;srcid=-1;key=one;", "cmd=kvs-get-response;found=TRUE;value=a;;b=;;;rc=0;"),
        ("cmd=kvs-get;jobid=k0;srcid=0;key=two;", "cmd=kvs-get-response;found=FALSE;rc=0;"),
        ("cmd=kvs-get;jobid=k1;srcid=0;key=one;", "cmd=kvs-get-response;rc=-1;errmsg=no_such_job;"),
        ("cmd=info-putnodeattr;key=a;value=1;", "cmd=info-putnodeattr-response;rc=0;"),
        ("cmd=info-putnodeattr;key=a;value=2;", "cmd=info-putnodeattr-response;rc=-1;errmsg=duplicate_key;"),
        ("cmd=info-getnodeattr;key=a;wait=TRUE;", "cmd=info-getnodeattr-response;found=TRUE;value=1;rc=0;"),
        ("cmd=info-getnodeattr;key=b;wait=FALSE;", "cmd=info-getnodeattr-response;found=FALSE;rc=0;"),
        (
            "cmd=info-getnodeattr;key=b;wait=TRUE;",
            "cmd=info-getnodeattr-response;rc=-1;errmsg=nobody_is_left_who_could_say_it;",
        ),
        ("cmd=kvs-fence;thrid=5;", "cmd=kvs-fence-response;thrid=5;rc=0;"),
        ("cmd=spawn;ncmds=1;", "cmd=spawn-response;errmsg=malformed_spawn;"),
        ("cmd=name-publish;name=a b;port=p;;q;infokeycount=0;", "cmd=name-publish-response;rc=0;"),
        ("cmd=name-publish;name=a b;port=;", "cmd=name-publish-response;rc=-1;errmsg=name_is_published;"),
        ("cmd=name-lookup;thrid=3;name=a b;", "cmd=name-lookup-response;thrid=3;port=p;;q;found=TRUE;rc=0;"),
        ("cmd=name-unpublish;name=a b;", "cmd=name-unpublish-response;rc=0;"),
        ("cmd=name-unpublish;name=a b;", "cmd=name-unpublish-response;rc=-1;errmsg=name_is_not_published;"),
        ("cmd=name-lookup;name=a b;", "cmd=name-lookup-response;found=FALSE;rc=-1;errmsg=name_is_not_published;"),
        ("cmd=name-lookup;", "cmd=name-lookup-response;rc=-1;errmsg=no_name_or_too_long;"),
        ("cmd=dance;", "cmd=dance-response;rc=-1;errmsg=unknown_command;"),
        ("", "cmd=unknown-response;rc=-1;errmsg=malformed_message;"),
        ("hello", "cmd=unknown-response;rc=-1;errmsg=malformed_message;"),
        ("key=1;cmd=job-getid;", "cmd=unknown-response;rc=-1;errmsg=malformed_message;"),
        ("cmd=kvs-put;key=two;value=\0;", "cmd=kvs-put-response;rc=-1;errmsg=malformed_message;"),
        ("cmd=finalize;", "cmd=finalize-response;rc=0;"),
    ];
    for (says, answer) in exchanges {
        assert_eq!(ask(&mut cluster, 0, says), answer, "{says:?}");
    }
    say(&mut cluster, 0, "cmd=job-getid;");
    assert_eq!(hear(&mut cluster, 0), Vec::<String>::new(), "after its last word a rank is not heard");
    assert_eq!(cluster.events, []);
}

/// As MPICH 4.0 has it, whose lengths count themselves: as many bytes of anything are behind each message.
#[test]
fn a_client_may_send_more_than_it_says() {
    let mut cluster = Cluster::new(&[1]);
    cluster.ask(0, "cmd=init pmi_version=2 pmi_subversion=0");
    let tails = ["\0\0\0\0\0\0", ";rc=0;", "key=b;", "\u{1}=;;; "];
    let mut ask = |text: &str, tail: &str| ask(&mut cluster, 0, &format!("{text}{tail}"));
    for (number, tail) in tails.into_iter().enumerate() {
        assert!(ask("cmd=fullinit;pmirank=0;threaded=FALSE;", tail).ends_with(";rc=0;"));
        assert_eq!(ask("cmd=job-getid;", tail), "cmd=job-getid-response;jobid=k0;rc=0;");
        let put = ask(&format!("cmd=kvs-put;key={number};value=a;;;"), tail);
        assert_eq!(put, "cmd=kvs-put-response;rc=0;");
        let got = ask(&format!("cmd=kvs-get;jobid=k0;srcid=0;key={number};"), tail);
        assert_eq!(got, "cmd=kvs-get-response;found=TRUE;value=a;;;rc=0;");
    }
    assert_eq!(ask("", "rc=00;"), "cmd=unknown-response;rc=-1;errmsg=malformed_message;");
}

#[test]
fn what_is_put_is_known_behind_a_fence() {
    let mut cluster = cluster(&[2, 1, 2]);
    for round in 0..3 {
        for rank in 0..5 {
            let put = ask(&mut cluster, rank, &format!("cmd=kvs-put;key=r{round}-{rank};value=of {rank};"));
            assert_eq!(put, "cmd=kvs-put-response;rc=0;");
            say(&mut cluster, rank, "cmd=kvs-fence;");
            assert!(rank == 4 || hear(&mut cluster, rank).is_empty());
        }
        cluster.settle();
        for rank in 0..5 {
            assert_eq!(hear(&mut cluster, rank), ["cmd=kvs-fence-response;rc=0;"]);
            let other = (rank + 2) % 5;
            let got = ask(&mut cluster, rank, &format!("cmd=kvs-get;jobid=k0;srcid={other};key=r{round}-{other};"));
            assert_eq!(got, format!("cmd=kvs-get-response;found=TRUE;value=of {other};rc=0;"));
        }
    }
    assert_eq!(cluster.events, []);
}

#[test]
fn ranks_of_a_node_wait_for_what_others_of_it_say() {
    let mut cluster = cluster(&[3, 1]);
    say(&mut cluster, 0, "cmd=info-getnodeattr;thrid=1;key=late;wait=TRUE;");
    say(&mut cluster, 0, "cmd=info-getnodeattr;thrid=2;key=later;wait=TRUE;");
    say(&mut cluster, 1, "cmd=info-getnodeattr;key=late;wait=TRUE;");
    // A thread that waits keeps no other from anything.
    assert!(ask(&mut cluster, 0, "cmd=job-getid;thrid=3;").starts_with("cmd=job-getid-response;thrid=3;"));
    assert!(ask(&mut cluster, 0, "cmd=info-getnodeattr;thrid=3;key=late;wait=FALSE;").contains("found=FALSE"));
    // It is another node's.
    assert_eq!(ask(&mut cluster, 3, "cmd=info-putnodeattr;key=late;value=x;"), "cmd=info-putnodeattr-response;rc=0;");
    assert!(hear(&mut cluster, 0).is_empty() && hear(&mut cluster, 1).is_empty());
    ask(&mut cluster, 2, "cmd=info-putnodeattr;key=late;value=1;");
    assert_eq!(hear(&mut cluster, 1), ["cmd=info-getnodeattr-response;found=TRUE;value=1;rc=0;"]);
    assert_eq!(hear(&mut cluster, 0), ["cmd=info-getnodeattr-response;thrid=1;found=TRUE;value=1;rc=0;"]);
    ask(&mut cluster, 0, "cmd=info-putnodeattr;thrid=4;key=early;value=2;");
    assert!(hear(&mut cluster, 0).is_empty());
    // In the middle of that a job goes on elsewhere.
    let mut cluster = cluster.again();
    assert!(ask(&mut cluster, 2, "cmd=info-getnodeattr;key=early;wait=TRUE;").contains("value=2"));
    ask(&mut cluster, 1, "cmd=info-putnodeattr;key=later;value=3;");
    assert_eq!(hear(&mut cluster, 0), ["cmd=info-getnodeattr-response;thrid=2;found=TRUE;value=3;rc=0;"]);
}

#[test]
fn nobody_waits_for_those_who_have_left() {
    let mut cluster = cluster(&[3]);
    say(&mut cluster, 0, "cmd=info-getnodeattr;key=never;wait=TRUE;");
    ask(&mut cluster, 1, "cmd=finalize;");
    assert!(hear(&mut cluster, 0).is_empty());
    ask(&mut cluster, 2, "cmd=finalize;");
    assert_eq!(hear(&mut cluster, 0), ["cmd=info-getnodeattr-response;rc=-1;errmsg=nobody_is_left_who_could_say_it;"]);
}

#[test]
fn a_rank_that_dies_ends_the_fence_of_the_others() {
    let mut cluster = cluster(&[1, 1]);
    say(&mut cluster, 0, "cmd=kvs-fence;");
    cluster.settle();
    cluster.servers[1].rank_ended(Rank(1), Exit::Signal(11), 0);
    let event = cluster.servers[1].poll_event();
    assert!(matches!(event, Some(Event::Failed(Failure::NotFinalized { rank: Rank(1), .. }))), "{event:?}");
    assert!(hear(&mut cluster, 0).is_empty());
}

#[test]
fn an_abort_ends_the_job() {
    let mut cluster = cluster(&[2]);
    say(&mut cluster, 1, "cmd=abort;isworld=TRUE;msg=it is \x1b over;;;");
    let message = "it is   over;".to_owned();
    assert_eq!(cluster.events, [Event::Abort { rank: Rank(1), code: 1, message }]);
    // What MPICH says has the code in it.
    for (message, code) in [
        ("application called MPI_Abort(MPI_COMM_WORLD, 7) - process 0", 7),
        ("application called MPI_Abort(my, world) - process 1, -3) - process 0", -3),
        ("application called MPI_Abort(MPI_COMM_WORLD, 7", 1),
        ("internal ABORT - process 0", 1),
    ] {
        let mut cluster = self::cluster(&[1]);
        say(&mut cluster, 0, &format!("cmd=abort;isworld=TRUE;msg={message};"));
        assert_eq!(cluster.events, [Event::Abort { rank: Rank(0), code, message: message.to_owned() }]);
    }
}

#[test]
fn limits_are_kept() {
    let mut cluster = cluster(&[2]);
    for number in 0..PMI_ATTRIBUTES_MAX {
        let put = ask(&mut cluster, 0, &format!("cmd=info-putnodeattr;key=a{number};value=;"));
        assert_eq!(put, "cmd=info-putnodeattr-response;rc=0;");
    }
    let more = ask(&mut cluster, 0, "cmd=info-putnodeattr;key=more;value=;");
    assert_eq!(more, "cmd=info-putnodeattr-response;rc=-1;errmsg=no_room;");
    assert!(cluster.servers[0].memory_bytes() > PMI_ATTRIBUTES_MAX * 90);
    let mut full = self::cluster(&[2]);
    for number in 0..PMI_WAITS_MAX {
        say(&mut full, 0, &format!("cmd=info-getnodeattr;thrid={number};key=none;wait=TRUE;"));
    }
    let more = ask(&mut full, 0, "cmd=info-getnodeattr;thrid=x;key=none;wait=TRUE;");
    assert_eq!(more, "cmd=info-getnodeattr-response;thrid=x;rc=-1;errmsg=too_many_wait;");
    // What all of them wait for is said as fast as it is read.
    let value = ";".repeat(1024);
    let put = format!("cmd=info-putnodeattr;key=none;value={};", value.replace(';', ";;"));
    assert_eq!(ask(&mut full, 1, &put), "cmd=info-putnodeattr-response;rc=0;");
    let mut heard = 0;
    while heard < PMI_WAITS_MAX {
        let now = full.hear(0);
        assert!((1..PMI_ANSWER_BYTES_MAX + 4096).contains(&now.len()), "{} after {heard}", now.len());
        heard += now.matches("info-getnodeattr-response").count();
    }
    let key = "k".repeat(65);
    let waits = ask(&mut cluster, 0, &format!("cmd=info-getnodeattr;key={key};wait=TRUE;"));
    assert_eq!(waits, "cmd=info-getnodeattr-response;rc=-1;errmsg=no_key_or_too_long;");
    let command = ask(&mut cluster, 0, &format!("cmd={};", ";;".repeat(2000)));
    assert_eq!(command, "cmd=unknown-response;rc=-1;errmsg=unknown_command;");
    let mark = "m".repeat(PMI_MARK_BYTES_MAX + 1);
    let marked = ask(&mut cluster, 0, &format!("cmd=job-getid;thrid={mark};"));
    assert_eq!(marked, "cmd=job-getid-response;rc=-1;errmsg=mark_too_long;");
    let long = "x".repeat(PMI_LONG_MESSAGE_BYTES_MAX);
    let long = ask(&mut cluster, 0, &format!("cmd=spawn;thrid=7;ncmds=1;argv0={long};"));
    // MPICH's client takes any `rc` for success there.
    assert_eq!(long, "cmd=spawn-response;thrid=7;errmsg=message_too_long;");
    say(&mut cluster, 1, "cmd=kvs-fence;thrid=1;");
    let second = ask(&mut cluster, 1, "cmd=kvs-fence;thrid=2;");
    assert_eq!(second, "cmd=kvs-fence-response;thrid=2;rc=-1;errmsg=in_a_fence_already;");
    // Where no message begins, none is heard any more.
    assert_eq!(cluster.say(0, b"length"), 6);
    assert_eq!(hear(&mut cluster, 0), ["cmd=unknown;rc=-1;errmsg=no_length;"]);
    say(&mut cluster, 0, "cmd=job-getid;");
    assert!(hear(&mut cluster, 0).is_empty());
}

#[test]
fn on_a_port_the_first_message_says_who_speaks() {
    let placement = blocks(&[2]);
    let node = placement.place(0).expect("the only one").node;
    let mut server = Server::new(JOB, &KEY, placement, node).expect("a place");
    let mut talk = |says: &[&str]| {
        let mut conversation = Conversation::on_port();
        let init = b"cmd=init pmi_version=2 pmi_subversion=0\n";
        conversation.handle_bytes(init, &mut server, 0);
        for text in says {
            conversation.handle_bytes(&message(text), &mut server, 0);
        }
        let heard = String::from_utf8_lossy(conversation.transmit()).into_owned();
        (heard, conversation.rank(), conversation.is_over())
    };
    let (heard, rank, is_over) = talk(&["cmd=fullinit;pmirank=1;", "cmd=job-getid;"]);
    assert!(heard.contains(";rank=1;size=2;") && heard.ends_with("jobid=k0;rc=0;"), "{heard}");
    assert_eq!((rank, is_over), (Some(Rank(1)), false));
    for bad in ["cmd=fullinit;pmirank=2;", "cmd=fullinit;", "cmd=job-getid;pmirank=0;", "cmd=fullinit;pmirank=1;"] {
        let (heard, rank, is_over) = talk(&[bad, "cmd=fullinit;pmirank=0;"]);
        assert!(heard.ends_with("rc=-1;errmsg=no_such_rank_here;"), "{bad}: {heard}");
        assert_eq!((rank, is_over), (None, true));
    }
}

proptest! {
    #[test]
    fn anything_may_be_said(
        said in vec(prop_oneof![
            vec(any::<u8>(), 0..40),
            "(cmd|key|value|wait|thrid|pmirank|jobid)=[a-z;=0-9-]{0,20};".prop_map(|text| message(&text)),
            "cmd=(kvs-put|kvs-get|kvs-fence|info-putnodeattr|info-getnodeattr|abort|finalize|fullinit);\
             (key=[ab];)?(wait=TRUE;)?(thrid=[12];)?(value=[a;]{0,3};)?".prop_map(|text| message(&text)),
            Just(message("cmd=kvs-fence;")),
        ], 0..30),
        rank in 0..2_u32,
    ) {
        let mut cluster = cluster(&[2, 1]);
        for bytes in said {
            cluster.say(rank, &bytes);
            cluster.hear(rank);
        }
        cluster.settle();
        prop_assert!(cluster.events.len() <= 1);
    }
}
