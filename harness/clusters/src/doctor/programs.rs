//! Checks for external programs and their versions.

use std::path::Path;

use super::{CheckResult, DoctorCheck};
use crate::external_tools::{ExternalTool, RESPONSE_TIMEOUT, ToolError};

/// The oldest usable minor version of kubectl: older ones need an OpenAPI version that the emulator
/// lacks.
const KUBECTL_MINOR_MIN: u32 = 29;

pub(super) async fn check_helm() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Helm);
    result.add_version_or_missing(
        "helm",
        run_with_response_timeout(ExternalTool::Helm, &["version", "--template", "{{.Version}}"])
            .await,
    );
    result
}

pub(super) async fn check_kubectl() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Kubectl);
    let output =
        run_with_response_timeout(ExternalTool::Kubectl, &["version", "--client", "-o", "json"])
            .await;
    let output = output.map(|text| serde_json::from_str(&text).unwrap_or_default());
    let version = output.map(|output: schedlab_api::Value| {
        output["clientVersion"]["gitVersion"].as_str().unwrap_or("of unknown version").to_owned()
    });
    if let Some(minor) = version.as_deref().ok().and_then(minor_version)
        && minor < KUBECTL_MINOR_MIN
    {
        let too_old =
            format!("kubectl has version 1.{minor}, `schedlab up` needs 1.{KUBECTL_MINOR_MIN}");
        result.add_missing_prerequisite(
            too_old,
            "make control-plane builds one, or https://kubernetes.io/docs/tasks/tools",
        );
    }
    result.add_version_or_missing("kubectl", version);
    result
}

/// The minor version in a version text: 35 for `v1.35.4`.
fn minor_version(version: &str) -> Option<u32> {
    version.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}

/// Runs a quick command of a tool, such as `--version`, with a time limit.
pub(super) async fn run_with_response_timeout(
    tool: ExternalTool,
    args: &[&str],
) -> Result<String, ToolError> {
    tool.run_with_timeout(&tool.program_to_run(), args, RESPONSE_TIMEOUT).await
}

/// The first word that looks like a version in what `program --version` prints.
pub(super) async fn program_version(program: &Path) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").kill_on_drop(true);
    let ran = tokio::time::timeout(RESPONSE_TIMEOUT, command.output()).await;
    let output = ran.map_err(|_| "does not respond".to_owned())?.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digit =
        |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let version = text.split_whitespace().find(digit);
    version.map(str::to_owned).ok_or_else(|| "reports no version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_minor() {
        assert_eq!(minor_version("v1.35.4"), Some(35));
        assert_eq!(minor_version("of unknown version"), None);
    }

    #[tokio::test]
    async fn a_program_that_hangs_times_out() {
        let limit = std::time::Duration::from_millis(50);
        let error = ExternalTool::Docker
            .run_with_timeout("sleep".as_ref(), &["1000"], limit)
            .await
            .unwrap_err();
        assert_eq!(error.output, "no response within 0.05 s");
        assert!(error.hint.unwrap().contains("hangs"));
    }
}
