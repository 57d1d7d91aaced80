//! The `continue` token: from which place a list goes on, and at which revision.

use std::fmt::Write;

use crate::error::ApiError;

/// Where a list goes on. Revision 0 means: at whatever revision is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) revision: u64,
    /// The last place already given.
    pub(super) after: (String, String),
}

impl Token {
    /// Opaque and safe in a URL.
    pub(super) fn encode(&self) -> String {
        let plain = format!("{}/{}/{}", self.revision, self.after.0, self.after.1);
        plain.bytes().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string does not fail");
            text
        })
    }

    pub(super) fn decode(text: &str) -> Result<Self, ApiError> {
        let refuse = || ApiError::bad_request("continue key is not valid: malformed value");
        let bytes = text
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(refuse)?;
        let plain = String::from_utf8(bytes).map_err(|_| refuse())?;
        let mut parts = plain.splitn(3, '/');
        let mut part = || parts.next().map(str::to_owned).ok_or_else(refuse);
        let revision = part()?.parse().map_err(|_| refuse())?;
        Ok(Self { revision, after: (part()?, part()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_encoding() {
        let token = Token { revision: 12, after: ("default".into(), "web-0".into()) };
        assert_eq!(Token::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn a_made_up_token_is_a_bad_request() {
        for text in ["zz", "3", "31", "ffff", "é"] {
            assert_eq!(Token::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}
