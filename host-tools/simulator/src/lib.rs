//! Deterministic simulator of the protocols over bad networks.
