//! Allowed imports between the modules of each crate, and how the module of a source file is found.
//! A new edge is an architecture decision: it is made here, in one line that a reviewer sees.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Component,
};

use crate::source::Source;

/// Layers of each crate by crate folder, lowest layer first. A module may import the modules of its
/// own line and of all lines above it. `module -> …` lists exactly what a module may import; only
/// the crate's root imports such a module. Types that the root itself defines are in the first
/// line.
pub(crate) const EDGES: [(&str, &str); 21] = [
    (
        "scheduler/core",
        "
            model resources
            devices
            reason
            plan
            profile
            queues
            framework
            plugins
            solver
            actions
            cycle
            next_snapshot -> model plan
            inspect -> actions cycle next_snapshot solver
        ",
    ),
    (
        "scheduler/explain",
        "
            hypothetical_node hypothetical_pod
            hypothetical_snapshot
            trial
            queue suggestions
            queue_text text
        ",
    ),
    (
        "scheduler/testkit",
        "
            tokens
            build
            plan_audit show synthetic
            rounds
            random
        ",
    ),
    (
        "scheduler/model",
        "
            Labels Time
            name
            resources
            claim disruption_budget excluded_nodes gpu list_edit node node_selection numa pod pod_group queue queue_problem selectors topology volume
            snapshot snapshot_changes
        ",
    ),
    (
        "scheduler/api",
        "
            Value annotations api_versions conditions finalizers labels object_names resources taints
            map
            convert
            serial tree
            duration object pointer quantity random
            toleration
            crds -> Map Value json to_value
            literal -> Value __fields __items json map to_value
        ",
    ),
    (
        "scheduler/audit",
        "
            rules write
            change eviction_causes views
            history unexplained_deletions
            audit
            background
        ",
    ),
    (
        "scheduler",
        "
            logging
            api concurrency parse progress trace usage
            config karta
            watch
            records
            dra
            cache
            snapshot_builder
            apply podgrouper
            binder queue_controller
            admission snapshot_file
            explain
            run
            replay -> cache config podgrouper records snapshot_builder snapshot_file
            cli -> admission config explain health leader_election logging metrics progress replay run snapshot_file trace usage
        ",
    ),
    (
        "harness/control-plane",
        "
            assets identity
            plane
            temporary
        ",
    ),
    (
        "harness/emulator",
        "
            api_types clock yaml
            store
            admission
            requests
            http reconcile
            kubelet
            controllers fleet
            emulator
        ",
    ),
    (
        "harness",
        "
            exit
            cli
            commands
        ",
    ),
    (
        "harness/conformance",
        "
            text
            suite_files
            report history
            schedulers
            features render
            world
            compare snapshots
            steps
            static_check
            runner
            conform
        ",
    ),
    (
        "harness/casefiles",
        "
            kinds change doc_string
            case
            audit predicate history
            pod_spec
            restore
            read redact capture session
            minimise feature
        ",
    ),
    (
        "harness/apps",
        "
            inputs palette
            experiment
            plots
            simulate
            cases compare prometheus upgrade whatif
        ",
    ),
    // The root is all of it.
    ("harness/suite", ""),
    (
        "harness/traces",
        "
            error fleet numbers
            calendar format limits lines
            csv_source job options
            csv_files json_lines recorded size_class
            pods readers stats write
            edit generate objects queues read
            prometheus
        ",
    ),
    (
        "harness/ui",
        "
            access history
            page session
            lesson
            report_server server
        ",
    ),
    (
        "harness/view",
        "
            records events
            state
            timeline drawing
            fleet plot
            report
        ",
    ),
    (
        "harness/lab",
        "
            commands digest expression
            computed_text markdown
            lesson
            catalogue cluster_digest prepared record
            evidence
            folder grade session
            rehearsal server
        ",
    ),
    (
        "harness/protobuf",
        "
            types wire
        ",
    ),
    (
        "harness/tenancy",
        "
            cluster_scoped content_types list_split names node_pool open_requests rewrite_request rewrite_response rewrite_selectors service_accounts watch_mux write_log
        ",
    ),
    (
        "harness/clusters",
        "
            api block_on interrupt
            kubeconfig external_tools
            scheduler_objects scheduler_source shard_job
            cleanup
            process
            real_cluster
            doctor
        ",
    ),
];

/// Edges that the layers allow and that are forbidden nevertheless.
pub(crate) const EXCLUDED_EDGES: [(&str, &str); 7] = [
    ("http", "reconcile"),
    ("reconcile", "http"),
    ("reconcile", "requests"),
    ("kubelet", "http"),
    ("kubelet", "requests"),
    ("controllers", "http"),
    ("controllers", "requests"),
];

/// Imported modules by importing module.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

/// The first import cycle: its modules in order, with the first one repeated at the end.
pub(crate) fn cycle(edges: &Edges) -> Option<Vec<String>> {
    let mut cleared = BTreeSet::new();
    edges.keys().find_map(|module| cycle_from(module, edges, &mut Vec::new(), &mut cleared))
}

fn cycle_from(
    module: &str,
    edges: &Edges,
    path: &mut Vec<String>,
    cleared: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|earlier| earlier == module) {
        return Some(path.iter().skip(start).cloned().chain([module.to_owned()]).collect());
    }
    if cleared.contains(module) {
        return None;
    }
    path.push(module.to_owned());
    let imported = edges.get(module).into_iter().flatten();
    let found = imported.into_iter().find_map(|next| cycle_from(next, edges, path, cleared));
    path.pop();
    cleared.insert(module.to_owned());
    found
}

/// Allowed imports of each module, from a table of [`EDGES`].
pub(crate) fn parse_table(table: &str) -> Edges {
    let mut allowed = Edges::new();
    let mut below: BTreeSet<String> = BTreeSet::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if let Some((module, may)) = line.split_once("->") {
            allowed.insert(module.trim().to_owned(), words(may).into_iter().collect());
            continue;
        }
        below.extend(words(line));
        for module in words(line) {
            let is_excluded =
                |other: &String| EXCLUDED_EDGES.contains(&(module.as_str(), other.as_str()));
            let may = below.iter().filter(|other| !is_excluded(other)).cloned().collect();
            allowed.insert(module, may);
        }
    }
    allowed
}

/// The top-level module of a source file; `None` for the crate's root, its binaries and modules
/// that are compiled for tests only.
pub(crate) fn module_of(source: &Source, folder: &str, tests: &BTreeSet<String>) -> Option<String> {
    let inside = source.path.strip_prefix(format!("{folder}/src")).ok()?;
    let parts: Vec<String> = inside
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().replace(".rs", "")),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    let first = parts.first()?;
    let is_root = ["lib", "main", "bin"].contains(&first.as_str());
    (!is_root && !parts.iter().any(|part| tests.contains(part))).then(|| first.clone())
}

/// Modules of the types that a crate's root re-exports: `Plan` of `crate::Plan` is in `plan`.
pub(crate) fn reexports(sources: &[Source]) -> BTreeMap<String, String> {
    let root = sources.iter().find(|source| source.path.ends_with("src/lib.rs"));
    let uses = root.map(|root| root.code.split("pub use ").skip(1)).into_iter().flatten();
    let mut reexports = BTreeMap::new();
    for one in uses {
        let Some((module, names)) = one.split(';').next().and_then(|one| one.split_once("::"))
        else {
            continue;
        };
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        let types = names.filter(|name| name.starts_with(|c: char| c.is_uppercase()));
        reexports.extend(types.map(|name| (name.to_owned(), module.trim().to_owned())));
    }
    reexports
}
