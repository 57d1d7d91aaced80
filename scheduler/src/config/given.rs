//! A configuration file as somebody named it: whatever is wrong with it is told with its name.

use std::{io, path::Path};

use thiserror::Error;

use super::{Config, ConfigFile, FileError};

/// A file as it was given, or an empty one where none was.
#[derive(Clone, Debug, Default)]
pub struct GivenFile {
    /// What it says.
    pub file: ConfigFile,
    /// Its name.
    pub shown: String,
    text: String,
}

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum GivenError {
    /// It cannot be read.
    #[error("cannot read {shown}: {error}")]
    Unread {
        /// Its name.
        shown: String,
        /// Why.
        error: io::Error,
    },
    /// Something in it is wrong.
    #[error("{shown}: {error}")]
    Wrong {
        /// Its name.
        shown: String,
        /// What.
        error: FileError,
    },
}

impl GivenFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is unknown or out of bounds.
    pub fn read(path: Option<&Path>) -> Result<Self, GivenError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let shown = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(shown, text),
            Err(error) => Err(GivenError::Unread { shown, error }),
        }
    }

    /// What stands in it, under a name by which it is known.
    ///
    /// # Errors
    /// Something in it is unknown or out of bounds.
    pub fn parse(shown: String, text: String) -> Result<Self, GivenError> {
        match ConfigFile::parse(&text) {
            Ok(file) => Ok(Self { file, shown, text }),
            Err(error) => Err(GivenError::Wrong { shown, error }),
        }
    }

    /// A field of it that cannot be beside what flags say.
    pub fn wrong(&self, field: &'static str, found: &str, allowed: &'static str) -> GivenError {
        let error = FileError::Value { field, found: found.to_owned(), allowed };
        GivenError::Wrong { shown: self.shown.clone(), error: error.in_file(&self.text) }
    }

    /// `config` with what the file says once `change` has been made to it.
    ///
    /// # Errors
    /// Something in it does nothing in the profile of `config`.
    pub fn apply(
        &self,
        config: &mut Config,
        change: impl FnOnce(&mut ConfigFile),
    ) -> Result<(), GivenError> {
        let mut file = self.file.clone();
        change(&mut file);
        file.apply(config).map_err(|error| {
            let (shown, error) = (self.shown.clone(), error.in_file(&self.text));
            GivenError::Wrong { shown, error }
        })
    }
}
