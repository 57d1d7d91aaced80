//! Validation of security contexts of pods and containers.

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, go_struct_json};
use schedlab_api::{
    Value,
    object::{list, text},
};

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// The maximum length of the name of a kernel parameter.
const SYSCTL_BYTES_MAX: usize = 253;
/// The maximum length of the path of an `AppArmor` profile.
const LOCALHOST_PROFILE_BYTES_MAX: usize = 4095;
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
    check_app_armor_profile(context, path, errors);
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
        errors.invalid(format!("{field}.shareProcessNamespace"), &true.into(), rule);
    }
    check_sysctls(spec, &format!("{path}.sysctls"), errors);
    let allowed = ["Always", "OnRootMismatch"];
    check_policy(context, "fsGroupChangePolicy", &path, &allowed, errors);
    check_seccomp_profile(context, &path, errors);
    check_app_armor_profile(context, &path, errors);
    let allowed = ["Merge", "Strict"];
    check_policy(context, "supplementalGroupsPolicy", &path, &allowed, errors);
    let allowed = ["MountOption", "Recursive"];
    check_policy(context, "seLinuxChangePolicy", &path, &allowed, errors);
}

/// Checks a policy field of a security context, which is one of a few words.
fn check_policy(
    context: &Value,
    field: &str,
    path: &str,
    allowed: &[&str],
    errors: &mut FieldErrors,
) {
    let policy = &context[field];
    if policy.as_str().is_some_and(|policy| !allowed.contains(&policy)) {
        errors.unsupported(format!("{path}.{field}"), policy, allowed);
    }
}

/// Checks the kernel parameters at `path`: their names, and that none belongs to a kernel namespace
/// that the pod shares with its host.
fn check_sysctls(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in list(&spec["securityContext"], &["sysctls"]).iter().enumerate() {
        let name = text(sysctl, &["name"]);
        let path = format!("{path}[{index}].name");
        if name.is_empty() {
            errors.required(&*path, "");
        } else if !is_sysctl_name(name) {
            let rule = format!(
                "must have at most {SYSCTL_BYTES_MAX} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.invalid(&*path, &name.into(), &rule);
        } else if seen.contains(name) {
            errors.duplicate(&*path, &name.into());
        }
        let shared = match sysctl_namespace(name) {
            Some(KernelNamespace::Net) => "hostNetwork",
            Some(KernelNamespace::Ipc) => "hostIPC",
            None => "",
        };
        if !shared.is_empty() && spec[shared] == true {
            let rule = format!("may not be specified when '{shared}' is true");
            errors.invalid(path, &name.into(), &rule);
        }
        seen.insert(name);
    }
}

/// Whether the name has segments separated by `.` or `/`, such as `net.ipv4.tcp_syncookies`.
fn is_sysctl_name(name: &str) -> bool {
    let is_outer = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let is_segment = |segment: &str| {
        let is_inner = |byte: u8| is_outer(byte) || matches!(byte, b'-' | b'_');
        segment.bytes().all(is_inner)
            && segment.bytes().next().is_some_and(is_outer)
            && segment.bytes().next_back().is_some_and(is_outer)
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(is_segment)
}

/// A kernel namespace that a pod has of its own, or shares with its host.
enum KernelNamespace {
    Net,
    Ipc,
}

/// The kernel namespace of a parameter. Its name may have `/` between its parts instead of `.`.
fn sysctl_namespace(name: &str) -> Option<KernelNamespace> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let name = match name.find(['.', '/']) {
        Some(first) if name.as_bytes().get(first) == Some(&b'/') => name.replace('/', "."),
        Some(_) | None => name.to_owned(),
    };
    if name.starts_with("net.") {
        Some(KernelNamespace::Net)
    } else if IPC.contains(&&*name) || name.starts_with("fs.mqueue.") {
        Some(KernelNamespace::Ipc)
    } else {
        None
    }
}

fn check_app_armor_profile(context: &Value, path: &str, errors: &mut FieldErrors) {
    let profile = &context["appArmorProfile"];
    if profile.is_null() {
        return;
    }
    let named = profile["localhostProfile"].as_str();
    let path = |field: &str| format!("{path}.appArmorProfile.{field}");
    match (text(profile, &["type"]), named) {
        ("Localhost", None | Some("")) => {
            let rule = "must be set when AppArmor type is Localhost";
            errors.required(path("localhostProfile"), rule);
        }
        ("Localhost", Some(named)) => {
            if named.trim() != named {
                let rule = "must not be padded with whitespace";
                errors.invalid(path("localhostProfile"), &named.into(), rule);
            }
            if named.len() > LOCALHOST_PROFILE_BYTES_MAX {
                errors.too_long(path("localhostProfile"), LOCALHOST_PROFILE_BYTES_MAX);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(named)) => {
            let rule = "can only be set when AppArmor type is Localhost";
            errors.invalid(path("localhostProfile"), &named.into(), rule);
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(path("type"), "type is required when appArmorProfile is set"),
        (other, _) => errors.unsupported(path("type"), &other.into(), &PROFILE_TYPES),
    }
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
