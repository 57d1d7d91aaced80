//! Defaults of options from `schedlab.toml` and from the environment. An option on the command line
//! comes before the environment, that before the profile, that before `[run]` of the file.
//!
//! The values become the default values of the options in clap, which parses them as it does those
//! of the command line. A default never conflicts with another option.

mod file;
mod schema;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches as _};

use super::{Cli, ClusterChoice, clusters_of_option};
use schedlab_conformance::text::nearest_word;

use file::{ProjectFile, Section};

/// The file with settings, in the current folder.
pub const SETTINGS_FILE: &str = "schedlab.toml";

/// The subcommand whose options the file sets.
const RUN: &str = "run";

/// The subcommand whose option `--profile` names a conformance profile.
const CONFORM: &str = "conform";

/// The subcommands that take those of the options of `run` that they have themselves.
const SUBCOMMANDS: [&str; 6] = [RUN, "list", "check", "diff", "merge", CONFORM];

/// The option that names the profile, which cannot be set in the file.
const PROFILE: &str = "profile";

/// The option of `conform` that names the profile of the settings.
const SETTINGS_PROFILE: &str = "settings-profile";

/// The option of `conform` without a variable: `SCHEDLAB_REQUIRE` names what no test of this project
/// may skip.
const REQUIRE: &str = "require";

/// Why a command line cannot be parsed.
#[derive(Debug)]
pub enum ParseError {
    /// The command line is invalid, or asks for help or the version.
    CommandLine(clap::Error),
    /// The settings file or a variable of the environment is invalid.
    Settings(SettingsError),
}

/// An error in the settings file or in a variable of the environment; the text says where and what.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

/// The value of an option, and where it comes from.
#[derive(Clone, Debug)]
struct Setting {
    /// Where the value is, as errors begin: `schedlab.toml:3: run.jobs` or `SCHEDLAB_JOBS`.
    origin: String,
    values: Vec<String>,
}

/// Values of options by the id of their argument.
type Settings = BTreeMap<String, Setting>;

/// Parses a command line with the settings of the current folder and of the environment.
///
/// # Errors
/// The command line, the settings file or a variable is invalid.
pub fn parse_command_line(words: impl IntoIterator<Item = OsString>) -> Result<Cli, ParseError> {
    let words: Vec<OsString> = words.into_iter().collect();
    let command = super::command();
    let matches = command.clone().try_get_matches_from(&words).map_err(ParseError::CommandLine)?;
    let environment = |name: &str| std::env::var(name).ok();
    let settings = settings_of(&command, &matches, Path::new(SETTINGS_FILE), &environment)
        .map_err(ParseError::Settings)?;
    let parsed = parse_with_settings(&command, &matches, settings, &words);
    parsed.map_err(ParseError::CommandLine)
}

/// Parses a command line with the settings as defaults. A setting that has no use for the cluster
/// of this command line is left out: the file may name the image of one cluster while another runs.
fn parse_with_settings(
    command: &Command,
    matches: &ArgMatches,
    mut settings: Settings,
    words: &[OsString],
) -> Result<Cli, clap::Error> {
    let Some(name) = matches.subcommand_name() else { return Cli::from_arg_matches(matches) };
    let parse = |settings: &Settings| {
        with_defaults(command.clone(), name, settings).try_get_matches_from(words)
    };
    let mut parsed = parse(&settings)?;
    let arguments = parsed.subcommand_matches(name);
    let cluster = arguments
        .and_then(|arguments| arguments.try_get_one::<ClusterChoice>("cluster").ok().flatten())
        .copied();
    if let Some(cluster) = cluster {
        let all = settings.len();
        settings.retain(|id, _| {
            let clusters = clusters_of_option(&id.replace('_', "-"));
            clusters.is_none_or(|clusters| clusters.contains(&cluster))
        });
        if settings.len() < all {
            parsed = parse(&settings)?;
        }
    }
    Cli::from_arg_matches(&parsed)
}

/// The settings for the subcommand of a command line.
fn settings_of(
    command: &Command,
    matches: &ArgMatches,
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, SettingsError> {
    let mut settings = Settings::new();
    if let Some((name, arguments)) = matches.subcommand().filter(|(name, _)| has_settings(name)) {
        let option = if name == CONFORM { "settings_profile" } else { PROFILE };
        let named = arguments.try_get_one::<String>(option).ok().flatten().cloned();
        let profile = named.or_else(|| environment(&variable_name(PROFILE)));
        let options = Options { command, subcommand: RUN };
        let file = ProjectFile::read(path)?;
        for section in file.sections(profile.as_deref())? {
            settings.extend(section_settings(&options, section)?);
        }
        let own = Options { command, subcommand: name };
        settings.extend(environment_settings(&own, environment)?);
        settings.retain(|id, _| own.find(|arg| arg.get_id().as_str() == id).is_some());
    } else {
        let global = Options { command, subcommand: "" };
        settings.extend(environment_settings(&global, environment)?);
    }
    Ok(settings)
}

fn has_settings(subcommand: &str) -> bool {
    SUBCOMMANDS.contains(&subcommand)
}

/// The options of a subcommand and of the program.
struct Options<'c> {
    command: &'c Command,
    subcommand: &'c str,
}

impl<'c> Options<'c> {
    fn all(&self) -> impl Iterator<Item = &'c Arg> {
        let own = self.command.find_subcommand(self.subcommand);
        let own = own.into_iter().flat_map(Command::get_arguments);
        own.chain(self.command.get_arguments()).filter(|arg| is_setting(arg))
    }

    fn find(&self, is_it: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
        self.all().find(|arg| is_it(arg))
    }

    /// The error that a value of an option is invalid; `None` if clap accepts it.
    fn invalid_value(&self, arg: &Arg, value: &str) -> Option<String> {
        if !arg.get_action().takes_values() {
            let is_bool = ["true", "false"].contains(&value);
            return (!is_bool).then(|| format!("got {value:?}, expected true or false"));
        }
        let long = arg.get_long()?;
        let owner = self
            .command
            .find_subcommand(self.subcommand)
            .filter(|owner| owner.get_arguments().any(|other| other.get_id() == arg.get_id()));
        let alone = owner.unwrap_or(self.command).clone().no_binary_name(true);
        let error = alone.try_get_matches_from([format!("--{long}={value}")]).err()?;
        // Errors of other kinds: without its other arguments the command is not complete.
        let is_about_value = matches!(
            error.kind(),
            clap::error::ErrorKind::InvalidValue | clap::error::ErrorKind::ValueValidation
        );
        is_about_value.then(|| invalid_value_message(&error, value))
    }
}

/// Whether an argument can be set: options that are shown, and the paths of features.
fn is_setting(arg: &Arg) -> bool {
    let special = ["help", "version", PROFILE];
    !arg.is_hide_set()
        && !special.contains(&arg.get_id().as_str())
        && arg.get_long() != Some(SETTINGS_PROFILE)
        && (arg.get_long().is_some() || arg.get_id() == "paths")
}

/// The name of an argument in the file.
fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str())
}

/// The variable of the environment for an option.
fn variable_name(long: &str) -> String {
    format!("SCHEDLAB_{}", long.replace('-', "_").to_uppercase())
}

fn environment_settings(
    options: &Options<'_>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, SettingsError> {
    let mut settings = Settings::new();
    for arg in options.all() {
        let Some(long) = arg.get_long().filter(|long| *long != REQUIRE) else { continue };
        let origin = variable_name(long);
        let Some(value) = environment(&origin).filter(|value| !value.is_empty()) else { continue };
        if let Some(message) = options.invalid_value(arg, &value) {
            return Err(SettingsError(format!("{origin}: {message}")));
        }
        let setting = Setting { origin, values: vec![value] };
        settings.insert(arg.get_id().to_string(), setting);
    }
    check_confirmation(&settings)?;
    Ok(settings)
}

/// The settings of a section of the file.
fn section_settings(options: &Options<'_>, section: &Section) -> Result<Settings, SettingsError> {
    let mut settings = Settings::new();
    for entry in &section.entries {
        let place = format!("{SETTINGS_FILE}:{}", entry.line);
        let Some(arg) = options.find(|arg| key_of(arg) == entry.key) else {
            let near = nearest_word(&entry.key, options.all().map(key_of));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(SettingsError(format!(
                "{place}: {}: got the key `{}`, expected an option of `schedlab {RUN}` without \
                 its dashes{near}",
                section.name, entry.key
            )));
        };
        let origin = format!("{place}: {}.{}", section.name, entry.key);
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        let values = match entry.value.texts(is_list) {
            Ok(values) => values,
            Err(message) => return Err(SettingsError(format!("{origin}: {message}"))),
        };
        let invalid = values.iter().find_map(|value| options.invalid_value(arg, value));
        if let Some(message) = invalid {
            return Err(SettingsError(format!("{origin}: {message}")));
        }
        settings.insert(arg.get_id().to_string(), Setting { origin, values });
    }
    check_confirmation(&settings)?;
    Ok(settings)
}

/// A context whose cluster is written to needs its confirmation in the same place, because clap
/// demands none for a default.
fn check_confirmation(settings: &Settings) -> Result<(), SettingsError> {
    let Some(context) = settings.get("context") else { return Ok(()) };
    let confirmed = settings.get("confirm").is_some_and(|confirm| confirm.values == ["true"]);
    if confirmed {
        return Ok(());
    }
    let message = "got a context without confirmation, expected `confirm` set to true in the same \
                   place";
    Err(SettingsError(format!("{}: {message}", context.origin)))
}

/// The command with the settings as default values of its options.
fn with_defaults(command: Command, subcommand: &str, settings: &Settings) -> Command {
    let set = |command: Command| {
        command.mut_args(|arg| match settings.get(arg.get_id().as_str()) {
            Some(setting) => arg.default_values(setting.values.clone()),
            None => arg,
        })
    };
    set(command).mut_subcommand(subcommand, set)
}

/// What clap found wrong with a value, in the words of the other messages.
fn invalid_value_message(error: &clap::Error, value: &str) -> String {
    use clap::error::{ContextKind, ContextValue};
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let valid = text(ContextKind::ValidValue);
    if !valid.is_empty() {
        let near = nearest_word(value, valid.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        return format!("got {value:?}, expected {}{near}", valid.join(", "));
    }
    match std::error::Error::source(error).map(ToString::to_string) {
        Some(reason) if reason.starts_with("got ") => reason,
        Some(reason) if reason.starts_with("expected ") => format!("got {value:?}, {reason}"),
        Some(reason) => format!("got {value:?}: {reason}"),
        None => format!("got {value:?}, which is not valid"),
    }
}

pub use schema::settings_schema;

/// The keys of the file: the names of options of `schedlab run`, with the help of each.
pub fn settings_keys() -> Vec<(String, String)> {
    let command = super::command();
    let options = Options { command: &command, subcommand: RUN };
    let help = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
    options.all().map(|arg| (key_of(arg).to_owned(), help(arg))).collect()
}

#[cfg(test)]
mod tests;
