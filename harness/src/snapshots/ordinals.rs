//! Names that stay the same from run to run. A pod that a controller made ends in letters by
//! chance: people see an ordinal instead (`train#0`). Uids never show.

use std::collections::BTreeMap;

use schedlab_json::Value;

/// Shown names of pods, by namespace and real name.
#[derive(Debug, Default)]
pub(super) struct Ordinals {
    shown: BTreeMap<(String, String), Shown>,
    next: BTreeMap<(String, String), usize>,
}

/// A name as it is shown, in two parts so that neighbours can be told in one word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shown {
    /// Everything before the number, with its separator.
    pub(super) stem: String,
    /// The number at the end.
    pub(super) number: Option<usize>,
}

impl Shown {
    /// Splits a name that people chose: `train-3`.
    pub(super) fn plain(name: &str) -> Self {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.strip_prefix(stem).and_then(|digits| digits.parse().ok());
        if stem.ends_with('-') && number.is_some() {
            return Self { stem: stem.to_owned(), number };
        }
        Self { stem: name.to_owned(), number: None }
    }

    pub(super) fn text(&self) -> String {
        self.number.map_or_else(|| self.stem.clone(), |number| format!("{}{number}", self.stem))
    }
}

/// What stands before the letters by chance in a pod's name. A `StatefulSet`'s pods have a prefix and
/// a number.
pub(super) fn chance_prefix(pod: &Value) -> Option<&str> {
    let labels = pod.pointer("/metadata/labels");
    let is_numbered =
        labels.is_some_and(|labels| labels.get("statefulset.kubernetes.io/pod-name").is_some());
    let prefix = pod.pointer("/metadata/generateName")?.as_str()?;
    (!prefix.is_empty() && !is_numbered).then_some(prefix)
}

impl Ordinals {
    /// Takes note of a pod; the first of its kind is number 0.
    pub(super) fn note(&mut self, pod: &Value) {
        let field = |at| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (field("/metadata/namespace"), field("/metadata/name"));
        if self.shown.contains_key(&key) {
            return;
        }
        let shown = match chance_prefix(pod) {
            None => Shown::plain(&key.1),
            Some(prefix) => {
                let stem = format!("{}#", without_hash(pod, prefix.trim_end_matches('-')));
                let next = self.next.entry((key.0.clone(), stem.clone())).or_default();
                *next += 1;
                Shown { stem, number: Some(*next - 1) }
            }
        };
        self.shown.insert(key, shown);
    }

    pub(super) fn shown(&self, namespace: &str, name: &str) -> Shown {
        let key = (namespace.to_owned(), name.to_owned());
        let mut shown = self.shown.get(&key).cloned().unwrap_or_else(|| Shown::plain(name));
        if namespace != "default" && !namespace.is_empty() {
            shown.stem = format!("{namespace}/{}", shown.stem);
        }
        shown
    }

    /// A text of others with every name of chance in it replaced and every uid left out.
    pub(super) fn tidy(&self, text: &str) -> String {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        words_replaced(text, word, |word| self.tidy_word(word))
    }

    /// A workload by its name: without the group's prefix, and as its pods are shown.
    pub(super) fn workload(&self, group: &str) -> Shown {
        let (namespace, name) = group.split_once('/').unwrap_or(("default", group));
        let bare = without_uid(name);
        let bare = bare.strip_prefix("pg-").unwrap_or(&bare);
        self.shown(namespace, bare)
    }

    fn tidy_word(&self, word: &str) -> String {
        // A sentence may end in a name.
        let name = word.trim_end_matches('.');
        let known = self.shown.iter().find(|((_, real), _)| real == name);
        let shown = known.map_or_else(|| without_uid(name), |(_, shown)| shown.text());
        format!("{shown}{}", word.strip_prefix(name).unwrap_or_default())
    }
}

/// A ReplicaSet's name without the hash of its template.
pub(super) fn without_hash<'a>(pod: &Value, owner: &'a str) -> &'a str {
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str);
    let bare = hash.and_then(|hash| owner.strip_suffix(hash)?.strip_suffix('-'));
    bare.unwrap_or(owner)
}

/// A text with its words, runs of characters that are parts of one, replaced.
pub(super) fn words_replaced(
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

/// `pg-train-<uid>` is `pg-train`.
pub(super) fn without_uid(name: &str) -> String {
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

/// Names in as few words as tell them apart: `train#0…3,7, infer-1`.
pub(super) fn joined(mut names: Vec<Shown>) -> String {
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
            words.push(format!("{}{}", first.stem, runs(&numbers)));
        }
        rest = others;
    }
    words.join(", ")
}

/// `0…3,7,9`: three or more that follow each other are told by the first and the last.
fn runs(numbers: &[usize]) -> String {
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
    use schedlab_json::json;

    use super::*;

    #[test]
    fn generated_names_become_ordinals_and_uids_vanish() {
        let mut ordinals = Ordinals::default();
        for name in ["web-5d9c-x7k2p", "web-5d9c-9zq4v"] {
            ordinals.note(&json!({"metadata": {
                "namespace": "default", "name": name, "generateName": "web-5d9c-",
                "labels": {"pod-template-hash": "5d9c"},
            }}));
        }
        let text = "Pod default/web-5d9c-9zq4v was preempted by workload \
                    default/pg-train-0b5e6a52-1f6e-4b8a-9d53-aa11bb22cc33.";
        assert_eq!(
            ordinals.tidy(text),
            "Pod default/web#1 was preempted by workload default/pg-train."
        );
        assert_eq!(ordinals.shown("team", "web-1").text(), "team/web-1");
    }

    #[test]
    fn pods_of_a_stateful_set_keep_their_numbers() {
        let mut ordinals = Ordinals::default();
        for name in ["train-1", "train-0"] {
            ordinals.note(&json!({"metadata": {
                "namespace": "default", "name": name, "generateName": "train-",
                "labels": {"statefulset.kubernetes.io/pod-name": name},
            }}));
        }
        assert_eq!(ordinals.shown("default", "train-1").text(), "train-1");
    }

    #[test]
    fn neighbours_are_told_in_one_word() {
        let names = ["a-1", "a-0", "a-2", "b-7", "b-8", "c", "a-4"].map(Shown::plain);
        assert_eq!(joined(names.to_vec()), "a-0…2,4, b-7,8, c");
    }
}
