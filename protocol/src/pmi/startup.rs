//! How ranks of a job are to find each other, where whoever runs it wants that otherwise than its nodes would choose.

use serde::{Deserialize, Serialize};

use super::modex::Modex;

/// See this module. It comes with the launch, so that all nodes of a job know the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Startup {
    /// How they come to know what others have put; nothing: by how many they are ([`Modex::of`]).
    pub modex: Option<Modex>,
}
