//! Counters and histograms, one writer each, and the one snapshot shape.
