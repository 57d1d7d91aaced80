//! Whether a webhook applies to a request: its selectors, rules and match conditions, in this
//! order.

use std::sync::Arc;

use super::{AdmissionAttributes, conditions};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Kind, Origin};
use crate::api_types::label_selector::LabelSelector;
use crate::api_types::resource::Resource;
use crate::store::{Key, Store, Webhook};
use schedlab_api::{
    Value, json,
    object::{list, set, text},
};

/// A kind in one of its versions.
struct VersionedKind {
    kind: Arc<Kind>,
    version: String,
}

impl PartialEq for VersionedKind {
    fn eq(&self, other: &Self) -> bool {
        self.kind.resource == other.kind.resource && self.version == other.version
    }
}

impl AdmissionAttributes<'_> {
    /// The `request` of the webhook's `AdmissionReview`, without a uid; `None` if the webhook does
    /// not apply.
    ///
    /// # Errors
    ///
    /// The match conditions cannot be evaluated and the failure policy is `Fail`.
    pub(crate) fn review_request_for(
        &self,
        store: &Store,
        webhook: &Webhook,
    ) -> Result<Option<Value>, ApiError> {
        if !self.matches_namespace_selector(store, &webhook.spec)?
            || !self.matches_object_selector(&webhook.spec)?
        {
            return Ok(None);
        }
        let Some(face) =
            self.equivalent_kinds(store).into_iter().find(|face| self.matches_rules(face, webhook))
        else {
            return Ok(None);
        };
        let request = self.review_request(&face);
        match conditions::do_all_conditions_hold(&webhook.spec, &request) {
            Ok(hold) => Ok(hold.then_some(request)),
            Err(_) if webhook.spec["failurePolicy"] == "Ignore" => Ok(None),
            Err(why) => Err(ApiError::forbidden(&self.kind.resource, self.name, &why)),
        }
    }

    /// Evaluates `namespaceSelector`. A namespace is matched by its own labels; other
    /// cluster-scoped objects always match.
    fn matches_namespace_selector(&self, store: &Store, spec: &Value) -> Result<bool, ApiError> {
        let selector = &spec["namespaceSelector"];
        let is_namespace = self.kind.is("", "Namespace");
        if selector.as_object().is_none_or(schedlab_api::Map::is_empty)
            || (self.namespace.is_empty() && !is_namespace)
        {
            return Ok(true);
        }
        let selector = LabelSelector::from_object(selector)?;
        if is_namespace && let Some(object) = self.object {
            return Ok(selector.matches(object));
        }
        let name = if is_namespace { self.name } else { self.namespace };
        let namespace = store.find(&Key::new(Resource::new("", "namespaces"), "", name));
        Ok(namespace.is_some_and(|namespace| selector.matches(namespace)))
    }

    /// Evaluates `objectSelector` on the old and the new object.
    fn matches_object_selector(&self, spec: &Value) -> Result<bool, ApiError> {
        let selector = &spec["objectSelector"];
        if selector.as_object().is_none_or(schedlab_api::Map::is_empty) {
            return Ok(true);
        }
        let selector = LabelSelector::from_object(selector)?;
        Ok([self.object, self.old].into_iter().flatten().any(|object| selector.matches(object)))
    }

    /// The kind and version of the request, then all other kinds and versions of the same objects.
    fn equivalent_kinds(&self, store: &Store) -> Vec<VersionedKind> {
        let requested = VersionedKind {
            kind: Arc::new(self.kind.clone()),
            version: self.context.version.clone(),
        };
        let mut faces = vec![requested];
        let events = Resource::new("events.k8s.io", "events");
        let is_twin = self.kind.storage_resource() == Resource::new("", "events");
        let twins = [self.kind.storage_resource(), events].into_iter().filter(|_| is_twin);
        let kinds = twins.chain([self.kind.resource.clone()]);
        let kinds = kinds.filter_map(|resource| store.kinds().get(&resource));
        let others = kinds.flat_map(|kind| {
            let served = kind.versions.iter().filter(|version| version.served);
            served.map(|version| VersionedKind {
                kind: Arc::clone(kind),
                version: version.name.to_string(),
            })
        });
        for other in others {
            if !faces.contains(&other) {
                faces.push(other);
            }
        }
        faces
    }

    fn matches_rules(&self, versioned_kind: &VersionedKind, webhook: &Webhook) -> bool {
        let is_asked = versioned_kind.kind.resource == self.kind.resource
            && versioned_kind.version == self.context.version;
        let policy = text(&webhook.spec, &["matchPolicy"]);
        if !is_asked && policy == "Exact" {
            return false;
        }
        list(&webhook.spec, &["rules"]).iter().any(|rule| self.matches_rule(versioned_kind, rule))
    }

    fn matches_rule(&self, versioned_kind: &VersionedKind, rule: &Value) -> bool {
        let names = |field: &str, expected: &str| {
            let named = list(rule, &[field]).iter().filter_map(Value::as_str);
            named.into_iter().any(|name| name == "*" || name == expected)
        };
        let is_cluster_wide = self.kind.is("", "Namespace") || self.namespace.is_empty();
        let in_scope = match text(rule, &["scope"]) {
            "Namespaced" => !is_cluster_wide,
            "Cluster" => is_cluster_wide,
            _ => true,
        };
        // Only rules of admission policies name objects.
        let named = list(rule, &["resourceNames"]);
        in_scope
            && (named.is_empty() || named.iter().any(|name| name == self.name))
            && names("operations", self.operation)
            && names("apiGroups", &versioned_kind.kind.resource.group)
            && names("apiVersions", &versioned_kind.version)
            && list(rule, &["resources"]).iter().filter_map(Value::as_str).any(|resource| {
                let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
                let matches = |name: &str, expected: &str| name == "*" || name == expected;
                matches(plural, &versioned_kind.kind.resource.plural)
                    && matches(part, &self.context.subresource)
            })
    }

    fn review_request(&self, versioned_kind: &VersionedKind) -> Value {
        let resource = |versioned_kind: &VersionedKind| {
            json!({
                "group": &*versioned_kind.kind.resource.group,
                "version": versioned_kind.version,
                "resource": &*versioned_kind.kind.resource.plural,
            })
        };
        let kind = |versioned_kind: &VersionedKind| {
            if let Some((version, kind)) = self.body_kind {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                json!({"group": group, "version": version, "kind": kind})
            } else {
                json!({
                    "group": &*versioned_kind.kind.resource.group,
                    "version": versioned_kind.version,
                    "kind": &*versioned_kind.kind.kind,
                })
            }
        };
        let requested = VersionedKind {
            kind: Arc::new(self.kind.clone()),
            version: self.context.version.clone(),
        };
        let mut request = json!({
            "kind": kind(versioned_kind),
            "resource": resource(versioned_kind),
            "requestKind": kind(&requested),
            "requestResource": resource(&requested),
            "operation": self.operation,
            "userInfo": self.context.user,
            "object": self.object_in_version(versioned_kind, self.object),
            "oldObject": self.object_in_version(versioned_kind, self.old),
            "dryRun": self.dry_run,
            "options": self.context.options,
        });
        let kind = self.options_kind();
        set(&mut request, &["options", "kind"], kind.into());
        set(&mut request, &["options", "apiVersion"], "meta.k8s.io/v1".into());
        let part = self.context.subresource.as_str();
        let namespace = if self.kind.is("", "Namespace") { self.name } else { self.namespace };
        let texts = [
            ("subResource", part),
            ("requestSubResource", part),
            ("name", self.name),
            ("namespace", namespace),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[field] = text.into();
        }
        request
    }

    fn options_kind(&self) -> &'static str {
        match self.operation {
            "CREATE" => "CreateOptions",
            "DELETE" => "DeleteOptions",
            _ => "UpdateOptions",
        }
    }

    fn object_in_version(&self, versioned_kind: &VersionedKind, object: Option<&Value>) -> Value {
        let Some(object) = object else { return Value::Null };
        if self.body_kind.is_some()
            || versioned_kind.kind.origin == Origin::BuiltIn
                && versioned_kind.kind.versions.len() == 1
        {
            return object.clone();
        }
        Value::clone(
            &versioned_kind.kind.in_version(&versioned_kind.version, &Arc::new(object.clone())),
        )
    }
}
