//! The client side of TLS: load.
