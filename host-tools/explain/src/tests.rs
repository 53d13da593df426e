//! All rules together, by evidence that is made by hand: who comes first, what is said, and that anything can be said
//! of.

mod advice;
mod any;
mod evidence;
mod failures;
mod waits;
