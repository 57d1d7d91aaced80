use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use insta::assert_snapshot;
use schedlab_api::json;
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{CaseInput, DEFAULT_MAX_BYTES, read_case};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}"#;
const POD_YAML: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n";

/// What was read: counts by array, events, and warnings.
fn read_text(folder: &Path, files: &[&str], max_bytes: u64) -> String {
    let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(file)).collect();
    let text = match read_case(&paths, max_bytes) {
        Ok(CaseInput { case, warnings, missing }) => {
            let counts = case.cluster.objects.iter();
            let counts: Vec<String> =
                counts.map(|(array, objects)| format!("{array} {}", objects.len())).collect();
            let events = case.events.len();
            format!(
                "{}; events {events}\n{}",
                counts.join(", "),
                [missing, warnings].concat().join("\n")
            )
        }
        Err(error) => error.to_string(),
    };
    text.replace(&format!("{}/", folder.display()), "").replace(&*folder.to_string_lossy(), "DIR")
}

fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn zipped(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in entries {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn snapshot() -> String {
    json!({ "config": null, "rawObjects": {
        "nodes": [{ "metadata": { "name": "n1" } }], "queues": null,
        "pods": [{ "metadata": { "name": "p", "namespace": "ns" } }], "unicorns": [{}, {}] } })
    .to_string()
}

#[test]
fn each_format_is_told_by_its_content() {
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{NODE},{NODE}]}}"#);
    let typed = r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"p","namespace":"ns"}}]}"#;
    let dump = format!(
        "{typed}\n==== START logs for container c of pod ns/p ====\n{{ no json\n==== END logs for container c of pod ns/p ====\n{NODE}\n"
    );
    let event = r#"{"apiVersion":"v1","kind":"EventList","items":[{"reason":"Evict"}]}"#;
    let folder = folder_with(&[
        ("snapshot.zip", &zipped(&[("snapshot.json", &snapshot())])),
        ("snapshot.json", snapshot().as_bytes()),
        ("snapshot.json.gz", &gzipped(&snapshot())),
        ("list.json", list.as_bytes()),
        (
            "documents.yaml",
            format!("---\n{POD_YAML}---\nkind: Secret\napiVersion: v1\n").as_bytes(),
        ),
        ("dump.txt", dump.as_bytes()),
        ("dump/nodes.json", NODE.as_bytes()),
        ("dump/ns/pods.json", typed.as_bytes()),
        ("dump/ns/events.json", event.as_bytes()),
        ("dump/ns/p/logs.txt", b"no objects"),
    ]);
    let read = |files: &[&str]| read_text(folder.path(), files, DEFAULT_MAX_BYTES);
    let of_snapshot = read(&["snapshot.zip"]);
    assert_snapshot!(of_snapshot, @r"
    nodes 1, pods 1; events 0
    snapshot.zip: no queues; add them to the input
    snapshot.zip: no PodGroups (scheduling.run.ai); add them to the input
    not used: 2 unicorns
    ");
    for other in ["snapshot.json", "snapshot.json.gz"] {
        assert_eq!(read(&[other]).replace(other, "snapshot.zip"), of_snapshot);
    }
    assert_snapshot!(read(&["list.json"]), @r"
    nodes 1; events 0
    list.json: no queues; add them to the input
    1 objects were there twice
    ");
    assert_snapshot!(read(&["documents.yaml", "list.json"]), @r"
    nodes 1, pods 1; events 0
    documents.yaml, list.json: no queues; add them to the input
    documents.yaml, list.json: no PodGroups (scheduling.run.ai); add them to the input
    1 objects were there twice
    not used: 1 Secret
    ");
    assert_snapshot!(read(&["dump.txt"]), @r"
    nodes 1, pods 1; events 0
    dump.txt: no queues; add them to the input
    dump.txt: no PodGroups (scheduling.run.ai); add them to the input
    ");
    assert_snapshot!(read(&["dump"]), @r"
    nodes 1, pods 1; events 1
    dump: no queues; add them to the input
    dump: no PodGroups (scheduling.run.ai); add them to the input
    ");
}

#[test]
fn a_wrong_input_is_one_clear_line() {
    let whole = zipped(&[("snapshot.json", &snapshot())]);
    let folder = folder_with(&[
        ("half.zip", &whole[..whole.len() / 2]),
        ("other.zip", &zipped(&[("readme.txt", "x")])),
        ("half.json", br#"{"rawObjects":{"pods":["#),
        ("text.txt", b"error: You must be logged in to the server"),
        ("binary", &[0xff, 0xfe, 0x00, 0x9f]),
        ("fields.json", br#"{"a":1,"b":2}"#),
        ("arrays.json", br#"{"rawObjects":{"pods":{}}}"#),
        (
            "newer.zip",
            &zipped(&[
                ("snapshot.json", &snapshot()),
                ("case.json", r#"{"format":"schedlab.dev/case/v9"}"#),
            ]),
        ),
        ("large.json.gz", &gzipped(&snapshot())),
        ("empty.json", b""),
    ]);
    let read = |file: &str| read_text(folder.path(), &[file], DEFAULT_MAX_BYTES);
    assert_snapshot!(read("missing"), @"missing: cannot read it: No such file or directory (os error 2)");
    assert_snapshot!(read("half.zip"), @"half.zip: got no complete zip (invalid Zip archive: Could not find EOCD), expected a whole one");
    assert_snapshot!(read("other.zip"), @"other.zip: snapshot.json: got no file of that name in the zip, expected a zip with it, or with output of kubectl");
    assert_snapshot!(read("half.json"), @"half.json: it is not complete JSON: EOF while parsing a list at line 1 column 23");
    assert_snapshot!(read("text.txt"), @"text.txt: got an object without kind (its fields: error), expected a snapshot, or objects of Kubernetes as kubectl prints them");
    assert_snapshot!(read("binary"), @"binary: got a binary file, expected a zip, gzip, JSON or YAML");
    assert_snapshot!(read("fields.json"), @"fields.json: got an object without kind (its fields: a, b), expected a snapshot, or objects of Kubernetes as kubectl prints them");
    assert_snapshot!(read("arrays.json"), @"arrays.json: rawObjects.pods: got no array, expected an array of objects, or null");
    assert_snapshot!(read("newer.zip"), @"newer.zip: case.json: format: got schedlab.dev/case/v9, expected schedlab.dev/case/v1");
    assert_snapshot!(read_text(folder.path(), &["large.json.gz"], 10), @"large.json.gz: got more than 0 MiB after decompression, expected at most that; --max-size raises the limit");
    assert_snapshot!(read("empty.json"), @r"
    ; events 0
    empty.json: the file is empty
    empty.json: nothing was read: got no object that decisions depend on, expected nodes, queues, pod groups and pods
    ");
}
