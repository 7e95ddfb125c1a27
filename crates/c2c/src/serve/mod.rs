//! Serves the book on this machine and keeps open pages up to date.
//!
//! A builder thread renders into a new temporary folder at every change. A build without problems
//! becomes the site; one with problems leaves the last good site up and its problems are shown in
//! the open pages. Pages learn of both through an event stream.

mod live;
mod watch;

use crate::book::Book;
use anyhow::{bail, Context, Result};
use live::Live;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use tokio::runtime::Runtime;
use tokio::signal::unix::{signal, SignalKind};
use watch::Watch;

/// The port that is tried first unless another is asked for.
pub const DEFAULT_PORT: u16 = 3000;

/// How many ports are tried before giving up.
const PORTS_TRIED: u16 = 100;

/// A book being served. Dropping it stops the server and the watcher.
pub struct Server {
    address: SocketAddr,
    // Dropped in this order: no more changes, then no more requests.
    _watch: Watch,
    _runtime: Runtime,
}

impl Server {
    /// Builds `book` and serves it on 127.0.0.1 at `port`, or at the next free port. Port 0 lets
    /// the system choose.
    ///
    /// A book with problems is served too: its problems are the page until they are corrected.
    ///
    /// # Errors
    /// When no port is free, or the book's folders cannot be watched.
    pub fn start(book: &Book, port: u16) -> Result<Server> {
        let listener = listen(port)?;
        let address = listener
            .local_addr()
            .context("could not tell the server's own address")?;
        let runtime = Runtime::new().context("could not start the server's threads")?;
        let live = Live::new();
        let watch = Watch::start(book, live.clone())?;
        live.rebuild(book);
        listener
            .set_nonblocking(true)
            .context("could not set up the server's socket")?;
        let listener = {
            let _context = runtime.enter();
            tokio::net::TcpListener::from_std(listener)
                .context("could not set up the server's socket")?
        };
        runtime.spawn(async move { axum::serve(listener, live.router()).await });
        Ok(Server {
            address,
            _watch: watch,
            _runtime: runtime,
        })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the first page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Serves `book` until the process is interrupted or told to terminate.
///
/// Prints the address on stdout. With `open`, shows the book in the reader's browser.
///
/// # Errors
/// As [`Server::start`].
pub fn run(book: &Book, port: u16, open: bool) -> Result<()> {
    let waiter = Runtime::new().context("could not start a thread for signals")?;
    // Before the first build, so that an interrupt during it ends cleanly as well.
    let (mut interrupt, mut terminate) = {
        let _context = waiter.enter();
        let catch = |kind| signal(kind).context("could not catch signals");
        (
            catch(SignalKind::interrupt())?,
            catch(SignalKind::terminate())?,
        )
    };
    let server = Server::start(book, port)?;
    println!("{}", server.url());
    eprintln!("serving the book until Ctrl-C; pages reload when a source changes");
    if open {
        if let Err(error) = open::that(server.url()) {
            eprintln!("could not open a browser: {error}; open the address by hand");
        }
    }
    waiter.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    eprintln!("stopped serving");
    Ok(())
}

/// Listens on `wanted` or on the next port that is free.
fn listen(wanted: u16) -> Result<TcpListener> {
    let last = wanted.saturating_add(PORTS_TRIED - 1);
    for port in wanted..=last {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => {
                if port != wanted {
                    eprintln!("port {wanted} is taken, using {port}");
                }
                return Ok(listener);
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!("could not listen on 127.0.0.1:{port}; choose another with --port")
                })
            }
        }
    }
    bail!("ports {wanted} to {last} are all taken; choose another with --port")
}
