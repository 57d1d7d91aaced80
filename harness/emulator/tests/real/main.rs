//! The emulator and the real kube-apiserver get the same requests (`cases/*.http`) and must give
//! the same answers. Without the real one's binaries the emulator is held to what the cases say.

#![expect(clippy::unwrap_used, reason = "a test ends where its servers cannot be reached")]

mod compare;
mod hook;
mod normal;
mod player;
mod reviewed;
mod script;
mod transcript;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use compare::differences;
use futures::future::join_all;
use hook::Hook;
use kube::Client;
use player::{Answer, Player};
use reviewed::{Asked, Reviewed};
use schedlab_control_plane::{Assets, Temporary, assets_for_a_test, config};
use schedlab_emulator::clock::Clock;
use schedlab_emulator::{Emulator, Options, Server};
use script::Script;
use transcript::Printed;

/// Arguments of the real server, which has all its admission plugins: pods may be privileged, and services have their addresses where the emulator's have them.
const ALIKE: &[&str] = &["--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16"];

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/cases");
    let only = std::env::var("CASES").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .filter(|path| path.to_string_lossy().contains(&only))
        .map(|path| Script::read(path))
        .collect()
}

/// An emulator, with or without its controllers.
async fn emulator(acts: bool) -> (Emulator, Server, Client) {
    let emulator =
        Emulator::start(Options { workload_kinds: false, acts, ..Options::at(Clock::real()) });
    let server = emulator.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = client(&server.kubeconfig).await;
    (emulator, server, client)
}

/// A client of whoever wrote a kubeconfig. It retries nothing: every answer is seen.
async fn client(kubeconfig: &str) -> Client {
    let mut config = config(kubeconfig).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Plays a script's cases side by side; namespaces are named alike on every server.
async fn played(client: &Client, script: &Script, hook: &Hook) -> Vec<Vec<Answer>> {
    let name = script.name();
    let stem = name.split('-').next().unwrap();
    let cases = script.cases.iter().enumerate().map(|(index, case)| async move {
        let namespace = format!("case-{stem}{}", index + 1);
        Player::play((client, hook), case, &namespace).await
    });
    join_all(cases).await
}

/// Plays a script on an emulator of its own.
async fn emulated(script: &Script, hook: &Hook) -> Vec<Vec<Answer>> {
    let (_emulator, _server, client) = emulator(false).await;
    played(&client, script, hook).await
}

/// Plays all scripts on one server, each after the other: what one makes that has no namespace
/// would show in the lists of another.
async fn one_by_one(client: &Client, scripts: &[Script], hook: &Hook) -> Vec<Vec<Vec<Answer>>> {
    let mut answers = Vec::new();
    for script in scripts {
        answers.push(played(client, script, hook).await);
    }
    answers
}

/// A script's requests with their answers.
fn asked(script: &Script, answers: Vec<Vec<Answer>>) -> impl Iterator<Item = (Asked<'_>, Answer)> {
    script.cases.iter().zip(answers).flat_map(move |(case, answers)| {
        let steps = case.steps.iter().map(move |step| Asked { script, case, step });
        steps.zip(answers)
    })
}

#[tokio::test]
async fn the_emulator_answers_as_the_cases_say() {
    let reviewed = Reviewed::read();
    let scripts = scripts();
    let hook = Hook::start().await;
    let answers = join_all(scripts.iter().map(|script| emulated(script, &hook))).await;
    let mut wrong = Vec::new();
    for (script, answers) in scripts.iter().zip(answers) {
        let unlisted = asked(script, answers).filter(|(asked, _)| !reviewed.names(*asked));
        wrong.extend(unlisted.filter_map(|(asked, answer)| wrong_answer(asked, &answer)));
    }
    assert!(wrong.is_empty(), "{}\n{} answers are wrong", wrong.join("\n"), wrong.len());
}

fn wrong_answer(asked: Asked<'_>, answer: &Answer) -> Option<String> {
    let is = answer.summary();
    let expected = asked.step.expected.as_ref().filter(|expected| **expected != is)?;
    Some(format!("{asked}\n      must be {expected}\n      is      {is}"))
}

/// How often a file is played on new servers while answers differ: a real server admits requests
/// by caches that may lag behind what it has just answered, so that a play now and then differs
/// where the next does not. Ours has no caches; all its answers are held to the cases, too.
const PLAYS: usize = 3;

#[tokio::test]
#[expect(clippy::print_stdout, reason = "how much was compared is what a reader wants to know")]
async fn the_emulator_answers_as_the_real_server() {
    let Some(assets) = assets_for_a_test(&["etcd", "kube-apiserver"]) else { return };
    let reviewed = Reviewed::read();
    let scripts = scripts();
    let hook = Hook::start().await;
    let mut all = compare(&assets, &scripts, &hook, &reviewed).await;
    let count: usize = all.iter().map(|compared| compared.answers).sum();
    let (mut found, mut lagging) = (Vec::new(), Vec::new());
    for (script, compared) in scripts.iter().zip(&mut all) {
        let once = compared.different.clone();
        let mut plays = if updates() { PLAYS } else { 1 };
        while plays < PLAYS && !compared.different.is_empty() {
            plays += 1;
            let again = compare(&assets, std::slice::from_ref(script), &hook, &reviewed).await;
            compared.different.retain(|different| again[0].different.contains(different));
        }
        lagging.extend(once.difference(&compared.different).cloned());
        found.extend(compared.different.iter().cloned());
    }
    let table = format!(
        "{} of {count} answers equal but for reviewed places, {} different",
        count - found.len(),
        found.len()
    );
    if std::env::var_os("CASES").is_none() {
        found.extend(reviewed.stale());
    }
    for different in lagging {
        println!("different once, and not again: {different}");
    }
    println!("{table}");
    assert!(found.is_empty(), "{}\n{table}", found.join("\n"));
}

/// What a file's answers were on both servers.
struct Compared {
    answers: usize,
    /// The requests whose answers differ, with the places.
    different: BTreeSet<String>,
}

/// Plays scripts on a new real server and on emulators.
async fn compare(
    assets: &Assets,
    scripts: &[Script],
    hook: &Hook,
    reviewed: &Reviewed,
) -> Vec<Compared> {
    let plane = Temporary::boot(assets, ALIKE).await.unwrap();
    let real = client(plane.kubeconfig()).await;
    let emulated = scripts.iter().map(|script| emulated(script, hook));
    let (theirs, ours) = tokio::join!(one_by_one(&real, scripts, hook), join_all(emulated));
    let both = scripts.iter().zip(theirs).zip(ours);
    both.map(|((script, theirs), ours)| {
        if updates() {
            update(script, &theirs);
        }
        let answers = theirs.iter().flatten().count();
        let pairs = asked(script, theirs).zip(ours.into_iter().flatten());
        let different = pairs.filter_map(|((asked, their), our)| {
            let mut differences = differences(&their, &our);
            differences.retain(|difference| !reviewed.has(asked, &difference.place));
            let places: Vec<_> = differences.iter().map(ToString::to_string).collect();
            (!places.is_empty()).then(|| format!("{asked}\n      {}", places.join("\n      ")))
        });
        Compared { answers, different: different.collect() }
    })
    .collect()
}

#[tokio::test]
async fn kubectl_prints_the_same_on_both_servers() {
    let programs = ["etcd", "kube-apiserver", "kubectl"];
    let Some(assets) = assets_for_a_test(&programs) else { return };
    let plane = Temporary::boot(&assets, ALIKE).await.unwrap();
    let (_emulator, server, _client) = emulator(false).await;
    let servers = [plane.kubeconfig(), &server.kubeconfig];
    compare_printed(include_str!("transcripts/lab.txt"), &assets, servers).await;
}

#[tokio::test]
async fn controllers_do_the_same_on_both_servers() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = assets_for_a_test(&programs) else { return };
    let mut plane = Temporary::boot(&assets, ALIKE).await.unwrap();
    plane.manage().unwrap();
    let (_emulator, server, _client) = emulator(true).await;
    let servers = [plane.kubeconfig(), &server.kubeconfig];
    compare_printed(include_str!("transcripts/controllers.txt"), &assets, servers).await;
}

/// Plays a transcript on the real server and on ours, and compares what is printed.
async fn compare_printed(transcript: &'static str, assets: &Assets, [theirs, ours]: [&str; 2]) {
    let play = |kubeconfig: &str| {
        let (folder, kubeconfig) = (assets.folder().to_path_buf(), kubeconfig.to_owned());
        tokio::task::spawn_blocking(move || transcript::play(&folder, &kubeconfig, transcript))
    };
    let (theirs, ours) = tokio::join!(play(theirs), play(ours));
    let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
    let reviewed = Reviewed::read();
    let is_new = |their: &Printed, our: &Printed| {
        their.text != our.text && !reviewed.has_command(&their.command)
    };
    let pairs = theirs.iter().zip(&ours).filter(|(their, our)| is_new(their, our));
    let found: Vec<String> = pairs.map(|(their, our)| their.against(our)).collect();
    let count = theirs.len();
    assert!(found.is_empty(), "{}\n{} of {count} differ", found.join("\n"), found.len());
}

/// Whether the cases are to be written anew.
fn updates() -> bool {
    std::env::var_os("UPDATE_CASES").is_some()
}

/// Writes what the real server answers into the cases.
fn update(script: &Script, answers: &[Vec<Answer>]) {
    let text = std::fs::read_to_string(&script.path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (case, answers) in script.cases.iter().zip(answers).rev() {
        for (step, answer) in case.steps.iter().zip(answers).rev() {
            let place = step.last_line + 1;
            let line = format!("=> {}", answer.summary());
            if step.expected.is_some() {
                let place =
                    lines[place - 1..].iter().position(|line| line.starts_with("=> ")).unwrap()
                        + place
                        - 1;
                lines[place] = line;
            } else {
                lines.insert(place, line);
            }
        }
    }
    std::fs::write(&script.path, lines.join("\n") + "\n").unwrap();
}
