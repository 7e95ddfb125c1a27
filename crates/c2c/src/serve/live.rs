//! The site being served, and what open pages are told about it.

use crate::book::Book;
use crate::check::render_and_check;
use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::{header, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::Router;
use serde_json::json;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tower::ServiceExt;
use tower_http::services::{ServeDir, ServeFile};
use walkdir::WalkDir;

/// Where the script and the events live; no page of a book can have this name.
const SCRIPT: &str = "/.c2c/live.js";
const EVENTS: &str = "/.c2c/events";

/// The last good site and the problems of the latest build.
#[derive(Clone, Default)]
struct Site {
    /// Names the build the pages come from; a page of another build reloads.
    generation: String,
    /// None until a first build went through. In-flight requests keep an old folder alive.
    folder: Option<Arc<TempDir>>,
    /// What the latest build complained about; empty when it became the site.
    problems: Vec<String>,
}

/// The site as the builder changes it and the pages see it. Clones share it.
#[derive(Clone)]
pub(super) struct Live {
    site: Arc<watch::Sender<Site>>,
}

impl Live {
    /// Starts with no site at all.
    pub(super) fn new() -> Live {
        Live {
            site: Arc::new(watch::Sender::new(Site::default())),
        }
    }

    /// Builds `book` and tells the open pages how it went.
    pub(super) fn rebuild(&self, book: &Book) {
        eprintln!("building the book ...");
        let start = Instant::now();
        let generation = generation();
        match build(book, &generation) {
            Ok(folder) => {
                eprintln!("built in {:.1} s", start.elapsed().as_secs_f32());
                self.site.send_replace(Site {
                    generation,
                    folder: Some(Arc::new(folder)),
                    problems: Vec::new(),
                });
            }
            Err(problems) => {
                for problem in &problems {
                    eprintln!("{problem}");
                }
                eprintln!("the last good site stays up");
                self.site.send_modify(|site| site.problems = problems);
            }
        }
    }

    /// The pages of the site, the script in them and its events.
    pub(super) fn router(&self) -> Router {
        Router::new()
            .route(SCRIPT, get(script))
            .route(EVENTS, get(events))
            .fallback(page)
            .with_state(self.clone())
    }
}

/// Renders into a new temporary folder; what went wrong is returned as lines to show.
fn build(book: &Book, generation: &str) -> Result<TempDir, Vec<String>> {
    let attempt = || -> Result<(TempDir, Vec<String>)> {
        let folder = tempfile::Builder::new()
            .prefix("c2c-serve-")
            .tempdir()
            .context("could not create a temporary folder for the site")?;
        let problems = render_and_check(book, folder.path())?;
        if problems.is_empty() {
            add_script(folder.path(), generation)?;
        }
        let problems = problems.iter().map(ToString::to_string).collect();
        Ok((folder, problems))
    };
    match attempt() {
        Ok((folder, problems)) if problems.is_empty() => Ok(folder),
        Ok((_, problems)) => Err(problems),
        Err(error) => Err(vec![format!("{error:#}")]),
    }
}

/// A name no other build has, in this run of the server or an earlier one.
fn generation() -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos().to_string()
}

/// Adds the script to every page. Only here: a built site must not look for this server.
fn add_script(site: &Path, generation: &str) -> Result<()> {
    for entry in WalkDir::new(site) {
        let entry = entry.with_context(|| format!("could not list {}", site.display()))?;
        let file = entry.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            let page = fs::read_to_string(file)
                .with_context(|| format!("could not read {}", file.display()))?;
            let page = page.replacen("</body>", &format!("{}</body>", tag(generation)), 1);
            fs::write(file, page).with_context(|| format!("could not write {}", file.display()))?;
        }
    }
    Ok(())
}

fn tag(generation: &str) -> String {
    format!(r#"<script src="{SCRIPT}" data-generation="{generation}"></script>"#)
}

async fn script() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")],
        include_str!("live.js"),
    )
}

/// The state of the site now, and again after each build.
async fn events(State(live): State<Live>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let states = WatchStream::new(live.site.subscribe()).map(|site| {
        let state = json!({ "generation": site.generation, "problems": site.problems });
        Ok(Event::default().data(state.to_string()))
    });
    Sse::new(states).keep_alive(KeepAlive::default())
}

async fn page(State(live): State<Live>, request: Request) -> Response {
    let site = live.site.borrow().clone();
    let mut response = match &site.folder {
        Some(folder) => {
            let not_found = ServeFile::new(folder.path().join("404.html"));
            let files = ServeDir::new(folder.path()).not_found_service(not_found);
            match files.oneshot(request).await {
                Ok(response) => response.into_response(),
                Err(never) => match never {},
            }
        }
        None => (
            StatusCode::INTERNAL_SERVER_ERROR,
            Html(no_site_yet(&site.generation)),
        )
            .into_response(),
    };
    // Two builds within one second have the same date, so the browser must not compare dates.
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Shown until a first build goes through; the script fills in the problems.
fn no_site_yet(generation: &str) -> String {
    format!(
        "<!DOCTYPE html><html lang=\"en\"><title>The book has problems</title>\
         <body><p>The book cannot be shown until its problems are corrected.</p>{}</body></html>",
        tag(generation)
    )
}
