//! Figures as bars, each above what it is held against: SVG, with a style sheet, so that it is readable in light and in
//! dark. Figures of one unit have an axis in common. The same figures give the same text.

mod bars;
mod quantity;

use std::fmt::Write;

use anyhow::{Result, bail};

use self::bars::{Bar, Panel, panels};
use super::{Figure, grouped};

/// Where bars begin, and how long the longest may be.
const LEFT: f64 = 16.0;
const LENGTH: f64 = 520.0;

/// Height of a bar with what is beside it, of a line of text, and of the axis below a panel.
const BAR: f64 = 18.0;
const LINE: f64 = 22.0;
const AXIS: f64 = 42.0;

/// About as wide as a character, and as one of a name, which is bold.
const CHARACTER: f64 = 7.2;
const BOLD: f64 = 8.2;

/// Ticks of an axis, at most.
const TICKS_MAX: f64 = 6.0;

const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}\
.ground{fill:#ffffff}.title,.name{font-weight:600}.of{fill:#0969da}.peer{fill:#8c959f}\
.wanted{stroke:#cf222e;stroke-width:2;stroke-dasharray:4 2}.axis{stroke:#8c959f}\
.tick{text-anchor:middle}\n\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.of{fill:#4493f8}\
.peer{fill:#7d8590}.wanted{stroke:#ff7b72}.axis{stroke:#7d8590}}";

/// Draws the figures of a group.
///
/// # Errors
/// None of them has a number, or one cannot be drawn: one line.
pub(super) fn svg(group: &str, figures: &[Figure]) -> Result<String> {
    let panels = panels(figures)?;
    if panels.is_empty() {
        bail!("{group}: nothing was measured that can be drawn");
    }
    let mut picture = Picture { text: String::new(), y: 8.0, width: 2.0 * LEFT + LENGTH };
    picture.head(group);
    for panel in &panels {
        picture.panel(panel);
    }
    let (width, height, inner) = (picture.width, picture.y, picture.text);
    let label = escaped(&format!("What cargo xtask bench {group} measured, as bars"));
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         aria-label=\"{label}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{inner}</svg>\n"
    ))
}

/// What is drawn so far, from above.
struct Picture {
    text: String,
    y: f64,
    width: f64,
}

impl Picture {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(element);
        self.text.push('\n');
    }

    /// Text that the picture is made wide enough for.
    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let character = if ["title", "name"].contains(&class) { BOLD } else { CHARACTER };
        self.width = self.width.max(x + text.chars().count() as f64 * character + LEFT);
        self.add(format_args!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(text)));
    }

    fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64) {
        let height = BAR - 4.0;
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"));
    }

    /// What it is made with, and what is what.
    fn head(&mut self, group: &str) {
        self.y += LINE;
        self.text("title", LEFT, self.y - 6.0, &format!("cargo xtask bench {group}"));
        for (class, x, what) in [("of", 0.0, "measured"), ("peer", 110.0, "beside it"), ("wanted", 220.0, "wanted")] {
            let x = LEFT + x;
            match class {
                "wanted" => self.line(class, (x + 5.0, self.y), (x + 5.0, self.y + BAR - 4.0)),
                _ => self.rectangle(class, x, self.y, BAR - 4.0),
            }
            self.text("", x + BAR, self.y + 11.5, what);
        }
        self.y += LINE + 6.0;
    }

    fn panel(&mut self, panel: &Panel) {
        let scale = LENGTH / panel.most();
        let top = self.y;
        for bar in &panel.bars {
            self.bar(bar, scale);
        }
        self.line("axis", (LEFT, top), (LEFT, self.y));
        self.line("axis", (LEFT, self.y), (LEFT + LENGTH, self.y));
        for (at, label) in ticks(panel.most()) {
            let x = LEFT + at * scale;
            self.line("axis", (x, self.y), (x, self.y + 4.0));
            self.text("tick", x, self.y + 17.0, &label);
        }
        self.text("tick", LEFT + LENGTH / 2.0, self.y + 33.0, panel.unit.axis());
        self.y += AXIS + 8.0;
    }

    fn bar(&mut self, bar: &Bar, scale: f64) {
        let title = match &bar.wanted {
            Some((_, text)) => format!("{} (wanted: {text})", bar.name),
            None => bar.name.clone(),
        };
        self.text("name", LEFT + 6.0, self.y + 15.0, &title);
        self.y += LINE;
        let top = self.y;
        let wanted = bar.wanted.as_ref().map(|(value, _)| LEFT + value * scale);
        self.length("of", bar.value * scale, &bar.text, wanted);
        for peer in &bar.peers {
            self.length("peer", peer.value * scale, &peer.text, wanted);
        }
        if let Some(x) = wanted {
            self.line("wanted", (x, top - 2.0), (x, self.y));
        }
        self.y += 6.0;
    }

    /// A bar, with what it stands for behind it, and not where the line is at which that should be.
    fn length(&mut self, class: &str, length: f64, text: &str, wanted: Option<f64>) {
        // What is less than nothing, as a difference of loads may be, is none; a little can be seen.
        let length = if length > 0.0 { length.max(1.0) } else { 0.0 };
        self.rectangle(class, LEFT, self.y, length);
        let x = LEFT + length + 6.0;
        let end = x + text.chars().count() as f64 * CHARACTER;
        let free = wanted.filter(|wanted| (x - 6.0..end).contains(wanted)).map_or(x, |wanted| wanted + 6.0);
        self.text("", free, self.y + 11.5, text);
        self.y += BAR;
    }
}

/// Round places on an axis that goes that far, with what they are called.
fn ticks(most: f64) -> Vec<(f64, String)> {
    let least = most / TICKS_MAX;
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * power);
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let label = |at: f64| if digits == 0 { grouped(at as u64) } else { format!("{at:.digits$}") };
    (0..).map(|number| f64::from(number) * step).take_while(|at| *at <= most).map(|at| (at, label(at))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{svg, ticks};
    use crate::bench::Figure;

    fn figure(name: &str, measured: &str, beside: &str, wanted: &'static str) -> Figure {
        Figure { name: name.into(), measured: measured.into(), beside: beside.into(), wanted }
    }

    #[test]
    fn a_plot_has_each_name_and_each_number() {
        let figures = [
            figure("up of 16 nodes", "3.52 s", "16 machines, 2 at a time: 2.90 s", "≤ 6 s"),
            figure("a run", "48.3 ms", "mpiexec, no emulation: 12.1 ms; srun: absent", "–"),
            figure("barrier by <tree> & \"ring\"", "7 ms", "over links: 12 345 bytes", "≤ 1.10 ×"),
            figure("a checkpoint, instructions", "1 234 567", "with one page: 5 000", "≤ 1000000"),
            figure("what a page has the node do", "-0.1 % of a core", "–", "≤ 1 %"),
            figure("the same under CRIU", "not here", "–", "–"),
        ];
        let drawn = svg("launch", &figures).expect("there are figures");
        for text in [
            "cargo xtask bench launch",
            "up of 16 nodes (wanted: ≤ 6 s)",
            ">3.52 s<",
            ">16 machines, 2 at a time: 2.90 s<",
            ">48.3 ms<",
            ">mpiexec, no emulation: 12.1 ms<",
            "barrier by &lt;tree&gt; &amp; &quot;ring&quot;<",
            "barrier by &lt;tree&gt; &amp; &quot;ring&quot;: over links<",
            ">12 345 bytes<",
            "a checkpoint, instructions (wanted: ≤ 1000000)",
            ">1 234 567<",
            ">with one page: 5 000<",
            ">-0.1 % of a core<",
            ">time, ms<",
            ">bytes<",
            ">instructions<",
            ">share, %<",
            "prefers-color-scheme:dark",
        ] {
            assert!(drawn.contains(text), "no {text} in {drawn}");
        }
        assert!(!drawn.contains("CRIU") && !drawn.contains("absent"), "{drawn}");
        assert_eq!(drawn, svg("launch", &figures).expect("again"));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_in_a_line() {
        let refused = |figures: &[Figure]| {
            let said = format!("{:#}", svg("launch", figures).expect_err("nothing to be drawn"));
            assert!(!said.contains(['\n', '\x1b']), "{said:?}");
            said
        };
        assert_eq!(refused(&[]), "launch: nothing was measured that can be drawn");
        assert_eq!(refused(&[figure("a", "–", "b: 1 ms", "–")]), "launch: nothing was measured that can be drawn");
        for number in ["NaN ms", "inf ms", "-inf", "9e999 s"] {
            assert!(refused(&[figure("a", number, "–", "–")]).contains("is no number"), "{number}");
            assert!(refused(&[figure("a", "1 ms", &format!("b: {number}"), "–")]).contains("is no number"), "{number}");
        }
        for name in ["", "  ", "two\nlines", "\x1b[31mred", &"x".repeat(300)] {
            assert!(refused(&[figure(name, "1 ms", "–", "–")]).contains("is no name"), "{name:?}");
        }
        assert!(refused(&[figure("a", "1 ms", "b\u{7}: 2 ms", "–")]).contains("is no name"));
    }

    #[test]
    fn ticks_are_round() {
        let labels = |most| ticks(most).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(6000.0), ["0", "1 000", "2 000", "3 000", "4 000", "5 000", "6 000"]);
        assert_eq!(labels(0.9), ["0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(3.0), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"]);
    }
}
