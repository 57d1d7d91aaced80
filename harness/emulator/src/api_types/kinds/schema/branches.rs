//! `allOf`, `anyOf`, `oneOf` and `not`: the error of the whole value, and the errors of the closest
//! branch.

use super::Schema;
use super::field_path::FieldPath;
use crate::api_types::error::FieldErrors;
use schedlab_api::Value;

impl Schema {
    pub(super) fn check_branches(
        &self,
        value: &Value,
        path: &FieldPath<'_>,
        errors: &mut FieldErrors,
    ) {
        let errors_of = |branch: &Self| {
            let mut branch_errors = FieldErrors::new();
            branch.check_value(value, path, &mut branch_errors);
            branch_errors
        };
        let refuse = |errors: &mut FieldErrors, rule: &str| {
            let rule = format!("\"{path}\" must {rule}");
            errors.invalid("<nil>", &"".into(), &rule);
        };
        let any: Vec<FieldErrors> = self.any_of.iter().map(errors_of).collect();
        if !any.is_empty() && !any.iter().any(FieldErrors::is_empty) {
            refuse(errors, "validate at least one schema (anyOf)");
            errors.extend(closest_branch_errors(&self.any_of, any, value));
        }
        let one: Vec<FieldErrors> = self.one_of.iter().map(errors_of).collect();
        let fitting = one.iter().filter(|branch_errors| branch_errors.is_empty()).count();
        if !one.is_empty() && fitting == 0 {
            refuse(errors, "validate one and only one schema (oneOf). Found none valid");
            errors.extend(closest_branch_errors(&self.one_of, one, value));
        } else if fitting > 1 {
            let found = format!("Found {fitting} valid alternatives");
            refuse(errors, &format!("validate one and only one schema (oneOf). {found}"));
        }
        let all: Vec<FieldErrors> = self.all_of.iter().map(errors_of).collect();
        if !all.iter().all(FieldErrors::is_empty) {
            let none = all.iter().all(|branch_errors| !branch_errors.is_empty());
            let none = if none { ". None validated" } else { "" };
            refuse(errors, &format!("validate all the schemas (allOf){none}"));
        }
        for branch_errors in all {
            errors.extend(branch_errors);
        }
        if self.not.as_ref().is_some_and(|not| errors_of(not).is_empty()) {
            refuse(errors, "not validate the schema (not)");
        }
    }

    /// How many fields and items of a value this branch (of `anyOf` or `oneOf`) describes.
    fn described_value_count(&self, value: &Value) -> usize {
        let fields = value.as_object().into_iter().flatten();
        let known = fields.filter_map(|(name, field)| Some((self.field_schema(name)?, field)));
        let items = value.as_array().into_iter().flatten();
        let items = items.filter_map(|item| Some((self.items.as_deref()?, item)));
        1 + known
            .chain(items)
            .map(|(schema, value)| schema.described_value_count(value))
            .sum::<usize>()
    }
}

/// The errors of the branch that describes most fields and items of the value; of several such
/// branches, the first.
fn closest_branch_errors(
    branches: &[Schema],
    branch_errors: Vec<FieldErrors>,
    value: &Value,
) -> FieldErrors {
    let ranked =
        branches.iter().map(|branch| branch.described_value_count(value)).zip(branch_errors);
    ranked
        .rev()
        .max_by_key(|(reach, _)| *reach)
        .map(|(_, branch_errors)| branch_errors)
        .unwrap_or_default()
}
