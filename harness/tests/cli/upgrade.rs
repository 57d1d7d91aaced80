//! `schedlab upgrade` between images and charts when a prerequisite is missing: one message, exit
//! code 3, and no cluster is created. Scripts stand in for docker and helm; kind is not installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::kind::with_programs;
use super::lab::CommandOutput;

/// A docker CLI with the image `old:1` only.
const DOCKER: &str = "case $5 in old:1) echo sha256:0 ;; \
                      *) echo \"Error: No such image: $5\" >&2; exit 1 ;; esac";

/// The message of an upgrade that cannot start.
fn start_error(programs: &[(&str, &str)], versions: [&str; 2], more: &[&str]) -> String {
    error_with_code(3, programs, versions, more)
}

/// The message of an invalid command line.
fn usage_error(versions: [&str; 2], more: &[&str]) -> String {
    error_with_code(2, &[], versions, more)
}

fn error_with_code(
    code: i32,
    programs: &[(&str, &str)],
    versions: [&str; 2],
    more: &[&str],
) -> String {
    let args = ["upgrade", "--from", versions[0], "--to", versions[1]];
    let (lab, mut command) = with_programs(programs, &[&args, more].concat());
    let output = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((output.code, &*output.stdout), (code, ""), "{}", output.all());
    assert!(!lab.exists("state"), "no run may have started: {}", output.all());
    output.stderr
}

#[test]
fn a_missing_image_is_named_before_a_cluster_boots() {
    let error = start_error(&[("docker", DOCKER)], ["image:old:1", "image:new:2"], &[]);
    assert!(error.contains("No such image: new:2"), "{error}");
    assert!(error.contains("docker load or a build"), "{error}");
}

#[test]
fn an_unreadable_chart_is_reported_in_helms_words() {
    let helm = "echo \"Error: path \\\"$3\\\" not found\" >&2; exit 1";
    let error = start_error(&[("helm", helm)], ["chart:a", "chart:b"], &[]);
    assert!(error.contains("path \"a\" not found"), "{error}");
    let error = start_error(&[], ["chart:a", "chart:b"], &[]);
    assert!(error.contains("there is no helm on the PATH"), "{error}");
    assert!(error.contains("kind-configs/tool helm"), "{error}");
}

#[test]
fn a_chart_without_containers_is_refused() {
    let error = start_error(&[("helm", "echo 'kind: Namespace'")], ["chart:a", "chart:b"], &[]);
    assert!(error.contains("a installs no containers"), "{error}");
}

#[test]
fn a_missing_program_is_reported_before_a_cluster_boots() {
    let existing = "process:/bin/sh -c true";
    let error = [
        start_error(&[], ["process:/no/such", existing], &[]),
        start_error(&[], [existing, "process:no-such-program x"], &[]),
    ];
    insta::assert_snapshot!(error.concat(), @r"
    schedlab: --from process:/no/such: there is no program /no/such
    schedlab: --to process:no-such-program x: there is no no-such-program on the PATH
    ");
}

#[test]
fn both_versions_are_of_one_kind_that_the_cluster_can_run() {
    let process = "process:true";
    let error = [
        usage_error(["image:a", "chart:b"], &[]),
        usage_error(["image:a", "image:b"], &["--cluster", "emulator"]),
        usage_error([process, process], &["--cluster", "kind"]),
        usage_error([process, process], &["--assets", "a"]),
        usage_error([process, process], &["--node-image", "a"]),
    ];
    insta::assert_snapshot!(error.concat(), @r"
    schedlab: got --from `image:` and --to `chart:`, expected the same kind for both
    schedlab: image:a runs in containers, expected --cluster kind
    schedlab: got process:true on --cluster kind, expected image: or chart:
    schedlab: --assets: applies to --cluster control-plane only
    schedlab: --node-image: applies to --cluster kind only
    ");
}
