//! POST, PUT, PATCH and DELETE: requests as writes of the store.

use ::http::StatusCode;
use ::http::header::USER_AGENT;

use super::Call;
use super::decode::{self, Read};
use super::query::{invalid_options, propagation};
use super::reply::{self, Reply};
use crate::error::ApiError;
use crate::kinds::Origin;
use crate::object;
use crate::store::{
    DeleteOptions, FieldValidation, Listed, Op, PatchBody, Preconditions, Propagation, Slips,
    Subresource, Write, Written,
};
use schedlab_json::{Value, json};

/// A field manager's name is cut after so many bytes.
const MANAGER_BYTES_MAX: usize = 128;

impl Call<'_> {
    pub(super) async fn create(&self) -> Result<Reply, ApiError> {
        let (body, slips) = self.whole_body()?;
        let mut write = self.write(Op::Create(Value::Null))?;
        write.key.name = object::name(&body).into();
        write.op = Op::Create(body);
        write.slips = slips;
        let written = self.written(write).await?;
        Ok(self.reply_written(StatusCode::CREATED, &written))
    }

    /// The object to be written. A custom one must say what it is.
    fn whole_body(&self) -> Result<Read<Value>, ApiError> {
        let (body, slips) = decode::read(self.headers, self.body, &self.kind.kind)?;
        if self.kind.origin == Origin::Custom && object::text(&body, &["kind"]).is_empty() {
            let why = format!("Object 'Kind' is missing in '{body}'");
            return Err(decode::unrecognized(self.body, &self.kind.kind, &why));
        }
        Ok((self.versioned(body), slips))
    }

    /// A body that says no version is in that of the path.
    fn versioned(&self, mut body: Value) -> Value {
        let is_open = self.kind.origin == Origin::BuiltIn && self.kind.versions.len() > 1;
        if is_open && body.is_object() {
            let version = self.kind.api_version(&self.target.version);
            object::set_default(&mut body, &["apiVersion"], version);
        }
        body
    }

    /// POST of a binding beside the pods: it names its pod itself.
    pub(super) async fn bind_named(&self) -> Result<Reply, ApiError> {
        let body = decode::object(self.headers, self.body, "Binding")?;
        let mut write = self.write(Op::Bind(Value::Null))?;
        write.key.name = object::name(&body).into();
        write.op = Op::Bind(body);
        self.written(write).await?;
        Ok(reply::object(StatusCode::CREATED, self.accept.encoding, &created()))
    }

    pub(super) async fn create_part(&self, part: &str) -> Result<Reply, ApiError> {
        let body = |kind: &str| decode::object(self.headers, self.body, kind);
        let op = match part {
            "binding" if self.kind.is("", "Pod") => Op::Bind(body("Binding")?),
            "eviction" if self.kind.is("", "Pod") => Op::Evict(body("Eviction")?),
            _ => return Err(ApiError::no_such_resource()),
        };
        let written = self.written(self.write(op)?).await?;
        let mut reply = reply::object(StatusCode::CREATED, self.accept.encoding, &created());
        reply::warn(&mut reply, &written.warnings);
        Ok(reply)
    }

    pub(super) async fn update(&self, part: Option<&str>) -> Result<Reply, ApiError> {
        let part = self.part(part)?;
        let (body, slips) = match part {
            Subresource::Scale => decode::read(self.headers, self.body, "Scale")?,
            Subresource::None
            | Subresource::Status
            | Subresource::Finalize
            | Subresource::Resize
            | Subresource::EphemeralContainers => self.whole_body()?,
        };
        let write = Write { slips, ..self.write(Op::Update(part, body))? };
        let written = self.written(write).await?;
        Ok(self.reply_part(part, &written))
    }

    pub(super) async fn patch(&self, part: Option<&str>) -> Result<Reply, ApiError> {
        let part = self.part(part)?;
        let is_custom = self.kind.origin == Origin::Custom;
        let force = self.query.is_on("force");
        let (mut patch, slips) = decode::patch(self.headers, self.body, force, is_custom)?;
        if let PatchBody::Merge(changes) | PatchBody::Strategic(changes) = &mut patch {
            self.kind.merge_to_stored(&self.target.version, changes);
        }
        self.check_patch_options(&patch)?;
        let is_apply = matches!(patch, PatchBody::Apply { .. });
        let write = Write { slips, ..self.write(Op::Patch(part, patch))? };
        let is_strict = write.field_validation == FieldValidation::Strict;
        if is_apply && is_strict && !write.slips.refusal.is_empty() {
            let start = "error strict decoding YAML: error converting YAML to JSON";
            let why = format!("{start}: {}", write.slips.refusal);
            return Err(ApiError::bad_request(why));
        }
        let written = self.written(write).await?;
        Ok(self.reply_part(part, &written))
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

    pub(super) async fn delete(&self) -> Result<Reply, ApiError> {
        let (write, asks_cascade) = self.deletion()?;
        let written = self.written(write).await?;
        let code =
            if asks_cascade && !written.deleted { StatusCode::ACCEPTED } else { StatusCode::OK };
        if !written.deleted || self.shows_deleted() {
            return Ok(self.reply_written(code, &written));
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
        Ok(reply::object(code, self.accept.encoding, &status))
    }

    /// Some kinds answer a deletion with the object that was.
    fn shows_deleted(&self) -> bool {
        let shown = [
            "pods",
            "podtemplates",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ];
        (self.kind.resource.group.is_empty() && shown.contains(&&*self.kind.resource.plural))
            || ["resource.k8s.io", "storage.k8s.io"].contains(&&*self.kind.resource.group)
    }

    pub(super) async fn delete_collection(&self) -> Result<Reply, ApiError> {
        if self.kind.is("", "Namespace") {
            return Err(ApiError::method_not_allowed());
        }
        let query = self.query.list(&self.kind, &self.selected())?;
        let (write, _) = self.deletion()?;
        let user = || self.consultation();
        let deleted = self.webhooks.delete_collection(self.store, (write, &query), user).await?;
        let revision = self.store.revision();
        Ok(self.reply_list(&Listed { items: deleted, revision, token: None, remaining: None }))
    }

    /// Does a write, with what webhooks say to it.
    async fn written(&self, write: Write) -> Result<Written, ApiError> {
        self.webhooks.write(self.store, write, || self.consultation()).await
    }

    /// The write that deletes, and whether it asks that dependents go.
    fn deletion(&self) -> Result<(Write, bool), ApiError> {
        let body =
            decode::optional(self.headers, self.body, "DeleteOptions")?.unwrap_or(Value::Null);
        // Where there is a body, the query is not read.
        let asked = |field: &str| self.query.get(field).filter(|_| body.is_null());
        let named = |field: &str| body[field].as_str().or_else(|| asked(field)).map(str::to_owned);
        let orphan = body["orphanDependents"]
            .as_bool()
            .or_else(|| asked("orphanDependents").map(|value| value == "true"));
        let policy = match named("propagationPolicy") {
            Some(policy) if orphan.is_some() => {
                let message = format!(
                    "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot \
                     be both set"
                );
                let (kind, field) = ("DeleteOptions", "propagationPolicy");
                return Err(invalid_options(kind, field, "FieldValueInvalid", message));
            }
            Some(policy) => Some(propagation(&policy)?),
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
        let runs = body["dryRun"].as_array().map_or(&[][..], Vec::as_slice);
        if !body.is_null() {
            write.dry_run = runs.iter().any(|run| run == "All");
        }
        Ok((write, orphan == Some(false)))
    }

    fn part(&self, part: Option<&str>) -> Result<Subresource, ApiError> {
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
        let options = options_of(&op);
        self.check_manager(options)?;
        Ok(Write {
            key,
            op,
            dry_run: self.query.is_dry_run(options)?,
            field_manager: self.manager().to_owned(),
            field_validation: self.query.field_validation(options)?,
            slips: Slips::default(),
        })
    }

    fn check_manager(&self, options: &str) -> Result<(), ApiError> {
        let manager = self.query.get("fieldManager").unwrap_or_default();
        if manager.len() <= MANAGER_BYTES_MAX {
            return Ok(());
        }
        let message = format!("Too long: may not be more than {MANAGER_BYTES_MAX} bytes");
        Err(invalid_options(options, "fieldManager", "FieldValueTooLong", message))
    }

    /// Who writes: `fieldManager`, else the program that asks.
    fn manager(&self) -> &str {
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

    fn reply_part(&self, part: Subresource, written: &Written) -> Reply {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        if part == Subresource::Scale
            && let Some(scale) = self.kind.scale_of(&written.object)
        {
            return reply::object(code, self.accept.encoding, &scale);
        }
        self.reply_written(code, written)
    }

    fn reply_written(&self, code: StatusCode, written: &Written) -> Reply {
        let mut reply = self.reply_object(code, &written.object);
        reply::warn(&mut reply, &written.warnings);
        reply
    }
}

/// What a POST to a part of an object is answered with.
fn created() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Under which name refusals speak of a write's options.
fn options_of(op: &Op) -> &'static str {
    match op {
        Op::Create(_) | Op::Bind(_) | Op::Evict(_) => "CreateOptions",
        Op::Update(..) => "UpdateOptions",
        Op::Patch(..) => "PatchOptions",
        Op::Delete(_) => "DeleteOptions",
    }
}
