//! GET requests: objects, subresources and lists.

use ::http::StatusCode;

use super::accept::{Encoding, ResponseFormat};
use super::query::PathSelection;
use super::response::{self, ApiResponse};
use super::table::{Table, partial_metadata};
use super::{RequestContext, encode};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::Origin;
use crate::store::{Key, ListPage, Object};
use schedlab_api::{Value, json, object};

impl RequestContext<'_> {
    pub(super) fn selected(&self) -> PathSelection<'_> {
        PathSelection {
            namespace: self.target.namespace.as_deref(),
            name: self.target.name.as_deref(),
        }
    }

    /// The storage key of the object that the path names.
    pub(super) fn key(&self) -> Key {
        let name = self.target.name.as_deref().unwrap_or_default();
        Key::new(
            self.kind.storage_resource(),
            self.target.namespace.as_deref().unwrap_or_default(),
            name,
        )
    }

    /// A stored object in the requested API version.
    pub(super) fn present(&self, stored: &Object) -> Object {
        self.kind.in_version(&self.target.version, stored)
    }

    /// Refuses an invalid `includeObject` of a table.
    pub(super) fn check_table(&self) -> Result<(), ApiError> {
        let include = self.query.get("includeObject").unwrap_or_default();
        let is_known = matches!(include, "" | "None" | "Metadata" | "Object");
        if is_known || !matches!(self.accept.format, ResponseFormat::Table(_)) {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: \
             must be 'Metadata', 'Object', 'None', or empty"
        )))
    }

    pub(super) fn table(&self, version: &'static str) -> Table<'_> {
        let include = self.query.get("includeObject");
        Table::new(version, &self.kind, &self.target.version, include)
    }

    /// The response with an object, in the requested format.
    pub(super) fn object_response(&self, code: StatusCode, stored: &Object) -> ApiResponse {
        let object = self.present(stored);
        let encoding = self.accept.encoding;
        match self.accept.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) if encoding == Encoding::Json => {
                response::raw(code, encoding.content_type(), self.serialized.serialized(&object))
            }
            ResponseFormat::Plain | ResponseFormat::Discovery(_) => {
                response::object(code, encoding, &*object)
            }
            ResponseFormat::PartialMetadata => {
                response::object(code, encoding, &partial_metadata(&object, "v1"))
            }
            ResponseFormat::PartialMetadataList => {
                self.wrong_format("PartialObjectMetadataList", "not a ")
            }
            ResponseFormat::Table(version) => {
                let now = self.store.clock().now();
                let revision = json!({"resourceVersion": object::resource_version(&object)});
                let table = self.table(version).render(std::iter::once(&*object), &revision, now);
                response::object(code, encoding, &table)
            }
        }
    }

    /// The 406 error for an object format requested for a list, or vice versa.
    fn wrong_format(&self, form: &str, is: &str) -> ApiResponse {
        let list = if is == "a " { "List" } else { "" };
        let name = match self.kind.origin {
            Origin::Custom => format!("unstructured.Unstructured{list}"),
            Origin::BuiltIn | Origin::View => {
                format!("{}.{}{list}", self.kind.package(), self.kind.kind)
            }
        };
        let why = format!("you requested {form}, but the requested object is {is}list (*{name})");
        response::error_response(&ApiError::new(406, "NotAcceptable", why))
    }

    /// The requested object, at the requested revision or a later one.
    fn find(&self) -> Result<Object, ApiError> {
        let key = self.key();
        let requested = self.query.get("resourceVersion").unwrap_or_default();
        let current = self.store.revision();
        match requested.parse() {
            _ if requested.is_empty() => {}
            Ok(requested) if requested > current => {
                return Err(ApiError::too_large_revision(requested, current));
            }
            Ok(_) => {}
            Err(_) => {
                let why = format!("strconv.ParseUint: parsing {requested:?}: invalid syntax");
                let what = format!("resourceVersion: Invalid value: {requested:?}: {why}");
                return Err(ApiError::without_reason(what));
            }
        }
        self.store.read(|store| {
            store
                .find(&key)
                .cloned()
                .ok_or_else(|| ApiError::not_found(&self.kind.resource, &key.name))
        })
    }

    pub(super) fn get(&self) -> Result<ApiResponse, ApiError> {
        Ok(self.object_response(StatusCode::OK, &self.find()?))
    }

    pub(super) fn get_subresource(&self, part: &str) -> Result<ApiResponse, ApiError> {
        let version = self.kind.version(&self.target.version);
        match part {
            "status" if version.is_some_and(|version| version.status) => self.get(),
            "scale" if self.kind.stored().scale.is_some() => {
                let scale = self.kind.scale_for_read(&*self.find()?)?;
                Ok(response::object(StatusCode::OK, self.accept.encoding, &scale))
            }
            "log" if self.kind.is("", "Pod") => self.log(),
            "ephemeralcontainers" | "resize" if self.kind.is("", "Pod") => self.get(),
            _ => Err(ApiError::no_such_resource()),
        }
    }

    /// `/log`: empty, since emulated containers write no logs.
    fn log(&self) -> Result<ApiResponse, ApiError> {
        let pod = self.find()?;
        let container = select_container(&pod, self.query.get("container"))?;
        if object::text(&pod, &["spec", "nodeName"]).is_empty() {
            return Ok(response::no_content());
        }
        if object::text(&pod, &["status", "phase"]) == "Pending" {
            let name = object::name(&pod);
            return Err(ApiError::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: ContainerCreating"
            )));
        }
        Ok(response::text(String::new()))
    }

    pub(super) fn list(&self) -> Result<ApiResponse, ApiError> {
        let query = self.query.list(&self.kind, &self.selected())?;
        let listed =
            self.store.read(|store| store.list_page(&self.kind.storage_resource(), &query))?;
        Ok(self.list_response(&listed))
    }

    pub(super) fn list_response(&self, listed: &ListPage) -> ApiResponse {
        let mut metadata = list_metadata(listed);
        if self.kind.origin == Origin::Custom && self.accept.format == ResponseFormat::Plain {
            // kube-apiserver serializes lists of custom objects untyped, with empty fields.
            object::set_default(&mut metadata, &["continue"], "");
        }
        let objects = listed.items.iter().map(|object| self.present(object));
        let encoding = self.accept.encoding;
        let whole = match self.accept.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) if encoding == Encoding::Json => {
                return response::raw(
                    StatusCode::OK,
                    encoding.content_type(),
                    self.serialize_list(&metadata, objects),
                );
            }
            ResponseFormat::Plain | ResponseFormat::Discovery(_) => {
                let items: Vec<Value> = objects.map(|object| self.list_item(&object)).collect();
                json!({
                    "kind": &*self.kind.list_kind,
                    "apiVersion": self.kind.api_version(&self.target.version),
                    "metadata": metadata,
                    "items": items,
                })
            }
            ResponseFormat::PartialMetadata => {
                return self.wrong_format("PartialObjectMetadata", "a ");
            }
            ResponseFormat::PartialMetadataList => {
                let items: Vec<Value> =
                    objects.map(|o| json!(partial_metadata(&o, "v1"))).collect();
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                    "items": items,
                })
            }
            ResponseFormat::Table(version) => {
                let objects: Vec<Object> = objects.collect();
                let now = self.store.clock().now();
                self.table(version).render_list(
                    objects.iter().map(|object| &**object),
                    &metadata,
                    now,
                )
            }
        };
        response::object(StatusCode::OK, encoding, &whole)
    }

    /// An object as an item of a list: without kind and apiVersion for built-in kinds.
    fn list_item(&self, object: &Object) -> Value {
        let mut item = Value::clone(object);
        if self.kind.origin != Origin::Custom {
            object::remove(&mut item, &["kind"]);
            object::remove(&mut item, &["apiVersion"]);
        }
        item
    }

    /// Serializes a list object by object, without building it as a value.
    fn serialize_list(&self, metadata: &Value, objects: impl Iterator<Item = Object>) -> Vec<u8> {
        let head = json!({
            "kind": &*self.kind.list_kind,
            "apiVersion": self.kind.api_version(&self.target.version),
            "metadata": metadata,
        });
        let mut bytes = response::encoded(Encoding::Json, &head);
        bytes.pop();
        bytes.extend_from_slice(b",\"items\":[");
        for (index, object) in objects.enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            if let Value::Object(fields) = &*object {
                // Items of built-in kinds have no kind and apiVersion.
                let has_kind = self.kind.origin == Origin::Custom;
                let is_selected = |name: &str| has_kind || !matches!(name, "kind" | "apiVersion");
                encode::write_fields(&mut bytes, fields, is_selected);
            }
        }
        bytes.extend_from_slice(b"]}");
        bytes
    }
}

fn list_metadata(listed: &ListPage) -> Value {
    let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
    if let Some(token) = &listed.continue_token {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = listed.remaining_items {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// The requested container, or the only one if none is requested.
fn select_container<'p>(pod: &'p Value, requested: Option<&'p str>) -> Result<&'p str, ApiError> {
    let of = |field: &'static str| object::list(pod, &["spec", field]).iter();
    let all = of("initContainers").chain(of("containers")).chain(of("ephemeralContainers"));
    let names: Vec<&str> = all.map(|container| object::text(container, &["name"])).collect();
    let name = object::name(pod);
    match requested.filter(|requested| !requested.is_empty()) {
        Some(requested) if names.contains(&requested) => Ok(requested),
        Some(requested) => {
            Err(ApiError::bad_request(format!("container {requested} is not valid for pod {name}")))
        }
        None if of("containers").len() == 1 => {
            Ok(of("containers").next().map_or("", |only| object::text(only, &["name"])))
        }
        None => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            names.join(" ")
        ))),
    }
}
