//! The output streams, their colors and the progress bar.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::ColorChoice;
use schedlab_conformance::report::Colors;
use schedlab_conformance::snapshots::Ci;

/// What the command line says about the output of every command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputChoices {
    /// When the output is colored.
    pub(crate) color: ColorChoice,
    /// Whether only results, failures and errors are printed.
    pub(crate) quiet: bool,
}

/// The choices of this process. They are set once, before a command runs.
static CHOICES: OnceLock<OutputChoices> = OnceLock::new();

/// Sets the choices for every output of this process.
pub(super) fn set_choices(choices: OutputChoices) {
    let _ = CHOICES.set(choices);
}

/// Standard output and standard error of a command, and its progress bar.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// Whether standard output is colored.
    pub(crate) colors: Colors,
    /// Whether the command runs in continuous integration.
    pub(crate) ci: Ci,
    /// Whether only results, failures and errors are printed.
    pub(crate) quiet: bool,
    bar: ProgressBar,
}

impl CommandOutput {
    /// The output of this process, with settings from `NO_COLOR`, `CLICOLOR_FORCE`, `CI` and the
    /// terminals.
    pub(crate) fn for_this_process() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let ci = set("CI") && std::env::var("CI").is_ok_and(|ci| ci != "false" && ci != "0");
        let choices = CHOICES.get().copied().unwrap_or_default();
        let colors = match choices.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                !set("NO_COLOR") && (std::io::stdout().is_terminal() || set("CLICOLOR_FORCE"))
            }
        };
        Self {
            colors: if colors { Colors::On } else { Colors::Off },
            ci: if ci { Ci::Yes } else { Ci::No },
            quiet: choices.quiet,
            bar: ProgressBar::hidden(),
        }
    }

    /// Shows a progress bar for this number of cases on standard error, if that is a terminal.
    pub(crate) fn expect_cases(&mut self, cases: usize) {
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template("{pos}/{len} {bar:30} {wide_msg}")
            .expect("the template is well formed");
        self.bar = ProgressBar::new(cases as u64).with_style(style);
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    }

    /// Shows the current activity beside the progress bar.
    pub(crate) fn show_activity(&self, activity: &str) {
        self.bar.set_message(activity.to_owned());
    }

    /// Advances the progress bar by one case.
    pub(crate) fn count_done_case(&self) {
        self.bar.inc(1);
    }

    /// Removes the progress bar from the terminal.
    pub(crate) fn clear_progress(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes the result of the command to standard output.
    pub(crate) fn print_result(&mut self, text: &str) {
        self.bar.suspend(|| {
            // A closed pipe (`schedlab list | head`) is not an error.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        });
    }

    /// Writes a message that no user must act on to standard error, unless the command is quiet.
    pub(crate) fn print_progress(&mut self, text: &str) {
        if !self.quiet {
            self.print_note(text);
        }
    }

    /// Writes a message of one or more lines to standard error.
    pub(crate) fn print_note(&mut self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        });
    }
}
