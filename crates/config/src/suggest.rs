//! Guesses at what was meant.

/// Names that other servers and habit give to a field: the name, the section of ours, the field of ours.
const ALSO_CALLED: &[(&str, &str, &str)] = &[
    ("bind", "listeners", "address"),
    ("listen", "listeners", "address"),
    ("server_name", "sites", "names"),
    ("server_names", "sites", "names"),
    ("hosts", "sites", "names"),
    ("host", "sites", "names"),
    ("domains", "sites", "names"),
    ("ssl_certificate", "certificates", "chain"),
    ("cert", "certificates", "chain"),
    ("crt", "certificates", "chain"),
    ("fullchain", "certificates", "chain"),
    ("ssl_certificate_key", "certificates", "key"),
    ("private_key", "certificates", "key"),
    ("pem", "certificates", "combined"),
    ("ssl_protocols", "tls", "min_version"),
    ("protocols", "tls", "min_version"),
    ("ssl_ciphers", "tls", "suites"),
    ("ciphers", "tls", "suites"),
    ("cipher_suites", "tls", "suites"),
    ("ssl_ecdh_curve", "tls", "groups"),
    ("curves", "tls", "groups"),
    ("upstream", "sites", "backends"),
    ("upstreams", "sites", "backends"),
    ("proxy_pass", "sites", "backends"),
    ("servers", "sites", "backends"),
    ("url", "backends", "address"),
    ("healthcheck", "sites", "health"),
    ("health_check", "sites", "health"),
    ("ssl_session_timeout", "resumption", "lifetime"),
    ("ssl_session_cache", "resumption", "session_cache"),
    ("ssl_session_tickets", "resumption", "tickets"),
    ("client_ca", "client_certificates", "ca"),
    ("mtls", "sites", "client_certificates"),
    ("metrics", "", "console"),
    ("token", "console", "token_file"),
    ("bearer_token", "console", "token_file"),
    ("alerts", "", "alarms"),
    ("alerting", "", "alarms"),
    ("for", "alarms", "hold"),
    ("admin", "", "console"),
    ("access_log", "log", "access"),
    ("logging", "", "log"),
    ("threads", "workers", "count"),
    ("worker_processes", "workers", "count"),
    ("max_connections", "limits", "connections"),
    ("keepalive_timeout", "timeouts", "idle"),
    ("client_max_body_size", "limits", "body_bytes"),
    ("send_proxy", "backends", "proxy_protocol"),
    ("accept_proxy", "listeners", "proxy_protocol"),
];

/// Help for a field that does not exist where it stands.
pub fn field(name: &str, path: &str, here: &[&str]) -> String {
    let homes = crate::schema::homes_of(name, path);
    if let Some(near) = nearest(name, here) {
        return format!("did you mean `{near}`?");
    }
    if let Some(longer) = here
        .iter()
        .find(|field| name.len() > 3 && field.starts_with(name))
    {
        return format!("did you mean `{longer}`?");
    }
    if let Some(home) = homes {
        return home;
    }
    let also = ALSO_CALLED
        .iter()
        .find(|(known, _, _)| known.eq_ignore_ascii_case(name));
    if let Some((_, section, field)) = also {
        return if here.contains(field) {
            format!("this is called `{field}` here")
        } else if section.is_empty() {
            format!("this is called `{field}`, at the top of the file")
        } else {
            format!("this is called `{field}`, under {section}:")
        };
    }
    if name.eq_ignore_ascii_case("port") && here.contains(&"address") {
        return "write the port into the address, after a colon: \"0.0.0.0:443\"".into();
    }
    if here.is_empty() {
        return "remove the line".into();
    }
    format!("the fields here are {}", here.join(", "))
}

/// The word closest to `text`, if it is close.
pub fn nearest<'w>(text: &str, words: &[&'w str]) -> Option<&'w str> {
    // A text of any length may come in; a long one is near to nothing.
    if text.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', ' '], "_");
    let text = plain(text);
    let allowed = match text.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    words
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&text, &plain(word)), *word))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `"a, b or c"`.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
