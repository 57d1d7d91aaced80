//! Device classes of GPUs, which queues are charged for.

use std::collections::BTreeSet;

use schedlab_scheduler_core::model::Name;

use super::{
    GpuAccounting, ResourceClaims,
    device::{self, Device},
};

impl ResourceClaims {
    /// Whether the devices of a class are GPUs: by the name of the class, as in KAI, or because the
    /// class selects nothing but GPUs.
    pub(super) fn is_gpu_class(&self, class: &Name) -> bool {
        self.gpu_accounting == GpuAccounting::AsGpus
            && (device::is_gpu_name(class) || self.gpu_classes.contains(class))
            && !self.shared_classes.contains(class)
    }

    /// Recomputes GPU classes and kinds after a change of devices, classes or selections.
    pub(super) fn classify_gpus(&mut self) {
        self.gpu_classes.clear();
        self.shared_classes.clear();
        self.uncounted_kinds.clear();
        if self.gpu_accounting == GpuAccounting::AsDevices {
            let all = self.devices.values_mut().flatten().chain(self.multi_node.all_devices_mut());
            all.for_each(|device| device.is_gpu = false);
            return;
        }
        let takes_gpus_alone = |class: &&Name| {
            let mut its = self.devices_of_class(class).peekable();
            its.peek().is_some() && its.all(|device| device.is_gpu)
        };
        let takes_shares_alone = |class: &&Name| {
            let mut its = self.devices_of_class(class).peekable();
            its.peek().is_some() && its.all(|device| device.shared.is_some())
        };
        let gpu_classes = self.classes.keys().filter(takes_gpus_alone).cloned().collect();
        let shared_classes = self.classes.keys().filter(takes_shares_alone).cloned().collect();
        (self.gpu_classes, self.shared_classes) = (gpu_classes, shared_classes);
        self.uncounted_kinds = self.kinds_equal_to_gpus();
    }

    /// Classes and selections that select all GPUs and nothing else: the count of GPUs covers them.
    /// Empty if another kind also selects a GPU: its claims can take a GPU that this count misses,
    /// so every kind has to be counted.
    fn kinds_equal_to_gpus(&self) -> BTreeSet<Name> {
        let classes = self.classes.keys().map(|class| (Name::clone(class), class));
        let selections = self.selections.iter().map(|one| (one.name(), &one.class));
        let kinds: Vec<(Name, &Name)> = classes.chain(selections).collect();
        let has_gpus_as_others = |(kind, class): &(Name, &Name)| {
            !self.is_gpu_class(class) && self.devices_of_kind(kind).any(|device| device.is_gpu)
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

    /// Devices of single nodes that the class selects, tainted ones included.
    fn devices_of_class<'s>(&'s self, class: &'s Name) -> impl Iterator<Item = &'s Device> {
        self.devices.values().flatten().filter(move |device| device.classes.contains(class))
    }

    fn devices_of_kind<'s>(&'s self, kind: &'s Name) -> impl Iterator<Item = &'s Device> {
        self.devices.values().flatten().filter(move |device| device.kinds.contains(kind))
    }
}
