//! Read-only views of a snapshot: Prometheus text and JSON.
