//! What ranks' time went to, epoch by epoch, as a stack of areas.

use coppice_api::overlay::{EpochView, SpanView};
use plotters::prelude::{AreaSeries, ChartBuilder, RGBColor};

use super::{ChartError, Svg, TEXT, drawn, seconds};

/// Most columns: more epochs are brought together, as there is no room to tell them apart.
const COLUMNS_MAX: usize = 300;

const HEIGHT: u32 = 260;

/// What time goes to, in the order in which it is stacked, with its colour (after Okabe and Ito, whom people who see
/// few colours can tell apart) and in words. Style sheets have the same colours as `.of-NAME`.
pub(crate) const CAUSES: [(&str, (u8, u8, u8), &str); 9] = [
    ("user", (0, 114, 178), "in the program"),
    ("kernel", (86, 180, 233), "in the kernel"),
    ("ready", (204, 121, 167), "ready, while others ran"),
    ("network", (213, 94, 0), "waiting for the network"),
    ("file", (230, 159, 0), "waiting for files"),
    ("page", (240, 228, 66), "waiting for pages"),
    ("input", (120, 94, 240), "waiting for input"),
    ("futex", (0, 158, 115), "waiting for locks"),
    ("sleep", (150, 150, 150), "sleeping"),
];

/// All ranks' time in a span, ns, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Column {
    begin_ns: u64,
    end_ns: u64,
    times: [f64; CAUSES.len()],
}

impl Column {
    fn of(epochs: &[EpochView]) -> Option<Self> {
        let (first, last) = (epochs.first()?, epochs.last()?);
        let mut column =
            Self { begin_ns: first.end_ns.saturating_sub(first.period_ns), end_ns: last.end_ns, ..Self::default() };
        for metric in epochs.iter().flat_map(|epoch| &epoch.metrics) {
            let place = CAUSES.iter().position(|(name, ..)| *name == metric.metric);
            if let Some(time) = place.and_then(|place| column.times.get_mut(place)) {
                *time += metric.sum as f64;
            }
        }
        Some(column)
    }

    fn of_spans(spans: &[SpanView]) -> Option<Self> {
        let (first, last) = (spans.first()?, spans.last()?);
        let mut column = Self { begin_ns: first.begin_ns, end_ns: last.end_ns, ..Self::default() };
        for (name, value) in spans.iter().flat_map(|span| &span.values) {
            let place = CAUSES.iter().position(|(cause, ..)| cause == name);
            if let Some(time) = place.and_then(|place| column.times.get_mut(place)) {
                *time += *value as f64;
            }
        }
        Some(column)
    }

    /// How much of it all goes to the first causes, that one included, in percent.
    fn up_to(&self, cause: usize) -> f64 {
        let all: f64 = self.times.iter().sum();
        if all > 0.0 { self.times.iter().take(cause + 1).sum::<f64>() * 100.0 / all } else { 0.0 }
    }
}

/// How much of all time went to each cause, ns, in the order of [`CAUSES`].
pub(crate) fn totals(epochs: &[EpochView]) -> [f64; CAUSES.len()] {
    Column::of(epochs).map(|column| column.times).unwrap_or_default()
}

/// The chart of all ranks; nothing, if there is nothing to be seen.
pub(crate) fn chart(epochs: &[EpochView]) -> Result<Option<Svg>, ChartError> {
    let each = epochs.len().div_ceil(COLUMNS_MAX).max(1);
    stack(&epochs.chunks(each).filter_map(Column::of).collect::<Vec<_>>(), "the ranks'")
}

/// That of one rank.
pub(crate) fn of_spans(spans: &[SpanView]) -> Result<Option<Svg>, ChartError> {
    let each = spans.len().div_ceil(COLUMNS_MAX).max(1);
    stack(&spans.chunks(each).filter_map(Column::of_spans).collect::<Vec<_>>(), "the rank's")
}

fn stack(columns: &[Column], whose: &str) -> Result<Option<Svg>, ChartError> {
    let begin_ns = columns.iter().map(|column| column.begin_ns).min();
    let end_ns = columns.iter().map(|column| column.end_ns).max();
    let (Some(begin_ns), Some(end_ns)) = (begin_ns, end_ns.filter(|end_ns| Some(*end_ns) > begin_ns)) else {
        return Ok(None);
    };
    let label = format!("What {whose} time went to, over {:.1} seconds", seconds(end_ns - begin_ns));
    let at = |ns: u64| seconds(ns.saturating_sub(begin_ns));
    let svg = drawn(&label, HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(TEXT)
            .x_label_area_size(3 * TEXT)
            .y_label_area_size(4 * TEXT)
            .build_cartesian_2d(0.0..at(end_ns), 0.0..100.0)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .x_desc("seconds since the overlay began")
            .y_desc("percent of all time")
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(("sans-serif", TEXT))
            .draw()?;
        // The whole first, and less and less of it in front of that.
        for (cause, (_, (red, green, blue), _)) in CAUSES.iter().enumerate().rev() {
            let steps = columns.iter().flat_map(|column| {
                let height = column.up_to(cause);
                [(at(column.begin_ns), height), (at(column.end_ns), height)]
            });
            chart.draw_series(AreaSeries::new(steps, 0.0, RGBColor(*red, *green, *blue)))?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::{CAUSES, chart, totals};
    use crate::tests::epoch;

    #[test]
    fn a_column_is_all_of_its_time() {
        let epochs = [epoch(0, &[("user", 3), ("sleep", 1)]), epoch(1, &[("user", 1), ("network", 3), ("calls", 99)])];
        let told: Vec<_> = CAUSES.iter().zip(totals(&epochs)).filter(|(_, time)| *time > 0.0).collect();
        let told: Vec<_> = told.into_iter().map(|((name, ..), time)| (*name, time as u64)).collect();
        assert_eq!(told, [("user", 4), ("network", 3), ("sleep", 1)]);
        insta::assert_snapshot!(chart(&epochs).expect("drawn").expect("something").to_string());
    }

    #[test]
    fn of_nothing_there_is_none_and_of_very_much_one_of_bounded_size() {
        assert_eq!(chart(&[]).expect("drawn"), None);
        let many: Vec<_> = (0..10_000).map(|number| epoch(number, &[("user", number), ("file", 7)])).collect();
        let svg = chart(&many).expect("drawn").expect("something").to_string();
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
    }

    /// What is on the page beside the chart has its colours.
    #[test]
    fn the_style_sheet_has_the_same_colours() {
        let sheet = include_str!("../../templates/style.css");
        for (name, (red, green, blue), _) in CAUSES {
            let rule = format!(".of-{name} {{ background: #{red:02x}{green:02x}{blue:02x}; }}");
            assert!(sheet.contains(&rule), "{rule}");
        }
    }
}
