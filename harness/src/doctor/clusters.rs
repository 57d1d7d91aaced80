//! Clusters on which features run.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_control_plane::PROGRAMS;

use super::programs::{ask, version};
use super::{Ability, Target, machine};
use crate::api::{Api, NoVersion, causes, is_unauthorized};
use crate::ground::{LOG_IN, NO_PROXY};
use crate::kubeconfig;
use crate::tools::{ANSWER_MAX, Endpoint, Tool, is_named};

/// What brings all that kind needs.
const PREPARE: &str = "eval \"$(kind-configs/prepare)\" in a checkout builds it";

/// Starts a daemon where there is none, in a checkout.
const ENGINE: &str = "kind-configs/engine/start";

pub(super) fn emulator() -> Ability {
    let mut ability = Ability::of(Target::Emulator);
    ability.has(format!("schedlab {}", env!("CARGO_PKG_VERSION")));
    ability
}

pub(super) async fn control_plane() -> Ability {
    let mut ability = Ability::of(Target::ControlPlane);
    let assets = match schedlab_control_plane::find(None, &PROGRAMS) {
        Ok(assets) => assets,
        Err(missing) => {
            let (programs, folder) = (missing.programs.join(", "), missing.folder.display());
            ability.lacks(format!("no {programs} in {folder}"), build().await);
            return ability;
        }
    };
    ability.has(assets.folder().display().to_string());
    for name in PROGRAMS {
        match version(&assets.program(name)).await {
            Ok(version) => ability.has(format!("{name} {version}")),
            Err(why) => ability.lacks(format!("{name}: {why}"), build().await),
        }
    }
    // It may play the nodes and need not.
    if let Ok(version) = ask(Tool::Kwok, &["--version"]).await {
        ability.has(version);
    }
    ability
}

/// How the programs of a control plane are had.
async fn build() -> String {
    let named = "or set KUBEBUILDER_ASSETS to a folder that has them";
    // `go version`, not `go --version`.
    let go = tokio::process::Command::new("go").arg("version").output().await;
    if go.is_ok() {
        format!("make control-plane in a checkout, {named}")
    } else {
        format!("install go (https://go.dev/dl), then make control-plane in a checkout; {named}")
    }
}

pub(super) async fn container() -> Ability {
    let mut ability = Ability::of(Target::Container);
    docker(&mut ability).await;
    ability
}

/// The client and the daemon that it reaches.
async fn docker(ability: &mut Ability) {
    let client = ask(Tool::Docker, &["--version"]).await;
    let is_there = client.is_ok();
    ability.take("docker", client.map(|words| words.replace("Docker version ", "")));
    if !is_there {
        return;
    }
    if let Some(endpoint) = Endpoint::of_docker().await {
        ability.has(endpoint.to_string());
    }
    let daemon = ask(Tool::Docker, &["version", "--format", "{{.Server.Version}}"]).await;
    let daemon = daemon.map_err(|mut error| {
        if let Some(host) = own_engine() {
            error.remedy = Some(format!("use the one of schedlab: export DOCKER_HOST={host}"));
        } else if !is_named() && Path::new(ENGINE).is_file() {
            error.remedy = Some(format!("export DOCKER_HOST=$({ENGINE}) starts one of schedlab"));
        }
        error
    });
    ability.take("daemon", daemon);
}

/// The daemon that `kind-configs/engine/start` starts where there is no other.
fn own_engine() -> Option<String> {
    let folder = std::env::var_os("SCHEDLAB_SOCKETS").map_or("/run/schedlab".into(), PathBuf::from);
    let socket = folder.join("docker.sock");
    (!is_named() && answers(&socket)).then(|| format!("unix://{}", socket.display()))
}

fn answers(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

pub(super) async fn kind() -> Ability {
    let mut ability = Ability::of(Target::Kind);
    let version = ask(Tool::Kind, &["version"]).await.map_err(|mut error| {
        error.remedy = error.remedy.map(|remedy| format!("{PREPARE}, or {remedy}"));
        error
    });
    ability.take("kind", version.map(|words| words.replace("kind ", "")));
    docker(&mut ability).await;
    if ability.found.iter().any(|found| found.starts_with("daemon ")) {
        node_images(&mut ability).await;
    }
    if let Some((what, remedy)) = machine::inotify_too_low() {
        ability.lacks(what, remedy);
    }
    ability
}

async fn node_images(ability: &mut Ability) {
    let images = ask(Tool::Docker, &["images", "--format", "{{.Repository}}:{{.Tag}}"]).await;
    let images = images.unwrap_or_default();
    let is_node = |image: &&str| {
        let repository = image.rsplit_once(':').map_or(*image, |(repository, _)| repository);
        repository.ends_with("/node")
    };
    let nodes: Vec<&str> = images.lines().filter(is_node).collect();
    if nodes.is_empty() {
        let remedy = format!("docker pull kindest/node:v1.35.0; without a registry, {PREPARE}");
        ability.lacks("no node image", remedy);
    } else {
        ability.has(format!("images {}", nodes.join(" ")));
    }
}

pub(super) async fn kubeconfig() -> Ability {
    let mut ability = Ability::of(Target::Kubeconfig);
    let absent = "set KUBECONFIG to the path of one, or write ~/.kube/config";
    let config = match kubeconfig::place(None).and_then(|place| kubeconfig::read(&place)) {
        Ok(config) => config,
        Err(error) => {
            ability.lacks(format!("{error:#}"), absent);
            return ability;
        }
    };
    let names: Vec<&str> = config.contexts.iter().map(|one| one.name.as_str()).collect();
    ability.has(format!("contexts {}", names.join(" ")));
    let current = match kubeconfig::current(&config) {
        Ok(current) => current.to_owned(),
        Err(why) => {
            let remedy = "kubectl config use-context NAME chooses one of them";
            ability.lacks(format!("the kubeconfig {why}"), remedy);
            return ability;
        }
    };
    match server(config).await {
        Ok((version, is_administrator)) => {
            ability.has(format!("{current} answers: {version}"));
            if !is_administrator {
                let what = format!("context {current} is no administrator's");
                ability.lacks(what, "choose one that kubectl auth can-i '*' '*.*' says yes to");
            }
        }
        Err(Unusable { why, remedy }) => {
            ability.lacks(format!("context {current}: {why}"), remedy);
        }
    }
    ability
}

/// Why a server tells nothing.
struct Unusable {
    why: String,
    remedy: &'static str,
}

impl Unusable {
    fn silent(why: String) -> Self {
        let remedy = "does that cluster run? kubectl config get-contexts shows others, kubectl \
                      config use-context NAME chooses one";
        Self { why, remedy }
    }

    fn of(error: &kube::Error) -> Self {
        let silent = Self::silent(causes(error));
        if is_unauthorized(error) { Self { remedy: LOG_IN, ..silent } } else { silent }
    }
}

/// The version of the server that the current context names, and whether it allows everything.
async fn server(config: Kubeconfig) -> Result<(String, bool), Unusable> {
    let options = KubeConfigOptions::default();
    let ask = async {
        let config = kube::Config::from_custom_kubeconfig(config, &options).await;
        let config = config.map_err(|error| Unusable::silent(causes(&error)))?;
        let client = kube::Client::try_from(config).map_err(|error| Unusable::of(&error))?;
        let api = Api::new(client);
        let version = api.version().await.map_err(|error| match error {
            NoVersion::Untold(error) => Unusable::of(&error),
            NoVersion::Stranger { .. } => Unusable { why: error.to_string(), remedy: NO_PROXY },
        })?;
        let allowed = api.allows_everything().await.map_err(|error| Unusable::of(&error))?;
        Ok((version, allowed))
    };
    let answer = tokio::time::timeout(ANSWER_MAX, ask).await;
    answer.unwrap_or_else(|_| {
        Err(Unusable::silent(format!("no answer within {} s", ANSWER_MAX.as_secs())))
    })
}
