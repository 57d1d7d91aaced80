//! `run --cluster kubeconfig` and `up` with unusable arguments, and what they leave behind: one
//! message, exit code 3, no record.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::lab::Lab;

/// Runs on the cluster of a kubeconfig with one context, `start_error_with`, and expects that it
/// cannot start; returns standard error.
fn start_error(lab: &Lab, server: &str, more: &[&str]) -> String {
    lab.write("kubeconfig", &kubeconfig(server));
    let (state, args) = (lab.path("state"), ["run", "--cluster", "kubeconfig"]);
    let environment = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let output = lab.run_with(&[&args[..], more].concat(), &environment);
    assert_eq!((output.code, &*output.stdout), (3, ""), "{}", output.all());
    let records = std::fs::read_dir(lab.path("state/schedlab/runs"));
    assert_eq!(records.map_or(0, Iterator::count), 0, "{}", output.all());
    output.stderr
}

/// A kubeconfig with one context, `start_error_with`.
pub(super) fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n"
    )
}

/// An API server that returns its version and allows single permissions, but not all of them
/// (`resources: *`). Returns its URL, and the request lines of all writes except access reviews.
fn without_all_permissions() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (written, writes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let first = respond(stream);
            if !first.starts_with("GET ") && !first.contains("selfsubjectaccessreviews") {
                let _ = written.send(first);
            }
        }
    });
    (server, writes)
}

/// Responds to one request as [`without_all_permissions`] does; returns the request line.
pub(super) fn respond(stream: TcpStream) -> String {
    respond_with(stream, 200, &|body| {
        let allowed = !body.contains(r#""resource":"*""#);
        format!(r#"{{"gitVersion":"v1.35.4","status":{{"allowed":{allowed}}}}}"#)
    })
}

fn respond_with(mut stream: TcpStream, status: u16, body: &dyn Fn(&str) -> String) -> String {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut request = vec![0; length];
    lines.read_exact(&mut request).unwrap();
    let body = body(&String::from_utf8(request).unwrap());
    let head = format!("HTTP/1.1 {status} So\r\ncontent-type: application/json");
    let length = body.len();
    write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    first
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    // Nothing listens on port 1 (tcpmux).
    let server = "https://127.0.0.1:1";
    let args = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let stderr = start_error(&Lab::from_fixture("passes"), server, &args);
    assert!(stderr.contains("https://127.0.0.1:1/ cannot be reached"), "{stderr}");
}

#[test]
fn a_cluster_without_confirmation_is_not_touched() {
    let lab = Lab::from_fixture("passes");
    let stderr = start_error(&lab, "https://127.0.0.1:1", &["--kubeconfig", "kubeconfig"]);
    assert!(stderr.contains("--context here --confirm"), "{stderr}");
    let args = ["--kubeconfig", "kubeconfig", "--context", "there", "--confirm"];
    let stderr = start_error(&lab, "https://127.0.0.1:1", &args);
    assert!(stderr.contains("no such context; contexts: here"), "{stderr}");
    let stderr = start_error(&lab, "https://127.0.0.1:1", &["--kubeconfig", "absent"]);
    assert!(stderr.contains("cannot read kubeconfig absent"), "{stderr}");
}

#[test]
fn all_files_in_the_kubeconfig_variable_are_merged() {
    let lab = Lab::from_fixture("passes");
    let (server, _) = without_all_permissions();
    lab.write("first", &kubeconfig("https://127.0.0.1:1"));
    let second = kubeconfig(&server).replace("name: here", "name: there");
    let second = second.replace("name: c,", "name: d,").replace("cluster: c,", "cluster: d,");
    lab.write("second", &second);
    let start_error_with = |variable: &str, more: &[&str]| {
        let args = [&["run", "--cluster", "kubeconfig"], more].concat();
        let state = lab.path("state");
        let environment = [("KUBECONFIG", variable), ("XDG_STATE_HOME", state.to_str().unwrap())];
        let output = lab.run_with(&args, &environment);
        assert_eq!((output.code, &*output.stdout), (3, ""), "{}", output.all());
        output.stderr
    };
    let stderr = start_error_with("first:absent:second", &["--context", "there", "--confirm"]);
    assert!(stderr.contains(&format!("{server}/ does not allow everything")), "{stderr}");
    let stderr = start_error_with("first:second", &[]);
    assert!(stderr.contains("the current context of first:second is \"here\""), "{stderr}");
    let stderr = start_error_with("first:second", &["--context", "nowhere", "--confirm"]);
    assert!(stderr.contains("no such context; contexts: here, there"), "{stderr}");
    lab.write("empty", "");
    let stderr = start_error_with("empty", &["--context", "here", "--confirm"]);
    assert!(stderr.contains("schedlab: kubeconfig empty is empty: expected"), "{stderr}");
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "first:second")]);
    assert!(doctor.stdout.contains("contexts here there"), "{}", doctor.stdout);
    lab.write("undecided", &second.replace("current-context", "other"));
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "undecided")]);
    assert!(doctor.stdout.contains("the kubeconfig has no current context\n"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("kubectl config use-context NAME"), "{}", doctor.stdout);
    let stderr = start_error_with("undecided", &[]);
    assert!(stderr.contains("undecided has no current context: name a context with"), "{stderr}");
}

#[test]
fn a_user_without_all_permissions_is_refused_and_nothing_is_written() {
    let (server, writes) = without_all_permissions();
    let args = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let stderr = start_error(&Lab::from_fixture("passes"), &server, &args);
    assert!(stderr.contains("does not allow everything"), "{stderr}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    assert_eq!(writes.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_doctor_reports_missing_permissions() {
    let (server, _) = without_all_permissions();
    let lab = Lab::from_fixture("passes");
    start_error(&lab, &server, &["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"]);
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert_eq!(doctor.code, 3, "{}", doctor.all());
    assert!(doctor.stdout.contains("here: v1.35.4"), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("context here has no administrator rights"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn rejected_credentials_suggest_to_log_in() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let body = r#"{"kind":"Status","status":"Failure","message":"Unauthorized","code":401}"#;
        for stream in listener.incoming().flatten() {
            respond_with(stream, 401, &|_| body.to_owned());
        }
    });
    let lab = Lab::from_fixture("passes");
    let args = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let stderr = start_error(&lab, &server, &args);
    assert!(
        stderr.contains(&format!("{server}/ rejects our credentials: Unauthorized\n")),
        "{stderr}"
    );
    assert!(stderr.contains("to do: log in again"), "{stderr}");
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert!(doctor.stdout.contains("to do: log in again"), "{}", doctor.stdout);
}

#[test]
fn an_html_page_instead_of_an_api_server_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            respond_with(stream, 200, &|_| "<html>\nPlease sign in</html>".to_owned());
        }
    });
    let lab = Lab::from_fixture("passes");
    let args = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let stderr = start_error(&lab, &server, &args);
    let reason = "the response is not from a Kubernetes API server: status 200 OK, body \"<html> \
                Please sign in</html>\"\n";
    assert!(
        stderr.contains(&format!("schedlab: {server}/: {reason}to do: is there a proxy")),
        "{stderr}"
    );
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert!(doctor.stdout.contains(&format!("context here: {reason}")), "{}", doctor.stdout);
}

#[test]
fn a_busy_port_is_named() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let lab = Lab::empty();
    let up = lab.run(&["up", "--port", &port, "--kubeconfig", "kubeconfig"]);
    assert_eq!((up.code, &*up.stdout), (3, ""), "{}", up.all());
    assert!(up.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", up.stderr);
    assert!(!lab.exists("kubeconfig"));
}

#[test]
fn the_kubeconfig_of_a_running_cluster_is_not_overwritten() {
    let running = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = running.local_addr().unwrap();
    let lab = Lab::empty();
    let text =
        format!("clusters:\n- name: schedlab\n  cluster: {{server: \"https://{server}\"}}\n");
    lab.write("kubeconfig", &text);
    let up = lab.run(&["up", "--kubeconfig", "kubeconfig"]);
    assert_eq!((up.code, &*up.stdout), (2, ""), "{}", up.all());
    let args = format!("kubeconfig exists and belongs to a cluster that runs at {server}; name");
    assert!(up.stderr.contains(&args), "{}", up.stderr);
    assert!(lab.exists("kubeconfig"));
}

#[test]
fn a_kubeconfig_that_cannot_be_written_leaves_no_record() {
    let lab = Lab::empty();
    let state = lab.path("state");
    let args = ["up", "--empty", "--no-scheduler", "--kubeconfig", "absent/kubeconfig"];
    let up = lab.run_with(&args, &[("XDG_STATE_HOME", state.to_str().unwrap())]);
    assert_eq!((up.code, &*up.stdout), (3, ""), "{}", up.all());
    assert!(up.stderr.contains("cannot write absent/kubeconfig: No such file"), "{}", up.stderr);
    assert_eq!(std::fs::read_dir(state.join("schedlab/runs")).unwrap().count(), 0);
}

/// Starts `schedlab up` with this kubeconfig file, and waits until the file is written.
fn up(lab: &Lab, kubeconfig: &str) -> Child {
    let mut command = lab.command(&["up", "--empty", "--kubeconfig", kubeconfig]);
    command.env("XDG_STATE_HOME", lab.path("state"));
    let mut up = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    up
}

#[test]
fn clean_removes_the_kubeconfig_of_a_killed_cluster_but_not_of_a_running_one() {
    let lab = Lab::empty();
    let state = lab.path("state");
    let clean = || lab.run_with(&["clean"], &[("XDG_STATE_HOME", state.to_str().unwrap())]);
    let (mut killed, mut replaced) = (up(&lab, "killed"), up(&lab, "replaced"));
    for up in [&mut killed, &mut replaced] {
        up.kill().unwrap();
        up.wait().unwrap();
    }
    let mut running = up(&lab, "replaced");
    let cleaned = clean();
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    assert_eq!((lab.exists("killed"), lab.exists("replaced")), (false, true), "{}", cleaned.all());
    let interrupted = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(interrupted.unwrap().success() && running.wait().unwrap().success());
    assert!(!lab.exists("replaced"));
    assert_eq!(std::fs::read_dir(state.join("schedlab/runs")).unwrap().count(), 0);
}

#[test]
fn a_cluster_of_schedlab_up_simulates_the_nodes_of_scenarios() {
    let lab = Lab::from_fixture("passes");
    let mut up = up(&lab, "kubeconfig");
    let named = ["--kubeconfig", "kubeconfig", "--context", "schedlab", "--confirm"];
    let run = |more: &[&str]| {
        let args = [&["run", "--cluster", "kubeconfig"], &named[..], more].concat();
        let args = [&args[..], &["--scheduler", "installed:kai-scheduler"]].concat();
        lab.run_with(&args, &[("XDG_STATE_HOME", lab.path("state").to_str().unwrap())])
    };
    let passed = run(&[]);
    assert_eq!(passed.code, 0, "{}", passed.all());
    assert!(passed.stderr.contains(", its emulator simulates its nodes"), "{}", passed.all());
    let refused = run(&["--kubelets", "kwok"]);
    assert_eq!(refused.code, 3, "{}", refused.all());
    assert!(
        refused.stderr.contains("--kubelets kwok: the cluster is a schedlab emulator"),
        "{}",
        refused.stderr
    );
    let interrupted = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(interrupted.unwrap().success() && up.wait().unwrap().success());
}

#[test]
fn a_missing_installed_scheduler_is_reported_before_the_first_scenario() {
    let lab = Lab::from_fixture("passes");
    let mut up = up(&lab, "kubeconfig");
    lab.write("target.yaml", "name: absent\nqueues: none\ncapabilities: []\n");
    let args = ["run", "--cluster", "kubeconfig", "--kubeconfig", "kubeconfig"];
    let more = ["--context", "schedlab", "--confirm", "--target", "target.yaml"];
    let args = [&args[..], &more, &["--scheduler", "installed:absent"]].concat();
    let output = lab.run_with(&args, &[("XDG_STATE_HOME", lab.path("state").to_str().unwrap())]);
    let interrupted = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(interrupted.unwrap().success() && up.wait().unwrap().success());
    assert_eq!((output.code, &*output.stdout), (3, ""), "{}", output.all());
    let args = "schedlab: --scheduler installed:absent: no scheduler of that name responds";
    assert!(output.stderr.contains(args), "{}", output.stderr);
    assert_eq!(std::fs::read_dir(lab.path("state/schedlab/runs")).unwrap().count(), 0);
}

/// As on a real cluster, kube-scheduler schedules a pod without `schedulerName`.
#[test]
fn a_pod_without_a_scheduler_name_runs_beside_pods_of_our_scheduler() {
    let lab = Lab::empty();
    let mut command = lab.command(&["up", "--kubeconfig", "kubeconfig"]);
    let mut up = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(lab.path("kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(kube::Client::try_from(config).unwrap());
        let pod = schedlab_api::json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let pod = schedlab_api::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let only = WatchParams::default().fields("metadata.name=p");
        let mut events = pods.watch(&only, "0").await.unwrap().boxed();
        loop {
            if let Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) =
                events.try_next().await.unwrap()
                && let Some(node) = pod.spec.unwrap().node_name
            {
                return node;
            }
        }
    });
    let interrupted = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(interrupted.unwrap().success() && up.wait().unwrap().success());
    assert!(node.starts_with("node-"));
}
