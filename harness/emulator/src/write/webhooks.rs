//! Where a write asks admission webhooks. What they have said already is at hand; what is missing
//! ends the write with the questions, and nothing is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::request::Request;
use crate::error::ApiError;
use crate::hooks::{self, Asked};
use crate::kinds::Resource;
use crate::object;
use crate::patch;
use crate::store::{Answer, Question, Stop, Store, Webhook};
use schedlab_json::{Value, json};

/// What is asked about.
#[derive(Clone, Copy)]
pub(super) struct Point<'p> {
    /// `CREATE`, `UPDATE` or `DELETE`.
    operation: &'static str,
    /// The object as it is stored.
    old: Option<&'p Value>,
    /// Version and kind of the body where it is not the object.
    part: Option<(&'static str, &'static str)>,
    /// What the server says in `metadata` and the writer has not said: those that change objects
    /// are not shown it.
    unsaid: &'p [&'static str],
}

/// What the server makes of an object that a webhook has changed; before it there was the first.
type TakeUp<'t> = &'t dyn Fn(&Store, &mut Request, (&Value, Value)) -> Result<Value, ApiError>;

impl<'p> Point<'p> {
    /// A new object.
    pub(super) fn create() -> Self {
        Self { operation: "CREATE", old: None, part: None, unsaid: &SERVERS }
    }

    /// A new state of an object.
    pub(super) fn update(old: &'p Value) -> Self {
        Self { operation: "UPDATE", old: Some(old), part: None, unsaid: &[] }
    }

    /// The end of an object.
    pub(super) fn delete(old: &'p Value) -> Self {
        Self { operation: "DELETE", old: Some(old), part: None, unsaid: &[] }
    }

    /// The writer has not said these fields of `metadata`.
    pub(super) fn without(self, unsaid: &'p [&'static str]) -> Self {
        Self { unsaid, ..self }
    }

    /// The body is of another kind than the object: its version and kind.
    pub(super) fn of_part(self, version: &'static str, kind: &'static str) -> Self {
        Self { part: Some((version, kind)), ..self }
    }
}

/// Whether any webhook may have to be asked.
pub(super) fn is_asked(store: &Store, request: &Request) -> bool {
    request.consultation.is_some() && hooks::any(store) && !hooks::is_exempt(&request.kind)
}

/// The body of a part with what its path says.
pub(super) fn whole(request: &Request, mut body: Value, (version, kind): (&str, &str)) -> Value {
    object::set_default(&mut body, &["apiVersion"], version);
    object::set_default(&mut body, &["kind"], kind);
    object::set_default(&mut body, &["metadata", "name"], &*request.key.name);
    object::set_default(&mut body, &["metadata", "namespace"], &*request.key.namespace);
    body
}

/// Asks those that change objects, then those that judge, where the server itself has nothing to
/// do in between.
pub(super) fn ask(
    store: &mut Store,
    request: &mut Request,
    point: Point<'_>,
    object: Value,
) -> Result<Value, Stop> {
    let object = change(store, request, point, object)?;
    validate(store, request, point, &object)?;
    Ok(object)
}

/// Asks those that change objects, where the server itself has nothing to add.
pub(super) fn change(
    store: &mut Store,
    request: &mut Request,
    point: Point<'_>,
    object: Value,
) -> Result<Value, Stop> {
    mutate(store, request, point, object, &|_, _, (_, patched)| Ok(patched))
}

/// The object as webhooks leave it. One after the other is asked; those that have let an object
/// pass that another one changed then, are asked once more if their `reinvocationPolicy` says so.
pub(super) fn mutate(
    store: &mut Store,
    request: &mut Request,
    point: Point<'_>,
    mut object: Value,
    take_up: TakeUp<'_>,
) -> Result<Value, Stop> {
    if !is_asked(store, request) {
        return Ok(object);
    }
    let webhooks = hooks::configured(store, true);
    let mut due: BTreeSet<usize> = (0..webhooks.len()).collect();
    let mut passed = BTreeSet::new();
    for _ in 0..2 {
        let round = std::mem::take(&mut due);
        let mut is_changed = false;
        for index in round {
            let webhook = &webhooks[index];
            let shown = point.shown(request, &object);
            let Some(told) = told(store, request, (point, &shown), webhook)? else { continue };
            if let Some(patched) = changed(store, request, webhook, &told)? {
                object = take_up(store, request, (&object, patched))?;
                is_changed = true;
                due.append(&mut passed);
            }
            if webhook.spec["reinvocationPolicy"] == "IfNeeded" {
                passed.insert(index);
            }
        }
        if !is_changed {
            break;
        }
    }
    Ok(object)
}

/// Asks all that judge, at once; the first refusal counts.
pub(super) fn validate(
    store: &mut Store,
    request: &Request,
    point: Point<'_>,
    object: &Value,
) -> Result<(), Stop> {
    if !is_asked(store, request) {
        return Ok(());
    }
    let mut questions = Vec::new();
    for webhook in hooks::configured(store, false) {
        if let Some(told) = told(store, request, (point, object), &webhook)? {
            questions.push((webhook, told));
        }
    }
    let answers = heard(store, request, &questions)?;
    for ((webhook, _), answer) in questions.iter().zip(answers) {
        allowed(webhook, answer)?;
    }
    Ok(())
}

impl Point<'_> {
    /// A new object is shown before the server says of it what it alone says.
    fn shown(self, request: &Request, object: &Value) -> Value {
        let mut shown = object.clone();
        if self.part.is_some() {
            return shown;
        }
        for field in self.unsaid {
            object::remove(&mut shown, &["metadata", field]);
        }
        if self.operation != "CREATE" {
            return shown;
        }
        if ["Pod", "Namespace"].iter().any(|kind| request.kind.is("", kind)) {
            object::set(&mut shown, &["status"], json!({}));
        }
        if !request.begun.name.is_empty() {
            object::remove(&mut shown, &["metadata", "name"]);
        }
        shown
    }
}

/// What only the server says of a new object.
const SERVERS: [&str; 3] = ["uid", "creationTimestamp", "generation"];

/// What a new state of an object need not say of it.
const NEEDLESS: [&str; 4] = ["uid", "creationTimestamp", "generation", "resourceVersion"];

/// What a new state does not say of its object.
pub(super) fn unsaid(new: &Value) -> Vec<&'static str> {
    let is_unsaid = |field: &&str| object::at(new, &["metadata", field]).is_none();
    NEEDLESS.into_iter().filter(is_unsaid).collect()
}

/// Puts back what only the server says, on a new object that a webhook has changed.
pub(super) fn restore(before: &Value, patched: &mut Value) {
    for field in SERVERS.into_iter().chain(["name", "namespace"]) {
        match object::at(before, &["metadata", field]) {
            Some(value) => object::set(patched, &["metadata", field], value.clone()),
            None => drop(object::remove(patched, &["metadata", field])),
        }
    }
}

/// What a webhook is told, if it is asked about this at all.
fn told(
    store: &Store,
    request: &Request,
    (point, object): (Point<'_>, &Value),
    webhook: &Webhook,
) -> Result<Option<Value>, ApiError> {
    let Some(consultation) = &request.consultation else { return Ok(None) };
    let is_new = point.operation == "CREATE" && point.part.is_none();
    let is_nameless = is_new && webhook.mutates && !request.begun.name.is_empty();
    let is_nameless = is_nameless || consultation.of_collection;
    let name = if is_nameless { "" } else { &*request.key.name };
    let asked = Asked {
        kind: &request.asked,
        consultation,
        operation: point.operation,
        namespace: &request.key.namespace,
        name,
        part: point.part,
        object: Some(object).filter(|object| !object.is_null()),
        old: point.old,
        dry_run: request.dry_run,
    };
    asked.request(store, webhook)
}

/// The object as a webhook changes it; nothing where it does not.
fn changed(
    store: &mut Store,
    request: &Request,
    webhook: &Arc<Webhook>,
    told: &Value,
) -> Result<Option<Value>, Stop> {
    let question = (Arc::clone(webhook), told.clone());
    let answer = heard(store, request, &[question])?.pop();
    let Some(operations) = answer.map_or(Ok(None), |answer| allowed(webhook, answer))? else {
        return Ok(None);
    };
    let internal = |why: String| Stop::Refused(ApiError::internal(why));
    let operations = operations.as_array().map_or(&[][..], Vec::as_slice);
    if operations.is_empty() {
        return Ok(None);
    }
    let shown = &told["object"];
    if shown.is_null() {
        return Err(internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for \
             this operation",
            webhook.name
        )));
    }
    let patched = applied(shown, operations).map_err(internal)?;
    if patched == *shown {
        return Ok(None);
    }
    let of = |field: &str| object::text(told, &["resource", field]);
    let kind = store.kinds().get(&Resource::new(of("group"), of("resource")));
    let is_object = told["kind"]["kind"] == *request.asked.kind;
    Ok(Some(match kind.filter(|_| is_object) {
        Some(kind) => kind.to_stored(patched),
        None => patched,
    }))
}

/// An object after a patch, or which operation does not fit it.
fn applied(object: &Value, operations: &[Value]) -> Result<Value, String> {
    let mut patched = object.clone();
    for operation in operations {
        let next = patch::json(&patched, &json!([operation]));
        patched = next.map_err(|_| unfit(&patched, operation))?;
    }
    Ok(patched)
}

/// In the words of the real server's library.
fn unfit(object: &Value, operation: &Value) -> String {
    let of = |field: &str| object::text(operation, &[field]);
    let (verb, path) = (of("op"), of("path"));
    let (parent, last) = path.rsplit_once('/').unwrap_or_default();
    match (verb, object.pointer(parent)) {
        ("test", _) => format!("testing value {path} failed: test failed"),
        ("remove", Some(Value::Object(_))) => format!(
            "remove operation does not apply: unable to remove nonexistent key: {last}: missing \
             value"
        ),
        _ => {
            format!("{verb} operation does not apply: doc is missing path: {path:?}: missing value")
        }
    }
}

/// The answers to questions, or a stop to put those that have not been put.
fn heard(
    store: &mut Store,
    request: &Request,
    questions: &[(Arc<Webhook>, Value)],
) -> Result<Vec<Answer>, Stop> {
    let said = request.consultation.iter().flat_map(|consultation| &consultation.said);
    let known = |(webhook, told): &(Arc<Webhook>, Value)| {
        let mut said = said.clone();
        let is_it = |said: &&crate::store::Said| said.webhook == *webhook && said.request == *told;
        said.find(is_it).map(|said| said.answer.clone())
    };
    let answers: Vec<Option<Answer>> = questions.iter().map(known).collect();
    if answers.iter().all(Option::is_some) {
        return Ok(answers.into_iter().flatten().collect());
    }
    let missing = questions.iter().zip(answers).filter(|(_, answer)| answer.is_none());
    let missing = missing.map(|((webhook, told), _)| Question {
        uid: store.names.uid(),
        webhook: Arc::clone(webhook),
        request: told.clone(),
    });
    let missing = missing.collect();
    Err(Stop::Asks(missing, request.begun.clone()))
}

/// The patch of a webhook that lets it pass.
fn allowed(webhook: &Webhook, answer: Answer) -> Result<Option<Value>, ApiError> {
    match answer {
        Answer::Allowed(patch) => Ok(patch),
        Answer::Denied(status) => Err(hooks::denial(&webhook.name, &status)),
        Answer::Failed(_) if webhook.spec["failurePolicy"] == "Ignore" => Ok(None),
        Answer::Failed(why) => Err(hooks::failure(&webhook.name, &why)),
    }
}
