//! What a link is like, and how that is changed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::limits::LINK_LATENCY_NS_MAX;

/// What one direction of a link is like. The default is as fast as the host allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkShape {
    /// Bits per second; none: no limit.
    pub bandwidth_bits_per_s: Option<u64>,
    /// How long a frame is under way beyond the time to send it, ns.
    pub latency_ns: u64,
    /// Frames lost, of a million.
    pub loss_ppm: u32,
    /// Nothing passes.
    pub cut: bool,
}

/// Both directions of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkShapes {
    /// To the station.
    pub to: LinkShape,
    /// From the station.
    pub from: LinkShape,
}

impl LinkShapes {
    /// A link that is the same in both directions.
    #[must_use]
    pub fn both(shape: LinkShape) -> Self {
        Self { to: shape, from: shape }
    }

    /// Which way it is cut, if it is.
    #[must_use]
    pub fn cut(&self) -> Option<Direction> {
        match (self.to.cut, self.from.cut) {
            (true, true) => Some(Direction::Both),
            (true, false) => Some(Direction::To),
            (false, true) => Some(Direction::From),
            (false, false) => None,
        }
    }

    /// Its directions; one, if both are alike.
    pub fn directions(&self) -> impl Iterator<Item = (Direction, LinkShape)> {
        let alike = self.to == self.from;
        let first = if alike { Direction::Both } else { Direction::To };
        [(first, self.to)].into_iter().chain((!alike).then_some((Direction::From, self.from)))
    }
}

/// Which way on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the station.
    To,
    /// From the station.
    From,
    /// Both ways.
    #[default]
    Both,
}

/// A bandwidth that a link is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bandwidth {
    /// As fast as the host allows.
    Unlimited,
    /// So much.
    BitsPerSecond(u64),
}

/// What is to be different about a link. What is not named stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkChange {
    /// Which way.
    #[serde(default)]
    pub direction: Direction,
    /// Its bandwidth.
    pub bandwidth: Option<Bandwidth>,
    /// Its latency, ns, at most a minute.
    pub latency_ns: Option<u64>,
    /// Frames it loses, of a million.
    pub loss_ppm: Option<u32>,
    /// Whether it is cut.
    pub cut: Option<bool>,
}

impl LinkChange {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        Self { direction: Direction::default(), ..*self } == Self::default()
    }

    /// Whether there can be such a link.
    ///
    /// # Errors
    /// One line: what cannot be, and what can.
    pub fn check(&self) -> Result<(), String> {
        if let Some(latency_ns) = self.latency_ns.filter(|latency_ns| *latency_ns > LINK_LATENCY_NS_MAX) {
            let most = LINK_LATENCY_NS_MAX / 1_000_000_000;
            return Err(format!("a latency of {latency_ns} ns is more than a link can have; give at most {most} s"));
        }
        if let Some(loss_ppm) = self.loss_ppm.filter(|loss_ppm| *loss_ppm > 1_000_000) {
            return Err(format!("{loss_ppm} frames lost of a million cannot be; give at most all of them, 100%"));
        }
        if self.bandwidth == Some(Bandwidth::BitsPerSecond(0)) {
            return Err("a link of 0 bits per second carries nothing; cut it instead".to_owned());
        }
        Ok(())
    }

    /// What a link becomes by it.
    #[must_use]
    pub fn applied_to(&self, shapes: LinkShapes) -> LinkShapes {
        let LinkShapes { to, from } = shapes;
        LinkShapes {
            to: if self.direction == Direction::From { to } else { self.applied(to) },
            from: if self.direction == Direction::To { from } else { self.applied(from) },
        }
    }

    fn applied(&self, shape: LinkShape) -> LinkShape {
        LinkShape {
            bandwidth_bits_per_s: match self.bandwidth {
                None => shape.bandwidth_bits_per_s,
                Some(Bandwidth::Unlimited) => None,
                Some(Bandwidth::BitsPerSecond(bits)) => Some(bits),
            },
            latency_ns: self.latency_ns.unwrap_or(shape.latency_ns),
            loss_ppm: self.loss_ppm.unwrap_or(shape.loss_ppm),
            cut: self.cut.unwrap_or(shape.cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bandwidth, Direction, LINK_LATENCY_NS_MAX, LinkChange, LinkShape, LinkShapes};

    const SHAPE: LinkShape = LinkShape { bandwidth_bits_per_s: Some(1_000), latency_ns: 5, loss_ppm: 7, cut: false };

    #[test]
    fn what_is_not_named_stays() {
        let shapes = LinkShapes::both(SHAPE);
        assert_eq!(LinkChange::default().applied_to(shapes), shapes);
        let cut = LinkChange { cut: Some(true), ..LinkChange::default() };
        assert_eq!(cut.applied_to(shapes), LinkShapes::both(LinkShape { cut: true, ..SHAPE }));
        let mend = LinkChange { cut: Some(false), ..LinkChange::default() };
        assert_eq!(mend.applied_to(cut.applied_to(shapes)), shapes);
        let fast = LinkChange { bandwidth: Some(Bandwidth::Unlimited), latency_ns: Some(0), ..LinkChange::default() };
        let expected = LinkShape { bandwidth_bits_per_s: None, latency_ns: 0, ..SHAPE };
        assert_eq!(fast.applied_to(shapes), LinkShapes::both(expected));
    }

    #[test]
    fn one_direction_leaves_the_other_alone() {
        let shapes = LinkShapes::both(SHAPE);
        let change = |direction| LinkChange {
            direction,
            bandwidth: Some(Bandwidth::BitsPerSecond(9)),
            loss_ppm: Some(0),
            ..LinkChange::default()
        };
        let changed = LinkShape { bandwidth_bits_per_s: Some(9), loss_ppm: 0, ..SHAPE };
        assert_eq!(change(Direction::To).applied_to(shapes), LinkShapes { to: changed, from: SHAPE });
        assert_eq!(change(Direction::From).applied_to(shapes), LinkShapes { to: SHAPE, from: changed });
        assert_eq!(change(Direction::Both).applied_to(shapes), LinkShapes::both(changed));
    }

    #[test]
    fn a_direction_alone_is_no_change() {
        assert!(LinkChange { direction: Direction::To, ..LinkChange::default() }.is_nothing());
        assert!(!LinkChange { cut: Some(false), ..LinkChange::default() }.is_nothing());
    }

    #[test]
    fn links_that_cannot_be_are_refused() {
        let none = LinkChange::default();
        let latency = |latency_ns| LinkChange { latency_ns: Some(latency_ns), ..none }.check();
        assert!(latency(LINK_LATENCY_NS_MAX).is_ok() && latency(LINK_LATENCY_NS_MAX + 1).is_err());
        let loss = |loss_ppm| LinkChange { loss_ppm: Some(loss_ppm), ..none }.check();
        assert!(loss(1_000_000).is_ok() && loss(1_000_001).is_err());
        let bandwidth = |bits| LinkChange { bandwidth: Some(Bandwidth::BitsPerSecond(bits)), ..none }.check();
        assert!(bandwidth(1).is_ok() && bandwidth(0).is_err());
    }
}
