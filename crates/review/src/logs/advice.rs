//! What a log does not tell, and what to add to the configuration so that it does.

use serde::Serialize;

use super::format::Product;

/// nginx's `log_format` that tells everything; a test reads a real log with it.
pub const NGINX_LOG_FORMAT: &str = "$time_iso8601 $ssl_protocol $ssl_cipher $ssl_session_reused $ssl_server_name \
     $connection $connection_requests $status \"$request\"";

/// HAProxy's `log-format` that tells everything; a test reads a real log with it.
pub const HAPROXY_LOG_FORMAT: &str =
    "%ci:%cp [%tr] %ft %sslv %sslc %[ssl_fc_is_resumed] %[ssl_fc_sni] %ST %{+Q}r";

/// Something that the log does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What.
    pub what: &'static str,
    /// Lines to add to a configuration.
    pub add: String,
    /// How to read the log then.
    pub read: String,
}

/// One answer to all that is missing, as one log format tells all of it.
pub fn missing(what: &'static str, product: Product) -> Missing {
    let (add, read) = match product {
        Product::Nginx => (
            format!("log_format tls '{NGINX_LOG_FORMAT}';\naccess_log /var/log/nginx/tls.log tls;"),
            format!("tollgate logs --log-format '{NGINX_LOG_FORMAT}' /var/log/nginx/tls.log"),
        ),
        Product::Haproxy => (
            format!("log-format '{HAPROXY_LOG_FORMAT}'"),
            format!("tollgate logs --log-format '{HAPROXY_LOG_FORMAT}' FILE"),
        ),
        Product::Tollgate => (
            "log: { access: access.log }".to_owned(),
            "tollgate logs access.log".to_owned(),
        ),
        Product::Unknown => (
            "one field each of time, tls_resumed, tls_version, tls_suite, server_name, connection, connection_requests"
                .to_owned(),
            "tollgate logs FILE".to_owned(),
        ),
    };
    Missing { what, add, read }
}
