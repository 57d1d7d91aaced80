//! Normalizes values that differ between servers: uids, revisions, times, suffixes of generated
//! names. Equal values stay equal: the first uid of a case becomes `uid-1`, the second revision of
//! its object `uid-1 at 2`.

use std::collections::BTreeMap;

use regex::{Captures, Regex};
use schedlab_api::{Map, Value};

pub(crate) struct Normalizer {
    uids: BTreeMap<String, String>,
    revisions: BTreeMap<String, String>,
    /// The number of revisions seen per object.
    seen: BTreeMap<String, usize>,
    names: BTreeMap<String, String>,
    /// The name that the server generates for the request, also if it refuses it.
    generated: Option<Regex>,
    age: Regex,
    current: Regex,
    time: Regex,
    revision_in_text: Regex,
    uid: Regex,
    address: Regex,
    patched: Regex,
    volume: Regex,
}

impl Default for Normalizer {
    fn default() -> Self {
        let regex = |text: &str| Regex::new(text).unwrap();
        Self {
            uids: BTreeMap::new(),
            revisions: BTreeMap::new(),
            seen: BTreeMap::new(),
            names: BTreeMap::new(),
            generated: None,
            age: regex(r"^\d{1,2}s$"),
            current: regex(r"current: \d+"),
            time: regex(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
            revision_in_text: regex(
                r"(resource version: |(?i:resourceVersion) in \w+(?: meta)?: |\()(\d+)",
            ),
            uid: regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            address: regex(r"127\.0\.0\.1:\d+"),
            volume: regex(r"\bkube-api-access-\w{5}\b"),
            patched: regex(r#"(?s)(^|patch: )Invalid value: "\{.*\}": "#),
        }
    }
}

impl Normalizer {
    pub(crate) fn normalize(&mut self, mut value: Value) -> Value {
        self.learn_names(&value);
        self.walk(&mut value, false);
        in_order(&mut value);
        let kind = value["kind"].as_str().unwrap_or_default();
        if matches!(kind, "APIResourceList" | "APIGroupDiscoveryList") {
            return by_name(value);
        }
        value
    }

    /// Expects names that are generated from this stem; `None` if the request has none.
    pub(crate) fn expect_generated(&mut self, stem: Option<&str>) {
        self.generated = stem.map(|stem| {
            let start: String = stem.chars().take(58).collect();
            let suffix = "[b-df-hj-np-tv-z2-9]{5}";
            Regex::new(&format!("(^|\"){}{suffix}($|\")", regex::escape(&start))).unwrap()
        });
    }

    /// Collects the generated names in a value.
    fn learn_names(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let (Some(stem), Some(name)) = (
                    fields.get("generateName").and_then(Value::as_str),
                    fields.get("name").and_then(Value::as_str),
                ) && name.len() == stem.len().min(58) + 5
                    && name.starts_with(stem.get(..58).unwrap_or(stem))
                {
                    let next = self.names.len() + 1;
                    self.names.entry(name.to_owned()).or_insert_with(|| format!("{stem}<{next}>"));
                }
                fields.values().for_each(|field| self.learn_names(field));
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_names(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn walk(&mut self, value: &mut Value, is_list: bool) {
        match value {
            Value::Object(fields) => self.walk_fields(fields, is_list),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, is_list)),
            Value::String(text) if self.age.is_match(text) => *text = "AGE".into(),
            Value::String(text) => *text = self.text(text).into(),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn walk_fields(&mut self, fields: &mut Map, is_list: bool) {
        let is_list_now = fields.contains_key("items")
            || fields.contains_key("rows")
            || fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let uid = fields.get("uid").and_then(Value::as_str).map(str::to_owned);
        for (name, field) in fields.iter_mut() {
            let of_list = match name.as_str() {
                // A bookmark has the revision of the store, also in a table row.
                "metadata" | "object" => is_list_now || is_list,
                "rows" => is_list,
                _ => false,
            };
            match (name.as_str(), field.as_str().filter(|text| !text.is_empty())) {
                ("resourceVersion", Some(_)) if is_list => *field = "RV".into(),
                ("resourceVersion", Some(text)) => {
                    *field = self.revision(text, uid.as_deref()).into();
                }
                ("continue", Some(_)) => *field = "TOKEN".into(),
                _ => self.walk(field, of_list),
            }
        }
    }

    fn revision(&mut self, text: &str, uid: Option<&str>) -> String {
        if let Some(known) = self.revisions.get(text) {
            return known.clone();
        }
        let of = uid.map_or_else(|| "an object without UID".to_owned(), |uid| self.text(uid));
        let count = self.seen.entry(of.clone()).or_default();
        *count += 1;
        let name = format!("{of} at {count}");
        self.revisions.insert(text.to_owned(), name.clone());
        name
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        let text = self.time.replace_all(text, |found: &Captures<'_>| {
            match found.get(1).map_or(0, |fraction| fraction.len() - 1) {
                // Times in requests are of the year 2006 where their form matters.
                _ if found[0].starts_with("2006-") => found[0].to_owned(),
                0 => "TIME".to_owned(),
                6 => "TIME.MICRO".to_owned(),
                digits => format!("TIME with {digits} digits"),
            }
        });
        let uids = &mut self.uids;
        let text =
            self.uid.replace_all(&text, |found: &Captures<'_>| ordinal(uids, &found[0], "uid"));
        let text = match &self.generated {
            Some(generated) => generated.replace_all(&text, "${1}<made>${2}"),
            None => text,
        };
        // The current revision depends on other writes.
        let text = self.current.replace_all(&text, "current: RV");
        let text = self.address.replace_all(&text, "127.0.0.1:PORT");
        let text = self.volume.replace_all(&text, "kube-api-access-MADE");
        // The error of a patch contains the whole patched object.
        let text = self.patched.replace_all(&text, "${1}Invalid value: OBJECT: ");
        // A diff of two Go structs.
        let text = text.split("\n@@").next().unwrap_or_default();
        let revisions = &mut self.revisions;
        let mut text = self
            .revision_in_text
            .replace_all(text, |found: &Captures<'_>| {
                let known = revisions.get(&found[2]).cloned();
                format!("{}{}", &found[1], known.unwrap_or_else(|| "RV".to_owned()))
            })
            .into_owned();
        for (name, plain) in &self.names {
            text = text.replace(name, plain);
        }
        text
    }
}

fn ordinal(known: &mut BTreeMap<String, String>, text: &str, stem: &str) -> String {
    let next = known.len() + 1;
    known.entry(text.to_owned()).or_insert_with(|| format!("{stem}-{next}")).clone()
}

/// Discovery with its lists turned into maps by name, to ignore their order.
fn by_name(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, by_name(field))).collect()
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let mut words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            words.sort_unstable();
            words.join(" ").into()
        }
        Value::Array(items) => {
            let named = |item: &Value| {
                let name = ["/name", "/resource", "/subresource", "/version", "/metadata/name"]
                    .iter()
                    .find_map(|pointer| item.pointer(pointer)?.as_str());
                name.unwrap_or_default().to_owned()
            };
            items.into_iter().map(|item| (named(&item), by_name(item))).collect()
        }
        leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => leaf,
    }
}

/// Sorts and deduplicates the causes of an error, and replaces a message that repeats several: the
/// real server validates some objects twice, and others in random field order.
fn in_order(value: &mut Value) {
    let causes = value.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    let Some(causes) = causes else { return };
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    let count = causes.len();
    if let Some(Value::String(message)) = value.get_mut("message")
        && let Some((start, _)) = message.split_once(" is invalid: ").filter(|_| count > 1)
    {
        *message = format!("{start} is invalid: {count} causes").into();
    }
}
