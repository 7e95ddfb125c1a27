//! A headless Chromium, driven over its DevTools protocol.

use serde_json::{json, Value};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tungstenite::{client, Message, WebSocket};

/// A browser that has not answered for so long never will; the test ends with a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says on the real stderr that the browser checks did not run; libtest would hide `eprintln!`.
pub fn waive_without_chromium() {
    let line = b"waived: browser checks, no Chromium found (apt-get install chromium)\n";
    std::io::stderr().write_all(line).unwrap();
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// A wide window and a light theme.
    Light,
    /// A wide window and a dark theme.
    Dark,
    /// 390 pixels wide, light.
    Phone,
}

impl Look {
    /// Each way once.
    pub const ALL: [Look; 3] = [Look::Light, Look::Dark, Look::Phone];

    fn width(self) -> u32 {
        match self {
            Look::Phone => 390,
            Look::Light | Look::Dark => 1280,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Look::Dark => "dark",
            Look::Light | Look::Phone => "light",
        }
    }
}

/// What was found on a page.
pub struct Seen {
    /// One sentence for each thing that should not be.
    pub complaints: Vec<String>,
    /// How many diagrams were drawn.
    pub diagrams: u64,
}

/// A running browser with one tab.
pub struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: Value,
    last_id: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The profile's folder cannot be removed while the browser writes into it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts Chromium, or returns `None` where there is none.
    pub fn launch() -> Option<Browser> {
        let program = find_chromium()?;
        let profile = TempDir::new().unwrap();
        let process = Command::new(&program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-quic", "--no-first-run", "--disable-sync"])
            .args(["--disable-background-networking"])
            .args(["--disable-component-update", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("could not start {}: {error}", program.display()));
        let (port, path) = debugging_address(profile.path());
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = client(url, stream).unwrap();
        let mut browser = Browser {
            process,
            socket,
            session: Value::Null,
            last_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = &target["targetId"];
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target, "flatten": true }),
        );
        browser.session = attached["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens `url` and returns what is wrong with the page.
    pub fn inspect(&mut self, url: &str, look: Look) -> Seen {
        self.open(url, look);
        // Diagrams are drawn after the page has loaded; one that cannot be is marked.
        let report = self.evaluate(
            "(async () => {
                const blocks = [...document.querySelectorAll('pre.mermaid')];
                const width = (block) =>
                    block.querySelector('svg')?.getBoundingClientRect().width ?? 0;
                const pending = (block) =>
                    width(block) === 0 && !block.classList.contains('not-drawn');
                for (let i = 0; i < 400 && blocks.some(pending); i++) {
                    await new Promise((resolve) => setTimeout(resolve, 50));
                }
                const content = document.querySelector('.content');
                return {
                    blocks: blocks.length,
                    drawn: blocks.filter((block) => width(block) > 0).length,
                    page: document.documentElement.scrollWidth,
                    content: content.scrollWidth - content.clientWidth,
                };
            })()",
        );
        let mut complaints = self.complaints();
        let number = |name: &str| report[name].as_u64().unwrap_or_default();
        let (blocks, drawn) = (number("blocks"), number("drawn"));
        if drawn != blocks {
            complaints.push(format!("{drawn} of {blocks} diagrams were drawn"));
        }
        // mdBook clips what is too wide, so the content is measured too, not only the page.
        if number("page") > u64::from(look.width()) || number("content") > 0 {
            complaints.push(format!("the content is wider than the page: {report}"));
        }
        let place = |complaint| format!("{url} ({look:?}): {complaint}");
        Seen {
            complaints: complaints.into_iter().map(place).collect(),
            diagrams: drawn,
        }
    }

    /// Loads a page and waits for its load event.
    pub fn open(&mut self, url: &str, look: Look) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": look.width(), "height": 900, "deviceScaleFactor": 1,
                    "mobile": look == Look::Phone }),
        );
        let scheme = json!([{ "name": "prefers-color-scheme", "value": look.scheme() }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme }));
        // A new page for each look: the events of the last one must not be taken for this one's.
        self.load("about:blank");
        self.events.clear();
        self.load(url);
    }

    fn load(&mut self, url: &str) {
        let already = self.events.len();
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert_eq!(answer["errorText"], Value::Null, "{url}");
        while !self.events[already..]
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            self.read();
        }
    }

    /// What the page said on its console, threw, or asked other hosts for, since it was opened.
    pub fn complaints(&mut self) -> Vec<String> {
        // A round trip, so that everything the page has said until now has been read.
        self.evaluate("0");
        self.events.iter().filter_map(complaint).collect()
    }

    /// The value of a JavaScript expression, awaited if it is a promise.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
        );
        answer["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true.
    pub fn wait_until(&mut self, expression: &str) {
        let start = Instant::now();
        // Asked again and again, since the page may reload in between.
        while self.evaluate(expression) != Value::Bool(true) {
            assert!(start.elapsed() < PATIENCE, "never true: {expression}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Calls a method and waits for its answer; a page that goes away meanwhile answers null.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut request = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_null() {
            request["sessionId"] = self.session.clone();
        }
        self.socket
            .send(Message::text(request.to_string()))
            .unwrap();
        loop {
            let message = self.read();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Reads one message; events are kept.
    fn read(&mut self) -> Value {
        loop {
            let message = self.socket.read().expect("the browser stopped answering");
            if let Message::Text(text) = message {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message.get("method").is_some() {
                    self.events.push(message.clone());
                }
                return message;
            }
        }
    }
}

/// What an event says against the page.
fn complaint(event: &Value) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        "Runtime.consoleAPICalled" => {
            let kind = parameters["type"].as_str()?;
            ["error", "warning", "assert"]
                .contains(&kind)
                .then(|| format!("console {kind}: {}", parameters["args"]))
        }
        "Log.entryAdded" => {
            let entry = &parameters["entry"];
            let level = entry["level"].as_str()?;
            ["error", "warning"]
                .contains(&level)
                .then(|| format!("console {level}: {} {}", entry["text"], entry["url"]))
        }
        "Network.requestWillBeSent" => {
            let url = parameters["request"]["url"].as_str()?;
            let local = ["http://127.0.0.1:", "data:", "blob:", "about:"];
            (!local.iter().any(|start| url.starts_with(start)))
                .then(|| format!("request to another host: {url}"))
        }
        _ => None,
    }
}

/// `$CHROMIUM`, or the first known name on the path.
fn find_chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// Where the browser waits for us: it writes port and path into its profile once it does.
fn debugging_address(profile: &Path) -> (u16, String) {
    let file = profile.join("DevToolsActivePort");
    let start = Instant::now();
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let mut lines = text.lines();
        if let (Some(port), Some(path)) = (lines.next(), lines.next()) {
            return (port.parse().unwrap(), path.to_string());
        }
        assert!(start.elapsed() < PATIENCE, "the browser did not start");
        sleep(Duration::from_millis(20));
    }
}
