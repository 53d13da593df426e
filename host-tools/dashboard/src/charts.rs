//! Charts, as SVG that is part of a page: text and axes have the page's colours, so that they are readable in light and
//! in dark, and what a chart shows is also said in words, for who cannot see it.

pub(crate) mod cells;
pub(crate) mod shares;

use std::fmt;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::prelude::SVGBackend;

/// Width of a chart in its own units; a page shows it as wide as there is room.
const WIDTH: u32 = 900;

/// Size of text, in the same units.
const TEXT: u32 = 14;

/// A chart, which is the same for the same data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Svg(String);

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there is no chart: what was to be drawn cannot be, such as an axis without length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for ChartError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws one of that height. `label` says in words what it shows.
fn drawn(label: &str, height: u32, draw: impl FnOnce(&Area<'_>) -> Result<(), ChartError>) -> Result<Svg, ChartError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    // As wide as the page has room for it, and with its name.
    let (_, inner) = text.split_once('>').ok_or_else(|| ChartError("no SVG was drawn".to_owned()))?;
    let label = askama::filters::escape(label, askama::filters::Html).map_err(|error| ChartError(error.to_string()))?;
    Ok(Svg(format!(r#"<svg class="chart" role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {height}">{inner}"#)))
}

/// A span in seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
