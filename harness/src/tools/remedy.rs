//! What to do about the errors of docker, kind, kubectl and helm that people meet most.

use super::Tool;

/// Whoever is spoken to is not there, or is not known by that name.
const UNREACHABLE: &str = "docker's daemon cannot be reached there: set DOCKER_HOST to the address of one that runs, or \
     unset it; docker context ls shows others";

/// Words of an error, and what to do about it. The first that fit count: a daemon that is not
/// found comes before a registry that is not.
const REMEDIES: [(Tool, &str, &str); 33] = [
    (Tool::Docker, "no docker on the PATH", "apt-get install docker.io"),
    (
        Tool::Docker,
        "Cannot connect to the Docker daemon",
        "start it: systemctl start docker, or dockerd; or choose another: docker context use NAME, or \
         DOCKER_HOST",
    ),
    (
        Tool::Docker,
        "no answer within",
        "its daemon hangs: restart it (systemctl restart docker), or set DOCKER_HOST",
    ),
    (
        Tool::Docker,
        "permission denied while trying to connect",
        "join its group and log in again: usermod -aG docker $USER",
    ),
    (Tool::Docker, "error during connect", UNREACHABLE),
    (Tool::Docker, "failed to connect to the docker API", UNREACHABLE),
    (Tool::Docker, "for API route and version", UNREACHABLE),
    (
        Tool::Docker,
        "client version",
        "client and daemon are too far apart: set DOCKER_API_VERSION to what the daemon allows",
    ),
    (
        Tool::Docker,
        "context not found",
        "choose one that is there: docker context ls, docker context use NAME; unset DOCKER_CONTEXT",
    ),
    (
        Tool::Docker,
        "Socket not found",
        "say where the daemon listens: export DOCKER_HOST=$(docker context inspect --format \
         '{{.Endpoints.docker.Host}}')",
    ),
    (
        Tool::Docker,
        "failed to initialize a docker client",
        "set DOCKER_HOST to a unix:// or tcp:// address of the daemon",
    ),
    (Tool::Docker, "no space left on device", "docker system prune, or a larger disk"),
    (
        Tool::Docker,
        "port is already allocated",
        "another container has that port: docker ps, then stop it or choose another port",
    ),
    (
        Tool::Docker,
        "pull access denied",
        "no registry gives that image without leave: build or load it (docker load -i FILE), or \
         docker login",
    ),
    (
        Tool::Docker,
        "no such host",
        "the registry cannot be reached from here: load the image from a file (docker load -i FILE)",
    ),
    (
        Tool::Docker,
        "No such image",
        "the image is not here: docker images; then docker pull, docker load or a build (ours: \
         kind-configs/image in a checkout)",
    ),
    (
        Tool::Docker,
        "manifest unknown",
        "the registry has no such tag: look it up and name another image",
    ),
    (Tool::Kind, "no kind on the PATH", "go install sigs.k8s.io/kind@v0.33.0"),
    (Tool::Kind, "SCHEDLAB_KIND names", "name a program that is kind, or unset it"),
    (
        Tool::Kind,
        "is not running",
        "its node is stopped: docker start NAME-control-plane; or kind delete cluster --name NAME, \
         and the next run makes it anew",
    ),
    (
        Tool::Kind,
        "Cannot connect to the Docker daemon",
        "start docker first: systemctl start docker, or dockerd",
    ),
    (Tool::Kind, "error during connect", UNREACHABLE),
    (
        Tool::Kind,
        "node(s) already exist for a cluster with the name",
        "schedlab clean, if a run of ours left it; else kind delete cluster --name NAME",
    ),
    (
        Tool::Kind,
        "too many open files",
        "raise the limits: sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512",
    ),
    (
        Tool::Kind,
        "could not find a log line that matches",
        "the node did not boot: docker logs NODE; cgroups or inotify limits are the usual causes \
         (schedlab doctor kind)",
    ),
    (
        Tool::Kind,
        "failed to pull image",
        "no registry can be reached from here: assemble a node image (make kind-test) or docker load \
         one",
    ),
    (
        Tool::Kind,
        "not present locally",
        "build or load the image into docker first: docker images shows what is there",
    ),
    (
        Tool::Kwok,
        "no kwok on the PATH",
        "go install sigs.k8s.io/kwok/cmd/kwok@v0.8.0; or, in a checkout, export \
         SCHEDLAB_KWOK=$(kind-configs/tool kwok)",
    ),
    (Tool::Kwok, "SCHEDLAB_KWOK names", "name a program that is kwok, or unset it"),
    (
        Tool::Kubectl,
        "no kubectl on the PATH",
        "apt-get install kubernetes-client, or kubectl's own site",
    ),
    (
        Tool::Kubectl,
        "was refused",
        "the API server does not answer: does the cluster run? (kubectl config get-contexts)",
    ),
    (
        Tool::Kubectl,
        "Forbidden",
        "the kubeconfig's user lacks the right: kubectl auth can-i --list",
    ),
    (
        Tool::Helm,
        "no helm on the PATH",
        "kind-configs/tool helm in a checkout builds one, or https://helm.sh/docs/intro/install",
    ),
];

/// What to do about words that a tool said.
pub fn remedy(tool: Tool, said: &str) -> Option<String> {
    let said = said.to_lowercase();
    let known =
        |(of, words, _): &&(Tool, &str, &str)| *of == tool && said.contains(&words.to_lowercase());
    REMEDIES.iter().find(known).map(|(_, _, to_do)| (*to_do).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_daemon_comes_with_what_to_do() {
        let said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the \
                    docker daemon running?";
        let to_do = remedy(Tool::Docker, said).unwrap();
        assert!(to_do.contains("systemctl start docker"), "{to_do}");
        assert!(remedy(Tool::Kind, said).unwrap().contains("start docker first"));
        assert_eq!(remedy(Tool::Docker, "something new"), None);
    }

    #[test]
    fn where_no_daemon_is_that_is_told_apart_from_a_registry_that_is_nowhere() {
        for said in [
            "error during connect: Get \"http://nohost:2375/v1.24/version\": dial tcp: lookup \
             nohost on 8.8.8.8:53: no such host",
            "failed to connect to the docker API at tcp://nohost:2375: lookup nohost: no such host",
            "request returned 404 Not Found for API route and version http://proxy/v1.50/version, \
             check if the server supports the requested API version",
        ] {
            let to_do = remedy(Tool::Docker, said).unwrap();
            assert!(to_do.starts_with("docker's daemon cannot be reached"), "{said}: {to_do}");
        }
        let said = "Error response from daemon: Get \"https://registry-1.docker.io/v2/\": dial \
                    tcp: lookup registry-1.docker.io: no such host";
        assert!(remedy(Tool::Docker, said).unwrap().starts_with("the registry cannot be reached"));
    }
}
