//! Stands in for `container` in a build without the feature of that name: `--cluster container`
//! ends with a message before anything starts.
#![expect(clippy::unused_async, reason = "the same signatures as with the feature")]

use std::path::Path;

use super::Kubelets;
use crate::cleanup::Run;
use crate::interrupt::Interrupt;
use crate::scheduler_source::SchedulerSource;

const MISSING_FEATURE: &str = "--cluster container: this schedlab was built without it; build with the feature `container` \
                       (cargo build --release)";

/// Fails, because schedlab was built without container support.
pub(super) async fn check_prerequisites(_image: &str, _kubelets: Kubelets) -> anyhow::Result<()> {
    anyhow::bail!(MISSING_FEATURE)
}

/// A running container. There is none without container support.
#[derive(Debug)]
pub(super) enum Container {}

impl Container {
    pub(super) async fn start(
        _image: &str,
        _scheduler: &SchedulerSource,
        _run: &Run,
        _interrupt: &Interrupt,
        _on_progress: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Self> {
        anyhow::bail!(MISSING_FEATURE)
    }

    pub(super) async fn wait_until_ready(&self) -> anyhow::Result<(kube::Config, String)> {
        match *self {}
    }

    pub(super) fn runs_emulator(&self) -> bool {
        match *self {}
    }

    pub(super) fn runs_kwok(&self) -> bool {
        match *self {}
    }

    pub(super) fn has_nodes(&self) -> bool {
        match *self {}
    }

    pub(super) async fn export_logs(&self, _folder: &Path) -> anyhow::Result<()> {
        match *self {}
    }
}
