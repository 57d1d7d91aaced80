//! Which version of a scheduler: `process:COMMAND`.

use std::fmt;
use std::str::FromStr;

/// What stands for what in a command.
const PLACEHOLDERS: [&str; 2] = ["{kubeconfig}", "{scheduler-name}"];

/// A version of a scheduler, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A command for the shell.
    Process(String),
}

impl Spec {
    /// The command with its placeholders filled in.
    pub(super) fn command(&self, kubeconfig: &str, scheduler_name: &str) -> String {
        let Self::Process(command) = self;
        command
            .replace(PLACEHOLDERS[0], &quoted(kubeconfig))
            .replace(PLACEHOLDERS[1], &quoted(scheduler_name))
    }
}

/// One word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = "allowed is process:COMMAND, as `process:schedlab-scheduler run --kubeconfig \
                       {kubeconfig} --scheduler-name {scheduler-name}`";
        let Some(("process", command)) = text.split_once(':') else {
            return Err(format!("`{text}` names no version of a scheduler; {allowed}"));
        };
        if command.trim().is_empty() {
            return Err(format!("`{text}` has no command; {allowed}"));
        }
        let odd = command.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
        let odd = odd.map(|(name, _)| format!("{{{name}}}"));
        let word = |name: &String| {
            let inside = name.trim_matches(['{', '}']);
            !inside.is_empty() && inside.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        if let Some(odd) = odd.filter(word).find(|name| !PLACEHOLDERS.contains(&name.as_str())) {
            let known = PLACEHOLDERS.join(" and ");
            return Err(format!("there is no placeholder {odd} in a command; there are {known}"));
        }
        Ok(Self::Process(command.trim().to_owned()))
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Process(command) = self;
        write!(f, "process:{command}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_others_refused() {
        let spec: Spec = "process:x --config {kubeconfig} -n {scheduler-name}".parse().unwrap();
        assert_eq!(spec.command("/tmp/it's", "kai"), r"x --config '/tmp/it'\''s' -n 'kai'");
        let refused = "process:x {kubecfg}".parse::<Spec>().unwrap_err();
        assert!(refused.contains("no placeholder {kubecfg}"), "{refused}");
        assert!("process:x ${HOME}".parse::<Spec>().is_ok());
    }

    #[test]
    fn what_is_no_version_is_told_with_what_is_allowed() {
        for text in ["process:", "image", "binary:x"] {
            assert!(text.parse::<Spec>().unwrap_err().contains("process:COMMAND"), "{text}");
        }
    }
}
