//! What one direction of a link does to a frame: pass it, lose it, or let it arrive later. Time is an argument.

use crate::command::Shape;
use crate::limits::{LATENCY_NS_MAX, LINK_BACKLOG_BYTES_MAX};

const NS_PER_S: u128 = 1_000_000_000;

/// State of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Shaper {
    shape: Shape,
    /// Nothing to do: the shape is the default one and no frame is under way that could be overtaken.
    idle: bool,
    random: Random,
    /// When the last frame has left the sender, ns.
    sent_ns: u64,
    /// When the last frame arrives, ns. A frame never overtakes another, not even when the latency falls.
    arrival_ns: u64,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there at once.
    Arrived,
    /// It arrives at this time, ns.
    ArrivesAt(u64),
    /// The link is cut.
    Cut,
    /// It got lost.
    Lost,
    /// Too many frames wait to be sent.
    QueueFull,
}

impl Shape {
    /// Whether the shape makes sense.
    ///
    /// # Errors
    /// Which value does not, and what would.
    pub fn check(&self) -> Result<(), String> {
        if self.latency_ns > LATENCY_NS_MAX {
            return Err(format!("latency_ns is {}, and at most {LATENCY_NS_MAX} is possible", self.latency_ns));
        }
        if self.loss_ppm > 1_000_000 {
            return Err(format!("loss_ppm is {}, and a million is everything", self.loss_ppm));
        }
        if self.bandwidth_bits_per_s == Some(0) {
            return Err("bandwidth_bits_per_s is 0: use cut for a link that carries nothing".into());
        }
        Ok(())
    }
}

impl Shaper {
    /// A direction of `shape`. Two with the same seed lose the same frames.
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, idle: shape == Shape::default(), random: Random(seed), sent_ns: 0, arrival_ns: 0 }
    }

    /// Replaces the shape. What was lost so far has no bearing on what will be: loss starts anew from `seed`.
    pub(crate) fn reshape(&mut self, shape: Shape, seed: u64) {
        self.shape = shape;
        self.random = Random(seed);
        self.sent_ns = 0;
        self.idle = shape == Shape::default() && self.arrival_ns == 0;
    }

    /// Whether nothing passes.
    pub(crate) fn is_cut(&self) -> bool {
        self.shape.cut
    }

    /// What becomes of a frame of `bytes` that is sent now.
    pub(crate) fn admit(&mut self, bytes: usize, now_ns: impl FnOnce() -> u64) -> Fate {
        if self.idle {
            return Fate::Arrived;
        }
        if self.shape.cut {
            return Fate::Cut;
        }
        if self.random.strikes(self.shape.loss_ppm) {
            return Fate::Lost;
        }
        let now_ns = now_ns();
        let mut sent_ns = now_ns;
        if let Some(bits_per_s) = self.shape.bandwidth_bits_per_s {
            let start_ns = self.sent_ns.max(now_ns);
            let backlog_bytes = u128::from(start_ns - now_ns) * u128::from(bits_per_s) / (8 * NS_PER_S);
            if backlog_bytes + bytes as u128 > u128::from(LINK_BACKLOG_BYTES_MAX) {
                return Fate::QueueFull;
            }
            let duration_ns = (bytes as u128 * 8 * NS_PER_S).div_ceil(u128::from(bits_per_s));
            sent_ns = start_ns.saturating_add(u64::try_from(duration_ns).unwrap_or(u64::MAX));
            self.sent_ns = sent_ns;
        }
        let arrival_ns = sent_ns.saturating_add(self.shape.latency_ns).max(self.arrival_ns);
        if arrival_ns > now_ns {
            self.arrival_ns = arrival_ns;
            return Fate::ArrivesAt(arrival_ns);
        }
        self.arrival_ns = 0;
        self.idle = self.shape == Shape::default();
        Fate::Arrived
    }
}

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// True in `ppm` of a million cases.
    fn strikes(&mut self, ppm: u32) -> bool {
        ppm != 0 && (u128::from(self.next()) * 1_000_000) >> 64 < u128::from(ppm)
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The seed of one direction of one link, from the switch's: what one link loses does not depend on what others carry.
pub(crate) fn link_seed(seed: u64, link: &str, to_station: bool) -> u64 {
    link.bytes().fold(mix(seed ^ u64::from(to_station)), |seed, byte| mix(seed ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaper(shape: Shape) -> Shaper {
        Shaper::new(shape, 1)
    }

    #[test]
    fn no_shape_asks_no_clock() {
        assert_eq!(shaper(Shape::default()).admit(9000, || unreachable!()), Fate::Arrived);
    }

    #[test]
    fn bandwidth_spaces_frames_and_bounds_the_queue() {
        let mut link = shaper(Shape { bandwidth_bits_per_s: Some(8_000_000), latency_ns: 500, ..Shape::default() });
        assert_eq!(link.admit(1000, || 0), Fate::ArrivesAt(1_000_500));
        assert_eq!(link.admit(1000, || 0), Fate::ArrivesAt(2_000_500));
        assert_eq!(link.admit(1000, || 5_000_000), Fate::ArrivesAt(6_000_500));
        let fates: Vec<_> = (0..3000).map(|_| link.admit(1000, || 5_000_000)).collect();
        let taken = fates.iter().take_while(|fate| **fate != Fate::QueueFull).count();
        assert_eq!(taken as u64, LINK_BACKLOG_BYTES_MAX / 1000 - 1);
    }

    #[test]
    fn a_slow_link_for_ever_does_not_overflow() {
        let mut link = shaper(Shape { bandwidth_bits_per_s: Some(1), latency_ns: u64::MAX, ..Shape::default() });
        assert_eq!(link.admit(9000, || u64::MAX - 1), Fate::ArrivesAt(u64::MAX));
    }

    #[test]
    fn frames_do_not_overtake_when_latency_falls() {
        let mut link = shaper(Shape { latency_ns: 1000, ..Shape::default() });
        assert_eq!(link.admit(60, || 100), Fate::ArrivesAt(1100));
        link.reshape(Shape::default(), 1);
        assert_eq!(link.admit(60, || 200), Fate::ArrivesAt(1100));
        assert_eq!(link.admit(60, || 1100), Fate::Arrived);
        assert_eq!(link.admit(60, || unreachable!()), Fate::Arrived);
    }

    #[test]
    fn loss_is_as_asked_and_reproducible() {
        let lost = |seed| {
            let mut link = Shaper::new(Shape { loss_ppm: 10_000, ..Shape::default() }, seed);
            (0..100_000).filter(|_| link.admit(60, || 0) == Fate::Lost).collect::<Vec<_>>()
        };
        assert_eq!(lost(7), lost(7));
        assert_ne!(lost(7), lost(8));
        assert!((800..1200).contains(&lost(7).len()), "{}", lost(7).len());
        assert_ne!(link_seed(1, "n0", true), link_seed(1, "n0", false));
        assert_ne!(link_seed(1, "n0", true), link_seed(1, "n1", true));
        let mut all = shaper(Shape { loss_ppm: 1_000_000, ..Shape::default() });
        assert!((0..1000).all(|_| all.admit(60, || 0) == Fate::Lost));
    }

    #[test]
    fn senseless_shapes_are_refused() {
        assert!(Shape { loss_ppm: 1_000_001, ..Shape::default() }.check().is_err());
        assert!(Shape { latency_ns: LATENCY_NS_MAX + 1, ..Shape::default() }.check().is_err());
        assert!(Shape { bandwidth_bits_per_s: Some(0), ..Shape::default() }.check().is_err());
        assert!(Shape { loss_ppm: 1_000_000, cut: true, ..Shape::default() }.check().is_ok());
    }
}
