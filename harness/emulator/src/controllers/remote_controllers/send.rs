//! Sends a request of a controller over HTTP.

use http::Request as HttpRequest;

use super::Collection;
use crate::api_types::error::ApiError;
use crate::controllers::WriteRefusal;
use crate::reconcile::ApiRequest;
use crate::store::{DeleteOptions, Op, Propagation, Subresource};
use schedlab_api::{Value, json, object};

/// Sets the resourceVersion of an update to the one that an earlier update of the same object
/// returned.
pub(super) fn set_resource_version(request: &mut ApiRequest, version: &str) {
    if let Op::Update(_, body) = &mut request.op {
        object::set(body, &["metadata", "resourceVersion"], version.into());
    }
}

/// Sends a request and returns the object in the response, if any. Refused events, and updates and
/// deletions of missing objects, are no errors.
pub(super) async fn send_request(
    client: &kube::Client,
    at: &Collection,
    manager: &str,
    request: ApiRequest,
) -> Result<Option<Value>, WriteRefusal> {
    let at_best = request.key.resource.is("", "events");
    let creates = matches!(request.op, Op::Create(_));
    let name = request.key.name.clone();
    let Some(http) = http_request(at, manager, request) else { return Ok(None) };
    match client.request::<Value>(http).await {
        Ok(object) if object["kind"] == "Status" => Ok(None),
        Ok(object) => Ok(Some(object)),
        Err(_) if at_best => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 && !creates => Ok(None),
        Err(error) => Err(WriteRefusal { name, is_create: creates, error: to_api_error(&error) }),
    }
}

fn http_request(
    at: &Collection,
    manager: &str,
    request: ApiRequest,
) -> Option<HttpRequest<Vec<u8>>> {
    let ApiRequest { key, op } = request;
    let collection = at.url_path(&key.namespace);
    let one = format!("{collection}/{}", key.name);
    let (method, path, body) = match op {
        Op::Create(object) => ("POST", format!("{collection}?fieldManager={manager}"), object),
        Op::Update(part, object) => {
            let part = match part {
                Subresource::Status => "/status",
                Subresource::None => "",
                // No controller writes these.
                Subresource::Scale
                | Subresource::Finalize
                | Subresource::Resize
                | Subresource::EphemeralContainers => return None,
            };
            ("PUT", format!("{one}{part}?fieldManager={manager}"), object)
        }
        Op::Delete(options) => ("DELETE", one, delete_options(&options)),
        Op::Patch(..) | Op::Bind(_) | Op::Evict(_) => return None,
    };
    let http = HttpRequest::builder().method(method).uri(path);
    let http = http.header("content-type", "application/json").header("user-agent", manager);
    http.body(body.to_string().into_bytes()).ok()
}

fn delete_options(options: &DeleteOptions) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(secs) = options.grace_secs {
        body["gracePeriodSeconds"] = json!(secs);
    }
    if let Some(propagation) = options.propagation {
        body["propagationPolicy"] = json!(match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        });
    }
    if let Some(uid) = &options.preconditions.uid {
        body["preconditions"] = json!({"uid": uid});
    }
    body
}

fn to_api_error(error: &kube::Error) -> ApiError {
    if let kube::Error::Api(status) = error {
        return ApiError::new(status.code, &status.reason, status.message.clone());
    }
    ApiError::new(503, "ServiceUnavailable", error.to_string())
}
