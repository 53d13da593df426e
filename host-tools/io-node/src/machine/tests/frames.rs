//! Frames that do not come to their end.

use super::*;

/// A length that was changed on its way: what follows on the connection is taken for the rest, and on that for calls
/// nothing follows.
#[test]
fn the_rest_of_a_frame_is_not_waited_for_for_ever() {
    for channel in [Channel::Control, Channel::Ship] {
        let mut machine = Machine::default();
        let [mut control, mut ship] = ready(&mut machine, 0);
        let wire = if channel == Channel::Control { &mut control } else { &mut ship };
        wire.say(&event());
        let mut bytes = wire.session.transmit().to_vec();
        wire.session.consume(bytes.len());
        bytes[BODY_FIELD].copy_from_slice(&60_000_u32.to_le_bytes());
        let line = wire.line;
        machine.receive(line, &bytes);
        machine.listen(line, at(0));
        let (mut now_ns, mut ended_ns) = (0, None);
        while now_ns < 2 * HEARTBEAT_DEAD_NS && ended_ns.is_none() {
            now_ns += HEARTBEAT_INTERVAL_NS;
            control.say(&event());
            control.exchange(&mut machine, at(now_ns));
            machine.advance(at(now_ns));
            while machine.next_message(at(now_ns)).is_some() {}
            while let Some(effect) = machine.next_effect() {
                if matches!(effect, Effect::End { line: ended, .. } if ended == line) {
                    ended_ns = Some(now_ns);
                }
            }
        }
        let ended_ns = ended_ns.expect("it ends");
        assert!((HEARTBEAT_DEAD_NS..=HEARTBEAT_DEAD_NS + 2 * HEARTBEAT_INTERVAL_NS).contains(&ended_ns), "{ended_ns}");
    }
}

/// What of a frame was under way when a node was cut off is no reason to wait for that node any longer.
#[test]
fn a_node_that_is_cut_off_within_a_frame_is_lost_as_any_other() {
    for channel in [Channel::Control, Channel::Ship] {
        let mut machine = Machine::default();
        let [mut control, mut ship] = ready(&mut machine, 0);
        let wire = if channel == Channel::Control { &mut control } else { &mut ship };
        wire.say(&event());
        let bytes = wire.session.transmit().to_vec();
        machine.receive(wire.line, &bytes[..bytes.len() / 2]);
        machine.listen(wire.line, at(0));
        let (mut now_ns, mut is_lost) = (0, false);
        while !is_lost {
            now_ns += HEARTBEAT_INTERVAL_NS;
            assert!(now_ns <= HEARTBEAT_DEAD_NS + 2 * HEARTBEAT_INTERVAL_NS, "{channel:?}");
            machine.advance(at(now_ns));
            while machine.next_effect().is_some() {}
            while let Some(message) = machine.next_message(at(now_ns)) {
                is_lost |= matches!(message, FromPset::NodeLost { .. });
            }
        }
    }
}
