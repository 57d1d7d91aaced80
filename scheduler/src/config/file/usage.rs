//! The usage database, under KAI's names.

use std::time::Duration;

use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{FileError, Time};
use crate::usage::{Asked, Reached, Timing, UsageDatabase, Window};

/// A database that knows what queues used, in place of the own history.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageDbSetting {
    /// What it is.
    pub client_type: UsageClient,
    /// Where it is, as `http://prometheus-operated.kai-scheduler.svc:9090`; this or the next one.
    pub connection_string: Option<String>,
    /// The environment variable that says where it is.
    pub connection_string_env_var: Option<String>,
    /// What is asked, and when.
    #[serde(default)]
    pub usage_params: UsageParams,
}

/// Databases that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageClient {
    /// Prometheus, or what has its API.
    Prometheus,
}

/// What is asked, and when.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageParams {
    /// After so long past usage counts for half [default: alike over the whole window].
    #[schemars(with = "Option<String>")]
    pub half_life_period: Option<Time>,
    /// How long a window is, as 24h or 1w [default: 1w].
    #[schemars(with = "Option<String>")]
    pub window_size: Option<Time>,
    /// Whether the window goes along with time [default: sliding].
    pub window_type: Option<WindowType>,
    /// When the first tumbling window begins, as `2026-01-05T00:00:00Z`.
    pub tumbling_window_start_time: Option<String>,
    /// When windows of type cron begin, in UTC, as `0 0 * * 1`.
    pub cron_string: Option<String>,
    /// From one answer to the next question [default: 1m].
    #[schemars(with = "Option<String>")]
    pub fetch_interval: Option<Time>,
    /// An older answer does not count; at least the fetch interval [default: 5m].
    #[schemars(with = "Option<String>")]
    pub staleness_period: Option<Time>,
    /// The first cycle waits for the first answer so long at most [default: 1m].
    #[schemars(with = "Option<String>")]
    pub wait_timeout: Option<Time>,
    /// What only this kind of database is told.
    #[serde(default)]
    pub extra_params: PrometheusParams,
}

/// Which time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowType {
    /// The last window's size.
    Sliding,
    /// What has passed of the window; windows follow each other.
    Tumbling,
    /// What has passed since the last moment that the cron string names.
    Cron,
}

/// What only Prometheus is told; metrics are `PromQL`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrometheusParams {
    /// GPUs that queues use [default: `kai_queue_allocated_gpus`].
    pub gpu_allocation_metric: Option<String>,
    /// CPU that queues use [default: `kai_queue_allocated_cpu_cores`].
    pub cpu_allocation_metric: Option<String>,
    /// Memory that queues use [default: `kai_queue_allocated_memory_bytes`].
    pub memory_allocation_metric: Option<String>,
    /// GPUs of the cluster [default: `sum(kube_node_status_capacity{resource="nvidia_com_gpu"})`].
    pub gpu_capacity_metric: Option<String>,
    /// CPU of the cluster [default: `sum(kube_node_status_capacity{resource="cpu"})`].
    pub cpu_capacity_metric: Option<String>,
    /// Memory of the cluster [default: `sum(kube_node_status_capacity{resource="memory"})`].
    pub memory_capacity_metric: Option<String>,
    /// An answer takes so long at most [default: 10s].
    #[schemars(with = "Option<String>")]
    pub usage_query_timeout: Option<Time>,
    /// Time from one value to the next that is added up [default: 1m].
    #[schemars(with = "Option<String>")]
    pub query_resolution: Option<Time>,
}

impl UsageDbSetting {
    /// What it means, where the environment has these variables.
    pub(super) fn settings(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<UsageDatabase, FileError> {
        let params = &self.usage_params;
        let or = |time: Option<Time>, secs| time.map_or(Duration::from_secs(secs), |time| time.0);
        Ok(UsageDatabase {
            reached: Reached::At(self.address(variable)?),
            window: params.window()?,
            half_life: params.half_life_period.map(|time| time.0).filter(|time| !time.is_zero()),
            resolution: or(params.extra_params.query_resolution, 60),
            asked: params.extra_params.asked(),
            timing: Timing {
                fetch_interval: or(params.fetch_interval, 60),
                staleness: or(params.staleness_period, 5 * 60),
                wait: or(params.wait_timeout, 60),
                query: or(params.extra_params.usage_query_timeout, 10),
            },
        })
    }

    fn address(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Uri, FileError> {
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
                let allowed = "either it or connectionStringEnvVar";
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
            // It may hold a password.
            None if text.contains('@') => {
                wrong(field, "a user", "http://HOST:PORT or https://HOST:PORT, without a user")
            }
            None => wrong(field, &text, "http://HOST:PORT or https://HOST:PORT, and a path"),
        }
    }

    /// Times that have to last, by their names.
    pub(super) fn times(&self) -> [(&'static str, Option<Time>); 6] {
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
    fn window(&self) -> Result<Window, FileError> {
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
            return wrong(start_field, start, "nothing without windowType: tumbling");
        }
        if of_type != WindowType::Cron && cron.is_some() {
            return wrong(cron_field, cron, "nothing without windowType: cron");
        }
        match of_type {
            WindowType::Sliding => Ok(Window::Sliding(size)),
            WindowType::Tumbling => match start.and_then(|start| start.parse().ok()) {
                Some(start) => Ok(Window::Tumbling { start, size }),
                None => wrong(start_field, start, "a moment as 2026-01-05T00:00:00Z"),
            },
            WindowType::Cron => match cron.and_then(|text| text.parse().ok()) {
                Some(moments) => Ok(Window::Cron(moments)),
                None => wrong(cron_field, cron, "a cron expression as 0 0 * * 1"),
            },
        }
    }
}

impl PrometheusParams {
    fn asked(&self) -> Asked {
        let Asked { gpu, cpu, memory } = Asked::of_kai();
        let or = |[used, whole]: [String; 2], given: [&Option<String>; 2]| {
            [given[0].clone().unwrap_or(used), given[1].clone().unwrap_or(whole)]
        };
        Asked {
            gpu: or(gpu, [&self.gpu_allocation_metric, &self.gpu_capacity_metric]),
            cpu: or(cpu, [&self.cpu_allocation_metric, &self.cpu_capacity_metric]),
            memory: or(memory, [&self.memory_allocation_metric, &self.memory_capacity_metric]),
        }
    }
}
