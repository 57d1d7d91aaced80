//! What containers wait for: config maps and secrets that they mount, or take their environment
//! from. Claims on volumes are not looked at. What nobody watches counts as there.

use crate::actors::kinds::{CONFIG_MAPS, PODS, SECRETS};
use crate::actors::{Change, View};
use crate::object::{at, list, namespace, text};
use crate::store::{Key, Resource};
use schedlab_json::Value;

use super::{is_finished, node_name};

/// Every namespace of a real cluster has it.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A config map or secret that a pod cannot do without.
struct Need<'p> {
    resource: &'static Resource,
    name: &'p str,
    /// The volume it is mounted as; none: it is read into the environment.
    volume: Option<&'p str>,
    /// The key that is read.
    key: Option<&'p str>,
}

/// Why the containers of a pod cannot start.
pub(super) struct Lack {
    /// What they wait in.
    pub(super) state: &'static str,
    /// Why, in their state; empty where a kubelet says it in the event alone.
    pub(super) message: String,
    /// The event's reason and text.
    pub(super) event: (&'static str, String),
}

/// What a pod lacks first: volumes come before the environment.
pub(super) fn lack(pod: &Value, view: &View) -> Option<Lack> {
    let mut needs = needs(pod);
    needs.sort_by_key(|need| need.volume.is_none());
    needs.iter().find_map(|need| lacking(need, namespace(pod), view))
}

/// The pods that a new or changed object may let start.
pub(super) fn waiting_for(change: &Change, view: &View) -> Vec<Key> {
    let Key { resource, namespace, name } = &change.key;
    let is_needed = |pod: &Value| {
        needs(pod).iter().any(|need| *need.resource == *resource && *need.name == **name)
    };
    let pods = view
        .within(&PODS, namespace)
        .filter(|(_, pod)| !node_name(pod).is_empty() && !is_finished(pod) && is_needed(pod));
    pods.map(|(key, _)| key.clone()).collect()
}

fn lacking(need: &Need, space: &str, view: &View) -> Option<Lack> {
    let (kind, shown) =
        if *need.resource == *SECRETS { ("secret", "Secret") } else { ("configmap", "ConfigMap") };
    if !view.sees(need.resource) {
        return None;
    }
    let key = Key::new(need.resource.clone(), space, need.name);
    let why = match (view.get(&key), need.key) {
        (None, _) => format!("{kind} \"{}\" not found", need.name),
        (Some(found), Some(wanted)) if !has(found, wanted) => {
            format!("couldn't find key {wanted} in {shown} {space}/{}", need.name)
        }
        (Some(_), _) => return None,
    };
    Some(match need.volume {
        Some(volume) => Lack {
            state: "ContainerCreating",
            message: String::new(),
            event: (
                "FailedMount",
                format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}"),
            ),
        },
        None => Lack {
            state: "CreateContainerConfigError",
            event: ("Failed", format!("Error: {why}")),
            message: why,
        },
    })
}

fn has(object: &Value, key: &str) -> bool {
    ["data", "binaryData"].iter().any(|field| at(object, &[*field, key]).is_some())
}

fn needs(pod: &Value) -> Vec<Need<'_>> {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let mut needs: Vec<Need<'_>> = volumes.flat_map(of_volume).collect();
    let containers = ["initContainers", "containers"].into_iter();
    for container in containers.flat_map(|kind| list(pod, &["spec", kind])) {
        let whole = list(container, &["envFrom"]).iter();
        needs.extend(whole.flat_map(|from| both(from, ["configMapRef", "secretRef"], "name")));
        let single = list(container, &["env"]).iter().map(|one| &one["valueFrom"]);
        needs.extend(single.flat_map(|from| {
            let refs = ["configMapKeyRef", "secretKeyRef"];
            let key = refs.iter().find_map(|field| from[*field]["key"].as_str());
            both(from, refs, "name").map(move |need| Need { key, ..need })
        }));
    }
    needs.retain(|need| need.name != ROOT_CA);
    needs
}

fn of_volume(volume: &Value) -> Vec<Need<'_>> {
    let single = both(volume, ["configMap", ""], "name");
    let single = single.chain(both(volume, ["", "secret"], "secretName"));
    let sources = list(volume, &["projected", "sources"]).iter();
    let projected = sources.flat_map(|source| both(source, ["configMap", "secret"], "name"));
    let name = Some(text(volume, &["name"]));
    single.chain(projected).map(|need| Need { volume: name, ..need }).collect()
}

/// A config map and a secret that stand in these fields, unless they may be absent.
fn both<'p>(
    holder: &'p Value,
    fields: [&'static str; 2],
    name: &'static str,
) -> impl Iterator<Item = Need<'p>> {
    let resources: [&'static Resource; 2] = [&CONFIG_MAPS, &SECRETS];
    resources.into_iter().zip(fields).filter_map(move |(resource, field)| {
        let found = holder.get(field).filter(|found| found["optional"] != true)?;
        let name = found[name].as_str().filter(|name| !name.is_empty())?;
        Some(Need { resource, name, volume: None, key: None })
    })
}
