//! Checks what this machine can run: always the emulator, and real clusters if their programs are
//! installed. Nothing is started or changed.

mod clusters;
mod machine;
mod programs;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::external_tools::ToolError;

/// A way to use schedlab whose prerequisites the doctor can check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Features on the emulator, in this process.
    #[default]
    Emulator,
    /// Running features on a control plane of etcd and Kubernetes' own programs.
    ControlPlane,
    /// Running features on a cluster in a container.
    Container,
    /// Running features on a kind cluster.
    Kind,
    /// Running features on any cluster, by its kubeconfig.
    Kubeconfig,
    /// Installing the scheduler with its Helm chart.
    Helm,
    /// Inspecting `schedlab up` and real clusters with kubectl.
    Kubectl,
}

/// The results of all checks of the doctor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// One result per check.
    #[serde(rename = "abilities")]
    pub checks: Vec<CheckResult>,
    /// Cores, memory, disk and limits of this machine.
    pub machine: Vec<String>,
}

/// What the doctor found and missed in one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// What was checked.
    #[serde(rename = "target")]
    pub check: Check,
    /// Whether nothing is missing.
    pub ready: bool,
    /// Prerequisites that were found, with their versions.
    pub found: Vec<String>,
    /// Prerequisites that are missing.
    pub missing: Vec<MissingPrerequisite>,
}

/// A missing prerequisite and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingPrerequisite {
    /// What is missing.
    pub what: String,
    /// How to get the prerequisite.
    pub remedy: String,
}

impl CheckResult {
    fn new(check: Check) -> Self {
        Self { check, ready: true, found: Vec::new(), missing: Vec::new() }
    }

    fn add_found(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    fn add_missing(&mut self, what: impl Into<String>, hint: impl Into<String>) {
        self.ready = false;
        self.missing.push(MissingPrerequisite { what: what.into(), remedy: hint.into() });
    }

    /// Adds the output of a program as found, or its error as missing.
    fn add_tool_output(&mut self, name: &str, output: Result<String, ToolError>) {
        match output {
            Ok(version) => self.add_found(format!("{name} {}", version.trim())),
            Err(error) => {
                let first_line = error.output.lines().next().unwrap_or_default();
                let hint = error.hint.unwrap_or_else(|| format!("try `{}`", error.command));
                self.add_missing(format!("{name}: {first_line}"), hint);
            }
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emulator => "emulator",
            Self::ControlPlane => "control-plane",
            Self::Container => "container",
            Self::Kind => "kind",
            Self::Kubeconfig => "kubeconfig",
            Self::Helm => "helm",
            Self::Kubectl => "kubectl",
        })
    }
}

/// Runs these checks.
pub async fn run_checks(checks: &[Check]) -> DoctorReport {
    let mut abilities = Vec::new();
    for check in checks {
        abilities.push(match check {
            Check::Emulator => clusters::emulator(),
            Check::ControlPlane => clusters::control_plane().await,
            Check::Container => clusters::container().await,
            Check::Kind => clusters::kind().await,
            Check::Kubeconfig => clusters::kubeconfig().await,
            Check::Helm => programs::helm().await,
            Check::Kubectl => programs::kubectl().await,
        });
    }
    DoctorReport { checks: abilities, machine: machine::facts() }
}
