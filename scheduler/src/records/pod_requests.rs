//! Resource requests of a pod, computed as in Kubernetes: the sum of containers and sidecars, at
//! least what any init container needs beside the sidecars that start before it, plus overhead.
//! Pod-level requests replace the sum; pod-level limits count for resources without request.

use std::collections::BTreeMap;

use schedlab_api::{Map, Value, resources};
use schedlab_scheduler_core::resources::Resources;

use crate::parse::{Malformed, Unit, at, list, parse_non_negative, shown, text};

type Amounts<'o> = BTreeMap<&'o str, i64>;

const EXPECTED_SUM: &str = "amounts whose sum is at most 9223372036854775807";

/// Parses a list of resources, such as `status.allocatable`. A malformed quantity counts as 0 and
/// is returned as error.
pub(crate) fn parse_resource_list(
    list: Option<&Value>,
    field: &str,
) -> (Resources, Option<Malformed>) {
    let (amounts, malformed) = parse_amounts(list.and_then(Value::as_object), || field.to_owned());
    (into_resources(amounts), malformed)
}

/// The requests of one container.
pub(crate) fn container_requests(container: &Value) -> Resources {
    into_resources(RequestSum::default().container_amounts(container, "spec.containers"))
}

/// Amounts that kube-scheduler assumes, when it scores nodes, for a container that requests none:
/// millicores and bytes.
const NON_ZERO_DEFAULTS: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 << 20)];

/// The requests of a pod. A malformed quantity counts as 0 and is returned as error.
pub(crate) fn pod_requests(spec: &Value) -> (Resources, Option<Malformed>) {
    sum_requests(spec, RequestSum::default())
}

/// CPU (millicores) and memory (bytes) that kube-scheduler adds for containers without requests
/// when it scores nodes.
pub(crate) fn non_zero_surplus(spec: &Value, requests: &Resources) -> (i64, i64) {
    let (counted, _) =
        sum_requests(spec, RequestSum { defaults: NON_ZERO_DEFAULTS.into(), malformed: None });
    (
        counted.cpu_milli.saturating_sub(requests.cpu_milli),
        counted.memory_bytes.saturating_sub(requests.memory_bytes),
    )
}

fn sum_requests<'o>(spec: &'o Value, mut sum: RequestSum<'o>) -> (Resources, Option<Malformed>) {
    let mut running = Amounts::new();
    for container in list(spec, "/containers") {
        let requests = sum.container_amounts(container, "spec.containers");
        sum.add_amounts(&mut running, &requests);
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in list(spec, "/initContainers") {
        let mut requests = sum.container_amounts(container, "spec.initContainers");
        if text(container, "/restartPolicy") == Some("Always") {
            sum.add_amounts(&mut running, &requests);
            sum.add_amounts(&mut sidecars, &requests);
            requests.clone_from(&sidecars);
        } else {
            sum.add_amounts(&mut requests, &sidecars);
        }
        raise_to_minimums(&mut starting, &requests);
    }
    raise_to_minimums(&mut running, &starting);
    sum.defaults.clear();
    let of = |kind| move || format!("spec.resources.{kind}");
    for (resource, bound) in sum.parse(at(spec, "/resources/limits"), of("limits")) {
        running.entry(resource).or_insert(bound);
    }
    running.extend(sum.parse(at(spec, "/resources/requests"), of("requests")));
    let overhead = sum.parse(at(spec, "/overhead"), || "spec.overhead".to_owned());
    sum.add_amounts(&mut running, &overhead);
    running.insert("pods", 1);
    (into_resources(running), sum.malformed)
}

/// Adds up requests, and keeps the first error.
#[derive(Default)]
struct RequestSum<'o> {
    /// Amounts of a container that sets neither request nor limit.
    defaults: Amounts<'o>,
    malformed: Option<Malformed>,
}

impl<'o> RequestSum<'o> {
    fn parse(&mut self, list: Option<&'o Value>, field: impl Fn() -> String) -> Amounts<'o> {
        let (amounts, malformed) = parse_amounts(list.and_then(Value::as_object), field);
        if self.malformed.is_none() {
            self.malformed = malformed;
        }
        amounts
    }

    /// The requests of a container. For a resource without request its limit counts.
    fn container_amounts(&mut self, container: &'o Value, list_field: &str) -> Amounts<'o> {
        let field = |of: &str| match text(container, "/name") {
            Some(name) => format!("{list_field}[{name}].resources.{of}"),
            None => format!("{list_field}.resources.{of}"),
        };
        let mut amounts = self.defaults.clone();
        amounts.extend(self.parse(at(container, "/resources/limits"), || field("limits")));
        amounts.extend(self.parse(at(container, "/resources/requests"), || field("requests")));
        amounts
    }

    fn add_amounts(&mut self, total: &mut Amounts<'o>, addend: &Amounts<'o>) {
        for (resource, amount) in addend {
            let entry = total.entry(resource).or_default();
            if let Some(total) = entry.checked_add(*amount) {
                *entry = total;
            } else {
                *entry = i64::MAX;
                let field = format!("spec.containers: {resource}");
                self.malformed.get_or_insert(Malformed::new(field, "more", EXPECTED_SUM));
            }
        }
    }
}

fn raise_to_minimums<'o>(amounts: &mut Amounts<'o>, minimums: &Amounts<'o>) {
    for (resource, amount) in minimums {
        let entry = amounts.entry(resource).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// Parses amounts by resource name. `field` returns the path of the list, for errors.
fn parse_amounts(
    list: Option<&Map>,
    field: impl Fn() -> String,
) -> (Amounts<'_>, Option<Malformed>) {
    let mut amounts = Amounts::new();
    let mut malformed = None;
    for (resource, value) in list.into_iter().flatten() {
        let unit = match resource.as_str() {
            "cpu" | resources::GPU => Unit::Milli,
            _ => Unit::Whole,
        };
        let read = match value {
            Value::String(text) => parse_non_negative(text, unit),
            Value::Number(number) => parse_non_negative(&number.to_string(), unit),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                Err("a quantity such as 2, 500m, 1.5Gi or 1e3")
            }
        };
        match read {
            Ok(amount) => {
                amounts.insert(resource, amount);
            }
            Err(allowed) => {
                let field = format!("{}.{resource}", field());
                malformed.get_or_insert(Malformed::new(field, shown(value), allowed));
            }
        }
    }
    (amounts, malformed)
}

fn into_resources(mut amounts: Amounts<'_>) -> Resources {
    let mut take = |resource: &str| amounts.remove(resource).unwrap_or(0);
    Resources {
        gpu_milli: take(resources::GPU),
        cpu_milli: take("cpu"),
        memory_bytes: take("memory"),
        pods: take("pods"),
        extended: amounts
            .into_iter()
            .filter(|(_, amount)| *amount != 0)
            .map(|(resource, amount)| (resource.into(), amount))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn rendered(spec: &Value) -> String {
        let (requests, malformed) = pod_requests(spec);
        let extended: Vec<_> =
            requests.extended.iter().map(|(name, amount)| format!(" {name}={amount}")).collect();
        format!(
            "gpu={} cpu={} memory={} pods={}{} {}",
            requests.gpu_milli,
            requests.cpu_milli,
            requests.memory_bytes,
            requests.pods,
            extended.concat(),
            malformed.map(|malformed| malformed.to_string()).unwrap_or_default(),
        )
    }

    #[test]
    fn containers_sidecars_init_containers_and_overhead_add_up_as_in_kubernetes() {
        let spec = json!({
            "containers": [
                { "name": "a", "resources": { "requests": { "cpu": "1", "memory": "1Gi" },
                                              "limits": { "nvidia.com/gpu": 2 } } },
                { "name": "b", "resources": { "requests": { "cpu": "500m" } } },
            ],
            "initContainers": [
                { "name": "early", "resources": { "requests": { "cpu": "1900m" } } },
                { "name": "proxy", "restartPolicy": "Always",
                  "resources": { "requests": { "cpu": "200m" } } },
                { "name": "late", "resources": { "requests": { "cpu": "1600m", "memory": "3Gi" } } },
            ],
            "overhead": { "cpu": "10m" },
        });
        insta::assert_snapshot!(rendered(&spec), @"gpu=2000 cpu=1910 memory=3221225472 pods=1");
    }

    #[test]
    fn each_container_without_requests_has_a_non_zero_surplus() {
        let spec = json!({ "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "1", "memory": "0" } } },
            { "name": "b" },
        ] });
        let (asked, _) = pod_requests(&spec);
        assert_eq!(non_zero_surplus(&spec, &asked), (100, 200 << 20));
    }

    #[test]
    fn pod_level_requests_replace_the_sum_of_the_containers() {
        let spec = json!({
            "resources": { "requests": { "cpu": "4" } },
            "containers": [{ "name": "a", "resources": { "requests":
                { "cpu": "1", "memory": "1Ki", "example.com/nic": "1" } } }],
        });
        insta::assert_snapshot!(rendered(&spec), @"gpu=0 cpu=4000 memory=1024 pods=1 example.com/nic=1");
    }

    #[test]
    fn a_malformed_or_negative_request_counts_as_0() {
        let spec = json!({ "containers": [{ "name": "a", "resources": { "requests":
            { "nvidia.com/gpu": "-4", "cpu": "1" } } }] });
        insta::assert_snapshot!(rendered(&spec), @r#"gpu=0 cpu=1000 memory=0 pods=1 spec.containers[a].resources.requests.nvidia.com/gpu: got "-4", expected a quantity from 0 to 9223372036854775.807"#);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_malformed_and_saturates() {
        let huge = json!({ "requests": { "memory": "9223372036854775807" } });
        let spec = json!({ "containers": [{ "name": "a", "resources": huge },
                                          { "name": "b", "resources": huge }] });
        insta::assert_snapshot!(rendered(&spec), @"gpu=0 cpu=0 memory=9223372036854775807 pods=1 spec.containers: memory: got more, expected amounts whose sum is at most 9223372036854775807");
    }
}
