//! Validates cluster and scheduler options: rejects combinations that cannot work or have no
//! effect.

use std::path::PathBuf;

use schedlab_control_plane::{PROGRAMS, built_folder};

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
    let folder = match environment.cluster {
        ControlPlane | Emulator => control_plane_folder(environment),
        Kubeconfig | Container | Kind => None,
    };
    for command in target.program_commands() {
        external_tools::check_program_exists(&command, folder.as_deref()).map_err(|lacking| {
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

/// The folder of the control plane's programs, in which a scheduler may be, too. `None` if there is
/// none on this machine.
pub(super) fn control_plane_folder(environment: &EnvironmentArgs) -> Option<PathBuf> {
    let folder = assets_folder(environment);
    let assets = schedlab_control_plane::find_assets(folder.as_deref(), &PROGRAMS).ok();
    assets.map(|assets| assets.folder().to_owned())
}

/// Whether the scenarios run on an emulator each, in virtual time. A scheduler that is a program of
/// its own cannot follow virtual time: its scenarios share one emulator, in real time.
pub(super) fn is_in_virtual_time(cluster: ClusterChoice, scheduler: &SchedulerSource) -> bool {
    cluster == Emulator && !matches!(scheduler, SchedulerSource::Process(_))
}

/// The name of the cluster in reports.
pub(super) fn cluster_name(cluster: ClusterChoice, scheduler: &SchedulerSource) -> String {
    let name = cluster.option_value();
    if cluster == Emulator && !is_in_virtual_time(cluster, scheduler) {
        return format!("{name} in real time");
    }
    name.to_owned()
}

/// The feature gates of the cluster as text: those of the command line, and that of the API in which
/// the target's gangs are described.
pub(super) fn feature_gates_text(environment: &EnvironmentArgs, target: &Target) -> String {
    let given = &environment.feature_gates;
    let is_older = environment.kubernetes.is_some_and(|version| version < KubernetesVersion::V1_37);
    let starts_cluster = matches!(environment.cluster, ControlPlane | Emulator);
    match target.gang_feature_gate() {
        Some(gate) if starts_cluster && !is_older && !given.contains(gate) => {
            let separator = if given.is_empty() { "" } else { "," };
            format!("{given}{separator}{gate}=true")
        }
        Some(_) | None => given.clone(),
    }
}

/// The version and the feature gates of the cluster.
pub(super) fn feature_gates(
    environment: &EnvironmentArgs,
    target: &Target,
) -> anyhow::Result<FeatureGates> {
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
    let gates = FeatureGates::parse(version, &feature_gates_text(environment, target));
    Ok(gates.map_err(|error| UsageError(format!("--feature-gates: {error}")))?)
}

/// The message about a `--target` that belongs to another scheduler than ours, given without
/// `--scheduler`, and that does not say how the scheduler is started. A target file for ours has our
/// words.
fn target_without_scheduler_message(
    environment: &EnvironmentArgs,
    target: &Target,
) -> Option<String> {
    let file = environment.target.as_ref()?;
    let is_other = Target::is_built_in(file) || !target.uses_our_words();
    (target.source == SchedulerSource::Ours && is_other).then(|| {
        format!(
            "--target {}: declares another scheduler than `--scheduler ours`, which is the \
             default, and has no `command`; expected with it --scheduler process:COMMAND, \
             installed:NAME or deployment[:IMAGE], or `words: schedlab` in a target of ours",
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
        (_, SchedulerSource::Ours | SchedulerSource::Process(_))
        | (Emulator, SchedulerSource::NoScheduler)
        | (Kind, SchedulerSource::Deployment(_))
        | (Kubeconfig | Container | Kind, SchedulerSource::Installed(_)) => return None,
        (ControlPlane | Kubeconfig | Container | Kind, SchedulerSource::NoScheduler) => {
            "--scheduler none: got a real cluster, expected --cluster emulator, where the time \
             that scenarios wait in vain is virtual"
        }
        (Emulator, SchedulerSource::Installed(_) | SchedulerSource::Deployment(_)) => {
            "--scheduler: nothing is installed on --cluster emulator; expected ours or \
             process:COMMAND, or a real cluster"
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
