//! PUT of `/scale`: the wanted number of replicas, whatever the kind keeps it in.

use super::request::Request;
use super::webhooks::{self, Point};
use super::{Seen, check_seen, update};
use crate::admit;
use crate::error::{ApiError, Cause, Details};
use crate::kinds::typed;
use crate::object;
use crate::store::{Object, Stop, Store, Subresource, Written};
use schedlab_json::Value;

pub(super) fn scale(
    store: &mut Store,
    request: &mut Request,
    old: &Object,
    mut wanted: Value,
) -> Result<Written, Stop> {
    typed::decode_scale(&mut wanted)?;
    let of = |field: &str| {
        object::at(&wanted, &["metadata", field])
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
    check_seen(
        request,
        old,
        &Seen { uid: of("uid"), revision: of("resourceVersion"), by_update: true },
    )?;
    let name = name.to_owned();
    let before = request.kind.scale_of(old).filter(|_| webhooks::is_asked(store, request));
    let before = before.unwrap_or_default();
    let point = Point::update(&before).of_part("autoscaling/v1", "Scale");
    let wanted = webhooks::change(store, request, point, wanted)?;
    let replicas = object::number(&wanted, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        return Err(negative(&name, replicas).into());
    }
    let mut new = Value::clone(old);
    let version = request.kind.stored();
    let path = version.scale.as_ref().map(|scale| &scale.spec_replicas);
    let path: Vec<&str> = path.into_iter().flatten().map(AsRef::as_ref).collect();
    object::set(&mut new, &path, replicas.into());
    // The object that comes of it must be one that could have been written whole.
    admit::prepare_update(&request.admission(store), Subresource::Scale, old, &mut new);
    admit::check_update(&request.admission(store), Subresource::Scale, old, &mut new)?;
    let scale = request.kind.scale_of(&new).unwrap_or_default();
    webhooks::validate(store, request, point, &scale)?;
    Ok(update::settle(store, request, old, new))
}

fn negative(name: &str, replicas: i64) -> ApiError {
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
