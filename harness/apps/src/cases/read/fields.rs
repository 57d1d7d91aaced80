//! Unknown fields, so that a misspelt field is not ignored silently.

use schedlab_api::Value;

/// Paths of objects (`[]` is any item, `*` any key), and their known fields.
const KNOWN_FIELDS: [(&str, &str); 16] = [
    (
        "",
        "id title test_function go_test table_index mode rounds actions checks config \
         call_limits_per_session cluster queues jobs expected fair_share_at_start observed \
         assertions_in_words note notes",
    ),
    ("/call_limits_per_session", "binds evictions pipelines"),
    ("/rounds", "until_match after_match delay_between_rounds_s"),
    (
        "/config",
        "plugins plugin_arguments predicates_plugin_active numa_plugin_active \
         scheduler_conf_override scenario_search_budgets",
    ),
    ("/cluster", "nodes topologies dra"),
    (
        "/cluster/nodes/[]",
        "name gpus gpu_memory_mib mig_strategy mig_instances allocatable labels numa",
    ),
    ("/cluster/topologies/[]", "name levels"),
    ("/cluster/topologies/[]/levels/[]", "nodeLabel alias"),
    (
        "/queues/[]",
        "name role index parent created_offset_s priority resources reclaim_min_runtime_s \
         preempt_min_runtime_s",
    ),
    ("/queues/[]/resources", "gpu cpu_millis memory_mb"),
    ("/queues/[]/resources/*", "quota limit over_quota_weight"),
    (
        "/jobs/[]",
        "name namespace queue priority preemptibility preemptibility_given age_s gang tasks \
         running_for_s stale_for_s staleness_grace_period_s preemption_delay_s best_effort \
         qos_class delete_when_released",
    ),
    (
        "/jobs/[]/tasks/[]",
        "id state node subgroup request gpus_total gpu_fraction gpu_memory_mib \
         gpu_fraction_devices gpu_groups gpu_groups_given mig_instances legacy_mig \
         task_priority_label required_node_affinity_in labels pod_affinity_topology_key \
         pod_anti_affinity_topology_key resource_claim_names resource_claim_templates pvc_names \
         annotations",
    ),
    ("/expected", "jobs tasks nodes dead_task_ids"),
    ("/expected/jobs/*", OUTCOME_FIELDS),
    ("/expected/tasks/*", OUTCOME_FIELDS),
];

const OUTCOME_FIELDS: &str = "status node gpus_requested_sum gpus_accepted_sum cpu_millis_sum \
                       memory_bytes_sum error_message running_for_more_than_s numa_zones \
                       gpu_groups skip_gpu_group_check";

/// Lists unknown fields, each with its path and the expected fields.
pub(super) fn unknown_fields(case: &Value) -> Vec<String> {
    KNOWN_FIELDS
        .iter()
        .flat_map(|(pattern, known)| unknown_fields_at(case, pattern, known))
        .collect()
}

fn unknown_fields_at(case: &Value, pattern: &str, known: &str) -> Vec<String> {
    let mut found = vec![(String::new(), case)];
    for step in pattern.split('/').skip(1) {
        found = found
            .into_iter()
            .flat_map(|(path, value)| children_at_step(&path, value, step))
            .collect();
    }
    let mut wrong = Vec::new();
    for (path, value) in found {
        for (key, _) in value.as_object().into_iter().flatten() {
            if !known.split_whitespace().any(|field| field == key.as_str()) {
                let allowed = known.split_whitespace().collect::<Vec<_>>().join(", ");
                let location = format!("{path}.{key}");
                let location = location.trim_start_matches('.');
                wrong.push(format!("{location}: unknown field, expected one of {allowed}"));
            }
        }
    }
    wrong
}

fn children_at_step<'v>(path: &str, value: &'v Value, step: &str) -> Vec<(String, &'v Value)> {
    match step {
        "[]" => {
            let items = value.as_array().into_iter().flatten().enumerate();
            items.map(|(at, item)| (format!("{path}[{at}]"), item)).collect()
        }
        "*" => {
            let fields = value.as_object().into_iter().flatten();
            fields.map(|(key, value)| (format!("{path}.{key}"), value)).collect()
        }
        field => {
            value.get(field).map(|value| (format!("{path}.{field}"), value)).into_iter().collect()
        }
    }
}
