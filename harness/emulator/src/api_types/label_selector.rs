//! Label selectors, as text (`app=web,tier in (a,b),!old`) and as objects (`matchLabels`,
//! `matchExpressions`).

mod parse;

use std::collections::BTreeSet;
use std::fmt;

use crate::api_types::error::ApiError;
use schedlab_api::{Value, object};

/// A label selector: an object must meet all requirements. A selector without requirements selects
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label exists and has one of the values.
    In(String, BTreeSet<String>),
    /// The label does not exist or has another value.
    NotIn(String, BTreeSet<String>),
    /// The label exists.
    Exists(String),
    /// The label does not exist.
    Absent(String),
    /// The label is an integer greater than this one.
    Above(String, i64),
    /// The label is an integer less than this one.
    Below(String, i64),
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let number = |key: &str| object::label(object, key)?.parse::<i64>().ok();
        match self {
            Self::In(key, values) => {
                object::label(object, key).is_some_and(|value| values.contains(value))
            }
            Self::NotIn(key, values) => {
                object::label(object, key).is_none_or(|value| !values.contains(value))
            }
            Self::Exists(key) => object::label(object, key).is_some(),
            Self::Absent(key) => object::label(object, key).is_none(),
            Self::Above(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Below(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

impl LabelSelector {
    /// Parses the text of a `labelSelector` parameter.
    ///
    /// # Errors
    ///
    /// 400: the text is not a list of requirements, or a key or value is not valid in a label.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let requirements = parse::parse_requirements(text).map_err(ApiError::bad_request)?;
        Ok(Self { requirements })
    }

    /// Converts a `LabelSelector` object. An empty one selects everything.
    ///
    /// # Errors
    ///
    /// 400: an expression has an unknown operator, or values that its operator does not allow.
    pub fn from_object(selector: &Value) -> Result<Self, ApiError> {
        let mut requirements = Vec::new();
        for (key, value) in object::map(selector, &["matchLabels"]).into_iter().flatten() {
            let values = value.as_str().map(str::to_owned).into_iter().collect();
            requirements.push(Requirement::In(key.to_string(), values));
        }
        for expression in object::list(selector, &["matchExpressions"]) {
            requirements.push(from_expression(expression)?);
        }
        Ok(Self { requirements })
    }

    /// Converts a map of labels, as in `spec.selector` of a `Service` or `ReplicationController`.
    pub fn from_map(labels: &Value) -> Self {
        let requirements = labels.as_object().into_iter().flatten().map(|(key, value)| {
            let values = value.as_str().map(str::to_owned).into_iter().collect();
            Requirement::In(key.to_string(), values)
        });
        Self { requirements: requirements.collect() }
    }

    /// Whether the selector has no requirements, so that it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector selects the object.
    pub fn matches(&self, object: &Value) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl fmt::Display for LabelSelector {
    /// Formats the selector as text that parses to the same selector.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |values: &BTreeSet<String>| {
            values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            match requirement {
                Requirement::In(key, values) if values.len() == 1 => {
                    write!(formatter, "{key}={}", several(values))?;
                }
                Requirement::In(key, values) => {
                    write!(formatter, "{key} in ({})", several(values))?;
                }
                Requirement::NotIn(key, values) if values.len() == 1 => {
                    write!(formatter, "{key}!={}", several(values))?;
                }
                Requirement::NotIn(key, values) => {
                    write!(formatter, "{key} notin ({})", several(values))?;
                }
                Requirement::Exists(key) => formatter.write_str(key)?,
                Requirement::Absent(key) => write!(formatter, "!{key}")?,
                Requirement::Above(key, bound) => write!(formatter, "{key}>{bound}")?,
                Requirement::Below(key, bound) => write!(formatter, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

fn from_expression(expression: &Value) -> Result<Requirement, ApiError> {
    let key = object::text(expression, &["key"]).to_owned();
    let values: BTreeSet<String> = object::list(expression, &["values"])
        .iter()
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect();
    let bound = || values.first().and_then(|value| value.parse().ok());
    match object::text(expression, &["operator"]) {
        "In" => Ok(Requirement::In(key, values)),
        "NotIn" => Ok(Requirement::NotIn(key, values)),
        "Exists" => Ok(Requirement::Exists(key)),
        "DoesNotExist" => Ok(Requirement::Absent(key)),
        "Gt" => bound()
            .map(|bound| Requirement::Above(key, bound))
            .ok_or_else(|| ApiError::bad_request("for 'Gt' the value must be an integer")),
        "Lt" => bound()
            .map(|bound| Requirement::Below(key, bound))
            .ok_or_else(|| ApiError::bad_request("for 'Lt' the value must be an integer")),
        other => Err(ApiError::bad_request(format!(
            "\"{other}\" is not a valid label selector operator"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn selects(selector: &str) -> bool {
        let pod = json!({"metadata": {"labels": {"app": "web", "rank": "3", "x.io/y": ""}}});
        LabelSelector::parse(selector).unwrap().matches(&pod)
    }

    #[test]
    fn equality_and_sets_and_presence_select() {
        for selector in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "app in (db, web)",
            "app notin (db)",
            "app",
            "!old",
            "old!=1",
            "old notin (a,b)",
            "rank>2",
            "rank<4",
            "x.io/y=",
            "app=web,rank",
            "x.io/y in ()",
            "x.io/y in (,a)",
            "in!=1",
        ] {
            assert!(selects(selector), "{selector}");
        }
    }

    #[test]
    fn an_unmet_requirement_does_not_select() {
        for selector in
            ["app=db", "app in (db)", "!app", "old", "rank>3", "app=web,old", "x.io/y=1"]
        {
            assert!(!selects(selector), "{selector}");
        }
    }

    #[test]
    fn a_malformed_selector_is_a_bad_request() {
        for selector in
            ["app in (", "app in", "app like web", "a b=c", "=x", "app=a b", ",", "a=b,"]
        {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().code, 400, "{selector}");
        }
    }

    /// The right side is the message of the API server.
    #[test]
    fn a_malformed_selector_is_rejected_with_the_servers_message() {
        let cases = [
            ("app in web", "unable to parse requirement: found 'web' expected: '('"),
            ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("app in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
            (
                "app in (=)",
                "unable to parse requirement: found '=', expected: ',', ')' or identifier",
            ),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("k=bad!value", "found '!', expected: ',' or 'end of string'"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
            ("!,a", "unable to parse requirement: found ',', expected: identifier"),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' \
                 operators, the value must be an integer",
            ),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
        ];
        for (selector, expected) in cases {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().message, expected, "{selector}");
        }
    }

    #[test]
    fn a_selector_object_selects_as_its_text_does() {
        let selector = LabelSelector::from_object(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        }))
        .unwrap();
        assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
        assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
