//! What a machine consists of, as types; launching, QMP, accelerator probe.
