//! The access log: one line per request or connection, never in the way of the data path.
