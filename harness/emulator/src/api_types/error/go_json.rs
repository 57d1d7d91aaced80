//! JSON syntax errors with the texts of Go's decoder.

use schedlab_api::Value;
use schedlab_api::object::go_type;

/// The first syntax error of a text; `None` if it is valid JSON.
pub(crate) fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scan = Scanner { rest: text };
    let found = scan.value("looking for beginning of value").and_then(|()| match scan.next() {
        None => Ok(()),
        Some(byte) => Err(invalid_character(byte, "after top-level value")),
    });
    found.err()
}

/// The decoding error for a value of type `found` instead of an object.
pub(crate) fn not_an_object(found: &str) -> String {
    format!(
        "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    )
}

/// The decoding error for an `apiVersion` or `kind` that is no text.
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

fn invalid_character(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        0x7f.. => format!("\\u{byte:04x}"),
        b' '..=b'~' | b'\t' | b'\n' | b'\r' => char::from(byte).escape_default().to_string(),
        control => format!("\\x{control:02x}"),
    };
    format!("invalid character '{shown}' {context}")
}

impl Scanner<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next byte that is not white space.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
        }
        None
    }

    fn expect_byte(byte: Option<u8>) -> Result<u8, String> {
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn value(&mut self, context: &str) -> ScanResult {
        let first = Self::expect_byte(self.next())?;
        self.value_from(first, context)
    }

    fn value_from(&mut self, first: u8, context: &str) -> ScanResult {
        match first {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            other => Err(invalid_character(other, context)),
        }
    }

    fn object(&mut self) -> ScanResult {
        const KEY: &str = "looking for beginning of object key string";
        let mut first = Self::expect_byte(self.next())?;
        if first == b'}' {
            return Ok(());
        }
        loop {
            if first != b'"' {
                return Err(invalid_character(first, KEY));
            }
            self.string()?;
            match Self::expect_byte(self.next())? {
                b':' => self.value("looking for beginning of value")?,
                other => return Err(invalid_character(other, "after object key")),
            }
            match Self::expect_byte(self.next())? {
                b'}' => return Ok(()),
                b',' => first = Self::expect_byte(self.next())?,
                other => return Err(invalid_character(other, "after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> ScanResult {
        let mut first = Self::expect_byte(self.next())?;
        if first == b']' {
            return Ok(());
        }
        loop {
            self.value_from(first, "looking for beginning of value")?;
            match Self::expect_byte(self.next())? {
                b']' => return Ok(()),
                b',' => first = Self::expect_byte(self.next())?,
                other => return Err(invalid_character(other, "after array element")),
            }
        }
    }

    fn string(&mut self) -> ScanResult {
        loop {
            match Self::expect_byte(self.byte())? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                control @ 0..=0x1f => return Err(invalid_character(control, "in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> ScanResult {
        match Self::expect_byte(self.byte())? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => (0..4).try_for_each(|_| match Self::expect_byte(self.byte())? {
                digit if digit.is_ascii_hexdigit() => Ok(()),
                other => Err(invalid_character(other, "in \\u hexadecimal character escape")),
            }),
            other => Err(invalid_character(other, "in string escape code")),
        }
    }

    fn literal(&mut self, word: &str) -> ScanResult {
        for letter in word.bytes().skip(1) {
            let found = Self::expect_byte(self.byte())?;
            if found != letter {
                let context = format!("in literal {word} (expecting '{}')", char::from(letter));
                return Err(invalid_character(found, &context));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> ScanResult {
        let mut first = first;
        if first == b'-' {
            first = self.digit("in numeric literal")?;
        }
        if first != b'0' {
            self.digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.byte();
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.byte();
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.byte();
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.byte();
        }
    }

    fn digit(&mut self, context: &str) -> Result<u8, String> {
        match Self::expect_byte(self.byte())? {
            digit @ b'0'..=b'9' => Ok(digit),
            other => Err(invalid_character(other, context)),
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
}
