//! The machine that figures are from, as far as it matters for them.

use std::fs;

use tollgate_cost::Machine;

use super::BenchError;

/// The cryptographic library, and the TLS library over it. A test keeps the versions right.
pub const PROVIDER: &str = "AWS-LC (aws-lc-rs 1.19.0, aws-lc-sys 0.47.0), rustls 0.23.46";

/// Flags of `/proc/cpuinfo` that change what TLS costs: x86-64 first, then aarch64.
const FLAGS: [&str; 18] = [
    "aes",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "avx",
    "avx2",
    "avx512f",
    "avx512vl",
    "avx512ifma",
    "sha_ni",
    "bmi2",
    "adx",
    "pmull",
    "sha1",
    "sha2",
    "sha512",
    "sha3",
    "sve",
];

/// Looks at `/proc` and asks the kernel.
pub fn machine() -> Result<Machine, BenchError> {
    let cpu = read("/proc/cpuinfo")?;
    let memory = read("/proc/meminfo")?;
    let host = rustix::system::uname();
    Ok(Machine {
        cpu: model(&cpu),
        cpu_flags: flags(&cpu),
        cores: std::thread::available_parallelism()
            .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory_bytes(&memory),
        kernel: host.release().to_string_lossy().into_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
    })
}

fn read(path: &str) -> Result<String, BenchError> {
    fs::read_to_string(path).map_err(|source| BenchError::System {
        what: path.to_owned(),
        source,
        hint: "mount proc there; figures without their machine are worth nothing".into(),
    })
}

/// `model name`; the cores of aarch64 have none and say who made them instead.
fn model(cpuinfo: &str) -> String {
    if let Some(name) = field(cpuinfo, "model name") {
        return name.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    match (
        field(cpuinfo, "CPU implementer"),
        field(cpuinfo, "CPU part"),
    ) {
        (Some(maker), Some(part)) => format!("implementer {maker}, part {part}"),
        _ => "unknown".into(),
    }
}

fn flags(cpuinfo: &str) -> Vec<String> {
    let all: Vec<&str> = field(cpuinfo, "flags")
        .or_else(|| field(cpuinfo, "Features"))
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    FLAGS
        .iter()
        .filter(|flag| all.contains(flag))
        .map(|flag| (*flag).to_owned())
        .collect()
}

fn memory_bytes(meminfo: &str) -> u64 {
    field(meminfo, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

/// The first `name: value` of a file in the manner of `/proc`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    #[test]
    fn both_kinds_of_cpuinfo_are_read() {
        let intel = "processor\t: 0\nmodel name\t: A   CPU @ 2GHz\nflags\t\t: fpu aes vaes avx2\n";
        assert_eq!(model(intel), "A CPU @ 2GHz");
        assert_eq!(flags(intel), ["aes", "vaes", "avx2"]);
        let arm = "processor\t: 0\nFeatures\t: fp aes pmull sha2\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(model(arm), "implementer 0x41, part 0xd40");
        assert_eq!(flags(arm), ["aes", "pmull", "sha2"]);
        assert_eq!(model(""), "unknown");
    }

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let here = machine().unwrap();
        assert!(here.memory_bytes > 1 << 20 && here.cores >= 1 && !here.kernel.is_empty());
    }

    #[test]
    fn the_provider_is_the_one_that_is_built_in() {
        let lock = include_str!("../../../../Cargo.lock");
        for name in ["aws-lc-rs", "aws-lc-sys", "rustls"] {
            let version = lock
                .split("[[package]]")
                .find_map(|package| {
                    let rest = package
                        .split_once(&format!("name = \"{name}\"\nversion = \""))?
                        .1;
                    rest.split('"').next()
                })
                .unwrap();
            assert!(
                PROVIDER.contains(&format!("{name} {version}")),
                "{name} {version} is not in {PROVIDER:?}"
            );
        }
    }
}
