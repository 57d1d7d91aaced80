//! Objects in the doc string of a step.

use schedlab_api::Value;

/// Objects as the YAML of a doc string.
pub(crate) fn doc_string(objects: &[Value]) -> String {
    let documents = objects.iter().map(|it| serde_yaml::to_string(it).unwrap_or_default());
    let text = documents.collect::<Vec<_>>().join("---\n");
    let lines = text.lines().map(|line| format!("      {line}\n").replace("      \n", "\n"));
    format!("      \"\"\"yaml\n{}      \"\"\"\n", lines.collect::<String>())
}
