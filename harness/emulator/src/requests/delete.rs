//! DELETE: immediately, after a grace period, or after finalizers.

use jiff::{SignedDuration, Timestamp};

use super::request::{WriteRequest, rfc3339};
use super::webhooks::{self, AdmissionPoint};
use super::{check_delete_preconditions, crd};
use crate::admission;
use crate::api_types::error::ApiError;
use crate::store::{DeleteOptions, Object, Propagation, Store, WriteError, WriteOutcome};
use schedlab_api::{Value, object};

const ORPHAN_FINALIZER: &str = "orphan";
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

pub(super) fn delete_object(
    store: &mut Store,
    request: &mut WriteRequest,
    options: &DeleteOptions,
) -> Result<WriteOutcome, WriteError> {
    if webhooks::may_call_webhooks(store, request) {
        call_webhooks_for_deletion(store, request, options)?;
    }
    Ok(delete_without_webhooks(store, request, options)?)
}

/// Calls the webhooks for a deletion, unless the deletion only repeats one in progress.
fn call_webhooks_for_deletion(
    store: &mut Store,
    request: &mut WriteRequest,
    options: &DeleteOptions,
) -> Result<(), WriteError> {
    let old = store.get(&request.key)?;
    check_delete_preconditions(request, &old, &options.preconditions)?;
    admission::check_delete(&request.admission(store))?;
    let Some(grace) = grace_period(request, &old, options) else { return Ok(()) };
    if let (GracePeriod::Seconds(seconds), Some(context)) = (grace, &mut request.webhook_context) {
        object::set(&mut context.options, &["gracePeriodSeconds"], seconds.into());
    }
    webhooks::call_all_webhooks(store, request, AdmissionPoint::delete(&old), Value::Null)?;
    Ok(())
}

/// Deletes an object without calling webhooks: they were called already, or need not be called.
pub(super) fn delete_without_webhooks(
    store: &mut Store,
    request: &WriteRequest,
    options: &DeleteOptions,
) -> Result<WriteOutcome, ApiError> {
    let old = store.get(&request.key)?;
    check_delete_preconditions(request, &old, &options.preconditions)?;
    admission::check_delete(&request.admission(store))?;
    if request.kind.is("", "Namespace") {
        return Ok(delete_namespace(store, request, &old));
    }
    let Some(grace) = grace_period(request, &old, options) else {
        return Ok(WriteRequest::unchanged_outcome(&old));
    };
    let mut new = Value::clone(&old);
    set_finalizers(&mut new, finalizers_after_deletion(&old, options.propagation));
    if crd::delete_custom_objects(store, request)? {
        crd::add_cleanup_finalizer(&mut new);
    }
    let waits = object::finalizers(&new).next().is_some();
    match grace {
        GracePeriod::None if waits && !object::is_deleting(&old) => {
            set_deletion_timestamp(&mut new, request.now, 0);
        }
        GracePeriod::None => {}
        GracePeriod::Seconds(seconds) => set_deletion_timestamp(&mut new, request.now, seconds),
    }
    if new != *old && !request.dry_run {
        request.commit(store, new.clone(), false);
    }
    let last = store.get(&request.key)?;
    if waits || matches!(grace, GracePeriod::Seconds(seconds) if seconds > 0) {
        let mut written = WriteRequest::unchanged_outcome(&last);
        if request.dry_run {
            written.object = new.into();
        }
        return Ok(written);
    }
    Ok(request.remove(store, &last))
}

/// The grace period of a deletion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GracePeriod {
    /// The kind has no grace period.
    None,
    /// The grace period in seconds from now.
    Seconds(i64),
}

/// The grace period of a deletion; `None` if a deletion is in progress that this one does not
/// shorten.
fn grace_period(
    request: &WriteRequest,
    old: &Value,
    options: &DeleteOptions,
) -> Option<GracePeriod> {
    if !request.kind.is("", "Pod") {
        return Some(GracePeriod::None);
    }
    if object::is_deleting(old) {
        let left = object::number(old, &["metadata", "deletionGracePeriodSeconds"]);
        return match (left, options.grace_secs) {
            (None, _) => Some(GracePeriod::None),
            (Some(left), Some(requested)) if requested.max(0) < left => {
                Some(GracePeriod::Seconds(requested.max(0)))
            }
            (Some(_), _) => None,
        };
    }
    let own = object::number(old, &["spec", "terminationGracePeriodSeconds"]);
    let requested = options.grace_secs.or(own).unwrap_or(0);
    let phase = object::text(old, &["status", "phase"]);
    let runs = !object::text(old, &["spec", "nodeName"]).is_empty()
        && phase != "Failed"
        && phase != "Succeeded";
    Some(GracePeriod::Seconds(match requested {
        _ if !runs => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    }))
}

/// Sets `deletionTimestamp` and `deletionGracePeriodSeconds`: starts a deletion, or shortens one in
/// progress.
fn set_deletion_timestamp(object: &mut Value, now: Timestamp, seconds: i64) {
    let old_end =
        object::text(object, &["metadata", "deletionTimestamp"]).parse::<Timestamp>().ok();
    let left = object::number(object, &["metadata", "deletionGracePeriodSeconds"]);
    // A shortened grace period counts from the start of the deletion.
    let from = match (old_end, left) {
        (Some(end), Some(left)) => end.checked_sub(SignedDuration::from_secs(left)).unwrap_or(now),
        (Some(_), None) | (None, _) => now,
    };
    let end = from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    object::set(object, &["metadata", "deletionTimestamp"], rfc3339(end).into());
    object::set(object, &["metadata", "deletionGracePeriodSeconds"], seconds.into());
    if old_end.is_none()
        && let Some(generation) = object::number(object, &["metadata", "generation"])
    {
        object::set(object, &["metadata", "generation"], (generation + 1).into());
    }
}

/// The finalizers of an object after a deletion request. They tell the garbage collector the
/// propagation policy.
fn finalizers_after_deletion(old: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let kept = object::finalizers(old).map(str::to_owned);
    let Some(propagation) = propagation else {
        return kept.collect();
    };
    let mut finalizers: Vec<String> =
        kept.filter(|name| name != ORPHAN_FINALIZER && name != FOREGROUND_FINALIZER).collect();
    match propagation {
        Propagation::Orphan => finalizers.push(ORPHAN_FINALIZER.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND_FINALIZER.to_owned()),
        Propagation::Background => {}
    }
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        object::remove(object, &["metadata", "finalizers"]);
    } else {
        object::set(object, &["metadata", "finalizers"], finalizers.into());
    }
}

/// Deletes a namespace. The first deletion marks it as terminating; a later one removes it if no
/// finalizers are left.
fn delete_namespace(store: &mut Store, request: &WriteRequest, old: &Object) -> WriteOutcome {
    if !object::is_deleting(old) {
        let mut new = Value::clone(old);
        object::set(&mut new, &["metadata", "deletionTimestamp"], request.timestamp());
        object::set(&mut new, &["status", "phase"], "Terminating".into());
        return request.commit(store, new, false);
    }
    let waits = !object::list(old, &["spec", "finalizers"]).is_empty()
        || object::finalizers(old).next().is_some();
    if waits {
        return WriteRequest::unchanged_outcome(old);
    }
    request.remove(store, old)
}
