//! Key exchange, client and server side apart.

use rustls::crypto::{ActiveKeyExchange, SupportedKxGroup};
use tollgate_terms::NamedGroup;
use zeroize::Zeroizing;

use super::{PrimitiveError, broken};
use crate::provider::{First, provider};

/// A named group, through the wrapper that handshakes use.
#[derive(Clone, Copy, Debug)]
pub struct KeyExchange {
    group: NamedGroup,
    inner: &'static dyn SupportedKxGroup,
}

/// What a client keeps between its hello and the server's: a private key, and the share that it sent.
pub struct ClientShare {
    inner: Box<dyn ActiveKeyExchange>,
}

impl KeyExchange {
    /// Every group that is spoken, in the order of the sheet.
    pub const GROUPS: [NamedGroup; 4] = [
        NamedGroup::X25519,
        NamedGroup::SECP256R1,
        NamedGroup::SECP384R1,
        NamedGroup::X25519MLKEM768,
    ];

    /// The exchange of `group`.
    ///
    /// # Errors
    /// When it is not spoken.
    pub fn new(group: NamedGroup) -> Result<Self, PrimitiveError> {
        let inner = provider(&[], &[group], First::Policy).kx_groups.pop();
        let inner = inner.ok_or_else(|| broken(group.name(), "no such group is spoken"))?;
        Ok(Self { group, inner })
    }

    /// The client's first half: a fresh key and its share.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn start(&self) -> Result<ClientShare, PrimitiveError> {
        let inner = self.inner.start().map_err(|error| self.broken(error))?;
        Ok(ClientShare { inner })
    }

    /// The client's second half: the secret.
    ///
    /// # Errors
    /// When `share` is no share of this group.
    pub fn complete(
        &self,
        own: ClientShare,
        share: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, PrimitiveError> {
        let secret = own.inner.complete(share);
        let secret = secret.map_err(|error| self.broken(error))?;
        Ok(Zeroizing::new(secret.secret_bytes().to_vec()))
    }

    /// The whole of the server's work: its share, and the secret.
    ///
    /// # Errors
    /// When `share` is no share of this group.
    pub fn answer(&self, share: &[u8]) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), PrimitiveError> {
        let done = self.inner.start_and_complete(share);
        let done = done.map_err(|error| self.broken(error))?;
        let secret = Zeroizing::new(done.secret.secret_bytes().to_vec());
        Ok((done.pub_key, secret))
    }

    fn broken(&self, reason: rustls::Error) -> PrimitiveError {
        broken(format!("key exchange with {}", self.group), reason)
    }
}

impl ClientShare {
    /// What is sent to the server.
    pub fn share(&self) -> &[u8] {
        self.inner.pub_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_and_strangers_do_not() {
        for group in KeyExchange::GROUPS {
            let exchange = KeyExchange::new(group).unwrap();
            let (own, other) = (exchange.start().unwrap(), exchange.start().unwrap());
            let (share, secret) = exchange.answer(own.share()).unwrap();
            assert_ne!(own.share(), other.share());
            assert_eq!(exchange.complete(own, &share).unwrap(), secret, "{group}");
            // With another's answer there is a secret too, and it costs the same to find out.
            assert_ne!(exchange.complete(other, &share).unwrap(), secret, "{group}");
        }
    }

    #[test]
    fn what_is_no_share_is_refused() {
        let exchange = KeyExchange::new(NamedGroup::SECP256R1).unwrap();
        assert!(exchange.answer(&[4; 65]).is_err());
        assert!(KeyExchange::new(NamedGroup(0x0100)).is_err());
    }
}
