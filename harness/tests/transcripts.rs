//! kubectl prints on `schedlab up` what it prints on a real control plane with the same fleet and
//! the same schedulers: `transcripts/play.txt`. There the API server and the controllers are the
//! real ones; nodes and what runs on them are simulated on both.
#![expect(clippy::unwrap_used, reason = "a test ends where kubectl cannot be run")]

#[path = "transcripts/cluster.rs"]
mod cluster;
#[path = "../emulator/tests/real/transcript.rs"]
mod transcript;

use cluster::{Real, Up};
use schedlab_control_plane::test_assets;
use transcript::play;

const PLAY: &str = include_str!("transcripts/play.txt");

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_prints_the_same_on_schedlab_up_and_on_a_control_plane() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = test_assets(&programs) else { return };
    let up = Up::start();
    let real = Real::start(&assets).await.expect("a control plane boots");
    let played = |kubeconfig: &str| {
        let (folder, kubeconfig) = (assets.folder().to_path_buf(), kubeconfig.to_owned());
        tokio::task::spawn_blocking(move || play(&folder, &kubeconfig, PLAY))
    };
    let (theirs, ours) = tokio::join!(played(real.kubeconfig()), played(&up.kubeconfig()));
    let (theirs, ours) = (theirs.expect("it plays"), ours.expect("it plays"));
    let pairs = theirs.iter().zip(&ours).filter(|(their, our)| their.text != our.text);
    let wrong: Vec<String> = pairs.map(|(their, our)| their.diff(our)).collect();
    assert!(wrong.is_empty(), "{}\n{} of {} differ", wrong.join("\n"), wrong.len(), theirs.len());
}
