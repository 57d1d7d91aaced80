//! Reviews: questions about who may do what. There are no rights to lack: everyone is an
//! administrator.

use ::http::request::Parts;
use ::http::{Method, StatusCode};

use super::accept::Accept;
use super::decode;
use super::path::Target;
use super::reply::{self, Reply};
use crate::error::ApiError;
use schedlab_json::{Value, json};

/// Group, plural, kind; all of version `v1`, not namespaced.
pub(super) const REVIEWS: [(&str, &str, &str); 4] = [
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

/// The answer, if the request is a review.
pub(super) fn answer(
    parts: &Parts,
    target: &Target,
    accept: &Accept,
    body: &[u8],
) -> Option<Result<Reply, ApiError>> {
    let Target { group, version, plural, namespace: None, name: None, .. } = target else {
        return None;
    };
    let is_asked = |review: &&(&str, &str, &str)| review.0 == group && review.1 == plural;
    let (_, _, kind) = REVIEWS.iter().find(is_asked).filter(|_| version == "v1")?;
    if parts.method != Method::POST {
        return Some(Err(ApiError::method_not_allowed()));
    }
    let question = match decode::object(&parts.headers, body, kind) {
        // Whatever is asked in protobuf, the answer is the same.
        Err(error) if error.code == 415 => Ok(json!({})),
        other => other,
    };
    let reviewed = question.map(|mut review| {
        review["kind"] = json!(kind);
        review["apiVersion"] = json!(format!("{group}/v1"));
        review["status"] = status(kind);
        reply::object(StatusCode::CREATED, accept.encoding, &review)
    });
    Some(reviewed)
}

/// Whoever asks is the administrator.
pub(super) fn user() -> Value {
    json!({
        "username": "kubernetes-admin",
        "groups": ["kubeadm:cluster-admins", "system:authenticated"],
    })
}

fn status(kind: &str) -> Value {
    match kind {
        "SelfSubjectReview" => json!({"userInfo": user()}),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        }),
        _ => json!({"allowed": true}),
    }
}
