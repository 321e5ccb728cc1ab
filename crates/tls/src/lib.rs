//! The only room that names rustls: hello reading, handshakes, certificates, tickets, sessions.

pub mod material;
