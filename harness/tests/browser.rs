//! The report of a run and the page of a cluster in a real browser: they work, no script fails,
//! nothing is loaded from elsewhere, and axe-core finds no serious fault.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "browser/chromium.rs"]
mod chromium;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use schedlab_view::timeline::{NodeRow, PendingRow, QueueRow, Timeline};
use serde_json::{Value, json};

use chromium::Chromium;

const FAILING: &str = r#"Feature: A claim that does not hold
  Scenario: A job <b>waits</b>
    Given a fleet of 2 nodes with 8 GPUs each
    And a queue "team" with a quota of 8
    When 12 pods "train" with 1 GPU each are submitted to queue "team"
    Then eventually within 1 minute queue "team" has 13 running pods
"#;

fn schedlab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_schedlab"))
}

/// The report of a failing scenario and of one with evictions.
fn write_report(folder: &Path) -> String {
    std::fs::write(folder.join("failing.feature"), FAILING).unwrap();
    let reclaim =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../features/reclaim/owner-returns.feature");
    let ended = schedlab()
        .current_dir(folder)
        .args(["run", "failing.feature"])
        .arg(reclaim)
        .args(["--reporter", "html=report.html"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    std::fs::read_to_string(folder.join("report.html")).unwrap()
}

/// The timelines that a report contains, by their position.
fn embedded_timelines(html: &str) -> Vec<Timeline> {
    let after = html.split("type=\"text/plain\">").skip(1);
    after.map(|text| Timeline::decode(text.split('<').next().unwrap()).unwrap()).collect()
}

/// The state after some writes in the form of the page's script.
fn rows_at(timeline: &Timeline, count: usize) -> Value {
    let state = timeline.state_at(count);
    let nodes: BTreeMap<_, _> =
        state.nodes.iter().map(|node| (node.name.clone(), NodeRow::from(node))).collect();
    let queues: BTreeMap<_, _> =
        state.queues.iter().map(|queue| (queue.name.clone(), QueueRow::from(queue))).collect();
    let pending: BTreeMap<_, _> = state
        .pending
        .into_iter()
        .map(|workload| {
            (format!("{}/{}", workload.namespace, workload.name), PendingRow::from(workload))
        })
        .collect();
    let order: Vec<&str> = state.queues.iter().map(|queue| queue.name.as_str()).collect();
    json!({"nodes": nodes, "queues": queues, "pending": pending, "order": order})
}

fn assert_quiet_and_local(browser: &Chromium) {
    assert!(browser.errors.is_empty(), "{:#?}", browser.errors);
    let is_local = |url: &&String| {
        ["file:", "data:", "blob:", "about:", "http://127.0.0.1:"]
            .iter()
            .any(|start| url.starts_with(start))
    };
    let elsewhere: Vec<&String> = browser.requests.iter().filter(|url| !is_local(url)).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

/// Looks at the page in both colours and two widths.
fn assert_accessible(browser: &mut Chromium, name: &str) {
    for (width, colours) in [(1300, "light"), (1300, "dark"), (390, "light"), (390, "dark")] {
        browser.resize(width, colours);
        browser.take_picture(&format!("{name}-{width}-{colours}"));
        let wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64() <= Some(0), "{name} at {width}: {wide} pixels too wide");
        if let Some(faults) = browser.accessibility_faults() {
            assert!(faults.is_empty(), "{name} {width} {colours}: {faults:#?}");
        }
    }
}

#[test]
fn the_report_shows_every_write_as_it_was() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let timelines = embedded_timelines(&write_report(folder.path()));
    assert!(timelines.len() >= 2);
    let mut browser = Chromium::start(&program);
    browser.open(&format!("file://{}", folder.path().join("report.html").display()));
    assert_eq!(browser.evaluate("cases.length"), json!(timelines.len()));
    for (index, timeline) in timelines.iter().enumerate() {
        let states = browser.evaluate(&format!(
            "decodeTimeline(document.getElementById('timeline-{index}').textContent).then((timeline) =>
               [...timeline.frames.keys(), timeline.frames.length].map((count) => {{
                 const state = timeline.stateAt(count);
                 const rows = (map) => Object.fromEntries(map);
                 return {{ nodes: rows(state.nodes), queues: rows(state.queues), pending: rows(state.pending), order: state.order }};
               }}))"
        ));
        for count in 0..=timeline.frames.len() {
            assert_eq!(states[count], rows_at(timeline, count), "scenario {index}, write {count}");
        }
    }
    assert_quiet_and_local(&browser);
}

#[test]
fn the_report_shows_a_failure_before_and_after_and_moves_through_time() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    write_report(folder.path());
    let mut browser = Chromium::start(&program);
    browser.open(&format!("file://{}", folder.path().join("report.html").display()));
    let set = |id: &str, value: &str| {
        format!(
            "{{ const field = document.getElementById('{id}'); field.value = '{value}'; \
                 field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input')); }}"
        )
    };
    let shown = "document.querySelectorAll('#list li:not([hidden])').length";
    browser.evaluate(&set("status", "failed"));
    assert_eq!(browser.evaluate(shown), json!(1));
    browser.click("#list li:not([hidden]) button");
    browser.wait_until("document.querySelectorAll('.pair figure').length === 2");
    let text = browser.evaluate("document.getElementById('case').textContent");
    let text = text.as_str().unwrap();
    for expected in ["A job <b>waits</b>", "schedlab run failing.feature:2", "nodes changed"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(
        browser
            .evaluate("document.querySelectorAll('.pair figure:last-child .gpu.q0[role]').length"),
        json!(12)
    );
    browser.evaluate("document.querySelector('.player input').focus()");
    browser.press("p");
    browser.press("p");
    browser.wait_until("shown.player.count === shown.player.timeline.frames.length - 2");
    browser.evaluate(&set("status", ""));
    browser.evaluate(&set("text", "evicted"));
    browser.click("#list li:not([hidden]) button");
    browser.wait_until("document.querySelector('.events .eviction') !== null");
    browser.evaluate("shown.player.show(0); [...document.querySelectorAll('.time button')].find((button) => button.textContent === 'Eviction ▶').click()");
    let kind = browser.evaluate("shown.player.timeline.frames[shown.player.count - 1].e[0][0]");
    assert_eq!(kind, json!("eviction"));
    assert_quiet_and_local(&browser);
    assert_accessible(&mut browser, "report");
}

/// A running `schedlab ui` or `schedlab up --ui` and the link to its page.
struct Served {
    process: Child,
    url: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        Self::start_and_read(arguments, "")
    }

    /// The link is in the first line that begins with `prefix`.
    fn start_and_read(arguments: &[&str], prefix: &str) -> Self {
        let mut command = schedlab();
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let found = lines
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix(prefix).map(|link| link.trim().to_owned()));
        Self { process, url: found.expect("the program prints a link") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_page_submits_work_steps_to_an_eviction_and_says_why() {
    let Some(program) = chromium::installed() else { return };
    let served = Served::start(&["ui"]);
    let mut browser = Chromium::start(&program);
    browser.open(&served.url);
    let submit = |name: &str, queue: &str, pods: u32| {
        format!(
            "{{ const form = document.getElementById('submit');
               form.elements.name.value = '{name}'; form.elements.queue.value = '{queue}';
               form.elements.pods.value = '{pods}'; form.elements.gang.checked = false; form.requestSubmit(); }}"
        )
    };
    let message =
        |text: &str| format!("document.getElementById('message').textContent.includes('{text}')");
    browser.evaluate(&submit("borrower", "team-a", 24));
    browser.wait_until(&message("job borrower was submitted"));
    browser.click("[data-advance=\"60\"]");
    browser.wait_until("document.querySelectorAll('.node .gpu[data-details]').length === 24");
    browser.evaluate(&submit("owner", "team-b", 16));
    browser.wait_until(&message("job owner was submitted"));
    browser.click("[data-advance=\"eviction\"]");
    browser.wait_until("document.querySelector('#events .eviction') !== null");
    browser.evaluate("document.querySelector('.node .name').focus()");
    browser.press("ArrowRight");
    assert_eq!(browser.evaluate("document.activeElement.matches('.gpu')"), json!(true));
    browser.evaluate("document.activeElement.click()");
    browser.wait_until("document.querySelector('#details pre') !== null");
    browser.click("#events li:last-child [data-revision]");
    browser.wait_until("document.querySelector('.clock mark') !== null");
    assert_quiet_and_local(&browser);
    assert_accessible(&mut browser, "page");
}

#[test]
fn a_lesson_is_finished_in_the_page() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab").display().to_string();
    let served =
        Served::start_and_read(&["lab", "start", "c-reclaim", "--ui", "--folder", &path], "page: ");
    let mut browser = Chromium::start(&program);
    browser.open(&served.url);
    let result = |text: &str| {
        format!("document.getElementById('lesson-result').textContent.includes({})", json!(text))
    };
    browser.wait_until(
        "document.querySelectorAll('#quiz form')[2]?.textContent.includes('Solve task')",
    );
    browser.click("[data-lesson=\"verify\"]");
    browser.wait_until(&result("Apply research.yaml"));
    browser.click("[data-lesson=\"hint\"]");
    browser.wait_until(&result("Hint 1 of 3"));
    browser.wait_until("document.getElementById('play').getAttribute('aria-pressed') === 'true'");
    browser.click("#play");
    browser.wait_until("document.querySelector('.clock').dataset.speed === '0'");
    browser.click("[data-command]");
    browser.wait_until(&result("research created"));
    browser.click("[data-advance=\"eviction\"]");
    browser.wait_until("document.querySelector('#events .eviction .name') !== null");
    browser.click("#events .eviction .name");
    browser.wait_until(
        "document.querySelector('#details .eviction')?.textContent.includes('research')",
    );
    browser.click("[data-lesson=\"verify\"]");
    browser.wait_until(&result("Now it needs less"));
    let run = |line: &str| {
        format!(
            "{{ document.getElementById('command').value = {}; document.getElementById('command').form.requestSubmit(); }}",
            json!(line)
        )
    };
    browser.evaluate(&run("kubectl scale deployment research --replicas=4"));
    browser.wait_until(&result("scaled"));
    browser.click("[data-lesson=\"verify\"]");
    browser.wait_until(&result("All tasks are solved."));
    browser.wait_until("!document.querySelectorAll('#quiz form')[2].elements.answer.disabled");
    browser.evaluate(
        "{ const form = document.querySelectorAll('#quiz form')[2]; form.elements.answer.value = '12'; form.requestSubmit(); }",
    );
    browser.wait_until("document.querySelectorAll('#quiz form')[2].textContent.includes('right')");
    assert_quiet_and_local(&browser);
    assert_accessible(&mut browser, "lesson");
    browser.evaluate(&run("kubectl delete queue team-prod"));
    browser.wait_until(&result("deleted"));
    browser.click("[data-lesson=\"verify\"]");
    browser.wait_until(&result("These objects of the lesson were deleted: Queue team-prod"));
    browser.click("[data-lesson=\"missing\"]");
    browser.wait_until(&result("created again: Queue team-prod"));
    browser.click("[data-lesson=\"reset\"]");
    // The page loads again, because its cluster is a new one.
    browser.wait_for_load();
    browser.wait_until("document.querySelector('.clock').textContent.includes('32 of 32')");
}

#[test]
fn a_large_fleet_is_folded_and_its_nodes_are_found() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet.yaml");
    std::fs::write(&fleet, "pools: [{name: n, count: 1000, gpus: 8}]\n").unwrap();
    let served = Served::start(&["ui", "--fleet", &fleet.display().to_string()]);
    let mut browser = Chromium::start(&program);
    browser.open(&served.url);
    assert_eq!(browser.evaluate("document.querySelectorAll('[data-block]').length"), json!(25));
    assert_eq!(browser.evaluate("document.querySelectorAll('.node').length"), json!(40));
    browser.click("[data-block=\"24\"]");
    browser.wait_until("document.querySelector('.node .name').textContent === 'n-963'");
    browser.evaluate("{ const find = document.getElementById('find'); find.value = 'n-77'; find.dispatchEvent(new Event('input', {bubbles: true})); }");
    browser.wait_until("document.querySelectorAll('.node').length === 11");
    assert_quiet_and_local(&browser);
    assert_accessible(&mut browser, "fleet");
}
