//! How ranks of a job are to find each other, where whoever runs it wants that otherwise than its nodes would choose.

use serde::{Deserialize, Serialize};

use super::fence::Fence;
use super::modex::Modex;

/// See this module. It comes with the launch, so that all nodes of a job know the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Startup {
    /// How they come to know what others have put; nothing: by how many they are ([`Modex::of`]).
    pub modex: Option<Modex>,
    /// By which algorithm they meet; nothing: by the one that is predicted to be quickest ([`Fence::choose`]).
    pub fence: Option<Fence>,
}
