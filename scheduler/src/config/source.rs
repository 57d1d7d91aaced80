//! A configuration file with its path, so that every error names the file.

use std::{io, path::Path};

use thiserror::Error;

use super::{Config, ConfigFile, FileError};

/// A parsed configuration file, or an empty configuration if no file was given.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// The parsed content.
    pub file: ConfigFile,
    /// The file's name, for messages.
    pub name: String,
    text: String,
}

/// Why a configuration file cannot be used.
#[derive(Debug, Error)]
pub enum ConfigSourceError {
    /// The config file cannot be read.
    #[error("cannot read {name}: {error}")]
    Read {
        /// The file's name.
        name: String,
        /// Why the file cannot be read.
        error: io::Error,
    },
    /// The content of the config file is invalid.
    #[error("{name}: {error}")]
    Invalid {
        /// The file's name.
        name: String,
        /// What is invalid, and where.
        error: FileError,
    },
}

impl ConfigSource {
    /// Reads and parses a configuration file; `None`: an empty configuration.
    ///
    /// # Errors
    /// The file cannot be read, or its content is invalid.
    pub fn read(path: Option<&Path>) -> Result<Self, ConfigSourceError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let shown = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(shown, text),
            Err(error) => Err(ConfigSourceError::Read { name: shown, error }),
        }
    }

    /// Parses the text of the configuration file with this name.
    ///
    /// # Errors
    /// A key is unknown or a value is invalid.
    pub fn parse(displayed_path: String, text: String) -> Result<Self, ConfigSourceError> {
        match ConfigFile::parse(&text) {
            Ok(file) => Ok(Self { file, name: displayed_path, text }),
            Err(error) => Err(ConfigSourceError::Invalid { name: displayed_path, error }),
        }
    }

    /// An error about a field that contradicts command line flags.
    pub fn value_error(
        &self,
        field: &'static str,
        found: &str,
        allowed: &'static str,
    ) -> ConfigSourceError {
        let error = FileError::Value { field, found: found.to_owned(), allowed };
        ConfigSourceError::Invalid {
            name: self.name.clone(),
            error: error.with_location(&self.text),
        }
    }

    /// Applies the file to `config`. `change` is called before and sets values of command line
    /// flags.
    ///
    /// # Errors
    /// A setting has no effect in the profile of `config`.
    pub fn apply(
        &self,
        config: &mut Config,
        change: impl FnOnce(&mut ConfigFile),
    ) -> Result<(), ConfigSourceError> {
        let mut file = self.file.clone();
        change(&mut file);
        file.apply(config).map_err(|error| {
            let (shown, error) = (self.name.clone(), error.with_location(&self.text));
            ConfigSourceError::Invalid { name: shown, error }
        })
    }
}
