//! CRC-32C (Castagnoli), RFC 3309 appendix, as section 2.2.3 asks for.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = match value & 1 {
                1 => (value >> 1) ^ 0x82f6_3b78,
                _ => value >> 1,
            };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// The checksum of the parts, one after the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut value = u32::MAX;
    for byte in parts.iter().copied().flatten() {
        value = (value >> 8) ^ TABLE[usize::from(value as u8 ^ byte)];
    }
    !value
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn the_checksum_of_the_usual_digits_is_the_published_one() {
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_eq!(crc32c(&[b"1234", b"", b"56789"]), 0xe306_9283);
    }
}
