//! The registry of API kinds: the built-in kinds ([`builtin_table`]) and the custom kinds that CRDs
//! add at run time. It holds no objects.

pub mod schema;

mod builtin_table;
mod crd_validation;
mod custom_kind;
pub(crate) mod metadata;
mod scale;
pub(crate) mod type_info;
pub(crate) mod typed;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::feature_gates::FeatureGates;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::api_types::resource::Resource;
use schema::Schema;

pub use custom_kind::from_crd;
pub(crate) use custom_kind::version_rank;
pub use scale::Scale;

/// One kind of API object, with all its versions.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The resource of the kind: API group and plural name.
    pub resource: Resource,
    /// The name of the kind, as in `kind:`.
    pub kind: Arc<str>,
    /// The kind of its lists, such as `PodList`.
    pub list_kind: Arc<str>,
    /// Singular name, for discovery.
    pub singular: Arc<str>,
    /// Short names, for discovery.
    pub short_names: Vec<Arc<str>>,
    /// Categories, for discovery.
    pub categories: Vec<Arc<str>>,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Which changes of an object increase `metadata.generation`.
    pub generation: Generation,
    /// Served and stored versions, the preferred one first. Never empty.
    pub versions: Vec<Version>,
    /// The name of the version in which objects are stored.
    pub storage: Arc<str>,
    /// Where the kind is defined.
    pub origin: Origin,
    /// The revision of the definition of a custom kind. Objects up to this revision may have been
    /// written under another schema.
    pub schema_revision: u64,
    /// The version of Kubernetes that the type of a built-in kind belongs to.
    pub kubernetes: KubernetesVersion,
}

/// Which changes of an object increase `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The generation never increases: objects of the kind have none.
    None,
    /// The generation starts at 1 and increases with every change outside `metadata` and `status`.
    OnSpec,
}

/// Where a kind is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built into the API server.
    BuiltIn,
    /// Defined by a `CustomResourceDefinition`.
    Custom,
    /// A second API for the objects of another resource: `events.k8s.io` events.
    View,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// The name of the version: `v1`, `v2alpha2`, …
    pub name: Arc<str>,
    /// Whether requests may use the version.
    pub served: bool,
    /// Whether the version has the subresource `/status`. If so, updates of the object do not
    /// change its status.
    pub status: bool,
    /// The field paths of the subresource `/scale`, if the version has one.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns` of a CRD; the columns of built-in kinds are in `http`.
    pub columns: Vec<Column>,
    /// The structural schema of a CRD.
    pub schema: Option<Arc<Schema>>,
    /// The paths of `selectableFields` of a CRD.
    pub selectable: Vec<Path>,
}

/// The path from the root of an object to a field.
pub type Path = Vec<Arc<str>>;

/// A column of `kubectl get`, from `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column heading.
    pub name: String,
    /// The type of the values: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The format of the values, for instance `int32`.
    pub format: String,
    /// The description of the column.
    pub description: String,
    /// The priority: 0 is always shown, a column with a greater value only in wide output.
    pub priority: i64,
    /// The JSON path of the value, for instance `.spec.queue`.
    pub json_path: String,
}

impl Kind {
    /// The version with a name, such as `v1`.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| &*version.name == name)
    }

    /// The version in which objects are stored.
    pub fn stored(&self) -> &Version {
        self.version(&self.storage).expect("a kind's storage version is one of its versions")
    }

    /// The `apiVersion` of a version: `group/version`, or the version alone in the core group.
    pub fn api_version(&self, version: &str) -> String {
        if self.resource.group.is_empty() {
            return version.to_owned();
        }
        format!("{}/{version}", self.resource.group)
    }

    /// The Go package of a built-in kind, such as `v1`, as messages name it.
    pub fn package(&self) -> &str {
        match self.storage_resource().group.split('.').next() {
            None | Some("") => "core",
            Some(_) => self.resource.group.split('.').next().unwrap_or_default(),
        }
    }

    /// Whether the storage version of the kind declares the field at a path of keys and indexes,
    /// such as `spec.containers.0.env`.
    pub fn has_path(&self, path: &str) -> bool {
        type_info::TypeInfo::object(self, self.stored().schema.as_deref()).has_path(path)
    }

    /// Whether this is the kind `kind` of the API group `group`.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.kind == kind && &*self.resource.group == group
    }
}

impl FieldErrors {
    /// Returns `Invalid` (422) about the object `name` if there are errors.
    ///
    /// # Errors
    ///
    /// `Invalid` (422) with a cause for each error that was added.
    pub fn into_result(self, kind: &Kind, name: &str) -> Result<(), ApiError> {
        self.into_result_for(&kind.resource.group, &kind.kind, name)
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
    /// The built-in kinds of the newest version with its default feature gates.
    pub fn built_in() -> Self {
        Self::served_with(&FeatureGates::default())
    }

    /// The built-in kinds that are served with the feature gates.
    pub fn served_with(gates: &FeatureGates) -> Self {
        let mut kinds = Self { by_resource: BTreeMap::new(), by_kind: BTreeMap::new(), edition: 0 };
        for kind in builtin_table::built_in(gates) {
            kinds.register(kind);
        }
        kinds
    }

    /// The kind of a resource.
    pub fn get(&self, resource: &Resource) -> Option<&Arc<Kind>> {
        self.by_resource.get(resource)
    }

    /// The kind that the group, version and plural name of a request path name; `None` if that
    /// version is not served.
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let kind = self.get(&Resource::new(group, plural))?;
        kind.version(version).filter(|version| version.served).map(|_| kind)
    }

    /// The kind with a group and a kind name, as in owner references and request bodies.
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.get(self.by_kind.get(&(Arc::from(group), Arc::from(kind)))?)
    }

    /// All kinds, ordered by group and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_resource.values()
    }

    /// A counter that increases with every change of the registry. Caches of derived data
    /// (discovery, OpenAPI) are valid for one edition.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Adds a kind, or replaces the kind of the same resource.
    pub fn register(&mut self, kind: Kind) {
        self.unregister(&kind.resource.clone());
        let key = (Arc::clone(&kind.resource.group), Arc::clone(&kind.kind));
        self.by_kind.insert(key, kind.resource.clone());
        self.by_resource.insert(kind.resource.clone(), Arc::new(kind));
        self.edition += 1;
    }

    /// Removes the kind of a resource.
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
    fn every_built_in_kind_has_a_protobuf_message() {
        for kind in Kinds::built_in().iter() {
            let api_version = kind.api_version(&kind.storage);
            let is_known = schedlab_protobuf::is_known_kind(&api_version, &kind.kind);
            assert!(is_known, "{api_version} {}", kind.kind);
        }
    }

    #[test]
    fn a_kind_has_only_the_paths_that_its_type_declares() {
        let kinds = Kinds::built_in();
        let pod = kinds.by_kind("", "Pod").unwrap();
        for path in ["spec.containers.0.env", "metadata.annotations.a.dev/b.c", "status"] {
            assert!(pod.has_path(path), "{path}");
        }
        for path in ["spec.container.0.env", "spec.containers.0.env.x", "status.phase.0", "stat"] {
            assert!(!pod.has_path(path), "{path}");
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
    fn registering_and_unregistering_change_the_edition() {
        let mut kinds = Kinds::built_in();
        let before = kinds.edition();
        kinds.unregister(&Resource::new("apps", "deployments"));
        assert!(kinds.edition() > before);
        assert!(kinds.by_kind("apps", "Deployment").is_none());
    }
}
