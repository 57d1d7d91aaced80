//! Where an object was written: a row, or YAML, and then down to the line of each of its fields.

use std::sync::Arc;

use schedlab_emulator::{FleetPlace, yaml};
use serde_saphyr::Location;

/// Where an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A row or a sentence: `file:line`.
    Line(String),
    /// A node of a fleet.
    Fleet(FleetPlace),
    /// A document of YAML; the text before its fields' paths when it is an item of a list.
    Document(Arc<Text>, String),
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// The file.
    pub(crate) file: String,
    /// The line at which the part begins, from 1.
    pub(crate) first_line: usize,
    /// Whether its lines stand in the file as they stand here.
    pub(crate) columns: Columns,
    /// The part.
    pub(crate) content: String,
}

/// Whether columns of a text are those of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// They are.
    Kept,
    /// The text was moved to the left.
    Moved,
}

impl Origin {
    /// The place of a field, as near as it can be told; an empty path means the object.
    pub(crate) fn of(&self, field: &str) -> String {
        match self {
            Self::Line(place) => place.clone(),
            Self::Fleet(place) => place.of(field).to_string(),
            Self::Document(text, prefix) => {
                text.place(text.locate(&format!("{prefix}{field}")).as_ref())
            }
        }
    }

    /// The word that stands at a field, if it was written as YAML.
    pub(crate) fn written(&self, field: &str) -> Option<String> {
        let Self::Document(text, prefix) = self else { return None };
        let at = text.locate(&format!("{prefix}{field}"))?;
        let place = |at: u64| usize::try_from(at).ok()?.checked_sub(1);
        let line = text.content.lines().nth(place(at.line())?)?;
        let rest: String = line.chars().skip(place(at.column())?).collect();
        let word = rest.split([' ', ',', '}', ']', '#']).next()?;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

impl Text {
    /// `file:line:column` of a location in this part.
    pub(crate) fn place(&self, at: Option<&Location>) -> String {
        let Self { file, first_line, .. } = self;
        let number = |number: u64| usize::try_from(number).unwrap_or(0);
        match at.filter(|at| at.line() > 0) {
            None => format!("{file}:{first_line}"),
            Some(at) => {
                let line = first_line + number(at.line()) - 1;
                match self.columns {
                    Columns::Kept => format!("{file}:{line}:{}", at.column()),
                    Columns::Moved => format!("{file}:{line}"),
                }
            }
        }
    }

    fn locate(&self, field: &str) -> Option<Location> {
        yaml::locate(&self.content, 0, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "\
kind: Pod
metadata:
  labels:
    a.b/c: x
spec:
  containers:
  - name: a
    resources:
      limits: {nvidia.com/gpu: -1}
";

    fn place(field: &str) -> String {
        let text = Text {
            file: "f.yaml".to_owned(),
            first_line: 11,
            columns: Columns::Kept,
            content: POD.to_owned(),
        };
        Origin::Document(Arc::new(text), String::new()).of(field)
    }

    #[test]
    fn a_fields_path_leads_to_its_line_and_column() {
        assert_eq!(place("spec.containers[0].name"), "f.yaml:17:11");
        assert_eq!(place("spec.containers[0].resources.limits[nvidia.com/gpu]"), "f.yaml:19:32");
        assert_eq!(place("spec.containers[0].resources.limits.nvidia.com/gpu"), "f.yaml:19:32");
        assert_eq!(place("metadata.labels.a.b/c"), "f.yaml:14:12");
    }

    #[test]
    fn what_is_not_there_is_placed_where_it_would_be() {
        assert_eq!(place("spec.containers[0].image"), "f.yaml:17:5");
        assert_eq!(place("status.phase"), "f.yaml:11:1");
        assert_eq!(place(""), "f.yaml:11:1");
    }
}
