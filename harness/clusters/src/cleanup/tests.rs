use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use schedlab_emulator::{Emulator, Options};

use super::run_record::read_all_records;
use super::*;
use crate::api::Api;

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Changes a record as if its run had ended by `kill -9`: its pid now belongs to another process.
fn simulate_crash(state: &Path, run: &Run) {
    let file = state.join("runs").join(format!("{}.json", run.id()));
    let mut record = RunRecord::read_record(&file).unwrap().unwrap();
    record.started += 1;
    record.write_record(&file).unwrap();
}

async fn cleaned_up(state: &Path, mode: CleanupMode) -> Vec<RunReport> {
    clean_finished_runs(state, mode).await.unwrap()
}

#[test]
fn records_are_sorted_by_the_start_of_runs() {
    let state = tempfile::tempdir().unwrap();
    let runs: Vec<Run> = (0..12).map(|_| Run::begin_in(state.path(), "run").unwrap()).collect();
    let records =
        read_all_records(state.path()).unwrap().into_iter().map(|(_, record)| record.unwrap().id);
    let began: Vec<String> = runs.iter().map(|run| run.id().to_owned()).collect();
    assert_eq!(records.collect::<Vec<_>>(), began);
}

#[tokio::test]
async fn cleanup_removes_resources_of_killed_runs_only() {
    let state = tempfile::tempdir().unwrap();
    let dead = Run::begin_in(state.path(), "up").unwrap();
    let live = Run::begin_in(state.path(), "run").unwrap();
    assert_ne!(dead.id(), live.id());
    let mut of_dead = dead.spawn(&mut sleeper()).unwrap();
    let mut of_live = live.spawn(&mut sleeper()).unwrap();
    let folder_of_dead = dead.temp_folder("etcd").unwrap();
    let folder_of_live = live.temp_folder("etcd").unwrap();
    simulate_crash(state.path(), &dead);

    let dry_run = cleaned_up(state.path(), CleanupMode::DryRun).await;
    let ends: Vec<&CleanupOutcome> =
        dry_run.iter().flat_map(|run| &run.resources).map(|one| &one.outcome).collect();
    assert_eq!(ends, [&CleanupOutcome::Present, &CleanupOutcome::Present], "{dry_run:?}");
    assert!(folder_of_dead.is_dir());

    let reports = cleaned_up(state.path(), CleanupMode::Remove).await;
    let states: Vec<(&str, RunState)> = reports.iter().map(|r| (&*r.run, r.state)).collect();
    assert_eq!(states, [(dead.id(), RunState::Ended), (live.id(), RunState::Running)]);
    assert!(!of_dead.wait().unwrap().success());
    assert!(!folder_of_dead.exists());
    assert!(of_live.try_wait().unwrap().is_none());
    assert!(folder_of_live.is_dir());

    let second = cleaned_up(state.path(), CleanupMode::Remove).await;
    assert_eq!(second.iter().map(|run| &*run.run).collect::<Vec<_>>(), [live.id()]);
    assert_eq!(live.clone().end().await, []);
    assert!(!of_live.wait().unwrap().success());
    assert!(cleaned_up(state.path(), CleanupMode::Remove).await.is_empty());
}

#[tokio::test]
async fn unregistered_processes_are_found_by_their_mark() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let (name, id) = run.run_id_env();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' TERM; sleep 601 & echo $!; wait"]);
    let mut shell = shell.env(name, id).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = String::new();
    let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut child).unwrap();
    let child = Process::from_pid(child.trim().parse().unwrap()).unwrap();
    simulate_crash(state.path(), &run);
    let reports = cleaned_up(state.path(), CleanupMode::Remove).await;
    assert!(
        reports[0].resources.iter().all(|one| one.outcome == CleanupOutcome::Removed),
        "{reports:?}"
    );
    assert_eq!(reports[0].resources.len(), 2, "{reports:?}");
    shell.wait().unwrap();
    assert_ne!(Process::from_pid(child.pid), Some(child));
}

#[tokio::test]
async fn docker_finishes_creating_a_container_before_it_is_searched() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    // kind has ended, so nobody waits for docker any more, and docker still completes its work.
    let mut kind = run.spawn(sleeper().stdout(Stdio::piped())).unwrap();
    std::os::unix::fs::symlink("/bin/sh", state.path().join("docker")).unwrap();
    std::fs::write(state.path().join("run"), "read line || echo made >container").unwrap();
    let mut docker = Command::new(state.path().join("docker"));
    docker.arg("run").current_dir(state.path()).stdin(kind.stdout.take().unwrap());
    let mut docker = run.spawn(docker.stdout(Stdio::null())).unwrap();
    assert_eq!(run.end().await, []);
    assert!(state.path().join("container").exists());
    assert!(docker.wait().unwrap().success() && !kind.wait().unwrap().success());
}

#[tokio::test]
async fn a_reused_pid_is_not_killed() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let mut foreign = sleeper().spawn().unwrap();
    let started = Process::from_pid(foreign.id()).unwrap().started - 1;
    run.register(Resource::Process { pid: foreign.id(), started, command: "etcd".to_owned() })
        .unwrap();
    assert_eq!(run.end().await, []);
    assert!(foreign.try_wait().unwrap().is_none());
    foreign.kill().unwrap();
    foreign.wait().unwrap();
}

#[tokio::test]
async fn a_folder_without_the_runs_id_is_not_removed() {
    let state = tempfile::tempdir().unwrap();
    let precious = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    run.register(Resource::Folder { path: precious.path().to_owned() }).unwrap();
    let problems = run.end().await;
    assert_eq!(problems.len(), 1);
    assert!(precious.path().is_dir());
    // The record remains, so that cleanup can be repeated.
    assert_eq!(read_all_records(state.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_kubeconfig_stays_while_its_cluster_is_not_cleaned_up() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let folder = run.temp_folder("kind").unwrap();
    let kubeconfig = folder.join("kubeconfig");
    // Nothing listens on port 1, which is reserved for multiplexers.
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
                  clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                  users: [{name: u, user: {token: t}}]\n\
                  contexts: [{name: x, context: {cluster: c, user: u}}]\n";
    std::fs::write(&kubeconfig, server).unwrap();
    let uid = None;
    run.register(Resource::Cluster { kubeconfig: kubeconfig.clone(), context: None, uid }).unwrap();
    let problems = run.end().await;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(kubeconfig.exists());
    // Both are retried, and the folder is removed after the cluster that it gives access to.
    assert_eq!(read_all_records(state.path()).unwrap()[0].1.as_ref().unwrap().resources.len(), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_cluster_with_another_uid_is_not_cleaned_up() {
    let emulator = Emulator::start(Options::with_clock(Clock::real()));
    let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let uid = Api::new(emulator.client()).cluster_uid().await.unwrap().unwrap();
    let state = tempfile::tempdir().unwrap();
    let kubeconfig = state.path().join("kubeconfig");
    std::fs::write(&kubeconfig, &server.kubeconfig).unwrap();
    let end = async |uid: &str| {
        let run = Run::begin_in(state.path(), "run").unwrap();
        let (kubeconfig, uid) = (kubeconfig.clone(), Some(uid.to_owned()));
        run.register(Resource::Cluster { kubeconfig, context: None, uid }).unwrap();
        run.end().await
    };
    let problems = end("of-another").await;
    assert_eq!(problems.len(), 1);
    let description = format!("{:?}", problems[0]);
    assert!(description.contains(&format!("got {uid}, expected of-another")), "{description}");
    assert_eq!(read_all_records(state.path()).unwrap().len(), 1, "it is retried");
    assert!(end(&uid).await.is_empty());
}

#[test]
fn a_run_on_another_machine_is_unreachable() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let mut record = run.lock_record().clone();
    record.pid_namespace.host = "elsewhere".to_owned();
    assert_eq!(record.run_state(), RunState::Unreachable);
    record.pid_namespace = run_record::PidNamespace {
        boot: "an earlier one".to_owned(),
        ..run_record::PidNamespace::of_this_process()
    };
    assert_eq!(record.run_state(), RunState::Ended);
}

#[test]
fn a_run_id_is_a_dns_label() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(run.id().chars().all(allowed) && run.id().len() < 40, "{}", run.id());
}

/// Another build of this program must derive the same word when it cleans up.
#[test]
fn the_short_name_of_a_run_is_derived_from_its_id() {
    let ids = ["20261125t231021-1234", "20261125t231021-1235", "20261125t231022-1234"];
    assert_eq!(ids.map(short_name_from_run_id), ["qjgvwd", "qwsjpn", "qcnnwq"]);
}

#[tokio::test]
async fn unreadable_records_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    assert_eq!(
        clean_finished_runs(&file, CleanupMode::Remove).await.unwrap(),
        [],
        "no run has begun yet"
    );
    std::fs::write(&file, "").unwrap();
    let expected = format!("cannot read the records of runs in {}/runs", file.display());
    assert_eq!(
        clean_finished_runs(&file, CleanupMode::Remove).await.unwrap_err().to_string(),
        expected
    );
    assert_eq!(find_unrecorded_resources(&file).unwrap_err().to_string(), expected);
}
