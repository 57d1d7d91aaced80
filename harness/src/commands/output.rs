//! The two streams, and whether they show colours and progress.

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::Colours;
use crate::reviewed::Ci;

/// Standard output and standard error.
#[derive(Debug)]
pub(crate) struct Output {
    /// Colours of standard output.
    pub(crate) colours: Colours,
    /// Whether this is a CI job.
    pub(crate) ci: Ci,
    bar: ProgressBar,
}

impl Output {
    /// As the environment has it: `NO_COLOR`, `CI`, terminals.
    pub(crate) fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let ci = set("CI") && std::env::var("CI").is_ok_and(|ci| ci != "false" && ci != "0");
        let colours =
            !set("NO_COLOR") && (std::io::stdout().is_terminal() || set("CLICOLOR_FORCE"));
        Self {
            colours: if colours { Colours::On } else { Colours::Off },
            ci: if ci { Ci::Yes } else { Ci::No },
            bar: ProgressBar::hidden(),
        }
    }

    /// Shows a progress bar on standard error, when that is a terminal.
    pub(crate) fn expect(&mut self, cases: usize) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template("{pos}/{len} {bar:30} {wide_msg}")
            .expect("the template is well formed");
        self.bar = ProgressBar::new(cases as u64).with_style(style);
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    }

    /// Names what is being done.
    pub(crate) fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// One more done.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// Takes the progress bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Data.
    pub(crate) fn data(&mut self, text: &str) {
        self.bar.suspend(|| {
            // A reader that has gone away (`schedlab list | head`) wants no more of it.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
        });
    }

    /// Anything that is not data; one line or more.
    pub(crate) fn note(&mut self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        });
    }
}
