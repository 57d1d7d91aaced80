//! DELETE: at once, after a grace period, or after the finalizers.

use jiff::{SignedDuration, Timestamp};

use super::request::{Request, rfc3339};
use super::webhooks::{self, Point};
use super::{check_deleted, crd};
use crate::admit;
use crate::error::ApiError;
use crate::object;
use crate::store::{DeleteOptions, Object, Propagation, Stop, Store, Written};
use schedlab_json::Value;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

pub(super) fn delete(
    store: &mut Store,
    request: &mut Request,
    options: &DeleteOptions,
) -> Result<Written, Stop> {
    if webhooks::is_asked(store, request) {
        ask(store, request, options)?;
    }
    Ok(delete_unasked(store, request, options)?)
}

/// Asks webhooks about a deletion, unless one is under way that this one does not shorten.
fn ask(store: &mut Store, request: &mut Request, options: &DeleteOptions) -> Result<(), Stop> {
    let old = store.get(&request.key)?;
    check_deleted(request, &old, &options.preconditions)?;
    admit::on_delete(&request.admission(store))?;
    let Some(grace) = grace(request, &old, options) else { return Ok(()) };
    if let (Grace::Seconds(seconds), Some(consultation)) = (grace, &mut request.consultation) {
        object::set(&mut consultation.options, &["gracePeriodSeconds"], seconds.into());
    }
    webhooks::ask(store, request, Point::delete(&old), Value::Null)?;
    Ok(())
}

/// Deletes what webhooks were asked about already, or need not be.
pub(super) fn delete_unasked(
    store: &mut Store,
    request: &Request,
    options: &DeleteOptions,
) -> Result<Written, ApiError> {
    let old = store.get(&request.key)?;
    check_deleted(request, &old, &options.preconditions)?;
    admit::on_delete(&request.admission(store))?;
    if request.kind.is("", "Namespace") {
        return Ok(delete_namespace(store, request, &old));
    }
    let Some(grace) = grace(request, &old, options) else {
        return Ok(Request::unchanged(&old));
    };
    let mut new = Value::clone(&old);
    set_finalizers(&mut new, wanted_finalizers(&old, options.propagation));
    if crd::waits_for_objects(store, request)? {
        crd::hold(&mut new);
    }
    let waits = object::finalizers(&new).next().is_some();
    match grace {
        Grace::None if waits && !object::is_deleting(&old) => mark(&mut new, request.now, 0),
        Grace::None => {}
        Grace::Seconds(seconds) => mark(&mut new, request.now, seconds),
    }
    if new != *old && !request.dry_run {
        request.commit(store, new.clone(), false);
    }
    let last = store.get(&request.key)?;
    if waits || matches!(grace, Grace::Seconds(seconds) if seconds > 0) {
        let mut written = Request::unchanged(&last);
        if request.dry_run {
            written.object = new.into();
        }
        return Ok(written);
    }
    Ok(request.take_away(store, &last))
}

/// How long the object may go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grace {
    /// Its kind knows no grace.
    None,
    /// So many seconds from now.
    Seconds(i64),
}

/// `None`: its deletion is under way, and this one does not shorten it.
fn grace(request: &Request, old: &Value, options: &DeleteOptions) -> Option<Grace> {
    if !request.kind.is("", "Pod") {
        return Some(Grace::None);
    }
    if object::is_deleting(old) {
        let left = object::number(old, &["metadata", "deletionGracePeriodSeconds"]);
        return match (left, options.grace_secs) {
            (None, _) => Some(Grace::None),
            (Some(left), Some(asked)) if asked.max(0) < left => Some(Grace::Seconds(asked.max(0))),
            (Some(_), _) => None,
        };
    }
    let own = object::number(old, &["spec", "terminationGracePeriodSeconds"]);
    let asked = options.grace_secs.or(own).unwrap_or(0);
    let phase = object::text(old, &["status", "phase"]);
    let runs = !object::text(old, &["spec", "nodeName"]).is_empty()
        && phase != "Failed"
        && phase != "Succeeded";
    Some(Grace::Seconds(match asked {
        _ if !runs => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    }))
}

/// Begins (or shortens) a deletion.
fn mark(object: &mut Value, now: Timestamp, seconds: i64) {
    let begun = object::text(object, &["metadata", "deletionTimestamp"]).parse::<Timestamp>().ok();
    let left = object::number(object, &["metadata", "deletionGracePeriodSeconds"]);
    // A shortened deletion counts from when it began.
    let from = match (begun, left) {
        (Some(end), Some(left)) => end.checked_sub(SignedDuration::from_secs(left)).unwrap_or(now),
        (Some(_), None) | (None, _) => now,
    };
    let end = from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    object::set(object, &["metadata", "deletionTimestamp"], rfc3339(end).into());
    object::set(object, &["metadata", "deletionGracePeriodSeconds"], seconds.into());
    if begun.is_none()
        && let Some(generation) = object::number(object, &["metadata", "generation"])
    {
        object::set(object, &["metadata", "generation"], (generation + 1).into());
    }
}

/// The finalizers with those that carry the propagation policy to the garbage collector.
fn wanted_finalizers(old: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let kept = object::finalizers(old).map(str::to_owned);
    let Some(propagation) = propagation else {
        return kept.collect();
    };
    let mut finalizers: Vec<String> =
        kept.filter(|name| name != ORPHAN && name != FOREGROUND).collect();
    match propagation {
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
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

/// A first deletion begins a namespace's end; a second one takes it away when its own finalizers
/// are gone.
fn delete_namespace(store: &mut Store, request: &Request, old: &Object) -> Written {
    if !object::is_deleting(old) {
        let mut new = Value::clone(old);
        object::set(&mut new, &["metadata", "deletionTimestamp"], request.time());
        object::set(&mut new, &["status", "phase"], "Terminating".into());
        return request.commit(store, new, false);
    }
    let waits = !object::list(old, &["spec", "finalizers"]).is_empty()
        || object::finalizers(old).next().is_some();
    if waits {
        return Request::unchanged(old);
    }
    request.take_away(store, old)
}
