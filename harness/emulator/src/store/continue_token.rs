//! The `continue` token of a list: after which object the next page starts, and at which revision.

use base64::{DecodeError, Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::api_types::error::{ApiError, go_json};
use schedlab_api::{Value, json, object};

/// A decoded `continue` token. Revision 0 means the current revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContinueToken {
    pub(super) revision: u64,
    /// Namespace and name of the last object of the previous page.
    pub(super) after: (String, String),
}

/// The encoding version that kube-apiserver writes into its tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl ContinueToken {
    /// The token as clients pass it: an opaque and URL-safe text.
    pub(super) fn encode(&self) -> String {
        let (namespace, name) = &self.after;
        let start = format!("{namespace}/{name}");
        let plain = json!({"v": TOKEN_VERSION, "rv": self.revision, "start": start});
        URL_SAFE_NO_PAD.encode(plain.to_string())
    }

    pub(super) fn decode(text: &str) -> Result<Self, ApiError> {
        Self::parse(text).map_err(|why| {
            let why = format!("invalid continue token: continue key is not valid: {why}");
            ApiError::bad_request(why)
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
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
            .map_err(|error| go_json::syntax_error(&bytes).unwrap_or_else(|| error.to_string()))?;
        let form = object::text(&plain, &["v"]);
        if form != TOKEN_VERSION {
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
        let token = ContinueToken { revision: 12, after: ("default".into(), "web-0".into()) };
        assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
    }

    #[test]
    fn a_made_up_token_is_a_bad_request() {
        for text in ["junk", "3", "31", "ffff", "é", "e30"] {
            assert_eq!(ContinueToken::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}
