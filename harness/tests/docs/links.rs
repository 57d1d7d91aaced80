//! Links between pages: the file and the heading that a relative link names exist.

use std::path::Path;

use crate::page::Page;

/// Links of a page that lead nowhere.
pub(crate) fn dead_links(page: &Page, root: &Path) -> Vec<String> {
    let folder = root.join(&page.path).parent().unwrap().to_owned();
    let mut found = Vec::new();
    for (line, target) in links(&page.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { root.join(&page.path) } else { folder.join(file) };
        let place = format!("{}:{line}", page.path.display());
        if !path.exists() {
            found.push(format!("{place}: {file} does not exist"));
        } else if !heading.is_empty() && !headings(&path).contains(&heading.to_owned()) {
            found.push(format!("{place}: {} has no heading #{heading}", path.display()));
        }
    }
    found
}

/// Line numbers and targets of `[text](target)` outside code blocks.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if !in_block {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            all.extend(targets.map(|target| (number + 1, target)));
        }
    }
    all
}

/// The anchors of a page's headings, as GitHub and mdBook derive them.
fn headings(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |title: &str| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(anchor).collect()
}
