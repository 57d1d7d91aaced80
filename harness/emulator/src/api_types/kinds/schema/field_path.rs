//! The path of the field that is being validated. It is formatted only if there is an error.

use std::fmt;

/// A path from the root of an object to a field, as a linked list.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'p> {
    parent: Option<&'p FieldPath<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Key(&'p str),
    Item(usize),
}

impl<'p> FieldPath<'p> {
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Root };

    pub(super) fn field(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(super) fn key(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), step: Step::Key(name) }
    }

    pub(super) fn item(&'p self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Item(index) }
    }
}

/// Formats the path as `spec.items[0].name`; the root is an empty text.
impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(above) = self.parent else { return Ok(()) };
        above.fmt(f)?;
        match (self.step, above.step) {
            (Step::Root, _) => Ok(()),
            (Step::Field(name), Step::Root) => f.write_str(name),
            (Step::Field(name), Step::Field(_) | Step::Key(_) | Step::Item(_)) => {
                write!(f, ".{name}")
            }
            (Step::Key(name), _) => write!(f, "[{name}]"),
            (Step::Item(index), _) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_path_is_printed_from_the_root() {
        let spec = FieldPath::ROOT.field("spec");
        let items = spec.field("items");
        assert_eq!(items.item(2).field("name").to_string(), "spec.items[2].name");
        assert_eq!(spec.key("a").field("b").to_string(), "spec[a].b");
        assert_eq!(FieldPath::ROOT.item(0).item(1).to_string(), "[0][1]");
        assert_eq!(FieldPath::ROOT.to_string(), "");
    }
}
