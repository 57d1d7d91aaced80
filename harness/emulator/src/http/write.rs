//! POST, PUT, PATCH and DELETE: turns requests into writes of the store.

use ::http::StatusCode;
use ::http::header::USER_AGENT;

use super::RequestContext;
use super::decode::{self, WithDuplicates};
use super::query::{invalid_options, parse_dry_run, parse_propagation};
use super::response::{self, ApiResponse};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::Origin;
use crate::store::{
    DeleteOptions, DuplicateFields, FieldValidation, ListPage, Op, PatchBody, Preconditions,
    Propagation, RuleEvaluation, Subresource, Write, WriteOutcome,
};
use schedlab_api::{Value, json, object};

/// The maximum length of a field manager's name; the name from a User-Agent is truncated.
const MANAGER_BYTES_MAX: usize = 128;

impl RequestContext<'_> {
    pub(super) async fn create(&self) -> Result<ApiResponse, ApiError> {
        let (body, duplicates) = self.object_body()?;
        let mut write = self.write(Op::Create(Value::Null))?;
        write.key.name = object::name(&body).into();
        write.op = Op::Create(body);
        write.duplicate_fields = duplicates;
        let written = self.execute(write).await?;
        Ok(self.write_response(StatusCode::CREATED, &written))
    }

    /// Decodes the object to write. A custom object must name its kind.
    fn object_body(&self) -> Result<WithDuplicates<Value>, ApiError> {
        let (mut body, duplicates) =
            decode::decode_object(self.headers, self.body, &self.kind.kind)?;
        if body.is_null() && self.kind.origin != Origin::Custom {
            body = json!({});
        }
        if self.kind.origin == Origin::Custom && object::text(&body, &["kind"]).is_empty() {
            let why = format!("Object 'Kind' is missing in '{body}'");
            return Err(decode::unrecognized_object(self.body, &self.kind.kind, &why));
        }
        Ok((self.with_version_of_path(body), duplicates))
    }

    /// Sets the apiVersion of the path in a body without one.
    fn with_version_of_path(&self, mut body: Value) -> Value {
        let is_open = self.kind.origin == Origin::BuiltIn && self.kind.versions.len() > 1;
        if is_open && body.is_object() {
            let version = self.kind.api_version(&self.target.version);
            object::set_default(&mut body, &["apiVersion"], version);
        }
        body
    }

    /// POST to `bindings`: the body names the pod.
    pub(super) async fn create_binding(&self) -> Result<ApiResponse, ApiError> {
        let body = decode::object(self.headers, self.body, "Binding")?;
        let mut write = self.write(Op::Bind(Value::Null))?;
        write.key.name = object::name(&body).into();
        write.op = Op::Bind(body);
        self.execute(write).await?;
        Ok(response::object(StatusCode::CREATED, self.accept.encoding, &created_status()))
    }

    pub(super) async fn create_subresource(&self, part: &str) -> Result<ApiResponse, ApiError> {
        let body = |kind: &str| decode::object(self.headers, self.body, kind);
        let op = match part {
            "binding" if self.kind.is("", "Pod") => Op::Bind(body("Binding")?),
            "eviction" if self.kind.is("", "Pod") => Op::Evict(body("Eviction")?),
            _ => return Err(ApiError::no_such_resource()),
        };
        let written = self.execute(self.write(op)?).await?;
        let mut response =
            response::object(StatusCode::CREATED, self.accept.encoding, &created_status());
        response::warn(&mut response, &written.warnings);
        Ok(response)
    }

    pub(super) async fn update(&self, part: Option<&str>) -> Result<ApiResponse, ApiError> {
        let part = self.subresource(part)?;
        let (body, duplicates) = match part {
            Subresource::Scale => decode::decode_object(self.headers, self.body, "Scale")?,
            Subresource::None
            | Subresource::Status
            | Subresource::Finalize
            | Subresource::Resize
            | Subresource::EphemeralContainers => self.object_body()?,
        };
        let write = Write { duplicate_fields: duplicates, ..self.write(Op::Update(part, body))? };
        let written = self.execute(write).await?;
        Ok(self.subresource_response(part, &written))
    }

    pub(super) async fn patch(&self, part: Option<&str>) -> Result<ApiResponse, ApiError> {
        let part = self.subresource(part)?;
        let is_custom = self.kind.origin == Origin::Custom;
        let force = self.query.is_enabled("force");
        let (mut patch, duplicates) = decode::patch(self.headers, self.body, force, is_custom)?;
        if let PatchBody::Merge(changes) | PatchBody::Strategic(changes) = &mut patch {
            self.kind.merge_to_stored(&self.target.version, changes);
        }
        self.check_patch_options(&patch)?;
        let is_apply = matches!(patch, PatchBody::Apply { .. });
        let write = Write { duplicate_fields: duplicates, ..self.write(Op::Patch(part, patch))? };
        let is_strict = write.field_validation == FieldValidation::Strict;
        if is_apply && is_strict && !write.duplicate_fields.strict_error.is_empty() {
            let start = "error strict decoding patch: error converting YAML to JSON";
            let why = format!("{start}: {}", write.duplicate_fields.strict_error);
            return Err(ApiError::bad_request(why));
        }
        let written = self.execute(write).await?;
        Ok(self.subresource_response(part, &written))
    }

    fn check_patch_options(&self, patch: &PatchBody) -> Result<(), ApiError> {
        let invalid = |field, reason, message: &str| {
            Err(invalid_options("PatchOptions", field, reason, message.to_owned()))
        };
        match patch {
            PatchBody::Apply { .. } => {
                if self.query.get("fieldManager").is_none_or(str::is_empty) {
                    let message = "Required value: is required for apply patch";
                    return invalid("fieldManager", "FieldValueRequired", message);
                }
            }
            PatchBody::Json(_) | PatchBody::Merge(_) | PatchBody::Strategic(_) => {
                if self.query.get("force").is_some() {
                    let message = "Forbidden: may not be specified for non-apply patch";
                    return invalid("force", "FieldValueForbidden", message);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn delete(&self) -> Result<ApiResponse, ApiError> {
        let (write, is_cascading) = self.parse_delete()?;
        let written = self.execute(write).await?;
        let code =
            if is_cascading && !written.deleted { StatusCode::ACCEPTED } else { StatusCode::OK };
        if !written.deleted || self.returns_deleted_object() {
            return Ok(self.write_response(code, &written));
        }
        let group = &*self.kind.resource.group;
        let mut details = json!({
            "name": object::name(&written.object),
            "kind": &*self.kind.resource.plural,
            "uid": object::uid(&written.object),
        });
        if !group.is_empty() {
            details["group"] = json!(group);
        }
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        });
        Ok(response::object(code, self.accept.encoding, &status))
    }

    /// Whether the response to a deletion is the object instead of a `Status`.
    fn returns_deleted_object(&self) -> bool {
        let shown = [
            "pods",
            "podtemplates",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ];
        let resource = &self.kind.resource;
        (resource.group.is_empty() && shown.contains(&&*resource.plural))
            || (["resource.k8s.io", "storage.k8s.io"].contains(&&*resource.group)
                && &*resource.plural != "devicetaintrules")
    }

    pub(super) async fn delete_collection(&self) -> Result<ApiResponse, ApiError> {
        if self.kind.is("", "Namespace") {
            return Err(ApiError::method_not_allowed());
        }
        let query = self.query.list(&self.kind, &self.selected())?;
        let (write, _) = self.parse_delete()?;
        let user = || self.webhook_context();
        let deleted = self.webhooks.delete_collection(self.store, write, &query, user).await?;
        let revision = self.store.revision();
        Ok(self.list_response(&ListPage {
            items: deleted,
            revision,
            continue_token: None,
            remaining_items: None,
        }))
    }

    /// Applies a write, with its webhooks.
    async fn execute(&self, write: Write) -> Result<WriteOutcome, ApiError> {
        self.webhooks.write(self.store, write, || self.webhook_context()).await
    }

    /// The deletion, and whether the client requested cascading with `orphanDependents=false`.
    fn parse_delete(&self) -> Result<(Write, bool), ApiError> {
        let body = decode::delete_options(self.headers, self.body)?.unwrap_or(Value::Null);
        // A body replaces the query parameters.
        let parameter = |field: &str| self.query.get(field).filter(|_| body.is_null());
        let named =
            |field: &str| body[field].as_str().or_else(|| parameter(field)).map(str::to_owned);
        let orphan = body["orphanDependents"]
            .as_bool()
            .or_else(|| parameter("orphanDependents").map(|value| value == "true"));
        let policy = match named("propagationPolicy") {
            Some(policy) if orphan.is_some() => {
                let message = format!(
                    "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot \
                     be both set"
                );
                let (kind, field) = ("DeleteOptions", "propagationPolicy");
                return Err(invalid_options(kind, field, "FieldValueInvalid", message));
            }
            Some(policy) => Some(parse_propagation(&policy)?),
            None => orphan.map(
                |orphan| {
                    if orphan { Propagation::Orphan } else { Propagation::Background }
                },
            ),
        };
        let seen = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        let options = DeleteOptions {
            grace_secs: if body.is_null() {
                self.query.number("gracePeriodSeconds")?
            } else {
                body["gracePeriodSeconds"].as_i64()
            },
            propagation: policy,
            preconditions: Preconditions {
                uid: seen("uid"),
                resource_version: seen("resourceVersion"),
            },
        };
        let mut write = self.write(Op::Delete(options))?;
        if !body.is_null() {
            let runs = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
            write.dry_run = parse_dry_run(&runs.collect::<Vec<_>>(), "DeleteOptions")?;
        }
        Ok((write, orphan == Some(false)))
    }

    fn subresource(&self, part: Option<&str>) -> Result<Subresource, ApiError> {
        let is_pod = self.kind.is("", "Pod");
        match part {
            None => Ok(Subresource::None),
            Some("status") => Ok(Subresource::Status),
            Some("scale") => Ok(Subresource::Scale),
            Some("finalize") if self.kind.is("", "Namespace") => Ok(Subresource::Finalize),
            Some("resize") if is_pod => Ok(Subresource::Resize),
            Some("ephemeralcontainers") if is_pod => Ok(Subresource::EphemeralContainers),
            Some(_) => Err(ApiError::no_such_resource()),
        }
    }

    fn write(&self, op: Op) -> Result<Write, ApiError> {
        let mut key = self.key();
        key.resource = self.kind.resource.clone();
        let options = options_kind(&op);
        self.check_field_manager(options)?;
        Ok(Write {
            key,
            op,
            dry_run: self.query.is_dry_run(options)?,
            field_manager: self.field_manager().to_owned(),
            field_validation: self.query.field_validation(options)?,
            duplicate_fields: DuplicateFields::default(),
            rules: RuleEvaluation::default(),
        })
    }

    fn check_field_manager(&self, options: &str) -> Result<(), ApiError> {
        let manager = self.query.get("fieldManager").unwrap_or_default();
        if manager.len() > MANAGER_BYTES_MAX {
            let message = format!("Too long: may not be more than {MANAGER_BYTES_MAX} bytes");
            return Err(invalid_options(options, "fieldManager", "FieldValueTooLong", message));
        }
        let is_odd =
            |letter: char| letter.is_control() || (letter.is_whitespace() && letter != ' ');
        let Some((position, letter)) = manager.char_indices().find(|(_, it)| is_odd(*it)) else {
            return Ok(());
        };
        let message = format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {position})",
            Value::from(manager),
            u32::from(letter)
        );
        Err(invalid_options(options, "fieldManager", "FieldValueInvalid", message))
    }

    /// `fieldManager`, or the program name in the User-Agent.
    fn field_manager(&self) -> &str {
        let agent = self.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let agent = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let manager = self.query.get("fieldManager").filter(|name| !name.is_empty());
        let manager = manager.unwrap_or(if agent.is_empty() { "unknown" } else { agent });
        let mut end = manager.len().min(MANAGER_BYTES_MAX);
        while !manager.is_char_boundary(end) {
            end -= 1;
        }
        manager.get(..end).unwrap_or(manager)
    }

    fn subresource_response(&self, part: Subresource, written: &WriteOutcome) -> ApiResponse {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        if part == Subresource::Scale
            && let Some(scale) = self.kind.scale_of(&written.object)
        {
            return response::object(code, self.accept.encoding, &scale);
        }
        self.write_response(code, written)
    }

    fn write_response(&self, code: StatusCode, written: &WriteOutcome) -> ApiResponse {
        let mut response = self.object_response(code, &written.object);
        response::warn(&mut response, &written.warnings);
        response
    }
}

/// The `Status` in the response to a POST of a subresource.
fn created_status() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// The options kind of an operation, for errors.
fn options_kind(op: &Op) -> &'static str {
    match op {
        Op::Create(_) | Op::Bind(_) | Op::Evict(_) => "CreateOptions",
        Op::Update(..) => "UpdateOptions",
        Op::Patch(..) => "PatchOptions",
        Op::Delete(_) => "DeleteOptions",
    }
}
