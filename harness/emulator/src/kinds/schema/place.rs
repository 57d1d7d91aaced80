//! Where a check is in an object. Its text is made only where something is wrong there.

use std::fmt;

/// The way from the root of an object to a field.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Key(&'p str),
    Item(usize),
}

impl<'p> Place<'p> {
    pub(super) const ROOT: Self = Self { above: None, step: Step::Root };

    pub(super) fn field(&'p self, name: &'p str) -> Self {
        Self { above: Some(self), step: Step::Field(name) }
    }

    pub(super) fn key(&'p self, name: &'p str) -> Self {
        Self { above: Some(self), step: Step::Key(name) }
    }

    pub(super) fn item(&'p self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Item(index) }
    }
}

/// As in `spec.items[0].name`; the root's text is empty.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(above) = self.above else { return Ok(()) };
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
    fn a_place_is_told_from_the_root() {
        let spec = Place::ROOT.field("spec");
        let items = spec.field("items");
        assert_eq!(items.item(2).field("name").to_string(), "spec.items[2].name");
        assert_eq!(spec.key("a").field("b").to_string(), "spec[a].b");
        assert_eq!(Place::ROOT.item(0).item(1).to_string(), "[0][1]");
        assert_eq!(Place::ROOT.to_string(), "");
    }
}
