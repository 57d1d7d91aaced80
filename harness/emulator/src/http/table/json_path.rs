//! The subset of kubectl's JSON paths that printer columns use: fields (`.spec.queue`, escaped
//! dots, `['name']`), indices, slices (`[-1:]`), `[*]`, and filters like `[?(@.type=="Ready")]`.

use schedlab_api::Value;

/// The first value that a JSON path of a printer column selects.
pub(super) fn find_value<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}');
    let mut current = value;
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = inside.split_once(']')?;
            current = resolve_bracket(current, step)?;
            rest = after;
        } else {
            let (name, after) = split_field(rest.strip_prefix('.').unwrap_or(rest));
            if !name.is_empty() {
                current = current.get(&name)?;
            }
            rest = after;
        }
    }
    Some(current)
}

/// Splits a path into the first field name, in which `\.` escapes a dot, and the rest of the path.
fn split_field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
            letter => name.push(letter),
        }
    }
    (name, "")
}

fn resolve_bracket<'v>(value: &'v Value, step: &str) -> Option<&'v Value> {
    if step == "*" {
        return value.as_array()?.first();
    }
    if let Some(filter) = step.strip_prefix("?(").and_then(|step| step.strip_suffix(')')) {
        let (path, expected) = filter.split_once("==")?;
        let path = path.trim().strip_prefix('@')?;
        let expected = expected.trim().trim_matches(['"', '\'']);
        let is_match = |item: &&Value| {
            find_value(item, path).is_some_and(|found| value_text(found) == expected)
        };
        return value.as_array()?.iter().find(is_match);
    }
    let name = step.trim_matches(['"', '\'']);
    if name != step {
        return value.get(name);
    }
    let items = value.as_array()?;
    let at = |text: &str| -> Option<usize> {
        let index: i64 = text.trim().parse().ok()?;
        let index = if index < 0 { i64::try_from(items.len()).ok()? + index } else { index };
        usize::try_from(index).ok()
    };
    let Some((from, to)) = step.split_once(':') else { return items.get(at(step)?) };
    // A start before the list means the first item. A slice step never skips the first item.
    let first = match from.trim() {
        "" => 0,
        from => from.parse::<i64>().ok().map(|_| at(from).unwrap_or(0))?,
    };
    let to = to.split(':').next().unwrap_or_default();
    let end = if to.trim().is_empty() { items.len() } else { at(to)? };
    items.get(first).filter(|_| first < end)
}

/// A value as text without quotes.
pub(super) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"queue": "a", "list": [1, 2, 3]},
            "metadata": {"labels": {"app.x/y": "z"}},
            "status": {"conditions": [
                {"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]}
        });
        let cases = [
            (".spec.queue", Some(json!("a"))),
            ("{.spec.queue}", Some(json!("a"))),
            (".spec.list[1]", Some(json!(2))),
            (".spec.list[-1]", Some(json!(3))),
            (".spec.list[-1:]", Some(json!(3))),
            (".spec.list[1:]", Some(json!(2))),
            (".spec.list[:2]", Some(json!(1))),
            (".spec.list[-9:]", Some(json!(1))),
            (".spec.list[::2]", Some(json!(1))),
            (".spec.list[2:2]", None),
            (".spec.list[7:]", None),
            (".spec.list[x:]", None),
            (".status.conditions[-1:].type", Some(json!("Ready"))),
            (".metadata.labels.app\\.x/y", Some(json!("z"))),
            (".metadata.labels['app.x/y']", Some(json!("z"))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='Gone')].status", None),
            (".spec.nothing.more", None),
        ];
        for (path, expected) in cases {
            assert_eq!(find_value(&object, path).cloned(), expected, "{path}");
        }
    }
}
