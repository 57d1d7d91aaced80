//! Query parameters of a request.

use crate::api_types::error::{ApiError, Cause, Details};
use crate::api_types::field_selector::FieldSelector;
use crate::api_types::kinds::Kind;
use crate::api_types::label_selector::LabelSelector;
use crate::store::watch::WatchQuery;
use crate::store::{FieldValidation, ListQuery, Propagation};

use super::path::percent_decoded;

/// The query parameters of a request, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let plain = |text: &str| percent_decoded(&text.replace('+', " "));
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (plain(name), plain(value)))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn text_parameter(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Whether a boolean parameter is set. As in Kubernetes, any value but `false` and `0` sets it.
    pub(super) fn is_enabled(&self, name: &str) -> bool {
        self.bool_parameter(name) == Some(true)
    }

    fn bool_parameter(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    pub(super) fn number_parameter(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
            ApiError::bad_request(why)
        })
    }

    /// Whether the parameter `dryRun` is set. `options` is the kind of the request options, for
    /// errors.
    pub(super) fn is_dry_run(&self, options: &str) -> Result<bool, ApiError> {
        let runs = self.0.iter().filter(|(key, _)| key == "dryRun");
        parse_dry_run(&runs.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), options)
    }

    pub(super) fn field_validation(&self, options: &str) -> Result<FieldValidation, ApiError> {
        match self.get("fieldValidation") {
            None | Some("" | "Warn") => Ok(FieldValidation::Warn),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some(other) => {
                let message = format!(
                    "Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \
                     \"Warn\""
                );
                let reason = "FieldValueNotSupported";
                Err(invalid_options(options, "fieldValidation", reason, message))
            }
        }
    }

    pub(super) fn list_query(
        &self,
        kind: &Kind,
        target: &PathSelection<'_>,
    ) -> Result<ListQuery, ApiError> {
        if self.get("sendInitialEvents").is_some() {
            let message = "Forbidden: sendInitialEvents is forbidden for list".to_owned();
            let field = "sendInitialEvents";
            return Err(invalid_options("ListOptions", field, "FieldValueForbidden", message));
        }
        self.number_parameter("timeoutSeconds")?;
        let (labels, fields) = self.label_and_field_selectors(kind, target)?;
        Ok(ListQuery {
            namespace: target.namespace.map(str::to_owned),
            labels,
            fields,
            limit: self
                .number_parameter("limit")?
                .and_then(|limit| limit.try_into().ok())
                .unwrap_or(0),
            continue_token: self.text_parameter("continue"),
            resource_version: self.text_parameter("resourceVersion"),
            version_match: self.text_parameter("resourceVersionMatch"),
        })
    }

    pub(super) fn watch_query(
        &self,
        kind: &Kind,
        target: &PathSelection<'_>,
    ) -> Result<WatchQuery, ApiError> {
        let (labels, fields) = self.label_and_field_selectors(kind, target)?;
        Ok(WatchQuery {
            resource: kind.storage_resource(),
            namespace: target.namespace.map(str::to_owned),
            labels,
            fields,
            resource_version: self.text_parameter("resourceVersion"),
            version_match: self.text_parameter("resourceVersionMatch"),
            initial_events: self.bool_parameter("sendInitialEvents"),
            bookmarks: self.is_enabled("allowWatchBookmarks"),
        })
    }

    fn label_and_field_selectors(
        &self,
        kind: &Kind,
        target: &PathSelection<'_>,
    ) -> Result<(LabelSelector, FieldSelector), ApiError> {
        let labels = LabelSelector::parse(self.get("labelSelector").unwrap_or_default())?;
        let fields = match target.name {
            Some(name) => FieldSelector::name(name),
            None => FieldSelector::parse(self.get("fieldSelector").unwrap_or_default(), kind)?,
        };
        Ok((labels, fields))
    }
}

/// The namespace and name in a request path, which select objects of a collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathSelection<'p> {
    pub(super) namespace: Option<&'p str>,
    pub(super) name: Option<&'p str>,
}

/// Whether the values of `dryRun` ask for a dry run. `options` is the kind of the request options,
/// for errors.
pub(super) fn parse_dry_run(runs: &[&str], options: &str) -> Result<bool, ApiError> {
    if runs.iter().all(|run| *run == "All") {
        return Ok(!runs.is_empty());
    }
    let message =
        format!("Unsupported value: {}: supported values: \"All\"", schedlab_api::json!(runs));
    Err(invalid_options(options, "dryRun", "FieldValueNotSupported", message))
}

/// Parses `propagationPolicy`.
pub(super) fn parse_propagation(text: &str) -> Result<Propagation, ApiError> {
    match text {
        "Orphan" => Ok(Propagation::Orphan),
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        other => {
            let message = format!(
                "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \
                 \"Orphan\", \"nil\""
            );
            let reason = "FieldValueNotSupported";
            Err(invalid_options("DeleteOptions", "propagationPolicy", reason, message))
        }
    }
}

/// The 422 error for invalid request options.
pub(super) fn invalid_options(kind: &str, field: &str, reason: &str, message: String) -> ApiError {
    let text = format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {message}");
    let details =
        Details { group: "meta.k8s.io".to_owned(), kind: kind.to_owned(), ..Details::default() };
    let cause = Cause { reason: reason.to_owned(), message, field: field.to_owned() };
    ApiError { details: Some(Box::new(details)), ..ApiError::new(422, "Invalid", text) }
        .with_cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc+in+%28d%29&watch=1&limit=5"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.is_enabled("watch"));
        assert_eq!(query.number_parameter("limit"), Ok(Some(5)));
        assert_eq!(query.number_parameter("timeoutSeconds"), Ok(None));
    }

    #[test]
    fn wrong_values_are_named() {
        let query = Query::parse(Some("dryRun=some&fieldValidation=hard&limit=few"));
        assert_eq!(
            query.is_dry_run("CreateOptions").unwrap_err().message,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"some\"]: \
             supported values: \"All\""
        );
        assert_eq!(query.field_validation("CreateOptions").unwrap_err().code, 422);
        assert_eq!(query.number_parameter("limit").unwrap_err().code, 400);
    }
}
