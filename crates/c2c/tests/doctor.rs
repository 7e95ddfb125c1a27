//! `c2c doctor` as a program: exit codes, captures, and captures that are none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

const MANIFEST: &str = r#"{"format": "c2c doctor capture", "format_version": 1, "tool_version": "0.1.0",
    "date": "2026-11-30T00:00:00Z", "architecture": "aarch64", "page_bytes": 4096}"#;

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_c2c"));
    command.arg("doctor").args(arguments);
    command.env_remove("PYTORCH_ALLOC_CONF").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// A tar file of entries with these names; the name is written as it stands, whatever it leads to.
fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = header(name, EntryType::Regular, content.len() as u64);
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

fn header(name: &str, kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(bytes);
    header
}

/// The manifest, and one entry of another kind that claims to be a file of a capture.
fn with_entry(kind: EntryType, bytes: u64) -> Vec<u8> {
    let mut tar = tar(&[("capture.json", MANIFEST.as_bytes())]);
    tar.truncate(tar.len() - 1024);
    let mut header = header("proc/meminfo", kind, bytes);
    header.as_old_mut().linkname[..11].copy_from_slice(b"/etc/passwd");
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(&[0; 1024]);
    tar
}

#[test]
fn a_capture_is_written_whole_listed_and_read_again() {
    let folder = TempDir::new().unwrap();
    let out = path(&folder, "out.tar");
    let captured = doctor(&["--capture", &out]);
    assert_eq!(
        captured.status.code(),
        Some(0),
        "{}",
        text(&captured.stderr)
    );
    let listed = text(&captured.stdout);
    assert!(listed.contains("proc/meminfo") && listed.contains("does not name the host"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let json = path(&folder, "a.json");
    let read = doctor(&["--from", &out, "--json", &json]);
    let code = read.status.code().unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let findings = report["counts"]["finding"].as_u64().unwrap();
    assert_eq!(code, i32::from(findings > 0), "{}", text(&read.stderr));
    assert_eq!(report["host_name"], serde_json::Value::Null);
    assert!(text(&read.stdout).contains("transparent_hugepage/"));

    let named = path(&folder, "named.tar");
    let captured = doctor(&["--capture", &named, "--with-host-name"]);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(text(&captured.stdout).contains(&format!("It names the host: {}.", host.trim())));
}

#[test]
fn a_finding_decides_the_exit_code() {
    let folder = TempDir::new().unwrap();
    let file = path(&folder, "a.tar");
    let status = |limit: &str| {
        let limit = format!("Max locked memory  {limit}  {limit}  bytes\n");
        let content = tar(&[
            ("capture.json", MANIFEST.as_bytes()),
            ("proc/self/limits", limit.as_bytes()),
        ]);
        fs::write(&file, content).unwrap();
        doctor(&["--from", &file]).status.code()
    };
    assert_eq!(status("unlimited"), Some(0));
    assert_eq!(status("65536"), Some(1));
}

#[test]
fn what_is_no_capture_is_refused_in_a_sentence() {
    let good = MANIFEST.as_bytes();
    let whole = tar(&[("capture.json", good), ("proc/meminfo", &[b'a'; 3000])]);
    let other =
        |old: &str, new: &str| tar(&[("capture.json", MANIFEST.replace(old, new).as_bytes())]);
    let large = vec![b'a'; (1 << 20) + 1];
    let many: Vec<(&str, &[u8])> = std::iter::once(("capture.json", good))
        .chain(std::iter::repeat_n(("proc/meminfo", good), 5000))
        .collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("two empty blocks", vec![0; 1024]),
        ("text", b"MemTotal: 1 kB\n".repeat(100)),
        (
            "a gzip header",
            [&[0x1f, 0x8b, 8, 0][..], &[7; 2000]].concat(),
        ),
        ("truncated in an entry", whole[..2048].to_vec()),
        ("truncated in a header", whole[..1300].to_vec()),
        ("a foreign tar", tar(&[("src/main.rs", b"fn main() {}")])),
        (
            "a file that does not belong",
            tar(&[("capture.json", good), ("etc/passwd", b"root")]),
        ),
        (
            "a path that leads out",
            tar(&[("capture.json", good), ("../../proc/meminfo", b"a")]),
        ),
        (
            "an absolute path",
            tar(&[("capture.json", good), ("/proc/meminfo", b"a")]),
        ),
        (
            "a path through a folder and out",
            tar(&[("capture.json", good), ("proc/../../meminfo", b"a")]),
        ),
        ("a symbolic link", with_entry(EntryType::Symlink, 0)),
        ("a device", with_entry(EntryType::Block, 0)),
        (
            "an entry that claims 8 GiB",
            with_entry(EntryType::Regular, 8 << 30),
        ),
        (
            "an entry of more than 1 MiB",
            tar(&[("capture.json", good), ("proc/meminfo", &large)]),
        ),
        (
            "not text",
            tar(&[("capture.json", good), ("proc/meminfo", &[0xff, 0xfe])]),
        ),
        (
            "a file twice",
            tar(&[
                ("capture.json", good),
                ("proc/meminfo", b"a"),
                ("proc/meminfo", b"a"),
            ]),
        ),
        ("too many entries", tar(&many)),
        (
            "the manifest not first",
            tar(&[("proc/meminfo", b"a"), ("capture.json", good)]),
        ),
        (
            "a manifest that is not JSON",
            tar(&[("capture.json", b"{")]),
        ),
        ("another format", other("c2c doctor capture", "c2c measure")),
        (
            "another version",
            other("\"format_version\": 1", "\"format_version\": 2"),
        ),
        (
            "without its architecture",
            other("\"architecture\": \"aarch64\",", ""),
        ),
        ("a page of no bytes", other("4096", "0")),
        ("a page below zero", other("4096", "-4096")),
        (
            "an unknown key of two lines",
            other("\"date\"", "\"col\\nour\": 1, \"date\""),
        ),
        (
            "a path of two lines",
            tar(&[("capture.json", good), ("proc/\nmeminfo", b"a")]),
        ),
        (
            "an unknown key",
            other("\"date\"", "\"colour\": 1, \"date\""),
        ),
    ];
    let folder = TempDir::new().unwrap();
    let file = path(&folder, "a.tar");
    for (what, content) in cases {
        fs::write(&file, content).unwrap();
        refused(
            what,
            &doctor(&["--from", &file, "--json", &path(&folder, "a.json")]),
            folder.path(),
            1,
        );
    }
    // A file of 65 MiB that takes no room.
    fs::File::create(&file).unwrap().set_len(65 << 20).unwrap();
    refused(
        "a large file",
        &doctor(&["--from", &file]),
        folder.path(),
        1,
    );
    fs::remove_file(&file).unwrap();
    refused(
        "a folder that is none",
        &doctor(&["--from", folder.path().to_str().unwrap()]),
        folder.path(),
        0,
    );
    for place in ["/dev/zero", "/no/such/file", ""] {
        refused(place, &doctor(&["--from", place]), folder.path(), 0);
    }
    for request in [
        &["--capture", "/no/such/folder/a.tar"][..],
        &["--capture", "/"],
        &["--capture", "a.tar", "--from", "b.tar"],
        &["--with-host-name"],
        &["--json", "/no/such/folder/a.json"],
    ] {
        refused(&request.join(" "), &doctor(request), folder.path(), 0);
    }
}

#[test]
fn a_folder_with_unreadable_entries_is_diagnosed_all_the_same() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("capture.json"), MANIFEST).unwrap();
    // A folder where a file should be, and a file that is not text.
    fs::create_dir_all(folder.path().join("proc/meminfo")).unwrap();
    fs::write(folder.path().join("proc/buddyinfo"), [0xff, 0xfe]).unwrap();
    let output = doctor(&["--from", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("/proc/buddyinfo cannot be read"));
}

#[test]
fn a_full_disk_under_the_output_is_an_error_and_no_panic() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_c2c"));
    let output = command.arg("doctor").stdout(full).output().unwrap();
    let folder = TempDir::new().unwrap();
    refused("a full disk", &output, folder.path(), 0);
}

/// One sentence, the documented exit code, and nothing left behind in `folder`.
fn refused(what: &str, output: &Output, folder: &Path, files: usize) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {stderr}");
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    let says = stderr.starts_with("c2c: ") && stderr.lines().count() == 1;
    assert!(says || stderr.starts_with("error: "), "{what}: {stderr}");
    assert!(output.stdout.is_empty(), "{what}: {}", text(&output.stdout));
    let left = fs::read_dir(folder).unwrap().count();
    assert_eq!(left, files, "{what} left a file behind");
}
