//! The folder of a running lesson: the kubeconfig, the manifests of the lesson, and how commands in
//! other terminals reach the lesson.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::lesson::Lesson;

/// Name of the folder, if the command line names none.
pub const DEFAULT_FOLDER: &str = "schedlab-lab";

const CONNECTION_FILE: &str = "connection.json";
const KUBECONFIG_FILE: &str = "kubeconfig";

/// The folder of a running lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabFolder {
    path: PathBuf,
}

/// How commands reach the running lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The address on the loopback interface.
    pub address: SocketAddr,
    /// What a command must know.
    pub token: String,
    /// Id of the lesson.
    pub lesson: String,
    /// Namespace of the learner.
    pub namespace: String,
}

impl LabFolder {
    /// The folder that the command line names; else the current folder or the one above, if a
    /// lesson runs there; else [`DEFAULT_FOLDER`].
    pub fn find(named: Option<&Path>) -> Self {
        let runs = |folder: &&str| Path::new(folder).join(CONNECTION_FILE).exists();
        let found = || [".", ".."].into_iter().find(runs).unwrap_or(DEFAULT_FOLDER);
        Self { path: named.map_or_else(|| PathBuf::from(found()), Path::to_path_buf) }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG_FILE)
    }

    /// The folder of the manifests of a lesson.
    pub fn lesson_folder(&self, lesson: &str) -> PathBuf {
        self.path.join(lesson)
    }

    /// Where the evidence of a lesson is written at its end.
    pub fn evidence(&self, lesson: &str, learner: &str) -> PathBuf {
        let is_plain = |c: char| c.is_alphanumeric() || c == '-';
        let learner: String = learner.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        self.path.join(format!("{lesson}-{learner}.zip"))
    }

    /// Writes the manifests that the learner gets. Files that exist with another content are kept;
    /// their names are returned.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_lesson_files(&self, lesson: &Lesson) -> anyhow::Result<Vec<String>> {
        let folder = self.lesson_folder(&lesson.id);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut kept = Vec::new();
        for file in lesson.files.iter().filter(|file| file.is_given) {
            let path = folder.join(&file.name);
            match std::fs::read_to_string(&path) {
                Ok(text) if text != file.text => kept.push(file.name.clone()),
                Ok(_) => {}
                Err(_) => std::fs::write(&path, &file.text)
                    .with_context(|| format!("cannot write {}", path.display()))?,
            }
        }
        Ok(kept)
    }

    /// Writes how commands reach the lesson.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_connection(&self, connection: &Connection) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(connection)?;
        write_private(&self.path.join(CONNECTION_FILE), &text)
    }

    /// Writes the kubeconfig.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(&self, text: &str) -> anyhow::Result<()> {
        write_private(&self.kubeconfig(), text)
    }

    /// How commands reach the lesson; `None` if none was started in the folder, or the last one has
    /// ended.
    pub fn connection(&self) -> Option<Connection> {
        let text = std::fs::read_to_string(self.path.join(CONNECTION_FILE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Removes what leads to a cluster that has ended.
    pub fn remove_connection(&self) {
        for file in [CONNECTION_FILE, KUBECONFIG_FILE] {
            // A file that is gone already is what this is for.
            let _ = std::fs::remove_file(self.path.join(file));
        }
    }
}

/// Writes a file that only its owner can read: a token in it grants administrator rights.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
