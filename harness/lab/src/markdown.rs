//! The parts of a Markdown file: its front matter, and sections with headings, texts and fenced
//! blocks. Each part keeps its line, so that messages can name it.

use std::collections::BTreeMap;

/// A Markdown file in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The lines of the front matter: key, value and line number.
    pub front_matter: Vec<FrontMatterLine>,
    /// The sections that begin with `## `.
    pub sections: Vec<Section>,
}

/// A line `key: value` of the front matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontMatterLine {
    /// The key.
    pub key: String,
    /// The value, without quotes.
    pub value: String,
    /// Line number.
    pub line: usize,
}

/// A section of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The text of the heading.
    pub title: String,
    /// Line number of the heading.
    pub line: usize,
    /// What is in the section, in order.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A heading `### `.
    Heading(Text),
    /// Lines of text up to the next heading or block.
    Text(Text),
    /// A fenced block.
    Block(Block),
}

/// A text with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Number of the first line.
    pub line: usize,
    /// The text.
    pub text: String,
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Line number of the opening fence.
    pub line: usize,
    /// The first word behind the fence.
    pub language: String,
    /// The words `key=value` behind the language.
    pub attributes: BTreeMap<String, String>,
    /// The lines between the fences.
    pub text: String,
}

/// A line of a Markdown file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct MarkdownError {
    /// Line number.
    pub line: usize,
    /// What was found and what was expected.
    pub message: String,
}

impl Section {
    /// The texts and blocks of the section as Markdown, without headings of their own.
    pub fn prose(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            Part::Heading(_) | Part::Block(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// The blocks in this language.
    pub fn blocks<'s>(&'s self, language: &'s str) -> impl Iterator<Item = &'s Block> {
        self.parts.iter().filter_map(move |part| match part {
            Part::Block(block) if block.language == language => Some(block),
            Part::Block(_) | Part::Heading(_) | Part::Text(_) => None,
        })
    }

    /// The parts below each heading `### `.
    pub fn subsections(&self) -> Vec<(&Text, Vec<&Part>)> {
        let mut found: Vec<(&Text, Vec<&Part>)> = Vec::new();
        for part in &self.parts {
            match (part, found.last_mut()) {
                (Part::Heading(heading), _) => found.push((heading, Vec::new())),
                (Part::Text(_) | Part::Block(_), Some((_, parts))) => parts.push(part),
                (Part::Text(_) | Part::Block(_), None) => {}
            }
        }
        found
    }
}

impl Document {
    /// Splits a Markdown text into its parts.
    ///
    /// # Errors
    /// The front matter or a fenced block is not closed, or a line of the front matter is no
    /// `key: value`.
    pub fn parse(text: &str) -> Result<Self, MarkdownError> {
        let mut reader = Reader::default();
        let lines: Vec<&str> = text.lines().collect();
        let begin = reader.read_front_matter(&lines)?;
        for (index, line) in lines.iter().enumerate().skip(begin) {
            reader.read_line(index + 1, line)?;
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    document: Document,
    text: Option<Text>,
    block: Option<Block>,
}

impl Reader {
    /// Reads the front matter. Returns the index of the first line behind it.
    fn read_front_matter(&mut self, lines: &[&str]) -> Result<usize, MarkdownError> {
        if lines.first().is_none_or(|line| line.trim() != "---") {
            return Ok(0);
        }
        for (index, line) in lines.iter().enumerate().skip(1) {
            let number = index + 1;
            let line = line.trim();
            if line == "---" {
                return Ok(number);
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                let message = format!("got {line}, expected `key: value` or `---`");
                return Err(MarkdownError { line: number, message });
            };
            let value = value.trim().trim_matches(['"', '\'']);
            let (key, value) = (key.trim().to_owned(), value.to_owned());
            self.document.front_matter.push(FrontMatterLine { key, value, line: number });
        }
        let message = "the front matter that begins here is not closed by ---".to_owned();
        Err(MarkdownError { line: 1, message })
    }

    fn read_line(&mut self, number: usize, line: &str) -> Result<(), MarkdownError> {
        if let Some(block) = &mut self.block {
            if line.trim() == "```" {
                let block = self.block.take().expect("it is open");
                self.push(Part::Block(block));
            } else {
                block.text.push_str(line);
                block.text.push('\n');
            }
        } else if let Some(info) = line.strip_prefix("```") {
            self.end_text();
            self.block = Some(parse_info(number, info)?);
        } else if let Some(title) = line.strip_prefix("## ") {
            self.end_text();
            let title = title.trim().to_owned();
            self.document.sections.push(Section { title, line: number, parts: Vec::new() });
        } else if let Some(heading) = line.strip_prefix("### ") {
            self.end_text();
            self.push(Part::Heading(Text { line: number, text: heading.trim().to_owned() }));
        } else if let Some(text) = &mut self.text {
            text.text.push('\n');
            text.text.push_str(line);
        } else if !line.trim().is_empty() {
            self.text = Some(Text { line: number, text: line.to_owned() });
        }
        Ok(())
    }

    fn end_text(&mut self) {
        if let Some(mut text) = self.text.take() {
            text.text.truncate(text.text.trim_end().len());
            self.push(Part::Text(text));
        }
    }

    /// Adds a part to the section that is open. What comes before the first section is left out.
    fn push(&mut self, part: Part) {
        if let Some(section) = self.document.sections.last_mut() {
            section.parts.push(part);
        }
    }

    fn finish(mut self) -> Result<Document, MarkdownError> {
        self.end_text();
        match self.block {
            None => Ok(self.document),
            Some(block) => {
                let message = "the block that begins here is not closed by ```".to_owned();
                Err(MarkdownError { line: block.line, message })
            }
        }
    }
}

/// Parses the words behind an opening fence: `yaml file=queues.yaml`.
fn parse_info(line: usize, info: &str) -> Result<Block, MarkdownError> {
    let words = crate::commands::split_words(info);
    let mut words = words.map_err(|message| MarkdownError { line, message })?.into_iter();
    let language = words.next().unwrap_or_default();
    let mut attributes = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let message = format!("got {word} behind the fence, expected `key=value`");
            return Err(MarkdownError { line, message });
        };
        attributes.insert(key.to_owned(), value.to_owned());
    }
    Ok(Block { line, language, attributes, text: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_into_front_matter_sections_and_blocks() {
        let text = "---\nid: b\ntitle: \"B: x\"\n---\n# B\n\n## Task\n\nDo it.\n\n```yaml file=a.yaml \
                    says=\"two words\"\nkind: Pod\n```\n\nThen\nthis.\n\n### Sub\nmore\n";
        let document = Document::parse(text).unwrap();
        let front: Vec<(&str, &str)> =
            document.front_matter.iter().map(|one| (&*one.key, &*one.value)).collect();
        assert_eq!(front, [("id", "b"), ("title", "B: x")]);
        let section = &document.sections[0];
        assert_eq!((section.title.as_str(), section.line), ("Task", 7));
        assert_eq!(section.prose(), "Do it.\n\nThen\nthis.\n\nmore");
        let block = section.blocks("yaml").next().unwrap();
        assert_eq!((block.line, &*block.text), (11, "kind: Pod\n"));
        assert_eq!(block.attributes["says"], "two words");
        assert_eq!(section.subsections()[0].0.text, "Sub");
    }

    #[test]
    fn what_is_not_closed_is_reported_at_its_beginning() {
        let error = |text: &str| Document::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(error("## A\n\n```yaml\nkind: Pod\n"), @"line 3: the block that begins here is not closed by ```");
        insta::assert_snapshot!(error("---\nid: a\n"), @"line 1: the front matter that begins here is not closed by ---");
        insta::assert_snapshot!(error("---\nid\n---\n"), @"line 2: got id, expected `key: value` or `---`");
    }
}
