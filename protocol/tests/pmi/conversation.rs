//! What a rank may say, and what it hears.

use coppice_protocol::control::Exit;
use coppice_protocol::ids::Rank;
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_LINE_BYTES_MAX, PMI_VALUE_BYTES_MAX};
use coppice_protocol::pmi::{Conversation, Event, Server};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::cluster::{Cluster, JOB, KEY};
use crate::placement::blocks;

/// All that is heard when something is said on a connection.
fn hears(conversation: &mut Conversation, server: &mut Server, says: &[u8]) -> String {
    assert_eq!(conversation.handle_bytes(says, server, 0), says.len());
    conversation.poll(server);
    let heard = String::from_utf8(conversation.transmit().to_vec()).expect("text");
    conversation.consume(heard.len());
    heard
}

fn server() -> Server {
    let placement = blocks(&[2]);
    let node = placement.place(0).expect("the only one").node;
    Server::new(JOB, &KEY, placement, node).expect("a place")
}

#[test]
fn every_line_has_its_answer() {
    let mut cluster = Cluster::new(&[1]);
    let exchanges = [
        ("cmd=init pmi_version=1 pmi_subversion=0", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
        ("cmd=init pmi_version=3 pmi_subversion=0", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1"),
        ("cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1"),
        ("cmd=get_universe_size", "cmd=universe_size size=1"),
        (" cmd=get_appnum  ", "cmd=appnum appnum=0"),
        ("cmd=put kvsname=k0 key=one value=1", "cmd=put_result rc=0 msg=success"),
        ("cmd=put kvsname=k0 key=none value=", "cmd=put_result rc=0 msg=success"),
        ("cmd=put kvsname=k0 key=equals value=a=b", "cmd=put_result rc=0 msg=success"),
        ("cmd=put kvsname=k0 key=one value=2", "cmd=put_result rc=-1 msg=duplicate_key_one"),
        (
            "cmd=put kvsname=k0 key=PMI_process_mapping value=2",
            "cmd=put_result rc=-1 msg=duplicate_key_PMI_process_mapping",
        ),
        ("cmd=put kvsname=k1 key=two value=2", "cmd=put_result rc=-1 msg=kvs_k1_not_found"),
        ("cmd=put kvsname=k0 value=2", "cmd=put_result rc=-1 msg=no_key_or_too_long"),
        ("cmd=get kvsname=k0 key=one", "cmd=get_result rc=0 msg=success value=1"),
        ("cmd=get kvsname=k0 key=none", "cmd=get_result rc=0 msg=success value="),
        ("cmd=get kvsname=k0 key=equals", "cmd=get_result rc=0 msg=success value=a=b"),
        ("cmd=get kvsname=k0 key=two", "cmd=get_result rc=-1 msg=key_two_not_found value=unknown"),
        ("cmd=get kvsname=k0", "cmd=get_result rc=-1 msg=key__not_found value=unknown"),
        ("cmd=get kvsname=k1 key=one", "cmd=get_result rc=-1 msg=kvs_k1_not_found value=unknown"),
        ("cmd=get key=one", "cmd=get_result rc=-1 msg=kvs__not_found value=unknown"),
        ("cmd=getbyidx kvsname=k0 idx=0", "cmd=getbyidx_results rc=0 nextidx=1 key=one val=1"),
        ("cmd=getbyidx kvsname=k0 idx=1", "cmd=getbyidx_results rc=0 nextidx=2 key=none val="),
        ("cmd=getbyidx kvsname=k0 idx=3", "cmd=getbyidx_results rc=-1 reason=no_more_keyvals"),
        ("cmd=getbyidx kvsname=k0 idx=-1", "cmd=getbyidx_results rc=-1 reason=no_more_keyvals"),
        ("cmd=getbyidx kvsname=k1 idx=0", "cmd=getbyidx_results rc=-1 reason=kvs_k1_not_found"),
        ("cmd=publish_name service=s port=p", "cmd=publish_result info=ok rc=0 msg=success"),
        ("cmd=publish_name service=s port=q", "cmd=publish_result rc=-1 msg=name_is_published"),
        ("cmd=lookup_name service=s", "cmd=lookup_result port=p info=ok rc=0 msg=success"),
        ("cmd=unpublish_name service=s", "cmd=unpublish_result info=ok rc=0 msg=success"),
        ("cmd=unpublish_name service=s", "cmd=unpublish_result rc=-1 msg=name_is_not_published"),
        ("cmd=lookup_name service=s", "cmd=lookup_result rc=-1 msg=name_is_not_published"),
        ("cmd=lookup_name", "cmd=lookup_result rc=-1 msg=no_name_or_too_long"),
        ("cmd=publish_name service=s", "cmd=publish_result rc=-1 msg=no_name_or_too_long"),
        // A name may have spaces, in which a client of this version does not hinder anybody.
        ("cmd=publish_name service=a port=of call port=p", "cmd=publish_result info=ok rc=0 msg=success"),
        ("cmd=lookup_name service=a port=of call", "cmd=lookup_result port=p info=ok rc=0 msg=success"),
        ("cmd=publish_name service=b port=p q", "cmd=publish_result rc=-1 msg=port_has_spaces"),
        ("cmd=create_kvs", "cmd=newkvs rc=-1 msg=not_supported"),
        ("cmd=brew_coffee", "cmd=unknown rc=-1 msg=unknown_command"),
        ("cmd=", "cmd=unknown rc=-1 msg=unknown_command"),
        ("cmd=get_maxes nonsense", "cmd=unknown rc=-1 msg=malformed_line"),
        ("cmd=get_maxes =5", "cmd=unknown rc=-1 msg=malformed_line"),
        ("cmd=get kvsname=k0 key=one\0two", "cmd=unknown rc=-1 msg=malformed_line"),
        ("hello", "cmd=unknown rc=-1 msg=malformed_line"),
        ("mcmd=dance", "cmd=unknown rc=-1 msg=malformed_line"),
        ("cmd=initack pmiid=0", "cmd=initack\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0"),
        ("cmd=initack pmiid=1", "cmd=initack rc=-1 msg=another_rank"),
        ("cmd=barrier_in", "cmd=barrier_out"),
        ("cmd=barrier_in rest=ignored", "cmd=barrier_out"),
        ("cmd=finalize", "cmd=finalize_ack"),
    ];
    for (says, answer) in exchanges {
        assert_eq!(cluster.ask(0, says), format!("{answer}\n"), "{says:?}");
    }
    for silence in ["cmd=get_maxes", "cmd=barrier_in", "cmd=abort exitcode=3"] {
        assert_eq!(cluster.ask(0, silence), "", "after its last word a rank is not heard");
    }
    assert_eq!(cluster.events, []);
}

#[test]
fn blank_lines_are_nothing() {
    let mut cluster = Cluster::new(&[1]);
    assert_eq!(cluster.ask(0, "\n   \n\n"), "");
}

#[test]
fn a_port_says_who_is_who() {
    let mut server = server();
    let mut port = Conversation::on_port();
    assert_eq!(port.rank(), None);
    let welcome = "cmd=initack\ncmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\n";
    assert_eq!(hears(&mut port, &mut server, b"cmd=initack pmiid=1\n"), welcome);
    assert_eq!(port.rank(), Some(Rank(1)));
    assert_eq!(hears(&mut port, &mut server, b"cmd=get_appnum\n"), "cmd=appnum appnum=0\n");
    // Both are in the barrier, one here and one there.
    assert_eq!(hears(&mut port, &mut server, b"cmd=barrier_in\n"), "");
    let mut descriptor = Conversation::on_descriptor(Rank(0));
    assert_eq!(hears(&mut descriptor, &mut server, b"cmd=barrier_in\n"), "cmd=barrier_out\n");
    assert_eq!(hears(&mut port, &mut server, b""), "cmd=barrier_out\n");
}

#[test]
fn nobody_speaks_for_another() {
    let mut server = server();
    let refused = "cmd=initack rc=-1 msg=no_such_rank_here\n";
    for says in ["cmd=initack pmiid=2\n", "cmd=initack pmiid=-1\n", "cmd=initack\n"] {
        let mut port = Conversation::on_port();
        assert_eq!(hears(&mut port, &mut server, says.as_bytes()), refused);
        assert!(port.is_over());
    }
    let mut port = Conversation::on_port();
    assert_eq!(hears(&mut port, &mut server, b"cmd=get_maxes\n"), "cmd=unknown rc=-1 msg=unknown_rank\n");
    assert!(port.is_over());

    // Who spoke first has the rank, on whatever connection.
    let mut descriptor = Conversation::on_descriptor(Rank(0));
    assert_eq!(hears(&mut descriptor, &mut server, b"cmd=get_appnum\n"), "cmd=appnum appnum=0\n");
    assert_eq!(hears(&mut Conversation::on_port(), &mut server, b"cmd=initack pmiid=0\n"), refused);
    let mut port = Conversation::on_port();
    assert!(hears(&mut port, &mut server, b"cmd=initack pmiid=1\n").starts_with("cmd=initack\n"));
    let mut late = Conversation::on_descriptor(Rank(1));
    assert_eq!(hears(&mut late, &mut server, b"cmd=get_appnum\n"), "cmd=unknown rc=-1 msg=unknown_rank\n");
    server.rank_ended(Rank(0), Exit::Signal(9), 0);
    assert_eq!(hears(&mut Conversation::on_port(), &mut server, b"cmd=initack pmiid=0\n"), refused);
}

#[test]
fn a_rank_in_a_barrier_may_ask_but_not_enter_again() {
    let mut cluster = Cluster::new(&[2]);
    assert_eq!(cluster.ask(0, "cmd=barrier_in"), "");
    assert_eq!(cluster.ask(0, "cmd=barrier_in"), "cmd=barrier_out rc=-1 msg=in_a_barrier_already\n");
    assert_eq!(cluster.ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), "cmd=barrier_out\n");
    assert_eq!(cluster.hear(0), "cmd=barrier_out\n");
}

#[test]
fn an_abort_says_its_code_and_what_it_says() {
    let event = |line: &str| {
        let mut cluster = Cluster::new(&[1]);
        assert_eq!(cluster.ask(0, line), "", "the answer is the end");
        // Once is enough.
        assert_eq!(cluster.ask(0, line), "");
        cluster.events
    };
    let abort = |code, message: &str| [Event::Abort { rank: Rank(0), code, message: message.into() }];
    assert_eq!(event("cmd=abort exitcode=3"), abort(3, ""));
    assert_eq!(event("cmd=abort exitcode=-1"), abort(-1, ""));
    assert_eq!(event("cmd=abort exitcode=many"), abort(1, ""));
    assert_eq!(event("cmd=abort"), abort(1, ""));
    assert_eq!(event("cmd=abort exitcode=3 message=no more = left"), abort(3, "no more = left"));
    assert_eq!(event("cmd=abort message=\u{1b}[31mred\u{7}"), abort(1, " [31mred "));
    assert_eq!(event(&format!("cmd=abort message={}", "ä".repeat(200))), abort(1, &"ä".repeat(128)));
}

/// Things a rank may say, sensible or not.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let key = "[a-c]{1,2}";
    prop_oneof![
        (key, "[a-z=]{0,8}").prop_map(|(key, value)| format!("cmd=put kvsname=k0 key={key} value={value}").into()),
        key.prop_map(|key| format!("cmd=get kvsname=k0 key={key}").into()),
        (0..4_u32).prop_map(|index| format!("cmd=getbyidx kvsname=k0 idx={index}").into()),
        Just(b"cmd=get_maxes".to_vec()),
        Just(b"cmd=barrier_in".to_vec()),
        Just(b"mcmd=spawn\nendcmd".to_vec()),
        Just(vec![b'x'; PMI_LINE_BYTES_MAX + 1]),
        vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn any_split_is_answered_the_same(lines in vec(line(), 1..20), cuts in vec(1..200_usize, 1..50)) {
        let bytes: Vec<u8> = lines.join(&b'\n');
        let mut whole = (Conversation::on_descriptor(Rank(0)), server());
        let mut split = (Conversation::on_descriptor(Rank(0)), server());
        prop_assert_eq!(whole.0.handle_bytes(&bytes, &mut whole.1, 0), bytes.len());
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            prop_assert_eq!(split.0.handle_bytes(piece, &mut split.1, 0), piece.len());
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(whole.0.transmit(), split.0.transmit());
    }

    #[test]
    fn random_bytes_are_answered_line_by_line(bytes in vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..600)) {
        let mut server = server();
        let mut conversation = Conversation::on_descriptor(Rank(0));
        let heard = hears(&mut conversation, &mut server, &bytes);
        prop_assert!(heard.lines().all(|line| line.contains("rc=-1")), "{heard}");
        prop_assert!(heard.lines().count() <= bytes.iter().filter(|byte| **byte == b'\n').count());
        prop_assert_eq!(server.poll_event(), None);
    }

    /// A rank that does not read is not heard, and loses nothing.
    #[test]
    fn answers_left_unread_are_bounded(reads in vec(1..5000_usize, 1..30)) {
        let mut server = server();
        let mut conversation = Conversation::on_descriptor(Rank(0));
        let value = "v".repeat(PMI_VALUE_BYTES_MAX);
        hears(&mut conversation, &mut server, format!("cmd=put kvsname=k0 key=a value={value}\n").as_bytes());
        let says = "cmd=get kvsname=k0 key=a\n".repeat(100);
        let mut said = says.as_bytes();
        let mut heard = 0;
        for read in reads.iter().cycle() {
            let taken = conversation.handle_bytes(said, &mut server, 0);
            said = &said[taken..];
            prop_assert!(conversation.transmit().len() < PMI_ANSWER_BYTES_MAX + PMI_LINE_BYTES_MAX);
            let take = (*read).min(conversation.transmit().len());
            conversation.consume(take);
            heard += take;
            if take == 0 {
                break;
            }
        }
        prop_assert!(said.is_empty());
        prop_assert_eq!(heard, 100 * ("cmd=get_result rc=0 msg=success value=\n".len() + PMI_VALUE_BYTES_MAX));
    }
}
