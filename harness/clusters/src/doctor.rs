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
pub enum DoctorCheck {
    /// Running features on the emulator, in this process.
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
    /// The results of the checks, one per check.
    #[serde(rename = "abilities")]
    pub checks: Vec<CheckResult>,
    /// Cores, memory, disk and limits of this machine.
    pub machine: Vec<String>,
}

/// What the doctor found and missed in one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The check that was made.
    #[serde(rename = "target")]
    pub check: DoctorCheck,
    /// Whether no prerequisite is missing.
    pub ready: bool,
    /// Prerequisites that were found, with their versions.
    pub found: Vec<String>,
    /// Prerequisites that are missing.
    pub missing: Vec<MissingPrerequisite>,
}

/// A missing prerequisite and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingPrerequisite {
    /// The prerequisite that is missing.
    pub what: String,
    /// How to get the prerequisite.
    pub remedy: String,
}

impl CheckResult {
    fn new(check: DoctorCheck) -> Self {
        Self { check, ready: true, found: Vec::new(), missing: Vec::new() }
    }

    fn add_found_line(&mut self, line: impl Into<String>) {
        self.found.push(line.into());
    }

    fn add_missing_prerequisite(
        &mut self,
        prerequisite: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.ready = false;
        self.missing.push(MissingPrerequisite { what: prerequisite.into(), remedy: hint.into() });
    }

    /// Adds a program's version as found, or the error as a missing prerequisite.
    fn add_version_or_missing(&mut self, name: &str, output: Result<String, ToolError>) {
        match output {
            Ok(version) => self.add_found_line(format!("{name} {}", version.trim())),
            Err(error) => {
                let first_line = error.output.lines().next().unwrap_or_default();
                let hint = error.hint.unwrap_or_else(|| format!("try `{}`", error.command));
                self.add_missing_prerequisite(format!("{name}: {first_line}"), hint);
            }
        }
    }
}

impl fmt::Display for DoctorCheck {
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

/// Runs these checks, and collects facts about the machine.
pub async fn run_checks(checks: &[DoctorCheck]) -> DoctorReport {
    let mut abilities = Vec::new();
    for check in checks {
        abilities.push(match check {
            DoctorCheck::Emulator => clusters::check_emulator(),
            DoctorCheck::ControlPlane => clusters::check_control_plane().await,
            DoctorCheck::Container => clusters::check_container().await,
            DoctorCheck::Kind => clusters::check_kind().await,
            DoctorCheck::Kubeconfig => clusters::check_kubeconfig().await,
            DoctorCheck::Helm => programs::check_helm().await,
            DoctorCheck::Kubectl => programs::check_kubectl().await,
        });
    }
    DoctorReport { checks: abilities, machine: machine::machine_facts() }
}
