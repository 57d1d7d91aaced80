//! Compares the output of kubectl on both servers, for the commands in `transcripts/*.txt`.

use std::path::Path;
use std::process::Command;

use regex::Regex;

/// A command of a transcript and its output.
pub(crate) struct CommandOutput {
    pub(crate) command: String,
    pub(crate) text: String,
}

impl CommandOutput {
    /// The difference to the output on the emulator.
    pub(crate) fn diff(&self, ours: &Self) -> String {
        let real = self.text.lines().map(|line| format!("    real     {line}\n"));
        let ours = ours.text.lines().map(|line| format!("    emulator {line}\n"));
        format!("$ {}{}", self.command, real.chain(ours).collect::<String>())
    }
}

/// The commands of a transcript, separated by empty lines except in here-documents.
fn commands(text: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let command = commands.last_mut().expect("there is always one");
        let is_open = command.matches("<<'END'").count() > command.matches("\nEND\n").count();
        if line.is_empty() && !is_open {
            commands.push(String::new());
        } else {
            *command += line;
            *command += "\n";
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Runs a transcript with the kubectl of the assets.
pub(crate) fn play(assets: &Path, kubeconfig: &str, transcript: &str) -> Vec<CommandOutput> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let plain = OutputNormalizer::default();
    let run = |command: String| {
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .env("PATH", format!("{}:{path}", assets.display()))
            .env("HOME", home.path())
            .env("KUBECONFIG", home.path().join("kubeconfig"))
            .current_dir(home.path())
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        CommandOutput { command, text: plain.normalize(&text, home.path()) }
    };
    commands(transcript).into_iter().map(run).collect()
}

/// Normalizes times, ages, uids, revisions, addresses and column widths.
struct OutputNormalizer(Vec<(Regex, &'static str)>);

impl Default for OutputNormalizer {
    fn default() -> Self {
        let rules = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
            (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [-+]\d{4}", "TIME"),
            (r#"resourceVersion: "\d+""#, "resourceVersion: RV"),
            (r#"\\"resourceVersion\\":\\"\d+\\""#, "resourceVersion: RV"),
            (r"Resource Version: +\d+", "Resource Version: RV"),
            (r#"\\"managedFields\\":\[.*?\}\],"#, ""),
            (r"kubectl-edit-\d+\.yaml", "kubectl-edit-N.yaml"),
            (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-MADE"),
            (r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-HASH"),
            (r"pod-template-hash[:=]\w+", "pod-template-hash=HASH"),
            (r"\.[0-9a-f]{16}\b", ".MADE"),
            (r"\b(?:\d+[ydhms]){1,2}\b|<invalid>|<unknown>", "AGE"),
            (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"\b10\.\d+\.\d+\.\d+\b", "IP"),
            (r" {2,}", "  "),
            (r"(?m) +$", ""),
        ];
        Self(rules.map(|(rule, plain)| (Regex::new(rule).unwrap(), plain)).into())
    }
}

impl OutputNormalizer {
    fn normalize(&self, text: &str, home: &Path) -> String {
        let text = text.replace(&home.display().to_string(), "HOME");
        self.0.iter().fold(text, |text, (rule, plain)| rule.replace_all(&text, *plain).into_owned())
    }
}

#[test]
fn a_generated_name_is_no_age() {
    let text = "kube-api-access-54h9d, web-67d4h8s9d2-5m42s, train.18a4c0ffee54321d after 2m54s";
    let plain = OutputNormalizer::default().normalize(text, Path::new("/home/nobody"));
    assert_eq!(plain, "kube-api-access-MADE, web-HASH-MADE, train.MADE after AGE");
}
