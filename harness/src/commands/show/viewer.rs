//! What `schedlab show` shows, and how keys change it. Nothing here draws.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use schedlab_conformance::report::{CaseOutcome, CaseReport};
use schedlab_view::report::EncodedTimelines;
use schedlab_view::timeline::{Timeline, TimelineError};

/// Number of writes that Page Up and Page Down move by.
const PAGE_WRITES: usize = 20;

/// The run, and what is shown of it.
pub(super) struct Viewer {
    cases: Vec<CaseReport>,
    timelines: EncodedTimelines,
    filter: String,
    is_failed_only: bool,
    /// Whether keys go to the filter.
    is_typing: bool,
    /// Position in the filtered list.
    selected: usize,
    opened: Option<OpenedCase>,
    is_done: bool,
}

/// The scenario that is shown.
pub(super) struct OpenedCase {
    /// Index of the scenario in the run.
    pub(super) index: usize,
    /// Its timeline; `Err` says why there is none.
    pub(super) timeline: Result<Timeline, String>,
    /// Number of writes after which the cluster is shown.
    pub(super) count: usize,
    /// First line of the steps that is shown.
    pub(super) scroll: u16,
}

impl OpenedCase {
    fn new(index: usize, timeline: Result<Timeline, String>) -> Self {
        let count = timeline.as_ref().map_or(0, |timeline| timeline.frames.len());
        Self { index, timeline, count, scroll: 0 }
    }

    /// Number of writes of the scenario.
    pub(super) fn writes(&self) -> usize {
        self.timeline.as_ref().map_or(0, |timeline| timeline.frames.len())
    }

    /// The number of the step, from 0, that made the last shown write.
    pub(super) fn step(&self) -> Option<usize> {
        let timeline = self.timeline.as_ref().ok()?;
        timeline.steps.iter().position(|end| *end >= self.count)
    }

    fn move_to(&mut self, count: usize) {
        self.count = count.min(self.writes());
    }

    /// Moves behind the next write with an eviction, if there is one.
    fn move_to_eviction(&mut self) {
        let Ok(timeline) = &self.timeline else { return };
        let later = timeline.frames.iter().enumerate().skip(self.count);
        let mut evictions =
            later.filter(|(_, frame)| frame.events.iter().any(|event| event.0 == "eviction"));
        if let Some((index, _)) = evictions.next() {
            self.count = index + 1;
        }
    }

    /// Moves to the end of the next step, or of the one before.
    fn move_to_step(&mut self, is_forward: bool) {
        let Ok(timeline) = &self.timeline else { return };
        let ends = timeline.steps.iter().copied();
        let found = if is_forward {
            ends.filter(|end| *end > self.count).min()
        } else {
            ends.filter(|end| *end < self.count).max()
        };
        self.count = found.unwrap_or(if is_forward { timeline.frames.len() } else { 0 });
    }
}

impl Viewer {
    pub(super) fn new(cases: Vec<CaseReport>, timelines: EncodedTimelines) -> Self {
        Self {
            cases,
            timelines,
            filter: String::new(),
            is_failed_only: false,
            is_typing: false,
            selected: 0,
            opened: None,
            is_done: false,
        }
    }

    /// Shows only scenarios with this text, or only failed ones.
    pub(super) fn set_filter(&mut self, text: &str, is_failed_only: bool) {
        (self.filter, self.is_failed_only) = (text.to_owned(), is_failed_only);
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn is_failed_only(&self) -> bool {
        self.is_failed_only
    }

    pub(super) fn is_typing(&self) -> bool {
        self.is_typing
    }

    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn opened(&self) -> Option<&OpenedCase> {
        self.opened.as_ref()
    }

    pub(super) fn case(&self, index: usize) -> &CaseReport {
        &self.cases[index]
    }

    /// Number of scenarios of the run.
    pub(super) fn case_count(&self) -> usize {
        self.cases.len()
    }

    /// The indexes of the scenarios that the filter lets through.
    pub(super) fn visible(&self) -> Vec<usize> {
        let text = self.filter.to_lowercase();
        let is_visible = |case: &CaseReport| {
            (!self.is_failed_only || is_failed(case.outcome)) && contains(case, &text)
        };
        let cases = self.cases.iter().enumerate();
        cases.filter(|(_, case)| is_visible(case)).map(|(index, _)| index).collect()
    }

    /// The timeline of a scenario; `None` if the run recorded none.
    ///
    /// # Errors
    /// The recorded text is not a timeline.
    pub(super) fn timeline(&self, index: usize) -> Result<Option<Timeline>, TimelineError> {
        let encoded = self.timelines.get(&self.cases[index].id);
        encoded.map(|text| Timeline::decode(text)).transpose()
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.is_done = true;
        } else if self.is_typing {
            self.type_filter(key.code);
        } else if self.opened.is_some() {
            self.press_in_case(key.code);
        } else {
            self.press_in_list(key.code);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys do nothing")]
    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            _ => {}
        }
        self.selected = 0;
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys do nothing")]
    fn press_in_list(&mut self, key: KeyCode) {
        let last = self.visible().len().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => self.is_done = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('f') => {
                self.is_failed_only = !self.is_failed_only;
                self.selected = 0;
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE_WRITES),
            KeyCode::PageDown => self.selected = (self.selected + PAGE_WRITES).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Enter | KeyCode::Right => self.open_selected(),
            _ => {}
        }
    }

    fn open_selected(&mut self) {
        let Some(index) = self.visible().get(self.selected).copied() else { return };
        let timeline = match self.timeline(index) {
            Ok(Some(timeline)) => Ok(timeline),
            Ok(None) => Err("The run recorded no writes. Run it with --reporter html=FILE.".into()),
            Err(error) => Err(error.to_string()),
        };
        self.opened = Some(OpenedCase::new(index, timeline));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other keys do nothing")]
    fn press_in_case(&mut self, key: KeyCode) {
        let Some(case) = &mut self.opened else { return };
        match key {
            KeyCode::Char('q') => self.is_done = true,
            KeyCode::Esc | KeyCode::Backspace => self.opened = None,
            KeyCode::Left => case.move_to(case.count.saturating_sub(1)),
            KeyCode::Right => case.move_to(case.count + 1),
            KeyCode::PageUp => case.move_to(case.count.saturating_sub(PAGE_WRITES)),
            KeyCode::PageDown => case.move_to(case.count + PAGE_WRITES),
            KeyCode::Home => case.move_to(0),
            KeyCode::End => case.move_to(usize::MAX),
            KeyCode::Char('e') => case.move_to_eviction(),
            KeyCode::Char('n') => case.move_to_step(true),
            KeyCode::Char('p') => case.move_to_step(false),
            KeyCode::Up => case.scroll = case.scroll.saturating_sub(1),
            KeyCode::Down => case.scroll = case.scroll.saturating_add(1),
            _ => {}
        }
    }
}

fn is_failed(outcome: CaseOutcome) -> bool {
    matches!(outcome, CaseOutcome::Failed | CaseOutcome::Pending)
}

/// Whether the file, a name or a step has the text, which is in lower case.
fn contains(case: &CaseReport, text: &str) -> bool {
    let texts = [&case.file, &case.feature, &case.name].into_iter();
    let steps = case.steps.iter().map(|step| &step.text);
    texts.chain(steps).any(|one| one.to_lowercase().contains(text))
}

/// The mark of a verdict.
pub(super) fn mark(outcome: CaseOutcome) -> &'static str {
    match outcome {
        CaseOutcome::Passed => "✔",
        CaseOutcome::Failed => "✘",
        CaseOutcome::Pending => "?",
        CaseOutcome::NotRun => "–",
        CaseOutcome::Skipped => "○",
    }
}
