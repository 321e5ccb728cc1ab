//! What a failed handshake means, and what to do about it.

use tollgate_tls::{Failure, FailureReason};

/// The text behind the name of a failure: nothing, or a colon and advice.
pub(super) fn behind(failure: &Failure) -> String {
    match advice(failure.reason()) {
        Some(advice) => format!("; {advice}"),
        None => String::new(),
    }
}

/// What to think of a server that just goes away.
pub(super) const CLOSED: &str = "the server closed the connection without an alert: is this port really \
     TLS from the first byte (see --starttls and --proxy-header), and does the server know this name?";

/// What a reason means to the one who probes.
pub(super) fn advice(reason: FailureReason) -> Option<&'static str> {
    Some(match reason {
        FailureReason::NoCommonVersion => {
            "the server speaks none of the offered TLS versions; try without --tls12 or --tls13"
        }
        FailureReason::NoCommonSuite => {
            "the server speaks none of the offered cipher suites; try without --as"
        }
        FailureReason::NoCommonGroup => {
            "the server speaks none of the offered groups; try without --as"
        }
        FailureReason::NoCommonAlpn => "the server speaks none of the protocols in --alpn",
        FailureReason::CertificateExpired => {
            "the server's certificate is not valid now: renew it, and look at the clocks of both ends"
        }
        FailureReason::CertificateRevoked => {
            "the authority has revoked the certificate: replace it"
        }
        FailureReason::CertificateUnknownIssuer => {
            "the chain ends at no trusted root: the server may leave out its intermediate certificate, \
             or its authority is private (then name it with --ca); --insecure looks all the same"
        }
        FailureReason::CertificateWrongName => {
            "the certificate is for another name: probe that name, or set the one to check with \
             --server-name; --insecure looks all the same"
        }
        FailureReason::CertificateInvalid => "--insecure looks all the same",
        FailureReason::BadMessage | FailureReason::BadRecord => {
            "is this port really TLS from the first byte? if not, see --starttls and --proxy-header"
        }
        FailureReason::Closed => CLOSED,
        FailureReason::AlertReceived(number) => return alert(number),
        FailureReason::NoSuitableCertificate
        | FailureReason::CertificateMissing
        | FailureReason::PeerIncompatible
        | FailureReason::PeerMisbehaved
        | FailureReason::WrongBinder
        | FailureReason::TooLong
        | FailureReason::Io(_)
        | FailureReason::Misconfigured
        | FailureReason::Exhausted
        | FailureReason::Internal => return None,
    })
}

/// Alerts of RFC 8446, section 6.2, from the side of the one who receives them.
fn alert(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "the server ended the connection in good order, but too early",
        10 => {
            "the server did not expect this message: is there a protocol in front of TLS (--starttls)?"
        }
        20 | 51 => "the server could not check what was sent: something on the way changes it",
        22 | 47 | 50 => "the server could not read the hello, or something on the way changed it",
        40 => {
            "the server found nothing in common: its versions, suites, groups and the kinds of its \
             certificates against what is offered here (try without --as), or it wants a client \
             certificate (--cert, --key)"
        }
        42 | 43 | 46 => "the server does not take this client certificate: see --cert and --key",
        44 => "the client certificate is revoked",
        45 => "the client certificate has expired",
        48 => "the server does not trust the authority of this client certificate",
        49 => "the server knows this client and refuses it",
        70 => "the server does not speak the offered TLS version; try without --tls12 or --tls13",
        71 => "the server wants stronger primitives than those offered",
        80 => "something is broken inside of the server; its log says more",
        86 => "the server speaks a higher version than was offered again",
        90 => "the server gave up",
        109 => "the server misses an extension in the hello",
        112 => "the server has no site of this name: probe the right one, or set --server-name",
        116 => "the server wants a client certificate: see --cert and --key",
        120 => "the server speaks none of the protocols in --alpn",
        _ => return None,
    })
}
