//! What a pod asks for, added up as Kubernetes adds it: containers and side-cars together, no
//! less than any init container needs beside the side-cars started before it, plus overhead;
//! requests of the pod as a whole stand above the sum of its containers, its limits in for what
//! nobody requests.

use std::collections::BTreeMap;

use schedlab_json::{Map, Value};
use schedlab_scheduler_core::resources::Resources;

use crate::parse::{Malformed, Unit, at, list, quantity, shown, text};

type Amounts<'o> = BTreeMap<&'o str, i64>;

const TOO_LARGE: &str = "amounts whose sum is at most 9223372036854775807";

/// The resources of `status.allocatable`, or another list of them.
pub(super) fn resources(of: Option<&Value>, field: &str) -> (Resources, Option<Malformed>) {
    let (amounts, malformed) = amounts(of.and_then(Value::as_object), || field.to_owned());
    (into_resources(amounts), malformed)
}

/// What one container asks for.
pub(super) fn container_requests(container: &Value) -> Resources {
    into_resources(Sum::default().of_container(container, "spec.containers"))
}

/// What kube-scheduler counts when it scores, for a container that asks for no CPU or memory.
const UNASKED: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 << 20)];

/// Requests of a pod; what is malformed counts nothing and is told.
pub(super) fn pod_requests(spec: &Value) -> (Resources, Option<Malformed>) {
    sum_up(spec, Sum::default())
}

/// What profile `kube` counts on top of that when it scores.
pub(super) fn unasked(spec: &Value, asked: &Resources) -> (i64, i64) {
    let (counted, _) = sum_up(spec, Sum { least: UNASKED.into(), malformed: None });
    (
        counted.cpu_milli.saturating_sub(asked.cpu_milli),
        counted.memory_bytes.saturating_sub(asked.memory_bytes),
    )
}

fn sum_up<'o>(spec: &'o Value, mut sum: Sum<'o>) -> (Resources, Option<Malformed>) {
    let mut running = Amounts::new();
    for container in list(spec, "/containers") {
        let wanted = sum.of_container(container, "spec.containers");
        sum.add(&mut running, &wanted);
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in list(spec, "/initContainers") {
        let mut wanted = sum.of_container(container, "spec.initContainers");
        if text(container, "/restartPolicy") == Some("Always") {
            sum.add(&mut running, &wanted);
            sum.add(&mut sidecars, &wanted);
            wanted.clone_from(&sidecars);
        } else {
            sum.add(&mut wanted, &sidecars);
        }
        at_least(&mut starting, &wanted);
    }
    at_least(&mut running, &starting);
    sum.least.clear();
    let of = |kind| move || format!("spec.resources.{kind}");
    for (resource, bound) in sum.read(at(spec, "/resources/limits"), of("limits")) {
        running.entry(resource).or_insert(bound);
    }
    running.extend(sum.read(at(spec, "/resources/requests"), of("requests")));
    let overhead = sum.read(at(spec, "/overhead"), || "spec.overhead".to_owned());
    sum.add(&mut running, &overhead);
    running.insert("pods", 1);
    (into_resources(running), sum.malformed)
}

/// Adds, and remembers the first thing that was wrong.
#[derive(Default)]
struct Sum<'o> {
    /// What a container that does not ask for it counts.
    least: Amounts<'o>,
    malformed: Option<Malformed>,
}

impl<'o> Sum<'o> {
    fn read(&mut self, of: Option<&'o Value>, field: impl Fn() -> String) -> Amounts<'o> {
        let (amounts, malformed) = amounts(of.and_then(Value::as_object), field);
        if self.malformed.is_none() {
            self.malformed = malformed;
        }
        amounts
    }

    /// Requests; limits where there is no request.
    fn of_container(&mut self, container: &'o Value, list_field: &str) -> Amounts<'o> {
        let field = |of: &str| match text(container, "/name") {
            Some(name) => format!("{list_field}[{name}].resources.{of}"),
            None => format!("{list_field}.resources.{of}"),
        };
        let mut amounts = self.least.clone();
        amounts.extend(self.read(at(container, "/resources/limits"), || field("limits")));
        amounts.extend(self.read(at(container, "/resources/requests"), || field("requests")));
        amounts
    }

    fn add(&mut self, to: &mut Amounts<'o>, more: &Amounts<'o>) {
        for (resource, amount) in more {
            let entry = to.entry(resource).or_default();
            if let Some(total) = entry.checked_add(*amount) {
                *entry = total;
            } else {
                *entry = i64::MAX;
                let field = format!("spec.containers: {resource}");
                self.malformed.get_or_insert(Malformed::new(field, "more", TOO_LARGE));
            }
        }
    }
}

fn at_least<'o>(amounts: &mut Amounts<'o>, least: &Amounts<'o>) {
    for (resource, amount) in least {
        let entry = amounts.entry(resource).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// `field` names what is read, should it have to be told.
fn amounts(of: Option<&Map>, field: impl Fn() -> String) -> (Amounts<'_>, Option<Malformed>) {
    let mut amounts = Amounts::new();
    let mut malformed = None;
    for (resource, value) in of.into_iter().flatten() {
        let unit = match resource.as_str() {
            "cpu" | "nvidia.com/gpu" => Unit::Milli,
            _ => Unit::Whole,
        };
        let read = match value {
            Value::String(text) => quantity(text, unit),
            Value::Number(number) => quantity(&number.to_string(), unit),
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
        gpu_milli: take("nvidia.com/gpu"),
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
    use schedlab_json::json;

    use super::*;

    fn told(spec: &Value) -> String {
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
        insta::assert_snapshot!(told(&spec), @"gpu=2000 cpu=1910 memory=3221225472 pods=1");
    }

    #[test]
    fn each_container_that_asks_for_nothing_counts_a_little_when_scored() {
        let spec = json!({ "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "1", "memory": "0" } } },
            { "name": "b" },
        ] });
        let (asked, _) = pod_requests(&spec);
        assert_eq!(unasked(&spec, &asked), (100, 200 << 20));
    }

    #[test]
    fn requests_of_the_whole_pod_stand_above_the_sum_of_its_containers() {
        let spec = json!({
            "resources": { "requests": { "cpu": "4" } },
            "containers": [{ "name": "a", "resources": { "requests":
                { "cpu": "1", "memory": "1Ki", "example.com/nic": "1" } } }],
        });
        insta::assert_snapshot!(told(&spec), @"gpu=0 cpu=4000 memory=1024 pods=1 example.com/nic=1");
    }

    #[test]
    fn a_malformed_or_negative_request_is_told_and_gives_no_credit() {
        let spec = json!({ "containers": [{ "name": "a", "resources": { "requests":
            { "nvidia.com/gpu": "-4", "cpu": "1" } } }] });
        insta::assert_snapshot!(told(&spec), @r#"gpu=0 cpu=1000 memory=0 pods=1 spec.containers[a].resources.requests.nvidia.com/gpu: found "-4", allowed: a quantity from 0 to 9223372036854775.807"#);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_told_and_does_not_wrap() {
        let huge = json!({ "requests": { "memory": "9223372036854775807" } });
        let spec = json!({ "containers": [{ "name": "a", "resources": huge },
                                          { "name": "b", "resources": huge }] });
        insta::assert_snapshot!(told(&spec), @"gpu=0 cpu=0 memory=9223372036854775807 pods=1 spec.containers: memory: found more, allowed: amounts whose sum is at most 9223372036854775807");
    }
}
