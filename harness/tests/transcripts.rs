//! kubectl prints the same on `schedlab up` and on a real control plane with the same fleet and the
//! same schedulers, for the commands in `transcripts/play.txt`. The control plane has the real API
//! server and controllers; nodes and pods are simulated on both.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "transcripts/cluster.rs"]
mod cluster;
#[path = "../emulator/tests/real/transcript.rs"]
mod transcript;

use cluster::{ControlPlaneCluster, UpCluster};
use schedlab_control_plane::test_assets;
use transcript::play;

const TRANSCRIPT: &str = include_str!("transcripts/play.txt");

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_prints_the_same_on_schedlab_up_and_on_a_control_plane() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = test_assets(&programs) else { return };
    let up = UpCluster::start();
    let real = ControlPlaneCluster::start(&assets).await.expect("a control plane boots");
    let run_transcript = |kubeconfig: &str| {
        let (folder, kubeconfig) = (assets.folder().to_path_buf(), kubeconfig.to_owned());
        tokio::task::spawn_blocking(move || play(&folder, &kubeconfig, TRANSCRIPT))
    };
    let (theirs, ours) =
        tokio::join!(run_transcript(real.kubeconfig()), run_transcript(&up.kubeconfig()));
    let (theirs, ours) = (theirs.expect("kubectl runs"), ours.expect("kubectl runs"));
    let pairs = theirs.iter().zip(&ours).filter(|(real, emulated)| real.text != emulated.text);
    let differences: Vec<String> = pairs.map(|(real, emulated)| real.diff(emulated)).collect();
    assert!(
        differences.is_empty(),
        "{}\n{} of {} differ",
        differences.join("\n"),
        differences.len(),
        theirs.len()
    );
}
