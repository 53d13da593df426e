//! Users who have nodes forget programs, and what is then to be seen on the nodes.

use std::collections::BTreeMap;

use coppice_api::retain::{ForgetOrder, Forgotten};
use coppice_protocol::ids::NodeId;
use coppice_service_node::controller::{Event as HostEvent, Refused, Request};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::checkers::Asked;
use super::machine::{LifeId, Machine};
use super::network::{Connection, End};
use super::programs;
use super::queue::SECOND_NS;
use super::world::World;
use crate::checkers::Violation;

/// An order that waits for its answer.
#[derive(Debug)]
pub(super) struct Forgetting {
    answer: oneshot::Receiver<Result<Forgotten, Refused>>,
    asked: Asked,
    /// The boots that there were.
    lives: BTreeMap<NodeId, LifeId>,
    /// When it was seen of each of them that it is over, ns.
    gone_ns: BTreeMap<NodeId, u64>,
}

/// How long the service node may wait for a node that is lost, ns.
const LOST_NS_MAX: u64 = SECOND_NS;

impl World {
    /// A user wants one program forgotten, or all.
    pub(super) fn forget(&mut self) {
        let number = self.random.between(0, programs::PROGRAMS as u64);
        let program = usize::try_from(number).ok().and_then(|number| programs::all().get(number));
        let order = ForgetOrder { program: program.map(|program| program.id.to_string().into()) };
        let (answer, answered) = oneshot::channel();
        let asked = Asked { program: program.map(|program| program.id), ended: self.observed.lock().ended };
        let lives = self.machines.iter().map(|(node, machine)| (*node, machine.life)).collect();
        self.forgets.push(Forgetting { answer: answered, asked, lives, gone_ns: BTreeMap::new() });
        self.host.handle(HostEvent::Request(Request::Forget(order, answer)), self.now_ns);
        self.settle_host();
    }

    /// Users hear that programs were forgotten.
    pub(super) fn look_at_forgets(&mut self) {
        let mut waiting = std::mem::take(&mut self.forgets);
        waiting.retain_mut(|forgetting| {
            let over = forgetting.lives.iter().filter(|(_, life)| self.machine(**life).is_none());
            for (node, _) in over {
                forgetting.gone_ns.entry(*node).or_insert(self.now_ns);
            }
            match forgetting.answer.try_recv() {
                Err(TryRecvError::Empty) => return true,
                Ok(Ok(forgotten)) => self.forgotten(forgetting, &forgotten),
                Ok(Err(_)) | Err(TryRecvError::Closed) => {}
            }
            false
        });
        self.forgets.append(&mut waiting);
    }

    fn forgotten(&mut self, Forgetting { asked, gone_ns, .. }: &Forgetting, forgotten: &Forgotten) {
        for node in forgotten.silent.iter().map(|node| NodeId(*node)) {
            let worked_ns = |gone_ns: &u64| self.checkers.given_up.worked_ns(*gone_ns, self.now_ns);
            if gone_ns.get(&node).is_some_and(|gone_ns| worked_ns(gone_ns) > LOST_NS_MAX) {
                self.violate(format!("an order to forget waited for node {node}, which was lost long before"));
            }
            if self.faults.is_calm {
                self.violate(format!("node {node} was silent about an order to forget, where nothing went wrong"));
            }
        }
        self.note("forgotten", format_args!("{} pages on {} nodes", forgotten.pages, forgotten.nodes));
        let seen = self.observed.lock();
        for (node, machine) in &self.machines {
            if forgotten.silent.contains(&node.0) {
                continue;
            }
            let ran = |program| seen.programs.get(&machine.life)?.get(&program).copied();
            self.checkers.retention.forgotten(*node, asked, &machine.retention.held(), ran);
        }
    }

    /// A node that keeps something for programs and is still being told something, if there is one. Users hear of the
    /// end of a job when the service node does; that it is over, and with it what ranks elsewhere might have wanted of
    /// a node, that is told at the same time, and is on its way for a while.
    pub(super) fn what_is_said_to_nodes(&self) -> Option<String> {
        let keeps = self.machines.iter().filter(|(_, machine)| machine.kept_bytes() > 0);
        let mut told = keeps.filter(|(_, machine)| self.is_being_told(machine.life));
        told.next().map(|(node, machine)| {
            format!("node {node}, which keeps {} bytes, is told something", machine.kept_bytes())
        })
    }

    /// Whether something is on its way from the service node to a boot of a node: in the pipe to its I/O node, there,
    /// or behind it.
    fn is_being_told(&self, life: LifeId) -> bool {
        let pset = self.pset_of(life.node);
        let is_ordered = self.ordered_ns.get(&pset).is_some_and(|at_ns| *at_ns >= self.now_ns);
        let io_node = self.io_nodes.get(&pset);
        let waits = io_node.is_some_and(|io_node| {
            let mut lines = io_node.lines.keys();
            !io_node.orders.is_empty() || lines.any(|line| !io_node.machine.transmit(*line).is_empty())
        });
        let is_its = |connection: &Connection| connection.caller == life && connection.io_node().is_some();
        let is_said = |connection: &Connection| is_its(connection) && connection.is_heard_soon(End::Caller);
        is_ordered || waits || !self.network.lock().of(is_said).is_empty()
    }

    /// What the service node believes nodes to hold when nothing goes on any more is what they hold, and no other
    /// memory of theirs is in use.
    pub(super) fn check_holdings(&mut self) -> Result<(), Violation> {
        self.check_retained()?;
        self.what_is_kept(false).map_or(Ok(()), |what| Err(Violation::new(what)))
    }

    /// The same before another job runs on all nodes, which does for words that were lost with a connection.
    pub(super) fn check_holdings_but_for_lost_words(&mut self) -> Result<(), Violation> {
        self.check_retained()?;
        let of_others = self.what_is_kept(true);
        of_others.map_or(Ok(()), |what| Err(Violation::new(what)))
    }

    /// What a node keeps to which no word can have been lost, if that is of interest.
    pub(super) fn what_is_kept(&self, but_for_lost_words: bool) -> Option<String> {
        let network = self.network.lock();
        let is_excused = |machine: &Machine| but_for_lost_words && network.lost_by(machine.life) > 0;
        let mut keeps = self.machines.values().filter(|machine| machine.kept_bytes() > 0 && !is_excused(machine));
        keeps.next().map(|machine| {
            let (node, kept) = (machine.life.node, machine.kept_bytes());
            format!("node {node}: the kernel keeps {kept} bytes for programs, of which none runs")
        })
    }

    fn check_retained(&mut self) -> Result<(), Violation> {
        let Some(Ok(nodes)) = self.host.ask(Request::Nodes, self.now_ns) else { return Ok(()) };
        let mut retained = 0;
        for view in nodes {
            let Some(machine) = self.machines.get(&NodeId(view.node)) else { continue };
            let held = machine.retention.held();
            retained += held.len() as u64;
            self.checkers.retention.held(&view, &held, machine.frames_held())?;
        }
        self.trace.count("programs that nodes hold at the end", retained);
        Ok(())
    }
}
