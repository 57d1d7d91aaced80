//! Where a run is asked for: what cannot be there, or means nothing there, is refused.

use schedlab_control_plane::{Assets, PROGRAMS};

use super::UsageError;
use crate::cli::{ClusterName, Stage};
use crate::ground::Kubelets;
use crate::target::{Target, Which};
use crate::tools;

use ClusterName::{Container, ControlPlane, Emulator, Kind, Kubeconfig};

/// The scheduler that is asked for, where it can run and every option means something.
pub(super) fn target(stage: &Stage) -> anyhow::Result<Target> {
    if let Some(message) = of_another(stage) {
        return Err(UsageError(message).into());
    }
    let target = Target::find(&stage.scheduler, stage.target.as_deref())?;
    let refused = misplaced(stage).or_else(|| impossible(stage.cluster, &target.which));
    match refused {
        Some(message) => Err(UsageError(message).into()),
        None => Ok(target),
    }
}

/// Whether the scheduler's program is there, before a cluster boots for it.
pub(super) fn has_program(stage: &Stage, target: &Target) -> anyhow::Result<()> {
    let Which::Process(command) = &target.which else { return Ok(()) };
    // A control plane that is not there is told when it boots.
    let beside = match stage.cluster {
        ControlPlane => schedlab_control_plane::find(stage.assets.as_deref(), &PROGRAMS).ok(),
        Emulator | Kubeconfig | Container | Kind => None,
    };
    tools::has_program(command, beside.as_ref().map(Assets::folder))
        .map_err(|lacking| anyhow::anyhow!("scheduler {}: {lacking}", target.name))
}

/// A target that is declared, and ours that is tested.
fn of_another(stage: &Stage) -> Option<String> {
    let target = stage.target.as_ref().filter(|target| Target::is_known(target))?;
    (stage.scheduler == Which::Ours).then(|| {
        format!(
            "--target {}: it declares another scheduler than ours, which is tested unless \
             --scheduler names one; allowed with it are process:COMMAND, installed:NAME and \
             deployment[:IMAGE]",
            target.display()
        )
    })
}

/// An option that means nothing on the cluster.
fn misplaced(stage: &Stage) -> Option<String> {
    if stage.cluster == Emulator && stage.kubelets == Kubelets::Kwok {
        let message = "--kubelets kwok: the emulator has kubelets of its own; name a real cluster: \
                       --cluster control-plane, kubeconfig, kind or container";
        return Some(message.to_owned());
    }
    let real = [ControlPlane, Kubeconfig, Container, Kind];
    let said: [(&str, bool, &[ClusterName]); 8] = [
        ("--assets", stage.assets.is_some(), &[ControlPlane]),
        ("--kubeconfig", stage.kubeconfig.is_some(), &[Kubeconfig]),
        ("--yes-this-cluster", stage.yes_this_cluster.is_some(), &[Kubeconfig]),
        ("--image", stage.image.is_some(), &[Container]),
        ("--kind-cluster", stage.kind_cluster.is_some(), &[Kind]),
        ("--node-image", stage.node_image.is_some(), &[Kind]),
        ("--kind-config", stage.kind_config.is_some(), &[Kind]),
        ("--time-scale", stage.time_scale.is_some(), &real),
    ];
    let (option, _, clusters) = said
        .into_iter()
        .find(|(_, is_said, clusters)| *is_said && !clusters.contains(&stage.cluster))?;
    let clusters: Vec<&str> = clusters.iter().map(|cluster| cluster.name()).collect();
    Some(format!(
        "{option}: it means nothing on --cluster {}; it is for --cluster {}",
        stage.cluster.name(),
        clusters.join(", ")
    ))
}

/// A scheduler that cannot run on the cluster.
fn impossible(cluster: ClusterName, which: &Which) -> Option<String> {
    let message = match (cluster, which) {
        (_, Which::Ours)
        | (Kind, _)
        | (Kubeconfig | Container, Which::Installed(_))
        | (ControlPlane | Kubeconfig | Container, Which::Process(_)) => return None,
        (Emulator, _) => {
            "--scheduler: another process cannot live in the emulator's virtual time; name a real \
             cluster: --cluster control-plane or kubeconfig"
        }
        (ControlPlane, Which::Installed(_)) => {
            "--scheduler installed: nothing is installed on a control plane of ours; allowed there \
             are ours and process:COMMAND"
        }
        (ControlPlane | Kubeconfig | Container, Which::Deployment(_)) => {
            "--scheduler deployment: the scheduler is installed on a kind cluster only: --cluster \
             kind; elsewhere install it yourself (kind-configs/chart) and name it: installed:NAME"
        }
    };
    Some(message.to_owned())
}
