//! Programs of others: where they are and which version.

use std::path::Path;

use super::{Ability, Target};
use crate::tools::{ANSWER_MAX, Tool, ToolError};

/// What kubectl must at least be: older ones ask for an OpenAPI that the emulator has not got.
const KUBECTL_MINOR_MIN: u32 = 29;

pub(super) async fn helm() -> Ability {
    let mut ability = Ability::of(Target::Helm);
    ability.take("helm", ask(Tool::Helm, &["version", "--template", "{{.Version}}"]).await);
    ability
}

pub(super) async fn kubectl() -> Ability {
    let mut ability = Ability::of(Target::Kubectl);
    let said = ask(Tool::Kubectl, &["version", "--client", "-o", "json"]).await;
    let said = said.map(|text| serde_json::from_str(&text).unwrap_or_default());
    let version = said.map(|said: schedlab_json::Value| {
        said["clientVersion"]["gitVersion"].as_str().unwrap_or("of unknown version").to_owned()
    });
    if let Some(minor) = version.as_deref().ok().and_then(minor)
        && minor < KUBECTL_MINOR_MIN
    {
        let too_old = format!("kubectl is 1.{minor}, `schedlab up` needs 1.{KUBECTL_MINOR_MIN}");
        ability.lacks(
            too_old,
            "make control-plane builds one, or https://kubernetes.io/docs/tasks/tools",
        );
    }
    ability.take("kubectl", version);
    ability
}

/// `v1.35.4` is 35.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// A question to a tool.
pub(super) async fn ask(tool: Tool, args: &[&str]) -> Result<String, ToolError> {
    tool.ask(&tool.program(), args, ANSWER_MAX).await
}

/// What a program answers to `--version`: the first word of it that looks like a version.
pub(super) async fn version(program: &Path) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").kill_on_drop(true);
    let ran = tokio::time::timeout(ANSWER_MAX, command.output()).await;
    let output = ran.map_err(|_| "does not answer".to_owned())?.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digit =
        |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let version = text.split_whitespace().find(digit);
    version.map(str::to_owned).ok_or_else(|| "tells no version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_minor() {
        assert_eq!(minor("v1.35.4"), Some(35));
        assert_eq!(minor("of unknown version"), None);
    }

    #[tokio::test]
    async fn who_does_not_answer_is_not_waited_for() {
        let limit = std::time::Duration::from_millis(50);
        let error = Tool::Docker.ask("sleep".as_ref(), &["1000"], limit).await.unwrap_err();
        assert_eq!(error.said, "no answer within 0.05 s");
        assert!(error.remedy.unwrap().contains("hangs"));
    }
}
