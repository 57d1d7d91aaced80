//! The recorded changes of a case as text.

use std::fmt;

use jiff::{Timestamp, Unit};
use schedlab_api::object;

use crate::{Case, KINDS, change::ChangeEvent};

/// The changes of a case as text, one a line, with their times since the first one was possible.
pub struct History<'c>(&'c Case);

impl Case {
    /// What the capture saw; nothing unless it lasted for a while.
    pub fn history(&self) -> History<'_> {
        History(self)
    }
}

impl fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("History").field(&self.0.changes.len()).finish()
    }
}

impl fmt::Display for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let began: Option<Timestamp> = self.0.manifest.recorded_from.parse().ok();
        for change in &self.0.changes {
            let at: Option<Timestamp> = change.at.parse().ok();
            let seconds =
                began.zip(at).and_then(|(began, at)| (at - began).total(Unit::Second).ok());
            let kind = KINDS.iter().find(|kind| kind.array == change.array);
            let kind = kind.map_or(&*change.array, |kind| kind.kind);
            let (namespace, name) =
                (object::namespace(&change.object), object::name(&change.object));
            let slash = if namespace.is_empty() { "" } else { "/" };
            let seconds = seconds.unwrap_or_default();
            write!(f, "  +{seconds:.1} s  {kind} {namespace}{slash}{name} ")?;
            match change.event {
                ChangeEvent::Created => writeln!(f, "arrives")?,
                ChangeEvent::Removed => writeln!(f, "is gone")?,
                ChangeEvent::Evicted => writeln!(f, "is evicted")?,
                ChangeEvent::Deleted => writeln!(f, "is being deleted")?,
                ChangeEvent::Bound => {
                    let node = object::text(&change.object, &["spec", "nodeName"]);
                    writeln!(f, "is bound to {node}")?;
                }
                ChangeEvent::Started => writeln!(f, "runs")?,
                ChangeEvent::Succeeded => writeln!(f, "has succeeded")?,
                ChangeEvent::Failed => writeln!(f, "has failed")?,
                ChangeEvent::Changed => writeln!(f, "changes")?,
            }
        }
        Ok(())
    }
}
