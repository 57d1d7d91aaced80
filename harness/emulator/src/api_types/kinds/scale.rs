//! The `/scale` subresource: desired and observed replicas of any kind.

use std::sync::Arc;

use super::{Kind, Origin, Path};
use crate::api_types::error::ApiError;
use crate::api_types::label_selector::LabelSelector;
use schedlab_api::{Value, json, object};

/// Where `/scale` reads and writes its values in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The path of the desired number of replicas.
    pub spec_replicas: Path,
    /// The path of the observed number of replicas.
    pub status_replicas: Path,
    /// The path of the selector: a string, or a label selector, which `/scale` shows as a string.
    pub selector: Option<Path>,
}

impl Kind {
    /// The `autoscaling/v1` `Scale` of a stored object; `None` if the kind has no `/scale`. As in
    /// Go, `spec.replicas` is left out if it is 0.
    pub fn scale_of(&self, stored: &Value) -> Option<Value> {
        let scale = self.stored().scale.as_ref()?;
        let desired =
            value_at_path(stored, &scale.spec_replicas).and_then(Value::as_i64).unwrap_or(0);
        let observed =
            value_at_path(stored, &scale.status_replicas).and_then(Value::as_i64).unwrap_or(0);
        let mut view = json!({
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {
                "name": object::name(stored),
                "namespace": object::namespace(stored),
                "uid": object::uid(stored),
                "resourceVersion": object::resource_version(stored),
                "creationTimestamp": stored["metadata"]["creationTimestamp"],
            },
            "spec": {},
            "status": {"replicas": observed},
        });
        if desired != 0 {
            object::set(&mut view, &["spec", "replicas"], desired.into());
        }
        let selector = scale.selector.as_ref().and_then(|path| value_at_path(stored, path));
        let selector = selector.and_then(|selector| self.selector_text(selector));
        if let Some(text) = selector {
            object::set(&mut view, &["status", "selector"], text.into());
        }
        Some(view)
    }

    /// Like [`Kind::scale_of`], for GET requests: a custom resource without `spec.replicas` is an
    /// error.
    pub(crate) fn scale_for_read(&self, stored: &Value) -> Result<Value, ApiError> {
        let scale = self.stored().scale.as_ref().ok_or_else(ApiError::no_such_resource)?;
        let path = &scale.spec_replicas;
        if self.origin == Origin::Custom && value_at_path(stored, path).is_none() {
            let why = format!("the spec replicas field \".{}\" does not exist", path.join("."));
            return Err(ApiError::internal(why));
        }
        self.scale_of(stored).ok_or_else(ApiError::no_such_resource)
    }

    fn selector_text(&self, selector: &Value) -> Option<String> {
        if let Some(text) = selector.as_str() {
            return Some(text.to_owned());
        }
        if self.is("", "ReplicationController") {
            return Some(LabelSelector::from_map(selector).to_string());
        }
        LabelSelector::from_object(selector).ok().map(|selector| selector.to_string())
    }
}

fn value_at_path<'v>(value: &'v Value, path: &[Arc<str>]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, field| value.get(&**field))
}
