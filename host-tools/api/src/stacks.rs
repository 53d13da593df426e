//! What ranks of a job were at, as they were sampled.

use std::path::PathBuf;

use coppice_protocol::text::ByteString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::Text;

/// What ranks of a job were at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StacksView {
    /// The job.
    pub job: u64,
    /// Its program's path as the user gave it.
    #[schema(value_type = Text)]
    pub name: ByteString,
    /// Hash of its program, hexadecimal.
    pub program: String,
    /// A file of the host with exactly the program's bytes; nothing, if none is kept any more.
    #[serde(with = "crate::path::optional")]
    #[schema(value_type = Option<Text>)]
    pub program_file: Option<PathBuf>,
    /// How often a second each rank was sampled; nothing, if it was not always the same.
    pub sample_hz: Option<u32>,
    /// All samples together.
    pub samples: u64,
    /// Those that were seen most often first.
    pub stacks: Vec<StackView>,
}

/// Where a thread was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackView {
    /// Addresses of code, innermost first, the others those that calls return to, such as `0x401136`. None: all that
    /// could not be kept apart.
    #[serde(with = "hexadecimal")]
    #[schema(value_type = Vec<String>)]
    pub frames: Vec<u64>,
    /// How often it was seen.
    pub count: u64,
}

/// Addresses as text: not all who read JSON have numbers of 64 bits.
mod hexadecimal {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(addresses: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(addresses.iter().map(|address| format!("{address:#x}")))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let address = |text: &String| text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let addresses: Option<Vec<u64>> = texts.iter().map(address).collect();
        addresses.ok_or_else(|| D::Error::custom("an address is not as 0x401136"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::{StackView, StacksView};

    #[test]
    fn addresses_and_paths_survive() {
        let file = OsString::from_vec(b"/store/\xff".to_vec());
        let stacks = vec![StackView { frames: vec![0x40_1136, u64::MAX], count: 7 }];
        let view = StacksView {
            job: 3,
            name: "./solve".into(),
            program: "03".repeat(32),
            program_file: Some(file.into()),
            sample_hz: Some(100),
            samples: 7,
            stacks,
        };
        for view in [StacksView { program_file: None, ..view.clone() }, view] {
            let text = serde_json::to_string(&view).expect("text");
            assert!(text.contains(r#"{"frames":["0x401136","0xffffffffffffffff"],"count":7}"#), "{text}");
            assert_eq!(serde_json::from_str::<StacksView>(&text).expect("the same"), view);
        }
        for bad in ["[12]", r#"["12"]"#, r#"["0x"]"#, r#"["0x10000000000000000"]"#] {
            let text = format!(r#"{{"frames":{bad},"count":1}}"#);
            assert!(serde_json::from_str::<StackView>(&text).is_err(), "{bad}");
        }
    }
}
