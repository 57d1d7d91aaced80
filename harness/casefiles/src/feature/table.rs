//! A table of a step: columns that are empty in all rows are left out.

/// The cells of a row, each with the name of its column.
pub(super) type Cells = Vec<(&'static str, String)>;

/// Columns with their cells, in the order of the rows.
#[derive(Debug, Default)]
pub(super) struct StepTable {
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Debug)]
struct Column {
    name: &'static str,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let lengths = self.cells.iter().map(|cell| cell.chars().count());
        lengths.chain([self.name.chars().count()]).max().unwrap_or(0)
    }
}

impl StepTable {
    /// Adds a row; a column that is not named is empty.
    pub(super) fn add_row(&mut self, cells: &[(&'static str, String)]) {
        for (name, _) in cells {
            if !self.columns.iter().any(|column| column.name == *name) {
                self.columns.push(Column { name, cells: vec![String::new(); self.rows] });
            }
        }
        for column in &mut self.columns {
            let cell = cells.iter().find(|(name, _)| *name == column.name);
            column.cells.push(cell.map(|(_, text)| text.clone()).unwrap_or_default());
        }
        self.rows += 1;
    }

    /// The table as text, indented below a step.
    pub(super) fn text(&self) -> String {
        let is_used = |column: &&Column| column.cells.iter().any(|cell| !cell.is_empty());
        let used: Vec<&Column> = self.columns.iter().filter(is_used).collect();
        let line = |cell: &dyn Fn(&Column) -> String| {
            let cells: Vec<String> = used
                .iter()
                .map(|column| format!("{:w$}", cell(column), w = column.width()))
                .collect();
            format!("      | {} |\n", cells.join(" | "))
        };
        let mut text = line(&|column| column.name.to_owned());
        for row in 0..self.rows {
            text.push_str(&line(&|column| column.cells[row].clone()));
        }
        text
    }
}
