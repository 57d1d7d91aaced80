//! Chromium without a window, driven by its `DevTools` protocol over two named pipes. It records
//! errors of the console and every request.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Names of the program.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A running browser with one tab.
pub(crate) struct Chromium {
    process: Child,
    commands: File,
    messages: BufReader<File>,
    last_id: u64,
    session: String,
    /// Errors of the console and exceptions of scripts.
    pub(crate) errors: Vec<String>,
    /// The addresses of all requests.
    pub(crate) requests: Vec<String>,
    _folder: TempDir,
}

/// The installed browser; prints a message if there is none.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible in the output")]
pub(crate) fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| PROGRAMS.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var("SCHEDLAB_REQUIRE").unwrap_or_default();
        assert!(
            !required.contains("chromium"),
            "SCHEDLAB_REQUIRE lists chromium, which is missing"
        );
        eprintln!("skipped: no chromium on the PATH");
    }
    found
}

impl Chromium {
    pub(crate) fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let made = Command::new("mkfifo").arg(&input).arg(&output).status().expect("mkfifo runs");
        assert!(made.success());
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --no-first-run \
                      --disable-background-networking --disable-component-update \
                      --user-data-dir=\"$1/profile\" --remote-debugging-pipe \
                      about:blank 3<\"$1/in\" 4>\"$1/out\"";
        let process = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh runs");
        let commands = File::options().write(true).open(&input).expect("the pipe opens");
        let messages = BufReader::new(File::open(&output).expect("the pipe opens"));
        let mut browser = Self {
            process,
            commands,
            messages,
            last_id: 0,
            session: String::new(),
            errors: Vec::new(),
            requests: Vec::new(),
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Sends a command and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser runs");
        loop {
            let message = self.next_message();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    fn next_message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.messages.read_until(0, &mut bytes).expect("the browser runs");
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&bytes).expect("messages are JSON");
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => {
                self.errors.push(parameters["exceptionDetails"].to_string());
            }
            "Runtime.consoleAPICalled" if parameters["type"] == "error" => {
                self.errors.push(parameters["args"].to_string());
            }
            "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                self.errors.push(parameters["entry"].to_string());
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
        message
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
        self.wait_for_load();
    }

    /// Waits until the page loads, such as one that loads itself again.
    pub(crate) fn wait_for_load(&mut self) {
        while self.next_message()["method"] != "Page.loadEventFired" {}
    }

    /// The value of an expression; a promise is waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true: the page tells when, by its animation frames.
    pub(crate) fn wait_until(&mut self, expression: &str) {
        let wait = format!(
            "new Promise((resolve) => {{ const look = () => ({expression}) ? resolve(true) : \
             requestAnimationFrame(look); look(); }})"
        );
        assert_eq!(self.evaluate(&wait), json!(true));
    }

    /// Clicks the first element of a CSS selector. It must not be disabled.
    pub(crate) fn click(&mut self, selector: &str) {
        self.evaluate(&format!(
            "{{ const found = document.querySelector('{selector}'); \
             if (found.disabled) throw new Error('it is disabled'); found.click(); }}"
        ));
    }

    /// Presses a key such as `ArrowRight`.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key}));
        }
    }

    /// Sets the width of the window and the colours that the user prefers.
    pub(crate) fn resize(&mut self, width: u32, colours: &str) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let feature = json!({"name": "prefers-color-scheme", "value": colours});
        self.call("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// Writes a picture of the whole page to a file in `$SCHEDLAB_SCREENSHOTS`, if that is set.
    pub(crate) fn take_picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("SCHEDLAB_SCREENSHOTS") else { return };
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let data = picture["data"].as_str().expect("a picture");
        let path = PathBuf::from(folder).join(format!("{name}.png.base64"));
        std::fs::write(path, data).expect("the folder can be written");
    }

    /// Faults of accessibility that axe-core calls serious or critical. `None` without axe-core,
    /// which `$SCHEDLAB_AXE` names: the file `axe.min.js` of its package.
    #[expect(clippy::print_stderr, reason = "a skipped check must be visible in the output")]
    pub(crate) fn accessibility_faults(&mut self) -> Option<Vec<String>> {
        let Some(path) = std::env::var_os("SCHEDLAB_AXE") else {
            eprintln!("skipped: accessibility: SCHEDLAB_AXE does not name axe.min.js");
            return None;
        };
        let script = std::fs::read_to_string(path).expect("SCHEDLAB_AXE names a file");
        self.evaluate(&format!("{script}; undefined"));
        let found = self.evaluate(
            "axe.run().then(({ violations }) => violations
               .filter(({ impact }) => impact === 'serious' || impact === 'critical')
               .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(' | ')}`))",
        );
        let faults = found.as_array().expect("a list").iter();
        Some(faults.map(ToString::to_string).collect())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
