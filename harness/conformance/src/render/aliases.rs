//! Aliases for generated names, so that text is the same in every run. A pod of a controller has a
//! random suffix, which is replaced by an ordinal (`train#0`). Uids are removed.

use std::collections::BTreeMap;

use schedlab_api::{Value, labels};

/// The aliases of pods in rendered texts, by namespace and real name.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    aliases: BTreeMap<(String, String), Alias>,
    next: BTreeMap<(String, String), usize>,
}

/// The alias of a name, split into two parts so that consecutive numbers can be merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alias {
    /// Everything before the number at the end of the alias, with the separator.
    pub(crate) stem: String,
    /// The number at the end of the alias.
    pub(crate) number: Option<usize>,
}

impl Alias {
    /// Splits a name that a user chose, for example `train-3`.
    pub(crate) fn from_name(name: &str) -> Self {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.strip_prefix(stem).and_then(|digits| digits.parse().ok());
        if stem.ends_with('-') && number.is_some() {
            return Self { stem: stem.to_owned(), number };
        }
        Self { stem: name.to_owned(), number: None }
    }

    pub(crate) fn alias_text(&self) -> String {
        self.number.map_or_else(|| self.stem.clone(), |number| format!("{}{number}", self.stem))
    }
}

/// The part of a pod's name before the random suffix. `None` for the pods of a StatefulSet, which
/// have a `generateName` but an ordinal instead of a random suffix.
pub(crate) fn generated_name_prefix(pod: &Value) -> Option<&str> {
    let labels = pod.pointer("/metadata/labels");
    let is_numbered =
        labels.is_some_and(|labels| labels.get(labels::STATEFUL_SET_POD_NAME).is_some());
    let prefix = pod.pointer("/metadata/generateName")?.as_str()?;
    (!prefix.is_empty() && !is_numbered).then_some(prefix)
}

impl Aliases {
    /// Assigns an alias to a pod with a generated name. The first pod of each owner has number 0.
    pub(crate) fn register_pod(&mut self, pod: &Value) {
        let field = |at| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (field("/metadata/namespace"), field("/metadata/name"));
        if self.aliases.contains_key(&key) {
            return;
        }
        let shown = match generated_name_prefix(pod) {
            None => Alias::from_name(&key.1),
            Some(prefix) => {
                let stem = format!("{}#", owner_without_hash(pod, prefix.trim_end_matches('-')));
                let next = self.next.entry((key.0.clone(), stem.clone())).or_default();
                *next += 1;
                Alias { stem, number: Some(*next - 1) }
            }
        };
        self.aliases.insert(key, shown);
    }

    pub(crate) fn alias_of(&self, namespace: &str, name: &str) -> Alias {
        let key = (namespace.to_owned(), name.to_owned());
        let mut shown = self.aliases.get(&key).cloned().unwrap_or_else(|| Alias::from_name(name));
        if namespace != "default" && !namespace.is_empty() {
            shown.stem = format!("{namespace}/{}", shown.stem);
        }
        shown
    }

    /// A text in which generated names are replaced by aliases and uids are removed.
    pub(crate) fn replace_names(&self, text: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        replace_words_with(text, word, |word| self.replace_name(word))
    }

    /// The alias of the workload of a pod group: the group's name without the pod grouper's prefix
    /// and the uid.
    pub(crate) fn alias_of_pod_group(&self, group: &str) -> Alias {
        let (namespace, name) = group.split_once('/').unwrap_or(("default", group));
        let bare = name_without_uid(name);
        let bare = bare.strip_prefix("pg-").unwrap_or(&bare);
        self.alias_of(namespace, bare)
    }

    fn replace_name(&self, word: &str) -> String {
        // A sentence may end with a name.
        let name = word.trim_end_matches('.');
        let known = self.aliases.iter().find(|((_, real), _)| real == name);
        let shown = known.map_or_else(|| name_without_uid(name), |(_, shown)| shown.alias_text());
        format!("{shown}{}", word.strip_prefix(name).unwrap_or_default())
    }
}

/// The name of a ReplicaSet without the hash of its pod template.
pub(crate) fn owner_without_hash<'a>(pod: &Value, owner: &'a str) -> &'a str {
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str);
    let bare = hash.and_then(|hash| owner.strip_suffix(hash)?.strip_suffix('-'));
    bare.unwrap_or(owner)
}

/// Replaces each word of a text; a word is a run of characters that satisfy `part`.
pub(crate) fn replace_words_with(
    text: &str,
    part: impl Fn(char) -> bool,
    shown: impl Fn(&str) -> String,
) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(&part) {
        let (between, from) = rest.split_at(start);
        let end = from.find(|c| !part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        replaced.push_str(between);
        replaced.push_str(&shown(word));
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

/// Removes a uid: `pg-train-<uid>` becomes `pg-train`.
pub(crate) fn name_without_uid(name: &str) -> String {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = name.split('-').collect();
    let hex =
        |part: &str, length| part.len() == length && part.chars().all(|c| c.is_ascii_hexdigit());
    let uid = |window: &[&str]| window.iter().zip(LENGTHS).all(|(part, length)| hex(part, length));
    match parts.windows(LENGTHS.len()).position(uid) {
        Some(0) if parts.len() == LENGTHS.len() => "<uid>".to_owned(),
        Some(at) => {
            let (head, tail) = (&parts[..at], &parts[at + LENGTHS.len()..]);
            [head, tail].concat().join("-")
        }
        None => name.to_owned(),
    }
}

/// The aliases joined in a short form: `train#0…3,7, infer-1`.
pub(crate) fn join_alias_texts(mut names: Vec<Alias>) -> String {
    names.sort();
    names.dedup();
    let mut words: Vec<String> = Vec::new();
    let mut rest = names.as_slice();
    while let Some(first) = rest.first() {
        let kin = rest.iter().take_while(|name| name.stem == first.stem).count();
        let (family, others) = rest.split_at(kin);
        let numbers: Vec<usize> = family.iter().filter_map(|name| name.number).collect();
        if numbers.len() < family.len() {
            words.push(first.stem.clone());
        }
        if !numbers.is_empty() {
            words.push(format!("{}{}", first.stem, number_range_text(&numbers)));
        }
        rest = others;
    }
    words.join(", ")
}

/// Numbers in a short form, `0…3,7,9`: three or more consecutive numbers are written as a range.
fn number_range_text(numbers: &[usize]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let length = 1 + rest.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count();
        let run = if length < 3 { 1 } else { length };
        words.push(match run {
            1 => first.to_string(),
            _ => format!("{first}…{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn generated_names_become_ordinals_and_uids_are_removed() {
        let mut ordinals = Aliases::default();
        for name in ["web-5d9c-x7k2p", "web-5d9c-9zq4v"] {
            ordinals.register_pod(&json!({"metadata": {
                "namespace": "default", "name": name, "generateName": "web-5d9c-",
                "labels": {"pod-template-hash": "5d9c"},
            }}));
        }
        let text = "Pod default/web-5d9c-9zq4v was preempted by workload \
                    default/pg-train-0b5e6a52-1f6e-4b8a-9d53-aa11bb22cc33.";
        assert_eq!(
            ordinals.replace_names(text),
            "Pod default/web#1 was preempted by workload default/pg-train."
        );
        assert_eq!(ordinals.alias_of("team", "web-1").alias_text(), "team/web-1");
    }

    #[test]
    fn pods_of_a_stateful_set_keep_their_numbers() {
        let mut ordinals = Aliases::default();
        for name in ["train-1", "train-0"] {
            ordinals.register_pod(&json!({"metadata": {
                "namespace": "default", "name": name, "generateName": "train-",
                "labels": {"statefulset.kubernetes.io/pod-name": name},
            }}));
        }
        assert_eq!(ordinals.alias_of("default", "train-1").alias_text(), "train-1");
    }

    #[test]
    fn consecutive_numbers_become_ranges() {
        let names = ["a-1", "a-0", "a-2", "b-7", "b-8", "c", "a-4"].map(Alias::from_name);
        assert_eq!(join_alias_texts(names.to_vec()), "a-0…2,4, b-7,8, c");
    }
}
