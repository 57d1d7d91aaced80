//! Conditions under which webhooks are asked: what they speak of, and whether they can be compiled.

use std::sync::LazyLock;

use crate::error::FieldErrors;
use crate::expression::{self, Kind, Scope};

/// Checks the condition that stands at `field`.
pub(super) fn check(expression: &str, field: &str, errors: &mut FieldErrors) {
    match expression::check(expression, &REQUEST) {
        Err(why) => {
            errors.invalid(field, &expression.into(), &format!("compilation failed: {why}"));
        }
        Ok(kind) if !kind.fits(&Kind::Bool) => {
            let rule = format!("must evaluate to bool but got {kind}");
            errors.invalid(field, &expression.into(), &rule);
        }
        Ok(_) => {}
    }
}

/// What conditions speak of.
static REQUEST: LazyLock<Scope> = LazyLock::new(|| {
    let named = |name: &str, fields: &[(&str, Kind)]| {
        let fields = fields.iter().map(|(field, kind)| ((*field).to_owned(), kind.clone()));
        Kind::object(&format!("kubernetes.{name}"), fields)
    };
    let text = |field: &'static str| (field, Kind::Text);
    let kind = named("GroupVersionKind", &[text("group"), text("version"), text("kind")]);
    let resource =
        named("GroupVersionResource", &[text("group"), text("version"), text("resource")]);
    let groups = ("groups", Kind::list(Kind::Text));
    let extra = ("extra", Kind::map(Kind::list(Kind::Text)));
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
            ("dryRun", Kind::Bool),
            ("options", Kind::Dyn),
        ],
    );
    let open = ["object", "oldObject", "namespaceObject"].map(|name| (name.to_owned(), Kind::Dyn));
    let variables = open.into_iter().chain([("request".to_owned(), request)]).collect();
    Scope { variables, binds: false }
});
