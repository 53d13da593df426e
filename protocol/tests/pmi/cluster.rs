//! The servers of a job's nodes, with a conversation for each rank, joined by hand.

use std::collections::BTreeMap;

use coppice_protocol::ids::{JobId, Rank};
use coppice_protocol::pmi::{Conversation, Event, Fence, Modex, PeerFrames, Server, ServerRecord, Startup};

use crate::placement::blocks;

/// The job's key.
pub(crate) const KEY: [u8; 32] = [42; 32];

/// The job, whose key-value space is called `k0`.
pub(crate) const JOB: JobId = JobId(0);

/// All nodes of a job.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Server>,
    conversations: BTreeMap<Rank, (usize, Conversation)>,
    pub(crate) now_ns: u64,
    /// What came out of the servers, but for who is released and who waits.
    pub(crate) events: Vec<Event>,
    /// Barriers in which ranks wait that had it said.
    pub(crate) waits: Vec<u64>,
    /// By which algorithms barriers are walked, one after the other and then again; as nodes choose, if there are none.
    fences: Vec<Fence>,
}

impl Cluster {
    /// So many ranks on each node.
    pub(crate) fn new(counts: &[u32]) -> Self {
        Self::of(JOB, &KEY, counts, &[])
    }

    /// One whose nodes watch each other. Those of others do not, as time there passes without anything being heard.
    pub(crate) fn watching(counts: &[u32]) -> Self {
        let mut cluster = Self::new(counts);
        for node in 0..counts.len() {
            cluster.start_again(node);
        }
        cluster
    }

    /// The server of a node that has just been told of the job.
    pub(crate) fn start_again(&mut self, node: usize) {
        let placement = self.servers[node].placement().clone();
        let place = placement.place(node as u32).expect("an index");
        self.servers[node] = Server::new(JOB, &KEY, placement, place.node).expect("a place");
    }

    /// So many ranks on each node, which come to know each other's keys in this way.
    pub(crate) fn with_modex(counts: &[u32], modex: Modex) -> Self {
        let mut cluster = Self::new(counts);
        let startup = Startup { modex: Some(modex), ..Startup::default() };
        cluster.servers.iter_mut().for_each(|server| server.set_startup(startup));
        cluster
    }

    /// One whose barriers are walked by these algorithms in turn.
    pub(crate) fn walking(fences: &[Fence], counts: &[u32]) -> Self {
        Self::of(JOB, &KEY, counts, fences)
    }

    fn of(job: JobId, key: &[u8; 32], counts: &[u32], fences: &[Fence]) -> Self {
        let placement = blocks(counts);
        let places = (0..placement.nodes()).map(|index| placement.place(index).expect("an index"));
        let servers = places.clone().map(|place| Server::new(job, key, placement.clone(), place.node));
        let conversations = places
            .enumerate()
            .flat_map(|(node, place)| place.ranks().map(move |rank| (rank, (node, Conversation::on_descriptor(rank)))));
        let mut cluster = Self {
            servers: servers.collect::<Option<_>>().expect("a place on each"),
            conversations: conversations.collect(),
            now_ns: 0,
            events: Vec::new(),
            waits: Vec::new(),
            fences: fences.to_vec(),
        };
        cluster.servers.iter_mut().for_each(Server::trust_nodes);
        cluster.settle_fences();
        cluster
    }

    /// The algorithm of a barrier, if that is said.
    fn fence_of(&self, barrier: u64) -> Option<Fence> {
        self.fences.get(usize::try_from(barrier).expect("few") % self.fences.len().max(1)).copied()
    }

    /// Nodes that have left a barrier hear how the next one is walked.
    fn settle_fences(&mut self) {
        for node in 0..self.servers.len() {
            if let Some(fence) = self.fence_of(self.servers[node].barriers()) {
                self.servers[node].force_fence(Some(fence));
            }
        }
    }

    /// Another job on other nodes that goes on from what this one is now. What is on its way is lost.
    pub(crate) fn again(&mut self) -> Self {
        let written: Vec<_> = (0..self.servers.len()).map(|node| self.write_down(node)).collect();
        self.again_from(&written)
    }

    /// What a node is now.
    pub(crate) fn write_down(&mut self, node: usize) -> Vec<u8> {
        postcard::to_allocvec(&self.servers[node].record()).expect("plain data")
    }

    /// As [`Self::again`], from what each node was. Ranks have not said or heard anything since.
    pub(crate) fn again_from(&self, written: &[Vec<u8>]) -> Self {
        let records: Vec<ServerRecord> =
            written.iter().map(|written| postcard::from_bytes(written).expect("as written")).collect();
        let counts: Vec<u32> = records.iter().map(|record| record.ranks() as u32).collect();
        let mut other = Self::of(JobId(1), &[43; 32], &counts, &self.fences);
        for (server, record) in other.servers.iter_mut().zip(records) {
            if let Some(fence) = self.fence_of(record.barriers()) {
                server.force_fence(Some(fence));
            }
            server.restore(record, self.now_ns).expect("fits");
        }
        for (rank, (_, conversation)) in &self.conversations {
            let written = postcard::to_allocvec(conversation).expect("plain data");
            other.conversations.get_mut(rank).expect("a rank").1 = postcard::from_bytes(&written).expect("as written");
        }
        other.now_ns = self.now_ns;
        other.settle_events();
        other
    }

    /// The node of a rank.
    pub(crate) fn node_of(&self, rank: u32) -> usize {
        self.conversations[&Rank(rank)].0
    }

    /// A rank says something, which may be heard or left.
    pub(crate) fn say(&mut self, rank: u32, bytes: &[u8]) -> usize {
        let (node, conversation) = self.conversations.get_mut(&Rank(rank)).expect("a rank");
        let taken = conversation.handle_bytes(bytes, &mut self.servers[*node], self.now_ns);
        self.settle_events();
        taken
    }

    /// What a rank hears, all of it.
    pub(crate) fn hear(&mut self, rank: u32) -> String {
        let (node, conversation) = self.conversations.get_mut(&Rank(rank)).expect("a rank");
        conversation.poll(&mut self.servers[*node]);
        let heard = String::from_utf8(conversation.transmit().to_vec()).expect("text");
        conversation.consume(heard.len());
        heard
    }

    /// A rank says a line and hears the answer.
    pub(crate) fn ask(&mut self, rank: u32, line: &str) -> String {
        assert_eq!(self.say(rank, format!("{line}\n").as_bytes()), line.len() + 1);
        self.hear(rank)
    }

    fn settle_events(&mut self) {
        self.settle_fences();
        for server in &mut self.servers {
            while let Some(event) = server.poll_event() {
                if let Event::Waits { barrier } = event {
                    self.waits.push(barrier);
                } else if !matches!(event, Event::Released(_)) {
                    self.events.push(event);
                }
            }
        }
    }

    /// The next frame that a node has for another.
    pub(crate) fn frame(&mut self, from: usize, to: usize) -> Option<Vec<u8>> {
        self.servers[from].poll_transmit(to as u32)
    }

    /// A frame arrives.
    pub(crate) fn deliver(&mut self, to: usize, bytes: &[u8]) {
        let mut bytes = bytes;
        let frame = PeerFrames::default().advance(&mut bytes).expect("a frame").expect("a whole frame");
        assert!(bytes.is_empty());
        assert_eq!(frame.signature(), self.servers[to].signature());
        self.servers[to].handle_frame(&frame, self.now_ns).expect("authentic");
        self.settle_events();
    }

    /// Its ranks run again after what its nodes are was written down.
    pub(crate) fn go_on(&mut self) {
        for server in &mut self.servers {
            server.ranks_run(self.now_ns);
        }
        self.settle_events();
    }

    /// Nodes that have something for each other.
    pub(crate) fn pairs_with_output(&self) -> Vec<(usize, usize)> {
        let pairs = self.servers.iter().enumerate().flat_map(|(from, server)| {
            server.peers().into_iter().filter(|to| server.has_output(*to)).map(move |to| (from, to as usize))
        });
        pairs.collect()
    }

    /// Everything that nodes have to say to each other arrives.
    pub(crate) fn settle(&mut self) {
        loop {
            let pairs = self.pairs_with_output();
            if pairs.is_empty() {
                return;
            }
            for (from, to) in pairs {
                while let Some(frame) = self.frame(from, to) {
                    self.deliver(to, &frame);
                }
            }
        }
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        for server in &mut self.servers {
            if server.poll_timeout().is_some_and(|at_ns| at_ns <= self.now_ns) {
                server.handle_timeout(self.now_ns);
            }
        }
        self.settle_events();
    }
}
