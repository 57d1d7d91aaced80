//! How a failed scenario is run again as it failed: the options of a command line that its verdict
//! depends on, but for the seed.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{ClusterName, PATIENCE, Run, Stage, TIMEOUT};
use crate::ground::Kubelets;
use crate::target::Which;
use crate::text::shell_word;

/// The options, each with a space before it; nothing for our scheduler on the emulator. `like` is
/// the folder of the run that this one shall be like: what was the latest then is so no more.
pub(super) fn options(run: &Run, like: Option<&str>) -> String {
    let Run { flow, known, .. } = run;
    let repeat = (flow.repeat.get() > 1).then(|| flow.repeat.to_string());
    let options = [
        ("timeout", (flow.timeout != TIMEOUT).then(|| length(flow.timeout))),
        ("repeat", repeat),
        ("like", like.map(str::to_owned)),
        ("known", path(known.as_ref())),
    ];
    stage(&run.stage) + &words(&options)
}

/// Those that chose the cluster and the scheduler.
fn stage(stage: &Stage) -> String {
    let cluster = stage.cluster;
    let scheduler = match &stage.scheduler {
        Which::Ours => None,
        Which::Process(command) => Some(format!("process:{command}")),
        Which::Installed(name) => Some(format!("installed:{name}")),
        Which::Deployment(image) => Some(format!("deployment:{image}")),
    };
    let options = [
        ("cluster", (cluster != ClusterName::Emulator).then(|| cluster.name().to_owned())),
        ("assets", path(stage.assets.as_ref())),
        ("kubeconfig", path(stage.kubeconfig.as_ref())),
        ("yes-this-cluster", stage.yes_this_cluster.clone()),
        ("image", stage.image.clone()),
        ("kind-cluster", stage.kind_cluster.clone()),
        ("node-image", stage.node_image.clone()),
        ("kind-config", path(stage.kind_config.as_ref())),
        ("kubelets", (stage.kubelets != Kubelets::Auto).then(|| stage.kubelets.name().to_owned())),
        ("scheduler", scheduler),
        ("target", path(stage.target.as_ref())),
        ("time-scale", stage.time_scale.map(|factor| factor.to_string())),
        ("patience", (stage.patience != PATIENCE).then(|| length(stage.patience))),
    ];
    let force = if stage.force { " --force" } else { "" };
    words(&options) + force
}

/// The options that have a value.
fn words(options: &[(&str, Option<String>)]) -> String {
    let said = options.iter().filter_map(|(name, value)| {
        Some([" --", name, " ", &shell_word(value.as_ref()?)].concat())
    });
    said.collect()
}

fn path(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// A time as the command line takes it.
fn length(time: Duration) -> String {
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

    fn again(words: &[&str]) -> String {
        let cli = Cli::try_parse_from([&["schedlab", "run"], words].concat()).unwrap();
        let Command::Run(run) = cli.command else { panic!("it is a run") };
        options(&run, run.like.as_deref())
    }

    #[test]
    fn what_the_verdict_depends_on_is_said_again() {
        assert_eq!(again(&["--timeout", "30d", "--repeat", "1", "--retries", "2"]), "");
        let words = ["--timeout", "1s", "--repeat", "20"];
        assert_eq!(again(&words), " --timeout 1s --repeat 20");
        let words = ["--like", "results/a run", "--known", "known.md"];
        assert_eq!(again(&words), " --like 'results/a run' --known known.md");
    }

    #[test]
    fn what_chose_the_cluster_is_said_again() {
        assert_eq!(again(&["features", "--seed", "3"]), "");
        assert_eq!(again(&["--cluster", "control-plane"]), " --cluster control-plane");
        let words = ["--cluster", "kind", "--time-scale", "0.5", "--patience", "90s"];
        assert_eq!(again(&words), " --cluster kind --time-scale 0.5 --patience 90s");
        assert_eq!(again(&["--patience", "2m"]), "");
        assert_eq!(again(&["--patience", "1500ms"]), " --patience 1500ms");
        let kwok = ["--cluster", "control-plane", "--kubelets", "kwok"];
        assert_eq!(again(&kwok), " --cluster control-plane --kubelets kwok");
        let kube = ["--cluster", "kubeconfig", "--kubeconfig", "my cluster", "--force"];
        let kube = [&kube[..], &["--scheduler", "process:kube --config={kubeconfig}"]].concat();
        assert_eq!(
            again(&kube),
            " --cluster kubeconfig --kubeconfig 'my cluster' \
             --scheduler 'process:kube --config={kubeconfig}' --force"
        );
    }
}
