use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use schedlab_emulator::{Emulator, Options};

use super::record::records;
use super::*;
use crate::api::Api;

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Makes a record look as after a `kill -9` of its run: its process is another one now.
fn kill(state: &Path, run: &Run) {
    let file = state.join("runs").join(format!("{}.json", run.id()));
    let mut record = Record::read(&file).unwrap().unwrap();
    record.started += 1;
    record.write(&file).unwrap();
}

async fn cleaned(state: &Path, doing: Doing) -> Vec<RunReport> {
    clean(state, doing).await.unwrap()
}

#[test]
fn records_are_in_the_order_in_which_runs_began() {
    let state = tempfile::tempdir().unwrap();
    let runs: Vec<Run> = (0..12).map(|_| Run::begin_in(state.path(), "run").unwrap()).collect();
    let records = records(state.path()).unwrap().into_iter().map(|(_, record)| record.unwrap().id);
    let began: Vec<String> = runs.iter().map(|run| run.id().to_owned()).collect();
    assert_eq!(records.collect::<Vec<_>>(), began);
}

#[tokio::test]
async fn what_a_killed_run_left_goes_and_a_live_run_is_not_touched() {
    let state = tempfile::tempdir().unwrap();
    let dead = Run::begin_in(state.path(), "up").unwrap();
    let live = Run::begin_in(state.path(), "run").unwrap();
    assert_ne!(dead.id(), live.id());
    let mut of_dead = dead.spawn(&mut sleeper()).unwrap();
    let mut of_live = live.spawn(&mut sleeper()).unwrap();
    let folder_of_dead = dead.temp_folder("etcd").unwrap();
    let folder_of_live = live.temp_folder("etcd").unwrap();
    kill(state.path(), &dead);

    let looked = cleaned(state.path(), Doing::Look).await;
    let ends: Vec<&End> = looked.iter().flat_map(|run| &run.things).map(|one| &one.end).collect();
    assert_eq!(ends, [&End::There, &End::There], "{looked:?}");
    assert!(folder_of_dead.is_dir());

    let reports = cleaned(state.path(), Doing::Remove).await;
    let lives: Vec<(&str, Life)> = reports.iter().map(|r| (&*r.run, r.life)).collect();
    assert_eq!(lives, [(dead.id(), Life::Ended), (live.id(), Life::Lives)]);
    assert!(!of_dead.wait().unwrap().success());
    assert!(!folder_of_dead.exists());
    assert!(of_live.try_wait().unwrap().is_none());
    assert!(folder_of_live.is_dir());

    let again = cleaned(state.path(), Doing::Remove).await;
    assert_eq!(again.iter().map(|run| &*run.run).collect::<Vec<_>>(), [live.id()]);
    assert_eq!(live.clone().end().await, []);
    assert!(!of_live.wait().unwrap().success());
    assert!(cleaned(state.path(), Doing::Remove).await.is_empty());
}

#[tokio::test]
async fn a_child_that_was_never_noted_is_found_by_its_mark_and_its_children_too() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let (name, id) = run.mark();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' TERM; sleep 601 & echo $!; wait"]);
    let mut shell = shell.env(name, id).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = String::new();
    let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut child).unwrap();
    let child = Process::find(child.trim().parse().unwrap()).unwrap();
    kill(state.path(), &run);
    let reports = cleaned(state.path(), Doing::Remove).await;
    assert!(reports[0].things.iter().all(|one| one.end == End::Removed), "{reports:?}");
    assert_eq!(reports[0].things.len(), 2, "{reports:?}");
    shell.wait().unwrap();
    assert_ne!(Process::find(child.pid), Some(child));
}

#[tokio::test]
async fn a_container_that_docker_is_making_is_there_before_it_is_looked_for() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    // Nobody needs docker any more when kind has ended, and it works on all the same.
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
async fn a_process_id_that_means_another_process_now_is_left_alone() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let mut stranger = sleeper().spawn().unwrap();
    let started = Process::find(stranger.id()).unwrap().started - 1;
    run.note(Thing::Process { pid: stranger.id(), started, command: "etcd".to_owned() }).unwrap();
    assert_eq!(run.end().await, []);
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_the_runs_own_stays_and_is_told() {
    let state = tempfile::tempdir().unwrap();
    let precious = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    run.note(Thing::Folder { path: precious.path().to_owned() }).unwrap();
    let problems = run.end().await;
    assert_eq!(problems.len(), 1);
    assert!(precious.path().is_dir());
    // The record remains, for the next attempt.
    assert_eq!(records(state.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn the_way_to_a_cluster_stays_as_long_as_something_may_be_there() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let folder = run.temp_folder("kind").unwrap();
    let kubeconfig = folder.join("kubeconfig");
    // Nobody may listen on the port that is kept for multiplexers.
    let server = "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
                  clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                  users: [{name: u, user: {token: t}}]\n\
                  contexts: [{name: x, context: {cluster: c, user: u}}]\n";
    std::fs::write(&kubeconfig, server).unwrap();
    let uid = None;
    run.note(Thing::Cluster { kubeconfig: kubeconfig.clone(), context: None, uid }).unwrap();
    let problems = run.end().await;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(kubeconfig.exists());
    // Both are tried again, and the folder goes with what it led to.
    assert_eq!(records(state.path()).unwrap()[0].1.as_ref().unwrap().things.len(), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_cluster_that_took_the_place_of_the_runs_is_not_taken_for_it() {
    let emulator = Emulator::start(Options::at(Clock::real()));
    let server = emulator.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let uid = Api::new(emulator.client()).cluster_uid().await.unwrap().unwrap();
    let state = tempfile::tempdir().unwrap();
    let kubeconfig = state.path().join("kubeconfig");
    std::fs::write(&kubeconfig, &server.kubeconfig).unwrap();
    let end = async |uid: &str| {
        let run = Run::begin_in(state.path(), "run").unwrap();
        let (kubeconfig, uid) = (kubeconfig.clone(), Some(uid.to_owned()));
        run.note(Thing::Cluster { kubeconfig, context: None, uid }).unwrap();
        run.end().await
    };
    let problems = end("of-another").await;
    assert_eq!(problems.len(), 1);
    let told = format!("{:?}", problems[0]);
    assert!(told.contains(&format!("has uid {uid}, that of the run's has of-another")), "{told}");
    assert_eq!(records(state.path()).unwrap().len(), 1, "it is tried again");
    assert!(end(&uid).await.is_empty());
}

#[test]
fn a_record_of_another_machine_is_not_judged() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let mut record = run.record().clone();
    record.place.host = "elsewhere".to_owned();
    assert_eq!(record.life(), Life::Elsewhere);
    record.place = record::Place { boot: "an earlier one".to_owned(), ..record::Place::here() };
    assert_eq!(record.life(), Life::Ended);
}

#[test]
fn an_id_can_be_part_of_a_name_in_a_cluster() {
    let state = tempfile::tempdir().unwrap();
    let run = Run::begin_in(state.path(), "run").unwrap();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(run.id().chars().all(allowed) && run.id().len() < 40, "{}", run.id());
}

/// Whoever cleans up, with whatever build of this program, has to find it by the id.
#[test]
fn a_runs_word_follows_from_its_id() {
    let ids = ["20261125t231021-1234", "20261125t231021-1235", "20261125t231022-1234"];
    assert_eq!(ids.map(name_of), ["qjgvwd", "qwsjpn", "qcnnwq"]);
}

#[tokio::test]
async fn records_that_cannot_be_read_are_no_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    assert_eq!(clean(&file, Doing::Remove).await.unwrap(), [], "no run has begun yet");
    std::fs::write(&file, "").unwrap();
    let told = format!("the records of runs cannot be read in {}/runs", file.display());
    assert_eq!(clean(&file, Doing::Remove).await.unwrap_err().to_string(), told);
    assert_eq!(unrecorded(&file).unwrap_err().to_string(), told);
}
