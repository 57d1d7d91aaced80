//! Checks for the clusters on which features can run.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_control_plane::PROGRAMS;

use super::programs::{program_version, run_with_response_timeout};
use super::{CheckResult, DoctorCheck, machine};
use crate::api::{Api, VersionError, error_chain_text, is_unauthorized};
use crate::external_tools::{DockerEndpoint, ExternalTool, RESPONSE_TIMEOUT, docker_host_is_set};
use crate::kubeconfig;
use crate::real_cluster::{LOG_IN_HINT, PROXY_HINT};

/// The hint how to get everything that kind clusters need.
const PREPARE_HINT: &str = "eval \"$(kind-configs/prepare)\" in a checkout builds it";

/// Script in a checkout that starts a docker daemon.
const ENGINE_SCRIPT: &str = "kind-configs/engine/start";

pub(super) fn check_emulator() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Emulator);
    result.add_found_line(format!("schedlab {}", env!("CARGO_PKG_VERSION")));
    result
}

pub(super) async fn check_control_plane() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::ControlPlane);
    let assets = match schedlab_control_plane::find_assets(None, &PROGRAMS) {
        Ok(assets) => assets,
        Err(missing) => {
            let (programs, folder) = (missing.programs.join(", "), missing.folder.display());
            result.add_missing_prerequisite(
                format!("no {programs} in {folder}"),
                control_plane_build_hint().await,
            );
            return result;
        }
    };
    result.add_found_line(assets.folder().display().to_string());
    for name in PROGRAMS {
        match program_version(&assets.program(name)).await {
            Ok(version) => result.add_found_line(format!("{name} {version}")),
            Err(why) => result.add_missing_prerequisite(
                format!("{name}: {why}"),
                control_plane_build_hint().await,
            ),
        }
    }
    // kwok is optional.
    if let Ok(version) = run_with_response_timeout(ExternalTool::Kwok, &["--version"]).await {
        result.add_found_line(version);
    }
    result
}

/// The hint how to get the programs of a control plane.
async fn control_plane_build_hint() -> String {
    let alternative = "or set KUBEBUILDER_ASSETS to a folder that has them";
    // `go version`, not `go --version`.
    let go = tokio::process::Command::new("go").arg("version").output().await;
    if go.is_ok() {
        format!("make control-plane in a checkout, {alternative}")
    } else {
        format!(
            "install go (https://go.dev/dl), then make control-plane in a checkout; {alternative}"
        )
    }
}

pub(super) async fn check_container() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Container);
    check_docker_daemon(&mut result).await;
    result
}

/// Adds docker's client and its daemon to the result, as found or missing.
async fn check_docker_daemon(result: &mut CheckResult) {
    let client = run_with_response_timeout(ExternalTool::Docker, &["--version"]).await;
    let is_there = client.is_ok();
    result.add_version_or_missing("docker", client.map(|text| text.replace("Docker version ", "")));
    if !is_there {
        return;
    }
    if let Some(endpoint) = DockerEndpoint::from_docker_context().await {
        result.add_found_line(endpoint.to_string());
    }
    let daemon = run_with_response_timeout(
        ExternalTool::Docker,
        &["version", "--format", "{{.Server.Version}}"],
    )
    .await;
    let daemon = daemon.map_err(|mut error| {
        if let Some(host) = schedlab_docker_host() {
            error.hint = Some(format!("use schedlab's daemon: export DOCKER_HOST={host}"));
        } else if !docker_host_is_set() && Path::new(ENGINE_SCRIPT).is_file() {
            error.hint = Some(format!(
                "export DOCKER_HOST=$({ENGINE_SCRIPT}) starts schedlab's own docker daemon"
            ));
        }
        error
    });
    result.add_version_or_missing("daemon", daemon);
}

/// The address of the docker daemon that `kind-configs/engine/start` starts; `None` if it does not
/// run or if another daemon is configured.
fn schedlab_docker_host() -> Option<String> {
    let folder = std::env::var_os("SCHEDLAB_SOCKETS").map_or("/run/schedlab".into(), PathBuf::from);
    let socket = folder.join("docker.sock");
    (!docker_host_is_set() && accepts_connections(&socket))
        .then(|| format!("unix://{}", socket.display()))
}

fn accepts_connections(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

pub(super) async fn check_kind() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Kind);
    let version =
        run_with_response_timeout(ExternalTool::Kind, &["version"]).await.map_err(|mut error| {
            error.hint = error.hint.map(|hint| format!("{PREPARE_HINT}, or {hint}"));
            error
        });
    result.add_version_or_missing("kind", version.map(|text| text.replace("kind ", "")));
    check_docker_daemon(&mut result).await;
    if result.found.iter().any(|found| found.starts_with("daemon ")) {
        check_node_images(&mut result).await;
    }
    if let Some((what, hint)) = machine::inotify_too_low() {
        result.add_missing_prerequisite(what, hint);
    }
    result
}

async fn check_node_images(result: &mut CheckResult) {
    let images = run_with_response_timeout(
        ExternalTool::Docker,
        &["images", "--format", "{{.Repository}}:{{.Tag}}"],
    )
    .await;
    let images = images.unwrap_or_default();
    let is_node = |image: &&str| {
        let repository = image.rsplit_once(':').map_or(*image, |(repository, _)| repository);
        repository.ends_with("/node")
    };
    let nodes: Vec<&str> = images.lines().filter(is_node).collect();
    if nodes.is_empty() {
        let [.., newest] = schedlab_control_plane::VERSIONS;
        let hint = format!("docker pull kindest/node:{newest}; without a registry, {PREPARE_HINT}");
        result.add_missing_prerequisite("no node image", hint);
    } else {
        result.add_found_line(format!("images {}", nodes.join(" ")));
    }
}

pub(super) async fn check_kubeconfig() -> CheckResult {
    let mut result = CheckResult::new(DoctorCheck::Kubeconfig);
    let absent = "set KUBECONFIG to the path of a kubeconfig, or create ~/.kube/config";
    let config = match kubeconfig::find_kubeconfig_path(None)
        .and_then(|path| kubeconfig::load_kubeconfig(&path))
    {
        Ok(config) => config,
        Err(error) => {
            result.add_missing_prerequisite(format!("{error:#}"), absent);
            return result;
        }
    };
    let names: Vec<&str> = config.contexts.iter().map(|one| one.name.as_str()).collect();
    result.add_found_line(format!("contexts {}", names.join(" ")));
    let current = match kubeconfig::current_context_name(&config) {
        Ok(current) => current.to_owned(),
        Err(why) => {
            let hint = "kubectl config use-context NAME chooses one of them";
            result.add_missing_prerequisite(format!("the kubeconfig {why}"), hint);
            return result;
        }
    };
    match server_version_and_access(config).await {
        Ok((version, is_administrator)) => {
            result.add_found_line(format!("{current}: {version}"));
            if !is_administrator {
                let what = format!("context {current} has no administrator rights");
                result.add_missing_prerequisite(
                    what,
                    "choose a context for which kubectl auth can-i '*' '*.*' says yes",
                );
            }
        }
        Err(ServerProblem { why, hint }) => {
            result.add_missing_prerequisite(format!("context {current}: {why}"), hint);
        }
    }
    result
}

/// Why an API server is unusable, and a hint.
struct ServerProblem {
    why: String,
    hint: &'static str,
}

impl ServerProblem {
    fn unreachable(why: String) -> Self {
        let hint = "is that cluster running? kubectl config get-contexts shows others, kubectl \
                      config use-context NAME chooses one";
        Self { why, hint }
    }

    fn from_error(error: &kube::Error) -> Self {
        let silent = Self::unreachable(error_chain_text(error));
        if is_unauthorized(error) { Self { hint: LOG_IN_HINT, ..silent } } else { silent }
    }
}

/// The version of the API server of the current context, and whether we have all rights there.
async fn server_version_and_access(config: Kubeconfig) -> Result<(String, bool), ServerProblem> {
    let options = KubeConfigOptions::default();
    let query = async {
        let config = kube::Config::from_custom_kubeconfig(config, &options).await;
        let config =
            config.map_err(|error| ServerProblem::unreachable(error_chain_text(&error)))?;
        let client =
            kube::Client::try_from(config).map_err(|error| ServerProblem::from_error(&error))?;
        let api = Api::new(client);
        let version = api.server_version().await.map_err(|error| match error {
            VersionError::Request(error) => ServerProblem::from_error(&error),
            VersionError::NotKubernetes { .. } => {
                ServerProblem { why: error.to_string(), hint: PROXY_HINT }
            }
        })?;
        let allowed =
            api.has_full_access().await.map_err(|error| ServerProblem::from_error(&error))?;
        Ok((version, allowed))
    };
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, query).await;
    response.unwrap_or_else(|_| {
        Err(ServerProblem::unreachable(format!(
            "no response within {} s",
            RESPONSE_TIMEOUT.as_secs()
        )))
    })
}
