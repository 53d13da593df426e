//! Which processor a machine has: one of QEMU's models, with features added and taken away.

use std::fmt;
use std::str::FromStr;

/// Longest text of a processor, bytes: all features there are, added and taken away.
pub const PROCESSOR_BYTES_MAX: usize = 4096;

/// The model that has all QEMU can emulate.
const EVERYTHING: &str = "max";

/// The model that is the host's own processor, under KVM.
const HOST: &str = "host";

/// A processor: `MODEL[,±FEATURE…]`, such as `Haswell,-xsave,+smap`. Whether there is such a model QEMU knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    model: String,
    /// Features, in their order, and whether they are added.
    features: Vec<(String, bool)>,
}

/// A text that names no processor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// Longer than [`PROCESSOR_BYTES_MAX`].
    #[error("a processor is named by at most {PROCESSOR_BYTES_MAX} bytes")]
    TooLong,
    /// Something that can be no name of a model.
    #[error("'{0}' is no processor model: `qemu-system-x86_64 -cpu help` lists them")]
    Model(String),
    /// Something that adds or takes away no feature.
    #[error("'{0}' is no feature: write +NAME or -NAME, such as -xsave")]
    Feature(String),
}

impl Processor {
    /// A model as QEMU has it, which the caller knows.
    fn known(model: &str) -> Self {
        Self { model: model.to_owned(), features: Vec::new() }
    }

    /// All that QEMU can emulate.
    #[must_use]
    pub fn everything() -> Self {
        Self::known(EVERYTHING)
    }

    /// The host's own.
    #[must_use]
    pub fn host() -> Self {
        Self::known(HOST)
    }

    /// The same with one feature more, or less.
    #[must_use]
    pub fn with(mut self, feature: &str, is_added: bool) -> Self {
        self.features.push((feature.to_owned(), is_added));
        self
    }

    /// Whether only the processor itself, and no emulation, can be it.
    #[must_use]
    pub fn needs_host(&self) -> bool {
        self.model == HOST
    }
}

/// Whether a text is a name as QEMU has them.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&letter))
}

impl FromStr for Processor {
    type Err = ProcessorError;

    fn from_str(text: &str) -> Result<Self, ProcessorError> {
        if text.len() > PROCESSOR_BYTES_MAX {
            return Err(ProcessorError::TooLong);
        }
        let mut words = text.split(',');
        let model = words.next().filter(|word| is_name(word) && *word != "help");
        let model =
            model.ok_or_else(|| ProcessorError::Model(text.split(',').next().unwrap_or_default().to_owned()))?;
        let feature = |word: &str| {
            let wrong = || ProcessorError::Feature(word.to_owned());
            let (sign, name) = word.split_at_checked(1).ok_or_else(wrong)?;
            match sign {
                "+" | "-" if is_name(name) => Ok((name.to_owned(), sign == "+")),
                _ => Err(wrong()),
            }
        };
        let features = words.map(feature).collect::<Result<_, _>>()?;
        Ok(Self { model: model.to_owned(), features })
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.model)?;
        for (feature, is_added) in &self.features {
            write!(f, ",{}{feature}", if *is_added { '+' } else { '-' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_as_they_are_read() {
        for text in ["max", "Haswell-v4", "qemu64,-sse2", "EPYC,+xsave,-fsgsbase,+sse4.1,-pcid"] {
            assert_eq!(text.parse::<Processor>().map(|processor| processor.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("max,-smap".parse(), Ok(Processor::everything().with("smap", false)));
        assert!("host,+pcid".parse().is_ok_and(|processor: Processor| processor.needs_host()));
    }

    #[test]
    fn other_options_of_qemus_are_no_processors() {
        let model = |text: &str| ProcessorError::Model(text.to_owned());
        let feature = |text: &str| ProcessorError::Feature(text.to_owned());
        for (text, error) in [
            ("", model("")),
            ("help", model("help")),
            (",+xsave", model("")),
            ("-smap", model("-smap")),
            ("a b", model("a b")),
            ("max,", feature("")),
            ("max,xsave", feature("xsave")),
            ("max,xsave=on", feature("xsave=on")),
            ("max,+xsave=on", feature("+xsave=on")),
            ("max,+", feature("+")),
            ("max,--smap", feature("--smap")),
            ("max,é", feature("é")),
        ] {
            assert_eq!(text.parse::<Processor>(), Err(error), "{text}");
        }
        assert_eq!("x".repeat(PROCESSOR_BYTES_MAX + 1).parse::<Processor>(), Err(ProcessorError::TooLong));
    }
}
