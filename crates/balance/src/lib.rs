//! Which backend takes the next connection or request.
