//! Reads a lesson from the parts of its Markdown file.

use std::collections::BTreeMap;

use gherkin::{Step, StepType};
use schedlab_conformance::features::{Case, load_text};
use schedlab_conformance::report::Diagnostic;
use schedlab_conformance::steps::catalogue;
use schedlab_conformance::text::nearest_word;

use super::{Advice, HINTS, Lesson, LessonFile, MayChange, Mistake, Question, Task};
use crate::commands::{LabCommand, parse_script};
use crate::computed_text::ComputedText;
use crate::expression::Expression;
use crate::markdown::{Block, Document, Part, Section, Text};

/// Title of the section that says what could not be seen before.
const ORIGINAL: &str = "What the original lab could not show";

const REQUIRED_SECTIONS: [&str; 8] =
    ["Goal", "Background", "Task", "Verify", "Hints", "Solution", "Quiz", ORIGINAL];

/// Sections that a lesson may have.
const OTHER_SECTIONS: [&str; 3] = ["Setup", "Advice", "Mistakes"];

const FRONT_MATTER_KEYS: [&str; 6] =
    ["id", "title", "minutes", "requires", "namespace", "may-change"];

/// The namespace of the learner, if the front matter names none.
const NAMESPACE: &str = "lab";

/// The lesson, unless its text leaves none, and what is wrong with it.
pub(super) fn read(file: &str, text: &str) -> (Option<Lesson>, Vec<Diagnostic>) {
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => return (None, vec![Diagnostic::new(file, error.line, error.message)]),
    };
    let mut reader = LessonReader { file, document: &document, problems: Vec::new() };
    let lesson = reader.read(text);
    (lesson, reader.problems)
}

struct LessonReader<'d> {
    file: &'d str,
    document: &'d Document,
    problems: Vec<Diagnostic>,
}

impl<'d> LessonReader<'d> {
    fn add(&mut self, line: usize, message: impl Into<String>) {
        self.problems.push(Diagnostic::new(self.file, line, message.into()));
    }

    /// Reads everything, so that all problems are reported at once. `None` if there are any that
    /// leave no lesson.
    fn read(&mut self, text: &str) -> Option<Lesson> {
        let front = self.front_matter();
        self.check_sections();
        let value = |key: &str| front.get(key).map(|(_, value)| value.clone()).unwrap_or_default();
        let minutes = match front.get("minutes") {
            Some((line, value)) => value.parse().unwrap_or_else(|_| {
                self.add(*line, format!("minutes: got {value}, expected a whole number"));
                0
            }),
            None => 0,
        };
        let requires = value("requires");
        let requires = requires.trim_matches(['[', ']']).split(',').map(str::trim);
        let requires = requires.filter(|id| !id.is_empty()).map(str::to_owned).collect();
        let namespace = Some(value("namespace")).filter(|name| !name.is_empty());
        let files = self.files();
        let scripts = self.solution_scripts();
        let tasks = self.tasks(text, &files, scripts);
        let hints = self.hints();
        let last_task = tasks.as_ref().map_or(1, Vec::len);
        let (quiz, advice, mistakes) = (self.quiz(last_task), self.advice(), self.mistakes());
        let may_change = front.get("may-change").map(|(line, value)| self.may_change(*line, value));
        let prose = |title: &str| self.section(title).map(Section::prose).unwrap_or_default();
        Some(Lesson {
            file: self.file.to_owned(),
            source: text.to_owned(),
            id: value("id"),
            title: value("title"),
            minutes,
            requires,
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            may_change: may_change.unwrap_or_default(),
            goal: prose("Goal"),
            background: prose("Background"),
            task: prose("Task"),
            original: prose(ORIGINAL),
            files,
            tasks: tasks?,
            hints,
            solution: self.section("Solution").map(shown_section).unwrap_or_default(),
            quiz,
            advice,
            mistakes,
        })
    }

    fn section(&self, title: &str) -> Option<&'d Section> {
        self.document.sections.iter().find(|section| section.title == title)
    }

    fn front_matter(&mut self) -> BTreeMap<&'d str, (usize, String)> {
        let mut found = BTreeMap::new();
        for line in &self.document.front_matter {
            if FRONT_MATTER_KEYS.contains(&line.key.as_str()) {
                found.insert(line.key.as_str(), (line.line, line.value.clone()));
            } else {
                let near = near_text(&line.key, &FRONT_MATTER_KEYS);
                let known = FRONT_MATTER_KEYS.join(", ");
                self.add(line.line, format!("got key {}, expected one of {known}{near}", line.key));
            }
        }
        for key in ["id", "title", "minutes"] {
            if found.get(key).is_none_or(|(_, value)| value.is_empty()) {
                self.add(1, format!("the front matter has no {key}"));
            }
        }
        found
    }

    /// Reads `deployment filler spec.replicas, queue team spec`.
    fn may_change(&mut self, line: usize, value: &str) -> Vec<MayChange> {
        let mut found = Vec::new();
        for entry in value.trim_matches(['[', ']']).split(',') {
            let words: Vec<&str> = entry.split_whitespace().collect();
            let (kind, name, field) = match words.as_slice() {
                [kind, name] => (kind, name, None),
                [kind, name, field] => (kind, name, Some((*field).to_owned())),
                _ => {
                    let message =
                        format!("may-change: got {}, expected KIND NAME [FIELD], …", entry.trim());
                    self.add(line, message);
                    continue;
                }
            };
            found.push(MayChange { kind: kind.to_lowercase(), name: (*name).to_owned(), field });
        }
        found
    }

    fn check_sections(&mut self) {
        let known = [REQUIRED_SECTIONS.as_slice(), &OTHER_SECTIONS].concat();
        let mut seen = BTreeMap::new();
        for section in &self.document.sections {
            if !known.contains(&section.title.as_str()) {
                let near = near_text(&section.title, &known);
                let message = format!(
                    "got section {:?}, expected one of {}{near}",
                    section.title,
                    known.join(", ")
                );
                self.add(section.line, message);
            }
            if let Some(first) = seen.insert(section.title.as_str(), section.line) {
                let message = format!("section {:?} is already in line {first}", section.title);
                self.add(section.line, message);
            }
        }
        for title in REQUIRED_SECTIONS {
            match self.section(title) {
                None => self.add(1, format!("the lesson has no section `## {title}`")),
                Some(section) if section.parts.is_empty() => {
                    self.add(section.line, format!("section {title:?} is empty"));
                }
                Some(_) => {}
            }
        }
    }

    /// All blocks with a file name.
    fn files(&mut self) -> Vec<LessonFile> {
        let mut files: Vec<LessonFile> = Vec::new();
        for section in &self.document.sections {
            let is_given = !matches!(section.title.as_str(), "Solution" | "Mistakes" | "Setup");
            for block in section.blocks("yaml") {
                files.extend(self.file(block, is_given, &files));
            }
        }
        files
    }

    /// The file of a block with a file name; `earlier` are the files before it.
    fn file(
        &mut self,
        block: &Block,
        is_given: bool,
        earlier: &[LessonFile],
    ) -> Option<LessonFile> {
        let name = block.attributes.get("file")?;
        if let Some(other) = earlier.iter().find(|file| file.name == *name) {
            self.add(block.line, format!("file {name} is already in line {}", other.line));
        } else if name.contains('/') || name.starts_with('.') {
            self.add(block.line, format!("file: got {name}, expected a plain file name"));
        }
        let (name, text, line) = (name.clone(), block.text.clone(), block.line);
        Some(LessonFile { name, text, is_given, line })
    }

    fn script(&mut self, block: &Block) -> Vec<LabCommand> {
        parse_script(&block.text).unwrap_or_else(|(line, message)| {
            self.add(block.line + 1 + line, message);
            Vec::new()
        })
    }

    /// The scripts of the solution, one for each task.
    fn solution_scripts(&mut self) -> Vec<Vec<LabCommand>> {
        let Some(section) = self.section("Solution") else { return Vec::new() };
        section.blocks("sh").map(|block| self.script(block)).collect()
    }

    fn tasks(
        &mut self,
        text: &str,
        files: &[LessonFile],
        scripts: Vec<Vec<LabCommand>>,
    ) -> Option<Vec<Task>> {
        let section = self.section("Verify")?;
        let blocks: Vec<&Block> = section.blocks("gherkin").collect();
        if blocks.is_empty() {
            self.add(section.line, "section \"Verify\" has no ```gherkin block");
            return None;
        }
        // Every other line is empty, so that line numbers are those of the lesson.
        let lines: Vec<&str> = text.lines().collect();
        let mut feature = String::new();
        for (index, line) in lines.iter().enumerate() {
            let is_inside = blocks.iter().any(|block| {
                (block.line..block.line + block.text.lines().count()).contains(&index)
            });
            feature.push_str(if is_inside { line } else { "" });
            feature.push('\n');
        }
        let cases = match load_text(self.file, &feature, catalogue::is_step) {
            Ok(cases) => cases,
            Err(problems) => {
                self.problems.extend(problems.0);
                return None;
            }
        };
        if cases.len() != scripts.len() {
            let line = self.section("Solution").map_or(1, |section| section.line);
            let message = format!(
                "got {} ```sh blocks in the solution, expected one for each of the {} scenarios",
                scripts.len(),
                cases.len()
            );
            self.add(line, message);
        }
        let scripts = scripts.into_iter().chain(std::iter::repeat(Vec::new()));
        let tasks = cases.into_iter().zip(scripts);
        Some(tasks.map(|(case, solution)| self.task(case, files, solution)).collect())
    }

    fn task(&mut self, mut case: Case, files: &[LessonFile], solution: Vec<LabCommand>) -> Task {
        let start = case.location.scenario.start;
        let prepared = case.steps.iter().filter(|step| step.position.line < start).count();
        for step in &mut case.steps[..prepared] {
            inline_manifest(step, files);
        }
        for step in &case.steps[prepared..] {
            if step.ty != StepType::Then {
                let message = format!(
                    "got `{} {}` in a scenario, expected `Then` steps only: the learner does the \
                     rest; what the lesson prepares is in Background:",
                    step.keyword.trim(),
                    step.value
                );
                self.add(step.position.line, message);
            }
        }
        Task { case, prepared, solution }
    }

    fn hints(&mut self) -> Vec<String> {
        let Some(section) = self.section("Hints") else { return Vec::new() };
        let mut hints: Vec<String> = Vec::new();
        for line in section.prose().lines() {
            let item = line.split_once(". ").filter(|(number, _)| {
                !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
            });
            match (item, hints.last_mut()) {
                (Some((_, text)), _) => hints.push(text.trim().to_owned()),
                (None, Some(last)) if !line.trim().is_empty() => {
                    last.push(' ');
                    last.push_str(line.trim());
                }
                (None, _) => {}
            }
        }
        if hints.len() != HINTS {
            let message =
                format!("got {} hints, expected {HINTS}: `1. …`, `2. …`, `3. …`", hints.len());
            self.add(section.line, message);
        }
        hints
    }

    fn expression(&mut self, heading: &Text, parts: &[&Part]) -> Option<Expression> {
        let Some(block) = jq_block(parts) else {
            self.add(heading.line, "got no ```jq block below this heading, expected one");
            return None;
        };
        match Expression::parse(block.text.trim()) {
            Ok(expression) => Some(expression),
            Err(message) => {
                self.add(block.line + 1, message);
                None
            }
        }
    }

    /// The text below a heading, with its computed parts.
    fn computed_text(&mut self, heading: &Text, parts: &[&Part]) -> Option<ComputedText> {
        let line = parts.iter().find_map(|part| match part {
            Part::Text(text) => Some(text.line),
            Part::Heading(_) | Part::Block(_) => None,
        });
        let parsed = ComputedText::parse(&text_of(parts));
        parsed.map_err(|message| self.add(line.unwrap_or(heading.line), message)).ok()
    }

    /// The questions. Those that name no task belong to the last one.
    fn quiz(&mut self, last_task: usize) -> Vec<Question> {
        let Some(section) = self.section("Quiz") else { return Vec::new() };
        let mut quiz = Vec::new();
        for (heading, parts) in section.subsections() {
            let Some(answers) = self.expression(heading, &parts) else { continue };
            let Some(why) = self.computed_text(heading, &parts) else { continue };
            let named = jq_block(&parts).and_then(|block| block.attributes.get("task"));
            let task = named.map_or(Some(last_task), |number| number.parse().ok());
            let Some(task) = task.filter(|task| (1..=last_task).contains(task)) else {
                let named = named.map_or("", String::as_str);
                self.add(heading.line, format!("task: got {named}, expected 1 to {last_task}"));
                continue;
            };
            let (text, line) = (heading.text.clone(), heading.line);
            quiz.push(Question { text, task, answers, why, line });
        }
        if quiz.is_empty() && self.problems.is_empty() {
            self.add(section.line, "section \"Quiz\" has no question: `### …?` and a ```jq block");
        }
        quiz
    }

    fn advice(&mut self) -> Vec<Advice> {
        let Some(section) = self.section("Advice") else { return Vec::new() };
        let mut advice = Vec::new();
        for (heading, parts) in section.subsections() {
            let Some(condition) = self.expression(heading, &parts) else { continue };
            let Some(text) = self.computed_text(heading, &parts) else { continue };
            advice.push(Advice { condition, text, line: heading.line });
        }
        advice
    }

    fn mistakes(&mut self) -> Vec<Mistake> {
        let Some(section) = self.section("Mistakes") else { return Vec::new() };
        let mut mistakes = Vec::new();
        for (heading, parts) in section.subsections() {
            let script = parts.iter().find_map(|part| match part {
                Part::Block(block) if block.language == "sh" => Some(block),
                Part::Block(_) | Part::Heading(_) | Part::Text(_) => None,
            });
            let Some(block) = script else {
                self.add(heading.line, "got no ```sh block below this mistake, expected one");
                continue;
            };
            let says = block.attributes.get("says").cloned().unwrap_or_default();
            if says.is_empty() {
                self.add(block.line, "got no says=\"…\" behind ```sh: what `lab verify` must say");
            }
            let number = block.attributes.get("task").map_or("1", String::as_str);
            let task = number.parse().unwrap_or_else(|_| {
                self.add(block.line, format!("task: got {number}, expected a whole number"));
                1
            });
            let (title, line) = (heading.text.clone(), heading.line);
            let commands = self.script(block);
            mistakes.push(Mistake { title, task, commands, says, line });
        }
        mistakes
    }
}

/// Replaces `the manifest "x.yaml" is applied` by the step with the lesson's own file below it.
fn inline_manifest(step: &mut Step, files: &[LessonFile]) {
    let name = step.value.strip_prefix("the manifest \"");
    let name = name.and_then(|rest| rest.strip_suffix("\" is applied"));
    let file = name.and_then(|name| files.iter().find(|file| file.name == name));
    if let Some(file) = file {
        "this manifest is applied:".clone_into(&mut step.value);
        // As Gherkin gives it: beginning with the line break behind the quotes.
        step.docstring = Some(format!("\n{}", file.text));
    }
}

/// The first block among some parts that is a jq expression.
fn jq_block<'d>(parts: &[&'d Part]) -> Option<&'d Block> {
    parts.iter().find_map(|part| match part {
        Part::Block(block) if block.language == "jq" => Some(block),
        Part::Block(_) | Part::Heading(_) | Part::Text(_) => None,
    })
}

/// The texts among some parts.
fn text_of(parts: &[&Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        Part::Heading(_) | Part::Block(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// A section as a learner reads it: texts, manifests and commands.
fn shown_section(section: &Section) -> String {
    let mut shown = Vec::new();
    for part in &section.parts {
        shown.push(match part {
            Part::Heading(heading) => heading.text.clone(),
            Part::Text(text) => text.text.clone(),
            Part::Block(block) => {
                let name = block.attributes.get("file").map(|name| format!("{name}:\n\n"));
                let lines = block.text.lines().map(|line| format!("    {line}"));
                format!("{}{}", name.unwrap_or_default(), lines.collect::<Vec<_>>().join("\n"))
            }
        });
    }
    shown.join("\n\n")
}

fn near_text(word: &str, known: &[&str]) -> String {
    let near = nearest_word(word, known.iter().copied());
    near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}
