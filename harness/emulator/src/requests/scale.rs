//! PUT of `/scale`: sets the desired replicas in the field that the kind's scale subresource names.

use super::request::WriteRequest;
use super::webhooks::{self, AdmissionPoint};
use super::{WritePreconditions, check_preconditions, update};
use crate::admission;
use crate::api_types::error::{ApiError, Cause, Details};
use crate::api_types::kinds::typed::{self, BodyKind};
use crate::store::{Object, Store, Subresource, WriteError, WriteOutcome};
use schedlab_api::{Value, object};

pub(super) fn update_scale(
    store: &mut Store,
    request: &mut WriteRequest,
    old: &Object,
    mut scale: Value,
) -> Result<WriteOutcome, WriteError> {
    typed::decode_subresource(BodyKind::Scale, &mut scale)?;
    let of = |field: &str| {
        object::at(&scale, &["metadata", field])
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let name = of("name").unwrap_or(&request.key.name);
    if *name != *request.key.name {
        let why = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.key.name
        );
        return Err(ApiError::bad_request(why).into());
    }
    check_preconditions(
        request,
        old,
        &WritePreconditions { uid: of("uid"), revision: of("resourceVersion"), is_update: true },
    )?;
    let name = name.to_owned();
    let before = request.kind.scale_of(old).filter(|_| webhooks::may_call_webhooks(store, request));
    let before = before.unwrap_or_default();
    let point = AdmissionPoint::update(&before).with_body_kind("autoscaling/v1", "Scale");
    let scale = webhooks::call_mutating_webhooks_only(store, request, point, scale)?;
    let replicas = object::number(&scale, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        return Err(negative_replicas_error(&name, replicas).into());
    }
    let mut new = Value::clone(old);
    let version = request.kind.stored();
    let path = version.scale.as_ref().map(|scale| &scale.spec_replicas);
    let path: Vec<&str> = path.into_iter().flatten().map(AsRef::as_ref).collect();
    object::set(&mut new, &path, replicas.into());
    // The scaled object must be valid as a whole.
    admission::prepare_update(&request.admission(store), Subresource::Scale, old, &mut new);
    admission::check_update(&request.admission(store), Subresource::Scale, old, &mut new)?;
    let scale = request.kind.scale_of(&new).unwrap_or_default();
    webhooks::call_validating_webhooks(store, request, point, &scale)?;
    Ok(update::finish_update(store, request, old, new))
}

fn negative_replicas_error(name: &str, replicas: i64) -> ApiError {
    let field = "spec.replicas";
    let message = format!("Invalid value: {replicas}: must be greater than or equal to 0");
    let mut error = ApiError::new(
        422,
        "Invalid",
        format!("Scale.autoscaling \"{name}\" is invalid: {field}: {message}"),
    );
    error.details = Some(Box::new(Details {
        name: name.to_owned(),
        group: "autoscaling".to_owned(),
        kind: "Scale".to_owned(),
        ..Details::default()
    }));
    error.with_cause(Cause {
        reason: "FieldValueInvalid".to_owned(),
        message,
        field: field.to_owned(),
    })
}
