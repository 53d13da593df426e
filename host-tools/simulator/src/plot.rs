//! A plot of how long something takes, against the number of those who take part: both axes logarithmic, as what people
//! use today lies thousands of times above the bound. The same curves give the same text.

use plotters::prelude::{
    ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement, RGBColor, SVGBackend,
    SeriesLabelPosition, WHITE,
};
use plotters::style::{BLACK, ShapeStyle};

/// Width and height, pixels.
const SIZE: (u32, u32) = (900, 600);
/// Of the curves, one after the other; those of more curves begin anew.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 50, 32),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(120, 94, 240),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(140, 86, 75),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// What the axes are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Those who take part.
    pub x: &'static str,
    /// The time, with its unit.
    pub y: &'static str,
}

/// One way of doing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is called.
    pub name: String,
    /// It is a model, and no run of the machines: its line is thin.
    pub is_model: bool,
    /// Those who take part, and the time.
    pub points: Vec<(u32, f64)>,
}

/// Draws curves, as SVG.
///
/// # Errors
/// There is nothing to draw, or it cannot be drawn: one line.
pub fn svg(curves: &[Curve], axes: Axes) -> Result<String, String> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let (first, last) = (points().map(|point| point.0).min(), points().map(|point| point.0).max());
    let (Some(first), Some(last)) = (first.filter(|members| *members > 0), last) else {
        return Err("there are no points to draw".into());
    };
    let most = points().map(|point| point.1).fold(2.0, f64::max);
    if !most.is_finite() || points().any(|point| point.1.is_nan() || point.1 <= 0.0) {
        return Err("a time to be drawn is none".into());
    }
    // One size alone has some room beside it.
    let members = f64::from(first)..f64::from(last).max(f64::from(first) * 2.0);
    let mut text = String::new();
    draw(&mut text, (curves, axes), members, most * 1.5).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text)
}

fn draw(
    text: &mut String,
    (curves, axes): (&[Curve], Axes),
    members: std::ops::Range<f64>,
    most: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(members.log_scale().base(4.0), (1.0..most).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|members| format!("{members:.0}"))
        .y_label_formatter(&|times| format!("{times:.0}"))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let style =
            ShapeStyle { color: colour.to_rgba(), filled: true, stroke_width: if curve.is_model { 1 } else { 3 } };
        let points = || curve.points.iter().map(|(members, times)| (f64::from(*members), *times));
        chart
            .draw_series(LineSeries::new(points(), style))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(points().map(|point| Circle::new(point, 3, style)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Axes, Curve, svg};

    const AXES: Axes = Axes { x: "members", y: "time, in units of what the bytes take on one link" };

    fn curves() -> Vec<Curve> {
        let curve = |name: &str, is_model, points: &[(u32, f64)]| Curve {
            name: name.into(),
            is_model,
            points: points.to_vec(),
        };
        vec![
            curve("two trees", false, &[(16, 1.04), (64, 1.05), (256, 1.06)]),
            curve("one copy after another", true, &[(16, 16.4), (64, 65.5), (256, 262.0)]),
        ]
    }

    #[test]
    fn a_small_plot() {
        insta::assert_snapshot!(svg(&curves(), AXES).expect("points"));
    }

    #[test]
    fn what_is_no_time_is_not_drawn() {
        assert!(svg(&[], AXES).is_err());
        for times in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let mut curves = curves();
            curves[1].points[2].1 = times;
            assert!(svg(&curves, AXES).is_err(), "{times}");
        }
        let mut curves = curves();
        curves.truncate(1);
        curves[0].points.truncate(1);
        assert!(svg(&curves, AXES).is_ok_and(|text| text.contains("two trees")), "one size alone can be drawn");
        curves[0].points[0].0 = 0;
        assert!(svg(&curves, AXES).is_err(), "no members");
    }
}
