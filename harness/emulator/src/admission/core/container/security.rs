//! Validation of security contexts of pods and containers.

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, go_struct_json};
use schedlab_api::{
    Value,
    object::{list, text},
};

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE: &[GoField] = &[GoField("type", &[]), GoField("localhostProfile", &[])];
const CONTEXT: &[GoField] = &[
    GoField("capabilities", &[GoField("add", &[]), GoField("drop", &[])]),
    GoField("privileged", &[]),
    GoField("seLinuxOptions", &[]),
    GoField("windowsOptions", &[]),
    GoField("runAsUser", &[]),
    GoField("runAsGroup", &[]),
    GoField("runAsNonRoot", &[]),
    GoField("readOnlyRootFilesystem", &[]),
    GoField("allowPrivilegeEscalation", &[]),
    GoField("procMount", &[]),
    GoField("seccompProfile", PROFILE),
    GoField("appArmorProfile", &[GoField("type", &[]), GoField("localhostProfile", &[])]),
];

/// Checks the security context of a container, at `path`.
pub(super) fn check(context: &Value, path: &str, errors: &mut FieldErrors) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        check_id(&context[field], &format!("{path}.{field}"), errors);
    }
    let mount = text(context, &["procMount"]);
    let allowed = ["Default", "Unmasked"];
    if !mount.is_empty() && !allowed.contains(&mount) {
        errors.unsupported(format!("{path}.procMount"), &mount.into(), &allowed);
    }
    check_seccomp_profile(context, path, errors);
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    let shown = || go_struct_json(context, CONTEXT);
    if context["privileged"] == true {
        let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid_as_shown(path, &shown(), rule);
    }
    if list(context, &["capabilities", "add"]).iter().any(|added| added == "CAP_SYS_ADMIN") {
        let rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                    CAP_SYS_ADMIN";
        errors.invalid_as_shown(path, &shown(), rule);
    }
}

/// Checks the security context of the pod spec at `field`.
pub(in crate::admission) fn check_pod(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let context = &spec["securityContext"];
    let path = format!("{field}.securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(&context[field], &format!("{path}.{field}"), errors);
    }
    for (index, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        check_id(group, &format!("{path}.supplementalGroups[{index}]"), errors);
    }
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(format!("{path}.shareProcessNamespace"), &true.into(), rule);
    }
    let policy = text(context, &["fsGroupChangePolicy"]);
    let allowed = ["Always", "OnRootMismatch"];
    if !policy.is_empty() && !allowed.contains(&policy) {
        errors.unsupported(format!("{path}.fsGroupChangePolicy"), &policy.into(), &allowed);
    }
    check_seccomp_profile(context, &path, errors);
}

fn check_id(id: &Value, path: &str, errors: &mut FieldErrors) {
    if let Some(id) = id.as_i64().filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.invalid(path, &id.into(), "must be between 0 and 2147483647, inclusive");
    }
}

fn check_seccomp_profile(context: &Value, path: &str, errors: &mut FieldErrors) {
    let profile = &context["seccompProfile"];
    if profile.is_null() {
        return;
    }
    let path = format!("{path}.seccompProfile");
    let kind = text(profile, &["type"]);
    let is_named = !profile["localhostProfile"].is_null();
    if kind == "Localhost" && text(profile, &["localhostProfile"]).is_empty() {
        let rule = "must be set when seccomp type is Localhost";
        errors.required(format!("{path}.localhostProfile"), rule);
    } else if kind.is_empty() {
        errors.required(format!("{path}.type"), "type is required when seccompProfile is set");
    } else if !PROFILE_TYPES.contains(&kind) {
        errors.unsupported(format!("{path}.type"), &kind.into(), &PROFILE_TYPES);
    } else if kind != "Localhost" && is_named {
        let rule = "can only be set when seccomp type is Localhost";
        errors.invalid_as_shown(
            format!("{path}.localhostProfile"),
            &go_struct_json(profile, PROFILE),
            rule,
        );
    }
}
