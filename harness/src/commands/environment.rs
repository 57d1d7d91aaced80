//! Validates cluster and scheduler options: rejects combinations that cannot work or have no
//! effect.

use std::path::PathBuf;

use schedlab_control_plane::{Assets, PROGRAMS, built_folder};

use super::UsageError;
use crate::cli::{ClusterChoice, EnvironmentArgs, clusters_of_option};
use schedlab_clusters::external_tools;
use schedlab_clusters::real_cluster::Kubelets;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::schedulers::Target;
use schedlab_emulator::KubernetesVersion;
use schedlab_emulator::feature_gates::FeatureGates;

use ClusterChoice::{Container, ControlPlane, Emulator, Kind, Kubeconfig};

/// The requested scheduler, after checking that it can run on the requested cluster and that every
/// option applies.
pub(super) fn target_for_environment(environment: &EnvironmentArgs) -> anyhow::Result<Target> {
    let target = Target::load_target(&environment.scheduler, environment.target.as_deref())?;
    let refused = target_without_scheduler_message(environment, &target)
        .or_else(|| inapplicable_option_message(environment))
        .or_else(|| unsupported_scheduler_message(environment.cluster, &target.source));
    match refused {
        Some(message) => Err(UsageError(message).into()),
        None => Ok(target),
    }
}

/// Checks that the scheduler's program exists, before a cluster starts for it.
pub(super) fn check_program(environment: &EnvironmentArgs, target: &Target) -> anyhow::Result<()> {
    if target.programs.is_empty() {
        return Ok(());
    }
    // A missing control plane is reported when it starts.
    let assets = match environment.cluster {
        ControlPlane => {
            schedlab_control_plane::find_assets(assets_folder(environment).as_deref(), &PROGRAMS)
                .ok()
        }
        Emulator | Kubeconfig | Container | Kind => None,
    };
    let folder = assets.as_ref().map(Assets::folder);
    for command in target.program_commands() {
        external_tools::check_program_exists(&command, folder).map_err(|lacking| {
            let is_built = target.folder.as_ref().is_none_or(|folder| folder.exists());
            let to_do = if is_built { "" } else { "; make targets builds it" };
            anyhow::anyhow!("scheduler {}: {lacking}{to_do}", target.name)
        })?;
    }
    Ok(())
}

/// The folder of the control plane's programs that the options name.
pub(super) fn assets_folder(environment: &EnvironmentArgs) -> Option<PathBuf> {
    let of_version = |version: KubernetesVersion| built_folder(version.git_version());
    environment.assets.clone().or_else(|| environment.kubernetes.map(of_version))
}

/// The version and the feature gates of the cluster.
pub(super) fn feature_gates(environment: &EnvironmentArgs) -> anyhow::Result<FeatureGates> {
    let of_programs = || -> Option<KubernetesVersion> {
        let folder = assets_folder(environment);
        let assets = schedlab_control_plane::find_assets(folder.as_deref(), &PROGRAMS).ok()?;
        assets.version().ok()?.parse().ok()
    };
    let version = match environment.cluster {
        // A missing or another control plane is reported when it starts.
        ControlPlane => of_programs(),
        Emulator | Kubeconfig | Container | Kind => environment.kubernetes,
    };
    let version = version.unwrap_or_default();
    let gates = FeatureGates::parse(version, &environment.feature_gates);
    Ok(gates.map_err(|error| UsageError(format!("--feature-gates: {error}")))?)
}

/// The message about a `--target` that belongs to another scheduler, given without `--scheduler`,
/// and that does not say how the scheduler is started.
fn target_without_scheduler_message(
    environment: &EnvironmentArgs,
    target: &Target,
) -> Option<String> {
    let file = environment.target.as_ref().filter(|file| Target::is_built_in(file))?;
    (target.source == SchedulerSource::Ours).then(|| {
        format!(
            "--target {}: declares another scheduler than `--scheduler ours`, which is the \
             default; expected with it --scheduler process:COMMAND, installed:NAME or \
                 deployment[:IMAGE]",
            file.display()
        )
    })
}

/// The message about an option that does not apply to the requested cluster; `None` if all apply.
fn inapplicable_option_message(environment: &EnvironmentArgs) -> Option<String> {
    if environment.cluster == Emulator && environment.kubelets == Kubelets::Kwok {
        let message = "--kubelets kwok: the emulator has its own kubelets; expected a real \
            cluster: --cluster control-plane, kubeconfig, kind or container";
        return Some(message.to_owned());
    }
    let options = [
        ("assets", environment.assets.is_some()),
        ("kubernetes", environment.kubernetes.is_some()),
        ("kubeconfig", environment.kubeconfig.is_some()),
        ("context", environment.confirmed_context().is_some()),
        ("image", environment.image.is_some()),
        ("kind-cluster", environment.kind_cluster.is_some()),
        ("node-image", environment.node_image.is_some()),
        ("kind-config", environment.kind_config.is_some()),
        ("time-scale", environment.time_scale.is_some()),
    ];
    let said = options.into_iter().filter(|(_, is_said)| *is_said);
    let (option, clusters) = said
        .filter_map(|(option, _)| Some((option, clusters_of_option(option)?)))
        .find(|(_, clusters)| !clusters.contains(&environment.cluster))?;
    let clusters: Vec<&str> = clusters.iter().map(|cluster| cluster.option_value()).collect();
    Some(format!(
        "--{option}: has no effect on --cluster {}; it is for --cluster {}",
        environment.cluster.option_value(),
        clusters.join(", ")
    ))
}

/// The message about a scheduler that cannot run on the requested cluster; `None` if it can.
fn unsupported_scheduler_message(
    cluster: ClusterChoice,
    which: &SchedulerSource,
) -> Option<String> {
    let message = match (cluster, which) {
        (_, SchedulerSource::Ours)
        | (Emulator, SchedulerSource::NoScheduler)
        | (Kind, SchedulerSource::Deployment(_))
        | (Kubeconfig | Container | Kind, SchedulerSource::Installed(_))
        | (ControlPlane | Kubeconfig | Container | Kind, SchedulerSource::Process(_)) => {
            return None;
        }
        (ControlPlane | Kubeconfig | Container | Kind, SchedulerSource::NoScheduler) => {
            "--scheduler none: got a real cluster, expected --cluster emulator, where the time \
             that scenarios wait in vain is virtual"
        }
        (Emulator, _) => {
            "--scheduler: another process cannot run in the emulator's virtual time; expected a \
             real cluster: --cluster control-plane or kubeconfig"
        }
        (ControlPlane, SchedulerSource::Installed(_)) => {
            "--scheduler installed: nothing is installed on --cluster control-plane; expected \
             ours or process:COMMAND"
        }
        (ControlPlane | Kubeconfig | Container, SchedulerSource::Deployment(_)) => {
            "--scheduler deployment: schedlab installs the scheduler on --cluster kind only; \
             elsewhere install it yourself (kind-configs/chart) and use installed:NAME"
        }
    };
    Some(message.to_owned())
}
