//! The suite that is compiled into the program: which paths select in it, and its fleets.

use std::path::{Path, PathBuf};

use super::{CommandOutput, UsageError};
use schedlab_conformance::features::{self, Case, FeaturePath};
use schedlab_conformance::suite_files::{EmbeddedSuite, SuiteFiles};
use schedlab_conformance::text::{counted_noun, nearest_word};

/// The suite of this version.
pub(super) static SUITE: EmbeddedSuite =
    EmbeddedSuite { version: schedlab_suite::VERSION, files: schedlab_suite::FILES };

/// The folder of features, in a project and in the suite.
pub(super) const FEATURES: &str = "features";

/// Whether commands without a path use the embedded suite: this folder has no features or snapshots
/// of its own.
pub(super) fn is_embedded_suite_used() -> bool {
    !Path::new(FEATURES).exists() && !Path::new("snapshots").exists()
}

/// The paths of a command line. Where the current folder has no `features/`, a path below
/// `features/` that is not on disk is one of the embedded suite.
pub(super) fn feature_paths(texts: &[String]) -> Vec<FeaturePath> {
    let has_own_features = Path::new(FEATURES).exists();
    let parse = |text: &String| {
        let path = FeaturePath::parse(text);
        if has_own_features { path } else { path.or_embedded(&SUITE) }
    };
    texts.iter().map(parse).collect()
}

/// Says that cases are those of the embedded suite, if some are.
pub(super) fn note_embedded_cases(cases: &[&Case], doing: &str, output: &mut CommandOutput) {
    let embedded = cases.iter().filter(|case| !case.files.is_on_disk()).count();
    if embedded > 0 {
        let scenarios = counted_noun(embedded, "scenario");
        output.print_progress(&format!(
            "no {FEATURES}/ here: {doing} the suite of schedlab {} ({scenarios})",
            SUITE.version
        ));
    }
}

/// The error for a path that is neither on disk nor in the suite.
pub(super) fn missing_path_error(path: &Path) -> UsageError {
    let shown = features::display_path(path);
    let missing = format!("{shown}: no such file or folder");
    if Path::new(FEATURES).exists() || !path.starts_with(FEATURES) {
        return UsageError(missing);
    }
    let names = SuiteFiles::Embedded(&SUITE).names_in(Path::new(FEATURES));
    let areas: Vec<String> = names.iter().map(|name| format!("{FEATURES}/{name}")).collect();
    let near = nearest_word(&shown, areas.iter().map(String::as_str));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    UsageError(format!(
        "{missing}; the suite of schedlab {} has {}{near}",
        SUITE.version,
        areas.join(", ")
    ))
}

/// The text of a fleet, and where it is.
pub(super) struct FleetFile {
    /// Where the file is, as messages show it.
    pub(super) shown: String,
    /// The text of the file.
    pub(super) text: String,
}

/// The folder of fleets in the suite.
const FLEETS: &str = "fixtures/fleets";

/// Reads a fleet: the file at this path, else the suite's file of that path, else the suite's fleet
/// of that name, such as `lab`.
pub(super) fn read_fleet(path: &Path) -> Result<FleetFile, UsageError> {
    let suite = SuiteFiles::Embedded(&SUITE);
    let named = Path::new(FLEETS).join(path).with_extension("yaml");
    let places = [(SuiteFiles::Disk, path.to_owned()), (suite, path.to_owned()), (suite, named)];
    let found = places.into_iter().find(|(files, path)| files.exists(path));
    let (files, place): (SuiteFiles, PathBuf) =
        found.unwrap_or_else(|| (SuiteFiles::Disk, path.to_owned()));
    let shown = place.display().to_string();
    match files.read_text(&place) {
        Ok(text) => Ok(FleetFile { shown, text }),
        Err(error) if place.exists() => Err(UsageError(error.message_with_file(&shown))),
        Err(error) => {
            let names = suite.names_in(Path::new(FLEETS));
            let names: Vec<&str> =
                names.iter().map(|name| name.trim_end_matches(".yaml")).collect();
            Err(UsageError(format!(
                "{}; expected a file, or a fleet of schedlab: {}",
                error.message_with_file(&shown),
                names.join(", ")
            )))
        }
    }
}
