//! Options of `schedlab` and `schedlab-scheduler` in the docs: `--help` of the subcommand has them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use crate::page::Page;

/// The help texts that were printed, by program and subcommand.
pub(crate) struct Help<'a> {
    programs: &'a OsString,
    texts: BTreeMap<String, String>,
}

impl<'a> Help<'a> {
    pub(crate) fn new(programs: &'a OsString) -> Self {
        Self { programs, texts: BTreeMap::new() }
    }

    /// Options in the commands of a page that the program does not have.
    pub(crate) fn unknown_options(&mut self, page: &Page) -> Vec<String> {
        let mut found = Vec::new();
        for words in commands(&page.text) {
            let [program, subcommand, ..] = &*words else { continue };
            if subcommand.starts_with('-') || !subcommand.is_ascii() {
                continue;
            }
            // These have verbs with options of their own.
            let verb = words.get(2).filter(|verb| {
                ["lab", "scheduler", "snapshot", "trace"].contains(&&**subcommand)
                    && !verb.starts_with('-')
            });
            let verb = verb.map(|verb| format!(" {verb}")).unwrap_or_default();
            let command = format!("{program} {subcommand}{verb}");
            let help = self.text(&command);
            let options = words.iter().filter_map(|word| word.split('=').next());
            let options = options.filter(|word| word.starts_with("--") && word.len() > 2);
            let unknown = options.filter(|option| !has_option(help, option));
            let path = page.path.display();
            found.extend(unknown.map(|option| format!("{path}: {command} has no option {option}")));
        }
        found
    }

    fn text(&mut self, command: &str) -> &str {
        self.texts.entry(command.to_owned()).or_insert_with(|| {
            let mut help = Command::new("sh");
            help.args(["-c", &format!("{command} --help")]).env("PATH", self.programs);
            let output = help.output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    }
}

fn has_option(help: &str, option: &str) -> bool {
    let mut words = help.split(|c: char| c.is_whitespace() || ",[=.:`".contains(c));
    words.any(|word| word == option)
}

/// The words of every command of the two programs, in code blocks and in inline code. Quoted words
/// hold commands of other programs and are left out.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let mut all = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("$ ");
        let whole = [line].into_iter().filter(|_| !line.contains('`'));
        for code in whole.chain(line.split('`').skip(1).step_by(2)) {
            let code = code.split(" #").next().unwrap_or_default();
            let unquoted: Vec<&str> = code.split('\'').step_by(2).collect();
            let unquoted = unquoted.join(" ");
            let words = unquoted.split_whitespace().map(str::to_owned);
            let words: Vec<String> = words.take_while(|word| word != "|" && word != "&").collect();
            if words.first().is_some_and(|it| it == "schedlab" || it == "schedlab-scheduler") {
                all.push(words);
            }
        }
    }
    all
}
