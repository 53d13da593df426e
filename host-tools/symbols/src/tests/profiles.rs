//! What is made of stacks.

use std::time::Duration;

use super::build::Built;
use crate::limits::LOOK_UP_TIME_MAX;
use crate::pprof::Pprof;
use crate::{Profile, Row, Stack, Symbols};

/// Stacks as ranks have them: innermost first, the others where calls return to.
fn stacks(built: &Built) -> Vec<Stack> {
    let at = |name| built.at(name);
    let (in_start, in_solve) = (at("behind"), at("after_axpy"));
    vec![
        (vec![at("axpy"), in_solve, in_start], 60),
        (vec![at("axpy") + 1, in_solve, in_start], 20),
        (vec![at("within_twice"), in_start], 15),
        (vec![at("spin"), in_start], 3),
        (vec![0x7fff_1234], 1),
        (vec![], 1),
    ]
}

#[test]
fn lines_are_folded() {
    let built = Built::plain();
    let symbols = built.symbols();
    let profile = Profile::new(&symbols, &stacks(built), LOOK_UP_TIME_MAX);
    assert_eq!(profile.samples(), 100);
    insta::assert_snapshot!(profile.folded(), @"
    [unknown] 2
    _start;solve;axpy 80
    _start;solve;twice 15
    _start;spin 3
    ");
}

#[test]
fn functions_are_listed_by_their_own_time() {
    let built = Built::plain();
    let symbols = built.symbols();
    let row = |function: &str, own, all| Row { function: function.to_owned(), own, all };
    let profile = Profile::new(&symbols, &stacks(built), LOOK_UP_TIME_MAX);
    let wanted = [row("axpy", 80, 80), row("twice", 15, 15), row("spin", 3, 3), row("[unknown]", 2, 2)];
    assert_eq!(profile.top(4), wanted);
    assert_eq!(profile.top(10)[4..], [row("_start", 0, 98), row("solve", 0, 95)]);
    let (solve, calls_itself) = (built.at("after_axpy"), built.at("after_axpy"));
    let recursive = [(vec![solve, calls_itself, calls_itself], 4)];
    assert_eq!(Profile::new(&symbols, &recursive, LOOK_UP_TIME_MAX).top(10), [row("solve", 4, 4)]);
}

#[test]
fn flame_graphs_are_drawn() {
    let built = Built::plain();
    let symbols = built.symbols();
    let profile = Profile::new(&symbols, &stacks(built), LOOK_UP_TIME_MAX);
    let draw = || String::from_utf8(profile.flame_graph("job 3", "solve <8 ranks>").expect("drawn")).expect("text");
    let svg = draw();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for words in ["<title>axpy (80 samples, 80.00%)</title>", "job 3", "solve &lt;8 ranks&gt;"] {
        assert!(svg.contains(words), "{words} in {svg}");
    }
    assert_eq!(svg, draw());
    let nothing = Profile::new(&symbols, &[], Duration::ZERO);
    assert!(nothing.flame_graph("", "").is_err() && nothing.folded().is_empty());
}

#[test]
fn pprof_reads_what_it_needs() {
    let built = Built::plain();
    let symbols = built.symbols();
    let profile = Profile::new(&symbols, &stacks(built), LOOK_UP_TIME_MAX);
    let file = profile.pprof(Some(100)).to_file().expect("written");
    assert_eq!(file[..2], [0x1f, 0x8b], "gzip");
    let read = Pprof::from_file(&file, 1 << 20).expect("read");
    assert_eq!(read, profile.pprof(Some(100)));
    let types: Vec<_> = read.sample_type.iter().map(|of| (read.text(of.r#type), read.text(of.unit))).collect();
    assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!((read.string_table[0].as_str(), read.period), ("", 10_000_000));
    assert_eq!(read.sample.len(), 6);
    assert_eq!(read.sample[0].value, [60, 600_000_000]);
    let mapping = read.mapping[0];
    assert_eq!((mapping.id, read.text(mapping.filename)), (1, "solve"));
    assert!(mapping.has_functions && mapping.has_filenames && mapping.has_line_numbers && mapping.has_inline_frames);
    let names = |sample: usize| {
        let of = |id: &u64| {
            let location = read.location.iter().find(|location| location.id == *id).expect("there");
            location.line.iter().map(|line| {
                let function = read.function.iter().find(|function| function.id == line.function_id).expect("there");
                let file = read.text(function.filename).rsplit('/').next().unwrap_or_default().to_owned();
                (read.text(function.name).to_owned(), file, line.line, location.mapping_id)
            })
        };
        read.sample[sample].location_id.iter().flat_map(of).collect::<Vec<_>>()
    };
    let line = |name: &str, file: &str, line, mapping| (name.to_owned(), file.to_owned(), line, mapping);
    let (twice, solve) = (line("twice", "solve.c", 6, 1), line("solve", "solve.c", 15, 1));
    assert_eq!(names(2)[..2], [twice, solve]);
    assert_eq!([names(4), names(5)], [[line("[unknown]", "", 0, 0)], [line("[unknown]", "", 0, 0)]]);
    for location in &read.location {
        assert_eq!(location.mapping_id == 1, (mapping.memory_start..mapping.memory_limit).contains(&location.address));
    }
}

#[test]
fn without_a_rate_there_are_no_times() {
    let symbols = Symbols::without_file("solve");
    let profile = Profile::new(&symbols, &[(vec![0x40_1136], u64::MAX)], Duration::ZERO).pprof(None);
    assert_eq!((profile.sample_type.len(), profile.period, profile.period_type), (1, 0, None));
    assert_eq!(profile.sample[0].value, [i64::MAX]);
    assert_eq!((profile.mapping.len(), profile.text(profile.function[0].name)), (0, "0x401136"));
    let zero = Profile::new(&symbols, &[], Duration::ZERO).pprof(Some(0));
    assert_eq!(zero.sample_type.len(), 1);
}

#[test]
fn a_file_of_something_else_is_none() {
    assert!(Pprof::from_file(b"no gzip", 1 << 20).is_err());
    let symbols = Symbols::without_file("solve");
    let file = Profile::new(&symbols, &[], Duration::ZERO).pprof(None).to_file().expect("written");
    assert!(Pprof::from_file(&file, 3).is_err(), "cut");
}
