//! The files of the page, in the binary: no other host is asked for anything.

use std::sync::LazyLock;

/// A file as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// Value of `ETag`, quotes included; differs when the content does.
    pub etag: String,
    /// The whole file.
    pub body: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Path, type and content of each file. The page is `/`; what it loads is beside it.
static FILES: &[(&str, &str, &[u8])] = &[
    ("/", HTML, include_bytes!("../assets/page.html")),
    ("/app.js", SCRIPT, include_bytes!("../assets/app.js")),
    ("/theme.js", SCRIPT, include_bytes!("../assets/theme.js")),
    ("/format.js", SCRIPT, include_bytes!("../assets/format.js")),
    (
        "/elements.js",
        SCRIPT,
        include_bytes!("../assets/elements.js"),
    ),
    (
        "/history.js",
        SCRIPT,
        include_bytes!("../assets/history.js"),
    ),
    ("/graphs.js", SCRIPT, include_bytes!("../assets/graphs.js")),
    ("/panels.js", SCRIPT, include_bytes!("../assets/panels.js")),
    (
        "/connection.js",
        SCRIPT,
        include_bytes!("../assets/connection.js"),
    ),
    (
        "/sections.js",
        SCRIPT,
        include_bytes!("../assets/sections.js"),
    ),
    ("/price.js", SCRIPT, include_bytes!("../assets/price.js")),
    ("/tables.js", SCRIPT, include_bytes!("../assets/tables.js")),
    ("/app.css", STYLE, include_bytes!("../assets/app.css")),
    ("/uplot.js", SCRIPT, include_bytes!("../assets/uplot.js")),
    ("/uplot.css", STYLE, include_bytes!("../assets/uplot.css")),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    ),
];

static ASSETS: LazyLock<Vec<(&'static str, Asset)>> = LazyLock::new(|| {
    let asset = |(path, content_type, body): &(&'static str, &'static str, &'static [u8])| {
        let etag = format!("\"{:016x}\"", digest(body));
        (
            *path,
            Asset {
                content_type,
                etag,
                body,
            },
        )
    };
    FILES.iter().map(asset).collect()
});

/// The file at `path`, which has no query; `None` where there is no file of the page.
pub fn asset(path: &str) -> Option<&'static Asset> {
    let found = ASSETS.iter().find(|(known, _)| *known == path)?;
    Some(&found.1)
}

/// FNV-1a: tells one build's file from another's, which is all that an entity tag is for.
fn digest(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{ASSETS, asset};

    /// Scripts and styles that `text` names, with their quotes gone.
    fn named(text: &str) -> Vec<String> {
        text.split(['"', '\''])
            .filter(|part| part.len() < 40 && !part.contains(char::is_whitespace))
            .filter(|part| {
                [".js", ".css", ".svg"]
                    .iter()
                    .any(|ending| part.ends_with(ending))
            })
            .map(|part| format!("/{}", part.trim_start_matches("./")))
            .collect()
    }

    fn text(path: &str) -> &'static str {
        std::str::from_utf8(asset(path).unwrap().body).unwrap()
    }

    #[test]
    fn every_file_that_the_page_names_is_there() {
        for (path, _) in ASSETS.iter().filter(|(path, _)| !path.contains("uplot")) {
            for name in named(text(path)) {
                assert!(
                    asset(&name).is_some(),
                    "{path} names {name}, which is not served"
                );
            }
        }
        assert!(named(text("/")).contains(&"/app.js".to_owned()));
        assert_eq!(asset("/nothing.js"), None);
    }

    #[test]
    fn the_page_asks_no_other_host_and_has_nothing_inline() {
        for (path, _) in ASSETS.iter() {
            let text = text(path);
            for other in [
                "src=\"http",
                "href=\"http",
                "url(http",
                "@import",
                "sourceMappingURL",
            ] {
                assert!(!text.contains(other), "{other} in {path}");
            }
        }
        let page = text("/");
        for inline in ["<style", " style=", " onclick=", "javascript:", "<script>"] {
            assert!(!page.contains(inline), "{inline} in the page");
        }
    }

    #[test]
    fn no_two_files_have_the_same_tag() {
        for (path, one) in ASSETS.iter() {
            let same = ASSETS.iter().filter(|(_, other)| other.etag == one.etag);
            assert_eq!(same.count(), 1, "{path}");
        }
    }
}
