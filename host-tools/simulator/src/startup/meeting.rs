//! Ranks put their cards, meet twice and get a neighbour's card, over the servers of their nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coppice_protocol::ids::{JobId, NodeId, Rank};
use coppice_protocol::pmi::{Conversation, Event, HEADER_BYTES, PeerFrames, Server, Startup};

use super::{Options, Started};

/// What a rank says, one after the other, and hears an answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Init,
    Put,
    Meet,
    MeetAgain,
    Get,
    Done,
}

/// What happens.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A rank goes on.
    Rank(u32),
    /// A frame comes to a node.
    Frame(u32, Vec<u8>),
    /// A server wants to know the time.
    Clock(u32),
}

struct Node {
    server: Server,
    /// The core that does the node's work for others is free again.
    free_ns: u64,
    /// Its link is.
    link_ns: u64,
    sent_bytes: u64,
    clock_ns: Option<u64>,
}

/// See this module.
pub(super) struct Meeting<'a> {
    options: &'a Options,
    nodes: Vec<Node>,
    ranks: Vec<(Conversation, Step)>,
    queue: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    number: u64,
    now_ns: u64,
    frames: u64,
}

impl<'a> Meeting<'a> {
    pub(super) fn new(options: &'a Options, ranks_run_ns: &[u64]) -> Result<Self, String> {
        let placement = options.placement()?;
        let startup = Startup { modex: Some(options.modex()), fence: options.fence };
        let node = |index: u32| {
            let mut server = Server::new(JobId(0), &[7; 32], placement.clone(), NodeId(index))?;
            server.set_startup(startup);
            // Nobody dies, and the run ends when nothing is left to do.
            server.trust_nodes();
            Some(Node { server, free_ns: 0, link_ns: 0, sent_bytes: 0, clock_ns: None })
        };
        let nodes = (0..options.nodes).map(node).collect::<Option<Vec<_>>>().ok_or("a node has no place")?;
        let rank = |rank| (Conversation::on_descriptor(Rank(rank)), Step::Init);
        let mut meeting = Self {
            options,
            nodes,
            ranks: (0..options.ranks()).map(rank).collect(),
            queue: BinaryHeap::new(),
            number: 0,
            now_ns: 0,
            frames: 0,
        };
        // Ranks share cores: those of a turn work while others wait.
        let costs = &options.costs;
        for (rank, runs_ns) in (0..).zip(ranks_run_ns) {
            let turns = u64::from(options.ranks_per_node.div_ceil(costs.cores.max(1)));
            meeting.at(runs_ns + turns * costs.before_put_ns, Happens::Rank(rank));
        }
        Ok(meeting)
    }

    fn at(&mut self, at_ns: u64, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((at_ns, self.number, what)));
    }

    /// Until every rank has its neighbour's card.
    pub(super) fn run(mut self, started: &mut Started) -> Result<(), String> {
        while let Some(Reverse((at_ns, _, what))) = self.queue.pop() {
            self.now_ns = at_ns;
            match what {
                Happens::Rank(rank) => self.go_on(rank, started)?,
                Happens::Frame(node, bytes) => self.deliver(node, &bytes)?,
                Happens::Clock(node) => self.tick(node),
            }
        }
        if let Some(rank) = self.ranks.iter().position(|(_, step)| *step != Step::Done) {
            return Err(format!("rank {rank} has not come to its end: {:?}", self.ranks[rank].1));
        }
        started.frames = self.frames;
        started.node_bytes = self.nodes.iter().map(|node| node.sent_bytes).max().unwrap_or(0);
        let memory = self.nodes.iter().map(|node| node.server.memory_bytes()).max();
        started.memory_bytes = memory.unwrap_or(0) as u64;
        Ok(())
    }

    fn node_of(&self, rank: u32) -> u32 {
        rank / self.options.ranks_per_node
    }

    /// A rank hears what there is for it and says the next line.
    fn go_on(&mut self, rank: u32, started: &mut Started) -> Result<(), String> {
        let node = self.node_of(rank);
        let (costs, size) = (self.options.costs, self.options.ranks());
        let (conversation, step) = &mut self.ranks[rank as usize];
        let server = &mut self.nodes[node as usize].server;
        conversation.poll(server);
        let heard = String::from_utf8_lossy(conversation.transmit()).into_owned();
        let length = heard.len();
        conversation.consume(length);
        let has_heard = |word: &str| heard.contains(word);
        let mut pause_ns = 0;
        let next = match step {
            Step::Init => Step::Put,
            Step::Put if has_heard("rc=0") => Step::Meet,
            Step::Meet if has_heard("barrier_out") => {
                started.met_ns = started.met_ns.max(self.now_ns);
                pause_ns = costs.between_ns;
                Step::MeetAgain
            }
            Step::MeetAgain if has_heard("barrier_out") => {
                started.past_init_ns = started.past_init_ns.max(self.now_ns);
                Step::Get
            }
            Step::Get if has_heard("value=description") => {
                started.card_ns = started.card_ns.max(self.now_ns);
                *step = Step::Done;
                return Ok(());
            }
            // It was woken for something else, or waits.
            _ if heard.is_empty() => return Ok(()),
            _ => return Err(format!("rank {rank} has heard `{}`", heard.trim())),
        };
        // What it says next it says when it has worked so long; until then nothing can come.
        let line = line(next, rank, size);
        *step = next;
        if next == Step::Meet {
            started.put_ns = started.put_ns.max(self.now_ns);
        }
        let at_ns = self.now_ns + pause_ns;
        self.say(rank, node, &line, at_ns)
    }

    fn say(&mut self, rank: u32, node: u32, line: &str, at_ns: u64) -> Result<(), String> {
        let (costs, index) = (self.options.costs, node as usize);
        // The node does it in the call of the rank, one after the other.
        let free_ns = self.nodes[index].free_ns.max(at_ns) + costs.line_ns;
        self.nodes[index].free_ns = free_ns;
        let (conversation, _) = &mut self.ranks[rank as usize];
        if conversation.handle_bytes(line.as_bytes(), &mut self.nodes[index].server, free_ns) != line.len() {
            return Err(format!("rank {rank} was not heard"));
        }
        if !conversation.transmit().is_empty() {
            self.at(free_ns, Happens::Rank(rank));
        }
        self.settle(node);
        Ok(())
    }

    fn deliver(&mut self, node: u32, bytes: &[u8]) -> Result<(), String> {
        let (costs, here) = (self.options.costs, &mut self.nodes[node as usize]);
        let body = (bytes.len() - HEADER_BYTES) as u64;
        here.free_ns = here.free_ns.max(self.now_ns) + costs.frame_ns + costs.for_bytes_ns(body);
        let mut rest = bytes;
        let frame = PeerFrames::default().advance(&mut rest).map_err(|error| error.to_string())?;
        let frame = frame.ok_or("a frame is not whole")?;
        here.server.handle_frame(&frame, here.free_ns).map_err(|error| error.to_string())?;
        self.settle(node);
        Ok(())
    }

    fn tick(&mut self, node: u32) {
        let here = &mut self.nodes[node as usize];
        here.clock_ns = None;
        if here.server.poll_timeout().is_some_and(|at_ns| at_ns <= self.now_ns) {
            here.server.handle_timeout(self.now_ns);
        }
        self.settle(node);
    }

    /// Wakes ranks, sends frames and sets the clock, as a server wants.
    fn settle(&mut self, node: u32) {
        let costs = self.options.costs;
        let index = node as usize;
        while let Some(event) = self.nodes[index].server.poll_event() {
            if let Event::Released(Rank(rank)) = event {
                let at_ns = self.nodes[index].free_ns.max(self.now_ns);
                self.at(at_ns, Happens::Rank(rank));
            }
        }
        for peer in self.nodes[index].server.peers() {
            while let Some(frame) = self.nodes[index].server.poll_transmit(peer) {
                let here = &mut self.nodes[index];
                let body = (frame.len() - HEADER_BYTES) as u64;
                here.free_ns = here.free_ns.max(self.now_ns) + costs.frame_ns + costs.for_bytes_ns(body);
                here.link_ns = here.link_ns.max(here.free_ns) + costs.on_link_ns(frame.len() as u64);
                here.sent_bytes += frame.len() as u64;
                let at_ns = here.link_ns + costs.latency_ns;
                self.frames += 1;
                self.at(at_ns, Happens::Frame(peer, frame));
            }
        }
        let here = &mut self.nodes[index];
        if let Some(at_ns) = here.server.poll_timeout()
            && here.clock_ns.is_none_or(|clock_ns| at_ns < clock_ns)
        {
            here.clock_ns = Some(at_ns);
            self.at(at_ns, Happens::Clock(node));
        }
    }
}

/// What a rank says to come from one step to the next.
fn line(next: Step, rank: u32, size: u32) -> String {
    match next {
        Step::Init | Step::Done => String::new(),
        Step::Put => format!(
            "cmd=put kvsname=k0 key=P{rank}-businesscard value=description#node{}$port#{}$ifname#10.128.0.1$\n",
            rank / 64,
            40_000 + rank % 64
        ),
        Step::Meet | Step::MeetAgain => "cmd=barrier_in\n".into(),
        Step::Get => format!("cmd=get kvsname=k0 key=P{}-businesscard\n", (rank + 1) % size),
    }
}
