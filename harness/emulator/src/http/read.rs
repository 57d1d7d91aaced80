//! GET requests: objects, subresources and lists.

use ::http::StatusCode;

use super::accept::{Encoding, ResponseFormat};
use super::query::PathSelection;
use super::response::{self, ApiResponse};
use super::table::{Table, partial_metadata};
use super::{RequestContext, json_writer};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::Origin;
use crate::store::{Key, ListPage, Object};
use schedlab_api::{Value, json, object};

impl RequestContext<'_> {
    pub(super) fn path_selection(&self) -> PathSelection<'_> {
        PathSelection {
            namespace: self.target.namespace.as_deref(),
            name: self.target.name.as_deref(),
        }
    }

    /// The storage key of the object that the path names.
    pub(super) fn object_key(&self) -> Key {
        let name = self.target.name.as_deref().unwrap_or_default();
        Key::new(
            self.kind.storage_resource(),
            self.target.namespace.as_deref().unwrap_or_default(),
            name,
        )
    }

    /// Converts a stored object to the requested API version.
    pub(super) fn in_requested_version(&self, stored: &Object) -> Object {
        self.kind.in_version(&self.target.version, stored)
    }

    /// Refuses an invalid `includeObject` parameter of a table request.
    pub(super) fn check_table_options(&self) -> Result<(), ApiError> {
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

    /// The response that shows an object in the requested format.
    pub(super) fn object_response(&self, code: StatusCode, stored: &Object) -> ApiResponse {
        let object = self.in_requested_version(stored);
        let encoding = self.accept.encoding;
        match self.accept.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) if encoding == Encoding::Json => {
                response::raw_response(
                    code,
                    encoding.content_type(),
                    self.serialized.json_text(&object),
                )
            }
            ResponseFormat::Plain | ResponseFormat::Discovery(_) => {
                response::object_response(code, encoding, &*object)
            }
            ResponseFormat::PartialMetadata => {
                response::object_response(code, encoding, &partial_metadata(&object, "v1"))
            }
            ResponseFormat::PartialMetadataList => {
                self.wrong_format_response("PartialObjectMetadataList", "not a ")
            }
            ResponseFormat::Table(version) => {
                let now = self.store.clock().now();
                let revision = json!({"resourceVersion": object::resource_version(&object)});
                let table = self.table(version).render(std::iter::once(&*object), &revision, now);
                response::object_response(code, encoding, &table)
            }
        }
    }

    /// The 406 response if the format of an object is requested for a list, or vice versa.
    fn wrong_format_response(&self, requested_format: &str, article: &str) -> ApiResponse {
        let list = if article == "a " { "List" } else { "" };
        let name = match self.kind.origin {
            Origin::Custom => format!("unstructured.Unstructured{list}"),
            Origin::BuiltIn | Origin::View => {
                format!("{}.{}{list}", self.kind.package(), self.kind.kind)
            }
        };
        let why = format!(
            "you requested {requested_format}, but the requested object is {article}list (*{name})"
        );
        response::error_response(&ApiError::new(406, "NotAcceptable", why))
    }

    /// The requested object, at the requested revision or a later one.
    fn find_object(&self) -> Result<Object, ApiError> {
        let key = self.object_key();
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
        Ok(self.object_response(StatusCode::OK, &self.find_object()?))
    }

    pub(super) fn get_subresource(&self, subresource: &str) -> Result<ApiResponse, ApiError> {
        let version = self.kind.version(&self.target.version);
        match subresource {
            "status" if version.is_some_and(|version| version.status) => self.get(),
            "scale" if self.kind.stored().scale.is_some() => {
                let scale = self.kind.scale_for_read(&*self.find_object()?)?;
                Ok(response::object_response(StatusCode::OK, self.accept.encoding, &scale))
            }
            "log" if self.kind.is("", "Pod") => self.log_response(),
            "ephemeralcontainers" | "resize" if self.kind.is("", "Pod") => self.get(),
            _ => Err(ApiError::no_such_resource()),
        }
    }

    /// The response to `/log` of a pod: empty, since emulated containers write no logs.
    fn log_response(&self) -> Result<ApiResponse, ApiError> {
        let pod = self.find_object()?;
        let container = select_container(&pod, self.query.get("container"))?;
        if object::text(&pod, &["spec", "nodeName"]).is_empty() {
            return Ok(response::no_content_response());
        }
        if object::text(&pod, &["status", "phase"]) == "Pending" {
            let name = object::name(&pod);
            return Err(ApiError::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: ContainerCreating"
            )));
        }
        Ok(response::text_response(String::new()))
    }

    pub(super) fn list(&self) -> Result<ApiResponse, ApiError> {
        let query = self.query.list_query(&self.kind, &self.path_selection())?;
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
        let objects = listed.items.iter().map(|object| self.in_requested_version(object));
        let encoding = self.accept.encoding;
        let whole = match self.accept.format {
            ResponseFormat::Plain | ResponseFormat::Discovery(_) if encoding == Encoding::Json => {
                return response::raw_response(
                    StatusCode::OK,
                    encoding.content_type(),
                    self.list_json(&metadata, objects),
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
                return self.wrong_format_response("PartialObjectMetadata", "a ");
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
        response::object_response(StatusCode::OK, encoding, &whole)
    }

    /// An object as an item of a list. As in Kubernetes, items of built-in kinds have no kind and
    /// apiVersion.
    fn list_item(&self, object: &Object) -> Value {
        let mut item = Value::clone(object);
        if self.kind.origin != Origin::Custom {
            object::remove(&mut item, &["kind"]);
            object::remove(&mut item, &["apiVersion"]);
        }
        item
    }

    /// Serializes a list object by object, without building it as a value.
    fn list_json(&self, metadata: &Value, objects: impl Iterator<Item = Object>) -> Vec<u8> {
        let head = json!({
            "kind": &*self.kind.list_kind,
            "apiVersion": self.kind.api_version(&self.target.version),
            "metadata": metadata,
        });
        let mut bytes = response::encode_value(Encoding::Json, &head);
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
                json_writer::write_selected_fields(&mut bytes, fields, is_selected);
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

/// The name of the requested container, or of the only container if none is requested.
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
