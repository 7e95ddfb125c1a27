//! Files that are written whole or not at all.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::{Builder, NamedTempFile};

/// A file that will be at its place once it is complete.
///
/// It is opened before a run begins, so that a folder that is not there or may not be written is
/// told at once and not after minutes.
pub struct Target {
    path: PathBuf,
    draft: NamedTempFile,
}

impl Target {
    /// Opens a draft in the folder of `path`; what is at `path` stays as it is.
    ///
    /// # Errors
    /// When the folder is not there, or cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let writing = || format!("writing {}", path.display());
        anyhow::ensure!(
            !path.is_dir(),
            "{} is a folder; name a file",
            path.display()
        );
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let draft = Builder::new()
            .prefix(".c2c-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(writing)?;
        Ok(Self {
            path: path.to_owned(),
            draft,
        })
    }

    /// Writes the whole content and puts the file in its place. On an error neither the draft nor
    /// a part of the content is left.
    ///
    /// # Errors
    /// When the disk is full, or the place cannot be taken.
    pub fn write(mut self, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let writing = || format!("writing {}", self.path.display());
        self.draft
            .write_all(content.as_ref())
            .with_context(writing)?;
        self.draft.as_file().sync_all().with_context(writing)?;
        let path = self.path;
        self.draft
            .persist(&path)
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn an_old_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "old").unwrap();
        drop(Target::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        Target::open(&path).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Target::open(folder.path()).is_err());
        assert!(Target::open(&folder.path().join("none/a.json")).is_err());
    }
}
