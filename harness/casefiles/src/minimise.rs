//! Shrinks a case to the elements that a claim needs. Elements are dropped in chunks, from large to
//! single ones, as long as the claim holds; a round in which no single element can be dropped proves
//! that each of them is needed. Candidates are tried in parallel, and the first one in order wins,
//! so the result does not depend on the number of threads.

mod element;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use schedlab_scheduler::snapshot_file::CapturedCluster;

use crate::Case;
pub use element::Element;

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
}

impl Minimiser<'_> {
    /// Shrinks a case for which the claim holds.
    pub fn minimise(&self, case: &Case) -> Minimised {
        let mut case = case.clone();
        case.events.clear();
        let mut search = Search { minimiser: *self, case, tries: AtomicUsize::new(0) };
        let mut is_minimal = false;
        while !is_minimal && !search.is_over() {
            let mut has_changed = false;
            for class in element::CLASSES {
                has_changed |= search.shrink_class(*class);
            }
            is_minimal = !has_changed && !search.is_over();
        }
        let classes = element::CLASSES.iter();
        let elements = classes.flat_map(|class| class.elements(&search.case.cluster)).collect();
        search.case.manifest.minimal = is_minimal;
        search.case.manifest.ignored.clear();
        Minimised { case: search.case, tries: search.tries.into_inner(), is_minimal, elements }
    }
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        (self.minimiser.is_time_over)()
    }

    /// Drops elements of a class, in chunks that are halved down to single elements. Whether one was
    /// dropped.
    fn shrink_class(&mut self, class: element::Class) -> bool {
        let mut elements = class.elements(&self.case.cluster);
        let mut has_changed = false;
        let mut size = elements.len();
        while size > 0 && !self.is_over() {
            has_changed |= self.drop_chunks(&mut elements, size);
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        has_changed
    }

    /// Drops chunks of this size, from the first to the last. Whether one was dropped.
    fn drop_chunks(&mut self, elements: &mut Vec<Element>, size: usize) -> bool {
        let mut has_changed = false;
        let mut start = 0;
        while start < elements.len() && !self.is_over() {
            let chunks: Vec<&[Element]> =
                elements[start..].chunks(size).take(self.minimiser.threads).collect();
            let tried = chunks.len();
            match self.first_success(&chunks) {
                Some((at, cluster)) => {
                    let from = start + at * size;
                    elements.drain(from..(from + size).min(elements.len()));
                    start = from;
                    self.case.cluster = cluster;
                    has_changed = true;
                    let tries = self.tries.load(Ordering::Relaxed);
                    (self.minimiser.on_progress)(self.case.object_count(), tries);
                }
                None => start += tried * size,
            }
        }
        has_changed
    }

    /// Tries to drop each of the chunks alone, at the same time. Returns the first that succeeds.
    fn first_success(&self, chunks: &[&[Element]]) -> Option<(usize, CapturedCluster)> {
        let try_chunk = |chunk: &[Element]| {
            let cluster = element::without(&self.case.cluster, chunk);
            if cluster == self.case.cluster {
                return None;
            }
            self.tries.fetch_add(1, Ordering::Relaxed);
            let candidate =
                Case { manifest: self.case.manifest.clone(), cluster, events: Vec::new() };
            (self.minimiser.holds)(&candidate).then_some(candidate.cluster)
        };
        let results: Vec<Option<CapturedCluster>> = thread::scope(|scope| {
            let handles: Vec<_> =
                chunks.iter().map(|chunk| scope.spawn(|| try_chunk(chunk))).collect();
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

#[cfg(test)]
mod tests;
