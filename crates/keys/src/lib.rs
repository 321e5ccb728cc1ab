//! Ticket keys: which key issues, which still accept, and until when.
