//! The `continue` token: from which place a list goes on, and at which revision.

use base64::{DecodeError, Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::error::{ApiError, go_json};
use crate::object;
use schedlab_json::{Value, json};

/// Where a list goes on. Revision 0 means: at whatever revision is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) revision: u64,
    /// The last place already given.
    pub(super) after: (String, String),
}

/// How the real server calls this form.
const FORM: &str = "meta.k8s.io/v1";

impl Token {
    /// Opaque and safe in a URL.
    pub(super) fn encode(&self) -> String {
        let (namespace, name) = &self.after;
        let start = format!("{namespace}/{name}");
        let plain = json!({"v": FORM, "rv": self.revision, "start": start});
        URL_SAFE_NO_PAD.encode(plain.to_string())
    }

    pub(super) fn decode(text: &str) -> Result<Self, ApiError> {
        Self::read(text).map_err(|why| {
            let why = format!("invalid continue token: continue key is not valid: {why}");
            ApiError::bad_request(why)
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let offset = match error {
                DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _) => {
                    offset
                }
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len() / 4 * 4,
            };
            format!("illegal base64 data at input byte {offset}")
        })?;
        let plain: Value = serde_json::from_slice(&bytes)
            .map_err(|error| go_json::complaint(&bytes).unwrap_or_else(|| error.to_string()))?;
        let form = object::text(&plain, &["v"]);
        if form != FORM {
            return Err(format!("server does not recognize this encoded version {form:?}"));
        }
        let revision = plain["rv"].as_u64().ok_or("malformed value")?;
        let start = object::text(&plain, &["start"]).split_once('/').ok_or("malformed value")?;
        Ok(Self { revision, after: (start.0.to_owned(), start.1.to_owned()) })
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
        for text in ["junk", "3", "31", "ffff", "é", "e30"] {
            assert_eq!(Token::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}
