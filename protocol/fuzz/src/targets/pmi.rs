//! What ranks say, and what comes on connections between nodes. The first byte chooses which, the second how the rest
//! is cut.

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::limits::{PMI_ANSWER_BYTES_MAX, PMI_LINE_BYTES_MAX};
use coppice_protocol::pmi::{Conversation, Event, NodeRanks, PeerFrames, Placement, Server};
use coppice_protocol::spawn::Spawned;

use super::shape;

fn server(node: u32) -> Server {
    let place = |node| NodeRanks { node: NodeId(node), first: Rank(2 * node), count: 2 };
    let placement = Placement::new((0..3).map(place).collect()).expect("in order");
    Server::new(JobId(0), &[7; 32], placement, NodeId(node)).expect("a place")
}

/// Whether a rank wants others to be started; it hears that some are, or none.
fn start_others(server: &mut Server, said: &mut String) -> bool {
    let mut is_any = false;
    while let Some(event) = server.poll_event() {
        said.push_str(&format!("{event:?}"));
        let Event::Spawn { rank, number, wanted } = event else { continue };
        assert!(wanted.is_within_limits() && wanted.ranks > 0 && !wanted.program.is_empty());
        let outcome = if wanted.ranks == 1 { Ok(JobId(1)) } else { Err("no node is free".to_owned()) };
        server.spawned(Spawned { job: JobId(0), rank, number, outcome });
        is_any = true;
    }
    is_any
}

pub(super) fn run(data: &[u8]) -> u64 {
    let Some((&[choice, cut], stream)) = data.split_first_chunk::<2>() else { return 0 };
    let mut server = server(u32::from(choice >> 2) % 3);
    let mut said = String::new();
    if choice & 1 == 0 {
        let first = server.placement().place(u32::from(choice >> 2) % 3).expect("a place").first;
        let mut conversation =
            if choice & 2 == 0 { Conversation::on_descriptor(first) } else { Conversation::on_port() };
        for piece in stream.chunks(usize::from(cut) + 1) {
            let mut rest = piece;
            while !rest.is_empty() {
                let taken = conversation.handle_bytes(rest, &mut server, 0);
                rest = &rest[taken..];
                assert!(conversation.transmit().len() <= PMI_ANSWER_BYTES_MAX + 2 * PMI_LINE_BYTES_MAX);
                said.push_str(&String::from_utf8_lossy(conversation.transmit()));
                let is_silent = conversation.transmit().is_empty();
                conversation.consume(conversation.transmit().len());
                if start_others(&mut server, &mut said) {
                    conversation.poll(&mut server);
                } else if taken == 0 && is_silent {
                    // It waits for what another node keeps, which nobody answers.
                    break;
                }
            }
        }
    } else {
        let mut frames = PeerFrames::default();
        for mut piece in stream.chunks(usize::from(cut) + 1) {
            while let Ok(Some(frame)) = frames.advance(&mut piece) {
                // The key is known to whoever reads this, but not to what is tried.
                assert!(server.handle_frame(&frame, 0).is_err());
            }
        }
    }
    while let Some(event) = server.poll_event() {
        said.push_str(&format!("{event:?}"));
    }
    assert!((0..3).all(|peer| server.poll_transmit(peer).is_none() || choice & 1 == 0));
    shape(&said)
}

/// A rank's whole conversation, and its lines one by one.
pub(super) fn examples() -> Vec<Vec<u8>> {
    let lines = [
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=get_maxes\n",
        "cmd=get_appnum\n",
        "cmd=get_my_kvsname\n",
        "cmd=get kvsname=k0 key=PMI_process_mapping\n",
        "cmd=put kvsname=k0 key=P0-businesscard value=description#10.64.0.1$port#4000$\n",
        "cmd=barrier_in\n",
        "cmd=get kvsname=k0 key=P0-businesscard\n",
        "cmd=abort exitcode=3\n",
        "cmd=publish_name service=my name port=tag#0$port#4000$\n",
        "cmd=lookup_name service=my name\n",
        "cmd=unpublish_name service=my name\n",
        "mcmd=spawn\nnprocs=2\nexecname=./w\ntotspawns=1\nspawnssofar=1\narg1=a b\nargcnt=1\npreput_num=1\n\
         preput_key_0=P\npreput_val_0=tag#0$port$\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/d\nendcmd\n",
        "cmd=finalize\n",
    ];
    let mut examples =
        vec![[&[0, 200], lines.concat().as_bytes()].concat(), [&[2, 0], lines.concat().as_bytes()].concat()];
    let second = [
        "cmd=fullinit;pmirank=0;threaded=TRUE;",
        "cmd=job-getid;thrid=0x7ffd;",
        "cmd=info-getjobattr;key=PMI_process_mapping;",
        "cmd=info-getnodeattr;thrid=1;key=a;wait=TRUE;",
        "cmd=info-putnodeattr;thrid=2;key=a;value=b;;c;",
        "cmd=kvs-put;key=P0;value=description#10.64.0.1$port#4000$;",
        "cmd=kvs-get;jobid=k0;srcid=-1;key=P0;",
        "cmd=kvs-fence;thrid=3;",
        "cmd=name-publish;thrid=4;name=one;port=tag#0$port#4000$;infokeycount=0;",
        "cmd=name-lookup;thrid=5;name=one;infokeycount=0;",
        "cmd=name-unpublish;thrid=6;name=two;infokeycount=0;",
        "cmd=spawn;thrid=7;ncmds=1;preputcount=1;ppkey0=P;ppval0=tag#0$port$;subcmd=./w;maxprocs=1;argc=1;argv0=a;\
         infokeycount=1;infokey0=wdir;infoval0=/d;",
        "cmd=finalize;",
    ];
    let second: String = second.iter().map(|text| format!("{:6}{text}", text.len())).collect();
    let second = ["cmd=init pmi_version=2 pmi_subversion=0\n", &second].concat();
    examples.extend([[&[0, 200], second.as_bytes()].concat(), [&[2, 3], second.as_bytes()].concat()]);
    examples.extend(lines.iter().map(|line| [&[0, 30], lines[0].as_bytes(), line.as_bytes()].concat()));
    examples
}
