//! `ValidatingAdmissionPolicy`: matched like a webhook, and decided by CEL expressions in the API
//! server. A policy applies through its bindings with the action `Deny`.
//!
//! Left out: parameters, variables, audit annotations, the actions `Warn` and `Audit`, and the
//! check of expressions when a policy is written.

use std::sync::LazyLock;

use super::{AdmissionAttributes, GROUP, conditions};
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::store::{Key, Store, Webhook};
use schedlab_api::{
    Value, json,
    object::{list, name, text},
};

static POLICIES: LazyLock<Resource> =
    LazyLock::new(|| Resource::new(GROUP, "validatingadmissionpolicies"));
static BINDINGS: LazyLock<Resource> =
    LazyLock::new(|| Resource::new(GROUP, "validatingadmissionpolicybindings"));

/// Whether any `ValidatingAdmissionPolicy` is bound.
pub(super) fn has_policies(store: &Store) -> bool {
    store.count(&BINDINGS) > 0
}

impl AdmissionAttributes<'_> {
    /// Checks the request against all bound `ValidatingAdmissionPolicies`, in the order of their
    /// bindings' names.
    ///
    /// # Errors
    ///
    /// A policy denies the request, or cannot be evaluated and its failure policy is `Fail`.
    pub(crate) fn check_policies(&self, store: &Store) -> Result<(), ApiError> {
        for binding in store.list(&BINDINGS, None) {
            let actions = list(binding, &["spec", "validationActions"]);
            let key = Key::new(POLICIES.clone(), "", text(binding, &["spec", "policyName"]));
            let Some(policy) = store.find(&key) else { continue };
            let spec = &policy["spec"];
            if !actions.iter().any(|action| action == "Deny") || !spec["paramKind"].is_null() {
                continue;
            }
            let Some(request) = self.matched_request(store, spec, &binding["spec"])? else {
                continue;
            };
            let is_fail = spec["failurePolicy"] != "Ignore";
            let Some(violation) =
                conditions::first_violation(list(spec, &["validations"]), &request, is_fail)
            else {
                continue;
            };
            let why = format!(
                "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {}",
                name(policy),
                name(binding),
                violation.message
            );
            return Err(self.denial_error(&why, &violation.reason));
        }
        Ok(())
    }

    /// The request as the policy sees it, if the policy and its binding match.
    fn matched_request(
        &self,
        store: &Store,
        policy: &Value,
        binding: &Value,
    ) -> Result<Option<Value>, ApiError> {
        let matching = |constraints: &Value, rules: Value, conditions: &Value| {
            let mut spec = constraints.clone();
            spec["rules"] = rules;
            spec["matchConditions"] = conditions.clone();
            spec["failurePolicy"] = policy["failurePolicy"].clone();
            self.review_request_for(store, &policy_as_webhook(spec))
        };
        let any = json!([{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
        }]);
        let constraints = &policy["matchConstraints"];
        let excluded = constraints["excludeResourceRules"].clone();
        let resources = &binding["matchResources"];
        let rules = &resources["resourceRules"];
        let rules = if list(rules, &[]).is_empty() { any } else { rules.clone() };
        if matching(&json!({}), excluded, &Value::Null)?.is_some()
            || matching(&object_or_empty(resources), rules, &Value::Null)?.is_none()
        {
            return Ok(None);
        }
        let rules = constraints["resourceRules"].clone();
        matching(&object_or_empty(constraints), rules, &policy["matchConditions"])
    }

    /// The error for a denied request, with the reason that the validation names.
    fn denial_error(&self, why: &str, reason: &str) -> ApiError {
        let (code, reason) = match reason {
            "Unauthorized" => (401, reason),
            "Forbidden" => (403, reason),
            "RequestEntityTooLarge" => (413, reason),
            _ => (422, "Invalid"),
        };
        let forbidden = ApiError::forbidden(&self.kind.resource, self.name, why);
        ApiError { code, reason: reason.to_owned(), ..forbidden }
    }
}

fn object_or_empty(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { json!({}) }
}

fn policy_as_webhook(spec: Value) -> Webhook {
    Webhook {
        source: (String::new(), 0),
        name: String::new(),
        is_mutating: false,
        client_config: Value::Null,
        timeout_secs: 0,
        spec,
    }
}
