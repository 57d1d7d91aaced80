//! Every kind of object the API knows: one table of built-in kinds ([`table`]) and the kinds that
//! CRDs add while it runs. It knows no objects.

pub mod schema;

mod custom;
pub(crate) mod declared;
mod definition;
pub(crate) mod metadata;
mod scale;
mod table;
pub(crate) mod typed;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schema::Schema;

pub use custom::from_crd;
pub(crate) use custom::version_rank;
pub use scale::Scale;

/// A collection: API group and plural name, whatever the version it is asked for in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural name, as in paths.
    pub plural: Arc<str>,
}

impl Resource {
    /// `Resource::new("apps", "deployments")`.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Whether it is this one.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        &*self.plural == plural && &*self.group == group
    }
}

impl fmt::Display for Resource {
    /// As messages have it: `pods`, `deployments.apps`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            return formatter.write_str(&self.plural);
        }
        write!(formatter, "{}.{}", self.plural, self.group)
    }
}

/// One kind of object.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its collection.
    pub resource: Resource,
    /// Its kind, as in `kind:`.
    pub kind: Arc<str>,
    /// The kind of its lists.
    pub list_kind: Arc<str>,
    /// Singular name, for discovery.
    pub singular: Arc<str>,
    /// Short names, for discovery.
    pub short_names: Vec<Arc<str>>,
    /// Categories, for discovery.
    pub categories: Vec<Arc<str>>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// When `metadata.generation` grows.
    pub generation: Generation,
    /// Served and stored versions, the preferred one first. Never empty.
    pub versions: Vec<Version>,
    /// The name of the version in which objects are stored.
    pub storage: Arc<str>,
    /// Where it comes from.
    pub origin: Origin,
}

/// When `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// It starts at 1 and grows with every change outside `metadata` and `status`.
    OnSpec,
}

/// Where a kind comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The API server itself.
    BuiltIn,
    /// A `CustomResourceDefinition`.
    Custom,
    /// Another view on the objects of another collection: `events.k8s.io` events.
    View,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// `v1`, `v2alpha2`, …
    pub name: Arc<str>,
    /// Whether requests may ask for it.
    pub served: bool,
    /// Whether it has `/status`; then writes of the object itself leave its status alone.
    pub status: bool,
    /// Whether it has `/scale`, and where its numbers stand.
    pub scale: Option<Scale>,
    /// Columns of a CRD for the `Table` form; built-in kinds have theirs in `http`.
    pub columns: Vec<Column>,
    /// The structural schema of a CRD.
    pub schema: Option<Arc<Schema>>,
    /// JSON paths of a CRD's own field selectors.
    pub selectable: Vec<Path>,
}

/// Steps from an object's root to a field.
pub type Path = Vec<Arc<str>>;

/// One of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: String,
    /// `format`, for instance `int32`.
    pub format: String,
    /// Meaning.
    pub description: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i64,
    /// Where the value stands, as `.spec.queue`.
    pub json_path: String,
}

impl Kind {
    /// A version by its name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| &*version.name == name)
    }

    /// The version in which objects are stored.
    pub fn stored(&self) -> &Version {
        self.version(&self.storage).expect("a kind's storage version is one of its versions")
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self, version: &str) -> String {
        if self.resource.group.is_empty() {
            return version.to_owned();
        }
        format!("{}/{version}", self.resource.group)
    }

    /// The Go package of a built-in kind, as messages have it.
    pub fn package(&self) -> &str {
        match self.home().group.split('.').next() {
            None | Some("") => "core",
            Some(_) => self.resource.group.split('.').next().unwrap_or_default(),
        }
    }

    /// Whether its objects can have something at this path of keys and positions
    /// (`spec.containers.0.env`), in the version that is stored.
    pub fn declares(&self, path: &str) -> bool {
        declared::Declared::object(self, self.stored().schema.as_deref()).knows(path)
    }

    /// Whether it is this built-in or custom kind.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.kind == kind && &*self.resource.group == group
    }
}

/// The registry of kinds.
#[derive(Clone, Debug)]
pub struct Kinds {
    by_resource: BTreeMap<Resource, Arc<Kind>>,
    by_kind: BTreeMap<(Arc<str>, Arc<str>), Resource>,
    edition: u64,
}

impl Kinds {
    /// The built-in kinds.
    pub fn built_in() -> Self {
        let mut kinds = Self { by_resource: BTreeMap::new(), by_kind: BTreeMap::new(), edition: 0 };
        for kind in table::built_in() {
            kinds.register(kind);
        }
        kinds
    }

    /// The kind of a collection.
    pub fn get(&self, resource: &Resource) -> Option<&Arc<Kind>> {
        self.by_resource.get(resource)
    }

    /// The kind behind a path; only if that version is served.
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let kind = self.get(&Resource::new(group, plural))?;
        kind.version(version).filter(|version| version.served).map(|_| kind)
    }

    /// The kind by its group and kind, as owner references and bodies name it.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.get(self.by_kind.get(&(Arc::from(group), Arc::from(kind)))?)
    }

    /// All kinds, ordered by group and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_resource.values()
    }

    /// Grows whenever a kind comes, changes or goes: what is derived from the kinds (discovery,
    /// OpenAPI) is good for one edition.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Adds a kind, or replaces the one of the same collection.
    pub fn register(&mut self, kind: Kind) {
        self.unregister(&kind.resource.clone());
        let key = (Arc::clone(&kind.resource.group), Arc::clone(&kind.kind));
        self.by_kind.insert(key, kind.resource.clone());
        self.by_resource.insert(kind.resource.clone(), Arc::new(kind));
        self.edition += 1;
    }

    /// Takes a kind away.
    pub fn unregister(&mut self, resource: &Resource) {
        if let Some(kind) = self.by_resource.remove(resource) {
            self.by_kind.remove(&(Arc::clone(&kind.resource.group), Arc::clone(&kind.kind)));
            self.edition += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_knows_which_paths_lead_somewhere() {
        let kinds = Kinds::built_in();
        let pod = kinds.by_kind("", "Pod").unwrap();
        for path in ["spec.containers.0.env", "metadata.annotations.a.dev/b.c", "status"] {
            assert!(pod.declares(path), "{path}");
        }
        for path in ["spec.container.0.env", "spec.containers.0.env.x", "status.phase.0", "stat"] {
            assert!(!pod.declares(path), "{path}");
        }
    }

    #[test]
    fn a_kind_is_found_by_path_and_by_kind() {
        let kinds = Kinds::built_in();
        let deployment = kinds.by_path("apps", "v1", "deployments").unwrap();
        assert_eq!(&*deployment.kind, "Deployment");
        assert_eq!(&*kinds.by_kind("", "Pod").unwrap().resource.plural, "pods");
        assert!(kinds.by_path("apps", "v1beta1", "deployments").is_none());
    }

    #[test]
    fn a_collection_is_shown_as_messages_have_it() {
        assert_eq!(Resource::new("", "pods").to_string(), "pods");
        assert_eq!(Resource::new("apps", "deployments").to_string(), "deployments.apps");
    }

    #[test]
    fn registering_and_unregistering_change_the_edition() {
        let mut kinds = Kinds::built_in();
        let before = kinds.edition();
        kinds.unregister(&Resource::new("apps", "deployments"));
        assert!(kinds.edition() > before);
        assert!(kinds.by_kind("apps", "Deployment").is_none());
    }
}
