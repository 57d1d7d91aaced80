//! Tests of configuration files and their errors.

use insta::assert_snapshot;
use schedlab_scheduler_core::Profile;

use super::*;
use crate::config::Config;

fn summary(yaml: &str) -> String {
    match ConfigFile::parse(yaml) {
        Err(error) => error.to_string(),
        Ok(file) => {
            let mut config = Config::kai();
            file.apply(&mut config).unwrap();
            let profile = &config.profile;
            format!(
                "{} {:?} {:?} {:?} {:?} {:?} {:?}/{:?} depth={:?} k={} scores={} preempt={:?}",
                config.scheduler_name,
                config.components,
                config.binding,
                config.node_pool,
                config.period,
                profile.actions,
                profile.gpu_placement,
                profile.cpu_placement,
                profile.queue_depth,
                profile.k_value_milli,
                profile.plugins.score.len(),
                profile.preempt_min_runtime,
            )
        }
    }
}

#[test]
fn values_of_the_file_replace_built_in_defaults() {
    assert_snapshot!(summary(""), @"kai-scheduler {Scheduler, Binder, Podgrouper, QueueController, Admission} Direct None 1s [Allocate, Consolidate, Reclaim, Preempt, StaleGangEviction] BinPack/BinPack depth={} k=1000 scores=8 preempt=0ns");
    assert_snapshot!(summary("
schedulerName: mine
components: [queue-controller, scheduler]
nodePool: { value: a100 }
period: 500ms
actions: [allocate, reclaim]
plugins:
  nodeplacement: { enabled: false }
placementStrategy: { gpu: spread }
queueDepthPerAction: { reclaim: 10 }
minRuntime: { preemptMinRuntime: 4m }
kValue: 0.5
"), @r#"mine {Scheduler, QueueController} Requests Some(NodePool { label: "kai.scheduler/node-pool", value: "a100" }) 500ms [Allocate, Reclaim] Spread/BinPack depth={Reclaim: 10} k=500 scores=7 preempt=240s"#);
}

#[test]
fn errors_name_location_and_expected_value() {
    assert_snapshot!(summary("kValue: 1\nplacment: {}"), @"unknown field `placment`, expected one of `schedulerName`, `components`, `binding`, `gpuReservation`, `blockNvidiaVisibleDevices`, `gpuPodRuntimeClassName`, `defaultPrioritiesConfigMap`, `nodePool`, `restrictNodeScheduling`, `fullHierarchyFairness`, `period`, `usageWindow`, `usageHalfLife`, `usageDBConfig`, `queueLabelToMetricLabel`, `queueLabelToDefaultMetricValue`, `writesAtOnce`, `traceDecisions`, `actions`, `plugins`, `placementStrategy`, `queueDepthPerAction`, `minRuntime`, `kValue`, `preemptionPolicy`, `stalenessGracePeriod`, `reclaimSaturationMultiplier`, `allowConsolidatingReclaim`, `maxConsolidationVictims` at line 2 column 1");
    assert_snapshot!(summary("plugins:\n  nodeplacment: { enabled: false }"), @"plugins: unknown variant `nodeplacment`, expected one of `proportion`, `predicates`, `priority`, `elastic`, `kubeflow`, `ray`, `taskorder`, `nominatednode`, `podaffinity`, `topology`, `dynamicresources`, `gpusharingorder`, `nodeavailability`, `numa`, `resourcetype`, `nodeplacement`, `gpupack`, `gpuspread`, `subgrouporder`, `minruntime`, `snapshot`, `reflectjoborder`, `expectedruntime`, `sg-nodelocalgreedy`, `sg-multinodegang` at line 2 column 3");
    assert_snapshot!(summary("plugins:\n  topology: { enable: false }"), @"plugins.topology: unknown field `enable`, expected one of `enabled`, `priority`, `arguments` at line 2 column 15");
    assert_snapshot!(summary("plugins:\n  elastic: { priority: high }"), @r#"plugins.elastic.priority: invalid type: string "high", expected a whole number at line 2 column 24"#);
    assert_snapshot!(summary("actions: [alocate]"), @"actions[0]: unknown variant `alocate`, expected one of `allocate`, `consolidation`, `reclaim`, `preempt`, `stalegangeviction` at line 1 column 11");
    assert_snapshot!(summary("gpuPodRuntimeClassName: \"\""), @r#"gpuPodRuntimeClassName: got "", expected 1 to 253 lower-case letters, digits, - or ., each dot-separated part starting and ending with a letter or digit at line 1 column 25"#);
    assert_snapshot!(summary("components: [bnder]"), @"components[0]: unknown variant `bnder`, expected one of `scheduler`, `binder`, `podgrouper`, `queue-controller`, `admission` at line 1 column 14");
    assert_snapshot!(summary("binding: indirect"), @"binding: unknown variant `indirect`, expected `direct` or `requests` at line 1 column 10");
    assert_snapshot!(summary("components: []"), @"components: got none, expected a non-empty list without duplicates at line 1 column 13");
    assert_snapshot!(summary("period: soon"), @r#"period: invalid value: string "soon", expected a duration such as 90s, 500ms or 1h30m at line 1 column 9"#);
    assert_snapshot!(summary("traceDecisions: 0"), @"traceDecisions: got 0, expected 1 to 1000000 at line 1 column 17");
    assert_snapshot!(summary("period: 0s"), @"period: got 0, expected a duration above 0 at line 1 column 9");
    assert_snapshot!(summary("kValue: -1"), @"kValue: got -1, expected 0 to 1000 at line 1 column 9");
    assert_snapshot!(summary("schedulerName: ''"), @r#"schedulerName: got "", expected 1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit at line 1 column 16"#);
    assert_snapshot!(summary("schedulerName: My Sched"), @r#"schedulerName: got "My Sched", expected 1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit at line 1 column 16"#);
    assert_snapshot!(summary("nodePool: { value: a b }"), @r#"nodePool.value: got "a b", expected an empty value, or 1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit at line 1 column 20"#);
    assert_snapshot!(summary("nodePool: { label: a/b/c, value: x }"), @r#"nodePool.label: got "a/b/c", expected a label key, with or without a domain prefix and / at line 1 column 20"#);
    assert_snapshot!(summary("actions: []"), @"actions: got none, expected a non-empty list without duplicates at line 1 column 10");
    assert_snapshot!(summary("actions: [allocate, reclaim, allocate]"), @"actions: got allocate twice, expected a non-empty list without duplicates at line 1 column 10");
    assert_snapshot!(summary("schedulerName: a\npreemptionPolicy:\n  gracePeriod: 0s\nkValue: 1"), @"preemptionPolicy.gracePeriod: got 0, expected a duration above 0 at line 3 column 16");
    assert!(summary("nonsense: 1").ends_with(" at line 1 column 1"), "{}", summary("nonsense: 1"));
    assert_snapshot!(summary("preemptionPolicy: { minPriorityDifference: 0 }"), @"preemptionPolicy.minPriorityDifference: got 0, expected 1 or more at line 1 column 44");
    assert_snapshot!(summary("preemptionPolicy: { gracePeriod: 0s }"), @"preemptionPolicy.gracePeriod: got 0, expected a duration above 0 at line 1 column 34");
    assert_snapshot!(summary("- a"), @"invalid type: sequence, expected a map of configuration keys at line 1 column 1");
}

#[test]
fn a_duplicate_key_is_reported_at_its_second_occurrence() {
    assert_snapshot!(summary("period: 1s\nkValue: 1\nperiod: 2s"), @"duplicate field `period` at line 3 column 1");
    assert_snapshot!(summary("period: 1s\nplugins:\n  ray: { enabled: false }\n  ray: {}"), @"plugins: duplicate field `ray` at line 4 column 3");
    assert_snapshot!(summary("period: 1s\nminRuntime: { preemptMinRuntime: 1s, preemptMinRuntime: 2s }"), @"minRuntime: duplicate field `preemptMinRuntime` at line 2 column 38");
}

#[test]
fn a_number_beyond_64_bits_is_reported_like_any_number_out_of_range() {
    assert_snapshot!(summary("traceDecisions: 99999999999999999999"), @"traceDecisions: invalid type: integer `99999999999999999999` as u128, expected a whole number from 0 on at line 1 column 17");
    assert_snapshot!(summary("traceDecisions: -99999999999999999999"), @"traceDecisions: invalid type: integer `-99999999999999999999` as i128, expected a whole number from 0 on at line 1 column 17");
    assert_snapshot!(summary("kValue: 99999999999999999999"), @"kValue: got 1e20, expected 0 to 1000 at line 1 column 9");
}

/// Plugins that order jobs; plugins that order pods of a job.
fn plugin_order(files: &[&str]) -> String {
    let mut config = Config::kai();
    for file in files {
        ConfigFile::parse(&format!("plugins: {{ {file} }}")).unwrap().apply(&mut config).unwrap();
    }
    let jobs = config.profile.job_order.iter().map(|rule| rule.plugin_name());
    let tasks = config.profile.task_order.iter().map(|rule| rule.plugin_name());
    format!("{}; {}", jobs.collect::<Vec<_>>().join(" "), tasks.collect::<Vec<_>>().join(" "))
}

#[test]
fn plugins_are_ordered_by_priority_then_by_name() {
    let of_kai = "priority elastic; kubeflow ray taskorder";
    assert_eq!(plugin_order(&[]), of_kai);
    assert_eq!(plugin_order(&["elastic: { priority: 300 }"]), of_kai);
    assert_eq!(plugin_order(&["nodeplacement: { priority: 5000 }"]), of_kai, "it orders neither");
    assert_eq!(
        plugin_order(&["priority: { priority: 1299 }"]),
        "elastic priority; kubeflow ray taskorder"
    );
    assert_eq!(
        plugin_order(&["elastic: { priority: 1700 }"]),
        "elastic priority; kubeflow ray taskorder"
    );
    assert_eq!(
        plugin_order(&["ray: { priority: -1 }"]),
        "priority elastic; kubeflow taskorder ray"
    );
    let first = "taskorder: { priority: 2000 }";
    assert_eq!(plugin_order(&[first]), "priority elastic; taskorder kubeflow ray");
    let off = "elastic: { enabled: false }, kubeflow: { enabled: false }";
    assert_eq!(plugin_order(&[off]), "priority; ray taskorder");
    assert_eq!(plugin_order(&[first, off]), "priority; taskorder ray");
    assert_eq!(plugin_order(&[off, "elastic: { priority: 1800 }"]), "priority; ray taskorder");
    let on = "elastic: { enabled: true }";
    assert_eq!(
        plugin_order(&["elastic: { priority: 1800 }", off, on]),
        "elastic priority; ray taskorder"
    );
}

/// Effective plugin settings of a file, or the error.
fn plugin_summary(yaml: &str) -> String {
    let file = match ConfigFile::parse(yaml) {
        Ok(file) => file,
        Err(error) => return error.to_string(),
    };
    let mut config = Config::kai();
    file.apply(&mut config).unwrap();
    let profile = &config.profile;
    format!(
        "off={:?} {:?}/{:?} devices {:?} k={} saturation={} protected={:?}/{:?} by {:?}",
        config.disabled_plugins,
        profile.gpu_placement,
        profile.cpu_placement,
        profile.device_placement,
        profile.k_value_milli,
        profile.reclaim_saturation_milli,
        profile.preempt_min_runtime,
        profile.reclaim_min_runtime,
        profile.reclaim_resolve_method,
    )
}

#[test]
fn every_kai_plugin_is_known_and_always_on_plugins_cannot_be_disabled() {
    assert_snapshot!(plugin_summary("
plugins:
  podaffinity: { enabled: false, priority: 50 }
  dynamicresources: { enabled: false }
  subgrouporder: { priority: 7 }
  snapshot: { enabled: false }
  reflectjoborder: { enabled: true, priority: 1 }
  sg-multinodegang: { enabled: true }
  gpuspread: { enabled: true }
"), @r#"off={"dynamicresources", "podaffinity"} BinPack/BinPack devices Spread k=1000 saturation=1000 protected=0ns/0ns by Lca"#);
    assert_snapshot!(plugin_summary("plugins: { subgrouporder: { enabled: false } }"), @"plugins.subgrouporder.enabled: got false, expected true, as this plugin cannot be disabled at line 1 column 38");
    assert_snapshot!(plugin_summary("plugins: { gpupack: { enabled: false } }"), @"plugins.gpupack.enabled: got false, expected true, as gpuspread is disabled at line 1 column 32");
    assert_snapshot!(plugin_summary("plugins: { gpupack: { enabled: true }, gpuspread: { enabled: true } }"), @"plugins.gpuspread.enabled: got true, expected false, as gpupack is enabled at line 1 column 62");
}

#[test]
fn plugins_take_kai_arguments() {
    assert_snapshot!(plugin_summary("
kValue: 2
plugins:
  proportion: { arguments: { kValue: '0.5', relcaimerSaturationMultiplier: '1.25' } }
  nodeplacement: { arguments: { gpu: spread, cpu: binpack } }
  minruntime:
    arguments: { defaultPreemptMinRuntime: 5m, defaultReclaimMinRuntime: 1d, reclaimResolveMethod: queue }
"), @"off={} Spread/BinPack devices BinPack k=500 saturation=1250 protected=300s/86400s by Queue");
    let of = |arguments: &str| plugin_summary(&format!("plugins: {{ {arguments} }}"));
    assert_snapshot!(of("proportion: { arguments: { kValue: '-1' } }"), @"plugins.proportion.arguments.kValue: got -1, expected a number from 0 to 1000 at line 1 column 47");
    assert_snapshot!(of("minruntime: { arguments: { reclaimResolveMethod: up } }"), @"plugins.minruntime.arguments.reclaimResolveMethod: got up, expected lca or queue at line 1 column 61");
    assert_snapshot!(of("ray: { arguments: { fast: 'true' } }"), @"plugins: got ray.arguments.fast, expected kValue and relcaimerSaturationMultiplier of proportion, gpu and cpu of nodeplacement, defaultPreemptMinRuntime, defaultReclaimMinRuntime and reclaimResolveMethod of minruntime at line 1 column 10");
}

#[test]
fn actions_are_a_list_or_settings_as_in_a_scheduling_shard() {
    let actions = |yaml: &str| {
        let mut config = Config::kai();
        let read = ConfigFile::parse(&format!("actions: {yaml}"));
        match read.and_then(|file| file.apply(&mut config)) {
            Ok(()) => format!("{:?}", config.profile.actions),
            Err(error) => error.to_string(),
        }
    };
    assert_snapshot!(actions("[reclaim, allocate]"), @"[Reclaim, Allocate]");
    assert_snapshot!(actions("{}"), @"[Allocate, Consolidate, Reclaim, Preempt, StaleGangEviction]");
    assert_snapshot!(actions("{ consolidation: { enabled: false }, preempt: { priority: 350 } }"), @"[Allocate, Preempt, Reclaim, StaleGangEviction]");
    assert_snapshot!(actions("[allocat]"), @"actions[0]: unknown variant `allocat`, expected one of `allocate`, `consolidation`, `reclaim`, `preempt`, `stalegangeviction` at line 1 column 11");
    assert_snapshot!(actions("{ reclaim: { enable: false } }"), @"actions.reclaim: unknown field `enable`, expected `enabled` or `priority` at line 1 column 23");
    assert_snapshot!(actions("{ reclam: {} }"), @"actions: unknown variant `reclam`, expected one of `allocate`, `consolidation`, `reclaim`, `preempt`, `stalegangeviction` at line 1 column 12");
    assert_snapshot!(actions("allocate"), @r#"actions: invalid type: string "allocate", expected a list of actions, or settings by name at line 1 column 10"#);
}

#[test]
fn the_default_plugin_order_matches_kai_priorities() {
    let (profile, mut config) = (Profile::kai(), Config::kai());
    config.set_plugin_priorities(BTreeMap::new());
    assert_eq!(config.profile.job_order, profile.job_order);
    assert_eq!(config.profile.task_order, profile.task_order);
}

/// Settings of a usage database, or the error.
fn database_summary(yaml: &str) -> String {
    let file =
        match ConfigFile::parse(&format!("usageDBConfig: {{ clientType: prometheus, {yaml} }}")) {
            Ok(file) => file,
            Err(error) => return error.to_string(),
        };
    let variable = |name: &str| (name == "WHERE").then(|| "http://there:9090".to_owned());
    match file.usage_db_config.unwrap().to_database(variable) {
        Ok(settings) => format!("{settings:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_usage_database_is_configured_with_kai_keys() {
    assert_snapshot!(database_summary("connectionString: 'http://p:9090'"), @r#"UsageDatabase { endpoint: http://p:9090, window: Sliding(604800s), half_life: None, resolution: 60s, queries: UsageQueries { gpu: ["kai_queue_allocated_gpus", "sum(kube_node_status_capacity{resource=\"nvidia_com_gpu\"})"], cpu: ["kai_queue_allocated_cpu_cores", "sum(kube_node_status_capacity{resource=\"cpu\"})"], memory: ["kai_queue_allocated_memory_bytes", "sum(kube_node_status_capacity{resource=\"memory\"})"] }, timing: PollTiming { fetch_interval: 60s, staleness: 300s, first_answer_timeout: 60s, query_timeout: 10s } }"#);
    assert_snapshot!(database_summary("connectionStringEnvVar: WHERE, usageParams: { halfLifePeriod: 10m, windowSize: 2d, \
        windowType: tumbling, tumblingWindowStartTime: 2026-01-05T00:00:00Z, fetchInterval: 30s, \
        stalenessPeriod: 2m, waitTimeout: 5s, extraParams: { gpuAllocationMetric: used, \
        gpuCapacityMetric: whole, usageQueryTimeout: 3s, queryResolution: 10s } }"), @r#"UsageDatabase { endpoint: http://there:9090, window: Tumbling { start: 2026-01-05T00:00:00Z, size: 172800s }, half_life: Some(600s), resolution: 10s, queries: UsageQueries { gpu: ["used", "whole"], cpu: ["kai_queue_allocated_cpu_cores", "sum(kube_node_status_capacity{resource=\"cpu\"})"], memory: ["kai_queue_allocated_memory_bytes", "sum(kube_node_status_capacity{resource=\"memory\"})"] }, timing: PollTiming { fetch_interval: 30s, staleness: 120s, first_answer_timeout: 5s, query_timeout: 3s } }"#);
    let there = |params: &str| {
        database_summary(&format!("connectionString: 'https://p/x/', usageParams: {{ {params} }}"))
    };
    assert!(there("halfLifePeriod: 0s").contains("half_life: None"));
    let cron = there("windowType: cron, windowSize: 1w, cronString: '0 0 * * 1'");
    assert!(cron.contains("window: Cron(\"0 0 * * 1\")"), "{cron}");
}

#[test]
fn errors_of_the_usage_database_name_field_and_expected_value() {
    assert_snapshot!(database_summary(""), @"usageDBConfig.connectionString: got neither, expected either connectionString or connectionStringEnvVar");
    assert_snapshot!(database_summary("connectionString: a, connectionStringEnvVar: b"), @"usageDBConfig.connectionString: got both, expected either connectionString or connectionStringEnvVar");
    assert_snapshot!(database_summary("connectionStringEnvVar: NOWHERE"), @"usageDBConfig.connectionStringEnvVar: got NOWHERE, expected the name of an environment variable that is set");
    assert_snapshot!(database_summary("connectionString: 'p:9090'"), @"usageDBConfig.connectionString: got p:9090, expected http://HOST:PORT or https://HOST:PORT, optionally with a path");
    assert_snapshot!(database_summary("connectionString: 'http://me:secret@p:9090'"), @"usageDBConfig.connectionString: got a user, expected http://HOST:PORT or https://HOST:PORT, without a user");
    assert_snapshot!(summary("usageDBConfig: { clientType: fake }"), @"usageDBConfig.clientType: unknown variant `fake`, expected `prometheus` at line 1 column 30");
    let there = |params: &str| {
        database_summary(&format!("connectionString: 'http://p', usageParams: {{ {params} }}"))
    };
    assert_snapshot!(there("fetchInterval: 0s"), @"usageDBConfig.usageParams.fetchInterval: got 0, expected a duration above 0 at line 1 column 102");
    assert_snapshot!(there("windowSize: 1mo"), @r#"usageDBConfig.usageParams.windowSize: invalid value: string "1mo", expected a duration such as 90s, 500ms or 1h30m at line 1 column 99"#);
    assert_snapshot!(there("windowType: tumbling"), @"usageDBConfig.usageParams.tumblingWindowStartTime: got nothing, expected a time such as 2026-01-05T00:00:00Z");
    assert_snapshot!(there("tumblingWindowStartTime: 2026-01-05T00:00:00Z"), @"usageDBConfig.usageParams.tumblingWindowStartTime: got 2026-01-05T00:00:00Z, expected no value without windowType: tumbling");
    assert_snapshot!(there("windowType: tumbling, tumblingWindowStartTime: monday"), @"usageDBConfig.usageParams.tumblingWindowStartTime: got monday, expected a time such as 2026-01-05T00:00:00Z");
    assert_snapshot!(there("windowType: cron"), @"usageDBConfig.usageParams.cronString: got nothing, expected a cron expression such as 0 0 * * 1");
    assert_snapshot!(there("windowType: cron, cronString: '0 0 31 2 *'"), @"usageDBConfig.usageParams.cronString: got 0 0 31 2 *, expected a cron expression such as 0 0 * * 1");
    assert_snapshot!(there("cronString: '0 0 * * 1'"), @"usageDBConfig.usageParams.cronString: got 0 0 * * 1, expected no value without windowType: cron");
    assert_snapshot!(there("windowType: hopping"), @"usageDBConfig.usageParams.windowType: unknown variant `hopping`, expected one of `sliding`, `tumbling`, `cron` at line 1 column 99");
    assert_snapshot!(there("extraParams: { gpuMetric: a }"), @"usageDBConfig.usageParams.extraParams: unknown field `gpuMetric`, expected one of `gpuAllocationMetric`, `cpuAllocationMetric`, `memoryAllocationMetric`, `gpuCapacityMetric`, `cpuCapacityMetric`, `memoryCapacityMetric`, `usageQueryTimeout`, `queryResolution` at line 1 column 102");
}

#[test]
fn the_published_schema_is_up_to_date() {
    let published = include_str!("../../../../docs/reference/scheduler-config.schema.json");
    let published: schedlab_api::Value = serde_json::from_str(published).unwrap();
    let again = "write it anew: schedlab-scheduler config-schema > docs/reference/scheduler-config.schema.json";
    assert_eq!(published, schedlab_api::to_value(&ConfigFile::schema()).unwrap(), "{again}");
}

#[test]
fn node_restriction_and_gpu_reservation_each_add_a_filter_plugin() {
    let filters = |yaml: &str| {
        let mut config = Config::kai();
        ConfigFile::parse(yaml).unwrap().apply(&mut config).unwrap();
        (config.restrict_node_scheduling, config.profile.plugins.filter.len())
    };
    let (_, built_in) = filters("");
    assert_eq!(filters("restrictNodeScheduling: true"), (true, built_in + 1));
    assert_eq!(filters("restrictNodeScheduling: false"), (false, built_in));
    assert_eq!(filters("gpuReservation: { image: reserve }"), (false, built_in + 1));
}

#[test]
fn filters_added_by_one_file_survive_plugin_settings_of_the_next() {
    let filters = |files: &[&str]| {
        let mut config = Config::kai();
        for file in files {
            ConfigFile::parse(file).unwrap().apply(&mut config).unwrap();
        }
        config.profile.plugins.filter.len()
    };
    let (asked, off) = (
        "{ restrictNodeScheduling: true, gpuReservation: { image: reserve } }",
        "plugins: { numa: { enabled: false } }",
    );
    assert_eq!(filters(&[asked, off]), filters(&[off]) + 2);
    assert_eq!(filters(&[off, asked]), filters(&[off]) + 2);
    assert_eq!(filters(&[asked, "restrictNodeScheduling: false", off]), filters(&[off]) + 1);
}

#[test]
fn queue_metric_labels_must_be_valid_unique_prometheus_labels() {
    let labels = |yaml: &str| {
        let mut config = Config::kai();
        match ConfigFile::parse(yaml) {
            Ok(file) => file.apply(&mut config).unwrap(),
            Err(error) => return error.to_string(),
        }
        let labels = config.queue_metric_labels.iter();
        labels
            .map(|of| format!("{}={} ({})", of.metric_label, of.queue_label, of.default))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let map = "queueLabelToMetricLabel";
    let two = "{ tier: queue_tier, a.b/team: team }";
    let defaults = "queueLabelToDefaultMetricValue: { tier: none }";
    assert_snapshot!(labels(&format!("{map}: {two}\n{defaults}")), @"team=a.b/team (), queue_tier=tier (none)");
    assert_snapshot!(labels(&format!("{map}: {{ tier: 'queue-tier' }}")), @"queueLabelToMetricLabel: got queue-tier, expected letters, digits and _, not starting with a digit or __ at line 1 column 26");
    assert_snapshot!(labels(&format!("{map}: {{ a: queue_name }}")), @"queueLabelToMetricLabel: got queue_name, expected a name that no other metric label has at line 1 column 26");
    assert_snapshot!(labels(&format!("{map}: {{ a: x, b: x }}")), @"queueLabelToMetricLabel: got x, expected a name that no other metric label has at line 1 column 26");
    assert_snapshot!(labels(defaults), @"queueLabelToDefaultMetricValue: got tier, expected a queue label that queueLabelToMetricLabel contains at line 1 column 33");
}

#[test]
fn a_negative_staleness_grace_period_means_never() {
    let grace = |text: &str| {
        let file = ConfigFile::parse(&format!("stalenessGracePeriod: {text}"));
        file.map(|file| file.staleness_grace_period.unwrap().0).map_err(|error| error.to_string())
    };
    assert_eq!(grace("-1s"), Ok(GraceSetting::NEVER));
    assert_eq!(grace("-2h30m"), Ok(GraceSetting::NEVER));
    assert_eq!(grace("-0s"), Ok(Duration::ZERO));
    assert_eq!(grace("1m30s"), Ok(Duration::from_secs(90)));
    assert_snapshot!(grace("-soon").unwrap_err(), @r#"stalenessGracePeriod: invalid value: string "-soon", expected a duration such as 90s, 500ms or 1h30m, or -1s for never at line 1 column 23"#);
    assert_snapshot!(grace("--1s").unwrap_err(), @r#"stalenessGracePeriod: invalid value: string "--1s", expected a duration such as 90s, 500ms or 1h30m, or -1s for never at line 1 column 23"#);
}
