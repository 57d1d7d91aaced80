//! GET: objects, their parts, lists.

use ::http::StatusCode;

use super::accept::{Encoding, Shape};
use super::query::Selected;
use super::reply::{self, Reply};
use super::table::{Table, partial_metadata};
use super::{Call, encode};
use crate::error::ApiError;
use crate::kinds::Origin;
use crate::object;
use crate::store::{Key, Listed, Object};
use schedlab_json::{Value, json};

impl Call<'_> {
    pub(super) fn selected(&self) -> Selected<'_> {
        Selected { namespace: self.target.namespace.as_deref(), name: self.target.name.as_deref() }
    }

    /// The place of the object that the path names, where it is stored.
    pub(super) fn key(&self) -> Key {
        let name = self.target.name.as_deref().unwrap_or_default();
        Key::new(self.kind.home(), self.target.namespace.as_deref().unwrap_or_default(), name)
    }

    /// A stored object as the requested version of the kind shows it.
    pub(super) fn present(&self, stored: &Object) -> Object {
        self.kind.present(&self.target.version, stored)
    }

    /// Refuses a table whose rows are to hold what rows do not.
    pub(super) fn check_table(&self) -> Result<(), ApiError> {
        let include = self.query.get("includeObject").unwrap_or_default();
        let is_known = matches!(include, "" | "None" | "Metadata" | "Object");
        if is_known || !matches!(self.accept.shape, Shape::Table(_)) {
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

    /// An object in the form that the client wants.
    pub(super) fn reply_object(&self, code: StatusCode, stored: &Object) -> Reply {
        let object = self.present(stored);
        let encoding = self.accept.encoding;
        match self.accept.shape {
            Shape::Plain | Shape::Discovery(_) if encoding == Encoding::Json => {
                reply::raw(code, encoding.content_type(), self.texts.of(&object))
            }
            Shape::Plain | Shape::Discovery(_) => reply::object(code, encoding, &*object),
            Shape::PartialMetadata => {
                reply::object(code, encoding, &partial_metadata(&object, "v1"))
            }
            Shape::PartialMetadataList => self.not_in_form("PartialObjectMetadataList", "not a "),
            Shape::Table(version) => {
                let now = self.store.clock().now();
                let revision = json!({"resourceVersion": object::resource_version(&object)});
                let table = self.table(version).of(std::iter::once(&*object), &revision, now);
                reply::object(code, encoding, &table)
            }
        }
    }

    /// 406: a form for one object was asked of a list, or the other way round.
    fn not_in_form(&self, form: &str, is: &str) -> Reply {
        let list = if is == "a " { "List" } else { "" };
        let name = match self.kind.origin {
            Origin::Custom => format!("unstructured.Unstructured{list}"),
            Origin::BuiltIn | Origin::View => {
                format!("{}.{}{list}", self.kind.package(), self.kind.kind)
            }
        };
        let why = format!("you requested {form}, but the requested object is {is}list (*{name})");
        reply::refusal(&ApiError::new(406, "NotAcceptable", why))
    }

    /// At the asked revision or any later one.
    fn find(&self) -> Result<Object, ApiError> {
        let key = self.key();
        let asked = self.query.get("resourceVersion").unwrap_or_default();
        let current = self.store.revision();
        match asked.parse() {
            _ if asked.is_empty() => {}
            Ok(asked) if asked > current => {
                return Err(ApiError::too_large_revision(asked, current));
            }
            Ok(_) => {}
            Err(_) => {
                let why = format!("strconv.ParseUint: parsing {asked:?}: invalid syntax");
                let what = format!("resourceVersion: Invalid value: {asked:?}: {why}");
                return Err(ApiError::unforeseen(what));
            }
        }
        self.store.read(|store| {
            store
                .find(&key)
                .cloned()
                .ok_or_else(|| ApiError::not_found(&self.kind.resource, &key.name))
        })
    }

    pub(super) fn get(&self) -> Result<Reply, ApiError> {
        Ok(self.reply_object(StatusCode::OK, &self.find()?))
    }

    pub(super) fn get_part(&self, part: &str) -> Result<Reply, ApiError> {
        let version = self.kind.version(&self.target.version);
        match part {
            "status" if version.is_some_and(|version| version.status) => self.get(),
            "scale" if self.kind.stored().scale.is_some() => {
                let scale = self.kind.scale_to_read(&*self.find()?)?;
                Ok(reply::object(StatusCode::OK, self.accept.encoding, &scale))
            }
            "log" if self.kind.is("", "Pod") => self.log(),
            "ephemeralcontainers" | "resize" if self.kind.is("", "Pod") => self.get(),
            _ => Err(ApiError::no_such_resource()),
        }
    }

    /// Emulated containers write nothing. Of a pod that is on no node there is nothing to ask.
    fn log(&self) -> Result<Reply, ApiError> {
        let pod = self.find()?;
        let container = container_of(&pod, self.query.get("container"))?;
        if object::text(&pod, &["spec", "nodeName"]).is_empty() {
            return Ok(reply::empty());
        }
        if object::text(&pod, &["status", "phase"]) == "Pending" {
            let name = object::name(&pod);
            return Err(ApiError::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: ContainerCreating"
            )));
        }
        Ok(reply::text(String::new()))
    }

    pub(super) fn list(&self) -> Result<Reply, ApiError> {
        let query = self.query.list(&self.kind, &self.selected())?;
        let listed = self.store.read(|store| store.list_page(&self.kind.home(), &query))?;
        Ok(self.reply_list(&listed))
    }

    pub(super) fn reply_list(&self, listed: &Listed) -> Reply {
        let mut metadata = list_metadata(listed);
        if self.kind.origin == Origin::Custom && self.accept.shape == Shape::Plain {
            // Written from untyped objects, which leave nothing out.
            object::set_default(&mut metadata, &["continue"], "");
        }
        let objects = listed.items.iter().map(|object| self.present(object));
        let encoding = self.accept.encoding;
        let whole = match self.accept.shape {
            Shape::Plain | Shape::Discovery(_) if encoding == Encoding::Json => {
                return reply::raw(
                    StatusCode::OK,
                    encoding.content_type(),
                    self.written_list(&metadata, objects),
                );
            }
            Shape::Plain | Shape::Discovery(_) => {
                let items: Vec<Value> = objects.map(|object| self.item(&object)).collect();
                json!({
                    "kind": &*self.kind.list_kind,
                    "apiVersion": self.kind.api_version(&self.target.version),
                    "metadata": metadata,
                    "items": items,
                })
            }
            Shape::PartialMetadata => return self.not_in_form("PartialObjectMetadata", "a "),
            Shape::PartialMetadataList => {
                let items: Vec<Value> =
                    objects.map(|o| json!(partial_metadata(&o, "v1"))).collect();
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                    "items": items,
                })
            }
            Shape::Table(version) => {
                let objects: Vec<Object> = objects.collect();
                let now = self.store.clock().now();
                self.table(version).of(objects.iter().map(|object| &**object), &metadata, now)
            }
        };
        reply::object(StatusCode::OK, encoding, &whole)
    }

    /// An object as lists have it: built-in kinds say what they are once, at the top.
    fn item(&self, object: &Object) -> Value {
        let mut item = Value::clone(object);
        if self.kind.origin != Origin::Custom {
            object::remove(&mut item, &["kind"]);
            object::remove(&mut item, &["apiVersion"]);
        }
        item
    }

    /// A list written object by object, without a tree of the whole.
    fn written_list(&self, metadata: &Value, objects: impl Iterator<Item = Object>) -> Vec<u8> {
        let head = json!({
            "kind": &*self.kind.list_kind,
            "apiVersion": self.kind.api_version(&self.target.version),
            "metadata": metadata,
        });
        let mut written = reply::encoded(Encoding::Json, &head);
        written.pop();
        written.extend_from_slice(b",\"items\":[");
        for (index, object) in objects.enumerate() {
            if index > 0 {
                written.push(b',');
            }
            if let Value::Object(fields) = &*object {
                // Built-in kinds say what they are once, at the top.
                let says_kind = self.kind.origin == Origin::Custom;
                let is_wanted = |name: &str| says_kind || !matches!(name, "kind" | "apiVersion");
                encode::fields(&mut written, fields, is_wanted);
            }
        }
        written.extend_from_slice(b"]}");
        written
    }
}

fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": listed.revision.to_string()});
    if let Some(token) = &listed.token {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// The container that is meant; without a word about it the only one.
fn container_of<'p>(pod: &'p Value, asked: Option<&'p str>) -> Result<&'p str, ApiError> {
    let of = |field: &'static str| object::list(pod, &["spec", field]).iter();
    let all = of("initContainers").chain(of("containers")).chain(of("ephemeralContainers"));
    let names: Vec<&str> = all.map(|container| object::text(container, &["name"])).collect();
    let name = object::name(pod);
    match asked.filter(|asked| !asked.is_empty()) {
        Some(asked) if names.contains(&asked) => Ok(asked),
        Some(asked) => {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
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
