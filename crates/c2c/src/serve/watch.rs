//! Rebuilds the book when its sources change.

use super::live::Live;
use crate::book::{is_editor_file, Book};
use anyhow::{Context, Result};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

/// Editors write a file in several steps; a build starts when this long nothing has happened.
const QUIET: Duration = Duration::from_millis(100);

/// Watches the sources of a book for as long as it lives.
pub(super) struct Watch {
    /// Owns the channel's sender: dropping it ends the builder thread.
    watcher: Option<RecommendedWatcher>,
    builder: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.watcher.take());
        if let Some(builder) = self.builder.take() {
            // It holds the site's folder, which would otherwise be left behind.
            let _ = builder.join();
        }
    }
}

impl Watch {
    /// Rebuilds `book` into `live` after each change under its source folder, examples/, theme/,
    /// or of book.toml.
    pub(super) fn start(book: &Book, live: Live) -> Result<Watch> {
        let sources = sources(book);
        let watched = sources.clone();
        let (changed, changes) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| concerns(&event, &watched)) {
                // Fails only while the server stops, when nobody waits for changes.
                let _ = changed.send(());
            }
        })
        .context("could not watch the book's folders for changes")?;
        // The root itself only for book.toml: target/ below it changes all the time.
        watch(&mut watcher, book.root(), RecursiveMode::NonRecursive)?;
        for folder in sources.iter().filter(|path| path.is_dir()) {
            watch(&mut watcher, folder, RecursiveMode::Recursive)?;
        }
        let book = book.clone();
        let builder = std::thread::spawn(move || rebuild_on_change(&book, &changes, &live));
        Ok(Watch {
            watcher: Some(watcher),
            builder: Some(builder),
        })
    }
}

/// What a page is made of.
fn sources(book: &Book) -> Vec<PathBuf> {
    let root = book.root();
    vec![
        book.src(),
        root.join("examples"),
        root.join("theme"),
        root.join("book.toml"),
    ]
}

fn watch(watcher: &mut RecommendedWatcher, path: &Path, mode: RecursiveMode) -> Result<()> {
    watcher
        .watch(path, mode)
        .with_context(|| format!("could not watch {} for changes", path.display()))
}

/// Whether the event changed a source. Reading one is an event too, and building reads them all.
fn concerns(event: &Event, sources: &[PathBuf]) -> bool {
    let changed = event.kind.is_create() || event.kind.is_modify() || event.kind.is_remove();
    changed
        && event.paths.iter().any(|path| {
            !is_editor_file(path) && sources.iter().any(|source| path.starts_with(source))
        })
}

fn rebuild_on_change(book: &Book, changes: &Receiver<()>, live: &Live) {
    while changes.recv().is_ok() {
        while changes.recv_timeout(QUIET).is_ok() {}
        live.rebuild(book);
    }
}
