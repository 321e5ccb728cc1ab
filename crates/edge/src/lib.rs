//! The data plane: accept, route, relay, drain, reload.
