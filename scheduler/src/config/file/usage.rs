//! Settings of the external usage database, with KAI's keys (`usageDBConfig`).

use std::time::Duration;

use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{DurationSetting, FileError};
use crate::usage::{Endpoint, PollTiming, UsageDatabase, UsageQueries, Window};

/// External database with the past usage of queues.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageDbSetting {
    /// Type of the database.
    pub client_type: UsageClient,
    /// URL, for example `http://prometheus-operated.kai-scheduler.svc:9090`. Either this or
    /// connectionStringEnvVar is required.
    pub connection_string: Option<String>,
    /// Environment variable that holds the URL.
    pub connection_string_env_var: Option<String>,
    /// Window, decay and timing of queries.
    #[serde(default)]
    pub usage_params: UsageParams,
}

/// Supported databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageClient {
    /// Prometheus, or a database with its API.
    Prometheus,
}

/// Window, decay and timing of queries.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// Half-life of past usage [default: no decay within the window].
    #[schemars(with = "Option<String>")]
    pub half_life_period: Option<DurationSetting>,
    /// Length of the window, for example 24h or 1w [default: 1w].
    #[schemars(with = "Option<String>")]
    pub window_size: Option<DurationSetting>,
    /// Type of the window [default: sliding].
    pub window_type: Option<WindowType>,
    /// Start of the first tumbling window, for example `2026-01-05T00:00:00Z`.
    pub tumbling_window_start_time: Option<String>,
    /// Start times of windows of type cron, in UTC, for example `0 0 * * 1`.
    pub cron_string: Option<String>,
    /// Time from one response to the next query [default: 1m].
    #[schemars(with = "Option<String>")]
    pub fetch_interval: Option<DurationSetting>,
    /// Age after which a response is not used any more; at least the fetch interval [default: 5m].
    #[schemars(with = "Option<String>")]
    pub staleness_period: Option<DurationSetting>,
    /// Maximum time that the first cycle waits for the first response [default: 1m].
    #[schemars(with = "Option<String>")]
    pub wait_timeout: Option<DurationSetting>,
    /// Settings specific to this type of database.
    #[serde(default)]
    pub extra_params: PrometheusParams,
}

/// Type of the usage window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowType {
    /// The last windowSize up to now.
    Sliding,
    /// The elapsed part of the current window; windows follow each other.
    Tumbling,
    /// The time since the last start time of cronString.
    Cron,
}

/// Settings of Prometheus; metrics are `PromQL` expressions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusParams {
    /// Allocated GPUs by queue [default: `kai_queue_allocated_gpus`].
    pub gpu_allocation_metric: Option<String>,
    /// Allocated CPU by queue [default: `kai_queue_allocated_cpu_cores`].
    pub cpu_allocation_metric: Option<String>,
    /// Allocated memory by queue [default: `kai_queue_allocated_memory_bytes`].
    pub memory_allocation_metric: Option<String>,
    /// GPUs of the cluster [default: `sum(kube_node_status_capacity{resource="nvidia_com_gpu"})`].
    pub gpu_capacity_metric: Option<String>,
    /// CPU of the cluster [default: `sum(kube_node_status_capacity{resource="cpu"})`].
    pub cpu_capacity_metric: Option<String>,
    /// Memory of the cluster [default: `sum(kube_node_status_capacity{resource="memory"})`].
    pub memory_capacity_metric: Option<String>,
    /// Time limit of a query [default: 10s].
    #[schemars(with = "Option<String>")]
    pub usage_query_timeout: Option<DurationSetting>,
    /// Resolution of the queried values [default: 1m].
    #[schemars(with = "Option<String>")]
    pub query_resolution: Option<DurationSetting>,
}

impl UsageDbSetting {
    /// Converts the settings to a usage database. `variable` looks up environment variables.
    pub(super) fn to_database(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<UsageDatabase, FileError> {
        let params = &self.usage_params;
        let or = |time: Option<DurationSetting>, secs| {
            time.map_or(Duration::from_secs(secs), |time| time.0)
        };
        Ok(UsageDatabase {
            endpoint: Endpoint::Url(self.database_address(variable)?),
            window: params.resolve_window()?,
            half_life: params.half_life_period.map(|time| time.0).filter(|time| !time.is_zero()),
            resolution: or(params.extra_params.query_resolution, 60),
            queries: params.extra_params.usage_queries(),
            timing: PollTiming {
                fetch_interval: or(params.fetch_interval, 60),
                staleness: or(params.staleness_period, 5 * 60),
                first_answer_timeout: or(params.wait_timeout, 60),
                query_timeout: or(params.extra_params.usage_query_timeout, 10),
            },
        })
    }

    fn database_address(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Uri, FileError> {
        let wrong = |field, found: &str, allowed| {
            Err(FileError::Value { field, found: found.to_owned(), allowed })
        };
        let (field, text) = match (&self.connection_string, &self.connection_string_env_var) {
            (Some(text), None) => ("usageDBConfig.connectionString", text.clone()),
            (None, Some(name)) => {
                let field = "usageDBConfig.connectionStringEnvVar";
                let Some(text) = variable(name) else {
                    return wrong(field, name, "the name of an environment variable that is set");
                };
                (field, text)
            }
            (None, None) | (Some(_), Some(_)) => {
                let found = if self.connection_string.is_some() { "both" } else { "neither" };
                let allowed = "either connectionString or connectionStringEnvVar";
                return wrong("usageDBConfig.connectionString", found, allowed);
            }
        };
        let parsed: Option<Uri> = text.parse().ok();
        let address = parsed.filter(|uri| {
            let has_host = uri.host().is_some_and(|host| !host.is_empty());
            let has_user = uri.authority().is_some_and(|it| it.as_str().contains('@'));
            let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
            is_web && has_host && !has_user && uri.query().is_none()
        });
        match address {
            Some(address) => Ok(address),
            // The text may contain a password, so it is not shown.
            None if text.contains('@') => {
                wrong(field, "a user", "http://HOST:PORT or https://HOST:PORT, without a user")
            }
            None => {
                wrong(field, &text, "http://HOST:PORT or https://HOST:PORT, optionally with a path")
            }
        }
    }

    /// Durations that must be above 0, by field path.
    pub(super) fn positive_durations(&self) -> [(&'static str, Option<DurationSetting>); 6] {
        let UsageParams { fetch_interval, staleness_period, wait_timeout, extra_params, .. } =
            &self.usage_params;
        let PrometheusParams { usage_query_timeout, query_resolution, .. } = extra_params;
        [
            ("usageDBConfig.usageParams.windowSize", self.usage_params.window_size),
            ("usageDBConfig.usageParams.fetchInterval", *fetch_interval),
            ("usageDBConfig.usageParams.stalenessPeriod", *staleness_period),
            ("usageDBConfig.usageParams.waitTimeout", *wait_timeout),
            ("usageDBConfig.usageParams.extraParams.usageQueryTimeout", *usage_query_timeout),
            ("usageDBConfig.usageParams.extraParams.queryResolution", *query_resolution),
        ]
    }
}

impl UsageParams {
    fn resolve_window(&self) -> Result<Window, FileError> {
        let size = self.window_size.map_or(Duration::from_hours(7 * 24), |size| size.0);
        let of_type = self.window_type.unwrap_or(WindowType::Sliding);
        let start = self.tumbling_window_start_time.as_deref();
        let cron = self.cron_string.as_deref().filter(|text| !text.is_empty());
        let wrong = |field, found: Option<&str>, allowed| {
            let found = found.unwrap_or("nothing").to_owned();
            Err(FileError::Value { field, found, allowed })
        };
        let (start_field, cron_field) = (
            "usageDBConfig.usageParams.tumblingWindowStartTime",
            "usageDBConfig.usageParams.cronString",
        );
        if of_type != WindowType::Tumbling && start.is_some() {
            return wrong(start_field, start, "no value without windowType: tumbling");
        }
        if of_type != WindowType::Cron && cron.is_some() {
            return wrong(cron_field, cron, "no value without windowType: cron");
        }
        match of_type {
            WindowType::Sliding => Ok(Window::Sliding(size)),
            WindowType::Tumbling => match start.and_then(|start| start.parse().ok()) {
                Some(start) => Ok(Window::Tumbling { start, size }),
                None => wrong(start_field, start, "a time such as 2026-01-05T00:00:00Z"),
            },
            WindowType::Cron => match cron.and_then(|text| text.parse().ok()) {
                Some(moments) => Ok(Window::Cron(moments)),
                None => wrong(cron_field, cron, "a cron expression such as 0 0 * * 1"),
            },
        }
    }
}

impl PrometheusParams {
    fn usage_queries(&self) -> UsageQueries {
        let UsageQueries { gpu, cpu, memory } = UsageQueries::kai_defaults();
        let or = |[used, whole]: [String; 2], given: [&Option<String>; 2]| {
            [given[0].clone().unwrap_or(used), given[1].clone().unwrap_or(whole)]
        };
        UsageQueries {
            gpu: or(gpu, [&self.gpu_allocation_metric, &self.gpu_capacity_metric]),
            cpu: or(cpu, [&self.cpu_allocation_metric, &self.cpu_capacity_metric]),
            memory: or(memory, [&self.memory_allocation_metric, &self.memory_capacity_metric]),
        }
    }
}
