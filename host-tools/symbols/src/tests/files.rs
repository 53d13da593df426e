//! What is said of whole files.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coppice_protocol::program::LOAD_BASE;

use super::build::{Built, C, CPP, DEEP, OFTEN, RUST, here};
use crate::limits::LOOK_UP_TIME_MAX;
use crate::{Place, Symbols, SymbolsError};

/// The functions at a place, innermost first, as `name file:line`, the line only if one is known.
fn functions(symbols: &Symbols, place: Place) -> Vec<String> {
    functions_in(symbols, place, LOOK_UP_TIME_MAX)
}

fn functions_in(symbols: &Symbols, place: Place, patience: Duration) -> Vec<String> {
    let found = symbols.look_up(&BTreeSet::from([place]), patience);
    let show = |frame: &crate::Frame| match &frame.file {
        Some(file) => format!("{} {}:{}", frame.function, file.rsplit('/').next().unwrap_or_default(), frame.line),
        None => frame.function.clone(),
    };
    found[&place].iter().map(show).collect()
}

#[test]
fn debug_information_has_what_is_inlined_and_lines() {
    let built = Built::plain();
    let symbols = built.symbols();
    assert_eq!(functions(&symbols, here(built.at("within_twice"))), ["twice solve.c:6", "solve solve.c:15"]);
    assert_eq!(functions(&symbols, here(built.at("axpy"))), ["axpy solve.c:11"]);
    let compressed = Built::new(C, &["-static", "-g", "-gz=zlib"], false);
    assert_eq!(functions(&compressed.symbols(), here(compressed.at("axpy"))), ["axpy solve.c:11"]);
}

#[test]
fn a_call_is_before_where_it_returns_to() {
    let built = Built::plain();
    let symbols = built.symbols();
    let returns = |address| Place { address, is_return: true };
    assert_eq!(functions(&symbols, returns(built.at("after_axpy"))), ["solve solve.c:15"]);
    assert_eq!(functions(&symbols, here(built.at("after_axpy"))), ["solve solve.c:16"]);
    // The call of a function that does not return is the last of its function.
    let behind = built.at("behind");
    assert!(functions(&symbols, here(behind))[0].starts_with("behind "));
    assert!(functions(&symbols, returns(behind))[0].starts_with("_start "));
}

#[test]
fn without_debug_information_there_are_symbols() {
    let built = Built::new(C, &["-static"], false);
    let symbols = built.symbols();
    for (at, name) in [("solve", "solve"), ("within_twice", "solve"), ("after_axpy", "solve"), ("_start", "_start")] {
        assert_eq!(functions(&symbols, here(built.at(at))), [name], "{at}");
    }
    let plain = Built::plain();
    let in_no_time = functions_in(&plain.symbols(), here(plain.at("within_twice")), Duration::ZERO);
    assert_eq!(in_no_time, ["solve"], "what there is no time for");
}

#[test]
fn stripped_programs_have_places() {
    let built = Built::new(C, &["-static"], true);
    let start = 0x40_0000;
    let wanted = format!("solve+{:#x}", built.at("axpy") - start);
    assert_eq!(functions(&built.symbols(), here(built.at("axpy"))), [wanted]);
    assert_eq!(functions(&built.symbols(), here(0x1234)), ["[unknown]"]);
    assert_eq!(functions(&built.symbols(), here(u64::MAX)), ["[unknown]"]);
    assert_eq!(functions(&Symbols::without_file("solve"), here(0x40_1136)), ["0x401136"]);
}

#[test]
fn position_independent_programs_lie_where_nodes_put_them() {
    for (options, wanted) in
        [(vec!["-static-pie", "-fPIE", "-g"], "axpy solve.c:11"), (vec!["-static-pie", "-fPIE"], "axpy")]
    {
        let built = Built::new(C, &options, false);
        assert_eq!(functions(&built.symbols(), here(LOAD_BASE + built.at("axpy"))), [wanted]);
        assert_eq!(functions(&built.symbols(), here(built.at("axpy"))), ["[unknown]"]);
    }
    let built = Built::new(C, &["-static-pie", "-fPIE"], true);
    let wanted = format!("solve+{:#x}", built.at("axpy"));
    assert_eq!(functions(&built.symbols(), here(LOAD_BASE + built.at("axpy"))), [wanted]);
}

#[test]
fn names_of_cpp_and_rust_are_as_in_their_sources() {
    for options in [&["-static", "-g"][..], &["-static"]] {
        let built = Built::new(CPP, options, false);
        let name = |part| functions(&built.symbols(), here(built.with(part))).remove(0);
        assert!(name("5solve").starts_with("space::solve(int, double)"), "{}", name("5solve"));
        assert!(name("4axpy").starts_with("space::axpy<int>(int)"), "{}", name("4axpy"));
    }
    for options in [&["-g"][..], &[], &["-g", "-C", "symbol-mangling-version=v0"]] {
        let built = Built::new(RUST, options, false);
        let name = functions(&built.symbols(), here(built.with("5solve"))).pop().expect("one");
        assert!(name.starts_with("solve::space::solve"), "{name}");
    }
}

#[test]
fn debug_information_that_is_too_deep_is_not_used() {
    let build = |depth: &str| Built::new(DEEP, &["-static", depth], false);
    let flat = build("-Wa,--defsym,DEPTH=10");
    assert_eq!(functions(&flat.symbols(), here(flat.at("_start"))), ["by_debug_information"]);
    let deep = build("-Wa,--defsym,DEPTH=3000000");
    assert_eq!(functions(&deep.symbols(), here(deep.at("_start"))), ["_start"]);
}

#[test]
fn debug_information_that_stands_for_far_more_than_it_is_long_is_not_used() {
    let build = |functions: u32, ranges: u32| {
        let numbers = [format!("-Wa,--defsym,FUNCTIONS={functions}"), format!("-Wa,--defsym,RANGES={ranges}")];
        Built::new(OFTEN, &["-static", &numbers[0], &numbers[1]], false)
    };
    let few = build(3, 3);
    assert_eq!(functions(&few.symbols(), here(few.at("_start"))), ["by_debug_information"]);
    // This would take 240 GB.
    let many = build(100_000, 100_000);
    assert_eq!(functions(&many.symbols(), here(many.at("_start"))), ["_start"]);
}

#[test]
fn a_library_may_have_symbols_only() {
    let source = "#include <stdio.h>\nint main(void) {\n    return puts(\"solved\");\n}\n";
    let built = Built::new(("hello.c", source), &["-static", "-g"], false);
    let symbols = built.symbols();
    assert_eq!(functions(&symbols, here(built.at("main"))), ["main hello.c:2"]);
    assert_eq!(functions(&symbols, here(built.at("_IO_puts"))), ["puts"], "of two names that which is written");
}

#[test]
fn what_is_no_program_is_refused_in_one_line() {
    let directory = tempfile::tempdir().expect("directory");
    let error = Symbols::open("x", &directory.path().join("none")).expect_err("no file");
    assert!(matches!(error, SymbolsError::Read { .. }), "{error}");
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n"] {
        let error = Symbols::of("x", bytes.to_vec()).expect_err("no program").to_string();
        assert!(error.starts_with("the program's file is none: ") && !error.contains('\n'), "{error}");
    }
    let file = std::fs::File::create(directory.path().join("long")).expect("file");
    file.set_len(crate::limits::FILE_BYTES_MAX + 1).expect("a hole");
    let error = Symbols::open("x", Path::new("/dev/zero")).expect_err("without end");
    assert_eq!(error.to_string(), "the program's file has more than 1024 MiB");
}
