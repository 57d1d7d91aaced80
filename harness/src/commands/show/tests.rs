//! The viewer on a terminal in memory, with a run of two scenarios.

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use schedlab_conformance::report::CaseReport;
use schedlab_view::report::EncodedTimelines;
use schedlab_view::timeline::Timeline;
use serde_json::json;

use super::draw::draw;
use super::plain;
use super::viewer::Viewer;

/// A pod of queue a runs, is evicted, and a pod of queue b runs.
fn timeline() -> Timeline {
    let queue =
        |used: u32| json!({"d": 0, "q": 1000, "l": null, "f": null, "u": used, "p": 0, "c": false});
    let frames = json!({"steps": [1, 3], "frames": [
        {"r": 1, "t": 0, "w": "a client creates nodes n-1", "n": {"n-1": [null, 0, [[], []]]},
         "o": ["a", "b"], "q": {"a": queue(0), "b": queue(0)}},
        {"r": 2, "t": 1500, "w": "kai-scheduler updates pods d/p", "n": {"n-1": [null, 0, [[["d/p", "a", 0]], []]]},
         "q": {"a": queue(1000)}, "e": [["binding", "pod", "d/p", "bound to n-1"]]},
        {"r": 3, "t": 65000, "w": "kai-scheduler updates pods d/p", "n": {"n-1": [null, 0, [[["d/p", "a", 1]], []]]},
         "e": [["eviction", "pod", "d/p", "evicted: for b"]]},
        {"r": 4, "t": 66000, "w": "kai-scheduler updates pods d/q", "n": {"n-1": ["cordoned", 0, [[["d/q", "b", 0]], []]]},
         "q": {"a": queue(0), "b": queue(1000)}, "e": [["binding", "pod", "d/q", "bound to n-1"]]},
    ]});
    serde_json::from_value(frames).unwrap()
}

fn case(name: &str, line: usize, failure: Option<&str>) -> CaseReport {
    let outcome = if failure.is_some() { "failed" } else { "passed" };
    let step = |text: &str, line: usize, outcome: &str| json!({"keyword": "Then", "text": text, "line": line, "outcome": outcome});
    serde_json::from_value(json!({
        "id": format!("f.feature: {name}"), "file": "f.feature", "line": line, "feature": "F",
        "name": name, "tags": [], "outcome": outcome, "virtual_millis": 66000,
        "steps": [step("2 pods run", line + 1, "passed"), step("queue \"a\" keeps its GPU", line + 2, outcome)],
        "failure": failure.map(|message| json!({
            "kind": "step", "line": line + 2, "message": message, "reproduce": format!("schedlab run f.feature:{line}"),
        })),
    }))
    .unwrap()
}

fn viewer() -> Viewer {
    let cases = vec![
        case("A job waits", 2, None),
        case("The owner keeps a GPU", 6, Some("0 pods of queue \"a\" run\n  1 was evicted")),
    ];
    let mut timelines = EncodedTimelines::new();
    timelines.insert(cases[1].id.clone(), timeline().encode().unwrap());
    Viewer::new(cases, timelines)
}

fn press(viewer: &mut Viewer, keys: &[KeyCode]) {
    for key in keys {
        viewer.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
}

/// What a terminal of 90 columns shows.
fn screen(viewer: &Viewer, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(90, height)).unwrap();
    terminal.draw(|frame| draw(frame, viewer)).unwrap();
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width).map(|row| {
        let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

#[test]
fn the_list_is_filtered_by_text_and_by_verdict() {
    let mut viewer = viewer();
    assert_snapshot!(screen(&viewer, 5), @"
    2 of 2 scenarios  filter:
    > ✔ A job waits  f.feature:2
      ✘ The owner keeps a GPU  f.feature:6

    ↑ ↓ choose  Enter open  / filter  f failed only  q quit
    ");
    press(&mut viewer, &[KeyCode::Char('/'), KeyCode::Char('W'), KeyCode::Char('a')]);
    assert_snapshot!(screen(&viewer, 3), @"
    1 of 2 scenarios  filter: Wa▏
    > ✔ A job waits  f.feature:2
    ↑ ↓ choose  Enter open  / filter  f failed only  q quit
    ");
    press(&mut viewer, &[KeyCode::Esc, KeyCode::Char('f')]);
    assert_snapshot!(screen(&viewer, 3), @"
    1 of 2 scenarios, failed only  filter:
    > ✘ The owner keeps a GPU  f.feature:6
    ↑ ↓ choose  Enter open  / filter  f failed only  q quit
    ");
}

#[test]
fn a_scenario_is_shown_with_its_failure_and_the_cluster_at_any_write() {
    let mut viewer = viewer();
    press(&mut viewer, &[KeyCode::Down, KeyCode::Enter]);
    assert_snapshot!(screen(&viewer, 20), @r#"
    ✘ The owner keeps a GPU  f.feature:6
    ┌Steps──────────────────────────────────┐┌Nodes: 1 of 2 GPUs in use──────────────────────┐
    │✔ Then 2 pods run                      ││n-1 B· 1/2 cordoned                            │
    │✘ Then queue "a" keeps its GPU         │└───────────────────────────────────────────────┘
    │    0 pods of queue "a" run            │┌Queues─────────────────────────────────────────┐
    │      1 was evicted                    ││A a  0 of quota 1                              │
    │                                       ││B b  1 of quota 1                              │
    │reproduce: schedlab run f.feature:6    │└───────────────────────────────────────────────┘
    │                                       │┌Events, newest first───────────────────────────┐
    │                                       ││+1m06s pod d/q: bound to n-1                   │
    │                                       ││+1m05s pod d/p: evicted: for b                 │
    │                                       ││+1.5s pod d/p: bound to n-1                    │
    │                                       ││                                               │
    │                                       ││                                               │
    │                                       ││                                               │
    │                                       ││                                               │
    └───────────────────────────────────────┘└───────────────────────────────────────────────┘
    +1m06s kai-scheduler updates pods d/q
    ███████████████████████████████████████write 4 of 4 ██████████████████████████████████████
    ← → write  n p step  e next eviction  ↑ ↓ scroll  Esc list  q quit
    "#);
    press(&mut viewer, &[KeyCode::Home, KeyCode::Char('e')]);
    assert_eq!(viewer.opened().unwrap().count, 3);
    press(&mut viewer, &[KeyCode::Left, KeyCode::Left]);
    assert_snapshot!(screen(&viewer, 16), @r#"
    ✘ The owner keeps a GPU  f.feature:6
    ┌Steps──────────────────────────────────┐┌Nodes: 0 of 2 GPUs in use──────────────────────┐
    │✔ Then 2 pods run                      ││n-1 ·· 0/2                                     │
    │✘ Then queue "a" keeps its GPU         │└───────────────────────────────────────────────┘
    │    0 pods of queue "a" run            │┌Queues─────────────────────────────────────────┐
    │      1 was evicted                    ││A a  0 of quota 1                              │
    │                                       ││B b  0 of quota 1                              │
    │reproduce: schedlab run f.feature:6    │└───────────────────────────────────────────────┘
    │                                       │┌Events, newest first───────────────────────────┐
    │                                       ││                                               │
    │                                       ││                                               │
    │                                       ││                                               │
    └───────────────────────────────────────┘└───────────────────────────────────────────────┘
    +0s a client creates nodes n-1
    ███████████████████████                write 1 of 4
    ← → write  n p step  e next eviction  ↑ ↓ scroll  Esc list  q quit
    "#);
    press(&mut viewer, &[KeyCode::Char('n')]);
    assert_eq!((viewer.opened().unwrap().count, viewer.opened().unwrap().step()), (3, Some(1)));
    press(&mut viewer, &[KeyCode::Char('p'), KeyCode::Char('p')]);
    assert_eq!(viewer.opened().unwrap().count, 0);
    press(&mut viewer, &[KeyCode::Esc]);
    assert!(viewer.opened().is_none() && !viewer.is_done());
    press(&mut viewer, &[KeyCode::Char('q')]);
    assert!(viewer.is_done());
}

#[test]
fn a_run_without_writes_says_how_to_record_them() {
    let mut viewer = viewer();
    press(&mut viewer, &[KeyCode::Enter]);
    assert!(screen(&viewer, 12).contains("--reporter html=FILE"));
}

#[test]
fn without_a_terminal_the_run_is_printed() {
    assert_snapshot!(plain::text("results/r", &viewer()).unwrap(), @r#"
    results/r: 2 of 2 scenarios
    ✔ A job waits  f.feature:2
    ✘ The owner keeps a GPU  f.feature:6
        ✔ Then 2 pods run
        ✘ Then queue "a" keeps its GPU
            0 pods of queue "a" run
              1 was evicted
        reproduce: schedlab run f.feature:6
        the cluster after 4 writes:
          n-1 B· 1/2 cordoned
          A a  0 of quota 1
          B b  1 of quota 1
    "#);
}
