//! As whom containers run, and what they may do.

use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::object::{list, text};
use schedlab_json::Value;

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE: &[Field] = &[Field("type", &[]), Field("localhostProfile", &[])];
const CONTEXT: &[Field] = &[
    Field("capabilities", &[Field("add", &[]), Field("drop", &[])]),
    Field("privileged", &[]),
    Field("seLinuxOptions", &[]),
    Field("windowsOptions", &[]),
    Field("runAsUser", &[]),
    Field("runAsGroup", &[]),
    Field("runAsNonRoot", &[]),
    Field("readOnlyRootFilesystem", &[]),
    Field("allowPrivilegeEscalation", &[]),
    Field("procMount", &[]),
    Field("seccompProfile", PROFILE),
    Field("appArmorProfile", &[Field("type", &[]), Field("localhostProfile", &[])]),
];

/// Checks the security context of a container, which stands at `place`.
pub(super) fn check(context: &Value, place: &str, errors: &mut FieldErrors) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        check_id(&context[field], &format!("{place}.{field}"), errors);
    }
    let mount = text(context, &["procMount"]);
    let allowed = ["Default", "Unmasked"];
    if !mount.is_empty() && !allowed.contains(&mount) {
        errors.unsupported(format!("{place}.procMount"), &mount.into(), &allowed);
    }
    check_profile(context, place, errors);
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    let shown = || in_go(context, CONTEXT);
    if context["privileged"] == true {
        let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid_in_go(place, &shown(), rule);
    }
    if list(context, &["capabilities", "add"]).iter().any(|added| added == "CAP_SYS_ADMIN") {
        let rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                    CAP_SYS_ADMIN";
        errors.invalid_in_go(place, &shown(), rule);
    }
}

/// Checks the security context of a pod, which stands at `place`.
pub(in crate::admit) fn check_pod(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let context = &spec["securityContext"];
    let place = format!("{field}.securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(&context[field], &format!("{place}.{field}"), errors);
    }
    for (index, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        check_id(group, &format!("{place}.supplementalGroups[{index}]"), errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(format!("{place}.shareProcessNamespace"), &true.into(), rule);
    }
    let policy = text(context, &["fsGroupChangePolicy"]);
    let allowed = ["Always", "OnRootMismatch"];
    if !policy.is_empty() && !allowed.contains(&policy) {
        errors.unsupported(format!("{place}.fsGroupChangePolicy"), &policy.into(), &allowed);
    }
    check_profile(context, &place, errors);
}

fn check_id(id: &Value, place: &str, errors: &mut FieldErrors) {
    if let Some(id) = id.as_i64().filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.invalid(place, &id.into(), "must be between 0 and 2147483647, inclusive");
    }
}

fn check_profile(context: &Value, place: &str, errors: &mut FieldErrors) {
    let profile = &context["seccompProfile"];
    if profile.is_null() {
        return;
    }
    let place = format!("{place}.seccompProfile");
    let kind = text(profile, &["type"]);
    let is_named = !profile["localhostProfile"].is_null();
    if kind == "Localhost" && text(profile, &["localhostProfile"]).is_empty() {
        let rule = "must be set when seccomp type is Localhost";
        errors.required(format!("{place}.localhostProfile"), rule);
    } else if kind.is_empty() {
        errors.required(format!("{place}.type"), "type is required when seccompProfile is set");
    } else if !PROFILES.contains(&kind) {
        errors.unsupported(format!("{place}.type"), &kind.into(), &PROFILES);
    } else if kind != "Localhost" && is_named {
        let rule = "can only be set when seccomp type is Localhost";
        errors.invalid_in_go(format!("{place}.localhostProfile"), &in_go(profile, PROFILE), rule);
    }
}
