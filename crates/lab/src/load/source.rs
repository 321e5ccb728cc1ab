//! The addresses that connections come from.

use std::net::IpAddr;

/// More addresses than this are no help: each has some 28 000 ports.
const MOST_ADDRESSES: usize = 65_536;

/// Reads a list of addresses, ranges (`127.0.0.2-127.0.0.9`) and networks (`127.0.1.0/24`), separated by commas.
///
/// # Errors
/// A sentence for a person: what cannot be read, and what is allowed.
pub fn read_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut found = Vec::new();
    for piece in text.split(',').map(str::trim) {
        let (first, last) = bounds(piece).ok_or_else(|| {
            format!(
                "{piece:?} is no source address; write 127.0.0.2, 127.0.0.2-127.0.0.9 or 127.0.1.0/24"
            )
        })?;
        let more = number(last)
            .checked_sub(number(first))
            .ok_or_else(|| format!("{piece:?} ends before it begins; turn it round"))?;
        if more.saturating_add(found.len() as u128) >= MOST_ADDRESSES as u128 {
            return Err(format!(
                "{text:?} is more than {MOST_ADDRESSES} addresses; a few are enough, each has some 28 000 ports"
            ));
        }
        found.extend((0..=more).map(|step| address(first, number(first) + step)));
    }
    Ok(found)
}

/// First and last address of a piece.
fn bounds(piece: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = piece.split_once('-') {
        let (first, last): (IpAddr, IpAddr) = (first.parse().ok()?, last.parse().ok()?);
        return (first.is_ipv4() == last.is_ipv4()).then_some((first, last));
    }
    if let Some((network, bits)) = piece.split_once('/') {
        let (network, bits): (IpAddr, u32) = (network.parse().ok()?, bits.parse().ok()?);
        return network_bounds(network, bits);
    }
    let single = piece.parse().ok()?;
    Some((single, single))
}

/// The addresses of a network that a host may have: its first and last are left out where there are others.
fn network_bounds(network: IpAddr, bits: u32) -> Option<(IpAddr, IpAddr)> {
    let width: u32 = if network.is_ipv4() { 32 } else { 128 };
    let free = width.checked_sub(bits)?;
    let span = match free {
        128 => u128::MAX,
        free => (1_u128 << free) - 1,
    };
    let first = number(network) & !span;
    let inner = u128::from(free > 1);
    Some((
        address(network, first + inner),
        address(network, first + span - inner),
    ))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of this number in the family of `like`.
fn address(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at once")]
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let found = read_sources(text).unwrap();
        found.iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn addresses_ranges_and_networks_may_stand_side_by_side() {
        assert_eq!(
            texts("127.0.0.9, 127.0.0.254-127.0.1.1,127.0.2.0/30,::1"),
            [
                "127.0.0.9",
                "127.0.0.254",
                "127.0.0.255",
                "127.0.1.0",
                "127.0.1.1",
                "127.0.2.1",
                "127.0.2.2",
                "::1"
            ]
        );
        assert_eq!(texts("127.0.0.7/32"), ["127.0.0.7"]);
        assert_eq!(texts("127.1.2.3/24").len(), 254);
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_is_allowed() {
        for (text, part) in [
            ("localhost", "no source address"),
            ("", "no source address"),
            ("127.0.0.1/33", "no source address"),
            ("127.0.0.1-::1", "no source address"),
            ("127.0.0.9-127.0.0.2", "turn it round"),
            ("127.0.0.0/8", "more than 65536"),
            ("::/0", "more than 65536"),
        ] {
            let error = read_sources(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
