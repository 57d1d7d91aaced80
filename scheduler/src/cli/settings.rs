//! Builds configurations from the command line and the configuration file.

use crate::{
    Binding, Component, Config, ConfigSource, Flavor, IdlePolicy, RunUntil,
    snapshot_file::Overrides,
};
use anyhow::{bail, ensure};

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

/// Configuration of `run`: defaults, then the file, then flags.
pub(super) fn run_config(arguments: &Run) -> anyhow::Result<Config> {
    let mut config = profile_config(arguments.profile, None);
    config.writes_at_once = 32;
    match config.flavor {
        Flavor::Kube => check_kube_flags(arguments)?,
        Flavor::Kai => ensure!(
            arguments.feature_gates.is_none(),
            "--feature-gates: has no effect with --profile kai: remove it"
        ),
    }
    config.feature_gates = arguments.feature_gates.unwrap_or_default();
    let source = read_config_file(arguments, &mut config)?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    config.period = arguments.period.unwrap_or(config.period);
    config.idle_policy = IdlePolicy::UntilEvent;
    config.run_until = if arguments.once { RunUntil::FirstCycle } else { RunUntil::Stopped };
    if !arguments.components.is_empty() {
        if let Some(found) = Component::list_error(&arguments.components) {
            bail!("--components: got {found}, expected {}", Component::ALLOWED);
        }
        config.run_only(arguments.components.iter().copied().collect());
    }
    config.binding = arguments.binding.unwrap_or(config.binding);
    if arguments.no_grouping {
        config.components.remove(&Component::Podgrouper);
    }
    config.writes_at_once = arguments.writes_at_once.map_or(config.writes_at_once, usize::from);
    let binds = config.binding == Binding::Direct && config.runs(Component::Scheduler);
    if config.gpu_reservation.is_some() && binds {
        // With direct binding the binder gets no requests.
        let (found, allowed) = ("a value beside binding: direct", "none, or binding: requests");
        return Err(source.value_error("gpuReservation", found, allowed).into());
    }
    Ok(config)
}

/// Configuration of `explain`: the settings that affect decisions of the scheduler whose workload
/// is explained.
pub(super) fn explain_config(arguments: &Explain) -> anyhow::Result<Config> {
    let mut config = profile_config(arguments.profile, None);
    if config.flavor == Flavor::Kube {
        reject_flags(&[("--usage-window", arguments.usage_window.is_some())])?;
    }
    let source = ConfigSource::read(arguments.config.as_deref())?;
    source.apply(&mut config, |file| {
        file.trace_decisions = None;
        file.usage_window = arguments.usage_window.map(Into::into).or(file.usage_window);
    })?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    Ok(config)
}

/// Settings of `replay` that override those in the snapshot.
pub(super) fn replay_config(arguments: &Replay) -> anyhow::Result<Overrides> {
    let file = ConfigSource::read(arguments.config.as_deref())?;
    let scheduler_name = arguments.scheduler_name.clone();
    Ok(Overrides { file, scheduler_name, simulations_max: None })
}

/// Configuration of `snapshot`: that of the scheduler whose input is captured.
pub(super) fn snapshot_config(arguments: &Snapshot) -> anyhow::Result<Config> {
    let source = ConfigSource::read(arguments.config.as_deref())?;
    let mut config = Config::kai();
    source.apply(&mut config, |file| file.trace_decisions = None)?;
    if let Some(name) = &arguments.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    Ok(config)
}

/// Reads the configuration file and applies it to `config`, followed by the flags that override its
/// keys.
fn read_config_file(arguments: &Run, config: &mut Config) -> anyhow::Result<ConfigSource> {
    let source = ConfigSource::read(arguments.config.as_deref())?;
    let served = arguments.health_address.is_some();
    ensure!(
        served || source.file.trace_decisions.is_none(),
        "{}: traceDecisions: needs --health-address, where the trace is served",
        source.name
    );
    source.apply(config, |file| {
        file.trace_decisions = arguments.trace_decisions.or(file.trace_decisions);
        file.usage_window = arguments.usage_window.map(Into::into).or(file.usage_window);
    })?;
    Ok(source)
}

/// Rejects flags that have no effect in profile `kube`.
fn check_kube_flags(arguments: &Run) -> anyhow::Result<()> {
    if let Some(other) = Config::first_not_in_kube(&arguments.components) {
        bail!("--components: got {other}, expected scheduler with --profile kube");
    }
    let found_requests = arguments.binding == Some(Binding::Requests);
    ensure!(!found_requests, "--binding: got requests, expected direct with --profile kube");
    reject_flags(&[
        ("--no-grouping", arguments.no_grouping),
        ("--usage-window", arguments.usage_window.is_some()),
        ("--webhook-cert-dir", arguments.webhook_cert_dir.is_some()),
    ])
}

fn reject_flags(flags: &[(&str, bool)]) -> anyhow::Result<()> {
    match flags.iter().find(|(_, stands)| *stands) {
        Some((flag, _)) => bail!("{flag}: has no effect with --profile kube: remove it"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Arguments, Command};

    /// Resulting configuration or error of `run` with these flags and this file.
    fn outcome(flags: &str, file: &str) -> String {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        written.write_all(file.as_bytes()).unwrap();
        let path = written.path().to_str().unwrap();
        let mut words: Vec<&str> = ["schedlab-scheduler", "run"].into();
        words.extend(flags.split_whitespace());
        if !file.is_empty() {
            words.extend(["--config", path]);
        }
        let Command::Run(run) = Arguments::parse_from(words).command else { panic!("{flags}") };
        match run_config(&run) {
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
    fn settings_without_effect_in_profile_kube_are_rejected() {
        let kube = |flags: &str, file| outcome(&format!("--profile kube {flags}"), file);
        let parts = "components: [scheduler, binder]";
        insta::assert_snapshot!(kube("--components scheduler,binder", ""), @"--components: got binder, expected scheduler with --profile kube");
        insta::assert_snapshot!(kube("", parts), @"FILE: components: got binder, expected scheduler with profile kube at line 1 column 13");
        insta::assert_snapshot!(kube("--components scheduler", parts), @"FILE: components: got binder, expected scheduler with profile kube at line 1 column 13");
        insta::assert_snapshot!(kube("--components podgrouper", ""), @"--components: got podgrouper, expected scheduler with --profile kube");
        insta::assert_snapshot!(kube("--binding requests", ""), @"--binding: got requests, expected direct with --profile kube");
        insta::assert_snapshot!(kube("", "binding: requests"), @"FILE: binding: got requests, expected direct with profile kube at line 1 column 10");
        insta::assert_snapshot!(kube("--no-grouping", ""), @"--no-grouping: has no effect with --profile kube: remove it");
        insta::assert_snapshot!(kube("--usage-window 24h", ""), @"--usage-window: has no effect with --profile kube: remove it");
        insta::assert_snapshot!(kube("", "plugins: { topology: { enabled: true } }"), @"FILE: plugins: got a value, expected no value with profile kube at line 1 column 10");
        insta::assert_snapshot!(kube("", "minRuntime: { preemptMinRuntime: 1m }"), @"FILE: minRuntime: got a value, expected no value with profile kube at line 1 column 13");
    }

    #[test]
    fn gpu_reservation_requires_binding_by_requests() {
        let file = "kValue: 1\ngpuReservation: { image: reserve }";
        insta::assert_snapshot!(outcome("", file), @"FILE: gpuReservation: got a value beside binding: direct, expected none, or binding: requests at line 2 column 17");
        insta::assert_snapshot!(outcome("--binding direct", &format!("{file}\nbinding: requests")), @"FILE: gpuReservation: got a value beside binding: direct, expected none, or binding: requests at line 2 column 17");
        insta::assert_snapshot!(outcome("--binding requests", file), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Requests traced: false");
        insta::assert_snapshot!(outcome("--components binder --binding direct", file), @"{Binder} Direct traced: false");
    }

    #[test]
    fn a_component_may_be_listed_once() {
        insta::assert_snapshot!(outcome("--components binder,scheduler,binder", ""), @"--components: got binder twice, expected a non-empty list without duplicates");
        insta::assert_snapshot!(outcome("", "components: [scheduler, queue-controller, queue-controller]"), @"FILE: components: got queue-controller twice, expected a non-empty list without duplicates at line 1 column 13");
    }

    #[test]
    fn supported_settings_apply_in_profile_kube() {
        let file = "{ components: [scheduler], binding: direct, period: 2s, writesAtOnce: 4, \
                    preemptionPolicy: { gracePeriod: 1m }, nodePool: { value: a }, \
                    schedulerName: mine }";
        insta::assert_snapshot!(outcome("--profile kube --components scheduler --binding direct", file), @"{Scheduler} Direct traced: false");
    }

    #[test]
    fn tracing_needs_a_health_address() {
        let served = "--health-address 127.0.0.1:0";
        insta::assert_snapshot!(outcome(served, ""), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: false");
        insta::assert_snapshot!(outcome(served, "traceDecisions: 10"), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: true");
        insta::assert_snapshot!(outcome(&format!("{served} --trace-decisions 5"), ""), @"{Scheduler, Binder, Podgrouper, QueueController, Admission} Direct traced: true");
        insta::assert_snapshot!(outcome("", "traceDecisions: 10"), @"FILE: traceDecisions: needs --health-address, where the trace is served");
    }

    #[test]
    fn explain_uses_the_configuration_of_the_scheduler() {
        let outcome_of = |flags: &str, file: &str| {
            let mut written = tempfile::NamedTempFile::new().unwrap();
            written.write_all(file.as_bytes()).unwrap();
            let path = written.path().to_str().unwrap();
            let words = ["schedlab-scheduler", "explain", "a/b", "--config", path].into_iter();
            let parsed = Arguments::parse_from(words.chain(flags.split_whitespace())).command;
            let Command::Explain(explain) = parsed else { panic!("{flags}") };
            match explain_config(&explain) {
                Ok(of) => format!(
                    "{} {:?} {}",
                    of.scheduler_name, of.usage_window, of.profile.k_value_milli
                ),
                Err(error) => format!("{error:#}").replace(path, "FILE"),
            }
        };
        let file = "{ schedulerName: mine, usageWindow: 24h, kValue: 2.0, traceDecisions: 10 }";
        insta::assert_snapshot!(outcome_of("", file), @"mine Some(86400s) 2000");
        insta::assert_snapshot!(outcome_of("--usage-window 1h --scheduler-name other", file), @"other Some(3600s) 2000");
        insta::assert_snapshot!(outcome_of("", "usageHalfLife: 6h"), @"FILE: usageHalfLife: got a value without usageWindow, expected usageWindow to be set, too at line 1 column 16");
        insta::assert_snapshot!(outcome_of("--usage-window 1h", "usageHalfLife: 6h"), @"kai-scheduler Some(3600s) 1000");
        insta::assert_snapshot!(outcome_of("", "nonsense: 1"), @"FILE: unknown field `nonsense`, expected one of `schedulerName`, `components`, `binding`, `gpuReservation`, `blockNvidiaVisibleDevices`, `gpuPodRuntimeClassName`, `defaultPrioritiesConfigMap`, `nodePool`, `restrictNodeScheduling`, `fullHierarchyFairness`, `period`, `usageWindow`, `usageHalfLife`, `usageDBConfig`, `queueLabelToMetricLabel`, `queueLabelToDefaultMetricValue`, `writesAtOnce`, `traceDecisions`, `actions`, `plugins`, `placementStrategy`, `queueDepthPerAction`, `minRuntime`, `kValue`, `preemptionPolicy`, `stalenessGracePeriod`, `reclaimSaturationMultiplier`, `allowConsolidatingReclaim`, `maxConsolidationVictims` at line 1 column 1");
        insta::assert_snapshot!(outcome_of("--profile kube --usage-window 1h", ""), @"--usage-window: has no effect with --profile kube: remove it");
    }
}
