//! `schedlab upgrade` between images and charts where something that it needs is missing: one
//! message, exit code 3, and no cluster is made for it. Docker and helm are played by scripts; kind
//! is not there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::kind::with_programs;
use super::lab::Ended;

/// Has the image `old:1` and no other.
const DOCKER: &str = "case $5 in old:1) echo sha256:0 ;; \
                      *) echo \"Error: No such image: $5\" >&2; exit 1 ;; esac";

/// The one message that an upgrade is refused with.
fn refused(programs: &[(&str, &str)], versions: [&str; 2], more: &[&str]) -> String {
    refused_with(3, programs, versions, more)
}

/// The one message of a command line that asks for something impossible.
fn impossible(versions: [&str; 2], more: &[&str]) -> String {
    refused_with(2, &[], versions, more)
}

fn refused_with(
    code: i32,
    programs: &[(&str, &str)],
    versions: [&str; 2],
    more: &[&str],
) -> String {
    let args = ["upgrade", "--from", versions[0], "--to", versions[1]];
    let (lab, mut command) = with_programs(programs, &[&args, more].concat());
    let ended = Ended::of(command.output().unwrap());
    assert_eq!((ended.code, &*ended.out), (code, ""), "{}", ended.all());
    assert!(!lab.exists("state"), "no run began: {}", ended.all());
    ended.err
}

#[test]
fn an_image_that_is_not_there_is_named_before_a_cluster_boots() {
    let said = refused(&[("docker", DOCKER)], ["image:old:1", "image:new:2"], &[]);
    assert!(said.contains("No such image: new:2"), "{said}");
    assert!(said.contains("docker load or a build"), "{said}");
}

#[test]
fn a_chart_that_helm_cannot_read_is_told_in_its_words() {
    let helm = "echo \"Error: path \\\"$3\\\" not found\" >&2; exit 1";
    let said = refused(&[("helm", helm)], ["chart:a", "chart:b"], &[]);
    assert!(said.contains("path \"a\" not found"), "{said}");
    let said = refused(&[], ["chart:a", "chart:b"], &[]);
    assert!(said.contains("there is no helm on the PATH"), "{said}");
    assert!(said.contains("kind-configs/tool helm"), "{said}");
}

#[test]
fn a_chart_that_runs_nothing_is_no_scheduler() {
    let said = refused(&[("helm", "echo 'kind: Namespace'")], ["chart:a", "chart:b"], &[]);
    assert!(said.contains("a installs no containers"), "{said}");
}

#[test]
fn a_program_that_is_not_there_is_told_before_a_cluster_boots() {
    let there = "process:/bin/sh -c true";
    let said = [
        refused(&[], ["process:/no/such", there], &[]),
        refused(&[], [there, "process:no-such-program x"], &[]),
    ];
    insta::assert_snapshot!(said.concat(), @r"
    schedlab: --from process:/no/such: there is no program /no/such
    schedlab: --to process:no-such-program x: there is no no-such-program on the PATH
    ");
}

#[test]
fn versions_are_of_one_sort_and_on_a_cluster_that_runs_it() {
    let process = "process:true";
    let said = [
        impossible(["image:a", "chart:b"], &[]),
        impossible(["image:a", "image:b"], &["--cluster", "emulator"]),
        impossible([process, process], &["--cluster", "kind"]),
        impossible([process, process], &["--assets", "a"]),
        impossible([process, process], &["--node-image", "a"]),
    ];
    insta::assert_snapshot!(said.concat(), @r"
    schedlab: --from is `image:` and --to a `chart:`; expected one sort for both
    schedlab: image:a runs containers: allowed for it is --cluster kind
    schedlab: process:true does not run on kind: allowed there are image: and chart:
    schedlab: --assets: it is for --cluster control-plane alone
    schedlab: --node-image: it is for --cluster kind alone
    ");
}
