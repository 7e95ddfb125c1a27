//! A capture as a tar file. What comes from elsewhere is read with suspicion, and never unpacked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use anyhow::{anyhow, bail, ensure, Context, Result};
use tar::{Archive, Builder, EntryType, Header};

use crate::capture::{self, Capture, LARGEST_FILE, MANIFEST, MOST_FILES};

/// A whole capture has a few hundred KiB; a file beyond this many bytes is something else.
const LARGEST_CAPTURE: u64 = 64 << 20;

/// The bytes of a tar file: the manifest first, no owner, no time.
///
/// # Errors
/// When the manifest cannot be written as JSON.
pub fn pack(capture: &Capture) -> Result<Vec<u8>> {
    let manifest = serde_json::to_string_pretty(&capture.manifest)? + "\n";
    let mut tar = Builder::new(Vec::new());
    let mut append = |path: &str, text: &str| {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, path, text.as_bytes())
            .with_context(|| format!("packing {path}"))
    };
    append(MANIFEST, &manifest)?;
    for (path, text) in &capture.files {
        append(path, text)?;
    }
    tar.into_inner().context("packing the capture")
}

/// Reads a capture from a tar file.
///
/// # Errors
/// When it is truncated, too large, or holds anything that `--capture` would not have written.
pub fn read(path: &Path) -> Result<Capture> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let about = file.metadata()?;
    ensure!(
        about.is_file(),
        "{} is neither a file nor a folder",
        path.display()
    );
    ensure!(
        about.len() <= LARGEST_CAPTURE,
        "{} is larger than {LARGEST_CAPTURE} bytes, so it is no capture",
        path.display()
    );
    unpack(file).with_context(|| format!("{} is no capture of c2c doctor", path.display()))
}

fn unpack(tar: impl Read) -> Result<Capture> {
    let mut manifest = None;
    let mut files = BTreeMap::new();
    for (index, entry) in Archive::new(tar).entries()?.enumerate() {
        ensure!(index <= MOST_FILES, "it has more than {MOST_FILES} entries");
        let mut entry = entry.map_err(|_| anyhow!("it is not a complete tar file"))?;
        let path = plain_path(&entry.path().context("an entry has no readable path")?)?;
        ensure!(
            entry.header().entry_type() == EntryType::Regular,
            "{path} is not a regular file"
        );
        ensure!(
            entry.size() <= LARGEST_FILE,
            "{path} is larger than {LARGEST_FILE} bytes"
        );
        let mut text = String::new();
        entry
            .read_to_string(&mut text)
            .with_context(|| format!("{path} is truncated, or is not text"))?;
        ensure!(text.len() as u64 == entry.size(), "{path} is truncated");
        if index == 0 {
            ensure!(path == MANIFEST, "it does not begin with {MANIFEST}");
            manifest = Some(capture::manifest(&text)?);
            continue;
        }
        let Some(text) = capture::kept(&path, &text) else {
            bail!("{path} does not belong into a capture");
        };
        ensure!(
            files.insert(path.clone(), text).is_none(),
            "{path} is in it twice"
        );
    }
    let manifest = manifest.context("it is empty, or not a tar file")?;
    Ok(Capture { manifest, files })
}

/// A path that stays inside of the capture, and can be printed in a line.
fn plain_path(path: &Path) -> Result<String> {
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    ensure!(plain, "{path:?} leads out of it");
    let text = path.to_str().context("a path is not UTF-8")?;
    ensure!(
        !text.contains(char::is_control),
        "{path:?} is no name of a file"
    );
    Ok(text.to_owned())
}
