//! What `schedlab lab kubectl get` and `describe` show: tables of the API server, YAML, and an object
//! with its events. Ages follow the cluster's clock.

use anyhow::anyhow;
use http::Request;
use schedlab_api::Value;
use schedlab_clusters::api::Api;
use schedlab_lab::commands::collection_path;

/// Asks the API server for the rows of `kubectl get`.
const TABLE_TYPE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Objects that a learner asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    kind: String,
    name: Option<String>,
    namespace: Option<String>,
    all_namespaces: bool,
    view: View,
    label_columns: Vec<String>,
    /// Parameters of the request: selectors.
    selectors: Vec<String>,
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum View {
    /// The columns of the kind.
    #[default]
    Table,
    /// All columns of the kind.
    WideTable,
    /// The objects as YAML.
    Yaml,
    /// An object with its events.
    Description,
}

impl Query {
    /// Parses the words behind `kubectl get` or `kubectl describe`.
    pub(super) fn parse(verb: &str, words: &[String]) -> Result<Self, String> {
        let mut query = Self::default();
        if verb == "describe" {
            query.view = View::Description;
        }
        let mut plain: Vec<&str> = Vec::new();
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            if !word.starts_with('-') {
                plain.push(word);
                continue;
            }
            if matches!(word, "-A" | "--all-namespaces") {
                query.all_namespaces = true;
                continue;
            }
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, value),
                // `-oyaml` is `-o yaml`.
                None if word.len() > 2 && !word.starts_with("--") => word.split_at(2),
                None => (word, rest.next().ok_or_else(|| format!("{word} needs a value"))?),
            };
            query.set_option(option, value)?;
        }
        (query.kind, query.name) = kind_and_name(&plain)?;
        if query.view == View::Description && query.name.is_none() {
            return Err(format!("kubectl describe: got {}, expected KIND NAME", query.kind));
        }
        Ok(query)
    }

    fn set_option(&mut self, option: &str, value: &str) -> Result<(), String> {
        match (option, value) {
            ("-n" | "--namespace", _) => self.namespace = Some(value.to_owned()),
            ("-o" | "--output", "yaml") => self.view = View::Yaml,
            ("-o" | "--output", "wide") => self.view = View::WideTable,
            ("-o" | "--output", _) => {
                return Err(format!("-o: got {value}, expected yaml or wide"));
            }
            ("-L" | "--label-columns", _) => {
                self.label_columns.extend(value.split(',').map(str::to_owned));
            }
            ("-l" | "--selector", _) => {
                self.selectors.push(format!("labelSelector={}", escaped(value)));
            }
            ("--field-selector", _) => {
                self.selectors.push(format!("fieldSelector={}", escaped(value)));
            }
            _ => {
                return Err(format!(
                    "got {option}, expected one of -n, -A, -o, -l, -L, --field-selector"
                ));
            }
        }
        Ok(())
    }
}

fn kind_and_name(words: &[&str]) -> Result<(String, Option<String>), String> {
    let (kind, name) = match words {
        [one] => one.split_once('/').map_or((*one, None), |(kind, name)| (kind, Some(name))),
        [kind, name] => (*kind, Some(*name)),
        words => return Err(format!("got {:?}, expected KIND [NAME]", words.join(" "))),
    };
    Ok((kind.to_owned(), name.map(str::to_owned)))
}

/// A value of a query parameter.
fn escaped(value: &str) -> String {
    value.replace('%', "%25").replace('&', "%26").replace('=', "%3D").replace(' ', "%20")
}

/// Objects of the lesson's cluster.
pub(super) struct QueriedObjects<'a> {
    pub(super) api: &'a Api,
    /// The namespace of the learner.
    pub(super) namespace: &'a str,
}

impl QueriedObjects<'_> {
    /// What kubectl would print.
    pub(super) async fn show(&self, query: &Query) -> anyhow::Result<String> {
        let path = self.path(query)?;
        match query.view {
            View::Table => Ok(table_text(&self.table(&path).await?, false, &query.label_columns)),
            View::WideTable => {
                Ok(table_text(&self.table(&path).await?, true, &query.label_columns))
            }
            View::Yaml => yaml_text(&without_managed_fields(self.api.get(&path).await?)),
            View::Description => self.description(&path).await,
        }
    }

    fn path(&self, query: &Query) -> anyhow::Result<String> {
        let namespace = query.namespace.as_deref().unwrap_or(self.namespace);
        let mut path = collection_path(&query.kind, namespace).map_err(super::super::UsageError)?;
        if query.all_namespaces {
            path = path.replace(&format!("/namespaces/{namespace}"), "");
        }
        if let Some(name) = &query.name {
            path = format!("{path}/{name}");
        }
        if !query.selectors.is_empty() {
            path = format!("{path}?{}", query.selectors.join("&"));
        }
        Ok(path)
    }

    async fn table(&self, path: &str) -> anyhow::Result<Value> {
        let request = Request::get(path).header("accept", TABLE_TYPE).body(Vec::new())?;
        let table: Result<Value, _> = self.api.client().request(request).await;
        table.map_err(|error| anyhow!("{error}"))
    }

    /// An object as YAML, and its events.
    async fn description(&self, path: &str) -> anyhow::Result<String> {
        let object = without_managed_fields(self.api.get(path).await?);
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
        let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let events = format!("/api/v1/events?fieldSelector={}", escaped(&selector));
        let events = self.table(&events).await?;
        let has_events = events["rows"].as_array().is_some_and(|rows| !rows.is_empty());
        let events = if has_events {
            format!("Events:\n{}", table_text(&events, false, &[]))
        } else {
            "Events: none\n".to_owned()
        };
        Ok(format!("{}\n{events}", yaml_text(&object)?))
    }
}

/// An object or a list without the entries that only the API server needs.
fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(items) = object.as_object_mut().and_then(|list| list.get_mut("items"))
        && let Some(items) = items.as_array_mut()
    {
        for item in items {
            *item = without_managed_fields(std::mem::take(item));
        }
    }
    object
}

fn yaml_text(object: &Value) -> anyhow::Result<String> {
    Ok(serde_yaml::to_string(&with_whole_numbers(serde_json::to_value(object)?))?)
}

/// Whole numbers without decimals, as kubectl prints them.
fn with_whole_numbers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Number(number) => whole_number(&number).map_or(Json::Number(number), Json::from),
        Json::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Json::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (name, with_whole_numbers(value))).collect()
        }
        Json::Null | Json::Bool(_) | Json::String(_) => value,
    }
}

/// The integer that a number with decimals is; `None` if it is none.
fn whole_number(number: &serde_json::Number) -> Option<i64> {
    let text = number.to_string();
    text.strip_suffix(".0")?.parse().ok()
}

/// The rows of a table, with the columns that `kubectl get` shows.
fn table_text(table: &Value, is_wide: bool, labels: &[String]) -> String {
    let columns = table["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| is_wide || columns[*at]["priority"].as_i64().unwrap_or(0) == 0)
        .collect();
    let title = |at: &usize| columns[*at]["name"].as_str().unwrap_or_default().to_uppercase();
    let label_title = |label: &String| label.rsplit('/').next().unwrap_or_default().to_uppercase();
    let titles = shown.iter().map(title).chain(labels.iter().map(label_title));
    let mut rows: Vec<Vec<String>> = vec![titles.collect()];
    for row in table["rows"].as_array().into_iter().flatten() {
        let label = |label: &String| {
            let value = &row["object"]["metadata"]["labels"][label.as_str()];
            value.as_str().unwrap_or_default().to_owned()
        };
        let cells = shown.iter().map(|at| cell_text(&row["cells"][*at]));
        rows.push(cells.chain(labels.iter().map(label)).collect());
    }
    if rows.len() == 1 {
        return "No resources found.\n".to_owned();
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Number(number) => {
            whole_number(number).map_or_else(|| number.to_string(), |whole| whole.to_string())
        }
        Value::String(text) => text.to_string(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {

    use schedlab_api::json;

    use super::*;

    fn query(verb: &str, line: &str) -> Result<Query, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Query::parse(verb, &words)
    }

    #[test]
    fn a_name_is_found_wherever_options_stand() {
        let before = query("get", "-o yaml queue team-prod").unwrap();
        assert_eq!(before, query("get", "queue/team-prod -oyaml").unwrap());
        assert_eq!((before.kind.as_str(), before.view), ("queue", View::Yaml));
        let events = query("get", "events -A --field-selector reason=Evict").unwrap();
        assert!(events.all_namespaces && events.name.is_none());
        assert_eq!(events.selectors, ["fieldSelector=reason%3DEvict"]);
    }

    #[test]
    fn what_kubectl_has_and_this_has_not_is_reported() {
        let error = |verb: &str, line: &str| query(verb, line).unwrap_err();
        insta::assert_snapshot!(error("get", "pods -o json"), @"-o: got json, expected yaml or wide");
        insta::assert_snapshot!(error("get", "pods --watch-only x"), @"got --watch-only, expected one of -n, -A, -o, -l, -L, --field-selector");
        insta::assert_snapshot!(error("describe", "pods"), @"kubectl describe: got pods, expected KIND NAME");
    }

    #[test]
    fn whole_numbers_are_printed_without_decimals() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Quota", "priority": 0},
                {"name": "Limit", "priority": 1},
            ],
            "rows": [{
                "cells": ["team-prod", 16.0, -1],
                "object": {"metadata": {"labels": {"a.b/app": "x"}}},
            }],
        });
        insta::assert_snapshot!(table_text(&table, false, &["a.b/app".to_owned()]), @"
        NAME        QUOTA   APP
        team-prod   16      x
        ");
        assert!(yaml_text(&json!({"quota": 16.0})).unwrap().contains("quota: 16\n"));
    }
}
