//! What people use today, as models of the same links: what it takes at best.

use coppice_protocol::distribution::Plan;

use crate::random::Random;

/// How a file gets to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One copy after another, from home.
    Sequential,
    /// Each member sends the whole file on to this many, one after another, when it has it: what `sbcast` does with a
    /// fan-out of 50.
    StoreAndForward(u32),
    /// Each member that has the whole file sends it to one that has not.
    Binomial,
    /// One after another in a chain, piece by piece.
    Chain,
}

impl Model {
    /// When the last member is whole, ns.
    #[must_use]
    pub fn whole_ns(self, plan: &Plan) -> f64 {
        let copy_ns = plan.link_ns(u64::from(plan.pieces()) * plan.wire_bytes(0, plan.packets(0))) as f64;
        let (members, latency_ns) = (f64::from(plan.members), f64::from(plan.link.latency_ns));
        match self {
            Self::Sequential => members * copy_ns + latency_ns,
            Self::StoreAndForward(fan_out) => {
                let (mut reached, mut layer, mut layers) = (0.0, 1.0, 0.0);
                let fan_out = f64::from(fan_out.max(1));
                while reached < members {
                    layer *= fan_out;
                    reached += layer;
                    layers += 1.0;
                }
                // In the last layer somebody may have fewer below it.
                let last = (members - (reached - layer)) / (layer / fan_out);
                ((layers - 1.0) * fan_out + last.ceil()) * copy_ns + layers * latency_ns
            }
            Self::Binomial => (members + 1.0).log2().ceil() * (copy_ns + latency_ns),
            Self::Chain => copy_ns + (members - 1.0) * (plan.piece_ns() as f64 + latency_ns),
        }
    }
}

/// As BitTorrent at its best: in each piece's time everybody sends one piece to somebody at random who lacks one that
/// it has, the rarest of those; everybody knows at once who has what. When the last is whole, ns.
#[must_use]
pub fn random_pull(plan: &Plan, seed: u64) -> f64 {
    let (members, pieces) = (plan.members as usize + 1, plan.pieces() as usize);
    let words = pieces.div_ceil(64);
    let mut random = Random::new(seed);
    let mut has = vec![0_u64; members * words];
    let mut holders = vec![1_u32; pieces];
    (0..pieces).for_each(|piece| has[piece / 64] |= 1 << (piece % 64));
    let mut lacking: Vec<usize> = (1..members).collect();
    let mut slots = 0_u64;
    while !lacking.is_empty() {
        slots += 1;
        let before = has.clone();
        let mut is_busy = vec![false; members];
        for sender in 0..members {
            // It looks for somebody who is free to receive and lacks something.
            for _ in 0..8 {
                let receiver = lacking[random.next() as usize % lacking.len()];
                if receiver == sender || is_busy[receiver] {
                    continue;
                }
                let wanted = (0..words).flat_map(|word| {
                    let mut bits = before[sender * words + word] & !has[receiver * words + word];
                    std::iter::from_fn(move || {
                        let bit = bits.trailing_zeros() as usize;
                        bits &= bits.wrapping_sub(1);
                        (bit < 64).then_some(word * 64 + bit)
                    })
                });
                let start = random.next();
                let order = |piece: usize| start.rotate_left(piece as u32 % 64) ^ piece as u64;
                let rarest = wanted.min_by_key(|piece| (holders[*piece], order(*piece)));
                if let Some(piece) = rarest {
                    has[receiver * words + piece / 64] |= 1 << (piece % 64);
                    holders[piece] += 1;
                    is_busy[receiver] = true;
                    break;
                }
            }
        }
        lacking.retain(|member| {
            let count: u32 = has[member * words..(member + 1) * words].iter().map(|word| word.count_ones()).sum();
            count as usize != pieces
        });
    }
    slots as f64 * (plan.piece_ns() as f64) + f64::from(plan.link.latency_ns)
}
