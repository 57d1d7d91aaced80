//! What KAI says of its scheduler, what ours says of itself, and what is noted.

use insta::assert_snapshot;
use schedlab_json::json;
use schedlab_scheduler_core::Profile;

use super::*;
use crate::captured::written;

fn learned(said: Said) -> (Config, Vec<String>) {
    let mut config = Config::kai();
    let notes = learn(said, &mut config).unwrap();
    (config, notes)
}

fn told(config: &Config) -> String {
    let profile = &config.profile;
    format!(
        "{} pool={:?} period={:?} {:?}\noff={:?}\nnodes {:?}/{:?} devices {:?} depth={:?} k={} \
         saturation={} victims={} stale={:?} protected={:?}/{:?} by {:?} preempt={:?}/{} grace={:?}/{:?}\n\
         restricted={} tree={} moves={} reserved={} filters={} order={:?}/{:?}",
        config.scheduler_name,
        config.node_pool,
        config.period,
        profile.actions,
        config.plugins_off,
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
        profile.release_max,
        config.restrict_node_scheduling,
        config.full_hierarchy_fairness,
        profile.consolidating_reclaim,
        config.gpu_reservation.is_some(),
        profile.plugins.filter.len(),
        profile.job_order,
        profile.task_order,
    )
}

/// As KAI's operator sets a shard up.
fn of_kai() -> Said {
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
    Said {
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
        ..Said::default()
    }
}

#[test]
fn what_kai_was_told_decides_here_too() {
    let (config, notes) = learned(of_kai());
    assert!(notes.is_empty(), "{notes:?}");
    assert_snapshot!(told(&config), @r#"
    kai-scheduler pool=Some(NodePool { label: "pool", value: "a100" }) period=2s [Allocate, Reclaim, Preempt, StaleGangEviction]
    off={"gpusharingorder", "numa"}
    nodes Spread/BinPack devices Spread depth={Reclaim: 10} k=500 saturation=1500 victims=4 stale=90s protected=240s/3600s by Lca preempt=None/1 grace=None/Some(120s)
    restricted=true tree=true moves=true reserved=false filters=19 order=[Priority, Elastic]/[Kubeflow, Ray, TaskOrder]
    "#);
}

#[test]
fn what_go_leaves_out_is_false_or_0_where_the_flags_are_whole() {
    let flags = |parameters: Value| {
        let (config, notes) = learned(Said { parameters, ..Said::default() });
        let profile = &config.profile;
        let switches = (config.full_hierarchy_fairness, profile.consolidating_reclaim);
        let (actions, grace) = (&profile.actions, profile.staleness_grace);
        format!("{actions:?} {grace:?} {switches:?}\n{}", notes.join("\n"))
    };
    assert_snapshot!(flags(json!({ "schedulerName": "a" })), @"[Allocate, Consolidate, Reclaim, Preempt, StaleGangEviction] 60s (true, true)");
    assert_snapshot!(flags(json!({ "schedulePeriod": 1_000_000_000 })), @"[Allocate, Reclaim, Preempt, StaleGangEviction] 0ns (false, false)");
}

#[test]
fn what_a_snapshot_says_that_is_not_done_is_noted() {
    let of = |configuration: Value, parameters: Value| {
        learned(Said { configuration, parameters, ..Said::default() }).1.join("\n")
    };
    assert_snapshot!(of(json!({ "actions": "allocate, foo", "scenarioSearchBudgets": {} }), json!({
        "restrictSchedulingNodes": "yes", "maxNumberConsolidationPreemptees": -5,
        "globalDefaultStalenessGracePeriod": "60s", "unheardOf": 1, "schedulerName": "",
    })), @r#"
    config.actions: found foo, allowed: allocate, consolidation, reclaim, preempt, stalegangeviction; it is left out
    config.scenarioSearchBudgets: nothing here goes by it
    schedulerParams.schedulerName: found "", allowed: the name of a scheduler; it is not told
    schedulerParams.maxNumberConsolidationPreemptees: found -5, allowed: an integer from -1 (any number); 16 holds
    schedulerParams.globalDefaultStalenessGracePeriod: found "60s", allowed: an integer of nanoseconds; 60s holds
    schedulerParams.restrictSchedulingNodes: found "yes", allowed: true or false; pods go to nodes of any role
    schedulerParams.unheardOf: nothing here goes by it
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
    config.queueDepthPerAction.allocate: found -1, allowed: an integer from 0; all are looked at
    config.queueDepthPerAction: found foo, allowed: allocate, consolidation, reclaim, preempt, stalegangeviction; it is left out
    config.tiers[0].plugins[0].name: found "nonsense", allowed: predicates, proportion, priority, nodeavailability, resourcetype, podaffinity, elastic, kubeflow, ray, subgrouporder, taskorder, nominatednode, dynamicresources, numa, minruntime, topology, snapshot, gpupack, gpuspread, nodeplacement, gpusharingorder, reflectjoborder, expectedruntime, sg-nodelocalgreedy, sg-multinodegang; it is left out
    config.tiers[0].plugins[1].disableJobOrder: nothing here goes by it
    config.tiers[0].plugins[2].arguments.disk: nothing here goes by it
    config.tiers[0].plugins[2].arguments.gpu: found "sideways", allowed: binpack, spread or leastfragmentation; binpack holds
    config.tiers[0].plugins[3].arguments.kValue: found "-2", allowed: a number from 0 to 1000; 1 holds
    config.tiers[0].plugins[4].arguments.reclaimResolveMethod: found "sideways", allowed: lca or queue; lca holds
    config.usageDBConfig: found a database, allowed: none, as a snapshot has no past usage: shares are divided as if there had been none
    "#);
}

#[test]
fn the_first_of_two_plugins_that_are_listed_comes_first() {
    let order = |tiers: &[&[&str]]| {
        let tier = |names: &&[&str]| {
            let names = names.iter().map(|name| json!({ "name": name }));
            json!({ "plugins": names.collect::<Vec<_>>() })
        };
        let tiers: Vec<Value> = tiers.iter().map(tier).collect();
        let (config, _) =
            learned(Said { configuration: json!({ "tiers": tiers }), ..Said::default() });
        let Profile { job_order, task_order, .. } = &config.profile;
        format!("{job_order:?} {task_order:?} {:?}", config.plugin_priorities)
    };
    assert_snapshot!(order(&[&["priority", "topology", "elastic", "kubeflow", "ray", "taskorder"]]), @"[Priority, Elastic] [Kubeflow, Ray, TaskOrder] {}");
    assert_snapshot!(order(&[&["elastic", "priority"], &["taskorder", "kubeflow", "elastic"]]), @r#"[Elastic, Priority] [TaskOrder, Kubeflow] {"elastic": 500, "kubeflow": 200, "priority": 400, "taskorder": 300}"#);
}

#[test]
fn plugins_that_a_list_leaves_out_are_not_asked() {
    let tiers = json!([{ "plugins": [{ "name": "priority" }] }]);
    let said = Said { configuration: json!({ "tiers": tiers }), ..Said::default() };
    let (config, notes) = learned(said);
    assert_eq!(notes, Vec::<String>::new());
    let Profile { fair_shares, min_runtimes, .. } = config.profile;
    assert_eq!((fair_shares, min_runtimes), (false, false));
}

#[test]
fn the_order_of_plugins_is_written_and_read_back() {
    let file = "plugins: { kubeflow: { priority: 850 }, ray: { priority: 1000 } }";
    let mut config = Config::kai();
    ConfigFile::parse(file).unwrap().apply(&mut config).unwrap();
    let of_kai = Said { ours: Value::Null, ..written(&config) };
    let names = of_kai.configuration["tiers"][0]["plugins"].as_array().unwrap().iter();
    let names: Vec<&str> = names.filter_map(|plugin| plugin["name"].as_str()).collect();
    assert_snapshot!(names.join(" "), @"predicates proportion priority nodeavailability resourcetype podaffinity elastic ray subgrouporder taskorder kubeflow nominatednode dynamicresources numa minruntime topology snapshot gpupack nodeplacement gpusharingorder");
    let (of_kai, ours) = (learned(of_kai).0, learned(written(&config)).0);
    assert_eq!((told(&of_kai), told(&ours)), (told(&config), told(&config)));
}

fn written(config: &Config) -> Said {
    Said {
        configuration: written::configuration(config),
        parameters: written::parameters(config),
        ours: written::ours(config),
        strange: Vec::new(),
    }
}

#[test]
fn what_ours_says_of_itself_is_read_back() {
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
    let in_kais_words = Said { ours: Value::Null, ..written(&config) };
    let (again, notes) = learned(written(&config));
    assert_eq!(told(&again), told(&config));
    assert_eq!(again.usage_window, config.usage_window);
    assert_snapshot!(notes.join("\n"), @"schedlab.usageWindow: found a window, allowed: none, as a snapshot has no past usage: shares are divided as if there had been none");
    let (of_kai, notes) = learned(in_kais_words);
    assert!(notes.is_empty(), "{notes:?}");
    assert_snapshot!(told(&of_kai), @r#"
    mine pool=Some(NodePool { label: "kai.scheduler/node-pool", value: "a100" }) period=500ms [Allocate, Consolidate]
    off={"podaffinity", "ray", "topology"}
    nodes BinPack/Spread devices Spread depth={Reclaim: 10} k=500 saturation=1250 victims=3 stale=90s protected=240s/1.5s by Queue preempt=None/1 grace=None/Some(120s)
    restricted=true tree=true moves=true reserved=false filters=20 order=[Elastic, Priority]/[Kubeflow, TaskOrder]
    "#);
    let plain = Config::kai();
    let (again, notes) = learned(written(&plain));
    assert_eq!((told(&again), notes), (told(&plain), Vec::new()));
}

#[test]
fn what_cannot_be_read_is_told_with_its_field() {
    let wrong = |said: Said| learn(said, &mut Config::kai()).unwrap_err().to_string();
    let ours = |ours: Value| wrong(Said { ours, ..Said::default() });
    assert_snapshot!(ours(json!("str")), @r#"snapshot.json: schedlab: found "str", allowed: keys of a configuration"#);
    assert_snapshot!(ours(json!({ "reclaimSaturationMultiplier": "NaN" })), @r#"snapshot.json: schedlab.reclaimSaturationMultiplier: found "NaN", allowed: a number"#);
    assert_snapshot!(ours(json!({ "reclaimSaturationMultiplier": 1e300 })), @"snapshot.json: schedlab.reclaimSaturationMultiplier: found 1e300, allowed: 1 to 1000");
    assert_snapshot!(ours(json!({ "period": 3 })), @"snapshot.json: schedlab.period: found 3, allowed: a time as 90s, 500ms or 1h30m");
    assert_snapshot!(ours(json!({ "period": "soon" })), @r#"snapshot.json: schedlab.period: found "soon", allowed: a time as 90s, 500ms or 1h30m"#);
    assert_snapshot!(ours(json!({ "minRuntime": { "preemptMinRuntime": [] } })), @"snapshot.json: schedlab.minRuntime.preemptMinRuntime: found [], allowed: a time as 90s, 500ms or 1h30m");
    assert_snapshot!(ours(json!({ "preemptionPolicy": "" })), @r#"snapshot.json: schedlab.preemptionPolicy: found "", allowed: an object"#);
    assert_snapshot!(ours(json!({ "preemptionPolicy": { "maxPreemptionsPerCycle": -1 } })), @"snapshot.json: schedlab.preemptionPolicy.maxPreemptionsPerCycle: found -1, allowed: a whole number from 0 on");
    assert_snapshot!(ours(json!({ "preemptionPolicy": { "minPriorityDifference": 0 } })), @"snapshot.json: schedlab.preemptionPolicy.minPriorityDifference: found 0, allowed: 1 or more");
    assert_snapshot!(ours(json!({ "actions": ["allocate", "juggle"] })), @"snapshot.json: schedlab.actions[1]: found unknown variant `juggle`, allowed: one of `allocate`, `consolidation`, `reclaim`, `preempt`, `stalegangeviction`");
    assert_snapshot!(ours(json!({ "nodePool": { "label": "a/b" } })), @"snapshot.json: schedlab.nodePool: found missing field `value`, allowed: what stands in a configuration file (docs/reference/configuration.md)");
    assert_snapshot!(ours(json!({ "future": 1 })), @"snapshot.json: schedlab.future: found unknown field `future`, allowed: one of `schedulerName`, `components`, `binding`, `gpuReservation`, `blockNvidiaVisibleDevices`, `gpuPodRuntimeClassName`, `defaultPrioritiesConfigMap`, `nodePool`, `restrictNodeScheduling`, `fullHierarchyFairness`, `period`, `usageWindow`, `usageHalfLife`, `usageDBConfig`, `queueLabelToMetricLabel`, `queueLabelToDefaultMetricValue`, `writesAtOnce`, `traceDecisions`, `actions`, `plugins`, `placementStrategy`, `queueDepthPerAction`, `minRuntime`, `kValue`, `preemptionPolicy`, `stalenessGracePeriod`, `reclaimSaturationMultiplier`, `allowConsolidatingReclaim`, `maxConsolidationVictims`");
    let tiers =
        |tiers: Value| wrong(Said { configuration: json!({ "tiers": tiers }), ..Said::default() });
    assert_snapshot!(tiers(json!("-5")), @r#"snapshot.json: config.tiers: found "-5", allowed: an array, as KAI writes it"#);
    assert_snapshot!(tiers(json!(["-5"])), @r#"snapshot.json: config.tiers[0]: found "-5", allowed: an object, as KAI writes it"#);
    assert_snapshot!(tiers(json!([{ "plugins": "-5" }])), @r#"snapshot.json: config.tiers[0].plugins: found "-5", allowed: an array, as KAI writes it"#);
    assert_snapshot!(tiers(json!([{ "plugins": [{ "name": "gang" }, 3] }])), @"snapshot.json: config.tiers[0].plugins[1]: found 3, allowed: an object, as KAI writes it");
}
