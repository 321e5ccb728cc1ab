//! PROXY protocol v1 and v2, read and written.
