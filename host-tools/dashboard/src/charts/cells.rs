//! Fields of cells, the stronger their colour the more: ranks by time, ranks by nodes.

use plotters::prelude::{ChartBuilder, RGBColor, Rectangle};
use plotters::style::Color;

use super::{ChartError, Svg, TEXT, drawn};

/// Of the most there is.
const COLOUR: RGBColor = RGBColor(0, 114, 178);

/// Height of a row, and the least and most of all of them.
const ROW: u32 = 18;
const HEIGHT: (u32, u32) = (4 * ROW, 24 * ROW);

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Which row it is in, counted from above.
    pub(crate) row: usize,
    /// From where …
    pub(crate) begin: f64,
    /// … to where it goes.
    pub(crate) end: f64,
    /// How strong its colour is, from 0 to 1.
    pub(crate) share: f64,
}

/// What is to be seen.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// In words.
    pub(crate) label: String,
    /// What rows are.
    pub(crate) rows: &'a [String],
    /// What a row's name is of.
    pub(crate) row_name: &'a str,
    /// What goes from left to right, and how far: from 0 on.
    pub(crate) across: (&'a str, f64),
    /// What is at a place there, if it is not that number.
    pub(crate) columns: Option<&'a [String]>,
    pub(crate) cells: Vec<Cell>,
}

/// The chart; nothing, if there is nothing to be seen.
pub(crate) fn chart(field: &Field<'_>) -> Result<Option<Svg>, ChartError> {
    let (across, width) = field.across;
    if field.rows.is_empty() || field.cells.is_empty() || !width.is_finite() || width <= 0.0 {
        return Ok(None);
    }
    let rows = field.rows.len();
    let height = (rows as u32).saturating_mul(ROW).clamp(HEIGHT.0, HEIGHT.1) + 5 * TEXT;
    let row_name = |at: &f64| {
        let row = rows as f64 - at;
        let is_middle = (row.fract() - 0.5).abs() < 0.01;
        let name = if is_middle { field.rows.get(row as usize) } else { None };
        name.cloned().unwrap_or_default()
    };
    let column_name = |at: &f64| match field.columns {
        None => format!("{}", (at * 100.0).round() / 100.0),
        Some(columns) if (at.fract() - 0.5).abs() < 0.01 => columns.get(*at as usize).cloned().unwrap_or_default(),
        Some(_) => String::new(),
    };
    let svg = drawn(&field.label, height, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(TEXT)
            .x_label_area_size(3 * TEXT)
            .y_label_area_size(5 * TEXT)
            .build_cartesian_2d(0.0..width, 0.0..rows as f64)?;
        chart
            .configure_mesh()
            .disable_mesh()
            // Twice as many as there are, so that the middles are among them.
            .y_labels(2 * rows + 1)
            .x_labels(field.columns.map_or(10, |columns| 2 * columns.len() + 1))
            .x_label_formatter(&column_name)
            .y_label_formatter(&row_name)
            .x_desc(across)
            .y_desc(field.row_name)
            .label_style(("sans-serif", TEXT))
            .draw()?;
        chart.draw_series(field.cells.iter().filter(|cell| cell.row < rows).map(|cell| {
            let bottom = (rows - cell.row) as f64 - 1.0;
            let ends = [(cell.begin.max(0.0), bottom + 0.04), (cell.end.min(width), bottom + 0.96)];
            Rectangle::new(ends, COLOUR.mix(cell.share.clamp(0.0, 1.0)).filled())
        }))?;
        Ok(())
    })?;
    Ok(Some(svg))
}

#[cfg(test)]
mod tests {
    use super::{Cell, Field, chart};

    fn field(cells: Vec<Cell>) -> Field<'static> {
        static ROWS: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
        let rows = ROWS.get_or_init(|| vec!["0".to_owned(), "5".to_owned()]);
        let label = "what \"they\" <do>".to_owned();
        Field { label, rows, row_name: "rank", across: ("seconds", 2.0), columns: None, cells }
    }

    #[test]
    fn cells_are_where_they_belong() {
        let cell = |row, begin, share| Cell { row, begin, end: begin + 1.0, share };
        let svg = chart(&field(vec![cell(0, 0.0, 0.25), cell(1, 1.0, 1.0), cell(7, 0.0, 1.0)]));
        insta::assert_snapshot!(svg.expect("drawn").expect("something").to_string());
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let cell = Cell { row: 0, begin: f64::NAN, end: f64::INFINITY, share: f64::NAN };
        assert!(chart(&field(vec![cell])).expect("drawn").is_some());
        assert_eq!(chart(&field(vec![])).expect("drawn"), None);
        let without_width = Field { across: ("seconds", 0.0), ..field(vec![cell]) };
        assert_eq!(chart(&without_width).expect("drawn"), None);
    }
}
