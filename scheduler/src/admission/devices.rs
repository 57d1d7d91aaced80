//! Which GPUs a container sees that was given none. The images of most GPU programs ask for all of
//! them in `NVIDIA_VISIBLE_DEVICES`, and a device plugin sets that for those only that it serves.
//! Where the configuration blocks it (`blockNvidiaVisibleDevices`, as KAI's admission), containers
//! that ask for no GPU see none, and no pod says otherwise itself.

use schedlab_json::{Text, Value, json};
use schedlab_scheduler_core::model::mig_gpus;

use crate::{
    binder::{Container, DEVICES},
    mirror::CONFIG_MAPS,
    parse::{Malformed, annotated, at, list, text},
};

const GPU: &str = "nvidia.com/gpu";

/// What the runtime takes for no GPU at all.
const NOTHING: &str = "void";

const ALLOWED: &str = "\"void\" or \"none\": which GPUs a container sees follows from what it asks \
                       for (blockNvidiaVisibleDevices)";

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// The first container that says itself which GPUs it sees.
pub(super) fn fault(pod: &Value) -> Option<Malformed> {
    let shared = annotated(pod, CONFIG_MAPS).and_then(|start| {
        let container = Container::of(pod)?;
        Some((container.pointer(), format!("{start}-{}", container.position())))
    });
    for kind in LISTS {
        for (index, container) in list(pod, &format!("/spec/{kind}")).iter().enumerate() {
            let here = format!("/spec/{kind}/{index}");
            let map = shared.as_ref().filter(|(pointer, _)| *pointer == here).map(|(_, map)| map);
            let mut variables = list(container, "/env").iter().enumerate();
            let wrong = variables.find(|(_, is)| is_devices(is) && !may_stand(is, map));
            if let Some((variable, found)) = wrong {
                let field = format!("spec.{kind}[{index}].env[{variable}]");
                return Some(Malformed::new(field, told(found), ALLOWED));
            }
        }
    }
    None
}

fn is_devices(variable: &Value) -> bool {
    text(variable, "/name") == Some(DEVICES)
}

/// It names no device, or those that the binder writes into the config map of this name.
fn may_stand(variable: &Value, map: Option<&String>) -> bool {
    match at(variable, "/valueFrom") {
        Some(_) => text(variable, "/valueFrom/configMapKeyRef/name")
            .is_some_and(|name| map.is_some_and(|map| map == name)),
        None => matches!(text(variable, "/value").unwrap_or_default(), "" | NOTHING | "none"),
    }
}

fn told(variable: &Value) -> String {
    match text(variable, "/value") {
        Some(value) => format!("{DEVICES} {value:?}"),
        None => format!("{DEVICES} from elsewhere"),
    }
}

/// The operations of a JSON patch: containers that ask for no GPU, and say nothing, see none.
pub(super) fn changes(pod: &Value, shares: Shares) -> Vec<Value> {
    let its_own = match shares {
        Shares::Gpus => Container::of(pod).map(|container| container.pointer()),
        Shares::Nothing => None,
    };
    let mut changes = Vec::new();
    for kind in LISTS {
        for (index, container) in list(pod, &format!("/spec/{kind}")).iter().enumerate() {
            let pointer = format!("/spec/{kind}/{index}");
            let says = list(container, "/env").iter().any(is_devices);
            if says || asks_for_gpus(container) || its_own.as_ref() == Some(&pointer) {
                continue;
            }
            let mut environment = list(container, "/env").to_vec();
            environment.push(json!({ "name": DEVICES, "value": NOTHING }));
            let path = format!("{pointer}/env");
            changes.push(json!({ "op": "add", "path": path, "value": environment }));
        }
    }
    changes
}

/// Whether a pod has a share of a GPU, which one of its containers sees.
#[derive(Clone, Copy)]
pub(super) enum Shares {
    Gpus,
    Nothing,
}

/// Whole ones, parts that a node cut, or by claims: whoever gives them says which.
fn asks_for_gpus(container: &Value) -> bool {
    has_gpus(container) || !list(container, "/resources/claims").is_empty()
}

/// Containers of both kinds.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|kind| list(pod, &format!("/spec/{kind}")))
}

/// It asks for whole ones, or parts that a node cut.
pub(super) fn has_gpus(container: &Value) -> bool {
    let is_gpu = |(name, amount): (&Text, &Value)| {
        (name == GPU || mig_gpus(name).is_some())
            && !matches!(amount.as_str(), Some("0" | ""))
            && amount.as_i64() != Some(0)
    };
    let of = |which| at(container, which).and_then(Value::as_object);
    let mut all = ["/resources/requests", "/resources/limits"].into_iter().filter_map(of).flatten();
    all.any(is_gpu)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn pod(annotations: &Value, containers: &Value) -> Value {
        json!({ "metadata": { "annotations": annotations }, "spec": { "containers": containers } })
    }

    fn sees(value: &Value) -> Value {
        json!([{ "name": "c", "env": [{ "name": "X", "value": "all" }, value] }])
    }

    fn judged(annotations: &Value, containers: &Value) -> String {
        fault(&pod(annotations, containers)).map_or_else(String::new, |wrong| wrong.to_string())
    }

    #[test]
    fn who_says_itself_which_gpus_it_sees_is_refused() {
        let value = |value: &str| sees(&json!({ "name": DEVICES, "value": value }));
        assert_snapshot!(judged(&json!({}), &value("all")), @r#"spec.containers[0].env[1]: found NVIDIA_VISIBLE_DEVICES "all", allowed: "void" or "none": which GPUs a container sees follows from what it asks for (blockNvidiaVisibleDevices)"#);
        for nothing in ["void", "none", ""] {
            assert_eq!(judged(&json!({}), &value(nothing)), "");
        }
        let reference =
            json!({ "name": DEVICES, "valueFrom": { "secretKeyRef": { "name": "s" } } });
        assert_snapshot!(judged(&json!({}), &sees(&reference)), @r#"spec.containers[0].env[1]: found NVIDIA_VISIBLE_DEVICES from elsewhere, allowed: "void" or "none": which GPUs a container sees follows from what it asks for (blockNvidiaVisibleDevices)"#);
        let first = json!({ "spec": { "initContainers": value("0") } });
        assert!(fault(&first).unwrap().field.starts_with("spec.initContainers[0]"));
    }

    #[test]
    fn the_config_map_of_a_share_is_the_binders_word_and_no_other_one_is() {
        let from = |map: &str| {
            let key = json!({ "name": map, "key": DEVICES });
            sees(&json!({ "name": DEVICES, "valueFrom": { "configMapKeyRef": key } }))
        };
        let share = json!({ "gpu-fraction": "0.5", CONFIG_MAPS: "p-shared-gpu" });
        assert_eq!(judged(&share, &from("p-shared-gpu-0")), "");
        assert_ne!(judged(&share, &from("mine")), "");
        assert_ne!(judged(&json!({}), &from("p-shared-gpu-0")), "");
    }

    #[test]
    fn a_container_that_asks_for_no_gpu_sees_none() {
        let asks = |resources: Value| json!({ "name": "c", "resources": resources });
        let containers = json!([
            { "name": "plain", "env": [{ "name": "X", "value": "1" }] },
            asks(json!({ "requests": { "nvidia.com/gpu": "1" } })),
            asks(json!({ "limits": { "nvidia.com/mig-1g.5gb": 1 } })),
            asks(json!({ "claims": [{ "name": "gpu" }] })),
            asks(json!({ "requests": { "nvidia.com/gpu": "0" } })),
            { "name": "says", "env": [{ "name": DEVICES, "value": "none" }] },
        ]);
        let told = |share| {
            let changes = changes(&pod(&json!({}), &containers), share);
            let lines = changes.iter().map(|is| format!("{} {}", is["path"], is["value"]));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(told(Shares::Nothing), @r#"
        "/spec/containers/0/env" [{"name":"X","value":"1"},{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]
        "/spec/containers/4/env" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]
        "#);
        assert_snapshot!(told(Shares::Gpus), @r#""/spec/containers/4/env" [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void"}]"#);
    }
}
