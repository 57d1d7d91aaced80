//! How a scheduler is set up by its command line, and by the file that it names.

use anyhow::{bail, ensure};
use schedlab_scheduler::{
    Binding, Component, Config, Ends, Flavor, GivenFile, Idle, captured::Wanted,
};

use super::{Explain, Profile, Replay, Run, Snapshot};

fn profile_config(profile: Profile, scheduler_name: Option<&str>) -> Config {
    let mut config = match profile {
        Profile::Kai => Config::kai(),
        Profile::Kube => Config::kube(),
    };
    if let Some(name) = scheduler_name {
        name.clone_into(&mut config.scheduler_name);
    }
    config
}

/// What is built in, then what the file says, then what flags say.
pub(super) fn of(arguments: &Run) -> anyhow::Result<Config> {
    let mut config = profile_config(arguments.profile, None);
    config.writes_at_once = 32;
    if config.flavor == Flavor::Kube {
        fits_kube(arguments)?;
    }
    let given = read_file(arguments, &mut config)?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    config.period = arguments.period.unwrap_or(config.period);
    config.idle = Idle::UntilEvent;
    config.ends = if arguments.once { Ends::AfterOneCycle } else { Ends::Never };
    if !arguments.components.is_empty() {
        if let Some(found) = Component::misfit(&arguments.components) {
            bail!("--components: found {found}, allowed: {}", Component::ALLOWED);
        }
        config.only(arguments.components.iter().copied().collect());
    }
    config.binding = arguments.binding.unwrap_or(config.binding);
    if arguments.no_grouping {
        config.components.remove(&Component::Podgrouper);
    }
    config.writes_at_once = arguments.writes_at_once.map_or(config.writes_at_once, usize::from);
    let binds = config.binding == Binding::Direct && config.runs(Component::Scheduler);
    if config.gpu_reservation.is_some() && binds {
        // The binder would never be asked.
        let (found, allowed) = ("one with binding direct", "one with binding requests");
        return Err(given.wrong("gpuReservation", found, allowed).into());
    }
    Ok(config)
}

/// The same for a scheduler that runs elsewhere, as far as it decides.
pub(super) fn of_another(arguments: &Explain) -> anyhow::Result<Config> {
    let mut config = profile_config(arguments.profile, None);
    if config.flavor == Flavor::Kube {
        refuse(&[("--usage-window", arguments.usage_window.is_some())])?;
    }
    let given = GivenFile::read(arguments.config.as_deref())?;
    given.apply(&mut config, |file| {
        file.trace_decisions = None;
        file.usage_window = arguments.usage_window.map(Into::into).or(file.usage_window);
    })?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    Ok(config)
}

/// What counts more than what a snapshot says.
pub(super) fn of_replay(arguments: &Replay) -> anyhow::Result<Wanted> {
    let file = GivenFile::read(arguments.config.as_deref())?;
    Ok(Wanted { file, scheduler_name: arguments.scheduler_name.clone() })
}

/// That of a scheduler whose input is captured.
pub(super) fn of_snapshot(arguments: &Snapshot) -> anyhow::Result<Config> {
    let given = GivenFile::read(arguments.config.as_deref())?;
    let mut config = Config::kai();
    given.apply(&mut config, |file| file.trace_decisions = None)?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    Ok(config)
}

/// The file, with the flags that stand for keys of it.
fn read_file(arguments: &Run, config: &mut Config) -> anyhow::Result<GivenFile> {
    let given = GivenFile::read(arguments.config.as_deref())?;
    let served = arguments.health_address.is_some();
    ensure!(
        served || given.file.trace_decisions.is_none(),
        "{}: traceDecisions: needs --health-address, where the trace is served",
        given.shown
    );
    given.apply(config, |file| {
        file.trace_decisions = arguments.trace_decisions.or(file.trace_decisions);
        file.usage_window = arguments.usage_window.map(Into::into).or(file.usage_window);
    })?;
    Ok(given)
}

/// Refuses flags that would do nothing in profile `kube`.
fn fits_kube(arguments: &Run) -> anyhow::Result<()> {
    if let Some(other) = Config::not_of_kube(&arguments.components) {
        bail!("--components: found {other}, allowed: scheduler with --profile kube");
    }
    let found_requests = arguments.binding == Some(Binding::Requests);
    ensure!(!found_requests, "--binding: found requests, allowed: direct with --profile kube");
    refuse(&[
        ("--no-grouping", arguments.no_grouping),
        ("--usage-window", arguments.usage_window.is_some()),
        ("--webhook-cert-dir", arguments.webhook_cert_dir.is_some()),
    ])
}

fn refuse(flags: &[(&str, bool)]) -> anyhow::Result<()> {
    match flags.iter().find(|(_, stands)| *stands) {
        Some((flag, _)) => bail!("{flag}: does nothing with --profile kube: leave it out"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Arguments, Command};

    /// What becomes of a command line, with a file of this text.
    fn told(flags: &str, file: &str) -> String {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        written.write_all(file.as_bytes()).unwrap();
        let path = written.path().to_str().unwrap();
        let mut words: Vec<&str> = ["schedlab-scheduler", "run"].into();
        words.extend(flags.split_whitespace());
        if !file.is_empty() {
            words.extend(["--config", path]);
        }
        let Command::Run(run) = Arguments::parse_from(words).command else { panic!("{flags}") };
        match of(&run) {
            Ok(config) => format!(
                "{:?} {:?} traced: {}",
                config.components,
                config.binding,
                config.trace.is_some()
            ),
            Err(error) => format!("{error:#}").replace(path, "FILE"),
        }
    }

    #[test]
    fn what_does_nothing_in_profile_kube_is_refused_by_flag_and_by_file() {
        let kube = |flags: &str, file| told(&format!("--profile kube {flags}"), file);
        let parts = "components: [scheduler, binder]";
        insta::assert_snapshot!(kube("--components scheduler,binder", ""), @"--components: found binder, allowed: scheduler with --profile kube");
        insta::assert_snapshot!(kube("", parts), @"FILE: components: found binder, allowed: scheduler with profile kube at line 1 column 13");
        insta::assert_snapshot!(kube("--components scheduler", parts), @"FILE: components: found binder, allowed: scheduler with profile kube at line 1 column 13");
        insta::assert_snapshot!(kube("--components podgrouper", ""), @"--components: found podgrouper, allowed: scheduler with --profile kube");
        insta::assert_snapshot!(kube("--binding requests", ""), @"--binding: found requests, allowed: direct with --profile kube");
        insta::assert_snapshot!(kube("", "binding: requests"), @"FILE: binding: found requests, allowed: direct with profile kube at line 1 column 10");
        insta::assert_snapshot!(kube("--no-grouping", ""), @"--no-grouping: does nothing with --profile kube: leave it out");
        insta::assert_snapshot!(kube("--usage-window 24h", ""), @"--usage-window: does nothing with --profile kube: leave it out");
        insta::assert_snapshot!(kube("", "plugins: { topology: { enabled: true } }"), @"FILE: plugins: found a setting, allowed: nothing with profile kube at line 1 column 10");
        insta::assert_snapshot!(kube("", "minRuntime: { preemptMinRuntime: 1m }"), @"FILE: minRuntime: found a setting, allowed: nothing with profile kube at line 1 column 13");
    }

    #[test]
    fn gpus_are_reserved_only_where_a_binder_is_asked() {
        let file = "kValue: 1\ngpuReservation: { image: reserve }";
        insta::assert_snapshot!(told("", file), @"FILE: gpuReservation: found one with binding direct, allowed: one with binding requests at line 2 column 17");
        insta::assert_snapshot!(told("--binding direct", &format!("{file}\nbinding: requests")), @"FILE: gpuReservation: found one with binding direct, allowed: one with binding requests at line 2 column 17");
        insta::assert_snapshot!(told("--binding requests", file), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Requests traced: false");
        insta::assert_snapshot!(told("--components binder --binding direct", file), @"{Binder} Direct traced: false");
    }

    #[test]
    fn a_component_is_named_once() {
        insta::assert_snapshot!(told("--components binder,scheduler,binder", ""), @"--components: found binder twice, allowed: one or more, each once");
        insta::assert_snapshot!(told("", "components: [scheduler, queue-controller, queue-controller]"), @"FILE: components: found queue-controller twice, allowed: one or more, each once at line 1 column 13");
    }

    #[test]
    fn what_profile_kube_has_is_set_there() {
        let file = "{ components: [scheduler], binding: direct, period: 2s, writesAtOnce: 4, \
                    preemptionPolicy: { gracePeriod: 1m }, nodePool: { value: a }, \
                    schedulerName: mine }";
        insta::assert_snapshot!(told("--profile kube --components scheduler --binding direct", file), @"{Scheduler} Direct traced: false");
    }

    #[test]
    fn decisions_are_traced_by_flag_or_by_file_where_the_trace_is_served() {
        let served = "--health-address 127.0.0.1:0";
        insta::assert_snapshot!(told(served, ""), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: false");
        insta::assert_snapshot!(told(served, "traceDecisions: 10"), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: true");
        insta::assert_snapshot!(told(&format!("{served} --trace-decisions 5"), ""), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: true");
        insta::assert_snapshot!(told("", "traceDecisions: 10"), @"FILE: traceDecisions: needs --health-address, where the trace is served");
    }

    #[test]
    fn an_explanation_goes_by_the_file_and_the_flags_of_the_scheduler() {
        let told = |flags: &str, file: &str| {
            let mut written = tempfile::NamedTempFile::new().unwrap();
            written.write_all(file.as_bytes()).unwrap();
            let path = written.path().to_str().unwrap();
            let words = ["schedlab-scheduler", "explain", "a/b", "--config", path].into_iter();
            let parsed = Arguments::parse_from(words.chain(flags.split_whitespace())).command;
            let Command::Explain(explain) = parsed else { panic!("{flags}") };
            match of_another(&explain) {
                Ok(of) => format!(
                    "{} {:?} {}",
                    of.scheduler_name, of.usage_window, of.profile.k_value_milli
                ),
                Err(error) => format!("{error:#}").replace(path, "FILE"),
            }
        };
        let file = "{ schedulerName: mine, usageWindow: 24h, kValue: 2.0, traceDecisions: 10 }";
        insta::assert_snapshot!(told("", file), @"mine Some(86400s) 2000");
        insta::assert_snapshot!(told("--usage-window 1h --scheduler-name other", file), @"other Some(3600s) 2000");
        insta::assert_snapshot!(told("", "usageHalfLife: 6h"), @"FILE: usageHalfLife: found one without usageWindow, allowed: one beside usageWindow at line 1 column 16");
        insta::assert_snapshot!(told("--usage-window 1h", "usageHalfLife: 6h"), @"kai-scheduler Some(3600s) 1000");
        insta::assert_snapshot!(told("", "nonsense: 1"), @"FILE: unknown field `nonsense`, expected one of `schedulerName`, `components`, `binding`, `gpuReservation`, `blockNvidiaVisibleDevices`, `gpuPodRuntimeClassName`, `defaultPrioritiesConfigMap`, `nodePool`, `restrictNodeScheduling`, `fullHierarchyFairness`, `period`, `usageWindow`, `usageHalfLife`, `usageDBConfig`, `queueLabelToMetricLabel`, `queueLabelToDefaultMetricValue`, `writesAtOnce`, `traceDecisions`, `actions`, `plugins`, `placementStrategy`, `queueDepthPerAction`, `minRuntime`, `kValue`, `preemptionPolicy`, `stalenessGracePeriod`, `reclaimSaturationMultiplier`, `allowConsolidatingReclaim`, `maxConsolidationVictims` at line 1 column 1");
        insta::assert_snapshot!(told("--profile kube --usage-window 1h", ""), @"--usage-window: does nothing with --profile kube: leave it out");
    }
}
