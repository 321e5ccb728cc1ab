//! Development only: certificate makers, small backends, in-memory pairs.
