//! The timeline of a scenario shows the cluster as the log of its writes does, at every write.

mod oracle;

use std::path::Path;
use std::sync::{Arc, Mutex};

use schedlab_conformance::features::{Case, load_text};
use schedlab_conformance::runner::{self, CaseHistory, HistoryRecorder, RunSettings};
use schedlab_conformance::schedulers::Target;
use schedlab_conformance::steps::catalogue;
use schedlab_view::state::StateBuilder;
use schedlab_view::timeline::Timeline;

fn settings(recorder: HistoryRecorder) -> RunSettings {
    RunSettings { recorder: Some(recorder), ..RunSettings::for_one_run(Target::ours()) }
}

/// The histories of the scenarios of a feature of the suite.
fn histories(feature: &str) -> Vec<CaseHistory> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../features").join(feature);
    let text = std::fs::read_to_string(&path).expect("the feature is in the repository");
    let cases = load_text(feature, &text, catalogue::is_step).expect("the feature is valid");
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&recorded);
    let recorder = HistoryRecorder::new(move |history| {
        received.lock().expect("no test panics while it holds the lock").push(history);
    });
    let cases: Vec<&Case> = cases.iter().collect();
    let reports = runner::run(&cases, &settings(recorder), &mut |_| {});
    assert_eq!(reports.len(), cases.len());
    let histories = recorded.lock().expect("no test panics while it holds the lock").clone();
    assert!(!histories.is_empty());
    histories
}

/// Compares the state after each write in the embedded form, and as it is computed incrementally,
/// with the state of the objects at that write.
fn assert_exact(history: &CaseHistory) {
    let timeline = Timeline::of_log(&history.log, history.start, &history.step_revisions);
    let embedded = Timeline::decode(&timeline.encode().expect("the timeline is encoded"))
        .expect("the text is decoded");
    assert_eq!(embedded, timeline);
    let mut objects = oracle::ObjectSet::default();
    let mut builder = StateBuilder::default();
    for (index, entry) in history.log.iter().enumerate() {
        objects.apply_entry(entry);
        builder.apply_entry(entry);
        let expected = oracle::state_of_objects(&objects);
        let at = format!("{}, revision {}", history.id, entry.revision);
        assert_eq!(builder.state(), expected, "{at}");
        assert_eq!(embedded.state_at(index + 1), expected, "{at}");
        assert_eq!(embedded.frames[index].revision, entry.revision);
    }
}

fn assert_feature_is_exact(feature: &str) {
    histories(feature).iter().for_each(assert_exact);
}

#[test]
fn a_reclaimed_queue_is_shown_as_it_was() {
    assert_feature_is_exact("reclaim/owner-returns.feature");
}

#[test]
fn gangs_are_shown_as_they_were() {
    assert_feature_is_exact("gang/all-or-nothing.feature");
}

#[test]
fn mig_slices_fractions_and_devices_are_shown_as_they_were() {
    for feature in
        ["placement/mig.feature", "placement/shared-gpus.feature", "devices/claims.feature"]
    {
        assert_feature_is_exact(feature);
    }
}

#[test]
fn a_step_ends_after_its_writes() {
    let history = histories("reclaim/owner-returns.feature").remove(0);
    let timeline = Timeline::of_log(&history.log, history.start, &history.step_revisions);
    assert!(timeline.steps.is_sorted() && timeline.steps.len() > 2, "{:?}", timeline.steps);
    assert!(*timeline.steps.last().unwrap() <= timeline.frames.len());
    let fleet = timeline.state_at(timeline.steps[0]);
    assert!(!fleet.nodes.is_empty() && fleet.gpus_in_use == 0);
}
