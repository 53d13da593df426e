//! Names of functions as their languages write them.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

use crate::limits::{NAME_BYTES_MAX, NAME_DEPTH_MAX};

/// A name of C++ or Rust as its source has it, any other as it is.
pub(crate) fn demangled(name: &str) -> String {
    let rust = rustc_demangle::try_demangle(name).ok().map(|rust| {
        let mut text = Short::default();
        // Without the hash at its end, which tells people nothing.
        let _ = write!(text, "{rust:#}");
        text
    });
    // Names of the linker's become what they are with a version behind them, such as `memcpy@@GLIBC_2.14`.
    rust.or_else(|| cpp(name)).map_or_else(|| cut(name), |short| short.0)
}

fn cpp(name: &str) -> Option<Short> {
    // Longer ones are none of a compiler's.
    if !name.starts_with("_Z") || name.len() > 16 * NAME_BYTES_MAX {
        return None;
    }
    let parsing = ParseOptions::default().recursion_limit(NAME_DEPTH_MAX);
    let symbol = Symbol::new_with_options(name.as_bytes(), &parsing).ok()?;
    let writing = DemangleOptions::new().no_return_type().recursion_limit(NAME_DEPTH_MAX);
    let mut text = Short::default();
    match symbol.structured_demangle(&mut text, &writing) {
        Ok(()) => Some(text),
        // It is long enough to be recognised: a few bytes can stand for a name without end.
        Err(_) if text.0.len() >= NAME_BYTES_MAX => Some(text),
        Err(_) => None,
    }
}

/// The beginning of a name that is too long.
pub(crate) fn cut(name: &str) -> String {
    let mut text = Short::default();
    let _ = text.write_str(name);
    text.0
}

/// Text that takes no more than [`NAME_BYTES_MAX`] and says so.
#[derive(Default)]
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_BYTES_MAX.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        self.0.push('…');
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::demangled;
    use crate::limits::NAME_BYTES_MAX;

    #[test]
    fn names_are_as_in_the_source() {
        assert_eq!(demangled("main"), "main");
        assert_eq!(demangled("_ZN5space5solveEid"), "space::solve(int, double)");
        assert_eq!(demangled("_Z4axpyIdEvT_S0_"), "axpy<double>(double, double)");
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangled("_Zsomething"), "_Zsomething");
        assert_eq!(demangled("solve.constprop.0"), "solve.constprop.0");
    }

    #[test]
    fn a_name_that_stands_for_one_without_end_is_cut() {
        // Each parameter is a pair of the one before, twice.
        let mut name = String::from("_Z1f1AIiiE");
        for last in ["S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_", "SA_", "SB_", "SC_", "SD_"] {
            name += &format!("S_I{last}{last}E");
        }
        let text = demangled(&name);
        assert!(text.len() <= NAME_BYTES_MAX + '…'.len_utf8(), "{}", text.len());
        assert!(demangled(&"ü".repeat(2 * NAME_BYTES_MAX)).ends_with("ü…"));
    }

    proptest! {
        #[test]
        fn any_name_has_some(name in "(_Z|_ZN|_R|)[0-9A-Za-z_.$]{0,200}") {
            prop_assert!(demangled(&name).len() <= NAME_BYTES_MAX + '…'.len_utf8());
        }
    }
}
