//! Shrinks a case to the elements that a claim needs. Elements are dropped in chunks, from large to
//! single ones, as long as the claim holds; a round in which no single element can be dropped proves
//! that each of them is needed. Then what is left is made simpler: equal nodes are merged, counts are
//! halved, numbers rounded. Candidates are tried in parallel, and the first one in order wins, so the
//! result does not depend on the number of threads.

mod element;
mod simplification;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use schedlab_scheduler::snapshot_file::CapturedCluster;

use crate::Case;
pub use element::Element;
use element::{CLASSES, Class};

/// How a case is shrunk.
#[derive(Clone, Copy)]
pub struct Minimiser<'t> {
    /// Whether the claim holds for a case.
    pub holds: &'t (dyn Fn(&Case) -> bool + Sync),
    /// Called after each successful step, with the number of objects left and of tries so far.
    pub on_progress: &'t (dyn Fn(usize, usize) + Sync),
    /// Number of candidates that are tried at the same time.
    pub threads: usize,
    /// Whether to stop with what was reached.
    pub is_time_over: &'t (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Minimiser<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minimiser").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// The result of shrinking a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimised {
    /// The smallest case that was found.
    pub case: Case,
    /// Number of candidates that were tried.
    pub tries: usize,
    /// Whether each element is needed: each was dropped alone, and the claim failed. `false`: the
    /// time was over before.
    pub is_minimal: bool,
    /// The elements that are left.
    pub elements: Vec<Element>,
}

struct Search<'t> {
    minimiser: Minimiser<'t>,
    case: Case,
    tries: AtomicUsize,
    /// Number of changes of the case so far.
    changes: usize,
    /// For each class: the number of changes after which each of its elements was found to be
    /// needed. Without further changes it need not be tried again.
    settled: [Option<usize>; CLASSES.len()],
}

impl Minimiser<'_> {
    /// Shrinks a case for which the claim holds.
    pub fn minimise(&self, case: &Case) -> Minimised {
        let mut case = case.clone();
        case.events.clear();
        case.changes.clear();
        let mut search = Search {
            minimiser: *self,
            case,
            tries: AtomicUsize::new(0),
            changes: 0,
            settled: [None; CLASSES.len()],
        };
        search.drop_elements();
        while !search.is_over() && search.simplify() {
            search.drop_elements();
        }
        let is_minimal = !search.is_over();
        let elements = CLASSES.iter().flat_map(|class| class.elements(&search.case.cluster));
        let elements = elements.collect();
        search.case.manifest.minimal = is_minimal;
        search.case.manifest.ignored.clear();
        Minimised { case: search.case, tries: search.tries.into_inner(), is_minimal, elements }
    }
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        (self.minimiser.is_time_over)()
    }

    /// Drops elements until each one that is left is needed. All classes are tried with large chunks
    /// before any is tried with smaller ones: most of a large case leaves in few tries.
    fn drop_elements(&mut self) {
        let mut chunks = 1;
        loop {
            let mut is_single = true;
            for at in 0..CLASSES.len() {
                is_single &= self.shrink_class(at, chunks);
            }
            if is_single || self.is_over() {
                break;
            }
            chunks *= 2;
        }
        while !self.is_over() && self.settled.iter().any(|at| *at != Some(self.changes)) {
            for at in 0..CLASSES.len() {
                self.shrink_class(at, usize::MAX);
            }
        }
    }

    /// Tries to drop each of about so many chunks of the elements of a class. Whether the chunks were
    /// single elements.
    fn shrink_class(&mut self, at: usize, chunks: usize) -> bool {
        if self.settled[at] == Some(self.changes) {
            return true;
        }
        let class: Class = CLASSES[at];
        let mut elements = class.elements(&self.case.cluster);
        let size = elements.len().div_ceil(chunks).max(1);
        let before = self.changes;
        self.drop_chunks(&mut elements, size);
        let is_whole = !self.is_over();
        if size == 1 && before == self.changes && is_whole {
            self.settled[at] = Some(self.changes);
        }
        size == 1
    }

    /// Makes what is left simpler, with as many changes as possible. Whether one was possible.
    fn simplify(&mut self) -> bool {
        let before = self.changes;
        let mut start = 0;
        while !self.is_over() {
            let all = simplification::simplifications(&self.case.cluster);
            let left = all.get(start..).unwrap_or_default();
            let next: Vec<_> = left.iter().take(self.minimiser.threads.max(1)).collect();
            if next.is_empty() {
                break;
            }
            let simpler =
                |one: &&simplification::Simplification| Some(one.simplified(&self.case.cluster));
            match self.first_success(&next, &simpler) {
                Some((at, cluster)) => {
                    start += at;
                    self.take(cluster);
                }
                None => start += next.len(),
            }
        }
        before != self.changes
    }

    fn take(&mut self, cluster: CapturedCluster) {
        self.case.cluster = cluster;
        self.changes += 1;
        let tries = self.tries.load(Ordering::Relaxed);
        (self.minimiser.on_progress)(self.case.object_count(), tries);
    }

    /// Drops chunks of this size, from the first to the last.
    fn drop_chunks(&mut self, elements: &mut Vec<Element>, size: usize) {
        let mut start = 0;
        while start < elements.len() && !self.is_over() {
            let chunks: Vec<&[Element]> =
                elements[start..].chunks(size).take(self.minimiser.threads.max(1)).collect();
            let tried = chunks.len();
            let smaller = |chunk: &&[Element]| {
                let cluster = element::without(&self.case.cluster, chunk);
                (!is_same(&cluster, &self.case.cluster)).then_some(cluster)
            };
            match self.first_success(&chunks, &smaller) {
                Some((at, cluster)) => {
                    let from = start + at * size;
                    elements.drain(from..(from + size).min(elements.len()));
                    start = from;
                    self.take(cluster);
                }
                None => start += tried * size,
            }
        }
    }

    /// Tries each of the changes alone, at the same time. Returns the first after which the claim
    /// holds. `changed` returns the cluster after the change; `None` if it changes nothing.
    fn first_success<C: Sync>(
        &self,
        changes: &[C],
        changed: &(impl Fn(&C) -> Option<CapturedCluster> + Sync),
    ) -> Option<(usize, CapturedCluster)> {
        let try_change = |change: &C| {
            let cluster = changed(change)?;
            self.tries.fetch_add(1, Ordering::Relaxed);
            let manifest = self.case.manifest.clone();
            let candidate = Case { manifest, cluster, ..Case::default() };
            (self.minimiser.holds)(&candidate).then_some(candidate.cluster)
        };
        let results: Vec<Option<CapturedCluster>> = thread::scope(|scope| {
            let handles: Vec<_> =
                changes.iter().map(|change| scope.spawn(|| try_change(change))).collect();
            handles
                .into_iter()
                .map(|handle| {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        results.into_iter().enumerate().find_map(|(at, result)| Some((at, result?)))
    }
}

/// Whether two clusters share all of their objects.
fn is_same(a: &CapturedCluster, b: &CapturedCluster) -> bool {
    let is_same_list = |(a, b): (&Vec<_>, &Vec<_>)| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    a.objects.len() == b.objects.len()
        && a.objects.values().zip(b.objects.values()).all(is_same_list)
}

#[cfg(test)]
pub(crate) mod tests;
