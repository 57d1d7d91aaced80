//! Settings of KAI and of schedlab in a snapshot, and the notes on them.

use insta::assert_snapshot;
use schedlab_api::json;
use schedlab_scheduler_core::Profile;

use super::*;
use crate::snapshot_file::write;

fn learned(said: CapturedConfig) -> (Config, Vec<String>) {
    let mut config = Config::kai();
    let notes = apply_config(said, &mut config).unwrap();
    (config, notes)
}

fn rendered(config: &Config) -> String {
    let profile = &config.profile;
    format!(
        "{} pool={:?} period={:?} {:?}\noff={:?}\nnodes {:?}/{:?} devices {:?} depth={:?} k={} \
         saturation={} victims={} stale={:?} protected={:?}/{:?} by {:?} preempt={:?}/{} grace={:?}/{:?}\n\
         restricted={} tree={} moves={} reserved={} filters={} order={:?}/{:?}",
        config.scheduler_name,
        config.node_pool,
        config.period,
        profile.actions,
        config.disabled_plugins,
        profile.gpu_placement,
        profile.cpu_placement,
        profile.device_placement,
        profile.queue_depth,
        profile.k_value_milli,
        profile.reclaim_saturation_milli,
        profile.consolidation_victims_max,
        profile.staleness_grace,
        profile.preempt_min_runtime,
        profile.reclaim_min_runtime,
        profile.reclaim_resolve_method,
        profile.preemptions_max,
        profile.priority_difference_min,
        config.eviction_grace,
        profile.release_timeout,
        config.restrict_node_scheduling,
        config.full_hierarchy_fairness,
        profile.allow_consolidating_reclaim,
        config.gpu_reservation.is_some(),
        profile.plugins.filter.len(),
        profile.job_order,
        profile.task_order,
    )
}

/// The settings of a shard as rendered by KAI's operator.
fn of_kai() -> CapturedConfig {
    let named = |name: &str| json!({ "name": name });
    let mut plugins: Vec<Value> = [
        "predicates",
        "priority",
        "nodeavailability",
        "resourcetype",
        "podaffinity",
        "elastic",
        "kubeflow",
        "ray",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
        "topology",
        "snapshot",
        "gpuspread",
    ]
    .map(named)
    .into();
    let arguments = json!({ "kValue": "0.5", "relcaimerSaturationMultiplier": "1.5" });
    plugins.push(json!({ "name": "proportion", "arguments": arguments }));
    let arguments = json!({ "defaultPreemptMinRuntime": "4m", "defaultReclaimMinRuntime": "1h" });
    plugins.push(json!({ "name": "minruntime", "arguments": arguments }));
    let arguments = json!({ "gpu": "spread", "cpu": "binpack" });
    plugins.push(json!({ "name": "nodeplacement", "arguments": arguments }));
    CapturedConfig {
        configuration: json!({
            "actions": "allocate, reclaim, preempt, stalegangeviction",
            "tiers": [{ "plugins": plugins }],
            "queueDepthPerAction": { "reclaim": 10 },
        }),
        parameters: json!({
            "schedulerName": "kai-scheduler",
            "partitionParams": { "NodePoolLabelKey": "pool", "NodePoolLabelValue": "a100" },
            "maxNumberConsolidationPreemptees": 4,
            "useSchedulingSignatures": true,
            "fullHierarchyFairness": true,
            "allowConsolidatingReclaim": true,
            "numOfStatusRecordingWorkers": 5,
            "globalDefaultStalenessGracePeriod": 90_000_000_000_i64,
            "schedulePeriod": 2_000_000_000_i64,
            "restrictSchedulingNodes": true,
            "detailedFitErrors": true,
        }),
        ..CapturedConfig::default()
    }
}

#[test]
fn kai_configuration_is_applied() {
    let (config, notes) = learned(of_kai());
    assert!(notes.is_empty(), "{notes:?}");
    assert_snapshot!(rendered(&config), @r#"
    kai-scheduler pool=Some(NodePool { label: "pool", value: "a100" }) period=2s [Allocate, Reclaim, Preempt, StaleGangEviction]
    off={"gpusharingorder", "numa"}
    nodes Spread/BinPack devices Spread depth={Reclaim: 10} k=500 saturation=1500 victims=4 stale=90s protected=240s/3600s by Lca preempt=None/1 grace=None/Some(120s)
    restricted=true tree=true moves=true reserved=false filters=21 order=[Priority, Elastic]/[Kubeflow, Ray, TaskOrder]
    "#);
}

#[test]
fn omitted_flags_are_false_or_0_when_a_period_is_set() {
    let flags = |parameters: Value| {
        let (config, notes) = learned(CapturedConfig { parameters, ..CapturedConfig::default() });
        let profile = &config.profile;
        let switches = (config.full_hierarchy_fairness, profile.allow_consolidating_reclaim);
        let (actions, grace) = (&profile.actions, profile.staleness_grace);
        format!("{actions:?} {grace:?} {switches:?}\n{}", notes.join("\n"))
    };
    assert_snapshot!(flags(json!({ "schedulerName": "a" })), @"[Allocate, Consolidate, Reclaim, Preempt, StaleGangEviction] 60s (true, true)");
    assert_snapshot!(flags(json!({ "schedulePeriod": 1_000_000_000 })), @"[Allocate, Reclaim, Preempt, StaleGangEviction] 0ns (false, false)");
}

#[test]
fn ignored_and_invalid_settings_are_noted() {
    let of = |configuration: Value, parameters: Value| {
        learned(CapturedConfig { configuration, parameters, ..CapturedConfig::default() })
            .1
            .join("\n")
    };
    assert_snapshot!(of(json!({ "actions": "allocate, foo", "scenarioSearchBudgets": {} }), json!({
        "restrictSchedulingNodes": "yes", "maxNumberConsolidationPreemptees": -5,
        "globalDefaultStalenessGracePeriod": "60s", "unheardOf": 1, "schedulerName": "",
    })), @r#"
    config.actions: got foo, expected allocate, consolidation, reclaim, preempt, stalegangeviction; it is ignored
    config.scenarioSearchBudgets: it has no effect
    schedulerParams.schedulerName: got "", expected the name of a scheduler; the name is ignored
    schedulerParams.maxNumberConsolidationPreemptees: got -5, expected an integer from -1 (any number); 16 is used
    schedulerParams.globalDefaultStalenessGracePeriod: got "60s", expected an integer of nanoseconds; 60s is used
    schedulerParams.restrictSchedulingNodes: got "yes", expected true or false; pods go to nodes of any role
    schedulerParams.unheardOf: it has no effect
    "#);
    let plugins = json!([
        { "name": "nonsense" },
        { "name": "priority", "disableJobOrder": true },
        { "name": "nodeplacement", "arguments": { "gpu": "sideways", "disk": "spread" } },
        { "name": "proportion", "arguments": { "kValue": "-2" } },
        { "name": "minruntime", "arguments": { "reclaimResolveMethod": "sideways" } },
    ]);
    assert_snapshot!(of(json!({
        "tiers": [{ "plugins": plugins }], "queueDepthPerAction": { "allocate": -1, "foo": 1 },
        "usageDBConfig": { "clientType": "prometheus" },
    }), json!(null)), @r#"
    config.queueDepthPerAction.allocate: got -1, expected an integer from 0; the depth is unlimited
    config.queueDepthPerAction: got foo, expected allocate, consolidation, reclaim, preempt, stalegangeviction; it is ignored
    config.tiers[0].plugins[0].name: got "nonsense", expected predicates, proportion, priority, nodeavailability, resourcetype, podaffinity, elastic, kubeflow, ray, subgrouporder, taskorder, nominatednode, dynamicresources, numa, minruntime, topology, snapshot, gpupack, gpuspread, nodeplacement, gpusharingorder, reflectjoborder, expectedruntime, sg-nodelocalgreedy, sg-multinodegang; it is ignored
    config.tiers[0].plugins[1].disableJobOrder: it has no effect
    config.tiers[0].plugins[2].arguments.disk: it has no effect
    config.tiers[0].plugins[2].arguments.gpu: got "sideways", expected binpack, spread or leastfragmentation; binpack is used
    config.tiers[0].plugins[3].arguments.kValue: got "-2", expected a number from 0 to 1000; 1 is used
    config.tiers[0].plugins[4].arguments.reclaimResolveMethod: got "sideways", expected lca or queue; lca is used
    config.usageDBConfig: got a database, expected none, as a snapshot has no past usage: fair shares are computed without it
    "#);
}

#[test]
fn plugin_order_follows_the_list() {
    let order = |tiers: &[&[&str]]| {
        let tier = |names: &&[&str]| {
            let names = names.iter().map(|name| json!({ "name": name }));
            json!({ "plugins": names.collect::<Vec<_>>() })
        };
        let tiers: Vec<Value> = tiers.iter().map(tier).collect();
        let (config, _) = learned(CapturedConfig {
            configuration: json!({ "tiers": tiers }),
            ..CapturedConfig::default()
        });
        let Profile { job_order, task_order, .. } = &config.profile;
        format!("{job_order:?} {task_order:?} {:?}", config.plugin_priorities)
    };
    assert_snapshot!(order(&[&["priority", "topology", "elastic", "kubeflow", "ray", "taskorder"]]), @"[Priority, Elastic] [Kubeflow, Ray, TaskOrder] {}");
    assert_snapshot!(order(&[&["elastic", "priority"], &["taskorder", "kubeflow", "elastic"]]), @r#"[Elastic, Priority] [TaskOrder, Kubeflow] {"elastic": 500, "kubeflow": 200, "priority": 400, "taskorder": 300}"#);
}

#[test]
fn plugins_missing_from_the_list_are_disabled() {
    let tiers = json!([{ "plugins": [{ "name": "priority" }] }]);
    let said =
        CapturedConfig { configuration: json!({ "tiers": tiers }), ..CapturedConfig::default() };
    let (config, notes) = learned(said);
    assert_eq!(notes, Vec::<String>::new());
    let Profile { uses_fair_shares: fair_shares, protects_min_runtime: min_runtimes, .. } =
        config.profile;
    assert_eq!((fair_shares, min_runtimes), (false, false));
}

#[test]
fn plugin_order_survives_a_round_trip() {
    let file = "plugins: { kubeflow: { priority: 850 }, ray: { priority: 1000 } }";
    let mut config = Config::kai();
    ConfigFile::parse(file).unwrap().apply(&mut config).unwrap();
    let of_kai = CapturedConfig { schedlab: Value::Null, ..written(&config) };
    let names = of_kai.configuration["tiers"][0]["plugins"].as_array().unwrap().iter();
    let names: Vec<&str> = names.filter_map(|plugin| plugin["name"].as_str()).collect();
    assert_snapshot!(names.join(" "), @"predicates proportion priority nodeavailability resourcetype podaffinity elastic ray subgrouporder taskorder kubeflow nominatednode dynamicresources numa minruntime topology snapshot gpupack nodeplacement gpusharingorder");
    let (of_kai, ours) = (learned(of_kai).0, learned(written(&config)).0);
    assert_eq!((rendered(&of_kai), rendered(&ours)), (rendered(&config), rendered(&config)));
}

fn written(config: &Config) -> CapturedConfig {
    CapturedConfig {
        configuration: write::configuration_json(config),
        parameters: write::scheduler_params_json(config),
        schedlab: write::schedlab_settings_json(config),
        unknown_keys: Vec::new(),
    }
}

#[test]
fn configuration_survives_a_round_trip() {
    let file = ConfigFile::parse(
        "
schedulerName: mine
nodePool: { value: a100 }
restrictNodeScheduling: true
gpuReservation: { image: reserve, runtimeClass: nvidia }
period: 500ms
usageWindow: 24h
kValue: 0.5
actions: [allocate, consolidation]
plugins:
  topology: { enabled: false }
  elastic: { priority: 1750 }
  ray: { enabled: false }
  podaffinity: { enabled: false }
  gpuspread: { enabled: true }
  minruntime: { arguments: { reclaimResolveMethod: queue } }
placementStrategy: { gpu: leastfragmentation, cpu: spread }
queueDepthPerAction: { reclaim: 10 }
minRuntime: { preemptMinRuntime: 4m, reclaimMinRuntime: 1500ms }
preemptionPolicy: { maxPreemptionsPerCycle: 3, minPriorityDifference: 100, gracePeriod: 2m }
stalenessGracePeriod: 90s
reclaimSaturationMultiplier: 1.25
maxConsolidationVictims: 3
",
    );
    let mut config = Config::kai();
    file.unwrap().apply(&mut config).unwrap();
    let in_kais_words = CapturedConfig { schedlab: Value::Null, ..written(&config) };
    let (again, notes) = learned(written(&config));
    assert_eq!(rendered(&again), rendered(&config));
    assert_eq!(again.usage_window, config.usage_window);
    assert_snapshot!(notes.join("\n"), @"schedlab.usageWindow: got a window, expected none, as a snapshot has no past usage: fair shares are computed without it");
    let (of_kai, notes) = learned(in_kais_words);
    assert!(notes.is_empty(), "{notes:?}");
    assert_snapshot!(rendered(&of_kai), @r#"
    mine pool=Some(NodePool { label: "kai.scheduler/node-pool", value: "a100" }) period=500ms [Allocate, Consolidate]
    off={"podaffinity", "ray", "topology"}
    nodes BinPack/Spread devices Spread depth={Reclaim: 10} k=500 saturation=1250 victims=3 stale=90s protected=240s/1.5s by Queue preempt=None/1 grace=None/Some(120s)
    restricted=true tree=true moves=true reserved=false filters=22 order=[Elastic, Priority]/[Kubeflow, TaskOrder]
    "#);
    let plain = Config::kai();
    let (again, notes) = learned(written(&plain));
    assert_eq!((rendered(&again), notes), (rendered(&plain), Vec::new()));
}

#[test]
fn invalid_configuration_is_reported_with_its_field() {
    let wrong =
        |said: CapturedConfig| apply_config(said, &mut Config::kai()).unwrap_err().to_string();
    let ours = |ours: Value| wrong(CapturedConfig { schedlab: ours, ..CapturedConfig::default() });
    assert_snapshot!(ours(json!("str")), @r#"snapshot.json: schedlab: got "str", expected a map of configuration keys"#);
    assert_snapshot!(ours(json!({ "reclaimSaturationMultiplier": "NaN" })), @r#"snapshot.json: schedlab.reclaimSaturationMultiplier: got "NaN", expected a number"#);
    assert_snapshot!(ours(json!({ "reclaimSaturationMultiplier": 1e300 })), @"snapshot.json: schedlab.reclaimSaturationMultiplier: got 1e300, expected 1 to 1000");
    assert_snapshot!(ours(json!({ "period": 3 })), @"snapshot.json: schedlab.period: got 3, expected a duration such as 90s, 500ms or 1h30m");
    assert_snapshot!(ours(json!({ "period": "soon" })), @r#"snapshot.json: schedlab.period: got "soon", expected a duration such as 90s, 500ms or 1h30m"#);
    assert_snapshot!(ours(json!({ "minRuntime": { "preemptMinRuntime": [] } })), @"snapshot.json: schedlab.minRuntime.preemptMinRuntime: got [], expected a duration such as 90s, 500ms or 1h30m");
    assert_snapshot!(ours(json!({ "preemptionPolicy": "" })), @r#"snapshot.json: schedlab.preemptionPolicy: got "", expected an object"#);
    assert_snapshot!(ours(json!({ "preemptionPolicy": { "maxPreemptionsPerCycle": -1 } })), @"snapshot.json: schedlab.preemptionPolicy.maxPreemptionsPerCycle: got -1, expected a whole number from 0 on");
    assert_snapshot!(ours(json!({ "preemptionPolicy": { "minPriorityDifference": 0 } })), @"snapshot.json: schedlab.preemptionPolicy.minPriorityDifference: got 0, expected 1 or more");
    assert_snapshot!(ours(json!({ "actions": ["allocate", "juggle"] })), @"snapshot.json: schedlab.actions[1]: got unknown variant `juggle`, expected one of `allocate`, `consolidation`, `reclaim`, `preempt`, `stalegangeviction`");
    assert_snapshot!(ours(json!({ "nodePool": { "label": "a/b" } })), @"snapshot.json: schedlab.nodePool: got missing field `value`, expected the content of a configuration file (docs/reference/configuration.md)");
    assert_snapshot!(ours(json!({ "future": 1 })), @"snapshot.json: schedlab.future: got unknown field `future`, expected one of `schedulerName`, `components`, `binding`, `gpuReservation`, `blockNvidiaVisibleDevices`, `gpuPodRuntimeClassName`, `defaultPrioritiesConfigMap`, `nodePool`, `restrictNodeScheduling`, `fullHierarchyFairness`, `period`, `usageWindow`, `usageHalfLife`, `usageDBConfig`, `queueLabelToMetricLabel`, `queueLabelToDefaultMetricValue`, `writesAtOnce`, `traceDecisions`, `actions`, `plugins`, `placementStrategy`, `queueDepthPerAction`, `minRuntime`, `kValue`, `preemptionPolicy`, `stalenessGracePeriod`, `reclaimSaturationMultiplier`, `allowConsolidatingReclaim`, `maxConsolidationVictims`");
    let tiers = |tiers: Value| {
        wrong(CapturedConfig {
            configuration: json!({ "tiers": tiers }),
            ..CapturedConfig::default()
        })
    };
    assert_snapshot!(tiers(json!("-5")), @r#"snapshot.json: config.tiers: got "-5", expected an array, as KAI writes it"#);
    assert_snapshot!(tiers(json!(["-5"])), @r#"snapshot.json: config.tiers[0]: got "-5", expected an object, as KAI writes it"#);
    assert_snapshot!(tiers(json!([{ "plugins": "-5" }])), @r#"snapshot.json: config.tiers[0].plugins: got "-5", expected an array, as KAI writes it"#);
    assert_snapshot!(tiers(json!([{ "plugins": [{ "name": "gang" }, 3] }])), @"snapshot.json: config.tiers[0].plugins[1]: got 3, expected an object, as KAI writes it");
}
