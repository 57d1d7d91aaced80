//! A scheduler in processes of its own: a program that cannot follow virtual time. Its experiments
//! run in real time, and the times of the trace are divided by a speed.

use std::path::PathBuf;

use anyhow::Context as _;
use schedlab_clusters::external_tools;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::schedulers::{OwnTimes, Target};
use schedlab_scheduler::{Config, Flavor};
use serde::{Deserialize, Serialize};

use super::findings::duration_text;

/// Options of a simulation in which a scheduler is a program of its own.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct ProcessArgs {
    /// Declaration of the scheduler of `process:`: a target file, or the name of a built-in target
    /// [default: the name of its program].
    #[arg(long, value_name = "FILE", help_heading = "Scheduler")]
    pub target: Option<PathBuf>,
    /// How many times as fast as the trace a scheduler of `process:` is simulated, which runs in
    /// real time: 300 simulates a day in 4.8 minutes.
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_SPEED,
        value_parser = parse_speed,
        help_heading = "Scheduler"
    )]
    pub speed: f64,
}

/// The speed without an option.
const DEFAULT_SPEED: f64 = 300.0;

/// The highest speed: a second of a scheduler is a day.
const SPEED_MAX: f64 = 86_400.0;

impl Default for ProcessArgs {
    fn default() -> Self {
        Self { target: None, speed: DEFAULT_SPEED }
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|speed| (1.0..=SPEED_MAX).contains(speed));
    number.ok_or_else(|| format!("expected a number from 1 to {SPEED_MAX}"))
}

/// A scheduler that is simulated in scaled real time.
#[derive(Clone, Debug)]
pub(crate) struct ProcessScheduler {
    pub(super) target: Target,
    pub(super) flavor: Flavor,
    /// Seconds of the trace in a second of real time.
    pub(super) speed: f64,
    /// A folder that may contain the program.
    pub(super) program_folder: Option<PathBuf>,
}

/// What scaled real time makes of the times of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RealTime {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Seconds of the trace in a second of real time.
    pub speed: f64,
    /// Waits are multiples of this, in seconds of the trace.
    pub resolution_secs: f64,
    /// What that means for the figures, in a sentence.
    pub warning: String,
}

impl ProcessScheduler {
    /// The scheduler of `process:COMMAND`.
    ///
    /// # Errors
    /// The source is no program, there is no such program, its target is unknown, or it reads queues
    /// in which a trace cannot be written.
    pub(crate) fn load(source: &SchedulerSource, args: &ProcessArgs) -> anyhow::Result<Self> {
        let (SchedulerSource::Process(_) | SchedulerSource::Ours) = source else {
            anyhow::bail!("expected process:COMMAND: simulations start their scheduler");
        };
        let target = Target::load_target(source, args.target.as_deref())?;
        let flavor = target.flavor_of_jobs().with_context(|| {
            format!(
                "scheduler {}: got a target with queues of its own, expected one that reads KAI's \
                 queues (queues: scheduling.run.ai/v2) or none (queues: none)",
                target.name
            )
        })?;
        let program_folder = external_tools::control_plane_folder();
        for command in target.program_commands() {
            external_tools::check_program_exists(&command, program_folder.as_deref())
                .map_err(|lacking| anyhow::anyhow!("scheduler {}: {lacking}", target.name))?;
        }
        Ok(Self { target, flavor, speed: args.speed, program_folder })
    }

    /// Whether a value of `--scheduler` or of a side names such a scheduler.
    pub(crate) fn is_named_by(text: &str) -> bool {
        ["process:", "installed:", "deployment:"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// The flavor whose objects describe jobs to the scheduler.
    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The configuration, as far as schedlab sets it.
    pub(super) fn config(&self, seed: u64) -> Config {
        self.target.scheduler_config(seed)
    }

    /// What the scale can tell: the times of the trace in which the scheduler acts once.
    pub(crate) fn resolution_secs(&self) -> f64 {
        self.target.real_times().cycle.as_secs_f64() * self.speed
    }

    /// What scaled real time makes of the figures.
    pub(crate) fn real_time(&self) -> RealTime {
        let OwnTimes { cycle, backoff } = self.target.real_times();
        let scaled = |secs: f64| duration_text(secs * self.speed);
        let (cycle, backoff) = (cycle.as_secs_f64(), backoff.as_secs_f64());
        RealTime {
            scheduler: self.target.name.clone(),
            speed: self.speed,
            resolution_secs: self.resolution_secs(),
            warning: format!(
                "{} ran in real time, {} times as fast as the trace: its cycle of {cycle} s counts \
                 as {}, its backoff of {backoff} s as {}. Waits are multiples of {}, and another \
                 run gives slightly other figures",
                self.target.name,
                self.speed,
                scaled(cycle),
                scaled(backoff),
                scaled(cycle)
            ),
        }
    }
}
