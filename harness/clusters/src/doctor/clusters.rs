//! Checks for the clusters on which features can run.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_control_plane::PROGRAMS;

use super::programs::{query, version};
use super::{Check, CheckResult, machine};
use crate::api::{Api, VersionError, error_chain, is_unauthorized};
use crate::external_tools::{DockerEndpoint, ExternalTool, RESPONSE_TIMEOUT, docker_host_is_set};
use crate::kubeconfig;
use crate::real_cluster::{LOG_IN_HINT, PROXY_HINT};

/// How to get everything that kind needs.
const PREPARE_HINT: &str = "eval \"$(kind-configs/prepare)\" in a checkout builds it";

/// Script in a checkout that starts a docker daemon.
const ENGINE_SCRIPT: &str = "kind-configs/engine/start";

pub(super) fn emulator() -> CheckResult {
    let mut result = CheckResult::new(Check::Emulator);
    result.add_found(format!("schedlab {}", env!("CARGO_PKG_VERSION")));
    result
}

pub(super) async fn control_plane() -> CheckResult {
    let mut result = CheckResult::new(Check::ControlPlane);
    let assets = match schedlab_control_plane::find_assets(None, &PROGRAMS) {
        Ok(assets) => assets,
        Err(missing) => {
            let (programs, folder) = (missing.programs.join(", "), missing.folder.display());
            result.add_missing(format!("no {programs} in {folder}"), build_hint().await);
            return result;
        }
    };
    result.add_found(assets.folder().display().to_string());
    for name in PROGRAMS {
        match version(&assets.program(name)).await {
            Ok(version) => result.add_found(format!("{name} {version}")),
            Err(why) => result.add_missing(format!("{name}: {why}"), build_hint().await),
        }
    }
    // kwok is optional.
    if let Ok(version) = query(ExternalTool::Kwok, &["--version"]).await {
        result.add_found(version);
    }
    result
}

/// How to get the programs of a control plane.
async fn build_hint() -> String {
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

pub(super) async fn container() -> CheckResult {
    let mut result = CheckResult::new(Check::Container);
    check_docker(&mut result).await;
    result
}

/// Docker's client and the daemon that it uses.
async fn check_docker(result: &mut CheckResult) {
    let client = query(ExternalTool::Docker, &["--version"]).await;
    let is_there = client.is_ok();
    result.add_tool_output("docker", client.map(|text| text.replace("Docker version ", "")));
    if !is_there {
        return;
    }
    if let Some(endpoint) = DockerEndpoint::from_docker().await {
        result.add_found(endpoint.to_string());
    }
    let daemon = query(ExternalTool::Docker, &["version", "--format", "{{.Server.Version}}"]).await;
    let daemon = daemon.map_err(|mut error| {
        if let Some(host) = schedlab_docker_host() {
            error.hint = Some(format!("use schedlab's daemon: export DOCKER_HOST={host}"));
        } else if !docker_host_is_set() && Path::new(ENGINE_SCRIPT).is_file() {
            error.hint =
                Some(format!("export DOCKER_HOST=$({ENGINE_SCRIPT}) starts schedlab's own"));
        }
        error
    });
    result.add_tool_output("daemon", daemon);
}

/// The address of the daemon that `kind-configs/engine/start` starts, if it runs and no other is
/// configured.
fn schedlab_docker_host() -> Option<String> {
    let folder = std::env::var_os("SCHEDLAB_SOCKETS").map_or("/run/schedlab".into(), PathBuf::from);
    let socket = folder.join("docker.sock");
    (!docker_host_is_set() && accepts_connections(&socket))
        .then(|| format!("unix://{}", socket.display()))
}

fn accepts_connections(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

pub(super) async fn kind() -> CheckResult {
    let mut result = CheckResult::new(Check::Kind);
    let version = query(ExternalTool::Kind, &["version"]).await.map_err(|mut error| {
        error.hint = error.hint.map(|hint| format!("{PREPARE_HINT}, or {hint}"));
        error
    });
    result.add_tool_output("kind", version.map(|text| text.replace("kind ", "")));
    check_docker(&mut result).await;
    if result.found.iter().any(|found| found.starts_with("daemon ")) {
        check_node_images(&mut result).await;
    }
    if let Some((what, hint)) = machine::inotify_too_low() {
        result.add_missing(what, hint);
    }
    result
}

async fn check_node_images(result: &mut CheckResult) {
    let images =
        query(ExternalTool::Docker, &["images", "--format", "{{.Repository}}:{{.Tag}}"]).await;
    let images = images.unwrap_or_default();
    let is_node = |image: &&str| {
        let repository = image.rsplit_once(':').map_or(*image, |(repository, _)| repository);
        repository.ends_with("/node")
    };
    let nodes: Vec<&str> = images.lines().filter(is_node).collect();
    if nodes.is_empty() {
        let [.., newest] = schedlab_control_plane::VERSIONS;
        let hint = format!("docker pull kindest/node:{newest}; without a registry, {PREPARE_HINT}");
        result.add_missing("no node image", hint);
    } else {
        result.add_found(format!("images {}", nodes.join(" ")));
    }
}

pub(super) async fn kubeconfig() -> CheckResult {
    let mut result = CheckResult::new(Check::Kubeconfig);
    let absent = "set KUBECONFIG to the path of a kubeconfig, or create ~/.kube/config";
    let config = match kubeconfig::find_path(None).and_then(|path| kubeconfig::load(&path)) {
        Ok(config) => config,
        Err(error) => {
            result.add_missing(format!("{error:#}"), absent);
            return result;
        }
    };
    let names: Vec<&str> = config.contexts.iter().map(|one| one.name.as_str()).collect();
    result.add_found(format!("contexts {}", names.join(" ")));
    let current = match kubeconfig::current_context(&config) {
        Ok(current) => current.to_owned(),
        Err(why) => {
            let hint = "kubectl config use-context NAME chooses one of them";
            result.add_missing(format!("the kubeconfig {why}"), hint);
            return result;
        }
    };
    match check_server(config).await {
        Ok((version, is_administrator)) => {
            result.add_found(format!("{current}: {version}"));
            if !is_administrator {
                let what = format!("context {current} has no administrator rights");
                result.add_missing(
                    what,
                    "choose one for which kubectl auth can-i '*' '*.*' says yes",
                );
            }
        }
        Err(ServerProblem { why, hint }) => {
            result.add_missing(format!("context {current}: {why}"), hint);
        }
    }
    result
}

/// Why a server is unusable.
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
        let silent = Self::unreachable(error_chain(error));
        if is_unauthorized(error) { Self { hint: LOG_IN_HINT, ..silent } } else { silent }
    }
}

/// The version of the server of the current context, and whether we have all rights there.
async fn check_server(config: Kubeconfig) -> Result<(String, bool), ServerProblem> {
    let options = KubeConfigOptions::default();
    let query = async {
        let config = kube::Config::from_custom_kubeconfig(config, &options).await;
        let config = config.map_err(|error| ServerProblem::unreachable(error_chain(&error)))?;
        let client =
            kube::Client::try_from(config).map_err(|error| ServerProblem::from_error(&error))?;
        let api = Api::new(client);
        let version = api.version().await.map_err(|error| match error {
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
