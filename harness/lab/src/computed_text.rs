//! Texts with values of the cluster in them: `team-prod runs {{ .queues["team-prod"].used }} pods`.

use crate::expression::Expression;

/// A text whose parts in `{{ }}` are jq expressions.
#[derive(Debug)]
pub struct ComputedText(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Fixed(String),
    Computed(Expression),
}

impl ComputedText {
    /// Parses a text.
    ///
    /// # Errors
    /// `{{` is not closed, or its content is no jq expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((fixed, after)) = rest.split_once("{{") {
            let Some((expression, after)) = after.split_once("}}") else {
                return Err(format!("got {{{{{after}, expected }}}} behind a jq expression"));
            };
            pieces.push(Piece::Fixed(fixed.to_owned()));
            pieces.push(Piece::Computed(Expression::parse(expression.trim())?));
            rest = after;
        }
        pieces.push(Piece::Fixed(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// The text for a cluster. Several results of an expression are separated by commas.
    ///
    /// # Errors
    /// An expression fails on this cluster.
    pub fn render(&self, cluster: &str) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Fixed(fixed) => text.push_str(fixed),
                Piece::Computed(expression) => {
                    text.push_str(&expression.results(cluster)?.join(", "));
                }
            }
        }
        Ok(text)
    }

    /// The parts that are the same for every cluster.
    pub fn fixed_parts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Fixed(text) => Some(text.as_str()),
            Piece::Computed(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_cluster() {
        let text = ComputedText::parse("It runs {{ .used }} of {{.names}}.").unwrap();
        let cluster = r#"{"used": 28.0, "names": ["a", "b"]}"#;
        assert_eq!(text.render(cluster).unwrap(), "It runs 28 of a, b.");
        assert_eq!(text.fixed_parts().collect::<String>(), "It runs  of .");
    }

    #[test]
    fn an_expression_that_is_wrong_is_reported() {
        let error = |text: &str| ComputedText::parse(text).unwrap_err();
        insta::assert_snapshot!(error("It {{ .used"), @"got {{ .used, expected }} behind a jq expression");
        insta::assert_snapshot!(error("It {{ .used | lenght }}"), @"unknown in this jq expression: lenght");
    }
}
