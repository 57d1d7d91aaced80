//! Expansion of persistent volume claims.

use crate::admission::Admission;
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::store::Key;
use schedlab_api::{Value, object, quantity::thousandths};

/// Rejects a larger storage request of a `PersistentVolumeClaim` whose storage class does not allow
/// volume expansion.
pub(in crate::admission) fn check_expansion(
    admission: &Admission<'_>,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    if !admission.kind.is("", "PersistentVolumeClaim")
        || requested_storage(new) <= requested_storage(old)
    {
        return Ok(());
    }
    let class = object::text(old, &["spec", "storageClassName"]);
    let class = Key::new(Resource::new("storage.k8s.io", "storageclasses"), "", class);
    if admission.store.find(&class).is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that \
               provisions the pvc must support resize";
    Err(ApiError::forbidden(&admission.key.resource, &admission.key.name, why))
}

fn requested_storage(claim: &Value) -> i128 {
    object::at(claim, &["spec", "resources", "requests", "storage"])
        .and_then(thousandths)
        .unwrap_or(0)
}
