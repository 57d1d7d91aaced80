//! Tag expressions: `@gang and not (@slow or @lab)`.

use std::fmt;
use std::str::FromStr;

use gherkin::tagexpr::TagOperation;

/// A condition on a case's tags.
#[derive(Clone)]
pub struct TagExpression {
    text: String,
    operation: TagOperation,
}

impl TagExpression {
    /// Whether the condition holds for these tags (without `@`).
    pub fn matches_tags(&self, tags: &[String]) -> bool {
        operation_holds(&self.operation, tags)
    }
}

fn operation_holds(operation: &TagOperation, tags: &[String]) -> bool {
    match operation {
        TagOperation::And(left, right) => {
            operation_holds(left, tags) && operation_holds(right, tags)
        }
        TagOperation::Or(left, right) => {
            operation_holds(left, tags) || operation_holds(right, tags)
        }
        TagOperation::Not(inner) => !operation_holds(inner, tags),
        TagOperation::Tag(tag) => tags.contains(tag),
    }
}

impl FromStr for TagExpression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let operation = text.trim().parse().map_err(|_| {
            format!(
                "got tag expression `{text}`, expected @tags, `and`, `or`, `not` and parentheses, \
                 such as `@gang and not (@slow or @lab)`"
            )
        })?;
        Ok(Self { text: text.trim().to_owned(), operation })
    }
}

impl fmt::Display for TagExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TagExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn and_binds_tighter_than_or_and_not_tightest() {
        let expression: TagExpression = "@a or @b and not @c".parse().unwrap();
        let tags = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert!(expression.matches_tags(&tags(&["a", "c"])));
        assert!(expression.matches_tags(&tags(&["b"])));
        assert!(!expression.matches_tags(&tags(&["b", "c"])));
        assert!(!expression.matches_tags(&tags(&[])));
    }

    #[test]
    fn an_invalid_expression_is_rejected_with_the_expected_syntax() {
        let error = "gang and".parse::<TagExpression>().unwrap_err();
        assert!(error.contains("expected @tags"), "{error}");
    }
}
