//! The simulated world: who is in it, and what each event does to whom.

use coppice_protocol::ids::{Generation, NodeId};
use coppice_protocol::personality::NodeKey;
use coppice_protocol::session::{Channel, Identity};

use crate::checkers::{Violation, ensure};
use crate::context::Context;
use crate::faults::{self, Fault};
use crate::io_node::IoNode;
use crate::network::{ConnectionId, Holder, Side};
use crate::node::{Life, LifeId};
use crate::schedule::Event;
use crate::strangers::Strangers;
use crate::{Failure, Options, Report};

/// Events in a run; more mean that something goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

/// How long an earlier boot of a node may live on beside the later one, ns.
const LIVES_ON_NS_MAX: u64 = 20_000_000_000;

/// One run.
pub(crate) struct World {
    seed: u64,
    context: Context,
    io_node: IoNode,
    /// Every boot of every node.
    lives: Vec<Life>,
    /// The latest boot of each node.
    nodes: Vec<LifeId>,
    strangers: Strangers,
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options) -> Self {
        let mut context = Context::new(seed, options);
        let count = context.random.between(1, u64::from(options.nodes_max));
        let io_node = IoNode::default();
        let strangers = Strangers::default();
        let mut world = Self { seed, context, io_node, lives: Vec::new(), nodes: Vec::new(), strangers };
        for number in 0..count {
            let node = NodeId(number as u32);
            let life = world.boot(Identity { node, generation: Generation(1) });
            world.nodes.push(life);
        }
        world.context.plan(0, Event::StartIoNode);
        world.context.plan_within(5_000_000_000, Event::Fault);
        world
    }

    fn boot(&mut self, identity: Identity) -> LifeId {
        let id = self.lives.len();
        let key = NodeKey(self.context.random.bytes());
        self.lives.push(Life::new(id, identity, key, &mut self.context));
        let Identity { node, generation } = identity;
        self.context.plan_within(1_000_000_000, Event::Register { node, generation });
        id
    }

    /// Runs to the end, or to the first thing that must not be.
    pub(crate) fn run(mut self) -> Result<Report, Failure> {
        let result = self.play();
        let Self { seed, context, .. } = self;
        let at_ns = context.now_ns;
        let digest = context.trace.digest();
        let counts = context.trace.counts();
        let trace = context.trace.lines();
        match result {
            Ok(()) => Ok(Report { counts, trace, digest }),
            Err(violation) => Err(Failure { seed, at_ns, violation, faults: Vec::new(), trace }),
        }
    }

    fn play(&mut self) -> Result<(), Violation> {
        let mut events = 0;
        while let Some((at_ns, event)) = self.context.schedule.take() {
            if at_ns > self.context.end_ns() {
                break;
            }
            self.context.now_ns = at_ns;
            events += 1;
            ensure(events < EVENTS_MAX, || format!("{EVENTS_MAX} events without an end"))?;
            self.happen(event)?;
        }
        self.context.checkers.requests.all_settled()?;
        self.io_node.all_ended()?;
        for life in &self.nodes {
            self.context.checkers.progress.at_end(*life, self.lives[*life].sessions())?;
        }
        let (buffered, queued) = self.context.checkers.memory.most();
        self.context.trace.count("bytes buffered at most", buffered as u64);
        self.context.trace.count("bytes queued at most", queued as u64);
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let Self { context, io_node, lives, .. } = self;
        match event {
            Event::Connect { life, channel } => self.connect(life, channel),
            Event::Cut { connection } => context.cut(connection),
            Event::Arrive { connection, at } => self.arrive(connection, at)?,
            Event::Closed { connection, at } => self.closed(connection, at)?,
            Event::Timeout { connection, at } => match context.network.get(connection).holder(at) {
                Holder::Life(life) => lives[life].timeout(connection, context)?,
                Holder::IoNode => io_node.timeout(connection, context)?,
                Holder::Stranger => {}
            },
            Event::Issue { life } => lives[life].issue(context)?,
            Event::Exit { life, job } => lives[life].exit(job, context)?,
            Event::Serve { connection, id, request, bulk_bytes } => {
                io_node.serve(connection, id, request, bulk_bytes, context)?;
            }
            Event::Heartbeat { connection } => io_node.heartbeat(connection, context)?,
            Event::Boot { node } => {
                let number = node.0 as usize;
                let earlier = self.nodes[number];
                let Identity { node, generation } = lives[earlier].identity;
                context.plan_within(LIVES_ON_NS_MAX, Event::End { life: earlier });
                self.nodes[number] = self.boot(Identity { node, generation: Generation(generation.0 + 1) });
            }
            Event::Register { node, generation } => {
                let life = &lives[self.nodes[node.0 as usize]];
                if io_node.is_up && life.identity.generation == generation {
                    io_node.register(life.identity, life.key.clone(), context);
                }
            }
            Event::End { life } => lives[life].end(context),
            Event::StartIoNode => {
                context.trace.note(context.now_ns, "I/O node", format_args!("starts"));
                io_node.is_up = true;
                for life in &self.nodes {
                    let Identity { node, generation } = lives[*life].identity;
                    context.plan_within(500_000_000, Event::Register { node, generation });
                }
            }
            Event::Fault => self.fault(),
        }
        Ok(())
    }

    fn connect(&mut self, life: LifeId, channel: Channel) {
        let Self { context, io_node, lives, strangers, .. } = self;
        let caller = &mut lives[life];
        if !caller.wants_connection(channel) {
            return;
        }
        let is_led_astray = context.is_faulty() && context.random.chance(60);
        if is_led_astray {
            let connection = context.open(channel, [Holder::Life(life), Holder::Stranger]);
            strangers.answer(connection, channel, context);
            caller.call(connection, channel, context);
        } else if io_node.is_up {
            let connection = context.open(channel, [Holder::Life(life), Holder::IoNode]);
            io_node.accept(connection, channel, context);
            caller.call(connection, channel, context);
        } else {
            caller.connect_later(channel, context);
        }
    }

    fn arrive(&mut self, connection: ConnectionId, at: Side) -> Result<(), Violation> {
        let Self { context, io_node, lives, strangers, .. } = self;
        let Some(bytes) = context.network.arrive(connection, at) else { return Ok(()) };
        let link = context.network.get(connection);
        if !link.is_held(at) {
            // Nobody is there: the sender is told, unless he knows.
            if link.is_held(at.other()) {
                context.plan_within(50_000_000, Event::Closed { connection, at: at.other() });
            }
            return Ok(());
        }
        let (receiver, sender) = (link.holder(at), link.holder(at.other()));
        match receiver {
            Holder::Life(life) => lives[life].arrive(connection, &bytes, context)?,
            Holder::IoNode => io_node.arrive(connection, &bytes, context)?,
            Holder::Stranger => strangers.arrive(connection, at, &bytes, context)?,
        }
        match sender {
            Holder::Life(life) => lives[life].pump(connection, context),
            Holder::IoNode => io_node.pump(connection, context),
            Holder::Stranger => {}
        }
        Ok(())
    }

    fn closed(&mut self, connection: ConnectionId, at: Side) -> Result<(), Violation> {
        let Self { context, io_node, lives, strangers, .. } = self;
        match context.network.get(connection).holder(at) {
            Holder::Life(life) => lives[life].closed(connection, context)?,
            Holder::IoNode => io_node.closed(connection, context),
            Holder::Stranger => strangers.closed(connection, at, context),
        }
        Ok(())
    }

    fn fault(&mut self) {
        let Self { context, io_node, lives, nodes, strangers, .. } = self;
        let Some(fault) = faults::next(nodes.len(), context) else { return };
        context.trace.note(context.now_ns, "fault", format_args!("{fault:?}"));
        match fault {
            Fault::Cut(connection) => context.cut(connection),
            Fault::Reboot { node, lives_on } => {
                let life = nodes[node];
                if !lives_on {
                    lives[life].end(context);
                }
                context.plan_within(2_000_000_000, Event::Boot { node: lives[life].identity.node });
            }
            Fault::IoNode => {
                io_node.crash(context);
                context.plan_within(3_000_000_000, Event::StartIoNode);
            }
            Fault::Stranger { node, channel, earlier } => {
                let current = &lives[nodes[node]];
                let of_node = |life: &&Life| life.identity.node == current.identity.node;
                let victim = if earlier { lives.iter().find(of_node).unwrap_or(current) } else { current };
                if io_node.is_up {
                    let (identity, key) = (victim.identity, victim.key.clone());
                    let connection = strangers.call(channel, identity, &key, context);
                    io_node.accept(connection, channel, context);
                }
            }
        }
    }
}
