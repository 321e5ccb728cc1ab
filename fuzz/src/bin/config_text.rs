//! Any text as tls.yaml: read or refused with findings that can be shown, never a panic.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tollgate_config::{decode, read, render};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = decode(bytes) else {
        return;
    };
    let findings = match read("tls.yaml", text, Path::new("/etc/tollgate")) {
        Ok(read) => read.warnings,
        Err(findings) => {
            assert!(!findings.is_empty(), "refused without a finding");
            findings
        }
    };
    let _ = render("tls.yaml", text, &findings, false);
});
