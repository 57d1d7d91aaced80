//! Source locations of objects: a table row, or YAML down to the line and column of each field.

use std::sync::Arc;

use schedlab_emulator::{FleetLocation, yaml};
use serde_saphyr::Location;

/// Where an object comes from, for messages about the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceLocation {
    /// A table row or a sentence: `file:line`.
    Line(String),
    /// A node of a fleet file.
    Fleet(FleetLocation),
    /// A YAML document; the text is the prefix of field paths if the object is an item of a list.
    Document(Arc<SourceText>, String),
}

/// A part of a file, with its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// Display path of the file.
    pub(crate) file: String,
    /// The line number of the first line of the part, counted from 1.
    pub(crate) first_line: usize,
    /// Whether columns in the part are also columns in the file.
    pub(crate) columns: ColumnAlignment,
    /// The text of the part.
    pub(crate) content: String,
}

/// Whether columns in a part of a file are also columns in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnAlignment {
    /// The columns are the same.
    AsInFile,
    /// The part was dedented, so its columns differ from those in the file.
    Dedented,
}

impl SourceLocation {
    /// Where a field of the object is, or else its nearest existing parent. An empty path means the
    /// object itself.
    pub(crate) fn location_of_field(&self, field: &str) -> String {
        match self {
            Self::Line(place) => place.clone(),
            Self::Fleet(place) => place.location_of_field(field).to_string(),
            Self::Document(text, prefix) => {
                text.format_location(text.locate_field(&format!("{prefix}{field}")).as_ref())
            }
        }
    }

    /// The scalar value of a field as it is written in the YAML text.
    pub(crate) fn scalar_text(&self, field: &str) -> Option<String> {
        let Self::Document(text, prefix) = self else { return None };
        let at = text.locate_field(&format!("{prefix}{field}"))?;
        let to_index = |at: u64| usize::try_from(at).ok()?.checked_sub(1);
        let line = text.content.lines().nth(to_index(at.line())?)?;
        let rest: String = line.chars().skip(to_index(at.column())?).collect();
        let word = rest.split([' ', ',', '}', ']', '#']).next()?;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

impl SourceText {
    /// A location in this part as `file:line:column`.
    pub(crate) fn format_location(&self, position: Option<&Location>) -> String {
        let Self { file, first_line, .. } = self;
        let number = |number: u64| usize::try_from(number).unwrap_or(0);
        match position.filter(|at| at.line() > 0) {
            None => format!("{file}:{first_line}"),
            Some(at) => {
                let line = first_line + number(at.line()) - 1;
                match self.columns {
                    ColumnAlignment::AsInFile => format!("{file}:{line}:{}", at.column()),
                    ColumnAlignment::Dedented => format!("{file}:{line}"),
                }
            }
        }
    }

    fn locate_field(&self, field: &str) -> Option<Location> {
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

    fn location_of(field: &str) -> String {
        let text = SourceText {
            file: "f.yaml".to_owned(),
            first_line: 11,
            columns: ColumnAlignment::AsInFile,
            content: POD.to_owned(),
        };
        SourceLocation::Document(Arc::new(text), String::new()).location_of_field(field)
    }

    #[test]
    fn a_fields_path_leads_to_its_line_and_column() {
        assert_eq!(location_of("spec.containers[0].name"), "f.yaml:17:11");
        assert_eq!(
            location_of("spec.containers[0].resources.limits[nvidia.com/gpu]"),
            "f.yaml:19:32"
        );
        assert_eq!(
            location_of("spec.containers[0].resources.limits.nvidia.com/gpu"),
            "f.yaml:19:32"
        );
        assert_eq!(location_of("metadata.labels.a.b/c"), "f.yaml:14:12");
    }

    #[test]
    fn a_missing_field_gets_the_location_of_its_parent() {
        assert_eq!(location_of("spec.containers[0].image"), "f.yaml:17:5");
        assert_eq!(location_of("status.phase"), "f.yaml:11:1");
        assert_eq!(location_of(""), "f.yaml:11:1");
    }
}
