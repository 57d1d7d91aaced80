//! Who may import whom inside each crate, and how a source's module is found. A new edge is a
//! decision about the architecture: it is made here, in one line that a reviewer sees.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Component,
};

use crate::source::Source;

/// By crate folder: `module: what it may import`. Modules stand from the ground up.
pub(crate) const EDGES: [(&str, &str); 4] = [
    (
        "scheduler/core",
        "
            resources: model
            model: resources
            framework: decision model session
            profile: framework
            fairshare: model resources
            snapshot: model
            queues: fairshare model profile resources snapshot
            session: decision framework model profile queues resources snapshot
            decision: model resources session
            victims: decision model profile queues resources session snapshot
            actions: decision model profile queues resources session victims
            plan: decision model resources
            audit: decision model plan resources snapshot
            cycle: actions decision framework model plan profile resources session snapshot
            plugins: decision framework model profile queues resources session
            synthetic: model resources snapshot
            words: decision model snapshot
        ",
    ),
    (
        "scheduler",
        "
            api:
            status:
            config: status
            parse:
            watch: api config
            mirror: parse watch
            translate: config mirror parse
            apply: api config mirror translate watch
            cli:
            crds:
            podgrouper: api mirror parse translate watch
            queues: api apply mirror translate
            usage:
            run: api apply config mirror podgrouper queues status translate usage watch
        ",
    ),
    (
        "harness/emulator",
        "
            names:
            object:
            quantity:
            select: error kinds names object
            kinds: error names object quantity select
            error: kinds
            store: error kinds object select
            actors: error object quantity select store
            admit: error kinds names object quantity select store
            clock:
            crds:
            shared: clock error store
            driver: actors error object shared store
            fleet: actors object quantity
            patch: error
            watch: error object select store
            http: error kinds object patch select shared store watch
            serve: error http
            emulator: actors clock crds driver error fleet http serve shared store
            write: admit error kinds object patch select store
        ",
    ),
    (
        "harness",
        "
            api:
            happenings: fields
            quantity:
            fields:
            audit: fields happenings quantity
            cluster: api audit
            exit:
            report:
            view: api happenings quantity
            objects: view
            snapshots: audit happenings quantity
            world: api audit cluster features happenings objects view
            steps: api cli cluster objects quantity snapshots view world
            vocabulary: steps world
            features: report vocabulary
            reviewed: features
            runner: features report reviewed vocabulary world
            simulate: audit fields happenings
            commands: api cli cluster exit features report reviewed runner simulate steps vocabulary
            cli: commands exit features report simulate
        ",
    ),
];

pub(crate) fn parsed(table: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = table.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(module, may)| {
            let may = may.split_whitespace().map(str::to_owned).collect();
            (module.trim().to_owned(), may)
        })
        .collect()
}

/// The top module that a source belongs to; nothing for the crate's root, its binaries and what
/// is compiled for tests only.
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
    let apart = ["lib", "main", "bin"].contains(&first.as_str());
    (!apart && !parts.iter().any(|part| tests.contains(part))).then(|| first.clone())
}

/// Where the names come from that a crate's root shows as its own: `crate::Plan` is `plan`.
pub(crate) fn homes(sources: &[Source]) -> BTreeMap<String, String> {
    let root = sources.iter().find(|source| source.path.ends_with("src/lib.rs"));
    let uses = root.map(|root| root.code.split("pub use ").skip(1)).into_iter().flatten();
    let mut homes = BTreeMap::new();
    for one in uses {
        let Some((module, names)) = one.split(';').next().and_then(|one| one.split_once("::"))
        else {
            continue;
        };
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        let shown = names.filter(|name| name.starts_with(|c: char| c.is_uppercase()));
        homes.extend(shown.map(|name| (name.to_owned(), module.trim().to_owned())));
    }
    homes
}
