//! A version at work: a process of its own, or installed on the cluster.

use anyhow::Context as _;

use super::process::Scheduler;
use super::{Bench, Spec};
use crate::ground::Installation;

/// A version that schedules, or was meant to.
#[derive(Debug)]
pub(super) enum Version {
    /// It ends when it is dropped.
    Process(Scheduler),
    /// It stays until it is stopped or replaced.
    Installed {
        place: Box<Installation>,
        /// Why it does not run.
        failed: Option<String>,
    },
}

impl Version {
    /// Starts it. One that is installed replaces what is there, and its replicas are ready then,
    /// or it has failed.
    pub(super) async fn start(bench: &Bench, spec: &Spec, name: &str) -> anyhow::Result<Self> {
        let place = || bench.installation.clone().context("nothing can be installed there");
        let (place, installed) = match spec {
            Spec::Process(command) => {
                return Ok(Self::Process(Scheduler::start(bench, command, name)?));
            }
            Spec::Image(image) => {
                let place = place()?;
                let installed = place.image(image).await;
                (place, installed)
            }
            Spec::Chart(chart) => {
                let place = place()?;
                let installed = place.chart(chart).await;
                (place, installed)
            }
        };
        let failed = installed.err().map(|error| format!("it could not be installed: {error:#}"));
        Ok(Self::Installed { place: Box::new(place), failed })
    }

    /// Whether a new version takes its place by itself.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self, Self::Installed { .. })
    }

    /// Ends it.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Process(process) => {
                process.end().await;
                Ok(())
            }
            Self::Installed { place, .. } => place.stop().await,
        }
    }

    /// Why it does not run any more, if it does not.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self {
            Self::Process(process) => {
                let ended = process.ended();
                ended.map(|status| format!("the scheduler ended by itself: {status}"))
            }
            Self::Installed { failed, .. } => failed.clone(),
        }
    }

    /// What it said.
    pub(super) async fn last_words(&self) -> String {
        match self {
            Self::Process(process) => process.last_words(),
            Self::Installed { place, .. } => place.last_words().await,
        }
    }
}
