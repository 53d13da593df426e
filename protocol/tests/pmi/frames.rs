//! Frames between nodes: any split is the same, and nobody without the job's key is heard.

use coppice_protocol::ids::JobId;
use coppice_protocol::limits::{
    PMI_ASK_NS, PMI_FRAME_BODY_BYTES_MAX, PMI_LETTER_BYTES_MAX, PMI_SILENCE_NS, PMI_UNCONFIRMED_BYTES_MAX,
    PMI_VALUE_BYTES_MAX,
};
use coppice_protocol::pmi::{HEADER_BYTES, PeerError, PeerFrame, PeerFrames, Server, VERSION};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::Index;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::cluster::{Cluster, JOB, KEY};
use crate::placement::blocks;

fn read(bytes: &[u8]) -> Result<Option<PeerFrame>, PeerError> {
    let mut bytes = bytes;
    PeerFrames::default().advance(&mut bytes)
}

/// A job whose first node has entered a barrier with something to say.
fn waiting() -> (Cluster, Vec<u8>) {
    let mut cluster = Cluster::new(&[1, 1]);
    cluster.ask(0, "cmd=put kvsname=k0 key=a value=b");
    cluster.ask(0, "cmd=barrier_in");
    let frame = cluster.frame(0, 1).expect("a step");
    (cluster, frame)
}

fn handle(server: &mut Server, bytes: &[u8]) -> Result<(), PeerError> {
    let frame = read(bytes)?.ok_or(PeerError::Header)?;
    server.handle_frame(&frame, 0)
}

#[test]
fn a_frame_has_the_announced_layout() {
    let (cluster, frame) = waiting();
    assert_eq!(&frame[..8], b"CpPm\x07\0\x01\x01");
    assert_eq!(frame[8..16], cluster.servers[0].signature().to_le_bytes());
    // Generation, step, from, to, part, parts, fence and zeros, body.
    assert_eq!(frame[16..44], [&[0; 16][..], &[1, 0, 0, 0], &[0, 0, 1, 0], &[1, 0, 0, 0]].concat());
    assert_eq!(frame[44..48], [8, 0, 0, 0]);
    // Of node 0: two texts that are like nothing and have one byte each.
    assert_eq!(frame[HEADER_BYTES..], [1, 0, 1, b'a', 1, 0, 1, b'b']);
}

#[test]
fn another_jobs_frame_is_not_heard() {
    let (_, frame) = waiting();
    let placement = blocks(&[1, 1]);
    let node = placement.place(1).expect("the second").node;
    let of = |job, key| Server::new(job, key, placement.clone(), node).expect("a place");
    assert_eq!(handle(&mut of(JOB, &KEY), &frame), Ok(()));
    assert_eq!(handle(&mut of(JobId(1), &KEY), &frame), Err(PeerError::Authentication));
    assert_eq!(handle(&mut of(JOB, &[43; 32]), &frame), Err(PeerError::Authentication));
}

#[test]
fn a_frame_that_comes_back_or_elsewhere_makes_no_sense() {
    let mut cluster = Cluster::new(&[1; 5]);
    cluster.ask(0, "cmd=barrier_in");
    let frame = cluster.frame(0, 1).expect("a step");
    for other in [0, 2, 3, 4] {
        let refused = handle(&mut cluster.servers[other], &frame);
        assert_eq!(refused, Err(PeerError::Nonsense("not for this node")));
    }
}

/// A node that was not told of a job has no key for it. That it is there is all that anybody believes of it.
#[test]
fn who_knows_no_such_job_is_not_silent() {
    let (mut cluster, frame) = waiting();
    let absence = read(&frame).expect("a frame").expect("a whole one").absence();
    for _ in 0..3 * PMI_SILENCE_NS / PMI_ASK_NS {
        cluster.pass(PMI_ASK_NS);
        cluster.deliver(0, &absence);
    }
    assert_eq!((cluster.hear(0).as_str(), &cluster.events[..]), ("", &[][..]));
    cluster.pass(PMI_SILENCE_NS);
    assert_eq!(cluster.events.len(), 1, "it is silent at last");
}

#[test]
fn an_absence_that_is_not_one_is_refused() {
    let (mut cluster, frame) = waiting();
    let absence = read(&frame).expect("a frame").expect("a whole one").absence();
    let server = &mut cluster.servers[0];
    assert_eq!(handle(server, &absence), Ok(()));
    let mut sealed = absence.clone();
    sealed[HEADER_BYTES - 1] = 1;
    assert_eq!(handle(server, &sealed), Err(PeerError::Authentication), "another kind, changed on its way");
    let mut foreign = absence.clone();
    foreign[8] ^= 1;
    assert_eq!(handle(server, &foreign), Err(PeerError::Authentication), "of another job");
    let mut unsealed = frame.clone();
    unsealed[48..HEADER_BYTES].fill(0);
    assert_eq!(handle(&mut cluster.servers[1], &unsealed), Err(PeerError::Authentication), "of another kind");
}

/// A frame that comes again, and again after everybody has gone on, changes nothing.
#[test]
fn replays_change_nothing() {
    let (mut cluster, frame) = waiting();
    for _ in 0..3 {
        cluster.deliver(1, &frame);
    }
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), "cmd=barrier_out\n");
    cluster.settle();
    assert_eq!(cluster.hear(0), "cmd=barrier_out\n");
    for _ in 0..3 {
        cluster.deliver(1, &frame);
    }
    assert_eq!(cluster.frame(1, 0), None);
    assert_eq!(cluster.ask(1, "cmd=barrier_in"), "", "the old frame is none of the new barrier");
    cluster.settle();
    assert_eq!(cluster.hear(1), "");
}

/// What is long is kept until its receiver says that it has come, what is short until the barrier after it is through.
#[test]
fn long_steps_are_confirmed() {
    for is_long in [false, true] {
        let mut cluster = Cluster::new(&[1, 1]);
        let mut state = 1_u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 33) as u8 % 26)
        };
        for number in 0..if is_long { 3 } else { 0 } {
            let value: String = (0..PMI_VALUE_BYTES_MAX).map(|_| letter()).collect();
            cluster.ask(0, &format!("cmd=put kvsname=k0 key=k{number} value={value}"));
        }
        cluster.say(0, b"cmd=barrier_in\n");
        let step = cluster.frame(0, 1).expect("a step");
        assert_eq!(step.len() - HEADER_BYTES > PMI_UNCONFIRMED_BYTES_MAX, is_long);
        // Also when it comes again: what said that it has come may be lost.
        let said = [(); 2].map(|()| {
            cluster.deliver(1, &step);
            core::iter::from_fn(|| cluster.frame(1, 0)).collect::<Vec<_>>()
        });
        assert_eq!(said.each_ref().map(Vec::len), [usize::from(is_long); 2]);
        assert_eq!((cluster.servers[0].kept_steps(), cluster.servers[0].is_settled()), (1, !is_long));
        said[1].iter().for_each(|confirmation| cluster.deliver(0, confirmation));
        assert_eq!((cluster.servers[0].kept_steps(), cluster.servers[0].is_settled()), (usize::from(!is_long), true));
        // Of short ones no more than those of two barriers are kept.
        cluster.say(1, b"cmd=barrier_in\n");
        for _ in 0..4 {
            cluster.settle();
            assert_eq!([0, 1].map(|rank| cluster.hear(rank)), ["cmd=barrier_out\n"; 2]);
            (0..2).for_each(|rank| assert_eq!(cluster.say(rank, b"cmd=barrier_in\n"), 15));
        }
        assert!(cluster.servers.iter().all(|server| server.kept_steps() <= 3));
    }
}

#[test]
fn foreign_bytes_are_refused_early() {
    let refused = |bytes: &[u8]| read(bytes).expect_err("refused");
    assert_eq!(refused(b"G"), PeerError::Header);
    assert_eq!(refused(b"GET / HTTP/1.1\r\n"), PeerError::Header);
    assert!(matches!(read(b"CpPm"), Ok(None)));
    let (_, frame) = waiting();
    let changed = |at: usize, to: u8| {
        let mut frame = frame.clone();
        frame[at] = to;
        refused(&frame)
    };
    assert_eq!(changed(4, 9), PeerError::Version(9));
    assert_eq!((changed(6, 0), changed(6, 12)), (PeerError::Header, PeerError::Header));
    assert_eq!(changed(7, 2), PeerError::Header);
    let mut letter = frame.clone();
    (letter[6], letter[7]) = (6, 1);
    assert_eq!(refused(&letter), PeerError::Header, "nobody waits in a letter");
    (letter[7], letter[40]) = (0, 0);
    assert!(matches!(read(&letter), Ok(Some(_))));
    letter[40] = 1;
    assert_eq!(refused(&letter), PeerError::Header, "nor walks a barrier");
    assert_eq!(changed(40, 0), PeerError::Header, "by no algorithm");
    assert_eq!(changed(40, 4), PeerError::Header, "by one that there is not");
    assert_eq!((changed(41, 1), changed(43, 1)), (PeerError::Header, PeerError::Header));
    assert_eq!(changed(6, 2), PeerError::BodyTooLong(8), "only steps and letters have a body");
    for (kind, bytes_max) in [(1, PMI_FRAME_BODY_BYTES_MAX), (6, PMI_LETTER_BYTES_MAX)] {
        let too_long = bytes_max as u32 + 1;
        let mut long = frame.clone();
        long[6] = kind;
        long[40] = u8::from(kind == 1);
        long[44..48].copy_from_slice(&too_long.to_le_bytes());
        assert_eq!(refused(&long), PeerError::BodyTooLong(too_long));
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(cuts in vec(1..100_usize, 1..20)) {
        let (_, frame) = waiting();
        let stream = frame.repeat(5);
        let mut frames = PeerFrames::default();
        let (mut rest, mut count) = (&stream[..], 0);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, behind) = rest.split_at((*cut).min(rest.len()));
            rest = behind;
            while let Some(found) = frames.advance(&mut piece).expect("frames") {
                prop_assert_eq!(&found.signature().to_le_bytes()[..], &frame[8..16]);
                count += 1;
            }
        }
        prop_assert_eq!(count, 5);
    }

    #[test]
    fn a_changed_byte_is_noticed(place in any::<Index>(), change in 1..=255_u8) {
        let (mut cluster, mut frame) = waiting();
        let place = place.index(frame.len());
        frame[place] ^= change;
        prop_assert!(handle(&mut cluster.servers[1], &frame).is_err());
        prop_assert!(!cluster.servers[1].has_output(0));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..400), prefix in any::<bool>()) {
        let (cluster, _) = waiting();
        let mut stream = if prefix { [&b"CpPm"[..], &VERSION.to_le_bytes(), &[1, 0]].concat() } else { Vec::new() };
        if prefix {
            stream.extend(cluster.servers[0].signature().to_le_bytes());
        }
        stream.extend(bytes);
        let mut server = cluster.servers.into_iter().nth(1).expect("the second");
        let mut frames = PeerFrames::default();
        let mut rest = &stream[..];
        while let Ok(Some(frame)) = frames.advance(&mut rest) {
            prop_assert!(server.handle_frame(&frame, 0).is_err());
        }
    }
}
