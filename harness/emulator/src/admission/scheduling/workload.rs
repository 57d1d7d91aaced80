//! Validation of `Workload`: names, depth, priorities and children of its templates.

use std::collections::BTreeSet;

use crate::admission::Admission;
use crate::admission::declarative::{DeclarativeValidation, internal_json};
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{list, text},
};

/// The maximum depth of composite templates.
const DEPTH_MAX: usize = 4;
const COMPOSITE: &str = "compositePodGroupTemplates";
const TEMPLATES: &str = "podGroupTemplates";

pub(in crate::admission) fn check(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    let spec = &new["spec"];
    let names = list(spec, &[TEMPLATES]).iter().map(|template| text(template, &["name"]));
    check_composite_names(spec, "spec", &mut names.collect(), errors);
    for (index, template) in list(spec, &[COMPOSITE]).iter().enumerate() {
        if !is_within_depth(template, 1) {
            let shown = internal_json(&template[COMPOSITE], "CompositePodGroupTemplate");
            let rule = format!("maximum template hierarchy depth is {DEPTH_MAX}");
            errors.invalid_as_shown(format!("spec.{COMPOSITE}[{index}]"), &shown, &rule);
        }
    }
    check_priorities(spec, errors);
    check_children(spec, "spec", errors);
    let is_enabled = |gate: &str| admission.store.is_enabled(gate);
    let validation = DeclarativeValidation { is_enabled: &is_enabled, is_update: old.is_some() };
    validation.check("Workload", "", old, new, errors);
}

/// Checks that the names of composite templates, and of the templates below them, are new. Repeated
/// names in one list are found by declarative validation.
fn check_composite_names<'v>(
    owner: &'v Value,
    path: &str,
    names: &mut BTreeSet<&'v str>,
    errors: &mut FieldErrors,
) {
    let composites = list(owner, &[COMPOSITE]);
    check_names(composites, &format!("{path}.{COMPOSITE}"), names, errors);
    for (index, composite) in composites.iter().enumerate() {
        let path = format!("{path}.{COMPOSITE}[{index}]");
        let templates = list(composite, &[TEMPLATES]);
        check_names(templates, &format!("{path}.{TEMPLATES}"), names, errors);
        check_composite_names(composite, &path, names, errors);
    }
}

fn check_names<'v>(
    templates: &'v [Value],
    path: &str,
    names: &mut BTreeSet<&'v str>,
    errors: &mut FieldErrors,
) {
    let own = templates.iter().map(|template| text(template, &["name"]));
    for (index, name) in own.clone().enumerate() {
        if names.contains(name) {
            errors.duplicate(format!("{path}[{index}].name"), &name.into());
        }
    }
    names.extend(own);
}

fn is_within_depth(composite: &Value, depth: usize) -> bool {
    let children = list(composite, &[COMPOSITE]);
    depth < DEPTH_MAX && children.iter().all(|child| is_within_depth(child, depth + 1))
}

/// Checks that all templates have the same priority.
fn check_priorities(spec: &Value, errors: &mut FieldErrors) {
    let mut priorities = Vec::new();
    let priority = |template: &Value| {
        (text(template, &["priorityClassName"]).to_owned(), template["priority"].clone())
    };
    priorities.extend(list(spec, &[TEMPLATES]).iter().map(priority));
    let differ = |all: &[(String, Value)]| all.iter().any(|other| *other != all[0]);
    if differ(&priorities) {
        let rule = "detected multiple priority configurations";
        return errors.invalid("spec", &Value::Null, rule);
    }
    let mut open: Vec<&Value> = list(spec, &[COMPOSITE]).iter().collect();
    while let Some(composite) = open.pop() {
        priorities.push(priority(composite));
        priorities.extend(list(composite, &[TEMPLATES]).iter().map(priority));
        open.extend(list(composite, &[COMPOSITE]));
    }
    if differ(&priorities) {
        let rule = "all priority and priorityClassName values must be identical, detected multiple \
                    values";
        errors.invalid("spec", &Value::Null, rule);
    }
}

/// Checks that every composite template has a child.
fn check_children(owner: &Value, path: &str, errors: &mut FieldErrors) {
    for (index, composite) in list(owner, &[COMPOSITE]).iter().enumerate() {
        let path = format!("{path}.{COMPOSITE}[{index}]");
        if list(composite, &[TEMPLATES]).is_empty() && list(composite, &[COMPOSITE]).is_empty() {
            let rule = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate";
            errors.invalid(&*path, &composite["name"], rule);
        }
        check_children(composite, &path, errors);
    }
}
