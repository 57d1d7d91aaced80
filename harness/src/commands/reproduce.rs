//! The options that reproduce a failed scenario: those that affect its verdict, except path and
//! seed.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{ClusterChoice, DEFAULT_MIN_WAIT, DEFAULT_STEP_TIMEOUT, EnvironmentArgs, Run};
use schedlab_clusters::real_cluster::Kubelets;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::text::shell_quoted_word;

/// The options of a command that reproduces the run, each with a leading space; empty for our
/// scheduler on the emulator. `baseline` is the folder of the baseline run, because `latest` may
/// change.
pub(super) fn run_options(run: &Run, baseline: Option<&str>) -> String {
    let Run { execution, expected_differences, .. } = run;
    let repeat = (execution.repeat.get() > 1).then(|| execution.repeat.to_string());
    let options = [
        (
            "timeout",
            (execution.timeout != DEFAULT_STEP_TIMEOUT).then(|| duration_text(execution.timeout)),
        ),
        ("repeat", repeat),
        ("baseline", baseline.map(str::to_owned)),
        ("expected-differences", path_text(expected_differences.as_ref())),
    ];
    environment_options(&run.environment) + &option_words(&options)
}

/// The options of a run that choose the cluster and the scheduler.
pub(super) fn environment_options(environment: &EnvironmentArgs) -> String {
    let cluster = environment.cluster;
    let scheduler = (environment.scheduler != SchedulerSource::Ours)
        .then(|| scheduler_option(&environment.scheduler));
    let min_wait = environment.min_wait;
    let where_to = [
        (
            "cluster",
            (cluster != ClusterChoice::Emulator).then(|| cluster.option_value().to_owned()),
        ),
        ("assets", path_text(environment.assets.as_ref())),
        ("kubernetes", environment.kubernetes.map(|version| version.to_string())),
        (
            "feature-gates",
            Some(environment.feature_gates.clone()).filter(|gates| !gates.is_empty()),
        ),
        ("kubeconfig", path_text(environment.kubeconfig.as_ref())),
        ("context", environment.confirmed_context().cloned()),
    ];
    let how = [
        ("image", environment.image.clone()),
        ("kind-cluster", environment.kind_cluster.clone()),
        ("node-image", environment.node_image.clone()),
        ("kind-config", path_text(environment.kind_config.as_ref())),
        (
            "kubelets",
            (environment.kubelets != Kubelets::Auto)
                .then(|| environment.kubelets.option_value().to_owned()),
        ),
        ("scheduler", scheduler),
        ("target", path_text(environment.target.as_ref())),
        ("time-scale", environment.time_scale.map(|factor| factor.to_string())),
        ("min-wait", (min_wait != DEFAULT_MIN_WAIT).then(|| duration_text(min_wait))),
    ];
    let confirm = if environment.confirmed_context().is_some() { " --confirm" } else { "" };
    let force = if environment.force { " --force" } else { "" };
    option_words(&where_to) + confirm + &option_words(&how) + force
}

/// The value of `--scheduler`.
pub(super) fn scheduler_option(source: &SchedulerSource) -> String {
    match source {
        SchedulerSource::Ours => "ours".to_owned(),
        SchedulerSource::NoScheduler => "none".to_owned(),
        SchedulerSource::Process(command) => format!("process:{command}"),
        SchedulerSource::Installed(name) => format!("installed:{name}"),
        SchedulerSource::Deployment(image) => format!("deployment:{image}"),
    }
}

/// Writes the options that have a value as words of a command line.
fn option_words(options: &[(&str, Option<String>)]) -> String {
    let given = options.iter().filter_map(|(name, value)| {
        Some([" --", name, " ", &shell_quoted_word(value.as_ref()?)].concat())
    });
    given.collect()
}

fn path_text(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// A duration as it is written on the command line.
pub(super) fn duration_text(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn reproduce_options(words: &[&str]) -> String {
        let cli = Cli::try_parse_from([&["schedlab", "run"], words].concat()).unwrap();
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        run_options(&run, run.baseline.as_deref())
    }

    #[test]
    fn the_reproduce_line_repeats_options_that_affect_the_verdict() {
        assert_eq!(reproduce_options(&["--timeout", "30d", "--repeat", "1", "--retries", "2"]), "");
        let words = ["--timeout", "1s", "--repeat", "20"];
        assert_eq!(reproduce_options(&words), " --timeout 1s --repeat 20");
        let words = ["--baseline", "results/a run", "--expected-differences", "known.md"];
        assert_eq!(
            reproduce_options(&words),
            " --baseline 'results/a run' --expected-differences known.md"
        );
        let old = ["--like", "results/a run", "--known", "known.md"];
        assert_eq!(reproduce_options(&old), reproduce_options(&words));
    }

    #[test]
    fn the_reproduce_line_repeats_cluster_options() {
        assert_eq!(reproduce_options(&["features", "--seed", "3"]), "");
        assert_eq!(reproduce_options(&["--cluster", "control-plane"]), " --cluster control-plane");
        let words = ["--cluster", "kind", "--time-scale", "0.5", "--min-wait", "90s"];
        assert_eq!(reproduce_options(&words), " --cluster kind --time-scale 0.5 --min-wait 90s");
        assert_eq!(reproduce_options(&["--min-wait", "2m"]), "");
        assert_eq!(reproduce_options(&["--patience", "1500ms"]), " --min-wait 1500ms");
        let kwok = ["--cluster", "control-plane", "--kubelets", "kwok"];
        assert_eq!(reproduce_options(&kwok), " --cluster control-plane --kubelets kwok");
        let confirmed = ["--cluster", "kubeconfig", "--context", "lab", "--confirm"];
        let reproduced = " --cluster kubeconfig --context lab --confirm";
        assert_eq!(reproduce_options(&confirmed), reproduced);
        let old = ["--cluster", "kubeconfig", "--yes-this-cluster", "lab"];
        assert_eq!(reproduce_options(&old), reproduced);
        let kube = ["--cluster", "kubeconfig", "--kubeconfig", "my cluster", "--force"];
        let kube = [&kube[..], &["--scheduler", "process:kube --config={kubeconfig}"]].concat();
        assert_eq!(
            reproduce_options(&kube),
            " --cluster kubeconfig --kubeconfig 'my cluster' \
             --scheduler 'process:kube --config={kubeconfig}' --force"
        );
    }
}
