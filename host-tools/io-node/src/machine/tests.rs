//! The machine between a service node and nodes that the tests play.

use coppice_protocol::control::{Ends, Exit, MemoryStatus, NodeStatus, RankReport, ToIoNode, ToNode};
use coppice_protocol::ids::{Generation, JobId, NodeId, ProgramId, Rank};
use coppice_protocol::limits::{HEARTBEAT_DEAD_NS, HEARTBEAT_INTERVAL_NS, SPAWN_TEXT_BYTES, SPAWN_TEXTS_BYTES_MAX};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::pset::{FromPset, Member, NodeEnds, StartJob, ToPset};
use coppice_protocol::ras::{RasEvent, RasKind, Severity};
use coppice_protocol::retain::Discarded;
use coppice_protocol::session::{Channel, Event, Identity, Session};
use coppice_protocol::spawn::{Joined, Spawn, Spawned, Wanted};
use coppice_protocol::world::{JobKey, NodeRange, World};

mod broadcasts;
mod frames;
mod leases;
mod locks;
mod names;
mod together;

use super::effect::PlaceId;
use super::{Disconnected, Effect, LineId, Machine, Now};
use crate::limits::OUTBOX_MESSAGES_MAX;

fn at(ns: u64) -> Now {
    Now { ns, realtime_ns: ns }
}

/// A node's end of a connection.
struct Wire {
    line: LineId,
    session: Session,
}

impl Wire {
    fn connect(machine: &mut Machine, channel: Channel, node: NodeId, key: &NodeKey) -> Self {
        let identity = Identity { node, generation: Generation(1) };
        let line = machine.accept(channel, (node.address(), 1), [1; 16], at(0)).expect("accepted");
        let mut wire = Self { line, session: Session::connect(channel, identity, key, [2; 16], 0) };
        while !wire.session.is_established() {
            wire.exchange(machine, at(0));
        }
        wire
    }

    /// Moves bytes both ways, as far as the machine reads.
    fn exchange(&mut self, machine: &mut Machine, now: Now) {
        let bytes = machine.transmit(self.line).to_vec();
        machine.consume(self.line, bytes.len(), now);
        self.session.handle_bytes(&bytes).expect("authentic");
        while self.session.poll_event().is_some() {}
        if machine.is_read(self.line) {
            let bytes = self.session.transmit().to_vec();
            self.session.consume(bytes.len());
            machine.receive(self.line, &bytes);
            machine.listen(self.line, now);
        }
    }

    /// Orders that were sent to it, which it has read.
    fn orders(&mut self, machine: &mut Machine, now: Now) -> Vec<ToNode> {
        let bytes = machine.transmit(self.line).to_vec();
        machine.consume(self.line, bytes.len(), now);
        self.session.handle_bytes(&bytes).expect("authentic");
        let events = std::iter::from_fn(|| self.session.poll_event());
        let order = |event| if let Event::Frame(frame) = event { frame.message().ok() } else { None };
        events.filter_map(order).collect()
    }

    fn say(&mut self, message: &ToIoNode) {
        self.session.send(0, message, &[]).expect("sent");
    }
}

/// A node that is ready, with its control connection.
fn ready(machine: &mut Machine, number: u32) -> [Wire; 2] {
    let (node, generation, key) = (NodeId(number), Generation(1), NodeKey([7; 32]));
    machine.order(ToPset::AddNode { node, generation, key: key.clone() }, at(0)).expect("makes sense");
    let mut control = Wire::connect(machine, Channel::Control, node, &key);
    let ship = Wire::connect(machine, Channel::Ship, node, &key);
    control.say(&is_ready());
    control.exchange(machine, at(0));
    assert!(matches!(machine.next_message(at(0)), Some(FromPset::NodeReady { node: of, .. }) if of == node));
    [control, ship]
}

fn is_ready() -> ToIoNode {
    let memory = MemoryStatus { total: 4, kernel: 1, free: 3, retained: 0 };
    ToIoNode::Ready(NodeStatus { kernel: "0".into(), boot_ns: 1, boot_idle_ns: 0, cores: 1, memory })
}

fn event() -> ToIoNode {
    let (severity, kind, text) = (Severity::Info, RasKind::NodeReady, "x".into());
    ToIoNode::Ras(RasEvent { severity, kind, job: None, rank: None, address: None, instruction: None, text })
}

#[test]
fn a_service_node_that_takes_nothing_makes_no_node_silent() {
    let mut machine = Machine::default();
    let [mut quiet, _quiet_ship] = ready(&mut machine, 0);
    let [mut loud, _loud_ship] = ready(&mut machine, 1);
    for _ in 0..OUTBOX_MESSAGES_MAX {
        loud.say(&event());
        loud.exchange(&mut machine, at(0));
    }
    assert!(machine.is_full());
    // Both go on to say something, which nobody reads.
    let mut now_ns = 0;
    while now_ns < 3 * HEARTBEAT_DEAD_NS {
        now_ns += HEARTBEAT_INTERVAL_NS;
        machine.advance(at(now_ns));
        for wire in [&mut quiet, &mut loud] {
            wire.say(&event());
            wire.exchange(&mut machine, at(now_ns));
        }
    }
    let mut said = Vec::new();
    while let Some(message) = machine.next_message(at(now_ns)) {
        said.push(message);
        for wire in [&mut quiet, &mut loud] {
            wire.exchange(&mut machine, at(now_ns));
        }
    }
    assert!(said.len() > OUTBOX_MESSAGES_MAX);
    assert!(said.iter().all(|message| matches!(message, FromPset::Ras { .. })), "nobody is lost");
    // One that is listened to and says nothing is.
    let mut lost = Vec::new();
    for _ in 0..=HEARTBEAT_DEAD_NS / HEARTBEAT_INTERVAL_NS {
        now_ns += HEARTBEAT_INTERVAL_NS;
        machine.advance(at(now_ns));
        loud.say(&event());
        loud.exchange(&mut machine, at(now_ns));
        while let Some(message) = machine.next_message(at(now_ns)) {
            if let FromPset::NodeLost { node, .. } = message {
                lost.push(node);
            }
        }
    }
    assert_eq!(lost, [NodeId(0)]);
    let effects: Vec<_> = std::iter::from_fn(|| machine.next_effect()).collect();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::End { line, .. } if *line == quiet.line)));
}

/// Where a frame's header says how long the body is.
const BODY_FIELD: std::ops::Range<usize> = 32..36;

const JOB: JobId = JobId(5);
const RANK: Rank = Rank(0);

fn job() -> StartJob {
    StartJob {
        job: JOB,
        size: 1,
        root: "/".into(),
        program: ProgramId([1; 32]),
        program_bytes: 1,
        program_file: "/p".into(),
        path: "/p".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        directory: "/".into(),
        user: 0,
        group: 0,
        executable: None,
        umask: 0,
        input_rank: None,
        members: vec![Member { first: RANK, count: 1, node: NodeId(0), use_retained: false, restore: None }],
        world: World::new(JobKey([7; 32]), 1, [NodeId(0)]),
        staging: None,
        traced: coppice_protocol::trace::Traced::None,
        core_file: false,
        broadcasts: None,
        leases: true,
        outlives_ranks: false,
        keeps_files: false,
        universe: 0,
        origin: None,
        staged_files: Vec::new(),
    }
}

fn report() -> RankReport {
    RankReport::ended(JOB, RANK, Exit::Status(3))
}

fn one_end(report: RankReport) -> ToIoNode {
    ToIoNode::Ended(Ends { held: Vec::new(), reports: vec![report] })
}

fn node_ends(node: u32, reports: Vec<RankReport>) -> NodeEnds {
    NodeEnds { node: NodeId(node), ends: Ends { held: Vec::new(), reports } }
}

/// A node that is back is told of its ranks again. If what it says behind its first word makes no sense, that is not
/// the end of ranks that run there.
#[test]
fn ranks_are_not_refused_for_a_connection_that_ends_as_it_begins() {
    let mut machine = Machine::default();
    let [control, _ship] = ready(&mut machine, 0);
    machine.order(ToPset::Start(job()), at(0)).expect("makes sense");
    let opened = std::iter::from_fn(|| machine.next_effect()).find_map(|effect| match effect {
        Effect::Open { place, .. } => Some(place),
        _ => None,
    });
    machine.opened(opened.expect("its root is opened"), Ok(()), at(0));
    machine.disconnected(control.line, Disconnected::Closed, at(1));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &NodeKey([7; 32]));
    let memory = MemoryStatus { total: 4, kernel: 1, free: 3, retained: 0 };
    again.say(&ToIoNode::Ready(NodeStatus { kernel: "0".into(), boot_ns: 1, boot_idle_ns: 0, cores: 1, memory }));
    let bytes = [again.session.transmit(), &[b'x'; 100]].concat();
    machine.receive(again.line, &bytes);
    machine.listen(again.line, at(2));
    let said: Vec<_> = std::iter::from_fn(|| machine.next_message(at(2))).collect();
    assert!(!said.iter().any(|message| matches!(message, FromPset::Refused { .. })), "{said:?}");
    let mut effects = std::iter::from_fn(|| machine.next_effect());
    assert!(effects.any(|effect| matches!(effect, Effect::End { line, .. } if line == again.line)));
}

/// It could not say that ranks have ended of which it was never told.
#[test]
fn a_node_that_comes_back_after_a_kill_is_told_what_there_is_to_end() {
    let mut machine = Machine::default();
    let [control, _ship] = ready(&mut machine, 0);
    machine.disconnected(control.line, Disconnected::Closed, at(1));
    machine.order(ToPset::Start(job()), at(1)).expect("makes sense");
    let opened = std::iter::from_fn(|| machine.next_effect()).find_map(|effect| match effect {
        Effect::Open { place, .. } => Some(place),
        _ => None,
    });
    machine.opened(opened.expect("its root is opened"), Ok(()), at(1));
    machine.order(ToPset::Kill { job: JOB }, at(1)).expect("makes sense");
    assert!(!machine.has_messages(), "the node is expected back");
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &NodeKey([7; 32]));
    let memory = MemoryStatus { total: 4, kernel: 1, free: 3, retained: 0 };
    again.say(&ToIoNode::Ready(NodeStatus { kernel: "0".into(), boot_ns: 1, boot_idle_ns: 0, cores: 1, memory }));
    again.exchange(&mut machine, at(2));
    let mut orders = again.orders(&mut machine, at(2));
    orders.retain(|order| !matches!(order, ToNode::Ping { .. }));
    let [ToNode::Launch(launch), ToNode::Kill { job: JOB }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((launch.job, launch.first), (JOB, RANK));
}

/// Whatever has come of the others is lost if the connection ends now, and the node has to know.
#[test]
fn only_what_was_read_counts_as_taken() {
    let mut machine = Machine::default();
    let [mut control, _ship] = ready(&mut machine, 0);
    let discarded = |request| Discarded { request, given_back: Vec::new(), still_held: Vec::new() };
    let mut now_ns = 0;
    let mut taken = |machine: &mut Machine, control: &mut Wire| {
        now_ns += HEARTBEAT_INTERVAL_NS;
        machine.advance(at(now_ns));
        let orders = control.orders(machine, at(now_ns));
        let [ToNode::Ping { taken, .. }] = orders[..] else { panic!("{orders:?}") };
        taken
    };
    assert_eq!(taken(&mut machine, &mut control), 0, "being ready is said over each connection");
    // Events need not arrive. Of the rest, what finds no room for what comes of it waits.
    for request in 0..OUTBOX_MESSAGES_MAX as u64 + 3 {
        control.say(&ToIoNode::Discarded(discarded(request)));
        control.exchange(&mut machine, at(0));
    }
    assert_eq!(taken(&mut machine, &mut control), OUTBOX_MESSAGES_MAX as u64);
    while machine.next_message(at(0)).is_some() {
        control.exchange(&mut machine, at(0));
    }
    control.say(&event());
    control.exchange(&mut machine, at(0));
    assert_eq!(taken(&mut machine, &mut control), OUTBOX_MESSAGES_MAX as u64 + 3);
}

/// So it keeps no report that has arrived.
#[test]
fn who_reports_ends_is_told_at_once_what_was_read() {
    let mut machine = Machine::default();
    let [mut control, _ship] = ready(&mut machine, 0);
    control.orders(&mut machine, at(0));
    control.say(&ToIoNode::Launched { job: JOB, ranks: RANK.into() });
    control.exchange(&mut machine, at(1));
    assert_eq!(control.orders(&mut machine, at(1)), []);
    control.say(&one_end(report()));
    control.say(&one_end(report()));
    control.exchange(&mut machine, at(2));
    assert_eq!(control.orders(&mut machine, at(2)), [ToNode::Taken { taken: 3 }]);
}

/// Starts a job. Gives its place.
fn start(machine: &mut Machine) -> PlaceId {
    start_this(machine, job())
}

fn start_this(machine: &mut Machine, job: StartJob) -> PlaceId {
    machine.order(ToPset::Start(job), at(0)).expect("makes sense");
    let opened = std::iter::from_fn(|| machine.next_effect()).find_map(|effect| match effect {
        Effect::Open { place, .. } => Some(place),
        _ => None,
    });
    let place = opened.expect("its root is opened");
    machine.opened(place, Ok(()), at(0));
    place
}

#[test]
fn checkpoints_that_nodes_ask_for_are_passed_on_and_told_of_also_over_the_next_connection() {
    let mut machine = Machine::default();
    let [mut control, _ship] = ready(&mut machine, 0);
    start(&mut machine);
    control.orders(&mut machine, at(0));
    for job in [JOB, JobId(JOB.0 + 1)] {
        control.say(&ToIoNode::WantsCheckpoint { job });
        control.exchange(&mut machine, at(1));
    }
    assert!(matches!(machine.next_message(at(1)), Some(FromPset::WantsCheckpoint { job: JOB })));
    assert!(!machine.has_messages(), "it has no rank of another");
    machine.order(ToPset::Checkpointed { job: JOB, made: 3 }, at(1)).expect("makes sense");
    let told = ToNode::Checkpointed { job: JOB, made: 3 };
    assert_eq!(control.orders(&mut machine, at(1)), std::slice::from_ref(&told));
    machine.disconnected(control.line, Disconnected::Closed, at(2));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &NodeKey([7; 32]));
    again.say(&is_ready());
    again.exchange(&mut machine, at(3));
    assert!(again.orders(&mut machine, at(3)).contains(&told));
}

#[test]
fn an_end_is_told_once_whatever_becomes_of_its_connection_while_files_are_closed() {
    let mut machine = Machine::default();
    let [mut control, _ship] = ready(&mut machine, 0);
    let place = start(&mut machine);
    control.say(&one_end(report()));
    control.exchange(&mut machine, at(1));
    let mut effects = std::iter::from_fn(|| machine.next_effect());
    assert!(effects.any(|effect| matches!(effect, Effect::Close { rank: RANK, .. })));
    assert!(!machine.has_messages(), "its files are open");
    machine.disconnected(control.line, Disconnected::Closed, at(2));
    assert!(!machine.has_messages());
    machine.closed(place, RANK, at(3));
    assert!(
        matches!(machine.next_message(at(3)), Some(FromPset::Ended(ends)) if ends == [node_ends(0, vec![report()])])
    );
    // Not again when the time for that is over, nor when the node says it again.
    let key = NodeKey([7; 32]);
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &key);
    again.say(&one_end(report()));
    again.exchange(&mut machine, at(4));
    machine.advance(at(HEARTBEAT_INTERVAL_NS));
    assert!(!machine.has_messages());
}

/// At once, and again over each new connection: what was said over the last may have been lost with it.
#[test]
fn the_nodes_of_a_job_are_told_of_those_that_it_goes_on_without() {
    let mut machine = Machine::default();
    let mut wires: Vec<_> = (0..2).map(|number| ready(&mut machine, number)).collect();
    let member = |rank| Member { first: Rank(rank), count: 1, node: NodeId(rank), use_retained: false, restore: None };
    let world = World::new(JobKey([7; 32]), 1, (0..3).map(NodeId));
    start_this(&mut machine, StartJob { size: 3, members: vec![member(0), member(1)], world, ..job() });
    wires.iter_mut().for_each(|[control, _]| drop(control.orders(&mut machine, at(0))));
    let lost = |node| ToNode::NodeLost { job: JOB, node: NodeId(node), ranks: vec![Rank(node)] };
    machine.order(ToPset::NodeLost { job: JOB, node: NodeId(2), ranks: vec![Rank(2)] }, at(1)).expect("makes sense");
    for [control, _] in &mut wires {
        assert_eq!(control.orders(&mut machine, at(1)), [lost(2)]);
    }
    // One of its own; who is gone is not told.
    machine.order(ToPset::NodeLost { job: JOB, node: NodeId(1), ranks: vec![Rank(1)] }, at(2)).expect("makes sense");
    assert_eq!(wires[0][0].orders(&mut machine, at(2)), [lost(1)]);
    assert_eq!(wires[1][0].orders(&mut machine, at(2)), []);
    machine.disconnected(wires[0][0].line, Disconnected::Closed, at(3));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &NodeKey([7; 32]));
    again.say(&is_ready());
    let mut orders = again.orders(&mut machine, at(3));
    orders.retain(|order| matches!(order, ToNode::NodeLost { .. }));
    assert_eq!(orders, [lost(1), lost(2)]);
}

/// At once, and again over each new connection; what nodes and ranks say of it goes up.
#[test]
fn the_nodes_of_a_job_are_told_of_those_that_come_to_its_network_and_ranks_of_those_they_wanted() {
    let mut machine = Machine::default();
    let mut wires: Vec<_> = (0..2).map(|number| ready(&mut machine, number)).collect();
    let member = |rank| Member { first: Rank(rank), count: 1, node: NodeId(rank), use_retained: false, restore: None };
    let world = World::new(JobKey([7; 32]), 1, (0..2).map(NodeId));
    start_this(&mut machine, StartJob { size: 2, members: vec![member(0), member(1)], world, ..job() });
    wires.iter_mut().for_each(|[control, _]| drop(control.orders(&mut machine, at(0))));
    let wanted = Wanted { program: "w".into(), ranks: 1, ..Wanted::default() };
    let spawn = |rank, wanted: &Wanted| Spawn { job: JOB, rank: Rank(rank), number: 1, wanted: wanted.clone() };
    // Of a rank that is elsewhere; of more than is taken.
    let many = vec!["".into(); SPAWN_TEXTS_BYTES_MAX / SPAWN_TEXT_BYTES];
    let long = Wanted { arguments: many, ..wanted.clone() };
    for strange in [spawn(1, &wanted), spawn(0, &long)] {
        wires[0][0].say(&ToIoNode::Spawns(strange));
    }
    wires[0][0].say(&ToIoNode::Spawns(spawn(0, &wanted)));
    wires[0][0].exchange(&mut machine, at(1));
    let mut said = std::iter::from_fn(|| machine.next_message(at(1)));
    let of = spawn(0, &wanted);
    assert!(said.any(|said| matches!(said, FromPset::Spawns { node: NodeId(0), spawn } if spawn == of)));
    assert!(!said.any(|said| matches!(said, FromPset::Spawns { .. })));
    let joined = |first| Joined { job: JOB, first, nodes: vec![NodeRange { first: NodeId(5), count: 1 }] };
    let spawned = Spawned { job: JOB, rank: Rank(0), number: 1, outcome: Ok(JobId(9)) };
    machine.order(ToPset::Joined(joined(2)), at(2)).expect("makes sense");
    machine.order(ToPset::Spawned(spawned.clone()), at(2)).expect("makes sense");
    machine.order(ToPset::Joined(joined(3)), at(2)).expect("makes sense");
    let told = [ToNode::Joined(joined(2)), ToNode::Spawned(spawned.clone()), ToNode::Joined(joined(3))];
    assert_eq!(wires[0][0].orders(&mut machine, at(2)), told);
    assert_eq!(wires[1][0].orders(&mut machine, at(2)), [told[0].clone(), told[2].clone()]);
    wires[1][0].say(&ToIoNode::Joined { job: JOB, nodes: 4 });
    wires[1][0].exchange(&mut machine, at(3));
    let mut said = std::iter::from_fn(|| machine.next_message(at(3)));
    assert!(said.any(|said| matches!(said, FromPset::Joined { node: NodeId(1), job: JOB, nodes: 4 })));
    machine.disconnected(wires[0][0].line, Disconnected::Closed, at(4));
    let mut again = Wire::connect(&mut machine, Channel::Control, NodeId(0), &NodeKey([7; 32]));
    again.say(&is_ready());
    let mut orders = again.orders(&mut machine, at(4));
    orders.retain(|order| matches!(order, ToNode::Joined(_) | ToNode::Spawned(_)));
    let [first, spawned, last] = told;
    assert_eq!(orders, [first, last, spawned]);
}

/// What a node is told of its job's network comes behind the launch: before, it knows of none, and would say so.
#[test]
fn nodes_that_come_while_a_job_is_being_opened_are_told_of_behind_its_launch() {
    let mut machine = Machine::default();
    let [mut control, _ship] = ready(&mut machine, 0);
    machine.order(ToPset::Start(job()), at(0)).expect("makes sense");
    let effects = std::iter::from_fn(|| machine.next_effect());
    let opening: Vec<PlaceId> = effects
        .filter_map(|effect| match effect {
            Effect::Open { place, .. } => Some(place),
            _ => None,
        })
        .collect();
    let joined = Joined { job: JOB, first: 1, nodes: vec![NodeRange { first: NodeId(5), count: 1 }] };
    machine.order(ToPset::Joined(joined.clone()), at(1)).expect("makes sense");
    machine.opened(opening[0], Ok(()), at(2));
    let mut orders = control.orders(&mut machine, at(2));
    orders.retain(|order| matches!(order, ToNode::Launch(_) | ToNode::Joined(_)));
    assert!(matches!(&orders[..], [ToNode::Launch(_), ToNode::Joined(told)] if *told == joined), "{orders:?}");
}

/// Those of other nodes may want what a node knows for as long as any of them runs.
#[test]
fn the_nodes_of_a_job_are_told_when_none_of_its_ranks_runs_and_one_alone_is_not() {
    for nodes in [1_u32, 3] {
        let mut machine = Machine::default();
        let mut wires: Vec<_> = (0..2).map(|number| ready(&mut machine, number)).collect();
        // The third is of another I/O node.
        let member =
            |rank| Member { first: Rank(rank), count: 1, node: NodeId(rank), use_retained: false, restore: None };
        let members = (0..nodes.min(2)).map(member).collect();
        let world = World::new(JobKey([7; 32]), 1, (0..nodes).map(NodeId));
        start_this(&mut machine, StartJob { size: nodes, members, world, ..job() });
        wires.iter_mut().for_each(|[control, _]| drop(control.orders(&mut machine, at(0))));
        wires[0][0].say(&one_end(report()));
        wires[0][0].exchange(&mut machine, at(1));
        machine.order(ToPset::Forget { job: JOB }, at(2)).expect("makes sense");
        let (kill, forget) = (ToNode::Kill { job: JOB }, ToNode::Forget { job: JOB });
        let heard = [0, 1].map(|node: usize| {
            let mut orders = wires[node][0].orders(&mut machine, at(2));
            orders.retain(|order| !matches!(order, ToNode::Taken { .. }));
            orders
        });
        let wanted = if nodes > 1 { [vec![forget.clone()], vec![kill, forget]] } else { [vec![], vec![]] };
        assert_eq!(heard, wanted, "{nodes} nodes");
    }
}
