//! String formats: the formats that the API server checks, and their rules.

mod net;
mod time;

use std::sync::LazyLock;

use regex::Regex;

use crate::api_types::names::{dns_label_violation, dns_subdomain_violation};
use schedlab_api::{Value, object};

type FormatRule = fn(&str) -> bool;

/// The string formats by name (without dashes) and how a text is checked. A password is any string.
const FORMATS: [(&str, FormatRule); 26] = [
    ("bsonobjectid", |text| BSON.is_match(text)),
    ("uri", net::is_uri),
    ("email", net::is_email),
    ("hostname", net::is_hostname),
    ("ipv4", net::is_ipv4),
    ("ipv6", net::is_ipv6),
    ("cidr", net::is_cidr),
    ("mac", net::is_mac),
    ("uuid", |text| UUID.is_match(text)),
    ("uuid3", |text| is_uuid(text, "3")),
    ("uuid4", |text| is_uuid(text, "4") && is_rfc_4122(text)),
    ("uuid5", |text| is_uuid(text, "5") && is_rfc_4122(text)),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("creditcard", is_credit_card),
    ("ssn", |text| text.len() == 11 && SSN.is_match(text)),
    ("hexcolor", |text| HEX_COLOR.is_match(text)),
    ("rgbcolor", |text| RGB_COLOR.is_match(text)),
    ("byte", |text| BASE64.is_match(text)),
    ("password", |_| true),
    ("date", time::is_date),
    ("duration", time::is_duration),
    ("datetime", time::is_date_time),
    ("k8sshortname", |text| dns_label_violation(text).is_none()),
    ("k8slongname", |text| dns_subdomain_violation(text).is_none()),
];

/// Whether a string has a format; an unknown format accepts any string.
pub(super) fn has_format(text: &str, format: &str) -> bool {
    format_rule(format).is_none_or(|rule| rule(text))
}

/// The names of unknown string formats anywhere in a schema.
pub(crate) fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let format = object::text(schema, &["format"]);
    let is_odd = !format.is_empty() && schema["type"] == "string" && format_rule(format).is_none();
    let mut odd: Vec<&str> = is_odd.then_some(format).into_iter().collect();
    let single = ["items", "not", "additionalProperties"];
    odd.extend(single.iter().filter_map(|field| schema.get(field)).flat_map(unrecognized_formats));
    for field in ["allOf", "anyOf", "oneOf"] {
        odd.extend(object::list(schema, &[field]).iter().flat_map(unrecognized_formats));
    }
    let properties = object::map(schema, &["properties"]).into_iter().flatten();
    odd.extend(properties.flat_map(|(_, property)| unrecognized_formats(property)));
    odd
}

fn format_rule(format: &str) -> Option<FormatRule> {
    let bare = format.replace('-', "");
    FORMATS.iter().find(|(known, _)| *known == bare).map(|(_, rule)| *rule)
}

/// A constant pattern, compiled once.
type Pattern = LazyLock<Regex>;

fn compile_pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern compiles")
}

static BSON: Pattern = LazyLock::new(|| compile_pattern("^[0-9a-fA-F]{24}$"));
static UUID: Pattern = LazyLock::new(|| {
    compile_pattern("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
});
static SSN: Pattern = LazyLock::new(|| compile_pattern("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: Pattern =
    LazyLock::new(|| compile_pattern("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: Pattern = LazyLock::new(|| {
    let share = r"[ \t\r\n\f]*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])[ \t\r\n\f]*";
    compile_pattern(&format!(r"^rgb\({share},{share},{share}\)$"))
});
static BASE64: Pattern = LazyLock::new(|| {
    let sign = "[A-Za-z0-9+/]";
    compile_pattern(&format!("^({sign}{{4}})*({sign}{{2}}==|{sign}{{3}}=|{sign}{{4}})$"))
});
static CARD: Pattern = LazyLock::new(|| {
    compile_pattern(
        "^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}|\
         3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});

/// Whether a text is a UUID of this version.
fn is_uuid(text: &str, version: &str) -> bool {
    UUID.is_match(text) && without_separators(text).get(12..13) == Some(version)
}

/// Whether the variant of a UUID is that of RFC 4122.
fn is_rfc_4122(uuid: &str) -> bool {
    without_separators(uuid).get(16..17).is_some_and(|variant| "89abAB".contains(variant))
}

/// The text without spaces and dashes.
fn without_separators(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_ascii_whitespace() && *sign != '-').collect()
}

fn parse_digits(text: &str) -> Option<Vec<u32>> {
    text.chars().map(|sign| sign.to_digit(10)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain = without_separators(text);
    let (most, last) = plain.split_at_checked(9).unwrap_or_default();
    let last = if last == "X" { Some(10) } else { last.parse().ok().filter(|_| last.len() == 1) };
    let (Some(digits), Some(last)) = (parse_digits(most), last) else { return false };
    let sum: u32 =
        (1..).zip(digits.iter().chain([&last])).map(|(weight, digit)| weight * digit).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let Some(digits) = parse_digits(&without_separators(text)).filter(|digits| digits.len() == 13)
    else {
        return false;
    };
    let sum: u32 = [1, 3].iter().cycle().zip(&digits).map(|(factor, digit)| factor * digit).sum();
    sum.is_multiple_of(10)
}

/// Whether a text is a credit card number with a valid checksum. Other characters between the
/// digits are ignored.
fn is_credit_card(text: &str) -> bool {
    let number: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |digit: u32| if digit < 5 { digit * 2 } else { digit * 2 - 9 };
    let from_the_right = parse_digits(&number).unwrap_or_default().into_iter().rev().enumerate();
    let shares = from_the_right.map(|(at, digit)| if at % 2 == 1 { doubled(digit) } else { digit });
    CARD.is_match(&number) && shares.sum::<u32>().is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    /// A format, strings that have it, and strings that do not.
    #[test]
    fn strings_are_checked_against_their_format() {
        let cases: [(&str, &[&str], &[&str]); 12] = [
            ("bsonobjectid", &["507F1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", ""]),
            (
                "uuid",
                &["0123456789abcdef0123456789ABCDEF", "01234567-89ab-cdef-0123-456789abcdef"],
                &["{01234567-89ab-cdef-0123-456789abcdef}", "0123"],
            ),
            ("uuid3", &["0123456789ab3def0123456789abcdef"], &["0123456789ab4def0123456789abcdef"]),
            ("uuid4", &["0123456789ab4defB123456789abcdef"], &["0123456789ab4def0123456789abcdef"]),
            ("isbn", &["978-0321751041", "0-8044-2957-X"], &["1", "978-0321751042"]),
            ("isbn10", &["0321751043"], &["0321751044", "978-0321751041"]),
            ("creditcard", &["4111 1111x1111 1111"], &["4111-1111-1111-1112", "1234"]),
            ("ssn", &["123-45-6789", "123 45 6789"], &["123456789", "1"]),
            ("hexcolor", &["fff", "#FFAA00"], &["#ffff", "zz"]),
            ("rgbcolor", &["rgb( 1, 20,255)"], &["rgb(1,2)", "rgb(01,2,3)", "rgb(1,2,256)"]),
            ("byte", &["YWJj", "YQ=="], &["", "YQ", "YW Jj", "YWJj_-=="]),
            ("k8s-short-name", &["a-b", "1"], &["a.b", "A_"]),
        ];
        for (format, sound, wrong) in cases {
            for text in sound {
                assert!(has_format(text, format), "{format}: {text}");
            }
            for text in wrong {
                assert!(!has_format(text, format), "{format}: {text}");
            }
        }
    }

    #[test]
    fn unrecognized_formats_are_found_at_every_depth() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "format": "odd"},
            "b": {"type": "integer", "format": "none"},
            "c": {"type": "array", "items": {"type": "string", "format": "odder"}},
            "d": {"type": "string", "format": "date-time"},
        }});
        assert_eq!(unrecognized_formats(&schema), ["odd", "odder"]);
        assert!(has_format("anything", "odd"));
    }
}
