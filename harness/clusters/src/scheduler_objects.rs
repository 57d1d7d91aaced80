//! The objects that the scheduler needs on a cluster: its CRDs and priority classes.

use schedlab_api::{Value, crds};

use crate::api::{Api, to_anyhow_error};

/// The CRDs and priority classes of the scheduler, each with the API group and the plural name of
/// its collection.
pub fn scheduler_objects() -> impl Iterator<Item = (&'static str, &'static str, Value)> {
    let kinds = crds::all_crds().into_iter();
    let kinds = kinds.map(|kind| ("apiextensions.k8s.io", "customresourcedefinitions", kind));
    let classes = crds::priority_classes().into_iter();
    let classes = classes.map(|class| ("scheduling.k8s.io", "priorityclasses", class));
    kinds.chain(classes)
}

/// Creates the CRDs and priority classes of the scheduler.
///
/// # Errors
/// The server rejects an object, for example because it exists.
pub async fn install_scheduler_objects(api: &Api) -> anyhow::Result<()> {
    for (group, plural, object) in scheduler_objects() {
        api.post(&format!("/apis/{group}/v1/{plural}"), &object).await.map_err(to_anyhow_error)?;
    }
    Ok(())
}
