//! Usage and fair share of queues.

use std::collections::BTreeSet;
use std::fmt;

use cucumber::then;
use schedlab_api::{Value, pointer, quantity::thousandths, resources};
use schedlab_audit::{charged_fraction_milli, claim_names, gpu_memory_mib};

use super::StepResult;
use super::parameters::{Resource, StableCycles, Timing};
use super::subjects::Subject;
use crate::world::World;
use crate::world::observed::{ObservedCluster, Pod, WatchedKind};

/// The running pods of a queue (and of the queues below it) hold this amount of a resource, counted
/// from the pods; the queue's status must report the same amount.
/// ```gherkin
/// Then queue "team-a" uses 16 GPUs
/// Then queue "team-a" uses 4.5 CPU cores
/// ```
#[then(expr = "{when}queue {string} uses {float} {resource}{stays}")]
async fn queue_uses_amount(
    world: &mut World,
    when: Timing,
    queue: String,
    amount: f64,
    resource: Resource,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let counted = used_amount_from_pods(world, &queue, resource)?;
        let reported = used_amount_from_status(world, &queue, resource);
        if !is_approximately_equal(counted, amount) {
            return Err(format!("the pods of queue {queue:?} hold {counted}, expected {amount}"));
        }
        match reported {
            Some(reported) if !is_approximately_equal(reported, amount) => Err(format!(
                "the pods of queue {queue:?} hold {counted}, but its status reports {reported}"
            )),
            Some(_) | None => Ok(()),
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The queue's fair share in the scheduler's last cycle is this amount.
/// ```gherkin
/// Then queue "team-a" has a fair share of 20 GPUs
/// ```
#[then(expr = "{when}queue {string} has a fair share of {float} {resource}{stays}")]
async fn queue_has_fair_share(
    world: &mut World,
    when: Timing,
    queue: String,
    amount: f64,
    resource: Resource,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let share = reported_fair_share(world, &queue, resource)
            .ok_or_else(|| format!("the scheduler reports no queue {queue:?}"))?;
        if is_approximately_equal(share, amount) {
            return Ok(());
        }
        Err(format!("the fair share of queue {queue:?} is {share}, expected {amount}"))
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// What explains how many pods a queue has: one line for each resource of which the queue has a
/// quota or limit, such as `queue "prod" uses 16 GPUs: quota 8, fair share 16, limit unlimited`.
/// Empty for other subjects.
pub(super) fn queue_number_lines(world: &World, subject: &Subject) -> Vec<String> {
    if !subject.is_queue() {
        return Vec::new();
    }
    let name = subject.subject_name();
    let Some(queue) = world.view.get(WatchedKind::Queues, name) else {
        return vec![format!("there is no queue {name:?}")];
    };
    let line = |resource: Resource| {
        let used = used_amount_from_pods(world, name, resource).ok()?;
        let (quota, limit) =
            (QueueBound::of(queue, resource, "quota"), QueueBound::of(queue, resource, "limit"));
        let is_relevant = resource == Resource::Gpu || quota.is_finite() || limit.is_finite();
        let share = reported_fair_share(world, name, resource);
        let share = share.map_or(String::new(), |share| format!("fair share {share}, "));
        is_relevant.then(|| {
            let unit = resource.unit_text(used);
            format!("queue {name:?} uses {used} {unit}: quota {quota}, {share}limit {limit}")
        })
    };
    [Resource::Gpu, Resource::Cpu, Resource::Memory].into_iter().filter_map(line).collect()
}

/// A quota or limit of a queue, in the unit that steps use.
enum QueueBound {
    Unset,
    Unlimited,
    At(f64),
}

impl QueueBound {
    fn of(queue: &Value, resource: Resource, field: &str) -> Self {
        let key = match resource {
            Resource::Gpu => "gpu",
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
        };
        let found = thousandths(&queue["spec"]["resources"][key][field]);
        // A queue has CPU in thousandths of a core and memory in MB.
        let unit = if resource == Resource::Gpu { 1000.0 } else { 1e6 };
        match found {
            None => Self::Unset,
            Some(-1000) => Self::Unlimited,
            Some(found) => Self::At(amount_in_unit(found, unit)),
        }
    }

    fn is_finite(&self) -> bool {
        matches!(self, Self::At(_))
    }
}

impl fmt::Display for QueueBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("unset"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::At(amount) => write!(f, "{amount}"),
        }
    }
}

/// The fair share that the scheduler computed for a queue in its last cycle; `None` if this process
/// does not know it.
fn reported_fair_share(world: &World, queue: &str, resource: Resource) -> Option<f64> {
    let status = world.scheduler_progress();
    let known = status.queues.iter().find(|known| *known.name == *queue)?;
    Some(match resource {
        Resource::Gpu => amount_in_unit(i128::from(known.fair_share.gpu), 1000.0),
        Resource::Cpu => amount_in_unit(i128::from(known.fair_share.cpu), 1000.0),
        Resource::Memory => amount_in_unit(i128::from(known.fair_share.memory), 1e9),
    })
}

fn used_amount_from_pods(world: &World, queue: &str, resource: Resource) -> Result<f64, String> {
    let subject: Subject = format!("queue \"{queue}\"").parse()?;
    let pods = subject.pods(&world.view);
    let held = pods.iter().filter(|pod| pod.holds_resources());
    Ok(match resource {
        Resource::Gpu => {
            let held: Vec<Pod<'_>> = held.copied().collect();
            amount_in_unit(charged_gpu_milli(&world.view, &held), 1000.0)
        }
        Resource::Cpu => amount_in_unit(held.map(|pod| pod.requested_milli("cpu")).sum(), 1000.0),
        Resource::Memory => {
            amount_in_unit(held.map(|pod| pod.requested_milli("memory")).sum(), 1e12)
        }
    })
}

/// GPUs that are charged to a queue, in thousandths: whole GPUs, fractions, and GPUs through
/// claims, each shared claim once.
fn charged_gpu_milli(view: &ObservedCluster, pods: &[Pod<'_>]) -> i128 {
    let alone = pods.iter().map(|pod| {
        let node = view.get(WatchedKind::Nodes, pod.node_name());
        pod.gpu_milli() + charged_fraction_milli(pod.0, node.map_or(0, gpu_memory_mib))
    });
    alone.sum::<i128>() + claimed_gpu_milli(view, pods)
}

/// GPUs that the pods have through claims, in thousandths.
pub(super) fn claimed_gpu_milli(view: &ObservedCluster, pods: &[Pod<'_>]) -> i128 {
    let names: BTreeSet<&str> = pods.iter().flat_map(|pod| claim_names(pod.0)).collect();
    let claims = names.into_iter().filter_map(|name| view.get(WatchedKind::Claims, name));
    claims.map(schedlab_audit::claimed_gpu_milli).sum()
}

/// The amount in the queue's `status.allocated`; `None` if the queue has no such status.
fn used_amount_from_status(world: &World, queue: &str, resource: Resource) -> Option<f64> {
    let queue = world.view.get(WatchedKind::Queues, queue)?;
    let allocated = queue["status"]["allocated"].as_object()?;
    let key = match resource {
        Resource::Gpu => resources::GPU,
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
    };
    let value = allocated.get(key).or_else(|| allocated.get("gpu")).unwrap_or(&Value::Null);
    let mut milli = thousandths(value).unwrap_or(0);
    if resource == Resource::Gpu {
        // KAI reports claimed devices under the name of their DeviceClass.
        let classes = claimed_device_classes(&world.view);
        milli +=
            classes.iter().filter_map(|class| thousandths(allocated.get(class)?)).sum::<i128>();
    }
    Some(if resource == Resource::Memory {
        amount_in_unit(milli, 1e12)
    } else {
        amount_in_unit(milli, 1000.0)
    })
}

/// The names of the DeviceClasses that claims request.
fn claimed_device_classes(view: &ObservedCluster) -> BTreeSet<&str> {
    let claims = view.objects_of_kind(WatchedKind::Claims);
    let requests = claims.flat_map(|claim| pointer::list(claim, "/spec/devices/requests"));
    requests.filter_map(|request| request["exactly"]["deviceClassName"].as_str()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "amounts of a cluster stay far below 2^53")]
fn amount_in_unit(amount: i128, unit: f64) -> f64 {
    amount as f64 / unit
}

fn is_approximately_equal(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}
