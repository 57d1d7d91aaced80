//! What identifies objects: [`Resource`] a collection, [`Key`] one object.

use std::fmt;
use std::sync::Arc;

use schedlab_api::Value;

/// A resource: API group and plural name, in any version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural name, as in paths.
    pub plural: Arc<str>,
}

impl Resource {
    /// Creates a resource: `Resource::new("apps", "deployments")`.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Whether this is the resource `plural` of the API group `group`.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        &*self.plural == plural && &*self.group == group
    }
}

impl fmt::Display for Resource {
    /// Formats the resource as in API messages: `pods`, `deployments.apps`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            return formatter.write_str(&self.plural);
        }
        write!(formatter, "{}.{}", self.plural, self.group)
    }
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The resource of the object.
    pub resource: Resource,
    /// The namespace of the object; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name of the object; empty if it will be generated from `generateName`.
    pub name: Arc<str>,
}

impl Key {
    /// Creates a key: `Key::new(resource, "default", "web-0")`. The namespace is empty for
    /// cluster-scoped kinds.
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }
}

/// An object as JSON in its kind's storage version, shared rather than copied.
pub type Object = Arc<Value>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_displayed_as_in_api_messages() {
        assert_eq!(Resource::new("", "pods").to_string(), "pods");
        assert_eq!(Resource::new("apps", "deployments").to_string(), "deployments.apps");
    }
}
