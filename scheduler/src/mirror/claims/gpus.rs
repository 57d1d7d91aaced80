//! Which classes are of GPUs, which queues pay for.

use std::collections::BTreeSet;

use schedlab_scheduler_core::model::Name;

use super::{
    Claims, GpuDevices,
    device::{self, Device},
};

impl Claims {
    /// Its devices are GPUs: KAI's rule goes by the name, ours by what it takes, too.
    pub(super) fn is_gpu(&self, class: &Name) -> bool {
        self.gpu_devices == GpuDevices::AreGpus
            && (device::is_gpu(class) || self.all_gpus.contains(class))
    }

    /// Looks at devices, classes and selections, which have changed.
    pub(super) fn look_for_gpus(&mut self) {
        self.all_gpus.clear();
        self.uncounted.clear();
        if self.gpu_devices == GpuDevices::AreDevices {
            let all = self.devices.values_mut().flatten().chain(self.wide.all_mut());
            all.for_each(|device| device.is_gpu = false);
            return;
        }
        let takes_gpus_alone = |class: &&Name| {
            let mut its = self.of_kind(class).peekable();
            its.peek().is_some() && its.all(|device| device.is_gpu)
        };
        self.all_gpus = self.classes.keys().filter(takes_gpus_alone).cloned().collect();
        self.uncounted = self.just_the_gpus();
    }

    /// Classes and selections that every GPU is of, and nothing else. Who has a GPU as anything
    /// that is no GPU is told by their counts alone.
    fn just_the_gpus(&self) -> BTreeSet<Name> {
        let classes = self.classes.keys().map(|class| (Name::clone(class), class));
        let selections = self.selections.iter().map(|one| (one.name(), &one.class));
        let kinds: Vec<(Name, &Name)> = classes.chain(selections).collect();
        let has_gpus_as_others = |(kind, class): &(Name, &Name)| {
            !self.is_gpu(class) && self.of_kind(kind).any(|device| device.is_gpu)
        };
        if kinds.iter().any(has_gpus_as_others) {
            return BTreeSet::new();
        }
        let all = || self.devices.values().flatten();
        if !all().any(|device| device.is_gpu) {
            return BTreeSet::new();
        }
        let is_just_gpus =
            |kind: &Name| all().all(|device| device.is_gpu == device.kinds.contains(kind));
        kinds.into_iter().map(|(kind, _)| kind).filter(is_just_gpus).collect()
    }

    fn of_kind<'s>(&'s self, kind: &'s Name) -> impl Iterator<Item = &'s Device> {
        self.devices.values().flatten().filter(move |device| device.kinds.contains(kind))
    }
}
