//! kubectl prints on `schedlab up` what it prints on a real control plane with the same fleet and
//! the same schedulers: `transcripts/play.txt`. There the API server and the controllers are the
//! real ones; nodes and what runs on them are simulated on both.
#![expect(clippy::unwrap_used, reason = "a test ends where kubectl cannot be run")]

#[path = "transcripts/cluster.rs"]
mod cluster;
#[path = "../emulator/tests/real/transcript.rs"]
mod transcript;

use cluster::{Real, Up};
use schedlab_control_plane::assets_for_a_test;
use transcript::{Printed, play};

const PLAY: &str = include_str!("transcripts/play.txt");

/// First lines of commands that print something else, and why.
const DIFFER: [(&str, &str); 1] = [(
    "kubectl get all",
    "the emulator has no service `kubernetes`: it has no network in which pods could call it",
)];

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_prints_the_same_on_schedlab_up_and_on_a_control_plane() {
    let programs = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];
    let Some(assets) = assets_for_a_test(&programs) else { return };
    let up = Up::start();
    let real = Real::start(&assets).await.expect("a control plane boots");
    let played = |kubeconfig: &str| {
        let (folder, kubeconfig) = (assets.folder().to_path_buf(), kubeconfig.to_owned());
        tokio::task::spawn_blocking(move || play(&folder, &kubeconfig, PLAY))
    };
    let (theirs, ours) = tokio::join!(played(real.kubeconfig()), played(&up.kubeconfig()));
    let (theirs, ours) = (theirs.expect("it plays"), ours.expect("it plays"));
    let (mut wrong, mut listed) = (Vec::new(), Vec::new());
    for (their, our) in theirs.iter().zip(&ours).filter(|(their, our)| their.text != our.text) {
        match DIFFER.iter().find(|(command, _)| first_line(their) == *command) {
            Some(known) => listed.push(*known),
            None => wrong.push(their.against(our)),
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {} differ", wrong.join("\n"), wrong.len(), theirs.len());
    assert_eq!(listed, DIFFER, "what is listed differs, once each");
}

fn first_line(printed: &Printed) -> &str {
    printed.command.lines().next().unwrap_or_default()
}
