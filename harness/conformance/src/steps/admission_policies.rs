//! Admission policies that refuse what a scheduler asks for.

use std::time::Duration;

use anyhow::bail;
use cucumber::{given, when};
use schedlab_api::{Value, json, object};

use super::StepResult;
use super::subjects::Workload;
use crate::world::World;
use schedlab_clusters::api::{self, to_anyhow_error};

const ADMISSION_API_VERSION: &str = "admissionregistration.k8s.io/v1";
const DEFAULT_NAMESPACE: &str = "default";
/// How often a real API server is asked whether a policy is in force yet. It takes a second or two.
const PROBE_ATTEMPTS_MAX: usize = 60;
const PROBE_PERIOD: Duration = Duration::from_millis(500);

/// The API server refuses each binding of a workload's pods, by a validating admission policy: those
/// whose name is the workload's, or begins with it and a hyphen. The workload may come later.
/// ```gherkin
/// Given an admission policy refuses to bind pod "doomed"
/// ```
#[given(expr = "an admission policy refuses to bind {workload}")]
#[when(expr = "an admission policy refuses to bind {workload}")]
async fn api_server_refuses_to_bind(world: &mut World, workload: Workload) -> StepResult {
    let policy = BindingPolicy::for_workload(world, &workload);
    for object in policy.policy_and_binding_objects() {
        world.api.create(&object).await?;
    }
    policy.wait_until_refused(world, true).await?;
    Ok(())
}

/// The policy that refuses to bind a workload's pods is removed.
/// ```gherkin
/// When no admission policy refuses to bind pod "doomed"
/// ```
#[when(expr = "no admission policy refuses to bind {workload}")]
async fn api_server_allows_binding_again(world: &mut World, workload: Workload) -> StepResult {
    let policy = BindingPolicy::for_workload(world, &workload);
    for object in policy.policy_and_binding_objects().iter().rev() {
        let path = world.api.object_path(object).await?;
        if let Err(error) = world.delete_object(&path).await {
            return Err(error.context(format!("no admission policy refuses {workload}")).into());
        }
    }
    policy.wait_until_refused(world, false).await?;
    Ok(())
}

/// A policy that refuses the bindings of a workload's pods.
struct BindingPolicy {
    /// The name of the policy, and also of its `ValidatingAdmissionPolicyBinding`.
    name: String,
    workload: String,
    namespace: String,
}

impl BindingPolicy {
    fn for_workload(world: &World, workload: &Workload) -> Self {
        let submitted =
            world.submitted_objects(workload.kind(), workload.subject_name()).unwrap_or_default();
        let namespace = submitted.iter().map(object::namespace).find(|ns| !ns.is_empty());
        Self {
            name: format!("refuse-to-bind-{}", workload.subject_name()),
            workload: workload.subject_name().to_owned(),
            namespace: namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned(),
        }
    }

    /// The admission policy, followed by its binding.
    fn policy_and_binding_objects(&self) -> [Value; 2] {
        let Self { name, workload, namespace } = self;
        let rule = json!({
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/binding"],
        });
        let condition =
            format!("request.name == '{workload}' || request.name.startsWith('{workload}-')");
        let message = format!("pods of {workload} are not bound");
        let policy = json!({
            "apiVersion": ADMISSION_API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "matchConditions": [{"name": "workload", "expression": condition}],
                "validations": [{"expression": "false", "message": message}],
            },
        });
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let binding = json!({
            "apiVersion": ADMISSION_API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": selector},
            },
        });
        [policy, binding]
    }

    /// Waits until the API server refuses the workload's bindings, or, if not `expected`, until it
    /// no longer refuses them.
    async fn wait_until_refused(&self, world: &mut World, expected: bool) -> anyhow::Result<()> {
        for _ in 0..PROBE_ATTEMPTS_MAX {
            if self.is_refused(world).await? == expected {
                return Ok(());
            }
            world.pass_unscaled_time(PROBE_PERIOD).await?;
        }
        bail!("the API server does not follow admission policy {:?} after 30 seconds", self.name)
    }

    /// Whether the policy refuses a dry run of a binding.
    async fn is_refused(&self, world: &World) -> anyhow::Result<bool> {
        let Self { name, workload, namespace } = self;
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": workload, "namespace": namespace},
            "target": {"kind": "Node", "name": "none"},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{workload}/binding");
        match world.api.post_dry_run(&path, &binding).await {
            Ok(_) => Ok(false),
            Err(error) if api::is_not_found(&error) => Ok(false),
            Err(error) => {
                let error = to_anyhow_error(error);
                if format!("{error:#}").contains(&format!("ValidatingAdmissionPolicy '{name}'")) {
                    return Ok(true);
                }
                // The pod may be bound already.
                Ok(false)
            }
        }
    }
}
