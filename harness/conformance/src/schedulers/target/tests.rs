use schedlab_api::json;

use super::*;

#[test]
fn names_in_a_target_file_are_validated() {
    let read = |names: &str| {
        let text = format!("{names}\nqueues: none\ncapabilities: []");
        Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(read("name: x\nschedulerName: y"), Ok(()));
    let allowed =
        "expected 1 to 63 letters, digits, -, _ or ., starting and ending with a letter or digit";
    let expected = format!("t.yaml: name: got \"\", {allowed}");
    assert_eq!(read("name: ''"), Err(expected));
    let expected = format!("t.yaml: schedulerName: got \"My Scheduler!\", {allowed}");
    assert_eq!(read("name: x\nschedulerName: My Scheduler!"), Err(expected));
}

#[test]
fn errors_in_a_target_file_have_a_location() {
    let text = "name: mine\nqueues: none\ncapabilities:\n- gangs\n";
    let error =
        Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).unwrap_err().to_string();
    assert!(error.starts_with("t.yaml:4: capabilities: got \"gangs\""), "{error}");
    let error = Target::parse_target_file(
        "t.yaml",
        "name: x\nqueues: slurm\ncapabilities: []",
        &SchedulerSource::Ours,
    );
    let allowed = "t.yaml: queues: got \"slurm\", expected scheduling.run.ai/v2, \
                       kueue.x-k8s.io/v1beta2, scheduling.volcano.sh/v1beta1, \
                       yunikorn-configs, none";
    assert_eq!(error.unwrap_err().to_string(), allowed);
    for name in ["../../x.yaml", "/x.yaml", "sub/x.yaml", "..", "", "kubeconfig", "log"] {
        let text = format!("name: x\nqueues: none\ncapabilities: []\nfiles: {{{name:?}: text}}");
        let error = Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("t.yaml: files: got {name:?}, expected")), "{error}");
    }
    let text = "name: x\nqueues: none\ncapabilities: []\nfiles: {a.yaml: text}";
    assert!(Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).is_ok());
}

#[test]
fn the_kueue_target_uses_the_default_scheduler() {
    let default = SchedulerSource::Installed("default-scheduler".to_owned());
    let (by_name, by_target) = ("installed:kueue".parse().unwrap(), Path::new("kueue"));
    for target in [
        Target::load_target(&by_name, None).unwrap(),
        Target::load_target(&default, Some(by_target)).unwrap(),
    ] {
        assert_eq!((&*target.name, &target.source), ("kueue", &default));
        assert_eq!(target.queues, QueueApi::Kueue);
        assert_eq!(target.scheduler_config(0).scheduler_name, "default-scheduler");
        assert_eq!(target.missing_capabilities(&BTreeSet::from(["quota", "elastic"])), ["elastic"]);
    }
    let second = "installed:second".parse().unwrap();
    let second = Target::load_target(&second, Some(by_target)).unwrap();
    assert_eq!(second.scheduler_config(0).scheduler_name, "second");
}

#[test]
fn built_in_targets_lack_undeclared_capabilities() {
    let which: SchedulerSource = "process:/opt/kube-scheduler".parse().unwrap();
    let target = Target::load_target(&which, None).unwrap();
    assert_eq!(
        target.missing_capabilities(&BTreeSet::from(["quota", "least-allocated"])),
        ["quota"]
    );
    let SchedulerSource::Process(command) = &target.source else { panic!("{target:?}") };
    assert!(command.starts_with("/opt/kube-scheduler --config"), "{command}");
    let ours = Target::load_target(&"process:schedlab-scheduler".parse().unwrap(), None).unwrap();
    assert!(ours.missing_capabilities(&BTreeSet::from(["gang", "reclaim", "quota"])).is_empty());
    let error = "process:schedlab-scheduler run --kubeconfig {kubecfg} ${HOME}".parse().unwrap();
    let error = Target::load_target(&error, None).unwrap_err().to_string();
    assert!(error.contains("unknown placeholder: got {kubecfg}"), "{error}");
    let error = Target::load_target(&"installed:mine".parse().unwrap(), None).unwrap_err();
    assert!(error.to_string().contains("--target"), "{error}");
}

#[test]
fn a_target_declares_its_words_and_times() {
    let read = |fields: &str| {
        let text = format!("name: x\nqueues: none\ncapabilities: []\n{fields}");
        Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours)
    };
    let silent = read("").unwrap();
    assert!(!silent.uses_words_of(Dialect::Kubernetes) && !silent.matches_snapshots());
    assert_eq!(silent.own_times(), Some(OwnTimes::default()));
    let kai = read("words: kai\ntimes: {cycle: 2s}").unwrap();
    assert!(kai.uses_words_of(Dialect::Kai) && !kai.uses_words_of(Dialect::Schedlab));
    assert_eq!(kai.scheduler_config(1).period, Duration::from_secs(2));
    let ours = read("words: schedlab").unwrap();
    assert!(ours.uses_words_of(Dialect::Schedlab) && ours.matches_snapshots());
    assert_eq!(ours.own_times(), None, "the configuration sets its times");
    let error = read("times: {cycle: soon}").unwrap_err().to_string();
    let expected = "t.yaml: times: cycle: got \"soon\", expected a time such as 1s, up to 10m";
    assert_eq!(error, expected);
    let error = read("words: klingon").unwrap_err().to_string();
    assert!(error.contains("klingon") && error.contains("schedlab"), "{error}");
}

#[test]
fn a_capability_that_an_api_cannot_express_cannot_be_claimed() {
    let read = |text: &str| {
        Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours)
            .map_err(|error| error.to_string())
    };
    let kueue = "name: x\nqueues: kueue.x-k8s.io/v1beta2\n";
    assert_eq!(
        read(&format!("{kueue}capabilities: [elastic]")).unwrap_err(),
        "t.yaml: capabilities: got \"elastic\", expected only what the target's APIs can \
             express: a group of pods has a size and no smaller minimum"
    );
    let pod_groups = "gangs: scheduling.k8s.io/v1beta1";
    let target = read(&format!("{kueue}{pod_groups}\ncapabilities: [elastic]")).unwrap();
    assert_eq!(target.gangs, GangApi::Kubernetes);
    let error = read(&format!("{kueue}gangs: podgroups\ncapabilities: []")).unwrap_err();
    assert!(error.starts_with("t.yaml: gangs: got \"podgroups\", expected"), "{error}");
    let both = "capabilities: [quota]\nunsupported: {quota: {reason: no}}";
    assert_eq!(
        read(&format!("{kueue}{both}")).unwrap_err(),
        "t.yaml:3: unsupported: got \"quota\", expected no capability of `capabilities`"
    );
    let error = read(&format!("{kueue}rootQueue: all\ncapabilities: []")).unwrap_err();
    assert!(error.starts_with("t.yaml: rootQueue: got \"all\", expected no value"), "{error}");
}

#[test]
fn kinds_that_crds_of_the_target_define_are_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let definition = "kind: CustomResourceDefinition\n\
                          spec: {group: scheduling.run.ai, names: {kind: PodGroup}}\n";
    std::fs::write(folder.path().join("crds.yaml"), definition).unwrap();
    let text = format!(
        "name: x\nqueues: none\ncapabilities: []\nfolder: {}\nprerequisites: {{crds: [crds.yaml]}}\n\
             programs: [{{name: a, command: a}}]\n",
        folder.path().display()
    );
    let target = Target::parse_target_file("t.yaml", &text, &SchedulerSource::Ours).unwrap();
    let own = |version: &str, kind: &str| {
        target.own_kind_of(&json!({"apiVersion": version, "kind": kind}))
    };
    assert_eq!(own("scheduling.run.ai/v2alpha2", "PodGroup").as_deref(), Some("PodGroup"));
    assert_eq!(own("scheduling.run.ai/v2", "Queue"), None);
    assert_eq!(own("scheduling.k8s.io/v1beta1", "PodGroup"), None);
    assert_eq!(own("v1", "Pod"), None);
    assert_eq!(Target::ours().own_kind_of(&json!({"kind": "Pod"})), None);
}

#[test]
fn a_missing_capability_has_its_reason() {
    let text = "name: x\nqueues: kueue.x-k8s.io/v1beta2\ncapabilities: []\n\
                    unsupported: {topology: {reason: no racks, documentation: docs/racks}}";
    let target = Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).unwrap();
    let missing = ["elastic", "topology", "quota"];
    assert_eq!(
        target.missing_capabilities_text(&missing),
        "x lacks elastic: a group of pods has a size and no smaller minimum; topology: no racks \
             (docs/racks); quota"
    );
    assert_eq!(target.missing_capabilities_text(&["quota", "gang"]), "x lacks quota, gang");
}

/// Capabilities about schedlab or about KAI's own objects, of which no other project has a page.
const WITHOUT_DOCUMENTATION: [&str; 6] =
    ["reported-shares", "configuration", "bind-requests", "webhooks", "node-pools", "pod-groups"];

#[test]
fn unsupported_capabilities_of_other_projects_name_their_documentation() {
    for (name, text) in BUILT_IN_TARGETS {
        let source = SchedulerSource::Process("x".to_owned());
        let target = Target::parse_target_file(name, text, &source).unwrap();
        for (capability, found) in &target.unsupported {
            let is_named = match &found.documentation {
                Some(at) => at.contains("://"),
                None => WITHOUT_DOCUMENTATION.contains(&capability.as_str()),
            };
            assert!(is_named && !found.reason.ends_with('.'), "{name}: {capability}");
        }
    }
}

#[test]
fn pods_for_kai_get_the_targets_scheduler_name() {
    let text = "name: mine\nschedulerName: my-sched\nqueues: none\ncapabilities: []\n";
    let mine = Target::parse_target_file("t.yaml", text, &SchedulerSource::Ours).unwrap();
    let named =
        |name: &str| json!({"spec": {"jobs": [{"template": {"spec": {"schedulerName": name}}}]}});
    for (target, written, there) in [
        (&mine, "kai-scheduler", "my-sched"),
        (&mine, "another", "another"),
        (&Target::ours(), "kai-scheduler", "kai-scheduler"),
    ] {
        let mut object = named(written);
        target.set_scheduler_name(&mut object);
        assert_eq!(object, named(there));
    }
}
