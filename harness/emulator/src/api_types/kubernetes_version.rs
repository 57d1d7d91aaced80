//! The versions of Kubernetes that the emulator can serve.

use std::fmt;
use std::str::FromStr;

/// A minor version of Kubernetes. Discovery, feature gates and the fields of types depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum KubernetesVersion {
    /// Kubernetes 1.35.
    V1_35,
    /// Kubernetes 1.37.
    #[default]
    V1_37,
}

impl KubernetesVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 2] = [Self::V1_35, Self::V1_37];

    /// The release whose behaviour is emulated, as `/version` reports it: `v1.37.2`.
    pub fn git_version(self) -> &'static str {
        match self {
            Self::V1_35 => "v1.35.4",
            Self::V1_37 => "v1.37.2",
        }
    }

    /// The minor version: 37.
    pub fn minor(self) -> u32 {
        match self {
            Self::V1_35 => 35,
            Self::V1_37 => 37,
        }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.minor())
    }
}

/// A text that is no version which the emulator can serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got Kubernetes {0}, expected 1.35 or 1.37")]
pub struct UnknownVersion(String);

impl FromStr for KubernetesVersion {
    type Err = UnknownVersion;

    /// Parses `1.37`, also with a patch version or a leading `v`.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let plain = text.strip_prefix('v').unwrap_or(text);
        let is_named = |version: &Self| {
            let minor = version.to_string();
            plain == minor || plain.strip_prefix(&minor).is_some_and(|rest| rest.starts_with('.'))
        };
        let version = Self::ALL.into_iter().find(is_named);
        version.ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_parsed_with_or_without_its_patch() {
        for text in ["1.35", "v1.35", "1.35.4", "v1.35.4"] {
            assert_eq!(text.parse(), Ok(KubernetesVersion::V1_35), "{text}");
        }
        for text in ["1.36", "1.3", "1.375", "35", ""] {
            let error = text.parse::<KubernetesVersion>().unwrap_err();
            assert_eq!(error.to_string(), format!("got Kubernetes {text}, expected 1.35 or 1.37"));
        }
    }
}
