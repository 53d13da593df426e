//! What is kept of names.
