//! What this machine can run: the emulator always, real clusters where their programs are. Looks
//! only; nothing is started or changed.

mod clusters;
mod machine;
mod programs;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::tools::ToolError;

/// What a user may want to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Features in this process.
    #[default]
    Emulator,
    /// Features on etcd and Kubernetes' own programs on this machine.
    ControlPlane,
    /// Features on a cluster in a container.
    Container,
    /// Features on kind.
    Kind,
    /// Features on any cluster.
    Kubeconfig,
    /// Installing the scheduler by its chart.
    Helm,
    /// Looking at `schedlab up` and at real clusters.
    Kubectl,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// By target.
    pub abilities: Vec<Ability>,
    /// Cores, memory, disk, limits.
    pub machine: Vec<String>,
}

/// Whether a target can run here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ability {
    /// The target.
    pub target: Target,
    /// Whether nothing is missing.
    pub ready: bool,
    /// What there is for it, with versions.
    pub found: Vec<String>,
    /// What it lacks.
    pub missing: Vec<Missing>,
}

/// Something that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Ability {
    fn of(target: Target) -> Self {
        Self { target, ready: true, found: Vec::new(), missing: Vec::new() }
    }

    fn has(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    fn lacks(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.ready = false;
        self.missing.push(Missing { what: what.into(), remedy: remedy.into() });
    }

    /// Takes in what a program said about itself.
    fn take(&mut self, name: &str, said: Result<String, ToolError>) {
        match said {
            Ok(words) => self.has(format!("{name} {}", words.trim())),
            Err(error) => {
                let said = error.said.lines().next().unwrap_or_default();
                let remedy = error.remedy.unwrap_or_else(|| format!("try `{}`", error.command));
                self.lacks(format!("{name}: {said}"), remedy);
            }
        }
    }
}

impl fmt::Display for Target {
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

/// Looks at these alone.
pub async fn examine(targets: &[Target]) -> Examined {
    let mut abilities = Vec::new();
    for target in targets {
        abilities.push(match target {
            Target::Emulator => clusters::emulator(),
            Target::ControlPlane => clusters::control_plane().await,
            Target::Container => clusters::container().await,
            Target::Kind => clusters::kind().await,
            Target::Kubeconfig => clusters::kubeconfig().await,
            Target::Helm => programs::helm().await,
            Target::Kubectl => programs::kubectl().await,
        });
    }
    Examined { abilities, machine: machine::facts() }
}
