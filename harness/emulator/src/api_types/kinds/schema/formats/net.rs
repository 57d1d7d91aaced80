//! Formats of URIs and network addresses. Left out: comments in email addresses.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use super::{Pattern, compile_pattern};

/// Whether a text is an absolute path or a URI with a scheme. `%` must be followed by two hex
/// digits.
pub(super) fn is_uri(text: &str) -> bool {
    static SCHEME: Pattern = LazyLock::new(|| compile_pattern("^[A-Za-z][A-Za-z0-9+.-]*:"));
    if text.chars().any(|sign| sign.is_ascii_control()) {
        return false;
    }
    let scheme = SCHEME.find(text).map_or(0, |found| found.end());
    let (scheme, rest) = text.split_at(scheme);
    let rest = rest.split('?').next().unwrap_or_default();
    if text == "*" || (!scheme.is_empty() && !rest.starts_with('/')) {
        return true;
    }
    let authority = rest.strip_prefix("//").filter(|_| !scheme.is_empty());
    match authority.map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
        Some((authority, path)) => is_authority(authority) && has_valid_escapes(path),
        None => rest.starts_with('/') && has_valid_escapes(rest),
    }
}

/// Whether a text is the authority of a URI: user, host and port, each optional.
fn is_authority(text: &str) -> bool {
    static HOST: Pattern = LazyLock::new(|| {
        let name = r#"[A-Za-z0-9_.~!$&'()*+,;=<>"\x{80}-\x{10ffff}-]*"#;
        compile_pattern(&format!(r"^({name}|\[[^\]]*\])(:[0-9]*)?$"))
    });
    static USER: Pattern = LazyLock::new(|| compile_pattern(r"^[A-Za-z0-9._:~!$&'()*+,;=%@-]*$"));
    let (user, host) = text.rsplit_once('@').unwrap_or(("", text));
    USER.is_match(user) && has_valid_escapes(user) && HOST.is_match(host)
}

fn has_valid_escapes(text: &str) -> bool {
    let is_digits = |escape: &[u8]| escape.len() == 2 && escape.iter().all(u8::is_ascii_hexdigit);
    text.split('%').skip(1).all(|after| after.as_bytes().get(..2).is_some_and(is_digits))
}

/// Whether a text is an email address, optionally with a display name.
pub(super) fn is_email(text: &str) -> bool {
    static FORM: Pattern = LazyLock::new(|| {
        let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}-]+";
        let dotted = format!(r"{atom}(?:\.{atom})*");
        let quoted = r#""(?:[^"\\]|\\.)*""#;
        let address = format!(r"(?:{dotted}|{quoted})@(?:{dotted}|\[([^\[\]]*)\])");
        let name = format!(r"(?:(?:{atom}|{quoted}|\.)[ \t]*)*");
        compile_pattern(&format!(r"^[ \t]*(?:{address}|{name}<{address}>)[ \t]*$"))
    });
    let Some(found) = FORM.captures(text) else { return false };
    let literals = [found.get(1), found.get(2)].into_iter().flatten();
    literals.map(|literal| literal.as_str()).all(|literal| literal.parse::<IpAddr>().is_ok())
}

/// Whether a text is a host name: a single label, or labels and a top-level domain of letters. As
/// in the API server, a dash in a single label is valid only at the second position.
pub(super) fn is_hostname(text: &str) -> bool {
    static WORD: Pattern = LazyLock::new(|| compile_pattern(r"^[a-zA-Z0-9\p{S}\p{L}]*$"));
    static LAST: Pattern = LazyLock::new(|| compile_pattern(r"^[a-zA-Z\p{L}]*$"));
    let length = |label: &str| label.chars().count();
    let outer =
        |sign: Option<char>| sign.is_some_and(|sign| WORD.is_match(sign.encode_utf8(&mut [0; 4])));
    let is_label = |label: &str| {
        let mut signs = label.chars();
        let is_whole = outer(signs.next()) && outer(label.chars().next_back());
        is_whole && length(label) <= 63 && WORD.is_match(&label.replace('-', ""))
    };
    let is_single = |label: &str| {
        let mut signs = label.chars();
        let is_begun = outer(signs.next());
        let rest = signs.as_str();
        let rest = rest.strip_prefix('-').unwrap_or(rest);
        is_begun && length(rest) <= 62 && WORD.is_match(rest)
    };
    let is_short = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
    let fits = match text.rsplit_once('.') {
        None => is_single(text),
        Some((labels, last)) => {
            let is_domain = LAST.is_match(last) && (2..=63).contains(&length(last));
            is_domain && labels.split('.').all(is_label)
        }
    };
    is_short && fits
}

/// Whether a text is an IPv4 address: four numbers, possibly with leading zeros. As in the API
/// server, an IPv6 address with an embedded IPv4 address counts, too.
pub(super) fn is_ipv4(text: &str) -> bool {
    is_four_numbers(text) || (text.contains('.') && is_ipv6(text))
}

fn is_four_numbers(text: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|sign| sign.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|number| number <= 255)
    };
    text.split('.').count() == 4 && text.split('.').all(is_number)
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Whether a text is a CIDR: an address and a prefix length.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if is_four_numbers(address) { 32 } else { 128 };
    let is_counted = bits.bytes().all(|sign| sign.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= most);
    is_counted && (is_four_numbers(address) || is_ipv6(address))
}

/// Whether a text is a MAC address of 6, 8 or 20 bytes: with colons, dashes, no separator, or a dot
/// after every second byte.
pub(super) fn is_mac(text: &str) -> bool {
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|sign| sign.is_ascii_hexdigit())
    };
    let in_parts = |sign: char, digits: usize, counts: [usize; 3]| {
        counts.contains(&text.split(sign).count())
            && text.split(sign).all(|part| is_hex(part, digits))
    };
    in_parts(':', 2, [6, 8, 20])
        || in_parts('-', 2, [6, 8, 20])
        || in_parts('.', 4, [3, 4, 10])
        || [12, 16, 40].iter().any(|&digits| is_hex(text, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A format, valid strings, and invalid strings.
    type Case = (fn(&str) -> bool, &'static [&'static str], &'static [&'static str]);

    #[test]
    fn network_formats_match_the_api_server() {
        let cases: [Case; 7] = [
            (
                is_uri,
                &[
                    "http://a.b/c",
                    "/a",
                    "http://",
                    "urn:x",
                    "a:b:c",
                    "//x",
                    "http://u@[::1]:80/%41",
                ],
                &["::", "a", "", "http://a b/", "%zz", "/%zz", "http://a:b/"],
            ),
            (
                is_email,
                &["a@b.c", "A B <a@b.c>", "a@b", "<a@b>", "a@[1.2.3.4]", "\"a b\"@c"],
                &["x", "a b@c", "a@", "a@[x]", "a@b."],
            ),
            (
                is_hostname,
                &["a", "a.bc", "a-b.cd", "A.example", "a-b", "a-"],
                &["-a-", "a.b", "1.2.3.4", "a_b", "a.", "", "my-host"],
            ),
            (is_ipv4, &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "1.2.3.256", "::1"]),
            (is_ipv6, &["::", "::ffff:1.2.3.4"], &["1.2.3.4", "fe80::1%eth0"]),
            (is_cidr, &["10.0.0.1/8", "::/0", "10.0.0.0/08"], &["1.2.3.4", "10.0.0.0/33", "::/+1"]),
            (
                is_mac,
                &["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "001122334455"],
                &["zz", "00:11-22:33:44:55", "00:11:22:33:44"],
            ),
        ];
        for (is, sound, wrong) in cases {
            for text in sound {
                assert!(is(text), "{text}");
            }
            for text in wrong {
                assert!(!is(text), "{text}");
            }
        }
    }
}
