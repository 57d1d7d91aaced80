//! Validation of `matchConditions` of webhooks: the CEL expression must compile and return a bool.

use std::sync::LazyLock;

use crate::api_types::error::FieldErrors;
use crate::api_types::expression::{self, CelType, TypeScope};

/// Checks the CEL expression of a match condition at `field`: it must compile and return a bool.
pub(super) fn check_match_condition(expression: &str, field: &str, errors: &mut FieldErrors) {
    match expression::check_type(expression, &MATCH_CONDITION_SCOPE) {
        Err(why) => {
            errors.invalid(field, &expression.into(), &format!("compilation failed: {why}"));
        }
        Ok(kind) if !kind.is_assignable_to(&CelType::Bool) => {
            let rule = format!("must evaluate to bool but got {kind}");
            errors.invalid(field, &expression.into(), &rule);
        }
        Ok(_) => {}
    }
}

/// The variables of a match condition: `object`, `oldObject`, `namespaceObject` and `request`.
static MATCH_CONDITION_SCOPE: LazyLock<TypeScope> = LazyLock::new(|| {
    let named = |name: &str, fields: &[(&str, CelType)]| {
        let fields = fields.iter().map(|(field, kind)| ((*field).to_owned(), kind.clone()));
        CelType::object(&format!("kubernetes.{name}"), fields)
    };
    let text = |field: &'static str| (field, CelType::Text);
    let kind = named("GroupVersionKind", &[text("group"), text("version"), text("kind")]);
    let resource =
        named("GroupVersionResource", &[text("group"), text("version"), text("resource")]);
    let groups = ("groups", CelType::list(CelType::Text));
    let extra = ("extra", CelType::map(CelType::list(CelType::Text)));
    let user = named("UserInfo", &[text("username"), text("uid"), groups, extra]);
    let request = named(
        "AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            text("subResource"),
            ("requestKind", kind),
            ("requestResource", resource),
            text("requestSubResource"),
            text("name"),
            text("namespace"),
            text("operation"),
            ("userInfo", user),
            ("dryRun", CelType::Bool),
            ("options", CelType::Dyn),
        ],
    );
    let open =
        ["object", "oldObject", "namespaceObject"].map(|name| (name.to_owned(), CelType::Dyn));
    let variables = open.into_iter().chain([("request".to_owned(), request)]).collect();
    TypeScope { variables, allows_bind: false }
});
