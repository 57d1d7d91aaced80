//! `run --cluster kubeconfig`, and `up`, where what they are given cannot be used: one message,
//! exit code 3, nothing is left.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::lab::Lab;

/// Runs on the cluster of a kubeconfig with one context, `here`; answers what it said.
fn refused(lab: &Lab, server: &str, more: &[&str]) -> String {
    lab.write("kubeconfig", &kubeconfig(server));
    let (state, args) = (lab.path("state"), ["run", "--cluster", "kubeconfig"]);
    let environment = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let ended = lab.run_with(&[&args[..], more].concat(), &environment);
    assert_eq!((ended.code, &*ended.out), (3, ""), "{}", ended.all());
    let records = std::fs::read_dir(lab.path("state/schedlab/runs"));
    assert_eq!(records.map_or(0, Iterator::count), 0, "{}", ended.all());
    ended.err
}

/// With one context, `here`.
pub(super) fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n"
    )
}

/// A cluster that tells its version and allows each thing, but not everything. Every write but a
/// question is noted.
fn without_all_rights() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (written, writes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let first = answer(stream);
            if !first.starts_with("GET ") && !first.contains("selfsubjectaccessreviews") {
                let _ = written.send(first);
            }
        }
    });
    (server, writes)
}

/// Answers one request as an administrator's rights would be denied; its first line.
pub(super) fn answer(stream: TcpStream) -> String {
    answer_with(stream, 200, &|question| {
        let allowed = !question.contains(r#""resource":"*""#);
        format!(r#"{{"gitVersion":"v1.35.4","status":{{"allowed":{allowed}}}}}"#)
    })
}

fn answer_with(mut stream: TcpStream, status: u16, body: &dyn Fn(&str) -> String) -> String {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    lines.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if let Some(told) = line.to_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut question = vec![0; length];
    lines.read_exact(&mut question).unwrap();
    let body = body(&String::from_utf8(question).unwrap());
    let head = format!("HTTP/1.1 {status} So\r\ncontent-type: application/json");
    let length = body.len();
    write!(stream, "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
    first
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    // Nobody may listen on the port that is kept for multiplexers.
    let server = "https://127.0.0.1:1";
    let words = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let said = refused(&Lab::of("passes"), server, &words);
    assert!(said.contains("https://127.0.0.1:1/ cannot be reached"), "{said}");
}

#[test]
fn a_cluster_whose_name_nobody_said_is_not_touched() {
    let lab = Lab::of("passes");
    let said = refused(&lab, "https://127.0.0.1:1", &["--kubeconfig", "kubeconfig"]);
    assert!(said.contains("--context here --confirm"), "{said}");
    let words = ["--kubeconfig", "kubeconfig", "--context", "there", "--confirm"];
    let said = refused(&lab, "https://127.0.0.1:1", &words);
    assert!(said.contains("no such context; it has: here"), "{said}");
    let said = refused(&lab, "https://127.0.0.1:1", &["--kubeconfig", "absent"]);
    assert!(said.contains("cannot read kubeconfig absent"), "{said}");
}

#[test]
fn all_files_of_the_variable_are_one_kubeconfig() {
    let lab = Lab::of("passes");
    let (server, _) = without_all_rights();
    lab.write("first", &kubeconfig("https://127.0.0.1:1"));
    let second = kubeconfig(&server).replace("name: here", "name: there");
    let second = second.replace("name: c,", "name: d,").replace("cluster: c,", "cluster: d,");
    lab.write("second", &second);
    let here = |variable: &str, more: &[&str]| {
        let args = [&["run", "--cluster", "kubeconfig"], more].concat();
        let state = lab.path("state");
        let environment = [("KUBECONFIG", variable), ("XDG_STATE_HOME", state.to_str().unwrap())];
        let ended = lab.run_with(&args, &environment);
        assert_eq!((ended.code, &*ended.out), (3, ""), "{}", ended.all());
        ended.err
    };
    let said = here("first:absent:second", &["--context", "there", "--confirm"]);
    assert!(said.contains(&format!("{server}/ does not allow everything")), "{said}");
    let said = here("first:second", &[]);
    assert!(said.contains("the current context of first:second is \"here\""), "{said}");
    let said = here("first:second", &["--context", "nowhere", "--confirm"]);
    assert!(said.contains("no such context; contexts: here, there"), "{said}");
    lab.write("empty", "");
    let said = here("empty", &["--context", "here", "--confirm"]);
    assert!(said.contains("schedlab: kubeconfig empty is empty: expected"), "{said}");
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "first:second")]);
    assert!(doctor.out.contains("contexts here there"), "{}", doctor.out);
    lab.write("undecided", &second.replace("current-context", "other"));
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "undecided")]);
    assert!(doctor.out.contains("the kubeconfig has no current context\n"), "{}", doctor.out);
    assert!(doctor.out.contains("kubectl config use-context NAME"), "{}", doctor.out);
    let said = here("undecided", &[]);
    assert!(said.contains("undecided has no current context: name one with"), "{said}");
}

#[test]
fn who_may_not_do_everything_is_told_so_and_nothing_is_written() {
    let (server, writes) = without_all_rights();
    let words = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let said = refused(&Lab::of("passes"), &server, &words);
    assert!(said.contains("does not allow everything"), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(writes.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn the_doctor_knows_who_may_not_do_everything() {
    let (server, _) = without_all_rights();
    let lab = Lab::of("passes");
    refused(&lab, &server, &["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"]);
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert_eq!(doctor.code, 3, "{}", doctor.all());
    assert!(doctor.out.contains("here: v1.35.4"), "{}", doctor.out);
    assert!(doctor.out.contains("context here has no administrator rights"), "{}", doctor.out);
}

#[test]
fn who_is_not_known_is_told_to_log_in() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let body = r#"{"kind":"Status","status":"Failure","message":"Unauthorized","code":401}"#;
        for stream in listener.incoming().flatten() {
            answer_with(stream, 401, &|_| body.to_owned());
        }
    });
    let lab = Lab::of("passes");
    let words = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let said = refused(&lab, &server, &words);
    assert!(said.contains(&format!("{server}/ rejects our credentials: Unauthorized\n")), "{said}");
    assert!(said.contains("to do: log in again"), "{said}");
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert!(doctor.out.contains("to do: log in again"), "{}", doctor.out);
}

#[test]
fn a_page_in_the_place_of_a_cluster_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer_with(stream, 200, &|_| "<html>\nPlease sign in</html>".to_owned());
        }
    });
    let lab = Lab::of("passes");
    let words = ["--kubeconfig", "kubeconfig", "--context", "here", "--confirm"];
    let said = refused(&lab, &server, &words);
    let what = "the response is not from a Kubernetes API server: status 200 OK, body \"<html> \
                Please sign in</html>\"\n";
    assert!(
        said.contains(&format!("schedlab: {server}/: {what}to do: is there a proxy")),
        "{said}"
    );
    let doctor = lab.run_with(&["doctor", "kubeconfig"], &[("KUBECONFIG", "kubeconfig")]);
    assert!(doctor.out.contains(&format!("context here: {what}")), "{}", doctor.out);
}

#[test]
fn a_busy_port_is_named() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let lab = Lab::empty();
    let up = lab.run(&["up", "--port", &port, "--kubeconfig", "kubeconfig"]);
    assert_eq!((up.code, &*up.out), (3, ""), "{}", up.all());
    assert!(up.err.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{}", up.err);
    assert!(!lab.exists("kubeconfig"));
}

#[test]
fn the_kubeconfig_of_a_cluster_that_runs_is_not_taken_over() {
    let running = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = running.local_addr().unwrap();
    let lab = Lab::empty();
    let text =
        format!("clusters:\n- name: schedlab\n  cluster: {{server: \"https://{server}\"}}\n");
    lab.write("kubeconfig", &text);
    let up = lab.run(&["up", "--kubeconfig", "kubeconfig"]);
    assert_eq!((up.code, &*up.out), (2, ""), "{}", up.all());
    let words = format!("kubeconfig exists and leads to a cluster that runs at {server}; name");
    assert!(up.err.contains(&words), "{}", up.err);
    assert!(lab.exists("kubeconfig"));
}

#[test]
fn a_kubeconfig_that_cannot_be_written_leaves_no_record() {
    let lab = Lab::empty();
    let state = lab.path("state");
    let args = ["up", "--empty", "--no-scheduler", "--kubeconfig", "absent/kubeconfig"];
    let up = lab.run_with(&args, &[("XDG_STATE_HOME", state.to_str().unwrap())]);
    assert_eq!((up.code, &*up.out), (3, ""), "{}", up.all());
    assert!(up.err.contains("cannot write absent/kubeconfig: No such file"), "{}", up.err);
    assert_eq!(std::fs::read_dir(state.join("schedlab/runs")).unwrap().count(), 0);
}

/// Starts a cluster whose kubeconfig is this file, and waits until it is written.
fn up(lab: &Lab, kubeconfig: &str) -> Child {
    let mut command = lab.command(&["up", "--empty", "--kubeconfig", kubeconfig]);
    command.env("XDG_STATE_HOME", lab.path("state"));
    let mut up = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    up
}

#[test]
fn what_a_cluster_that_was_killed_leaves_goes_with_clean_and_that_of_others_stays() {
    let lab = Lab::empty();
    let state = lab.path("state");
    let clean = || lab.run_with(&["clean"], &[("XDG_STATE_HOME", state.to_str().unwrap())]);
    let (mut killed, mut replaced) = (up(&lab, "killed"), up(&lab, "replaced"));
    for up in [&mut killed, &mut replaced] {
        up.kill().unwrap();
        up.wait().unwrap();
    }
    let mut lives = up(&lab, "replaced");
    let cleaned = clean();
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    assert_eq!((lab.exists("killed"), lab.exists("replaced")), (false, true), "{}", cleaned.all());
    let pressed = Command::new("kill").args(["-INT", &lives.id().to_string()]).status();
    assert!(pressed.unwrap().success() && lives.wait().unwrap().success());
    assert!(!lab.exists("replaced"));
    assert_eq!(std::fs::read_dir(state.join("schedlab/runs")).unwrap().count(), 0);
}

#[test]
fn a_cluster_of_schedlab_up_plays_the_nodes_of_scenarios_itself() {
    let lab = Lab::of("passes");
    let mut up = up(&lab, "kubeconfig");
    let named = ["--kubeconfig", "kubeconfig", "--context", "schedlab", "--confirm"];
    let run = |more: &[&str]| {
        let args = [&["run", "--cluster", "kubeconfig"], &named[..], more].concat();
        let args = [&args[..], &["--scheduler", "installed:kai-scheduler"]].concat();
        lab.run_with(&args, &[("XDG_STATE_HOME", lab.path("state").to_str().unwrap())])
    };
    let passed = run(&[]);
    assert_eq!(passed.code, 0, "{}", passed.all());
    assert!(passed.err.contains(", its emulator simulates its nodes"), "{}", passed.all());
    let refused = run(&["--kubelets", "kwok"]);
    assert_eq!(refused.code, 3, "{}", refused.all());
    assert!(refused.err.contains("--kubelets kwok: the cluster is an emulator"), "{}", refused.err);
    let pressed = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(pressed.unwrap().success() && up.wait().unwrap().success());
}

#[test]
fn a_scheduler_that_nobody_there_is_is_known_before_the_first_scenario() {
    let lab = Lab::of("passes");
    let mut up = up(&lab, "kubeconfig");
    lab.write("target.yaml", "name: nobody\nqueues: none\ncapabilities: []\n");
    let args = ["run", "--cluster", "kubeconfig", "--kubeconfig", "kubeconfig"];
    let more = ["--context", "schedlab", "--confirm", "--target", "target.yaml"];
    let args = [&args[..], &more, &["--scheduler", "installed:nobody"]].concat();
    let ended = lab.run_with(&args, &[("XDG_STATE_HOME", lab.path("state").to_str().unwrap())]);
    let pressed = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(pressed.unwrap().success() && up.wait().unwrap().success());
    assert_eq!((ended.code, &*ended.out), (3, ""), "{}", ended.all());
    let words = "schedlab: --scheduler installed:nobody: no scheduler of that name responds";
    assert!(ended.err.contains(words), "{}", ended.err);
    assert_eq!(std::fs::read_dir(lab.path("state/schedlab/runs")).unwrap().count(), 0);
}

/// As on a real cluster, where kube-scheduler takes it.
#[test]
fn a_pod_that_names_no_scheduler_runs_beside_those_of_ours() {
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
        let pod = schedlab_json::json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let pod = schedlab_json::from_value(pod).unwrap();
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
    let pressed = Command::new("kill").args(["-INT", &up.id().to_string()]).status();
    assert!(pressed.unwrap().success() && up.wait().unwrap().success());
    assert!(node.starts_with("node-"));
}
