use super::*;
use crate::record::{AnswerRecord, TaskRecord};

fn record() -> Record {
    Record {
        schedlab: "0.1.0".to_owned(),
        lesson: "a-quota".to_owned(),
        lesson_digest: String::new(),
        learner: "ada".to_owned(),
        session: "s1".to_owned(),
        started: "2026-05-01T08:00:00Z".to_owned(),
        tasks: vec![TaskRecord {
            title: "t".to_owned(),
            solved_at: None,
            cluster: None,
            failures: 2,
        }],
        answers: vec![AnswerRecord {
            question: "q".to_owned(),
            task: 1,
            given: Some("3".to_owned()),
            is_right: false,
            cluster: None,
            tries: 1,
        }],
        verifications: 2,
        hints: 0,
        is_solution_shown: false,
        resets: 0,
        waited_seconds: 0,
    }
}

fn evidence() -> Evidence {
    evidence_of(&record())
}

fn evidence_of(record: &Record) -> Evidence {
    let solved = BTreeMap::from([("solved-task-1.json".to_owned(), "{\"pods\": []}".to_owned())]);
    let cluster = schedlab_api::json!({"pods": []});
    Evidence::new(record, &cluster, &solved, &[], "now".to_owned())
}

/// The record after the task was solved.
fn solved_record() -> Record {
    let mut record = record();
    record.solve(0, "2026-05-01T08:01:00Z".to_owned());
    record
}

#[test]
fn evidence_names_no_right_answer() {
    let text = &evidence().entries[RECORD_ENTRY];
    assert!(!text.contains("expected"), "{text}");
}

#[test]
fn solved_evidence_is_not_overwritten_by_another_session_or_by_less() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a-quota-ada.zip");
    let name = |evidence: &Evidence| {
        evidence.free_path(&path).file_name().unwrap().to_string_lossy().into_owned()
    };
    evidence().write(&path).unwrap();
    let other = Record { session: "s2".to_owned(), ..record() };
    assert_eq!(name(&evidence_of(&other)), "a-quota-ada.zip", "nothing was solved");
    evidence_of(&solved_record()).write(&path).unwrap();
    assert_eq!(name(&evidence_of(&solved_record())), "a-quota-ada.zip", "the same session");
    assert_eq!(name(&evidence_of(&other)), "a-quota-ada-2.zip");
    let mut reset = solved_record();
    reset.begin_again();
    assert_eq!(name(&evidence_of(&reset)), "a-quota-ada-2.zip");
    std::fs::write(folder.path().join("a-quota-ada-2.zip"), "something else").unwrap();
    assert_eq!(name(&evidence_of(&other)), "a-quota-ada-3.zip");
}

/// The result of reading a zip with these entries.
fn read_edited(edit: impl FnOnce(&mut BTreeMap<String, String>)) -> anyhow::Result<Evidence> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.zip");
    let mut entries = read_entries(&evidence().to_zip().unwrap()).unwrap();
    edit(&mut entries);
    let mut zip = ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, text) in entries {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    Evidence::read(&path)
}

#[test]
fn evidence_that_was_not_edited_is_read_as_it_was_written() {
    let read = read_edited(|_| {}).unwrap();
    assert_eq!(read.record, record());
    assert_eq!(read.cluster(), evidence().cluster());
}

#[test]
fn an_edited_added_or_removed_entry_is_found() {
    let error =
        |edit: fn(&mut BTreeMap<String, String>)| read_edited(edit).unwrap_err().to_string();
    let edited = error(|entries| {
        let text = &entries[RECORD_ENTRY];
        let text = text.replace("\"isRight\": false", "\"isRight\": true");
        entries.insert(RECORD_ENTRY.to_owned(), text);
    });
    insta::assert_snapshot!(edited, @"edited: record.json does not have the content that was collected");
    let with_sums = error(|entries| {
        entries.insert(CLUSTER_ENTRY.to_owned(), "{}".to_owned());
        let mut content = entries.clone();
        content.remove(SUMS_ENTRY);
        content.remove(SEAL_ENTRY);
        entries.insert(SUMS_ENTRY.to_owned(), sums_text(&content));
    });
    insta::assert_snapshot!(with_sums, @"edited: SHA256SUMS does not fit the seal");
    insta::assert_snapshot!(error(|entries| { entries.insert("x".to_owned(), String::new()); }), @"edited: x was added");
    insta::assert_snapshot!(error(|entries| { entries.remove(HISTORY_ENTRY); }), @"edited: history.jsonl was removed");
    insta::assert_snapshot!(error(|entries| { entries.remove(SEAL_ENTRY); }), @"no evidence: it has no seal");
}

#[test]
fn a_file_that_is_no_zip_is_no_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e.zip");
    std::fs::write(&path, "hello").unwrap();
    let error = Evidence::read(&path).unwrap_err().to_string();
    assert!(error.starts_with("no evidence: got no zip"), "{error}");
}
