//! Which processor a machine has: one of QEMU's models, with features added, taken away and given values.

use std::fmt;
use std::str::FromStr;

/// Longest text of a processor, bytes: all features there are, added and taken away.
pub const PROCESSOR_BYTES_MAX: usize = 4096;

/// The model that has all QEMU can emulate.
const EVERYTHING: &str = "max";

/// The model that is the host's own processor, under KVM.
const HOST: &str = "host";

/// A processor: `MODEL[,±FEATURE|,NAME=VALUE…]`, such as `Haswell,-xsave,+smap,level=13`. Whether there is such a model
/// QEMU knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    model: String,
    /// What is changed of the model, in order.
    changes: Vec<Change>,
}

/// What is changed of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// It has a feature.
    With(String),
    /// It has it not.
    Without(String),
    /// Something of it has this value.
    Is(String, String),
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
    /// Something that changes nothing of a processor.
    #[error("'{0}' is no feature: write +NAME, -NAME or NAME=VALUE, such as -xsave or level=13")]
    Feature(String),
}

impl Processor {
    /// A model as QEMU has it, which the caller knows.
    fn known(model: &str) -> Self {
        Self { model: model.to_owned(), changes: Vec::new() }
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
        let change = if is_added { Change::With } else { Change::Without };
        self.changes.push(change(feature.to_owned()));
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
        let change = |word: &str| {
            let named = |name: &str| is_name(name).then(|| name.to_owned());
            let change = match (word.strip_prefix('+'), word.strip_prefix('-'), word.split_once('=')) {
                (Some(feature), _, _) => named(feature).map(Change::With),
                (_, Some(feature), _) => named(feature).map(Change::Without),
                (_, _, Some((name, value))) => {
                    named(name).zip(named(value)).map(|(name, value)| Change::Is(name, value))
                }
                _ => None,
            };
            change.ok_or_else(|| ProcessorError::Feature(word.to_owned()))
        };
        let changes = words.map(change).collect::<Result<_, _>>()?;
        Ok(Self { model: model.to_owned(), changes })
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.model)?;
        self.changes.iter().try_for_each(|change| match change {
            Change::With(feature) => write!(f, ",+{feature}"),
            Change::Without(feature) => write!(f, ",-{feature}"),
            Change::Is(name, value) => write!(f, ",{name}={value}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_written_as_they_are_read() {
        for text in ["max", "Haswell-v4", "qemu64,-sse2", "EPYC,+xsave,-fsgsbase,+sse4.1,level=13,-pcid"] {
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
            ("max,xsave=", feature("xsave=")),
            ("max,=on", feature("=on")),
            ("max,level=1=2", feature("level=1=2")),
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
