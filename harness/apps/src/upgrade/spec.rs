//! The version of a scheduler: `process:COMMAND`, `image:REFERENCE` or `chart:CHART`.

use std::fmt;
use std::str::FromStr;

use schedlab_clusters::external_tools::check_command_starts_with_program;
use schedlab_clusters::real_cluster::HelmChart;
use schedlab_conformance::schedulers::check_placeholders;

/// Placeholders in the command of a `process:` version.
const PLACEHOLDERS: [&str; 2] = ["{kubeconfig}", "{scheduler-name}"];

/// The expected syntax of a version, for error messages.
const ALLOWED_SPECS: &str = "expected process:COMMAND, such as `process:schedlab-scheduler run \
    --kubeconfig {kubeconfig} --scheduler-name {scheduler-name}`, image:REFERENCE, such as \
        `image:schedlab/scheduler:dev`, or chart:CHART with arguments for helm, such as \
            `chart:kind-configs/chart --set image.tag=dev`";

/// A version of a scheduler, and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerSpec {
    /// A shell command that runs the scheduler.
    Process(String),
    /// The image of a scheduler that is deployed with our manifests.
    Image(String),
    /// A Helm chart that installs the scheduler.
    Chart(HelmChart),
}

impl SchedulerSpec {
    /// The word before the colon: `process`, `image` or `chart`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Process(_) => "process",
            Self::Image(_) => "image",
            Self::Chart(_) => "chart",
        }
    }

    /// Whether the version runs in containers on the cluster.
    pub fn is_installed(&self) -> bool {
        match self {
            Self::Process(_) => false,
            Self::Image(_) | Self::Chart(_) => true,
        }
    }
}

/// A command with its placeholders filled in.
pub(super) fn fill_placeholders(command: &str, kubeconfig: &str, scheduler_name: &str) -> String {
    command
        .replace(PLACEHOLDERS[0], &shell_quoted(kubeconfig))
        .replace(PLACEHOLDERS[1], &shell_quoted(scheduler_name))
}

/// Quotes a word for the shell.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl FromStr for SchedulerSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((kind, rest)) = text.split_once(':').map(|(kind, rest)| (kind, rest.trim()))
        else {
            return Err(format!("got `{text}`, {ALLOWED_SPECS}"));
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        match (kind, words.next()) {
            ("process", Some(_)) => parse_command(rest).map(Self::Process),
            ("image", Some(image)) if words.next().is_none() => Ok(Self::Image(image)),
            ("image", Some(_)) => Err(format!("got several images `{rest}`, {ALLOWED_SPECS}")),
            ("chart", Some(chart)) => {
                Ok(Self::Chart(HelmChart { source: chart, arguments: words.collect() }))
            }
            ("process", None) => Err(format!("got `{text}` without a command, {ALLOWED_SPECS}")),
            ("image" | "chart", None) => {
                Err(format!("got `{text}` without a value, {ALLOWED_SPECS}"))
            }
            _ => Err(format!("got `{text}`, {ALLOWED_SPECS}")),
        }
    }
}

fn parse_command(text: &str) -> Result<String, String> {
    check_command_starts_with_program(text)?;
    check_placeholders(text, &PLACEHOLDERS).map(|()| text.to_owned())
}

impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind())?;
        match self {
            Self::Process(text) | Self::Image(text) => f.write_str(text),
            Self::Chart(chart) => {
                f.write_str(&chart.source)?;
                chart.arguments.iter().try_for_each(|word| write!(f, " {word}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_unknown_ones_rejected() {
        let text = "x --config {kubeconfig} -n {scheduler-name}";
        assert_eq!(format!("process:{text}").parse(), Ok(SchedulerSpec::Process(text.to_owned())));
        assert_eq!(
            fill_placeholders(text, "/tmp/it's", "kai"),
            r"x --config '/tmp/it'\''s' -n 'kai'"
        );
        let refused = "process:x {kubecfg}".parse::<SchedulerSpec>().unwrap_err();
        assert!(refused.contains("unknown placeholder: got {kubecfg}"), "{refused}");
        assert!("process:x ${HOME}".parse::<SchedulerSpec>().is_ok());
        let refused = "process:A=1 x".parse::<SchedulerSpec>().unwrap_err();
        assert!(refused.ends_with("expected `env A=1 x`"), "{refused}");
    }

    #[test]
    fn an_invalid_spec_is_rejected_with_the_expected_forms() {
        for text in ["process:", "image", "image: ", "chart:", "image:a b", "binary:x"] {
            assert!(
                text.parse::<SchedulerSpec>().unwrap_err().contains("process:COMMAND"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_chart_spec_keeps_its_helm_arguments() {
        let text = "chart:./chart --set image.tag=v2";
        let spec: SchedulerSpec = text.parse().unwrap();
        let arguments = ["--set", "image.tag=v2"].map(str::to_owned).to_vec();
        assert_eq!(
            spec,
            SchedulerSpec::Chart(HelmChart { source: "./chart".to_owned(), arguments })
        );
        assert_eq!(spec.to_string(), text);
    }
}
