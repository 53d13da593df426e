//! A model of BitTorrent (Cohen, "Incentives Build Robustness in BitTorrent", 2003) among members of equal links that
//! all begin at once: pieces are pulled from neighbours at random, the rarest first.
//!
//! Time goes in rounds of what a piece takes on a link. In a round each member sends one piece at most and gets one at
//! most, home included. A member knows some [`PEERS`] others, its neighbours, [`PEERS_MAX`] at most, and what they had
//! when the round began. In an order that is random in each round, members look among their neighbours, from a random
//! one on, for one that has not been asked yet in this round and has something that they lack; of that they take the
//! piece that fewest of their neighbours have, at random among equals.
//!
//! That is better than what one meets: nobody is choked, questions and announcements cost nothing and are never late,
//! nobody is lost, and members that are whole go on sending. So, as in the fluid model (Qiu and Srikant, "Modeling and
//! Performance Analysis of BitTorrent-Like Peer-to-Peer Networks", 2004), what counts is how well links are used; that
//! model's share of them is not assumed here but comes from the rounds.

use coppice_protocol::distribution::Plan;

use crate::random::Random;

/// Neighbours of a member, about; as many as a client of BitTorrent looks for.
const PEERS: usize = 40;
/// Neighbours of a member at most.
const PEERS_MAX: usize = 80;
/// How often a member that looks for a neighbour is shown one that has enough of them.
const TRIES: usize = 8;

/// When the last member is whole, ns. See this module.
#[must_use]
pub fn random_pull(plan: &Plan, seed: u64) -> f64 {
    let mut swarm = Swarm::new(plan.members as usize + 1, plan.pieces() as usize, seed);
    let mut rounds = 0_u64;
    while !swarm.lacking.is_empty() {
        swarm.round();
        rounds += 1;
    }
    // Questions for the next pieces are under way while one comes, so latency counts once.
    rounds as f64 * plan.piece_ns() as f64 + f64::from(plan.link.latency_ns)
}

/// Who has what.
struct Swarm {
    random: Random,
    pieces: usize,
    /// Words of a member's set of pieces.
    words: usize,
    has: Vec<u64>,
    counts: Vec<usize>,
    /// How many of a member's neighbours have a piece, members one after the other.
    holders: Vec<u8>,
    peers: Vec<Vec<u32>>,
    /// Members that are not whole.
    lacking: Vec<u32>,
    /// Members that send in this round.
    is_busy: Vec<bool>,
    /// Who gets what in this round.
    under_way: Vec<(u32, usize)>,
}

impl Swarm {
    /// So many members, of which the first is home.
    fn new(members: usize, pieces: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let words = pieces.div_ceil(64);
        let mut swarm = Self {
            pieces,
            words,
            has: vec![0; members * words],
            counts: vec![0; members],
            holders: vec![0; members * pieces],
            peers: neighbours(members, &mut random),
            lacking: if pieces > 0 { (1..members as u32).collect() } else { Vec::new() },
            is_busy: vec![false; members],
            under_way: Vec::new(),
            random,
        };
        (0..pieces).for_each(|piece| swarm.got(0, piece));
        swarm
    }

    fn round(&mut self) {
        for last in (1..self.lacking.len()).rev() {
            let other = self.random.length(0, last);
            self.lacking.swap(last, other);
        }
        self.is_busy.fill(false);
        for index in 0..self.lacking.len() {
            let member = self.lacking[index];
            let peers = self.peers[member as usize].len();
            let first = self.random.length(0, peers - 1);
            let found = (0..peers).find_map(|step| {
                let from = self.peers[member as usize][(first + step) % peers] as usize;
                let piece = if self.is_busy[from] { None } else { self.rarest(member as usize, from, first) };
                piece.map(|piece| (from, piece))
            });
            if let Some((from, piece)) = found {
                self.is_busy[from] = true;
                self.under_way.push((member, piece));
            }
        }
        for (member, piece) in std::mem::take(&mut self.under_way) {
            self.got(member as usize, piece);
        }
        self.lacking.retain(|member| self.counts[*member as usize] < self.pieces);
    }

    /// What `member` lacks and `from` has, and fewest of the member's neighbours.
    fn rarest(&self, member: usize, from: usize, salt: usize) -> Option<usize> {
        let holders = &self.holders[member * self.pieces..(member + 1) * self.pieces];
        // Equals are taken in another order by each.
        let start = (member + salt) * 0x9e37_79b9 % self.pieces;
        let mut rarest = None;
        for word in 0..self.words {
            let mut bits = self.has[from * self.words + word] & !self.has[member * self.words + word];
            while bits != 0 {
                let piece = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let behind = if piece < start { piece + self.pieces - start } else { piece - start };
                let key = (holders[piece], behind, piece);
                rarest = Some(rarest.map_or(key, |known| key.min(known)));
            }
        }
        rarest.map(|(_, _, piece)| piece)
    }

    fn got(&mut self, member: usize, piece: usize) {
        self.has[member * self.words + piece / 64] |= 1 << (piece % 64);
        self.counts[member] += 1;
        for peer in &self.peers[member] {
            self.holders[*peer as usize * self.pieces + piece] += 1;
        }
    }
}

/// The neighbours of each member: they know each other. First a tree, so that a way leads to each from home, then some
/// at random.
fn neighbours(members: usize, random: &mut Random) -> Vec<Vec<u32>> {
    let mut peers: Vec<Vec<u32>> = vec![Vec::new(); members];
    for member in 1..members {
        let mut other = random.length(0, member - 1);
        while peers[other].len() >= PEERS_MAX {
            other = (other + 1) % member;
        }
        join(&mut peers, member, other);
    }
    let wanted = PEERS.min(members - 1);
    for member in 0..members {
        for _ in 0..TRIES * PEERS {
            if peers[member].len() >= wanted {
                break;
            }
            let other = random.length(0, members - 1);
            if other != member && peers[other].len() < PEERS_MAX && !peers[member].contains(&(other as u32)) {
                join(&mut peers, member, other);
            }
        }
    }
    peers
}

fn join(peers: &mut [Vec<u32>], one: usize, other: usize) {
    peers[one].push(other as u32);
    peers[other].push(one as u32);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{PEERS, PEERS_MAX, Swarm, neighbours};
    use crate::random::Random;

    #[test]
    fn neighbours_know_each_other_and_a_way_leads_from_home_to_each() {
        for members in [2, 3, 30, 500] {
            let peers = neighbours(members, &mut Random::new(5));
            let mut reached = BTreeSet::from([0]);
            let mut next = vec![0];
            while let Some(member) = next.pop() {
                let of = &peers[member as usize];
                assert_eq!(of.iter().collect::<BTreeSet<_>>().len(), of.len(), "nobody twice");
                assert!((PEERS.min(members - 1) / 2..=PEERS_MAX).contains(&of.len()));
                assert!(of.iter().all(|peer| *peer != member && peers[*peer as usize].contains(&member)));
                next.extend(of.iter().filter(|peer| reached.insert(**peer)));
            }
            assert_eq!(reached.len(), members);
        }
    }

    #[test]
    fn in_a_round_nobody_sends_or_gets_more_than_one_piece() {
        let mut swarm = Swarm::new(60, 70, 1);
        while !swarm.lacking.is_empty() {
            let before = swarm.counts.clone();
            swarm.round();
            let got = || swarm.counts.iter().zip(&before).map(|(after, before)| after - before);
            let sent = swarm.is_busy.iter().filter(|is_busy| **is_busy).count();
            assert!(got().all(|pieces| pieces <= 1));
            assert!(got().sum::<usize>() == sent && sent > 0);
        }
        let sets = swarm.has.chunks(swarm.words);
        assert!(sets.into_iter().all(|set| set.iter().map(|word| word.count_ones()).sum::<u32>() == 70));
    }
}
