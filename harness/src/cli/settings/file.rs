//! The file `schedlab.toml`: its sections and keys with their lines. What the keys mean is not known
//! here.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{SETTINGS_FILE, SettingsError};
use schedlab_conformance::text::{counted_noun, nearest_word, read_text_file};

/// The settings file; empty if there is none.
#[derive(Debug, Default)]
pub(super) struct ProjectFile {
    exists: bool,
    run: Section,
    profiles: BTreeMap<String, Section>,
}

/// A section of the file.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// Its name as errors show it: `run` or `profile.ci`.
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

/// A key of a section with its value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The line of the key, from 1.
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Value,
}

/// A value of the file.
#[derive(Debug)]
pub(super) enum Value {
    /// A text, a number or a boolean, as an option's value is written.
    One(String),
    /// A list of those.
    List(Vec<String>),
    /// Anything else; the text names its type.
    Other(String),
}

impl Value {
    /// The value as values of an option.
    pub(super) fn texts(&self, is_list: bool) -> Result<Vec<String>, String> {
        match self {
            Self::One(text) => Ok(vec![text.clone()]),
            Self::List(texts) if is_list => Ok(texts.clone()),
            Self::List(texts) => {
                let count = counted_noun(texts.len(), "value");
                Err(format!("got a list of {count}, expected one value"))
            }
            Self::Other(kind) => {
                Err(format!("got the type {kind}, expected a text, a number or a list"))
            }
        }
    }

    fn parse(value: &DeValue<'_>) -> Self {
        if let Some(text) = scalar_text(value) {
            return Self::One(text);
        }
        let items = value.as_array().map(|items| {
            items.iter().map(|item| scalar_text(item.get_ref())).collect::<Option<Vec<String>>>()
        });
        match items {
            Some(Some(texts)) => Self::List(texts),
            Some(None) => Self::Other("list of lists or tables".to_owned()),
            None => Self::Other(value.type_str().to_owned()),
        }
    }
}

fn scalar_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

impl ProjectFile {
    /// Reads the file. Without a file there are no settings.
    pub(super) fn read(path: &Path) -> Result<Self, SettingsError> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = read_text_file(path)
            .map_err(|error| SettingsError(error.message_with_file(SETTINGS_FILE)))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, SettingsError> {
        let line_of =
            |position: usize| 1 + text.bytes().take(position).filter(|b| *b == b'\n').count();
        let root = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(span.start));
            SettingsError(format!("{SETTINGS_FILE}:{line}: {}", error.message()))
        })?;
        let mut file = Self { exists: true, ..Self::default() };
        for (key, value) in root.get_ref() {
            let place = format!("{SETTINGS_FILE}:{}", line_of(key.span().start));
            match (&**key.get_ref(), value.get_ref()) {
                ("run", DeValue::Table(table)) => {
                    file.run = Section::parse("run".to_owned(), table, &line_of);
                }
                ("profile", DeValue::Table(profiles)) => {
                    file.profiles = parse_profiles(profiles, &line_of)?;
                }
                ("run" | "profile", other) => {
                    let message = format!("got the type {}, expected a table", other.type_str());
                    return Err(SettingsError(format!("{place}: {}: {message}", key.get_ref())));
                }
                (unknown, _) => {
                    let near = nearest_word(unknown, ["run", "profile"]);
                    let near =
                        near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    return Err(SettingsError(format!(
                        "{place}: got the key `{unknown}`, expected [run] or [profile.NAME]{near}"
                    )));
                }
            }
        }
        Ok(file)
    }

    /// The sections that apply: `[run]`, then the profile. Those of other profiles are left out.
    pub(super) fn sections(&self, profile: Option<&str>) -> Result<Vec<&Section>, SettingsError> {
        let Some(name) = profile else { return Ok(vec![&self.run]) };
        if let Some(section) = self.profiles.get(name) {
            return Ok(vec![&self.run, section]);
        }
        let names: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let near = nearest_word(name, names.iter().copied());
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let there = match names.as_slice() {
            _ if !self.exists => format!("there is no {SETTINGS_FILE} here"),
            [] => format!("{SETTINGS_FILE} has no profiles"),
            names => format!("{SETTINGS_FILE} has {}", names.join(", ")),
        };
        Err(SettingsError(format!("--profile {name}: no such profile; {there}{near}")))
    }
}

/// The sections of the profiles by name.
fn parse_profiles(
    profiles: &DeTable<'_>,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<BTreeMap<String, Section>, SettingsError> {
    let section = |(name, profile): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let line = line_of(name.span().start);
        let name = name.get_ref().to_string();
        let DeValue::Table(table) = profile.get_ref() else {
            return Err(SettingsError(format!(
                "{SETTINGS_FILE}:{line}: profile.{name}: got the type {}, expected a table: \
                 [profile.{name}]",
                profile.get_ref().type_str()
            )));
        };
        let section = Section::parse(format!("profile.{name}"), table, line_of);
        Ok((name, section))
    };
    profiles.iter().map(section).collect()
}

impl Section {
    fn parse(name: String, table: &DeTable<'_>, line_of: &dyn Fn(usize) -> usize) -> Self {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| -> Entry {
            entry_of(key, value, line_of)
        };
        let mut entries: Vec<Entry> = table.iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.line);
        Self { name, entries }
    }
}

fn entry_of(
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    line_of: &dyn Fn(usize) -> usize,
) -> Entry {
    Entry {
        line: line_of(key.span().start),
        key: key.get_ref().to_string(),
        value: Value::parse(value.get_ref()),
    }
}
