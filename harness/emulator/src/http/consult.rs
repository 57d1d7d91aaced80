//! What a request says of itself beside its object, for admission webhooks.

use super::{Call, decode, review};
use crate::object;
use crate::store::Consultation;
use schedlab_json::{Value, json};

impl Call<'_> {
    pub(super) fn consultation(&self) -> Consultation {
        Consultation {
            user: review::user(),
            options: self.options(),
            version: self.target.version.clone(),
            subresource: self.target.subresource.clone().unwrap_or_default(),
            ..Consultation::default()
        }
    }

    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions` without their kind.
    fn options(&self) -> Value {
        // Where a deletion has a body, its query is not read; other bodies are objects.
        let deletion = decode::optional(self.headers, self.body, "DeleteOptions").ok().flatten();
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
        if let Ok(Some(secs)) = self.query.number("gracePeriodSeconds") {
            object::set(&mut options, &["gracePeriodSeconds"], secs.into());
        }
        if self.query.get("dryRun").is_some() {
            object::set(&mut options, &["dryRun"], json!(["All"]));
        }
        options
    }
}
