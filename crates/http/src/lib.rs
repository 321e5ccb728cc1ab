//! HTTP/1.1 and HTTP/2, both roles: limits, framing, forwarding headers.
