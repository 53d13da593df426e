//! Which bars there are: of each figure that has a number, with what it is held against.

use anyhow::{Result, bail};

use super::quantity::{Quantity, Unit};
use crate::bench::Figure;

/// The longest name that there is room for, characters.
const NAME_MAX: usize = 200;

/// What has an axis in common.
pub(super) struct Panel {
    pub(super) unit: Unit,
    pub(super) bars: Vec<Bar>,
}

/// A figure.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) text: String,
    pub(super) peers: Vec<Peer>,
    /// What is wanted of it, and how that was said.
    pub(super) wanted: Option<(f64, String)>,
}

/// What it is held against.
pub(super) struct Peer {
    pub(super) value: f64,
    pub(super) text: String,
}

impl Panel {
    /// How far its axis goes.
    pub(super) fn most(&self) -> f64 {
        let of = |bar: &Bar| {
            let peers = bar.peers.iter().map(|peer| peer.value).fold(bar.value, f64::max);
            bar.wanted.as_ref().map_or(peers, |(value, _)| peers.max(*value))
        };
        let most = self.bars.iter().map(of).fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    }
}

/// The bars of some figures, in the order of these.
///
/// # Errors
/// If what is called a number or a name is none.
pub(super) fn panels(figures: &[Figure]) -> Result<Vec<Panel>> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut put = |unit, bar| match panels.iter_mut().find(|panel| panel.unit == unit) {
        Some(panel) => panel.bars.push(bar),
        None => panels.push(Panel { unit, bars: vec![bar] }),
    };
    for figure in figures {
        let name = checked_name(&figure.name)?;
        let Some(measured) = quantity(&figure.measured, name, name)? else { continue };
        let mut bar = Bar {
            name: name.to_owned(),
            value: measured.value,
            text: figure.measured.clone(),
            peers: Vec::new(),
            wanted: None,
        };
        let mut elsewhere = Vec::new();
        for piece in figure.beside.split("; ") {
            let Some((label, number)) = piece.rsplit_once(": ") else { continue };
            let Some(peer) = quantity(number, &figure.name, label)? else { continue };
            checked_name(label)?;
            if peer.unit == measured.unit {
                bar.peers.push(Peer { value: peer.value, text: piece.to_owned() });
            } else {
                let name = format!("{name}: {label}");
                let text = number.to_owned();
                elsewhere.push((peer.unit, Bar { name, value: peer.value, text, peers: Vec::new(), wanted: None }));
            }
        }
        let wanted = figure.wanted.trim_start_matches(['≤', '≥', ' ']);
        let wanted = quantity(wanted, name, name)?.filter(|wanted| wanted.unit == measured.unit);
        bar.wanted = wanted.map(|wanted| (wanted.value, figure.wanted.to_owned()));
        put(measured.unit, bar);
        elsewhere.into_iter().for_each(|(unit, bar)| put(unit, bar));
    }
    Ok(panels)
}

/// A number that can be drawn, if there is one.
fn quantity(text: &str, name: &str, of: &str) -> Result<Option<Quantity>> {
    match Quantity::of(text, name) {
        Some(quantity) if !quantity.value.is_finite() => {
            bail!("{}: {text:?} is no number to be drawn", of.escape_debug())
        }
        found => Ok(found),
    }
}

/// Something to be called by.
fn checked_name(name: &str) -> Result<&str> {
    let length = name.chars().count();
    if name.trim().is_empty() || length > NAME_MAX || name.chars().any(char::is_control) {
        let begin: String = name.chars().take(40).collect();
        bail!("{begin:?} is no name for a bar: one line of 1 to {NAME_MAX} characters");
    }
    Ok(name)
}
