//! `schedlab show`: a recorded run in the terminal. A list of scenarios with a filter; of a scenario
//! its steps, its failing claim, and the cluster after every write. Without a terminal the same is
//! printed as text.

mod draw;
mod plain;
mod viewer;

#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use anyhow::Context as _;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::{CommandOutput, run_files};
use crate::cli::Show;
use crate::exit::ExitStatus;
use viewer::Viewer;

/// Shows the run until `q`, or prints it.
pub fn run_show_command(args: &Show) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let run = run_files::read_run(&args.run, &args.results)?;
    let mut viewer = Viewer::new(run.report.cases, run.timelines);
    viewer.set_filter(&args.filter, args.failed);
    if args.plain || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        output.print_result(&plain::text(&run.title, &viewer)?);
        return Ok(ExitStatus::Passed);
    }
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| draw::draw(frame, &viewer)) {
            break Err(error);
        }
        match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => viewer.press(key),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
        if viewer.is_done() {
            break Ok(());
        }
    };
    ratatui::restore();
    ended.context("cannot use this terminal")?;
    Ok(ExitStatus::Passed)
}
