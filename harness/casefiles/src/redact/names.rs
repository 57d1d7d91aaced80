//! Replacements of names, and the table that translates them back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{allowed::NameClass, public};

/// Version of the format of the table.
const TABLE_FORMAT: &str = "schedlab.dev/redaction-table/v1";

/// How the replacement of a resource begins in the table, without its domain.
const BARE_RESOURCE: &str = "resource-";

/// The originals of all replacements: it stays with the customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedactionTable {
    /// Version of the format.
    pub format: String,
    /// Originals by replacement.
    pub originals: BTreeMap<String, String>,
}

impl RedactionTable {
    /// Translates the replacements in a text back. A word that is no replacement stays.
    pub fn reveal(&self, text: &str) -> String {
        let text = text.replace(NameClass::Resource.prefix(), BARE_RESOURCE);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find(is_part) {
            let (before, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
            out.push_str(before);
            out.push_str(self.originals.get(word).map_or(word, String::as_str));
            rest = after;
        }
        out + rest
    }
}

/// The names of a case, and their replacements.
#[derive(Debug, Default)]
pub(super) struct Names {
    found: BTreeMap<NameClass, BTreeSet<String>>,
    replacements: BTreeMap<NameClass, BTreeMap<String, String>>,
}

impl Names {
    /// The replacement of a name; while names are collected, the name itself.
    pub(super) fn replace(&mut self, class: NameClass, name: &str) -> String {
        if name.is_empty() || is_kept(class, name) {
            return name.to_owned();
        }
        if let Some(replacement) = self.replacements.get(&class).and_then(|names| names.get(name)) {
            return replacement.clone();
        }
        self.found.entry(class).or_default().insert(name.to_owned());
        name.to_owned()
    }

    /// Assigns replacements to all names that were found: numbers in the order of the originals,
    /// padded so that the order of the replacements is the same.
    pub(super) fn assign(&mut self) {
        for (class, names) in std::mem::take(&mut self.found) {
            let width = names.len().to_string().len();
            let tag = if class == NameClass::Image { ":v1" } else { "" };
            let numbered = names
                .into_iter()
                .zip(1..)
                .map(|(name, number)| (name, format!("{}{number:0width$}{tag}", class.prefix())));
            self.replacements.insert(class, numbered.collect());
        }
    }

    pub(super) fn into_table(self) -> RedactionTable {
        let all = self.replacements.into_values().flatten();
        let resource = NameClass::Resource.prefix();
        let untagged = |text: String| match text.strip_prefix(resource) {
            Some(number) => format!("{BARE_RESOURCE}{number}"),
            None => text.trim_end_matches(":v1").to_owned(),
        };
        let originals = all.map(|(original, replacement)| (untagged(replacement), original));
        RedactionTable { format: TABLE_FORMAT.to_owned(), originals: originals.collect() }
    }
}

/// Whether a name is kept, since it is public and others refer to it by its meaning.
fn is_kept(class: NameClass, name: &str) -> bool {
    match class {
        NameClass::Priority
        | NameClass::Scheduler
        | NameClass::Resource
        | NameClass::SubGroup
        | NameClass::Device => public::is_public(name),
        NameClass::Label => public::is_public_key(name),
        NameClass::Value => {
            name.len() <= 6 && name.bytes().all(|byte| byte.is_ascii_digit())
                || matches!(name, "true" | "false")
        }
        NameClass::Namespace
        | NameClass::Node
        | NameClass::Queue
        | NameClass::Workload
        | NameClass::Pod
        | NameClass::Topology
        | NameClass::Container
        | NameClass::Volume
        | NameClass::ConfigMap
        | NameClass::Claim
        | NameClass::DeviceClass
        | NameClass::GpuGroup
        | NameClass::Zone
        | NameClass::Uid
        | NameClass::Image
        | NameClass::Object => false,
    }
}
