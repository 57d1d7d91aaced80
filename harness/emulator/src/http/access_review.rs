//! Access reviews. Every user is an administrator, so everything is allowed.

use ::http::request::Parts;
use ::http::{Method, StatusCode};

use super::accept::Accept;
use super::decode;
use super::path::Target;
use super::response::{self, ApiResponse};
use crate::api_types::error::ApiError;
use schedlab_api::{Value, json};

/// The group, plural and kind of each access review. All are cluster-scoped and of version `v1`.
pub(super) const REVIEW_RESOURCES: [(&str, &str, &str); 4] = [
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

/// The response to an access review; `None` if the request is no access review.
pub(super) fn respond_to_review(
    parts: &Parts,
    target: &Target,
    accept: &Accept,
    body: &[u8],
) -> Option<Result<ApiResponse, ApiError>> {
    let Target { group, version, plural, namespace: None, name: None, .. } = target else {
        return None;
    };
    let is_requested = |review: &&(&str, &str, &str)| review.0 == group && review.1 == plural;
    let (_, _, kind) = REVIEW_RESOURCES.iter().find(is_requested).filter(|_| version == "v1")?;
    if parts.method != Method::POST {
        return Some(Err(ApiError::method_not_allowed()));
    }
    let review = match decode::decode_object(&parts.headers, body, kind) {
        // The response does not depend on the body, so a protobuf body need not be decoded.
        Err(error) if error.code == 415 => Ok(json!({})),
        other => other,
    };
    let response = review.map(|mut review| {
        review["kind"] = json!(kind);
        review["apiVersion"] = json!(format!("{group}/v1"));
        review["status"] = review_status(kind);
        response::object_response(StatusCode::CREATED, accept.encoding, &review)
    });
    Some(response)
}

/// The user of every request: the administrator.
pub(super) fn request_user() -> Value {
    json!({
        "username": "kubernetes-admin",
        "groups": ["kubeadm:cluster-admins", "system:authenticated"],
    })
}

fn review_status(kind: &str) -> Value {
    match kind {
        "SelfSubjectReview" => json!({"userInfo": request_user()}),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        }),
        _ => json!({"allowed": true}),
    }
}
