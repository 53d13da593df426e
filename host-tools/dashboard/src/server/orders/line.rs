//! What was put into a form, and the command line that it makes.
//!
//! Whatever is in a field is the value of an option or an operand, and never an option itself: values are joined to
//! their options, and operands come after `--`.

use super::verbs::{About, Field, Kind, Part, Verb};

/// What is in the fields of a form.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    verb: &'static Verb,
    /// In the order of the fields.
    values: Vec<String>,
}

/// Why there is no command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("there is no field “{0}”")]
    NoField(String),
    #[error("{0}: something must be said here")]
    Missing(&'static str),
    #[error("{0}: this is not one of the choices")]
    NoChoice(&'static str),
    #[error("{0}: no quotation may be left open")]
    Open(&'static str),
    #[error("{0}: nothing may have a byte 0 in it")]
    Zero(&'static str),
}

/// A field and what is in it.
pub(super) struct Shown<'a> {
    pub(super) field: &'static Field,
    pub(super) value: &'a str,
}

impl Filled {
    /// As it is at first, but for what is given.
    pub(super) fn with(verb: &'static Verb, given: &[(String, String)]) -> Result<Self, Wrong> {
        let mut values: Vec<String> = verb.fields.iter().map(|field| field.value.to_owned()).collect();
        for (name, value) in given {
            let place = verb.fields.iter().position(|field| field.name == name);
            let place = place.ok_or_else(|| Wrong::NoField(name.clone()))?;
            values[place] = value.trim().to_owned();
        }
        Ok(Self { verb, values })
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = Shown<'_>> {
        self.verb.fields.iter().zip(&self.values).map(|(field, value)| Shown { field, value })
    }

    /// The command line, without the tool's name.
    pub(super) fn line(&self) -> Result<Vec<String>, Wrong> {
        let mut line: Vec<String> = self.verb.words.iter().copied().map(str::to_owned).collect();
        let mut operands: Vec<String> = Vec::new();
        for Shown { field, value } in self.fields() {
            if value.contains('\0') {
                return Err(Wrong::Zero(field.label));
            }
            if let Kind::Choice(all) = field.kind
                && all.iter().all(|(known, _)| *known != value)
            {
                return Err(Wrong::NoChoice(field.label));
            }
            match (value, field.part) {
                ("", _) if field.is_needed => return Err(Wrong::Missing(field.label)),
                ("", _) => {}
                (value, Part::Value(option)) => line.push(format!("{option}={value}")),
                (value, Part::Values(option)) => {
                    let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
                    line.extend(lines.map(|value| format!("{option}={value}")));
                }
                (value, Part::Option) => line.push(value.to_owned()),
                (value, Part::Operand) => operands.push(value.to_owned()),
                (value, Part::Operands) => operands.extend(shlex::split(value).ok_or(Wrong::Open(field.label))?),
            }
        }
        operands.extend(self.verb.ends.iter().copied().map(str::to_owned));
        if !operands.is_empty() {
            line.push("--".to_owned());
            line.append(&mut operands);
        }
        Ok(line)
    }

    /// The page that it is about.
    pub(super) fn page(&self) -> String {
        match self.verb.about {
            About::Cluster | About::NewJob => "/".to_owned(),
            About::Job => {
                let job = self.fields().find(|shown| shown.field.name == "job");
                job.and_then(|shown| shown.value.parse::<u64>().ok())
                    .map_or_else(|| "/".to_owned(), |job| format!("/jobs/{job}"))
            }
            About::Nodes => "/nodes".to_owned(),
            About::Programs => "/programs".to_owned(),
            About::Links => "/links".to_owned(),
            About::Checkpoints => "/checkpoints".to_owned(),
        }
    }
}

/// A command line as it would be typed.
pub(super) fn typed(line: &[String]) -> String {
    // What has a byte 0 in it cannot be typed, and was refused.
    let quoted = |text: &str| shlex::try_quote(text).map_or_else(|_| text.to_owned(), Into::into);
    let word = |word: &String| match word.split_once('=') {
        Some((option, value)) if option.starts_with("--") => format!("{}={}", quoted(option), quoted(value)),
        _ => quoted(word),
    };
    ["coppice".to_owned()].into_iter().chain(line.iter().map(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::super::verbs::{Part, VERBS, Verb};
    use super::{Filled, Wrong, typed};

    fn given(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn line(verb: &str, fields: &[(&str, &str)]) -> Result<String, Wrong> {
        let verb = Verb::find(verb).expect("there is one");
        Ok(typed(&Filled::with(verb, &given(fields))?.line()?))
    }

    #[test]
    fn lines_are_what_would_be_typed() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let filled: &[Case<'_>] = &[
            ("kill", &[("job", "7")], "coppice kill --signal=TERM -- 7"),
            ("down", &[], "coppice down"),
            ("overlay", &[("job", "7"), ("rate", "10")], "coppice overlay --rate=10 -- 7 on"),
            ("forget", &[], "coppice forget"),
            ("trace", &[("job", "7"), ("rank", "1")], "coppice trace --rank=1 --seconds=5 -- 7"),
            ("gdb", &[("job", "7")], "coppice gdb --print -- 7 0"),
            ("link", &[("links", "io0"), ("cut", "--cut")], "coppice link --cut --direction=both -- io0"),
            (
                "run",
                &[
                    ("program", "./a b"),
                    ("arguments", "-x 'y z'"),
                    ("environment", "A=1\r\n\r\nB=two words\n"),
                    ("overlay", ""),
                ],
                "coppice run --detach --ranks=1 --ranks-per-node=1 --env='A=1' --env='B=two words' -- './a b' -x 'y z'",
            ),
        ];
        for (verb, fields, wanted) in filled {
            assert_eq!(line(verb, fields).as_deref(), Ok(*wanted));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (verb, fields, wanted) in [
            ("kill", vec![], Wrong::Missing("Job")),
            ("kill", vec![("job", " ")], Wrong::Missing("Job")),
            ("kill", vec![("job", "7"), ("signal", "NONE")], Wrong::NoChoice("Signal")),
            ("kill", vec![("job", "7"), ("x", "")], Wrong::NoField("x".to_owned())),
            ("run", vec![("program", "x"), ("arguments", "'")], Wrong::Open("Arguments")),
            ("run", vec![("program", "x\0")], Wrong::Zero("Program")),
            ("link", vec![("links", "1"), ("cut", "--pcap=/x")], Wrong::NoChoice("Frames")),
            ("trace", vec![("job", "7"), ("seconds", "100000")], Wrong::NoChoice("How long")),
            ("trace", vec![("job", "7"), ("output", "/x")], Wrong::NoField("output".to_owned())),
            ("gdb", vec![("job", "7"), ("rank", "")], Wrong::Missing("Rank")),
        ] {
            assert_eq!(line(verb, &fields), Err(wanted));
        }
    }

    #[test]
    fn every_verb_has_a_button() {
        let templates = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
        let templates = std::fs::read_dir(templates).expect("templates").map(|file| file.expect("a file").path());
        let text: String = templates.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
        for verb in VERBS {
            let leads = |end: &str| text.contains(&format!("href=\"/orders/{}{end}", verb.name));
            assert!(leads("\"") || leads("?"), "{}", verb.name);
        }
    }

    #[test]
    fn verbs_are_told_apart() {
        for (place, verb) in VERBS.iter().enumerate() {
            assert!(VERBS[..place].iter().all(|other| other.name != verb.name), "{}", verb.name);
            for (place, field) in verb.fields.iter().enumerate() {
                assert!(verb.fields[..place].iter().all(|other| other.name != field.name), "{}", field.name);
            }
        }
    }

    proptest! {
        /// Whatever is in a form, options are the verb's own.
        #[test]
        fn nothing_becomes_an_option(which in any::<proptest::sample::Index>(), values in vec("[-a-z=' /]{0,8}", 16)) {
            let verb = &VERBS[which.index(VERBS.len())];
            let free = verb.fields.iter().zip(values).filter(|(field, _)| field.part != Part::Option);
            let given: Vec<(String, String)> = free.map(|(field, value)| (field.name.to_owned(), value)).collect();
            let Ok(line) = Filled::with(verb, &given).expect("its fields").line() else { return Ok(()) };
            prop_assert!(line.starts_with(&verb.words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()));
            for word in line[verb.words.len()..].iter().take_while(|word| *word != "--") {
                let known = verb.fields.iter().any(|field| match field.part {
                    Part::Value(option) | Part::Values(option) => {
                        word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
                    }
                    Part::Option | Part::Operand | Part::Operands => false,
                });
                prop_assert!(known, "{word} of {line:?}");
            }
            // A shell takes it for what it is.
            let words = shlex::split(&typed(&line)).expect("all quotations are closed");
            prop_assert_eq!(&words[1..], &line[..]);
        }
    }
}
