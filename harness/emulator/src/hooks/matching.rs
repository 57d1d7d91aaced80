//! Is a webhook asked about a request? Its selectors, rules and conditions say so, in this order.

use std::sync::Arc;

use super::{Asked, conditions};
use crate::error::ApiError;
use crate::kinds::{Kind, Origin, Resource};
use crate::object::{list, set, text};
use crate::select::LabelSelector;
use crate::store::{Key, Store, Webhook};
use schedlab_json::{Value, json};

/// A kind in one of its versions, as which a webhook wants to see an object.
struct Face {
    kind: Arc<Kind>,
    version: String,
}

impl PartialEq for Face {
    fn eq(&self, other: &Self) -> bool {
        self.kind.resource == other.kind.resource && self.version == other.version
    }
}

impl Asked<'_> {
    /// What the webhook is told (`request` of its review, without a uid), if it is asked at all.
    ///
    /// # Errors
    /// Its conditions cannot be evaluated, and it fails closed.
    pub(crate) fn request(
        &self,
        store: &Store,
        webhook: &Webhook,
    ) -> Result<Option<Value>, ApiError> {
        if !self.is_in_namespace(store, &webhook.spec)? || !self.is_selected(&webhook.spec)? {
            return Ok(None);
        }
        let Some(face) = self.faces(store).into_iter().find(|face| self.rules_name(face, webhook))
        else {
            return Ok(None);
        };
        let request = self.told(&face);
        match conditions::hold(&webhook.spec, &request) {
            Ok(hold) => Ok(hold.then_some(request)),
            Err(_) if webhook.spec["failurePolicy"] == "Ignore" => Ok(None),
            Err(why) => Err(ApiError::forbidden(&self.kind.resource, self.name, &why)),
        }
    }

    /// Namespaces are asked about by their own labels, what has no namespace always.
    fn is_in_namespace(&self, store: &Store, spec: &Value) -> Result<bool, ApiError> {
        let selector = &spec["namespaceSelector"];
        let is_namespace = self.kind.is("", "Namespace");
        if selector.as_object().is_none_or(schedlab_json::Map::is_empty)
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

    /// By the labels that the object has or had.
    fn is_selected(&self, spec: &Value) -> Result<bool, ApiError> {
        let selector = &spec["objectSelector"];
        if selector.as_object().is_none_or(schedlab_json::Map::is_empty) {
            return Ok(true);
        }
        let selector = LabelSelector::from_object(selector)?;
        Ok([self.object, self.old].into_iter().flatten().any(|object| selector.matches(object)))
    }

    /// As it was asked for, then every other face of the same objects.
    fn faces(&self, store: &Store) -> Vec<Face> {
        let asked =
            Face { kind: Arc::new(self.kind.clone()), version: self.consultation.version.clone() };
        let mut faces = vec![asked];
        let events = Resource::new("events.k8s.io", "events");
        let is_twin = self.kind.home() == Resource::new("", "events");
        let twins = [self.kind.home(), events].into_iter().filter(|_| is_twin);
        let kinds = twins.chain([self.kind.resource.clone()]);
        let kinds = kinds.filter_map(|resource| store.kinds().get(&resource));
        let others = kinds.flat_map(|kind| {
            let served = kind.versions.iter().filter(|version| version.served);
            served.map(|version| Face { kind: Arc::clone(kind), version: version.name.to_string() })
        });
        for other in others {
            if !faces.contains(&other) {
                faces.push(other);
            }
        }
        faces
    }

    fn rules_name(&self, face: &Face, webhook: &Webhook) -> bool {
        let is_asked =
            face.kind.resource == self.kind.resource && face.version == self.consultation.version;
        let policy = text(&webhook.spec, &["matchPolicy"]);
        if !is_asked && policy == "Exact" {
            return false;
        }
        list(&webhook.spec, &["rules"]).iter().any(|rule| self.rule_names(face, rule))
    }

    fn rule_names(&self, face: &Face, rule: &Value) -> bool {
        let names = |field: &str, wanted: &str| {
            let named = list(rule, &[field]).iter().filter_map(Value::as_str);
            named.into_iter().any(|name| name == "*" || name == wanted)
        };
        let is_cluster_wide = self.kind.is("", "Namespace") || self.namespace.is_empty();
        let in_scope = match text(rule, &["scope"]) {
            "Namespaced" => !is_cluster_wide,
            "Cluster" => is_cluster_wide,
            _ => true,
        };
        in_scope
            && names("operations", self.operation)
            && names("apiGroups", &face.kind.resource.group)
            && names("apiVersions", &face.version)
            && list(rule, &["resources"]).iter().filter_map(Value::as_str).any(|resource| {
                let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
                let matches = |name: &str, wanted: &str| name == "*" || name == wanted;
                matches(plural, &face.kind.resource.plural)
                    && matches(part, &self.consultation.subresource)
            })
    }

    fn told(&self, face: &Face) -> Value {
        let resource = |face: &Face| {
            json!({
                "group": &*face.kind.resource.group,
                "version": face.version,
                "resource": &*face.kind.resource.plural,
            })
        };
        let kind = |face: &Face| {
            if let Some((version, kind)) = self.part {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                json!({"group": group, "version": version, "kind": kind})
            } else {
                json!({
                    "group": &*face.kind.resource.group,
                    "version": face.version,
                    "kind": &*face.kind.kind,
                })
            }
        };
        let asked =
            Face { kind: Arc::new(self.kind.clone()), version: self.consultation.version.clone() };
        let mut request = json!({
            "kind": kind(face),
            "resource": resource(face),
            "requestKind": kind(&asked),
            "requestResource": resource(&asked),
            "operation": self.operation,
            "userInfo": self.consultation.user,
            "object": self.shown(face, self.object),
            "oldObject": self.shown(face, self.old),
            "dryRun": self.dry_run,
            "options": self.consultation.options,
        });
        let kind = self.options_kind();
        set(&mut request, &["options", "kind"], kind.into());
        set(&mut request, &["options", "apiVersion"], "meta.k8s.io/v1".into());
        let part = self.consultation.subresource.as_str();
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

    fn shown(&self, face: &Face, object: Option<&Value>) -> Value {
        let Some(object) = object else { return Value::Null };
        if self.part.is_some()
            || face.kind.origin == Origin::BuiltIn && face.kind.versions.len() == 1
        {
            return object.clone();
        }
        Value::clone(&face.kind.present(&face.version, &Arc::new(object.clone())))
    }
}
