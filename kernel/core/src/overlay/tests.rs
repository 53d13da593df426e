//! Nodes of a job with an overlay, over simulated links.
