//! Volumes of a pod that is to be bound, where a scheduler leaves them to the binder, as KAI's does:
//! for claims that wait for their first consumer a volume is kept, or they are told on which node
//! one is to be made. Our own scheduler has them bound before it asks.

use schedlab_json::Value;
use schedlab_scheduler_core::{
    model::{Name, VolumeAccess, VolumeProblem},
    plugins::chosen_volumes,
};
use serde::de::IgnoredAny;

use super::{order::Order, refusal::Refusal};
use crate::{
    api::{Api, ApiError, Merge, path},
    apply::volumes::binding,
    mirror::{Key, Mirror, PodVolume},
    parse::{list, text},
    watch::{Kind, Storage},
};

/// Sees to it that the pod's claims get volumes that the node can use.
pub(super) async fn bind(
    api: &Api,
    (key, order): (&Key, &Order),
    (pod, node): (&Value, &Value),
) -> Result<(), Refusal> {
    let claims = PodVolume::all(pod);
    if claims.is_empty() {
        return Ok(());
    }
    let mut mirror = Mirror::new(text(pod, "/spec/schedulerName").unwrap_or_default());
    mirror.upsert(Kind::Pod, pod);
    let all = path("v1", &key.namespace, "persistentvolumeclaims", "");
    for claim in &claims {
        let known = api.get(&format!("{all}?fieldSelector=metadata.name={}", claim.claim)).await?;
        hear(&mut mirror, Storage::Claim, &known);
    }
    let unbound = mirror.volumes.unbound(key, &mirror.pods);
    if unbound.is_empty() {
        return Ok(());
    }
    mirror.upsert(Kind::Node, node);
    for kind in [Storage::Volume, Storage::Class] {
        hear(&mut mirror, kind, &api.get(&Kind::Storage(kind).path()).await?);
    }
    keep_volumes(api, &mirror, (key, &order.node)).await?;
    let unbound: Vec<&str> = unbound.iter().map(|claim| &*claim.name).collect();
    Err(Refusal::Waits(format!(
        "waiting for persistentvolumeclaims to be bound: {}",
        unbound.join(", ")
    )))
}

fn hear(mirror: &mut Mirror, kind: Storage, all: &Value) {
    for object in list(all, "/items") {
        mirror.upsert(Kind::Storage(kind), object);
    }
}

/// Keeps volumes for the pod's claims, or has them made.
async fn keep_volumes(
    api: &Api,
    mirror: &Mirror,
    (key, node): (&Key, &Name),
) -> Result<(), Refusal> {
    let (Some(pod), Some(record)) = (mirror.pods.get(key), mirror.nodes.get(node)) else {
        return Err(Refusal::Failed(format!("node {node} or pod {key} cannot be read")));
    };
    let claims = mirror.volumes.of_pod(key, pod);
    let chosen = chosen_volumes([(&*claims, &record.node)].into_iter());
    for claim in &claims {
        match &claim.access {
            VolumeAccess::Nowhere(VolumeProblem::Unbound | VolumeProblem::NotMade)
            | VolumeAccess::Bound(_) => continue,
            VolumeAccess::Nowhere(problem) => {
                return Err(Refusal::Failed(problem.told(&claim.name)));
            }
            VolumeAccess::Open { .. } => {}
        }
        if !chosen.contains_key(&claim.name) {
            let why = format!("node {node} has no volume for persistentvolumeclaim {}", claim.name);
            return Err(Refusal::Failed(why));
        }
        let change = Key::read(&claim.name)
            .and_then(|claim| binding(&mirror.volumes, (&claim, node), &chosen));
        let Some(change) = change else { continue };
        match api.patch(&change.path, Merge::Plain, &change.merged).await {
            // Who was quicker may have bound it: that is looked at again.
            Ok(IgnoredAny) | Err(ApiError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
