//! JSON syntax errors with the texts of Go's decoder.

use schedlab_api::Value;
use schedlab_api::object::go_type;

/// The maximum nesting of arrays and objects that Go's decoder reads.
const NESTING_MAX: usize = 10_000;

/// The first syntax error of a text, in the words of Go's JSON decoder; `None` if the text is valid
/// JSON.
pub(crate) fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scan = Scanner { rest: text };
    let found = scan.scan_value().and_then(|()| match scan.next_visible_byte() {
        None => Ok(()),
        Some(byte) => Err(invalid_character_error(byte, "after top-level value")),
    });
    found.err()
}

/// Go's decoding error for a body of JSON type `found` instead of an object.
pub(crate) fn not_an_object_error(found: &str) -> String {
    format!(
        "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// Go's decoding error if `apiVersion` or `kind` is no string; `None` if both are strings or
/// absent.
pub(crate) fn type_meta_error(object: &Value) -> Option<String> {
    let mistyped = |field: &&str| !object[*field].is_string() && !object[*field].is_null();
    let field = ["apiVersion", "kind"].into_iter().find(mistyped)?;
    let found = go_type(&object[field]);
    Some(format!("json: cannot unmarshal {found} into Go struct field .{field} of type string"))
}

struct Scanner<'t> {
    rest: &'t [u8],
}

type ScanResult = Result<(), String>;

fn invalid_character_error(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        0x7f.. => format!("\\u{byte:04x}"),
        b' '..=b'~' | b'\t' | b'\n' | b'\r' => char::from(byte).escape_default().to_string(),
        control => format!("\\x{control:02x}"),
    };
    format!("invalid character '{shown}' {context}")
}

fn closing_bracket(opening: u8) -> u8 {
    if opening == b'{' { b'}' } else { b']' }
}

impl Scanner<'_> {
    fn next_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Reads the next byte that is not white space.
    fn next_visible_byte(&mut self) -> Option<u8> {
        while let Some(byte) = self.next_byte() {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
        }
        None
    }

    fn expect_byte(byte: Option<u8>) -> Result<u8, String> {
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    /// Scans one value. The open arrays and objects are kept in a `Vec`, because the thread's stack
    /// is too small for the nesting that a body may have.
    fn scan_value(&mut self) -> ScanResult {
        let mut open = Vec::new();
        let mut first = Self::expect_byte(self.next_visible_byte())?;
        loop {
            let inner = match first {
                b'{' | b'[' => self.first_item_byte(&mut open, first)?,
                _ => {
                    self.scan_scalar(first)?;
                    None
                }
            };
            let next = if inner.is_some() { inner } else { self.next_item_byte(&mut open)? };
            let Some(next) = next else { return Ok(()) };
            first = next;
        }
    }

    /// Reads the first byte of the first value in an array or object; `None` if the array or object
    /// is empty.
    fn first_item_byte(&mut self, open: &mut Vec<u8>, container: u8) -> Result<Option<u8>, String> {
        if open.len() == NESTING_MAX {
            return Err(invalid_character_error(container, "exceeded max depth"));
        }
        let next = Self::expect_byte(self.next_visible_byte())?;
        if next == closing_bracket(container) {
            return Ok(None);
        }
        open.push(container);
        self.item_value_byte(container, next).map(Some)
    }

    /// After a value has ended, reads the first byte of the next value; `None` if the ended value
    /// was the whole text.
    fn next_item_byte(&mut self, open: &mut Vec<u8>) -> Result<Option<u8>, String> {
        while let Some(&container) = open.last() {
            match Self::expect_byte(self.next_visible_byte())? {
                b',' => {
                    let next = Self::expect_byte(self.next_visible_byte())?;
                    return self.item_value_byte(container, next).map(Some);
                }
                byte if byte == closing_bracket(container) => drop(open.pop()),
                other if container == b'{' => {
                    return Err(invalid_character_error(other, "after object key:value pair"));
                }
                other => return Err(invalid_character_error(other, "after array element")),
            }
        }
        Ok(None)
    }

    /// Reads the first byte of the value of an item, which in an object follows its key. `first` is
    /// the first byte of the item.
    fn item_value_byte(&mut self, container: u8, first: u8) -> Result<u8, String> {
        if container == b'[' {
            return Ok(first);
        }
        if first != b'"' {
            return Err(invalid_character_error(
                first,
                "looking for beginning of object key string",
            ));
        }
        self.scan_string()?;
        match Self::expect_byte(self.next_visible_byte())? {
            b':' => Self::expect_byte(self.next_visible_byte()),
            other => Err(invalid_character_error(other, "after object key")),
        }
    }

    fn scan_scalar(&mut self, first: u8) -> ScanResult {
        match first {
            b'"' => self.scan_string(),
            b't' => self.scan_literal("true"),
            b'f' => self.scan_literal("false"),
            b'n' => self.scan_literal("null"),
            b'-' | b'0'..=b'9' => self.scan_number(first),
            other => Err(invalid_character_error(other, "looking for beginning of value")),
        }
    }

    fn scan_string(&mut self) -> ScanResult {
        loop {
            match Self::expect_byte(self.next_byte())? {
                b'"' => return Ok(()),
                b'\\' => self.scan_escape()?,
                control @ 0..=0x1f => {
                    return Err(invalid_character_error(control, "in string literal"));
                }
                _ => {}
            }
        }
    }

    fn scan_escape(&mut self) -> ScanResult {
        match Self::expect_byte(self.next_byte())? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match Self::expect_byte(self.next_byte())? {
                digit if digit.is_ascii_hexdigit() => Ok(()),
                other => Err(invalid_character_error(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(invalid_character_error(other, "in string escape code")),
        }
    }

    fn scan_literal(&mut self, word: &str) -> ScanResult {
        for letter in word.bytes().skip(1) {
            let found = Self::expect_byte(self.next_byte())?;
            if found != letter {
                let context = format!("in literal {word} (expecting '{}')", char::from(letter));
                return Err(invalid_character_error(found, &context));
            }
        }
        Ok(())
    }

    fn scan_number(&mut self, first: u8) -> ScanResult {
        let mut first = first;
        if first == b'-' {
            first = self.scan_digit("in numeric literal")?;
        }
        if first != b'0' {
            self.skip_digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.next_byte();
            self.scan_digit("after decimal point in numeric literal")?;
            self.skip_digits();
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.next_byte();
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.next_byte();
            }
            self.scan_digit("in exponent of numeric literal")?;
            self.skip_digits();
        }
        Ok(())
    }

    fn skip_digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.next_byte();
        }
    }

    fn scan_digit(&mut self, context: &str) -> Result<u8, String> {
        match Self::expect_byte(self.next_byte())? {
            digit @ b'0'..=b'9' => Ok(digit),
            other => Err(invalid_character_error(other, context)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::syntax_error;

    /// The right side is the error of Go's `json.Unmarshal`.
    #[test]
    fn invalid_json_is_reported_as_go_reports_it() {
        let invalid = |what: &str| Some(format!("invalid character {what}"));
        let cases = [
            (r#" {"a": [1, -0.5e+7, "\u00e9", true], "b": {}} "#, None),
            ("", Some("unexpected end of JSON input".to_owned())),
            (r#"{"a": {"b": "c""#, Some("unexpected end of JSON input".to_owned())),
            ("{broken", invalid("'b' looking for beginning of object key string")),
            ("{'a': 1}", invalid(r"'\'' looking for beginning of object key string")),
            (r#"{"a" 1}"#, invalid("'1' after object key")),
            (r#"{"a": 1 "b"}"#, invalid("'\"' after object key:value pair")),
            (r#"{"a": 1,}"#, invalid("'}' looking for beginning of object key string")),
            ("[1 2]", invalid("'2' after array element")),
            ("[1,]", invalid("']' looking for beginning of value")),
            ("{} x", invalid("'x' after top-level value")),
            ("tru!", invalid("'!' in literal true (expecting 'e')")),
            ("\"a\nb\"", invalid(r"'\n' in string literal")),
            (r#""\x""#, invalid("'x' in string escape code")),
            (r#""\u12g""#, invalid(r"'g' in \u hexadecimal character escape")),
            ("-a", invalid("'a' in numeric literal")),
            ("1.e", invalid("'e' after decimal point in numeric literal")),
            ("1ex", invalid("'x' in exponent of numeric literal")),
            ("01", invalid("'1' after top-level value")),
        ];
        for (text, expected) in cases {
            assert_eq!(syntax_error(text.as_bytes()), expected, "{text}");
        }
        let bytes = &[0x8e, 0xe9];
        assert_eq!(syntax_error(bytes), invalid(r"'\u008e' looking for beginning of value"));
    }

    #[test]
    fn nesting_is_limited_as_in_go() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(syntax_error(nested(10_000).as_bytes()), None);
        let too_deep = Some("invalid character '[' exceeded max depth".to_owned());
        for depth in [10_001, 1_000_000] {
            assert_eq!(syntax_error(nested(depth).as_bytes()), too_deep);
        }
        let objects = r#"{"a":"#.repeat(10_001);
        let too_deep = Some("invalid character '{' exceeded max depth".to_owned());
        assert_eq!(syntax_error(objects.as_bytes()), too_deep);
    }
}
