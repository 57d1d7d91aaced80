//! `allOf`, `anyOf`, `oneOf` and `not`: what is wrong with a whole value, and what is wrong in the
//! branch that comes nearest to it.

use super::Schema;
use super::place::Place;
use crate::error::FieldErrors;
use schedlab_json::Value;

impl Schema {
    pub(super) fn check_branches(
        &self,
        value: &Value,
        place: &Place<'_>,
        errors: &mut FieldErrors,
    ) {
        let judged = |branch: &Self| {
            let mut wrongs = FieldErrors::new();
            branch.check(value, place, &mut wrongs);
            wrongs
        };
        let refuse = |errors: &mut FieldErrors, rule: &str| {
            let rule = format!("\"{place}\" must {rule}");
            errors.invalid("<nil>", &"".into(), &rule);
        };
        let any: Vec<FieldErrors> = self.any_of.iter().map(judged).collect();
        if !any.is_empty() && !any.iter().any(FieldErrors::is_empty) {
            refuse(errors, "validate at least one schema (anyOf)");
            errors.extend(nearest(&self.any_of, any, value));
        }
        let one: Vec<FieldErrors> = self.one_of.iter().map(judged).collect();
        let fitting = one.iter().filter(|wrongs| wrongs.is_empty()).count();
        if !one.is_empty() && fitting == 0 {
            refuse(errors, "validate one and only one schema (oneOf). Found none valid");
            errors.extend(nearest(&self.one_of, one, value));
        } else if fitting > 1 {
            let found = format!("Found {fitting} valid alternatives");
            refuse(errors, &format!("validate one and only one schema (oneOf). {found}"));
        }
        let all: Vec<FieldErrors> = self.all_of.iter().map(judged).collect();
        if !all.iter().all(FieldErrors::is_empty) {
            let none = all.iter().all(|wrongs| !wrongs.is_empty());
            let none = if none { ". None validated" } else { "" };
            refuse(errors, &format!("validate all the schemas (allOf){none}"));
        }
        for wrongs in all {
            errors.extend(wrongs);
        }
        if self.not.as_ref().is_some_and(|not| judged(not).is_empty()) {
            refuse(errors, "not validate the schema (not)");
        }
    }

    /// How much of a value a branch speaks of.
    fn reach(&self, value: &Value) -> usize {
        let fields = value.as_object().into_iter().flatten();
        let known = fields.filter_map(|(name, field)| Some((self.field(name)?, field)));
        let items = value.as_array().into_iter().flatten();
        let items = items.filter_map(|item| Some((self.items.as_deref()?, item)));
        1 + known.chain(items).map(|(schema, value)| schema.reach(value)).sum::<usize>()
    }
}

/// What is wrong in the first of the branches that speak of most of a value.
fn nearest(branches: &[Schema], wrongs: Vec<FieldErrors>, value: &Value) -> FieldErrors {
    let told = branches.iter().map(|branch| branch.reach(value)).zip(wrongs);
    told.rev().max_by_key(|(reach, _)| *reach).map(|(_, wrongs)| wrongs).unwrap_or_default()
}
