//! Sends the same requests (`cases/*.http`) to the emulator and to the real kube-apiserver and
//! compares the responses. Without the binaries of the real one, the emulator is compared with the
//! responses recorded in the cases.

#![expect(clippy::unwrap_used, reason = "a test ends where its servers cannot be reached")]

mod case_player;
mod compare;
mod known_differences;
mod normalizer;
mod script;
mod test_webhook;
mod transcript;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use case_player::{CasePlayer, RecordedResponse};
use compare::differences;
use futures::future::join_all;
use known_differences::{CaseRequest, KnownDifferences};
use kube::Client;
use schedlab_control_plane::{Assets, TemporaryControlPlane, client_config, test_assets};
use schedlab_emulator::clock::Clock;
use schedlab_emulator::feature_gates::FeatureGates;
use schedlab_emulator::{Emulator, KubernetesVersion, Options, Server};
use script::Script;
use test_webhook::TestWebhook;
use transcript::CommandOutput;

/// Arguments of the real server: privileged pods are allowed, and service addresses come from the
/// same range as in the emulator.
const API_SERVER_ARGS: &[&str] =
    &["--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16"];

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

/// The arguments of the real server for feature gates: `A=true,B=true`.
fn gate_args(gates: &str) -> Vec<String> {
    if gates.is_empty() {
        return Vec::new();
    }
    let groups = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true";
    vec![format!("--feature-gates={gates}"), format!("--runtime-config={groups}")]
}

/// The version of Kubernetes of the real programs, which the emulator serves too.
fn version(assets: &Assets) -> KubernetesVersion {
    assets.version().unwrap().parse().unwrap()
}

/// An emulator with or without controllers.
async fn emulator(
    feature_gates: FeatureGates,
    runs_controllers: bool,
) -> (Emulator, Server, Client) {
    let emulator = Emulator::start(Options {
        feature_gates,
        workload_kinds: false,
        runs_controllers,
        ..Options::with_clock(Clock::real())
    });
    let server = emulator.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let client = client(&server.kubeconfig).await;
    (emulator, server, client)
}

/// A client for a kubeconfig, without retries, so that every response is compared.
async fn client(kubeconfig: &str) -> Client {
    let mut config = client_config(kubeconfig).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Plays the cases of a script in parallel. The namespaces have the same names on every server.
async fn play_script(
    client: &Client,
    script: &Script,
    webhook: &TestWebhook,
) -> Vec<Vec<RecordedResponse>> {
    let name = script.name();
    let stem = name.split('-').next().unwrap();
    let cases = script.cases.iter().enumerate().map(|(index, case)| async move {
        let namespace = format!("case-{stem}{}", index + 1);
        CasePlayer::play(client, webhook, case, &namespace).await
    });
    join_all(cases).await
}

/// Plays a script on a new emulator.
async fn play_on_emulator(
    version: KubernetesVersion,
    script: &Script,
    webhook: &TestWebhook,
) -> Vec<Vec<RecordedResponse>> {
    let gates = FeatureGates::parse(version, &script.gates).unwrap();
    let (_emulator, _server, client) = emulator(gates, false).await;
    play_script(&client, script, webhook).await
}

/// Plays all scripts on one server in sequence: their cluster-scoped objects would appear in each
/// other's lists.
async fn play_in_turn(
    client: &Client,
    scripts: &[Script],
    webhook: &TestWebhook,
) -> Vec<Vec<Vec<RecordedResponse>>> {
    let mut responses = Vec::new();
    for script in scripts {
        responses.push(play_script(client, script, webhook).await);
    }
    responses
}

/// The requests of a script with their responses.
fn requests_with_responses(
    script: &Script,
    responses: Vec<Vec<RecordedResponse>>,
) -> impl Iterator<Item = (CaseRequest<'_>, RecordedResponse)> {
    script.cases.iter().zip(responses).flat_map(move |(case, responses)| {
        let steps = case.steps.iter().map(move |step| CaseRequest { script, case, step });
        steps.zip(responses)
    })
}

#[tokio::test]
async fn the_emulator_responds_as_recorded_in_the_cases() {
    let version = KubernetesVersion::default();
    let known = KnownDifferences::read(version);
    let scripts = scripts();
    let webhook = TestWebhook::start().await;
    let responses =
        join_all(scripts.iter().map(|script| play_on_emulator(version, script, &webhook))).await;
    let mut wrong = Vec::new();
    for (script, responses) in scripts.iter().zip(responses) {
        let unlisted = requests_with_responses(script, responses)
            .filter(|(request, _)| !known.names(*request));
        wrong.extend(unlisted.filter_map(|(request, response)| wrong_response(request, &response)));
    }
    assert!(wrong.is_empty(), "{}\n{} responses are wrong", wrong.join("\n"), wrong.len());
}

fn wrong_response(request: CaseRequest<'_>, response: &RecordedResponse) -> Option<String> {
    let is = response.summary();
    let expected = request.step.expected.as_ref().filter(|expected| **expected != is)?;
    Some(format!("{request}\n      must be {expected}\n      is      {is}"))
}

/// How often a file is played on new servers while responses differ. Admission in the real server
/// uses caches that may be stale, so a difference may disappear on retry. The emulator has no such
/// caches; all its responses are also compared with the cases.
const PLAYS: usize = 3;

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the output shows how many responses were compared")]
async fn the_emulator_responds_as_the_real_server() {
    let Some(assets) = test_assets(&["etcd", "kube-apiserver"]) else { return };
    let known = KnownDifferences::read(version(&assets));
    let mut scripts = scripts();
    // Kubernetes 1.35 lacks these gates.
    scripts
        .retain(|script| script.gates.is_empty() || version(&assets) >= KubernetesVersion::V1_37);
    let webhook = TestWebhook::start().await;
    let mut all = compare(&assets, &scripts, &webhook, &known).await;
    let count: usize = all.iter().map(|comparison| comparison.responses).sum();
    let (mut found, mut lagging) = (Vec::new(), Vec::new());
    for (script, comparison) in scripts.iter().zip(&mut all) {
        let once = comparison.different.clone();
        let mut plays = if updates_cases() { PLAYS } else { 1 };
        while plays < PLAYS && !comparison.different.is_empty() {
            plays += 1;
            let again = compare(&assets, std::slice::from_ref(script), &webhook, &known).await;
            comparison.different.retain(|different| again[0].different.contains(different));
        }
        lagging.extend(once.difference(&comparison.different).cloned());
        found.extend(comparison.different.iter().cloned());
    }
    let table = format!(
        "{} of {count} responses are equal except for known differences, {} differ",
        count - found.len(),
        found.len()
    );
    if std::env::var_os("CASES").is_none() {
        found.extend(known.stale());
    }
    for different in lagging {
        println!("differed once, but not again: {different}");
    }
    println!("{table}");
    assert!(found.is_empty(), "{}\n{table}", found.join("\n"));
}

/// The comparison of a file.
struct Comparison {
    responses: usize,
    /// The requests whose responses differ, with the differences.
    different: BTreeSet<String>,
}

/// Plays scripts on emulators and on new real servers, one for each run of scripts with the same
/// feature gates.
async fn compare(
    assets: &Assets,
    scripts: &[Script],
    webhook: &TestWebhook,
    known: &KnownDifferences,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for scripts in scripts.chunk_by(|one, other| one.gates == other.gates) {
        all.extend(compare_with_gates(assets, scripts, webhook, known).await);
    }
    all
}

/// Plays scripts that enable the same feature gates.
async fn compare_with_gates(
    assets: &Assets,
    scripts: &[Script],
    webhook: &TestWebhook,
    known: &KnownDifferences,
) -> Vec<Comparison> {
    let gates = gate_args(&scripts[0].gates);
    let arguments: Vec<&str> =
        API_SERVER_ARGS.iter().copied().chain(gates.iter().map(String::as_str)).collect();
    let plane = TemporaryControlPlane::boot(assets, &arguments).await.unwrap();
    let real = client(plane.kubeconfig()).await;
    let version = version(assets);
    let emulated = scripts.iter().map(|script| play_on_emulator(version, script, webhook));
    let (theirs, ours) = tokio::join!(play_in_turn(&real, scripts, webhook), join_all(emulated));
    let both = scripts.iter().zip(theirs).zip(ours);
    both.map(|((script, theirs), ours)| {
        if updates_cases() {
            update(script, &theirs);
        }
        let responses = theirs.iter().flatten().count();
        let pairs = requests_with_responses(script, theirs).zip(ours.into_iter().flatten());
        let different = pairs.filter_map(|((request, their), our)| {
            let mut differences = differences(&their, &our);
            differences.retain(|difference| !known.has(request, &difference.path));
            let lines: Vec<_> = differences.iter().map(ToString::to_string).collect();
            (!lines.is_empty()).then(|| format!("{request}\n      {}", lines.join("\n      ")))
        });
        Comparison { responses, different: different.collect() }
    })
    .collect()
}

#[tokio::test]
async fn kubectl_prints_the_same_on_both_servers() {
    let programs = ["etcd", "kube-apiserver", "kubectl"];
    let Some(assets) = test_assets(&programs) else { return };
    let plane = TemporaryControlPlane::boot(&assets, API_SERVER_ARGS).await.unwrap();
    let (_emulator, server, _client) = emulator(FeatureGates::new(version(&assets)), false).await;
    let servers = [plane.kubeconfig(), &server.kubeconfig];
    compare_printed(include_str!("transcripts/lab.txt"), &assets, servers).await;
}

#[tokio::test]
async fn controllers_do_the_same_on_both_servers() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = test_assets(&programs) else { return };
    let mut plane = TemporaryControlPlane::boot(&assets, API_SERVER_ARGS).await.unwrap();
    plane.start_controller_manager().unwrap();
    let (_emulator, server, _client) = emulator(FeatureGates::new(version(&assets)), true).await;
    let servers = [plane.kubeconfig(), &server.kubeconfig];
    compare_printed(include_str!("transcripts/controllers.txt"), &assets, servers).await;
}

#[tokio::test]
async fn controllers_of_workloads_do_the_same_on_both_servers() {
    const GATES: &str = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,\
                         DRAWorkloadResourceClaims=true,WorkloadWithJob=true";
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = test_assets(&programs) else { return };
    if version(&assets) < KubernetesVersion::V1_37 {
        return;
    }
    let gates = gate_args(GATES);
    let arguments: Vec<&str> =
        API_SERVER_ARGS.iter().copied().chain(gates.iter().map(String::as_str)).collect();
    let mut plane = TemporaryControlPlane::boot(&assets, &arguments).await.unwrap();
    plane.start_controller_manager_with_gates(GATES).unwrap();
    let gates = FeatureGates::parse(version(&assets), GATES).unwrap();
    let (_emulator, server, _client) = emulator(gates, true).await;
    let servers = [plane.kubeconfig(), &server.kubeconfig];
    let transcript = include_str!("transcripts/workload-controllers.txt");
    compare_printed(transcript, &assets, servers).await;
}

/// Plays a transcript on the real server and the emulator, and compares the outputs.
async fn compare_printed(transcript: &'static str, assets: &Assets, [theirs, ours]: [&str; 2]) {
    let play = |kubeconfig: &str| {
        let (folder, kubeconfig) = (assets.folder().to_path_buf(), kubeconfig.to_owned());
        tokio::task::spawn_blocking(move || transcript::play(&folder, &kubeconfig, transcript))
    };
    let (theirs, ours) = tokio::join!(play(theirs), play(ours));
    let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
    let known = KnownDifferences::read(version(assets));
    let is_new = |their: &CommandOutput, our: &CommandOutput| {
        their.text != our.text && !known.has_command(&their.command)
    };
    let pairs = theirs.iter().zip(&ours).filter(|(their, our)| is_new(their, our));
    let found: Vec<String> = pairs.map(|(their, our)| their.diff(our)).collect();
    let count = theirs.len();
    assert!(found.is_empty(), "{}\n{} of {count} differ", found.join("\n"), found.len());
}

/// Whether `UPDATE_CASES` requests to rewrite the cases.
fn updates_cases() -> bool {
    std::env::var_os("UPDATE_CASES").is_some()
}

/// Writes the responses of the real server into the cases.
fn update(script: &Script, responses: &[Vec<RecordedResponse>]) {
    let text = std::fs::read_to_string(&script.path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (case, responses) in script.cases.iter().zip(responses).rev() {
        for (step, response) in case.steps.iter().zip(responses).rev() {
            let line_number = step.last_line + 1;
            let line = format!("=> {}", response.summary());
            if step.expected.is_some() {
                let line_number = lines[line_number - 1..]
                    .iter()
                    .position(|line| line.starts_with("=> "))
                    .unwrap()
                    + line_number
                    - 1;
                lines[line_number] = line;
            } else {
                lines.insert(line_number, line);
            }
        }
    }
    std::fs::write(&script.path, lines.join("\n") + "\n").unwrap();
}
