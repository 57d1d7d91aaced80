//! The review that a webhook gets, and what its answer means, in the real server's words.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::error::{ApiError, go_json};
use crate::object::{go_type, list, text};
use crate::store::{Answer, Question};
use schedlab_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What is sent.
pub(crate) fn review(question: &Question) -> Value {
    let mut request = question.request.clone();
    request["uid"] = question.uid.as_str().into();
    json!({"kind": KIND, "apiVersion": API_VERSION, "request": request})
}

/// What came back: the answer, and warnings for whoever asked.
pub(crate) fn answered(question: &Question, review: &Value) -> (Answer, Vec<String>) {
    match verified(question, review) {
        Ok(patch) => {
            let response = &review["response"];
            let warnings = list(response, &["warnings"]).iter().filter_map(Value::as_str);
            let answer = if response["allowed"] == true {
                Answer::Allowed(patch)
            } else {
                Answer::Denied(response["status"].clone())
            };
            (answer, warnings.map(str::to_owned).collect())
        }
        Err(why) => (Answer::Failed(why), Vec::new()),
    }
}

/// The patch, if the answer keeps to the rules.
fn verified(question: &Question, review: &Value) -> Result<Option<Value>, String> {
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
    if uid != question.uid {
        return invalid(format!("expected response.uid={:?}, got {uid:?}", question.uid));
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
    let why = match (question.webhook.mutates, has_patch, patch_type) {
        (true, true, Some(_)) => return operations(response).map(Some),
        (_, false, None) => return Ok(None),
        (true, true, None) => "webhook returned response.patch but not response.patchType",
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch",
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, Some(_)) => "validating webhook may not return response.patchType",
    };
    invalid(why.to_owned())
}

/// The operations of a JSON Patch.
fn operations(response: &Value) -> Result<Value, String> {
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let patch = STANDARD.decode(text(response, &["patch"]));
    let patch = patch.map_err(|error| undecodable(error.to_string()))?;
    let decoded: Value = serde_json::from_slice(&patch).map_err(|error| {
        undecodable(go_json::complaint(&patch).unwrap_or_else(|| error.to_string()))
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

/// 500: the webhook gave no answer, and without one nothing is done.
pub(crate) fn failure(name: &str, why: &str) -> ApiError {
    ApiError::internal(format!("failed calling webhook {name:?}: {why}"))
}

/// What a webhook's refusal becomes.
pub(crate) fn denial(name: &str, status: &Value) -> ApiError {
    let said = format!("admission webhook {name:?} denied the request");
    let reason = text(status, &["reason"]);
    let message = match (text(status, &["message"]), reason) {
        ("", "") => format!("{said} without explanation"),
        ("", why) | (why, _) => format!("{said}: {why}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let mut error = ApiError::new(code.unwrap_or(0).max(400), reason, message);
    error.details = schedlab_json::from_value(status["details"].clone()).ok();
    error
}
