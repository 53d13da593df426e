//! Names for what ranks of a job were at when somebody looked.

use coppice_api::stacks::StacksView;
use coppice_symbols::{Stack, Symbols};

/// The stacks, as names are looked for.
#[must_use]
pub fn stacks(view: &StacksView) -> Vec<Stack> {
    view.stacks.iter().map(|stack| (stack.frames.clone(), stack.count)).collect()
}

/// The names of the job's program, or of none of its functions if they cannot be had, and why.
#[must_use]
pub fn symbols(view: &StacksView) -> (Symbols, Option<String>) {
    let path = String::from_utf8_lossy(&view.name);
    let program = path.rsplit('/').next().unwrap_or_default();
    let found = match &view.program_file {
        Some(file) => Symbols::open(program, file).map_err(|error| error.to_string()),
        None => Err("its program is not kept any more".to_owned()),
    };
    match found {
        Ok(symbols) => (symbols, None),
        Err(why) => (Symbols::without_file(program), Some(why)),
    }
}

#[cfg(test)]
mod tests {
    use coppice_api::stacks::{StackView, StacksView};

    use super::symbols;

    #[test]
    fn without_its_file_a_program_has_its_name() {
        let view = StacksView {
            job: 7,
            name: "./build/solve".into(),
            program: "03".repeat(32),
            program_file: None,
            sample_hz: Some(100),
            samples: 1200,
            stacks: vec![StackView { frames: vec![0x40_1136], count: 1200 }],
        };
        let (named, why) = symbols(&view);
        assert_eq!((named.program(), why.as_deref()), ("solve", Some("its program is not kept any more")));
        let (named, why) = symbols(&StacksView { program_file: Some("/no/such/file".into()), ..view });
        assert!(named.program() == "solve" && why.is_some());
    }
}
