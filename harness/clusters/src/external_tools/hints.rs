//! Hints for common errors of docker, kind, kubectl, helm and kwok.

use super::ExternalTool;

/// Hint for an address of docker's daemon that does not exist or cannot be resolved.
const DAEMON_UNREACHABLE_HINT: &str = "docker's daemon cannot be reached at that address: set DOCKER_HOST to that of a running one, \
     or unset it; docker context ls shows others";

/// Hints by tool and by a part of its error message. The first match counts: an unreachable daemon
/// comes before an unreachable registry.
const HINTS_BY_OUTPUT: [(ExternalTool, &str, &str); 33] = [
    (ExternalTool::Docker, "no docker on the PATH", "apt-get install docker.io"),
    (
        ExternalTool::Docker,
        "Cannot connect to the Docker daemon",
        "start docker's daemon: systemctl start docker, or dockerd; or choose another: docker context use NAME, or \
         DOCKER_HOST",
    ),
    (
        ExternalTool::Docker,
        "no response within",
        "docker's daemon hangs: restart it (systemctl restart docker), or set DOCKER_HOST",
    ),
    (
        ExternalTool::Docker,
        "permission denied while trying to connect",
        "join the group docker and log in again: usermod -aG docker $USER",
    ),
    (ExternalTool::Docker, "error during connect", DAEMON_UNREACHABLE_HINT),
    (ExternalTool::Docker, "failed to connect to the docker API", DAEMON_UNREACHABLE_HINT),
    (ExternalTool::Docker, "for API route and version", DAEMON_UNREACHABLE_HINT),
    (
        ExternalTool::Docker,
        "client version",
        "client and daemon are incompatible: set DOCKER_API_VERSION to one that the daemon supports",
    ),
    (
        ExternalTool::Docker,
        "context not found",
        "choose an existing context: docker context ls, docker context use NAME; unset DOCKER_CONTEXT",
    ),
    (
        ExternalTool::Docker,
        "Socket not found",
        "set the daemon's address: export DOCKER_HOST=$(docker context inspect --format \
         '{{.Endpoints.docker.Host}}')",
    ),
    (
        ExternalTool::Docker,
        "failed to initialize a docker client",
        "set DOCKER_HOST to a unix:// or tcp:// address of the daemon",
    ),
    (
        ExternalTool::Docker,
        "no space left on device",
        "free space: docker system prune, or use a larger disk",
    ),
    (
        ExternalTool::Docker,
        "port is already allocated",
        "another container has that port: docker ps, then stop it or choose another port",
    ),
    (
        ExternalTool::Docker,
        "pull access denied",
        "the registry has no such public image: build or load it (docker load -i FILE), or docker \
         login",
    ),
    (
        ExternalTool::Docker,
        "no such host",
        "the registry cannot be reached from here: load the image from a file (docker load -i FILE)",
    ),
    (
        ExternalTool::Docker,
        "No such image",
        "the image is not local: docker images; then docker pull, docker load or a build (ours: \
         kind-configs/image in a checkout)",
    ),
    (
        ExternalTool::Docker,
        "manifest unknown",
        "the registry has no such tag: look it up and name another image",
    ),
    (ExternalTool::Kind, "no kind on the PATH", "go install sigs.k8s.io/kind@v0.33.0"),
    (ExternalTool::Kind, "SCHEDLAB_KIND names", "set SCHEDLAB_KIND to a kind program, or unset it"),
    (
        ExternalTool::Kind,
        "is not running",
        "the cluster's node is stopped: docker start NAME-control-plane; or kind delete cluster --name NAME, \
         and the next run creates it again",
    ),
    (
        ExternalTool::Kind,
        "Cannot connect to the Docker daemon",
        "start docker first: systemctl start docker, or dockerd",
    ),
    (ExternalTool::Kind, "error during connect", DAEMON_UNREACHABLE_HINT),
    (
        ExternalTool::Kind,
        "node(s) already exist for a cluster with the name",
        "remove that cluster: schedlab clean, if a run left it; else kind delete cluster --name NAME",
    ),
    (
        ExternalTool::Kind,
        "too many open files",
        "raise the limits: sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512",
    ),
    (
        ExternalTool::Kind,
        "could not find a log line that matches",
        "the node did not boot: docker logs NODE; cgroups or inotify limits are the usual causes \
         (schedlab doctor kind)",
    ),
    (
        ExternalTool::Kind,
        "failed to pull image",
        "no registry can be reached from here: build a node image (make kind-test) or docker load \
         one",
    ),
    (
        ExternalTool::Kind,
        "not present locally",
        "build or load the image into docker first: docker images shows what is there",
    ),
    (
        ExternalTool::Kwok,
        "no kwok on the PATH",
        "go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0; or, in a checkout, export \
         SCHEDLAB_KWOK=$(kind-configs/tool kwok)",
    ),
    (ExternalTool::Kwok, "SCHEDLAB_KWOK names", "set SCHEDLAB_KWOK to a kwok program, or unset it"),
    (
        ExternalTool::Kubectl,
        "no kubectl on the PATH",
        "apt-get install kubernetes-client, or kubectl's own site",
    ),
    (
        ExternalTool::Kubectl,
        "was refused",
        "the API server does not answer: does the cluster run? (kubectl config get-contexts)",
    ),
    (
        ExternalTool::Kubectl,
        "Forbidden",
        "the kubeconfig's user lacks permission: kubectl auth can-i --list",
    ),
    (
        ExternalTool::Helm,
        "no helm on the PATH",
        "kind-configs/tool helm in a checkout builds one, or https://helm.sh/docs/intro/install",
    ),
];

/// The hint for an error message of a tool; `None` if there is none.
pub(crate) fn hint_for_output(tool: ExternalTool, output: &str) -> Option<String> {
    let output = output.to_lowercase();
    let known = |(of, words, _): &&(ExternalTool, &str, &str)| {
        *of == tool && output.contains(&words.to_lowercase())
    };
    HINTS_BY_OUTPUT.iter().find(known).map(|(_, _, to_do)| (*to_do).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_daemon_has_a_hint() {
        let output = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the \
                    docker daemon running?";
        let hint_text = hint_for_output(ExternalTool::Docker, output).unwrap();
        assert!(hint_text.contains("systemctl start docker"), "{hint_text}");
        assert!(
            hint_for_output(ExternalTool::Kind, output).unwrap().contains("start docker first")
        );
        assert_eq!(hint_for_output(ExternalTool::Docker, "something new"), None);
    }

    #[test]
    fn an_unreachable_daemon_differs_from_an_unreachable_registry() {
        for output in [
            "error during connect: Get \"http://nohost:2375/v1.24/version\": dial tcp: lookup \
             nohost on 8.8.8.8:53: no such host",
            "failed to connect to the docker API at tcp://nohost:2375: lookup nohost: no such host",
            "request returned 404 Not Found for API route and version http://proxy/v1.50/version, \
             check if the server supports the requested API version",
        ] {
            let to_do = hint_for_output(ExternalTool::Docker, output).unwrap();
            assert!(to_do.starts_with("docker's daemon cannot be reached"), "{output}: {to_do}");
        }
        let output = "Error response from daemon: Get \"https://registry-1.docker.io/v2/\": dial \
                    tcp: lookup registry-1.docker.io: no such host";
        assert!(
            hint_for_output(ExternalTool::Docker, output)
                .unwrap()
                .starts_with("the registry cannot be reached")
        );
    }
}
