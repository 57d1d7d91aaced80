//! A Markdown page and its code blocks.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Why a block is not run: the value of `needs=`, and the reason.
const NEEDS: [(&str, &str); 9] = [
    (KUBECTL, "needs kubectl; runs where kubectl is on the PATH"),
    ("clone", "changes the settings of the reader's clone"),
    ("minutes", "takes minutes or compiles"),
    ("docker", "needs docker, kind or images"),
    ("control-plane", "needs the programs of `make control-plane`; tests/cli runs them"),
    ("cluster", "needs a cluster of the reader's own"),
    ("own-files", "names a scheduler, a trace or versions of the reader's own"),
    ("browser", "serves a page until Ctrl-C"),
    ("terminal", "asks questions on a terminal"),
];

/// The need that some machines meet.
const KUBECTL: &str = "kubectl";

const GHERKIN: &str = "gherkin";

/// What comes before scenarios that a page shows without their feature.
const HEAD_OF_PART: &str = "Feature: part
  Background:
    Given these queues:
      | queue    |
      | owner    |
      | borrower |
      | team-a   |
";

/// Languages of blocks that are no commands.
const OTHER_LANGUAGES: [&str; 7] = [GHERKIN, "json", "markdown", "rust", "text", "toml", "yaml"];

static HAS_KUBECTL: LazyLock<bool> = LazyLock::new(|| {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(KUBECTL).is_file())
});

/// A page of the docs.
pub(crate) struct Page {
    /// Relative to the repository.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
}

/// A fenced code block: ```` ```language option… ````.
pub(crate) struct Block {
    /// Of the opening fence, from 1.
    line: usize,
    language: String,
    options: Vec<(String, String)>,
    lines: Vec<String>,
}

/// A command of a block.
pub(crate) struct Example {
    pub(crate) line: usize,
    pub(crate) command: String,
    /// The output that a `console` block claims.
    pub(crate) output: Option<String>,
    pub(crate) exit_code: i32,
}

impl Page {
    pub(crate) fn read(root: &Path, path: PathBuf) -> Self {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        let blocks = blocks(&text);
        Self { path, text, blocks }
    }

    pub(crate) fn has_examples(&self) -> bool {
        self.blocks.iter().any(|block| block.is_run() || block.language == GHERKIN)
    }

    /// Every command of the page, and a check of every feature on it.
    pub(crate) fn examples(&self) -> Vec<Example> {
        let features = self.blocks.iter().filter(|block| block.language == GHERKIN);
        let check = |block: &Block| Example {
            line: block.line,
            command: format!("schedlab check {}", block.path()),
            output: None,
            exit_code: 0,
        };
        let commands = self.blocks.iter().filter(|block| block.is_run());
        features.map(check).chain(commands.flat_map(Block::examples)).collect()
    }

    /// Blocks without a known language, or with an unknown option.
    pub(crate) fn problems(&self) -> Vec<String> {
        let all = self.blocks.iter();
        let bad = all.filter_map(|block| Some((block.line, block.problem()?)));
        bad.map(|(line, problem)| format!("{}:{line}: {problem}", self.path.display())).collect()
    }
}

impl Block {
    fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The file that the reader saves the block as. A feature on a page without such a file is
    /// saved for its check alone.
    pub(crate) fn path(&self) -> String {
        let of_check = || format!("/tmp/line-{}.feature", self.line);
        self.option("file").map_or_else(of_check, str::to_owned)
    }

    /// The code of a `rust` block.
    pub(crate) fn rust_code(&self) -> Option<String> {
        (self.language == "rust").then(|| self.lines.join("\n"))
    }

    /// The content of the file, if the block is one. Scenarios alone get a `Feature:`
    /// and the queues that they name.
    pub(crate) fn content(&self) -> Option<String> {
        let is_part = !self.lines.iter().any(|line| line.starts_with("Feature:"));
        let head = if self.language == GHERKIN && is_part { HEAD_OF_PART } else { "" };
        let is_file = self.language == GHERKIN || self.option("file").is_some();
        is_file.then(|| format!("{head}{}\n", self.lines.join("\n")))
    }

    fn is_run(&self) -> bool {
        self.is_shell() && self.option("needs").is_none_or(|need| need == KUBECTL && *HAS_KUBECTL)
    }

    fn is_shell(&self) -> bool {
        ["sh", "console"].contains(&self.language.as_str())
    }

    fn problem(&self) -> Option<String> {
        if !self.is_shell() && !OTHER_LANGUAGES.contains(&self.language.as_str()) {
            let known = OTHER_LANGUAGES.join(", ");
            return Some(format!(
                "got language {:?}, expected sh, console, {known}",
                self.language
            ));
        }
        self.options.iter().find_map(|(key, value)| match key.as_str() {
            "needs" if NEEDS.iter().all(|(need, _)| need != value) => {
                let known: Vec<String> =
                    NEEDS.iter().map(|(need, why)| format!("  {need}: {why}")).collect();
                Some(format!("got needs={value}, expected one of\n{}", known.join("\n")))
            }
            "needs" | "exit" | "file" => None,
            _ => Some(format!("got option {key}, expected needs=, exit= or file=")),
        })
    }

    /// The commands of a block that is run.
    fn examples(&self) -> Vec<Example> {
        let mut all: Vec<Example> = Vec::new();
        let mut continues = false;
        let exit_code = self.option("exit").map_or(0, |code| code.parse().unwrap());
        for (number, text) in self.lines.iter().enumerate() {
            let command = match self.language.as_str() {
                "console" => text.strip_prefix("$ "),
                _ => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
            };
            match (all.last_mut(), command) {
                (Some(last), _) if continues => {
                    last.command.push('\n');
                    last.command.push_str(text);
                }
                (_, Some(command)) => all.push(Example {
                    line: self.line + number + 1,
                    command: command.to_owned(),
                    output: None,
                    exit_code,
                }),
                (Some(last), None) if self.language == "console" => {
                    let output = last.output.get_or_insert_default();
                    output.push_str(text);
                    output.push('\n');
                }
                _ => {}
            }
            continues =
                all.last().is_some_and(|last| last.output.is_none()) && text.ends_with('\\');
        }
        all
    }
}

/// All fenced blocks, those in lists included: their indentation is removed. A block with a longer
/// fence contains blocks with shorter ones.
fn blocks(text: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let info = trimmed.trim_start_matches('`');
        let fence = trimmed.len() - info.len();
        match open {
            None if fence >= 3 => {
                open = Some((line.len() - trimmed.len(), fence));
                all.push(Block::open(number + 1, info));
            }
            None => {}
            Some((_, length)) if fence >= length => open = None,
            Some((indent, _)) => {
                let inside = line.get(indent..).unwrap_or_default();
                all.last_mut().unwrap().lines.push(inside.to_owned());
            }
        }
    }
    all
}

impl Block {
    fn open(line: usize, info: &str) -> Self {
        let mut words = info.split_whitespace();
        let language = words.next().unwrap_or_default().to_owned();
        let option = |word: &str| {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            (key.to_owned(), value.to_owned())
        };
        Self { line, language, options: words.map(option).collect(), lines: Vec::new() }
    }
}
