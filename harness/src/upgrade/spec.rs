//! Which version of a scheduler: `process:COMMAND`, `image:REFERENCE` or `chart:CHART`.

use std::fmt;
use std::str::FromStr;

use crate::ground::Chart;
use crate::target::only_placeholders;
use crate::tools::starts_with_program;

/// What stands for what in a command.
const PLACEHOLDERS: [&str; 2] = ["{kubeconfig}", "{scheduler-name}"];

/// What there is.
const ALLOWED: &str = "allowed are process:COMMAND, as `process:schedlab-scheduler run --kubeconfig \
    {kubeconfig} --scheduler-name {scheduler-name}`, image:REFERENCE, as `image:schedlab/scheduler:dev`, \
    and chart:CHART with arguments for helm, as `chart:kind-configs/chart --set image.tag=dev`";

/// A version of a scheduler, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A command for the shell.
    Process(String),
    /// Our manifests, with this image.
    Image(String),
    /// A Helm chart.
    Chart(Chart),
}

impl Spec {
    /// The word before the colon.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Process(_) => "process",
            Self::Image(_) => "image",
            Self::Chart(_) => "chart",
        }
    }

    /// Whether it is installed on a cluster that runs containers.
    pub fn is_installed(&self) -> bool {
        match self {
            Self::Process(_) => false,
            Self::Image(_) | Self::Chart(_) => true,
        }
    }
}

/// A command with its placeholders filled in.
pub(super) fn filled(command: &str, kubeconfig: &str, scheduler_name: &str) -> String {
    command
        .replace(PLACEHOLDERS[0], &quoted(kubeconfig))
        .replace(PLACEHOLDERS[1], &quoted(scheduler_name))
}

/// One word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((kind, rest)) = text.split_once(':').map(|(kind, rest)| (kind, rest.trim()))
        else {
            return Err(format!("`{text}` names no version of a scheduler; {ALLOWED}"));
        };
        let mut words = rest.split_whitespace().map(str::to_owned);
        match (kind, words.next()) {
            ("process", Some(_)) => command(rest).map(Self::Process),
            ("image", Some(image)) if words.next().is_none() => Ok(Self::Image(image)),
            ("image", Some(_)) => Err(format!("`{rest}` is more than one image; {ALLOWED}")),
            ("chart", Some(chart)) => Ok(Self::Chart(Chart { chart, arguments: words.collect() })),
            ("process", None) => Err(format!("`{text}` has no command; {ALLOWED}")),
            ("image" | "chart", None) => Err(format!("`{text}` names no {kind}; {ALLOWED}")),
            _ => Err(format!("`{text}` names no version of a scheduler; {ALLOWED}")),
        }
    }
}

fn command(text: &str) -> Result<String, String> {
    starts_with_program(text)?;
    only_placeholders(text, &PLACEHOLDERS).map(|()| text.to_owned())
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind())?;
        match self {
            Self::Process(text) | Self::Image(text) => f.write_str(text),
            Self::Chart(chart) => {
                f.write_str(&chart.chart)?;
                chart.arguments.iter().try_for_each(|word| write!(f, " {word}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_others_refused() {
        let text = "x --config {kubeconfig} -n {scheduler-name}";
        assert_eq!(format!("process:{text}").parse(), Ok(Spec::Process(text.to_owned())));
        assert_eq!(filled(text, "/tmp/it's", "kai"), r"x --config '/tmp/it'\''s' -n 'kai'");
        let refused = "process:x {kubecfg}".parse::<Spec>().unwrap_err();
        assert!(refused.contains("no placeholder {kubecfg}"), "{refused}");
        assert!("process:x ${HOME}".parse::<Spec>().is_ok());
        let refused = "process:A=1 x".parse::<Spec>().unwrap_err();
        assert!(refused.ends_with("allowed is `env A=1 x`"), "{refused}");
    }

    #[test]
    fn what_is_no_version_is_told_with_what_is_allowed() {
        for text in ["process:", "image", "image: ", "chart:", "image:a b", "binary:x"] {
            assert!(text.parse::<Spec>().unwrap_err().contains("process:COMMAND"), "{text}");
        }
    }

    #[test]
    fn a_chart_has_arguments_for_helm_and_is_told_with_them() {
        let text = "chart:./chart --set image.tag=v2";
        let spec: Spec = text.parse().unwrap();
        let arguments = ["--set", "image.tag=v2"].map(str::to_owned).to_vec();
        assert_eq!(spec, Spec::Chart(Chart { chart: "./chart".to_owned(), arguments }));
        assert_eq!(spec.to_string(), text);
    }
}
