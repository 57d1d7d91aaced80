//! The attributes of a request for admission webhooks.

use super::{RequestContext, access_review, decode};
use crate::store::WebhookContext;
use schedlab_api::{Value, json, object};

impl RequestContext<'_> {
    pub(super) fn webhook_context(&self) -> WebhookContext {
        WebhookContext {
            user: access_review::request_user(),
            options: self.request_options(),
            version: self.target.version.clone(),
            subresource: self.target.subresource.clone().unwrap_or_default(),
            ..WebhookContext::default()
        }
    }

    /// The options of the request (`CreateOptions`, `UpdateOptions` or `DeleteOptions`), without
    /// their kind.
    fn request_options(&self) -> Value {
        // The body of a deletion replaces its query parameters. Other bodies are objects.
        let deletion = decode::decode_delete_options(self.headers, self.body).ok().flatten();
        if let Some(deletion) = deletion.filter(|body| body["kind"] == "DeleteOptions") {
            return deletion;
        }
        let mut options = json!({});
        let texts = ["fieldManager", "fieldValidation", "propagationPolicy"];
        for field in texts {
            if let Some(text) = self.query.get(field).filter(|text| !text.is_empty()) {
                object::set(&mut options, &[field], text.into());
            }
        }
        if let Ok(Some(secs)) = self.query.number_parameter("gracePeriodSeconds") {
            object::set(&mut options, &["gracePeriodSeconds"], secs.into());
        }
        if self.query.get("dryRun").is_some() {
            object::set(&mut options, &["dryRun"], json!(["All"]));
        }
        options
    }
}
