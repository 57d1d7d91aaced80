//! `AdmissionReview`: the request that is sent, and the response. Errors have the texts of the API
//! server.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::api_types::error::{ApiError, go_json};
use crate::store::{PendingCall, WebhookVerdict};
use schedlab_api::{
    Value, json,
    object::{go_type, list, text},
};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The `AdmissionReview` to send for a webhook call.
pub(crate) fn admission_review(call: &PendingCall) -> Value {
    let mut request = call.request.clone();
    request["uid"] = call.uid.as_str().into();
    json!({"kind": KIND, "apiVersion": API_VERSION, "request": request})
}

/// Parses the response: the verdict, and warnings for the client.
pub(crate) fn parse_response(call: &PendingCall, review: &Value) -> (WebhookVerdict, Vec<String>) {
    match verify_response(call, review) {
        Ok(patch) => {
            let response = &review["response"];
            let warnings = list(response, &["warnings"]).iter().filter_map(Value::as_str);
            let verdict = if response["allowed"] == true {
                WebhookVerdict::Allowed(patch)
            } else {
                WebhookVerdict::Denied(response["status"].clone())
            };
            (verdict, warnings.map(str::to_owned).collect())
        }
        Err(why) => (WebhookVerdict::Failed(why), Vec::new()),
    }
}

/// Checks a webhook's response and returns its patch, if it has one. An error if the response is
/// invalid.
fn verify_response(call: &PendingCall, review: &Value) -> Result<Option<Value>, String> {
    let (kind, version) = (text(review, &["kind"]), text(review, &["apiVersion"]));
    if version == API_VERSION && kind != KIND {
        return Err(format!(
            "failed to call webhook: converting (v1.{kind}) to (v1.{KIND}): unknown conversion"
        ));
    }
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    let response = &review["response"];
    if response.is_null() {
        return invalid("webhook response was absent".to_owned());
    }
    let uid = text(response, &["uid"]);
    if uid != call.uid {
        return invalid(format!("expected response.uid={:?}, got {uid:?}", call.uid));
    }
    if version != API_VERSION {
        let version =
            if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return invalid(format!(
            "expected webhook response of {API_VERSION}, Kind={KIND}, got {version}, Kind={kind}"
        ));
    }
    let (has_patch, patch_type) =
        (!text(response, &["patch"]).is_empty(), response["patchType"].as_str());
    let why = match (call.webhook.is_mutating, has_patch, patch_type) {
        (true, true, Some(_)) => return decode_patch(response).map(Some),
        (_, false, None) => return Ok(None),
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
    };
    invalid(why.to_owned())
}

/// The operations of the JSON Patch in the response.
fn decode_patch(response: &Value) -> Result<Value, String> {
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let patch = STANDARD.decode(text(response, &["patch"]));
    let patch = patch.map_err(|error| undecodable(error.to_string()))?;
    let decoded: Value = serde_json::from_slice(&patch).map_err(|error| {
        undecodable(go_json::syntax_error(&patch).unwrap_or_else(|| error.to_string()))
    })?;
    if !decoded.is_array() {
        let found = go_type(&decoded);
        return Err(undecodable(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
        )));
    }
    match text(response, &["patchType"]) {
        "JSONPatch" => Ok(decoded),
        other => Err(format!("unsupported patch type {other:?}")),
    }
}

/// 500: the webhook call failed and the failure policy is `Fail`.
pub(crate) fn failed_call_error(name: &str, why: &str) -> ApiError {
    ApiError::internal(format!("failed calling webhook {name:?}: {why}"))
}

/// The error for a request that a webhook denied.
pub(crate) fn denial_error(name: &str, status: &Value) -> ApiError {
    let denied = format!("admission webhook {name:?} denied the request");
    let reason = text(status, &["reason"]);
    let message = match (text(status, &["message"]), reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let mut error = ApiError::new(code.unwrap_or(0).max(400), reason, message);
    error.details = schedlab_api::from_value(status["details"].clone()).ok();
    error
}
